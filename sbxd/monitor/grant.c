#include "sbxd/monitor/monitor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * Grants: the record first, then the proxy.  What one is for is said whole, so
 * that the proxy can hold an exchange to it without asking anybody.
 */

#define ASK_NS (15 * S_NS)	/* for the record and the proxy's answer */
#define LATE_NS (5 * S_NS)	/* that a proxy may take to say it is over */
#define LIFE_MAX_MS 3600000u
#define USES_MAX 100u

static struct grant *
grant_find(struct monitor *m, const char *id)
{
	for (size_t i = 0; i < SBX_NELEM(m->grants); i++)
		if (m->grants[i].used && strcmp(m->grants[i].id, id) == 0)
			return (&m->grants[i]);
	return (NULL);
}

/* Who waits for it, if still. */
static struct ctl *
waiting(struct monitor *m, const struct grant *g)
{
	for (size_t i = 0; i < SBX_NELEM(m->ctls); i++)
		if (m->ctls[i].used && strcmp(m->ctls[i].grant, g->id) == 0)
			return (&m->ctls[i]);
	return (NULL);
}

/* Of a start record the caller sends its own. */
static void
record(struct monitor *m, const struct grant *g, const char *phase,
    int32_t code, const char *why)
{
	journal_add(m, &(struct record){ .op = "grant", .phase = phase,
	    .who = g->who, .container = g->container, .code = code,
	    .flags = SBX_JOURNAL_RESERVED }, "grant", g->id, "reason", why,
	    NULL);
}

static void
revoke(struct monitor *m, const struct grant *g)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_PROXY);

	if (p != NULL)
		(void)sbx_send_grant_revoke(p, 0, &(struct sbx_grant_revoke){
		    .grant = g->id }, NULL);
}

/* It is over; whoever waits for it gets `why`. */
static void
end(struct monitor *m, struct grant *g, int32_t code, const char *why)
{
	struct ctl *c = waiting(m, g);

	record(m, g, "end", code, why);
	if (c != NULL) {
		c->grant[0] = '\0';
		ctl_refuse(c, "refused", "", "the grant was not opened: %s",
		    why);
	}
	memset(g, 0, sizeof(*g));
}

/* The shape is the proxy's to check, who holds exchanges to it. */
static const char *
barred(struct monitor *m, const struct sandbox *sb,
    const struct sbx_ctl_grant *q)
{
	if (sb == NULL || sb->state != SBX_SANDBOX_READY)
		return ("there is no such sandbox");
	if (!sb->network)
		return ("the sandbox has no way out: it was made without "
		    "allow_network");
	if (q->uses == 0 || q->uses > USES_MAX || q->lifetime_ms == 0 ||
	    q->lifetime_ms > LIFE_MAX_MS)
		return ("a grant is for 1 to 100 uses and an hour at most");
	if (component_peer(m, SBX_PROC_PROXY) == NULL)
		return ("the proxy is not there");
	return (NULL);
}

static struct grant *
grant_new(struct monitor *m, const struct sandbox *sb,
    const struct sbx_ctl_grant *q)
{
	struct grant *g = NULL;

	for (size_t i = 0; g == NULL && i < SBX_NELEM(m->grants); i++)
		if (!m->grants[i].used)
			g = &m->grants[i];
	if (g == NULL)
		return (NULL);
	*g = (struct grant){ .used = true, .who = sb->who,
		.op = SBX_GRANT_PUSH, .force = q->force, .uses = q->uses,
		.lifetime_ms = q->lifetime_ms };
	/* 64 bits: no two are alike */
	sbx_random_hex(g->id, 8);
	memcpy(g->container, sb->id, sizeof(g->container));
	(void)sbx_strlcpy(g->host, q->host, sizeof(g->host));
	(void)sbx_strlcpy(g->repo, q->repo, sizeof(g->repo));
	(void)sbx_strlcpy(g->ref, q->ref, sizeof(g->ref));
	(void)sbx_strlcpy(g->old_id, q->old_id, sizeof(g->old_id));
	(void)sbx_strlcpy(g->new_id, q->new_id, sizeof(g->new_id));
	return (g);
}

void
grant_ask(struct ctl *c, const struct sbx_ctl_grant *q)
{
	struct monitor *m = c->m;
	struct sandbox *sb = sandbox_find(m, q->container);
	const char *why = barred(m, sb, q);
	struct grant *g;
	char uid[12], uses[12];

	if (why == NULL)
		(void)journal_up(m, &why);
	if (why != NULL) {
		ctl_refuse(c, "refused", "", "%s", why);
		return;
	}
	if ((g = grant_new(m, sb, q)) == NULL) {
		ctl_refuse(c, "busy", "Try again when one is over.", "there "
		    "are %d grants, the most there may be", SBX_MAX_GRANTS);
		return;
	}
	(void)snprintf(uid, sizeof(uid), "%u", c->uid);
	(void)snprintf(uses, sizeof(uses), "%" PRIu32, g->uses);
	g->record_id = journal_own(m, &(struct record){ .op = "grant",
	    .phase = "start", .who = sb->who, .container = sb->id }, "grant",
	    g->id, "operator", uid, "what", "push", "host", g->host, "repo",
	    g->repo, "ref", g->ref, "old_id", g->old_id, "new_id", g->new_id,
	    "force", g->force ? "1" : "0", "uses", uses, NULL);
	memcpy(c->grant, g->id, sizeof(c->grant));
	if (g->record_id == 0) {
		end(m, g, 1, "it cannot be recorded");
		return;
	}
	c->by_ns = sbx_mono_ns() + ASK_NS;
	sbx_peer_set_state(c->peer, CTL_ASKED);
	tick_arm(m);
}

/* Permitted from now on. */
bool
grant_recorded(struct monitor *m, const struct sbx_in *in)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_PROXY);
	struct grant *g = NULL;
	const char *why;

	for (size_t i = 0; g == NULL && i < SBX_NELEM(m->grants); i++)
		if (m->grants[i].used && in->hdr.id != 0 &&
		    m->grants[i].record_id == in->hdr.id)
			g = &m->grants[i];
	if (g == NULL)
		return (false);
	g->record_id = 0;
	if ((why = journal_why(in, "")) == NULL && p == NULL)
		why = "the proxy is not there";
	if (why == NULL && waiting(m, g) == NULL)
		why = "nobody waits for it any more";
	if (why != NULL)
		end(m, g, 1, why);
	else
		(void)sbx_send_grant_open(p, 0, &(struct sbx_grant_open){
		    .grant = g->id, .container = g->container, .op = g->op,
		    .host = g->host, .repo = g->repo, .ref = g->ref,
		    .old_id = g->old_id, .new_id = g->new_id,
		    .force = g->force, .uses = g->uses,
		    .lifetime_ms = g->lifetime_ms }, NULL);
	return (true);
}

/*
 * Safe for a hostile proxy: it has its grants already, and cannot say more of
 * one than it has uses, each of which takes space that is held back in the
 * journal.
 */
int
grant_state(struct monitor *m, const struct sbx_grant_state *q)
{
	struct grant *g = grant_find(m, q->grant);
	struct ctl *c = g != NULL ? waiting(m, g) : NULL;

	if (g == NULL || g->record_id != 0)
		return (0);
	switch ((enum sbx_grant_phase)q->state) {
	case SBX_GRANT_OPEN:
		if (g->open)
			break;
		g->open = true;
		g->by_ns = sbx_mono_ns() + g->lifetime_ms * MS_NS + LATE_NS;
		tick_arm(m);
		if (c == NULL)
			break;
		c->grant[0] = '\0';
		(void)sbx_send_ctl_granted(c->peer, c->id,
		    &(struct sbx_ctl_granted){ .grant = g->id }, NULL);
		ctl_over(c);
		break;
	case SBX_GRANT_USED:
		if (!g->open || q->uses >= g->uses)
			return (SBX_E_RANGE);
		g->uses = q->uses;
		record(m, g, "use", 0, "");
		if (q->uses == 0)
			end(m, g, 0, "used up");
		break;
	case SBX_GRANT_REFUSED:
	case SBX_GRANT_EXPIRED:
	case SBX_GRANT_REVOKED:
	case SBX_GRANT_PHASE_MAX:
		end(m, g, q->state == SBX_GRANT_REFUSED, q->reason);
		break;
	}
	return (0);
}

void
grant_ctl_gone(struct ctl *c)
{
	struct grant *g = c->grant[0] != '\0' ?
	    grant_find(c->m, c->grant) : NULL;

	c->grant[0] = '\0';
	if (g == NULL)
		return;
	revoke(c->m, g);
	if (g->record_id == 0)
		end(c->m, g, 1, "nobody waits for it any more");
}

/* A proxy that does not say so holds none open, here or on record. */
void
grant_tick(struct monitor *m, uint64_t now_ns)
{
	struct grant *g;

	for (size_t i = 0; i < SBX_NELEM(m->grants); i++) {
		g = &m->grants[i];
		if (!g->used || !g->open)
			continue;
		tick_arm(m);
		if (now_ns < g->by_ns)
			continue;
		revoke(m, g);
		end(m, g, 0, "its time is over");
	}
}

void
grant_ended(struct monitor *m, const char *container, const char *why)
{
	struct grant *g;

	for (size_t i = 0; i < SBX_NELEM(m->grants); i++) {
		g = &m->grants[i];
		if (!g->used || (container != NULL &&
		    strcmp(g->container, container) != 0))
			continue;
		/* what is being recorded ends when that is done */
		if (g->record_id == 0)
			end(m, g, 0, why);
	}
}
