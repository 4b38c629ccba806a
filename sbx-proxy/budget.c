#include "sbx-proxy/budget.h"

#include <string.h>

unsigned
budget_slot(struct listener *l, const struct host *h)
{
	unsigned i;

	for (i = 0; i < SBX_PROXY_BUDGETS - 1; i++) {
		if (l->out[i].host.text[0] == '\0')
			l->out[i].host = *h;
		if (l->out[i].host.kind == h->kind &&
		    strcmp(l->out[i].host.text, h->text) == 0)
			break;
	}
	return (i);
}

uint64_t
budget_left(const struct listener *l, unsigned slot)
{
	uint64_t all = l->x->policy.out_bytes, used = l->out[slot].bytes;

	return (used < all ? all - used : 0);
}

void
budget_take(struct listener *l, unsigned slot, uint64_t bytes)
{
	l->out[slot].bytes += bytes;
}
