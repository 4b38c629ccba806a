/*
 * The worker's half of the conversation with the monitor.  It is strictly one
 * question, one answer; whatever does not fit is a channel that cannot be
 * trusted to be in step, and the worker ends rather than take one answer for
 * another's.  What an answer says is copied out, checked for what the tools
 * rely on (an id's form, an enum's range), since the record it came in is
 * gone with the next one.
 */

#include "sbxd/worker/ask.h"

#include <poll.h>
#include <string.h>

#define ASK_FILE_MS 46000	/* the helper has SBX_FILE_MS */
#define BUSY_MS 10000		/* a sandbox that is frozen is waited for */
#define BUSY_POLL_MS 30

/* Everything a worker takes; the monitor's part of a conversation. */
static const uint16_t from_monitor[] = { SBX_MSG_WORK_CALL,
	SBX_MSG_WORK_REFUSED, SBX_MSG_SB_CREATED, SBX_MSG_SB_STOPPED,
	SBX_MSG_SB_ITEM, SBX_MSG_SB_END, SBX_MSG_SB_LABELLED,
	SBX_MSG_EXEC_STARTED, SBX_MSG_RUN_STATE, SBX_MSG_OUT_DATA,
	SBX_MSG_OUT_NODATA, SBX_MSG_COPY_DONE, SBX_MSG_SB_SNAPSHOTTED,
	SBX_MSG_SB_RESTORED, SBX_MSG_SNAP_ITEM, SBX_MSG_SNAP_REMOVED,
	SBX_MSG_DEPS_READY, SBX_MSG_SB_REAPED, SBX_MSG_RUN_RECORDS,
	SBX_MSG_FILE_DONE, SBX_MSG_UNDO_KEPT, SBX_MSG_UNDO_VERSION,
	SBX_MSG_UNDO_NONE, SBX_MSG_GATE_STATE, SBX_MSG_GATE_DEPS_STATE,
	SBX_MSG_PACKAGE_NOTED,
	SBX_MSG_OVERRIDE_STATE, SBX_MSG_PUBLISH_STATE,
	SBX_MSG_PUBLISH_QUESTION, SBX_MSG_REPO_OPENED,
	SBX_MSG_REPO_CLOSED, SBX_MSG_REPO_RUNS, SBX_MSG_API_DONE, 0 };
const struct sbx_accepts worker_from_monitor = { SBX_PROC_WORKER,
	SBX_PROC_MONITOR, from_monitor };

void
ask_init(struct ask *a, int fd)
{
	memset(a, 0, sizeof(*a));
	sbx_chan_init(&a->chan, fd, SBX_PROC_WORKER, SBX_PROC_MONITOR);
}

void
ask_clear(struct ask *a)
{
	sbx_chan_clear(&a->chan);
}

/* From here on every ask fails; a refusal by policy is no such error. */
static int
broken(struct ask *a, int error)
{
	a->broken = true;
	return (error == SBX_E_POLICY ? SBX_E_STATE : error);
}

/* Limits of msgs.def and of our arrays agree; a mismatch shows as a fault. */
#define COPY(dst, src) sbx_strlcpy(dst, src, sizeof(dst))

/*
 * The answer in chan.in: of type want, or the refusal.  WORK_CALL or a
 * stray type is a monitor that is out of step with us.
 */
static int
answer(struct ask *a, int error, uint16_t want)
{
	const struct sbx_work_refused *r;

	if (error != 0)
		return (broken(a, error));
	if (!sbx_accepts(&worker_from_monitor, a->chan.in->hdr.type))
		return (broken(a, SBX_E_STATE));
	if (a->chan.in->hdr.type == want)
		return (0);
	if (a->chan.in->hdr.type != SBX_MSG_WORK_REFUSED)
		return (broken(a, SBX_E_STATE));
	r = &a->chan.in->m.work_refused;
	if (COPY(a->refused.code, r->code) != 0 ||
	    COPY(a->refused.reason, r->reason) != 0 ||
	    COPY(a->refused.next, r->next) != 0)
		return (broken(a, SBX_E_LENGTH));
	return (SBX_E_POLICY);
}

/* One question, one answer of type want. */
static int
call(struct ask *a, uint16_t type, const void *msg, const int *fds,
    int timeout_ms, uint16_t want)
{
	if (a->broken)
		return (SBX_E_STATE);
	return (answer(a, sbx_chan_call(&a->chan, type, msg, fds, timeout_ms),
	    want));
}

static struct limits
limits_created(const struct sbx_sb_created *m)
{
	return ((struct limits){ .nproc = m->nproc, .nofile = m->nofile,
		.enforced = m->enforced, .cpu_milli = m->cpu_milli,
		.mem_bytes = m->mem_bytes, .disk_bytes = m->disk_bytes,
		.ttl_s = m->ttl_s });
}

/* Lists are borrowed from the record. */
static int
take_created(const struct sbx_sb_created *c, struct ask_created *ret_created)
{
	if (!sbx_is_hex(c->container, SBX_CONTAINER_HEX) ||
	    COPY(ret_created->container, c->container) != 0 ||
	    COPY(ret_created->run, c->run) != 0 ||
	    COPY(ret_created->image, c->image) != 0 ||
	    COPY(ret_created->digest, c->digest) != 0 ||
	    COPY(ret_created->name, c->name) != 0 ||
	    COPY(ret_created->why_image, c->why_image) != 0 ||
	    COPY(ret_created->user, c->user) != 0 ||
	    COPY(ret_created->workdir, c->workdir) != 0)
		return (SBX_E_DECODE);
	ret_created->env = c->env;
	ret_created->entrypoint = c->entrypoint;
	ret_created->own_user = c->own_user != 0;
	ret_created->network = c->network != 0;
	ret_created->limits = limits_created(c);
	return (0);
}

int
sb_create(struct ask *a, const struct sbx_sb_create *m,
    struct ask_created *ret_created)
{
	int error;

	error = call(a, SBX_MSG_SB_CREATE, m, NULL, ASK_CREATE_MS,
	    SBX_MSG_SB_CREATED);
	if (error != 0)
		return (error);
	error = take_created(&a->chan.in->m.sb_created, ret_created);
	return (error == 0 ? 0 : broken(a, error));
}

int
sb_stop(struct ask *a, const char *container, bool force, char *ret_run)
{
	struct sbx_sb_stop m = { .container = container, .force = force };
	int error;

	error = call(a, SBX_MSG_SB_STOP, &m, NULL, ASK_CREATE_MS,
	    SBX_MSG_SB_STOPPED);
	if (error != 0)
		return (error);
	if (sbx_strlcpy(ret_run, a->chan.in->m.sb_stopped.run,
	    SBX_RUN_HEX + 1) != 0)
		return (broken(a, SBX_E_DECODE));
	return (0);
}

static struct limits
limits_item(const struct sbx_sb_item *m)
{
	return ((struct limits){ .nproc = m->nproc, .nofile = m->nofile,
		.enforced = m->enforced, .cpu_milli = m->cpu_milli,
		.mem_bytes = m->mem_bytes, .disk_bytes = m->disk_bytes,
		.ttl_s = m->ttl_s });
}

static int
take_item(const struct sbx_sb_item *m, struct ask_item *ret_item)
{
	if (COPY(ret_item->container, m->container) != 0 ||
	    COPY(ret_item->name, m->name) != 0 ||
	    COPY(ret_item->label, m->label) != 0 ||
	    COPY(ret_item->image, m->image) != 0 ||
	    COPY(ret_item->digest, m->digest) != 0 ||
	    COPY(ret_item->principal, m->principal) != 0 ||
	    COPY(ret_item->reap_held, m->reap_held) != 0 ||
	    m->state >= SBX_SANDBOX_MAX || m->match >= SBX_MATCH_MAX)
		return (SBX_E_DECODE);
	ret_item->state = m->state;
	ret_item->match = m->match;
	ret_item->network = m->network != 0;
	ret_item->has_baseline = m->has_baseline != 0;
	ret_item->jobs = m->jobs;
	ret_item->limits = limits_item(m);
	ret_item->created_wall_ns = m->created_wall_ns;
	ret_item->age_ms = m->age_ms;
	ret_item->idle_ms = m->idle_ms;
	return (0);
}

/*
 * The next record of a list with id `id`: 0 with an item, SBX_E_NOENT at
 * SB_END, else as answer().
 */
static int
list_next(struct ask *a, int error, uint32_t id, uint16_t item)
{
	if (error == 0 && a->chan.in->hdr.id != id)
		error = SBX_E_STATE;
	if (error == 0 && a->chan.in->hdr.type == SBX_MSG_SB_END)
		return (SBX_E_NOENT);
	return (answer(a, error, item));
}

/* Ask; the answers come in the order of what was asked. */
static int
list_ask(struct ask *a, uint16_t type, const void *msg, uint32_t *ret_id)
{
	if (++a->chan.next_id == 0)
		a->chan.next_id = 1;
	*ret_id = a->chan.next_id;
	return (sbx_chan_send(&a->chan, type, *ret_id, msg, NULL, ASK_MS));
}

/* What comes between the items and the end, if anybody wants it. */
static int
list_reaped(struct ask *a, void (*fn)(void *arg, const struct ask_reaped *r),
    void *arg)
{
	const struct sbx_sb_reaped *m = &a->chan.in->m.sb_reaped;
	struct ask_reaped r = { .when_wall_ns = m->when_wall_ns };

	if (fn == NULL)
		return (SBX_E_STATE);
	if (COPY(r.container, m->container) != 0 ||
	    COPY(r.name, m->name) != 0 || COPY(r.reason, m->reason) != 0)
		return (SBX_E_DECODE);
	fn(arg, &r);
	return (0);
}

int
sb_list(struct ask *a, const char *container,
    void (*fn)(void *arg, const struct ask_item *item),
    void (*reaped)(void *arg, const struct ask_reaped *r), void *arg,
    size_t *ret_n)
{
	struct sbx_sb_list m = { .container = container };
	struct ask_item item;
	uint32_t id;
	size_t n = 0, gone = 0;
	int error;

	*ret_n = 0;
	if (a->broken)
		return (SBX_E_STATE);
	error = list_ask(a, SBX_MSG_SB_LIST, &m, &id);
	/* what a whole list goes on with is asked without waiting */
	if (error == 0 && reaped != NULL)
		error = list_ask(a, SBX_MSG_SNAP_LIST,
		    &(struct sbx_snap_list){ 0 }, &a->snaps);
	if (error == 0)
		error = sbx_chan_recv(&a->chan, ASK_MS);
	for (;;) {
		if (error == 0 && gone < SBX_MAX_REAPED &&
		    a->chan.in->hdr.id == id &&
		    a->chan.in->hdr.type == SBX_MSG_SB_REAPED) {
			error = list_reaped(a, reaped, arg);
			if (error != 0)
				return (broken(a, error));
			gone++;
			error = sbx_chan_recv(&a->chan, ASK_MS);
			continue;
		}
		error = list_next(a, error, id, SBX_MSG_SB_ITEM);
		if (error == SBX_E_NOENT)
			break;
		if (error != 0)
			return (reaped != NULL ? broken(a, error) : error);
		if (n == SBX_MAX_SANDBOXES || gone > 0)
			return (broken(a, SBX_E_LIMIT));
		error = take_item(&a->chan.in->m.sb_item, &item);
		if (error != 0)
			return (broken(a, error));
		fn(arg, &item);
		n++;
		error = sbx_chan_recv(&a->chan, ASK_MS);
	}
	if (a->chan.in->m.sb_end.count != n)
		return (broken(a, SBX_E_DECODE));
	*ret_n = n;
	return (0);
}

int
sb_label(struct ask *a, const char *container, const char *label,
    char *ret_previous)
{
	struct sbx_sb_label m = { .container = container, .label = label };
	int error;

	error = call(a, SBX_MSG_SB_LABEL, &m, NULL, ASK_MS,
	    SBX_MSG_SB_LABELLED);
	if (error != 0)
		return (error);
	if (sbx_strlcpy(ret_previous, a->chan.in->m.sb_labelled.previous,
	    65) != 0)
		return (broken(a, SBX_E_DECODE));
	return (0);
}

int
exec_start(struct ask *a, const struct sbx_exec_start *m, int stdin_fd,
    char *ret_run)
{
	uint64_t until = sbx_mono_ns() + BUSY_MS * UINT64_C(1000000);
	const char *run;
	int error;

	/* while a snapshot or a restore is under way, for a moment */
	for (;;) {
		error = call(a, SBX_MSG_EXEC_START, m, &stdin_fd, ASK_MS,
		    SBX_MSG_EXEC_STARTED);
		if (error != SBX_E_POLICY || strcmp(a->refused.code,
		    "sandbox_busy") != 0 || sbx_mono_ns() > until)
			break;
		(void)poll(NULL, 0, BUSY_POLL_MS);
	}
	if (error != 0)
		return (error);
	run = a->chan.in->m.exec_started.run;
	if (!sbx_is_hex(run, SBX_RUN_HEX) ||
	    sbx_strlcpy(ret_run, run, SBX_RUN_HEX + 1) != 0)
		return (broken(a, SBX_E_DECODE));
	return (0);
}

static int
take_run(const struct sbx_run_state *m, struct ask_run *ret_run)
{
	if (!sbx_is_hex(m->run, SBX_RUN_HEX) ||
	    COPY(ret_run->run, m->run) != 0 ||
	    COPY(ret_run->container, m->container) != 0 ||
	    COPY(ret_run->tool, m->tool) != 0 || m->state >= SBX_RUN_MAX ||
	    m->why >= SBX_EXIT_MAX)
		return (SBX_E_DECODE);
	ret_run->state = m->state;
	ret_run->why = m->why;
	ret_run->status = m->status;
	ret_run->background = m->background != 0;
	ret_run->elapsed_ms = m->elapsed_ms;
	ret_run->idle_ms = m->idle_ms;
	ret_run->out_bytes = m->out_bytes;
	ret_run->err_bytes = m->err_bytes;
	ret_run->dropped = m->dropped;
	ret_run->started_wall_ns = m->started_wall_ns;
	return (0);
}

/* --- snapshots ------------------------------------------------------------ */

int
sb_snapshot(struct ask *a, const struct sbx_sb_snapshot *m,
    struct ask_snapshot *ret_snapshot)
{
	const struct sbx_sb_snapshotted *s;
	int error;

	memset(ret_snapshot, 0, sizeof(*ret_snapshot));
	error = call(a, SBX_MSG_SB_SNAPSHOT, m, NULL, ASK_SNAPSHOT_MS,
	    SBX_MSG_SB_SNAPSHOTTED);
	if (error != 0)
		return (error);
	s = &a->chan.in->m.sb_snapshotted;
	if (!sbx_is_hex(s->snapshot, SBX_CONTAINER_HEX) ||
	    COPY(ret_snapshot->id, s->snapshot) != 0 ||
	    COPY(ret_snapshot->container, s->container) != 0 ||
	    COPY(ret_snapshot->run, s->run) != 0 ||
	    COPY(ret_snapshot->name, s->name) != 0 ||
	    s->method >= SBX_SNAP_MAX)
		return (broken(a, SBX_E_DECODE));
	ret_snapshot->method = s->method;
	ret_snapshot->live = s->live != 0;
	ret_snapshot->files = s->files;
	ret_snapshot->bytes = s->bytes;
	return (0);
}

int
sb_restore(struct ask *a, const struct sbx_sb_restore *m,
    struct ask_restored *ret_restored)
{
	const struct sbx_sb_restored *s;
	int error;

	error = call(a, SBX_MSG_SB_RESTORE, m, NULL, ASK_SNAPSHOT_MS,
	    SBX_MSG_SB_RESTORED);
	if (error != 0)
		return (error);
	s = &a->chan.in->m.sb_restored;
	if (!sbx_is_hex(s->snapshot, SBX_CONTAINER_HEX) ||
	    COPY(ret_restored->id, s->snapshot) != 0 ||
	    COPY(ret_restored->run, s->run) != 0 ||
	    COPY(ret_restored->name, s->name) != 0)
		return (broken(a, SBX_E_DECODE));
	ret_restored->ended = s->ended;
	return (0);
}

int
sb_fork(struct ask *a, const struct sbx_sb_fork *m,
    void (*fn)(void *arg, const struct ask_created *c), void *arg,
    size_t *ret_n)
{
	struct ask_created c;
	uint32_t id;
	size_t n = 0;
	int error;

	*ret_n = 0;
	if (a->broken)
		return (SBX_E_STATE);
	error = sbx_chan_call(&a->chan, SBX_MSG_SB_FORK, m, NULL,
	    ASK_SNAPSHOT_MS);
	id = error == 0 ? a->chan.in->hdr.id : 0;
	for (;;) {
		error = list_next(a, error, id, SBX_MSG_SB_CREATED);
		if (error == SBX_E_NOENT)
			break;
		if (error != 0)
			return (error);
		if (n == m->count)
			return (broken(a, SBX_E_LIMIT));
		error = take_created(&a->chan.in->m.sb_created, &c);
		if (error != 0)
			return (broken(a, error));
		fn(arg, &c);
		n++;
		error = sbx_chan_recv(&a->chan, ASK_SNAPSHOT_MS);
	}
	if (n != m->count)
		return (broken(a, SBX_E_DECODE));
	*ret_n = n;
	return (0);
}

static int
take_snapshot(const struct sbx_snap_item *m, struct ask_snapshot *ret_s)
{
	memset(ret_s, 0, sizeof(*ret_s));
	if (COPY(ret_s->id, m->snapshot) != 0 ||
	    COPY(ret_s->container, m->container) != 0 ||
	    COPY(ret_s->name, m->name) != 0 ||
	    COPY(ret_s->label, m->label) != 0 ||
	    COPY(ret_s->image, m->image) != 0 || m->method >= SBX_SNAP_MAX)
		return (SBX_E_DECODE);
	ret_s->method = m->method;
	ret_s->files = m->files;
	ret_s->bytes = m->bytes;
	ret_s->created_wall_ns = m->created_wall_ns;
	return (0);
}

int
snap_list(struct ask *a, void (*fn)(void *arg, const struct ask_snapshot *s),
    void *arg)
{
	struct ask_snapshot s;
	uint32_t id;
	size_t n = 0;
	int error;

	if (a->broken)
		return (SBX_E_STATE);
	id = a->snaps;
	a->snaps = 0;
	if (id == 0)
		return (broken(a, SBX_E_STATE));
	error = sbx_chan_recv(&a->chan, ASK_MS);
	for (;;) {
		error = list_next(a, error, id, SBX_MSG_SNAP_ITEM);
		if (error == SBX_E_NOENT)
			return (0);
		if (error != 0)
			return (error);
		if (n++ == SBX_MAX_SNAPSHOTS)
			return (broken(a, SBX_E_LIMIT));
		error = take_snapshot(&a->chan.in->m.snap_item, &s);
		if (error != 0)
			return (broken(a, error));
		fn(arg, &s);
		error = sbx_chan_recv(&a->chan, ASK_MS);
	}
}

int
snap_remove(struct ask *a, const char *ref, char *ret_id, char *ret_name)
{
	struct sbx_snap_remove m = { .snapshot = ref };
	int error;

	error = call(a, SBX_MSG_SNAP_REMOVE, &m, NULL, ASK_MS,
	    SBX_MSG_SNAP_REMOVED);
	if (error != 0)
		return (error);
	if (sbx_strlcpy(ret_id, a->chan.in->m.snap_removed.snapshot,
	    SBX_CONTAINER_HEX + 1) != 0 || sbx_strlcpy(ret_name,
	    a->chan.in->m.snap_removed.name, 65) != 0)
		return (broken(a, SBX_E_DECODE));
	return (0);
}

int
deps_make(struct ask *a, const struct sbx_deps_make *m,
    struct ask_deps *ret_deps)
{
	const struct sbx_deps_ready *d;
	int error;

	error = call(a, SBX_MSG_DEPS_MAKE, m, NULL, ASK_SNAPSHOT_MS,
	    SBX_MSG_DEPS_READY);
	if (error != 0)
		return (error);
	d = &a->chan.in->m.deps_ready;
	if (COPY(ret_deps->run, d->run) != 0 ||
	    COPY(ret_deps->snapshot, d->snapshot) != 0 ||
	    COPY(ret_deps->layer, d->layer) != 0)
		return (broken(a, SBX_E_DECODE));
	ret_deps->error = d->error;
	ret_deps->cached = d->cached != 0;
	ret_deps->ms = d->ms;
	ret_deps->files = d->files;
	ret_deps->bytes = d->bytes;
	return (0);
}

/* The answer of EXEC_WAIT and EXEC_KILL must be about the run asked for. */
static int
run_state(struct ask *a, int error, const char *run, struct ask_run *ret_run)
{
	if (error != 0)
		return (error);
	error = take_run(&a->chan.in->m.run_state, ret_run);
	if (error == 0 && strcmp(ret_run->run, run) != 0)
		error = SBX_E_STATE;
	return (error == 0 ? 0 : broken(a, error));
}

int
exec_wait(struct ask *a, const char *run, uint32_t wait_ms,
    struct ask_run *ret_run)
{
	struct sbx_exec_wait m = { .run = run, .wait_ms = wait_ms };

	return (run_state(a, call(a, SBX_MSG_EXEC_WAIT, &m, NULL,
	    (int)wait_ms + ASK_MS, SBX_MSG_RUN_STATE), run, ret_run));
}

int
run_watch(struct ask *a, const char *run, struct ask_run *ret_run)
{
	struct sbx_run_watch m = { .run = run };

	return (run_state(a, call(a, SBX_MSG_RUN_WATCH, &m, NULL, ASK_MS,
	    SBX_MSG_RUN_STATE), run, ret_run));
}

int
exec_kill(struct ask *a, const char *run, struct ask_run *ret_run)
{
	struct sbx_exec_kill m = { .run = run };

	return (run_state(a, call(a, SBX_MSG_EXEC_KILL, &m, NULL, ASK_MS,
	    SBX_MSG_RUN_STATE), run, ret_run));
}

int
run_journal(struct ask *a, const char *run, const char **ret_text,
    uint32_t *ret_dropped)
{
	struct sbx_run_journal m = { .run = run };
	int error = call(a, SBX_MSG_RUN_JOURNAL, &m, NULL, ASK_MS,
	    SBX_MSG_RUN_RECORDS);

	if (error != 0)
		return (error);
	*ret_text = a->chan.in->m.run_records.text;
	*ret_dropped = a->chan.in->m.run_records.dropped;
	return (0);
}

int
out_read(struct ask *a, const char *run, enum sbx_stream stream,
    uint64_t offset, struct ask_data *ret_data)
{
	struct sbx_out_read m = { .run = run, .stream = (uint8_t)stream,
		.offset = offset };
	const struct sbx_out_data *d;
	int error;

	memset(ret_data, 0, sizeof(*ret_data));
	ret_data->fd = -1;
	if (a->broken)
		return (SBX_E_STATE);
	error = sbx_chan_call(&a->chan, SBX_MSG_OUT_READ, &m, NULL, ASK_MS);
	if (error == 0 && a->chan.in->hdr.type == SBX_MSG_OUT_NODATA) {
		ret_data->known = a->chan.in->m.out_nodata.known != 0;
		ret_data->total = a->chan.in->m.out_nodata.total;
		return (0);
	}
	error = answer(a, error, SBX_MSG_OUT_DATA);
	if (error != 0)
		return (error);
	d = &a->chan.in->m.out_data;
	/* A part before the offset asked for would make the reader loop. */
	if (d->length == 0 || d->start > UINT64_MAX - d->length ||
	    d->start + d->length <= offset || d->file_offset > INT64_MAX ||
	    d->length > (uint64_t)INT64_MAX - d->file_offset)
		return (broken(a, SBX_E_DECODE));
	ret_data->known = true;
	ret_data->start = d->start;
	ret_data->length = d->length;
	ret_data->file_offset = d->file_offset;
	ret_data->total = d->total;
	ret_data->fd = sbx_steal_fd(&a->chan.in->fds[0]);
	return (0);
}

int
run_list(struct ask *a, uint32_t skip, uint32_t max, struct ask_run *runs,
    size_t *ret_n)
{
	struct sbx_run_list m = { .skip = skip, .max = max };
	uint32_t id;
	size_t n = 0;
	int error;

	*ret_n = 0;
	if (a->broken)
		return (SBX_E_STATE);
	error = sbx_chan_call(&a->chan, SBX_MSG_RUN_LIST, &m, NULL, ASK_MS);
	id = error == 0 ? a->chan.in->hdr.id : 0;
	for (;;) {
		error = list_next(a, error, id, SBX_MSG_RUN_STATE);
		if (error == SBX_E_NOENT)
			break;
		if (error != 0)
			return (error);
		if (n == max)
			return (broken(a, SBX_E_LIMIT));
		error = take_run(&a->chan.in->m.run_state, &runs[n]);
		if (error != 0)
			return (broken(a, error));
		n++;
		error = sbx_chan_recv(&a->chan, ASK_MS);
	}
	*ret_n = n;
	return (0);
}

int
copy_in(struct ask *a, const struct sbx_copy_in *m, int list_fd,
    int timeout_ms, struct ask_copied *ret_copied)
{
	const struct sbx_copy_done *d;
	int error;

	memset(ret_copied, 0, sizeof(*ret_copied));
	ret_copied->fd = -1;
	error = call(a, SBX_MSG_COPY_IN, m, &list_fd, timeout_ms,
	    SBX_MSG_COPY_DONE);
	if (error != 0)
		return (error);
	d = &a->chan.in->m.copy_done;
	if (COPY(ret_copied->reason, d->reason) != 0 ||
	    COPY(ret_copied->final_path, d->final_path) != 0)
		return (broken(a, SBX_E_DECODE));
	ret_copied->error = d->error;
	ret_copied->files = d->files;
	ret_copied->bytes = d->bytes;
	ret_copied->refused = d->refused;
	ret_copied->fd = sbx_steal_fd(&a->chan.in->fds[0]);
	return (0);
}

int
file_ask(struct ask *a, const struct sbx_file_ask *m, const int fds[2],
    struct ask_filed *ret_filed)
{
	const struct sbx_file_done *d;
	int error;

	memset(ret_filed, 0, sizeof(*ret_filed));
	error = call(a, SBX_MSG_FILE_ASK, m, fds, ASK_FILE_MS,
	    SBX_MSG_FILE_DONE);
	if (error != 0)
		return (error);
	d = &a->chan.in->m.file_done;
	*ret_filed = (struct ask_filed){ .error = d->error, .mode = d->mode,
		.size = d->size, .ino = d->ino, .mtime_ns = d->mtime_ns,
		.ctime_ns = d->ctime_ns, .total = d->total, .first = d->first,
		.count = d->count, .bytes = d->bytes };
	if (COPY(ret_filed->reason, d->reason) != 0 ||
	    COPY(ret_filed->path, d->path) != 0)
		return (broken(a, SBX_E_DECODE));
	return (0);
}

int
undo_keep(struct ask *a, const struct sbx_undo_keep *m, int fd,
    struct ask_filed *ret_filed)
{
	int error;

	memset(ret_filed, 0, sizeof(*ret_filed));
	error = call(a, SBX_MSG_UNDO_KEEP, m, &fd, ASK_FILE_MS,
	    SBX_MSG_UNDO_KEPT);
	if (error != 0)
		return (error);
	ret_filed->error = a->chan.in->m.undo_kept.error;
	if (COPY(ret_filed->reason, a->chan.in->m.undo_kept.reason) != 0)
		return (broken(a, SBX_E_DECODE));
	return (0);
}

/* Two answers are right. */
int
undo_find(struct ask *a, const struct sbx_undo_find *m,
    struct ask_undo *ret_undo)
{
	const struct sbx_undo_version *v;
	int error;

	*ret_undo = (struct ask_undo){ .fd = -1 };
	if (a->broken)
		return (SBX_E_STATE);
	error = sbx_chan_call(&a->chan, SBX_MSG_UNDO_FIND, m, NULL,
	    ASK_FILE_MS);
	error = answer(a, error, error == 0 && a->chan.in->hdr.type ==
	    SBX_MSG_UNDO_NONE ? SBX_MSG_UNDO_NONE : SBX_MSG_UNDO_VERSION);
	if (error != 0)
		return (error);
	v = &a->chan.in->m.undo_version;
	if (a->chan.in->hdr.type == SBX_MSG_UNDO_NONE) {
		ret_undo->versions = a->chan.in->m.undo_none.versions;
		return (0);
	}
	*ret_undo = (struct ask_undo){ .known = true, .absent = v->absent != 0,
		.mode = v->mode, .versions = v->versions,
		.fd = sbx_steal_fd(&a->chan.in->fds[0]) };
	return (0);
}

static int
take_gate(struct ask *a, struct ask_gate *ret_gate)
{
	const struct sbx_gate_state *s = &a->chan.in->m.gate_state;

	if (s->phase >= SBX_GATE_MAX || COPY(ret_gate->id, s->gate) != 0 ||
	    COPY(ret_gate->container, s->container) != 0 ||
	    COPY(ret_gate->reason, s->reason) != 0 ||
	    COPY(ret_gate->sha1, s->sha1) != 0 ||
	    COPY(ret_gate->sha256, s->sha256) != 0 ||
	    COPY(ret_gate->image, s->image) != 0 ||
	    COPY(ret_gate->digest, s->digest) != 0 ||
	    COPY(ret_gate->layer, s->layer) != 0)
		return (broken(a, SBX_E_DECODE));
	ret_gate->phase = s->phase;
	ret_gate->files = s->files;
	ret_gate->bytes = s->bytes;
	ret_gate->passed = s->passed != 0;
	ret_gate->results = s->results;
	ret_gate->elapsed_ms = s->elapsed_ms;
	return (0);
}

int
gate_start(struct ask *a, const struct sbx_gate_start *m, int list_fd,
    struct ask_gate *ret_gate)
{
	int error = call(a, SBX_MSG_GATE_START, m, &list_fd, ASK_CREATE_MS,
	    SBX_MSG_GATE_STATE);

	return (error == 0 ? take_gate(a, ret_gate) : error);
}

int
gate_wait(struct ask *a, const char *gate, uint32_t wait_ms,
    struct ask_gate *ret_gate)
{
	const struct sbx_gate_wait m = { .gate = gate, .wait_ms = wait_ms };
	int error = call(a, SBX_MSG_GATE_WAIT, &m, NULL, (int)wait_ms +
	    ASK_MS, SBX_MSG_GATE_STATE);

	return (error == 0 ? take_gate(a, ret_gate) : error);
}

int
gate_deps(struct ask *a, const char *gate, struct ask_gate_deps *ret_deps)
{
	const struct sbx_gate_deps m = { .gate = gate };
	const struct sbx_gate_deps_state *s;
	int error = call(a, SBX_MSG_GATE_DEPS, &m, NULL, ASK_MS,
	    SBX_MSG_GATE_DEPS_STATE);

	if (error != 0)
		return (error);
	s = &a->chan.in->m.gate_deps_state;
	if (COPY(ret_deps->layer, s->layer) != 0 ||
	    COPY(ret_deps->setup, s->setup) != 0 ||
	    COPY(ret_deps->run, s->run) != 0)
		return (broken(a, SBX_E_DECODE));
	ret_deps->prepared = s->prepared != 0;
	ret_deps->cached = s->cached != 0;
	ret_deps->error = s->error;
	ret_deps->left_out = s->left_out;
	ret_deps->packages = s->packages;
	return (0);
}

int
package_note(struct ask *a, const struct sbx_package_note *m, bool *ret_kept)
{
	int error = call(a, SBX_MSG_PACKAGE_NOTE, m, NULL, ASK_MS,
	    SBX_MSG_PACKAGE_NOTED);

	if (error == 0)
		*ret_kept = a->chan.in->m.package_noted.kept != 0;
	return (error);
}

static int
take_publish(struct ask *a, struct ask_publish *ret)
{
	const struct sbx_publish_state *s = &a->chan.in->m.publish_state;

	if (s->phase >= SBX_PUBLISH_PHASE_MAX ||
	    s->outcome >= SBX_PUBLISH_OUTCOME_MAX ||
	    COPY(ret->id, s->publish) != 0 || COPY(ret->step, s->step) != 0 ||
	    COPY(ret->reason, s->reason) != 0 ||
	    COPY(ret->next, s->next) != 0 || COPY(ret->tip, s->tip) != 0 ||
	    COPY(ret->base, s->base) != 0 || COPY(ret->tree, s->tree) != 0 ||
	    COPY(ret->commit, s->commit) != 0 ||
	    COPY(ret->branch, s->branch) != 0 ||
	    COPY(ret->gate, s->gate) != 0 ||
	    COPY(ret->gate_status, s->gate_status) != 0 ||
	    COPY(ret->gate_ran, s->gate_ran) != 0 ||
	    COPY(ret->default_branch, s->default_branch) != 0)
		return (broken(a, SBX_E_DECODE));
	ret->phase = s->phase;
	ret->outcome = s->outcome;
	ret->added = s->added;
	ret->modified = s->modified;
	ret->deleted = s->deleted;
	ret->unchanged = s->unchanged;
	ret->total = s->total;
	ret->bytes = s->bytes;
	ret->elapsed_ms = s->elapsed_ms;
	ret->findings = s->findings;
	ret->nwaived = s->nwaived;
	ret->is_signed = s->is_signed;
	ret->waived = s->waived;
	return (0);
}

int
publish_start(struct ask *a, const struct sbx_publish_start *m,
    const int fds[2], struct ask_publish *ret_publish)
{
	int error = call(a, SBX_MSG_PUBLISH_START, m, fds, ASK_CREATE_MS,
	    SBX_MSG_PUBLISH_STATE);

	return (error == 0 ? take_publish(a, ret_publish) : error);
}

int
publish_wait(struct ask *a, const char *publish, uint32_t wait_ms,
    struct ask_publish *ret_publish)
{
	const struct sbx_publish_wait m = { .publish = publish,
		.wait_ms = wait_ms };
	int error = call(a, SBX_MSG_PUBLISH_WAIT, &m, NULL, (int)wait_ms +
	    ASK_MS, SBX_MSG_PUBLISH_STATE);

	return (error == 0 ? take_publish(a, ret_publish) : error);
}

int
publish_gate(struct ask *a, const char *publish, const char *gate,
    struct ask_publish *ret_publish)
{
	const struct sbx_publish_gate m = { .publish = publish, .gate = gate };
	int error = call(a, SBX_MSG_PUBLISH_GATE, &m, NULL, ASK_MS,
	    SBX_MSG_PUBLISH_STATE);

	return (error == 0 ? take_publish(a, ret_publish) : error);
}

int
publish_question(struct ask *a, const char *publish,
    struct ask_question *ret_question)
{
	const struct sbx_publish_confirm m = { .publish = publish };
	const struct sbx_publish_question *q;
	int error = call(a, SBX_MSG_PUBLISH_CONFIRM, &m, NULL, ASK_MS,
	    SBX_MSG_PUBLISH_QUESTION);

	if (error != 0)
		return (error);
	q = &a->chan.in->m.publish_question;
	if (COPY(ret_question->host, q->host) != 0 ||
	    COPY(ret_question->repo, q->repo) != 0 ||
	    COPY(ret_question->branch, q->branch) != 0 ||
	    COPY(ret_question->commit, q->commit) != 0 ||
	    COPY(ret_question->base, q->base) != 0)
		return (broken(a, SBX_E_DECODE));
	ret_question->files = q->files;
	ret_question->plus = q->plus;
	ret_question->minus = q->minus;
	ret_question->declared = q->declared;
	ret_question->merged = q->merged;
	ret_question->paths = q->paths;
	return (0);
}

int
publish_said(struct ask *a, const char *publish,
    struct ask_publish *ret_publish)
{
	const struct sbx_publish_confirm m = { .publish = publish, .said = 1 };
	int error = call(a, SBX_MSG_PUBLISH_CONFIRM, &m, NULL, ASK_MS,
	    SBX_MSG_PUBLISH_STATE);

	return (error == 0 ? take_publish(a, ret_publish) : error);
}

int
override_ask(struct ask *a, const struct sbx_override_ask *m,
    struct ask_override *ret_override)
{
	const struct sbx_override_state *s;
	int error = call(a, SBX_MSG_OVERRIDE_ASK, m, NULL, ASK_CREATE_MS,
	    SBX_MSG_OVERRIDE_STATE);

	if (error != 0)
		return (error);
	s = &a->chan.in->m.override_state;
	if (COPY(ret_override->host, s->host) != 0 ||
	    COPY(ret_override->repo, s->repo) != 0 ||
	    COPY(ret_override->branch, s->branch) != 0)
		return (broken(a, SBX_E_DECODE));
	ret_override->confirm = s->confirm != 0;
	ret_override->count = s->count;
	ret_override->left_s = s->left_s;
	ret_override->findings = s->findings;
	return (0);
}

int
repo_open(struct ask *a, const struct sbx_repo_open *m,
    struct ask_repo *ret_repo)
{
	const struct sbx_repo_opened *o;
	int error;

	memset(ret_repo, 0, sizeof(*ret_repo));
	error = call(a, SBX_MSG_REPO_OPEN, m, NULL, ASK_MS,
	    SBX_MSG_REPO_OPENED);
	if (error != 0)
		return (error);
	o = &a->chan.in->m.repo_opened;
	if ((*o->grant != '\0' && !sbx_is_hex(o->grant, SBX_RUN_HEX)) ||
	    COPY(ret_repo->grant, o->grant) != 0 ||
	    COPY(ret_repo->code, o->code) != 0 ||
	    COPY(ret_repo->why, o->why) != 0)
		return (broken(a, SBX_E_DECODE));
	return (0);
}

int
repo_close(struct ask *a, const char *grant)
{
	const struct sbx_repo_close m = { .grant = grant };

	return (call(a, SBX_MSG_REPO_CLOSE, &m, NULL, ASK_MS,
	    SBX_MSG_REPO_CLOSED));
}

int
repo_run(struct ask *a, const char *run, const char *grant, const char *path)
{
	const struct sbx_repo_run m = { .run = run, .grant = grant,
		.path = path };

	return (call(a, SBX_MSG_REPO_RUN, &m, NULL, ASK_MS,
	    SBX_MSG_REPO_RUNS));
}

int
api_ask(struct ask *a, const struct sbx_api_ask *m, const int fds[2],
    struct ask_api *ret_api)
{
	const struct sbx_api_done *d;
	int error;

	memset(ret_api, 0, sizeof(*ret_api));
	error = call(a, SBX_MSG_API_ASK, m, fds,
	    (int)(m->within_ms + SBX_API_STEP_MS), SBX_MSG_API_DONE);
	if (error != 0)
		return (error);
	d = &a->chan.in->m.api_done;
	if (COPY(ret_api->code, d->code) != 0 ||
	    COPY(ret_api->reason, d->reason) != 0)
		return (broken(a, SBX_E_DECODE));
	ret_api->error = d->error;
	ret_api->begun = d->begun != 0;
	ret_api->status = d->status;
	ret_api->next_page = d->next_page;
	ret_api->retry_s = d->retry_s;
	ret_api->credential = d->credential != 0;
	return (0);
}

int
work_progress(struct ask *a, uint64_t done, uint64_t total,
    const char *message)
{
	struct sbx_work_progress m = { .done = done, .total = total,
		.message = message };
	int error;

	if (a->broken)
		return (SBX_E_STATE);
	error = sbx_chan_send(&a->chan, SBX_MSG_WORK_PROGRESS, 0, &m, NULL,
	    ASK_MS);
	return (error == 0 ? 0 : broken(a, error));
}

int
work_log(struct ask *a, enum sbx_mcp_level level, const char *text)
{
	struct sbx_work_log m = { .level = (uint8_t)level, .text = text };
	int error;

	if (a->broken)
		return (SBX_E_STATE);
	error = sbx_chan_send(&a->chan, SBX_MSG_WORK_LOG, 0, &m, NULL, ASK_MS);
	return (error == 0 ? 0 : broken(a, error));
}
