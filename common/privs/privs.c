/*
 * The only code of the suite that drops privileges.  The order is fixed, and
 * what was dropped is tried to be regained: that must fail.
 */

#include "common/privs/privs.h"

#include "common/privs/row.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

struct ids {
	uid_t uid;
	gid_t gid;
	bool change;		/* started by root, and the row says so */
};

static int
write_proc(const char *path, const char *text, struct sbx_err *err)
{
	SBX_CLEANUP(fd) int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || sbx_write_all(fd, text, strlen(text)) < 0)
		return (sbx_err_sys(err, "%s", path));
	return (0);
}

/* Make one, with this one uid and gid. */
static int
make_userns(struct sbx_err *err)
{
	SBX_CLEANUP(free) char *uids = NULL;
	SBX_CLEANUP(free) char *gids = NULL;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int r;

	uids = sbx_xasprintf("%u %u 1\n", uid, uid);
	gids = sbx_xasprintf("%u %u 1\n", gid, gid);
	if (unshare(CLONE_NEWUSER) < 0)
		return (sbx_err_sys(err, "unshare of a user namespace "
		    "(see user.max_user_namespaces, "
		    "kernel.unprivileged_userns_clone, "
		    "kernel.apparmor_restrict_unprivileged_userns)"));
	/* /proc/self belongs to root while the process is not dumpable.  The
	 * others that run under this uid meanwhile are caged, without ptrace;
	 * outside a cage they could have attached before the exec, too. */
	if (prctl(PR_SET_DUMPABLE, 1) < 0)
		return (sbx_err_sys(err, "prctl: PR_SET_DUMPABLE"));
	r = write_proc("/proc/self/setgroups", "deny", err);
	if (r == 0)
		r = write_proc("/proc/self/gid_map", gids, err);
	if (r == 0)
		r = write_proc("/proc/self/uid_map", uids, err);
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return (sbx_err_sys(err, "prctl: PR_SET_DUMPABLE"));
	return (r);
}

/* The descriptor was opened by the monitor.  Whoever enters a namespace holds
 * all capabilities in it, so it must be one that only maps what it should:
 * what can be seen of that from here are the own ids. */
static int
enter_userns(int fd, struct sbx_err *err)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (setns(fd, CLONE_NEWUSER) < 0)
		return (sbx_err_sys(err, "setns to the user namespace of "
		    "sandboxes"));
	if (geteuid() != uid || getegid() != gid)
		return (sbx_err_set(err, SBX_E_POLICY, "the user namespace of "
		    "sandboxes does not map uid %u and gid %u", uid, gid));
	return (0);
}

static bool
is_own_userns(int fd)
{
	struct stat own, st;

	return (stat("/proc/self/ns/user", &own) == 0 && fstat(fd, &st) == 0 &&
	    own.st_dev == st.st_dev && own.st_ino == st.st_ino);
}

int
sbx_privs_namespaces(const int *userns_fd, struct sbx_err *err)
{
	int r;

	if (userns_fd == NULL || is_own_userns(*userns_fd))
		r = make_userns(err);
	else
		r = enter_userns(*userns_fd, err);
	if (r == 0 && unshare(CLONE_NEWNET) < 0)
		r = sbx_err_sys(err, "unshare of a network namespace");
	return (r);
}

_Noreturn static void
early_fail(const char *what)
{
	SBX_CLEANUP(free) char *text = sbx_xasprintf("cannot start: %s: %s\n",
	    what, strerror(errno));

	/* Nothing else is set up that could carry the sentence. */
	(void)!write(STDERR_FILENO, text, strlen(text));
	_exit(2);
}

static int
lower(int resource, const char *name, rlim_t want, bool keep_hard,
    struct sbx_err *err)
{
	struct rlimit lim;

	if (getrlimit(resource, &lim) < 0)
		return (sbx_err_sys(err, "getrlimit: %s", name));
	/* RLIM_INFINITY is the largest number: it leaves the hard limit. */
	lim.rlim_cur = want < lim.rlim_max ? want : lim.rlim_max;
	if (!keep_hard)
		lim.rlim_max = lim.rlim_cur;
	if (setrlimit(resource, &lim) < 0)
		return (sbx_err_sys(err, "setrlimit: %s", name));
	return (0);
}

void
sbx_privs_early(void)
{
	struct sbx_err err;
	int fd;

	/* Descriptors 0 to 2 must be something before anything is opened. */
	do {
		if ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0)
			early_fail("/dev/null");
	} while (fd <= STDERR_FILENO &&
	    fcntl(fd, F_SETFD, 0) == 0);
	if (dup2(fd, STDIN_FILENO) < 0)
		early_fail("dup2: stdin");
	(void)close(fd); /* 3 when no channel was handed in */
	if (close_range(4, ~0U, 0) < 0)
		early_fail("close_range (Linux 5.9 or newer is needed)");
	/* No channel on 3: the caller's first receive says so. */
	(void)fcntl(3, F_SETFD, FD_CLOEXEC);
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		early_fail("prctl: PR_SET_DUMPABLE");
	if (lower(RLIMIT_CORE, "RLIMIT_CORE", SBX_CORE_NEVER, false, &err) < 0)
		early_fail("setrlimit: RLIMIT_CORE");
	(void)umask(077);
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		early_fail("signal: SIGPIPE");
}

/* Before anything is dropped: the user database may need files. */
static int
find_ids(const struct sbx_privs_row *row, const struct sbx_privs_args *args,
    struct ids *ret_ids, struct sbx_err *err)
{
	struct passwd *pw;

	ret_ids->uid = geteuid();
	ret_ids->gid = getegid();
	ret_ids->change = false;
	if (ret_ids->uid != 0 || row->ids == SBX_IDS_KEEP)
		return (0);
	ret_ids->change = true;
	if (row->ids == SBX_IDS_ARGS) {
		/* The caller may be root itself.  Its files are then read as
		 * uid 0 with no capability at all: what root owns, no more. */
		ret_ids->uid = args->uid;
		ret_ids->gid = args->gid;
		return (0);
	}
	errno = 0;
	if ((pw = getpwnam(row->user)) == NULL)
		return (sbx_err_set(err, SBX_E_SYS, "getpwnam: no user %s: run "
		    "systemd-sysusers with contrib/sysusers.d/sbx.conf, or "
		    "useradd --system --user-group %s", row->user, row->user));
	if (pw->pw_uid == 0 || pw->pw_gid == 0)
		return (sbx_err_set(err, SBX_E_POLICY, "getpwnam: user %s is "
		    "root or in its group: give it ids of its own", row->user));
	ret_ids->uid = pw->pw_uid;
	ret_ids->gid = pw->pw_gid;
	return (0);
}

static int
set_limits(const struct sbx_privs_row *row, struct sbx_err *err)
{
	bool keep = row->flags & SBX_ROW_HARD;
	int r;

	if ((r = lower(RLIMIT_CORE, "RLIMIT_CORE", SBX_CORE_NEVER, false,
	    err)) < 0 ||
	    (r = lower(RLIMIT_NOFILE, "RLIMIT_NOFILE", row->nofile, keep,
	    err)) < 0)
		return (r);
	/* What is not restricted stays as the operator left it. */
	if (row->nproc != RLIM_INFINITY &&
	    (r = lower(RLIMIT_NPROC, "RLIMIT_NPROC", row->nproc, false,
	    err)) < 0)
		return (r);
#ifndef SBX_SANITIZERS /* their shadow memory counts as data */
	if (row->data != RLIM_INFINITY &&
	    (r = lower(RLIMIT_DATA, "RLIMIT_DATA", row->data, false,
	    err)) < 0)
		return (r);
#endif
	return (0);
}

/* Without CAP_SETPCAP the set cannot shrink; no_new_privs then empties it of
 * meaning. */
static int
drop_bounding(const struct sbx_privs_row *row, struct sbx_err *err)
{
	cap_flag_value_t able = CAP_CLEAR;
	cap_t now = cap_get_proc();
	int r = 0;

	if (now == NULL || cap_get_flag(now, CAP_SETPCAP, CAP_EFFECTIVE,
	    &able) < 0)
		r = sbx_err_sys(err, "cap_get_proc");
	(void)cap_free(now); /* fails on NULL only */
	for (unsigned c = 0; r == 0 && able == CAP_SET && c < 64; c++) {
		if (row->caps & 1ull << c)
			continue;
		/* EINVAL: past the last one that this kernel knows. */
		if (prctl(PR_CAPBSET_DROP, c) < 0 && errno != EINVAL)
			r = sbx_err_sys(err, "prctl: PR_CAPBSET_DROP %u", c);
	}
	return (r);
}

static int
drop_ids(const struct sbx_privs_row *row, const struct ids *ids,
    struct sbx_err *err)
{
	/* All stay permitted, none effective; set_caps() leaves the row's. */
	if (row->caps != 0 && prctl(PR_SET_KEEPCAPS, 1) < 0)
		return (sbx_err_sys(err, "prctl: PR_SET_KEEPCAPS"));
	if (setgroups(1, &ids->gid) < 0)
		return (sbx_err_sys(err, "setgroups: %u", ids->gid));
	if (setresgid(ids->gid, ids->gid, ids->gid) < 0)
		return (sbx_err_sys(err, "setresgid: %u", ids->gid));
	if (setresuid(ids->uid, ids->uid, ids->uid) < 0)
		return (sbx_err_sys(err, "setresuid: %u", ids->uid));
	if (row->caps != 0 && prctl(PR_SET_KEEPCAPS, 0) < 0)
		return (sbx_err_sys(err, "prctl: PR_SET_KEEPCAPS"));
	return (0);
}

static int
try_regain(struct sbx_err *err)
{
	uid_t r, e, s, uid = geteuid();
	gid_t rg, eg, sg, gid = getegid();

	if (setresuid((uid_t)-1, 0, (uid_t)-1) == 0)
		return (sbx_err_set(err, SBX_E_POLICY, "root was regained"));
	if (gid != 0 && setresgid((gid_t)-1, 0, (gid_t)-1) == 0)
		return (sbx_err_set(err, SBX_E_POLICY, "group 0 was regained"));
	if (getresuid(&r, &e, &s) < 0 || getresgid(&rg, &eg, &sg) < 0)
		return (sbx_err_sys(err, "getresuid"));
	if (r != uid || e != uid || s != uid || rg != gid || eg != gid ||
	    sg != gid)
		return (sbx_err_set(err, SBX_E_POLICY, "saved ids differ from "
		    "the effective ones (a set-id program?)"));
	return (0);
}

/* Exactly the bits in `want` of what is permitted now; read back. */
static int
set_caps(uint64_t want, struct sbx_err *err)
{
	cap_t have = cap_get_proc(), set = cap_init();
	cap_flag_value_t on;
	int r = 0;

	if (have == NULL || set == NULL)
		r = sbx_err_sys(err, "cap_get_proc");
	for (cap_value_t c = 0; r == 0 && c < cap_max_bits(); c++) {
		if (!(want & 1ull << c) ||
		    cap_get_flag(have, c, CAP_PERMITTED, &on) < 0 ||
		    on == CAP_CLEAR)
			continue;
		if (cap_set_flag(set, CAP_PERMITTED, 1, &c, CAP_SET) < 0 ||
		    cap_set_flag(set, CAP_EFFECTIVE, 1, &c, CAP_SET) < 0)
			r = sbx_err_sys(err, "cap_set_flag");
	}
	if (r == 0 && cap_set_proc(set) < 0)
		r = sbx_err_sys(err, "capset");
	(void)cap_free(have); /* fails on NULL only */
	have = NULL;
	if (r == 0 && ((have = cap_get_proc()) == NULL ||
	    cap_compare(have, set) != 0))
		r = sbx_err_set(err, SBX_E_POLICY,
		    "capget: capabilities are left after capset");
	(void)cap_free(have);
	(void)cap_free(set);
	return (r);
}

/* The kernel forgets it on a change of ids, so it comes after the last. */
static int
die_with_parent(pid_t parent, struct sbx_err *err)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return (sbx_err_sys(err, "prctl: PR_SET_PDEATHSIG"));
	if (getppid() != parent)
		return (sbx_err_set(err, SBX_E_CLOSED, "the parent died"));
	return (0);
}

static int
check_args(const struct sbx_privs_row *row, const struct sbx_privs_args *args,
    struct sbx_err *err)
{
	if (row->ids == SBX_IDS_ARGS && geteuid() != 0 &&
	    (args->uid != geteuid() || args->gid != getegid()))
		return (sbx_err_set(err, SBX_E_POLICY, "not started by root, "
		    "so it cannot read with the rights of uid %u", args->uid));
	return (0);
}

/* Ids and capabilities.  *ret_own: the ids are the row's own. */
static int
drop_power(const struct sbx_privs_row *row, const struct ids *ids,
    bool *ret_own, struct sbx_err *err)
{
	int r;

	/* For the log only: whoever runs as another user than the one that
	 * started the suite was given that by root, with an empty set. */
	*ret_own = ids->change || (row->ids == SBX_IDS_OWN &&
	    geteuid() != 0 && prctl(PR_CAPBSET_READ, CAP_SETUID) == 0);
	if (!(row->flags & SBX_ROW_CAPS) && (r = drop_bounding(row, err)) < 0)
		return (r);
	if (ids->change && (r = drop_ids(row, ids, err)) < 0)
		return (r);
	if (geteuid() != 0 && (r = try_regain(err)) < 0)
		return (r);
	if (!(row->flags & SBX_ROW_CAPS))
		return (set_caps(row->caps, err));
	return (0);
}

int
sbx_privs_become(enum sbx_proc proc, struct sbx_err *err)
{
	const struct sbx_privs_row *row = sbx_privs_row(proc);
	struct sbx_privs_args none = { 0 };
	struct ids ids;
	bool own;
	int r;

	if (geteuid() != 0 || row->ids != SBX_IDS_OWN)
		return (0);
	if ((r = find_ids(row, &none, &ids, err)) < 0)
		return (r);
	return (drop_power(row, &ids, &own, err));
}

int
sbx_privs_users(struct sbx_err *err)
{
	const struct sbx_privs_row *row;
	struct sbx_privs_args none = { 0 };
	struct ids ids;
	int r = 0;

	for (int p = 0; p < SBX_PROC_MAX && r == 0; p++) {
		row = sbx_privs_row((enum sbx_proc)p);
		if (row->ids == SBX_IDS_OWN)
			r = find_ids(row, &none, &ids, err);
	}
	return (r);
}

/* The part that changes who the process is. */
static int
drop(const struct sbx_privs_row *row, const struct ids *ids,
    const int *userns_fd, uint32_t *features, struct sbx_err *err)
{
	bool own;
	int r;

	if ((r = drop_power(row, ids, &own, err)) < 0)
		return (r);
	if (own)
		*features |= SBX_PRIVS_OWN_USER;
	if (row->flags & SBX_ROW_NAMESPACES) {
		/* After the drop, unlike chroot: a namespace belongs to the
		 * uid that makes it, and that enters it, so that the
		 * capabilities that are held in it are held nowhere else. */
		if ((r = sbx_privs_namespaces(userns_fd, err)) < 0)
			return (r);
		*features |= SBX_PRIVS_USERNS | SBX_PRIVS_NETNS;
	}
	return (0);
}

int
sbx_privs_enter(enum sbx_proc proc, const struct sbx_privs_args *args,
    uint32_t *ret_features, struct sbx_err *err)
{
	static const struct sbx_privs_args none = { 0 };
	const struct sbx_privs_row *row;
	pid_t parent = getppid();
	struct ids ids;
	int r;

	if (proc >= SBX_PROC_MAX)
		return (sbx_err_set(err, SBX_E_RANGE, "no such row"));
	row = sbx_privs_row(proc);
	if (args == NULL)
		args = &none;
	*ret_features = 0;
	/* With a fixed zone libc opens no file for any time function. */
	if (setenv("TZ", "UTC0", 1) < 0)
		return (sbx_err_sys(err, "setenv: TZ"));
	tzset();
	if ((r = check_args(row, args, err)) < 0 ||
	    (r = find_ids(row, args, &ids, err)) < 0 ||
	    (r = set_limits(row, err)) < 0 ||
	    (r = drop(row, &ids, args->userns_fd, ret_features, err)) < 0)
		return (r);
	if ((row->flags & SBX_ROW_DIES) &&
	    (r = die_with_parent(parent, err)) < 0)
		return (r);
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return (sbx_err_sys(err, "prctl: PR_SET_DUMPABLE"));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return (sbx_err_sys(err, "prctl: PR_SET_NO_NEW_PRIVS"));
	sbx_privs_sanitizer_caged();
	if ((row->flags & SBX_ROW_LANDLOCK) &&
	    (r = sbx_privs_landlock(row, args->dir_fds, args->ndir_fds,
	    ret_features, err)) < 0)
		return (r);
	return (sbx_privs_seccomp(row, args->trap, err));
}
