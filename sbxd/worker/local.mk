# sbxd/worker
