/* The scratch directory: one directory a sandbox, its upper layer. */
#include "sbxd/engine/engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRASH "trash"		/* what is being deleted */
#define SPARE "spare."		/* made ahead */
#define MAX_SPARES 2
#define MAX_DEPTH 32		/* a guest's tree that is deeper is cut up */
#define MAX_PASSES 100000	/* of cutting up: each moves some levels */

/*
 * A file or directory costs 0.3 ms on a large ext4, which is most of what a
 * sandbox costs to make.  So it gets four, and they are made ahead.  The
 * work tree begins in the upper layer alone: what lies in one layer only needs
 * no merging.
 */
static const char *const parts[] = { "work", TRUST, "upper",
	"upper/workspace" };
/* Where the user is not the engine's own: what is his.  /home is not. */
static const char *const homes[] = { "upper/home", "upper/home/sandbox" };
static const char *const owned[] = { "upper", "upper/workspace",
	"upper/home/sandbox" };

static int
make(const struct scratch *s, const char *name)
{
	mode_t old = umask(022);
	int SBX_CLEANUP(fd) sub = -1;
	int r = 0;

	if (mkdirat(s->dir, name, 0700) == -1 ||
	    (s->tmpfs && scratch_tmpfs_mount(name) == -1) ||
	    (sub = openat(s->dir, name, O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC)) == -1)
		r = -1;
	for (size_t i = 0; r == 0 && i < SBX_NELEM(parts); i++)
		r = mkdirat(sub, parts[i], 0755);
	(void)umask(old);
	return (r);
}

static void
to_trash(struct scratch *s, const char *name)
{
	char to[96];

	/* the names of an earlier life may still be there */
	do
		(void)snprintf(to, sizeof(to), "%.12s.%d.%u", name,
		    (int)getpid(), s->serial++);
	while (renameat2(s->dir, name, s->trash, to, RENAME_NOREPLACE) == -1 &&
	    errno == EEXIST);
}

static void
spare_name(char name[24], unsigned i)
{
	(void)snprintf(name, 24, "%s%u", SPARE, i);
}

bool
scratch_spare(struct scratch *s)
{
	char name[24];

	if (s->tmpfs)
		return (false);	/* memory is fast */
	if (s->nspares < MAX_SPARES) {
		spare_name(name, s->nspares);
		if (make(s, name) == -1) {
			to_trash(s, name);	/* what there is of it */
			return (false);
		}
		s->nspares++;
	}
	return (s->nspares < MAX_SPARES);
}

static int
give(int dir, const char *id, uid_t uid)
{
	mode_t old = umask(022);
	int SBX_CLEANUP(fd) sub = openat(dir, id, O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC);
	int r = sub == -1 ? -1 : 0;

	for (size_t i = 0; r == 0 && i < SBX_NELEM(homes); i++)
		r = mkdirat(sub, homes[i], 0755);
	for (size_t i = 0; r == 0 && i < SBX_NELEM(owned); i++)
		r = fchownat(sub, owned[i], uid, (gid_t)uid,
		    AT_SYMLINK_NOFOLLOW);
	(void)umask(old);
	return (r);
}

int
scratch_make(struct scratch *s, const char *id, uid_t uid,
    struct sbx_err *err)
{
	char name[24];
	bool made = false;

	if (s->nspares > 0) {
		spare_name(name, --s->nspares);
		made = renameat(s->dir, name, s->dir, id) == 0;
	}
	if ((!made && make(s, id) == -1) ||
	    (uid != geteuid() && give(s->dir, id, uid) == -1))
		return (sbx_err_sys(err, "the scratch directory"));
	return (0);
}

int
scratch_make_over(struct scratch *s, const char *id, uid_t uid, int top,
    struct sbx_err *err)
{
	int SBX_CLEANUP(fd) sub = -1;
	struct stat st;

	if (fstat(top, &st) == -1 || mkdirat(s->dir, id, 0700) == -1 ||
	    (s->tmpfs && scratch_tmpfs_mount(id) == -1) ||
	    (sub = openat(s->dir, id, O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC)) == -1 || mkdirat(sub, "work", 0755) == -1 ||
	    mkdirat(sub, TRUST, 0755) == -1 ||
	    fchmodat(sub, TRUST, 0755, 0) == -1 ||
	    mkdirat(sub, "upper", 0755) == -1 || (uid != geteuid() &&
	    fchownat(sub, "upper", uid, (gid_t)uid, AT_SYMLINK_NOFOLLOW) ==
	    -1) || fchmodat(sub, "upper", st.st_mode & 07777, 0) == -1)
		return (sbx_err_sys(err, "the scratch directory"));
	return (0);
}

int
scratch_rename(struct scratch *s, const char *from, const char *id)
{
	if (s->tmpfs)
		return (scratch_tmpfs_move(from, id) == 0 ? 0 : SBX_E_SYS);
	return (renameat(s->dir, from, s->dir, id) == 0 ? 0 : SBX_E_SYS);
}

uint32_t
scratch_limit(struct scratch *s, const char *id, uint64_t bytes)
{
	return (s->tmpfs && scratch_tmpfs_size(id, bytes) == 0 ?
	    SBX_LIMIT_DISK : 0);
}

/* --- deleting, in a child ---------------------------------------------------- */

/*
 * Delete everything in dir (consumed), links not followed; nobody writes there
 * any more.  Guests make trees as deep as they like: what lies too deep is
 * moved to top, to be deleted from there in the next pass.
 */
static void
empty(int dir, int top, unsigned depth)
{
	static unsigned long serial;
	DIR *d = fdopendir(dir);
	struct dirent *e;
	char name[40];
	int sub;

	if (d == NULL) {
		(void)close(dir);
		return;
	}
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(dir, e->d_name, 0) == 0 ||
		    unlinkat(dir, e->d_name, AT_REMOVEDIR) == 0)
			continue;
		if (depth >= MAX_DEPTH) {
			(void)snprintf(name, sizeof(name), "deep.%d.%lu",
			    (int)getpid(), serial++);
			(void)renameat(dir, e->d_name, top, name);
			continue;
		}
		/* a guest's mode is no obstacle: the engine has
		 * CAP_DAC_OVERRIDE over its own uid's files */
		sub = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY |
		    O_NOFOLLOW | O_CLOEXEC);
		if (sub != -1)
			empty(sub, top, depth + 1);
		(void)unlinkat(dir, e->d_name, AT_REMOVEDIR);
	}
	(void)closedir(d);
}

static bool
is_empty(int dir)
{
	DIR *d = fdopendir(fcntl(dir, F_DUPFD_CLOEXEC, 3));
	struct dirent *e;
	unsigned n = 0;

	if (d == NULL)
		return (true);
	rewinddir(d);
	while (n <= 2 && (e = readdir(d)) != NULL)
		n++;
	(void)closedir(d);
	return (n <= 2);
}

/* Of the engine's descriptors it keeps one: a channel or a pipe that is held
 * here would not end with the engine. */
static _Noreturn void
delete_all(int trash)
{
	(void)prctl(PR_SET_NAME, "sbx-delete");
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setpriority(PRIO_PROCESS, 0, 19);
	if (dup2(trash, 3) == -1 || close_range(4, ~0u, 0) == -1)
		_exit(1);
	for (unsigned pass = 0; pass < MAX_PASSES && !is_empty(3); pass++)
		empty(openat(3, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 3,
		    0);
	_exit(0);
}

/* One child at a time; what came meanwhile is for the next one. */
static void
start_deleting(struct scratch *s)
{
	pid_t pid;

	if (s->deleter != 0) {
		s->more = true;
		return;
	}
	s->more = false;
	pid = fork();
	if (pid == 0)
		delete_all(s->trash);
	if (pid == -1)
		log_warn("deleted scratch stays until later: fork: %s, "
		    "ignoring", strerror(errno));
	else
		s->deleter = pid;
}

bool
scratch_reaped(struct scratch *s, pid_t pid)
{
	if (pid != s->deleter)
		return (false);
	s->deleter = 0;
	if (s->more)
		start_deleting(s);
	return (true);
}

void
scratch_drop(struct scratch *s, const char *name)
{
	if (s->tmpfs)
		scratch_tmpfs_drop(name);
	to_trash(s, name);
	start_deleting(s);
}

int
scratch_open(struct scratch *s, int dir, unsigned storage,
    struct sbx_err *err)
{
	s->dir = dir;
	s->tmpfs = storage == SBX_STORAGE_TMPFS;
	if (mkdirat(dir, TRASH, 0700) == -1 && errno != EEXIST)
		return (sbx_err_sys(err, "the scratch directory"));
	s->trash = openat(dir, TRASH, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	if (s->trash == -1)
		return (sbx_err_sys(err, "the scratch directory"));
	return (0);
}

void
scratch_collect(struct scratch *s, void (*found)(void *, const char *),
    void *arg)
{
	int fd = openat(s->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (sbx_is_hex(e->d_name, SBX_CONTAINER_HEX))
			found(arg, e->d_name);
		else if (strncmp(e->d_name, SPARE, strlen(SPARE)) != 0 &&
		    strncmp(e->d_name, SCRATCH_LAYER,
		    strlen(SCRATCH_LAYER)) != 0 &&
		    strncmp(e->d_name, SCRATCH_NEXT,
		    strlen(SCRATCH_NEXT)) != 0 &&
		    strncmp(e->d_name, SCRATCH_AHEAD,
		    strlen(SCRATCH_AHEAD)) != 0)
			continue;
		to_trash(s, e->d_name);
	}
	if (d != NULL)
		(void)closedir(d);
	start_deleting(s);
}
