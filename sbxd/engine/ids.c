/*
 * Who a sandbox's user is outside.  Each gets an id of its own of the range
 * that the engine's namespace maps, so that the kernel keeps sandboxes apart
 * also where a path or a process of another one were within reach.  The range
 * is gone round, beginning anywhere: an id does not come back soon.
 */
#include "sbxd/engine/engine.h"

#include <unistd.h>

void
ids_open(struct ids *ids, uint32_t first, uint32_t n)
{
	uint32_t start;

	ids->first = first;
	ids->n = n;
	if (n == 0)
		return;
	ids->used = sbx_xcalloc(n, sizeof(*ids->used));
	sbx_random(&start, sizeof(start));
	ids->next = start % n;
}

uid_t
ids_take(struct ids *ids)
{
	uint32_t at;

	for (uint32_t i = 0; i < ids->n; i++) {
		at = (ids->next + i) % ids->n;
		if (ids->used[at] != 0)
			continue;
		ids->used[at] = 1;
		ids->next = (at + 1) % ids->n;
		return (ids->first + at);
	}
	return (geteuid());
}

void
ids_hold(struct ids *ids, uid_t uid)
{
	if (uid - ids->first < ids->n)
		ids->used[uid - ids->first]++;
}

void
ids_put(struct ids *ids, uid_t uid)
{
	if (uid - ids->first < ids->n && ids->used[uid - ids->first] > 0)
		ids->used[uid - ids->first]--;
}
