/* The HTTP parser: what is one request to everybody, and nothing else. */
#include "common/http/http.h"
#include "tests/tap.h"

#include <string.h>

#define H "Host: a\r\n"

static struct sbx_http_head h;
static size_t used;
static const char *why;

static int
head(const char *text)
{
	return (sbx_http_head(text, strlen(text), &h, &used, &why));
}

static const struct {
	const char *name, *text;
	int r;
} heads[] = {
	{ "a path", "GET / HTTP/1.1\r\n" H "\r\n", 0 },
	{ "a query", "GET /a?b=c HTTP/1.1\r\n" H "\r\n", 0 },
	{ "absolute form", "GET http://a/b HTTP/1.1\r\n" H "\r\n", 0 },
	{ "CONNECT", "CONNECT a:443 HTTP/1.1\r\n" H "\r\n", 0 },
	{ "an empty value", "GET / HTTP/1.1\r\n" H "X:\r\n\r\n", 0 },
	{ "blanks around a value", "GET / HTTP/1.1\r\nHost: \t a \t\r\n\r\n", 0 },
	{ "a length", "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\n", 0 },
	{ "chunks", "POST / HTTP/1.1\r\n" H
	    "Transfer-Encoding: chunked\r\n\r\n", 0 },
	{ "not all of it", "GET / HTTP/1.1\r\n" H, SBX_E_AGAIN },
	{ "nothing", "", SBX_E_AGAIN },
	{ "half a line end", "GET / HTTP/1.1\r", SBX_E_AGAIN },
	{ "HTTP/1.0", "GET / HTTP/1.0\r\n" H "\r\n", SBX_E_VERSION },
	{ "HTTP/2", "PRI * HTTP/2.0\r\n\r\n", SBX_E_VERSION },
	{ "no version", "GET /\r\n" H "\r\n", SBX_E_SYNTAX },
	{ "two blanks", "GET  / HTTP/1.1\r\n" H "\r\n", SBX_E_SYNTAX },
	{ "a blank in the target", "GET /a b HTTP/1.1\r\n" H "\r\n",
	    SBX_E_SYNTAX },
	{ "a fragment", "GET /a#b HTTP/1.1\r\n" H "\r\n", SBX_E_SYNTAX },
	{ "no path", "GET a HTTP/1.1\r\n" H "\r\n", SBX_E_SYNTAX },
	{ "another scheme", "GET https://a/ HTTP/1.1\r\n" H "\r\n",
	    SBX_E_SYNTAX },
	{ "an empty line first", "\r\nGET / HTTP/1.1\r\n" H "\r\n",
	    SBX_E_SYNTAX },
	{ "a method that is no token", "G(T / HTTP/1.1\r\n" H "\r\n",
	    SBX_E_SYNTAX },
	{ "a lone LF", "GET / HTTP/1.1\n" H "\r\n", SBX_E_SYNTAX },
	{ "a lone LF in headers", "GET / HTTP/1.1\r\nHost: a\n\r\n",
	    SBX_E_SYNTAX },
	{ "a lone CR", "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", SBX_E_SYNTAX },
	{ "a folded header", "GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n",
	    SBX_E_SYNTAX },
	{ "a blank before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
	    SBX_E_SYNTAX },
	{ "no colon", "GET / HTTP/1.1\r\n" H "X\r\n\r\n", SBX_E_SYNTAX },
	{ "no name", "GET / HTTP/1.1\r\n" H ": x\r\n\r\n", SBX_E_SYNTAX },
	{ "a control character", "GET / HTTP/1.1\r\n" H "X: a\x01\r\n\r\n",
	    SBX_E_SYNTAX },
	{ "no Host", "GET / HTTP/1.1\r\nX: a\r\n\r\n", SBX_E_SYNTAX },
	{ "Host twice", "GET / HTTP/1.1\r\n" H H "\r\n", SBX_E_SYNTAX },
	{ "a blank in Host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
	    SBX_E_SYNTAX },
	{ "two lengths", "POST / HTTP/1.1\r\n" H "Content-Length: 1\r\n"
	    "content-length: 1\r\n\r\n", SBX_E_SYNTAX },
	{ "a list of lengths", "POST / HTTP/1.1\r\n" H
	    "Content-Length: 1, 1\r\n\r\n", SBX_E_SYNTAX },
	{ "a signed length", "POST / HTTP/1.1\r\n" H
	    "Content-Length: +1\r\n\r\n", SBX_E_SYNTAX },
	{ "a hex length", "POST / HTTP/1.1\r\n" H
	    "Content-Length: 0x1\r\n\r\n", SBX_E_SYNTAX },
	{ "a huge length", "POST / HTTP/1.1\r\n" H
	    "Content-Length: 18446744073709551616\r\n\r\n", SBX_E_SYNTAX },
	{ "an empty length", "POST / HTTP/1.1\r\n" H
	    "Content-Length:\r\n\r\n", SBX_E_SYNTAX },
	{ "both", "POST / HTTP/1.1\r\n" H "Content-Length: 1\r\n"
	    "Transfer-Encoding: chunked\r\n\r\n", SBX_E_SYNTAX },
	{ "identity", "POST / HTTP/1.1\r\n" H
	    "Transfer-Encoding: identity\r\n\r\n", SBX_E_SYNTAX },
	{ "chunked and more", "POST / HTTP/1.1\r\n" H
	    "Transfer-Encoding: gzip, chunked\r\n\r\n", SBX_E_SYNTAX },
	{ "chunked twice", "POST / HTTP/1.1\r\n" H
	    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
	    SBX_E_SYNTAX },
	{ "another expectation", "POST / HTTP/1.1\r\n" H
	    "Expect: x\r\n\r\n", SBX_E_SYNTAX },
};

/* No part of a good head is one, and no byte changes what was read of it. */
static void
test_cuts(void)
{
	static const char text[] = "POST /m?x HTTP/1.1\r\n" H
	    "Content-Length: 3\r\nConnection: a, close\r\n\r\nabc";
	bool good = true;

	for (size_t n = 0; n < sizeof(text) - 4; n++)
		good &= sbx_http_head(text, n, &h, &used, &why) == SBX_E_AGAIN;
	ok(good, "each beginning of a head asks for more");
	ok(sbx_http_head(text, sizeof(text) - 1, &h, &used, &why) == 0 &&
	    used == sizeof(text) - 4 && h.length == 3 && h.close &&
	    sbx_text_is(h.path, "/m") && sbx_text_is(h.query, "x") &&
	    sbx_text_is(sbx_http_header(&h, "CONNECTION", NULL), "a, close"),
	    "all of it is understood, and no byte of the body taken");
}

static void
test_limits(void)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

	sbx_buf_init(&b, 1u << 20);
	(void)sbx_buf_str(&b, "GET /");
	while (b.len <= SBX_HTTP_LINE_BYTES)
		(void)sbx_buf_str(&b, "a");
	ok(head(b.data) == SBX_E_LIMIT, "a request line that does not end");
	sbx_buf_clear(&b);
	sbx_buf_init(&b, 1u << 20);
	(void)sbx_buf_str(&b, "GET / HTTP/1.1\r\n");
	for (unsigned i = 0; i <= SBX_HTTP_HEADERS; i++)
		(void)sbx_buf_printf(&b, "x%u: y\r\n", i);
	ok(head(b.data) == SBX_E_LIMIT, "a header too many");
	sbx_buf_clear(&b);
	sbx_buf_init(&b, 1u << 20);
	(void)sbx_buf_str(&b, "GET / HTTP/1.1\r\nX: ");
	while (b.len < SBX_HTTP_HEAD_BYTES)
		(void)sbx_buf_str(&b, "a");
	ok(head(b.data) == SBX_E_LIMIT, "headers that do not end");
}

static const struct {
	const char *name, *text, *body;
	int r;
} chunked[] = {
	{ "two chunks", "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
	    "abc0123456789", 1 },
	{ "none", "0\r\n\r\n", "", 1 },
	{ "not all", "3\r\nab", "ab", 0 },
	{ "no size", "\r\nabc", "", SBX_E_SYNTAX },
	{ "an extension", "3;a=b\r\nabc\r\n0\r\n\r\n", "", SBX_E_SYNTAX },
	{ "a sign", "+3\r\nabc\r\n0\r\n\r\n", "", SBX_E_SYNTAX },
	{ "0x", "0x3\r\nabc\r\n0\r\n\r\n", "", SBX_E_SYNTAX },
	{ "2^64", "10000000000000000\r\n", "", SBX_E_SYNTAX },
	{ "a lone LF", "3\nabc\r\n0\r\n\r\n", "", SBX_E_SYNTAX },
	{ "longer than it says", "3\r\nabcd\r\n0\r\n\r\n", "abc",
	    SBX_E_SYNTAX },
	{ "a trailer", "0\r\nX: y\r\n\r\n", "", SBX_E_SYNTAX },
};

/* step bytes at a time: how it comes makes no difference. */
static int
decode(const char *text, size_t step, struct sbx_buf *body)
{
	struct sbx_http_chunks c = { 0 };
	size_t at = 0, end, n, len, taken;
	const char *data;
	int r = 0;

	for (n = strlen(text); r == 0 && at < n;) {
		end = at + step < n ? at + step : n;
		r = sbx_http_chunk(&c, text + at, end - at, &taken, &data,
		    &len);
		if (r < 0)
			return (r);
		(void)sbx_buf_add(body, data, len);
		at += taken;
	}
	return (r);
}

static void
test_chunks(void)
{
	for (size_t i = 0; i < SBX_NELEM(chunked); i++) {
		bool good = true;

		for (size_t step = 1; step < 40; step++) {
			SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

			sbx_buf_init(&b, 4096);
			good &= decode(chunked[i].text, step, &b) ==
			    chunked[i].r && b.len == strlen(chunked[i].body) &&
			    (b.len == 0 || memcmp(b.data, chunked[i].body,
			    b.len) == 0);
		}
		ok(good, "chunks: %s", chunked[i].name);
	}
}

int
main(void)
{
	tap_plan((int)SBX_NELEM(heads) + 5 + (int)SBX_NELEM(chunked));
	for (size_t i = 0; i < SBX_NELEM(heads); i++) {
		int r = head(heads[i].text);

		ok(r == heads[i].r, "%s: %s", heads[i].name,
		    r == 0 ? "taken" : sbx_error_name(r));
	}
	test_cuts();
	test_limits();
	test_chunks();
	return (tap_done());
}
