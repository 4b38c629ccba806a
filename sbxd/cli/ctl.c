/* The control socket of a suite, for who may use it. */
#include "sbxd/cli/ctl.h"

#include "common/proto/accepts.h"

#include <stdio.h>
#include <sys/socket.h>

#define HELLO_MS 5000

static const uint16_t types[] = { SBX_MSG_CTL_HELLO, SBX_MSG_CTL_REFUSED,
	SBX_MSG_CTL_GRANTED, SBX_MSG_CTL_BROKER_STATE, SBX_MSG_CTL_LOCKED,
	SBX_MSG_SHELL_STARTED, SBX_MSG_SHELL_ENDED, 0 };
const struct sbx_accepts cli_from_monitor = { SBX_PROC_CLI, SBX_PROC_MONITOR,
	types };

int
ctl_expect(struct sbx_chan *c, uint16_t type, int timeout_ms,
    struct sbx_err *err)
{
	const struct sbx_ctl_refused *q = &c->in->m.ctl_refused;
	int r = sbx_chan_recv(c, timeout_ms);

	if (r == SBX_E_CLOSED)
		return (sbx_err_set(err, r, "the suite closed the connection: "
		    "its control socket is for root and for who started it"));
	if (r != 0)
		return (sbx_err_set(err, r, "the suite does not answer as it "
		    "should: %s", sbx_error_name(r)));
	if (c->in->hdr.type == SBX_MSG_CTL_REFUSED)
		return (sbx_err_set(err, SBX_E_POLICY, "%.180s%s%.60s",
		    q->reason, q->next[0] != '\0' ? ". " : "", q->next));
	if (c->in->hdr.type != type)
		return (sbx_err_set(err, SBX_E_STATE, "the suite does not "
		    "answer as it should"));
	return (0);
}

int
ctl_open(const struct cli *cli, int slot, struct sbx_chan *ret_c,
    struct sbx_err *err)
{
	char path[PATH_MAX + 64];
	int SBX_CLEANUP(fd) fd = -1;
	int r, size = 400 << 10;	/* as wire.c: a record must fit */

	(void)snprintf(path, sizeof(path), "%s/suite-%d/ctl.sock",
	    cli->paths.run, slot);
	if ((r = client_connect(path, SOCK_SEQPACKET, slot, &fd, err)) != 0)
		return (r);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	sbx_chan_init(ret_c, sbx_steal_fd(&fd), SBX_PROC_CLI,
	    SBX_PROC_MONITOR);
	r = ctl_expect(ret_c, SBX_MSG_CTL_HELLO, HELLO_MS, err);
	if (r != 0)
		sbx_chan_clear(ret_c);
	return (r);
}
