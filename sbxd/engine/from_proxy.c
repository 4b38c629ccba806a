/* What the proxy says of a socket it was handed. */
#include "sbxd/engine/engine.h"

#include <errno.h>

/*
 * Refused: what the sandbox's init passed out is not the socket that it should
 * be, and init is the only one who could do that.
 */
static int
on_proxy_listener_state(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_proxy_listener_state *q =
	    &in->m.proxy_listener_state;
	struct sandbox *sb = sandbox_find(sbx_peer_ctx(p), q->container);

	if (q->error != 0 && sb != NULL)
		sandbox_end(sb, SBX_END_VIOLATION,
		    "its egress socket was refused: %s", q->reason);
	return (0);
}

/*
 * Files for the sandbox's clients, and what the next proxy needs.  Safe: they
 * are sealed, of limited size, and go into that sandbox only, which can no more
 * be harmed by them than by the proxy's answers.
 */
static int
on_proxy_trust(struct sbx_peer *p, struct sbx_in *in)
{
	struct sbx_proxy_trusted m = {
		.container = in->m.proxy_trust.container, .error = ESRCH,
		.reason = "the sandbox has ended" };
	struct sandbox *sb = sandbox_find(sbx_peer_ctx(p), m.container);

	if (sb != NULL && (sb->state == SB_READY || sb->state == SB_FROZEN))
		m.error = trust_take(sb, in->fds, &m.reason);
	return (sbx_send_proxy_trusted(p, in->hdr.id, &m, NULL));
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_PROXY_LISTENER_STATE] = { SBX_ST_ANY, 0,
		on_proxy_listener_state },
	[SBX_MSG_PROXY_TRUST] = { SBX_ST_ANY, 0, on_proxy_trust },
};
const struct sbx_dispatch_table engine_from_proxy = { SBX_PROC_ENGINE,
	SBX_PROC_PROXY, rows };
