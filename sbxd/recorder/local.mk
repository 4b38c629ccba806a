# sbxd/recorder
pkglibexec_PROGRAMS += sbxd-recorder
sbxd_recorder_SOURCES = sbxd/recorder/main.c sbxd/recorder/recorder.h \
	sbxd/recorder/from_engine.c sbxd/recorder/from_monitor.c \
	sbxd/recorder/run.c sbxd/recorder/store.c sbxd/recorder/undo.c
sbxd_recorder_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS)
sbxd_recorder_LDADD = libsbxprivs.a libsbxev.a libsbx.a $(EVENT_LIBS) \
	$(SECCOMP_LIBS) $(CAP_LIBS)
dist_man_MANS += sbxd/recorder/sbxd-recorder.8
