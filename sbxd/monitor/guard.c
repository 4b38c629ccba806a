#include "sbxd/monitor/monitor.h"

#include <stdio.h>
#include <string.h>

/*
 * The guard: is there work in a sandbox that is newer than what was copied in?
 * The engine looks; what is compared with are times and counts that this
 * process noted.  Asked before a stop, and by the reaper.
 */

#define WORK_S 3		/* for the engine's walk before a stop */
#define STOP_S 15
#define SHOWN 10		/* ENGINE_WORK_FOUND.names */

uint32_t
guard_ask(struct monitor *m, const struct sandbox *sb,
    const struct baseline *b)
{
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);
	const struct sbx_engine_work q = { .container = sb->id,
		.path = b->dest, .since_ns = b->when_wall_ns,
		.copied_from_ns = b->copied_from_ns,
		.copied_to_ns = b->copied_to_ns };

	if (engine == NULL || sbx_send_engine_work(engine, ++m->next_id, &q,
	    NULL) != 0)
		return (0);
	return (m->next_id);
}

/* Work is also what is no more: of files that nobody changed there may not be
 * fewer than when they came in. */
bool
guard_is_work(const struct sbx_engine_work_found *q, const struct baseline *b)
{
	return (q->count > 0 || !q->complete || q->old < b->old);
}

/* Ask about the next baseline; ask.offset counts them. */
static bool
stop_next(struct monitor *m, struct worker *w, struct sandbox *sb)
{
	for (; w->ask.offset < MAX_BASELINES; w->ask.offset++)
		if (sb->baselines[w->ask.offset].when_wall_ns != 0) {
			w->ask.look_id = guard_ask(m, sb,
			    &sb->baselines[w->ask.offset]);
			return (w->ask.look_id != 0);
		}
	return (false);
}

/*
 * Safe for a hostile worker: the sandbox must be its principal's, and whether
 * there is work in it is the engine's finding against a time that we recorded.
 */
void
guard_ask_stop(struct monitor *m, struct worker *w,
    const struct sbx_sb_stop *q)
{
	struct sandbox *sb = policy_sandbox(m, w->who, q->container);

	if (sb == NULL && policy_is_operator(m, w->who))
		sb = sandbox_find(m, q->container);
	if (sb == NULL) {
		reap_refuse(w, q->container);
		return;
	}
	/* it has no answer while it changes under the question */
	if (!q->force && sb->state == SBX_SANDBOX_FROZEN &&
	    sandbox_barred(w, sb))
		return;
	memcpy(w->ask.container, sb->id, sizeof(sb->id));
	w->ask.force = q->force;
	w->ask.deadline_ns = sbx_mono_ns() + WORK_S * S_NS;
	/* the walk's answer decides, not what the worker thinks of it */
	if (!q->force && sb->state == SBX_SANDBOX_READY && !sb->throwaway &&
	    stop_next(m, w, sb)) {
		w->ask.back = SBX_PROC_ENGINE;
		return;
	}
	w->ask.force = true;
	w->ask.deadline_ns = sbx_mono_ns() + STOP_S * S_NS;
	sandbox_stop(m, sb, "asked for");
}

/* At most ten paths, escaped: they are names that the sandbox chose. */
void
guard_refuse(struct worker *w, const struct sbx_engine_work_found *q,
    const struct baseline *base, const char *next, const char *than,
    const char *by)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	const char *s = NULL;
	char shown[512];

	sbx_buf_init(&b, 3072);
	while ((s = sbx_strs_next(&q->names, s)) != NULL)
		(void)sbx_buf_printf(&b, "%s%s", b.len > 0 ? ", " : ": ",
		    sbx_vis(shown, sizeof(shown), s, strlen(s)));
	/* while there is room for names, only git's own have none */
	if (q->count > q->names.count)
		(void)sbx_buf_printf(&b, "%s%u %s", b.len > 0 ? ", and " : ": ",
		    q->count - q->names.count, q->names.count < SHOWN ?
		    "of git's own (something was committed)" : "more");
	if (q->complete && q->count == 0)
		(void)sbx_buf_printf(&b, ": %u of the files that came in are "
		    "deleted", base->old - q->old);
	ask_refuse(w, "unpushed_work", next,
	    "%sthe sandbox holds work below %s that is newer than what %s%s; "
	    "it is lost when the sandbox %s",
	    q->complete ? "" : "the work tree is too large to look through: "
	    "it may be that ", base->dest != NULL ? base->dest : "", than,
	    b.len > 0 ? b.data : "", by);
}

/* No work below this baseline: the next one, then the stop. */
static void
stop_found(struct monitor *m, struct worker *w, struct sandbox *sb,
    const struct sbx_engine_work_found *q)
{
	const struct baseline *b;

	b = &sb->baselines[w->ask.offset];
	if (guard_is_work(q, b)) {
		guard_refuse(w, q, b, "Read or publish what you need from "
		    "it, then call sandbox_stop with force=true.",
		    "was copied in", "stops");
		return;
	}
	w->ask.offset++;
	if (stop_next(m, w, sb))
		return;
	w->ask.force = true;
	w->ask.deadline_ns = sbx_mono_ns() + STOP_S * S_NS;
	sandbox_stop(m, sb, "asked for");
}

/* Whose question that was: several calls may ask about one sandbox, each
 * about another place. */
static struct worker *
asker(struct monitor *m, uint32_t id)
{
	struct worker *w;

	for (w = m->workers; w < m->workers + SBX_NELEM(m->workers); w++)
		if (w->ask.type != 0 && w->ask.look_id == id)
			return (w);
	return (NULL);
}

/* How many files came in; a tree too large to count is not counted. */
static bool
counted(struct sandbox *sb, const struct sbx_engine_work_found *q,
    uint32_t id)
{
	struct baseline *b;

	for (b = sb->baselines; b < sb->baselines + MAX_BASELINES; b++)
		if (b->count_id == id) {
			b->count_id = 0;
			b->old = q->complete ? q->old : 0;
			return (true);
		}
	return (false);
}

void
guard_found(struct monitor *m, const struct sbx_engine_work_found *q,
    uint32_t id)
{
	struct sandbox *sb = sandbox_find(m, q->container);
	struct worker *w;

	if (sb == NULL || id == 0 || counted(sb, q, id) ||
	    reap_found(m, q, id))
		return;
	if ((w = asker(m, id)) == NULL)
		return;		/* it does not wait any more */
	w->ask.look_id = 0;
	if (w->ask.type == SBX_MSG_SB_STOP)
		stop_found(m, w, sb, q);
	else
		snapshot_work_found(m, w, sb, q);
}

/*
 * The first copy to a place makes its mark, which later ones leave where it
 * is: work that was done between them and that they did not touch stays work.
 * Only the time of the last one is excused, so files that an earlier one
 * brought and the last did not are taken for work.  When all marks are taken
 * the oldest stands for the new one too.  Both can only make the guard
 * stricter.
 */
void
guard_copied(struct monitor *m, struct sandbox *sb, const char *dest,
    uint64_t from_ns, uint64_t to_ns)
{
	struct baseline *b, *slot = NULL;

	for (b = sb->baselines; b < sb->baselines + MAX_BASELINES; b++) {
		if (b->dest != NULL && strcmp(b->dest, dest) == 0)
			break;
		if (b->dest == NULL && slot == NULL)
			slot = b;
	}
	if (b < sb->baselines + MAX_BASELINES) {
		b->copied_from_ns = from_ns;
		b->copied_to_ns = to_ns;
	} else if ((b = slot) != NULL) {
		b->dest = sbx_xstrdup(dest);
		b->when_wall_ns = to_ns;
	} else {
		b = &sb->baselines[0];
		free(b->dest);
		*b = (struct baseline){ .when_wall_ns = b->when_wall_ns,
			.dest = sbx_xstrdup("/") };
		return;
	}
	/* the engine takes it before any command that comes after */
	b->old = 0;
	b->count_id = guard_ask(m, sb, b);
}
