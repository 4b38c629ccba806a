#include "sbxd/monitor/monitor.h"

#include "common/proto/filework.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * Work on files of a sandbox (FILE_ASK) and what they were before (UNDO_*):
 * passed on to the engine and to the recorder, unread.  What the monitor adds
 * is whose sandbox it is.
 */

#define ASK_S 44

/* From now on its answer is that process's, through then(). */
static void
wait_for(struct monitor *m, struct worker *w, enum sbx_proc back,
    void (*then)(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why))
{
	w->ask.back = back;
	w->ask.back_id = ++m->next_id;
	w->ask.then = then;
	w->ask.deadline_ns = sbx_mono_ns() + ASK_S * S_NS;
}

static void
file_done(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	const struct sbx_engine_filed *q = in != NULL ? &in->m.engine_filed :
	    NULL;
	struct sandbox *sb = sandbox_find(m, w->ask.container);

	if (sb != NULL)
		sb->used_ns = sbx_mono_ns();
	if (q == NULL) {
		ask_refuse(w, "suite_degraded", "", "the engine did not do "
		    "it: %s", why);
		return;
	}
	(void)sbx_send_file_done(w->peer, w->ask.id, &(struct sbx_file_done){
	    .error = q->error, .reason = q->reason, .path = q->path,
	    .mode = q->mode, .size = q->size, .ino = q->ino,
	    .mtime_ns = q->mtime_ns, .ctime_ns = q->ctime_ns,
	    .total = q->total, .first = q->first, .count = q->count,
	    .bytes = q->bytes }, NULL);
	ask_done(w);
}

/*
 * Safe for a hostile worker: the sandbox is its principal's, the work is done
 * in it by its own user, and both descriptors are the worker's own.
 */
void
file_ask(struct monitor *m, struct worker *w, const struct sbx_file_ask *q,
    const int fds[2])
{
	struct sandbox *sb = sandbox_own(m, w, q->container);
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);
	const struct sbx_engine_file msg = { .container = q->container,
		.op = q->op, .path = q->path, .pattern = q->pattern,
		.first = q->first, .count = q->count,
		.max_bytes = q->max_bytes, .flags = q->flags };
	char count[24];

	if (sb == NULL)
		return;
	if (q->op >= SBX_FILE_PACK) {
		ask_refuse(w, "bad_argument", "", "there is no such work");
		return;
	}
	if (engine == NULL) {
		ask_refuse(w, "suite_degraded", "", "the engine is not there");
		return;
	}
	memcpy(w->ask.container, sb->id, sizeof(sb->id));
	wait_for(m, w, SBX_PROC_ENGINE, file_done);
	if (q->op == SBX_FILE_WRITE) {
		(void)snprintf(count, sizeof(count), "%" PRIu64, q->count);
		journal_add(m, &(struct record){ .op = "file_write",
		    .who = w->who, .container = sb->id }, "tool",
		    w->call->tool, "path", q->path, q->count > 1 ? "files" :
		    NULL, count, "paths", q->pattern, NULL);
	}
	(void)sbx_send_engine_file(engine, w->ask.back_id, &msg, fds);
}

static void
undo_kept(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	(void)m;
	if (in == NULL) {
		ask_refuse(w, "suite_degraded", "Retry.", "what the file was "
		    "cannot be kept: %s", why);
		return;
	}
	(void)sbx_send_undo_kept(w->peer, w->ask.id, &(struct sbx_undo_kept){
	    .error = in->m.keep_have.error, .reason = in->m.keep_have.reason },
	    NULL);
	ask_done(w);
}

/* Safe: of own sandboxes, and the recorder counts what it keeps. */
void
undo_keep(struct monitor *m, struct worker *w, const struct sbx_undo_keep *q,
    const int *fd)
{
	struct sandbox *sb = sandbox_own(m, w, q->container);
	struct sbx_peer *rec = component_peer(m, SBX_PROC_RECORDER);

	if (sb == NULL)
		return;
	wait_for(m, w, SBX_PROC_RECORDER, undo_kept);
	if (rec == NULL)
		undo_kept(m, w, NULL, component_why(m, SBX_PROC_RECORDER));
	else
		(void)sbx_send_keep_put(rec, w->ask.back_id,
		    &(struct sbx_keep_put){ .container = sb->id,
		    .path = q->path, .absent = q->absent, .mode = q->mode },
		    fd);
}

static void
undo_found(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	const struct sbx_keep_version *v;

	(void)m;
	if (in == NULL) {
		ask_refuse(w, "suite_degraded", "Retry.", "what the file was "
		    "cannot be read: %s", why);
		return;
	}
	v = &in->m.keep_version;
	if (in->hdr.type == SBX_MSG_KEEP_NONE)
		(void)sbx_send_undo_none(w->peer, w->ask.id,
		    &(struct sbx_undo_none){
		    .versions = in->m.keep_none.versions }, NULL);
	else
		(void)sbx_send_undo_version(w->peer, w->ask.id,
		    &(struct sbx_undo_version){ .absent = v->absent,
		    .mode = v->mode, .versions = v->versions }, in->fds);
	ask_done(w);
}

/* Safe: of own sandboxes, and what comes back can only be read. */
void
undo_find(struct monitor *m, struct worker *w, const struct sbx_undo_find *q)
{
	struct sandbox *sb = sandbox_own(m, w, q->container);
	struct sbx_peer *rec = component_peer(m, SBX_PROC_RECORDER);

	if (sb == NULL)
		return;
	wait_for(m, w, SBX_PROC_RECORDER, undo_found);
	if (rec == NULL)
		undo_found(m, w, NULL, component_why(m, SBX_PROC_RECORDER));
	else
		(void)sbx_send_keep_get(rec, w->ask.back_id,
		    &(struct sbx_keep_get){ .container = sb->id,
		    .path = q->path, .steps = q->steps }, NULL);
}

/* Nothing of the sandbox is left to go back to. */
void
undo_forget(struct monitor *m, const char *container)
{
	struct sbx_peer *rec = component_peer(m, SBX_PROC_RECORDER);

	if (rec != NULL)
		(void)sbx_send_keep_drop(rec, 0, &(struct sbx_keep_drop){
		    .container = container }, NULL);
}
