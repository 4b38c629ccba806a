pkglibexec_PROGRAMS += sbxd-engine
sbxd_engine_SOURCES = sbxd/engine/main.c sbxd/engine/engine.h \
	sbxd/engine/sandbox.c sbxd/engine/job.c sbxd/engine/build.c \
	sbxd/engine/blank.c sbxd/engine/cgroup.c sbxd/engine/ids.c \
	sbxd/engine/image.c \
	sbxd/engine/mounts.c sbxd/engine/shell.c sbxd/engine/layer.c \
	sbxd/engine/snap.c \
	sbxd/engine/snap.h sbxd/engine/snap_copy.c \
	sbxd/engine/image_host.c sbxd/engine/guest_filter.c \
	sbxd/engine/scratch.c sbxd/engine/scratch_tmpfs.c sbxd/engine/trust.c \
	sbxd/engine/work.c \
	sbxd/engine/from_monitor.c sbxd/engine/from_init.c \
	sbxd/engine/from_recorder.c sbxd/engine/from_proxy.c
sbxd_engine_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(SECCOMP_CFLAGS)
sbxd_engine_LDADD = libsbxev.a $(SBX_PRIVS_LIBS) $(EVENT_LIBS)
dist_man_MANS += sbxd/engine/sbxd-engine.8
