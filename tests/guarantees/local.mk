GUARANTEES = tests/guarantees/test_g1.py tests/guarantees/test_g2.py \
	tests/guarantees/test_g3.py tests/guarantees/test_g4.py \
	tests/guarantees/test_g5.py tests/guarantees/test_g6.py \
	tests/guarantees/test_g7_sandbox.py tests/guarantees/test_g7_front.py \
	tests/guarantees/test_g7_worker.py tests/guarantees/test_g7_proxy.py \
	tests/guarantees/test_g7_courier.py \
	tests/guarantees/test_g8.py \
	tests/guarantees/test_drills.py
TESTS += $(GUARANTEES)
EXTRA_DIST += $(GUARANTEES) tests/lib/mcp.py tests/lib/ipc.py \
	tests/lib/evil.py tests/lib/canary.py
# enters a row of common/privs and tries one thing, for test_g3.py
check_PROGRAMS += row_probe evil_exec
evil_exec_SOURCES = tests/guarantees/evil_exec.c
evil_exec_CPPFLAGS = $(AM_CPPFLAGS)
row_probe_CPPFLAGS = $(AM_CPPFLAGS)
row_probe_SOURCES = tests/guarantees/row_probe.c
row_probe_LDADD = $(SBX_PRIVS_LIBS)
# takes the place of sbx-broker-courier, for test_g7_courier.py
check_PROGRAMS += evil_courier
evil_courier_SOURCES = tests/guarantees/evil_courier.c
evil_courier_CPPFLAGS = $(AM_CPPFLAGS)
evil_courier_LDADD = $(SBX_PRIVS_LIBS)
# put into a sandbox, where there may be no libraries
check_PROGRAMS += drill
drill_SOURCES = tests/guarantees/drill.c tests/guarantees/drill.h \
	tests/guarantees/drill_calls.c tests/guarantees/drill_files.c \
	tests/guarantees/drill_peers.c
drill_CFLAGS = $(AM_CFLAGS) -fno-sanitize=all
drill_LDFLAGS = -static-pie
