#ifndef SBX_FRONT_SINK_H
#define SBX_FRONT_SINK_H

/*
 * Where messages for a client go, and which client that is.  A sink knows its
 * framing: a line of a stream, the body or an event of an HTTP answer.
 */

#include "sbxd/front/front.h"

struct http_session;
struct sbx_http_head;

/*
 * One conversation: a line connection, an HTTP session, or a single request of
 * a revision that has no sessions.  Request ids are its own.
 */
struct client {
	uint64_t principal;	/* handle, 0 until the monitor said it */
	enum rev_id rev;	/* what initialize selected, or REV_NONE */
	uint32_t can;		/* enum sbx_client_can, as initialize said */
	uint8_t log_level;	/* enum sbx_mcp_level: the least it wants */
	uint8_t profile;	/* SBX_PROFILE_* of its own; 0: the front's */
	unsigned ncalls;	/* in flight */
	/* Where goes what answers no request; NULL, also what it returns:
	 * there is no such place (now). */
	struct sink *(*events)(struct client *who);
};

struct sink {
	struct front *f;
	struct client *client;	/* borrowed */
	const struct sbx_http_head *http;	/* of this request; NULL: lines */
	/* The message under way; what a framing has sent already may stand
	 * before it. */
	struct sbx_buf out;
	/* The message that was appended to out is whole: frame it, send it.
	 * last: it is the answer to the request that this sink is for. */
	void (*send)(struct sink *s, bool last);
	/* pending went to 0: nothing will be sent any more.  May free s. */
	void (*idle)(struct sink *s);		/* NULL: does not matter */
	bool batched;		/* it gathers the answers of a batch */
	unsigned pending;	/* calls that will answer here */
	int error;		/* code of the JSON-RPC error, 0: a result */
};

/* A call was entered, and is forgotten, answered or not. */
static inline void
sink_hold(struct sink *s)
{
	s->pending++;
}

static inline void
sink_release(struct sink *s)
{
	if (--s->pending == 0 && s->idle != NULL)
		s->idle(s);
}

#endif
