/* Drills: device nodes, /proc and /sys, the files and sockets of the host. */
#include "drill.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <stdlib.h>
#include <unistd.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static int
result(long r)
{
	return (r == -1 ? -errno : 0);
}

static int
try_write(void *arg)
{
	int fd = open(arg, O_WRONLY | O_NONBLOCK | O_NOCTTY);

	/* a number, since some look at it before they look at the writer */
	return (fd == -1 ? -errno : result(write(fd, "0",
	    strncmp(arg, "/proc/1/", 8) == 0)));
}

static int
try_read(void *arg)
{
	int fd = open(arg, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	char c;

	return (fd == -1 ? -errno : result(read(fd, &c, 1)));
}

/* --- device nodes --------------- */

static const struct {
	const char *what;
	mode_t type;
	unsigned major, minor;
} nodes[] = {
	{ "mknod c 0:0 (a whiteout)", S_IFCHR, 0, 0 },
	{ "mknod c 1:1 (mem)", S_IFCHR, 1, 1 },
	{ "mknod c 1:3 (null)", S_IFCHR, 1, 3 },
	{ "mknod c 1:11 (kmsg)", S_IFCHR, 1, 11 },
	{ "mknod c 10:229 (fuse)", S_IFCHR, 10, 229 },
	{ "mknod c 10:200 (tun)", S_IFCHR, 10, 200 },
	{ "mknod b 8:0 (sda)", S_IFBLK, 8, 0 },
	{ "mknod b 254:0 (vda)", S_IFBLK, 254, 0 },
};

static int
try_node(void *arg)
{
	size_t i = *(size_t *)arg;
	static const char *const dirs[] = { "/tmp", "/workspace", "/dev/shm",
		"/home/sandbox" };
	char path[64];
	int r = 0;

	for (size_t d = 0; d < N(dirs); d++) {
		(void)snprintf(path, sizeof(path), "%s/drill-node", dirs[d]);
		if (mknod(path, nodes[i].type | 0666,
		    makedev(nodes[i].major, nodes[i].minor)) == 0) {
			(void)unlink(path);
			return (0);
		}
		r = -errno;
	}
	return (r);
}

/* What is in /dev and opens: the harmless few of every sandbox. */
static void
devices(const char *drill)
{
	static const char *const known[] = { "null", "zero", "full", "random",
		"urandom", "tty", "ptmx", "fd", "stdin", "stdout", "stderr",
		"pts", "shm" };
	static const char *const wanted[] = { "/dev/kmsg", "/dev/mem",
		"/dev/fuse", "/dev/net/tun", "/dev/kvm", "/dev/userfaultfd",
		"/dev/loop-control", "/dev/sda", "/dev/vda", "/dev/vsock",
		"/dev/mapper/control", "/dev/uinput", "/dev/vhost-net",
		"/proc/kmsg", "/proc/kcore" };
	DIR *d = opendir("/dev");
	struct dirent *e;
	char path[300];

	for (size_t i = 0; i < N(nodes); i++)
		judge(drill, nodes[i].what, in_child(try_node, &i), HOLE);
	for (size_t i = 0; i < N(wanted); i++) {
		struct stat st;
		bool null = stat(wanted[i], &st) == 0 &&
		    st.st_rdev == makedev(1, 3);

		judge(drill, wanted[i], in_child(try_read,
		    (void *)(uintptr_t)wanted[i]), null ? HARMLESS : HOLE);
	}
	while (d != NULL && (e = readdir(d)) != NULL) {
		size_t k = 0;

		while (k < N(known) && strcmp(e->d_name, known[k]) != 0)
			k++;
		if (e->d_name[0] == '.' || k < N(known))
			continue;
		(void)snprintf(path, sizeof(path), "/dev/%s", e->d_name);
		say(drill, path, HOLE, "is there");
	}
	say(drill, "/dev holds nothing else", HARMLESS, "looked through");
	if (d != NULL)
		(void)closedir(d);
	judge(drill, "a new file in /dev", result(open("/dev/drill", O_CREAT |
	    O_WRONLY, 0600)), HOLE);
}

/* --- what of /proc and /sys takes a write --------------- */

/* Of a process of one's own: about itself only. */
static const char *const own[] = { "attr", "autogroup", "clear_refs", "comm",
	"coredump_filter", "fail-nth", "gid_map", "loginuid", "make-it-fail",
	"mem", "oom_adj", "oom_score_adj", "projid_map", "sched", "setgroups",
	"timens_offsets", "timerslack_ns", "uid_map", "latency", "io",
	"seccomp_cache", "personality", "fd", "cwd", "root", "exe",
	"map_files", "task", "ksm_merging_pages" };
/* Bound from /dev/null over what is hidden. */
static bool
is_null(const char *path)
{
	struct stat st;

	return (stat(path, &st) == 0 && S_ISCHR(st.st_mode) &&
	    st.st_rdev == makedev(1, 3));
}

static unsigned seen, taken;

static void
walk(const char *drill, const char *dir, int depth)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;
	char path[PATH_MAX];
	int fd;

	if (d == NULL || depth > 12)
		return;
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.' || snprintf(path, sizeof(path),
		    "%s/%s", dir, e->d_name) >= (int)sizeof(path) ||
		    lstat(path, &st) == -1 || S_ISLNK(st.st_mode))
			continue;
		/* of processes only PID 1, whose files are tried apart */
		if (strcmp(dir, "/proc") == 0 && e->d_name[0] >= '0' &&
		    e->d_name[0] <= '9')
			continue;
		if (S_ISDIR(st.st_mode)) {
			walk(drill, path, depth + 1);
			continue;
		}
		seen++;
		fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY);
		if (fd == -1)
			continue;
		(void)close(fd);
		if (is_null(path))
			continue;
		taken++;
		say(drill, path, HOLE, "opens for writing");
	}
	(void)closedir(d);
}

static void
writable(const char *drill)
{
	static const char *const named[] = { "/proc/sys/kernel/core_pattern",
		"/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname",
		"/proc/sys/kernel/ns_last_pid", "/proc/sys/vm/drop_caches",
		"/proc/sys/net/ipv4/ip_forward",
		"/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger",
		"/sys/kernel/uevent_helper", "/sys/fs/cgroup/cgroup.procs",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes",
		"/proc/acpi/wakeup", "/proc/mtrr", "/proc/1/oom_score_adj",
		"/proc/1/mem", "/proc/1/clear_refs", "/proc/1/comm",
		"/proc/1/coredump_filter", "/proc/1/uid_map",
		"/proc/1/setgroups", "/proc/1/timerslack_ns", "/proc/1/sched",
		"/proc/1/autogroup", "/proc/1/attr/current" };
	char path[300];
	DIR *d;
	struct dirent *e;

	for (size_t i = 0; i < N(named); i++)
		judge(drill, named[i], in_child(try_write,
		    (void *)(uintptr_t)named[i]), is_null(named[i]) ?
		    HARMLESS : HOLE);
	walk(drill, "/proc", 0);
	say(drill, "all of /proc but processes", taken > 0 ? HOLE : REFUSED,
	    "%u files, %u take a write", seen, taken);
	seen = taken = 0;
	walk(drill, "/sys", 0);
	say(drill, "all of /sys", taken > 0 ? HOLE : REFUSED,
	    "%u files, %u take a write", seen, taken);
	d = opendir("/proc/self");
	while (d != NULL && (e = readdir(d)) != NULL) {
		size_t k = 0;

		(void)snprintf(path, sizeof(path), "/proc/self/%s", e->d_name);
		if (e->d_name[0] == '.' || open(path, O_WRONLY | O_NONBLOCK) ==
		    -1)
			continue;
		while (k < N(own) && strcmp(own[k], e->d_name) != 0)
			k++;
		say(drill, path, k < N(own) ? HARMLESS : HOLE,
		    "opens for writing, of this process itself");
	}
	if (d != NULL)
		(void)closedir(d);
}

/* --- PID 1 --------------- */

static int
try_link(void *arg)
{
	char to[PATH_MAX];

	return (result(readlink(arg, to, sizeof(to))));
}

static void
pid1(const char *drill)
{
	static const char *const files[] = { "mem", "environ", "maps", "smaps",
		"auxv", "syscall", "stack", "io", "pagemap", "personality",
		"timers", "map_files", "fdinfo" };
	static const char *const links[] = { "exe", "root", "cwd", "fd/3",
		"ns/mnt", "ns/net", "ns/user" };
	char path[64];

	for (size_t i = 0; i < N(files); i++) {
		(void)snprintf(path, sizeof(path), "/proc/1/%s", files[i]);
		judge(drill, path, in_child(try_read, path), HOLE);
	}
	for (size_t i = 0; i < N(links); i++) {
		(void)snprintf(path, sizeof(path), "/proc/1/%s", links[i]);
		judge(drill, path, in_child(try_link, path), HOLE);
	}
	judge(drill, "/proc/1/fd", opendir("/proc/1/fd") != NULL ? 0 : -errno,
	    HOLE);
	judge(drill, "/proc/1/root/etc", result(open("/proc/1/root/etc",
	    O_RDONLY)), HOLE);
}

/* --- the host's files --------------- */

static int
try_handle(void *arg)
{
	struct {
		unsigned bytes;
		int type;
		unsigned char data[128];
	} h = { .bytes = 128 };
	int mount, dir = open("/", O_RDONLY), r;

	(void)arg;
	r = (int)syscall(SYS_name_to_handle_at, AT_FDCWD, "/usr", &h, &mount,
	    0);
	if (r == -1) {
		h.bytes = 8;
		h.type = 1;
	}
	return (result(syscall(SYS_open_by_handle_at, dir, &h, O_RDONLY)));
}

static int
try_xattr(void *arg)
{
	static const char *const names[] = { "trusted.overlay.opaque",
		"trusted.overlay.redirect", "trusted.overlay.metacopy",
		"security.capability", "security.ima", "security.evm" };
	int r = 0;

	(void)arg;
	(void)mkdir("/workspace/drill-dir", 0700);
	for (size_t i = 0; i < N(names); i++)
		if ((r = result(setxattr("/workspace/drill-dir", names[i],
		    "/../../../..", 12, 0))) == 0)
			return (0);
	return (r);
}

/* The overlay keeps its own words to itself, or hides the guest's below
 * another name: the directory must show what it showed. */
static int
try_redirect(void *arg)
{
	static const char *const names[] = { "user.overlay.redirect",
		"user.overlay.opaque", "user.overlay.metacopy",
		"user.overlay.origin", "user.overlay.upper" };
	int ok = 0;

	(void)arg;
	(void)mkdir("/workspace/drill-redirect", 0700);
	for (size_t i = 0; i < N(names); i++)
		ok |= setxattr("/workspace/drill-redirect", names[i],
		    "/etc", 4, 0) == 0;
	if (!ok)
		return (-errno);
	return (access("/workspace/drill-redirect/passwd", F_OK) == 0 ? 0 :
	    -errno);
}

static int
try_reopen(void *arg)
{
	char path[64];
	int fd = open(arg, O_RDONLY);

	if (fd == -1)
		return (-errno);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return (result(open(path, O_WRONLY)));
}

static void
host_files(const char *drill)
{
	static const char *const absent[] = { "/root", "/var/lib/dpkg",
		"/var/log", "/boot", "/srv", "/mnt", "/media", "/lost+found",
		"/etc/shadow", "/etc/fstab", "/etc/sudoers", "/etc/ssh",
		"/etc/machine-id", "/run/systemd", "/run/docker.sock",
		"/var/run/docker.sock", "/run/dbus", "/home/tester" };
	static const char *const readonly[] = { "/usr/drill", "/etc/drill",
		"/bin/drill", "/lib/drill", "/drill" };
	struct statvfs v;

	for (size_t i = 0; i < N(absent); i++) {
		struct stat st;
		DIR *d;

		if (lstat(absent[i], &st) == -1) {
			judge(drill, absent[i], -errno, HOLE);
			continue;
		}
		d = opendir(absent[i]);
		say(drill, absent[i], d != NULL && readdir(d) != NULL &&
		    readdir(d) != NULL && readdir(d) != NULL ? HOLE : REFUSED,
		    "an empty directory, or none");
		if (d != NULL)
			(void)closedir(d);
	}
	for (size_t i = 0; i < N(readonly); i++)
		judge(drill, readonly[i], result(open(readonly[i], O_CREAT |
		    O_WRONLY | O_EXCL, 0600)), strncmp(readonly[i], "/usr",
		    4) == 0 ? HOLE : HARMLESS);
	say(drill, "/usr is mounted nosuid, nodev, read-only",
	    statvfs("/usr", &v) == 0 && (v.f_flag & (ST_NOSUID | ST_NODEV |
	    ST_RDONLY)) == (ST_NOSUID | ST_NODEV | ST_RDONLY) ? REFUSED : HOLE,
	    "flags 0x%lx", v.f_flag);
	judge(drill, "open_by_handle_at", in_child(try_handle, NULL), HOLE);
	judge(drill, "trusted and security attributes",
	    in_child(try_xattr, NULL), HOLE);
	judge(drill, "the overlay's own attributes, to show /etc",
	    in_child(try_redirect, NULL), HOLE);
	judge(drill, "/usr/bin/env reopened for writing by /proc/self/fd",
	    in_child(try_reopen, (void *)(uintptr_t)"/usr/bin/env"), HOLE);
	judge(drill, "/etc/hosts reopened for writing by /proc/self/fd",
	    in_child(try_reopen, (void *)(uintptr_t)"/etc/hosts"), HARMLESS);
	judge(drill, "the program of PID 1 by /proc/1/exe",
	    in_child(try_write, (void *)(uintptr_t)"/proc/1/exe"), HOLE);
}

/* --- dumps, terminals --------------- */

/* 0 would not do: with a pipe in core_pattern the kernel starts the host's
 * handler all the same; 1 it takes for "never". */
static int
core_limit(void *arg)
{
	struct rlimit r = { 0, 0 };

	(void)arg;
	(void)setrlimit(RLIMIT_CORE, &r);
	r.rlim_cur = r.rlim_max = RLIM_INFINITY;
	(void)setrlimit(RLIMIT_CORE, &r);
	if (getrlimit(RLIMIT_CORE, &r) == -1)
		return (-errno);
	return (r.rlim_cur == 1 && r.rlim_max == 1 ? -EPERM : 0);
}

static void
dumps(const char *drill)
{
	int status;
	pid_t pid;

	judge(drill, "RLIMIT_CORE other than 1", in_child(core_limit, NULL),
	    HOLE);
	if ((pid = fork()) == 0)
		abort();
	(void)waitpid(pid, &status, 0);
	say(drill, "a dump of a command that aborts", WCOREDUMP(status) ?
	    HOLE : REFUSED, "status 0x%x", status);
}

static int
try_ioctl(void *arg)
{
	const unsigned long *request = arg;
	int m = open("/dev/ptmx", O_RDWR | O_NOCTTY), s, n = 0;
	int ldisc = 21;		/* N_GSM0710 */
	char name[32];
	void *p = request[1] == 1 ? (void *)&ldisc : (void *)"\3";

	if (m == -1 || ioctl(m, TIOCSPTLCK, &n) == -1 ||
	    ioctl(m, TIOCGPTN, &n) == -1)
		return (-errno);
	(void)snprintf(name, sizeof(name), "/dev/pts/%d", n);
	if ((s = open(name, O_RDWR | O_NOCTTY)) == -1)
		return (-errno);
	return (result(syscall(SYS_ioctl, s, request[0], p)));
}

static void
terminals(const char *drill)
{
	static const struct {
		const char *what;
		unsigned long request[2];
	} all[] = {
		{ "TIOCSTI", { 0x5412, 0 } },
		{ "TIOCSTI with high bits set", { 0x100005412, 0 } },
		{ "TIOCLINUX", { 0x541c, 0 } },
		{ "TIOCLINUX with high bits set", { 0x10000541c, 0 } },
		{ "TIOCCONS", { 0x541d, 0 } },
		{ "TIOCSETD: a line discipline of a module", { 0x5423, 1 } },
		{ "KDSETLED", { 0x4b32, 0 } },
	};

	int r;

	for (size_t i = 0; i < N(all); i++) {
		r = in_child(try_ioctl, (void *)(uintptr_t)all[i].request);
		/* any other error: the kernel looked for a module */
		if (all[i].request[1] == 1 && r != -EPERM)
			say(drill, all[i].what, HOLE, "reached the kernel: %s",
			    errno_text(-r));
		else
			judge(drill, all[i].what, r, HOLE);
	}
}

/* --- sockets that lie about ---- */

static unsigned found_sockets;

static void
find_sockets(const char *drill, const char *dir, int depth)
{
	DIR *d = depth < 8 ? opendir(dir) : NULL;
	struct dirent *e;
	struct stat st;
	char path[PATH_MAX];

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0
		    || snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >=
		    (int)sizeof(path) || lstat(path, &st) == -1)
			continue;
		if (S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode)) {
			found_sockets++;
			say(drill, path, HOLE, "a socket or pipe with a name");
		}
		if (S_ISDIR(st.st_mode) && strncmp(path, "/proc", 5) != 0)
			find_sockets(drill, path, depth + 1);
	}
	if (d != NULL)
		(void)closedir(d);
}

static void
named_sockets(const char *drill)
{
	find_sockets(drill, "", 0);
	say(drill, "sockets and pipes with names", found_sockets > 0 ? HOLE :
	    REFUSED, "%u in all directories", found_sockets);
}

const struct drill drills_files[] = {
	{ "devices", devices }, { "writable", writable }, { "pid1", pid1 },
	{ "host files", host_files }, { "dumps", dumps },
	{ "terminals", terminals }, { "named sockets", named_sockets },
	{ NULL, NULL }
};
