#include "sbxd/monitor/monitor.h"
#include "sbxd/monitor/publish.h"

/*
 * An operator's command line, accepted by ctl.c: root, or whoever started the
 * suite.  It may do to the sandboxes what it asks for, and has no other way
 * into the suite: what it sends is checked like anybody's, and what breaks the
 * protocol ends its connection and nothing else.
 */

/*
 * Safe for a hostile sandbox: what it gets of this is a program to run and a
 * terminal of its own devpts; no descriptor of the operator's comes with it.
 */
static int
on_shell_start(struct sbx_peer *p, struct sbx_in *in)
{
	struct ctl *c = sbx_peer_ctx(p);

	c->id = in->hdr.id;
	shell_start(c, &in->m.shell_start);
	return (0);
}

/* Safe, since only who owns the suite gets here, who may push from his own
 * machine as well. */
static int
on_ctl_grant(struct sbx_peer *p, struct sbx_in *in)
{
	struct ctl *c = sbx_peer_ctx(p);

	c->id = in->hdr.id;
	grant_ask(c, &in->m.ctl_grant);
	return (0);
}

/* Safe: there is nothing of a credential in it. */
static int
on_ctl_broker(struct sbx_peer *p, struct sbx_in *in)
{
	struct ctl *c = sbx_peer_ctx(p);

	c->id = in->hdr.id;
	broker_status_ask(c);
	return (0);
}

static int
on_ctl_lockdown(struct sbx_peer *p, struct sbx_in *in)
{
	struct ctl *c = sbx_peer_ctx(p);

	c->id = in->hdr.id;
	lockdown_ask(c, in->m.ctl_lockdown.on != 0);
	return (0);
}

static int
on_ctl_publish_list(struct sbx_peer *p, struct sbx_in *in)
{
	struct ctl *c = sbx_peer_ctx(p);

	c->id = in->hdr.id;
	publish_list(c);
	return (0);
}

static int
on_ctl_publish_show(struct sbx_peer *p, struct sbx_in *in)
{
	struct ctl *c = sbx_peer_ctx(p);

	c->id = in->hdr.id;
	publish_show(c, &in->m.ctl_publish_show);
	return (0);
}

/* Safe: it is the operator's word that is asked for, and no worker has a way
 * here. */
static int
on_ctl_publish_answer(struct sbx_peer *p, struct sbx_in *in)
{
	struct ctl *c = sbx_peer_ctx(p);

	c->id = in->hdr.id;
	publish_answer(c, &in->m.ctl_publish_answer);
	return (0);
}

static int
on_ctl_publish_reconcile(struct sbx_peer *p, struct sbx_in *in)
{
	struct ctl *c = sbx_peer_ctx(p);

	c->id = in->hdr.id;
	publish_reconcile_ask(c, in->m.ctl_publish_reconcile.publish);
	return (0);
}

/* It saw the end itself, so its going is no hang-up. */
static int
on_shell_done(struct sbx_peer *p, struct sbx_in *in)
{
	struct ctl *c = sbx_peer_ctx(p);

	(void)in;
	c->run[0] = '\0';
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_SHELL_START] = { SBX_ST(CTL_NEW), SBX_D_ONCE,
	    on_shell_start },
	[SBX_MSG_CTL_GRANT] = { SBX_ST(CTL_NEW), SBX_D_ONCE, on_ctl_grant },
	[SBX_MSG_CTL_BROKER] = { SBX_ST(CTL_NEW), SBX_D_ONCE, on_ctl_broker },
	[SBX_MSG_CTL_LOCKDOWN] = { SBX_ST(CTL_NEW), SBX_D_ONCE,
	    on_ctl_lockdown },
	[SBX_MSG_CTL_PUBLISH_LIST] = { SBX_ST(CTL_NEW), SBX_D_ONCE,
	    on_ctl_publish_list },
	[SBX_MSG_CTL_PUBLISH_SHOW] = { SBX_ST(CTL_NEW), SBX_D_ONCE,
	    on_ctl_publish_show },
	[SBX_MSG_CTL_PUBLISH_ANSWER] = { SBX_ST(CTL_NEW), SBX_D_ONCE,
	    on_ctl_publish_answer },
	[SBX_MSG_CTL_PUBLISH_RECONCILE] = { SBX_ST(CTL_NEW), SBX_D_ONCE,
	    on_ctl_publish_reconcile },
	[SBX_MSG_SHELL_DONE] = { SBX_ST(CTL_OVER), SBX_D_ONCE,
	    on_shell_done },
};
const struct sbx_dispatch_table monitor_from_cli = {
	SBX_PROC_MONITOR, SBX_PROC_CLI, rows };
