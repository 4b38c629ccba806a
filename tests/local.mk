include tests/unit/local.mk
include tests/proto/local.mk
include tests/privs/local.mk
include tests/fault/local.mk
include tests/fuzz/local.mk
include tests/lint/local.mk
include tests/regress/local.mk
include tests/guarantees/local.mk
include tests/interop/local.mk
include tests/bench/local.mk
include tests/conformance/local.mk

# What servers sent in all of these tests is judged when they have run.
TESTS += tests/regress/check_messages.py
EXTRA_DIST += tests/regress/check_messages.py
tests/regress/check_messages.log: \
	$(filter-out tests/regress/check_messages.log,$(TEST_LOGS))
clean-local:
	rm -rf mcp-record
