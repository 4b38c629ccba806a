#include "sbxd/monitor/monitor.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * Ends by time: of sandboxes that nobody used for long, or that lived as long
 * as they may.  Spared are those with a call or a copy under way, whose making
 * is not over, or with work in them; for want of use also those in which
 * anything runs.  Each end is recorded and told to whose it was.
 */

#define AGAIN_BUSY_NS (5 * S_NS)
#define AGAIN_HELD_NS (60 * S_NS)
#define NEVER UINT64_MAX
#define WHERE "/workspace"	/* looked through as a whole */

uint64_t
reap_ttl(const struct monitor *m, uint64_t ttl_s)
{
	uint64_t most = m->conf.sandbox_ttl;

	return (ttl_s == 0 || (most != 0 && most < ttl_s) ? most : ttl_s);
}

/* --- when ---------------------------------------------------------------- */

/* Which time is up first, and what it is called; NEVER: none is set. */
static uint64_t
due_ns(const struct monitor *m, const struct sandbox *sb, bool *ret_ttl)
{
	uint64_t ttl = sb->limits.ttl_s, idle = m->conf.sandbox_idle;
	uint64_t by_ttl = NEVER, by_idle = NEVER;

	*ret_ttl = false;
	if (sb->state != SBX_SANDBOX_READY || sb->hidden ||
	    sb->reap.ask_id != 0)
		return (NEVER);
	if (ttl != 0)
		by_ttl = sb->created_ns + ttl * S_NS;
	if (idle != 0 && sb->live_runs == 0)
		by_idle = sb->used_ns + idle * S_NS;
	*ret_ttl = by_ttl <= by_idle;
	if (*ret_ttl)
		by_idle = by_ttl;
	return (by_idle < sb->reap.again_ns ? sb->reap.again_ns : by_idle);
}

static void on_timer(evutil_socket_t fd, short what, void *arg);

void
reap_arm(struct monitor *m)
{
	uint64_t now = sbx_mono_ns(), first = NEVER, due;
	struct sandbox *sb;
	struct timeval tv;
	bool ttl;

	if (m->stopping)
		return;
	TAILQ_FOREACH(sb, &m->sandboxes, link)
		if ((due = due_ns(m, sb, &ttl)) < first)
			first = due;
	if (first == NEVER)
		return;
	if (m->reap_timer == NULL)
		m->reap_timer = evtimer_new(m->base, on_timer, m);
	if (m->reap_timer == NULL)
		sbx_fatal("no memory for a timer");
	/* a little late, so that it is due then */
	due = (first > now ? first - now : 0) / 1000 + 1000;
	tv.tv_sec = (time_t)(due / 1000000);
	tv.tv_usec = (suseconds_t)(due % 1000000);
	(void)evtimer_add(m->reap_timer, &tv);
}

/* A call names it, makes it, or copies into it; or a command of a call that
 * was answered meanwhile goes on.  Such end by themselves: each has a time
 * limit.  Background jobs need not, so an age takes them with it. */
static bool
in_use(const struct monitor *m, const struct sandbox *sb)
{
	const struct worker *w;
	const struct call *c;
	const struct run *r;

	if (sb->maker != NULL)
		return (true);
	for (c = m->calls; c < m->calls + SBX_NELEM(m->calls); c++)
		if (c->used && strcmp(c->capped, sb->id) == 0)
			return (true);
	for (w = m->workers; w < m->workers + SBX_NELEM(m->workers); w++)
		if (w->ask.type != 0 && strcmp(w->ask.container, sb->id) == 0)
			return (true);
	for (size_t i = 0; i < MAX_COPIES; i++)
		if (m->copies[i].used &&
		    strcmp(m->copies[i].container, sb->id) == 0)
			return (true);
	if (sb->live_runs > 0)
		TAILQ_FOREACH(r, &m->runs, link)
			if (r->state != SBX_RUN_ENDED && !r->background &&
			    strcmp(r->container, sb->id) == 0)
				return (true);
	return (false);
}

/* --- the end ------------------------------------------------------------- */

static void
take(struct monitor *m, struct sandbox *sb)
{
	struct reaped *d = &m->reaped[m->next_reaped++ % SBX_MAX_REAPED];

	memset(d, 0, sizeof(*d));
	d->used = true;
	memcpy(d->who, sb->who->name, sizeof(d->who));
	memcpy(d->id, sb->id, sizeof(d->id));
	memcpy(d->name, sb->name, sizeof(d->name));
	memcpy(d->reason, sb->reap.reason, sizeof(d->reason));
	d->when_wall_ns = sbx_wall_ns();
	log_notice("sandbox %s is ended: %s", sb->id, sb->reap.reason);
	journal_add(m, &(struct record){ .op = "sandbox_reap",
	    .who = sb->who, .container = sb->id }, "reason",
	    sb->reap.reason, "name", sb->name, NULL);
	sandbox_stop(m, sb, sb->reap.reason);
}

/* Recorded when it begins, not each time that it is seen again. */
static void
hold(struct monitor *m, struct sandbox *sb, const char *why)
{
	bool fresh = *reap_held(sb) == '\0';
	uint64_t now = sbx_mono_ns();

	sb->reap.again_ns = now + AGAIN_HELD_NS;
	sb->reap.held_ns = now;
	(void)snprintf(sb->reap.held, sizeof(sb->reap.held),
	    "%.90s, but %.159s", sb->reap.reason, why);
	if (fresh)
		journal_add(m, &(struct record){ .op = "sandbox_reap_held",
		    .who = sb->who, .container = sb->id }, "reason",
		    sb->reap.held, NULL);
}

const char *
reap_held(const struct sandbox *sb)
{
	/* what was done in it since may have changed that */
	return (sb->reap.held_ns > sb->used_ns ? sb->reap.held : "");
}

/* --- is there work ------------------------------------------------------- */

/* Anything there that came after the last copy, or after it was made: also
 * what lies beside the copied trees. */
static struct baseline
whole(const struct sandbox *sb)
{
	struct baseline all = { .when_wall_ns = sb->created_wall_ns,
		.dest = (char *)(uintptr_t)WHERE };
	const struct baseline *b;

	for (b = sb->baselines; b < sb->baselines + MAX_BASELINES; b++) {
		if (b->when_wall_ns > all.when_wall_ns)
			all.when_wall_ns = b->when_wall_ns;
		if (b->copied_to_ns > all.when_wall_ns)
			all.when_wall_ns = b->copied_to_ns;
	}
	return (all);
}

/* About the next baseline, the whole at last; false: all were asked. */
static bool
ask_next(struct monitor *m, struct sandbox *sb)
{
	struct baseline all = whole(sb);
	struct reap *p = &sb->reap;

	while (p->step < MAX_BASELINES &&
	    sb->baselines[p->step].when_wall_ns == 0)
		p->step++;
	if (p->step > MAX_BASELINES)
		return (false);
	p->ask_id = guard_ask(m, sb, p->step < MAX_BASELINES ?
	    &sb->baselines[p->step] : &all);
	if (p->ask_id == 0)
		p->again_ns = sbx_mono_ns() + AGAIN_BUSY_NS;
	return (true);
}

/* Of the first file only: the stop guard names ten, to who asks it. */
static void
hold_for_work(struct monitor *m, struct sandbox *sb,
    const struct sbx_engine_work_found *q, const char *dest)
{
	const char *name = sbx_strs_next(&q->names, NULL);
	char shown[72], why[160];

	if (!q->complete)
		(void)snprintf(why, sizeof(why), "%.48s is too large to look "
		    "through for work", dest);
	else if (q->count == 0)
		(void)snprintf(why, sizeof(why), "files that came in below "
		    "%.48s were deleted", dest);
	else
		(void)snprintf(why, sizeof(why), "below %.48s is work: %s%s",
		    dest, name == NULL ? "files" :
		    sbx_vis(shown, sizeof(shown), name, strlen(name)),
		    q->count > 1 ? " and more" : "");
	hold(m, sb, why);
}

bool
reap_found(struct monitor *m, const struct sbx_engine_work_found *q,
    uint32_t id)
{
	struct sandbox *sb = sandbox_find(m, q->container);
	struct baseline all;
	const struct baseline *b;
	struct reap *p;

	if (sb == NULL || sb->reap.ask_id != id || id == 0)
		return (false);
	p = &sb->reap;
	p->ask_id = 0;
	all = whole(sb);
	b = p->step < MAX_BASELINES ? &sb->baselines[p->step] : &all;
	if (sb->state != SBX_SANDBOX_READY)
		return (true);
	if (p->used_ns != sb->used_ns || in_use(m, sb))
		p->again_ns = sbx_mono_ns() + AGAIN_BUSY_NS;
	else if (b->dest == NULL || guard_is_work(q, b))
		hold_for_work(m, sb, q, b->dest != NULL ? b->dest : WHERE);
	else if (p->step++, !ask_next(m, sb))
		take(m, sb);
	reap_arm(m);
	return (true);
}

/* --- the timer ----------------------------------------------------------- */

static void
try_one(struct monitor *m, struct sandbox *sb, bool ttl)
{
	struct reap *p = &sb->reap;

	if (in_use(m, sb)) {
		p->again_ns = sbx_mono_ns() + AGAIN_BUSY_NS;
		return;
	}
	if (ttl)
		(void)snprintf(p->reason, sizeof(p->reason), "its ttl of %"
		    PRIu64 " s is over", sb->limits.ttl_s);
	else
		(void)snprintf(p->reason, sizeof(p->reason), "it was not used "
		    "for %" PRIu64 " s", (uint64_t)m->conf.sandbox_idle);
	p->step = 0;
	p->used_ns = sb->used_ns;
	if (m->conf.reap_work || sb->throwaway || !ask_next(m, sb))
		take(m, sb);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct monitor *m = arg;
	uint64_t now = sbx_mono_ns();
	struct sandbox *sb;
	bool ttl;

	(void)fd;
	(void)what;
	if (m->stopping)
		return;
	/* ends come later, by the engine's word: none leaves the list here */
	TAILQ_FOREACH(sb, &m->sandboxes, link)
		if (due_ns(m, sb, &ttl) <= now)
			try_one(m, sb, ttl);
	reap_arm(m);
}

void
reap_call_ended(struct monitor *m, const struct call *c)
{
	struct sandbox *sb = c->capped[0] != '\0' ?
	    sandbox_find(m, c->capped) : NULL;

	if (sb != NULL && !c->recovery) {
		sb->used_ns = sbx_mono_ns();
		sb->reap.again_ns = 0;	/* it may be otherwise now */
	}
	reap_arm(m);
}

/* --- telling ------------------------------------------------------------- */

const struct reaped *
reap_find(const struct monitor *m, const struct principal *p, const char *ref)
{
	const struct reaped *d, *last = NULL;

	for (d = m->reaped; d < m->reaped + SBX_MAX_REAPED; d++)
		if (d->used && strcmp(d->who, p->name) == 0 &&
		    (strcmp(d->id, ref) == 0 || strcmp(d->name, ref) == 0) &&
		    (last == NULL || d->when_wall_ns > last->when_wall_ns))
			last = d;
	return (last);
}

/* Told once each; they stay to be found by reap_find(). */
int
reap_tell(struct monitor *m, struct worker *w)
{
	struct reaped *d;
	int r;

	for (unsigned i = 0; i < SBX_MAX_REAPED; i++) {
		d = &m->reaped[(m->next_reaped + i) % SBX_MAX_REAPED];
		if (!d->used || d->told ||
		    strcmp(d->who, w->who->name) != 0)
			continue;
		r = sbx_send_sb_reaped(w->peer, w->ask.id,
		    &(struct sbx_sb_reaped){ .container = d->id,
		    .name = d->name, .reason = d->reason,
		    .when_wall_ns = d->when_wall_ns }, NULL);
		if (r != 0)
			return (r);
		d->told = true;
	}
	return (0);
}

void
reap_refuse(struct worker *w, const char *ref)
{
	const struct reaped *d = reap_find(w->m, w->who, ref);

	if (d == NULL) {
		ask_refuse(w, "not_found", "Call sandbox_list_containers for "
		    "the ids that exist, or sandbox_initialize for a new one.",
		    "there is no sandbox %s", ref);
		return;
	}
	ask_refuse(w, "sandbox_gone", "Call sandbox_initialize for a new one.",
	    "the suite ended sandbox %s %" PRIu64 " s ago: %s", d->id,
	    (sbx_wall_ns() - d->when_wall_ns) / S_NS, d->reason);
}
