#ifndef SBX_CLI_CTL_H
#define SBX_CLI_CTL_H

/* The control socket of a suite, for root and for who started it. */

#include "common/proto/wire.h"
#include "sbxd/cli/cli.h"

/*
 * Connect to the control socket of the suite in `slot`, whose directory only
 * its owner (or root) can write to.  *ret_c: owned by the caller.  0, and what
 * client_open() and ctl_expect() return.
 */
int ctl_open(const struct cli *cli, int slot, struct sbx_chan *ret_c,
    struct sbx_err *err);
/* Wait for the next message, which must be `type`, in c->in.  0, SBX_E_CLOSED,
 * SBX_E_POLICY (CTL_REFUSED, with its sentence), SBX_E_STATE (another one), and
 * what sbx_chan_recv() returns. */
int ctl_expect(struct sbx_chan *c, uint16_t type, int timeout_ms,
    struct sbx_err *err);
/* A refusal's whole sentence and mend, as CTL_REFUSED has them; else what err
 * says.  Borrowed until the next answer. */
#define CTL_TEXT 1027	/* more than CTL_REFUSED has in all, and ". " */
const char *ctl_text(const struct sbx_err *err);
/* As cli_fail(). */
int ctl_fail(int status, const struct sbx_err *err);

#endif
