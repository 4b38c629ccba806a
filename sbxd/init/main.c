/*
 * sbx-init, PID 1 of every sandbox.
 *
 * It runs the sandbox's commands, each below a supervisor of its own, kills
 * their trees, unpacks what is copied in and works on files, all as the sandbox user and with
 * no more rights than a guest: same filter, same Landlock domain, no
 * capability.  It alone holds the channel to the engine.  Guests share its
 * uid and can talk to it only by signals, which it ignores; it is not
 * dumpable, so none of them can look into it.  It must never be able to do
 * what a guest may not.
 */
#include "sbxd/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static struct init self;

/* Also those that a guest stopped: they have its uid, but go on. */
static void
reap(struct init *in)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0)
		if (WIFSTOPPED(status))
			(void)kill(pid, SIGCONT);
		else
			job_reaped(in, pid, status);
}

/* Descriptors to wait for: channel, signals, then reports and results. */
static nfds_t
poll_set(struct init *in, int sig_fd, struct pollfd *pfd)
{
	nfds_t n = 0;

	pfd[n++] = (struct pollfd){ .fd = INIT_FD, .events = POLLIN };
	pfd[n++] = (struct pollfd){ .fd = sig_fd, .events = POLLIN };
	for (size_t i = 0; i < SBX_NELEM(in->jobs); i++)
		pfd[n++] = (struct pollfd){ .fd = in->jobs[i].run[0] ?
		    in->jobs[i].report_fd : -1, .events = POLLIN };
	for (size_t i = 0; i < SBX_NELEM(in->helpers); i++)
		pfd[n++] = (struct pollfd){ .fd = in->helpers[i].pid ?
		    in->helpers[i].result_fd : -1, .events = POLLIN };
	return (n);
}

static void
turn(struct init *in, int sig_fd, int timeout_ms)
{
	struct pollfd pfd[2 + SBX_MAX_JOBS_SANDBOX + MAX_HELPERS];
	struct signalfd_siginfo si[16];
	nfds_t n = poll_set(in, sig_fd, pfd);

	if (poll(pfd, n, timeout_ms) <= 0)
		return;
	for (size_t i = 0; i < SBX_NELEM(in->jobs); i++)
		if (pfd[2 + i].revents != 0)
			job_report(in, &in->jobs[i]);
	for (size_t i = 0; i < SBX_NELEM(in->helpers); i++)
		if (pfd[2 + SBX_MAX_JOBS_SANDBOX + i].revents != 0)
			helper_result(&in->helpers[i]);
	if (pfd[1].revents != 0) {
		(void)!read(sig_fd, si, sizeof(si));	/* one wait is for all */
		reap(in);
	}
	/* the engine is gone, or broke the protocol: so does the sandbox */
	if (pfd[0].revents != 0 && init_handle(in) < 0)
		_exit(3);
}

static void
copy_env(struct init *in, const struct sbx_strs *env)
{
	const char *s = NULL;
	size_t n = 0;

	while ((s = sbx_strs_next(env, s)) != NULL &&
	    n < SBX_NELEM(in->env) - 1)
		in->env[n++] = sbx_xstrdup(s);
}

static _Noreturn void
fail(int error, const char *where)
{
	struct sbx_init_failed m = { .error = error, .reason = where };

	init_send(SBX_MSG_INIT_FAILED, 0, &m, NULL);
	_exit(2);
}

/* INIT_START, and what follows from it. */
static void
start(struct init *in)
{
	const struct sbx_init_start *q = &in->in.m.init_start;
	const struct sbx_init_ready ready = { 0 };
	const char *where;
	int fd, r;

	if (sbx_wire_recv(INIT_FD, SBX_PROC_INIT, SBX_PROC_ENGINE, &in->in,
	    0) != 0 || in->in.hdr.type != SBX_MSG_INIT_START)
		_exit(3);
	copy_env(in, &q->env);
	in->nofile = q->nofile_hard;
	in->nproc = q->nproc;
	if ((fd = init_listener()) < 0)
		fail(-fd, "bind of 127.0.0.1:3128 in the sandbox");
	if ((r = init_cage(in->in.fds[0], &where)) < 0)
		fail(-r, where);
	sbx_in_clear(&in->in);
	init_send(SBX_MSG_INIT_READY, 0, &ready, &fd);
	sbx_close(&fd);
}

int
main(int argc, char **argv)
{
	const struct sbx_accepts *lists[] = { &init_from_engine, NULL };
	sigset_t set;
	int sig_fd;

	sbx_accepts_print(argc, argv, NULL, lists);
	/* Ours to open only as long as we are dumpable: no guest runs yet. */
	self.oom_fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	/* the engine's end is ours, also when it cannot close the channel */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 ||
	    prctl(PR_SET_DUMPABLE, 0) == -1 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		_exit(2);
	for (size_t i = 0; i < SBX_NELEM(self.jobs); i++)
		self.jobs[i].report_fd = -1;
	(void)sigfillset(&set);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	if ((sig_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) == -1)
		_exit(2);
	start(&self);
	for (;;)
		turn(&self, sig_fd, kill_step(&self));
}
