/* lockdown: no grant, no token, no way out, until it is lifted */
#include "sbxd/cli/cli.h"
#include "sbxd/cli/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MS 30000		/* the broker has 20 s for its tokens */

static void
file_path(const struct cli *cli, char path[PATH_MAX + 16])
{
	(void)snprintf(path, PATH_MAX + 16, "%s/lockdown", cli->paths.state);
}

bool
cli_locked(const struct cli *cli)
{
	char path[PATH_MAX + 16];

	file_path(cli, path);
	/* what cannot be looked at counts as it does for a suite */
	return (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW |
	    AT_EACCESS) == 0 || (errno != ENOENT && errno != ENOTDIR));
}

/* What suites that start later find. */
static int
write_file(const struct cli *cli, struct sbx_err *err)
{
	char path[PATH_MAX + 16];
	int SBX_CLEANUP(fd) fd = -1;
	int r;

	file_path(cli, path);
	if ((r = sbx_make_dirs(cli->paths.state, err)) != 0)
		return (r);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	    0600);
	return (fd != -1 || errno == EEXIST ? 0 :
	    sbx_err_sys(err, "%.160s", path));
}

static int
remove_file(const struct cli *cli, struct sbx_err *err)
{
	char path[PATH_MAX + 16];

	file_path(cli, path);
	return (unlink(path) == 0 || errno == ENOENT ? 0 :
	    sbx_err_sys(err, "%.160s", path));
}

/* again: it was said already.  0, SBX_E_NOENT: no suite is there, and what
 * ctl_expect() returns. */
static int
tell(const struct cli *cli, int slot, bool on, bool again, struct sbx_err *err)
{
	const struct sbx_ctl_lockdown m = { .on = on };
	const struct sbx_ctl_locked *q;
	struct sbx_chan c;
	int r;

	if ((r = ctl_open(cli, slot, &c, err)) != 0)
		return (r);
	r = sbx_chan_send(&c, SBX_MSG_CTL_LOCKDOWN, 1, &m, NULL, ANSWER_MS);
	if (r != 0)
		(void)sbx_err_set(err, r, "it cannot be told: %s",
		    sbx_error_name(r));
	else if ((r = ctl_expect(&c, SBX_MSG_CTL_LOCKED, ANSWER_MS,
	    err)) == 0) {
		q = &c.in->m.ctl_locked;
		if (on)
			printf("suite %d: locked down, %" PRIu32 " grant%s "
			    "ended, %" PRIu32 " token%s revoked\n", slot,
			    q->grants, q->grants == 1 ? "" : "s", q->tokens,
			    q->tokens == 1 ? "" : "s");
		else if (!again)
			printf("suite %d: open\n", slot);
		if (q->failed > 0)
			r = sbx_err_set(err, SBX_E_SYS, "of %" PRIu32 " "
			    "token%s the host could not be told, and it is "
			    "forgotten here: revoke it there", q->failed,
			    q->failed == 1 ? "" : "s");
	}
	sbx_chan_clear(&c);
	return (r);
}

/* How many of the suites that run did not agree: each is told of. */
static unsigned
tell_all(const struct cli *cli, bool on, bool again)
{
	struct sbx_err err = { 0 };
	unsigned failed = 0;
	int r;

	for (int slot = 0; slot < SBX_MAX_SLOTS; slot++) {
		r = tell(cli, slot, on, again, &err);
		if (r == 0 || r == SBX_E_NOENT)
			continue;
		failed++;
		fprintf(stderr, "sbx: suite %d: %s\n", slot,
		    ctl_text(&err));
	}
	return (failed);
}

static int
show(const struct cli *cli)
{
	printf("%s\n", cli_locked(cli) ? "locked down: `sbx lockdown off` "
	    "lifts it" : "open: no lockdown is on");
	return (CLI_OK);
}

/* What closes closes first, whoever can be told. */
static int
lock(const struct cli *cli)
{
	struct sbx_err err = { 0 };
	bool failed = write_file(cli, &err) != 0;

	if (failed)
		(void)cli_fail(CLI_FATAL, &err);
	if (tell_all(cli, true, false) > 0 || failed)
		return (CLI_PEER);
	printf("No sandbox has a way out until `sbx lockdown off`.\n");
	return (CLI_OK);
}

/* What opens does so when all who run have agreed, and have it on record: until
 * then a suite that starts finds the file.  One that started meanwhile has
 * found it and is told after it has gone. */
static int
unlock(const struct cli *cli)
{
	struct sbx_err err = { 0 };

	if (tell_all(cli, false, false) > 0) {
		fprintf(stderr, "sbx: it stays locked down, for that suite and "
		    "for those that start later: mend the cause, or end that "
		    "suite, and say `sbx lockdown off` again\n");
		return (CLI_PEER);
	}
	if (remove_file(cli, &err) != 0)
		return (cli_fail(CLI_FATAL, &err));
	if (tell_all(cli, false, true) > 0)
		return (CLI_PEER);
	printf("The lockdown is lifted.\n");
	return (CLI_OK);
}

int
cmd_lockdown(struct cli *cli, int argc, char **argv)
{
	if (argc == 1 || (argc == 2 && strcmp(argv[1], "on") == 0))
		return (lock(cli));
	if (argc == 2 && strcmp(argv[1], "status") == 0)
		return (show(cli));
	if (argc == 2 && strcmp(argv[1], "off") == 0)
		return (unlock(cli));
	return (CLI_SYNTAX);
}
