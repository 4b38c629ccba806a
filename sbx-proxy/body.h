#ifndef SBX_PROXY_BODY_H
#define SBX_PROXY_BODY_H

/*
 * A body of HTTP on its way: read as it was framed on one side, framed anew on
 * the other.  Holds nothing of it.  Source: RFC 9112 sections 6 and 7.
 */

#include "common/http/http.h"

struct evbuffer;

enum body_kind {
	BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_UNTIL_CLOSE, BODY_KIND_MAX
};

struct body {
	enum body_kind kind;
	bool chunk;		/* chunks are written */
	bool done;		/* all was read */
	uint64_t left;		/* of BODY_LENGTH */
	struct sbx_http_chunks chunks;
	uint64_t bytes;		/* of body that went through */
};

void body_of_request(struct body *b, const struct sbx_http_head *h);
/* head: the request was HEAD. */
void body_of_answer(struct body *b, const struct sbx_http_answer *a, bool head);
/*
 * What there is of from, at most about max bytes, goes to `to` (NULL: it is
 * dropped).  1: the body is done now, and to has its end; 0: go on;
 * SBX_E_SYNTAX.
 */
int body_move(struct body *b, struct evbuffer *from, struct evbuffer *to,
    size_t max);
/* All of `held`, read with chunk unset, goes to `to`, framed as the rest. */
void body_resume(struct body *b, struct evbuffer *held, struct evbuffer *to);
/* The connection that it comes from has ended.  false: amid the body. */
bool body_ended(struct body *b, struct evbuffer *to);

#endif
