/*
 * The user namespace that sandboxes are made in.  Its map is the suite's own
 * id and, where the operator gave ids for that (subuid(5)), a range of which
 * each sandbox gets one.  Only now may a map of more than one id be written:
 * by root, or for the caller by newuidmap(1), which is set-user-ID.
 *
 * Where there is no range the engine makes a namespace by itself, and all
 * sandboxes share its one id: they are kept apart by the other namespaces.
 */
#include "sbxd/monitor/monitor.h"

#include "common/base/paths.h"
#include "common/base/subid.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELPER_MS 5000		/* a directory service may have to be asked */

/* Of the namespace: the ids that it belongs to, and the range. */
struct owner {
	const char *user;
	uid_t uid;
	gid_t gid;
	bool by_root;
	struct sbx_subids range;
};

/* In the child, which only waits to be killed: it is the namespace until the
 * descriptor is open.  Async-signal-safe calls only. */
static _Noreturn void
hold_namespace(const struct owner *o, int ready)
{
	char ok = 1;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (o->by_root && (setresgid(o->gid, o->gid, o->gid) == -1 ||
	    setresuid(o->uid, o->uid, o->uid) == -1))
		_exit(1);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* newuidmap looks whose /proc/PID is; root needs no such thing */
	if (unshare(CLONE_NEWUSER) == -1 ||
	    (!o->by_root && prctl(PR_SET_DUMPABLE, 1) == -1) ||
	    write(ready, &ok, 1) != 1)
		_exit(1);
	for (;;)
		(void)pause();
}

/* Has it made the namespace? */
static bool
wait_ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char ok;

	return (poll(&p, 1, HELPER_MS) == 1 && read(fd, &ok, 1) == 1);
}

static int
write_map(pid_t pid, const char *name, uint32_t own, uint32_t inside,
    uint32_t outside, uint32_t n, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *path = NULL;
	char SBX_CLEANUP(free) *text = NULL;
	int SBX_CLEANUP(fd) fd = -1;

	path = sbx_xasprintf("/proc/%d/%s", (int)pid, name);
	text = sbx_xasprintf("%u %u 1\n%u %u %u\n", own, own, inside, outside,
	    n);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd == -1 || sbx_write_all(fd, text, strlen(text)) != 0)
		return (sbx_err_sys(err, "%s", path));
	return (0);
}

/* Run newuidmap or newgidmap.  It is found where the caller finds it: it can
 * do nothing that he could not have it do by himself. */
static int
run_helper(const char *program, pid_t pid, uint32_t own, uint32_t inside,
    uint32_t outside, uint32_t n, struct sbx_err *err)
{
	char text[6][16];
	char *argv[9] = { (char *)(uintptr_t)program, text[0], text[1],
		text[1], (char *)(uintptr_t)"1", text[2], text[3], text[4] };
	struct pollfd p = { .events = POLLIN };
	int SBX_CLEANUP(fd) pidfd = -1;
	int status = 0;
	pid_t helper;

	(void)snprintf(text[0], sizeof(text[0]), "%d", (int)pid);
	(void)snprintf(text[1], sizeof(text[1]), "%u", own);
	(void)snprintf(text[2], sizeof(text[2]), "%u", inside);
	(void)snprintf(text[3], sizeof(text[3]), "%u", outside);
	(void)snprintf(text[4], sizeof(text[4]), "%u", n);
	if ((helper = fork()) == -1)
		return (sbx_err_sys(err, "fork"));
	if (helper == 0) {
		(void)execvp(program, argv);
		_exit(errno == ENOENT ? 127 : 126);
	}
	p.fd = pidfd = (int)syscall(SYS_pidfd_open, helper, 0);
	if (pidfd == -1 || poll(&p, 1, HELPER_MS) != 1)
		(void)kill(helper, SIGKILL);
	if (waitpid(helper, &status, 0) != helper || status != 0)
		return (sbx_err_set(err, SBX_E_SYS, WIFEXITED(status) &&
		    WEXITSTATUS(status) == 127 ? "there is no %s (Debian: "
		    "package uidmap)" : "%s failed", program));
	return (0);
}

/* The numbers inside are those of the uids; a file's group has the same. */
static int
map(const struct owner *o, pid_t pid, struct sbx_err *err)
{
	const struct sbx_subids *s = &o->range;
	int r;

	if (o->by_root) {
		r = write_map(pid, "gid_map", o->gid, s->uid, s->gid, s->n,
		    err);
		return (r < 0 ? r : write_map(pid, "uid_map", o->uid, s->uid,
		    s->uid, s->n, err));
	}
	r = run_helper("newgidmap", pid, o->gid, s->uid, s->gid, s->n, err);
	return (r < 0 ? r : run_helper("newuidmap", pid, o->uid, s->uid,
	    s->uid, s->n, err));
}

static int
make(const struct owner *o, int *ret_fd, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *path = NULL;
	int pipefd[2], r = 0, status;
	pid_t pid;

	if (pipe2(pipefd, O_CLOEXEC) == -1)
		return (sbx_err_sys(err, "pipe"));
	if ((pid = fork()) == 0)
		hold_namespace(o, pipefd[1]);
	sbx_close(&pipefd[1]);
	if (pid == -1)
		r = sbx_err_sys(err, "fork");
	else if (!wait_ready(pipefd[0]))
		r = sbx_err_set(err, SBX_E_UNSUPPORTED, "no user namespace can "
		    "be made (see what 'sbx doctor' says)");
	else if ((r = map(o, pid, err)) == 0) {
		path = sbx_xasprintf("/proc/%d/ns/user", (int)pid);
		*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
		if (*ret_fd == -1)
			r = sbx_err_sys(err, "%s", path);
	}
	sbx_close(&pipefd[0]);
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, &status, 0);
	}
	return (r);
}

/* A suite takes its own part of the range, so that two do not meet, unless
 * the range is too small for that. */
static void
take_part(struct sbx_subids *s, unsigned slot)
{
	uint32_t part = s->n / SBX_MAX_SLOTS;

	if (part < SBX_SUBIDS_MIN)
		return;
	s->uid += slot * part;
	s->gid += slot * part;
	s->n = part;
}

static bool
in_range(uint32_t id, const struct sbx_subids *s)
{
	return (id - s->uid < s->n || id - s->gid < s->n);
}

static int
with_range(struct monitor *m, uid_t uid, gid_t gid, struct sbx_err *err)
{
	struct owner o = { .uid = uid, .gid = gid, .by_root = m->by_root };
	const struct passwd *pw = getpwuid(uid);
	int r;

	o.user = pw != NULL ? pw->pw_name : "";
	if ((r = sbx_subids(o.user, uid, &o.range, err)) < 0)
		return (r);
	take_part(&o.range, m->slot);
	if (in_range(uid, &o.range) || in_range(gid, &o.range))
		return (sbx_err_set(err, SBX_E_POLICY, "the range of user "
		    "%.64s in %s or %s holds his own id", o.user,
		    SBX_SUBUID_FILE, SBX_SUBGID_FILE));
	if ((r = make(&o, &m->fd_userns, err)) < 0)
		return (r);
	m->first_uid = o.range.uid;
	m->uids = o.range.n;
	return (0);
}

int
setup_userns(struct monitor *m, uid_t uid, gid_t gid, struct sbx_err *err)
{
	struct sbx_err why = { 0 };

	if (with_range(m, uid, gid, &why) == 0)
		return (0);
	log_notice("sandboxes share one user id: %s", why.msg);
	m->first_uid = m->uids = 0;
	/* the engine takes its own for: make one */
	m->fd_userns = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	if (m->fd_userns == -1)
		return (sbx_err_sys(err, "/proc/self/ns/user"));
	return (0);
}
