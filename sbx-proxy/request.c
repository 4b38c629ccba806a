/* What a client asks for, and the verdict on it. */

#include "common/base/log.h"
#include "sbx-proxy/budget.h"
#include "sbx-proxy/exchange.h"
#include "sbx-proxy/gate.h"
#include "sbx-proxy/grant.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <string.h>

#define MEND_GRANT "A push needs a grant for exactly this change, which an " \
	"operator opens with `sbx grant`"
#define NOT_GRANTED "push_not_granted"

void
request_target(const struct http *h, char *text, size_t size)
{
	const struct conn *c = &h->c;
	const struct sbx_text *path = &h->req.head.path;
	bool v6 = c->host.kind == HOST_V6;

	if (!c->led) {
		*text = '\0';
		return;
	}
	(void)snprintf(text, size, "%s://%s%s%s:%u%.*s",
	    c->scheme == POLICY_HTTPS ? "https" : "http", v6 ? "[" : "",
	    c->host.text, v6 ? "]" : "", c->port,
	    h->req.raw == NULL ? 0 : (int)(path->len < size ? path->len : size),
	    h->req.raw == NULL ? "" : path->p);
}

/* --- its end ------------------------------------------------------------- */

static void
copy_text(char *dst, size_t size, struct sbx_text t)
{
	(void)snprintf(dst, size, "%.*s", (int)(t.len < size ? t.len : size),
	    t.p);
}

static void
tell_passed(const struct http *h, const char *end)
{
	const struct request *q = &h->req;
	char method[32], path[TARGET_SIZE];

	copy_text(method, sizeof(method), q->head.method);
	copy_text(path, sizeof(path), q->head.path);
	record_passed(&(struct record_passed){
	    .c = &h->c, .what = q->what, .method = method, .path = path,
	    .grant = q->grant, .courier = q->courier, .status = q->status, .out = q->out.bytes,
	    .in = q->in.bytes, .end = end,
	    .ms = (sbx_mono_ns() - q->began_ns) / 1000000u });
}

void
request_over(struct http *h, const char *end)
{
	if (h->req.begun)
		tell_passed(h, end);
	free(h->req.raw);
	if (h->req.push != NULL)
		evbuffer_free(h->req.push);
	h->req = (struct request){ .what = "" };
}

/* --- refusals ------------------------------------------------------------ */

static const char *
reason_of(unsigned status)
{
	static const struct { unsigned status; const char *text; } reasons[] = {
		{ 400, "Bad Request" }, { 403, "Forbidden" },
		{ 408, "Request Timeout" }, { 421, "Misdirected Request" },
		{ 431, "Request Header Fields Too Large" },
		{ 502, "Bad Gateway" }, { 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
	};

	for (size_t i = 0; i < SBX_NELEM(reasons); i++)
		if (reasons[i].status == status)
			return (reasons[i].text);
	return ("Refused");
}

void
http_refusal(struct evbuffer *out, unsigned status, const char *why,
    const char *mend, bool keep)
{
	bool blocked = status == 403 || status == 421, more;
	char body[1024];
	int n;

	more = blocked && mend != NULL && *mend != '\0';
	n = snprintf(body, sizeof(body), "%s%s.%s%s%s\n", blocked ?
	    "BLOCKED by sbx: " : "sbx: ", why, more ? " " : "",
	    more ? mend : "", more && mend[strlen(mend) - 1] != '.' ? "." : "");
	if (n >= (int)sizeof(body))
		n = sizeof(body) - 1;
	if (evbuffer_add_printf(out, "HTTP/1.1 %u %s\r\n"
	    "Content-Type: text/plain; charset=utf-8\r\n"
	    "Content-Length: %d\r\nCache-Control: no-store\r\n"
	    "Connection: %s\r\n\r\n%s", status, reason_of(status), n,
	    keep ? "keep-alive" : "close", body) < 0)
		sbx_fatal("no memory for an answer");
}

void
http_continue(struct http *h)
{
	if (evbuffer_add_printf(side_out(&h->down),
	    "HTTP/1.1 100 Continue\r\n\r\n") < 0)
		sbx_fatal("no memory for an answer");
}

/* Could another request follow this one?  Its body is not waited for, and a
 * client that sent HEAD does not wait for ours. */
static bool
may_go_on(const struct http *h)
{
	const struct request *q = &h->req;

	return (q->raw != NULL && !q->close && q->out.done &&
	    !h->down.ended && !sbx_text_is(q->head.method, "HEAD"));
}

static void
tell_denied(const struct http *h, enum layer layer, const char *code,
    const char *why)
{
	char target[TARGET_SIZE];

	request_target(h, target, sizeof(target));
	record_denied(h->c.l, layer, code, target, why);
}

enum step
http_refuse(struct http *h, const struct refusal *r)
{
	bool keep = may_go_on(h);

	tell_denied(h, r->layer, r->code, r->why);
	/* what was sent of it must not become a whole request */
	if (h->state != ST_HEAD)
		upstream_close(h);
	http_refusal(side_out(&h->down), r->status, r->why, r->mend, keep);
	request_over(h, r->code);
	return (http_enter(h, keep ? ST_HEAD : ST_DRAIN));
}

static enum step
refuse(struct http *h, enum layer layer, unsigned status, const char *code,
    const char *why, const char *mend)
{
	return (http_refuse(h, &(struct refusal){ layer, status, code, why,
	    mend }));
}

/* --- by class ------------------------------------------------------------ */

static bool
is_read(const struct http *h)
{
	return (sbx_text_is(h->req.head.method, "GET") ||
	    sbx_text_is(h->req.head.method, "HEAD"));
}

static enum step
go_registry(struct http *h)
{
	h->req.what = "registry";
	if (!is_read(h))
		return (refuse(h, LAYER_GATE, 403, "method_not_allowed",
		    "package registries are for reading: GET and HEAD only",
		    "Publishing packages is not done from a sandbox"));
	if (!h->req.out.done)
		return (refuse(h, LAYER_GATE, 403, "body_not_allowed",
		    "a request that reads has no body", ""));
	return (upstream_go(h));
}

/* after NULL: the first.  There may be one for each of several refs. */
static struct grant *
next_grant(const struct http *h, const struct grant *after)
{
	enum sbx_grant_op op = h->req.class == GATE_GIT_WRITE ?
	    SBX_GRANT_PUSH : h->req.class == GATE_GIT_READ ? SBX_GRANT_FETCH :
	    SBX_GRANT_API;

	return (grant_find(h->c.l, op, &h->c.host, h->req.repo, after));
}

static enum step
no_grant(struct http *h)
{
	char why[320];

	(void)snprintf(why, sizeof(why), "no grant is open for a%s %s of "
	    "%.160s", h->req.class == GATE_API_WRITE ? "n" : "",
	    gate_name(h->req.class), h->req.repo);
	return (refuse(h, LAYER_GRANT, 403, "no_grant", why,
	    h->req.class == GATE_GIT_WRITE ? MEND_GRANT : ""));
}

static void
take_grant(struct http *h, const struct grant *g)
{
	(void)sbx_strlcpy(h->req.grant, g->id, sizeof(h->req.grant));
	h->req.courier = g->credential;
}

bool
request_use(struct http *h)
{
	struct request *q = &h->req;
	struct grant *g;

	if (*q->grant == '\0')
		return (true);
	g = next_grant(h, NULL);
	while (g != NULL && strcmp(g->id, q->grant) != 0)
		g = next_grant(h, g);
	if (g == NULL)
		return (false);
	/* asking for the refs, or whether it would be heard, is no push */
	if (q->class != GATE_GIT_READ && (q->probe || is_read(h)))
		return (grant_read(g));
	grant_use(g);
	return (true);
}

const struct refusal budget_used_up = { LAYER_BUDGET, 403, BUDGET_CODE,
	BUDGET_WHY, "" };

uint64_t
request_budget(const struct http *h)
{
	struct listener *l = h->c.l;

	return (h->c.how != POLICY_TUNNEL ? UINT64_MAX :
	    budget_left(l, budget_slot(l, &h->c.host)));
}

void
request_spend(const struct http *h, size_t bytes)
{
	struct listener *l = h->c.l;

	if (h->c.how == POLICY_TUNNEL)
		budget_take(l, budget_slot(l, &h->c.host), bytes);
}

/* The body of a push: it must be there as it is, to be judged. */
static enum step
begin_push(struct http *h)
{
	const struct sbx_http_head *head = &h->req.head;
	unsigned n;
	struct sbx_text encoding = sbx_http_header(head, "content-encoding",
	    &n);
	struct sbx_text type = sbx_http_header(head, "content-type", NULL);

	/* one beside another counts, too: a courier would refuse it later */
	if (n > 1 || (encoding.p != NULL &&
	    !sbx_text_is_nocase(encoding, "identity")))
		return (refuse(h, LAYER_PUSH, 403, "push_encoded",
		    "the push is compressed, so its commands cannot be read",
		    "Send it without Content-Encoding"));
	if (!sbx_text_is(type, "application/x-git-receive-pack-request"))
		return (refuse(h, LAYER_PUSH, 403, "push_type",
		    "it is not of the type of a push", ""));
	h->req.push = evbuffer_new();
	if (h->req.push == NULL)
		sbx_fatal("no memory for a push");
	h->req.out.chunk = false;	/* until it is passed on */
	if (head->expect)
		http_continue(h);
	return (http_enter(h, ST_PUSH));
}

static enum step
go_write(struct http *h)
{
	struct grant *g = next_grant(h, NULL);

	if (g == NULL)
		return (no_grant(h));
	while (is_read(h) && g != NULL && !grant_reads(g))
		g = next_grant(h, g);
	if (g == NULL)
		return (refuse(h, LAYER_GRANT, 403, "grant_read_out", "the "
		    "grant was read with too often", MEND_GRANT));
	take_grant(h, g);
	if (h->req.class == GATE_GIT_WRITE && !is_read(h))
		return (begin_push(h));
	return (upstream_go(h));
}

/* Anybody may read; with a grant it is done with a credential. */
static enum step
go_read(struct http *h)
{
	struct grant *g = next_grant(h, NULL);

	if (g != NULL)
		take_grant(h, g);
	return (upstream_go(h));
}

static enum step
go_gate(struct http *h)
{
	struct request *q = &h->req;
	struct gate g;

	if (h->c.how == POLICY_GIT)
		gate_classify_git(&q->head, &g);
	else
		gate_classify(&h->c.host, &q->head, &g);
	q->what = gate_name(g.class);
	q->class = g.class;
	(void)snprintf(q->repo, sizeof(q->repo), "%s/%s", g.owner, g.repo);
	if (is_read(h) && !q->out.done)
		return (refuse(h, LAYER_GATE, 403, "body_not_allowed",
		    "a request that reads has no body", ""));
	switch (g.class) {
	case GATE_GIT_READ:
		return (go_read(h));
	case GATE_API_READ:
	case GATE_ASSET:
		return (upstream_go(h));
	case GATE_GIT_WRITE:
	case GATE_API_WRITE:
		return (go_write(h));
	case GATE_GRAPHQL:
		return (refuse(h, LAYER_GRANT, 403, "no_grant",
		    "GraphQL needs a grant", "Read with the REST API"));
	case GATE_DENIED:
	case GATE_CLASS_MAX:
		break;
	}
	return (refuse(h, LAYER_GATE, 403, "not_recognised", g.why != NULL ?
	    g.why : "it is not recognised", "Clone, fetch, download and read "
	    "the REST API of repositories"));
}

/* --- whom it is for ------------------------------------------------------ */

static enum step
go_class(struct http *h)
{
	const struct sbx_http_head *head = &h->req.head;

	if (sbx_http_header(head, "upgrade", NULL).p != NULL ||
	    sbx_http_lists(head, "connection",
	    (struct sbx_text){ "upgrade", 7 }))
		return (refuse(h, LAYER_GATE, 403, "upgrade",
		    "the request wants to change the protocol, past what can "
		    "be judged", "Ask without Upgrade"));
	switch (h->c.how) {
	case POLICY_TUNNEL:
	case POLICY_INTERCEPT:
		h->req.what = "http";
		return (upstream_go(h));
	case POLICY_REGISTRY:
		return (go_registry(h));
	case POLICY_GIT:
	case POLICY_GITHUB:
		return (go_gate(h));
	case POLICY_HOW_MAX:
		break;
	}
	sbx_fatal("a host that is led in no known way");
}

/* Where the request goes; on a plain connection its target says so. */
static bool
read_where(struct http *h)
{
	const struct sbx_http_head *head = &h->req.head;
	const char *begin = head->target.p + strlen("http://");
	struct conn *c = &h->c;

	if (h->down.ssl != NULL)
		return (true);
	c->led = host_port_read((struct sbx_text){ begin,
	    (size_t)(head->path.p - begin) }, 80, &c->host, &c->port) == 0;
	c->scheme = POLICY_HTTP;
	return (c->led);
}

/* Host must say the same: what is behind us goes by it. */
static bool
host_agrees(const struct http *h)
{
	const struct conn *c = &h->c;
	struct host host;
	uint16_t port;

	return (host_port_read(h->req.head.host, c->scheme == POLICY_HTTPS ?
	    443 : 80, &host, &port) == 0 && port == c->port &&
	    host.kind == c->host.kind && strcmp(host.text, c->host.text) == 0);
}

/* It is decided for each request anew: the policy may be another by now. */
static enum step
decide(struct http *h)
{
	struct conn *c = &h->c;
	struct verdict v;

	if (h->req.head.form != (h->down.ssl != NULL ? SBX_HTTP_ORIGIN :
	    SBX_HTTP_ABSOLUTE))
		return (refuse(h, LAYER_PARSE, 400, "bad_request",
		    h->down.ssl != NULL ? "the target is not a path" :
		    "the target is not an http:// URL", ""));
	if (!read_where(h))
		return (refuse(h, LAYER_PARSE, 400, "bad_host",
		    "the target's host is no name and no address, or has a "
		    "user before it", ""));
	if (!host_agrees(h))
		return (refuse(h, LAYER_HOST, 421, "host_mismatch",
		    "Host is not the host that the connection is for",
		    "Send the same host in both"));
	policy_decide(&c->l->x->policy, c->scheme, &c->host, c->port, &v);
	if (!v.allowed)
		return (refuse(h, LAYER_POLICY, 403, v.code, v.reason, v.mend));
	c->how = v.how;
	return (go_class(h));
}

/* --- its head ------------------------------------------------------------ */

/* n bytes at p are one: kept for as long as the request is under way. */
static void
take_head(struct http *h, const char *p, size_t n)
{
	struct request *q = &h->req;
	const char *why;
	size_t used;

	*q = (struct request){ .what = "", .raw = sbx_xcalloc(1, n) };
	memcpy(q->raw, p, n);
	(void)evbuffer_drain(side_in(&h->down), n); /* fails if frozen only */
	h->down.seen = 0;
	if (sbx_http_head(q->raw, n, &q->head, &used, &why) != 0)
		sbx_fatal("a head that was read cannot be read");
	body_of_request(&q->out, &q->head);
	q->close = q->head.close;
	q->began_ns = sbx_mono_ns();
}

static enum step
head_incomplete(struct http *h, bool first)
{
	if (h->down.ended)
		return (STEP_END);
	/* from its first byte on it has less time than a silent connection */
	if (first)
		http_hurry(h, HTTP_HEAD_S);
	return (STEP_WAIT);
}

enum step
step_head(struct http *h)
{
	struct evbuffer *in = side_in(&h->down);
	size_t n = evbuffer_get_length(in), used;
	struct sbx_http_head head;
	bool first = h->down.seen == 0;
	const char *p, *why;
	int r;

	/* refusals, too, wait for a client that does not read them */
	if (side_room(&h->down) == 0)
		return (STEP_WAIT);
	if (n == 0)
		return (h->down.ended ? STEP_END : STEP_WAIT);
	if (!side_has_line(&h->down))
		return (head_incomplete(h, first));
	n = n < SBX_HTTP_HEAD_BYTES ? n : SBX_HTTP_HEAD_BYTES;
	p = (const char *)evbuffer_pullup(in, (ev_ssize_t)n);
	r = sbx_http_head(p, n, &head, &used, &why);
	if (r == SBX_E_AGAIN)
		return (head_incomplete(h, first));
	if (r != 0)
		return (refuse(h, r == SBX_E_LIMIT ? LAYER_LIMIT : LAYER_PARSE,
		    r == SBX_E_LIMIT ? 431 : 400, "bad_request", why, ""));
	take_head(h, p, used);
	return (decide(h));
}

/* --- a push -------------------------------------------------------------- */

/* Four bytes that git sends before a long push, to learn whether it would be
 * heard: an empty list of commands. */
static bool
is_probe(const struct request *q, const char *p, size_t n)
{
	return (q->head.has_length && q->head.length == 4 && n == 4 &&
	    memcmp(p, "0000", 4) == 0);
}

static enum step
push_refused(struct http *h, int error, const char *why)
{
	if (error == SBX_E_POLICY)
		return (refuse(h, LAYER_PUSH, 403, NOT_GRANTED, why,
		    MEND_GRANT));
	return (refuse(h, LAYER_PUSH, 403, "push_unreadable", why, ""));
}

/* git shows no text that comes with a status: it gets what the host would have
 * said, if it takes that. */
static enum step
push_reported(struct http *h, const char *p, size_t n, const char *why)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct request *q = &h->req;

	sbx_buf_init(&b, 2 * PUSH_REPORT_MAX);
	if (!push_report(p, n, why, MEND_GRANT, &b))
		return (push_refused(h, SBX_E_POLICY, why));
	tell_denied(h, LAYER_PUSH, NOT_GRANTED, why);
	upstream_close(h);
	evbuffer_free(q->push);
	q->push = evbuffer_new();
	if (q->push == NULL || evbuffer_add(q->push, b.data, b.len) != 0)
		sbx_fatal("no memory for a report");
	return (http_enter(h, ST_REPORT));
}

/* The answer waits for the pack to end: after an early one git goes on with
 * the rest of the pack as a request of its own, and shows what came of that. */
enum step
step_report(struct http *h)
{
	struct request *q = &h->req;
	bool cut = body_move(&q->out, side_in(&h->down), NULL, HTTP_BUFFER) < 0;
	bool keep = may_go_on(h);

	cut |= q->out.bytes > HTTP_DRAIN_PACK;
	if (!q->out.done && !cut)
		return (h->down.ended ? STEP_END : STEP_WAIT);
	if (evbuffer_add_printf(side_out(&h->down), "HTTP/1.1 200 OK\r\n"
	    "Content-Type: application/x-git-receive-pack-result\r\n"
	    "Content-Length: %zu\r\nCache-Control: no-store\r\n"
	    "Connection: %s\r\n\r\n", evbuffer_get_length(q->push), keep ?
	    "keep-alive" : "close") < 0 ||
	    evbuffer_add_buffer(side_out(&h->down), q->push) != 0)
		sbx_fatal("no memory for an answer");
	request_over(h, NOT_GRANTED);
	return (http_enter(h, keep ? ST_HEAD : ST_DRAIN));
}

/* By the grants that there are by now.  0, taken; SBX_E_NOENT: there is none;
 * and what push_judge() returns. */
static int
judge_push(struct http *h, const char *p, size_t n, const char **ret_why)
{
	int r = SBX_E_NOENT;
	struct grant *g;
	size_t used;

	for (g = next_grant(h, NULL); g != NULL; g = next_grant(h, g)) {
		r = push_judge(p, n, &g->push, &used, ret_why);
		if (r == 0)
			take_grant(h, g);
		if (r != SBX_E_POLICY)
			break;	/* how it reads is the same to all of them */
	}
	return (r);
}

enum step
step_push(struct http *h)
{
	struct request *q = &h->req;
	struct evbuffer *in = side_in(&h->down);
	size_t n = evbuffer_get_length(q->push);
	const char *p, *why = "";
	int r;

	if (body_move(&q->out, in, q->push, PUSH_HEAD_MAX - n) < 0)
		return (push_refused(h, SBX_E_SYNTAX, "its chunks do not "
		    "parse"));
	n = evbuffer_get_length(q->push);
	p = (const char *)evbuffer_pullup(q->push, -1);
	q->probe = is_probe(q, p, n);
	if (q->probe)
		return (upstream_go(h));
	r = n == 0 ? SBX_E_AGAIN : judge_push(h, p, n, &why);
	if (r == 0)
		return (upstream_go(h));
	if (r == SBX_E_NOENT)
		return (no_grant(h));
	if (r == SBX_E_POLICY)
		return (push_reported(h, p, n, why));
	if (r != SBX_E_AGAIN)
		return (push_refused(h, r, why));
	if (q->out.done)
		return (push_refused(h, SBX_E_SYNTAX, "it ends amid its "
		    "commands"));
	return (h->down.ended ? STEP_END : STEP_WAIT);
}
