#ifndef SBX_HTTP_HTTP_H
#define SBX_HTTP_HTTP_H

/*
 * Requests of HTTP/1.1, read strictly: what two readers could understand
 * differently is refused, so that nothing behind this one sees another
 * request.  One parser for all listeners of the suite.  No I/O, no state but
 * the caller's, nothing allocated: every text is a part of the head, which
 * stays the caller's and must not move while the result is used.
 * Source: RFC 9110, RFC 9112.
 */

#include "common/base/base.h"

#define SBX_HTTP_LINE_BYTES 8192u	/* request line, without its CRLF */
#define SBX_HTTP_HEAD_BYTES 65536u	/* request line and headers, all */
#define SBX_HTTP_HEADERS 100u

struct sbx_text {
	const char *p;		/* not terminated; NULL: absent */
	size_t len;
};

/* What the target is; RFC 9112 section 3.2. */
enum sbx_http_form {
	SBX_HTTP_ORIGIN,	/* "/path?query" */
	SBX_HTTP_ABSOLUTE,	/* "http://host[:port]/path?query" */
	SBX_HTTP_AUTHORITY,	/* "host:port", of CONNECT */
	SBX_HTTP_FORM_MAX
};

struct sbx_http_head {
	struct sbx_text method, target, host;
	struct sbx_text path, query;	/* of ORIGIN and ABSOLUTE; the query
					 * without its '?', NULL: there is none */
	enum sbx_http_form form;
	unsigned nheaders;
	struct {
		struct sbx_text name, value;	/* no blanks around the value */
	} headers[SBX_HTTP_HEADERS];
	bool has_length, chunked;	/* never both */
	uint64_t length;		/* bytes of the body, when has_length */
	bool close;			/* Connection: close */
	bool old;			/* CONNECT of HTTP/1.0: without a Host,
					 * its target stands for it */
	bool expect;			/* Expect: 100-continue */
};

/*
 * Read one head from the n bytes at p.  *ret_used: its bytes, the empty line
 * included; the body follows.
 * 0; SBX_E_AGAIN: more bytes are needed (only while n is below
 * SBX_HTTP_HEAD_BYTES); SBX_E_LIMIT: too long, or too many headers;
 * SBX_E_VERSION: not HTTP/1.1, nor CONNECT of HTTP/1.0, which Python before
 * 3.12 sends; SBX_E_SYNTAX: anything else, and *ret_why says
 * what, for a human, in both cases.
 */
int sbx_http_head(const char *p, size_t n, struct sbx_http_head *ret_head,
    size_t *ret_used, const char **ret_why);

/* An answer.  h: its headers and framing, nothing of a request's line. */
struct sbx_http_answer {
	struct sbx_http_head h;
	unsigned status;		/* 100..599 */
	struct sbx_text reason;		/* may be empty */
	bool old;			/* HTTP/1.0: ends with the connection */
};
/*
 * The same of an answer's head.  Neither length nor chunked: the body, if the
 * answer has one at all (RFC 9112 section 6.3), ends with the connection.
 * Refused, too: both of them, chunks in HTTP/1.0, and a body where none can be.
 */
int sbx_http_answer(const char *p, size_t n, struct sbx_http_answer *ret_answer,
    size_t *ret_used, const char **ret_why);

/* Is t an element of the list that all headers of that name are, whatever its
 * case (RFC 9110 section 5.6.1)? */
bool sbx_http_lists(const struct sbx_http_head *h, const char *name,
    struct sbx_text t);

/* The value of the first header of that name, whatever its case; p NULL:
 * there is none.  *ret_count (may be NULL): how many there are. */
struct sbx_text sbx_http_header(const struct sbx_http_head *h,
    const char *name, unsigned *ret_count);
/* Equal, and equal but for the case of ASCII letters. */
bool sbx_text_is(struct sbx_text t, const char *s);
bool sbx_text_is_nocase(struct sbx_text t, const char *s);

/* A chunked body under way; begin with zeros.  RFC 9112 section 7.1, without
 * extensions and trailers, which are refused. */
struct sbx_http_chunks {
	uint8_t state;
	uint8_t digits;
	uint64_t left;		/* of the chunk */
};
/*
 * Take what can be taken of the n bytes at p.  *ret_used: how many were; of
 * these, the *ret_len bytes at *ret_data are body (one chunk's, at most).
 * 1: the body has ended; 0: go on; SBX_E_SYNTAX.
 */
int sbx_http_chunk(struct sbx_http_chunks *c, const char *p, size_t n,
    size_t *ret_used, const char **ret_data, size_t *ret_len);

#endif
