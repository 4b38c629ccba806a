# sbxd/init
