/* What the journal says of the broker's records. */

#include "sbx-broker/broker.h"

/* None of them is waited for. */
static int
on_done(struct sbx_peer *p, struct sbx_in *in)
{
	(void)p;
	(void)in;
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_JOURNAL_DONE] = { SBX_ST_ANY, 0, on_done },
};
const struct sbx_dispatch_table broker_from_journald = {
	SBX_PROC_BROKER, SBX_PROC_JOURNALD, rows,
};
