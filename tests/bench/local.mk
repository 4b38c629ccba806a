# make bench: one JSON line a figure, never a verdict
EXTRA_DIST += tests/bench/bench.py tests/bench/bench_image.py \
	tests/bench/bench_files.py \
	tests/bench/bench_snapshot.py tests/bench/bench_many.py \
	tests/bench/bench_mcp.py tests/bench/mcp_server.mjs \
	tests/bench/bench_clone.py tests/bench/bench_push.py \
	tests/bench/bench_publish.py \
	tests/bench/bench_egress.py tests/bench/bench_search.py tests/bench/bench_verify.py \
	tests/bench/bench_scan.py
.PHONY: bench
bench: all $(SBX_BENCHES) bench_scan
	@SBX_BUILD='$(abs_top_builddir)' SBX_SRC='$(abs_top_srcdir)' \
		python3 $(top_srcdir)/tests/bench/bench.py
	@SBX_BUILD='$(abs_top_builddir)' SBX_SRC='$(abs_top_srcdir)' \
		python3 $(top_srcdir)/tests/bench/bench_mcp.py
	@SBX_BUILD='$(abs_top_builddir)' SBX_SRC='$(abs_top_srcdir)' \
		python3 $(top_srcdir)/tests/bench/bench_egress.py
	@SBX_BUILD='$(abs_top_builddir)' SBX_SRC='$(abs_top_srcdir)' \
		python3 $(top_srcdir)/tests/bench/bench_clone.py
	@SBX_BUILD='$(abs_top_builddir)' SBX_SRC='$(abs_top_srcdir)' \
		python3 $(top_srcdir)/tests/bench/bench_push.py
	@SBX_BUILD='$(abs_top_builddir)' SBX_SRC='$(abs_top_srcdir)' \
		python3 $(top_srcdir)/tests/bench/bench_publish.py
	@SBX_BUILD='$(abs_top_builddir)' SBX_SRC='$(abs_top_srcdir)' \
		python3 $(top_srcdir)/tests/bench/bench_search.py
	@SBX_BUILD='$(abs_top_builddir)' \
		python3 $(top_srcdir)/tests/bench/bench_image.py
	@SBX_BUILD='$(abs_top_builddir)' SBX_SRC='$(abs_top_srcdir)' \
		python3 $(top_srcdir)/tests/bench/bench_snapshot.py
	@SBX_BUILD='$(abs_top_builddir)' SBX_SRC='$(abs_top_srcdir)' \
		python3 $(top_srcdir)/tests/bench/bench_files.py
	@SBX_BUILD='$(abs_top_builddir)' SBX_SRC='$(abs_top_srcdir)' \
		python3 $(top_srcdir)/tests/bench/bench_many.py \
		$${SBX_BENCH_MANY:-20}
	@SBX_BUILD='$(abs_top_builddir)' SBX_SRC='$(abs_top_srcdir)' \
		python3 $(top_srcdir)/tests/bench/bench_verify.py
	@SBX_BUILD='$(abs_top_builddir)' SBX_SRC='$(abs_top_srcdir)' \
		python3 $(top_srcdir)/tests/bench/bench_scan.py
	@for b in $(SBX_BENCHES); do ./$$b || exit 1; done
SBX_BENCHES =

noinst_PROGRAMS += bench_journal
bench_journal_SOURCES = tests/bench/bench_journal.c
bench_journal_CPPFLAGS = $(AM_CPPFLAGS)
bench_journal_LDADD = libsbx.a
SBX_BENCHES += bench_journal

noinst_PROGRAMS += bench_engine
bench_engine_SOURCES = tests/bench/bench_engine.c
bench_engine_CPPFLAGS = $(AM_CPPFLAGS)
bench_engine_LDADD = libsbx.a
SBX_BENCHES += bench_engine

noinst_PROGRAMS += bench_ca
bench_ca_SOURCES = tests/bench/bench_ca.c sbx-proxy/ca.c sbx-proxy/ca.h \
	sbx-proxy/issue.c sbx-proxy/issue.h sbx-proxy/jks.c sbx-proxy/jks.h \
	sbx-proxy/roots.c
bench_ca_CPPFLAGS = $(AM_CPPFLAGS) $(TLS_CFLAGS)
bench_ca_LDADD = libsbxegress.a libsbx.a $(TLS_LIBS)
SBX_BENCHES += bench_ca

noinst_PROGRAMS += bench_scan
bench_scan_SOURCES = tests/bench/bench_scan.c
bench_scan_CPPFLAGS = $(AM_CPPFLAGS)
bench_scan_LDADD = libsbxscan.a libsbx.a $(PCRE2_LIBS) -lm
