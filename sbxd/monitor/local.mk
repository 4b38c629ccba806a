# sbxd/monitor
