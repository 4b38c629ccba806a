/* What the broker does on the monitor's word, the only one it takes. */

#include "sbx-broker/broker.h"

#include "common/base/log.h"

#include <event2/event.h>

/* Answered at once: what is slow here (signing) would hold it up, and that is
 * what the monitor wants to see. */
static int
on_ping(struct sbx_peer *p, struct sbx_in *in)
{
	return (sbx_send_pong(p, in->hdr.id, &(struct sbx_pong){
	    .healthy = 1, .state = "keys=0" }, NULL));
}

/* Nothing is waited for: what the queue holds is flushed by main(). */
static int
on_shutdown(struct sbx_peer *p, struct sbx_in *in)
{
	struct broker *k = sbx_peer_ctx(p);

	(void)in;
	if (event_base_loopbreak(k->base) < 0)
		sbx_fatal("the event loop cannot be left");
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_PING] = { SBX_ST_ANY, 0, on_ping },
	[SBX_MSG_SHUTDOWN] = { SBX_ST_ANY, SBX_D_ONCE, on_shutdown },
};
const struct sbx_dispatch_table broker_from_monitor = {
	SBX_PROC_BROKER, SBX_PROC_MONITOR, rows,
};
