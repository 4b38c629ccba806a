pkglibexec_PROGRAMS += sbxd-copyin
sbxd_copyin_SOURCES = sbxd/copyin/main.c sbxd/copyin/copyin.h \
	sbxd/copyin/walk.c sbxd/copyin/out.c sbxd/copyin/clean.c \
	sbxd/copyin/refuse.c sbxd/copyin/look.c
sbxd_copyin_LDADD = $(SBX_PRIVS_LIBS)
dist_man_MANS += sbxd/copyin/sbxd-copyin.8
