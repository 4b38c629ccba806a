# sbxd-worker: the zygote and, forked from it, the workers
pkglibexec_PROGRAMS += sbxd-worker
sbxd_worker_SOURCES = \
	sbxd/worker/main.c sbxd/worker/serve.c sbxd/worker/worker.h \
	sbxd/worker/args.c sbxd/worker/args.h \
	sbxd/worker/ask.c sbxd/worker/ask.h sbxd/worker/limits.c sbxd/worker/limits.h \
	sbxd/worker/inputs.c sbxd/front/asks.c sbxd/front/asks.h \
	sbxd/worker/output.c sbxd/worker/output.h \
	sbxd/worker/result.c sbxd/worker/result.h \
	sbxd/worker/run.c sbxd/worker/run.h \
	sbxd/worker/view.c sbxd/worker/view.h \
	sbxd/worker/prompts.c sbxd/worker/resources.c \
	sbxd/worker/tool_copy.c sbxd/worker/tool_exec.c \
	sbxd/worker/tool_lifecycle.c sbxd/worker/tool_output.c \
	sbxd/worker/tool_snapshot.c \
	sbxd/front/tools/list.c sbxd/front/tools/schema.h \
	sbxd/front/tools/tools.h sbxd/front/tools/tools_copy.c \
	sbxd/front/tools/tools_exec.c sbxd/front/tools/tools_lifecycle.c \
	sbxd/front/tools/tools_snapshot.c
sbxd_worker_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS)
sbxd_worker_LDADD = libsbxprivs.a libsbx.a $(JSON_LIBS) $(SECCOMP_LIBS) \
	$(CAP_LIBS) -lm
dist_man_MANS += sbxd/worker/sbxd-worker.8
