#include "sbx-proxy/grant.h"

#include "common/base/limits.h"
#include "common/base/log.h"
#include "sbx-proxy/gate.h"
#include "sbx-proxy/record.h"

#include <event2/event.h>
#include <inttypes.h>
#include <string.h>

/* --- what is told of them --------------------------------------------------------- */

static void
say(struct proxy *x, const char *id, enum sbx_grant_phase state, uint32_t uses,
    const char *reason)
{
	struct sbx_grant_state m = { .grant = id, .state = (uint8_t)state,
		.uses = uses, .reason = reason };

	if (x->monitor != NULL)
		(void)sbx_send_grant_state(x->monitor, 0, &m,
		    NULL); /* or its channel ends, and with it all grants */
}

static void
grant_free(struct grant *g)
{
	LIST_REMOVE(g, link);
	g->l->x->ngrants--;
	event_free(g->timer);
	free(g);
}

static void
end(struct grant *g, enum sbx_grant_phase state, const char *reason)
{
	say(g->l->x, g->id, state, g->uses, reason);
	grant_free(g);
}

static void
on_expiry(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd;
	(void)what;
	end(ctx, SBX_GRANT_EXPIRED, "its time is over");
}

/* --- what is taken ------------------------------------------------------------------ */

static bool
part_is_good(const char *s, size_t n, size_t max, const char *more)
{
	size_t i;

	if (n > max || strspn(s, ".") >= n)	/* n 0, too */
		return (false);
	for (i = 0; i < n; i++)
		if (!(s[i] >= 'a' && s[i] <= 'z') &&
		    !(s[i] >= '0' && s[i] <= '9') &&
		    strchr(more, s[i]) == NULL)
			return (false);
	return (true);
}

/* "owner/name", lower case, as gate.h gives it. */
static bool
repo_is_good(const char *s)
{
	size_t n = strcspn(s, "/");

	return (s[n] == '/' && part_is_good(s, n, GATE_OWNER_MAX, "-_.") &&
	    part_is_good(s + n + 1, strlen(s + n + 1), GATE_REPO_MAX, "-_."));
}

/* NULL, or what is wrong with the change that a push is granted. */
static const char *
check_push(const struct sbx_grant_open *q)
{
	if (q->op != SBX_GRANT_PUSH)
		return (*q->ref == '\0' && *q->old_id == '\0' &&
		    *q->new_id == '\0' && q->force == 0 ? NULL :
		    "only a push names a change");
	return (push_change_fault(q->ref, q->old_id, q->new_id));
}

static bool
leads_there(const struct proxy *x, const struct host *h)
{
	struct verdict v;

	policy_decide(&x->policy, POLICY_HTTPS, h, 443, &v);
	return (v.how == POLICY_GIT || v.how == POLICY_GITHUB);
}

static struct grant *
grant_by_id(struct proxy *x, const char *id)
{
	struct listener *l;
	struct grant *g;

	LIST_FOREACH(l, &x->listeners, link)
		LIST_FOREACH(g, &l->grants, link)
			if (strcmp(g->id, id) == 0)
				return (g);
	return (NULL);
}

static unsigned
count(const struct listener *l)
{
	const struct grant *g;
	unsigned n = 0;

	LIST_FOREACH(g, &l->grants, link)
		n++;
	return (n);
}

/* NULL, or why it is not taken; what it says is well-formed after it. */
static const char *
check(struct proxy *x, const struct sbx_grant_open *q, struct host *ret_host,
    struct listener **ret_l)
{
	if (!sbx_is_hex(q->grant, 16))
		return ("its id is none");
	if (grant_by_id(x, q->grant) != NULL)
		return ("there is one of that id");
	*ret_l = listener_find(x, q->container);
	if (*ret_l == NULL || !(*ret_l)->open)
		return ("its sandbox has no egress");
	if (q->op >= SBX_GRANT_OP_MAX)
		return ("its operation is none");
	if (host_read((struct sbx_text){ q->host, strlen(q->host) },
	    ret_host) != 0 || strcmp(q->host, ret_host->text) != 0)
		return ("its host is no canonical name");
	if (!leads_there(x, ret_host))
		return ("its host is none that is granted");
	if (!repo_is_good(q->repo))
		return ("its repository is not OWNER/NAME in lower case");
	if (q->uses == 0 || q->lifetime_ms == 0 ||
	    q->lifetime_ms > GRANT_LIFE_MAX_MS)
		return ("it has no use, or lasts too long");
	if (x->ngrants == GRANT_MAX || count(*ret_l) == GRANT_MAX_SANDBOX)
		return ("there are too many");
	return (check_push(q));
}

/* All lengths were checked, by message and by check(). */
static void
fill(struct grant *g, const struct sbx_grant_open *q)
{
	g->op = (enum sbx_grant_op)q->op;
	g->uses = q->uses;
	g->reads = SBX_GRANT_READS;
	g->by_ns = sbx_mono_ns() + (uint64_t)q->lifetime_ms * 1000000;
	g->push.force = q->force != 0;
	g->credential = q->credential != 0;
	if (sbx_strlcpy(g->id, q->grant, sizeof(g->id)) < 0 ||
	    sbx_strlcpy(g->repo, q->repo, sizeof(g->repo)) < 0 ||
	    sbx_strlcpy(g->push.ref, q->ref, sizeof(g->push.ref)) < 0 ||
	    sbx_strlcpy(g->push.old_id, q->old_id,
	    sizeof(g->push.old_id)) < 0 ||
	    sbx_strlcpy(g->push.new_id, q->new_id, sizeof(g->push.new_id)) < 0)
		sbx_fatal("a grant's text is longer than its message");
}

/* Safe, since it is the monitor's word; read as strictly as another's all the
 * same, for what it means decides what leaves a sandbox. */
const char *
grant_open(struct proxy *x, const struct sbx_grant_open *q)
{
	struct timeval t = { q->lifetime_ms / 1000,
		q->lifetime_ms % 1000 * 1000 };
	struct listener *l;
	struct host host;
	struct grant *g;
	const char *why = check(x, q, &host, &l);

	if (why != NULL) {
		say(x, q->grant, SBX_GRANT_REFUSED, 0, why);
		return (why);
	}
	g = sbx_xcalloc(1, sizeof(*g));
	fill(g, q);
	g->l = l;
	g->host = host;
	g->timer = evtimer_new(x->base, on_expiry, g);
	if (g->timer == NULL || evtimer_add(g->timer, &t) < 0)
		sbx_fatal("a grant cannot be timed");
	LIST_INSERT_HEAD(&l->grants, g, link);
	x->ngrants++;
	say(x, g->id, SBX_GRANT_OPEN, g->uses, "");
	return (NULL);
}

void
grant_revoke(struct proxy *x, const char *id)
{
	struct grant *g = grant_by_id(x, id);

	if (g != NULL)
		end(g, SBX_GRANT_REVOKED, "");
}

void
grant_sandbox_ended(struct proxy *x, struct listener *l)
{
	struct grant *g;

	(void)x;
	while ((g = LIST_FIRST(&l->grants)) != NULL)
		end(g, SBX_GRANT_REVOKED, "the sandbox ended");
}

/* --- their use ------------------------------------------------------------------------ */

struct grant *
grant_find(struct listener *l, enum sbx_grant_op op, const struct host *host,
    const char *repo, const struct grant *after)
{
	const uint64_t now = sbx_mono_ns();
	struct grant *g;

	g = after == NULL ? LIST_FIRST(&l->grants) : LIST_NEXT(after, link);
	for (; g != NULL; g = LIST_NEXT(g, link))
		if (g->op == op && g->uses > 0 && now < g->by_ns &&
		    g->host.kind == host->kind &&
		    strcmp(g->host.text, host->text) == 0 &&
		    strcmp(g->repo, repo) == 0)
			return (g);
	return (NULL);
}

void
grant_use(struct grant *g)
{
	struct listener *l = g->l;

	g->uses--;
	record_grant_used(l, g->id, g->uses);
	say(l->x, g->id, SBX_GRANT_USED, g->uses, "");
	if (g->uses == 0)
		grant_free(g);
}
