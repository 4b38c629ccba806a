/*
 * Commands on a terminal: the sandbox's init makes the pseudo terminal, the
 * master side goes on to the monitor.  Nothing of it is read or kept here.
 */
#include "sbxd/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <termios.h>

void
shell_exec(struct sandbox *sb, const struct sbx_engine_shell *q, uint32_t id)
{
	struct engine *e = sb->e;
	const struct sbx_init_shell m = { .run = q->run, .argv = q->argv,
		.env = q->env, .cwd = q->cwd, .term = q->term, .rows = q->rows,
		.cols = q->cols };
	struct job *j;

	if (job_find(e, q->run) != NULL) {
		job_refuse(e, q->run, id, EEXIST,
		    "there is a run of this id");
		return;
	}
	if (sb->njobs >= SBX_MAX_JOBS_SANDBOX) {
		job_refuse(e, q->run, id, EAGAIN,
		    "too many runs in this sandbox");
		return;
	}
	j = job_new(sb, q->run, id);
	j->shell = true;
	/* when init is gone, its end answers for this job too */
	(void)sbx_send_init_shell(sb->init, 0, &m, NULL);
}

/*
 * What an operator will read from and write to.  Init may be hostile: it must
 * be the master side of a pseudo terminal, which no guest can make of anything
 * else; whose devpts it is of does not matter, a sandbox reaches its own only.
 */
static bool
is_pty_master(int fd)
{
	struct statfs fs;
	struct stat st;
	unsigned number;

	return (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) &&
	    fstatfs(fd, &fs) == 0 && fs.f_type == DEVPTS_SUPER_MAGIC &&
	    (fcntl(fd, F_GETFL) & (O_ACCMODE | O_PATH)) == O_RDWR &&
	    ioctl(fd, TIOCGPTN, &number) == 0);
}

int
shell_pty(struct job *j, int fd)
{
	int SBX_CLEANUP(fd) master = fd;
	const struct sbx_engine_pty m = { .run = j->run };

	if (!j->shell || j->pty || j->started)
		return (SBX_E_STATE);
	if (!is_pty_master(master))
		return (SBX_E_POLICY);
	j->pty = true;
	if (j->sb->e->monitor != NULL)
		(void)sbx_send_engine_pty(j->sb->e->monitor, j->exec_id, &m,
		    &master);
	return (0);
}
