# sbxd/cli
