pkglibexec_PROGRAMS += sbx-init
# Static, and never sanitized: it runs as PID 1 of any image.
sbx_init_SOURCES = sbxd/init/main.c sbxd/init/init.h sbxd/init/job.c \
	sbxd/init/kill.c sbxd/init/unpack.c sbxd/init/cage.c \
	sbxd/init/from_engine.c sbxd/init/shell.c sbxd/init/helper.c sbxd/init/file.c \
	sbxd/init/filelist.c sbxd/init/filewrite.c \
	common/base/base.c common/proto/codec.c common/proto/wire.c \
	common/proto/accepts.c
sbx_init_CFLAGS = $(AM_CFLAGS) -fno-sanitize=all
sbx_init_LDFLAGS = -static-pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack
dist_man_MANS += sbxd/init/sbx-init.8
