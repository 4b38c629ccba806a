# common/privs: libsbxprivs links libseccomp and libcap
noinst_LIBRARIES += libsbxprivs.a
libsbxprivs_a_SOURCES = \
	common/privs/privs.c common/privs/privs.h common/privs/row.h \
	common/privs/rows.c common/privs/landlock.c common/privs/seccomp.c \
	common/privs/sanitizer.c common/privs/print.c \
	common/privs/start.c common/privs/start.h
libsbxprivs_a_CPPFLAGS = $(AM_CPPFLAGS) $(SECCOMP_CFLAGS) $(CAP_CFLAGS)

SBX_PRIVS_LIBS = libsbxprivs.a libsbx.a $(SECCOMP_LIBS) $(CAP_LIBS)

pkglibexec_PROGRAMS += sbx-privs
sbx_privs_SOURCES = common/privs/sbx-privs.c
sbx_privs_CPPFLAGS = $(AM_CPPFLAGS)
sbx_privs_LDADD = $(SBX_PRIVS_LIBS)
dist_man_MANS += common/privs/sbx-privs.8
EXTRA_DIST += contrib/sysusers.d/sbx.conf contrib/apparmor/sbx
