/* A broken key process (--wrap=sbx_peer_new): whatever a courier may say at all
 * is taken at any time, and more than once.  For test_broken.py. */
#include "common/proto/peer.h"

struct sbx_peer *__real_sbx_peer_new(struct event_base *base, int fd,
    const struct sbx_dispatch_table *table, void *ctx, sbx_peer_end on_end);
struct sbx_peer *__wrap_sbx_peer_new(struct event_base *base, int fd,
    const struct sbx_dispatch_table *table, void *ctx, sbx_peer_end on_end);

struct sbx_peer *
__wrap_sbx_peer_new(struct event_base *base, int fd,
    const struct sbx_dispatch_table *table, void *ctx, sbx_peer_end on_end)
{
	static struct sbx_dispatch rows[SBX_MSG_MAX];
	static struct sbx_dispatch_table any;

	if (table->remote != SBX_PROC_COURIER)
		return (__real_sbx_peer_new(base, fd, table, ctx, on_end));
	any = *table;
	any.rows = rows;
	for (size_t i = 0; i < SBX_MSG_MAX; i++) {
		rows[i] = table->rows[i];
		rows[i].flags = 0;
		if (rows[i].fn != NULL)
			rows[i].states = ~0u;
	}
	return (__real_sbx_peer_new(base, fd, &any, ctx, on_end));
}
