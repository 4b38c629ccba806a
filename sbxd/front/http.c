#include "sbxd/front/http.h"

#include "common/base/log.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/inputs.h"
#include "sbxd/front/methods_tools.h"
#include "sbxd/front/reply.h"
#include "sbxd/front/subs.h"
#include "sbxd/front/tasks.h"

#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#ifndef SWEEP_S
#define SWEEP_S 10
#endif
#define BODY_KEEP (256u << 10)

static void drop_body(struct conn *c);
static void on_post(struct conn *c);
static void on_get(struct conn *c);
static void on_delete(struct conn *c);
static void on_pair(struct conn *c);
static void on_pair_post(struct conn *c);

struct http_route {
	const char *path, *method;
	void (*fn)(struct conn *c);	/* with the body, and a known user */
	bool json;		/* its body is a JSON-RPC message */
	bool both;		/* it is answered by JSON or by events */
	bool events;		/* it is answered by events */
};
static const struct http_route routes[] = {
	{ "/mcp", "POST", on_post, .json = true, .both = true },
	{ "/mcp", "GET", on_get, .events = true },
	{ "/mcp", "DELETE", on_delete },
	{ "/sse", "GET", on_pair, .events = true },
	{ "/messages", "POST", on_pair_post, .json = true },
};

/* --- answers ------------------------------------------------------------------- */

static const char *
phrase(int status)
{
	static const struct {
		int status;
		const char *text;
	} phrases[] = {
		{ 200, "OK" }, { 202, "Accepted" }, { 204, "No Content" },
		{ 400, "Bad Request" }, { 401, "Unauthorized" },
		{ 403, "Forbidden" }, { 404, "Not Found" },
		{ 405, "Method Not Allowed" }, { 406, "Not Acceptable" },
		{ 409, "Conflict" }, { 411, "Length Required" },
		{ 413, "Content Too Large" },
		{ 415, "Unsupported Media Type" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < SBX_NELEM(phrases); i++)
		if (phrases[i].status == status)
			return (phrases[i].text);
	return ("Error");
}

void
http_respond(struct conn *c, int status, const char *type, const char *more,
    const char *body, size_t len)
{
	struct sbx_buf *b = &c->sink.out;

	(void)sbx_buf_printf(b, "HTTP/1.1 %d %s\r\n", status, phrase(status));
	if (type != NULL)
		(void)sbx_buf_printf(b, "Content-Type: %s\r\n", type);
	/* 204 has no body and says so (RFC 9110 section 8.6) */
	if (status != 204)
		(void)sbx_buf_printf(b, "Content-Length: %zu\r\n", len);
	(void)sbx_buf_printf(b, "Cache-Control: no-store\r\n%s%s\r\n",
	    c->http->head.close ? "Connection: close\r\n" : "", more);
	if (!c->http->bodiless)
		(void)sbx_buf_add(b, body, len);
	conn_sent(c);
	http_answered(c);
}

/* The body is a JSON-RPC error without an id, which clients can show. */
void
http_refuse(struct conn *c, int status, const char *fmt, ...)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sbx_buf_init(&b, 4096);
	reply_error_text(&b, RPC_INVALID_REQUEST, text);
	/* what is left of the request is not looked for */
	if (c->http->state != HTTP_ANSWER)
		c->http->head.close = true;
	http_respond(c, status, "application/json", status == 401 ?
	    "WWW-Authenticate: Bearer realm=\"sbx\"\r\n" : "", b.data, b.len);
}

void
http_answered(struct conn *c)
{
	struct http *h = c->http;

	h->closing = h->closing || h->head.close;
	free(h->text);
	h->text = NULL;
	drop_body(c);
	http_user_put(h->user);
	h->user = NULL;
	sbx_buf_init(&h->body, SBX_MAX_JSON + 1);
	h->state = HTTP_HEAD;
	c->line_ns = sbx_mono_ns();
	/* not from within: what comes next is looked at by the loop */
	if (c->state != CONN_DEAD && !c->feeding && (h->closing ||
	    c->in.len > c->in_off))
		event_active(c->ev_next, EV_TIMEOUT, 0);
}

int
http_status(const struct sink *s)
{
	static const struct {
		int code, modern, legacy;
	} map[] = {
		{ RPC_METHOD_NOT_FOUND, 404, 200 },
		{ RPC_PARSE_ERROR, 400, 400 },
		{ RPC_INVALID_REQUEST, 400, 400 },
		{ RPC_INVALID_PARAMS, 400, 200 },
		{ RPC_UNSUPPORTED_VERSION, 400, 400 },
		{ RPC_HEADER_MISMATCH, 400, 400 },
		{ RPC_MISSING_CAPABILITY, 400, 400 },
	};
	bool legacy = s->client->rev != REV_NONE;

	for (size_t i = 0; i < SBX_NELEM(map); i++)
		if (map[i].code == s->error)
			return (legacy ? map[i].legacy : map[i].modern);
	return (200);
}

/* --- what can be said from the head alone ---------------------------------------- */

static bool
accepts(const struct sbx_http_head *h, const char *type)
{
	const char *p, *end, *comma, *semi;
	size_t slash = (size_t)(strchr(type, '/') - type) + 1;
	struct sbx_text t;

	for (unsigned i = 0; i < h->nheaders; i++) {
		if (!sbx_text_is_nocase(h->headers[i].name, "accept"))
			continue;
		p = h->headers[i].value.p;
		end = p + h->headers[i].value.len;
		for (; p < end; p = comma + 1) {
			comma = memchr(p, ',', (size_t)(end - p));
			comma = comma != NULL ? comma : end;
			semi = memchr(p, ';', (size_t)(comma - p));
			semi = semi != NULL ? semi : comma;
			while (p < semi && (*p == ' ' || *p == '\t'))
				p++;
			while (semi > p && (semi[-1] == ' ' || semi[-1] == '\t'))
				semi--;
			t = (struct sbx_text){ p, (size_t)(semi - p) };
			if (sbx_text_is_nocase(t, type) ||
			    sbx_text_is(t, "*/*") || (t.len == slash + 1 &&
			    t.p[slash] == '*' &&
			    strncasecmp(t.p, type, slash) == 0))
				return (true);
		}
	}
	return (false);
}

static bool
is_json(const struct sbx_http_head *h)
{
	struct sbx_text t = sbx_http_header(h, "content-type", NULL);
	const char *semi = t.p == NULL ? NULL : memchr(t.p, ';', t.len);

	if (semi != NULL)
		t.len = (size_t)(semi - t.p);
	while (t.len > 0 && t.p[t.len - 1] == ' ')
		t.len--;
	return (sbx_text_is_nocase(t, "application/json"));
}

/* true: refused, and answered. */
static bool
refuse_route(struct conn *c)
{
	const struct sbx_http_head *h = &c->http->head;
	char allow[64] = "Allow: ";
	struct sbx_text asked = h->path;
	bool path = false;

	c->http->route = NULL;
	if (asked.len > 1 && asked.p[asked.len - 1] == '/')
		asked.len--;	/* people write /mcp/, too */
	for (size_t i = 0; i < SBX_NELEM(routes); i++) {
		if (!sbx_text_is(asked, routes[i].path))
			continue;
		if (sbx_text_is(h->method, routes[i].method)) {
			c->http->route = &routes[i];
			return (false);
		}
		(void)snprintf(allow + strlen(allow),
		    sizeof(allow) - strlen(allow), "%s%s", path ? ", " : "",
		    routes[i].method);
		path = true;
	}
	if (!path) {
		/* clients look for OAuth, and show what they are told */
		http_refuse(c, 404, "Not found: MCP is at /mcp, for who shows "
		    "a bearer token (sbx token add NAME); there is no OAuth");
		return (true);
	}
	(void)snprintf(allow + strlen(allow), sizeof(allow) - strlen(allow),
	    "\r\n");
	c->http->head.close = true;
	http_respond(c, 405, NULL, allow, "", 0);
	return (true);
}

static bool
refuse_body(struct conn *c)
{
	const struct sbx_http_head *h = &c->http->head;
	const struct http_route *r = c->http->route;

	if (r->json && !is_json(h))
		http_refuse(c, 415, "Content-Type must be application/json");
	else if (r->both && (!accepts(h, "application/json") ||
	    !accepts(h, "text/event-stream")))
		http_refuse(c, 406, "Accept must list application/json and "
		    "text/event-stream");
	else if (r->events && !accepts(h, "text/event-stream"))
		http_refuse(c, 406, "Accept must list text/event-stream");
	else if (r->json && !h->chunked && !h->has_length)
		http_refuse(c, 411, "Content-Length is missing");
	else if ((h->has_length && h->length > SBX_MAX_JSON) ||
	    (!r->json && (h->chunked || h->length > 0)))
		http_refuse(c, 413, "The body is longer than %u bytes",
		    r->json ? SBX_MAX_JSON : 0);
	else
		return (false);
	return (true);
}

static bool
refuse_user(struct conn *c)
{
	struct http *h = c->http;
	int r = http_user_get(c->f, &h->head, &h->user);

	if (r == SBX_E_LIMIT)
		http_refuse(c, 503, "Too many tokens are in use, or tried");
	else if (r != 0)
		http_refuse(c, 401, "A bearer token is needed (sbx token "
		    "makes one)");
	else if (h->user->known && h->user->principal == 0)
		http_refuse(c, 401, "The bearer token is not known");
	else
		return (false);
	return (true);
}

static bool
refuse_head(struct conn *c)
{
	struct http *h = c->http;
	const char *why = http_foreign(&h->head, c->f->http_hosts);

	if (h->head.form != SBX_HTTP_ORIGIN)
		http_refuse(c, 400, "The target must be a path");
	else if (why != NULL)
		http_refuse(c, 403, "Forbidden: %s", why);
	else if (!refuse_route(c))
		return (refuse_user(c) || refuse_body(c));
	return (true);
}

/* --- bytes ----------------------------------------------------------------------- */

/* Who it is from is known: its body may come. */
static void
take_it(struct conn *c)
{
	c->http->state = HTTP_BODY;
	if (!c->http->head.expect)
		return;
	(void)sbx_buf_str(&c->sink.out, "HTTP/1.1 100 Continue\r\n\r\n");
	conn_sent(c);
}

/* The head is copied, since what is buffered moves.  0, SBX_E_AGAIN; other:
 * answered. */
static int
take_head(struct conn *c)
{
	struct http *h = c->http;
	const char *p = c->in.data + c->in_off, *why;
	size_t used, n = c->in.len - c->in_off;
	int r;

	if (n == 0)
		return (SBX_E_AGAIN);
	r = sbx_http_head(p, n, &h->head, &used, &why);
	if (r == SBX_E_AGAIN)
		return (r);
	h->bodiless = r == 0 && sbx_text_is(h->head.method, "HEAD");
	if (r != 0) {
		c->in_off = c->in.len;
		h->head.close = true;
		http_refuse(c, r == SBX_E_VERSION ? 505 : r == SBX_E_LIMIT ?
		    431 : 400, "Bad request: %s", why);
		return (r);
	}
	h->text = sbx_xcalloc(1, used);
	memcpy(h->text, p, used);
	(void)sbx_http_head(h->text, used, &h->head, &used, &why);
	c->in_off += used;
	h->chunks = (struct sbx_http_chunks){ 0 };
	if (refuse_head(c))
		return (SBX_E_POLICY);
	if (h->user->known)
		take_it(c);
	else {
		h->state = HTTP_ASK;
		(void)event_del(c->ev_in);	/* http_go_on() goes on */
	}
	return (0);
}

/* 0, or answered: one body is too long, or all of them are. */
static int
add_body(struct conn *c, const char *data, size_t len)
{
	if (c->http->body.len + len > SBX_MAX_JSON)
		http_refuse(c, 413, "The body is longer than %u bytes",
		    SBX_MAX_JSON);
	else if (c->f->bodies + len > SBX_MAX_HTTP_BODIES ||
	    c->http->user->bodies + len > SBX_MAX_HTTP_BODIES / 2)
		http_refuse(c, 503, "Too many long requests are under way");
	else {
		c->f->bodies += len;
		c->http->user->bodies += len;
		/* its limit is above what was just looked at */
		(void)sbx_buf_add(&c->http->body, data, len);
		return (0);
	}
	return (SBX_E_LIMIT);
}

static void
drop_body(struct conn *c)
{
	c->f->bodies -= c->http->body.len;
	if (c->http->user != NULL)	/* else it is empty */
		c->http->user->bodies -= c->http->body.len;
	sbx_buf_clear(&c->http->body);
}

/* 0: whole; SBX_E_AGAIN; other: answered. */
static int
take_body(struct conn *c)
{
	struct http *h = c->http;
	size_t used, len, n;
	const char *data;
	int r = 0;

	if (!h->head.chunked) {
		n = c->in.len - c->in_off;
		if (n > h->head.length - h->body.len)
			n = h->head.length - h->body.len;
		c->in_off += n;
		if (add_body(c, c->in.data + c->in_off - n, n) != 0)
			return (SBX_E_LIMIT);
		return (h->body.len == h->head.length ? 0 : SBX_E_AGAIN);
	}
	while (r == 0 && c->in.len > c->in_off) {
		r = sbx_http_chunk(&h->chunks, c->in.data + c->in_off,
		    c->in.len - c->in_off, &used, &data, &len);
		if (r < 0)
			break;
		c->in_off += used;
		if (add_body(c, data, len) != 0)
			return (SBX_E_LIMIT);
	}
	if (r < 0)
		http_refuse(c, 400, "Bad request: the chunks are not as RFC "
		    "9112 has them");
	return (r == 1 ? 0 : r == 0 ? SBX_E_AGAIN : r);
}

static void
run(struct conn *c)
{
	struct http *h = c->http;

	h->state = HTTP_ANSWER;
	h->route->fn(c);
}

/* Does it go on later?  As with lines: its answers are not read, or the
 * monitor lags behind. */
static bool
waits(struct conn *c)
{
	if (conn_unsent(c) > SBX_FRONT_OUT_MARK)
		conn_flush(c);
	if (c->state == CONN_OPEN && (monitor_lags(c->f) ||
	    conn_unsent(c) > SBX_FRONT_OUT_MARK))
		conn_set_state(c, CONN_PAUSED);
	return (c->state != CONN_OPEN);
}

/* One request after the other: the next one is read when the answer ended. */
void
http_take(struct conn *c)
{
	struct http *h = c->http;
	int r;

	while (c->state == CONN_OPEN && !h->closing) {
		if ((h->state == HTTP_HEAD || h->state == HTTP_BODY) &&
		    waits(c))
			break;
		if (h->state == HTTP_HEAD && take_head(c) == SBX_E_AGAIN)
			break;
		if (h->state == HTTP_BODY) {
			r = take_body(c);
			if (r == SBX_E_AGAIN)
				break;
			if (r == 0)
				run(c);
		}
		if (h->state == HTTP_ASK || h->state == HTTP_ANSWER)
			break;
	}
	if (h->closing)
		c->in_off = c->in.len;
	else if (c->in.len - c->in_off > SBX_HTTP_HEAD_BYTES &&
	    h->state == HTTP_ANSWER)
		conn_end(c, "it sends more than it waits for");
	c->in_seen = c->in.len;
}

void
http_go_on(struct conn *c)
{
	if (c->state == CONN_DEAD || c->http->state != HTTP_ASK)
		return;
	if (event_add(c->ev_in, NULL) != 0)
		conn_end(c, "its input cannot be watched");
	else if (c->http->user->principal == 0) {
		http_refuse(c, 401, "The bearer token is not known");
		conn_flush(c);
	} else {
		take_it(c);
		conn_take(c);
	}
}

/* --- requests ------------------------------------------------------------------------ */

/* The session that is named; false: answered. */
static bool
find_session(struct conn *c, struct http_session **ret_s)
{
	struct http *h = c->http;
	struct sbx_text id = sbx_http_header(&h->head, "mcp-session-id", NULL);

	*ret_s = NULL;
	if (id.p == NULL)
		return (true);
	*ret_s = http_session_find(c->f, id, h->user);
	if (*ret_s != NULL && (*ret_s)->pair)
		*ret_s = NULL;	/* it is known at /messages alone */
	if (*ret_s == NULL)
		http_refuse(c, 404, "Session not found");
	return (*ret_s != NULL);
}

/* A version of HTTP's own header must be one that is spoken. */
static bool
refuse_version(struct conn *c)
{
	struct sbx_text v = sbx_http_header(&c->http->head,
	    "mcp-protocol-version", NULL);

	if (v.p == NULL || rev_find(v.p, v.len) != REV_NONE)
		return (false);
	http_refuse(c, 400, "Unsupported MCP-Protocol-Version");
	return (true);
}

static struct stream *
answer_with(struct conn *c, struct http_session *s)
{
	struct stream *st = stream_new(c, s, c->http->user);

	if (st == NULL)
		http_refuse(c, 503, "Too many answers are under way");
	return (st);
}

/* "?profile=NAME", and nothing else. */
static bool
take_profile(struct conn *c, uint8_t *ret_profile)
{
	static const char name[] = "profile=";
	struct sbx_text q = c->http->head.query;
	char text[32];

	*ret_profile = 0;
	if (q.p == NULL)
		return (true);
	if (q.len > sizeof(name) - 1 && q.len < sizeof(text) &&
	    memcmp(q.p, name, sizeof(name) - 1) == 0) {
		memcpy(text, q.p, q.len);
		text[q.len] = '\0';
		if (profile_find(text + sizeof(name) - 1, ret_profile) == 0)
			return (true);
	}
	http_refuse(c, 400, "The query must be profile=implement, review or "
	    "issue");
	return (false);
}

static void
on_post(struct conn *c)
{
	struct http_session *s;
	struct stream *st;
	uint8_t profile;

	if (!take_profile(c, &profile) || !find_session(c, &s) ||
	    (s != NULL && refuse_version(c)) ||
	    (st = answer_with(c, s)) == NULL)
		return;
	if (profile != 0)
		st->sink.client->profile = profile;
	rpc_line(&st->sink, c->http->body.data != NULL ?
	    c->http->body.data : "", c->http->body.len);
	stream_settle(st);
}

/* Source: MCP revision 2025-11-25, basic/transports, listening for messages,
 * resumability. */
static void
on_get(struct conn *c)
{
	struct sbx_text last = sbx_http_header(&c->http->head, "last-event-id",
	    NULL);
	unsigned id = 0, seq = 0;
	bool get = true;
	char text[32] = "";
	struct http_session *s;
	struct stream *st = NULL;

	if (!find_session(c, &s) || refuse_version(c))
		return;
	if (s == NULL) {
		http_respond(c, 405, NULL, "Allow: POST\r\n", "", 0);
		return;
	}
	if (last.p != NULL) {
		memcpy(text, last.p, last.len < sizeof(text) ? last.len : 0);
		if (stream_event_id(text, &get, &id, &seq))
			st = stream_find(c->f, id, s);
		else
			get = false;
	}
	/* not 404, which would say that there is no such session */
	if (st == NULL && !get)
		http_refuse(c, 400, "Nothing is kept of that event");
	else if (st != NULL) {
		stream_resume(st, c, seq);
		if (st->endless)
			s->get = st;
		subs_reopened(c->f, &s->client);
	} else if ((st = stream_of_get(c, s)) == NULL)
		http_refuse(c, 503, "Too many answers are under way");
	else {
		stream_open(st);
		stream_settle(st);
		subs_reopened(c->f, &s->client);
	}
}

static void
on_delete(struct conn *c)
{
	struct http_session *s;

	if (!find_session(c, &s))
		return;
	if (s == NULL) {
		http_respond(c, 405, NULL, "Allow: POST\r\n", "", 0);
		return;
	}
	http_session_end(s);
	http_respond(c, 204, NULL, "", "", 0);
}

/* Source: MCP revision 2024-11-05, basic/transports, HTTP with SSE. */
static void
on_pair(struct conn *c)
{
	struct http_session *s = http_session_new(c->f, c->http->user);
	struct stream *st;
	char event[128];

	if (s == NULL) {
		http_refuse(c, 503, "Too many sessions");
		return;
	}
	s->pair = true;
	if ((st = answer_with(c, s)) == NULL) {
		http_session_end(s);
		return;
	}
	st->endless = true;
	s->get = st;
	stream_open(st);
	stream_settle(st);
	(void)snprintf(event, sizeof(event), "event: endpoint\n"
	    "data: /messages?session_id=%s\n\n", s->id);
	stream_event(st, event, strlen(event));
}

static void
on_pair_post(struct conn *c)
{
	static const char name[] = "session_id=";
	struct sbx_text id = c->http->head.query;
	struct http_session *s = NULL;

	if (id.p != NULL && id.len == sizeof(name) - 1 + HTTP_ID_HEX &&
	    memcmp(id.p, name, sizeof(name) - 1) == 0) {
		id.p += sizeof(name) - 1;
		id.len -= sizeof(name) - 1;
		s = http_session_find(c->f, id, c->http->user);
	}
	if (s == NULL || !s->pair || s->get == NULL) {
		http_refuse(c, 404, "Session not found");
		return;
	}
	rpc_line(&s->get->sink, c->http->body.data != NULL ?
	    c->http->body.data : "", c->http->body.len);
	http_respond(c, 202, NULL, "", "", 0);
}

/* --- life ------------------------------------------------------------------------------ */

struct http *
http_conn_new(void)
{
	struct http *h = sbx_xcalloc(1, sizeof(*h));

	sbx_buf_init(&h->body, SBX_MAX_JSON + 1);
	return (h);
}

void
http_conn_free(struct conn *c)
{
	struct http *h = c->http;

	if (h->stream != NULL)
		stream_detach(h->stream);
	drop_body(c);
	http_user_put(h->user);
	free(h->text);
	free(h);
	c->http = NULL;
}

static void
on_sweep(int fd, short what, void *arg)
{
	static const struct timeval again = { SWEEP_S, 0 };
	struct front *f = arg;
	uint64_t now = sbx_mono_ns();

	(void)fd;
	(void)what;
	tasks_sweep(f, now);
	stream_sweep(f, now);
	http_session_sweep(f, now);
	http_user_sweep(f, now);
	inputs_sweep(f, now);
	if (evtimer_add(f->sweep, &again) != 0)
		sbx_fatal("no timer for HTTP");
}

void
http_start(struct front *f)
{
	f->sweep = evtimer_new(f->base, on_sweep, f);
	if (f->sweep == NULL)
		sbx_fatal("no memory for a timer");
	on_sweep(-1, 0, f);
}

/* Behind the connections: what is left belongs to nobody. */
void
http_clear(struct front *f)
{
	while (f->sessions != NULL)
		http_session_end(f->sessions);
	while (f->streams != NULL)
		stream_free(f->streams);
	while (f->users != NULL) {
		struct http_user *u = f->users;

		f->users = u->next;
		free(u);
	}
	if (f->sweep != NULL)
		event_free(f->sweep);
	f->sweep = NULL;
}
