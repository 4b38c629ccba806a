#include "sbxd/monitor/monitor.h"

/* The worker zygote: which of its children ended. */

static int
on_worker_exited(struct sbx_peer *p, struct sbx_in *in)
{
	const struct component *c = sbx_peer_ctx(p);

	worker_exited(c->m, in->m.worker_exited.worker,
	    in->m.worker_exited.status);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_HELLO] = { SBX_ST(ST_NEW), SBX_D_ONCE, component_hello },
	[SBX_MSG_LOG] = { SBX_ST_ANY, 0, component_log },
	[SBX_MSG_PONG] = { SBX_ST(ST_READY), 0, component_pong },
	[SBX_MSG_WORKER_EXITED] = { SBX_ST(ST_READY), 0, on_worker_exited },
};
const struct sbx_dispatch_table monitor_from_zygote = {
	SBX_PROC_MONITOR, SBX_PROC_ZYGOTE, rows };
