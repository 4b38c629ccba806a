/* What the recorder says of a run that is over. */
#include "sbxd/engine/engine.h"

/* A run that we do not hold any more: it was taken twice, by a recorder that
 * died in between and its next life. */
static int
on_run_taken(struct sbx_peer *p, struct sbx_in *in)
{
	spent_taken(sbx_peer_ctx(p), in->m.run_taken.run);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_RUN_TAKEN] = { SBX_ST_ANY, 0, on_run_taken },
};
const struct sbx_dispatch_table engine_from_recorder = { SBX_PROC_ENGINE,
	SBX_PROC_RECORDER, rows };
