/*
 * Our request parser beside libhttp-parser, on the same heads: what ours
 * takes, the other must read the same, or a request could be one thing to us
 * and another to what is behind us.  What it takes and we do not is listed.
 * -p [FILE ...]: instead, print each head and what ours reads, for a test that
 * asks servers the same; those in the files, too.
 */
#include "common/http/http.h"
#include "tests/tap.h"

#include <stdio.h>
#include <string.h>

#define H "Host: a\r\n"
#define E "\r\n\r\n"

/* Whole heads. */
static const char *const heads[] = {
	"GET / HTTP/1.1\r\n" H "\r\n", "GET /?a=b HTTP/1.1\r\n" H "\r\n",
	"HEAD /a/b/c HTTP/1.1\r\n" H "\r\n", "PUT /%41 HTTP/1.1\r\n" H "\r\n",
	"OPTIONS /x HTTP/1.1\r\n" H "\r\n", "PATCH /x HTTP/1.1\r\n" H "\r\n",
	"OPTIONS * HTTP/1.1\r\n" H "\r\n", "GET a HTTP/1.1\r\n" H "\r\n",
	"DELETE /x;y=z HTTP/1.1\r\n" H "\r\n",
	"GET http://a/b HTTP/1.1\r\n" H "\r\n",
	"GET http://a:80/b?c HTTP/1.1\r\n" H "\r\n",
	"GET http://u@a/b HTTP/1.1\r\n" H "\r\n",
	"GET http://a HTTP/1.1\r\n" H "\r\n",
	"GET https://a/ HTTP/1.1\r\n" H "\r\n",
	"GET //a/b HTTP/1.1\r\n" H "\r\n", "GET /#f HTTP/1.1\r\n" H "\r\n",
	"CONNECT a:443 HTTP/1.1\r\n" H "\r\n", "CONNECT a HTTP/1.1\r\n" H E,
	"CONNECT http://a/ HTTP/1.1\r\n" H "\r\n",
	"CONNECT [::1]:443 HTTP/1.1\r\n" H "\r\n",
	"GET / HTTP/1.0\r\n" H "\r\n", "GET / HTTP/0.9\r\n\r\n",
	"GET / HTTP/2.0\r\n" H "\r\n", "GET / HTTP/1.2\r\n" H "\r\n",
	"GET / HTTP/11\r\n" H "\r\n", "GET / HTTP/1.1 \r\n" H "\r\n",
	"GET / http/1.1\r\n" H "\r\n", "GET /\r\n" H "\r\n", "GET\r\n\r\n",
	"GET  / HTTP/1.1\r\n" H "\r\n", "GET /  HTTP/1.1\r\n" H "\r\n",
	" GET / HTTP/1.1\r\n" H "\r\n", "\r\nGET / HTTP/1.1\r\n" H "\r\n",
	"\nGET / HTTP/1.1\r\n" H "\r\n", "GET\t/ HTTP/1.1\r\n" H "\r\n",
	"get / HTTP/1.1\r\n" H "\r\n", "GE(T / HTTP/1.1\r\n" H "\r\n",
	"MADEUP / HTTP/1.1\r\n" H "\r\n", "GETX / HTTP/1.1\r\n" H "\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /\x7f HTTP/1.1\r\n" H "\r\n",
	"GET /\xc3\xbc HTTP/1.1\r\n" H "\r\n", "GET /a b HTTP/1.1\r\n" H E,
	"GET /\x01 HTTP/1.1\r\n" H "\r\n", "GET / HTTP/1.1\n" H "\n",
	"GET / HTTP/1.1\r\nHost: a\n\r\n", "GET / HTTP/1.1\rHost: a\r\r",
	"GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost:\r\n\r\n",
	"GET / HTTP/1.1\r\n" H H "\r\n", "M-SEARCH /x HTTP/1.1\r\n" H "\r\n",
};

/* Headers, each after Host in a POST. */
static const char *const headers[] = {
	"A: b", "A:b", "A: \t b \t", "A:", "A: ", "A: b\r\nA: c", "A : b",
	"A\t: b", " A: b", "A: b\r\n c", "A: b\r\n\tc", "A", ": b", "A: b: c",
	"A: b\rc", "A: b\nc", "A: \x01", "A: \x7f", "A: \xff", "(A): b",
	"A\x0b: c", "A!#$%&'*+-.^_`|~9: b", "A@: b", "A: \"q\"", "A/B: c",
	"Content-Length: 0", "Content-Length: 5", "Content-Length: 05",
	"Content-Length:  5 ", "Content-Length: +5", "Content-Length: -5",
	"Content-Length: 0x5", "Content-Length: 5 5", "Content-Length: 5, 5",
	"Content-Length: ", "Content-Length: 5a", "Content-Length : 5",
	"Content-Length: 5\r\nContent-Length: 5",
	"Content-Length: 5\r\nContent-Length: 6",
	"Content-Length: 99999999999999999", "Content-Length: 1e1",
	"Content-Length: 999999999999999999999",
	"Content-Length: 18446744073709551616", "Content-Length: 5\x0b",
	"content-length: 7", "CONTENT-LENGTH: 8", "Content_Length: 5",
	"Content-Length\r\n: 5", "Content-Length: 5\r\n 6",
	"Transfer-Encoding: chunked", "Transfer-Encoding: Chunked",
	"transfer-encoding:chunked", "Transfer-Encoding:\tchunked",
	"Transfer-Encoding: chunked ", "Transfer-Encoding : chunked",
	"Transfer-Encoding: gzip", "Transfer-Encoding: gzip, chunked",
	"Transfer-Encoding: chunked, gzip", "Transfer-Encoding: xchunked",
	"Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity",
	"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
	"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
	"Transfer-Encoding: \"chunked\"", "Transfer-Encoding: chunked;q=1",
	"Transfer-Encoding:", ("Transfer-Encoding: \x0b" "chunked"),
	"Transfer-Encoding: chunked\r\nContent-Length: 5",
	"Content-Length: 5\r\nTransfer-Encoding: chunked",
	"Content-Length: 0\r\nTransfer-Encoding: identity",
	"Transfer-Encoding: c\r\n hunked", "X: y\r\nTransfer-Encoding: chunked",
	"Connection: close", "Connection: keep-alive", "Connection: a, close",
	"Connection: Close\r\nContent-Length: 3", "Connection: upgrade",
	"Connection: Upgrade\r\nUpgrade: h2c", "Upgrade: websocket",
	"Connection: content-length\r\nContent-Length: 5",
	"Expect: 100-continue", "Expect: x", "Trailer: x", "TE: trailers",
	"Proxy-Connection: keep-alive", "Host: b", "Cookie: a\r\nCookie: b",
};

/* The POST that has header i; text: its length. */
static size_t
with_header(size_t i, char *text, size_t size)
{
	return ((size_t)snprintf(text, size, "POST / HTTP/1.1\r\n" H
	    "%s\r\n\r\n", headers[i]));
}

/* --- -p ------------------------------------------------------------------ */

static void
print_hex(struct sbx_text t)
{
	for (size_t i = 0; i < t.len; i++)
		printf("%02x", (unsigned char)t.p[i]);
	printf(" ");
}

/* In hexadecimal the text, then 1 METHOD TARGET LENGTH|- CHUNKED CLOSE USED, or
 * 0. */
static void
print_one(const char *text, size_t n)
{
	struct sbx_http_head h;
	const char *why;
	size_t used;

	print_hex((struct sbx_text){ text, n });
	if (sbx_http_head(text, n, &h, &used, &why) != 0) {
		printf("0\n");
		return;
	}
	printf("1 ");
	print_hex(h.method);
	print_hex(h.target);
	if (h.has_length)
		printf("%llu ", (unsigned long long)h.length);
	else
		printf("- ");
	printf("%d %d %zu\n", h.chunked, h.close, used);
}

static int
print_file(const char *path)
{
	static char text[65536];
	FILE *f = fopen(path, "re");
	size_t n;

	if (f == NULL) {
		perror(path);
		return (1);
	}
	n = fread(text, 1, sizeof(text), f);
	(void)fclose(f);	/* it was only read */
	print_one(text, n);
	return (0);
}

static int
print_all(char **files)
{
	char text[1024];
	int r = 0;

	for (size_t i = 0; i < SBX_NELEM(heads); i++)
		print_one(heads[i], strlen(heads[i]));
	for (size_t i = 0; i < SBX_NELEM(headers); i++)
		print_one(text, with_header(i, text, sizeof(text)));
	for (; *files != NULL; files++)
		r |= print_file(*files);
	return (r);
}

/* --- beside libhttp-parser ----------------------------------------------- */

#ifdef HAVE_HTTP_PARSER
#include <http_parser.h>

struct seen {
	char method[32], target[256];
	unsigned nheaders;
	bool name, chunked, whole;
	bool has_length;
	uint64_t length;
};

static int
on_url(http_parser *p, const char *at, size_t n)
{
	struct seen *s = p->data;
	size_t len = strlen(s->target);

	(void)snprintf(s->target + len, sizeof(s->target) - len, "%.*s", (int)n,
	    at);
	return (0);
}

static int
on_field(http_parser *p, const char *at, size_t n)
{
	struct seen *s = p->data;

	(void)at;
	(void)n;
	s->nheaders += !s->name;
	s->name = true;
	return (0);
}

static int
on_value(http_parser *p, const char *at, size_t n)
{
	(void)at;
	(void)n;
	((struct seen *)p->data)->name = false;
	return (0);
}

static int
on_head(http_parser *p)
{
	struct seen *s = p->data;

	s->whole = true;
	s->chunked = (p->flags & F_CHUNKED) != 0;
	s->has_length = (p->flags & F_CONTENTLENGTH) != 0;
	s->length = s->has_length ? p->content_length : 0;
	(void)snprintf(s->method, sizeof(s->method), "%s",
	    http_method_str((enum http_method)p->method));
	return (0);
}

/* What the other sees; *ret_error: its word, when it takes it not. */
static bool
other(const char *text, size_t n, struct seen *s, const char **ret_error)
{
	http_parser_settings set;
	http_parser p;

	memset(s, 0, sizeof(*s));
	http_parser_settings_init(&set);
	set.on_url = on_url;
	set.on_header_field = on_field;
	set.on_header_value = on_value;
	set.on_headers_complete = on_head;
	http_parser_init(&p, HTTP_REQUEST);
	p.data = s;
	(void)http_parser_execute(&p, &set, text, n);
	*ret_error = http_errno_name(HTTP_PARSER_ERRNO(&p));
	return (s->whole);
}

/* What only the other takes, in the end. */
static unsigned looser;

static void
compare(const char *text, size_t n)
{
	struct sbx_http_head h;
	struct seen s;
	char shown[128], method[32], target[256];
	const char *why, *error;
	size_t used;
	bool theirs = other(text, n, &s, &error);
	int r = sbx_http_head(text, n, &h, &used, &why);

	(void)sbx_vis(shown, sizeof(shown), text, n);
	if (r != 0) {
		looser += theirs;
		ok(true, "%s: refused%s", shown, theirs ? ", by ours only" : "");
		return;
	}
	(void)snprintf(method, sizeof(method), "%.*s", (int)h.method.len,
	    h.method.p);
	(void)snprintf(target, sizeof(target), "%.*s", (int)h.target.len,
	    h.target.p);
	/* it knows some methods only; nothing is understood otherwise */
	if (!theirs) {
		ok(strcmp(error, "HPE_INVALID_METHOD") == 0,
		    "%s: taken by ours only (%s)", shown, error);
		return;
	}
	ok(strcmp(s.method, method) == 0 && strcmp(s.target, target) == 0 &&
	    s.nheaders == h.nheaders && s.chunked == h.chunked &&
	    s.has_length == h.has_length && s.length == h.length,
	    "%s: read the same (%u headers, %llu, %d)", shown, s.nheaders,
	    (unsigned long long)s.length, s.chunked);
}

static void
compare_all(void)
{
	char text[1024];

	tap_plan((int)(SBX_NELEM(heads) + SBX_NELEM(headers) + 1));
	for (size_t i = 0; i < SBX_NELEM(heads); i++)
		compare(heads[i], strlen(heads[i]));
	for (size_t i = 0; i < SBX_NELEM(headers); i++)
		compare(text, with_header(i, text, sizeof(text)));
	printf("# %u are taken by the other only\n", looser);
	ok(SBX_NELEM(heads) + SBX_NELEM(headers) >= 120, "of enough heads");
}
#else
static void
compare_all(void)
{
	tap_plan(1);
	skip("libhttp-parser was not there when this was built");
}
#endif

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "-p") == 0)
		return (print_all(argv + 2));
	compare_all();
	return (tap_done());
}
