/*
 * sbxd-worker, the zygote: makes workers, which run the tools.
 *
 * Holds: the compiled schemas of the tools; nothing of anybody's.
 * Talks to: the monitor only, on fd 3.  A worker that it forks talks to the
 * monitor only, on the channel that came with WORKER_FORK, and serves one
 * call at a time, for one principal.
 * Must never: open a file or a socket, execute anything, serve a call itself,
 * keep a worker's channel, outlive the monitor; and no worker may outlive the
 * zygote.
 */

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/privs/privs.h"
#include "common/proto/accepts.h"
#include "common/proto/wire.h"
#include "config.h"
#include "sbxd/worker/worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONTROL_FD 3

static const uint16_t from_monitor[] = { SBX_MSG_PING, SBX_MSG_SHUTDOWN,
	SBX_MSG_WORKER_FORK, SBX_MSG_WORKER_KILL, 0 };
static const struct sbx_accepts zygote_from_monitor = { SBX_PROC_ZYGOTE,
	SBX_PROC_MONITOR, from_monitor };

struct zygote {
	struct sbx_chan chan;
	bool trap;		/* -d: name a refused system call */
	size_t n;
	struct {
		uint32_t worker;	/* the monitor's number */
		pid_t pid;
	} workers[SBX_MAX_WORKERS];
};

/* SIGCHLD only has to wake ppoll(2). */
static void
on_sigchld(int sig)
{
	(void)sig;
}

static int
enter(enum sbx_proc proc, bool trap, uint32_t *ret_features)
{
	struct sbx_privs_args args = { .trap = trap };
	struct sbx_err err = { 0 };

	if (sbx_privs_enter(proc, &args, ret_features, &err) == 0)
		return (0);
	fprintf(stderr, "sbxd-worker: %s: %s\n", sbx_proc_name(proc), err.msg);
	return (-1);
}

/* The child's whole life. */
_Noreturn static void
worker_main(int fd, pid_t zygote, bool trap)
{
	uint32_t features = 0;

	/* Its channel is all that it keeps. */
	if (dup2(fd, CONTROL_FD) < 0 || close_range(CONTROL_FD + 1, ~0U, 0) < 0)
		_exit(2);
	if (enter(SBX_PROC_WORKER, trap, &features) != 0)
		_exit(2);
	/* The death signal is set now; a zygote that died before is gone. */
	if (getppid() != zygote)
		_exit(3);
	_exit(serve(CONTROL_FD, features));
}

static int
send_exited(struct zygote *z, uint32_t worker, int status)
{
	struct sbx_worker_exited m = { .worker = worker, .status = status };

	return (sbx_chan_send(&z->chan, SBX_MSG_WORKER_EXITED, 0, &m, NULL,
	    SBX_SHUTDOWN_MS));
}

/*
 * Safe for a hostile caller: there is none but the monitor, and the child
 * gets the one descriptor that came with the message and nothing else.
 */
static int
on_worker_fork(struct zygote *z)
{
	SBX_CLEANUP(fd) int fd = sbx_steal_fd(&z->chan.in->fds[0]);
	uint32_t worker = z->chan.in->m.worker_fork.worker;
	pid_t self = getpid(), pid;

	if (z->n == SBX_MAX_WORKERS)
		return (send_exited(z, worker, -EAGAIN));
	pid = fork();
	if (pid < 0)
		return (send_exited(z, worker, -errno));
	if (pid == 0) {
		sbx_chan_clear(&z->chan);
		worker_main(sbx_steal_fd(&fd), self, z->trap);
	}
	z->workers[z->n].worker = worker;
	z->workers[z->n].pid = pid;
	z->n++;
	return (0);
}

static void
on_worker_kill(struct zygote *z)
{
	uint32_t worker = z->chan.in->m.worker_kill.worker;
	size_t i;

	/* One that has ended already is not there, which is as good. */
	for (i = 0; i < z->n; i++)
		if (z->workers[i].worker == worker)
			(void)kill(z->workers[i].pid, SIGKILL);
}

static int
reap(struct zygote *z)
{
	uint32_t worker;
	size_t i;
	int error = 0, status;

	for (i = 0; i < z->n && error == 0;) {
		if (waitpid(z->workers[i].pid, &status, WNOHANG) <= 0) {
			i++;
			continue;
		}
		worker = z->workers[i].worker;
		z->workers[i] = z->workers[--z->n];
		error = send_exited(z, worker, status);
	}
	return (error);
}

/* Nothing of ours may live on.  Bounded: SIGKILL cannot be refused. */
static void
end_workers(struct zygote *z)
{
	size_t i;

	for (i = 0; i < z->n; i++)
		(void)kill(z->workers[i].pid, SIGKILL);
	for (i = 0; i < z->n; i++)
		(void)waitpid(z->workers[i].pid, NULL, 0);
	z->n = 0;
}

static int
on_ping(struct zygote *z)
{
	char state[64];
	struct sbx_pong m = { .healthy = 1, .state = state };

	(void)snprintf(state, sizeof(state), "workers=%zu", z->n);
	return (sbx_chan_send(&z->chan, SBX_MSG_PONG, z->chan.in->hdr.id, &m,
	    NULL, SBX_SHUTDOWN_MS));
}

/* 0, or what ends the zygote; SBX_E_CLOSED is the orderly way. */
static int
dispatch(struct zygote *z)
{
	int error = sbx_chan_recv(&z->chan, 0);

	if (error == SBX_E_TIMEOUT || error == SBX_E_AGAIN)
		return (0);
	if (error != 0)
		return (error);
	switch (z->chan.in->hdr.type) {
	case SBX_MSG_WORKER_FORK:
		return (on_worker_fork(z));
	case SBX_MSG_WORKER_KILL:
		on_worker_kill(z);
		return (0);
	case SBX_MSG_PING:
		return (on_ping(z));
	case SBX_MSG_SHUTDOWN:
		return (SBX_E_CLOSED);
	}
	return (SBX_E_STATE);
}

static int
loop(struct zygote *z)
{
	struct pollfd pfd = { .fd = z->chan.fd, .events = POLLIN };
	sigset_t open;
	int error = 0, n;

	(void)sigprocmask(SIG_SETMASK, NULL, &open);
	(void)sigdelset(&open, SIGCHLD);
	while (error == 0) {
		/* Without a deadline: the monitor's end wakes it. */
		n = ppoll(&pfd, 1, NULL, &open);
		if (n < 0 && errno != EINTR)
			return (SBX_E_SYS);
		error = reap(z);
		if (error == 0 && n > 0)
			error = dispatch(z);
	}
	return (error);
}

static void
on_log(void *arg, enum sbx_log_level level, const char *text)
{
	struct zygote *z = arg;
	struct sbx_log m = { .level = (uint8_t)level, .text = text };

	/* A log line that cannot be sent has nowhere else to go. */
	(void)sbx_chan_send(&z->chan, SBX_MSG_LOG, 0, &m, NULL, 1000);
}

static void
block_sigchld(void)
{
	struct sigaction sa = { .sa_handler = on_sigchld };
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 ||
	    sigaction(SIGCHLD, &sa, NULL) != 0)
		sbx_fatal("SIGCHLD: %s", strerror(errno));
}

int
main(int argc, char **argv)
{
	static const struct sbx_accepts *const lists[] = {
		&zygote_from_monitor, &worker_from_monitor, NULL };
	struct sbx_hello hello = { .version = PACKAGE_VERSION };
	struct zygote z = { 0 };
	int error;

	sbx_accepts_print(argc, argv, NULL, lists);
	z.trap = argc > 1 && strncmp(argv[1], "-d", 2) == 0;
	sbx_privs_early();
	sbx_log_init("sbxd-worker", z.trap ? SBX_LOG_DEBUG : SBX_LOG_INFO);
	sbx_chan_init(&z.chan, CONTROL_FD, SBX_PROC_ZYGOTE, SBX_PROC_MONITOR);
	serve_init();
	block_sigchld();
	if (enter(SBX_PROC_ZYGOTE, z.trap, &hello.features) != 0)
		return (2);
	hello.pid = (uint32_t)getpid();
	error = sbx_chan_send(&z.chan, SBX_MSG_HELLO, 0, &hello, NULL,
	    SBX_SHUTDOWN_MS);
	sbx_log_to(on_log, &z);
	if (error == 0)
		error = loop(&z);
	end_workers(&z);
	sbx_log_to(NULL, NULL);
	if (error != SBX_E_CLOSED)
		fprintf(stderr, "sbxd-worker: the monitor's channel: %s\n",
		    sbx_error_name(error));
	sbx_chan_clear(&z.chan);
	return (error == SBX_E_CLOSED ? 0 : 3);
}
