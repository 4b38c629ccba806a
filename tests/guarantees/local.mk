GUARANTEES = tests/guarantees/test_g1.py tests/guarantees/test_g2.py \
	tests/guarantees/test_g3.py tests/guarantees/test_g4.py \
	tests/guarantees/test_g5.py tests/guarantees/test_g6.py \
	tests/guarantees/test_g7_sandbox.py tests/guarantees/test_g7_front.py \
	tests/guarantees/test_g7_worker.py tests/guarantees/test_g7_proxy.py \
	tests/guarantees/test_g7_courier.py \
	tests/guarantees/test_g8.py \
	tests/guarantees/test_drills.py tests/guarantees/test_broken.py
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
# take the places of good programs, for test_broken.py
check_PROGRAMS += broken_probe broken_evil broken_broker_log \
	broken_broker_any broken_courier
broken_probe_SOURCES = tests/guarantees/broken_rows.c $(row_probe_SOURCES)
broken_probe_CPPFLAGS = $(AM_CPPFLAGS)
broken_probe_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sbx_privs_row
broken_probe_LDADD = $(SBX_PRIVS_LIBS)
broken_evil_SOURCES = tests/guarantees/broken_rows.c $(evil_courier_SOURCES)
broken_evil_CPPFLAGS = $(AM_CPPFLAGS)
broken_evil_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sbx_privs_row
broken_evil_LDADD = $(SBX_PRIVS_LIBS)
broken_broker_log_SOURCES = tests/guarantees/broken_broker_log.c \
	$(sbx_broker_SOURCES)
broken_broker_log_CPPFLAGS = $(sbx_broker_CPPFLAGS)
broken_broker_log_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=record_exchange
broken_broker_log_LDADD = $(sbx_broker_LDADD)
broken_broker_any_SOURCES = tests/guarantees/broken_broker_any.c \
	$(sbx_broker_SOURCES)
broken_broker_any_CPPFLAGS = $(sbx_broker_CPPFLAGS)
broken_broker_any_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sbx_peer_new
broken_broker_any_LDADD = $(sbx_broker_LDADD)
broken_courier_SOURCES = tests/guarantees/broken_courier.c \
	$(sbx_broker_courier_SOURCES)
broken_courier_CPPFLAGS = $(sbx_broker_courier_CPPFLAGS)
broken_courier_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=push_judge
broken_courier_LDADD = $(sbx_broker_courier_LDADD)
# put into a sandbox, where there may be no libraries
check_PROGRAMS += drill
drill_SOURCES = tests/guarantees/drill.c tests/guarantees/drill.h \
	tests/guarantees/drill_calls.c tests/guarantees/drill_files.c \
	tests/guarantees/drill_peers.c
drill_CFLAGS = $(AM_CFLAGS) -fno-sanitize=all
drill_LDFLAGS = -static-pie
