#include "sbxd/monitor/monitor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * Grants: the record first, then the broker where one goes with a credential,
 * then the proxy, then whoever waits.  What one is for is said whole to both, so
 * that each can hold an exchange to it without asking anybody; the end of it at
 * either is its end at the other.
 */

#define ASK_NS (15 * S_NS)	/* for the record and the others' answers */
#define LATE_NS (5 * S_NS)	/* that a proxy may take to say it is over */
#define LIFE_MAX_MS 3600000u
#define USES_MAX 100u		/* of an operator's */
#define FETCH_USES 1000u	/* requests of one clone with its submodules */

struct grant *
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

static struct worker *
waiting_worker(struct monitor *m, const struct grant *g)
{
	for (size_t i = 0; i < SBX_NELEM(m->workers); i++)
		if (m->workers[i].ask.type == SBX_MSG_REPO_OPEN &&
		    strcmp(m->workers[i].ask.grant, g->id) == 0)
			return (&m->workers[i]);
	return (NULL);
}

static bool
wanted(struct monitor *m, const struct grant *g)
{
	if (g->publish)
		return (publish_wants(m, g->id));
	return (waiting(m, g) != NULL || waiting_worker(m, g) != NULL);
}

/* --- what is told of them --------------------------------------------------- */

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

	if (p != NULL && g->step >= GRANT_OPENING && g->step < GRANT_SPENT)
		(void)sbx_send_grant_revoke(p, 0, &(struct sbx_grant_revoke){
		    .grant = g->id }, NULL);
}

/* Nothing is left of it; the broker is told, who may have it. */
static void
forget(struct monitor *m, struct grant *g)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_BROKER);

	if (p != NULL && g->credential && g->step >= GRANT_SOURCING)
		(void)sbx_send_broker_revoke(p, 0, &(struct sbx_broker_revoke){
		    .grant = g->id }, NULL);
	memset(g, 0, sizeof(*g));
}

/* Whoever waits for it gets `why`. */
static void
refuse(struct monitor *m, struct grant *g, const char *code, const char *next,
    const char *why)
{
	struct ctl *c = waiting(m, g);
	struct worker *w = waiting_worker(m, g);

	if (g->publish)
		publish_grant_over(m, g->id, code, why);
	if (c != NULL) {
		c->grant[0] = '\0';
		ctl_refuse(c, code, next, "the grant was not opened: %s",
		    why);
	}
	if (w != NULL) {
		/* nothing of it is undone with the ask */
		w->ask.grant[0] = '\0';
		ask_refuse(w, code, next, "%s/%s cannot be read with a "
		    "credential: %s", g->host, g->repo, why);
	}
}

static void
end_for(struct monitor *m, struct grant *g, int32_t code, const char *word,
    const char *next, const char *why)
{
	if (g->step < GRANT_SPENT)
		record(m, g, "end", code, why);
	refuse(m, g, word, next, why);
	forget(m, g);
}

/* It is over, and what is under way with it at the broker, too. */
static void
end(struct monitor *m, struct grant *g, int32_t code, const char *why)
{
	end_for(m, g, code, "refused", "", why);
}

/* It is over by itself: what it let begin may end as it does. */
static void
expire(struct monitor *m, struct grant *g, const char *why)
{
	if (!g->credential || !exchange_any(m, g->id)) {
		end(m, g, 0, why);
		return;
	}
	record(m, g, "end", 0, why);
	g->step = GRANT_SPENT;
}

void
grant_idle(struct monitor *m, const char *id)
{
	struct grant *g = grant_find(m, id);

	if (g != NULL && g->step == GRANT_SPENT && !exchange_any(m, id))
		forget(m, g);
}

/* --- a new one ---------------------------------------------------------------- */

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

/* Calls of workers leave room for operators, and those of one principal for
 * those of others. */
static bool
has_room(const struct monitor *m, const struct principal *who)
{
	const struct grant *g;
	unsigned all = 0, own = 0;

	for (size_t i = 0; i < SBX_NELEM(m->grants); i++) {
		g = &m->grants[i];
		if (!g->used || (g->maker == NULL && g->run[0] == '\0'))
			continue;
		all++;
		own += g->who == who;
	}
	return (all < SBX_MAX_GRANTS_WORKERS &&
	    own < SBX_MAX_GRANTS_PRINCIPAL);
}

static struct grant *
grant_new(struct monitor *m, const struct sandbox *sb, const char *host,
    const char *repo)
{
	struct grant *g = NULL;

	for (size_t i = 0; g == NULL && i < SBX_NELEM(m->grants); i++)
		if (!m->grants[i].used)
			g = &m->grants[i];
	if (g == NULL)
		return (NULL);
	*g = (struct grant){ .used = true, .who = sb->who };
	/* 64 bits: no two are alike */
	sbx_random_hex(g->id, 8);
	memcpy(g->container, sb->id, sizeof(g->container));
	(void)sbx_strlcpy(g->host, host, sizeof(g->host));
	(void)sbx_strlcpy(g->repo, repo, sizeof(g->repo));
	return (g);
}

static struct grant *
push_new(struct monitor *m, const struct sandbox *sb,
    const struct sbx_ctl_grant *q)
{
	struct grant *g = grant_new(m, sb, q->host, q->repo);

	if (g == NULL)
		return (NULL);
	g->op = SBX_GRANT_PUSH;
	g->force = q->force;
	g->uses = q->uses;
	g->lifetime_ms = q->lifetime_ms;
	(void)sbx_strlcpy(g->ref, q->ref, sizeof(g->ref));
	(void)sbx_strlcpy(g->old_id, q->old_id, sizeof(g->old_id));
	(void)sbx_strlcpy(g->new_id, q->new_id, sizeof(g->new_id));
	return (g);
}

/* operator: "", or his uid. */
static bool
record_start(struct monitor *m, struct grant *g, const char *operator)
{
	bool push = g->op == SBX_GRANT_PUSH;
	char uses[12], life[12];

	(void)snprintf(uses, sizeof(uses), "%" PRIu32, g->uses);
	(void)snprintf(life, sizeof(life), "%" PRIu32, g->lifetime_ms);
	g->record_id = journal_own(m, &(struct record){ .op = "grant",
	    .phase = "start", .who = g->who, .container = g->container },
	    "grant", g->id, "operator", operator, "what", push ? "push" :
	    "fetch", "host", g->host, "repo", g->repo, "ref", g->ref,
	    "old_id", g->old_id, "new_id", g->new_id, "force", g->force ?
	    "1" : "0", "uses", uses, "lifetime_ms", life, "credential", g->credential ? "1" : "0",
	    NULL);
	return (g->record_id != 0);
}

static void
ask_push(struct ctl *c, struct grant *g)
{
	struct monitor *m = c->m;
	char uid[12];

	(void)snprintf(uid, sizeof(uid), "%u", c->uid);
	memcpy(c->grant, g->id, sizeof(c->grant));
	if (!record_start(m, g, uid)) {
		end(m, g, 1, "it cannot be recorded");
		return;
	}
	c->by_ns = sbx_mono_ns() + ASK_NS;
	sbx_peer_set_state(c->peer, CTL_ASKED);
	tick_arm(m);
}

void
grant_ask(struct ctl *c, const struct sbx_ctl_grant *q)
{
	struct monitor *m = c->m;
	struct sandbox *sb = sandbox_find(m, q->container);
	const char *why = barred(m, sb, q);
	struct grant *g;

	if (m->locked) {
		ctl_refuse(c, "locked", LOCKED_NEXT, LOCKED_WHY);
		return;
	}
	if (why == NULL)
		(void)journal_up(m, &why);
	if (why != NULL) {
		ctl_refuse(c, "refused", "", "%s", why);
		return;
	}
	if ((g = push_new(m, sb, q)) == NULL) {
		ctl_refuse(c, "busy", "Try again when one is over.", "there "
		    "are %d grants, the most there may be", SBX_MAX_GRANTS);
		return;
	}
	g->credential = repos_may_write(m, g->host, g->repo) &&
	    repos_source(m, g->host);
	ask_push(c, g);
}

bool
grant_fetch(struct monitor *m, struct worker *w, const struct sandbox *sb,
    const char *host, const char *repo, uint32_t lifetime_ms)
{
	struct grant *g = has_room(m, w->who) ? grant_new(m, sb, host, repo) :
	    NULL;

	if (g == NULL)
		return (false);
	g->op = SBX_GRANT_FETCH;
	g->uses = FETCH_USES;
	g->maker = w->call;
	g->credential = true;
	g->lifetime_ms = lifetime_ms == 0 || lifetime_ms > LIFE_MAX_MS ?
	    LIFE_MAX_MS : lifetime_ms;
	memcpy(w->ask.grant, g->id, sizeof(w->ask.grant));
	if (!record_start(m, g, ""))
		end_for(m, g, 1, "suite_degraded", "Retry.",
		    "it cannot be recorded");
	return (true);
}

bool
grant_publish(struct monitor *m, const struct sandbox *sb, const char *host,
    const char *repo, const struct sbx_ctl_grant *q, char ret_id[17])
{
	struct grant *g = q != NULL ? push_new(m, sb, q) :
	    grant_new(m, sb, host, repo);

	if (g == NULL)
		return (false);
	if (q == NULL) {
		g->op = SBX_GRANT_FETCH;
		g->uses = FETCH_USES;
		g->lifetime_ms = LIFE_MAX_MS;
	}
	g->credential = repos_source(m, host);
	g->publish = true;
	memcpy(ret_id, g->id, sizeof(g->id));
	if (record_start(m, g, ""))
		return (true);
	ret_id[0] = '\0';
	end(m, g, 1, "it cannot be recorded");
	return (false);
}

/* --- from record to proxy --------------------------------------------------------- */

static void
ask_proxy(struct monitor *m, struct grant *g)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_PROXY);

	if (p == NULL) {
		end_for(m, g, 1, "suite_degraded", "Retry.",
		    "the proxy is not there");
		return;
	}
	g->step = GRANT_OPENING;
	(void)sbx_send_grant_open(p, 0, &(struct sbx_grant_open){
	    .grant = g->id, .container = g->container, .op = g->op,
	    .host = g->host, .repo = g->repo, .ref = g->ref,
	    .old_id = g->old_id, .new_id = g->new_id, .force = g->force,
	    .uses = g->uses, .lifetime_ms = g->lifetime_ms,
	    .credential = g->credential }, NULL);
}

static void
ask_broker(struct monitor *m, struct grant *g)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_BROKER);

	if (p == NULL) {
		end_for(m, g, 1, "suite_degraded", "Retry.",
		    "the broker is not there");
		return;
	}
	g->step = GRANT_SOURCING;
	(void)sbx_send_broker_grant(p, 0, &(struct sbx_broker_grant){
	    .grant = g->id, .op = g->op, .host = g->host, .repo = g->repo,
	    .ref = g->ref, .old_id = g->old_id, .new_id = g->new_id,
	    .force = g->force, .uses = g->uses,
	    .lifetime_ms = g->lifetime_ms }, NULL);
}

static bool
is_listed(struct monitor *m, const struct grant *g)
{
	return (g->op == SBX_GRANT_PUSH ? repos_may_write(m, g->host, g->repo) :
	    repos_may_read(m, g->host, g->repo));
}

/* GitHub takes no push without one; another host may. */
static bool
needs_credential(const struct grant *g)
{
	return (g->op == SBX_GRANT_PUSH && strcmp(g->host, SBX_GITHUB) == 0);
}

static void
go_on(struct monitor *m, struct grant *g)
{
	if (g->credential)
		ask_broker(m, g);
	else if (!needs_credential(g))
		ask_proxy(m, g);
	else if (!repos_may_write(m, g->host, g->repo))
		end_for(m, g, 1, "repo_not_allowed", "Write `allowed_repo "
		    "OWNER/NAME` into sbx.conf and send the suite SIGHUP.",
		    "the repository is not one that may be written");
	else
		end_for(m, g, 1, "no_source", "Name one in sbx.conf (`sbx "
		    "register`), and start the suite again.", "a push to "
		    SBX_GITHUB " needs a credential, and no source of one is "
		    "configured");
}

/* Permitted from now on. */
bool
grant_recorded(struct monitor *m, const struct sbx_in *in)
{
	struct grant *g = NULL;
	const char *why;

	for (size_t i = 0; g == NULL && i < SBX_NELEM(m->grants); i++)
		if (m->grants[i].used && in->hdr.id != 0 &&
		    m->grants[i].record_id == in->hdr.id)
			g = &m->grants[i];
	if (g == NULL)
		return (false);
	g->record_id = 0;
	why = journal_why(in, "");
	if (why == NULL && m->locked)
		why = LOCKED_WHY;
	if (why == NULL && g->credential && !is_listed(m, g))
		why = "the repository is not listed any more";
	if (why == NULL && !wanted(m, g))
		why = "nobody waits for it any more";
	if (why != NULL)
		end(m, g, 1, why);
	else
		go_on(m, g);
	return (true);
}

/* --- what the broker says of one ---------------------------------------------------- */

/* Without one after all: as any sandbox may read, and as such hosts are pushed
 * to that need none. */
static void
no_source(struct monitor *m, struct grant *g)
{
	struct worker *w = waiting_worker(m, g);

	if (g->op == SBX_GRANT_FETCH && w != NULL) {
		w->ask.grant[0] = '\0';
		repo_anonymous(w, "no_source", "there is no credential for "
		    "that host");
		end(m, g, 1, "no source is there");
	} else if (g->op == SBX_GRANT_FETCH && g->publish) {
		/* as any sandbox may, then */
		publish_granted(m, g->id);
		g->publish = false;
		end(m, g, 1, "no source is there");
	} else if (needs_credential(g))
		end_for(m, g, 1, "no_source", "See `sbx broker status`.",
		    "the broker has no credential for " SBX_GITHUB);
	else {
		g->credential = false;
		ask_proxy(m, g);
	}
}

void
grant_sourced(struct monitor *m, const struct sbx_broker_granted *q)
{
	struct grant *g = grant_find(m, q->grant);

	if (g == NULL || g->step != GRANT_SOURCING)
		return;
	if (q->error == SBX_E_NOENT)
		no_source(m, g);
	else if (q->error != 0)
		end_for(m, g, 1, "source_failed", "See `sbx broker status`.",
		    q->reason);
	else if (!wanted(m, g))
		end(m, g, 1, "nobody waits for it any more");
	else {
		journal_add(m, &(struct record){ .op = "grant",
		    .phase = "source", .who = g->who,
		    .container = g->container }, "grant", g->id, "source",
		    q->source, NULL);
		ask_proxy(m, g);
	}
}

/* --- what the proxy says of one ------------------------------------------------------ */

static void
opened(struct monitor *m, struct grant *g)
{
	struct ctl *c = waiting(m, g);
	struct worker *w = waiting_worker(m, g);

	g->step = GRANT_LIVE;
	g->by_ns = sbx_mono_ns() + g->lifetime_ms * MS_NS + LATE_NS;
	tick_arm(m);
	if (c != NULL) {
		c->grant[0] = '\0';
		(void)sbx_send_ctl_granted(c->peer, c->id,
		    &(struct sbx_ctl_granted){ .grant = g->id }, NULL);
		ctl_over(c);
	} else if (w != NULL) {
		(void)sbx_send_repo_opened(w->peer, w->ask.id,
		    &(struct sbx_repo_opened){ .grant = g->id, .code = "",
		    .why = "" }, NULL);
		ask_done(w);
	} else if (g->publish && publish_wants(m, g->id))
		publish_granted(m, g->id);
	else {
		revoke(m, g);
		end(m, g, 1, "nobody waits for it any more");
	}
}

static int
used(struct monitor *m, struct grant *g, uint32_t uses)
{
	if (g->step != GRANT_LIVE || uses >= g->uses)
		return (SBX_E_RANGE);
	g->uses = uses;
	/* each read is a record of the proxy's; there may be very many */
	if (g->op != SBX_GRANT_FETCH)
		record(m, g, "use", 0, "");
	if (g->publish && g->op == SBX_GRANT_PUSH)
		publish_grant_used(m, g->id);
	if (uses == 0)
		expire(m, g, "used up");
	return (0);
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

	if (g == NULL || g->step < GRANT_OPENING || g->step == GRANT_SPENT)
		return (0);
	switch ((enum sbx_grant_phase)q->state) {
	case SBX_GRANT_OPEN:
		if (g->step == GRANT_OPENING)
			opened(m, g);
		break;
	case SBX_GRANT_USED:
		return (used(m, g, q->uses));
	case SBX_GRANT_EXPIRED:
		expire(m, g, q->reason);
		break;
	case SBX_GRANT_REFUSED:
	case SBX_GRANT_REVOKED:
	case SBX_GRANT_PHASE_MAX:
		end(m, g, q->state == SBX_GRANT_REFUSED, q->reason);
		break;
	}
	return (0);
}

/* --- ends ------------------------------------------------------------------------------ */

/* What is being recorded ends when that is done. */
static void
end_everywhere(struct monitor *m, struct grant *g, const char *word,
    const char *next, const char *why)
{
	if (g->record_id != 0)
		return;
	revoke(m, g);
	end_for(m, g, word[0] != '\0', word[0] != '\0' ? word : "refused", next,
	    why);
}

/* Another call's or run's for the same read, which goes on. */
static const struct grant *
covering(const struct monitor *m, const struct grant *g)
{
	for (size_t i = 0; i < SBX_NELEM(m->grants); i++) {
		const struct grant *o = &m->grants[i];

		if (o->used && o != g && o->step == GRANT_LIVE &&
		    o->op == SBX_GRANT_FETCH && o->credential &&
		    (o->run[0] != '\0' ? strcmp(o->run, g->run) != 0 :
		    o->maker != NULL && o->maker != g->maker) &&
		    strcmp(o->container, g->container) == 0 &&
		    strcmp(o->host, g->host) == 0 &&
		    strcmp(o->repo, g->repo) == 0)
			return (o);
	}
	return (NULL);
}

/*
 * Its run or call is over.  The proxy cannot tell whose requests it let
 * through: while another of the same read goes on they may be that one's, and
 * it ends with that.
 */
static void
end_with(struct monitor *m, struct grant *g, const char *why)
{
	const struct grant *o = g->op == SBX_GRANT_FETCH &&
	    g->step == GRANT_LIVE ? covering(m, g) : NULL;

	g->maker = NULL;
	if (o == NULL) {
		end_everywhere(m, g, "", "", why);
		return;
	}
	memcpy(g->run, o->run, sizeof(g->run));
	if (o->run[0] == '\0')
		g->maker = o->maker;
}

void
grant_drop(struct monitor *m, const char *id, const char *why)
{
	struct grant *g = id[0] != '\0' ? grant_find(m, id) : NULL;

	if (g != NULL)
		end_everywhere(m, g, "", "", why);
}

/* Nobody waits for one that is not open yet. */
static void
unwanted(struct monitor *m, const char *id)
{
	struct grant *g = id[0] != '\0' ? grant_find(m, id) : NULL;

	if (g != NULL && g->step < GRANT_LIVE && g->record_id == 0) {
		revoke(m, g);
		end(m, g, 1, "nobody waits for it any more");
	}
}

void
grant_ctl_gone(struct ctl *c)
{
	char id[sizeof(c->grant)];

	memcpy(id, c->grant, sizeof(id));
	c->grant[0] = '\0';
	unwanted(c->m, id);
}

void
grant_worker_gone(struct worker *w)
{
	char id[sizeof(w->ask.grant)];

	memcpy(id, w->ask.grant, sizeof(id));
	w->ask.grant[0] = '\0';
	unwanted(w->m, id);
}

void
grant_close(struct monitor *m, struct worker *w, const char *id)
{
	struct grant *g = grant_find(m, id);

	if (g != NULL && g->who != w->who)
		journal_foreign(m, w->who, "grant", id);
	if (g != NULL && g->maker == w->call && g->step == GRANT_LIVE)
		end_with(m, g, "closed");
	else if (g == NULL || g->maker != w->call) {
		ask_refuse(w, "unknown_grant", "", "this call has no such "
		    "grant");
		return;
	}
	(void)sbx_send_repo_closed(w->peer, w->ask.id,
	    &(struct sbx_repo_closed){ 0 }, NULL);
	ask_done(w);
}

void
grant_call_ended(struct monitor *m, const struct call *c)
{
	struct grant *g;

	for (size_t i = 0; i < SBX_NELEM(m->grants); i++) {
		g = &m->grants[i];
		if (!g->used || g->maker != c)
			continue;
		if (g->run[0] == '\0')
			end_with(m, g, "its call ended");
		else
			g->maker = NULL;
	}
}

bool
grant_to_run(struct monitor *m, const struct worker *w, const char *id,
    const struct run *r)
{
	struct grant *g = grant_find(m, id);

	if (g == NULL || g->maker != w->call || g->step != GRANT_LIVE ||
	    strcmp(g->container, r->container) != 0)
		return (false);
	memcpy(g->run, r->id, sizeof(g->run));
	return (true);
}

void
grant_run_ended(struct monitor *m, const struct run *r)
{
	struct grant *g;

	for (size_t i = 0; i < SBX_NELEM(m->grants); i++) {
		g = &m->grants[i];
		if (g->used && strcmp(g->run, r->id) == 0)
			end_with(m, g, "its run ended");
	}
}

/* A proxy that does not say so holds none open, here or on record. */
void
grant_tick(struct monitor *m, uint64_t now_ns)
{
	struct grant *g;

	for (size_t i = 0; i < SBX_NELEM(m->grants); i++) {
		g = &m->grants[i];
		if (!g->used || g->step != GRANT_LIVE)
			continue;
		tick_arm(m);
		if (now_ns < g->by_ns)
			continue;
		revoke(m, g);
		expire(m, g, "its time is over");
	}
}

void
grant_ended(struct monitor *m, const char *container, const char *why)
{
	struct grant *g;

	for (size_t i = 0; i < SBX_NELEM(m->grants); i++) {
		g = &m->grants[i];
		if (g->used && (container == NULL ||
		    strcmp(g->container, container) == 0))
			end_everywhere(m, g, "", "", why);
	}
}

/* Its next life knows nothing of them. */
void
grant_broker_lost(struct monitor *m)
{
	struct grant *g;

	for (size_t i = 0; i < SBX_NELEM(m->grants); i++) {
		g = &m->grants[i];
		if (g->used && g->credential)
			end_everywhere(m, g, "suite_degraded", "Retry.",
			    "the broker ended");
	}
}

/* Nothing will be said of what it had to record. */
void
grant_journald_lost(struct monitor *m)
{
	struct grant *g;

	for (size_t i = 0; i < SBX_NELEM(m->grants); i++) {
		g = &m->grants[i];
		if (!g->used || g->record_id == 0)
			continue;
		g->record_id = 0;
		end_everywhere(m, g, "journal_unavailable", "Retry.",
		    "the journal is being restarted");
	}
}

unsigned
grant_lockdown(struct monitor *m)
{
	struct grant *g;
	unsigned n = 0;

	for (size_t i = 0; i < SBX_NELEM(m->grants); i++) {
		g = &m->grants[i];
		if (!g->used)
			continue;
		n++;
		end_everywhere(m, g, "locked", LOCKED_NEXT, LOCKED_WHY);
	}
	return (n);
}

void
grant_relisted(struct monitor *m)
{
	struct grant *g;

	for (size_t i = 0; i < SBX_NELEM(m->grants); i++) {
		g = &m->grants[i];
		if (g->used && g->credential && !is_listed(m, g))
			end_everywhere(m, g, "repo_not_allowed", "",
			    "the repository is not listed any more");
	}
}
