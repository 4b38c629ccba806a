/*
 * What a sandbox's init says.  It shares a uid and a filter with hostile
 * guests, so it is taken for hostile: everything is looked up among the
 * things of this one sandbox, and a violation ends this one sandbox.
 */
#include "sbxd/engine/engine.h"

#include <string.h>

/* States of the channel */
enum { INIT_NEW, INIT_UP };

static struct job *
own_job(struct sandbox *sb, const char *run)
{
	struct job *j = job_find(sb->e, run);

	return (j != NULL && j->sb == sb ? j : NULL);
}

static int
on_init_ready(struct sbx_peer *p, struct sbx_in *in)
{
	sbx_peer_set_state(p, INIT_UP);
	return (sandbox_is_ready(sbx_peer_ctx(p), sbx_steal_fd(&in->fds[0])));
}

static int
on_init_failed(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_init_failed *q = &in->m.init_failed;

	sandbox_end(sbx_peer_ctx(p), SBX_END_CREATE, "%s: %s", q->reason,
	    strerror(q->error));
	return (0);
}

static int
on_init_exec_started(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_init_exec_started *q = &in->m.init_exec_started;
	struct job *j = own_job(sbx_peer_ctx(p), q->run);

	if (j == NULL || j->started)
		return (SBX_E_STATE);
	job_started(j, q->error, q->reason);
	return (0);
}

/* Safe for a hostile init: one for each shell that was asked of this sandbox,
 * and shell_pty() looks at what it is; nothing here reads from it. */
static int
on_init_pty(struct sbx_peer *p, struct sbx_in *in)
{
	struct job *j = own_job(sbx_peer_ctx(p), in->m.init_pty.run);

	if (j == NULL)
		return (SBX_E_STATE);
	return (shell_pty(j, sbx_steal_fd(&in->fds[0])));
}

static int
on_init_exited(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_init_exited *q = &in->m.init_exited;
	struct job *j = own_job(sbx_peer_ctx(p), q->run);

	if (j == NULL || !j->started || j->exited)
		return (SBX_E_STATE);
	if (q->why != SBX_EXIT_EXITED && q->why != SBX_EXIT_KILLED)
		return (SBX_E_RANGE);
	job_exited(j, q->status, q->why);
	return (0);
}

static int
on_init_gone(struct sbx_peer *p, struct sbx_in *in)
{
	struct sandbox *sb = sbx_peer_ctx(p);
	struct job *j = own_job(sb, in->m.init_gone.run);

	if (j == NULL || !j->started)
		return (SBX_E_STATE);
	job_gone(j);
	snap_job_gone(sb);
	return (0);
}

/* Also for a run that is gone meanwhile: its end answered the monitor. */
static int
on_init_killed(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_init_killed *q = &in->m.init_killed;
	struct job *j = own_job(sbx_peer_ctx(p), q->run);

	if (q->left > 1)
		return (SBX_E_RANGE);
	if (j != NULL)
		job_killed(j, q->killed, q->left);
	return (0);
}

static int
on_init_unpacked(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_init_unpacked *q = &in->m.init_unpacked;
	struct sandbox *sb = sbx_peer_ctx(p);
	struct sbx_engine_unpacked m = { .container = sb->id,
		.error = q->error, .files = q->files, .bytes = q->bytes,
		.reason = q->reason, .final_path = q->final_path };

	if (!help_over(sb, in->hdr.id, false))
		return (SBX_E_STATE);
	if (sb->e->monitor != NULL)
		(void)sbx_send_engine_unpacked(sb->e->monitor, in->hdr.id, &m,
		    NULL);	/* its end ends us */
	return (0);
}

static int
on_init_filed(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_init_filed *q = &in->m.init_filed;
	struct sandbox *sb = sbx_peer_ctx(p);
	const struct sbx_engine_filed m = { .error = q->error,
		.reason = q->reason, .path = q->path, .mode = q->mode,
		.size = q->size, .ino = q->ino, .mtime_ns = q->mtime_ns,
		.ctime_ns = q->ctime_ns, .total = q->total, .first = q->first,
		.count = q->count, .bytes = q->bytes };

	if (!help_over(sb, in->hdr.id, true))
		return (SBX_E_STATE);
	if (sb->e->monitor != NULL)
		(void)sbx_send_engine_filed(sb->e->monitor, in->hdr.id, &m,
		    NULL);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_INIT_READY] = { SBX_ST(INIT_NEW), SBX_D_ONCE, on_init_ready },
	[SBX_MSG_INIT_FAILED] = { SBX_ST(INIT_NEW), SBX_D_ONCE,
		on_init_failed },
	[SBX_MSG_INIT_EXEC_STARTED] = { SBX_ST(INIT_UP), 0,
		on_init_exec_started },
	[SBX_MSG_INIT_PTY] = { SBX_ST(INIT_UP), 0, on_init_pty },
	[SBX_MSG_INIT_EXITED] = { SBX_ST(INIT_UP), 0, on_init_exited },
	[SBX_MSG_INIT_GONE] = { SBX_ST(INIT_UP), 0, on_init_gone },
	[SBX_MSG_INIT_KILLED] = { SBX_ST(INIT_UP), 0, on_init_killed },
	[SBX_MSG_INIT_UNPACKED] = { SBX_ST(INIT_UP), 0, on_init_unpacked },
	[SBX_MSG_INIT_FILED] = { SBX_ST(INIT_UP), 0, on_init_filed },
};
const struct sbx_dispatch_table engine_from_init = { SBX_PROC_ENGINE,
	SBX_PROC_INIT, rows };
