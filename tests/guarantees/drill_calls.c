/* Drills: calls that make namespaces, mounts, kernel objects or privileges. */
#include "drill.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *name;
	unsigned long flag;
} kinds[] = {
	{ "user", CLONE_NEWUSER }, { "mount", CLONE_NEWNS },
	{ "pid", CLONE_NEWPID }, { "net", CLONE_NEWNET },
	{ "ipc", CLONE_NEWIPC }, { "uts", CLONE_NEWUTS },
	{ "cgroup", CLONE_NEWCGROUP }, { "time", 0x80 },
	{ "user+mount", CLONE_NEWUSER | CLONE_NEWNS },
	{ "user+net", CLONE_NEWUSER | CLONE_NEWNET },
};

/* 0 or -errno of a call. */
static int
result(long r)
{
	return (r == -1 ? -errno : 0);
}

/* --- one call by number --------------- */

static int
try_number(void *arg)
{
	long nr = *(long *)arg;

	return (result(syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L)));
}

/* Arguments of all ones would be refused by any of them; what counts is that
 * it was not even looked at them. */
int
drill_syscall(const char *name, long nr)
{
	int r = in_child(try_number, &nr);

	if (r == -EPERM || r == -ENOSYS || r == -EAFNOSUPPORT || r <= -1000)
		judge("denied call", name, r, HOLE);
	else
		say("denied call", name, HOLE, "reached the kernel: %s",
		    r < 0 ? errno_text(-r) : "it succeeded");
	return (0);
}

/* --- namespaces --------------- */

static int
try_unshare(void *arg)
{
	return (result(unshare((int)*(const unsigned long *)arg)));
}

static int
try_clone(void *arg)
{
	long r = syscall(SYS_clone, *(const unsigned long *)arg | SIGCHLD, 0,
	    0, 0, 0);

	if (r == 0)
		_exit(0);
	return (result(r));
}

static int
try_clone3(void *arg)
{
	uint64_t a[11] = { *(const unsigned long *)arg, 0, 0, 0, SIGCHLD };
	long r = syscall(SYS_clone3, a, sizeof(a));

	if (r == 0)
		_exit(0);
	return (result(r));
}

static void
namespaces(const char *drill)
{
	static const struct {
		const char *name;
		int (*fn)(void *);
	} ways[] = { { "unshare", try_unshare }, { "clone", try_clone },
		{ "clone3", try_clone3 } };
	char tried[64];

	for (size_t w = 0; w < N(ways); w++)
		for (size_t k = 0; k < N(kinds); k++) {
			unsigned long flag = kinds[k].flag;

			/* a signal number there */
			if (ways[w].fn == try_clone && flag == 0x80)
				continue;
			(void)snprintf(tried, sizeof(tried), "%s: new %s",
			    ways[w].name, kinds[k].name);
			judge(drill, tried, in_child(ways[w].fn, &flag), HOLE);
		}
}

static int
try_setns(void *arg)
{
	int fd = open(arg, O_RDONLY);

	if (fd == -1)
		return (-errno);
	return (result(setns(fd, 0)));
}

static int
try_setns_pidfd(void *arg)
{
	long fd = syscall(SYS_pidfd_open, 1, 0);

	(void)arg;
	return (fd == -1 ? -errno : result(setns((int)fd, CLONE_NEWNS |
	    CLONE_NEWNET)));
}

static void
joining(const char *drill)
{
	static const char *const names[] = { "user", "mnt", "pid",
		"pid_for_children", "net", "ipc", "uts", "cgroup", "time" };
	char path[64];

	for (size_t i = 0; i < N(names); i++)
		for (int own = 0; own < 2; own++) {
			(void)snprintf(path, sizeof(path), "/proc/%s/ns/%s",
			    own ? "self" : "1", names[i]);
			judge(drill, path, in_child(try_setns, path), HOLE);
		}
	judge(drill, "pidfd of PID 1", in_child(try_setns_pidfd, NULL), HOLE);
}

/* --- mounts --------------- */

static int
try_mount(void *arg)
{
	(void)arg;
	return (result(mount("none", "/tmp", "tmpfs", 0, NULL)));
}

static int
try_bind(void *arg)
{
	(void)arg;
	return (result(mount("/", "/tmp", NULL, MS_BIND | MS_REC, NULL)));
}

static int
try_remount(void *arg)
{
	(void)arg;
	return (result(mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL)));
}

static int
try_umount(void *arg)
{
	return (result(umount2(arg, MNT_DETACH)));
}

static int
try_fsopen(void *arg)
{
	(void)arg;
	return (result(syscall(SYS_fsopen, "tmpfs", 0)));
}

static int
try_open_tree(void *arg)
{
	(void)arg;
	return (result(syscall(SYS_open_tree, AT_FDCWD, "/", 1)));
}

static int
try_move_mount(void *arg)
{
	(void)arg;
	return (result(syscall(SYS_move_mount, AT_FDCWD, "/usr", AT_FDCWD,
	    "/tmp", 0)));
}

static int
try_mount_setattr(void *arg)
{
	uint64_t a[4] = { 0, 1, 0, 0 };	/* clear MOUNT_ATTR_RDONLY */

	(void)arg;
	return (result(syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, a,
	    sizeof(a))));
}

static int
try_pivot_root(void *arg)
{
	(void)arg;
	return (result(syscall(SYS_pivot_root, "/", "/tmp")));
}

static int
try_chroot(void *arg)
{
	(void)arg;
	return (result(chroot("/tmp")));
}

static void
mounts(const char *drill)
{
	static const struct {
		const char *what;
		int (*fn)(void *);
		const char *arg;
	} all[] = {
		{ "mount: tmpfs on /tmp", try_mount, NULL },
		{ "mount: bind of /", try_bind, NULL },
		{ "mount: /usr writable", try_remount, NULL },
		{ "umount2: /proc/sys", try_umount, "/proc/sys" },
		{ "umount2: /proc/kcore", try_umount, "/proc/kcore" },
		{ "umount2: /etc/hosts", try_umount, "/etc/hosts" },
		{ "fsopen: tmpfs", try_fsopen, NULL },
		{ "open_tree: copy of /", try_open_tree, NULL },
		{ "move_mount: /usr", try_move_mount, NULL },
		{ "mount_setattr: /usr writable", try_mount_setattr, NULL },
		{ "pivot_root", try_pivot_root, NULL },
		{ "chroot", try_chroot, NULL },
	};

	for (size_t i = 0; i < N(all); i++)
		judge(drill, all[i].what, in_child(all[i].fn,
		    (void *)(uintptr_t)all[i].arg), HOLE);
}

/* --- sockets --------------- */

struct family {
	int family, type, protocol;
};

static int
try_socket(void *arg)
{
	const struct family *f = arg;

	return (result(socket(f->family, f->type, f->protocol)));
}

static int
try_pair(void *arg)
{
	const struct family *f = arg;
	int pair[2];

	return (result(socketpair(f->family, f->type, f->protocol, pair)));
}

/* Which there are: local, IPv4 and IPv6 in a namespace without a device, and
 * the one netlink protocol that lists addresses. */
static bool
expected(const struct family *f)
{
	return (f->family == AF_UNIX || ((f->family == AF_INET ||
	    f->family == AF_INET6) && f->type != SOCK_RAW) ||
	    (f->family == AF_NETLINK && f->protocol == 0));
}

static void
sockets(const char *drill)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_RAW,
		SOCK_RDM, SOCK_SEQPACKET, SOCK_DCCP, SOCK_PACKET };
	static const struct {
		const char *what;
		int type, protocol;
	} odd[] = {
		{ "SCTP", SOCK_STREAM, 132 }, { "DCCP", SOCK_DCCP, 33 },
		{ "L2TP", SOCK_DGRAM, 115 }, { "UDP-Lite", SOCK_DGRAM, 136 },
		{ "raw IPv4", SOCK_RAW, 255 },
	};
	char tried[64];
	int r;

	for (int family = 1; family < 64; family++) {
		struct family f = { .family = family }, got = { 0 };
		int error = 0;

		for (size_t t = 0; t < N(types); t++)
			for (f.protocol = 0; f.protocol < 33; f.protocol++) {
				f.type = types[t];
				r = try_socket(&f);
				if (r == -EPROTONOSUPPORT && error != 0)
					continue;
				error = r < 0 ? -r : error;
				if (r == 0 && !expected(&f))
					got = f;
				if (try_pair(&f) == 0 && family != AF_UNIX)
					got = f;
				for (int i = 3; i < 16; i++)
					(void)close(i);
			}
		(void)snprintf(tried, sizeof(tried), "family %d", family);
		if (got.family != 0)
			say(drill, tried, HOLE, "type %d protocol %d is there",
			    got.type, got.protocol);
		else if (family == AF_UNIX || family == AF_INET ||
		    family == AF_INET6 || family == AF_NETLINK)
			say(drill, tried, HARMLESS, family == AF_NETLINK ?
			    "routes and addresses only" : "own namespace");
		else
			say(drill, tried, REFUSED, "%s", errno_text(error));
	}
	for (size_t i = 0; i < N(odd); i++) {
		struct family f = { AF_INET, odd[i].type, odd[i].protocol };

		judge(drill, odd[i].what, try_socket(&f), HOLE);
	}
}

/* --- the filter itself --------------- */

static long
add_filter(uint32_t what, unsigned flags)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, what),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { N(code), code };

	return (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog));
}

static int
try_allow(void *arg)
{
	(void)arg;
	if (add_filter(SECCOMP_RET_ALLOW, 0) == -1)
		return (-errno);
	return (result(unshare(CLONE_NEWUSER)));
}

static int
try_notify(void *arg)
{
	(void)arg;
	if (add_filter(SECCOMP_RET_USER_NOTIF,
	    SECCOMP_FILTER_FLAG_NEW_LISTENER) == -1)
		return (-errno);
	return (result(unshare(CLONE_NEWUSER)));
}

static int
try_trace(void *arg)
{
	(void)arg;
	if (add_filter(SECCOMP_RET_TRACE, 0) == -1)
		return (-errno);
	return (result(unshare(CLONE_NEWUSER)));
}

static int
try_suspend(void *arg)
{
	pid_t pid = fork();
	int r;

	(void)arg;
	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	/* PTRACE_O_SUSPEND_SECCOMP */
	r = result(ptrace(PTRACE_SEIZE, pid, NULL, (void *)(1L << 21)));
	(void)kill(pid, SIGKILL);
	return (r);
}

#ifdef __x86_64__
/* A tracer turns a call of its child's into another one on the way in. */
static int
try_rewrite(void *arg)
{
	struct user_regs_struct regs;
	int status;
	pid_t pid = fork();

	(void)arg;
	if (pid == 0) {
		(void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		(void)raise(SIGSTOP);
		_exit(syscall(SYS_getppid, CLONE_NEWUSER) == 0 ? 0 : 1);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return (-EIO);
	for (;;) {
		if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == -1 ||
		    waitpid(pid, &status, 0) != pid)
			return (-errno);
		if (WIFEXITED(status))
			return (WEXITSTATUS(status) == 0 ? 0 : -EPERM);
		if (WIFSIGNALED(status))
			return (-1000 - WTERMSIG(status));
		if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) == 0 &&
		    regs.orig_rax == SYS_getppid) {
			regs.orig_rax = SYS_unshare;
			(void)ptrace(PTRACE_SETREGS, pid, NULL, &regs);
		}
	}
}

static int
try_x32(void *arg)
{
	(void)arg;
	return (result(syscall(0x40000000L | SYS_unshare, CLONE_NEWUSER)));
}

static int
try_i386(void *arg)
{
	long r;

	(void)arg;
	/* unshare is 310 there */
	__asm__ volatile("int $0x80" : "=a" (r) : "0" (310L),
	    "b" ((long)CLONE_NEWUSER) : "memory");
	return ((int)r);
}
#endif

static void
filter(const char *drill)
{
	judge(drill, "a later filter that allows unshare",
	    in_child(try_allow, NULL), HOLE);
	judge(drill, "a later filter that asks a supervisor",
	    in_child(try_notify, NULL), HOLE);
	judge(drill, "a later filter that asks a tracer",
	    in_child(try_trace, NULL), HOLE);
	judge(drill, "PTRACE_O_SUSPEND_SECCOMP", in_child(try_suspend, NULL),
	    HOLE);
#ifdef __x86_64__
	judge(drill, "a tracer that turns getppid into unshare",
	    in_child(try_rewrite, NULL), HOLE);
	judge(drill, "unshare by its x32 number", in_child(try_x32, NULL),
	    HOLE);
	judge(drill, "unshare by its i386 number", in_child(try_i386, NULL),
	    HOLE);
#endif
}

/* --- privileges --------------- */

static int
try_setuid(void *arg)
{
	(void)arg;
	return (result(setresuid(0, 0, 0)));
}

static int
try_setgroups(void *arg)
{
	(void)arg;
	return (result(syscall(SYS_setgroups, 0, NULL)));
}

static int
try_su(void *arg)
{
	struct stat st;
	int status;
	pid_t pid;

	(void)arg;
	if (stat("/usr/bin/su", &st) == -1 || !(st.st_mode & S_ISUID))
		return (-ENOENT);
	if ((pid = fork()) == 0) {
		(void)execl("/usr/bin/su", "su", "-c", "true", (char *)NULL);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid)
		return (-errno);
	return (WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM);
}

/* A set-id copy of this program, by its own uid: nothing to gain, and what
 * it would gain from is not mapped. */
static int
try_own_suid(void *arg)
{
	(void)arg;
	if (chown("/proc/self/exe", 0, 0) == 0)
		return (0);
	return (-errno);
}

static int
try_file_caps(void *arg)
{
	static const unsigned char cap[20] = { 1, 0, 0, 2, 0xff, 0xff, 0xff,
		0xff };
	int fd = open("/tmp/drill-caps", O_CREAT | O_RDWR, 0700);

	(void)arg;
	if (fd == -1)
		return (-errno);
	return (result(fsetxattr(fd, "security.capability", cap, sizeof(cap),
	    0)));
}

static int
try_ambient(void *arg)
{
	int r = 0;

	(void)arg;
	for (int c = 0; c < 64; c++)
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, c, 0, 0) == 0)
			return (0);
		else
			r = -errno;
	return (r);
}

static int
try_nnp(void *arg)
{
	(void)arg;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return (0);
	return (result(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)));
}

static int
try_personality(void *arg)
{
	return (result(syscall(SYS_personality, *(const unsigned long *)arg)));
}

static int
try_hostname(void *arg)
{
	(void)arg;
	return (result(sethostname("x", 1)));
}

static int
try_nice(void *arg)
{
	(void)arg;
	return (result(setpriority(PRIO_PROCESS, 0, -5)));
}

static int
try_realtime(void *arg)
{
	struct sched_param p = { .sched_priority = 1 };

	(void)arg;
	return (result(sched_setscheduler(0, SCHED_FIFO, &p)));
}

static void
privileges(const char *drill)
{
	unsigned long weak = 0x0400000;	/* READ_IMPLIES_EXEC */
	unsigned long norand = 0x0040000;

	judge(drill, "setresuid 0", in_child(try_setuid, NULL), HOLE);
	judge(drill, "setgroups", in_child(try_setgroups, NULL), HOLE);
	judge(drill, "set-uid root su", in_child(try_su, NULL), HOLE);
	judge(drill, "chown root of a file", in_child(try_own_suid, NULL),
	    HOLE);
	judge(drill, "security.capability on a file",
	    in_child(try_file_caps, NULL), HOLE);
	judge(drill, "any ambient capability", in_child(try_ambient, NULL),
	    HOLE);
	judge(drill, "no_new_privs off", in_child(try_nnp, NULL), HOLE);
	judge(drill, "personality READ_IMPLIES_EXEC",
	    in_child(try_personality, &weak), HOLE);
	judge(drill, "personality ADDR_NO_RANDOMIZE",
	    in_child(try_personality, &norand), HARMLESS);
	judge(drill, "sethostname", in_child(try_hostname, NULL), HOLE);
	judge(drill, "nice -5", in_child(try_nice, NULL), HOLE);
	judge(drill, "SCHED_FIFO", in_child(try_realtime, NULL), HOLE);
}

const struct drill drills_calls[] = {
	{ "namespaces", namespaces }, { "joining", joining },
	{ "mounts", mounts }, { "sockets", sockets }, { "filter", filter },
	{ "privileges", privileges }, { NULL, NULL }
};
