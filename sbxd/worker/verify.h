#ifndef SBX_WORKER_VERIFY_H
#define SBX_WORKER_VERIFY_H

/* What verify.sh wrote of one run, read.  It is what a sandbox says. */

#include "sbxd/report/report.h"

#define VERIFY_STEPS 48u
#define VERIFY_LANGUAGES 8u

struct span {
	const char *p;		/* borrowed from the record's text */
	size_t n;
};

enum step_kind { STEP_LINT, STEP_TYPES, STEP_TEST };

struct step {
	enum step_kind kind;
	bool ran, built, filtered;
	int status;
	uint64_t ms;
	struct span language, tool, version, command, reason, config;
	struct span report;	/* of a test, or a linter's output; p NULL */
	struct span output;	/* of a test, when it was stored whole */
	/* made of them */
	const char *verdict;	/* of a test */
	char why[256];
	struct sbx_report tests;
	struct sbx_findings findings;
};

struct verify {
	struct step steps[VERIFY_STEPS];
	size_t nsteps;
	struct span languages[VERIFY_LANGUAGES];
	size_t nlanguages;
	struct span problem, nonce, wd, widened;
	struct span unstaged, staged, untracked, content, selection; /* p NULL */
	bool gate_red, filtered, nothing_affected, skipped, whole;
};

/* 0, SBX_E_SYNTAX.  verify_clear() in any case. */
int verify_read(struct verify *v, const char *text, size_t len);
/* The tests' output: what is between two of the script's marks. */
void verify_outputs(struct verify *v, const char *text, size_t len);
/* Reports and findings of each step. */
void verify_judge(struct verify *v);
void verify_clear(struct verify *v);

bool span_is(struct span s, const char *text);

#endif
