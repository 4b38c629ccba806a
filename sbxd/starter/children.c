/* The children of the starter: from fork to the last wait. */

#include "sbxd/starter/starter.h"

#include "common/base/log.h"
#include "common/privs/privs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What may be started at all.  `docker` as an engine is not among them: it
 * comes with a unit of its own, since its group is root in all but name. */
static const char *const programs[SBX_PROC_MAX] = {
	[SBX_PROC_ENGINE] = "sbxd-engine",
	[SBX_PROC_RECORDER] = "sbxd-recorder",
	[SBX_PROC_JOURNALD] = "sbx-journald",
	[SBX_PROC_BROKER] = "sbx-broker",
	[SBX_PROC_PROXY] = "sbx-proxy",
	[SBX_PROC_ZYGOTE] = "sbxd-worker",
	[SBX_PROC_FRONT] = "sbxd-front",
	[SBX_PROC_COPYIN] = "sbxd-copyin",
	[SBX_PROC_JUDGE] = "sbxd-judge",
	[SBX_PROC_COURIER] = "sbx-broker-courier",
	[SBX_PROC_COMMAND] = "sbx-broker-command",
};

static struct starter_child *
child_find(struct starter *s, uint32_t proc, uint32_t instance)
{
	for (size_t i = 0; i < s->nchildren; i++)
		if (s->children[i].proc == proc &&
		    s->children[i].instance == instance)
			return (&s->children[i]);
	return (NULL);
}

static void
report_exit(struct starter *s, uint32_t proc, uint32_t instance, pid_t pid,
    int status)
{
	struct sbx_exited m = { .proc = (uint8_t)proc, .instance = instance,
		.pid = (uint32_t)pid, .status = status };

	starter_send(s, SBX_MSG_EXITED, 0, &m);
}

/* Reap one if it ended.  true: it did, and its slot is taken by the last. */
static bool
child_reap_one(struct starter *s, struct starter_child *c)
{
	struct starter_child old = *c;
	int status;
	pid_t pid;

	do
		pid = waitpid(c->pid, &status, WNOHANG);
	while (pid < 0 && errno == EINTR);
	if (pid == 0)
		return (false);
	if (pid < 0)
		sbx_fatal("waitpid: %s", strerror(errno));
	*c = s->children[--s->nchildren];
	report_exit(s, old.proc, old.instance, old.pid, status);
	return (true);
}

static bool
is_known(const struct starter *s, pid_t pid)
{
	for (size_t i = 0; i < s->nchildren; i++)
		if (s->children[i].pid == pid)
			return (true);
	return (false);
}

/*
 * All of the suite that loses its parent is ours (main), in whatever session or
 * group: what the operator's command started and a killed sbx-broker-command
 * could not end.  Nobody wants it any more.  Its own children come to us in turn.
 * How many there are that have not ended.
 */
static unsigned
kill_left(const struct starter *s)
{
	FILE *f = fopen("/proc/thread-self/children", "re");
	unsigned n = 0;
	pid_t pid;

	if (f == NULL)
		return (0);	/* a kernel without it */
	while (fscanf(f, "%d", &pid) == 1)
		if (!is_known(s, pid)) {
			(void)kill(pid, SIGKILL); /* or it has ended */
			n += waitpid(pid, NULL, WNOHANG) == 0;
		}
	(void)fclose(f);
	return (n);
}

void
child_end_left(const struct starter *s, int timeout_ms)
{
	const uint64_t until = sbx_mono_ns() + (uint64_t)timeout_ms * 1000000;

	while (kill_left(s) > 0 && sbx_mono_ns() < until)
		(void)poll(NULL, 0, 2); /* interrupted: looks sooner */
}

void
child_reap(struct starter *s)
{
	for (size_t i = 0; i < s->nchildren;)
		if (!child_reap_one(s, &s->children[i]))
			i++;
	(void)kill_left(s);
}

void
child_kill(struct starter *s, uint32_t proc, uint32_t instance)
{
	struct starter_child *c = child_find(s, proc, instance);

	/* Safe: an unreaped child's pid cannot be anybody else's. */
	if (c != NULL && kill(c->pid, SIGKILL) < 0)
		log_err("kill: %s: %s", sbx_proc_name(c->proc),
		    strerror(errno));
}

void
child_kill_all(struct starter *s)
{
	for (size_t i = 0; i < s->nchildren; i++)
		child_kill(s, s->children[i].proc, s->children[i].instance);
}

/* For one piece of work each, beside others of their kind. */
static bool
is_one_of_many(uint32_t proc)
{
	return (proc == SBX_PROC_COPYIN || proc == SBX_PROC_JUDGE ||
	    proc == SBX_PROC_COURIER || proc == SBX_PROC_COMMAND);
}

/* Two engines would share a scratch directory: never two of a daemon. */
static int
replace_older(struct starter *s, uint32_t proc)
{
	uint64_t until = sbx_mono_ns() + STARTER_REPLACE_MS * 1000000ull;
	struct starter_child *c;
	size_t i;

	if (is_one_of_many(proc))
		return (0);
	for (;;) {
		for (i = 0, c = NULL; i < s->nchildren && c == NULL; i++)
			if (s->children[i].proc == proc)
				c = &s->children[i];
		if (c == NULL)
			return (0);
		if (kill(c->pid, SIGKILL) < 0)
			return (-errno);
		if (child_reap_one(s, c))
			continue;
		if (sbx_mono_ns() > until)
			return (-EBUSY);
		(void)poll(NULL, 0, 5); /* interrupted: looks sooner */
	}
}

static int
check_start(struct starter *s, uint32_t proc, uint32_t instance, int control)
{
	int domain, type;
	socklen_t len = sizeof(domain);

	if (proc >= SBX_PROC_MAX || programs[proc] == NULL)
		return (-EPERM);
	if (instance <= s->last[proc])
		return (-EEXIST);
	if (s->nchildren == STARTER_CHILDREN)
		return (-EAGAIN);
	if (getsockopt(control, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ||
	    domain != AF_UNIX)
		return (-EINVAL);
	len = sizeof(type);
	if (getsockopt(control, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
	    type != SOCK_SEQPACKET)
		return (-EINVAL);
	return (replace_older(s, proc));
}

/*
 * In the child.  A process may be made in a v2 group only from below a common
 * group that its maker may use: so the engine starts beside its sandboxes.
 * Without it there are no v2 limits, which the engine finds and says.
 */
static void
join_group(const struct starter *s)
{
	char path[96];

	if (s->groups[SBX_CGROUP_V2].dir == -1)
		return;
	(void)snprintf(path, sizeof(path), "%s/engine/cgroup.procs",
	    s->groups[SBX_CGROUP_V2].name);
	if (sbx_cgroup_put(s->groups[SBX_CGROUP_V2].dir, path, "0") != 0)
		(void)dprintf(STDERR_FILENO, "%s: %s, ignoring\n", path,
		    strerror(errno));
}

/*
 * In the child.  Started by root, it becomes its own user here, so that no
 * program but this one ever runs as root (copyin, whose user comes later with
 * its work, drops by itself before it opens anything).  The environment holds nothing of the
 * caller's: programs take their configuration from the channel.
 */
_Noreturn static void
child_exec(const struct starter *s, enum sbx_proc proc, int control,
    int report)
{
	static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin",
	    zone[] = "TZ=UTC0", locale[] = "LC_ALL=C", debug[] = "-d";
	char *env[] = { path, zone, locale, NULL };
	char *argv[] = { NULL, s->debug ? debug : NULL, NULL };
	const char *name = programs[proc];
	struct sbx_err err = { 0 };
	sigset_t none;
	int error;

	if (proc == SBX_PROC_ENGINE)
		join_group(s);
	memcpy(&argv[0], &name, sizeof(name)); /* exec takes char *const */
	(void)sigemptyset(&none); /* cannot fail */
	/* The suite's stdout may be a client's MCP stream, and the front gets
	 * that as a descriptor: nobody else's text may end up in it. */
	if (sbx_privs_become(proc, &err) == 0 &&
	    dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 &&
	    dup2(control, 3) >= 0 &&
	    close_range(4, ~0U, CLOSE_RANGE_CLOEXEC) == 0 &&
	    signal(SIGPIPE, SIG_DFL) != SIG_ERR &&
	    sigprocmask(SIG_SETMASK, &none, NULL) == 0)
		(void)execveat(s->programs, name, argv, env, 0);
	error = errno != 0 ? errno : EPERM;
	if (err.msg[0] != '\0')
		(void)dprintf(STDERR_FILENO, "%s: %s\n", name, err.msg);
	/* The reader takes an end without a number for success, so the exit
	 * status says it once more. */
	(void)!write(report, &error, sizeof(error));
	_exit(2);
}

/* 0 once exec succeeded, else negative errno; kills what hangs before it. */
static int
wait_exec(int report)
{
	struct pollfd pfd = { .fd = report, .events = POLLIN };
	int error = 0, r;

	do
		r = poll(&pfd, 1, STARTER_EXEC_MS);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return (r == 0 ? -ETIMEDOUT : -errno);
	return (read(report, &error, sizeof(error)) == sizeof(error) ? -error :
	    0);
}

/* *ret_pid when it runs.  0 or negative errno. */
static int
spawn(struct starter *s, enum sbx_proc proc, int control, pid_t *ret_pid)
{
	SBX_CLEANUP(fd) int reader = -1;
	SBX_CLEANUP(fd) int writer = -1;
	int p[2], r;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return (-errno);
	reader = p[0];
	writer = p[1];
	if ((pid = fork()) < 0)
		return (-errno);
	if (pid == 0)
		child_exec(s, proc, control, writer);
	sbx_close(&writer);
	if ((r = wait_exec(reader)) < 0) {
		(void)kill(pid, SIGKILL); /* ours and not reaped */
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			continue;
		return (r);
	}
	*ret_pid = pid;
	return (0);
}

void
child_start(struct starter *s, uint32_t proc, uint32_t instance, int control)
{
	SBX_CLEANUP(fd) int fd = control;
	struct sbx_started m = { .proc = (uint8_t)proc, .instance = instance };
	pid_t pid = 0;
	int r;

	if ((r = check_start(s, proc, instance, fd)) == 0)
		r = spawn(s, (enum sbx_proc)proc, fd, &pid);
	if (r < 0) {
		log_err("cannot start: %s proc=%u instance=%u", strerror(-r),
		    proc, instance);
		report_exit(s, proc, instance, 0, r);
		return;
	}
	s->last[proc] = instance;
	s->children[s->nchildren++] = (struct starter_child){
		.proc = (enum sbx_proc)proc, .instance = instance,
		.pid = pid };
	m.pid = (uint32_t)pid;
	starter_send(s, SBX_MSG_STARTED, 0, &m);
}
