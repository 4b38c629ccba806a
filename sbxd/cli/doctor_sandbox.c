/*
 * What the engine does to make a sandbox, step by step: each step alone, in
 * new namespaces below those that the engine lives in.
 */
#include "sbxd/cli/doctor.h"

#include "common/base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
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
#include <sys/wait.h>
#include <unistd.h>

/* sys/mount.h and linux/mount.h of this libc contradict each other. */
int mount(const char *, const char *, const char *, unsigned long,
    const void *);
int umount2(const char *, int);
#define UMOUNT_DETACH 2

#define ALL_NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | \
    CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

struct step {
	const struct doctor *d;
	struct doctor_result *r;
};

static int
write_map(struct doctor_result *r, const char *path, const char *fmt,
    unsigned in, unsigned out)
{
	char SBX_CLEANUP(free) *text = NULL;
	int SBX_CLEANUP(fd) fd = -1;

	text = strcmp(fmt, "deny") == 0 ? sbx_xstrdup("deny") :
	    sbx_xasprintf("%u %u 1\n", in, out);
	doctor_step(r, "write(%s)", path);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return (doctor_need(r, fd != -1 &&
	    sbx_write_all(fd, text, strlen(text)) == 0));
}

/* One id, as `in` there, as what it is here. */
static int
map_ids(struct doctor_result *r, unsigned in_uid, unsigned in_gid,
    unsigned uid, unsigned gid)
{
	/* not dumpable since the uid changed: /proc/self would be root's */
	(void)prctl(PR_SET_DUMPABLE, 1);
	if (write_map(r, "/proc/self/setgroups", "deny", 0, 0) != 0 ||
	    write_map(r, "/proc/self/gid_map", "", in_gid, gid) != 0 ||
	    write_map(r, "/proc/self/uid_map", "", in_uid, uid) != 0)
		return (-1);
	return (0);
}

/* As the engine itself lives. */
static int
enter_outer(struct step *s)
{
	unsigned uid = geteuid(), gid = getegid();

	doctor_step(s->r, "unshare(CLONE_NEWUSER)");
	if (doctor_need(s->r, unshare(CLONE_NEWUSER) == 0) != 0)
		return (-1);
	return (map_ids(s->r, uid, gid, uid, gid));
}

/* Run fn in a child with these new namespaces. */
static int
in_namespaces(struct step *s, uint64_t flags, const char *names,
    int (*fn)(struct step *))
{
	struct clone_args a = { .flags = flags, .exit_signal = SIGCHLD };
	int status;
	long pid;

	doctor_step(s->r, "clone3(%s)", names);
	pid = syscall(SYS_clone3, &a, sizeof(a));
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(fn == NULL || fn(s) == 0 ? 0 : 1);
	}
	if (pid == -1)
		return (doctor_failed(s->r));
	while (waitpid((pid_t)pid, &status, 0) == -1)
		if (errno != EINTR)
			return (doctor_failed(s->r));
	if (WIFSIGNALED(status))
		doctor_detail(s->r, "killed by signal %d (%s)",
		    WTERMSIG(status), strsignal(WTERMSIG(status)));
	return (WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1);
}

static int
enter_inner(struct step *s)
{
	return (map_ids(s->r, SBX_UID_SANDBOX, SBX_UID_SANDBOX, s->d->uid,
	    s->d->gid));
}

/* What is refused to a whole user namespace has its mend there. */
static int
tell(const struct doctor *d, struct doctor_result *r, int status)
{
	if (status != 0 && r->mend[0] == '\0' && (r->error == EPERM ||
	    r->error == EACCES || r->error == ENOSPC))
		doctor_mend_userns(d, r);
	return (status);
}

int
doctor_namespace(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	struct step s = { d, r };

	if (enter_outer(&s) != 0 || in_namespaces(&s, CLONE_NEWUSER | c->arg,
	    c->text, NULL) != 0) {
		/* ENOSPC: this kind's own limit, if it has one */
		if (r->error == ENOSPC && c->arg != 0)
			return (-1);
		return (tell(d, r, -1));
	}
	return (0);
}

static int
in_sandbox(const struct doctor *d, struct doctor_result *r,
    int (*fn)(struct step *))
{
	struct step s = { d, r };

	if (enter_outer(&s) != 0)
		return (-1);
	return (in_namespaces(&s, ALL_NAMESPACES,
	    "all namespaces of a sandbox", fn));
}

int
doctor_maps(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	return (tell(d, r, in_sandbox(d, r, enter_inner)));
}

/* --- mounts ------------------------------------------------------------------- */

static int
private(struct step *s)
{
	if (enter_inner(s) != 0)
		return (-1);
	doctor_step(s->r, "mount(/, MS_REC | MS_PRIVATE)");
	return (doctor_need(s->r, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE,
	    NULL) == 0));
}

int
doctor_private(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	return (tell(d, r, in_sandbox(d, r, private)));
}

/* The directory "m" of ours, with a tmpfs on it. */
static int
tmpfs(struct step *s)
{
	if (private(s) != 0)
		return (-1);
	doctor_step(s->r, "mkdir");
	if (doctor_need(s->r, mkdir("m", 0755) == 0 || errno == EEXIST) != 0)
		return (-1);
	doctor_step(s->r, "mount(tmpfs)");
	if (doctor_need(s->r, mount("tmpfs", "m", "tmpfs", MS_NOSUID,
	    "mode=0755,size=1m,nr_inodes=64") == 0) != 0)
		return (-1);
	doctor_step(s->r, "chdir");
	return (doctor_need(s->r, chdir("m") == 0));
}

int
doctor_tmpfs(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	return (in_sandbox(d, r, tmpfs));
}

/* userxattr is what makes overlay usable without privilege (Linux 5.11). */
static int
overlay(struct step *s)
{
	static const char *const dirs[] = { "o", "o/lower", "o/upper",
		"o/work", "o/m" };
	static const char options[] =
	    "lowerdir=o/lower,upperdir=o/upper,workdir=o/work,userxattr";
	char SBX_CLEANUP(free) *volatile_too =
	    sbx_xasprintf("%s,volatile", options);

	if (private(s) != 0)
		return (-1);
	for (size_t i = 0; i < SBX_NELEM(dirs); i++) {
		doctor_step(s->r, "mkdir");
		if (doctor_need(s->r, mkdir(dirs[i], 0755) == 0) != 0)
			return (-1);
	}
	doctor_step(s->r, "mount(overlay, userxattr)");
	if (mount("overlay", "o/m", "overlay", MS_NOSUID | MS_NODEV,
	    volatile_too) != 0 && doctor_need(s->r, errno == EINVAL &&
	    mount("overlay", "o/m", "overlay", MS_NOSUID | MS_NODEV,
	    options) == 0) != 0)
		return (-1);
	doctor_step(s->r, "mkdir in the overlay");
	if (doctor_need(s->r, mkdir("o/m/new", 0700) == 0) != 0)
		return (-1);
	/* a whiteout is what needs the filesystem's help */
	doctor_step(s->r, "rmdir in the overlay");
	return (doctor_need(s->r, rmdir("o/m/new") == 0));
}

int
doctor_overlay(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	return (in_sandbox(d, r, overlay));
}

static int
setattr(struct step *s)
{
	struct mount_attr a = { .attr_set = MOUNT_ATTR_RDONLY |
	    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };

	if (tmpfs(s) != 0)
		return (-1);
	/* from its parent: "." would be what lies below the mount */
	doctor_step(s->r, "chdir");
	if (doctor_need(s->r, chdir("..") == 0) != 0)
		return (-1);
	doctor_step(s->r, "mount_setattr(AT_RECURSIVE)");
	return (doctor_need(s->r, syscall(SYS_mount_setattr, AT_FDCWD, "m",
	    AT_RECURSIVE, &a, sizeof(a)) == 0));
}

int
doctor_setattr(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	return (in_sandbox(d, r, setattr));
}

/* Nodes of this machine, bound: a sandbox cannot make any. */
static int
devices(struct step *s)
{
	static const char *const names[] = { "null", "zero", "full", "random",
		"urandom", "tty" };
	char from[32];

	if (tmpfs(s) != 0)
		return (-1);
	for (size_t i = 0; i < SBX_NELEM(names); i++) {
		int SBX_CLEANUP(fd) fd = open(names[i], O_WRONLY | O_CREAT |
		    O_CLOEXEC, 0600);

		(void)snprintf(from, sizeof(from), "/dev/%s", names[i]);
		doctor_step(s->r, "mount(%s, MS_BIND)", from);
		if (doctor_need(s->r, fd != -1 && mount(from, names[i], NULL,
		    MS_BIND, NULL) == 0) != 0)
			return (-1);
	}
	return (0);
}

int
doctor_devices(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	return (in_sandbox(d, r, devices));
}

static int
pivot(struct step *s)
{
	if (tmpfs(s) != 0)
		return (-1);
	doctor_step(s->r, "pivot_root");
	if (doctor_need(s->r, syscall(SYS_pivot_root, ".", ".") == 0) != 0)
		return (-1);
	doctor_step(s->r, "umount2(MNT_DETACH)");
	return (doctor_need(s->r, umount2(".", UMOUNT_DETACH) == 0));
}

int
doctor_pivot(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	return (in_sandbox(d, r, pivot));
}

static int
mount_devpts(struct step *s)
{
	if (tmpfs(s) != 0)
		return (-1);
	doctor_step(s->r, "mkdir");
	if (doctor_need(s->r, mkdir("pts", 0755) == 0) != 0)
		return (-1);
	doctor_step(s->r, "mount(devpts, newinstance)");
	return (doctor_need(s->r, mount("devpts", "pts", "devpts", MS_NOSUID |
	    MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620") == 0));
}

int
doctor_devpts(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	return (in_sandbox(d, r, mount_devpts));
}

static int
mount_proc(struct step *s)
{
	if (tmpfs(s) != 0)
		return (-1);
	doctor_step(s->r, "mkdir");
	if (doctor_need(s->r, mkdir("proc", 0755) == 0) != 0)
		return (-1);
	doctor_step(s->r, "mount(proc)");
	return (doctor_need(s->r, mount("proc", "proc", "proc", MS_NOSUID |
	    MS_NODEV | MS_NOEXEC, NULL) == 0));
}

/* Kernel-made empty directories may be covered: they hide nothing. */
static bool
is_cover(const char *mountpoint)
{
	return (strncmp(mountpoint, "/proc/", 6) == 0 &&
	    strcmp(mountpoint, "/proc/sys/fs/binfmt_misc") != 0);
}

/*
 * A new proc would show what is hidden by mounts over parts of this one, so
 * the kernel refuses it: name those parts.
 */
static void
name_covers(struct doctor_result *r)
{
	char line[1024], point[512];
	FILE *f = fopen("/proc/self/mountinfo", "re");
	size_t n = 0;

	if (f == NULL)
		return;
	while (fgets(line, sizeof(line), f) != NULL) {
		char *p = line;

		for (int field = 1; field < 5 && p != NULL; field++)
			p = (p = strchr(p, ' ')) == NULL ? NULL : p + 1;
		if (p == NULL)
			continue;
		(void)snprintf(point, sizeof(point), "%.*s",
		    (int)strcspn(p, " "), p);
		if (!is_cover(point))
			continue;
		n++;
		doctor_mend(r, "umount %s\n", point);
	}
	(void)fclose(f);
	if (n > 0)
		doctor_detail(r, "%zu mounts lie over parts of /proc, which a "
		    "new one would show", n);
}

int
doctor_proc(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	if (in_sandbox(d, r, mount_proc) == 0)
		return (0);
	if (r->error == EPERM && strcmp(r->call, "mount(proc)") == 0) {
		name_covers(r);
		if (r->mend[0] != '\0')
			doctor_mend(r, "# and take away what put them there:\n"
			    "# systemd: ProtectKernelTunables=no "
			    "ProtectKernelLogs=no ProtectProc=default in the "
			    "unit\n"
			    "# docker run --security-opt "
			    "systempaths=unconfined\n"
			    "# podman run --security-opt unmask=ALL\n");
	}
	return (-1);
}

/* --- the rest ------------------------------------------------------------------- */

static int
hostname(struct step *s)
{
	if (enter_inner(s) != 0)
		return (-1);
	doctor_step(s->r, "sethostname");
	return (doctor_need(s->r, sethostname("doctor", 6) == 0));
}

int
doctor_hostname(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	return (in_sandbox(d, r, hostname));
}

static int
loopback(struct step *s)
{
	struct ifreq ifr = { .ifr_name = "lo" };
	int fd;

	if (enter_inner(s) != 0)
		return (-1);
	doctor_step(s->r, "socket(AF_INET)");
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (doctor_need(s->r, fd != -1) != 0)
		return (-1);
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	doctor_step(s->r, "ioctl(SIOCSIFFLAGS, lo)");
	return (doctor_need(s->r, ioctl(fd, SIOCSIFFLAGS, &ifr) == 0));
}

int
doctor_loopback(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	return (in_sandbox(d, r, loopback));
}
