#include "sbxd/monitor/monitor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * Exchanges with a credential.  The proxy has dialled, and hands the socket and
 * a stream to us with the id of a grant; both go on, unread, to the broker,
 * which knows that grant by our word and by nobody else's.
 */

static struct exchange *
slot(struct monitor *m, uint32_t id)
{
	for (size_t i = 0; i < SBX_NELEM(m->exchanges); i++)
		if (m->exchanges[i].id == id)
			return (&m->exchanges[i]);
	return (NULL);
}

static unsigned
count(const struct monitor *m, const char *grant)
{
	unsigned n = 0;

	for (size_t i = 0; i < SBX_NELEM(m->exchanges); i++)
		n += m->exchanges[i].id != 0 &&
		    strcmp(m->exchanges[i].grant, grant) == 0;
	return (n);
}

/* It may go while they are under way: they are nobody's then. */
static unsigned
count_own(const struct monitor *m, const struct principal *who)
{
	unsigned n = 0;

	for (size_t i = 0; i < SBX_NELEM(m->exchanges); i++)
		n += m->exchanges[i].id != 0 && m->exchanges[i].who == who;
	return (n);
}

bool
exchange_any(const struct monitor *m, const char *grant)
{
	return (count(m, grant) > 0);
}

/* Nobody has it; what the proxy sent is closed with the message. */
static void
tell_none(struct monitor *m, uint32_t proxy_id, const char *code,
    const char *why)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_PROXY);

	if (p != NULL && proxy_id != 0)
		(void)sbx_send_proxy_no_exchange(p, proxy_id,
		    &(struct sbx_proxy_no_exchange){ .code = code,
		    .reason = why }, NULL);
}

static void
record(struct monitor *m, const struct exchange *e, int32_t code,
    const struct sbx_broker_exchanged *q)
{
	char status[12], out[24], in[24], ms[24];

	(void)snprintf(status, sizeof(status), "%" PRIu32, q->status);
	(void)snprintf(out, sizeof(out), "%" PRIu64, q->out_bytes);
	(void)snprintf(in, sizeof(in), "%" PRIu64, q->in_bytes);
	(void)snprintf(ms, sizeof(ms), "%" PRIu64,
	    (sbx_mono_ns() - e->began_ns) / MS_NS);
	journal_add(m, &(struct record){ .op = "exchange", .phase = "end",
	    .who = e->who, .container = e->container, .code = code }, "grant",
	    e->grant, "status", status, "out", out, "in", in, "ms", ms,
	    "what", q->code, "reason", q->reason, NULL);
}

/* A record a second tells enough of a proxy that goes on with it. */
static void
record_refusal(struct monitor *m, const char *grant, const char *why)
{
	uint64_t now = sbx_mono_ns();
	char id[80];

	if (now - m->exchange_refused_ns < S_NS)
		return;
	m->exchange_refused_ns = now;
	(void)sbx_vis(id, sizeof(id), grant, strlen(grant));
	log_warn("the proxy asked for an exchange that is not granted: %s",
	    why);
	journal_add(m, &(struct record){ .op = "exchange", .phase = "refused",
	    .code = 1 }, "grant", id, "reason", why, NULL);
}

/* *ret_code: a stable word.  NULL: it may go on. */
static const char *
barred(struct monitor *m, const struct grant *g, const char **ret_code)
{
	*ret_code = "not_granted";
	if (g == NULL || g->step != GRANT_LIVE)
		return ("there is no such grant");
	if (!g->credential || (g->op != SBX_GRANT_FETCH &&
	    g->op != SBX_GRANT_PUSH))
		return ("the grant goes without a credential");
	*ret_code = "no_courier";
	if (component_peer(m, SBX_PROC_BROKER) == NULL)
		return ("the broker is not there");
	if (slot(m, 0) == NULL || count(m, g->id) >= SBX_MAX_EXCHANGES_GRANT)
		return ("too many exchanges with a credential are under way");
	if (count_own(m, g->who) >= SBX_MAX_EXCHANGES_PRINCIPAL)
		return ("too many exchanges of this client are under way");
	return (NULL);
}

/*
 * Safe for a hostile proxy: an exchange is held to its grant by broker and
 * courier, who have it from us; the sockets are its own, and a socket that leads
 * elsewhere than it should fails in the courier's TLS.
 */
void
exchange_ask(struct monitor *m, uint32_t id, const char *grant,
    const int fds[2])
{
	struct grant *g = sbx_is_hex(grant, 16) ? grant_find(m, grant) : NULL;
	const char *code, *why = barred(m, g, &code);
	struct exchange *e;

	if (m->locked && why == NULL) {
		code = "locked";
		why = LOCKED_WHY;
	}
	if (why != NULL) {
		if (strcmp(code, "not_granted") == 0)
			record_refusal(m, grant, why);
		tell_none(m, id, code, why);
		return;
	}
	e = slot(m, 0);
	*e = (struct exchange){ .id = ++m->next_id, .proxy_id = id,
		.who = g->who, .began_ns = sbx_mono_ns() };
	memcpy(e->grant, g->id, sizeof(e->grant));
	memcpy(e->container, g->container, sizeof(e->container));
	journal_add(m, &(struct record){ .op = "exchange", .phase = "start",
	    .who = e->who, .container = e->container }, "grant", e->grant,
	    NULL);
	(void)sbx_send_broker_exchange(component_peer(m, SBX_PROC_BROKER),
	    e->id, &(struct sbx_broker_exchange){ .grant = e->grant }, fds);
}

static void
over(struct monitor *m, struct exchange *e,
    const struct sbx_broker_exchanged *q)
{
	char grant[sizeof(e->grant)];

	record(m, e, q->error != 0, q);
	if (!q->begun)
		tell_none(m, e->proxy_id, q->code[0] != '\0' ? q->code :
		    "upstream", q->reason);
	memcpy(grant, e->grant, sizeof(grant));
	memset(e, 0, sizeof(*e));
	grant_idle(m, grant);
}

void
exchange_over(struct monitor *m, uint32_t id,
    const struct sbx_broker_exchanged *q)
{
	struct exchange *e = id != 0 ? slot(m, id) : NULL;

	if (e != NULL)
		over(m, e, q);
}

/* The principal may go; a record names nobody then. */
void
exchange_drop_principal(struct monitor *m, const struct principal *p)
{
	for (size_t i = 0; i < SBX_NELEM(m->exchanges); i++)
		if (m->exchanges[i].who == p)
			m->exchanges[i].who = NULL;
}

/* It learns nothing of those that had begun, whose streams end. */
void
exchange_broker_lost(struct monitor *m)
{
	const struct sbx_broker_exchanged q = { .error = SBX_E_CLOSED,
		.code = "no_courier", .reason = "the broker ended; whether the "
		    "host took what was sent is not known" };

	for (size_t i = 0; i < SBX_NELEM(m->exchanges); i++)
		if (m->exchanges[i].id != 0)
			over(m, &m->exchanges[i], &q);
}

/* Couriers see their streams end, and say so. */
void
exchange_proxy_lost(struct monitor *m)
{
	for (size_t i = 0; i < SBX_NELEM(m->exchanges); i++)
		m->exchanges[i].proxy_id = 0;
}
