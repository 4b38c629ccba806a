# sbxd/starter
pkglibexec_PROGRAMS += sbxd-starter
sbxd_starter_SOURCES = sbxd/starter/main.c sbxd/starter/children.c \
	sbxd/starter/from_monitor.c sbxd/starter/starter.h
sbxd_starter_CPPFLAGS = $(AM_CPPFLAGS)
sbxd_starter_LDADD = $(SBX_PRIVS_LIBS)
dist_man_MANS += sbxd/starter/sbxd-starter.8
