# tests/regress

# the worker, driven by a monitor in python; tools-dump prints the tools
check_PROGRAMS += tools-dump
tools_dump_SOURCES = tests/regress/tools_dump.c
tools_dump_CPPFLAGS = $(AM_CPPFLAGS)
tools_dump_LDADD = libsbxtools.a libsbx.a
TESTS += tests/regress/test_worker.py
EXTRA_DIST += tests/regress/test_worker.py tests/regress/worker_monitor.py
TESTS += tests/regress/test_github_tools.py tests/regress/test_publish_tool.py tests/regress/test_merge_tool.py
TESTS += tests/regress/test_clone_hub.py
EXTRA_DIST += tests/regress/test_publish_tool.py tests/regress/test_merge_tool.py \
	tests/regress/test_github_tools.py tests/regress/test_clone_hub.py

# the monitor: its configuration; alone among fakes; the whole suite
TESTS += tests/regress/test_sbxd_config.sh tests/regress/test_sbxd_hub.py
EXTRA_DIST += tests/regress/test_sbxd_config.sh tests/regress/config \
	tests/regress/test_sbxd_hub.py tests/lib/fakehub.py

# the journal: the daemon, and `sbx journal` on any directory
check_PROGRAMS += journal-read
journal_read_SOURCES = tests/regress/journal_read.c sbxd/cli/cmd_journal.c \
	sbxd/cli/cmd_journal.h
journal_read_CPPFLAGS = $(AM_CPPFLAGS)
journal_read_LDADD = libsbxjournal.a libsbx.a $(JSON_LIBS) $(CRYPTO_LIBS)
check_PROGRAMS += test_journal_eio
TESTS += test_journal_eio
test_journal_eio_SOURCES = tests/regress/test_journal_eio.c tests/tap.h \
	sbx-journald/chain.c sbx-journald/commit.c sbx-journald/from_monitor.c \
	sbx-journald/from_writer.c sbx-journald/journald.h \
	sbx-journald/outlet.c sbx-journald/scan.c sbx-journald/store.c
test_journal_eio_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(CRYPTO_CFLAGS) \
	$(JSON_CFLAGS)
test_journal_eio_LDADD = libsbxjournal.a libsbxev.a libsbx.a $(EVENT_LIBS) \
	$(JSON_LIBS) $(CRYPTO_LIBS)
TESTS += tests/regress/test_journal_chain.py \
	tests/regress/test_journal_crash.py \
	tests/regress/test_journal_find.py tests/regress/test_journal_full.py \
	tests/regress/test_journal_tamper.py tests/regress/test_journal_text.py tests/regress/test_judge.py \
	tests/regress/test_gate.py
EXTRA_DIST += tests/regress/test_journal_chain.py \
	tests/regress/test_journal_crash.py \
	tests/regress/test_journal_find.py tests/regress/test_journal_full.py \
	tests/regress/test_journal_tamper.py tests/regress/test_journal_text.py tests/regress/test_judge.py \
	tests/regress/test_gate.py \
	tests/regress/journal.schema.json tests/lib/journal.py

# the starter among fake programs
check_PROGRAMS += test_starter
TESTS += test_starter
test_starter_SOURCES = tests/regress/test_starter.c tests/privs/users.h \
	tests/tap.h
test_starter_CPPFLAGS = $(AM_CPPFLAGS)
test_starter_LDADD = libsbx.a

# the broker and the proxy, each alone
check_PROGRAMS += test_broker test_proxy
TESTS += test_broker test_proxy
test_broker_SOURCES = tests/regress/test_broker.c tests/regress/daemon.h \
	tests/privs/users.h tests/tap.h
test_broker_CPPFLAGS = $(AM_CPPFLAGS)
test_broker_LDADD = libsbx.a
# one of less patience, for test_broker.py
check_PROGRAMS += broker_hasty
broker_hasty_SOURCES = $(sbx_broker_SOURCES) $(libsbxbrokerloop_a_SOURCES) \
	$(libsbxbroker_a_SOURCES)
broker_hasty_CPPFLAGS = $(sbx_broker_CPPFLAGS) -DBROKER_HASTY
broker_hasty_LDADD = $(sbx_broker_LDADD)
test_proxy_SOURCES = tests/regress/test_proxy.c tests/regress/daemon.h \
	tests/privs/users.h tests/tap.h
test_proxy_CPPFLAGS = $(AM_CPPFLAGS)
test_proxy_LDADD = libsbx.a

TESTS += tests/regress/test_broker.py tests/regress/test_command.py \
	tests/regress/test_lockdown.py
EXTRA_DIST += tests/regress/test_broker.py tests/regress/test_command.py \
	tests/regress/test_lockdown.py

# the proxy among a monitor, an engine, name servers and upstreams in python
TESTS += tests/regress/test_proxy_egress.py
EXTRA_DIST += tests/lib/egress.py tests/regress/test_proxy_egress.py
TESTS += tests/regress/test_egress_suite.py
EXTRA_DIST += tests/regress/test_egress_suite.py
TESTS += tests/regress/test_sbxd_suite.py tests/regress/test_cli.py
EXTRA_DIST += tests/regress/test_sbxd_suite.py tests/regress/test_cli.py

# the front among a monitor and clients in python; one of less patience
check_PROGRAMS += front-hasty
front_hasty_SOURCES = sbxd/front/main.c $(libsbxfront_a_SOURCES)
front_hasty_CPPFLAGS = $(sbxd_front_CPPFLAGS) -DSBX_INPUT_S=1u -DSWEEP_S=1 \
	-DSBX_MAX_HTTP_BODIES=1048576u -DSBX_MAX_HTTP_KEPT=1048576u
front_hasty_LDADD = $(sbxd_front_LDADD)
FRONT_TESTS = tests/regress/test_front_calls.py \
	tests/regress/test_input.py tests/regress/test_front_greed.py \
	tests/regress/test_front_io.py tests/regress/test_front_protocol.py
TESTS += $(FRONT_TESTS)
EXTRA_DIST += $(FRONT_TESTS) tests/regress/front_monitor.py

# the engine and a sandbox's init, driven by a monitor in python
TESTS += tests/regress/test_engine.py tests/regress/test_engine_sandbox.py \
	tests/regress/test_images_engine.py tests/regress/test_users.py \
	tests/regress/test_trust.py
EXTRA_DIST += tests/regress/test_engine.py \
	tests/regress/test_images_engine.py tests/regress/test_users.py \
	tests/regress/test_engine_sandbox.py tests/regress/test_trust.py \
	tests/lib/box.py
TESTS += tests/regress/test_snapshot_engine.py \
	tests/regress/test_snapshot.py tests/regress/test_snapshot_hub.py \
	tests/regress/test_snapshot_races.py
EXTRA_DIST += tests/regress/test_snapshot_engine.py \
	tests/regress/test_snapshot.py tests/regress/test_snapshot_hub.py \
	tests/regress/test_snapshot_races.py

# publications: what is run for them
check_PROGRAMS += publish-steps
publish_steps_SOURCES = tests/regress/publish_steps.c
publish_steps_CPPFLAGS = $(AM_CPPFLAGS)
publish_steps_LDADD = libsbx.a
TESTS += tests/regress/test_publish_steps.py tests/regress/test_publish_hub.py
EXTRA_DIST += tests/regress/test_publish_steps.py \
	tests/regress/test_publish_hub.py

# publications, judged alone
TESTS += tests/regress/test_judge_publish.py
EXTRA_DIST += tests/regress/test_judge_publish.py tests/lib/pubjudge.py

# fresh verifications
TESTS += tests/regress/test_gate_hub.py tests/regress/test_gate_list.py
EXTRA_DIST += tests/regress/test_gate_hub.py tests/regress/test_gate_list.py
TESTS += tests/regress/test_grants_hub.py tests/regress/test_register.py \
	tests/regress/test_proxy_courier.py
EXTRA_DIST += tests/regress/test_grants_hub.py tests/regress/test_register.py \
	tests/regress/test_proxy_courier.py

# which image a sandbox gets that names none
TESTS += tests/regress/test_detect.py
EXTRA_DIST += tests/regress/test_detect.py

# searches, what changed, packages, code
TESTS += tests/regress/test_checkpoint.py tests/regress/test_diff.py \
	tests/regress/test_package.py tests/regress/test_python.py \
	tests/regress/test_search.py
EXTRA_DIST += tests/regress/test_checkpoint.py \
	tests/regress/test_diff.py tests/regress/test_package.py \
	tests/regress/test_python.py \
	tests/regress/test_search.py

# files: what edits make of bytes, and what a sandbox makes of edits
TESTS += tests/regress/test_files.py
EXTRA_DIST += tests/regress/test_files.py

# contrib/images
TESTS += tests/regress/test_images_build.sh
EXTRA_DIST += tests/regress/test_images_build.sh contrib/images contrib/lib.sh

# the recorder, with the test as its monitor and engine
check_PROGRAMS += test_recorder
TESTS += test_recorder
test_recorder_SOURCES = tests/regress/test_recorder.c tests/privs/users.h \
	tests/tap.h
test_recorder_CPPFLAGS = $(AM_CPPFLAGS)
test_recorder_LDADD = libsbx.a
TESTS += tests/regress/test_recorder.py
EXTRA_DIST += tests/regress/test_recorder.py

# copies from the host, with the test as monitor and reader
TESTS += tests/regress/test_copyin.py tests/regress/test_copyin_edges.py \
	tests/regress/test_unpack.py
EXTRA_DIST += tests/regress/test_copyin.py \
	tests/regress/test_copyin_edges.py tests/regress/test_unpack.py

# what attackers tried
TESTS += tests/regress/test_break_guest.py tests/regress/test_break_output.py
EXTRA_DIST += tests/regress/test_break_guest.py \
	tests/regress/test_break_output.py

# sbx doctor, where something is taken away from it
TESTS += tests/regress/test_doctor.py
EXTRA_DIST += tests/regress/test_doctor.py tests/regress/doctor.schema.json \
	tests/lib/fault.py
# `sbx shell` at a terminal, and the control socket
TESTS += tests/regress/test_shell.py
EXTRA_DIST += tests/regress/test_shell.py

# limits, as root and as a user with and without groups of his own
TESTS += tests/regress/test_limits.py
EXTRA_DIST += tests/regress/test_limits.py
TESTS += tests/regress/test_reap.py
EXTRA_DIST += tests/regress/test_reap.py

# images: every kind of source, and what whoever makes one can try
TESTS += tests/regress/test_image_import.py tests/regress/test_image_attack.py
EXTRA_DIST += tests/regress/test_image_import.py \
	tests/regress/test_image_attack.py tests/lib/imgsrc.py

# tasks: calls that last longer than their request
TESTS += tests/regress/test_tasks.py
EXTRA_DIST += tests/regress/test_tasks.py

# MCP over HTTP
TESTS += tests/regress/test_http.py tests/regress/test_quirks.py
EXTRA_DIST += tests/regress/test_http.py tests/regress/test_quirks.py \
	tests/lib/web.py
TESTS += tests/regress/test_load.py
EXTRA_DIST += tests/regress/test_load.py tests/lib/mcpload.py
TESTS += tests/regress/test_subs.py tests/regress/test_guide.py \
	tests/regress/test_runjournal.py
EXTRA_DIST += tests/regress/test_subs.py tests/regress/test_guide.py \
	tests/regress/test_runjournal.py

# what servers send, by the schemas of the protocol
TESTS += tests/regress/test_mcpschema.py tests/regress/test_messages.py
EXTRA_DIST += tests/regress/test_mcpschema.py \
	tests/regress/test_messages.py tests/lib/mcpjudge.py \
	tests/lib/mcprecord.py tests/lib/mcprelay.py tests/lib/mcpschema.py
TESTS += tests/regress/test_ends.py
EXTRA_DIST += tests/regress/test_ends.py

# git through the proxy, against git-http-backend
TESTS += tests/regress/test_git_egress.py
EXTRA_DIST += tests/regress/test_git_egress.py

# the parser of requests beside nginx and squid
TESTS += tests/regress/test_http_servers.py
EXTRA_DIST += tests/regress/test_http_servers.py

# the project's tests, linters and type checkers in a sandbox
TESTS += tests/regress/test_verify.py tests/regress/test_lint.py
EXTRA_DIST += tests/regress/test_verify.py tests/regress/test_lint.py

# a courier alone, with a real TLS host and git itself; and one with less patience
check_PROGRAMS += courier_hasty
courier_hasty_SOURCES = $(sbx_broker_courier_SOURCES) \
	$(libsbxcourierio_a_SOURCES)
courier_hasty_CPPFLAGS = $(sbx_broker_courier_CPPFLAGS) -DHTTPS_IDLE_S=2u \
	-DHTTPS_WHOLE_S=5u
courier_hasty_LDADD = $(sbx_broker_courier_LDADD)
TESTS += tests/regress/test_courier.py
EXTRA_DIST += tests/regress/test_courier.py tests/lib/courier.py
