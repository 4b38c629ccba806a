#include "sbxd/monitor/monitor.h"

/*
 * The key process.  What it says is about credentials that it holds itself;
 * what it asks for is checked in broker.c, and what it answers must be an
 * answer to something that was asked.
 */

static struct monitor *
of(struct sbx_peer *p)
{
	return (((struct component *)sbx_peer_ctx(p))->m);
}

static int
on_broker_want(struct sbx_peer *p, struct sbx_in *in)
{
	return (broker_want(of(p), in->hdr.id, in->m.broker_want.proc));
}

static int
on_broker_kill(struct sbx_peer *p, struct sbx_in *in)
{
	broker_kill(of(p), in->hdr.id);
	return (0);
}

static int
on_broker_dial(struct sbx_peer *p, struct sbx_in *in)
{
	return (broker_dial(of(p), in->hdr.id, &in->m.broker_dial));
}

/* Safe: it can only open what was asked for, and is recorded. */
static int
on_broker_granted(struct sbx_peer *p, struct sbx_in *in)
{
	grant_sourced(of(p), &in->m.broker_granted);
	return (0);
}

static int
on_broker_exchanged(struct sbx_peer *p, struct sbx_in *in)
{
	exchange_over(of(p), in->hdr.id, &in->m.broker_exchanged);
	return (0);
}

static int
on_broker_rested(struct sbx_peer *p, struct sbx_in *in)
{
	api_rested(of(p), in->hdr.id, &in->m.broker_rested);
	return (0);
}

/* Safe: a signature of what the judge named, for which it was asked. */
static int
on_broker_signed(struct sbx_peer *p, struct sbx_in *in)
{
	publish_signed(of(p), in->hdr.id, &in->m.broker_signed);
	return (0);
}

static int
on_broker_state(struct sbx_peer *p, struct sbx_in *in)
{
	broker_state(of(p), in->hdr.id, &in->m.broker_state);
	return (0);
}

static int
on_broker_locked(struct sbx_peer *p, struct sbx_in *in)
{
	if (!broker_renewed(of(p), in->hdr.id))
		lockdown_broker(of(p), in->hdr.id, &in->m.broker_locked);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_HELLO] = { SBX_ST(ST_NEW), SBX_D_ONCE, component_hello },
	[SBX_MSG_LOG] = { SBX_ST_ANY, 0, component_log },
	[SBX_MSG_PONG] = { SBX_ST(ST_READY), 0, component_pong },
	[SBX_MSG_BROKER_WANT] = { SBX_ST(ST_READY), 0, on_broker_want },
	[SBX_MSG_BROKER_KILL] = { SBX_ST(ST_READY), 0, on_broker_kill },
	[SBX_MSG_BROKER_DIAL] = { SBX_ST(ST_READY), 0, on_broker_dial },
	[SBX_MSG_BROKER_GRANTED] = { SBX_ST(ST_READY), 0, on_broker_granted },
	[SBX_MSG_BROKER_EXCHANGED] = { SBX_ST(ST_READY), 0,
	    on_broker_exchanged },
	[SBX_MSG_BROKER_RESTED] = { SBX_ST(ST_READY), 0, on_broker_rested },
	[SBX_MSG_BROKER_SIGNED] = { SBX_ST(ST_READY), 0, on_broker_signed },
	[SBX_MSG_BROKER_STATE] = { SBX_ST(ST_READY), 0, on_broker_state },
	[SBX_MSG_BROKER_LOCKED] = { SBX_ST(ST_READY), 0, on_broker_locked },
};
const struct sbx_dispatch_table monitor_from_broker = {
	SBX_PROC_MONITOR, SBX_PROC_BROKER, rows };
