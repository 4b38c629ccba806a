#include "sbxd/recorder/recorder.h"

#include "common/base/log.h"

/* The engine brings the pipes of runs, and says when nobody holds them. */

/*
 * Safe for a hostile engine: the id becomes part of a path only when it is
 * hex, and what comes must be the read ends of pipes, which cannot block us.
 */
static int
on_run_open(struct sbx_peer *p, struct sbx_in *in)
{
	struct recorder *r = sbx_peer_ctx(p);
	const char *id = in->m.run_open.run;
	struct run *run;
	int error;

	if (!sbx_is_hex(id, SBX_RUN_HEX))
		return (SBX_E_SYNTAX);
	run = run_find(r, id);
	if (run == NULL)
		run = run_new(r, id);
	if (run == NULL) {
		/* closing the pipes would end the writers */
		log_err("too many runs, refusing one: run=%s", id);
		return (SBX_E_LIMIT);
	}
	error = run_record(run, sbx_steal_fd(&in->fds[0]),
	    sbx_steal_fd(&in->fds[1]));
	if (error != 0)
		run_close(run);
	return (error);
}

static int
on_run_closed(struct sbx_peer *p, struct sbx_in *in)
{
	const char *id = in->m.run_closed.run;
	struct run *run;

	if (!sbx_is_hex(id, SBX_RUN_HEX))
		return (SBX_E_SYNTAX);
	run = run_find(sbx_peer_ctx(p), id);
	if (run != NULL)
		run_close(run);
	return (sbx_send_run_taken(p, 0, &(struct sbx_run_taken){ .run = id },
	    NULL));
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_RUN_OPEN] = { SBX_ST_ANY, 0, on_run_open },
	[SBX_MSG_RUN_CLOSED] = { SBX_ST_ANY, 0, on_run_closed },
};
const struct sbx_dispatch_table recorder_from_engine = {
	SBX_PROC_RECORDER, SBX_PROC_ENGINE, rows
};
