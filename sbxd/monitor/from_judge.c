#include "sbxd/monitor/monitor.h"

/* sbxd-judge: one verification or publication each; which one is known from its channel. */

static int
on_hello(struct sbx_peer *p, struct sbx_in *in)
{
	(void)in;
	sbx_peer_set_state(p, ST_READY);
	return (0);
}

static int
on_log(struct sbx_peer *p, struct sbx_in *in)
{
	struct monitor *m = sbx_peer_ctx(p);

	log_child(&m->comps[SBX_PROC_JUDGE], "judge", in->m.log.level,
	    in->m.log.text);
	return (0);
}

static int
on_judge_treed(struct sbx_peer *p, struct sbx_in *in)
{
	struct gate *g = gate_of_peer(sbx_peer_ctx(p), p);

	return (g != NULL ? gate_treed(g, &in->m.judge_treed) : 0);
}

static int
on_judge_verdict(struct sbx_peer *p, struct sbx_in *in)
{
	struct gate *g = gate_of_peer(sbx_peer_ctx(p), p);

	return (g != NULL ? gate_verdict(g, &in->m.judge_verdict) : 0);
}

static int
on_judge_commit(struct sbx_peer *p, struct sbx_in *in)
{
	struct publish *b = publish_of_peer(sbx_peer_ctx(p), p);

	return (b != NULL ? publish_sign(b, in->m.judge_commit.commit) : 0);
}

static int
on_judged(struct sbx_peer *p, struct sbx_in *in)
{
	struct publish *b = publish_of_peer(sbx_peer_ctx(p), p);

	return (b != NULL ? publish_judged(b, &in->m.judged) : 0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_HELLO] = { SBX_ST(ST_NEW), SBX_D_ONCE, on_hello },
	[SBX_MSG_LOG] = { SBX_ST_ANY, 0, on_log },
	[SBX_MSG_JUDGE_TREED] = { SBX_ST(ST_READY), SBX_D_ONCE,
	    on_judge_treed },
	[SBX_MSG_JUDGE_VERDICT] = { SBX_ST(ST_READY), 0, on_judge_verdict },
	[SBX_MSG_JUDGE_COMMIT] = { SBX_ST(ST_READY), SBX_D_ONCE,
	    on_judge_commit },
	[SBX_MSG_JUDGED] = { SBX_ST(ST_READY), SBX_D_ONCE, on_judged },
};
const struct sbx_dispatch_table monitor_from_judge = {
	SBX_PROC_MONITOR, SBX_PROC_JUDGE, rows };
