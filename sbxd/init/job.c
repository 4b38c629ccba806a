#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sbxd/init/init.h"

#define MAX_ARGV 1024
#define MAX_SIGPENDING 1024
#define MAX_MSGQUEUE 65536u	/* bytes */
#define MAX_MEMLOCK 65536u	/* bytes */
#define MAX_ENV (64 + 256)
#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:" \
	"/sbin:/bin"

struct job *
job_find(struct init *in, const char *run)
{
	for (size_t i = 0; i < SBX_NELEM(in->jobs); i++)
		if (in->jobs[i].run[0] != '\0' &&
		    strcmp(in->jobs[i].run, run) == 0)
			return (&in->jobs[i]);
	return (NULL);
}

/* --- in the command's process ------------------------------------------- */

static _Noreturn void
exec_failed(int fd, int error, const char *where)
{
	struct report r = { .what = 'E', .value = error };

	(void)snprintf(r.where, sizeof(r.where), "%s", where);
	(void)!write(fd, &r, sizeof(r));
	_exit(127);
}

static void
limit(int resource, rlim_t value, int fd, const char *what)
{
	struct rlimit rl = { value, value };

	if (setrlimit(resource, &rl) == -1)
		exec_failed(fd, errno, what);
}

/* Down to `most`; a limit that is lower already stays. */
static void
limit_to(int resource, rlim_t most, int fd, const char *what)
{
	struct rlimit rl;

	if (getrlimit(resource, &rl) == -1)
		exec_failed(fd, errno, what);
	if (rl.rlim_max > most)
		limit(resource, most, fd, what);
}

/* The later of two entries of one name wins, as execve(2) leaves it open. */
static void
set_env(char **env, size_t *n, char *entry)
{
	size_t name = (size_t)(strchr(entry, '=') - entry) + 1;

	for (size_t i = 0; i < *n; i++)
		if (strncmp(env[i], entry, name) == 0) {
			env[i] = entry;
			return;
		}
	if (*n < MAX_ENV)
		env[(*n)++] = entry;
}

/* execve(2); what has no format of its own is for the shell, as in execvp(3).
 * Returns only on failure. */
static void
exec_file(const char *file, char **argv, char **env)
{
	static char *sh[MAX_ARGV + 2];
	static char name[] = "/bin/sh";
	size_t n = 0;

	(void)execve(file, argv, env);
	if (errno != ENOEXEC)
		return;
	sh[n++] = name;
	sh[n++] = (char *)(uintptr_t)file;
	for (char **a = argv + 1; argv[0] != NULL && *a != NULL; a++)
		sh[n++] = *a;
	sh[n] = NULL;
	(void)execve(name, sh, env);
}

/* execvp(3) with the sandbox's PATH, which may be the caller's extra entry. */
static void
exec_in_path(char **argv, char **env)
{
	const char *path = PATH_DEFAULT, *p, *end;
	char file[4096];
	int error = ENOENT;

	for (size_t i = 0; env[i] != NULL; i++)
		if (strncmp(env[i], "PATH=", 5) == 0)
			path = env[i] + 5;
	if (argv[0][0] == '\0' || strchr(argv[0], '/') != NULL) {
		exec_file(argv[0], argv, env);
		return;
	}
	for (p = path; p != NULL; p = *end == ':' ? end + 1 : NULL) {
		end = strchrnul(p, ':');
		if (snprintf(file, sizeof(file), "%.*s%s%s", (int)(end - p), p,
		    end > p ? "/" : "", argv[0]) >= (int)sizeof(file))
			continue;
		exec_file(file, argv, env);
		if (errno != ENOENT && errno != ENOTDIR)
			error = errno;
	}
	errno = error;
}

/* The shell of somebody who named no command.  Returns only on failure. */
static void
exec_login(char **env)
{
	static char bash[] = "bash", sh[] = "sh", login[] = "-l";
	char *argv[][3] = { { bash, login, NULL }, { sh, login, NULL } };

	for (size_t i = 0; i < SBX_NELEM(argv); i++)
		exec_in_path(argv[i], env);
}

/*
 * Whatever the suite's starter was started with.  By the kernel's own call:
 * libc keeps two numbers to itself and refuses them.  SIGKILL and SIGSTOP are
 * refused by the kernel.
 */
static void
default_signals(void)
{
	static const unsigned long none[4]; /* SIG_DFL, flags, restorer, mask */

	for (int sig = 1; sig <= 64; sig++)
		(void)syscall(SYS_rt_sigaction, sig, none, NULL, 8);
}

/*
 * From vfork(2), until its exec: it may write here what it likes, since the
 * supervisor reads none of it again, and does not return.
 */
static _Noreturn void
command(struct init *in, const struct sbx_init_exec *q, const int fds[3],
    int err_fd, bool tty)
{
	static char *argv[MAX_ARGV + 1], *env[MAX_ENV + 1];
	const char *s = NULL;
	char where[192];
	size_t n = 0;
	sigset_t none;

	(void)setsid();
	/* stdin is a memfd that was just written; a pipe refuses this */
	(void)lseek(fds[0], 0, SEEK_SET);
	for (int i = 0; i < 3; i++)
		if (dup2(fds[i], i) == -1)
			exec_failed(err_fd, errno, "dup2");
	if (tty && ioctl(0, TIOCSCTTY, 0) == -1)
		exec_failed(err_fd, errno, "ioctl: TIOCSCTTY");
	(void)close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
	if (chdir(q->cwd) == -1) {
		(void)snprintf(where, sizeof(where),
		    "working directory %.150s", q->cwd);
		exec_failed(err_fd, errno, where);
	}
	limit(RLIMIT_NOFILE, in->nofile, err_fd, "setrlimit: RLIMIT_NOFILE");
	limit(RLIMIT_NPROC, in->nproc, err_fd, "setrlimit: RLIMIT_NPROC");
	/* these are counted once more for all sandboxes together, so one of
	 * them must not take it all (Linux 5.14, ucounts) */
	limit_to(RLIMIT_SIGPENDING, MAX_SIGPENDING, err_fd,
	    "setrlimit: RLIMIT_SIGPENDING");
	limit_to(RLIMIT_MSGQUEUE, MAX_MSGQUEUE, err_fd,
	    "setrlimit: RLIMIT_MSGQUEUE");
	limit_to(RLIMIT_MEMLOCK, MAX_MEMLOCK, err_fd,
	    "setrlimit: RLIMIT_MEMLOCK");
	while (n < MAX_ARGV && (s = sbx_strs_next(&q->argv, s)) != NULL)
		argv[n++] = (char *)(uintptr_t)s;
	n = 0;
	for (size_t i = 0; in->env[i] != NULL; i++)
		set_env(env, &n, in->env[i]);
	for (s = NULL; (s = sbx_strs_next(&q->env, s)) != NULL;)
		if (strchr(s, '=') != NULL)
			set_env(env, &n, (char *)(uintptr_t)s);
	env[n] = NULL;
	if (q->by_ns != 0 && sbx_mono_ns() > q->by_ns)
		exec_failed(err_fd, ETIMEDOUT, "not started, since nobody "
		    "waits for it any more");
	default_signals();
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)umask(022);
	if (argv[0] == NULL)
		exec_login(env);
	else
		exec_in_path(argv, env);
	(void)snprintf(where, sizeof(where), "cannot execute %.150s",
	    argv[0] != NULL ? argv[0] : "bash or sh");
	exec_failed(err_fd, errno, where);
}

/* --- in the supervisor ---------------------------------------------------- */

/*
 * Parent and subreaper of one run: every orphan of the tree falls to it, so
 * the tree stays below it whatever forks and setsids.  It has no exec, since
 * that would make it dumpable, and takes no signal but the two that nobody
 * can refuse.
 */
static _Noreturn void
supervise(struct init *in, const struct sbx_init_exec *q, const int fds[3],
    int report_fd, bool tty)
{
	struct report r = { .what = 'S' };
	int ep[2], status;
	pid_t pid, got;

	(void)prctl(PR_SET_NAME, "sbx-job");
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) == -1 ||
	    pipe2(ep, O_CLOEXEC) == -1 || (pid = vfork()) == -1)
		exec_failed(report_fd, errno, "vfork");
	if (pid == 0)
		command(in, q, fds, ep[1], tty);
	(void)close(ep[1]);
	/* of PID 1's descriptors only the report is kept */
	if (dup2(report_fd, 3) == -1 || dup2(ep[0], 4) == -1)
		_exit(1);
	(void)close_range(5, ~0u, 0);
	if (read(4, &r, sizeof(r)) != (ssize_t)sizeof(r))
		r = (struct report){ .what = 'S' };
	(void)close(4);
	(void)!write(3, &r, sizeof(r));
	for (;;) {
		got = wait(&status);
		if (got == -1 && errno == EINTR)
			continue;
		if (got == -1)
			_exit(0);
		if (got != pid || r.what == 'E')
			continue;
		r = (struct report){ .what = 'X', .value = status };
		(void)!write(3, &r, sizeof(r));
	}
}

/* --- in PID 1 ---------------------------------------------------------------- */

static void
started(const char *run, uint32_t id, int error, const char *where)
{
	char text[250] = "";
	struct sbx_init_exec_started m = { .run = run, .error = error,
		.reason = text };

	if (error != 0)
		(void)snprintf(text, sizeof(text), "%s: %s", where,
		    strerror(error));
	init_send(SBX_MSG_INIT_EXEC_STARTED, id, &m, NULL);
}

void
job_never_started(const char *run, uint32_t id, int error, const char *where)
{
	struct sbx_init_gone gone = { .run = run };

	started(run, id, error, where);
	init_send(SBX_MSG_INIT_GONE, 0, &gone, NULL);
}

/*
 * When memory is used up a job is to be killed before PID 1, whose end is the
 * sandbox's; a guest can lower its own to ours, and then risks its sandbox.
 * A child inherits it, so we have it for a moment: nothing else can give it
 * to a process that nobody may look into.
 */
static void
expendable(const struct init *in, bool yes)
{
	const char *text = yes ? "800" : "0";

	if (in->oom_fd != -1)
		(void)!write(in->oom_fd, text, strlen(text));
}

void
job_start(struct init *in, const struct sbx_init_exec *q, int fds[3],
    uint32_t id, bool tty)
{
	struct job *j = NULL;
	int rp[2] = { -1, -1 };
	pid_t pid;

	for (size_t i = 0; i < SBX_NELEM(in->jobs) && j == NULL; i++)
		if (in->jobs[i].run[0] == '\0')
			j = &in->jobs[i];
	if (j == NULL || job_find(in, q->run) != NULL ||
	    sbx_strlcpy(j->run, q->run, sizeof(j->run)) != 0) {
		job_never_started(q->run, id, EAGAIN,
		    "too many runs in this sandbox");
		return;
	}
	expendable(in, true);
	if (pipe2(rp, O_CLOEXEC) == -1 ||
	    fcntl(rp[0], F_SETFL, O_NONBLOCK) == -1 || (pid = fork()) == -1) {
		int e = errno;

		expendable(in, false);
		sbx_close(&rp[0]);
		sbx_close(&rp[1]);
		j->run[0] = '\0';
		job_never_started(q->run, id, e, "fork in the sandbox");
		return;
	}
	if (pid == 0)
		supervise(in, q, fds, rp[1], tty);
	expendable(in, false);
	(void)close(rp[1]);
	*j = (struct job){ .supervisor = pid, .report_fd = rp[0] };
	(void)sbx_strlcpy(j->run, q->run, sizeof(j->run));
}

/*
 * What the supervisor wrote.  Guests cannot: they never have this pipe.  Not
 * waited for: a command that a guest stopped before its exec still holds the
 * other end.
 */
void
job_report(struct init *in, struct job *j)
{
	struct report r;
	ssize_t n = read(j->report_fd, &r, sizeof(r));

	(void)in;
	if (n == -1 && (errno == EINTR || (errno == EAGAIN && j->supervisor)))
		return;
	if (n != (ssize_t)sizeof(r)) {
		sbx_close(&j->report_fd);
		return;
	}
	r.where[sizeof(r.where) - 1] = '\0';
	if (r.what == 'X') {
		struct sbx_init_exited m = { .run = j->run, .status = r.value,
			.why = j->killing ? SBX_EXIT_KILLED : SBX_EXIT_EXITED };

		j->exited = true;
		init_send(SBX_MSG_INIT_EXITED, 0, &m, NULL);
		return;
	}
	j->started = true;
	j->exited = r.what == 'E';	/* then no INIT_EXITED follows */
	started(j->run, 0, r.what == 'E' ? r.value : 0, r.where);
}

/* Nothing of the run lives: say so, in the order that the engine expects. */
void
job_gone(struct init *in, struct job *j)
{
	struct sbx_init_gone gone = { .run = j->run };
	struct sbx_init_exited end = { .run = j->run, .status = SIGKILL,
		.why = SBX_EXIT_KILLED };
	struct sbx_init_killed killed = { .run = j->run, .killed = j->killed };

	(void)in;
	/* Killed by a signal before it could say so: only the command itself
	 * can have done that, so it was started. */
	if (!j->started)
		started(j->run, 0, j->orphaned ? 0 : EIO,
		    "the run's supervisor ended");
	if (!j->exited && (j->started || j->orphaned))
		init_send(SBX_MSG_INIT_EXITED, 0, &end, NULL);
	if (j->killing)
		init_send(SBX_MSG_INIT_KILLED, j->kill_id, &killed, NULL);
	init_send(SBX_MSG_INIT_GONE, 0, &gone, NULL);
	*j = (struct job){ .report_fd = -1 };
}

/*
 * A supervisor ended.  By itself: nothing of the run lives.  Killed by a
 * guest (they share its uid): its orphans are PID 1's children now, and the
 * run ends when they are dead.
 */
void
job_reaped(struct init *in, pid_t pid, int status)
{
	struct job *j = NULL;

	for (size_t i = 0; i < SBX_NELEM(in->jobs); i++)
		if (in->jobs[i].run[0] != '\0' && !in->jobs[i].orphaned &&
		    in->jobs[i].supervisor == pid)
			j = &in->jobs[i];
	if (j == NULL)
		return;		/* a helper, or somebody's orphan */
	j->supervisor = 0;
	while (j->report_fd != -1)
		job_report(in, j);
	if (WIFEXITED(status)) {
		job_gone(in, j);
		return;
	}
	j->orphaned = true;
	kill_orphans(in);
}
