/*
 * Looking through layers and copying them, in a child of low priority.  What
 * is read may change under it, by guests who mean no good: every name is
 * opened below its directory, no link is followed, and there are limits to
 * depth, number and size.
 *
 * Several layers become one by being written over each other, the lowest
 * first.  What says that something is not there, a device 0/0 or an opaque
 * directory, is kept: an image lies below.  (Linux, overlayfs.rst; the
 * attributes are user.overlay.* with `userxattr`.)
 */
#include "common/base/paths.h"
#include "common/base/sha256.h"
#include "sbxd/engine/engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MAX_DEPTH 400		/* one descriptor or two each */
#define LINK_CHAINS 4096
#define XATTRS_MAX 65536		/* of one file: XATTR_LIST_MAX */
/* Names held at once, of a directory and those that it is in: a guest decides
 * how many there are, and how long, and this is no guest's memory. */
#define NAMES_MAX (128u << 20)
#define OPAQUE "user.overlay.opaque"
#define NICE 5
/* Of the child: result, destination, then the sources. */
enum { RESULT_FD = 3, TO_FD, SOURCE_FD };

/* Files with several names: each has one more, a number, in `links`. */
struct twin {
	struct twin *next;
	ino_t ino;
	unsigned number;
};
struct tree {
	struct snap_result r;
	bool copied;		/* the source is a copy itself */
	bool write, merge, no_clone;
	struct sbx_sha256 *sha;	/* &digest, NULL: none is made now */
	struct sbx_sha256 digest;
	unsigned names;		/* read so far, of files and directories */
	struct twin *twins[LINK_CHAINS];
	unsigned ntwins;
	size_t held;		/* bytes of names */
	int links;
	struct sbx_buf path;	/* below the layer, for the digest */
	char data[1 << 16], attrs[XATTRS_MAX];
};

/* -1, and why, unless something failed before. */
static int
fail(struct tree *t, int error, const char *step)
{
	if (t->r.error == 0) {
		t->r.error = error;
		(void)sbx_strlcpy(t->r.reason, step, sizeof(t->r.reason));
	}
	return (-1);
}

/* --- names of a directory ----------------------------------------------------- */

struct names {
	char **v;
	size_t n, size;
};

static size_t
cost(const char *name)
{
	return (strlen(name) + sizeof(char *) + 16);
}

static void
names_free(struct tree *t, struct names *l)
{
	for (size_t i = 0; i < l->n; i++) {
		t->held -= cost(l->v[i]);
		free(l->v[i]);
	}
	free(l->v);
}

static int
by_bytes(const void *a, const void *b)
{
	return (strcmp(*(char *const *)a, *(char *const *)b));
}

/* All at once: nobody may add to them while they are gone through. */
static int
names_read(struct tree *t, int dir, struct names *l)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *e;
	int error;

	if (d == NULL) {
		error = errno;
		sbx_close(&fd);
		return (fail(t, error, "opening a directory"));
	}
	while ((errno = 0, e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		/* directories, too: all of them are remembered here */
		if (++t->names > SBX_SNAP_MAX_FILES ||
		    t->held > NAMES_MAX) {
			errno = EFBIG;
			break;
		}
		if (l->n == l->size) {
			l->size = l->size == 0 ? 64 : l->size * 2;
			l->v = sbx_xreallocarray(l->v, l->size,
			    sizeof(l->v[0]));
		}
		l->v[l->n++] = sbx_xstrdup(e->d_name);
		t->held += cost(e->d_name);
	}
	error = errno;
	(void)closedir(d);
	if (error != 0)
		return (fail(t, error, "reading the names of a directory"));
	if (t->sha != NULL && l->n > 1)
		qsort(l->v, l->n, sizeof(l->v[0]), by_bytes);
	return (0);
}

/* --- one entry ------------------------------------------------------------------ */

/* When what is there last changed: a copy keeps it as its access time. */
static struct timespec
changed(const struct tree *t, const struct stat *st)
{
	return (t->copied ? st->st_atim : st->st_ctim);
}

static int
put_times(struct tree *t, int dir, const char *name, const struct stat *st)
{
	struct timespec ts[2] = { changed(t, st), st->st_mtim };

	if (utimensat(dir, name, ts, AT_SYMLINK_NOFOLLOW) == -1)
		return (fail(t, errno, "utimensat"));
	return (0);
}

/* The sandbox's id may be another than ours. */
static int
put_owner(struct tree *t, int dir, const char *name, const struct stat *st)
{
	struct stat to;

	if (fstatat(dir, name, &to, AT_SYMLINK_NOFOLLOW) == -1)
		return (fail(t, errno, "fstatat"));
	if ((to.st_uid != st->st_uid || to.st_gid != st->st_gid) &&
	    fchownat(dir, name, st->st_uid, st->st_gid,
	    AT_SYMLINK_NOFOLLOW) == -1)
		return (fail(t, errno, "fchownat"));
	return (0);
}

static int
put_xattrs(struct tree *t, int from, int to)
{
	char *names = t->attrs;
	ssize_t n = flistxattr(from, names, sizeof(t->attrs)), len;

	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(names + i) + 1) {
		if (strncmp(names + i, "user.", 5) != 0)
			continue;
		len = fgetxattr(from, names + i, t->data, sizeof(t->data));
		if (len == -1 || fsetxattr(to, names + i, t->data,
		    (size_t)len, 0) == -1)
			return (fail(t, errno, "an extended attribute"));
	}
	if (n == -1 && errno != ENOTSUP)
		return (fail(t, errno, "flistxattr"));
	return (0);
}

/* Data only, so that a hole stays one; no more than the file had. */
static int
copy_data(struct tree *t, int from, int to, off_t size)
{
	off_t at = 0, end;
	ssize_t n;
	size_t want;

	while (at < size && (at = lseek(from, at, SEEK_DATA)) != -1 &&
	    at < size) {
		end = lseek(from, at, SEEK_HOLE);
		if (end == -1 || end > size)
			end = size;
		if (lseek(from, at, SEEK_SET) == -1 ||
		    lseek(to, at, SEEK_SET) == -1)
			return (fail(t, errno, "lseek"));
		while (at < end) {
			want = (size_t)(end - at);
			n = copy_file_range(from, NULL, to, NULL, want, 0);
			if (n == -1 && (errno == EXDEV || errno == EINVAL ||
			    errno == EOPNOTSUPP || errno == ENOSYS)) {
				n = read(from, t->data, want < sizeof(t->data) ?
				    want : sizeof(t->data));
				if (n > 0 && sbx_write_all(to, t->data,
				    (size_t)n) != 0)
					n = -1;
			}
			if (n == -1)
				return (fail(t, errno, "writing the copy"));
			if (n == 0)
				return (0);	/* it became shorter */
			at += n;
		}
	}
	return (ftruncate(to, size) == -1 ? fail(t, errno, "ftruncate") : 0);
}

static int
copy_file(struct tree *t, int from, int dir, const char *name,
    const struct stat *st)
{
	int SBX_CLEANUP(fd) to = openat(dir, name, O_WRONLY | O_CREAT |
	    O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (to == -1)
		return (fail(t, errno, "making a file"));
	if (t->no_clone || ioctl(to, FICLONE, from) == -1) {
		t->no_clone = true;
		t->r.cloned = false;
		if (copy_data(t, from, to, st->st_size) == -1)
			return (-1);
	}
	if (put_owner(t, dir, name, st) == -1 ||
	    put_xattrs(t, from, to) == -1)
		return (-1);
	if (fchmod(to, st->st_mode & 07777) == -1)
		return (fail(t, errno, "fchmod"));
	return (put_times(t, dir, name, st));
}

/* Its other name, when one was copied already; else there will be. */
static int
link_twin(struct tree *t, int dir, const char *name, const struct stat *st,
    bool *ret_done)
{
	struct twin **chain = &t->twins[st->st_ino % LINK_CHAINS], *w;
	char number[16];

	*ret_done = false;
	for (w = *chain; w != NULL; w = w->next)
		if (w->ino == st->st_ino)
			break;
	if (w == NULL)
		return (0);
	(void)snprintf(number, sizeof(number), "%u", w->number);
	if (linkat(t->links, number, dir, name, 0) == -1)
		return (fail(t, errno, "linkat"));
	*ret_done = true;
	return (0);
}

static int
note_twin(struct tree *t, int dir, const char *name, const struct stat *st)
{
	struct twin *w = sbx_xcalloc(1, sizeof(*w));
	char number[16];

	w->ino = st->st_ino;
	w->number = t->ntwins++;
	w->next = t->twins[st->st_ino % LINK_CHAINS];
	t->twins[st->st_ino % LINK_CHAINS] = w;
	(void)snprintf(number, sizeof(number), "%u", w->number);
	if (linkat(dir, name, t->links, number, 0) == -1)
		return (fail(t, errno, "linkat"));
	return (0);
}

/* As many bytes as the entry says, or where one ends were not known. */
static int
hash_data(struct tree *t, int from, off_t size)
{
	ssize_t n;

	while (size > 0) {
		n = read(from, t->data, size < (off_t)sizeof(t->data) ?
		    (size_t)size : sizeof(t->data));
		if (n <= 0)
			return (fail(t, n == 0 ? EIO : errno,
			    "reading a file"));
		sbx_sha256_add(t->sha, t->data, (size_t)n);
		size -= n;
	}
	return (0);
}

static int
visit_file(struct tree *t, int dir, const char *name, int to)
{
	int SBX_CLEANUP(fd) fd = openat(dir, name, O_RDONLY | O_NOFOLLOW |
	    O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	uint64_t bytes;
	bool done = false;

	/* gone meanwhile, or something else by now */
	if (fd == -1 || fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		return (fd == -1 && errno != ENOENT && errno != ELOOP &&
		    errno != ENXIO ? fail(t, errno, "opening a file") : 0);
	bytes = (uint64_t)st.st_blocks * 512;
	if ((uint64_t)st.st_size < bytes)
		bytes = (uint64_t)st.st_size;
	t->r.bytes += bytes;
	if (t->write && t->r.bytes > SBX_SNAP_MAX_BYTES)
		return (fail(t, EFBIG, "more data than a snapshot may copy"));
	if (t->sha != NULL && hash_data(t, fd, st.st_size) == -1)
		return (-1);
	if (!t->write)
		return (0);
	if (st.st_nlink > 1 && link_twin(t, to, name, &st, &done) == -1)
		return (-1);
	if (done)
		return (0);
	if (copy_file(t, fd, to, name, &st) == -1)
		return (-1);
	return (st.st_nlink > 1 ? note_twin(t, to, name, &st) : 0);
}

static int
visit_link(struct tree *t, int dir, const char *name, int to,
    const struct stat *st)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n == -1)
		return (errno == ENOENT || errno == EINVAL ? 0 :
		    fail(t, errno, "readlinkat"));
	target[n] = '\0';
	if (t->sha != NULL)
		sbx_sha256_add(t->sha, target, (size_t)n + 1);
	if (!t->write)
		return (0);
	if (symlinkat(target, to, name) == -1)
		return (fail(t, errno, "symlinkat"));
	return (put_owner(t, to, name, st) == -1 ? -1 :
	    put_times(t, to, name, st));
}

/* A pipe, a socket, or the mark that there is nothing of this name. */
static int
visit_node(struct tree *t, int to, const char *name, const struct stat *st)
{
	bool gone = S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);

	if (!t->write || (!gone && !S_ISFIFO(st->st_mode) &&
	    !S_ISSOCK(st->st_mode)))
		return (0);
	if (mknodat(to, name, st->st_mode, gone ? makedev(0, 0) : 0) == -1)
		return (fail(t, errno, "mknodat"));
	if (put_owner(t, to, name, st) == -1)
		return (-1);
	if (!gone && fchmodat(to, name, st->st_mode & 07777, 0) == -1)
		return (fail(t, errno, "fchmodat"));
	return (put_times(t, to, name, st));
}

/* --- a tree -------------------------------------------------------------------------- */

static int visit_all(struct tree *t, int dir, int to, unsigned depth);

/* Does it hide what lies below?  A guest cannot say so by itself. */
static bool
is_opaque(int dir)
{
	char v;

	return (fgetxattr(dir, OPAQUE, &v, 1) > 0);
}

/* The directory `name` of `to`, made or, when layers meet, taken as it is. */
static int
enter(struct tree *t, int from, int to, const char *name)
{
	struct stat st;
	bool there = t->merge && fstatat(to, name, &st,
	    AT_SYMLINK_NOFOLLOW) == 0;
	int sub;

	if (there && (!S_ISDIR(st.st_mode) || is_opaque(from))) {
		if (sbx_remove_at(to, name) == -1)
			return (fail(t, errno, "what a higher layer "
			    "replaces"));
		there = false;
	}
	if (!there && mkdirat(to, name, 0700) == -1)
		return (fail(t, errno, "mkdirat"));
	sub = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	return (sub == -1 ? fail(t, errno, "opening the copy") : sub);
}

static int
visit_dir(struct tree *t, int dir, const char *name, int to,
    const struct stat *st, unsigned depth)
{
	int SBX_CLEANUP(fd) sub = openat(dir, name, O_RDONLY | O_DIRECTORY |
	    O_NOFOLLOW | O_CLOEXEC);
	int SBX_CLEANUP(fd) below = -1;

	if (sub == -1)
		return (errno == ENOENT || errno == ENOTDIR || errno == ELOOP ?
		    0 : fail(t, errno, "opening a directory"));
	if (depth >= MAX_DEPTH)
		return (fail(t, ELOOP, "the tree is deeper than 400 "
		    "directories"));
	if (t->sha != NULL && is_opaque(sub))
		sbx_sha256_add(t->sha, OPAQUE, sizeof(OPAQUE));
	if (t->write && (below = enter(t, sub, to, name)) == -1)
		return (-1);
	if (visit_all(t, sub, below, depth + 1) == -1)
		return (-1);
	if (!t->write)
		return (0);
	if (put_owner(t, to, name, st) == -1 ||
	    put_xattrs(t, sub, below) == -1)
		return (-1);
	if (fchmod(below, st->st_mode & 07777) == -1)
		return (fail(t, errno, "fchmod"));
	return (put_times(t, to, name, st));
}

/* Type, mode, size and name, as they are found; times and owners are not
 * part of what a layer is. */
static void
hash_entry(struct tree *t, const struct stat *st)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "%o %llu ", st->st_mode,
	    S_ISREG(st->st_mode) ? (unsigned long long)st->st_size : 0);

	sbx_sha256_add(t->sha, text, (size_t)n);
	sbx_sha256_add(t->sha, t->path.data, t->path.len + 1);
}

static int
visit(struct tree *t, int dir, const char *name, int to, unsigned depth)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return (0);	/* gone meanwhile */
	if (t->sha != NULL)
		hash_entry(t, &st);
	if (S_ISDIR(st.st_mode))
		return (visit_dir(t, dir, name, to, &st, depth));
	t->r.files++;
	if (t->merge && sbx_remove_at(to, name) == -1)
		return (fail(t, errno, "what a higher layer replaces"));
	if (S_ISREG(st.st_mode))
		return (visit_file(t, dir, name, to));
	if (S_ISLNK(st.st_mode))
		return (visit_link(t, dir, name, to, &st));
	return (visit_node(t, to, name, &st));
}

static int
visit_all(struct tree *t, int dir, int to, unsigned depth)
{
	struct names l = { 0 };
	size_t len = t->path.len;
	int r = names_read(t, dir, &l);

	for (size_t i = 0; r == 0 && i < l.n; i++) {
		if (t->sha != NULL && sbx_buf_printf(&t->path, "/%s",
		    l.v[i]) != 0)
			r = fail(t, ENAMETOOLONG, "a path is too long");
		if (r == 0)
			r = visit(t, dir, l.v[i], to, depth);
		if (t->sha != NULL && t->path.len > len) {
			t->path.len = len;
			t->path.data[len] = '\0';
		}
	}
	names_free(t, &l);
	return (r);
}

/* The top directory: its mode is that of / inside. */
static int
visit_layer(struct tree *t, int dir, int to)
{
	struct stat st;

	if (visit_all(t, dir, to, 0) == -1)
		return (-1);
	if (!t->write)
		return (0);
	if (fstat(dir, &st) == -1 || fchown(to, st.st_uid, st.st_gid) == -1 ||
	    fchmod(to, st.st_mode & 07777) == -1)
		return (fail(t, errno, "the top directory"));
	return (put_xattrs(t, dir, to));
}

/* NAME/upper, and for the time of copying NAME/links beside it. */
static int
open_target(struct tree *t)
{
	int SBX_CLEANUP(fd) to = -1;

	if (mkdirat(TO_FD, "upper", 0755) == -1 ||
	    mkdirat(TO_FD, "links", 0700) == -1 ||
	    (to = openat(TO_FD, "upper", O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC)) == -1 || (t->links = openat(TO_FD, "links",
	    O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return (fail(t, errno, "a directory for the layer"));
	return (sbx_steal_fd(&to));
}

/* The digest is of the copy: what was copied may have been written to between
 * a look and another. */
static void
digest_copy(struct tree *t, int to)
{
	struct snap_result r = t->r;

	t->names = 0;
	t->write = t->merge = false;
	t->sha = &t->digest;
	if (visit_layer(t, to, -1) == 0)
		t->r = r;
}

static void
run(struct tree *t, const struct snap_copy *c)
{
	int to = -1;

	t->r.cloned = true;
	sbx_buf_init(&t->path, 1 << 20);
	(void)sbx_buf_add(&t->path, "", 0);
	t->write = c->to != -1;
	sbx_sha256_init(&t->digest);
	if (c->digest && !t->write)
		t->sha = &t->digest;
	if (t->write && (to = open_target(t)) == -1)
		return;
	for (unsigned i = 0; i < c->n && t->r.error == 0; i++) {
		t->copied = c->copied[i];
		t->merge = i > 0;
		/* numbers of inodes are of one layer */
		memset(t->twins, 0, sizeof(t->twins));
		(void)visit_layer(t, SOURCE_FD + (int)i, to);
	}
	if (t->write)
		(void)sbx_remove_at(TO_FD, "links");	/* goes with the layer */
	if (c->digest && t->write && t->r.error == 0)
		digest_copy(t, to);
	if (c->digest && t->r.error == 0)
		sbx_sha256_end(&t->digest, t->r.digest);
}

/* Nothing of the engine's but these: a channel or a pipe that is held here
 * would not end with it. */
static bool
keep_fds(const struct snap_copy *c, int result)
{
	int from[SOURCE_FD + SBX_MAX_LAYERS + 1] = { [RESULT_FD] = result,
		[TO_FD] = c->to != -1 ? c->to : result };
	int n = SOURCE_FD + (int)c->n;

	for (unsigned i = 0; i < c->n; i++)
		from[SOURCE_FD + i] = c->sources[i];
	for (int i = RESULT_FD; i < n; i++)
		if ((from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, n)) == -1)
			return (false);
	for (int i = RESULT_FD; i < n; i++)
		if (dup3(from[i], i, O_CLOEXEC) == -1)
			return (false);
	return (close_range((unsigned)n, ~0u, 0) == 0);
}

static _Noreturn void
child(const struct snap_copy *c, int result)
{
	struct tree *t = sbx_xcalloc(1, sizeof(*t));

	(void)prctl(PR_SET_NAME, "sbx-snapshot");
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setpriority(PRIO_PROCESS, 0, NICE);
	(void)umask(0);
	if (!keep_fds(c, result))
		_exit(1);
	run(t, c);
	_exit(sbx_write_all(RESULT_FD, &t->r, sizeof(t->r)) == 0 ? 0 : 1);
}

int
snap_copy_start(const struct snap_copy *c, pid_t *ret_pid, int *ret_fd,
    struct sbx_err *err)
{
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) == -1)
		return (sbx_err_sys(err, "pipe"));
	pid = fork();
	if (pid == 0)
		child(c, p[1]);
	sbx_close(&p[1]);
	if (pid == -1) {
		(void)sbx_err_sys(err, "fork");
		sbx_close(&p[0]);
		return (SBX_E_SYS);
	}
	*ret_pid = pid;
	*ret_fd = p[0];
	return (0);
}
