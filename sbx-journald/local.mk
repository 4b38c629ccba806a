# sbx-journald, and the reader of what it writes (for the command line)
noinst_LIBRARIES += libsbxjournal.a
libsbxjournal_a_SOURCES = sbx-journald/index.c sbx-journald/index.h \
	sbx-journald/line.c sbx-journald/line.h \
	sbx-journald/reader.c sbx-journald/reader.h \
	sbx-journald/render.c sbx-journald/verify.c
libsbxjournal_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS) $(CRYPTO_CFLAGS)

pkglibexec_PROGRAMS += sbx-journald
sbx_journald_SOURCES = sbx-journald/main.c sbx-journald/journald.h \
	sbx-journald/chain.c sbx-journald/commit.c \
	sbx-journald/from_monitor.c sbx-journald/from_writer.c \
	sbx-journald/line.c sbx-journald/line.h sbx-journald/outlet.c \
	sbx-journald/scan.c sbx-journald/store.c
sbx_journald_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(CRYPTO_CFLAGS)
sbx_journald_LDADD = libsbxev.a libsbxprivs.a libsbx.a $(EVENT_LIBS) \
	$(CRYPTO_LIBS) $(SECCOMP_LIBS) $(CAP_LIBS)
dist_man_MANS += sbx-journald/sbx-journald.8
