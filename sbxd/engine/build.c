/*
 * Building a sandbox: what the child does between clone3(2) and becoming
 * sbx-init.  Until it has built the sandbox it is in the engine's user
 * namespace, whose capabilities are worth nothing outside; then it becomes the
 * sandbox's own user in a namespace below, which owns none of the mounts that
 * guests see.  The host is changed nowhere.  Any step that fails ends it, with
 * the step's name.
 *
 * Layers may be hostile: what an image or an earlier sandbox left in them is
 * looked up without following any link, below the new root.
 */
#include "common/base/egress_env.h"
#include "sbxd/engine/engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* sys/mount.h and linux/mount.h of this libc contradict each other. */
int mount(const char *, const char *, const char *, unsigned long,
    const void *);
int umount2(const char *, int);
#define M_RDONLY 1ul
#define M_NOSUID 2ul
#define M_NODEV 4ul
#define M_NOEXEC 8ul
#define M_BIND 4096ul
#define M_REC 16384ul
#define M_PRIVATE (1ul << 18)
#define UMOUNT_DETACH 2

/* The kernel's number of terminals is one for all of the machine; an empty file
 * in memory costs memory that no size counts. */
#define PTYS "64"
#define SHM_INODES "16384"

enum { CHANNEL_FD = 3, EXEC_FD, GO_FD };	/* of the child */

static int channel;
static int sys_fd;	/* /proc/sys of before it became read-only */

/* Say on the channel which step failed, and what to do about it. */
static _Noreturn void
die(const char *step)
{
	struct sbx_init_failed m = { .error = errno, .reason = step };

	(void)sbx_wire_send(channel, SBX_PROC_INIT, SBX_MSG_INIT_FAILED, 0, &m,
	    NULL, 0);
	_exit(2);
}

static void
must(bool good, const char *step)
{
	if (!good)
		die(step);
}

/* --- mounts ------------------------------------------------------------------ */

/*
 * Open what lies below the working directory.  Were a part of it a link, in an
 * image or left by a guest, it would lead to the host: that is an error.
 */
static int
open_below(const char *path)
{
	/* O_NOFOLLOW would open a link that comes last instead of refusing */
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };

	return ((int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)));
}

static void
mount_at(const char *source, const char *path, const char *type,
    unsigned long flags, const char *data, const char *step)
{
	int fd = open_below(path);
	char target[32];

	must(fd != -1, step);
	(void)snprintf(target, sizeof(target), "/proc/self/fd/%d", fd);
	must(mount(source, target, type, flags, data) == 0, step);
	(void)close(fd);
}

/* Read-only, and no device or set-id file counts; locked for nested users. */
static bool
seal(const char *path, uint64_t attrs, unsigned flags)
{
	struct mount_attr a = { .attr_set = attrs };

	return (syscall(SYS_mount_setattr, AT_FDCWD, path,
	    flags | AT_SYMLINK_NOFOLLOW, &a, sizeof(a)) == 0);
}

static void
bind_readonly(const char *source, const char *target)
{
	mount_at(source, target, NULL, M_BIND | M_REC, NULL,
	    "mount: a directory of the host");
	must(seal(target, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
	    MOUNT_ATTR_NODEV, AT_RECURSIVE),
	    "mount_setattr (Linux 5.12 or newer is needed)");
}

/*
 * volatile: the end of a sandbox would write back the whole filesystem below
 * else, for the sake of files that are deleted then (Linux 5.10).
 */
static bool
mount_overlay(const struct build *b, const int *lower, int dir,
    const char *more)
{
	char options[128 + MAX_LAYERS * 24];
	const char *sep = "lowerdir=";
	int n = 0;

	for (size_t i = 0; i < b->nlower; i++, sep = ":")
		n += snprintf(options + n, sizeof(options) - (size_t)n,
		    "%s/proc/self/fd/%d", sep, lower[i]);
	(void)snprintf(options + n, sizeof(options) - (size_t)n,
	    ",upperdir=/proc/self/fd/%d/upper,workdir=/proc/self/fd/%d/work,"
	    "userxattr%s", dir, dir, more);
	return (mount("overlay", "m", "overlay", M_NOSUID | M_NODEV,
	    options) == 0);
}

/* An image that was imported by an earlier suite may lack the directory; the
 * name above it is of our skeleton. */
static void
make_trust_dir(void)
{
	int SBX_CLEANUP(fd) run = -1;
	int at = open_below(SBX_TRUST_DIR);

	if (at != -1 || errno != ENOENT) {
		sbx_close(&at);		/* else the mount says why not */
		return;
	}
	run = open_below("run");
	must(run != -1 && mkdirat(run, strchr(SBX_TRUST_DIR, '/') + 1, 0755) ==
	    0, "a directory for what clients trust");
}

/* Files of the engine's, which this sandbox must not change: those of the
 * directory are written when it runs already.  trust: consumed. */
static void
mount_trust(int trust)
{
	char source[32];

	(void)snprintf(source, sizeof(source), "/proc/self/fd/%d", trust);
	make_trust_dir();
	mount_at(source, SBX_TRUST_DIR, NULL, M_BIND, NULL,
	    "mount: what clients trust");
	must(seal(SBX_TRUST_DIR, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
	    MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, 0),
	    "mount_setattr: what clients trust");
	(void)close(trust);
}

/* Layers are opened here: a descriptor of the engine's would be of its own
 * mount namespace, where nothing of this one can be mounted from. */
static void
mount_root(const struct build *b)
{
	int lower[MAX_LAYERS], dir = open_below(b->dir), trust;

	must(mount(NULL, "/", NULL, M_REC | M_PRIVATE, NULL) == 0,
	    "mount: private propagation");
	must(dir != -1 && (trust = openat(dir, TRUST, O_PATH | O_DIRECTORY |
	    O_NOFOLLOW | O_CLOEXEC)) != -1, "the scratch directory");
	for (size_t i = 0; i < b->nlower; i++)
		must((lower[i] = open_below(b->lower[i])) != -1,
		    "a layer of the image");
	must(mount_overlay(b, lower, dir, ",volatile") || (errno == EINVAL &&
	    mount_overlay(b, lower, dir, "")), "mount: overlay in a user "
	    "namespace (Linux 5.11 or newer, CONFIG_OVERLAY_FS, on a "
	    "filesystem that can be its upper layer)");
	must(chdir("m") == 0, "chdir to the new root");
	mount_trust(trust);
	must(syscall(SYS_close_range, GO_FD + 1, ~0u, 0) == 0, "close_range");
	for (size_t i = 0; b->binds != NULL && i < b->binds->n; i++)
		bind_readonly(b->binds->v[i].source, b->binds->v[i].target);
}

static void
mount_proc(void)
{
	static const char *const readonly[] = { "proc/sys", "proc/bus",
		"proc/fs", "proc/irq", "proc/pressure" };
	static const char *const hidden[] = { "proc/kcore", "proc/keys",
		"proc/key-users", "proc/sysrq-trigger", "proc/timer_list",
		"proc/sched_debug", "proc/latency_stats" };

	mount_at("proc", "proc", "proc", M_NOSUID | M_NODEV | M_NOEXEC, NULL,
	    "mount: proc (EPERM: something is mounted over a part of the "
	    "host's /proc; unset ProtectKernelTunables= and "
	    "ProtectKernelLogs= of the unit)");
	must((sys_fd = open_below("proc/sys")) != -1, "proc/sys");
	for (size_t i = 0; i < SBX_NELEM(readonly); i++) {
		if (access(readonly[i], F_OK) == -1)
			continue;
		mount_at(readonly[i], readonly[i], NULL, M_BIND | M_REC, NULL,
		    "mount: over a part of proc");
		must(seal(readonly[i], MOUNT_ATTR_RDONLY, AT_RECURSIVE),
		    "mount_setattr: a part of proc");
	}
	for (size_t i = 0; i < SBX_NELEM(hidden); i++)
		if (access(hidden[i], F_OK) == 0)
			mount_at("/dev/null", hidden[i], NULL, M_BIND, NULL,
			    "mount: over a part of proc");
}

static bool
put_new(const char *path, const char *text)
{
	int SBX_CLEANUP(fd) fd = open(path, O_WRONLY | O_CREAT | O_EXCL |
	    O_CLOEXEC, 0666);

	return (fd != -1 && sbx_write_all(fd, text, strlen(text)) == 0);
}

/*
 * A file that names the sandbox.  It lies in the memory of /dev, without a
 * name there, since a file on disk costs more than most of this.
 */
static void
mount_text(const char *target, const char *text)
{
	must(put_new("dev/text", text), "a file in /dev");
	mount_at("dev/text", target, NULL, M_BIND, NULL,
	    "mount: a generated file");
	must(seal(target, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
	    MOUNT_ATTR_NOEXEC, 0), "mount_setattr: a generated file");
	must(unlink("dev/text") == 0, "a file in /dev");
}

/* The last that is put into /dev. */
static void
mount_names(const char *id)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "%s\n", id);
	mount_text("etc/hostname", text);
	(void)snprintf(text, sizeof(text), "127.0.0.1\tlocalhost %s\n"
	    "::1\tlocalhost ip6-localhost ip6-loopback\n", id);
	mount_text("etc/hosts", text);
	must(seal("dev", MOUNT_ATTR_RDONLY, 0), "mount_setattr: /dev");
}

static void
mount_dev(void)
{
	static const char *const nodes[] = { "null", "zero", "full", "random",
		"urandom", "tty" };
	static const struct { const char *target, *name; } links[] = {
		{ "/proc/self/fd", "dev/fd" },
		{ "/proc/self/fd/0", "dev/stdin" },
		{ "/proc/self/fd/1", "dev/stdout" },
		{ "/proc/self/fd/2", "dev/stderr" },
		{ "pts/ptmx", "dev/ptmx" },
	};
	char source[32], target[32];

	mount_at("tmpfs", "dev", "tmpfs", M_NOSUID | M_NOEXEC,
	    "mode=0755,size=64k,nr_inodes=64", "mount: tmpfs on /dev");
	for (size_t i = 0; i < SBX_NELEM(nodes); i++) {
		(void)snprintf(source, sizeof(source), "/dev/%s", nodes[i]);
		(void)snprintf(target, sizeof(target), "dev/%s", nodes[i]);
		must(put_new(target, ""), "a mount point in /dev");
		mount_at(source, target, NULL, M_BIND, NULL,
		    "mount: a device of the host");
	}
	for (size_t i = 0; i < SBX_NELEM(links); i++)
		must(symlink(links[i].target, links[i].name) == 0,
		    "a link in /dev");
	must(mkdir("dev/pts", 0755) == 0 && mkdir("dev/shm", 0755) == 0,
	    "a mount point in /dev");
	mount_at("devpts", "dev/pts", "devpts", M_NOSUID | M_NOEXEC,
	    "newinstance,ptmxmode=0666,mode=0620,max=" PTYS, "mount: devpts");
	mount_at("tmpfs", "dev/shm", "tmpfs", M_NOSUID | M_NODEV | M_NOEXEC,
	    "mode=1777,size=64m,nr_inodes=" SHM_INODES, "mount: tmpfs on "
	    "/dev/shm");
	must(seal("dev", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, AT_RECURSIVE),
	    "mount_setattr: /dev");
}

/* pivot_root(2), "pivot_root(".", ".")": no directory for the old root. */
static void
enter_root(void)
{
	must(syscall(SYS_pivot_root, ".", ".") == 0, "pivot_root");
	must(umount2(".", UMOUNT_DETACH) == 0, "umount2 of the old root");
	must(chdir("/") == 0, "chdir to /");
}

/* --- the rest ------------------------------------------------------------------- */

static void
net_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	must(fd != -1, "socket: AF_INET in the sandbox");
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	must(ioctl(fd, SIOCSIFFLAGS, &ifr) == 0, "ioctl: SIOCSIFFLAGS of lo");
	(void)close(fd);
}

static bool
write_file(const char *path, const char *text)
{
	int SBX_CLEANUP(fd) fd = open(path, O_WRONLY | O_CLOEXEC);

	return (fd != -1 && sbx_write_all(fd, text, strlen(text)) == 0);
}

/*
 * What the kernel counts by the owner of user namespaces is counted for all
 * sandboxes together, and for whoever started the suite: this one gets a share
 * of it.  In the namespace that was just made, whose table /proc/sys/user is.
 */
static void
share_inotify(void)
{
	static const struct { const char *path, *value; } shares[] = {
		{ "user/max_inotify_instances", "16" },
		{ "user/max_inotify_watches", "65536" },
	};

	for (size_t i = 0; i < SBX_NELEM(shares); i++) {
		int fd = openat(sys_fd, shares[i].path, O_WRONLY | O_CLOEXEC);

		if (fd == -1 && errno == ENOENT)
			continue;	/* a kernel without inotify */
		must(fd != -1 && sbx_write_all(fd, shares[i].value,
		    strlen(shares[i].value)) == 0, "/proc/sys/user");
		(void)close(fd);
	}
	(void)close(sys_fd);
}

/*
 * SBX_UID_SANDBOX inside is the one uid outside that this sandbox was given;
 * no 0 inside.  It makes the namespace as that uid, so that it may write the
 * map by itself, and is its owner: no other sandbox's user is.
 *
 * /proc/self belongs to somebody else while the process is not dumpable; in
 * that moment nobody shares its pid namespace.
 */
static void
become(const struct build *b)
{
	char text[64];

	/* where the engine has but one id it cannot drop its own groups */
	must(setgroups(0, NULL) == 0 || b->uid == geteuid(), "setgroups");
	must(setresgid(b->gid, b->gid, b->gid) == 0, "setresgid");
	must(setresuid(b->uid, b->uid, b->uid) == 0, "setresuid");
	must(unshare(CLONE_NEWUSER) == 0, "unshare of a user namespace");
	must(prctl(PR_SET_DUMPABLE, 1) == 0, "prctl: PR_SET_DUMPABLE");
	must(write_file("/proc/self/setgroups", "deny"),
	    "/proc/self/setgroups");
	(void)snprintf(text, sizeof(text), "%d %u 1\n", SBX_UID_SANDBOX,
	    b->gid);
	must(write_file("/proc/self/gid_map", text), "/proc/self/gid_map");
	(void)snprintf(text, sizeof(text), "%d %u 1\n", SBX_UID_SANDBOX,
	    b->uid);
	must(write_file("/proc/self/uid_map", text), "/proc/self/uid_map");
	share_inotify();
	must(prctl(PR_SET_DUMPABLE, 0) == 0, "prctl: PR_SET_DUMPABLE");
	/* a change of ids made the kernel forget it; that the engine died
	 * meanwhile shows as the end of the channel */
	must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0,
	    "prctl: PR_SET_PDEATHSIG");
}

static void
drop_caps(void)
{
	struct __user_cap_header_struct h = {
		.version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	for (int c = 0; c <= 63; c++)
		if (prctl(PR_CAPBSET_DROP, c) == -1)
			must(errno == EINVAL, "prctl: PR_CAPBSET_DROP");
	must(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0,
	    "prctl: PR_CAP_AMBIENT");
	must(syscall(SYS_capset, &h, none) == 0, "capset");
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0,
	    "prctl: PR_SET_NO_NEW_PRIVS");
}

/*
 * First of all: a child that waits for its id must hold nothing of the
 * engine's, or channels and pipes would not end with it.  Moved up first, so
 * that none is overwritten on the way down.
 */
static void
keep_fds(const struct build *b)
{
	const int from[] = { b->null_fd, b->null_fd, b->null_fd, b->channel_fd,
		b->init_fd, b->go_fd };
	int up[SBX_NELEM(from)];

	for (size_t i = 0; i < SBX_NELEM(from); i++)
		must((up[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 16)) != -1,
		    "fcntl: F_DUPFD_CLOEXEC");
	for (int i = 0; i < (int)SBX_NELEM(from); i++)
		must(dup3(up[i], i, i > CHANNEL_FD ? O_CLOEXEC : 0) == i ||
		    up[i] == i, "dup3");
	channel = CHANNEL_FD;
	must(syscall(SYS_close_range, (unsigned)SBX_NELEM(from), ~0u, 0) == 0,
	    "close_range (Linux 5.9 or newer is needed)");
}

/* Which sandbox this is to be; its end, that there is none. */
static void
take_id(char id[SBX_CONTAINER_HEX + 1])
{
	ssize_t n;

	do
		n = read(GO_FD, id, SBX_CONTAINER_HEX);
	while (n == -1 && errno == EINTR);
	if (n != SBX_CONTAINER_HEX)
		_exit(0);
	id[SBX_CONTAINER_HEX] = '\0';
}

/*
 * Before anything else, so that nothing of a sandbox is outside its groups.
 * The cgroup namespace comes after: its root is the group that one is in.
 */
static void
join_groups(const struct build *b)
{
	for (int h = SBX_CGROUP_V2 + 1; h < SBX_CGROUP_MAX; h++)
		must(b->join[h] == -1 || write(b->join[h], "0", 1) == 1,
		    "joining its control group");
	must(unshare(CLONE_NEWCGROUP) == 0,
	    "unshare of a control group namespace");
}

static _Noreturn void
child(const struct build *b)
{
	char *argv[] = { (char *)(uintptr_t)"sbx-init", NULL };
	char *env[] = { NULL };
	char id[SBX_CONTAINER_HEX + 1];
	sigset_t none;

	channel = b->channel_fd;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	join_groups(b);
	keep_fds(b);
	/* what is made here is not for the engine's user alone */
	(void)umask(022);
	mount_root(b);
	mount_proc();
	mount_dev();
	enter_root();
	net_up();
	take_id(id);
	mount_names(id);
	must(sethostname(id, strlen(id)) == 0, "sethostname");
	(void)umask(077);
	become(b);
	drop_caps();
	(void)syscall(SYS_execveat, EXEC_FD, "", argv, env, AT_EMPTY_PATH);
	die("execveat of sbx-init");
}

int
build_start(const struct build *b, pid_t *ret_pid, int *ret_pidfd,
    struct sbx_err *err)
{
	int pidfd = -1;
	struct clone_args a = {
		.flags = CLONE_PIDFD | CLONE_NEWNS | CLONE_NEWPID |
		    CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	long pid;

	if (b->join[SBX_CGROUP_V2] != -1) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)b->join[SBX_CGROUP_V2];
	}
	pid = syscall(SYS_clone3, &a, sizeof(a));
	if (pid == -1 && (a.flags & CLONE_INTO_CGROUP))
		return (sbx_err_sys(err, "clone3 into the sandbox's control "
		    "group"));
	if (pid == -1)
		return (sbx_err_sys(err, "clone3 with new namespaces (see "
		    "user.max_user_namespaces and what 'sbx doctor' says)"));
	if (pid == 0)
		child(b);
	*ret_pid = (pid_t)pid;
	*ret_pidfd = pidfd;
	return (0);
}
