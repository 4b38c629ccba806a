pkglibexec_PROGRAMS += sbxd-judge
sbxd_judge_SOURCES = sbxd/judge/main.c sbxd/judge/judge.h sbxd/judge/hash.c \
	sbxd/judge/stream.c sbxd/judge/tree.c sbxd/judge/report.c
sbxd_judge_CPPFLAGS = $(AM_CPPFLAGS) $(CRYPTO_CFLAGS) $(JSON_CFLAGS)
sbxd_judge_LDADD = libsbxscan.a libsbxreport.a $(SBX_PRIVS_LIBS) $(CRYPTO_LIBS) \
	$(JSON_LIBS) $(PCRE2_LIBS) -lm
dist_man_MANS += sbxd/judge/sbxd-judge.8

# the scanner for secrets: no I/O
noinst_LIBRARIES += libsbxscan.a
libsbxscan_a_SOURCES = sbxd/judge/scan.c sbxd/judge/scan.h \
	sbxd/judge/scan_old.c sbxd/judge/scan_parts.h sbxd/judge/scan_re.c \
	sbxd/judge/scan_rules.c sbxd/judge/scan_text.c sbxd/judge/scan_toml.c \
	sbxd/judge/scan_words.c
libsbxscan_a_CPPFLAGS = $(AM_CPPFLAGS) $(PCRE2_CFLAGS)
nodist_libsbxscan_a_SOURCES = scan_builtin.c

# its built-in rules, as an array
EXTRA_DIST += sbxd/judge/rules.toml
CLEANFILES += scan_builtin.c
scan_builtin.c: $(top_srcdir)/sbxd/judge/rules.toml
	$(AM_V_GEN){ echo '#include "sbxd/judge/scan_parts.h"'; \
		echo 'const char rules_builtin[] = {'; \
		od -An -v -tx1 $(top_srcdir)/sbxd/judge/rules.toml | \
			sed 's/\([0-9a-f][0-9a-f]\)/0x\1,/g'; \
		echo '};'; \
		echo 'const size_t rules_builtin_len = sizeof(rules_builtin);'; \
	} >$@.tmp && mv $@.tmp $@
