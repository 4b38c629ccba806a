#include "sbxd/front/http.h"

#include "common/base/log.h"
#include "sbxd/front/calls.h"

#include <event2/event.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/*
 * An answer: one JSON body, or events from the moment that something has to be
 * said before the end.  In a session it outlives its connection, and what it
 * said can be asked for again; elsewhere the connection's end cancels it.
 */

#define ALIVE_S 15		/* a comment, so that nobody in between ends it */
#define SSE_MS 2000		/* longer than that: events */
#define KEEP_NS UINT64_C(60000000000) /* an answer that nobody took */

static struct stream *
stream_of(struct sink *s)
{
	return ((struct stream *)((char *)s - offsetof(struct stream, sink)));
}

/* Can its client ask for what it missed? */
static bool
has_ids(const struct stream *st)
{
	return (st->session != NULL && !st->session->pair);
}

/* --- events ------------------------------------------------------------------ */

/* A chunk of the body; errors end the connection in conn_flush(). */
static void
put_chunk(struct stream *st, const char *text, size_t len)
{
	struct sbx_buf *b = &st->c->sink.out;

	(void)sbx_buf_printf(b, "%zx\r\n", len);
	(void)sbx_buf_add(b, text, len);
	(void)sbx_buf_add(b, "\r\n", 2);
	conn_sent(st->c);
}

static void
forget_first(struct stream *st)
{
	struct kept *k = st->kept;

	st->kept = k->next;
	if (st->kept == NULL)
		st->kept_end = &st->kept;
	st->kept_bytes -= k->len;
	st->sink.f->kept -= k->len;
	free(k);
}

/* Too much is kept of all: what has most gives its oldest. */
static void
forget_of_most(struct front *f)
{
	struct stream *st, *most = f->streams;

	for (st = f->streams; st != NULL; st = st->next)
		if (st->kept_bytes > most->kept_bytes)
			most = st;
	forget_first(most);
}

/* text: a whole event.  Kept where the revision lets it be asked for. */
void
stream_event(struct stream *st, const char *text, size_t len)
{
	struct kept *k;

	if (has_ids(st) && len <= SBX_HTTP_KEEP) {
		k = sbx_xcalloc(1, sizeof(*k) + len);
		k->seq = st->seq;
		k->len = len;
		memcpy(k->text, text, len);
		*st->kept_end = k;
		st->kept_end = &k->next;
		st->kept_bytes += len;
		st->sink.f->kept += len;
		while (st->kept_bytes > SBX_HTTP_KEEP)
			forget_first(st);
		while (st->sink.f->kept > SBX_MAX_HTTP_KEPT)
			forget_of_most(st->sink.f);
	}
	if (st->c != NULL)
		put_chunk(st, text, len);
}

static void
send_event(struct stream *st, const char *json, size_t len)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

	sbx_buf_init(&b, SBX_FRONT_OUT_MAX);
	st->seq++;
	st->said_ns = sbx_mono_ns();
	if (has_ids(st))
		(void)sbx_buf_printf(&b, "id: %s%u-%u\n", st->endless ? "g" :
		    "", st->id, st->seq);
	(void)sbx_buf_str(&b, "event: message\ndata: ");
	(void)sbx_buf_add(&b, json, len);
	if (sbx_buf_str(&b, "\n\n") == 0)
		stream_event(st, b.data, b.len);
	else if (st->c != NULL)
		conn_end(st->c, "a message is too long");
}

static void
end_body(struct stream *st)
{
	struct conn *c = st->c;

	st->c = NULL;
	if (c == NULL)
		return;
	c->http->stream = NULL;
	if (st->sse) {
		(void)sbx_buf_str(&c->sink.out, "0\r\n\r\n");
		conn_sent(c);
	}
	http_answered(c);
}

static void
arm(struct stream *st, unsigned ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	if (evtimer_add(st->timer, &tv) != 0)
		sbx_fatal("no timer for an answer");
}

/* How long a silent stream goes on holding its connection. */
static unsigned
held_ms(const struct stream *st)
{
	uint64_t max = st->sink.f->http_hold_s * UINT64_C(1000), passed;

	if (max == 0 || st->endless || !has_ids(st) ||
	    (revs[st->sink.client->rev].fields & REV_F_PRIMING) == 0)
		return (UINT_MAX);
	passed = (sbx_mono_ns() - st->said_ns) / 1000000;
	return (passed < max ? (unsigned)(max - passed) : 0);
}

static unsigned
next_ms(const struct stream *st)
{
	unsigned held = held_ms(st);

	return (held < ALIVE_S * 1000 ? held : ALIVE_S * 1000);
}

/*
 * The connection ends, the stream does not: its client comes back for the
 * rest, as one does whose connection broke.
 * Source: MCP revision 2025-11-25, basic/transports, sending messages.
 */
static void
let_go(struct stream *st)
{
	static const char retry[] = "retry: 1000\n\n";

	put_chunk(st, retry, sizeof(retry) - 1);
	end_body(st);
	st->used_ns = sbx_mono_ns();
}

void
stream_open(struct stream *st)
{
	char more[160] = "";

	if (st->sse || st->c == NULL)
		return;
	st->sse = true;
	if (has_ids(st))
		(void)snprintf(more, sizeof(more), "Mcp-Session-Id: %s\r\n",
		    st->session->id);
	(void)sbx_buf_printf(&st->c->sink.out, "HTTP/1.1 200 OK\r\n"
	    "Content-Type: text/event-stream\r\nCache-Control: no-store\r\n"
	    "X-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n%s\r\n",
	    more);
	conn_sent(st->c);
	/* where to go on, should the connection end before the first message;
	 * older clients take an empty event for a broken message */
	if (has_ids(st) && st->seq == 0 && st->kept == NULL &&
	    (revs[st->sink.client->rev].fields & REV_F_PRIMING)) {
		(void)snprintf(more, sizeof(more), "id: %s%u-0\nretry: 1000\n"
		    "data: \n\n", st->endless ? "g" : "", st->id);
		stream_event(st, more, strlen(more));
	}
	st->said_ns = sbx_mono_ns();
	arm(st, next_ms(st));
}

static void
on_timer(int fd, short what, void *arg)
{
	struct stream *st = arg;

	(void)fd;
	(void)what;
	if (st->c == NULL || st->done)
		return;
	if (!st->sse) {
		stream_open(st);
		return;
	}
	if (held_ms(st) == 0) {
		let_go(st);
		return;
	}
	put_chunk(st, ":\n\n", 3);
	arm(st, next_ms(st));
}

/* --- the sink ------------------------------------------------------------------ */

static void
send_body(struct stream *st)
{
	struct conn *c = st->c;
	char more[96] = "";

	st->c = NULL;
	c->http->stream = NULL;
	if (has_ids(st))
		(void)snprintf(more, sizeof(more), "Mcp-Session-Id: %s\r\n",
		    st->session->id);
	http_respond(c, http_status(&st->sink), "application/json", more,
	    st->sink.out.data, st->sink.out.len);
}

static void
stream_send(struct sink *s, bool last)
{
	struct stream *st = stream_of(s);

	if (s->out.overflow) {
		if (st->c != NULL)
			conn_end(st->c, "a message is too long");
	} else if (last && !st->sse && !st->endless && st->c != NULL)
		send_body(st);
	else if (st->c != NULL || st->sse) {
		stream_open(st);
		send_event(st, s->out.data, s->out.len);
		if (last && !st->endless)
			end_body(st);
	}
	if (last && !st->endless)
		st->done = true;
	sbx_buf_clear(&s->out);
	sbx_buf_init(&s->out, SBX_FRONT_OUT_MAX);
}

/* Nothing is under way for it any more: it was answered, or cancelled. */
static void
stream_idle(struct sink *s)
{
	struct stream *st = stream_of(s);

	if (st->endless)
		return;
	if (!st->done && st->c != NULL && !st->sse) {
		struct conn *c = st->c;

		st->c = NULL;
		c->http->stream = NULL;
		http_respond(c, 202, NULL, "", "", 0);
	} else
		end_body(st);
	st->done = true;
	st->used_ns = sbx_mono_ns();
	if (st->kept == NULL)
		stream_free(st);
}

/*
 * Is there room for another one of u?  What makes room is one that its client
 * may come back for, of who has most: nobody is kept out by what another one
 * left behind.
 */
static bool
room_for(struct front *f, const struct http_user *u)
{
	bool own = u->nstreams >= SBX_MAX_HTTP_STREAMS_USER;
	struct stream *st, *left = NULL;

	if (!own && f->nstreams < SBX_MAX_HTTP_STREAMS)
		return (true);
	for (st = f->streams; st != NULL; st = st->next) {
		if (st->c != NULL || st->sink.pending != 0 ||
		    (own && st->user != u))
			continue;
		if (left == NULL || st->user->nstreams > left->user->nstreams ||
		    (st->user->nstreams == left->user->nstreams &&
		    st->used_ns < left->used_ns))
			left = st;
	}
	if (left != NULL)
		stream_free(left);
	return (left != NULL);
}

struct stream *
stream_new(struct conn *c, struct http_session *session, struct http_user *u)
{
	struct front *f = c->f;
	struct stream *st;

	if (!room_for(f, u))
		return (NULL);
	st = sbx_xcalloc(1, sizeof(*st));
	st->sink = (struct sink){ .f = f, .http = &c->http->head,
		.client = session != NULL ? &session->client : &st->own,
		.send = stream_send, .idle = stream_idle };
	sbx_buf_init(&st->sink.out, SBX_FRONT_OUT_MAX);
	st->own.principal = u->principal;
	st->session = session;
	st->user = u;
	u->refs++;
	u->nstreams++;
	st->c = c;
	st->id = ++f->last_stream;
	st->kept_end = &st->kept;
	sink_hold(&st->sink);	/* until stream_settle() */
	st->timer = evtimer_new(f->base, on_timer, st);
	if (st->timer == NULL)
		sbx_fatal("no memory for an answer");
	arm(st, SSE_MS);
	st->next = f->streams;
	f->streams = st;
	f->nstreams++;
	c->http->stream = st;
	return (st);
}

void
stream_settle(struct stream *st)
{
	st->sink.http = NULL;	/* the head goes with its request */
	sink_release(&st->sink);
}

/* One that its client still reads, before one that it may come back for. */
static struct stream *
newest_get(const struct http_session *s)
{
	struct stream *st, *kept = NULL;

	for (st = s->f->streams; st != NULL; st = st->next) {
		if (st->session != s || !st->endless)
			continue;
		if (st->c != NULL)
			return (st);
		kept = kept != NULL ? kept : st;
	}
	return (kept);
}

void
stream_free(struct stream *st)
{
	struct front *f = st->sink.f;
	struct stream **p = &f->streams;

	st->sink.idle = NULL;
	calls_cancel_sink(f, &st->sink);
	end_body(st);
	while (*p != st)
		p = &(*p)->next;
	*p = st->next;
	f->nstreams--;
	if (st->session != NULL && st->session->get == st)
		st->session->get = newest_get(st->session);
	while (st->kept != NULL)
		forget_first(st);
	event_free(st->timer);
	sbx_buf_clear(&st->sink.out);
	st->user->nstreams--;
	http_user_put(st->user);
	free(st);
}

/* Without a session nobody can come back for it.  One of GET is kept, too: a
 * client whose network was gone goes on with it. */
void
stream_detach(struct stream *st)
{
	st->c = NULL;
	st->used_ns = sbx_mono_ns();
	if (st->session != NULL && st->session->pair)
		http_session_end(st->session);	/* and this stream */
	else if (st->session == NULL)
		stream_free(st);
	else if (st->endless)
		st->session->get = newest_get(st->session);
	else
		calls_end_listen(st->sink.f, &st->sink);	/* may free st */
}

/*
 * A client that opens another has lost the one before, whether that was seen
 * here or not.  That one is not ended at once: were it read after all, its
 * client would open it again, and end this one, for ever.
 */
struct stream *
stream_of_get(struct conn *c, struct http_session *s)
{
	struct stream *st, *oldest = NULL;
	unsigned n = 0;

	for (st = c->f->streams; st != NULL; st = st->next)
		if (st->session == s && st->endless) {
			oldest = st;
			n++;
		}
	if (n >= SBX_MAX_HTTP_GETS)
		stream_free(oldest);
	st = stream_new(c, s, c->http->user);
	if (st == NULL)
		return (NULL);
	st->endless = true;
	s->get = st;
	return (st);
}

/* --- again ------------------------------------------------------------------------ */

bool
stream_event_id(const char *text, bool *ret_get, unsigned *ret_id,
    unsigned *ret_seq)
{
	char id[16];
	size_t n;
	uint64_t a, b;

	*ret_get = *text == 'g';
	text += *ret_get;
	n = strcspn(text, "-");
	if (n >= sizeof(id) || text[n] == '\0')
		return (false);
	memcpy(id, text, n);
	id[n] = '\0';
	if (sbx_parse_u64(id, 1, UINT32_MAX, &a) != 0 ||
	    sbx_parse_u64(text + n + 1, 0, UINT32_MAX, &b) != 0)
		return (false);
	*ret_id = (unsigned)a;
	*ret_seq = (unsigned)b;
	return (true);
}

struct stream *
stream_find(struct front *f, uint32_t id, const struct http_session *s)
{
	struct stream *st;

	for (st = f->streams; st != NULL; st = st->next)
		if (st->id == id && st->session == s)
			return (st);
	return (NULL);
}

void
stream_resume(struct stream *st, struct conn *c, unsigned after)
{
	struct kept *k;

	if (st->c != NULL)	/* the client knows better that it is dead */
		end_body(st);
	st->c = c;
	c->http->stream = st;
	st->sse = false;
	stream_open(st);
	for (k = st->kept; k != NULL; k = k->next)
		if (k->seq > after)
			put_chunk(st, k->text, k->len);
	if (st->done)
		end_body(st);
}

void
stream_sweep(struct front *f, uint64_t now_ns)
{
	struct stream *st, *next;

	for (st = f->streams; st != NULL; st = next) {
		next = st->next;
		if (st->c != NULL || now_ns - st->used_ns <= KEEP_NS)
			continue;
		if (st->sink.pending == 0)
			stream_free(st);
		else	/* it was let go, and nobody came back */
			calls_end_listen(f, &st->sink);	/* may free st */
	}
}
