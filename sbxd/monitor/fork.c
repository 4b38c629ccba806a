#include "sbxd/monitor/monitor.h"

#include <stdio.h>
#include <string.h>

/*
 * Several sandboxes from one state, all or none.  Each is recorded as a sandbox
 * is, durably and before it is asked for; the worker hears of them when there
 * are all of them.
 */

#define FORK_S 40

static void fork_next(struct monitor *m, struct worker *w);

/* The forks of this ask that are left, NULL at the end. */
static struct sandbox *
next_fork(struct monitor *m, const struct worker *w, struct sandbox *after)
{
	struct sandbox *sb = after == NULL ? TAILQ_FIRST(&m->sandboxes) :
	    TAILQ_NEXT(after, link);

	for (; sb != NULL; sb = TAILQ_NEXT(sb, link))
		if (sb->fork_worker == w->id && sb->fork_ask == w->ask.id)
			return (sb);
	return (NULL);
}

/* The state itself, where it was made for this alone. */
static void
drop_state(struct monitor *m, const char *id)
{
	struct snapshot *s = snapshot_find(m, id);

	if (s != NULL && s->hidden)
		snapshot_drop(m, s);
}

/* None of them stays. */
void
fork_undo(struct monitor *m, struct worker *w)
{
	struct sandbox *sb, *next;

	for (sb = next_fork(m, w, NULL); sb != NULL; sb = next) {
		next = next_fork(m, w, sb);
		sb->fork_ask = 0;
		if (sb->sent)
			sandbox_stop(m, sb, "not all of its forks could be "
			    "made");
		else
			sandbox_free(m, sb);
	}
	drop_state(m, w->ask.snapshot);
}

static void
fork_fail(struct monitor *m, struct worker *w, const char *code,
    const char *reason)
{
	fork_undo(m, w);
	ask_refuse(w, code, "None of them was kept.", "the forks could not be "
	    "made: %s", reason);
}

/* Permitted: the record is on the disk. */
static void
fork_recorded(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	struct sandbox *sb = sandbox_find(m, w->ask.container);

	why = journal_why(in, why);
	if (sb == NULL || why != NULL) {
		fork_fail(m, w, "journal_unavailable", why != NULL ? why :
		    "one ended");
		return;
	}
	if (!sandbox_send_create(m, sb, w->ask.snapshot)) {
		fork_fail(m, w, "suite_degraded", "the engine is not there");
		return;
	}
	w->ask.offset++;
	w->ask.deadline_ns = sbx_mono_ns() + FORK_S * S_NS;
	if (w->ask.offset < w->ask.count)
		fork_next(m, w);
}

/* One more. */
static void
fork_next(struct monitor *m, struct worker *w)
{
	struct snapshot *s = snapshot_find(m, w->ask.snapshot);
	struct sandbox *sb;
	char name[65] = "";

	if (s == NULL) {
		fork_fail(m, w, "not_found", "the snapshot was dropped");
		return;
	}
	if (w->ask.name[0] != '\0')
		(void)snprintf(name, sizeof(name), "%.60s-%u", w->ask.name,
		    (unsigned)w->ask.offset + 1);
	if (name[0] != '\0' && sandbox_name_taken(m, w->who, name)) {
		fork_fail(m, w, "name_in_use", "one of your sandboxes got "
		    "one of these names meanwhile");
		return;
	}
	sb = sandbox_new(m, w, s->image, name, w->ask.label);
	snapshot_give(s, sb);
	sb->limits = s->limits;
	sb->network = s->network;
	sb->fork_worker = w->id;
	sb->fork_ask = w->ask.id;
	memcpy(w->ask.container, sb->id, sizeof(sb->id));
	journal_cross(m, w, fork_recorded, &(struct record){
	    .op = "sandbox_create", .phase = "start", .who = sb->who,
	    .container = sb->id }, "tool", w->call->tool, "image", sb->image,
	    "name", sb->name, "snapshot", s->id, "source", s->container,
	    "network", sb->network ? "1" : "0", NULL);
}

/* The state that they begin with is there. */
static void
state_taken(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	const struct sbx_snap_taken *q = in != NULL ? &in->m.snap_taken : NULL;

	if (q == NULL || q->error != 0)
		ask_refuse(w, "snapshot_failed", "", "the sandbox could not "
		    "be forked: %s", q != NULL ? q->reason : why);
	else
		fork_next(m, w);
}

_Static_assert(SBX_MAX_FORKS == 16, "the number of a sentence below");

/* NULL, or why not, with the stable word for it. */
static const char *
fork_barred(struct monitor *m, struct worker *w, const struct sbx_sb_fork *q,
    const char **ret_code)
{
	char name[80];
	uint32_t i;

	*ret_code = "bad_argument";
	if (q->count == 0 || q->count > SBX_MAX_FORKS)
		return ("count is 1 to 16");
	if ((q->container[0] == '\0') == (q->snapshot[0] == '\0'))
		return ("give either container_id or snapshot");
	*ret_code = "bad_name";
	if (q->name[0] != '\0' && (!policy_sandbox_name(q->name) ||
	    strlen(q->name) > 60))
		return ("the name of forks is a letter or digit and up to 59 "
		    "of letters, digits, '.', '_' and '-'");
	*ret_code = "too_many_sandboxes";
	if (m->nsandboxes + q->count > SBX_MAX_SANDBOXES)
		return ("the suite would have more sandboxes than it may");
	*ret_code = "name_in_use";
	for (i = 1; q->name[0] != '\0' && i <= q->count; i++) {
		(void)snprintf(name, sizeof(name), "%s-%u", q->name, i);
		if (sandbox_name_taken(m, w->who, name))
			return ("one of your sandboxes has one of these names");
	}
	return (NULL);
}

/*
 * Safe for a hostile worker: the source must be its principal's, limits and
 * image are the source's, and the number has its bound.
 */
void
fork_ask(struct monitor *m, struct worker *w, const struct sbx_sb_fork *q)
{
	const char *code, *why = fork_barred(m, w, q, &code);
	struct sandbox *sb = NULL;
	struct snapshot *s;

	if (why != NULL) {
		ask_refuse(w, code, "", "%s", why);
		return;
	}
	w->ask.count = q->count;
	w->ask.deadline_ns = sbx_mono_ns() + FORK_S * S_NS;
	(void)sbx_strlcpy(w->ask.name, q->name, sizeof(w->ask.name));
	(void)sbx_strlcpy(w->ask.label, q->label, sizeof(w->ask.label));
	if (q->snapshot[0] != '\0') {
		s = snapshot_own(m, w, q->snapshot);
		if (s == NULL)
			return;
		memcpy(w->ask.snapshot, s->id, sizeof(s->id));
		fork_next(m, w);
		return;
	}
	if ((sb = snapshot_source(m, w, q->container)) == NULL)
		return;
	w->ask.then = state_taken;
	s = snapshot_begin(m, sb, true, false, &w->ask.back_id);
	if (s == NULL) {
		ask_refuse(w, "suite_degraded", "", "the engine is not there");
		return;
	}
	s->maker = w->call;
	memcpy(w->ask.snapshot, s->id, sizeof(s->id));
	w->ask.back = SBX_PROC_ENGINE;
}

/* The worker whose ask made this one, while it waits. */
struct worker *
fork_worker(struct monitor *m, const struct sandbox *sb)
{
	struct worker *w = sb->fork_ask == 0 ? NULL :
	    worker_find(m, sb->fork_worker);

	return (w != NULL && w->ask.type == SBX_MSG_SB_FORK &&
	    w->ask.id == sb->fork_ask ? w : NULL);
}

static void
tell(struct monitor *m, struct worker *w, struct sandbox *sb)
{
	const struct run *r = run_mark(m, sb->who, sb->id, w->call->tool);

	journal_add(m, &(struct record){ .op = "sandbox_create",
	    .phase = "end", .who = sb->who, .container = sb->id,
	    .run = r->id }, "digest", sb->digest, NULL);
	(void)sbx_send_sb_created(w->peer, w->ask.id,
	    &(struct sbx_sb_created){ .container = sb->id, .run = r->id,
	    .image = sb->image, .digest = sb->digest, .name = sb->name,
	    .network = sb->network },
	    NULL);
	sb->fork_ask = 0;
}

/* One stands; when there are all, they are told in the order of their
 * making. */
void
fork_ready(struct monitor *m, struct worker *w)
{
	struct sbx_sb_end end = { .count = w->ask.count };
	struct sandbox *sb;
	uint32_t n = 0;

	for (sb = next_fork(m, w, NULL); sb != NULL; sb = next_fork(m, w, sb))
		n += sb->state == SBX_SANDBOX_READY;
	if (n < w->ask.count)
		return;
	TAILQ_FOREACH_REVERSE(sb, &m->sandboxes, sandbox_list, link)
		if (sb->fork_worker == w->id && sb->fork_ask == w->ask.id)
			tell(m, w, sb);
	drop_state(m, w->ask.snapshot);
	(void)sbx_send_sb_end(w->peer, w->ask.id, &end, NULL);
	ask_done(w);
}

/* One has ended: none of the others stays. */
void
fork_ended(struct monitor *m, struct worker *w, struct sandbox *sb,
    const char *reason)
{
	sb->fork_ask = 0;
	fork_fail(m, w, "sandbox_failed", reason);
}
