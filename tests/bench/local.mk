# make bench: one JSON line a figure, never a verdict
EXTRA_DIST += tests/bench/bench.py
.PHONY: bench
bench: all $(BENCH_PROGRAMS)
	@SBX_BUILD='$(abs_top_builddir)' SBX_SRC='$(abs_top_srcdir)' \
		python3 $(top_srcdir)/tests/bench/bench.py
	@for b in $(BENCH_PROGRAMS); do ./$$b || exit 1; done
BENCH_PROGRAMS =
