/*
 * What the running kernel must offer, tried for real: each prerequisite in a
 * child of its own, so that nothing of it stays.
 */

#include "common/privs/privs.h"

#include "common/base/limits.h"
#include "common/privs/row.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

/* What a child reports: the call that failed, and its errno. */
struct report {
	char call[64];
	int error;
};

/* Record a failed call; the return value ends the child's work. */
static int
failed(struct report *rep, const char *call)
{
	rep->error = errno;
	(void)sbx_strlcpy(rep->call, call, sizeof(rep->call));
	return (-1);
}

/* Asked for the action that every allowlist ends with, not for a filter. */
static int
try_seccomp(struct report *rep)
{
	uint32_t action = SECCOMP_RET_KILL_PROCESS;

	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0)
		return (failed(rep, "seccomp(SECCOMP_GET_ACTION_AVAIL, "
		    "KILL_PROCESS)"));
	return (0);
}

static int
try_landlock(struct report *rep)
{
	int why;

	if (sbx_privs_landlock_abi(&why) >= 1)
		return (0);
	errno = why;
	return (failed(rep, "landlock_create_ruleset"));
}

/* Some containers' seccomp profiles do not know the call, and say ENOSYS. */
static int
try_openat2(struct report *rep)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how));

	if (fd < 0)
		return (failed(rep, "openat2(RESOLVE_BENEATH)"));
	(void)close(fd); /* the child ends next */
	return (0);
}

static int
try_pidfd(struct report *rep)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0)
		return (failed(rep, "pidfd_open"));
	(void)close(fd); /* the child ends next */
	return (0);
}

static int
try_memfd(struct report *rep)
{
	int fd = memfd_create("check", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return (failed(rep, "memfd_create"));
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return (failed(rep, "fcntl(F_ADD_SEALS)"));
	(void)close(fd); /* the child ends next */
	return (0);
}

/* Room for a sandbox's limit and the gap above it, at least. */
static int
try_nofile(struct report *rep)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 &&
	    lim.rlim_max >= 2 * SBX_NOFILE_GAP)
		return (0);
	errno = EMFILE;
	return (failed(rep, "getrlimit(RLIMIT_NOFILE)"));
}

/* As the engine: its user when started by root, its namespaces. */
static int
enter_outer(struct report *rep)
{
	struct passwd *pw;
	uid_t uid = NOBODY;
	gid_t gid = NOBODY;
	struct sbx_err err = { 0 };

	if (geteuid() == 0) {
		if ((pw = getpwnam("sbxd")) != NULL && pw->pw_uid != 0) {
			uid = pw->pw_uid;
			gid = pw->pw_gid;
		}
		if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
		    setresuid(uid, uid, uid) < 0)
			return (failed(rep, "setresuid"));
	}
	if (sbx_privs_namespaces(NULL, &err) < 0) {
		errno = err.sys_errno;
		return (failed(rep, "unshare(CLONE_NEWUSER | CLONE_NEWNET)"));
	}
	return (0);
}

static int
try_userns(struct report *rep)
{
	return (enter_outer(rep));
}

static int
write_map(struct report *rep, const char *path, const char *text)
{
	SBX_CLEANUP(fd) int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || sbx_write_all(fd, text, strlen(text)) < 0)
		return (failed(rep, path));
	return (0);
}

/* The second level: what a sandbox's first process does. */
static int
enter_inner(struct report *rep)
{
	char uids[64], gids[64];

	(void)snprintf(uids, sizeof(uids), "1000 %u 1\n", geteuid());
	(void)snprintf(gids, sizeof(gids), "1000 %u 1\n", getegid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
	    CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) < 0)
		return (failed(rep, "unshare of a sandbox's namespaces"));
	/* Not dumpable since the uid changed: /proc/self would be root's. */
	if (prctl(PR_SET_DUMPABLE, 1) < 0)
		return (failed(rep, "prctl(PR_SET_DUMPABLE)"));
	if (write_map(rep, "/proc/self/gid_map", gids) < 0 ||
	    write_map(rep, "/proc/self/uid_map", uids) < 0)
		return (-1);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return (failed(rep, "mount(/, MS_PRIVATE)"));
	return (0);
}

/* userxattr is what makes overlay usable without privilege (Linux 5.11). */
static int
try_overlay(struct report *rep)
{
	if (enter_outer(rep) < 0 || enter_inner(rep) < 0)
		return (-1);
	if (mount("tmpfs", "/tmp", "tmpfs", 0, NULL) < 0)
		return (failed(rep, "mount(tmpfs) in a user namespace"));
	if (mkdir("/tmp/l", 0700) < 0 || mkdir("/tmp/u", 0700) < 0 ||
	    mkdir("/tmp/w", 0700) < 0 || mkdir("/tmp/m", 0700) < 0)
		return (failed(rep, "mkdir"));
	if (mount("overlay", "/tmp/m", "overlay", 0,
	    "lowerdir=/tmp/l,upperdir=/tmp/u,workdir=/tmp/w,userxattr") < 0)
		return (failed(rep, "mount(overlay, userxattr) in a user "
		    "namespace"));
	return (0);
}

/* The kernel refuses a new proc while the visible one is covered in places:
 * a new one would show what the mounts hide. */
static int
try_proc(struct report *rep)
{
	int status;
	pid_t pid;

	if (enter_outer(rep) < 0 || enter_inner(rep) < 0)
		return (-1);
	/* Only a child is in the new pid namespace. */
	if ((pid = fork()) < 0)
		return (failed(rep, "fork"));
	if (pid == 0)
		_exit(mount("proc", "/proc", "proc", 0, NULL) < 0 ? errno : 0);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return (failed(rep, "waitpid"));
	errno = WEXITSTATUS(status);
	return (errno == 0 ? 0 : failed(rep, "mount(proc) in a nested user "
	    "namespace"));
}

static const struct {
	const char *what;
	int (*fn)(struct report *rep);
	const char *mend;
} checks[] = {
	{ "seccomp filters", try_seccomp,
	    "build the kernel with CONFIG_SECCOMP_FILTER (Linux 4.14)" },
	{ "Landlock", try_landlock,
	    "boot Linux 5.13 or newer with \"landlock\" in its lsm= list" },
	{ "openat2", try_openat2, "boot Linux 5.6 or newer, or let the "
	    "container's own seccomp profile pass openat2" },
	{ "pidfds", try_pidfd, "boot Linux 5.3 or newer" },
	{ "sealed memfds", try_memfd,
	    "boot Linux 3.17 or newer; set vm.memfd_noexec below 2" },
	{ "open files", try_nofile,
	    "raise the hard limit: ulimit -Hn 4096 or more" },
	{ "user namespaces", try_userns,
	    "sysctl user.max_user_namespaces=10000; "
	    "kernel.unprivileged_userns_clone=1 (Debian); an AppArmor profile "
	    "with \"userns,\" or "
	    "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)" },
	{ "overlay in a user namespace", try_overlay,
	    "boot Linux 5.11 or newer and load the overlay module" },
	{ "proc in a user namespace", try_proc,
	    "leave the host's /proc without other mounts on it: unset "
	    "ProtectKernelTunables= and ProtectKernelLogs=, or run the "
	    "surrounding container with an unmasked /proc" },
};

/* Run one in a child.  true when it works. */
static bool
run_check(int (*fn)(struct report *), struct report *rep)
{
	int p[2], status;
	ssize_t n;
	pid_t pid;

	*rep = (struct report){ 0 };
	if (pipe2(p, O_CLOEXEC) < 0) {
		(void)failed(rep, "pipe2");
		return (false);
	}
	if ((pid = fork()) == 0) {
		(void)fn(rep);
		(void)!write(p[1], rep, sizeof(*rep)); /* short: caught below */
		_exit(0);
	}
	(void)close(p[1]); /* only the child writes */
	n = pid < 0 ? -1 : read(p[0], rep, sizeof(*rep));
	(void)close(p[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid ||
	    n != (ssize_t)sizeof(*rep)) {
		(void)failed(rep, "fork of a check");
		return (false);
	}
	return (rep->error == 0);
}

static int
check_users(struct sbx_buf *b)
{
	static const char *const users[] = { "sbxd", "sbx-front",
		"sbx-broker", "sbx-proxy", "sbx-journal" };
	int missing = 0;

	if (geteuid() != 0)
		return (0);
	for (size_t i = 0; i < SBX_NELEM(users); i++) {
		if (getpwnam(users[i]) != NULL)
			continue;
		(void)sbx_buf_printf(b, "user %s: getpwnam: no such user: "
		    "systemd-sysusers sbx.conf, or useradd --system "
		    "--user-group %s\n", users[i], users[i]);
		missing++;
	}
	return (missing);
}

int
sbx_privs_check_kernel(struct sbx_buf *b)
{
	struct report rep;
	int missing = 0;

	for (size_t i = 0; i < SBX_NELEM(checks); i++) {
		if (run_check(checks[i].fn, &rep))
			continue;
		(void)sbx_buf_printf(b, "%s: %s: %s: %s\n", checks[i].what,
		    rep.call, strerror(rep.error), checks[i].mend);
		missing++;
	}
	return (missing + check_users(b));
}
