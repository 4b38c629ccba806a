/* What the proxy does on the monitor's word. */

#include "sbx-proxy/grant.h"
#include "sbx-proxy/proxy.h"

#include "common/base/log.h"

#include <event2/event.h>
#include <stdio.h>

/* The counts are for a human who asks why a sandbox has no way out. */
static int
on_ping(struct sbx_peer *p, struct sbx_in *in)
{
	struct proxy *x = sbx_peer_ctx(p);
	char state[64];

	(void)snprintf(state, sizeof(state), "listeners=%zu engine=%d",
	    x->nlisteners, x->engine != NULL);
	return (sbx_send_pong(p, in->hdr.id, &(struct sbx_pong){
	    .healthy = 1, .state = state }, NULL));
}

/* Listeners close with the process, so no connection is taken after it. */
static int
on_shutdown(struct sbx_peer *p, struct sbx_in *in)
{
	struct proxy *x = sbx_peer_ctx(p);

	(void)in;
	if (event_base_loopbreak(x->base) < 0)
		sbx_fatal("the event loop cannot be left");
	return (0);
}

/* Only the monitor introduces, so the engine's channel is the engine's. */
static int
on_introduce(struct sbx_peer *p, struct sbx_in *in)
{
	struct proxy *x = sbx_peer_ctx(p);

	if (in->m.introduce.peer == SBX_PROC_JOURNALD)
		return (proxy_add_journald(x, sbx_steal_fd(&in->fds[0])));
	if (in->m.introduce.peer != SBX_PROC_ENGINE)
		return (SBX_E_POLICY);
	return (proxy_add_engine(x, sbx_steal_fd(&in->fds[0])));
}

/*
 * It may come before the socket that it is for, which then must be refused:
 * the engine's channel and this one have no common order.
 */
static int
on_proxy_close(struct sbx_peer *p, struct sbx_in *in)
{
	struct proxy *x = sbx_peer_ctx(p);

	if (!sbx_is_hex(in->m.proxy_close.container, SBX_CONTAINER_HEX))
		return (SBX_E_SYNTAX);
	listener_close(x, in->m.proxy_close.container);
	return (0);
}

static int
on_proxy_policy(struct sbx_peer *p, struct sbx_in *in)
{
	(void)p;
	(void)in;
	return (0);
}

static int
on_proxy_open(struct sbx_peer *p, struct sbx_in *in)
{
	struct proxy *x = sbx_peer_ctx(p);

	if (!sbx_is_hex(in->m.proxy_open.container, SBX_CONTAINER_HEX))
		return (SBX_E_SYNTAX);
	listener_open(x, in->m.proxy_open.container,
	    in->m.proxy_open.principal);
	return (0);
}

static int
on_grant_open(struct sbx_peer *p, struct sbx_in *in)
{
	(void)grant_open(sbx_peer_ctx(p), &in->m.grant_open);
	return (0);
}

static int
on_grant_revoke(struct sbx_peer *p, struct sbx_in *in)
{
	grant_revoke(sbx_peer_ctx(p), in->m.grant_revoke.grant);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_PING] = { SBX_ST_ANY, 0, on_ping },
	[SBX_MSG_SHUTDOWN] = { SBX_ST_ANY, SBX_D_ONCE, on_shutdown },
	[SBX_MSG_INTRODUCE] = { SBX_ST_ANY, 0, on_introduce },
	[SBX_MSG_PROXY_POLICY] = { SBX_ST_ANY, 0, on_proxy_policy },
	[SBX_MSG_PROXY_OPEN] = { SBX_ST_ANY, 0, on_proxy_open },
	[SBX_MSG_GRANT_OPEN] = { SBX_ST_ANY, 0, on_grant_open },
	[SBX_MSG_GRANT_REVOKE] = { SBX_ST_ANY, 0, on_grant_revoke },
	[SBX_MSG_PROXY_CLOSE] = { SBX_ST_ANY, 0, on_proxy_close },
};
const struct sbx_dispatch_table proxy_from_monitor = {
	SBX_PROC_PROXY, SBX_PROC_MONITOR, rows,
};
