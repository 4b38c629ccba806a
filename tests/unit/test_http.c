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
	{ "CONNECT of HTTP/1.0", "CONNECT a:443 HTTP/1.0\r\n\r\n", 0 },
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

/* --- answers ---------------------------------------------------------------------- */

#define OK "HTTP/1.1 200 OK\r\n"

static const struct {
	const char *name, *text;
	int r;
	unsigned status;
	const char *framing;	/* "length N", "chunks", "none"; " close" */
} answers[] = {
	{ "the shortest", "HTTP/1.1 200\r\n\r\n", 0, 200, "none" },
	{ "no reason", "HTTP/1.1 200 \r\n\r\n", 0, 200, "none" },
	{ "a reason of words", "HTTP/1.1 404 Not\tFound \xe9\r\n\r\n", 0,
	    404, "none" },
	{ "a length", OK "Content-Length: 7\r\n\r\n", 0, 200, "length 7" },
	{ "chunks", OK "transfer-encoding: Chunked\r\n\r\n", 0, 200,
	    "chunks" },
	{ "close", OK "Connection: a, Close\r\n\r\n", 0, 200, "none close" },
	{ "keep-alive", OK "Connection: keep-alive\r\n\r\n", 0, 200,
	    "none" },
	{ "HTTP/1.0", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n"
	    "Content-Length: 1\r\n\r\n", 0, 200, "length 1 close" },
	{ "continue", "HTTP/1.1 100 Continue\r\n\r\n", 0, 100, "none" },
	{ "204", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 0,
	    204, "length 0" },
	{ "304 with the length of what it is not",
	    "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 0, 304,
	    "length 9" },
	{ "headers twice", OK "Set-Cookie: a\r\nSet-Cookie: b\r\n"
	    "Host: a\r\nHost: b\r\n\r\n", 0, 200, "none" },
	{ "nothing", "", SBX_E_AGAIN, 0, "" },
	{ "not all of it", OK "A: b\r\n", SBX_E_AGAIN, 0, "" },
	{ "HTTP/2", "HTTP/2 200\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "HTTP/2.0", "HTTP/2.0 200 OK\r\n\r\n", SBX_E_VERSION, 0, "" },
	{ "HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n", SBX_E_VERSION, 0, "" },
	{ "lower case", "http/1.1 200 OK\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "SSH", "SSH-2.0-OpenSSH_9.2\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "a request", "GET / HTTP/1.1\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "two digits", "HTTP/1.1 20 OK.\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "four digits", "HTTP/1.1 2000 OK\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "0", "HTTP/1.1 000 OK\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "600", "HTTP/1.1 600 OK\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "a sign", "HTTP/1.1 +20 OK\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "two blanks", "HTTP/1.1  200 OK\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "a control character in the reason",
	    "HTTP/1.1 200 O\x01K\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "a lone LF", "HTTP/1.1 200 OK\n\n", SBX_E_SYNTAX, 0, "" },
	{ "a lone LF later", OK "A: b\nC: d\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "a folded header", OK "A: b\r\n c\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "a blank before the colon", OK "Content-Length : 1\r\n\r\n",
	    SBX_E_SYNTAX, 0, "" },
	{ "two lengths", OK "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
	    SBX_E_SYNTAX, 0, "" },
	{ "the same length twice", OK "Content-Length: 1\r\n"
	    "Content-Length: 1\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "a list of lengths", OK "Content-Length: 1, 1\r\n\r\n",
	    SBX_E_SYNTAX, 0, "" },
	{ "length and chunks", OK "Content-Length: 1\r\n"
	    "Transfer-Encoding: chunked\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "gzip, chunked", OK "Transfer-Encoding: gzip, chunked\r\n\r\n",
	    SBX_E_SYNTAX, 0, "" },
	{ "chunks in HTTP/1.0", "HTTP/1.0 200 OK\r\n"
	    "Transfer-Encoding: chunked\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "a body in 204", "HTTP/1.1 204 No\r\nContent-Length: 1\r\n\r\n",
	    SBX_E_SYNTAX, 0, "" },
	{ "chunks in 100", "HTTP/1.1 100 Go\r\nTransfer-Encoding: chunked"
	    "\r\n\r\n", SBX_E_SYNTAX, 0, "" },
	{ "an empty line first", "\r\n" OK "\r\n", SBX_E_SYNTAX, 0, "" },
};

static void
test_answers(void)
{
	struct sbx_http_answer a;
	char framing[64];
	size_t len;
	int r;

	for (size_t i = 0; i < SBX_NELEM(answers); i++) {
		len = strlen(answers[i].text);
		r = sbx_http_answer(answers[i].text, len, &a, &used, &why);
		if (r != 0) {
			ok(r == answers[i].r, "answer: %s: %s",
			    answers[i].name, sbx_error_name(r));
			continue;
		}
		(void)snprintf(framing, sizeof(framing), a.h.has_length ?
		    "length %u%s" : a.h.chunked ? "chunks%.0u%s" :
		    "none%.0u%s", (unsigned)a.h.length,
		    a.h.close ? " close" : "");
		ok(answers[i].r == 0 && used == len &&
		    a.status == answers[i].status &&
		    strcmp(framing, answers[i].framing) == 0,
		    "answer: %s: %u, %s", answers[i].name, a.status, framing);
	}
}

/* One byte less is never enough, and never wrong. */
static void
test_answer_cuts(void)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n"
	    "A: b\r\n\r\n";
	struct sbx_http_answer a;
	bool good = true;

	for (size_t n = 0; n < sizeof(text) - 1; n++)
		good &= sbx_http_answer(text, n, &a, &used, &why) ==
		    SBX_E_AGAIN;
	ok(good, "an answer that is cut is not complete");
	ok(sbx_http_answer(text, sizeof(text) - 1, &a, &used, &why) == 0 &&
	    sbx_text_is(a.reason, "OK") && a.h.nheaders == 2,
	    "and whole it is");
}

static void
test_lists(void)
{
	ok(head("GET / HTTP/1.1\r\n" H "Connection: a , Upgrade,\r\n"
	    "Connection: keep-alive\r\n\r\n") == 0, "a list");
	ok(sbx_http_lists(&h, "connection", (struct sbx_text){ "upgrade", 7 }) &&
	    sbx_http_lists(&h, "Connection",
	    (struct sbx_text){ "Keep-Alive", 10 }), "has its elements");
	ok(!sbx_http_lists(&h, "connection", (struct sbx_text){ "keep", 4 }) &&
	    !sbx_http_lists(&h, "x", (struct sbx_text){ "a", 1 }),
	    "and no others");
}

int
main(void)
{
	tap_plan((int)(SBX_NELEM(heads) + 5 + SBX_NELEM(chunked) +
	    SBX_NELEM(answers) + 5));
	for (size_t i = 0; i < SBX_NELEM(heads); i++) {
		int r = head(heads[i].text);

		ok(r == heads[i].r, "%s: %s", heads[i].name,
		    r == 0 ? "taken" : sbx_error_name(r));
	}
	test_cuts();
	test_limits();
	test_chunks();
	test_answers();
	test_answer_cuts();
	test_lists();
	return (tap_done());
}
