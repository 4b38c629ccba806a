#include "common/base/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
	if (waitpid(helper, &status, 0) == helper && status == 0)
		return (0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 127)
		return (sbx_err_set(err, SBX_E_SYS, "%s failed", program));
	(void)sbx_err_set(err, SBX_E_SYS, "there is no %s (Debian: package "
	    "uidmap)", program);
	err->sys_errno = ENOENT;
	return (SBX_E_SYS);
}

/* The numbers inside are those of the uids; a file's group has the same. */
static int
map(const struct owner *o, pid_t pid, const char **ret_call,
    struct sbx_err *err)
{
	const struct sbx_subids *s = &o->range;
	int r;

	*ret_call = o->by_root ? "write(/proc/PID/gid_map)" :
	    "execvp(newgidmap)";
	r = o->by_root ? write_map(pid, "gid_map", o->gid, s->uid, s->gid,
	    s->n, err) : run_helper("newgidmap", pid, o->gid, s->uid, s->gid,
	    s->n, err);
	if (r < 0)
		return (r);
	*ret_call = o->by_root ? "write(/proc/PID/uid_map)" :
	    "execvp(newuidmap)";
	return (o->by_root ? write_map(pid, "uid_map", o->uid, s->uid, s->uid,
	    s->n, err) : run_helper("newuidmap", pid, o->uid, s->uid, s->uid,
	    s->n, err));
}

/* Of the child, which is ready: the descriptor. */
static int
open_namespace(pid_t pid, int *ret_fd, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *path = NULL;

	path = sbx_xasprintf("/proc/%d/ns/user", (int)pid);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	return (*ret_fd == -1 ? sbx_err_sys(err, "%s", path) : 0);
}

int
sbx_userns_make(uid_t uid, gid_t gid, const struct sbx_subids *range,
    int *ret_fd, const char **ret_call, struct sbx_err *err)
{
	const struct owner own = { .uid = uid, .gid = gid,
		.by_root = geteuid() == 0, .range = *range };
	const char *call = "pipe2";
	int pipefd[2], r, status;
	pid_t pid = -1;

	if (pipe2(pipefd, O_CLOEXEC) == -1) {
		pipefd[0] = -1;
		r = sbx_err_sys(err, "pipe");
	} else {
		call = "fork";
		if ((pid = fork()) == 0)
			hold_namespace(&own, pipefd[1]);
		sbx_close(&pipefd[1]);
		r = pid == -1 ? sbx_err_sys(err, "fork") : 0;
	}
	if (r == 0) {
		call = "unshare(CLONE_NEWUSER)";
		if (!wait_ready(pipefd[0]))
			r = sbx_err_set(err, SBX_E_UNSUPPORTED, "no user "
			    "namespace can be made (see what 'sbx doctor' "
			    "says)");
	}
	if (r == 0)
		r = map(&own, pid, &call, err);
	if (r == 0) {
		call = "open(/proc/PID/ns/user)";
		r = open_namespace(pid, ret_fd, err);
	}
	sbx_close(&pipefd[0]);
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, &status, 0);
	}
	if (ret_call != NULL)
		*ret_call = call;
	return (r);
}
