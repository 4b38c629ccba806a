/*
 * sbxd-starter: executes the programs of the suite.
 *
 * It is the one process that stays able to: the monitor is caged, and a cage
 * is inherited by what is executed in it.  It alone holds the directory of
 * the programs and, started by root, the power to change uid, by which each
 * child becomes its own user before it executes its program.  Only the monitor
 * talks to it, on descriptor 3.  It must never be able to run anything but the
 * eight programs of its table, to pass them arguments, an environment or a
 * descriptor of the monitor's choice beyond the one channel, or to outlive the
 * monitor.
 *
 * Calls beyond a plain loop: fork, execveat, waitpid, kill, signalfd4; it reads
 * the list of its own children.
 */

#include "common/base/log.h"
#include "common/privs/privs.h"
#include "config.h"
#include "sbxd/starter/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void
to_monitor(void *arg, enum sbx_log_level level, const char *text)
{
	struct starter *s = arg;
	struct sbx_log m = { .level = (uint8_t)level, .text = text };

	/* A failure to log cannot be logged. */
	(void)sbx_chan_send(&s->monitor, SBX_MSG_LOG, 0, &m, NULL,
	    STARTER_SEND_MS);
}

void
starter_end(struct starter *s)
{
	if (s->ending)
		return;
	s->ending = true;
	s->kill_at_ns = sbx_mono_ns() + STARTER_DRAIN_MS * 1000000ull;
}

void
starter_send(struct starter *s, uint16_t type, uint32_t id, const void *msg)
{
	if (s->monitor.fd >= 0 && sbx_chan_send(&s->monitor, type, id, msg,
	    NULL, STARTER_SEND_MS) < 0)
		starter_end(s);
}

/* The directory this program lies in, from the kernel's own name of it. */
static int
open_programs(void)
{
	char path[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	int fd;

	if (n < 0)
		sbx_fatal("readlink: /proc/self/exe: %s", strerror(errno));
	path[n] = '\0';
	if ((slash = strrchr(path, '/')) == NULL)
		sbx_fatal("/proc/self/exe: not a path");
	/* A directory that holds a program below / is never "". */
	*slash = '\0';
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		sbx_fatal("open: %s: %s", path, strerror(errno));
	return (fd);
}

static int
open_signals(void)
{
	sigset_t set;
	int fd;

	(void)sigemptyset(&set); /* these cannot fail */
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0 ||
	    (fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
		sbx_fatal("signalfd: %s", strerror(errno));
	return (fd);
}

static void
on_signals(struct starter *s)
{
	struct signalfd_siginfo si;

	while (read(s->signals, &si, sizeof(si)) == (ssize_t)sizeof(si))
		if (si.ssi_signo != SIGCHLD)
			starter_end(s);
	child_reap(s);
}

/* Until the next thing to do by the clock; -1: nothing. */
static int
timeout_ms(const struct starter *s)
{
	uint64_t now = sbx_mono_ns();

	if (!s->ending)
		return (-1);
	if (now >= s->kill_at_ns)
		return (20); /* killed; their end is a SIGCHLD away */
	return ((int)((s->kill_at_ns - now) / 1000000) + 1);
}

static void
serve(struct starter *s)
{
	struct pollfd pfd[2] = {
		{ .fd = s->signals, .events = POLLIN },
		{ .fd = s->monitor.fd, .events = POLLIN },
	};

	while (!s->ending || s->nchildren > 0) {
		if (s->ending && sbx_mono_ns() >= s->kill_at_ns)
			child_kill_all(s);
		pfd[1].fd = s->monitor.fd; /* negative: not looked at */
		if (poll(pfd, 2, timeout_ms(s)) < 0 && errno != EINTR)
			sbx_fatal("poll: %s", strerror(errno));
		if (pfd[0].revents != 0)
			on_signals(s);
		if (s->monitor.fd >= 0 && pfd[1].revents != 0 &&
		    from_monitor(s) < 0) {
			sbx_close(&s->monitor.fd);
			starter_end(s);
		}
	}
}

/*
 * Whoever of the monitor and the engine was killed: the last of the suite's
 * processes that lives takes its groups away.  Their processes are gone or
 * going, since the engine is dead.
 */
static void
remove_groups(struct starter *s)
{
	int r;

	for (int h = 0; h < SBX_CGROUP_MAX; h++) {
		if (s->groups[h].dir == -1)
			continue;
		r = sbx_cgroup_remove(s->groups[h].dir, s->groups[h].name,
		    STARTER_GROUPS_MS);
		if (r != 0 && r != SBX_E_NOENT)
			log_warn("control group %s of %s stays until the next "
			    "start: %s, ignoring", s->groups[h].name,
			    sbx_cgroup_name((enum sbx_hierarchy)h),
			    sbx_error_name(r));
	}
}

static void
cage(struct starter *s)
{
	struct sbx_hello hello = { .version = PACKAGE_VERSION,
		.pid = (uint32_t)getpid() };
	struct sbx_err err = { 0 };

	if (sbx_privs_users(&err) < 0 || sbx_privs_enter(SBX_PROC_STARTER,
	    NULL, &hello.features, &err) < 0)
		sbx_fatal("%s", err.msg);
	starter_send(s, SBX_MSG_HELLO, 0, &hello);
	sbx_log_to(to_monitor, s);
}

int
main(int argc, char **argv)
{
	static const struct sbx_accepts *const lists[] = {
		&starter_from_monitor, NULL,
	};
	struct starter s = { .programs = -1, .signals = -1 };

	for (int h = 0; h < SBX_CGROUP_MAX; h++)
		s.groups[h].dir = -1;
	sbx_accepts_print(argc, argv, NULL, lists);
	sbx_privs_early();
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-d") != 0) {
			(void)fprintf(stderr, "usage: sbxd-starter [-d] "
			    "(started by sbxd)\n");
			return (1);
		}
		s.debug = true;
	}
	sbx_log_init("sbxd-starter", s.debug ? SBX_LOG_DEBUG : SBX_LOG_INFO);
	/* Away from the terminal: an interrupt there is for the monitor, which
	 * then ends the suite in order.  Fails for a group leader only, which
	 * then has a group of its own already. */
	(void)setsid();
	/* what a killed program leaves comes to us, not to init(8) */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		sbx_fatal("prctl: PR_SET_CHILD_SUBREAPER: %s", strerror(errno));
	s.programs = open_programs();
	s.signals = open_signals();
	sbx_chan_init(&s.monitor, 3, SBX_PROC_STARTER, SBX_PROC_MONITOR);
	cage(&s);
	serve(&s);
	sbx_log_to(NULL, NULL);
	child_end_left(&s, STARTER_LEFT_MS);
	remove_groups(&s);
	sbx_chan_clear(&s.monitor);
	return (0);
}
