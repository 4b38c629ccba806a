/*
 * What the monitor may ask.  It is trusted to have decided who may; ids and
 * names are still checked for their form, since paths are made of them.
 */
#include "sbxd/engine/engine.h"

#include "common/proto/filework.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

static int
on_ping(struct sbx_peer *p, struct sbx_in *in)
{
	struct engine *e = sbx_peer_ctx(p);
	char state[96];
	struct sbx_pong m = { .healthy = 1, .state = state };

	(void)snprintf(state, sizeof(state), "sandboxes=%u recorder=%d proxy=%d",
	    e->nsandboxes, e->recorder != NULL, e->proxy != NULL);
	return (sbx_send_pong(p, in->hdr.id, &m, NULL));
}

static int
on_shutdown(struct sbx_peer *p, struct sbx_in *in)
{
	struct engine *e = sbx_peer_ctx(p);

	(void)in;
	e->asked_to_end = true;
	(void)event_base_loopbreak(e->base);
	return (0);
}

static int
on_introduce(struct sbx_peer *p, struct sbx_in *in)
{
	uint8_t proc = in->m.introduce.peer;

	if (proc != SBX_PROC_RECORDER && proc != SBX_PROC_PROXY)
		return (SBX_E_POLICY);
	engine_add_peer(sbx_peer_ctx(p), proc, sbx_steal_fd(&in->fds[0]));
	return (0);
}

/* Once for each hierarchy, before the first sandbox.  A blank that was made
 * without it would have no group. */
static int
on_cgroup(struct sbx_peer *p, struct sbx_in *in)
{
	struct engine *e = sbx_peer_ctx(p);
	const struct sbx_cgroup *q = &in->m.cgroup;

	if (e->nsandboxes > 0 || strchr(q->name, '/') != NULL)
		return (SBX_E_POLICY);
	blank_drop(e);
	return (groups_add(&e->groups, q->hierarchy,
	    sbx_steal_fd(&in->fds[0]), q->name));
}

/* Says of names that were asked for whether the store has them, no more. */
static int
on_image_find(struct sbx_peer *p, struct sbx_in *in)
{
	struct sbx_image_found m = { .name = image_first(sbx_peer_ctx(p),
	    &in->m.image_find.names) };

	return (sbx_send_image_found(p, in->hdr.id, &m, NULL));
}

static int
on_sandbox_create(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_sandbox_create *q = &in->m.sandbox_create;

	if (!sbx_is_hex(q->container, SBX_CONTAINER_HEX))
		return (SBX_E_SYNTAX);
	sandbox_create(sbx_peer_ctx(p), q, in->hdr.id);
	return (0);
}

static int
on_sandbox_stop(struct sbx_peer *p, struct sbx_in *in)
{
	struct sandbox *sb = sandbox_find(sbx_peer_ctx(p),
	    in->m.sandbox_stop.container);
	struct sbx_sandbox_ended gone = { .why = SBX_END_STOP,
		.container = in->m.sandbox_stop.container,
		.reason = "there is no such sandbox any more" };

	if (sb == NULL)
		return (sbx_send_sandbox_ended(p, in->hdr.id, &gone, NULL));
	return (sandbox_stop(sb, in->hdr.id));
}

static int
on_engine_exec(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_engine_exec *q = &in->m.engine_exec;
	struct sandbox *sb = sandbox_find(sbx_peer_ctx(p), q->container);
	struct sbx_engine_exec_started m = { .run = q->run, .error = ESRCH,
		.reason = "the sandbox has ended" };

	if (!sbx_is_hex(q->run, SBX_RUN_HEX) || q->argv.count == 0)
		return (SBX_E_SYNTAX);
	if (sb == NULL || sb->state != SB_READY)
		return (sbx_send_engine_exec_started(p, in->hdr.id, &m, NULL));
	job_exec(sb, q, in->fds[0], in->hdr.id);
	return (0);
}

/* The command is the guest's affair: it runs in the sandbox like any other. */
static int
on_engine_shell(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_engine_shell *q = &in->m.engine_shell;
	struct sandbox *sb = sandbox_find(sbx_peer_ctx(p), q->container);

	if (!sbx_is_hex(q->run, SBX_RUN_HEX))
		return (SBX_E_SYNTAX);
	if (sb == NULL || sb->state != SB_READY)
		job_refuse(sbx_peer_ctx(p), q->run, in->hdr.id, ESRCH,
		    "the sandbox has ended");
	else
		shell_exec(sb, q, in->hdr.id);
	return (0);
}

static int
on_engine_kill(struct sbx_peer *p, struct sbx_in *in)
{
	struct job *j = job_find(sbx_peer_ctx(p), in->m.engine_kill.run);
	struct sbx_engine_killed m = { .run = in->m.engine_kill.run };

	if (j == NULL)
		return (sbx_send_engine_killed(p, in->hdr.id, &m, NULL));
	return (job_kill(j, in->hdr.id));
}

static int
on_engine_work(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_engine_work *q = &in->m.engine_work;
	struct sandbox *sb = sandbox_find(sbx_peer_ctx(p), q->container);
	struct sbx_engine_work_found none = { .container = q->container,
		.complete = 1 };

	if (sb == NULL)
		return (sbx_send_engine_work_found(p, in->hdr.id, &none,
		    NULL));
	work_find(sb, q, in->hdr.id);
	return (0);
}

static int
on_engine_unpack(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_engine_unpack *q = &in->m.engine_unpack;
	struct sandbox *sb = sandbox_find(sbx_peer_ctx(p), q->container);
	struct sbx_engine_unpacked m = { .container = q->container,
		.error = ESRCH, .reason = "the sandbox has ended",
		.final_path = "" };
	struct sbx_init_unpack to = { .mode = q->mode, .dest = q->dest };

	if (q->mode >= SBX_COPY_MARKERS)
		return (SBX_E_RANGE);
	if (sb != NULL && sb->state == SB_READY &&
	    help_new(sb, in->hdr.id) != NULL) {
		/* when init is gone, its end answers */
		(void)sbx_send_init_unpack(sb->init, in->hdr.id, &to, in->fds);
		return (0);
	}
	if (sb != NULL && sb->state == SB_READY) {
		m.error = EBUSY;
		m.reason = "too many copies into this sandbox at once";
	}
	return (sbx_send_engine_unpacked(p, in->hdr.id, &m, NULL));
}

/*
 * Both descriptors go on unread; the helper that gets them is a guest, and what
 * it answers is passed on as such.
 */
static int
on_engine_file(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_engine_file *q = &in->m.engine_file;
	struct sandbox *sb = sandbox_find(sbx_peer_ctx(p), q->container);
	const struct sbx_init_file to = { .op = q->op, .path = q->path,
		.pattern = q->pattern, .first = q->first, .count = q->count,
		.max_bytes = q->max_bytes, .flags = q->flags };
	struct help *h;

	if (q->op >= SBX_FILE_OP_MAX)
		return (SBX_E_RANGE);
	if (sb == NULL || sb->state != SB_READY)
		return (help_failed(p, in->hdr.id, ESRCH,
		    "the sandbox has ended"));
	if ((h = help_new(sb, in->hdr.id)) == NULL)
		return (help_failed(p, in->hdr.id, EBUSY,
		    "too much work on files of this sandbox at once"));
	h->file = true;
	/* when init is gone, its end answers */
	(void)sbx_send_init_file(sb->init, in->hdr.id, &to, in->fds);
	return (0);
}

/* The id goes into no path: layers are named by the engine's own count. */
static int
on_snap_take(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_snap_take *q = &in->m.snap_take;

	if (!sbx_is_hex(q->snapshot, SBX_CONTAINER_HEX))
		return (SBX_E_SYNTAX);
	snap_take(sbx_peer_ctx(p), q, in->hdr.id);
	return (0);
}

/* Safe at any time: what stands on its layers holds them by itself. */
static int
on_snap_drop(struct sbx_peer *p, struct sbx_in *in)
{
	struct engine *e = sbx_peer_ctx(p);
	struct snapshot *s = snapshot_find(e, in->m.snap_drop.snapshot);

	if (s != NULL)
		snapshot_free(e, s);
	return (0);
}

/* Whose both are is for the monitor to say; that they exist, for us. */
static int
on_snap_restore(struct sbx_peer *p, struct sbx_in *in)
{
	snap_restore(sbx_peer_ctx(p), &in->m.snap_restore, in->hdr.id);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_PING] = { SBX_ST_ANY, 0, on_ping },
	[SBX_MSG_SHUTDOWN] = { SBX_ST_ANY, SBX_D_ONCE, on_shutdown },
	[SBX_MSG_INTRODUCE] = { SBX_ST_ANY, 0, on_introduce },
	[SBX_MSG_CGROUP] = { SBX_ST_ANY, 0, on_cgroup },
	[SBX_MSG_IMAGE_FIND] = { SBX_ST_ANY, 0, on_image_find },
	[SBX_MSG_SANDBOX_CREATE] = { SBX_ST_ANY, 0, on_sandbox_create },
	[SBX_MSG_SANDBOX_STOP] = { SBX_ST_ANY, 0, on_sandbox_stop },
	[SBX_MSG_ENGINE_EXEC] = { SBX_ST_ANY, 0, on_engine_exec },
	[SBX_MSG_ENGINE_SHELL] = { SBX_ST_ANY, 0, on_engine_shell },
	[SBX_MSG_ENGINE_KILL] = { SBX_ST_ANY, 0, on_engine_kill },
	[SBX_MSG_ENGINE_WORK] = { SBX_ST_ANY, 0, on_engine_work },
	[SBX_MSG_ENGINE_UNPACK] = { SBX_ST_ANY, 0, on_engine_unpack },
	[SBX_MSG_ENGINE_FILE] = { SBX_ST_ANY, 0, on_engine_file },
	[SBX_MSG_SNAP_TAKE] = { SBX_ST_ANY, 0, on_snap_take },
	[SBX_MSG_SNAP_DROP] = { SBX_ST_ANY, 0, on_snap_drop },
	[SBX_MSG_SNAP_RESTORE] = { SBX_ST_ANY, 0, on_snap_restore },
};
const struct sbx_dispatch_table engine_from_monitor = { SBX_PROC_ENGINE,
	SBX_PROC_MONITOR, rows };
