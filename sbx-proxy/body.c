#include "sbx-proxy/body.h"

#include "common/base/log.h"

#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>

#define PIECE 65536u		/* bytes of one chunk that is written, at most */
#define FRAME 24u		/* and of what stands around it */

void
body_of_request(struct body *b, const struct sbx_http_head *h)
{
	*b = (struct body){ .kind = BODY_NONE };
	if (h->chunked)
		b->kind = BODY_CHUNKED;
	else if (h->has_length && h->length > 0)
		b->kind = BODY_LENGTH;
	b->left = h->length;
	b->chunk = h->chunked;
	b->done = b->kind == BODY_NONE;
}

void
body_of_answer(struct body *b, const struct sbx_http_answer *a, bool head)
{
	body_of_request(b, &a->h);
	if (head || a->status < 200 || a->status == 204 || a->status == 304)
		*b = (struct body){ .kind = BODY_NONE, .done = true };
	else if (!a->h.chunked && !a->h.has_length)
		/* with chunks the client knows whether it got all */
		*b = (struct body){ .kind = BODY_UNTIL_CLOSE, .chunk = true };
}

/* A body with a hole in it must not look whole. */
static void
must(bool good)
{
	if (!good)
		sbx_fatal("no memory for a body");
}

/* Copied, since of pieces TLS makes records: a line of six bytes would be one,
 * and a call of the system for both who write and read it. */
static void
pass_chunk(struct evbuffer *from, struct evbuffer *to, size_t n)
{
	struct evbuffer_iovec v;
	char *p;

	must(evbuffer_reserve_space(to, (ev_ssize_t)(n + FRAME), &v, 1) == 1);
	p = v.iov_base;
	p += snprintf(p, FRAME, "%zx\r\n", n);
	must(evbuffer_remove(from, p, n) == (int)n);
	memcpy(p + n, "\r\n", 2);
	v.iov_len = (size_t)(p - (char *)v.iov_base) + n + 2;
	must(evbuffer_commit_space(to, &v, 1) == 0);
}

/* n bytes of body. */
static void
pass(struct body *b, struct evbuffer *from, struct evbuffer *to, size_t n)
{
	b->bytes += n;
	if (to == NULL) {
		(void)evbuffer_drain(from, n); /* fails if frozen only */
		return;
	}
	if (b->chunk)
		pass_chunk(from, to, n);
	else
		must(evbuffer_remove_buffer(from, to, n) == (int)n);
}

static void
finish(struct body *b, struct evbuffer *to)
{
	b->done = true;
	if (b->chunk && to != NULL)
		must(evbuffer_add(to, "0\r\n\r\n", 5) == 0);
}

/* A piece of a chunked body, as it lies in memory.  *max: less what went. */
static int
move_chunk(struct body *b, struct evbuffer *from, struct evbuffer *to,
    size_t *max)
{
	size_t n = evbuffer_get_contiguous_space(from), used, len;
	const char *p, *data;
	int r;

	if (n > *max)
		n = *max;
	p = (const char *)evbuffer_pullup(from, (ev_ssize_t)n);
	r = sbx_http_chunk(&b->chunks, p, n, &used, &data, &len);
	if (r < 0)
		return (r);
	*max -= used;
	(void)evbuffer_drain(from, used - len);
	if (len > 0)
		pass(b, from, to, len);
	if (r == 1)
		finish(b, to);
	return (r);
}

/* The same without chunks. */
static int
move_plain(struct body *b, struct evbuffer *from, struct evbuffer *to,
    size_t *max)
{
	size_t n = evbuffer_get_length(from);

	n = n < *max ? n : *max;
	n = n < PIECE ? n : PIECE;
	if (b->kind == BODY_LENGTH && n > b->left)
		n = (size_t)b->left;
	pass(b, from, to, n);
	*max -= n;
	if (b->kind != BODY_LENGTH)
		return (0);
	b->left -= n;
	if (b->left == 0)
		finish(b, to);
	return (b->done);
}

int
body_move(struct body *b, struct evbuffer *from, struct evbuffer *to,
    size_t max)
{
	size_t n = evbuffer_get_length(from);
	int r = b->done;

	/* room for its chunks, of which there are few, in one piece */
	if (b->chunk && to != NULL && n > 0)
		must(evbuffer_expand(to, (n < max ? n : max) + 8 * FRAME) == 0);
	while (r == 0 && max > 0 && evbuffer_get_length(from) > 0)
		r = b->kind == BODY_CHUNKED ? move_chunk(b, from, to, &max) :
		    move_plain(b, from, to, &max);
	return (r);
}

void
body_resume(struct body *b, struct evbuffer *held, struct evbuffer *to)
{
	size_t n = evbuffer_get_length(held);

	b->chunk = b->kind == BODY_CHUNKED;
	if (n > 0) {
		b->bytes -= n;	/* were counted when they came */
		pass(b, held, to, n);
	}
	if (b->done)
		finish(b, to);
}

bool
body_ended(struct body *b, struct evbuffer *to)
{
	if (b->kind == BODY_UNTIL_CLOSE && !b->done)
		finish(b, to);
	return (b->done);
}
