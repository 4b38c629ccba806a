pkglibexec_PROGRAMS += sbxd-judge
sbxd_judge_SOURCES = sbxd/judge/main.c sbxd/judge/judge.h sbxd/judge/hash.c \
	sbxd/judge/stream.c sbxd/judge/tree.c sbxd/judge/report.c
sbxd_judge_CPPFLAGS = $(AM_CPPFLAGS) $(CRYPTO_CFLAGS) $(JSON_CFLAGS)
sbxd_judge_LDADD = libsbxreport.a $(SBX_PRIVS_LIBS) $(CRYPTO_LIBS) $(JSON_LIBS) -lm
dist_man_MANS += sbxd/judge/sbxd-judge.8
