#ifndef SBX_FRONT_INPUTS_H
#define SBX_FRONT_INPUTS_H

/*
 * A tool that needs something of its client: a form filled in, a model's
 * words, the client's roots.  It says so in its result (SBX_RESULT_INPUT) and
 * is called again, from the beginning, with the answers:
 *
 *	{"inputRequests":{KEY:{"method":...,"params":{...}},...},"state":...}
 *	{"inputResponses":{KEY:...,...},"state":...}
 *
 * A modern client is answered with what is asked and calls again itself; a
 * legacy client is sent requests on the stream of its call, which waits.  The
 * tool does not see the difference.  An answer grants nothing: it is text of
 * the client, as the arguments are.
 */

#include "common/base/limits.h"
#include "common/base/sha256.h"
#include "sbxd/front/rpc.h"

#define ASK_KEY_MAX 64u		/* bytes of a key */

struct ask_kind;
struct call;
struct json_object;

struct asked {
	char key[ASK_KEY_MAX + 1];
	const struct ask_kind *kind;
	uint64_t id;		/* "sbx-ID", legacy; 0: it was answered */
};

/* What a call has of its client so far. */
struct round {
	struct json_object *answers;	/* owned, by key; NULL: none */
	struct json_object *state;	/* owned, the worker's; NULL: none */
	struct asked asked[SBX_MAX_ASKS];	/* of the last result */
	unsigned nasked;
	unsigned count;			/* rounds of a call that waits */
	uint64_t since_ns;	/* waits for its client since; 0: it does not */
};
void round_clear(struct round *r);

/* A result's requests, checked. */
struct asks {
	struct asked asked[SBX_MAX_ASKS];
	unsigned n;
	uint32_t needs;			/* enum sbx_client_can */
	struct json_object *result;	/* owned: what the rest is of */
	struct json_object *requests, *state;	/* state NULL: none */
};
/*
 * Read a worker's result.  Safe for a hostile worker: clean JSON came in; only
 * requests of the protocol, few, under short plain keys, go out.
 * 0, SBX_E_DECODE (ret->result is NULL).
 */
int asks_read(struct front *f, const char *text, size_t len,
    struct asks *ret);
void asks_clear(struct asks *a);
/* InputRequests as an object. */
void asks_put(struct sbx_buf *b, const struct asks *a);

/*
 * The answers of an InputResponses object (NULL: none) to what was asked, into
 * r; others are ignored.  With nothing asked, what looks like an answer to
 * anything is taken: a client may know what a tool is going to ask.
 * NULL, or what is wrong: then none were taken.
 */
const char *round_take(struct round *r, struct json_object *responses);
/*
 * A tool of a call that waits asks once more: for a, and not for what was
 * answered before.  false: it asked too often; the call was refused, and is to
 * be freed.
 */
bool round_begin(struct call *c, const struct asks *a);
/* CALL.inputs, into b ("" when there is nothing).  0, SBX_E_LIMIT. */
int round_put(const struct round *r, struct sbx_buf *b);

/* --- inputs.c: a client that calls again -------------------------------------- */

/* A new call: what r brings of earlier rounds, into c.  false: refused, and
 * answered. */
bool inputs_begin(const struct request *r, struct call *c,
    struct span arguments);
/* What waits in the table is the principal's no more. */
void inputs_forget(struct front *f, uint64_t principal);
void inputs_clear(struct front *f);
/* The result of c is a request for input.  true: c is to be freed. */
bool inputs_result(struct front *f, struct call *c, const char *text,
    size_t len);
/* Answers that do not come, and what was never called again. */
void inputs_sweep(struct front *f, uint64_t now_ns);

/* --- inputs_legacy.c: a client that is sent requests --------------------------- */

/* true: c is to be freed. */
bool legacy_ask(struct front *f, struct call *c, const struct asks *a);
/* A JSON-RPC answer came from a client: ignored unless it is waited for. */
void legacy_answer(struct sink *from, struct json_object *msg);
/* Its requests are over.  why: a sentence. */
void legacy_withdraw(struct call *c, const char *why);
void legacy_sweep(struct front *f, uint64_t now_ns);

#endif
