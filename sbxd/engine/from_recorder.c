/* The recorder has nothing to say to the engine: no row, all is refused. */
#include "sbxd/engine/engine.h"

static const struct sbx_dispatch rows[SBX_MSG_MAX];
const struct sbx_dispatch_table engine_from_recorder = { SBX_PROC_ENGINE,
	SBX_PROC_RECORDER, rows };
