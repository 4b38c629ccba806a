/*
 * A copy stream, hashed on its way from one sandbox to another.  What goes on
 * is written anew from what was understood, so that both are the same.
 */
#include "common/proto/copystream.h"
#include "sbxd/judge/judge.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

struct pass {
	struct tree *t;
	struct hasher *h;
	int in, out;
};

static uint64_t
be(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | *p++;
	return (v);
}

/* Exactly n bytes, or the stream is cut or stalls. */
static int
take(struct pass *s, void *p, size_t n)
{
	while (n > 0) {
		struct pollfd pfd = { .fd = s->in, .events = POLLIN };
		ssize_t got;

		if (poll(&pfd, 1, JUDGE_STALL_MS) == 0)
			return (tree_fail(s->t, ETIMEDOUT, "the files "
			    "stopped coming"));
		got = read(s->in, p, n);
		if (got == -1 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got <= 0)
			return (tree_fail(s->t, EPIPE, "the files were cut "
			    "off"));
		p = (char *)p + got;
		n -= (size_t)got;
	}
	return (0);
}

static int
give(struct pass *s, const void *p, size_t n)
{
	return (sbx_write_all(s->out, p, n) == 0 ? 0 : tree_fail(s->t, EPIPE,
	    "the files were not taken"));
}

static int
pass_data(struct pass *s, uint64_t size, struct id *ret_id)
{
	static char buf[128 << 10];

	hasher_begin(s->h, "blob", size);
	while (size > 0) {
		size_t n = size < sizeof(buf) ? (size_t)size : sizeof(buf);

		if (take(s, buf, n) != 0 || give(s, buf, n) != 0)
			return (-1);
		hasher_add(s->h, buf, n);
		size -= n;
	}
	hasher_end(s->h, ret_id);
	return (0);
}

/* 1: it was the end. */
static int
pass_record(struct pass *s)
{
	uint8_t h[SBX_COPY_HDR_BYTES];
	char path[SBX_COPY_MAX_PATH + 1];
	unsigned type, mode;
	struct entry *e;
	uint64_t size;
	size_t n;

	if (take(s, h, sizeof(h)) != 0)
		return (-1);
	type = h[0];
	mode = (unsigned)be(h + 1, 2);
	n = (size_t)be(h + 3, 2);
	size = be(h + 5, 8);
	if (type == SBX_COPY_T_END && n == 0 && size == 0)
		return (1);
	if ((type != SBX_COPY_T_FILE && type != SBX_COPY_T_LINK) ||
	    n > SBX_COPY_MAX_PATH ||
	    (type == SBX_COPY_T_LINK && size > SBX_COPY_MAX_PATH))
		return (tree_fail(s->t, EPROTO, "the stream is malformed"));
	if (take(s, path, n) != 0)
		return (-1);
	path[n] = '\0';
	if (strlen(path) != n)
		return (tree_fail(s->t, EPROTO, "the stream is malformed"));
	if (size > SBX_COPY_MAX_BYTES - s->t->bytes)
		return (tree_fail(s->t, EFBIG, "more bytes than a tree may "
		    "have"));
	s->t->bytes += size;
	/* git knows two modes; who unpacks shall see the same two */
	mode = (mode & 0100) != 0 ? 0755 : 0644;
	h[1] = (uint8_t)(mode >> 8);
	h[2] = (uint8_t)mode;
	e = tree_add(s->t, path, type == SBX_COPY_T_LINK ? 0120000 :
	    0100000 | mode);
	if (e == NULL || give(s, h, sizeof(h)) != 0 || give(s, path, n) != 0)
		return (-1);
	return (pass_data(s, size, &e->id));
}

int
stream_pass(struct tree *t, int in, int out)
{
	struct pass s = { .t = t, .h = hasher_new(), .in = in, .out = out };
	int r;

	while ((r = pass_record(&s)) == 0)
		;
	hasher_free(s.h);
	return (r == 1 ? 0 : -1);
}

int
stream_end(struct tree *t, int out)
{
	static const uint8_t end[SBX_COPY_HDR_BYTES] = { SBX_COPY_T_END };

	return (give(&(struct pass){ .t = t, .out = out }, end, sizeof(end)));
}
