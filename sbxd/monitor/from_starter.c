#include "sbxd/monitor/monitor.h"

#include "common/proto/peer.h"

/* The starter: what it started, and how that ended. */

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

	log_child(&m->comps[SBX_PROC_STARTER], "starter", in->m.log.level,
	    in->m.log.text);
	return (0);
}

/* Pids are for logs and records; nothing is ever signalled by them. */
static int
on_started(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_started *q = &in->m.started;
	struct monitor *m = sbx_peer_ctx(p);

	if (q->proc < SBX_PROC_MAX && m->comps[q->proc].instance == q->instance)
		m->comps[q->proc].pid = (pid_t)q->pid;
	return (0);
}

/* Which program it was is known by the instance that we gave the START. */
static int
on_exited(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_exited *q = &in->m.exited;
	struct monitor *m = sbx_peer_ctx(p);

	if (q->proc == SBX_PROC_COPYIN) {
		copy_exited(m, q->instance, q->status);
		detect_exited(m, q->instance);
	} else if (q->proc == SBX_PROC_COURIER ||
	    q->proc == SBX_PROC_COMMAND)
		broker_child_exited(m, q->proc, q->instance);
	else if (q->proc < SBX_PROC_MAX && m->comps[q->proc].m != NULL)
		component_exited(&m->comps[q->proc], q->instance, q->status);
	if (m->stopping)
		shutdown_step(m);
	return (0);
}

static int
on_pong(struct sbx_peer *p, struct sbx_in *in)
{
	(void)p;
	(void)in;
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_HELLO] = { SBX_ST(ST_NEW), SBX_D_ONCE, on_hello },
	[SBX_MSG_LOG] = { SBX_ST_ANY, 0, on_log },
	[SBX_MSG_PONG] = { SBX_ST(ST_READY), 0, on_pong },
	[SBX_MSG_STARTED] = { SBX_ST_ANY, 0, on_started },
	[SBX_MSG_EXITED] = { SBX_ST_ANY, 0, on_exited },
};
const struct sbx_dispatch_table monitor_from_starter = {
	SBX_PROC_MONITOR, SBX_PROC_STARTER, rows };
