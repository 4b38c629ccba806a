#include "sbxd/monitor/monitor.h"

#include <string.h>

/*
 * Runs whose changes clients are told of.  The front is told by the handles of
 * the run's principal, so it cannot pass on what is another's.  Only a run
 * that somebody asked about costs anything: a question to the recorder now and
 * then while it lives.
 */

#define LOOK_NS (2 * S_NS)

static void
tell(struct monitor *m, struct run *r, bool ended)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_FRONT);
	const struct session *s;
	size_t i;

	for (i = 0; p != NULL && i < SBX_NELEM(m->sessions); i++) {
		s = &m->sessions[i];
		if (s->used && s->who == r->who)
			(void)sbx_send_run_changed(p, 0,
			    &(struct sbx_run_changed){ .principal = s->handle,
			    .run = r->id, .ended = ended }, NULL);
	}
	if (ended)
		r->told_end_ns = sbx_mono_ns();
}

void
watch_ask(struct monitor *m, struct worker *w, const char *run)
{
	struct run *r = policy_run(m, w->who, run);

	if (r != NULL && r->state != SBX_RUN_ENDED) {
		r->watched = true;
		r->looked_ns = sbx_mono_ns();
		w->call->watches = true;
		tick_arm(m);
	}
	run_wait(m, w, &(struct sbx_exec_wait){ .run = run });
}

void
watch_answered(struct monitor *m, const struct call *c)
{
	struct run *r;

	if (!c->watches)
		return;
	TAILQ_FOREACH(r, &m->runs, link)
		if (r->who == c->who && r->told_end_ns >= c->since_ns)
			tell(m, r, true);
}

/* Its end is told all the same: that costs nothing. */
void
watch_over(struct monitor *m, const struct session *s, const char *run)
{
	struct run *r = policy_run(m, s->who, run);

	if (r != NULL)
		r->watched = false;
}

void
watch_run_ended(struct monitor *m, struct run *r)
{
	if (r->looked_ns != 0)
		tell(m, r, true);
	r->watched = false;
}

/* Which run it is about says only the question. */
void
watch_looked(struct monitor *m, const struct sbx_run_stats *q, uint32_t id)
{
	uint64_t bytes = q->out_bytes + q->err_bytes;
	struct run *r;

	TAILQ_FOREACH(r, &m->runs, link)
		if (r->look_id == id && id != 0)
			break;
	if (r == NULL)
		return;
	r->look_id = 0;
	if (r->state != SBX_RUN_ENDED && r->watched && q->known &&
	    bytes != r->told_bytes) {
		r->told_bytes = bytes;
		tell(m, r, false);
	}
}

void
watch_tick(struct monitor *m, uint64_t now_ns)
{
	struct sbx_peer *rec = component_peer(m, SBX_PROC_RECORDER);
	struct run *r;

	TAILQ_FOREACH(r, &m->runs, link) {
		if (!r->watched)
			continue;
		tick_arm(m);
		if (now_ns - r->looked_ns < LOOK_NS || !r->stored ||
		    rec == NULL)
			continue;
		r->looked_ns = now_ns;
		r->look_id = ++m->next_id;
		(void)sbx_send_run_stat(rec, r->look_id,
		    &(struct sbx_run_stat){ .run = r->id }, NULL);
	}
}
