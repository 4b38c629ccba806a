#include "sbx-proxy/grant.h"

const char *
grant_open(struct proxy *x, const struct sbx_grant_open *q)
{
	(void)x;
	(void)q;
	return ("not yet");
}

void
grant_revoke(struct proxy *x, const char *id)
{
	(void)x;
	(void)id;
}

void
grant_sandbox_ended(struct proxy *x, struct listener *l)
{
	(void)x;
	(void)l;
}

struct grant *
grant_find(struct listener *l, enum sbx_grant_op op, const struct host *host,
    const char *repo)
{
	(void)l;
	(void)op;
	(void)host;
	(void)repo;
	return (NULL);
}

void
grant_use(struct grant *g)
{
	(void)g;
}
