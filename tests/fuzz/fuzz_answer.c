/*
 * What a host sends back through the proxy: the head of an answer and its
 * body, which is framed anew; and how a request is.  The first byte says which.
 * What we write must be what we read, to ourselves at least, and must have
 * nothing in it that we take out.
 */
#include "sbx-proxy/body.h"
#include "sbx-proxy/strip.h"

#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
must(bool good)
{
	if (!good)
		abort();
}

/* The chunks in b hold what is in want, and end if r is 1. */
static void
unchunk(struct evbuffer *b, struct evbuffer *want, int r)
{
	size_t n = evbuffer_get_length(b), used, len;
	const char *p = (const char *)evbuffer_pullup(b, -1), *data;
	const char *plain = (const char *)evbuffer_pullup(want, -1);
	size_t left = evbuffer_get_length(want);
	struct sbx_http_chunks c = { 0 };
	int end = 0;

	for (; n > 0; p += used, n -= used) {
		end = sbx_http_chunk(&c, p, n, &used, &data, &len);
		must(end >= 0 && len <= left &&
		    (len == 0 || memcmp(data, plain, len) == 0));
		plain = len == 0 ? plain : plain + len;
		left -= len;
		must(end == 0 || used == n);
	}
	must(left == 0 && end == (r == 1));
}

/* The same body, taken whole and in steps, the last time into chunks. */
static void
on_body(const struct sbx_http_answer *a, const uint8_t *p, size_t n,
    size_t step)
{
	struct evbuffer *from[3], *to[3];
	struct body b[3];
	int r[3] = { 0, 0, 0 };

	for (int i = 0; i < 3; i++) {
		from[i] = evbuffer_new();
		to[i] = evbuffer_new();
		body_of_answer(&b[i], a, false);
		b[i].chunk = i == 2 && !b[i].done;
		(void)evbuffer_add(from[i], p, n);
		do
			r[i] = body_move(&b[i], from[i], to[i],
			    i == 0 ? SIZE_MAX / 2 : step);
		while (r[i] == 0 && evbuffer_get_length(from[i]) > 0);
	}
	must(r[0] == r[1] && b[0].bytes == b[1].bytes);
	must(evbuffer_get_length(to[0]) == b[0].bytes);
	must(r[0] < 0 || evbuffer_get_length(from[0]) ==
	    evbuffer_get_length(from[1]));
	must(r[0] == r[2] && b[0].bytes == b[2].bytes);
	if (r[2] >= 0 && b[2].chunk)
		unchunk(to[2], to[0], r[2]);
	for (int i = 0; i < 3; i++) {
		evbuffer_free(from[i]);
		evbuffer_free(to[i]);
	}
}

static void
on_answer(const uint8_t *p, size_t n)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct sbx_http_answer a, again;
	const char *why;
	size_t used, len;

	if (sbx_http_answer((const char *)p, n, &a, &used, &why) != 0)
		return;
	must(used <= n && sbx_http_answer((const char *)p, used - 1, &again,
	    &len, &why) == SBX_E_AGAIN);
	sbx_buf_init(&b, STRIP_HEAD_MAX);
	if (!strip_answer(&a, a.h.chunked, false, &b))
		return;
	/* one more header may be one too many to us */
	if (a.h.nheaders < SBX_HTTP_HEADERS) {
		must(sbx_http_answer(b.data, b.len, &again, &len, &why) == 0);
		must(len == b.len && again.status == a.status &&
		    again.h.chunked == a.h.chunked && !again.h.close &&
		    again.h.has_length == a.h.has_length &&
		    again.h.length == a.h.length);
	}
	on_body(&a, p + used, n - used, 1 + p[0] % 7 + (n - used) / 64);
}

static void
on_request(const uint8_t *p, size_t n)
{
	static const char *const gone[] = { "authorization", "cookie",
		"proxy-authorization", "upgrade", "te", "x-forwarded-host" };
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct host host = { .kind = HOST_NAME, .text = "a" };
	struct sbx_http_head h, again;
	const char *why;
	size_t used;

	if (sbx_http_head((const char *)p, n, &h, &used, &why) != 0 ||
	    h.form == SBX_HTTP_AUTHORITY)
		return;
	sbx_buf_init(&b, STRIP_HEAD_MAX);
	if (!strip_request(&h, &host, 80, 80, &b) ||
	    h.nheaders == SBX_HTTP_HEADERS)
		return;
	must(sbx_http_head(b.data, b.len, &again, &used, &why) == 0);
	must(used == b.len && again.form == SBX_HTTP_ORIGIN &&
	    sbx_text_is(again.host, "a") && again.chunked == h.chunked &&
	    again.has_length == h.has_length && again.length == h.length &&
	    again.path.len == h.path.len);
	for (size_t i = 0; i < SBX_NELEM(gone); i++)
		must(sbx_http_header(&again, gone[i], NULL).p == NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return (0);
	if (data[0] % 2 == 0)
		on_answer(data + 1, size - 1);
	else
		on_request(data + 1, size - 1);
	return (0);
}
