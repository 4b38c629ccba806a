include tests/unit/local.mk
include tests/proto/local.mk
include tests/privs/local.mk
include tests/fault/local.mk
include tests/fuzz/local.mk
include tests/lint/local.mk
include tests/regress/local.mk
include tests/guarantees/local.mk
include tests/gauntlet/local.mk
include tests/interop/local.mk
include tests/bench/local.mk
include tests/conformance/local.mk

# What servers sent in all of these tests is judged when they have run.
TESTS += tests/regress/check_messages.py
EXTRA_DIST += tests/regress/check_messages.py
tests/regress/check_messages.log: \
	$(filter-out tests/regress/check_messages.log,$(TEST_LOGS))
# Lists of TESTS for contrib/check.  TESTS_ALONE use up what a user or the machine
# has (processes, watches, memory, descriptors, processors) or tell how long things take: one
# at a time, with nothing beside them.  All others may run beside each other.
R = tests/regress/
TESTS_ALONE = tests/guarantees/test_drills.py $(R)test_doctor.py \
	$(R)test_engine_sandbox.py $(R)test_limits.py $(R)test_load.py \
	$(R)test_snapshot_engine.py test_privs \
	$(R)test_gate.py $(R)test_lint.py $(R)test_package.py $(R)test_verify.py
TESTS_TOGETHER = $(filter-out $(TESTS_ALONE) $(R)check_messages.py,$(TESTS))
# what is not the same for somebody who is not root; those that play such a user
# themselves when root runs them are not here
TESTS_USER = $(filter-out tests/guarantees/test_drills.py,$(GUARANTEES)) \
	$(R)test_checkpoint.py $(R)test_cli.py $(R)test_copyin.py \
	$(R)test_diff.py $(R)test_egress_suite.py $(R)test_engine.py \
	$(R)test_files.py $(R)test_http.py \
	$(R)test_images_engine.py $(R)test_limits.py $(R)test_python.py \
	$(R)test_reap.py $(R)test_search.py \
	$(R)test_sbxd_hub.py $(R)test_sbxd_suite.py $(R)test_shell.py \
	$(R)test_snapshot.py $(R)test_users.py $(R)test_worker.py $(R)test_github_tools.py $(R)test_publish_tool.py $(R)test_merge_tool.py $(R)test_clone_hub.py \
	test_broker test_privs test_proxy test_starter
# with sanitizers: our programs, by what drives them hardest
TESTS_SANITIZED = $(filter-out test_privs tests/%,$(TESTS)) $(FRONT_TESTS) \
	$(R)test_broker.py $(R)test_command.py $(R)test_courier.py \
	$(R)test_egress_suite.py $(R)test_engine.py $(R)test_files.py \
	$(R)test_guide.py \
	$(R)test_gate_hub.py $(R)test_publish_hub.py $(R)test_grants_hub.py $(R)test_http.py $(R)test_messages.py $(R)test_proxy_egress.py $(R)test_quirks.py \
	$(R)test_runjournal.py $(R)test_sbxd_hub.py $(R)test_snapshot.py \
	$(R)test_subs.py $(R)test_trust.py $(R)test_worker.py $(R)test_github_tools.py $(R)test_publish_tool.py $(R)test_merge_tool.py $(R)test_clone_hub.py
list-together:
	@echo $(TESTS_TOGETHER)
list-alone:
	@echo $(TESTS_ALONE)
list-user:
	@echo $(TESTS_USER)
list-sanitized:
	@echo $(TESTS_SANITIZED)

clean-local:
	rm -rf mcp-record
