#include "sbxd/monitor/monitor.h"

/*
 * The engine: trusted with the sandboxes themselves, so its word about them
 * is taken; ids it names that we do not know any more are passed over, since
 * a sandbox may end while we ask for something in it.
 */

static struct monitor *
of(struct sbx_peer *p)
{
	return (((struct component *)sbx_peer_ctx(p))->m);
}

/* Found and ended at its start: of a suite that was killed. */
static int
on_leftover(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_engine_leftover *q = &in->m.engine_leftover;

	log_notice("left behind by an earlier run: %s %s", q->container,
	    q->what);
	journal_add(of(p), &(struct record){ .op = "leftover",
	    .container = q->container }, "what", q->what, NULL);
	return (0);
}

/* It can only choose among the two names that it was asked about. */
static int
on_image_found(struct sbx_peer *p, struct sbx_in *in)
{
	detect_image_found(of(p), &in->m.image_found, in->hdr.id);
	return (0);
}

static int
on_sandbox_ready(struct sbx_peer *p, struct sbx_in *in)
{
	sandbox_ready(of(p), &in->m.sandbox_ready);
	return (0);
}

static int
on_sandbox_ended(struct sbx_peer *p, struct sbx_in *in)
{
	if (in->m.sandbox_ended.why >= SBX_END_MAX)
		return (SBX_E_RANGE);
	sandbox_ended(of(p), &in->m.sandbox_ended);
	return (0);
}

static int
on_engine_exec_started(struct sbx_peer *p, struct sbx_in *in)
{
	run_exec_started(of(p), &in->m.engine_exec_started);
	return (0);
}

/* Passed on unread to the operator who asked for it. */
static int
on_engine_pty(struct sbx_peer *p, struct sbx_in *in)
{
	shell_pty(of(p), in->m.engine_pty.run, sbx_steal_fd(&in->fds[0]));
	return (0);
}

/* The command; its descendants may live on in the sandbox. */
static int
on_engine_exited(struct sbx_peer *p, struct sbx_in *in)
{
	run_exited(of(p), &in->m.engine_exited);
	return (0);
}

static int
on_engine_killed(struct sbx_peer *p, struct sbx_in *in)
{
	run_killed(of(p), &in->m.engine_killed);
	return (0);
}

static int
on_engine_work_found(struct sbx_peer *p, struct sbx_in *in)
{
	guard_found(of(p), &in->m.engine_work_found, in->hdr.id);
	return (0);
}

/* By the id of our request: a sandbox may have several copies. */
static int
on_engine_unpacked(struct sbx_peer *p, struct sbx_in *in)
{
	if (!gate_unpacked(of(p), &in->m.engine_unpacked, in->hdr.id) &&
	    !publish_unpacked(of(p), &in->m.engine_unpacked, in->hdr.id))
		copy_unpacked(of(p), &in->m.engine_unpacked, in->hdr.id);
	return (0);
}

/* Whoever asked may be gone meanwhile. */
static int
on_engine_filed(struct sbx_peer *p, struct sbx_in *in)
{
	struct monitor *m = of(p);
	struct worker *w = ask_of_id(m, SBX_PROC_ENGINE, in->hdr.id);

	if (w == NULL) {
		if (!gate_packed(m, &in->m.engine_filed, in->hdr.id))
			(void)publish_filed(m, &in->m.engine_filed,
			    in->hdr.id);
		return (0);
	}
	if (w->ask.type != SBX_MSG_FILE_ASK)
		return (SBX_E_STATE);
	w->ask.back_id = 0;
	w->ask.then(m, w, in, "");
	return (0);
}

/* For whoever asked; counted and named only when we began it. */
static int
on_snap_taken(struct sbx_peer *p, struct sbx_in *in)
{
	if (in->m.snap_taken.method >= SBX_SNAP_MAX)
		return (SBX_E_RANGE);
	snapshot_taken(of(p), in);
	return (0);
}

/* Frees the sandbox for calls again, whether somebody still waits or not. */
static int
on_snap_restored(struct sbx_peer *p, struct sbx_in *in)
{
	snapshot_restored(of(p), in);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_HELLO] = { SBX_ST(ST_NEW), SBX_D_ONCE, component_hello },
	[SBX_MSG_LOG] = { SBX_ST_ANY, 0, component_log },
	[SBX_MSG_PONG] = { SBX_ST(ST_READY), 0, component_pong },
	[SBX_MSG_ENGINE_LEFTOVER] = { SBX_ST_ANY, 0, on_leftover },
	[SBX_MSG_IMAGE_FOUND] = { SBX_ST(ST_READY), 0, on_image_found },
	[SBX_MSG_SANDBOX_READY] = { SBX_ST(ST_READY), 0, on_sandbox_ready },
	[SBX_MSG_SANDBOX_ENDED] = { SBX_ST(ST_READY), 0, on_sandbox_ended },
	[SBX_MSG_ENGINE_EXEC_STARTED] = { SBX_ST(ST_READY), 0,
	    on_engine_exec_started },
	[SBX_MSG_ENGINE_PTY] = { SBX_ST(ST_READY), 0, on_engine_pty },
	[SBX_MSG_ENGINE_EXITED] = { SBX_ST(ST_READY), 0, on_engine_exited },
	[SBX_MSG_ENGINE_KILLED] = { SBX_ST(ST_READY), 0, on_engine_killed },
	[SBX_MSG_ENGINE_WORK_FOUND] = { SBX_ST(ST_READY), 0,
	    on_engine_work_found },
	[SBX_MSG_ENGINE_UNPACKED] = { SBX_ST(ST_READY), 0,
	    on_engine_unpacked },
	[SBX_MSG_ENGINE_FILED] = { SBX_ST(ST_READY), 0, on_engine_filed },
	[SBX_MSG_SNAP_TAKEN] = { SBX_ST(ST_READY), 0, on_snap_taken },
	[SBX_MSG_SNAP_RESTORED] = { SBX_ST(ST_READY), 0, on_snap_restored },
};
const struct sbx_dispatch_table monitor_from_engine = {
	SBX_PROC_MONITOR, SBX_PROC_ENGINE, rows };
