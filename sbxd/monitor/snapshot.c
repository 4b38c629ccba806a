#include "sbxd/monitor/monitor.h"

#include <stdio.h>
#include <string.h>

/*
 * Snapshots as the monitor knows them: whose, of what, and what was copied in
 * when.  The engine has the layers; a record here is made before it is asked
 * and goes when there is none after all.  They end with the suite.
 */

#define TAKE_S 42
#define RESTORE_S 40
#define WORK_S 6		/* for all places together */

/* By whole id, whoever's: policy_snapshot() is for what a worker names. */
struct snapshot *
snapshot_find(struct monitor *m, const char *id)
{
	struct snapshot *s;

	TAILQ_FOREACH(s, &m->snapshots, link)
		if (strcmp(s->id, id) == 0)
			return (s);
	return (NULL);
}

static void
baselines_clear(struct baseline b[MAX_BASELINES])
{
	size_t i;

	for (i = 0; i < MAX_BASELINES; i++) {
		free(b[i].dest);
		b[i] = (struct baseline){ 0 };
	}
}

static void
baselines_copy(struct baseline to[MAX_BASELINES],
    const struct baseline from[MAX_BASELINES])
{
	size_t i;

	baselines_clear(to);
	for (i = 0; i < MAX_BASELINES; i++)
		if (from[i].dest != NULL)
			to[i] = (struct baseline){
			    .when_wall_ns = from[i].when_wall_ns,
			    .copied_from_ns = from[i].copied_from_ns,
			    .copied_to_ns = from[i].copied_to_ns,
			    .old = from[i].old,
			    .dest = sbx_xstrdup(from[i].dest) };
}

/* The record only. */
static void
forget(struct monitor *m, struct snapshot *s)
{
	struct sandbox *sb;

	/* from now on nothing of what is in those is kept anywhere */
	TAILQ_FOREACH(sb, &m->sandboxes, link)
		if (strcmp(sb->kept_by, s->id) == 0) {
			sb->kept_wall_ns = 1;
			sb->kept_by[0] = '\0';
		}
	baselines_clear(s->baselines);
	installs_clear(&s->installs);
	TAILQ_REMOVE(&m->snapshots, s, link);
	free(s);
}

static void
engine_drop(struct monitor *m, const char *id)
{
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);

	if (engine != NULL)
		(void)sbx_send_snap_drop(engine, 0,
		    &(struct sbx_snap_drop){ .snapshot = id }, NULL);
}

/* And the layers, where nothing stands on them. */
void
snapshot_drop(struct monitor *m, struct snapshot *s)
{
	engine_drop(m, s->id);
	forget(m, s);
}

void
snapshot_drop_principal(struct monitor *m, const struct principal *p)
{
	struct snapshot *s, *next;

	for (s = TAILQ_FIRST(&m->snapshots); s != NULL; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->who == p)
			snapshot_drop(m, s);
	}
}

/* The state of forks that were not made. */
void
snapshot_call_ended(struct monitor *m, const struct call *c)
{
	struct snapshot *s, *next;

	for (s = TAILQ_FIRST(&m->snapshots); s != NULL; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->maker != c)
			continue;
		s->maker = NULL;
		/* one that is not there yet goes when it comes */
		if (s->ready)
			snapshot_drop(m, s);
	}
}

bool
snapshot_any_of(const struct monitor *m, const struct principal *p)
{
	const struct snapshot *s;

	TAILQ_FOREACH(s, &m->snapshots, link)
		if (s->who == p && !s->hidden)
			return (true);
	return (false);
}

/* What its fork begins with: which work is new is known by the same marks. */
void
snapshot_give(const struct snapshot *s, struct sandbox *sb)
{
	baselines_copy(sb->baselines, s->baselines);
	installs_copy(&sb->installs, &s->installs);
	(void)sbx_strlcpy(sb->image, s->image, sizeof(sb->image));
	memcpy(sb->digest, s->digest, sizeof(sb->digest));
	memcpy(sb->layer, s->layer, sizeof(sb->layer));
	sb->kept_wall_ns = sbx_wall_ns();
	(void)sbx_strlcpy(sb->kept_by, s->hidden ? "" : s->id,
	    sizeof(sb->kept_by));
}

/* --- taking -------------------------------------------------------------- */

struct snapshot *
snapshot_own(struct monitor *m, struct worker *w, const char *ref)
{
	struct snapshot *s = policy_snapshot(m, w->who, ref);

	if (s == NULL)
		ask_refuse(w, "not_found", "sandbox_list_containers shows "
		    "your snapshots.", "there is no snapshot %s", ref);
	return (s);
}

struct sandbox *
snapshot_source(struct monitor *m, struct worker *w, const char *id)
{
	struct sandbox *sb = policy_sandbox(m, w->who, id);

	if (sb == NULL)
		ask_refuse(w, "not_found", "Call sandbox_list_containers for "
		    "the ids that exist.", "there is no sandbox %s", id);
	else if (sandbox_barred(w, sb))
		sb = NULL;
	return (sb);
}

static bool
copies_run(const struct monitor *m, const struct sandbox *sb)
{
	size_t i;

	for (i = 0; i < MAX_COPIES; i++)
		if (m->copies[i].used &&
		    strcmp(m->copies[i].container, sb->id) == 0)
			return (true);
	return (false);
}

_Static_assert(SBX_MAX_SNAPSHOTS_PRINCIPAL == 16 && SBX_MAX_SNAPSHOTS == 64,
    "the numbers of a sentence below");

/* NULL, or why there can be none more, with the stable word for it. */
static const char *
take_barred(struct monitor *m, const struct principal *who, const char *name,
    const char **ret_code)
{
	unsigned all = 0, own = 0;
	struct snapshot *s;

	TAILQ_FOREACH(s, &m->snapshots, link) {
		all += !s->hidden;
		own += s->who == who && !s->hidden;
	}
	*ret_code = "too_many_snapshots";
	if (own >= SBX_MAX_SNAPSHOTS_PRINCIPAL || all >= SBX_MAX_SNAPSHOTS)
		return ("there are as many snapshots as there may be (16 of "
		    "yours, 64 of all); drop one");
	*ret_code = "bad_name";
	if (name[0] != '\0' && !policy_sandbox_name(name))
		return ("a snapshot's name is a letter or digit and up to 63 "
		    "of letters, digits, '.', '_' and '-'");
	*ret_code = "name_in_use";
	if (name[0] != '\0' && snapshot_named(m, who, name) != NULL)
		return ("one of your snapshots has that name already");
	return (NULL);
}

/*
 * Send it.  end: the sandbox ends, its scratch is the snapshot.  NULL: the
 * engine is not there.  *ret_id: of our request.
 */
struct snapshot *
snapshot_begin(struct monitor *m, struct sandbox *sb, bool hidden, bool end,
    uint32_t *ret_id)
{
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);
	struct snapshot *s;
	bool idle = sb->live_runs == 0 && !copies_run(m, sb);

	if (engine == NULL)
		return (NULL);
	s = sbx_xcalloc(1, sizeof(*s));
	do
		sbx_random_hex(s->id, SBX_CONTAINER_HEX / 2);
	while (snapshot_find(m, s->id) != NULL);
	s->who = sb->who;
	s->limits = sb->limits;
	s->network = sb->network;
	s->hidden = hidden;
	s->began_wall_ns = sbx_wall_ns();
	(void)sbx_strlcpy(s->container, sb->id, sizeof(s->container));
	(void)sbx_strlcpy(s->image, sb->image, sizeof(s->image));
	memcpy(s->digest, sb->digest, sizeof(s->digest));
	memcpy(s->layer, sb->layer, sizeof(s->layer));
	(void)snprintf(s->name, sizeof(s->name), "snap-%s", s->id);
	baselines_copy(s->baselines, sb->baselines);
	installs_copy(&s->installs, &sb->installs);
	*ret_id = ++m->next_id;
	if (sbx_send_snap_take(engine, *ret_id, &(struct sbx_snap_take){
	    .container = sb->id, .snapshot = s->id, .may_move = idle,
	    .end = end }, NULL) != 0) {
		TAILQ_INSERT_HEAD(&m->snapshots, s, link);
		forget(m, s);
		return (NULL);
	}
	TAILQ_INSERT_HEAD(&m->snapshots, s, link);
	/* nothing is started in it while its scratch becomes a layer */
	if (idle || end)
		sb->state = SBX_SANDBOX_FROZEN;
	s->live = !idle;
	journal_add(m, &(struct record){ .op = "snapshot", .phase = "start",
	    .who = s->who, .container = sb->id }, "snapshot", s->id, NULL);
	return (s);
}

/* Continuation of SB_SNAPSHOT. */
static void
take_answered(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	const struct sbx_snap_taken *q = in != NULL ? &in->m.snap_taken : NULL;
	struct snapshot *s = q == NULL ? NULL : snapshot_find(m, q->snapshot);
	struct run *r;

	if (s == NULL) {
		ask_refuse(w, "snapshot_failed", "The sandbox is as it was; "
		    "free space or end its jobs, then retry.",
		    "there is no snapshot: %s",
		    q != NULL && q->error != 0 ? q->reason : why);
		return;
	}
	r = run_mark(m, w->who, s->container, w->call->tool);
	(void)sbx_send_sb_snapshotted(w->peer, w->ask.id,
	    &(struct sbx_sb_snapshotted){ .snapshot = s->id,
	    .container = s->container, .run = r->id, .name = s->name,
	    .method = s->method, .live = s->live, .depth = s->depth,
	    .files = s->files, .bytes = s->bytes }, NULL);
	ask_done(w);
}

/* Safe for a hostile worker: own sandboxes only. */
void
snapshot_ask(struct monitor *m, struct worker *w,
    const struct sbx_sb_snapshot *q)
{
	struct sandbox *sb = snapshot_source(m, w, q->container);
	const char *code, *why;
	struct snapshot *s;

	if (sb == NULL)
		return;
	if ((why = take_barred(m, w->who, q->name, &code)) != NULL) {
		ask_refuse(w, code, "sandbox_drop_snapshot drops one; "
		    "sandbox_list_containers shows them.", "%s", why);
		return;
	}
	w->ask.then = take_answered;
	s = snapshot_begin(m, sb, false, false, &w->ask.back_id);
	if (s == NULL) {
		ask_refuse(w, "suite_degraded", "", "the engine is not there");
		return;
	}
	w->ask.back = SBX_PROC_ENGINE;
	w->ask.deadline_ns = sbx_mono_ns() + TAKE_S * S_NS;
	if (q->name[0] != '\0')
		(void)sbx_strlcpy(s->name, q->name, sizeof(s->name));
	(void)sbx_strlcpy(s->label, q->label, sizeof(s->label));
}

static void
thaw(struct monitor *m, struct sandbox *sb)
{
	if (sb->state == SBX_SANDBOX_FROZEN)
		sb->state = SBX_SANDBOX_READY;
	reap_arm(m);	/* its time may have come meanwhile */
}

/* To the worker that waits; nobody does: NULL, and false. */
static bool
pass_on(struct monitor *m, struct sbx_in *in)
{
	struct worker *w = ask_of_id(m, SBX_PROC_ENGINE, in->hdr.id);

	if (w == NULL)
		return (false);
	w->ask.back_id = 0;
	w->ask.then(m, w, in, "");
	return (true);
}

/* The engine's word.  Whoever asked may be gone: then nobody knows its id. */
void
snapshot_taken(struct monitor *m, struct sbx_in *in)
{
	const struct sbx_snap_taken *q = &in->m.snap_taken;
	struct snapshot *s = snapshot_find(m, q->snapshot);
	struct sandbox *sb = sandbox_find(m, q->container);

	if (sb != NULL)
		thaw(m, sb);
	if (s == NULL) {
		/* dropped before it was there; the engine has it now */
		if (q->error == 0)
			engine_drop(m, q->snapshot);
		return;
	}
	journal_add(m, &(struct record){ .op = "snapshot", .phase = "end",
	    .who = s->who, .container = s->container, .code = q->error },
	    "snapshot", s->id, "reason", q->reason, NULL);
	s->method = q->method;
	s->depth = q->depth;
	s->files = q->files;
	s->bytes = q->bytes;
	s->ready = q->error == 0;
	if (s->ready && sb != NULL && !s->hidden) {
		sb->kept_wall_ns = s->began_wall_ns;
		memcpy(sb->kept_by, s->id, sizeof(s->id));
	}
	if (q->error != 0)
		forget(m, s);
	if (deps_taken(m, in) || pass_on(m, in))
		return;
	if ((s = snapshot_find(m, q->snapshot)) != NULL)
		snapshot_drop(m, s);
}

/* --- restoring ----------------------------------------------------------- */

static void
restore_send(struct monitor *m, struct worker *w, struct sandbox *sb);

/* Runs that live in it: they would end. */
static unsigned
live_runs(struct monitor *m, const struct sandbox *sb, struct sbx_buf *b)
{
	struct run *r;
	unsigned n = 0;

	TAILQ_FOREACH(r, &m->runs, link) {
		if (r->state == SBX_RUN_ENDED ||
		    strcmp(r->container, sb->id) != 0)
			continue;
		if (n++ < 8)
			(void)sbx_buf_printf(b, "%s%s", b->len > 0 ? ", " : "",
			    r->id);
	}
	return (n);
}

/* true: it is refused for their sake. */
static bool
runs_bar(struct monitor *m, struct worker *w, const struct sandbox *sb)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	unsigned n;

	sbx_buf_init(&b, 512);
	if (w->ask.force || (n = live_runs(m, sb, &b)) == 0)
		return (false);
	ask_refuse(w, "runs_live", "Let them end, or call with force=true: "
	    "they are killed then.", "%u run%s in the sandbox would end: "
	    "%s%s", n, n == 1 ? "" : "s", b.data, n > 8 ? " ..." : "");
	return (true);
}

/*
 * Where there may be work that neither a snapshot nor the host has: where work
 * is done, since something of it is kept; and what was copied in.  false: there
 * is no such place of that number.  ret->dest: borrowed.
 */
static bool
place(const struct sandbox *sb, uint64_t i, struct baseline *ret)
{
	static const char *const places[] = { "/workspace", "/home/sandbox" };

	*ret = (struct baseline){ 0 };
	if (i < SBX_NELEM(places))
		ret->dest = (char *)(uintptr_t)places[i];
	else
		*ret = sb->baselines[i - SBX_NELEM(places)];
	if (sb->kept_wall_ns > ret->when_wall_ns)
		ret->when_wall_ns = sb->kept_wall_ns;
	return (ret->dest != NULL && ret->when_wall_ns != 0);
}
#define PLACES (2 + MAX_BASELINES)

/* Ask about the next one; ask.offset counts them. */
static bool
work_next(struct monitor *m, struct worker *w, struct sandbox *sb)
{
	struct baseline b;

	for (; w->ask.offset < PLACES; w->ask.offset++)
		if (place(sb, w->ask.offset, &b))
			break;
	w->ask.look_id = w->ask.offset < PLACES ? guard_ask(m, sb, &b) : 0;
	return (w->ask.look_id != 0);
}

/*
 * Safe for a hostile worker: sandbox and snapshot must be its principal's, and
 * what would be lost is found by the engine against times that we recorded.
 */
void
snapshot_ask_restore(struct monitor *m, struct worker *w,
    const struct sbx_sb_restore *q)
{
	struct sandbox *sb = snapshot_source(m, w, q->container);
	struct snapshot *s;

	if (sb == NULL || (s = snapshot_own(m, w, q->snapshot)) == NULL)
		return;
	memcpy(w->ask.container, sb->id, sizeof(sb->id));
	memcpy(w->ask.snapshot, s->id, sizeof(s->id));
	w->ask.deadline_ns = sbx_mono_ns() + WORK_S * S_NS;
	w->ask.force = q->force;
	if (runs_bar(m, w, sb) || (!q->force && work_next(m, w, sb)))
		return;
	restore_send(m, w, sb);
}

/* What was deleted comes back; only what was written would be lost. */
void
snapshot_work_found(struct monitor *m, struct worker *w, struct sandbox *sb,
    const struct sbx_engine_work_found *q)
{
	struct baseline b;

	if (q->count > 0 || !q->complete) {
		(void)place(sb, w->ask.offset, &b);
		guard_refuse(w, q, &b, "Take a snapshot of it first, or call "
		    "with force=true.", "is kept of it", "is restored");
		return;
	}
	w->ask.offset++;
	if (!work_next(m, w, sb))
		restore_send(m, w, sb);
}

/* Continuation: its processes have ended by now, their runs were told of. */
static void
restore_answered(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	const struct sbx_snap_restored *q = in != NULL ? &in->m.snap_restored :
	    NULL;
	struct snapshot *s = snapshot_find(m, w->ask.snapshot);
	struct sbx_sb_restored a = { .container = w->ask.container,
		.snapshot = w->ask.snapshot, .name = s != NULL ? s->name : "" };
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	struct run *r;

	if (q == NULL || q->error != 0) {
		ask_refuse(w, "restore_failed", "The sandbox is as it was.",
		    "it was not restored: %s", q != NULL ? q->reason : why);
		return;
	}
	sbx_buf_init(&b, 1088);
	TAILQ_FOREACH(r, &m->runs, link)
		if (strcmp(r->container, w->ask.container) == 0 &&
		    r->why == SBX_EXIT_SANDBOX &&
		    r->ended_ns >= w->ask.since_ns &&
		    sbx_strs_add(&a.ended, &b, r->id) != 0)
			break;
	a.ended.data = b.data;
	r = run_mark(m, w->who, w->ask.container, w->call->tool);
	a.run = r->id;
	(void)sbx_send_sb_restored(w->peer, w->ask.id, &a, NULL);
	ask_done(w);
}

static void
restore_send(struct monitor *m, struct worker *w, struct sandbox *sb)
{
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);
	struct sbx_snap_restore q = { .container = sb->id,
		.snapshot = w->ask.snapshot };

	/* again: what was looked for took time */
	if (sandbox_barred(w, sb) || runs_bar(m, w, sb))
		return;
	w->ask.since_ns = sbx_mono_ns();
	w->ask.back = SBX_PROC_ENGINE;
	w->ask.back_id = ++m->next_id;
	w->ask.then = restore_answered;
	w->ask.deadline_ns = sbx_mono_ns() + RESTORE_S * S_NS;
	if (engine == NULL || sbx_send_snap_restore(engine, w->ask.back_id,
	    &q, NULL) != 0) {
		w->ask.back_id = 0;
		restore_answered(m, w, NULL, "the engine is not there");
		return;
	}
	sb->state = SBX_SANDBOX_FROZEN;
	journal_add(m, &(struct record){ .op = "restore", .phase = "start",
	    .who = sb->who, .container = sb->id }, "snapshot", q.snapshot,
	    NULL);
}

void
snapshot_restored(struct monitor *m, struct sbx_in *in)
{
	const struct sbx_snap_restored *q = &in->m.snap_restored;
	struct sandbox *sb = sandbox_find(m, q->container);
	const struct snapshot *s = snapshot_find(m, q->snapshot);

	journal_add(m, &(struct record){ .op = "restore", .phase = "end",
	    .who = sb != NULL ? sb->who : NULL, .container = q->container,
	    .code = q->error }, "snapshot", q->snapshot, "reason", q->reason,
	    NULL);
	if (sb != NULL)
		thaw(m, sb);
	if (sb != NULL && s != NULL && q->error == 0) {
		snapshot_give(s, sb);
		sb->used_ns = sbx_mono_ns();
	}
	(void)pass_on(m, in);	/* nobody waits: it is done all the same */
}

/* --- list, drop ------------------------------------------------------------ */

/* Own ones only, whoever asks. */
void
snapshot_list(struct monitor *m, struct worker *w)
{
	struct sbx_sb_end end = { 0 };
	struct snapshot *s;

	TAILQ_FOREACH(s, &m->snapshots, link) {
		if (s->who != w->who || s->hidden || !s->ready)
			continue;
		if (sbx_send_snap_item(w->peer, w->ask.id,
		    &(struct sbx_snap_item){ .snapshot = s->id,
		    .name = s->name, .label = s->label,
		    .container = s->container, .image = s->image,
		    .method = s->method, .depth = s->depth,
		    .files = s->files, .bytes = s->bytes,
		    .created_wall_ns = s->began_wall_ns }, NULL) != 0)
			break;
		end.count++;
	}
	(void)sbx_send_sb_end(w->peer, w->ask.id, &end, NULL);
	ask_done(w);
}

/* Safe for a hostile worker: own ones only. */
void
snapshot_remove(struct monitor *m, struct worker *w, const char *ref)
{
	struct snapshot *s = snapshot_own(m, w, ref);

	if (s == NULL)
		return;
	if (s->hidden) {	/* others count on it */
		ask_refuse(w, "not_found", "", "there is no snapshot %s", ref);
		return;
	}
	journal_add(m, &(struct record){ .op = "snapshot_drop",
	    .who = s->who, .container = s->container }, "snapshot", s->id,
	    NULL);
	(void)sbx_send_snap_removed(w->peer, w->ask.id,
	    &(struct sbx_snap_removed){ .snapshot = s->id, .name = s->name },
	    NULL);
	snapshot_drop(m, s);
	ask_done(w);
}

/* Within one principal, by its name. */
struct snapshot *
snapshot_named(struct monitor *m, const struct principal *who,
    const char *name)
{
	struct snapshot *s;

	TAILQ_FOREACH(s, &m->snapshots, link)
		if (s->who == who && !s->hidden && strcmp(s->name, name) == 0)
			return (s);
	return (NULL);
}
