/* The control socket of a suite, for who may use it. */
#include "sbxd/cli/ctl.h"

#include "common/proto/accepts.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define HELLO_MS 5000

static const uint16_t types[] = { SBX_MSG_CTL_HELLO, SBX_MSG_CTL_REFUSED,
	SBX_MSG_CTL_GRANTED, SBX_MSG_CTL_BROKER_STATE, SBX_MSG_CTL_LOCKED,
	SBX_MSG_CTL_PUBLISHES, SBX_MSG_CTL_PUBLICATION,
	SBX_MSG_CTL_PUBLISH_ANSWERED, SBX_MSG_SHELL_STARTED, SBX_MSG_SHELL_ENDED, 0 };
const struct sbx_accepts cli_from_monitor = { SBX_PROC_CLI, SBX_PROC_MONITOR,
	types };

/* A refusal has more room than struct sbx_err: it is kept here until it is
 * printed. */
static char refusal[CTL_TEXT];

static int
refused(const struct sbx_ctl_refused *q, struct sbx_err *err)
{
	(void)snprintf(refusal, sizeof(refusal), "%s%s%s", q->reason,
	    q->next[0] != '\0' ? ". " : "", q->next);
	return (sbx_err_set(err, SBX_E_POLICY, "%.250s", q->reason));
}

const char *
ctl_text(const struct sbx_err *err)
{
	return (err->code == SBX_E_POLICY && refusal[0] != '\0' &&
	    strncmp(err->msg, refusal, strlen(err->msg)) == 0 ? refusal :
	    err->msg);
}

int
ctl_fail(int status, const struct sbx_err *err)
{
	fprintf(stderr, "sbx: %s\n", ctl_text(err));
	return (status);
}

int
ctl_expect(struct sbx_chan *c, uint16_t type, int timeout_ms,
    struct sbx_err *err)
{
	int r = sbx_chan_recv(c, timeout_ms);

	if (r == SBX_E_CLOSED)
		return (sbx_err_set(err, r, "the suite closed the connection: "
		    "its control socket is for root and for who started it"));
	if (r != 0)
		return (sbx_err_set(err, r, "the suite does not answer as it "
		    "should: %s", sbx_error_name(r)));
	if (c->in->hdr.type == SBX_MSG_CTL_REFUSED)
		return (refused(&c->in->m.ctl_refused, err));
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
