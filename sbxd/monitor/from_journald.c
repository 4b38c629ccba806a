#include "sbxd/monitor/monitor.h"
#include "sbxd/monitor/publish.h"

/* journald: what is durable, and whether it can commit at all. */

static struct monitor *
of(struct sbx_peer *p)
{
	return (((struct component *)sbx_peer_ctx(p))->m);
}

/* seq 0 is a refusal: the record is not on the disk. */
static int
on_journal_done(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_journal_done *q = &in->m.journal_done;
	struct monitor *m = of(p);
	struct worker *w;

	if (in->hdr.id == m->suite_start_id && m->suite_start_id != 0) {
		if (q->seq == 0) {
			log_err("the suite could not start: its first journal "
			    "record was not committed: %s", q->reason);
			shutdown_begin(m, 2, "the journal cannot commit");
			return (0);
		}
		m->suite_start_id = 0;
		component_serve(m);
	} else if (in->hdr.id == m->suite_end_id && m->stopping) {
		m->suite_end_id = 0;
		shutdown_step(m);
	} else if (grant_recorded(m, in) || lockdown_recorded(m, in) ||
	    publish_recorded(m, in)) {
		return (0);
	} else if ((w = ask_of_id(m, SBX_PROC_JOURNALD, in->hdr.id)) != NULL) {
		w->ask.back_id = 0;
		w->ask.then(m, w, in, "");
	}
	return (0);
}

/* Told once at each change, so that crossings need not find out one by one. */
static int
on_journal_state(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_journal_state *q = &in->m.journal_state;
	struct monitor *m = of(p);

	m->journal_able = q->able != 0;
	(void)sbx_strlcpy(m->journal_reason, q->reason,
	    sizeof(m->journal_reason));
	if (q->able)
		log_notice("the journal commits again");
	else
		log_err("the journal cannot commit, crossings and new "
		    "sandboxes are refused: %s", q->reason);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_HELLO] = { SBX_ST(ST_NEW), SBX_D_ONCE, component_hello },
	[SBX_MSG_LOG] = { SBX_ST_ANY, 0, component_log },
	[SBX_MSG_PONG] = { SBX_ST(ST_READY), 0, component_pong },
	[SBX_MSG_JOURNAL_DONE] = { SBX_ST(ST_READY), 0, on_journal_done },
	[SBX_MSG_JOURNAL_STATE] = { SBX_ST(ST_READY), 0, on_journal_state },
};
const struct sbx_dispatch_table monitor_from_journald = {
	SBX_PROC_MONITOR, SBX_PROC_JOURNALD, rows };
