#include "sbxd/monitor/monitor.h"
#include "sbxd/monitor/publish.h"

#include "common/base/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Everything that needs a path, done once, before the cage: the slot, the
 * directories, the listener, the programs.  What is needed later, also by a
 * component that is started again, stays open as a descriptor.
 */

#define SUITE_NOFILE 4096	/* common/privs: soft limit of our rows */
#define GUEST_NOFILE_MIN 128

/* --- directories --------------------------------------------------------- */

/*
 * Open a directory that only its owner can enter, made when missing.  Refused
 * when somebody else owns it or may write to it: what lies below is trusted.
 */
static int
open_own(int at, const char *name, uid_t owner, gid_t group, int *ret_fd,
    struct sbx_err *err)
{
	int SBX_CLEANUP(fd) fd = -1;
	struct stat st;

	if (mkdirat(at, name, 0700) == -1 && errno != EEXIST)
		return (sbx_err_sys(err, "mkdir %.160s", name));
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1 || fstat(fd, &st) == -1)
		return (sbx_err_sys(err, "open %.160s", name));
	if (st.st_uid != owner && geteuid() == 0 && (st.st_uid == 0 ||
	    S_ISDIR(st.st_mode))) {
		if (fchown(fd, owner, group) == -1)
			return (sbx_err_sys(err, "chown %.160s", name));
	} else if (st.st_uid != owner)
		return (sbx_err_set(err, SBX_E_POLICY, "%.160s belongs to "
		    "uid %u, not to uid %u", name, st.st_uid, owner));
	if ((st.st_mode & 077) != 0 && fchmod(fd, 0700) == -1)
		return (sbx_err_sys(err, "chmod %.160s", name));
	*ret_fd = sbx_steal_fd(&fd);
	return (0);
}

struct ids {
	uid_t sbxd, journal, front;
	gid_t sbxd_gid, journal_gid;
};

static int
find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid,
    struct sbx_err *err)
{
	const struct passwd *pw = getpwnam(name);

	if (pw == NULL)
		return (sbx_err_set(err, SBX_E_NOENT, "there is no user %s: "
		    "run `systemd-sysusers` with sbx.conf, or `useradd "
		    "--system --user-group %s`", name, name));
	*ret_uid = pw->pw_uid;
	*ret_gid = pw->pw_gid;
	return (0);
}

/* Whose the directories must be; without root, the caller's. */
static int
find_ids(struct monitor *m, struct ids *ids, struct sbx_err *err)
{
	gid_t unused;
	int r;

	ids->sbxd = ids->journal = ids->front = geteuid();
	ids->sbxd_gid = ids->journal_gid = getegid();
	if (!m->by_root)
		return (0);
	if ((r = find_user("sbxd", &ids->sbxd, &ids->sbxd_gid, err)) != 0 ||
	    (r = find_user("sbx-journal", &ids->journal, &ids->journal_gid,
	    err)) != 0 ||
	    (r = find_user("sbx-front", &ids->front, &unused, err)) != 0)
		return (r);
	m->front_uid = ids->front;
	return (0);
}

/* --- the slot ------------------------------------------------------------ */

/* One suite a slot: the lock ends with the process that holds it, however
 * that ends, so a dead suite's slot is free at once. */
static int
try_slot(struct monitor *m, unsigned slot, int *ret_dir, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *path = NULL;
	int SBX_CLEANUP(fd) dir = -1, SBX_CLEANUP(fd) lock = -1;
	int r;

	path = sbx_xasprintf("%s/suite-%u", m->paths.state, slot);
	if ((r = open_own(AT_FDCWD, path, geteuid(), getegid(), &dir,
	    err)) != 0)
		return (r);
	lock = openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
	    0600);
	if (lock == -1)
		return (sbx_err_sys(err, "%.160s/lock", path));
	if (flock(lock, LOCK_EX | LOCK_NB) == -1)
		return (errno == EWOULDBLOCK ? SBX_E_EXISTS :
		    sbx_err_sys(err, "flock %.160s/lock", path));
	m->slot = slot;
	m->fd_lock = sbx_steal_fd(&lock);
	*ret_dir = sbx_steal_fd(&dir);
	return (0);
}

/* The first free one; the daemon has one only. */
static int
take_slot(struct monitor *m, int *ret_dir, struct sbx_err *err)
{
	unsigned slot;
	int r;

	for (slot = m->slot_first; slot <= m->slot_last; slot++)
		if ((r = try_slot(m, slot, ret_dir, err)) != SBX_E_EXISTS)
			return (r);
	return (sbx_err_set(err, SBX_E_EXISTS, m->slot_first == m->slot_last ?
	    "a suite runs already in %.128s/suite-%u" :
	    "all slots in %.128s are taken, up to suite-%u", m->paths.state,
	    m->slot_last));
}

/* --- the sockets --------------------------------------------------------- */

/*
 * Listen on dir/name, dir being path.  A socket that is there is of a dead
 * suite: we hold the slot's lock.
 */
static int
open_socket(int dir, const char *path, const char *name, int type,
    int *ret_fd, struct sbx_err *err)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int SBX_CLEANUP(fd) fd = -1;

	if ((size_t)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%s",
	    path, name) >= sizeof(sun.sun_path))
		return (sbx_err_set(err, SBX_E_LIMIT, "the path of a "
		    "socket is longer than %zu bytes: %.128s/%s",
		    sizeof(sun.sun_path) - 1, path, name));
	if (unlinkat(dir, name, 0) == -1 && errno != ENOENT)
		return (sbx_err_sys(err, "unlink %s", sun.sun_path));
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1 || bind(fd, (struct sockaddr *)&sun, sizeof(sun)) == -1 ||
	    listen(fd, 64) == -1)
		return (sbx_err_sys(err, "listen on %s", sun.sun_path));
	/* umask 077 made it 0700: sockets need no x */
	if (fchmodat(dir, name, 0600, 0) == -1)
		return (sbx_err_sys(err, "chmod %s", sun.sun_path));
	*ret_fd = sbx_steal_fd(&fd);
	return (0);
}

/* mcp.sock is the front's, for clients; ctl.sock ours, for operators. */
static int
open_sockets(struct monitor *m, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *path = NULL;
	struct sockaddr_un sun = { 0 };
	socklen_t len = sizeof(sun);
	int SBX_CLEANUP(fd) dir = -1;
	int r;

	path = sbx_xasprintf("%s/suite-%u", m->paths.run, m->slot);
	if ((r = sbx_make_dirs(m->paths.run, err)) != 0 ||
	    (r = open_own(AT_FDCWD, path, geteuid(), getegid(), &dir,
	    err)) != 0 ||
	    (r = open_socket(dir, path, "mcp.sock", SOCK_STREAM,
	    &m->fd_listen, err)) != 0 ||
	    (r = open_socket(dir, path, "ctl.sock", SOCK_SEQPACKET,
	    &m->fd_ctl, err)) != 0)
		return (r);
	if (getsockname(m->fd_listen, (struct sockaddr *)&sun, &len) == -1)
		return (sbx_err_sys(err, "getsockname"));
	(void)sbx_strlcpy(m->socket, sun.sun_path, sizeof(m->socket));
	return (0);
}

/* --- programs ------------------------------------------------------------ */

/* Beside ourselves, but for an installed sbxd, whose helpers are elsewhere. */
int
setup_program_dir(char dst[PATH_MAX], struct sbx_err *err)
{
	ssize_t n = readlink("/proc/self/exe", dst, PATH_MAX - 1);
	struct stat here, bin;
	char *slash;

	if (n <= 0)
		return (sbx_err_sys(err, "readlink /proc/self/exe"));
	dst[n] = '\0';
	if ((slash = strrchr(dst, '/')) != NULL)
		*slash = '\0';
	/* the kernel's path has no links in it, the configured one may */
	if (stat(dst, &here) == 0 && stat(SBX_BINDIR, &bin) == 0 &&
	    here.st_dev == bin.st_dev && here.st_ino == bin.st_ino)
		return (sbx_strlcpy(dst, SBX_PKGLIBEXECDIR, PATH_MAX));
	return (0);
}

/* The image store is one for all suites of this user. */
static int
open_images(struct monitor *m, const struct ids *ids, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *path = NULL;

	path = sbx_xasprintf("%s/images", m->paths.state);
	return (open_own(AT_FDCWD, path, ids->sbxd, ids->sbxd_gid,
	    &m->dir_images, err));
}

/* O_PATH: it is handed to the engine, which executes it by descriptor. */
static int
open_init(struct monitor *m, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *path = NULL;
	char dir[PATH_MAX];
	int r;

	if ((r = setup_program_dir(dir, err)) != 0)
		return (r);
	path = sbx_xasprintf("%s/sbx-init", dir);
	m->fd_init = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (m->fd_init == -1)
		return (sbx_err_sys(err, "%.200s", path));
	return (0);
}

/* execv(2) of the starter, in the child of fork(2): only async-signal-safe
 * calls from here on. */
static void
exec_starter(const struct monitor *m, const char *path, int channel)
{
	char *argv[6] = { "sbxd-starter" };
	unsigned i;

	for (i = 0; i < m->debug && i < 4; i++)
		argv[1 + i] = "-d";
	if (channel == 3) {
		if (fcntl(3, F_SETFD, 0) == -1)
			_exit(2);
	} else if (dup2(channel, 3) == -1)
		_exit(2);
	if (close_range(4, ~0U, 0) == -1)
		_exit(2);
	(void)execv(path, argv);
	_exit(127);
}

int
setup_starter(struct monitor *m, int *ret_channel, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *path = NULL;
	char dir[PATH_MAX];
	int pair[2], r;
	pid_t pid;

	if ((r = setup_program_dir(dir, err)) != 0)
		return (r);
	path = sbx_xasprintf("%s/sbxd-starter", dir);
	if (access(path, X_OK) == -1)
		return (sbx_err_sys(err, "%.200s", path));
	if ((r = sbx_wire_pair(pair)) != 0)
		return (sbx_err_set(err, r, "no socketpair for the starter"));
	if ((pid = fork()) == -1)
		return (sbx_err_sys(err, "fork"));
	if (pid == 0)
		exec_starter(m, path, pair[1]);
	sbx_close(&pair[1]);
	m->starter_pid = pid;
	*ret_channel = pair[0];
	return (0);
}

/* --- what a client may copy from ----------------------------------------- */

/* Each once; past the table's end the later ones are passed over. */
/* A refused root is no error: everything else works without it. */
static void
open_copy_root(struct monitor *m, char *(*env)(const char *))
{
	const char *dir = m->conf.copy_root[0] != '\0' ?
	    m->conf.copy_root : ".";
	struct sbx_err err = { 0 };

	if (sbx_copy_root_open(dir, env("HOME"), &m->fd_root, &err) == 0)
		return;
	m->fd_root = -1;
	(void)sbx_strlcpy(m->root_reason, err.msg, sizeof(m->root_reason));
	if (m->conf.copy_root[0] != '\0')
		log_warn("copying from the host is unavailable: %s", err.msg);
}

/* --- all of it ----------------------------------------------------------- */

/*
 * A guest's hard limit stays below our soft one: descriptors in flight are
 * counted per uid, and a guest that fills its own limit must not make our
 * sends fail (unix(7), ETOOMANYREFS).
 */
static int
set_nofile(struct monitor *m, struct sbx_err *err)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == -1)
		return (sbx_err_sys(err, "getrlimit RLIMIT_NOFILE"));
	rl.rlim_cur = rl.rlim_max < SUITE_NOFILE ? rl.rlim_max : SUITE_NOFILE;
	if (rl.rlim_cur < SBX_NOFILE_GAP + GUEST_NOFILE_MIN)
		return (sbx_err_set(err, SBX_E_LIMIT, "the hard limit of open "
		    "files is %llu, at least %u are needed (ulimit -Hn)",
		    (unsigned long long)rl.rlim_max,
		    SBX_NOFILE_GAP + GUEST_NOFILE_MIN));
	if (setrlimit(RLIMIT_NOFILE, &rl) == -1)
		return (sbx_err_sys(err, "setrlimit RLIMIT_NOFILE"));
	m->nofile_hard = (uint32_t)rl.rlim_cur - SBX_NOFILE_GAP;
	return (0);
}

int
setup_open(struct monitor *m, char *(*env)(const char *),
    struct sbx_err *err)
{
	int SBX_CLEANUP(fd) dir = -1;
	struct ids ids;
	int r;

	m->uid = geteuid();
	m->gid = getegid();
	m->by_root = m->uid == 0;
	if ((r = set_nofile(m, err)) != 0 ||
	    (r = find_ids(m, &ids, err)) != 0 ||
	    (r = sbx_make_dirs(m->paths.state, err)) != 0 ||
	    (r = lockdown_read(m, err)) != 0 ||
	    (r = take_slot(m, &dir, err)) != 0 ||
	    (r = open_own(dir, "journal", ids.journal, ids.journal_gid,
	    &m->dir_journal, err)) != 0 ||
	    (r = open_own(dir, "runs", ids.sbxd, ids.sbxd_gid,
	    &m->dir_runs, err)) != 0 ||
	    (r = open_own(dir, "scratch", ids.sbxd, ids.sbxd_gid,
	    &m->dir_scratch, err)) != 0 ||
	    (r = open_images(m, &ids, err)) != 0 ||
	    (r = setup_userns(m, ids.sbxd, ids.sbxd_gid, err)) != 0 ||
	    (r = open_init(m, err)) != 0 ||
	    (r = setup_limits(m, err)) != 0 ||
	    (r = setup_egress(m, err)) != 0 ||
	    (r = setup_publish(m, err)) != 0 ||
	    (r = setup_pushes(m, dir, err)) != 0 ||
	    (r = open_sockets(m, err)) != 0)
		return (r);
	setup_cgroups(m, ids.sbxd);
	if (m->stdio)
		open_copy_root(m, env);
	sbx_homes_find(&m->homes, env("HOME"));
	return (setup_http(m, err));
}
