#include "sbxd/monitor/monitor.h"

/* sbxd-copyin: one copy or look each; which one is known from its channel. */

static int
on_hello(struct sbx_peer *p, struct sbx_in *in)
{
	(void)in;
	sbx_peer_set_state(p, ST_READY);
	return (0);
}

static int
on_log(struct sbx_peer *p, struct sbx_in *in)
{
	struct monitor *m = sbx_peer_ctx(p);

	/* all copies share one rate: they come and go */
	log_child(&m->comps[SBX_PROC_COPYIN], "copyin", in->m.log.level,
	    in->m.log.text);
	return (0);
}

static int
on_copyin_done(struct sbx_peer *p, struct sbx_in *in)
{
	struct copy *c = copy_of_peer(sbx_peer_ctx(p), p);
	struct detect *d = detect_of_peer(sbx_peer_ctx(p), p);

	if (c != NULL)
		copy_read_done(c, &in->m.copyin_done);
	else if (d != NULL)
		detect_looked(d, &in->m.copyin_done);
	return (0);
}

/* A copy has none: one that sends it breaks the protocol. */
static int
on_copyin_markers(struct sbx_peer *p, struct sbx_in *in)
{
	struct detect *d = detect_of_peer(sbx_peer_ctx(p), p);

	if (d == NULL && copy_of_peer(sbx_peer_ctx(p), p) != NULL)
		return (SBX_E_STATE);
	if (d != NULL)
		d->found = in->m.copyin_markers.found;
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_HELLO] = { SBX_ST(ST_NEW), SBX_D_ONCE, on_hello },
	[SBX_MSG_LOG] = { SBX_ST_ANY, 0, on_log },
	[SBX_MSG_COPYIN_MARKERS] = { SBX_ST(ST_READY), SBX_D_ONCE,
	    on_copyin_markers },
	[SBX_MSG_COPYIN_DONE] = { SBX_ST(ST_READY), SBX_D_ONCE,
	    on_copyin_done },
};
const struct sbx_dispatch_table monitor_from_copyin = {
	SBX_PROC_MONITOR, SBX_PROC_COPYIN, rows };
