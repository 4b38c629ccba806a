# sbxd/front
