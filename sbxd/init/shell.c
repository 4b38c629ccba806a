/*
 * A command on a terminal.  The pseudo terminal is of the sandbox's own devpts,
 * so that it has a name there, and its master side is the one thing that goes
 * out: the terminal of whoever sits at it never comes in.
 */
#include "sbxd/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* By the mounted file system, not by /dev/ptmx: an image's link of that name
 * could lead elsewhere. */
#define PTMX "/dev/pts/ptmx"
#define ENV_MAX 16384	/* all of a message, and TERM */

/* As a terminal of today is: UTF-8, and as large as the other one. */
static int
set_up(int slave, const struct sbx_init_shell *q)
{
	struct winsize ws = { .ws_row = (unsigned short)q->rows,
		.ws_col = (unsigned short)q->cols };
	struct termios t;

	if (tcgetattr(slave, &t) == -1)
		return (-errno);
	t.c_iflag |= IUTF8;
	if (tcsetattr(slave, TCSANOW, &t) == -1 ||
	    ioctl(slave, TIOCSWINSZ, &ws) == -1)
		return (-errno);
	return (0);
}

/* Both owned by the caller.  0 or -errno with *ret_where set. */
static int
open_pty(const struct sbx_init_shell *q, int *ret_master, int *ret_slave,
    const char **ret_where)
{
	int SBX_CLEANUP(fd) master = -1, SBX_CLEANUP(fd) slave = -1;
	int unlocked = 0, r;

	*ret_where = "open of " PTMX " in the sandbox";
	master = open(PTMX, O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	if (master == -1 || ioctl(master, TIOCSPTLCK, &unlocked) == -1)
		return (-errno);
	*ret_where = "ioctl: TIOCGPTPEER";
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave == -1)
		return (-errno);
	*ret_where = "the terminal's modes";
	if ((r = set_up(slave, q)) < 0)
		return (r);
	*ret_master = sbx_steal_fd(&master);
	*ret_slave = sbx_steal_fd(&slave);
	return (0);
}

/* No copy of the master stays here: its last close is what hangs up. */
void
shell_start(struct init *in, const struct sbx_init_shell *q, uint32_t id)
{
	struct sbx_init_exec e = { .run = q->run, .argv = q->argv,
		.cwd = q->cwd };
	const struct sbx_init_pty pty = { .run = q->run };
	int master, slave, r;
	const char *where;
	SBX_CLEANUP_BUF struct sbx_buf env = { 0 };
	char term[40];

	if ((r = open_pty(q, &master, &slave, &where)) < 0) {
		job_never_started(q->run, id, -r, where);
		return;
	}
	init_send(SBX_MSG_INIT_PTY, id, &pty, &master);
	sbx_close(&master);
	sbx_buf_init(&env, ENV_MAX);
	for (const char *s = NULL; (s = sbx_strs_next(&q->env, s)) != NULL;)
		(void)sbx_strs_add(&e.env, &env, s);	/* there is room */
	if (q->term[0] != '\0') {
		(void)snprintf(term, sizeof(term), "TERM=%s", q->term);
		(void)sbx_strs_add(&e.env, &env, term);
	}
	job_start(in, &e, (int[]){ slave, slave, slave }, id, true);
	sbx_close(&slave);
}
