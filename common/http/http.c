#include "common/http/http.h"

#include <string.h>
#include <strings.h>

/* --- characters ------------------------------------------------------------ */

/* RFC 9110 section 5.6.2: tchar */
static bool
is_token_char(unsigned char c)
{
	return ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	    (c >= 'a' && c <= 'z') ||
	    (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL));
}

static bool
is_token(struct sbx_text t)
{
	for (size_t i = 0; i < t.len; i++)
		if (!is_token_char((unsigned char)t.p[i]))
			return (false);
	return (t.len > 0);
}

/* Visible ASCII; a target has nothing else (RFC 3986). */
static bool
is_visible(struct sbx_text t)
{
	for (size_t i = 0; i < t.len; i++)
		if (t.p[i] <= ' ' || t.p[i] > '~')
			return (false);
	return (t.len > 0);
}

/* field-content, RFC 9110 section 5.5 */
static bool
is_field(struct sbx_text t)
{
	for (size_t i = 0; i < t.len; i++)
		if (((unsigned char)t.p[i] < ' ' && t.p[i] != '\t') ||
		    t.p[i] == 0x7f)
			return (false);
	return (true);
}

bool
sbx_text_is(struct sbx_text t, const char *s)
{
	return (t.p != NULL && strlen(s) == t.len &&
	    memcmp(t.p, s, t.len) == 0);
}

bool
sbx_text_is_nocase(struct sbx_text t, const char *s)
{
	return (t.p != NULL && strlen(s) == t.len &&
	    strncasecmp(t.p, s, t.len) == 0);
}

static struct sbx_text
trim(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return ((struct sbx_text){ p, (size_t)(end - p) });
}

/* --- the request line ------------------------------------------------------- */

static const char *
split_path(struct sbx_http_head *h, const char *p, const char *end)
{
	const char *q = memchr(p, '?', (size_t)(end - p));

	if (memchr(p, '#', (size_t)(end - p)) != NULL)
		return ("the target has a fragment");
	h->path = (struct sbx_text){ p, (size_t)((q != NULL ? q : end) - p) };
	if (q != NULL)
		h->query = (struct sbx_text){ q + 1, (size_t)(end - q - 1) };
	return (NULL);
}

/* NULL, or what is wrong. */
static const char *
read_target(struct sbx_http_head *h)
{
	const char *p = h->target.p, *end = p + h->target.len, *slash;
	static const char scheme[] = "http://";

	if (!is_visible(h->target))
		return ("the target has characters that no URL has");
	if (sbx_text_is(h->method, "CONNECT")) {
		h->form = SBX_HTTP_AUTHORITY;
		return (memchr(p, '/', h->target.len) == NULL ? NULL :
		    "the target of CONNECT is not host:port");
	}
	if (*p == '/') {
		h->form = SBX_HTTP_ORIGIN;
		return (split_path(h, p, end));
	}
	h->form = SBX_HTTP_ABSOLUTE;
	if (h->target.len < sizeof(scheme) ||
	    memcmp(p, scheme, sizeof(scheme) - 1) != 0)
		return ("the target is neither a path nor an http:// URL");
	p += sizeof(scheme) - 1;
	slash = memchr(p, '/', (size_t)(end - p));
	if (slash == NULL || slash == p)
		return ("the target lacks a host or a path");
	return (split_path(h, slash, end));
}

static int
read_line(struct sbx_http_head *h, const char *p, const char *end,
    const char **ret_why)
{
	const char *sp = memchr(p, ' ', (size_t)(end - p)), *sp2;
	struct sbx_text version;

	*ret_why = "the request line is not METHOD TARGET VERSION";
	if (sp == NULL || (sp2 = memchr(sp + 1, ' ',
	    (size_t)(end - sp - 1))) == NULL)
		return (SBX_E_SYNTAX);
	h->method = (struct sbx_text){ p, (size_t)(sp - p) };
	h->target = (struct sbx_text){ sp + 1, (size_t)(sp2 - sp - 1) };
	version = (struct sbx_text){ sp2 + 1, (size_t)(end - sp2 - 1) };
	if (!is_token(h->method) || version.len != 8 ||
	    memcmp(version.p, "HTTP/", 5) != 0)
		return (SBX_E_SYNTAX);
	h->old = sbx_text_is(version, "HTTP/1.0") &&
	    sbx_text_is(h->method, "CONNECT");
	if (!h->old && !sbx_text_is(version, "HTTP/1.1")) {
		*ret_why = "only HTTP/1.1 is spoken here";
		return (SBX_E_VERSION);
	}
	*ret_why = read_target(h);
	return (*ret_why == NULL ? 0 : SBX_E_SYNTAX);
}

/* --- headers ------------------------------------------------------------------ */

/* Each has a meaning for who comes after the request's end, or for who is
 * asked: twice is once too often. */
static const char *const once[] = {
	"host", "content-length", "transfer-encoding", "content-type",
	"authorization", "proxy-authorization", "origin", "expect",
	"mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name",
	"last-event-id", NULL,
};
/* Where an answer's body ends must be said once; the rest is for who asked. */
static const char *const once_answer[] = {
	"content-length", "transfer-encoding", NULL,
};

/* What differs between a request and an answer. */
struct kind {
	int (*line)(struct sbx_http_head *h, const char *p, const char *end,
	    const char **ret_why);
	const char *const *once;
};

static const char *
add_header(struct sbx_http_head *h, const char *const *only, const char *p,
    const char *end)
{
	const char *colon = memchr(p, ':', (size_t)(end - p));
	struct sbx_text name, value;

	if (*p == ' ' || *p == '\t')
		return ("a header goes on in a second line");
	if (colon == NULL)
		return ("a header has no colon");
	name = (struct sbx_text){ p, (size_t)(colon - p) };
	value = trim(colon + 1, end);
	if (!is_token(name))
		return ("a header's name is not a token");
	if (!is_field(value))
		return ("a header has control characters");
	for (; *only != NULL; only++)
		if (sbx_text_is_nocase(name, *only) &&
		    sbx_http_header(h, *only, NULL).p != NULL)
			return ("a header is there twice");
	h->headers[h->nheaders].name = name;
	h->headers[h->nheaders++].value = value;
	return (NULL);
}

struct sbx_text
sbx_http_header(const struct sbx_http_head *h, const char *name,
    unsigned *ret_count)
{
	struct sbx_text found = { 0 };
	unsigned n = 0;

	for (unsigned i = 0; i < h->nheaders; i++)
		if (sbx_text_is_nocase(h->headers[i].name, name) && n++ == 0)
			found = h->headers[i].value;
	if (ret_count != NULL)
		*ret_count = n;
	return (found);
}

static const char *
read_length(struct sbx_http_head *h, struct sbx_text v)
{
	if (v.len == 0 || v.len > 18)	/* below 2^63 */
		return ("Content-Length is not a number");
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return ("Content-Length is not a number");
		h->length = h->length * 10 + (uint64_t)(v.p[i] - '0');
	}
	h->has_length = true;
	return (NULL);
}

static bool
list_has(struct sbx_text list, struct sbx_text t)
{
	const char *p = list.p, *end = p + list.len, *comma;
	struct sbx_text one;

	for (; p < end; p = comma + 1) {
		comma = memchr(p, ',', (size_t)(end - p));
		if (comma == NULL)
			comma = end;
		one = trim(p, comma);
		if (one.len == t.len && strncasecmp(one.p, t.p, t.len) == 0)
			return (true);
	}
	return (false);
}

bool
sbx_http_lists(const struct sbx_http_head *h, const char *name,
    struct sbx_text t)
{
	for (unsigned i = 0; i < h->nheaders; i++)
		if (sbx_text_is_nocase(h->headers[i].name, name) &&
		    list_has(h->headers[i].value, t))
			return (true);
	return (false);
}

/* Where the body ends, and whether the connection does with it: close counts
 * wherever it is in the list (RFC 9110 section 7.6.1). */
static const char *
read_framing(struct sbx_http_head *h)
{
	struct sbx_text te = sbx_http_header(h, "transfer-encoding", NULL);
	struct sbx_text cl = sbx_http_header(h, "content-length", NULL);

	if (te.p != NULL && cl.p != NULL)
		return ("there are both Transfer-Encoding and Content-Length");
	if (te.p != NULL && !sbx_text_is_nocase(te, "chunked"))
		return ("Transfer-Encoding is not chunked");
	h->chunked = te.p != NULL;
	h->close = sbx_http_lists(h, "connection",
	    (struct sbx_text){ "close", 5 });
	return (cl.p != NULL ? read_length(h, cl) : NULL);
}

/* What the headers of a request say together: the above, and who is asked. */
static const char *
read_meaning(struct sbx_http_head *h)
{
	struct sbx_text expect = sbx_http_header(h, "expect", NULL);
	const char *why;

	h->host = sbx_http_header(h, "host", NULL);
	if (h->host.p == NULL && h->old)
		h->host = h->target;
	if (h->host.p == NULL)
		return ("there is no Host");
	if (h->host.len > 0 && !is_visible(h->host))
		return ("Host has characters that no host has");
	if ((why = read_framing(h)) != NULL)
		return (why);
	if (expect.p != NULL && !sbx_text_is_nocase(expect, "100-continue"))
		return ("Expect is not 100-continue");
	h->expect = expect.p != NULL;
	return (NULL);
}

/*
 * The end of the line at p, where its CR is; NULL: it has not ended.  A CR or
 * LF alone, which some take for an end, is never one.
 */
static const char *
line_end(const char *p, const char *end, const char **ret_why)
{
	const char *lf = memchr(p, '\n', (size_t)(end - p));
	const char *cr = memchr(p, '\r', (size_t)((lf != NULL ? lf : end) - p));

	*ret_why = NULL;
	if (lf != NULL && cr != lf - 1)
		*ret_why = "a line does not end with CR LF alone";
	else if (lf == NULL && cr != NULL && cr != end - 1)
		*ret_why = "a CR stands alone";
	return (lf == NULL ? NULL : lf - 1);
}

/* Lines from p on until the empty one.  *ret_next: behind it. */
static int
read_lines(struct sbx_http_head *h, const struct kind *kind, const char *p,
    const char *end, const char **ret_next, const char **ret_why)
{
	const char *cr;
	bool first = true;
	int r;

	for (;; p = cr + 2, first = false) {
		cr = line_end(p, end, ret_why);
		if (*ret_why != NULL)
			return (SBX_E_SYNTAX);
		*ret_why = "the first line is too long";
		if (first && (size_t)((cr != NULL ? cr : end) - p) >
		    SBX_HTTP_LINE_BYTES)
			return (SBX_E_LIMIT);
		if (cr == NULL)
			return (SBX_E_AGAIN);
		*ret_next = cr + 2;
		if (cr == p && !first)
			return (0);
		if (first) {
			if ((r = kind->line(h, p, cr, ret_why)) != 0)
				return (r);
			continue;
		}
		*ret_why = "there are too many headers";
		if (h->nheaders == SBX_HTTP_HEADERS)
			return (SBX_E_LIMIT);
		*ret_why = add_header(h, kind->once, p, cr);
		if (*ret_why != NULL)
			return (SBX_E_SYNTAX);
	}
}

/* All of it but its meaning. */
static int
read_head(struct sbx_http_head *h, const struct kind *kind, const char *p,
    size_t n, size_t *ret_used, const char **ret_why)
{
	const char *next;
	int r;

	r = read_lines(h, kind, p, p + n, &next, ret_why);
	if (r == SBX_E_AGAIN && n < SBX_HTTP_HEAD_BYTES)
		return (SBX_E_AGAIN);
	if (r == SBX_E_AGAIN || (r == 0 &&
	    (size_t)(next - p) > SBX_HTTP_HEAD_BYTES)) {
		*ret_why = "the headers are too long";
		return (SBX_E_LIMIT);
	}
	if (r == 0)
		*ret_used = (size_t)(next - p);
	return (r);
}

int
sbx_http_head(const char *p, size_t n, struct sbx_http_head *ret_head,
    size_t *ret_used, const char **ret_why)
{
	static const struct kind request = { read_line, once };
	int r;

	*ret_head = (struct sbx_http_head){ 0 };
	r = read_head(ret_head, &request, p, n, ret_used, ret_why);
	if (r != 0)
		return (r);
	*ret_why = read_meaning(ret_head);
	return (*ret_why == NULL ? 0 : SBX_E_SYNTAX);
}

/* --- answers ---------------------------------------------------------------------- */

/* h is the first member of an answer. */
static int
read_status(struct sbx_http_head *h, const char *p, const char *end,
    const char **ret_why)
{
	struct sbx_http_answer *a = (struct sbx_http_answer *)(void *)h;
	size_t n = (size_t)(end - p);

	*ret_why = "the first line is not VERSION STATUS REASON";
	if (n < 12 || memcmp(p, "HTTP/", 5) != 0 || p[8] != ' ' ||
	    (n > 12 && p[12] != ' '))
		return (SBX_E_SYNTAX);
	a->old = memcmp(p + 5, "1.0", 3) == 0;
	if (!a->old && memcmp(p + 5, "1.1", 3) != 0) {
		*ret_why = "it is not HTTP/1.1";
		return (SBX_E_VERSION);
	}
	for (size_t i = 9; i < 12; i++) {
		if (p[i] < '0' || p[i] > '9')
			return (SBX_E_SYNTAX);
		a->status = a->status * 10 + (unsigned)(p[i] - '0');
	}
	if (n > 13)
		a->reason = (struct sbx_text){ p + 13, n - 13 };
	return (a->status >= 100 && a->status < 600 && is_field(a->reason) ?
	    0 : SBX_E_SYNTAX);
}

static const char *
read_answer(struct sbx_http_answer *a)
{
	const char *why = read_framing(&a->h);

	if (why != NULL)
		return (why);
	if (a->old && a->h.chunked)
		return ("there are chunks in HTTP/1.0");
	if ((a->status < 200 || a->status == 204) &&
	    (a->h.chunked || a->h.length > 0))
		return ("there is a body where none can be");
	a->h.close |= a->old;
	return (NULL);
}

int
sbx_http_answer(const char *p, size_t n, struct sbx_http_answer *ret_answer,
    size_t *ret_used, const char **ret_why)
{
	static const struct kind answer = { read_status, once_answer };
	int r;

	*ret_answer = (struct sbx_http_answer){ 0 };
	r = read_head(&ret_answer->h, &answer, p, n, ret_used, ret_why);
	if (r != 0)
		return (r);
	*ret_why = read_answer(ret_answer);
	return (*ret_why == NULL ? 0 : SBX_E_SYNTAX);
}

/* --- chunks -------------------------------------------------------------------- */

enum {
	CHUNK_SIZE,		/* in the digits of a size */
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	CHUNK_LAST_CR,		/* the empty line behind the last chunk */
	CHUNK_LAST_LF,
	CHUNK_END,
};
#define CHUNK_DIGITS 8		/* 4 GiB a chunk */

static int
hex_digit(char ch)
{
	if (ch >= '0' && ch <= '9')
		return (ch - '0');
	ch |= 0x20;
	return (ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1);
}

/* One byte outside of data.  false: it does not belong there. */
static bool
chunk_byte(struct sbx_http_chunks *c, char ch)
{
	int digit;

	switch (c->state) {
	case CHUNK_SIZE:
		digit = hex_digit(ch);
		if (digit >= 0 && c->digits < CHUNK_DIGITS) {
			c->left = c->left * 16 + (uint64_t)digit;
			c->digits++;
			return (true);
		}
		c->state = CHUNK_SIZE_LF;
		return (ch == '\r' && c->digits > 0);
	case CHUNK_SIZE_LF:
		c->state = c->left > 0 ? CHUNK_DATA : CHUNK_LAST_CR;
		return (ch == '\n');
	case CHUNK_DATA_CR:
	case CHUNK_LAST_CR:
		c->state++;
		return (ch == '\r');
	case CHUNK_DATA_LF:
		c->state = CHUNK_SIZE;
		c->digits = 0;
		return (ch == '\n');
	case CHUNK_LAST_LF:
		c->state = CHUNK_END;
		return (ch == '\n');
	}
	return (false);
}

int
sbx_http_chunk(struct sbx_http_chunks *c, const char *p, size_t n,
    size_t *ret_used, const char **ret_data, size_t *ret_len)
{
	size_t i = 0;

	*ret_data = p;
	*ret_len = 0;
	while (i < n && c->state != CHUNK_END && c->state != CHUNK_DATA)
		if (!chunk_byte(c, p[i++]))
			return (SBX_E_SYNTAX);
	if (c->state == CHUNK_DATA) {
		*ret_data = p + i;
		*ret_len = n - i < c->left ? n - i : (size_t)c->left;
		i += *ret_len;
		c->left -= *ret_len;
		if (c->left == 0)
			c->state = CHUNK_DATA_CR;
	}
	*ret_used = i;
	return (c->state == CHUNK_END);
}
