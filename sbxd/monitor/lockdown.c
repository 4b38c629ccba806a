#include "sbxd/monitor/monitor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Lockdown: every grant ends, every token is revoked, and no sandbox has a way
 * out until an operator lifts it.  What closes is done at once, journal or not;
 * what opens again waits for its record.  A file beside the suites' directories
 * says so to those that start later.
 */

#define BROKER_NS (20 * S_NS)	/* to revoke all tokens at their hosts */

int
lockdown_read(struct monitor *m, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *path = NULL;
	struct stat st;

	path = sbx_xasprintf("%s/lockdown", m->paths.state);
	if (lstat(path, &st) == 0)
		m->locked = true;
	else if (errno != ENOENT)
		return (sbx_err_sys(err, "%.160s", path));
	if (m->locked)
		log_warn("locked down: no sandbox has a way out until `sbx "
		    "lockdown off`");
	return (0);
}

static void
answer(struct ctl *c, uint32_t tokens, uint32_t failed)
{
	c->back_id = 0;
	(void)sbx_send_ctl_locked(c->peer, c->id, &(struct sbx_ctl_locked){
	    .grants = c->m->lock_grants, .tokens = tokens,
	    .failed = failed }, NULL);
	ctl_over(c);
}

/* --- on -------------------------------------------------------------------------- */

static void
close_all(struct monitor *m, const struct ctl *c)
{
	char uid[12], grants[12];

	m->locked = true;
	m->unlock_id = 0;
	publish_lockdown(m);
	override_lockdown(m);
	m->lock_grants = grant_lockdown(m);
	(void)egress_policy(m);
	(void)snprintf(uid, sizeof(uid), "%u", c->uid);
	(void)snprintf(grants, sizeof(grants), "%u", m->lock_grants);
	log_warn("locked down by uid %u: %u grants ended", c->uid,
	    m->lock_grants);
	(void)journal_own(m, &(struct record){ .op = "lockdown",
	    .phase = "start" }, "operator", uid, "grants", grants, NULL);
}

/* What a proxy in other hands may still hold ends with it.  Not before the
 * broker is done, whose couriers revoke by connections of this one. */
static void
new_proxy(struct monitor *m)
{
	component_renew(&m->comps[SBX_PROC_PROXY], "locked down");
}

static void
lock(struct ctl *c)
{
	struct monitor *m = c->m;
	struct sbx_peer *p = component_peer(m, SBX_PROC_BROKER);

	close_all(m, c);
	if (p == NULL || !repos_source(m, NULL)) {
		new_proxy(m);
		answer(c, 0, 0);
		return;
	}
	c->back_id = m->lock_id = ++m->next_id;
	c->by_ns = sbx_mono_ns() + BROKER_NS;
	sbx_peer_set_state(c->peer, CTL_ASKED);
	tick_arm(m);
	(void)sbx_send_broker_lock(p, c->back_id,
	    &(struct sbx_broker_lock){ .on = 1 }, NULL);
}

void
lockdown_broker(struct monitor *m, uint32_t id,
    const struct sbx_broker_locked *q)
{
	struct ctl *c = ctl_of_back(m, id);
	char tokens[12], failed[12];

	if (id != 0 && id == m->stop_lock_id) {
		shutdown_revoked(m);
		return;
	}
	/* also for an operator who went away meanwhile */
	if ((c == NULL && id != m->lock_id) || !m->locked)
		return;
	m->lock_id = 0;
	(void)snprintf(tokens, sizeof(tokens), "%" PRIu32, q->tokens);
	(void)snprintf(failed, sizeof(failed), "%" PRIu32, q->failed);
	journal_add(m, &(struct record){ .op = "lockdown", .phase = "tokens",
	    .code = q->failed != 0 }, "tokens", tokens, "failed", failed,
	    NULL);
	new_proxy(m);
	if (c != NULL)
		answer(c, q->tokens, q->failed);
}

/* Its tokens went with it, and their hosts still take them. */
static void
not_told(struct ctl *c, const char *why)
{
	c->m->lock_id = 0;
	new_proxy(c->m);
	ctl_refuse(c, "tokens_unknown", "Tokens of GitHub Apps end by "
	    "themselves within an hour.", "egress is closed and every grant "
	    "has ended, but whether tokens were revoked is not known: %s",
	    why);
}

void
lockdown_broker_lost(struct monitor *m)
{
	struct ctl *c;

	for (size_t i = 0; i < SBX_NELEM(m->ctls); i++) {
		c = &m->ctls[i];
		if (!c->used || c->back_id == 0 || c->back_id == m->unlock_id)
			continue;
		c->back_id = 0;
		if (m->locked)
			not_told(c, "the broker ended");
		else
			ctl_refuse(c, "suite_degraded", "Retry.",
			    "the broker ended");
	}
	if (m->lock_id != 0 && m->locked)
		new_proxy(m);	/* nobody waited for it any more */
	m->lock_id = 0;
}

bool
lockdown_late(struct ctl *c)
{
	if (c->back_id == 0 || !c->m->locked ||
	    c->back_id == c->m->unlock_id)
		return (false);
	c->back_id = 0;
	not_told(c, "the broker did not say so in time");
	return (true);
}

/* --- off ---------------------------------------------------------------------------- */

static void
unlock(struct ctl *c)
{
	struct monitor *m = c->m;
	const char *why = "it cannot be recorded";
	char uid[12];

	if (!m->locked) {
		m->lock_grants = 0;
		answer(c, 0, 0);
		return;
	}
	(void)snprintf(uid, sizeof(uid), "%u", c->uid);
	if (journal_up(m, &why))
		m->unlock_id = journal_own(m, &(struct record){
		    .op = "lockdown", .phase = "end" }, "operator", uid, NULL);
	if (m->unlock_id == 0) {
		ctl_refuse(c, "journal_unavailable", "", "it stays locked "
		    "down: %s", why);
		return;
	}
	c->back_id = m->unlock_id;
	c->by_ns = sbx_mono_ns() + BROKER_NS;
	sbx_peer_set_state(c->peer, CTL_ASKED);
	tick_arm(m);
}

static void
open_again(struct monitor *m)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_BROKER);

	m->locked = false;
	m->lock_grants = 0;
	log_notice("the lockdown is lifted");
	(void)egress_policy(m);
	if (p != NULL && repos_source(m, NULL))
		(void)sbx_send_broker_lock(p, ++m->next_id,
		    &(struct sbx_broker_lock){ .on = 0 }, NULL);
}

bool
lockdown_recorded(struct monitor *m, const struct sbx_in *in)
{
	struct ctl *c = ctl_of_back(m, in->hdr.id);
	const char *why;

	if (in->hdr.id == 0 || in->hdr.id != m->unlock_id)
		return (false);
	m->unlock_id = 0;
	if ((why = journal_why(in, "")) == NULL)
		open_again(m);
	if (c != NULL && why == NULL)
		answer(c, 0, 0);
	else if (c != NULL) {
		c->back_id = 0;
		ctl_refuse(c, "journal_unavailable", "", "it stays locked "
		    "down: %s", why);
	}
	return (true);
}

void
lockdown_ask(struct ctl *c, bool on)
{
	if (on)
		lock(c);
	else
		unlock(c);
}
