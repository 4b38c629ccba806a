/* broker: where credentials come from, and what there is of them; no secret */
#include "sbxd/cli/cli.h"
#include "sbxd/cli/ctl.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWER_MS 10000

/* 0, SBX_E_NOENT: no suite is there, and what ctl_expect() returns. */
static int
status(const struct cli *cli, int slot, struct sbx_err *err)
{
	const struct sbx_ctl_broker m = { 0 };
	struct ucred who = { 0 };
	socklen_t len = sizeof(who);
	const char *line = NULL;
	struct sbx_chan c;
	char text[512];
	int r;

	if ((r = ctl_open(cli, slot, &c, err)) != 0)
		return (r);
	r = sbx_chan_send(&c, SBX_MSG_CTL_BROKER, 1, &m, NULL, ANSWER_MS);
	if (r != 0)
		(void)sbx_err_set(err, r, "it cannot be asked: %s",
		    sbx_error_name(r));
	else if ((r = ctl_expect(&c, SBX_MSG_CTL_BROKER_STATE, ANSWER_MS,
	    err)) == 0) {
		if (getsockopt(c.fd, SOL_SOCKET, SO_PEERCRED, &who,
		    &len) == -1)
			who.pid = 0;
		printf("suite %d, pid %ld\n", slot, (long)who.pid);
		while ((line = sbx_strs_next(&c.in->m.ctl_broker_state.lines,
		    line)) != NULL)
			printf("  %s\n", sbx_vis(text, sizeof(text), line,
			    strlen(line)));
	}
	sbx_chan_clear(&c);
	return (r);
}

int
cmd_broker(struct cli *cli, int argc, char **argv)
{
	struct sbx_err err = { 0 };
	int r, n = 0, result = CLI_OK;

	if (argc != 2 || strcmp(argv[1], "status") != 0)
		return (CLI_SYNTAX);
	if (cli_locked(cli))
		printf("locked down\n");
	for (int slot = 0; slot < SBX_MAX_SLOTS; slot++) {
		if (cli->slot != -1 && cli->slot != slot)
			continue;
		if ((r = status(cli, slot, &err)) == 0)
			n++;
		else if (r != SBX_E_NOENT) {
			n++;
			fprintf(stderr, "sbx: suite %d: %s\n", slot,
			    ctl_text(&err));
			result = CLI_PEER;
		}
	}
	if (n > 0)
		return (result);
	(void)sbx_err_set(&err, SBX_E_NOENT, "no suite runs");
	return (cli_fail(CLI_PEER, &err));
}
