# sbxd/starter
