/* A request on its way to the host, and its answer on the way back. */

#include "common/base/log.h"
#include "sbx-proxy/exchange.h"
#include "sbx-proxy/strip.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

static enum step
bad_answer(struct http *h, const char *code, const char *why)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "the host's answer was not "
	    "understood: %s", why);
	return (http_refuse(h, &(struct refusal){ LAYER_DIAL, 502, code, text,
	    "" }));
}

/* Part of the answer went out: its rest will not come, and the client learns
 * it by the connection's end. */
static enum step
cut_answer(struct http *h, const char *end)
{
	request_over(h, end);
	upstream_close(h);
	return (http_enter(h, ST_DRAIN));
}

/* --- the request's body -------------------------------------------------- */

static enum step
over_budget(struct http *h)
{
	char target[TARGET_SIZE];

	if (!h->req.answered)
		return (http_refuse(h, &budget_used_up));
	request_target(h, target, sizeof(target));
	record_denied(h->c.l, budget_used_up.layer, budget_used_up.code,
	    target, budget_used_up.why);
	return (cut_answer(h, budget_used_up.code));
}

static enum step
relay_request(struct http *h)
{
	static const struct refusal bad = { LAYER_PARSE, 400, "bad_body",
		"the request's chunks do not parse", "" };
	struct request *q = &h->req;
	struct evbuffer *in = side_in(&h->down);
	size_t n = evbuffer_get_length(in), max = side_room(&h->up.side);
	uint64_t left = request_budget(h);

	if (q->out.done || h->up.side.deaf)
		return (STEP_WAIT);
	if (n > 0 && left == 0)
		return (over_budget(h));
	if (body_move(&q->out, in, side_out(&h->up.side),
	    left < max ? (size_t)left : max) < 0)
		return (q->answered ? cut_answer(h, "bad_body") :
		    http_refuse(h, &bad));
	request_spend(h, n - evbuffer_get_length(in));
	if (!q->out.done && h->down.ended && evbuffer_get_length(in) == 0)
		return (STEP_END);
	return (STEP_WAIT);
}

/* --- the answer's head --------------------------------------------------- */

/* The connection ended before an answer.  One that was kept may have been
 * given up while the request was under way to it: what changes nothing and
 * can be sent again is, once. */
static enum step
lost(struct http *h)
{
	struct request *q = &h->req;

	if (courier_may_say(h))
		return (STEP_WAIT);
	if (h->up.answers == 0 || q->retried || q->out.kind != BODY_NONE ||
	    q->interim > 0 || evbuffer_get_length(side_in(&h->up.side)) > 0 ||
	    !(sbx_text_is(q->head.method, "GET") ||
	    sbx_text_is(q->head.method, "HEAD")))
		return (http_refuse(h, &(struct refusal){ LAYER_DIAL, 502,
		    "upstream_closed", "the host closed the connection before "
		    "it had answered", "" }));
	q->retried = true;
	q->begun = false;
	upstream_close(h);
	return (upstream_go(h));
}

/* A host that writes head and body apart may wait between them until we say
 * that the first came, which a kernel without anything to send puts off. */
static void
hurry_host(const struct http *h)
{
	int one = 1;

	/* it fails on a socket that is no TCP only */
	(void)setsockopt(bufferevent_getfd(h->up.side.bev), IPPROTO_TCP,
	    TCP_QUICKACK, &one, sizeof(one));
}

/* A client of git would ask for a name and a password, which nobody has here
 * and which would not be passed. */
static bool
wants_credential(const struct request *q, const struct sbx_http_answer *a)
{
	return (a->status == 401 && q->class == GATE_GIT_READ &&
	    *q->grant == '\0');
}

static enum step
not_shown(struct http *h)
{
	return (http_refuse(h, &(struct refusal){ LAYER_GRANT, 403,
	    "needs_credential", "the host shows it to nobody without a "
	    "credential, and a sandbox has none", "A repository that the "
	    "operator listed is read by the tool clone_repo, while that runs; "
	    "with fetch: true it brings a clone up to date" }));
}

static enum step
pass_head(struct http *h, const struct sbx_http_answer *a)
{
	struct request *q = &h->req;
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

	body_of_answer(&q->in, a, sbx_text_is(q->head.method, "HEAD"));
	q->last = a->h.close || q->in.kind == BODY_UNTIL_CLOSE;
	/* an answer that comes before the request's end is its end */
	q->close |= !q->out.done || h->down.ended;
	sbx_buf_init(&b, STRIP_HEAD_MAX);
	if (!strip_answer(a, q->in.chunk, q->close, &b))
		return (bad_answer(h, "bad_answer", "its head is too long"));
	if (evbuffer_add(side_out(&h->down), b.data, b.len) != 0)
		sbx_fatal("no memory for an answer");
	q->status = a->status;
	q->answered = true;
	if (!q->in.done)
		hurry_host(h);
	return (STEP_AGAIN);
}

static enum step
relay_head(struct http *h)
{
	struct side *s = &h->up.side;
	struct evbuffer *in = side_in(s);
	struct sbx_http_answer a;
	const char *p, *why;
	size_t n, used;
	int r = SBX_E_AGAIN;

	if (side_has_line(s)) {
		n = evbuffer_get_length(in);
		n = n < SBX_HTTP_HEAD_BYTES ? n : SBX_HTTP_HEAD_BYTES;
		p = (const char *)evbuffer_pullup(in, (ev_ssize_t)n);
		r = sbx_http_answer(p, n, &a, &used, &why);
	}
	if (r == SBX_E_AGAIN)
		return (s->ended ? lost(h) : STEP_WAIT);
	if (r != 0)
		return (bad_answer(h, "bad_answer", why));
	if (a.status == 101)
		return (bad_answer(h, "upgrade", "it changes the protocol"));
	s->seen = 0;
	if (wants_credential(&h->req, &a))
		return (not_shown(h));
	if (a.status >= 200) {
		enum step step = pass_head(h, &a);

		/* after a refusal there is no such buffer any more */
		if (step == STEP_AGAIN && h->state == ST_RELAY)
			(void)evbuffer_drain(in, used);
		return (step);
	}
	(void)evbuffer_drain(in, used);	/* fails if frozen only */
	if (++h->req.interim > HTTP_INTERIM)
		return (bad_answer(h, "bad_answer", "too many interim ones"));
	return (STEP_AGAIN);
}

/* --- its body ------------------------------------------------------------ */

static enum step
finish(struct http *h)
{
	struct side *s = &h->up.side;
	bool keep = h->req.out.done && !h->req.last && !s->ended && !s->deaf &&
	    h->up.exchange == 0 && evbuffer_get_length(side_in(s)) == 0;
	bool close = h->req.close || !h->req.out.done;

	request_over(h, "");
	if (keep)
		h->up.answers++;
	else
		upstream_close(h);
	s->seen = 0;
	return (http_enter(h, close ? ST_DRAIN : ST_HEAD));
}

static enum step
relay_answer(struct http *h)
{
	struct request *q = &h->req;
	struct side *s = &h->up.side;
	struct evbuffer *out = side_out(&h->down);

	if (body_move(&q->in, side_in(s), out, side_room(&h->down)) < 0)
		return (cut_answer(h, "bad_answer"));
	if (!q->in.done && s->ended && evbuffer_get_length(side_in(s)) == 0 &&
	    (s->failed || !body_ended(&q->in, out)))
		return (cut_answer(h, "upstream_closed"));
	return (q->in.done ? finish(h) : STEP_WAIT);
}

enum step
step_relay(struct http *h)
{
	enum step step = relay_request(h);

	if (step != STEP_WAIT)
		return (step);
	return (h->req.answered ? relay_answer(h) : relay_head(h));
}
