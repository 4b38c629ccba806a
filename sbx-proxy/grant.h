#ifndef SBX_PROXY_GRANT_H
#define SBX_PROXY_GRANT_H

/*
 * What the monitor opened beyond the policy, for one sandbox each, after its
 * record was durable.  All end with the monitor's channel.
 */

#include "common/git/push.h"
#include "common/proto/proto.h"
#include "sbx-proxy/proxy.h"

#define GRANT_MAX 256u		/* of all sandboxes */
#define GRANT_MAX_SANDBOX 16u	/* of one */
#define GRANT_LIFE_MAX_MS 3600000u

struct grant {
	LIST_ENTRY(grant) link;
	char id[17];
	struct listener *l;		/* borrowed; holds it */
	enum sbx_grant_op op;
	struct host host;
	char repo[141];
	struct push_grant push;
	bool credential;		/* through a courier */
	uint32_t uses;			/* left */
	uint32_t reads;			/* PUSH without a credential: left, of
					 * those that change nothing */
	uint64_t by_ns;			/* monotonic */
	struct event *timer;		/* owned; of its end */
};

/* NULL and GRANT_STATE OPEN is sent, or why it is refused. */
const char *grant_open(struct proxy *x, const struct sbx_grant_open *q);
void grant_revoke(struct proxy *x, const char *id);
void grant_sandbox_ended(struct proxy *x, struct listener *l);
/* The first that fits behind `after` (NULL: of all), NULL: none.  Borrowed until
 * anything else is called. */
struct grant *grant_find(struct listener *l, enum sbx_grant_op op,
    const struct host *host, const char *repo, const struct grant *after);
/* May it be read once more, which is no use of it?  The broker counts those with
 * a credential. */
static inline bool
grant_reads(const struct grant *g)
{
	return (g->op != SBX_GRANT_PUSH || g->credential || g->reads > 0);
}

static inline bool
grant_read(struct grant *g)
{
	if (!grant_reads(g))
		return (false);
	g->reads -= g->reads > 0;
	return (true);
}

/* One use less, before a byte goes upstream; after the last g is gone. */
void grant_use(struct grant *g);

#endif
