# sbxd-front: MCP with the clients
# tables.c of this library yields to one that a program of the tests brings
noinst_LIBRARIES += libsbxtools.a libsbxfront.a
libsbxtools_a_SOURCES = sbxd/front/tools/list.c sbxd/front/tools/schema.h \
	sbxd/front/tools/tables.c \
	sbxd/front/tools/tools.h sbxd/front/tools/tools_copy.c \
	sbxd/front/tools/tools_exec.c sbxd/front/tools/tools_files.c sbxd/front/tools/tools_lifecycle.c \
	sbxd/front/tools/tools_github.c sbxd/front/tools/tools_guide.c sbxd/front/tools/tools_search.c \
	sbxd/front/tools/tools_snapshot.c \
	sbxd/front/tools/tools_verify.c
libsbxtools_a_CPPFLAGS = $(AM_CPPFLAGS)
# all but main(): also linked by the tests
libsbxfront_a_SOURCES = \
	sbxd/front/asks.c sbxd/front/asks.h \
	sbxd/front/batch.c sbxd/front/batch.h \
	sbxd/front/calls.c sbxd/front/calls.h \
	sbxd/front/conn.c sbxd/front/conn.h sbxd/front/conn_io.c \
	sbxd/front/from_monitor.c sbxd/front/front.c sbxd/front/front.h \
	sbxd/front/http.c sbxd/front/http.h sbxd/front/http_auth.c \
	sbxd/front/http_check.c \
	sbxd/front/http_params.c sbxd/front/http_params.h sbxd/front/http_session.c \
	sbxd/front/http_stream.c sbxd/front/sink.h \
	sbxd/front/inputs.c sbxd/front/inputs.h sbxd/front/inputs_legacy.c \
	sbxd/front/instructions.c sbxd/front/listen.c \
	sbxd/front/member.c sbxd/front/member.h \
	sbxd/front/methods.h sbxd/front/methods_base.c \
	sbxd/front/forward.c sbxd/front/forward.h sbxd/front/client.c sbxd/front/client.h \
	sbxd/front/methods_tools.c sbxd/front/methods_tools.h \
	sbxd/front/reply.c sbxd/front/reply.h \
	sbxd/front/revs.c sbxd/front/revs.h \
	sbxd/front/rpc.c sbxd/front/rpc.h \
	sbxd/front/subs.c sbxd/front/subs.h \
	sbxd/front/tasks.c sbxd/front/tasks.h sbxd/front/to_monitor.c
libsbxfront_a_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(JSON_CFLAGS)
pkglibexec_PROGRAMS += sbxd-front
sbxd_front_SOURCES = sbxd/front/main.c
sbxd_front_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(JSON_CFLAGS)
sbxd_front_LDADD = libsbxfront.a libsbxtools.a libsbxev.a libsbxprivs.a libsbx.a $(EVENT_LIBS) \
	$(JSON_LIBS) $(SECCOMP_LIBS) $(CAP_LIBS)
dist_man_MANS += sbxd/front/sbxd-front.8
