# tests/fuzz: with --enable-fuzzers CC=clang, `make fuzzers` builds each target
# with libFuzzer; otherwise replay.c gives it a main() over its corpus, for
# make check.  One more target: its name in SBX_FUZZERS, its four lines, its
# corpus in corpus/NAME.
SBX_FUZZERS = fuzz_wire fuzz_conf fuzz_jsonrpc fuzz_json fuzz_journal \
	fuzz_gitconfig fuzz_view fuzz_image fuzz_import fuzz_http \
	fuzz_front fuzz_egress fuzz_answer fuzz_report fuzz_courier \
	fuzz_judge_publish fuzz_scan

if FUZZERS
AM_CFLAGS += -fsanitize=fuzzer-no-link
FUZZ_MAIN =
FUZZ_LINK = $(AM_LDFLAGS) -fsanitize=fuzzer
else
FUZZ_MAIN = tests/fuzz/replay.c
FUZZ_LINK = $(AM_LDFLAGS)
endif

check_PROGRAMS += $(SBX_FUZZERS)
fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.c tests/proto/raw.h $(FUZZ_MAIN)
fuzz_wire_CPPFLAGS = $(AM_CPPFLAGS)
fuzz_wire_LDFLAGS = $(FUZZ_LINK)
fuzz_wire_LDADD = libsbx.a

fuzz_conf_SOURCES = tests/fuzz/fuzz_conf.c $(FUZZ_MAIN)
fuzz_conf_CPPFLAGS = $(AM_CPPFLAGS)
fuzz_conf_LDFLAGS = $(FUZZ_LINK)
fuzz_conf_LDADD = libsbx.a

fuzz_image_SOURCES = tests/fuzz/fuzz_image.c $(FUZZ_MAIN)
fuzz_image_CPPFLAGS = $(AM_CPPFLAGS)
fuzz_image_LDFLAGS = $(FUZZ_LINK)
fuzz_image_LDADD = libsbx.a

fuzz_jsonrpc_SOURCES = tests/fuzz/fuzz_jsonrpc.c $(FUZZ_MAIN)
fuzz_jsonrpc_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(JSON_CFLAGS)
fuzz_jsonrpc_LDFLAGS = $(FUZZ_LINK)
fuzz_jsonrpc_LDADD = libsbxfront.a libsbxtools.a libsbxev.a libsbx.a \
	$(EVENT_LIBS) $(JSON_LIBS)

fuzz_http_SOURCES = tests/fuzz/fuzz_http.c $(FUZZ_MAIN)
fuzz_http_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(JSON_CFLAGS)
fuzz_http_LDFLAGS = $(FUZZ_LINK)
fuzz_http_LDADD = libsbxfront.a libsbxtools.a libsbxev.a libsbx.a \
	$(EVENT_LIBS) $(JSON_LIBS)

fuzz_front_SOURCES = tests/fuzz/fuzz_front.c $(FUZZ_MAIN)
fuzz_front_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(JSON_CFLAGS)
fuzz_front_LDFLAGS = $(FUZZ_LINK)
fuzz_front_LDADD = libsbxfront.a libsbxtools.a libsbxev.a libsbx.a \
	$(EVENT_LIBS) $(JSON_LIBS)

fuzz_egress_SOURCES = tests/fuzz/fuzz_egress.c $(FUZZ_MAIN) \
	sbx-proxy/gate.c sbx-proxy/gate.h sbx-proxy/hello.c \
	sbx-proxy/hello.h sbx-proxy/host.c sbx-proxy/host.h
fuzz_egress_CPPFLAGS = $(AM_CPPFLAGS)
fuzz_egress_LDFLAGS = $(FUZZ_LINK)
fuzz_egress_LDADD = libsbxgit.a libsbx.a

fuzz_answer_SOURCES = tests/fuzz/fuzz_answer.c $(FUZZ_MAIN) \
	sbx-proxy/body.c sbx-proxy/body.h sbx-proxy/host.h \
	sbx-proxy/strip.c sbx-proxy/strip.h
fuzz_answer_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS)
fuzz_answer_LDFLAGS = $(FUZZ_LINK)
fuzz_answer_LDADD = libsbx.a $(EVENT_LIBS)

fuzz_json_SOURCES = tests/fuzz/fuzz_json.c $(FUZZ_MAIN)
fuzz_json_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS)
fuzz_json_LDFLAGS = $(FUZZ_LINK)
fuzz_json_LDADD = libsbx.a $(JSON_LIBS)

fuzz_journal_SOURCES = tests/fuzz/fuzz_journal.c $(FUZZ_MAIN)
fuzz_journal_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS)
fuzz_journal_LDFLAGS = $(FUZZ_LINK)
fuzz_journal_LDADD = libsbxjournal.a libsbx.a $(JSON_LIBS) $(CRYPTO_LIBS)

fuzz_gitconfig_SOURCES = tests/fuzz/fuzz_gitconfig.c $(FUZZ_MAIN) \
	sbxd/copyin/clean.c sbxd/copyin/copyin.h
fuzz_gitconfig_CPPFLAGS = $(AM_CPPFLAGS)
fuzz_gitconfig_LDFLAGS = $(FUZZ_LINK)
fuzz_gitconfig_LDADD = libsbx.a

fuzz_view_SOURCES = tests/fuzz/fuzz_view.c $(FUZZ_MAIN) \
	sbxd/worker/view.c sbxd/worker/view.h
fuzz_view_CPPFLAGS = $(AM_CPPFLAGS)
fuzz_view_LDFLAGS = $(FUZZ_LINK)
fuzz_view_LDADD = libsbx.a

fuzz_import_SOURCES = tests/fuzz/fuzz_import.c $(FUZZ_MAIN) $(IMAGE_CORE)
fuzz_import_CPPFLAGS = $(AM_CPPFLAGS) $(ARCHIVE_CFLAGS) $(CRYPTO_CFLAGS) \
	$(JSON_CFLAGS) -DMAX_BYTES='(64ull << 20)' -DMAX_FILE='(16ull << 20)'
fuzz_import_LDFLAGS = $(FUZZ_LINK)
fuzz_import_LDADD = libsbx.a $(ARCHIVE_LIBS) $(CRYPTO_LIBS) $(JSON_LIBS)

fuzz_report_SOURCES = tests/fuzz/fuzz_report.c $(FUZZ_MAIN)
fuzz_report_CPPFLAGS = $(AM_CPPFLAGS)
fuzz_report_LDFLAGS = $(FUZZ_LINK)
fuzz_report_LDADD = libsbxreport.a libsbx.a $(JSON_LIBS)

fuzz_courier_SOURCES = tests/fuzz/fuzz_courier.c $(FUZZ_MAIN)
fuzz_courier_CPPFLAGS = $(AM_CPPFLAGS)
fuzz_courier_LDFLAGS = $(FUZZ_LINK)
fuzz_courier_LDADD = libsbxcourier.a libsbx.a $(JSON_LIBS)

fuzz_judge_publish_SOURCES = tests/fuzz/fuzz_judge_publish.c $(FUZZ_MAIN) \
	$(JUDGE_PUBLISH)
fuzz_judge_publish_CPPFLAGS = $(AM_CPPFLAGS) $(CRYPTO_CFLAGS)
fuzz_judge_publish_LDFLAGS = $(FUZZ_LINK)
fuzz_judge_publish_LDADD = libsbx.a $(CRYPTO_LIBS)

fuzz_scan_SOURCES = tests/fuzz/fuzz_scan.c $(FUZZ_MAIN)
fuzz_scan_CPPFLAGS = $(AM_CPPFLAGS)
fuzz_scan_LDFLAGS = $(FUZZ_LINK)
fuzz_scan_LDADD = libsbxscan.a libsbx.a $(PCRE2_LIBS) -lm

.PHONY: fuzzers
fuzzers: $(SBX_FUZZERS)

TESTS += tests/fuzz/test_corpus.sh
EXTRA_DIST += tests/fuzz/test_corpus.sh tests/fuzz/corpus tests/fuzz/dict
