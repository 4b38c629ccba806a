/* Exchanges and connections that couriers get. */

#include "sbx-proxy/courier.h"

#include "common/base/log.h"
#include "sbx-proxy/dial.h"
#include "sbx-proxy/exchange.h"
#include "sbx-proxy/grant.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- an exchange ----------------------------------------------------------- */

static bool
is_open(const struct http *h)
{
	const struct grant *g;

	LIST_FOREACH(g, &h->c.l->grants, link)
		if (strcmp(g->id, h->req.grant) == 0)
			return (g->credential);
	return (false);
}

int
courier_start(struct http *h, int fd)
{
	SBX_CLEANUP(fd) int dialled = fd;
	SBX_CLEANUP(fd) int ours = -1;
	SBX_CLEANUP(fd) int theirs = -1;
	struct proxy *x = h->c.l->x;
	int pair[2];

	if (!is_open(h) || x->monitor == NULL || socketpair(AF_UNIX,
	    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		return (-1);
	ours = pair[0];
	theirs = pair[1];
	h->up.exchange = sbx_peer_next_id(x->monitor);
	LIST_INSERT_HEAD(&x->exchanges, h, exchange);
	if (sbx_send_proxy_exchange(x->monitor, h->up.exchange,
	    &(struct sbx_proxy_exchange){ .grant = h->req.grant },
	    (int[]){ dialled, theirs }) != 0)
		return (-1);
	return (sbx_steal_fd(&ours));
}

void
courier_end(struct http *h)
{
	if (h->up.exchange == 0)
		return;
	LIST_REMOVE(h, exchange);
	h->up.exchange = 0;
	h->up.told_by_ns = 0;
}

/* The monitor's word and the end of the stream come in no order. */
bool
courier_may_say(struct http *h)
{
	const uint64_t now = sbx_mono_ns();

	if (h->up.exchange == 0)
		return (false);
	if (h->up.told_by_ns == 0)
		h->up.told_by_ns = now + COURIER_SAY_S * UINT64_C(1000000000);
	if (now >= h->up.told_by_ns)
		return (false);
	http_hurry(h, 1);	/* a timer's clock may be behind this one */
	return (true);
}

static struct http *
http_of(struct proxy *x, uint32_t id)
{
	struct http *h;

	LIST_FOREACH(h, &x->exchanges, exchange)
		if (h->up.exchange == id)
			return (h);
	return (NULL);
}

/* Safe, since it is the monitor's word; its text is the broker's or a courier's,
 * and goes to a sandbox, so it is read as foreign. */
void
courier_none(struct proxy *x, uint32_t id,
    const struct sbx_proxy_no_exchange *q)
{
	struct http *h = id != 0 ? http_of(x, id) : NULL;
	char why[400];
	struct refusal r = { LAYER_COURIER, 502, q->code, why, "" };

	if (h == NULL || h->state != ST_RELAY || h->req.answered)
		return;
	(void)sbx_vis(why, sizeof(why), q->reason, strlen(q->reason));
	if (why[0] == '\0')
		(void)sbx_strlcpy(why, "no courier took the request",
		    sizeof(why));
	if (strcmp(q->code, "not_granted") == 0 ||
	    strcmp(q->code, "locked") == 0)
		r.status = 403;
	http_go(h, http_refuse(h, &r));
}

/* --- a connection for the monitor ------------------------------------------------- */

struct order {
	LIST_ENTRY(order) link;
	struct proxy *x;
	uint32_t id;
	struct dial *dial;	/* owned; NULL: it is over */
};

static void
not_dialled(struct proxy *x, uint32_t id, const char *code, const char *why)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "%s", why);
	if (x->monitor != NULL)
		(void)sbx_send_proxy_not_dialled(x->monitor, id,
		    &(struct sbx_proxy_not_dialled){ .code = code,
		    .reason = text }, NULL);
}

static void
order_free(struct order *o)
{
	LIST_REMOVE(o, link);
	o->x->norders--;
	dial_cancel(o->dial);
	free(o);
}

static void
on_dialled(void *ctx, int fd, const char *code, const char *why)
{
	struct order *o = ctx;
	struct proxy *x = o->x;

	o->dial = NULL;		/* it frees itself */
	if (fd < 0)
		not_dialled(x, o->id, code, why);
	else if (x->monitor != NULL)
		(void)sbx_send_proxy_dialled(x->monitor, o->id,
		    &(struct sbx_proxy_dialled){ 0 }, &fd);
	sbx_close(&fd);
	order_free(o);
}

/* NULL: what git or GitHub's API is asked of.  A lockdown does not count: tokens
 * are revoked by such connections. */
static const char *
barred(const struct proxy *x, const struct sbx_proxy_dial *q,
    struct host *ret_host)
{
	struct policy open = x->policy;
	struct verdict v;

	open.locked = false;
	if (host_read((struct sbx_text){ q->host, strlen(q->host) },
	    ret_host) != 0 || strcmp(q->host, ret_host->text) != 0 ||
	    q->port == 0 || q->port > UINT16_MAX)
		return ("the host is no canonical name");
	policy_decide(&open, POLICY_HTTPS, ret_host, (uint16_t)q->port, &v);
	if (!v.allowed || (v.how != POLICY_GIT && v.how != POLICY_GITHUB))
		return ("the host is none of git's");
	return (NULL);
}

/* Safe, since it is the monitor's word, and held to the policy all the same. */
void
courier_dial(struct proxy *x, uint32_t id, const struct sbx_proxy_dial *q)
{
	struct host host;
	const char *why = barred(x, q, &host);
	struct order *o;

	if (why != NULL) {
		not_dialled(x, id, "host_not_allowed", why);
		return;
	}
	if (x->norders == COURIER_ORDERS) {
		not_dialled(x, id, "busy", "too many are under way");
		return;
	}
	o = sbx_xcalloc(1, sizeof(*o));
	o->x = x;
	o->id = id;
	o->dial = dial_start(x, &host, (uint16_t)q->port, on_dialled, o);
	LIST_INSERT_HEAD(&x->orders, o, link);
	x->norders++;
}

void
courier_dials_end(struct proxy *x)
{
	struct order *o;

	while ((o = LIST_FIRST(&x->orders)) != NULL)
		order_free(o);
}
