/*
 * Grants, as the monitor opened them: the broker's own copy, which decides
 * here, whatever the proxy thinks of its own.
 */

#include "common/base/log.h"
#include "sbx-broker/broker.h"
#include "sbx-broker/check.h"
#include "common/git/push.h"

#include <event2/event.h>
#include <string.h>

#define GRANTS_MAX 256u
#define GRANT_LIFE_MAX_MS 3600000u

static void
grant_free(struct grant *g)
{
	LIST_REMOVE(g, link);
	g->k->ngrants--;
	event_free(g->timer);
	free(g);
}

/* What waits for its turn begins no more; what is under way goes on, within
 * its own deadline. */
static void
on_expiry(evutil_socket_t fd, short what, void *ctx)
{
	struct grant *g = ctx;

	(void)fd, (void)what;
	grant_reap(g);
}

struct grant *
grant_find(struct broker *k, const char *id)
{
	struct grant *g;

	LIST_FOREACH(g, &k->grants, link)
		if (strcmp(g->id, id) == 0)
			return (g);
	return (NULL);
}

/* NULL, or what is wrong with the change that a push is granted. */
static const char *
check_push(const struct sbx_broker_grant *q)
{
	if (q->op != SBX_GRANT_PUSH)
		return (*q->ref == '\0' && *q->old_id == '\0' &&
		    *q->new_id == '\0' && q->force == 0 ? NULL :
		    "only a push names a change");
	return (push_change_fault(q->ref, q->old_id, q->new_id));
}

/* NULL, or why it is not taken; what it says is well-formed after it. */
static const char *
check(struct broker *k, const struct sbx_broker_grant *q)
{
	if (!sbx_is_hex(q->grant, 16))
		return ("its id is none");
	if (grant_find(k, q->grant) != NULL)
		return ("there is one of that id");
	if (q->op != SBX_GRANT_FETCH && q->op != SBX_GRANT_PUSH)
		return ("its operation is none of git");
	if (!check_host(q->host))
		return ("its host is no canonical name");
	if (!check_repo(q->repo, false))
		return ("its repository is not OWNER/NAME in lower case");
	if (q->uses == 0 || q->lifetime_ms == 0 ||
	    q->lifetime_ms > GRANT_LIFE_MAX_MS)
		return ("it has no use, or lasts too long");
	if (k->ngrants == GRANTS_MAX)
		return ("there are too many");
	return (check_push(q));
}

/* All lengths were checked, by message and by check(). */
static void
fill(struct grant *g, const struct sbx_broker_grant *q)
{
	g->op = (enum sbx_grant_op)q->op;
	g->uses = q->uses;
	g->reads = SBX_GRANT_READS;
	g->by_ns = sbx_mono_ns() + (uint64_t)q->lifetime_ms * 1000000;
	g->force = q->force != 0;
	if (sbx_strlcpy(g->id, q->grant, sizeof(g->id)) < 0 ||
	    sbx_strlcpy(g->host, q->host, sizeof(g->host)) < 0 ||
	    sbx_strlcpy(g->repo, q->repo, sizeof(g->repo)) < 0 ||
	    sbx_strlcpy(g->ref, q->ref, sizeof(g->ref)) < 0 ||
	    sbx_strlcpy(g->old_id, q->old_id, sizeof(g->old_id)) < 0 ||
	    sbx_strlcpy(g->new_id, q->new_id, sizeof(g->new_id)) < 0)
		sbx_fatal("a grant's text is longer than its message");
}

static void
add(struct broker *k, const struct sbx_broker_grant *q)
{
	struct timeval t = { q->lifetime_ms / 1000,
		q->lifetime_ms % 1000 * 1000 };
	struct grant *g = sbx_xcalloc(1, sizeof(*g));

	fill(g, q);
	g->k = k;
	g->timer = evtimer_new(k->base, on_expiry, g);
	if (g->timer == NULL || evtimer_add(g->timer, &t) < 0)
		sbx_fatal("a grant cannot be timed");
	LIST_INSERT_HEAD(&k->grants, g, link);
	k->ngrants++;
}

/* The first of its sources that can be used; all but the command, behind which
 * none is asked, may be passed over. */
static const struct source *
usable(const struct broker *k, const char *host, const struct source **ret_any)
{
	const struct source *s;

	*ret_any = NULL;
	for (s = sources_next(&k->sources, host, NULL); s != NULL;
	    s = sources_next(&k->sources, host, s)) {
		if (*ret_any == NULL)
			*ret_any = s;
		if (s->bad[0] == '\0')
			return (s);
	}
	return (NULL);
}

/* Safe, since it is the monitor's word; read as strictly as another's all the
 * same, for what it means decides what a credential is used for. */
int
grant_open(struct broker *k, uint32_t id, const struct sbx_broker_grant *q)
{
	struct sbx_broker_granted a = { .grant = q->grant, .source = "",
		.reason = "" };
	const struct source *s, *any;
	const char *why = check(k, q);

	if (k->locked) {
		a.error = SBX_E_POLICY;
		a.reason = BROKER_LOCKED;
	} else if (why != NULL) {
		a.error = SBX_E_SYNTAX;
		a.reason = why;
	} else if ((s = usable(k, q->host, &any)) != NULL) {
		a.source = source_kind_name(s->kind);
		add(k, q);
	} else {
		a.error = any == NULL ? SBX_E_NOENT : SBX_E_UNSUPPORTED;
		a.reason = any == NULL ? "no source of credentials is "
		    "configured for that host" : any->bad;
	}
	return (sbx_send_broker_granted(k->monitor, id, &a, NULL));
}

void
grant_revoke(struct broker *k, const char *id)
{
	struct grant *g = grant_find(k, id);
	char name[sizeof(g->id)];

	if (g == NULL)
		return;		/* it was over */
	memcpy(name, g->id, sizeof(name));
	grant_free(g);
	job_end_grant(k, name, "not_granted", "the grant was revoked");
}

const char *
grant_spent(const struct grant *g)
{
	if (!evtimer_pending(g->timer, NULL))
		return ("the grant's time is over");
	if (g->uses == 0)
		return ("the grant is used up");
	if (g->op == SBX_GRANT_PUSH && g->reads == 0)
		return ("the grant was read with too often; ask for a new one");
	return (NULL);
}

/*
 * A push has one exchange under way at a time: whether it changed anything is
 * known when it is over, and until then no other can have the same use.  Asking
 * for the refs is no use of it, but is counted: a push needs it once or twice,
 * and nobody is granted to read.  A read uses one for each exchange.
 */
bool
grant_takes(struct grant *g)
{
	const unsigned most = g->op == SBX_GRANT_PUSH ? 1 : BROKER_JOBS_GRANT;

	if (grant_spent(g) != NULL || g->running >= most)
		return (false);
	g->running++;
	if (g->op == SBX_GRANT_FETCH)
		g->uses--;
	return (true);
}

void
grant_over(struct grant *g, bool ran, bool used)
{
	g->running--;
	if (g->op != SBX_GRANT_PUSH)
		return;
	if (used && g->uses > 0)
		g->uses--;
	else if (ran && !used && g->reads > 0)
		g->reads--;
}

void
grant_reap(struct grant *g)
{
	/* the loop's clock may be behind the one of by_ns */
	if (g->running == 0 && !evtimer_pending(g->timer, NULL))
		grant_free(g);
}

void
grant_free_all(struct broker *k)
{
	struct grant *g;

	while ((g = LIST_FIRST(&k->grants)) != NULL)
		grant_free(g);
}
