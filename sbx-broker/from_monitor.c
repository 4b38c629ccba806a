/* What the broker does on the monitor's word. */

#include "sbx-broker/broker.h"

#include "common/base/log.h"

#include <event2/event.h>

/* Answered at once: what is slow here (signing) would hold it up, and that is
 * what the monitor wants to see. */
static int
on_ping(struct sbx_peer *p, struct sbx_in *in)
{
	char state[256];

	status_line(sbx_peer_ctx(p), state, sizeof(state));
	return (sbx_send_pong(p, in->hdr.id, &(struct sbx_pong){
	    .healthy = 1, .state = state }, NULL));
}

/* Nothing is waited for: what the queue holds is flushed by main(). */
static int
on_shutdown(struct sbx_peer *p, struct sbx_in *in)
{
	struct broker *k = sbx_peer_ctx(p);

	(void)in;
	if (event_base_loopbreak(k->base) < 0)
		sbx_fatal("the event loop cannot be left");
	return (0);
}

static int
on_introduce(struct sbx_peer *p, struct sbx_in *in)
{
	if (in->m.introduce.peer != SBX_PROC_JOURNALD)
		return (SBX_E_RANGE);
	broker_add_journald(sbx_peer_ctx(p), sbx_steal_fd(&in->fds[0]));
	return (0);
}

/* --- what was asked for ---------------------------------------------------------- */

/* Safe: whoever is at its other end may only say what a courier or a command
 * may, and gets only what was meant for one. */
static int
on_child(struct sbx_peer *p, struct sbx_in *in)
{
	const unsigned kind = in->m.broker_child.proc == SBX_PROC_COMMAND ?
	    ASK_COMMAND : ASK_COURIER;

	if (in->m.broker_child.proc != SBX_PROC_COMMAND &&
	    in->m.broker_child.proc != SBX_PROC_COURIER)
		return (SBX_E_RANGE);
	return (ask_answered(sbx_peer_ctx(p), in->hdr.id, 1u << kind,
	    &in->fds[0], ""));
}

static int
on_no_child(struct sbx_peer *p, struct sbx_in *in)
{
	return (ask_answered(sbx_peer_ctx(p), in->hdr.id,
	    1u << ASK_COMMAND | 1u << ASK_COURIER, NULL,
	    in->m.broker_no_child.reason));
}

static int
on_dialled(struct sbx_peer *p, struct sbx_in *in)
{
	return (ask_answered(sbx_peer_ctx(p), in->hdr.id, 1u << ASK_DIAL,
	    &in->fds[0], ""));
}

static int
on_not_dialled(struct sbx_peer *p, struct sbx_in *in)
{
	return (ask_answered(sbx_peer_ctx(p), in->hdr.id, 1u << ASK_DIAL,
	    NULL, in->m.broker_not_dialled.reason));
}

/* --- what is to be done ------------------------------------------------------------ */

static int
on_grant(struct sbx_peer *p, struct sbx_in *in)
{
	return (grant_open(sbx_peer_ctx(p), in->hdr.id, &in->m.broker_grant));
}

static int
on_revoke(struct sbx_peer *p, struct sbx_in *in)
{
	grant_revoke(sbx_peer_ctx(p), in->m.broker_revoke.grant);
	return (0);
}

static int
on_exchange(struct sbx_peer *p, struct sbx_in *in)
{
	job_on_exchange(sbx_peer_ctx(p), in);
	return (0);
}

static int
on_rest(struct sbx_peer *p, struct sbx_in *in)
{
	job_on_rest(sbx_peer_ctx(p), in);
	return (0);
}

static int
on_cancel(struct sbx_peer *p, struct sbx_in *in)
{
	job_cancel(sbx_peer_ctx(p), in->hdr.id);
	return (0);
}

static int
on_announce(struct sbx_peer *p, struct sbx_in *in)
{
	return (sign_announce(sbx_peer_ctx(p), &in->m.broker_announce));
}

/* Safe: nothing but one commit of what was announced, and that by its author. */
static int
on_sign(struct sbx_peer *p, struct sbx_in *in)
{
	return (sign_commit(sbx_peer_ctx(p), in->hdr.id, &in->m.broker_sign));
}

static int
on_status(struct sbx_peer *p, struct sbx_in *in)
{
	return (status_send(sbx_peer_ctx(p), in->hdr.id));
}

static int
on_lock(struct sbx_peer *p, struct sbx_in *in)
{
	return (lock_set(sbx_peer_ctx(p), in->hdr.id,
	    in->m.broker_lock.on != 0));
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_PING] = { SBX_ST_ANY, 0, on_ping },
	[SBX_MSG_SHUTDOWN] = { SBX_ST_ANY, SBX_D_ONCE, on_shutdown },
	[SBX_MSG_INTRODUCE] = { SBX_ST_ANY, 0, on_introduce },
	[SBX_MSG_BROKER_CHILD] = { SBX_ST_ANY, 0, on_child },
	[SBX_MSG_BROKER_NO_CHILD] = { SBX_ST_ANY, 0, on_no_child },
	[SBX_MSG_BROKER_DIALLED] = { SBX_ST_ANY, 0, on_dialled },
	[SBX_MSG_BROKER_NOT_DIALLED] = { SBX_ST_ANY, 0, on_not_dialled },
	[SBX_MSG_BROKER_GRANT] = { SBX_ST_ANY, 0, on_grant },
	[SBX_MSG_BROKER_REVOKE] = { SBX_ST_ANY, 0, on_revoke },
	[SBX_MSG_BROKER_EXCHANGE] = { SBX_ST_ANY, 0, on_exchange },
	[SBX_MSG_BROKER_REST] = { SBX_ST_ANY, 0, on_rest },
	[SBX_MSG_BROKER_CANCEL] = { SBX_ST_ANY, 0, on_cancel },
	[SBX_MSG_BROKER_ANNOUNCE] = { SBX_ST_ANY, 0, on_announce },
	[SBX_MSG_BROKER_SIGN] = { SBX_ST_ANY, 0, on_sign },
	[SBX_MSG_BROKER_STATUS] = { SBX_ST_ANY, 0, on_status },
	[SBX_MSG_BROKER_LOCK] = { SBX_ST_ANY, 0, on_lock },
};
const struct sbx_dispatch_table broker_from_monitor = {
	SBX_PROC_BROKER, SBX_PROC_MONITOR, rows,
};
