/*
 * sbx-broker-command: one run of the operator's own command that prints a
 * token.
 *
 * It alone runs a program of the operator's that may use the network, a keyring
 * or files: the one documented exception to the rule that only the proxy dials.
 * It is told what to run by the monitor, once, and what is printed goes to the
 * broker, over a channel that the monitor brings.  It must never be able to
 * hear of another credential, or pass on more than one.
 *
 * The program gets no shell, no input, no descriptor but its output, and an
 * environment of three variables; what it prints as an error is dropped, since
 * that may hold the secret.
 */

#include "common/base/log.h"
#include "common/base/secret.h"
#include "common/privs/privs.h"
#include "common/privs/start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_MAX 4096u	/* of all that it prints */
#define TOKEN_MIN 20u
#define TOKEN_MAX 2048u		/* COMMAND_TOKEN.token */
#define TIMEOUT_MAX_MS 300000u
#define TICK_MS 20		/* how soon its end is seen */
#define SEND_MS 5000
#define KILL_MS 2000		/* for the end of all that it left */
#define PATH_FIXED "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:" \
	"/sbin:/bin"

static const uint16_t start_types[] = { SBX_MSG_COMMAND_START, 0 };
static const struct sbx_accepts start_list = {
	SBX_PROC_COMMAND, SBX_PROC_MONITOR, start_types,
};

struct run {
	char **argv;		/* owned; the strings are the message's */
	uint64_t by_ns;
	pid_t pid;
	int out, failed;	/* owned; read ends */
	int broker;		/* borrowed; its end is that of all this */
	struct sbx_secret *text;	/* owned */
	int error;		/* enum sbx_error */
	char reason[256];
};

static int SBX_PRINTF(3, 4)
no_token(struct run *r, int error, const char *fmt, ...)
{
	va_list ap;

	r->error = error;
	va_start(ap, fmt);
	(void)vsnprintf(r->reason, sizeof(r->reason), fmt, ap); /* cut */
	va_end(ap);
	return (error);
}

/* --- the program -------------------------------------------------------------------- */

/* In the child: nothing is held but the two pipes, and it dies with us. */
static void
become(struct run *r, char *const *env, int out, int failed)
{
	int null = open("/dev/null", O_RDWR);

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && setpgid(0, 0) == 0 &&
	    null >= 0 && dup2(null, 0) >= 0 && dup2(null, 2) >= 0 &&
	    dup2(out, 1) >= 0 && dup2(failed, 3) >= 0 &&
	    fcntl(3, F_SETFD, FD_CLOEXEC) == 0 &&
	    close_range(4, ~0U, 0) == 0 &&
	    signal(SIGPIPE, SIG_DFL) != SIG_ERR)
		(void)execvpe(r->argv[0], r->argv, env);
	/* its reader says so; without one there is nobody to tell */
	(void)!write(3, &errno, sizeof(errno));
	_exit(127);
}

/* Both ends of a pipe, none of them 0 to 3. */
static int
make_pipe(int ret_fd[2])
{
	int fd[2], i;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return (SBX_E_SYS);
	for (i = 0; i < 2; i++) {
		ret_fd[i] = fcntl(fd[i], F_DUPFD_CLOEXEC, 10);
		sbx_close(&fd[i]);
	}
	return (ret_fd[0] < 0 || ret_fd[1] < 0 ||
	    fcntl(ret_fd[0], F_SETFL, O_NONBLOCK) < 0 ? SBX_E_SYS : 0);
}

static int
start(struct run *r)
{
	const struct passwd *pw = getpwuid(geteuid());
	SBX_CLEANUP(free) char *home = sbx_xasprintf("HOME=%s",
	    pw != NULL ? pw->pw_dir : "/");
	char path[] = "PATH=" PATH_FIXED, lang[] = "LANG=C";
	char *env[] = { path, home, lang, NULL };
	int out[2], failed[2];

	/* execvpe(3) looks where we would be found ourselves */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return (no_token(r, SBX_E_SYS, "prctl: %s", strerror(errno)));
	if (setenv("PATH", PATH_FIXED, 1) < 0 || make_pipe(out) < 0 ||
	    make_pipe(failed) < 0)
		return (no_token(r, SBX_E_SYS, "pipe: %s", strerror(errno)));
	if ((r->pid = fork()) == 0)
		become(r, env, out[1], failed[1]);
	sbx_close(&out[1]);
	sbx_close(&failed[1]);
	r->out = out[0];
	r->failed = failed[0];
	if (r->pid < 0)
		return (no_token(r, SBX_E_SYS, "fork: %s", strerror(errno)));
	/* also here, so that it is done before anybody kills the group */
	(void)setpgid(r->pid, r->pid); /* it may have executed already */
	return (0);
}

static void
kill_group(const struct run *r)
{
	/* Not reaped, so the number is nobody else's. */
	if (kill(-r->pid, SIGKILL) < 0)
		(void)kill(r->pid, SIGKILL); /* it has ended, then */
}

/*
 * What it left, in whatever session: all that loses its parent is ours (start).
 * The children of what is killed here come to us in turn.
 */
static void
kill_left(void)
{
	const uint64_t until = sbx_mono_ns() + KILL_MS * UINT64_C(1000000);
	pid_t pid = 1;
	FILE *f;

	while (pid >= 0 && sbx_mono_ns() < until) {
		if ((f = fopen("/proc/thread-self/children", "re")) == NULL)
			return;		/* a kernel without it */
		while (fscanf(f, "%d", &pid) == 1)
			(void)kill(pid, SIGKILL); /* or it has ended */
		(void)fclose(f);
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			;
		if (pid == 0)
			(void)poll(NULL, 0, 1);
	}
}

/* Has it ended?  It stays to be reaped. */
static bool
has_ended(const struct run *r)
{
	siginfo_t info = { .si_pid = 0 };

	return (waitid(P_PID, (id_t)r->pid, &info,
	    WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == r->pid);
}

/* All there is now.  1: there may be more later, 0: no more. */
static int
read_some(struct run *r)
{
	int n;

	while ((n = sbx_secret_read(r->text, r->out)) > 0)
		;
	if (n == SBX_E_LIMIT)
		return (no_token(r, SBX_E_LIMIT, "it prints more than %u "
		    "bytes", OUTPUT_MAX));
	if (n == SBX_E_SYS)
		return (no_token(r, SBX_E_SYS, "read: %s", strerror(errno)));
	return (n == 0 ? 0 : 1);
}

/* Until it ended, which counts, or its time is up.  What holds its output open
 * behind it is not waited for. */
static int
watch(struct run *r)
{
	bool open = true, ended;
	struct pollfd pfd[2] = { { .fd = r->broker },
	    { .fd = r->out, .events = POLLIN } };
	int n;

	for (;;) {
		ended = has_ended(r);	/* before the last look */
		if (open && (n = read_some(r)) < 0)
			return (n);
		else if (open)
			open = n > 0;
		if (ended)
			return (0);
		if (sbx_mono_ns() >= r->by_ns)
			return (no_token(r, SBX_E_TIMEOUT, "it did not end in "
			    "time (github_token_timeout)"));
		if (poll(pfd, open ? 2 : 1, TICK_MS) > 0 &&
		    (pfd[0].revents & (POLLHUP | POLLERR)) != 0)
			return (no_token(r, SBX_E_CLOSED, "nobody waits for "
			    "it any more"));
	}
}

/* How it ended: it is reaped here. */
static int
reap(struct run *r)
{
	int status = 0, why = 0;

	while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r->error != 0)
		return (r->error);
	if (read(r->failed, &why, sizeof(why)) == (ssize_t)sizeof(why))
		return (no_token(r, SBX_E_NOENT, "%.80s cannot be run by uid "
		    "%u: %s", r->argv[0], (unsigned)geteuid(), strerror(why)));
	if (WIFSIGNALED(status))
		return (no_token(r, SBX_E_CLOSED, "it was ended by signal %d",
		    WTERMSIG(status)));
	if (WEXITSTATUS(status) != 0)
		return (no_token(r, SBX_E_CLOSED, "%.80s, run by uid %u, ended "
		    "with %d", r->argv[0], (unsigned)geteuid(),
		    WEXITSTATUS(status)));
	return (0);
}

/* The broker looks again, with what it knows of the host. */
static int
check(struct run *r)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~+/=-";
	size_t len;

	sbx_secret_trim(r->text);
	len = sbx_secret_len(r->text);
	if (len == 0)
		return (no_token(r, SBX_E_SYNTAX, "it prints nothing"));
	if (len < TOKEN_MIN || len > TOKEN_MAX ||
	    strspn(sbx_secret_text(r->text), letters) != len)
		return (no_token(r, SBX_E_SYNTAX, "what it prints is no token "
		    "(%u to %u letters, digits and ._~+/=-)", TOKEN_MIN,
		    TOKEN_MAX));
	return (0);
}

static int
run(struct run *r, const struct sbx_command_start *m)
{
	struct sbx_err err = { 0 };
	const char *s = NULL;
	uint32_t i;
	int e;

	if (m->argv.count == 0 || m->timeout_ms == 0 ||
	    m->timeout_ms > TIMEOUT_MAX_MS)
		return (no_token(r, SBX_E_RANGE, "nothing to run, or for no "
		    "time"));
	r->by_ns = sbx_mono_ns() + m->timeout_ms * 1000000ull;
	r->argv = sbx_xcalloc(m->argv.count + 1, sizeof(*r->argv));
	for (i = 0; i < m->argv.count; i++) {
		s = sbx_strs_next(&m->argv, s);
		/* execve(2) does not write to them */
		r->argv[i] = (char *)(uintptr_t)s;
	}
	/* room for one more, so that the last one allowed is no overflow */
	if ((r->text = sbx_secret_new(OUTPUT_MAX + 1, &err)) == NULL)
		return (no_token(r, err.code, "%s", err.msg));
	if ((e = start(r)) < 0)
		return (e);
	(void)watch(r);	/* r->error has it */
	kill_group(r);
	e = reap(r);
	kill_left();
	return (e < 0 ? e : check(r));
}

/* fd: borrowed; the broker's. */
static int
answer(const struct run *r, int fd)
{
	struct sbx_command_token m = { .error = r->error, .token = "",
		.reason = r->reason };
	struct sbx_chan c;
	int e;

	if (r->error == 0)
		m.token = sbx_secret_text(r->text);
	sbx_chan_init(&c, fd, SBX_PROC_COMMAND, SBX_PROC_BROKER);
	e = sbx_chan_send(&c, SBX_MSG_COMMAND_TOKEN, 0, &m, NULL, SEND_MS);
	sbx_chan_clear(&c);
	return (e);
}

int
main(int argc, char **argv)
{
	static const struct sbx_program how = {
		.name = "sbx-broker-command", .list = &start_list,
	};
	struct run r = { .out = -1, .failed = -1, .broker = -1 };
	struct sbx_privs_args args = { .trap = false };
	struct sbx_err err = { 0 };
	uint32_t features;
	struct sbx_chan c;
	int fd, e;

	args.trap = sbx_program_start(argc, argv, &how, &c);
	fd = sbx_steal_fd(&c.in->fds[0]);
	if (sbx_privs_enter(SBX_PROC_COMMAND, &args, &features, &err) < 0)
		sbx_fatal("%s", err.msg);
	r.broker = fd;
	(void)run(&r, &c.in->m.command_start); /* r has it */
	e = answer(&r, fd);
	sbx_secret_free(r.text);
	free(r.argv);
	sbx_close(&r.out);
	sbx_close(&r.failed);
	sbx_chan_clear(&c);
	return (e == 0 ? 0 : 3);
}
