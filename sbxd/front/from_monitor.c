#include "sbxd/front/calls.h"

#include "sbxd/front/conn.h"
#include "sbxd/front/http.h"
#include "sbxd/front/subs.h"

#include <event2/event.h>
#include <stdio.h>

static int
on_ping(struct sbx_peer *p, struct sbx_in *in)
{
	struct front *f = sbx_peer_ctx(p);
	char state[96];

	(void)snprintf(state, sizeof(state), "unix=%u http=%u sessions=%u "
	    "calls=%u", f->listeners[LISTENER_UNIX].count,
	    f->listeners[LISTENER_HTTP].count, f->nsessions, f->ncalls);
	return (sbx_send_pong(p, in->hdr.id, &(struct sbx_pong){
	    .healthy = 1, .state = state }, NULL));
}

/* main() sends what is queued for the clients after the loop. */
static int
on_shutdown(struct sbx_peer *p, struct sbx_in *in)
{
	struct front *f = sbx_peer_ctx(p);

	(void)in;
	(void)event_base_loopbreak(f->base);
	return (0);
}

static int
on_front_stdio(struct sbx_peer *p, struct sbx_in *in)
{
	(void)conn_new_stdio(sbx_peer_ctx(p), sbx_steal_fd(&in->fds[0]),
	    sbx_steal_fd(&in->fds[1]), in->m.front_stdio.principal);
	return (0);
}

static int
on_front_listen(struct sbx_peer *p, struct sbx_in *in)
{
	uint8_t kind = in->m.front_listen.kind;

	if (kind >= LISTENER_MAX)
		return (SBX_E_RANGE);
	return (front_listen(sbx_peer_ctx(p), kind,
	    sbx_steal_fd(&in->fds[0])));
}

/* What the monitor says of a token. */
static int
on_front_user(struct sbx_peer *p, struct sbx_in *in)
{
	http_user_known(sbx_peer_ctx(p), in->m.front_user.number,
	    in->m.front_user.principal);
	return (0);
}

static int
on_front_principal(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_front_principal *m = &in->m.front_principal;

	conn_authenticated(sbx_peer_ctx(p), m->conn, m->principal, m->reason);
	return (0);
}

/* What is said about a call that is not waiting any more is ignored: it was
 * cancelled, or its connection ended, while this was on its way. */

static int
on_call_result(struct sbx_peer *p, struct sbx_in *in)
{
	calls_result(sbx_peer_ctx(p), in->m.call_result.call, in->fds[0],
	    in->m.call_result.kind);
	return (0);
}

static int
on_call_refused(struct sbx_peer *p, struct sbx_in *in)
{
	calls_refused(sbx_peer_ctx(p), &in->m.call_refused);
	return (0);
}

static int
on_call_log(struct sbx_peer *p, struct sbx_in *in)
{
	calls_log(sbx_peer_ctx(p), &in->m.call_log);
	return (0);
}

static int
on_call_progress(struct sbx_peer *p, struct sbx_in *in)
{
	calls_progress(sbx_peer_ctx(p), &in->m.call_progress);
	return (0);
}

static int
on_run_changed(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_run_changed *m = &in->m.run_changed;

	subs_run_changed(sbx_peer_ctx(p), m->principal, m->run, m->ended != 0);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_PING] = { SBX_ST_ANY, 0, on_ping },
	[SBX_MSG_SHUTDOWN] = { SBX_ST_ANY, SBX_D_ONCE, on_shutdown },
	[SBX_MSG_FRONT_STDIO] = { SBX_ST_ANY, SBX_D_ONCE, on_front_stdio },
	[SBX_MSG_FRONT_LISTEN] = { SBX_ST_ANY, 0, on_front_listen },
	[SBX_MSG_FRONT_PRINCIPAL] = { SBX_ST_ANY, 0, on_front_principal },
	[SBX_MSG_FRONT_USER] = { SBX_ST_ANY, 0, on_front_user },
	[SBX_MSG_CALL_RESULT] = { SBX_ST_ANY, 0, on_call_result },
	[SBX_MSG_CALL_REFUSED] = { SBX_ST_ANY, 0, on_call_refused },
	[SBX_MSG_RUN_CHANGED] = { SBX_ST_ANY, 0, on_run_changed },
	[SBX_MSG_CALL_LOG] = { SBX_ST_ANY, 0, on_call_log },
	[SBX_MSG_CALL_PROGRESS] = { SBX_ST_ANY, 0, on_call_progress },
};
const struct sbx_dispatch_table front_from_monitor = {
	SBX_PROC_FRONT, SBX_PROC_MONITOR, rows
};
