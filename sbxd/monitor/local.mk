bin_PROGRAMS += sbxd
sbxd_SOURCES = \
	sbxd/monitor/call.c sbxd/monitor/component.c sbxd/monitor/copy.c sbxd/monitor/detect.c \
	sbxd/monitor/ctl.c sbxd/monitor/from_cli.c sbxd/monitor/shell.c \
	sbxd/monitor/deps.c sbxd/monitor/fork.c sbxd/monitor/snapshot.c sbxd/monitor/snapshot.h \
	sbxd/monitor/api.c sbxd/monitor/broker.c sbxd/monitor/exchange.c \
	sbxd/monitor/lockdown.c sbxd/monitor/repo.c sbxd/monitor/repos.c sbxd/monitor/repos.h \
	sbxd/monitor/from_broker.c sbxd/monitor/from_copyin.c \
	sbxd/monitor/from_engine.c sbxd/monitor/from_front.c \
	sbxd/monitor/from_journald.c sbxd/monitor/from_proxy.c \
	sbxd/monitor/from_recorder.c sbxd/monitor/from_starter.c \
	sbxd/monitor/from_worker.c sbxd/monitor/from_zygote.c \
	sbxd/monitor/egress.c sbxd/monitor/file.c sbxd/monitor/from_judge.c sbxd/monitor/gate.c \
	sbxd/monitor/gate_layer.c sbxd/monitor/layers.h \
	sbxd/monitor/hidden.c sbxd/monitor/publish.c sbxd/monitor/publish_ask.c \
	sbxd/monitor/publish_gate.c sbxd/monitor/publish_user.c \
	sbxd/monitor/override.c sbxd/monitor/publish_sign.c \
	sbxd/monitor/publish.h sbxd/monitor/publish_view.c sbxd/monitor/publish_reconcile.c \
	sbxd/monitor/grant.c sbxd/monitor/guard.c sbxd/monitor/introduce.c sbxd/monitor/journal.c \
	sbxd/monitor/limits.c sbxd/monitor/log.c \
	sbxd/monitor/main.c sbxd/monitor/monitor.h sbxd/monitor/options.c sbxd/monitor/packages.c \
	sbxd/monitor/policy.c sbxd/monitor/principal.c sbxd/monitor/reap.c sbxd/monitor/run.c \
	sbxd/monitor/sandbox.c sbxd/monitor/setup.c sbxd/monitor/setup_http.c sbxd/monitor/setup_cgroup.c \
	sbxd/monitor/setup_userns.c sbxd/monitor/shutdown.c \
	sbxd/monitor/tick.c sbxd/monitor/watch.c sbxd/monitor/worker.c
sbxd_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(SECCOMP_CFLAGS) $(CAP_CFLAGS)
sbxd_LDADD = libsbxegress.a libsbxprivs.a libsbxev.a libsbx.a $(EVENT_LIBS) $(SECCOMP_LIBS) \
	$(CAP_LIBS)
dist_man_MANS += sbxd/monitor/sbxd.8 sbxd/monitor/sbx.conf.5
