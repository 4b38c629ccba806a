#include "sbxd/monitor/monitor.h"
#include "sbxd/monitor/publish.h"

/* The recorder: answers about stored output. */

static struct monitor *
of(struct sbx_peer *p)
{
	return (((struct component *)sbx_peer_ctx(p))->m);
}

/* All that the command had printed is stored. */
static int
on_run_finished(struct sbx_peer *p, struct sbx_in *in)
{
	run_finished(of(p), &in->m.run_finished);
	return (0);
}

/* RUN_STATS, RUN_DATA, RUN_NODATA: for the worker whose ask has that id; one
 * that is gone leaves nobody to tell. */
static int
on_answer(struct sbx_peer *p, struct sbx_in *in)
{
	struct monitor *m = of(p);
	struct worker *w = ask_of_id(m, SBX_PROC_RECORDER, in->hdr.id);
	bool is_stats = in->hdr.type == SBX_MSG_RUN_STATS;

	if (w == NULL && !is_stats && (gate_read(m, in) ||
	    publish_read(m, in) || publish_looked(m, in)))
		return (0);
	if (w == NULL && is_stats)
		watch_looked(m, &in->m.run_stats, in->hdr.id);
	if (w == NULL)
		return (0);
	if (is_stats == (w->ask.type == SBX_MSG_OUT_READ) ||
	    w->ask.type == SBX_MSG_UNDO_KEEP ||
	    w->ask.type == SBX_MSG_UNDO_FIND)
		return (SBX_E_STATE);
	w->ask.back_id = 0;
	w->ask.then(m, w, in, "");
	return (0);
}

/* The same of what files were. */
static int
on_keep(struct sbx_peer *p, struct sbx_in *in)
{
	struct monitor *m = of(p);
	struct worker *w = ask_of_id(m, SBX_PROC_RECORDER, in->hdr.id);

	if (w == NULL)
		return (0);
	if (w->ask.type != (in->hdr.type == SBX_MSG_KEEP_HAVE ?
	    SBX_MSG_UNDO_KEEP : SBX_MSG_UNDO_FIND))
		return (SBX_E_STATE);
	w->ask.back_id = 0;
	w->ask.then(m, w, in, "");
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_HELLO] = { SBX_ST(ST_NEW), SBX_D_ONCE, component_hello },
	[SBX_MSG_LOG] = { SBX_ST_ANY, 0, component_log },
	[SBX_MSG_PONG] = { SBX_ST(ST_READY), 0, component_pong },
	[SBX_MSG_RUN_FINISHED] = { SBX_ST(ST_READY), 0, on_run_finished },
	[SBX_MSG_RUN_DATA] = { SBX_ST(ST_READY), 0, on_answer },
	[SBX_MSG_RUN_NODATA] = { SBX_ST(ST_READY), 0, on_answer },
	[SBX_MSG_RUN_STATS] = { SBX_ST(ST_READY), 0, on_answer },
	[SBX_MSG_KEEP_HAVE] = { SBX_ST(ST_READY), 0, on_keep },
	[SBX_MSG_KEEP_VERSION] = { SBX_ST(ST_READY), 0, on_keep },
	[SBX_MSG_KEEP_NONE] = { SBX_ST(ST_READY), 0, on_keep },
};
const struct sbx_dispatch_table monitor_from_recorder = {
	SBX_PROC_MONITOR, SBX_PROC_RECORDER, rows };
