/* shell: a terminal in a sandbox */
#include "common/base/limits.h"
#include "common/proto/accepts.h"
#include "config.h"
#include "sbxd/cli/cli.h"
#include "sbxd/cli/ctl.h"
#include "sbxd/cli/terminal.h"

#include <getopt.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELLO_MS 5000
#define START_MS 20000		/* the monitor gives up after 15 s, and says so */

/* It came from a sandbox: nothing but the master side of a pseudo terminal is
 * read from or written to. */
static bool
is_master(int fd)
{
	struct statfs fs;
	struct stat st;
	unsigned number;

	return (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) &&
	    fstatfs(fd, &fs) == 0 && fs.f_type == DEVPTS_SUPER_MAGIC &&
	    ioctl(fd, TIOCGPTN, &number) == 0);
}

/* The caller's TERM if it is a name; the suite refuses others. */
static const char *
term_of(const char *term)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
	size_t n = term != NULL ? strspn(term, set) : 0;

	return (n > 0 && n <= 32 && term[n] == '\0' ? term : "");
}

static int
shell_start(struct sbx_chan *c, struct sbx_shell_start *m, char **argv,
    int *ret_master, struct sbx_err *err)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	int r = 0;

	sbx_buf_init(&b, SBX_MAX_COMMANDS);
	for (; *argv != NULL && r == 0; argv++)
		r = sbx_strs_add(&m->argv, &b, *argv);
	terminal_size(&m->rows, &m->cols);
	if (r == 0)
		r = sbx_chan_send(c, SBX_MSG_SHELL_START, 1, m, NULL,
		    HELLO_MS);
	if (r != 0)
		return (sbx_err_set(err, r, "the command cannot be sent: %s",
		    r == SBX_E_LIMIT ? "it is too long" : sbx_error_name(r)));
	r = ctl_expect(c, SBX_MSG_SHELL_STARTED, START_MS, err);
	if (r != 0)
		return (r);
	if (!is_master(c->in->fds[0]))
		return (sbx_err_set(err, SBX_E_POLICY, "what the sandbox gave "
		    "is not a terminal"));
	*ret_master = sbx_steal_fd(&c->in->fds[0]);
	return (0);
}

/* The command's own status; for all else a line says what happened. */
static int
end_status(const struct terminal_end *end)
{
	if (end->quit) {
		terminal_say("\nsbx: disconnected; what ran in the shell "
		    "is being ended\n");
		return (128 + SIGHUP);
	}
	if (end->signal != 0)
		return (128 + end->signal);
	if (end->why != SBX_EXIT_EXITED)
		terminal_say("\nsbx: the shell ended: %s\n", end->reason);
	if (WIFEXITED(end->status))
		return (WEXITSTATUS(end->status));
	return (128 + WTERMSIG(end->status));
}

/* c: consumed. */
static int
shell_run(struct sbx_chan *c, struct sbx_shell_start *m, char **argv)
{
	int SBX_CLEANUP(fd) master = -1;
	struct terminal_end end;
	struct sbx_err err;
	int r;

	r = shell_start(c, m, argv, &master, &err);
	if (r != 0) {
		sbx_chan_clear(c);
		return (cli_fail(CLI_FATAL, &err));
	}
	r = terminal_run(c, master, &end, &err);
	sbx_chan_clear(c);
	if (r == SBX_E_CLOSED) {
		terminal_say("\nsbx: the suite ended\n");
		return (CLI_PEER);
	}
	return (r != 0 ? cli_fail(CLI_FATAL, &err) : end_status(&end));
}

int
cmd_shell(struct cli *cli, int argc, char **argv)
{
	struct sbx_shell_start m = { .cwd = "", .term = term_of(cli->term) };
	struct sbx_chan chan;
	struct client client;
	struct sbx_err err;
	char id[16];
	int ch, slot;

	while ((ch = getopt(argc, argv, "+w:")) != -1) {
		if (ch != 'w')
			return (CLI_SYNTAX);
		m.cwd = optarg;
	}
	if (argc - optind < 1)
		return (CLI_SYNTAX);
	if (cli_find(cli, argv[optind], &client, id, &err) != 0)
		return (cli_fail(CLI_USAGE, &err));
	slot = client.slot;
	client_close(&client);	/* not one of its clients for so long */
	m.container = id;
	if (ctl_open(cli, slot, &chan, &err) != 0)
		return (cli_fail(CLI_FATAL, &err));
	optind++;
	if (optind < argc && strcmp(argv[optind], "--") == 0)
		optind++;
	return (shell_run(&chan, &m, argv + optind));
}
