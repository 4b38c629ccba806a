# sbxd/recorder
