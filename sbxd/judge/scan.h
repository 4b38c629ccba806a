#ifndef SBX_JUDGE_SCAN_H
#define SBX_JUDGE_SCAN_H

/*
 * Secrets in what is added.  Rules are those of a gitleaks configuration (TOML:
 * [[rules]] with id, regex, secretGroup, entropy, keywords, path, allowlists;
 * [allowlist]); what of it is not understood is refused by name, never ignored.
 * Comments in a file that allow its secrets do not count.
 */

#include "common/base/base.h"

#include <stdbool.h>
#include <stdint.h>

#define SCAN_REASON 256		/* bytes of a refusal's sentence */
#define SCAN_MAX_RULES 512
#define SCAN_MAX_RULES_BYTES (1u << 20)
#define SCAN_WINDOW (1u << 20)	/* bytes looked at at once, with an overlap */
#define SCAN_MAX_MATCH (64u << 10)	/* what is longer is not seen whole */
#define SCAN_MAX_ID 128
#define SCAN_MAX_FINDINGS 1000	/* of one file; then it is at its limit */
#define SCAN_LIMIT "scan-limit"

struct scan;
struct scan_finding {
	const char *rule;	/* its id; owned by the scan */
	const char *path;
	uint32_t line;		/* from 1 on, in the new file */
	/* 64 hexadecimal digits: SHA-256 over rule, path and secret, each with
	 * its NUL.  It says nothing of the secret to who does not know it, short
	 * of guessing; it is not shown but to who may see the file. */
	char fingerprint[65];
};
typedef void scan_report(void *ctx, const struct scan_finding *f);

/* rules, n: the configuration, n 0: the one built in.  NULL: ret_reason. */
struct scan *scan_new(const char *rules, size_t n, char ret_reason[SCAN_REASON]);
/* known: of these bytes it is agreed that they are no secret; from then on no
 * finding of them is reported. */
void scan_known(struct scan *s, bool (*known)(const void *ctx,
    const char *secret, size_t n), const void *ctx);
void scan_free(struct scan *s);
/*
 * Begin with the base's content of a path (NULL: the base has no such file),
 * add the new content in pieces of any size, end.  A finding all of whose lines
 * are in the base's file, wherever, is not reported: the baseline.  old must
 * stay until scan_end().  One file at a time.
 */
void scan_begin(struct scan *s, const char *path, const void *old, size_t nold,
    scan_report *report, void *ctx);
/* -1: a limit of matching was reached, which counts as a finding; reported as
 * rule "scan-limit". */
int scan_add(struct scan *s, const void *p, size_t n);
int scan_end(struct scan *s);

#endif
