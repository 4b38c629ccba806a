# sbxd/copyin
