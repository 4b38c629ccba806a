pkglibexec_PROGRAMS += sbxd-judge
# what reads a publication's base and names; also for tests and fuzzing
JUDGE_PUBLISH = sbxd/judge/attr.c sbxd/judge/base.c sbxd/judge/convert.c \
	sbxd/judge/fold.c sbxd/judge/fold.def sbxd/judge/hash.c \
	sbxd/judge/match.c sbxd/judge/match.h sbxd/judge/oid.c \
	sbxd/judge/paths.c sbxd/judge/judge.h sbxd/judge/publish.h \
	sbxd/judge/scan.h
sbxd_judge_SOURCES = $(JUDGE_PUBLISH) sbxd/judge/main.c \
	sbxd/judge/baseline.c sbxd/judge/commit.c \
	sbxd/judge/cross.c sbxd/judge/publish.c \
	sbxd/judge/report.c sbxd/judge/stream.c sbxd/judge/stream.h \
	sbxd/judge/tree.c
sbxd_judge_CPPFLAGS = $(AM_CPPFLAGS) $(CRYPTO_CFLAGS) $(JSON_CFLAGS)
sbxd_judge_LDADD = libsbxscan.a libsbxreport.a $(SBX_PRIVS_LIBS) $(CRYPTO_LIBS) \
	$(JSON_LIBS) $(PCRE2_LIBS) -lm
dist_man_MANS += sbxd/judge/sbxd-judge.8
EXTRA_DIST += contrib/mkfold.py

# the scanner for secrets: no I/O
noinst_LIBRARIES += libsbxscan.a
libsbxscan_a_SOURCES = sbxd/judge/scan.c sbxd/judge/scan.h \
	sbxd/judge/scan_old.c sbxd/judge/scan_parts.h sbxd/judge/scan_re.c \
	sbxd/judge/scan_rules.c sbxd/judge/scan_text.c sbxd/judge/scan_toml.c \
	sbxd/judge/scan_words.c
libsbxscan_a_CPPFLAGS = $(AM_CPPFLAGS) $(PCRE2_CFLAGS)
nodist_libsbxscan_a_SOURCES = scan_builtin.c

# its built-in rules, as an array; installed to begin own ones with
dist_pkgdata_DATA += sbxd/judge/rules.toml
CLEANFILES += scan_builtin.c
scan_builtin.c: $(top_srcdir)/sbxd/judge/rules.toml
	$(AM_V_GEN){ echo '#include "sbxd/judge/scan_parts.h"'; \
		echo 'const char rules_builtin[] = {'; \
		od -An -v -tx1 $(top_srcdir)/sbxd/judge/rules.toml | \
			sed 's/\([0-9a-f][0-9a-f]\)/0x\1,/g'; \
		echo '};'; \
		echo 'const size_t rules_builtin_len = sizeof(rules_builtin);'; \
	} >$@.tmp && mv $@.tmp $@
