#ifndef SBX_REPORT_REPORT_H
#define SBX_REPORT_REPORT_H

/*
 * What test runners, linters and type checkers wrote, read as what it is: the
 * words of whoever's code was run.  Every byte is hostile.  No recursion on
 * input, all tables and texts bounded; what does not add up is not green.
 *
 * Needs common/base and json-c; asks for no file and no process.
 */

#include "common/base/base.h"

#define SBX_REPORT_BYTES (8u << 20)	/* of a report or an output; more is
					 * unparsable */
#define SBX_REPORT_TESTS 200000u
#define SBX_REPORT_FAILURES 200u	/* kept; the others are counted */
#define SBX_REPORT_ERROR_BYTES 8192u	/* of one failure's text */
#define SBX_REPORT_ERRORS_BYTES (512u << 10) /* of all of them together */
#define SBX_REPORT_NAME_BYTES 512u	/* of a test's or file's name */

enum sbx_report_format {
	SBX_REPORT_PYTEST,	/* report: JUnit XML, as pytest writes it */
	SBX_REPORT_JEST,	/* report: jest --json; vitest's json, too */
	SBX_REPORT_TAP,		/* report, else output: TAP 13 and 14 */
	SBX_REPORT_GO,		/* report: go test -json */
	SBX_REPORT_CARGO,	/* output: libtest's text */
	SBX_REPORT_AUTOMAKE,	/* output: of make check; report: the
				 * test-suite.log files */
	SBX_REPORT_CTEST,	/* report: ctest --output-junit */
	SBX_REPORT_FORMAT_MAX
};

enum sbx_verdict {
	SBX_VERDICT_GREEN,	/* tests ran and passed, none failed, the
				 * numbers agree and the runner said so */
	SBX_VERDICT_FAILED,
	SBX_VERDICT_COMPILE,	/* did not compile */
	SBX_VERDICT_COLLECT,	/* tests could not be found or loaded */
	SBX_VERDICT_CRASH,	/* ended before its end */
	SBX_VERDICT_NO_TESTS,	/* none ran */
	SBX_VERDICT_UNPARSABLE,	/* no report, or it contradicts itself */
	SBX_VERDICT_MAX
};
/* green, failed, compile_failure, ... */
const char *sbx_verdict_name(enum sbx_verdict v);

/* All borrowed.  A text of SBX_REPORT_BYTES and more is as if it were cut. */
struct sbx_report_in {
	enum sbx_report_format format;
	const char *report, *output;	/* NULL: there is none */
	size_t report_len, output_len;
	int status;		/* exit code, or 128 and the signal */
	bool build_failed;	/* what had to be built first was not */
};

struct sbx_report_failure {
	char *test, *error;	/* owned, never NULL */
	char *file;		/* owned, "" when not known */
	uint64_t line;		/* from 1, 0: not known */
};

struct sbx_report {
	enum sbx_verdict verdict;
	char why[256];		/* a sentence, "" when green */
	/* total: the other four; collected: what the runner found, whether
	 * it ran or not */
	uint64_t passed, failed, errors, skipped, total, collected;
	struct sbx_report_failure *failures;	/* owned */
	size_t nfailures;
	uint64_t omitted;	/* failures that are counted, not kept */
	size_t error_bytes;	/* of those that are kept */
};

/* Never fails: what cannot be read is a verdict.  sbx_report_clear() it. */
void sbx_report_parse(const struct sbx_report_in *in,
    struct sbx_report *ret_report);
void sbx_report_clear(struct sbx_report *r);

/* --- findings.c ----------------------------------------------------------- */

#define SBX_FINDINGS_MAX 1000u		/* kept; the others are counted */
#define SBX_FINDING_BYTES 2048u		/* of one message */

enum sbx_finding_format {
	SBX_FINDINGS_RUFF,	/* --output-format json */
	SBX_FINDINGS_FLAKE8,	/* file:line:col: CODE text */
	SBX_FINDINGS_PYLINT,	/* --output-format=json */
	SBX_FINDINGS_ESLINT,	/* --format json */
	SBX_FINDINGS_PYRIGHT,	/* --outputjson */
	SBX_FINDINGS_TSC,	/* file(line,col): error TSn: text */
	SBX_FINDINGS_GOLANGCI,	/* JSON of v1 and v2 */
	SBX_FINDINGS_CLIPPY,	/* --message-format=json */
	SBX_FINDINGS_GCC,	/* file:line:col: severity: text [rule];
				 * go vet's, without severity and rule */
	SBX_FINDINGS_SHELLCHECK, /* --format=json1 */
	SBX_FINDINGS_FORMAT_MAX
};

struct sbx_finding {
	char *file, *rule, *message;	/* owned, never NULL */
	uint64_t line, column;		/* from 1, 0: not known */
	const char *severity;		/* error, warning, info */
};
struct sbx_findings {
	struct sbx_finding *list;	/* owned */
	size_t n;
	uint64_t total, errors;
};
/*
 * 0, SBX_E_SYNTAX when the text is not what the tool writes: then nothing is
 * known.  sbx_findings_clear() in any case.
 */
int sbx_findings_parse(enum sbx_finding_format format, const char *text,
    size_t len, struct sbx_findings *ret_findings);
void sbx_findings_clear(struct sbx_findings *f);

#endif
