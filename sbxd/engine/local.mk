# sbxd/engine
