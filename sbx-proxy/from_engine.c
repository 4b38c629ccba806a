/* What the proxy takes from the engine: sandboxes' sockets, the authorities that
 * it kept of them, and whether their clients have what they need. */

#include "sbx-proxy/proxy.h"

#include "common/base/log.h"

/*
 * The socket came from inside a sandbox, whose init may be the guest's by now.
 * Safe, since everything that matters about it is read from the kernel, and
 * since holding it opens nothing: it listens on the monitor's word only.
 */
static int
on_proxy_listener(struct sbx_peer *p, struct sbx_in *in)
{
	struct proxy *x = sbx_peer_ctx(p);
	struct sbx_proxy_listener_state m = {
		.container = in->m.proxy_listener.container };

	m.error = listener_add(x, m.container, sbx_steal_fd(&in->fds[0]),
	    &m.reason);
	if (m.error != 0)
		log_warn("a sandbox's socket was refused: %s container=%s",
		    m.reason, m.container);
	return (sbx_send_proxy_listener_state(p, in->hdr.id, &m, NULL));
}

/* Safe, since it was ours, kept by the engine meanwhile, and is taken only when
 * it is whole and that sandbox's. */
static int
on_proxy_kept(struct sbx_peer *p, struct sbx_in *in)
{
	listener_kept(sbx_peer_ctx(p), in->m.proxy_kept.container,
	    sbx_steal_fd(&in->fds[0]));
	return (0);
}

/* Safe, since it matters for what the monitor opened only. */
static int
on_proxy_trusted(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_proxy_trusted *q = &in->m.proxy_trusted;

	listener_trusted(sbx_peer_ctx(p), q->container, q->error, q->reason);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_PROXY_LISTENER] = { SBX_ST_ANY, 0, on_proxy_listener },
	[SBX_MSG_PROXY_KEPT] = { SBX_ST_ANY, 0, on_proxy_kept },
	[SBX_MSG_PROXY_TRUSTED] = { SBX_ST_ANY, 0, on_proxy_trusted },
};
const struct sbx_dispatch_table proxy_from_engine = {
	SBX_PROC_PROXY, SBX_PROC_ENGINE, rows,
};
