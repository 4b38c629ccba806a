#include "sbxd/monitor/monitor.h"

#include <string.h>

/*
 * A worker: it read what a client wrote and what a sandbox printed, so it may
 * be in their hands.  It acts for the one principal it was bound to, in the
 * one call it was given; every id it names is looked up among what that
 * principal owns (policy.c).  One ask at a time: ST_BUSY permits it, ST_ASKED
 * does not.
 */

#define ASK_S 15
#define PROGRESS_NS (50 * MS_NS)	/* between two that are passed on */

/* Caged and fresh: it may be bound now. */
static int
on_hello(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	(void)in;
	sbx_peer_set_state(p, ST_READY);
	w->state = WORKER_IDLE;
	w->since_ns = sbx_mono_ns();
	call_dispatch(w->m);
	return (0);
}

static int
on_log(struct sbx_peer *p, struct sbx_in *in)
{
	const struct worker *w = sbx_peer_ctx(p);

	log_child(&w->m->comps[SBX_PROC_WORKER], "worker", in->m.log.level,
	    in->m.log.text);
	return (0);
}

/* The result goes on unread and sealed; the front checks it as foreign text. */
static int
on_work_result(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);
	struct monitor *m = w->m;
	struct sbx_peer *front = component_peer(m, SBX_PROC_FRONT);
	struct call *c = w->call;
	uint8_t kind = in->m.work_result.kind;

	if (c == NULL || kind >= SBX_RESULT_MAX)
		return (SBX_E_STATE);
	if (front != NULL)
		(void)sbx_send_call_result(front, 0,
		    &(struct sbx_call_result){ .call = c->number,
		    .kind = kind }, in->fds);
	worker_idle(w, kind == SBX_RESULT_ERROR);
	watch_answered(m, c);
	call_end(m, c, false);
	call_dispatch(m);
	return (0);
}

static int
on_work_progress(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);
	struct sbx_peer *front = component_peer(w->m, SBX_PROC_FRONT);
	const struct sbx_work_progress *q = &in->m.work_progress;

	if (w->call == NULL)
		return (SBX_E_STATE);
	w->since_ns = sbx_mono_ns();
	/* what a worker sends must not fill the front's queue */
	if (w->since_ns - w->progress_ns < PROGRESS_NS)
		return (0);
	w->progress_ns = w->since_ns;
	if (front != NULL && w->call->want_progress)
		(void)sbx_send_call_progress(front, 0,
		    &(struct sbx_call_progress){ .call = w->call->number,
		    .done = q->done, .total = q->total,
		    .message = q->message }, NULL);
	return (0);
}

/* What is more than a call may log is dropped, and that is said. */
static int
on_work_log(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);
	struct sbx_peer *front = component_peer(w->m, SBX_PROC_FRONT);
	const struct sbx_work_log *l = &in->m.work_log;

	if (w->call == NULL || l->level == SBX_MCP_NONE ||
	    l->level >= SBX_MCP_MAX)
		return (SBX_E_STATE);
	if (front != NULL && w->call->log_level != SBX_MCP_NONE &&
	    l->level >= w->call->log_level && w->logs++ < SBX_MAX_CALL_LOGS)
		(void)sbx_send_call_log(front, 0, &(struct sbx_call_log){
		    .call = w->call->number, .level = l->level,
		    .text = w->logs < SBX_MAX_CALL_LOGS ? l->text : "more messages of "
		    "this call are not shown" }, NULL);
	return (0);
}

/* What is journalled comes at a rate that the journal can keep up with. */
static bool
rate_ok(struct worker *w)
{
	if (policy_rate(w->who))
		return (true);
	ask_refuse(w, "busy", "Retry.", "too many commands in one second");
	return (false);
}

/*
 * Safe: name and image are checked, the owner is the principal it is bound to.
 */
static int
on_sb_create(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (!rate_ok(w))
		return (0);
	if (w->m->locked && in->m.sb_create.want_network)
		ask_refuse(w, "locked", LOCKED_NEXT, "a sandbox cannot get a "
		    "way out: " LOCKED_WHY);
	else
		detect_create(w->m, w, &in->m.sb_create);
	return (0);
}

/* Safe: own sandboxes only, and the guard asks the engine. */
static int
on_sb_stop(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		guard_ask_stop(w->m, w, &in->m.sb_stop);
	return (0);
}

/* Safe: own sandboxes only. */
static int
on_sb_list(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	sandbox_list(w->m, w, in->m.sb_list.container);
	return (0);
}

/* Safe: own sandboxes only; a label is text that nobody interprets. */
static int
on_sb_label(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);
	struct sandbox *sb = policy_sandbox(w->m, w->who,
	    in->m.sb_label.container);
	char previous[sizeof(sb->label)];

	ask_begin(w, in, ASK_S);
	if (sb == NULL) {
		reap_refuse(w, in->m.sb_label.container);
		return (0);
	}
	memcpy(previous, sb->label, sizeof(previous));
	(void)sbx_strlcpy(sb->label, in->m.sb_label.label, sizeof(sb->label));
	sb->used_ns = sbx_mono_ns();
	(void)sbx_send_sb_labelled(p, w->ask.id,
	    &(struct sbx_sb_labelled){ .previous = previous }, NULL);
	ask_done(w);
	return (0);
}

/* Safe: own sandboxes only, and it runs inside. */
static int
on_exec_start(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		run_exec(w->m, w, &in->m.exec_start, in->fds[0]);
	return (0);
}

/* Safe: own runs only; the wait has a limit. */
static int
on_exec_wait(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	run_wait(w->m, w, &in->m.exec_wait);
	return (0);
}

/* Safe: own runs only. */
static int
on_exec_kill(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		run_kill_asked(w->m, w, in->m.exec_kill.run);
	return (0);
}

/* Safe: own runs only. */
static int
on_run_watch(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	watch_ask(w->m, w, in->m.run_watch.run);
	return (0);
}

/* Safe: own runs only, and what is kept of them is masked. */
static int
on_run_journal(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	journal_run(w->m, w, in->m.run_journal.run);
	return (0);
}

/* Safe: own runs only, and read-only. */
static int
on_out_read(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	run_read(w->m, w, &in->m.out_read);
	return (0);
}

/* Safe: own runs only. */
static int
on_run_list(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	run_list(w->m, w, &in->m.run_list);
	return (0);
}

/*
 * Safe: into own sandboxes, from below the root of the client whose call it
 * is.
 */
static int
on_copy_in(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		copy_start(w->m, w, &in->m.copy_in, sbx_steal_fd(&in->fds[0]));
	return (0);
}

/* Safe: by the user of an own sandbox. */
static int
on_file_ask(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		file_ask(w->m, w, &in->m.file_ask, in->fds);
	return (0);
}

/* Safe: own sandbox; what is run there and what it ends with is not the
 * worker's to say. */
static int
on_gate_start(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		gate_start(w->m, w, &in->m.gate_start,
		    sbx_steal_fd(&in->fds[0]));
	return (0);
}

/* Safe: own ones only. */
static int
on_gate_wait(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	gate_wait(w->m, w, &in->m.gate_wait);
	return (0);
}

/* Safe: a run of its own call. */
static int
on_package_note(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	packages_note(w->m, w, &in->m.package_note);
	return (0);
}

/* Safe: own ones only. */
static int
on_gate_deps(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	gate_deps(w->m, w, &in->m.gate_deps);
	return (0);
}

/* Safe: own sandbox, to where the configuration permits; the commit is not the
 * worker's to make. */
static int
on_publish_start(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		publish_start(w->m, w, &in->m.publish_start, (int[]){
		    sbx_steal_fd(&in->fds[0]), sbx_steal_fd(&in->fds[1]) });
	return (0);
}

/* Safe: own ones only; by itself it opens nothing. */
static int
on_publish_gate(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	publish_gate(w->m, w, &in->m.publish_gate);
	return (0);
}

/* Safe: own ones only, and the user's word is the front's. */
static int
on_publish_confirm(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		publish_confirm(w->m, w, &in->m.publish_confirm);
	return (0);
}

/* Safe: findings that the judge told of own ones, and the user's word is the
 * front's. */
static int
on_override_ask(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		override_ask(w->m, w, &in->m.override_ask);
	return (0);
}

/* Safe: own ones only. */
static int
on_publish_wait(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	publish_wait(w->m, w, &in->m.publish_wait);
	return (0);
}

/* Safe: of own sandboxes, and counted. */
static int
on_undo_keep(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	undo_keep(w->m, w, &in->m.undo_keep, in->fds);
	return (0);
}

/* Safe: of own sandboxes, and read-only. */
static int
on_undo_find(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	undo_find(w->m, w, &in->m.undo_find);
	return (0);
}

/* Safe: of own sandboxes, which hold nothing of anybody else's. */
static int
on_sb_snapshot(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		snapshot_ask(w->m, w, &in->m.sb_snapshot);
	return (0);
}

/* Safe: an own sandbox gets an own snapshot, and the guard asks the engine. */
static int
on_sb_restore(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		snapshot_ask_restore(w->m, w, &in->m.sb_restore);
	return (0);
}

/* Safe: from own states only, and so many sandboxes as the suite may have. */
static int
on_sb_fork(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		fork_ask(w->m, w, &in->m.sb_fork);
	return (0);
}

/* Safe: own ones only. */
static int
on_snap_list(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	snapshot_list(w->m, w);
	return (0);
}

/* Safe: own ones only. */
static int
on_snap_remove(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		snapshot_remove(w->m, w, in->m.snap_remove.snapshot);
	return (0);
}

/* Safe: the commands run in a sandbox, and by the monitor's own hand. */
static int
on_deps_make(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, DEPS_WAIT_S);
	if (rate_ok(w))
		deps_make(w->m, w, &in->m.deps_make);
	return (0);
}

/* Safe: into own sandboxes, as sbx.conf lists them. */
static int
on_repo_open(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		repo_open(w->m, w, &in->m.repo_open);
	return (0);
}

/* Safe: what its own call opened. */
static int
on_repo_close(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	grant_close(w->m, w, in->m.repo_close.grant);
	return (0);
}

/* Safe: what its own call opened goes to its own run. */
static int
on_repo_run(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	repo_run(w->m, w, &in->m.repo_run);
	return (0);
}

/* Safe: requests of one table, judged and counted there. */
static int
on_api_ask(struct sbx_peer *p, struct sbx_in *in)
{
	struct worker *w = sbx_peer_ctx(p);

	ask_begin(w, in, ASK_S);
	if (rate_ok(w))
		api_ask(w->m, w, &in->m.api_ask, in->fds);
	return (0);
}

#define BUSY SBX_ST(ST_BUSY)

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_HELLO] = { SBX_ST(ST_NEW), SBX_D_ONCE, on_hello },
	[SBX_MSG_LOG] = { SBX_ST_ANY, 0, on_log },
	[SBX_MSG_WORK_RESULT] = { BUSY, 0, on_work_result },
	[SBX_MSG_WORK_LOG] = { BUSY, 0, on_work_log },
	[SBX_MSG_WORK_PROGRESS] = { BUSY, 0, on_work_progress },
	[SBX_MSG_SB_CREATE] = { BUSY, 0, on_sb_create },
	[SBX_MSG_SB_STOP] = { BUSY, 0, on_sb_stop },
	[SBX_MSG_SB_LIST] = { BUSY, 0, on_sb_list },
	[SBX_MSG_SB_LABEL] = { BUSY, 0, on_sb_label },
	[SBX_MSG_EXEC_START] = { BUSY, 0, on_exec_start },
	[SBX_MSG_EXEC_WAIT] = { BUSY, 0, on_exec_wait },
	[SBX_MSG_EXEC_KILL] = { BUSY, 0, on_exec_kill },
	[SBX_MSG_RUN_WATCH] = { BUSY, 0, on_run_watch },
	[SBX_MSG_RUN_JOURNAL] = { BUSY, 0, on_run_journal },
	[SBX_MSG_OUT_READ] = { BUSY, 0, on_out_read },
	[SBX_MSG_RUN_LIST] = { BUSY, 0, on_run_list },
	[SBX_MSG_COPY_IN] = { BUSY, 0, on_copy_in },
	[SBX_MSG_FILE_ASK] = { BUSY, 0, on_file_ask },
	[SBX_MSG_GATE_START] = { BUSY, 0, on_gate_start },
	[SBX_MSG_GATE_WAIT] = { BUSY, 0, on_gate_wait },
	[SBX_MSG_GATE_DEPS] = { BUSY, 0, on_gate_deps },
	[SBX_MSG_PACKAGE_NOTE] = { BUSY, 0, on_package_note },
	[SBX_MSG_PUBLISH_START] = { BUSY, 0, on_publish_start },
	[SBX_MSG_OVERRIDE_ASK] = { BUSY, 0, on_override_ask },
	[SBX_MSG_PUBLISH_WAIT] = { BUSY, 0, on_publish_wait },
	[SBX_MSG_PUBLISH_CONFIRM] = { BUSY, 0, on_publish_confirm },
	[SBX_MSG_PUBLISH_GATE] = { BUSY, 0, on_publish_gate },
	[SBX_MSG_UNDO_KEEP] = { BUSY, 0, on_undo_keep },
	[SBX_MSG_UNDO_FIND] = { BUSY, 0, on_undo_find },
	[SBX_MSG_SB_SNAPSHOT] = { BUSY, 0, on_sb_snapshot },
	[SBX_MSG_SB_RESTORE] = { BUSY, 0, on_sb_restore },
	[SBX_MSG_SB_FORK] = { BUSY, 0, on_sb_fork },
	[SBX_MSG_SNAP_LIST] = { BUSY, 0, on_snap_list },
	[SBX_MSG_SNAP_REMOVE] = { BUSY, 0, on_snap_remove },
	[SBX_MSG_DEPS_MAKE] = { BUSY, 0, on_deps_make },
	[SBX_MSG_REPO_OPEN] = { BUSY, 0, on_repo_open },
	[SBX_MSG_REPO_CLOSE] = { BUSY, 0, on_repo_close },
	[SBX_MSG_REPO_RUN] = { BUSY, 0, on_repo_run },
	[SBX_MSG_API_ASK] = { BUSY, 0, on_api_ask },
};
const struct sbx_dispatch_table monitor_from_worker = {
	SBX_PROC_MONITOR, SBX_PROC_WORKER, rows };
