# sbxd-worker: the zygote and, forked from it, the workers
noinst_LIBRARIES += libsbxworker.a
libsbxworker_a_SOURCES = \
	sbxd/worker/serve.c sbxd/worker/serves.c sbxd/worker/tables.c sbxd/worker/worker.h \
	sbxd/worker/args.c sbxd/worker/args.h \
	sbxd/worker/ask.c sbxd/worker/ask.h sbxd/worker/files.c sbxd/worker/files.h sbxd/worker/gate.h sbxd/worker/gate_layer.c sbxd/worker/tool_gate.c sbxd/worker/limits.c sbxd/worker/limits.h \
	sbxd/worker/inputs.c sbxd/front/asks.c sbxd/front/asks.h \
	sbxd/worker/output.c sbxd/worker/output.h \
	sbxd/worker/result.c sbxd/worker/result.h \
	sbxd/worker/run.c sbxd/worker/run.h \
	sbxd/worker/view.c sbxd/worker/view.h \
	sbxd/worker/prompts.c sbxd/worker/resources.c \
	sbxd/worker/clone.c sbxd/worker/clone.h sbxd/worker/modules.c sbxd/worker/deps.c \
	sbxd/worker/github.c sbxd/worker/github.h \
	sbxd/worker/thread.c sbxd/worker/thread.h \
	sbxd/worker/tool_clone.c sbxd/worker/tool_issue.c sbxd/worker/tool_pr.c \
	sbxd/worker/tool_merge.c sbxd/worker/tool_publish.c \
	sbxd/worker/tool_override.c sbxd/worker/publish_user.c \
	sbxd/worker/publish_user.h sbxd/worker/findings.h \
	sbxd/worker/guide.h sbxd/worker/tool_guide.c sbxd/worker/tool_copy.c sbxd/worker/tool_exec.c \
	sbxd/worker/tool_lifecycle.c sbxd/worker/tool_output.c \
	sbxd/worker/script.c sbxd/worker/script.h \
	sbxd/worker/edit.h sbxd/worker/edit_diff.c sbxd/worker/edit_file.c \
	sbxd/worker/edit_file.h sbxd/worker/edit_near.c sbxd/worker/edit_python.c \
	sbxd/worker/edit_text.c sbxd/worker/tool_edit.c sbxd/worker/tool_files.c \
	sbxd/worker/tool_transform.c \
	sbxd/worker/search.c sbxd/worker/search.h \
	sbxd/worker/tool_checkpoint.c sbxd/worker/tool_diff.c \
	sbxd/worker/tool_package.c sbxd/worker/tool_python.c sbxd/worker/tool_search.c \
	sbxd/worker/tool_snapshot.c \
	sbxd/worker/tool_verify.c sbxd/worker/verify.c sbxd/worker/verify.h
libsbxworker_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS)
pkglibexec_PROGRAMS += sbxd-worker
sbxd_worker_SOURCES = sbxd/worker/main.c
sbxd_worker_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS)
sbxd_worker_LDADD = libsbxworker.a libsbxreport.a libsbxtools.a libsbxprivs.a libsbx.a $(JSON_LIBS) $(SECCOMP_LIBS) \
	$(CAP_LIBS) -lm
dist_man_MANS += sbxd/worker/sbxd-worker.8

# scripts that run in a sandbox, as strings
EXTRA_DIST += sbxd/worker/verify.sh sbxd/worker/affected.py \
	sbxd/worker/clone.sh sbxd/worker/deps.sh sbxd/worker/merge.sh
BUILT_SOURCES += verify_script.h clone_script.h deps_script.h merge_script.h
CLEANFILES += verify_script.h clone_script.h deps_script.h merge_script.h
verify_script.h: $(top_srcdir)/sbxd/worker/verify.sh \
	$(top_srcdir)/sbxd/worker/affected.py
	$(AM_V_GEN)for n in verify.sh affected.py; do \
		echo "static const char $${n%.*}_script[] ="; \
		sed -e 's/[\\"]/\\&/g' -e 's/^/"/' -e 's/$$/\\n"/' \
			$(top_srcdir)/sbxd/worker/$$n; echo ";"; done >$@.tmp && mv $@.tmp $@
libsbxworker_a-tool_verify.$(OBJEXT): verify_script.h
clone_script.h: $(top_srcdir)/sbxd/worker/clone.sh
deps_script.h: $(top_srcdir)/sbxd/worker/deps.sh
merge_script.h: $(top_srcdir)/sbxd/worker/merge.sh
clone_script.h deps_script.h merge_script.h:
	$(AM_V_GEN)n=$@; n=$${n%_script.h}; { \
		echo "static const char $${n}_script[] ="; \
		sed -e 's/[\\"]/\\&/g' -e 's/^/"/' -e 's/$$/\\n"/' \
			$(top_srcdir)/sbxd/worker/$$n.sh; echo ";"; } >$@.tmp && mv $@.tmp $@
libsbxworker_a-clone.$(OBJEXT): clone_script.h
libsbxworker_a-deps.$(OBJEXT): deps_script.h
libsbxworker_a-tool_merge.$(OBJEXT): merge_script.h
