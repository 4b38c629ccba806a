#include "sbxd/monitor/monitor.h"

/* The proxy: so far it only says that it lives; its verdicts go to journald. */

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_HELLO] = { SBX_ST(ST_NEW), SBX_D_ONCE, component_hello },
	[SBX_MSG_LOG] = { SBX_ST_ANY, 0, component_log },
	[SBX_MSG_PONG] = { SBX_ST(ST_READY), 0, component_pong },
};
const struct sbx_dispatch_table monitor_from_proxy = {
	SBX_PROC_MONITOR, SBX_PROC_PROXY, rows };
