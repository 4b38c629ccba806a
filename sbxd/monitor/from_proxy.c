#include "sbxd/monitor/monitor.h"

/*
 * The proxy: its verdicts go to journald.  Safe when it is hostile: what it says
 * here is about ways out that it holds itself, and what that makes us record is
 * bounded (grant.c).
 */

static struct monitor *
of(struct sbx_peer *p)
{
	return (((struct component *)sbx_peer_ctx(p))->m);
}

static int
on_proxy_opened(struct sbx_peer *p, struct sbx_in *in)
{
	egress_opened(of(p), &in->m.proxy_opened);
	return (0);
}

static int
on_grant_state(struct sbx_peer *p, struct sbx_in *in)
{
	if (in->m.grant_state.state >= SBX_GRANT_PHASE_MAX)
		return (SBX_E_RANGE);
	return (grant_state(of(p), &in->m.grant_state));
}

/* Safe: it is the answer to something that was asked, and the socket is the
 * courier's to distrust, by TLS. */
static int
on_dialled(struct sbx_peer *p, struct sbx_in *in)
{
	struct monitor *m = of(p);

	if (!broker_dialled(m, in))
		(void)api_dialled(m, in); /* or nobody waits for it now */
	return (0);
}

static int
on_proxy_exchange(struct sbx_peer *p, struct sbx_in *in)
{
	exchange_ask(of(p), in->hdr.id, in->m.proxy_exchange.grant, in->fds);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_HELLO] = { SBX_ST(ST_NEW), SBX_D_ONCE, component_hello },
	[SBX_MSG_LOG] = { SBX_ST_ANY, 0, component_log },
	[SBX_MSG_PONG] = { SBX_ST(ST_READY), 0, component_pong },
	[SBX_MSG_PROXY_OPENED] = { SBX_ST(ST_READY), 0, on_proxy_opened },
	[SBX_MSG_GRANT_STATE] = { SBX_ST(ST_READY), 0, on_grant_state },
	[SBX_MSG_PROXY_DIALLED] = { SBX_ST(ST_READY), 0, on_dialled },
	[SBX_MSG_PROXY_NOT_DIALLED] = { SBX_ST(ST_READY), 0, on_dialled },
	[SBX_MSG_PROXY_EXCHANGE] = { SBX_ST(ST_READY), 0, on_proxy_exchange },
};
const struct sbx_dispatch_table monitor_from_proxy = {
	SBX_PROC_MONITOR, SBX_PROC_PROXY, rows };
