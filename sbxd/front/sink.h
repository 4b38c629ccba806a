#ifndef SBX_FRONT_SINK_H
#define SBX_FRONT_SINK_H

/*
 * Where messages for a client go, and which client that is.  A sink knows its
 * framing: a line of a stream, the body or an event of an HTTP answer.
 */

#include "sbxd/front/front.h"

/*
 * One conversation: a line connection, an HTTP session, or a single request of
 * a revision that has no sessions.  Request ids are its own.
 */
struct client {
	uint64_t principal;	/* handle, 0 until the monitor said it */
	enum rev_id rev;	/* what initialize selected, or REV_NONE */
	unsigned ncalls;	/* in flight */
};

struct sink {
	struct front *f;
	struct client *client;	/* borrowed */
	/* The message under way; what a framing has sent already may stand
	 * before it. */
	struct sbx_buf out;
	/* The message that was appended to out is whole: frame it, send it.
	 * last: it is the answer to the request that this sink is for. */
	void (*send)(struct sink *s, bool last);
};

#endif
