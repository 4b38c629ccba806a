#ifndef SBX_PROXY_RECORD_H
#define SBX_PROXY_RECORD_H

/*
 * The proxy's records in the journal.  What was refused is told at once the
 * first time, then coalesced: the same (layer, code, target) of a sandbox
 * within RECORD_WINDOW_S is one record that says how often, first and last.
 * A sandbox has a bounded number of records a second, and a bounded table, so
 * that a flood of one delays nobody else's.
 */

#include "sbx-proxy/proxy.h"

#define RECORD_WINDOW_S 10
#define RECORD_KEYS 32		/* of one sandbox, being coalesced */
#define RECORD_RATE 20		/* of one sandbox, a second; then counted */

/* Where something was refused. */
enum layer {
	LAYER_PARSE, LAYER_LIMIT, LAYER_POLICY, LAYER_DNS, LAYER_ADDRESS,
	LAYER_DIAL, LAYER_SNI, LAYER_TLS, LAYER_HOST, LAYER_GATE, LAYER_GRANT,
	LAYER_PUSH, LAYER_BUDGET, LAYER_COURIER, LAYER_MAX
};
const char *layer_name(enum layer layer);

#define TARGET_SIZE 520		/* of a target's text: more than is told */

/* target: foreign text, cut at 512 bytes ("https://host:port/path" without its
 * query, "CONNECT host:port", "").  code: a stable word; why: a sentence. */
void record_denied(struct listener *l, enum layer layer, const char *code,
    const char *target, const char *why);
/* An exchange that was let through, when it is over.  out, in: bytes. */
struct record_passed {
	const struct conn *c;
	const char *what;	/* "tunnel", "git read", "registry" ... */
	const char *method, *path;	/* "" for a tunnel; no query */
	const char *grant;	/* its id, or "" */
	bool courier;		/* by one, with a credential */
	unsigned status;	/* of the answer, 0: none */
	uint64_t out, in, ms;
	const char *end;	/* why, "" when it went well */
};
void record_passed(const struct record_passed *r);
/* A use of a grant, of which so many are left. */
void record_grant_used(struct listener *l, const char *grant, unsigned left);
/* What is coalesced is told now; with the listener. */
void record_flush(struct listener *l);
void denials_free(struct denials *d);	/* NULL ok */

#endif
