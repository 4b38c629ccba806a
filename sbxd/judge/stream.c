/*
 * A copy stream, hashed on its way from one sandbox to another.  What goes on
 * is written anew from what was understood, so that both are the same.
 */
#include "common/proto/copystream.h"
#include "sbxd/judge/judge.h"
#include "sbxd/judge/stream.h"

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

static int
fail(int error, const char *why, int *ret_error, const char **ret_why)
{
	*ret_error = error;
	*ret_why = why;
	return (-1);
}

int
stream_take(int in, void *p, size_t n, int *ret_error, const char **ret_why)
{
	while (n > 0) {
		struct pollfd pfd = { .fd = in, .events = POLLIN };
		ssize_t got;

		if (poll(&pfd, 1, JUDGE_STALL_MS) == 0)
			return (fail(ETIMEDOUT, "the files stopped coming",
			    ret_error, ret_why));
		got = read(in, p, n);
		if (got == -1 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got <= 0)
			return (fail(EPIPE, "the files were cut off",
			    ret_error, ret_why));
		p = (char *)p + got;
		n -= (size_t)got;
	}
	return (0);
}

int
stream_record(int in, struct record *r, int *ret_error, const char **ret_why)
{
	static const char bad[] = "the stream is malformed";
	uint8_t h[SBX_COPY_HDR_BYTES];
	size_t n;

	if (stream_take(in, h, sizeof(h), ret_error, ret_why) != 0)
		return (-1);
	r->type = h[0];
	r->mode = (be(h + 1, 2) & 0100) != 0 ? 0755 : 0644;
	n = (size_t)be(h + 3, 2);
	r->size = be(h + 5, 8);
	if (r->type == SBX_COPY_T_END && n == 0 && r->size == 0)
		return (1);
	if ((r->type != SBX_COPY_T_FILE && r->type != SBX_COPY_T_LINK) ||
	    n > SBX_COPY_MAX_PATH ||
	    (r->type == SBX_COPY_T_LINK && r->size > SBX_COPY_MAX_PATH))
		return (fail(EPROTO, bad, ret_error, ret_why));
	if (stream_take(in, r->path, n, ret_error, ret_why) != 0)
		return (-1);
	r->path[n] = '\0';
	return (strlen(r->path) == n ? 0 : fail(EPROTO, bad, ret_error,
	    ret_why));
}

int
stream_head(int out, unsigned type, unsigned mode, const char *path,
    uint64_t size)
{
	size_t n = strlen(path);
	uint8_t h[SBX_COPY_HDR_BYTES] = { (uint8_t)type, (uint8_t)(mode >> 8),
		(uint8_t)mode, (uint8_t)(n >> 8), (uint8_t)n };

	for (int i = 0; i < 8; i++)
		h[5 + i] = (uint8_t)(size >> (56 - 8 * i));
	return (sbx_write_all(out, h, sizeof(h)) == 0 &&
	    sbx_write_all(out, path, n) == 0 ? 0 : -1);
}

static int
not_taken(struct tree *t)
{
	return (tree_fail(t, EPIPE, "the files were not taken"));
}

static int
pass_data(struct pass *s, uint64_t size, struct id *ret_id)
{
	static char buf[128 << 10];
	const char *why;
	int error;

	hasher_begin(s->h, "blob", size);
	while (size > 0) {
		size_t n = size < sizeof(buf) ? (size_t)size : sizeof(buf);

		if (stream_take(s->in, buf, n, &error, &why) != 0)
			return (tree_fail(s->t, error, "%s", why));
		if (sbx_write_all(s->out, buf, n) != 0)
			return (not_taken(s->t));
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
	struct record rec;
	struct entry *e;
	const char *why;
	int error, r;

	r = stream_record(s->in, &rec, &error, &why);
	if (r != 0)
		return (r > 0 ? r : tree_fail(s->t, error, "%s", why));
	if (rec.size > SBX_COPY_MAX_BYTES - s->t->bytes)
		return (tree_fail(s->t, EFBIG, "more bytes than a tree may "
		    "have"));
	s->t->bytes += rec.size;
	e = tree_add(s->t, rec.path, rec.type == SBX_COPY_T_LINK ? 0120000 :
	    0100000 | rec.mode);
	if (e == NULL)
		return (-1);
	if (stream_head(s->out, rec.type, rec.mode, rec.path, rec.size) != 0)
		return (not_taken(s->t));
	return (pass_data(s, rec.size, &e->id));
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
	return (stream_head(out, SBX_COPY_T_END, 0, "", 0) == 0 ? 0 :
	    not_taken(t));
}
