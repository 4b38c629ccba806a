/* What the proxy takes out of heads, and how bodies are framed anew. */
#include "sbx-proxy/body.h"
#include "sbx-proxy/strip.h"
#include "tests/tap.h"

#include <event2/buffer.h>
#include <string.h>

/* --- queries ------------------------------------------------------------- */

static const struct {
	const char *query, *left;	/* query NULL: none */
} queries[] = {
	{ NULL, "" }, { "", "?" }, { "a=b", "?a=b" }, { "a&b", "?a&b" },
	{ "a=b&c=d", "?a=b&c=d" }, { "a;b", "?a;b" }, { "a&", "?a&" },
	{ "token=x", "" }, { "TOKEN=x", "" }, { "token", "" },
	{ "access_token=x&a=b", "?a=b" }, { "a=b&access_token=x", "?a=b" },
	{ "a=b&client_secret=x&c=d", "?a=b&c=d" },
	{ "a=b;token=x;c=d", "?a=b;c=d" }, { "a;token=x&c", "?a&c" },
	{ "api_key=1&apikey=2&key=3&private_token=4", "" },
	{ "t%6fken=x", "" }, { "%74%4f%4B%45%4e=x", "" }, { "+token=x", "" },
	{ "%20token%20=x", "" }, { "token%00=x", "" }, { "token[]=x", "" },
	{ "token%5b0%5d=x", "" }, { "a=token", "?a=token" },
	{ "tokens=x", "?tokens=x" }, { "xtoken=y", "?xtoken=y" },
	{ "t%6gken=x", "?t%6gken=x" }, { "keyword=x", "?keyword=x" },
	{ "=token", "?=token" }, { "%", "?%" }, { "%7", "?%7" },
	{ "X-Amz-Signature=x", "?X-Amz-Signature=x" },
};

static void
test_queries(void)
{
	for (size_t i = 0; i < SBX_NELEM(queries); i++) {
		SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
		const char *q = queries[i].query;

		sbx_buf_init(&b, 256);
		strip_query((struct sbx_text){ q, q == NULL ? 0 : strlen(q) },
		    &b);
		ok(b.len == strlen(queries[i].left) && (b.len == 0 ||
		    memcmp(b.data, queries[i].left, b.len) == 0),
		    "\"%s\" goes on as \"%s\" (\"%s\")", q == NULL ? "-" : q,
		    queries[i].left, b.len > 0 ? b.data : "");
	}
}

/* --- requests ------------------------------------------------------------ */

static const struct {
	const char *in, *out;	/* headers; NULL: it is dropped */
} headers[] = {
	{ "Accept: */*", "Accept: */*" }, { "Git-Protocol: version=2",
	    "Git-Protocol: version=2" },
	{ "Content-Encoding: gzip", "Content-Encoding: gzip" },
	{ "Accept-Encoding: gzip", "Accept-Encoding: gzip" },
	{ "Range: bytes=0-1", "Range: bytes=0-1" },
	{ "If-None-Match: \"x\"", "If-None-Match: \"x\"" },
	{ "If-Modified-Since: x", "If-Modified-Since: x" },
	{ "Content-Type: a/b", "Content-Type: a/b" },
	{ "User-Agent: x", "User-Agent: x" },
	{ "X-GitHub-Api-Version: 1", "X-GitHub-Api-Version: 1" },
	{ "Authorization: Basic x", NULL }, { "authorization: x", NULL },
	{ "Proxy-Authorization: x", NULL }, { "Cookie: a=b", NULL },
	{ "X-GitHub-Token: x", NULL }, { "x-github-stateless-s2s-token: x",
	    NULL }, { "Private-Token: x", NULL }, { "X-Api-Key: x", NULL },
	{ "X-Auth-Token: x", NULL }, { "api-key: x", NULL },
	{ "x-goog-api-key: x", NULL }, { "npm-otp: x", NULL },
	{ "Proxy-Connection: keep-alive", NULL }, { "Proxy-X: y", NULL },
	{ "Keep-Alive: 5", NULL }, { "TE: trailers", NULL },
	{ "TE: gzip", NULL }, { "Trailer: x", NULL },
	{ "HTTP2-Settings: x", NULL }, { "Upgrade: h2c", NULL },
	{ "Via: 1.1 x", NULL }, { "Expect: 100-continue", NULL },
	{ "Connection: close, X-A\r\nX-A: b", NULL },
	{ "X-A: b\r\nConnection: x-a", NULL },
	{ "X-HTTP-Method-Override: DELETE", NULL },
	{ "X-Method-Override: PUT", NULL }, { "X-Original-URL: /x", NULL },
	{ "X-Rewrite-URL: /x", NULL }, { "X-Forwarded-Host: x", NULL },
	{ "X-Forwarded-For: x", NULL }, { "Forwarded: host=x", NULL },
	{ "Content_Length: 5", NULL }, { "Transfer_Encoding: chunked", NULL },
	{ "Content-Length: 5", "Content-Length: 5" },
	{ "Transfer-Encoding: CHUNKED", "Transfer-Encoding: chunked" },
};

static void
test_headers(void)
{
	struct host host = { .kind = HOST_NAME, .text = "a.example" };
	struct sbx_http_head h;
	char in[512], want[512];
	const char *why;
	size_t used;

	for (size_t i = 0; i < SBX_NELEM(headers); i++) {
		SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
		const char *out = headers[i].out;
		int r;

		sbx_buf_init(&b, STRIP_HEAD_MAX);
		(void)snprintf(in, sizeof(in), "POST /p?q HTTP/1.1\r\n"
		    "Host: A.example.:443\r\n%s\r\n\r\n", headers[i].in);
		(void)snprintf(want, sizeof(want), "POST /p?q HTTP/1.1\r\n"
		    "Host: a.example\r\n%s%sConnection: keep-alive\r\n\r\n",
		    out == NULL ? "" : out, out == NULL ? "" : "\r\n");
		r = sbx_http_head(in, strlen(in), &h, &used, &why);
		ok(r == 0 && strip_request(&h, &host, 443, 443, &b) &&
		    strcmp(b.data, want) == 0, "%.*s %s",
		    (int)strcspn(headers[i].in, "\r"), headers[i].in,
		    out == NULL ? "is dropped" : "goes on");
	}
}

static void
test_host(void)
{
	static const char text[] = "GET http://[::1]:81/ HTTP/1.1\r\nHost: x"
	    "\r\n\r\n";
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct host host = { .kind = HOST_V6, .text = "2001:db8::1" };
	struct sbx_http_head h;
	const char *why;
	size_t used;

	sbx_buf_init(&b, STRIP_HEAD_MAX);
	ok(sbx_http_head(text, strlen(text), &h, &used, &why) == 0 &&
	    strip_request(&h, &host, 81, 80, &b) && strcmp(b.data,
	    "GET / HTTP/1.1\r\nHost: [2001:db8::1]:81\r\n"
	    "Connection: keep-alive\r\n\r\n") == 0,
	    "Host is written anew, the target in origin form");
	sbx_buf_clear(&b);
	sbx_buf_init(&b, 30);
	ok(!strip_request(&h, &host, 81, 80, &b), "what is too long is told");
}

/* --- answers ------------------------------------------------------------- */

static void
test_answer(void)
{
	static const char text[] = "HTTP/1.0 200 Fine\r\nSet-Cookie: a\r\n"
	    "Set-Cookie: b\r\nConnection: X-A\r\nX-A: b\r\nKeep-Alive: 1\r\n"
	    "Upgrade: h2c\r\nAlt-Svc: h3=\":443\"\r\nProxy-Authenticate: x\r\n"
	    "X-Auth-Token: x\r\nX-CSRF-Token: x\r\nAuthentication-Info: x\r\n"
	    "Trailer: x\r\nContent-Length: 3\r\nETag: \"e\"\r\n\r\n";
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct sbx_http_answer a;
	const char *why;
	size_t used;

	sbx_buf_init(&b, STRIP_HEAD_MAX);
	ok(sbx_http_answer(text, strlen(text), &a, &used, &why) == 0 &&
	    strip_answer(&a, false, false, &b) && strcmp(b.data,
	    "HTTP/1.1 200 Fine\r\nETag: \"e\"\r\nContent-Length: 3\r\n"
	    "Connection: keep-alive\r\n\r\n") == 0,
	    "an answer's head is written anew, without what it hands out");
	sbx_buf_clear(&b);
	sbx_buf_init(&b, STRIP_HEAD_MAX);
	ok(strip_answer(&a, true, true, &b) &&
	    strstr(b.data, "Content-Length") == NULL && strstr(b.data,
	    "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n") != NULL,
	    "in chunks, and closing");
}

/* --- bodies -------------------------------------------------------------- */

static const struct {
	const char *name, *head, *in, *out;
	bool to_head;		/* the request was HEAD */
	bool ended, good;	/* the connection ended there; all came */
} bodies[] = {
	{ "of a length", "200 OK\r\nContent-Length: 5", "helloHTTP", "hello",
	    false, false, true },
	{ "that is cut", "200 OK\r\nContent-Length: 5", "hel", "hel", false,
	    true, false },
	{ "of no length", "200 OK\r\nContent-Length: 0", "HTTP", "", false,
	    false, true },
	{ "in chunks", "200 OK\r\nTransfer-Encoding: chunked",
	    "2\r\nhe\r\n03\r\nllo\r\n0\r\n\r\nHTTP",
	    "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", false, false, true },
	{ "in chunks that are cut", "200 OK\r\nTransfer-Encoding: chunked",
	    "2\r\nhe\r\n", "2\r\nhe\r\n", false, true, false },
	{ "until the end", "200 OK", "hello", "5\r\nhello\r\n0\r\n\r\n", false,
	    true, true },
	{ "of HEAD", "200 OK\r\nContent-Length: 5", "HTTP", "", true, false,
	    true },
	{ "of HEAD in chunks", "200 OK\r\nTransfer-Encoding: chunked", "HTTP",
	    "", true, false, true },
	{ "of 304", "304 No\r\nContent-Length: 5", "HTTP", "", false, false,
	    true },
	{ "of 204", "204 No", "HTTP", "", false, false, true },
};

static void
body_case(size_t i)
{
	struct evbuffer *from = evbuffer_new(), *to = evbuffer_new();
	struct sbx_http_answer a;
	struct body b;
	char head[256];
	const char *why;
	size_t used, n, want = strlen(bodies[i].out);
	bool done;
	int r;

	(void)snprintf(head, sizeof(head), "HTTP/1.1 %s\r\n\r\n",
	    bodies[i].head);
	r = sbx_http_answer(head, strlen(head), &a, &used, &why);
	(void)evbuffer_add(from, bodies[i].in, strlen(bodies[i].in));
	body_of_answer(&b, &a, bodies[i].to_head);
	done = r == 0 && body_move(&b, from, to, 1000) >= 0 && b.done;
	if (!done && bodies[i].ended)
		done = body_ended(&b, to);
	n = evbuffer_get_length(to);
	ok(done == bodies[i].good && n == want && (n == 0 ||
	    memcmp(evbuffer_pullup(to, -1), bodies[i].out, n) == 0),
	    "a body %s", bodies[i].name);
	n = evbuffer_get_length(from);
	ok(n == (strstr(bodies[i].in, "HTTP") != NULL ? 4 : 0),
	    "what follows it is left (%zu)", n);
	evbuffer_free(from);
	evbuffer_free(to);
}

/* What lies in many pieces, in steps of any size. */
static void
test_steps(void)
{
	static const char in[] = "5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n";
	bool good = true;

	for (size_t step = 1; step < sizeof(in); step++) {
		struct evbuffer *from = evbuffer_new(), *to = evbuffer_new();
		struct sbx_http_head h = { .chunked = true };
		struct body b;
		int r = 0;

		body_of_request(&b, &h);
		b.chunk = false;
		for (size_t at = 0; at < sizeof(in) - 1; at += step) {
			size_t n = sizeof(in) - 1 - at;

			(void)evbuffer_add_reference(from, in + at,
			    n < step ? n : step, NULL, NULL);
			r = body_move(&b, from, to, step);
		}
		while (r == 0 && evbuffer_get_length(from) > 0)
			r = body_move(&b, from, to, step);
		good &= r == 1 && b.bytes == 12 &&
		    evbuffer_get_length(to) == 12 &&
		    memcmp(evbuffer_pullup(to, -1), "hello, world", 12) == 0;
		evbuffer_free(from);
		evbuffer_free(to);
	}
	ok(good, "chunks in pieces of any size");
}

/* What was held back goes on framed as the rest. */
static void
test_resume(void)
{
	struct evbuffer *from = evbuffer_new(), *held = evbuffer_new(),
	    *to = evbuffer_new();
	struct sbx_http_head h = { .chunked = true };
	struct body b;

	(void)evbuffer_add(from, "3\r\nabc\r\n2\r\nde", 13);
	body_of_request(&b, &h);
	b.chunk = false;
	(void)body_move(&b, from, held, 100);
	body_resume(&b, held, to);
	(void)evbuffer_add(from, "\r\n0\r\n\r\n", 7);
	ok(body_move(&b, from, to, 100) == 1 && b.bytes == 5 &&
	    evbuffer_get_length(to) == 15 && memcmp(evbuffer_pullup(to, -1),
	    "5\r\nabcde\r\n0\r\n\r\n", 15) == 0, "a body that was held back");
	evbuffer_free(from);
	evbuffer_free(held);
	evbuffer_free(to);
}

int
main(void)
{
	tap_plan(0);
	test_queries();
	test_headers();
	test_host();
	test_answer();
	for (size_t i = 0; i < SBX_NELEM(bodies); i++)
		body_case(i);
	test_steps();
	test_resume();
	return (tap_done());
}
