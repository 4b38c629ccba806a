/*
 * Changes of files, all or none (filework.h).  Each is written beside its file
 * and synced; then all change places with what was there.  Until the last one
 * has, they can change back.
 */
#include "sbxd/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NO_BOTH (SBX_CHANGE_CREATE | SBX_CHANGE_REMOVE)

struct change {
	struct sbx_change_head head;
	const char *data;	/* in the request */
	char path[4096];	/* as asked */
	char real[4096];	/* without links */
	char temp[4096];	/* beside it; "": none */
	bool placed;		/* temp and path changed places */
	nlink_t links;		/* names of the file that it changes */
	size_t made;		/* of path: the first directory made for it */
};
struct changes {
	struct change *v;
	size_t n;
};

static uint64_t
be(const uint8_t **p, size_t n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | *(*p)++;
	return (v);
}

static void
take_head(const uint8_t *p, struct sbx_change_head *ret)
{
	ret->path_len = (uint32_t)be(&p, 4);
	ret->flags = (uint32_t)be(&p, 4);
	ret->mode = (uint32_t)be(&p, 4);
	ret->zero = (uint32_t)be(&p, 4);
	ret->size = be(&p, 8);
	ret->ino = be(&p, 8);
	ret->mtime_ns = be(&p, 8);
	ret->ctime_ns = be(&p, 8);
	ret->data_len = be(&p, 8);
}

/* The request, whole and well formed, or none of it. */
static int
parse(struct file_work *w, struct changes *all)
{
	const uint8_t *p, *end;
	struct change *c;
	struct stat st;

	if (fstat(w->in, &st) == -1 || st.st_size <= 0 ||
	    (uint64_t)st.st_size > SBX_CHANGE_MAX_BYTES + SBX_CHANGE_MAX *
	    (SBX_CHANGE_HEAD_BYTES + 4096))
		return (file_failed(w, EINVAL, "the request"));
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, w->in, 0);
	if (p == MAP_FAILED)
		return (file_failed(w, errno, "the request"));
	for (end = p + st.st_size; p < end; p += c->head.data_len) {
		if (all->n == SBX_CHANGE_MAX ||
		    end - p < SBX_CHANGE_HEAD_BYTES)
			return (file_failed(w, EINVAL, "the request"));
		c = &all->v[all->n++];
		take_head(p, &c->head);
		p += SBX_CHANGE_HEAD_BYTES;
		if (c->head.path_len == 0 || c->head.path_len > 4095 ||
		    c->head.zero != 0 || c->head.path_len > end - p ||
		    c->head.flags >= 2 * SBX_CHANGE_MODE ||
		    (c->head.flags & NO_BOTH) == NO_BOTH)
			return (file_failed(w, EINVAL, "the request"));
		memcpy(c->path, p, c->head.path_len);
		p += c->head.path_len;
		if (strlen(c->path) != c->head.path_len ||
		    c->head.data_len > (uint64_t)(end - p))
			return (file_failed(w, EINVAL, "the request"));
		c->data = (const char *)p;
	}
	return (0);
}

static int
same(const struct sbx_change_head *h, const struct stat *st)
{
	struct file_work now = { 0 };

	file_stamp(&now, st);
	return (S_ISREG(st->st_mode) && now.r.size == h->size &&
	    now.r.ino == h->ino && now.r.mtime_ns == h->mtime_ns &&
	    now.r.ctime_ns == h->ctime_ns);
}

/* mkdir -p of what path is in; they go again if nothing comes of it. */
static void
make_parents(struct change *c)
{
	char *slash = c->path;

	while ((slash = strchr(slash + 1, '/')) != NULL) {
		*slash = '\0';
		if (mkdir(c->path, 0755) == 0 && c->made == 0)
			c->made = (size_t)(slash - c->path);
		*slash = '/';
	}
}

static void
remove_parents(struct change *c)
{
	char *slash;

	while (c->made > 0 && (slash = strrchr(c->path, '/')) != NULL &&
	    (size_t)(slash - c->path) >= c->made) {
		*slash = '\0';
		if (rmdir(c->path) == -1 && errno != ENOENT)
			return;
	}
}

/* A new file: its directory without links (made if need be), and its name. */
static int
place_new(struct file_work *w, struct change *c)
{
	char real[4096], name[256], *slash;
	struct stat st;

	make_parents(c);
	slash = strrchr(c->path, '/');
	if (sbx_strlcpy(name, slash != NULL ? slash + 1 : c->path,
	    sizeof(name)) != 0)
		return (file_failed(w, ENAMETOOLONG, c->path));
	if (name[0] == '\0' || strcmp(name, ".") == 0 ||
	    strcmp(name, "..") == 0)
		return (file_failed(w, EISDIR, c->path));
	if (lstat(c->path, &st) == 0)
		return (file_missing(w, EEXIST, c->path));
	if (slash != NULL)
		slash[1] = '\0';
	if (realpath(slash != NULL ? c->path : ".", real) == NULL)
		return (file_failed(w, errno, c->path));
	if (slash != NULL)
		(void)memcpy(slash + 1, name, strlen(name));
	if ((size_t)snprintf(c->real, sizeof(c->real), "%s/%s",
	    strcmp(real, "/") == 0 ? "" : real, name) >= sizeof(c->real))
		return (file_failed(w, ENAMETOOLONG, name));
	return (0);
}

static int
place(struct file_work *w, struct change *c)
{
	struct stat st;

	if ((c->head.flags & SBX_CHANGE_CREATE) != 0)
		return (place_new(w, c));
	if (file_resolve(w, c->path, &st) != 0)
		return (-1);
	if (!same(&c->head, &st))
		return (file_failed(w, ESTALE, c->path));
	memcpy(c->real, w->path, sizeof(c->real));
	c->links = st.st_nlink;
	if ((c->head.flags & SBX_CHANGE_MODE) == 0)
		c->head.mode = st.st_mode & 07777;
	return (0);
}

/* Said beside success: what a change could not keep. */
static void SBX_PRINTF(2, 3)
note(struct file_work *w, const char *fmt, ...)
{
	size_t n = strlen(w->reason);
	va_list ap;

	if (n > 0 && n + 2 < sizeof(w->reason))
		(void)sbx_strlcpy(w->reason + n, "; ", sizeof(w->reason) - n);
	n = strlen(w->reason);
	va_start(ap, fmt);
	(void)vsnprintf(w->reason + n, sizeof(w->reason) - n, fmt, ap);
	va_end(ap);
}

/* Attributes of the old file for the new one.  security.*: the kernel's. */
static void
keep_attributes(struct file_work *w, const struct change *c, int fd)
{
	static char list[65536], value[65536];
	ssize_t n = llistxattr(c->real, list, sizeof(list) - 1), len;
	char text[64];

	for (const char *p = list; n > 0 && p < list + n; p += strlen(p) + 1) {
		if (strncmp(p, "security.", 9) == 0)
			continue;
		len = lgetxattr(c->real, p, value, sizeof(value));
		if (len == -1 || fsetxattr(fd, p, value, (size_t)len, 0) == -1)
			note(w, "the extended attribute %s is lost",
			    sbx_vis(text, sizeof(text), p, strlen(p)));
	}
}

static int
stage_failed(struct file_work *w, const struct change *c)
{
	int e = errno;
	char why[128];

	if (e != EACCES && e != EPERM && e != EROFS)
		return (file_failed(w, e, c->path));
	(void)snprintf(why, sizeof(why), "its directory cannot be written in, "
	    "where a change is made before it takes the file's place: %s",
	    strerror(e));
	return (file_failed_as(w, e, c->path, why));
}

static bool
replaces(const struct change *c)
{
	return ((c->head.flags & NO_BOTH) == 0);
}

/* Its new bytes, under a name of their own and on the disk. */
static int
stage(struct file_work *w, struct change *c)
{
	const char *slash = strrchr(c->real, '/');
	uint64_t r;
	int fd;

	if (getrandom(&r, sizeof(r), 0) != sizeof(r) ||
	    (size_t)snprintf(c->temp, sizeof(c->temp), "%.*s/.sbx-%016llx.tmp",
	    (int)(slash - c->real), c->real, (unsigned long long)r) >=
	    sizeof(c->temp)) {
		c->temp[0] = '\0';
		return (file_failed(w, ENAMETOOLONG, c->path));
	}
	if ((c->head.flags & SBX_CHANGE_REMOVE) != 0)
		return (0);	/* the name is for what is there now */
	fd = open(c->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
	    O_CLOEXEC, 0600);
	if (fd == -1) {
		c->temp[0] = '\0';
		return (stage_failed(w, c));
	}
	if (replaces(c))
		keep_attributes(w, c, fd);
	if (replaces(c) && c->links > 1)
		note(w, "the file had %llu names (hard links): the others keep "
		    "what it was", (unsigned long long)c->links);
	if (sbx_write_all(fd, c->data, (size_t)c->head.data_len) != 0 ||
	    fchmod(fd, c->head.mode & 07777) == -1 || fsync(fd) == -1) {
		(void)file_failed(w, errno, c->path);
		sbx_close(&fd);
		return (-1);
	}
	sbx_close(&fd);
	return (0);
}

/* The two change places; back is the same, and for a new or removed file the
 * other way. */
static int
swap(const struct change *c, bool back)
{
	bool gone = (c->head.flags & SBX_CHANGE_REMOVE) != 0;

	if ((c->head.flags & (SBX_CHANGE_CREATE | SBX_CHANGE_REMOVE)) == 0)
		return (renameat2(AT_FDCWD, c->temp, AT_FDCWD, c->real,
		    RENAME_EXCHANGE));
	return (back != gone ? renameat2(AT_FDCWD, c->real, AT_FDCWD, c->temp,
	    RENAME_NOREPLACE) : renameat2(AT_FDCWD, c->temp, AT_FDCWD,
	    c->real, RENAME_NOREPLACE));
}

static int
commit(struct file_work *w, struct change *c, bool only)
{
	struct stat st;

	/* touched while the others were written? */
	if ((c->head.flags & SBX_CHANGE_CREATE) == 0 &&
	    (lstat(c->real, &st) == -1 || !same(&c->head, &st)))
		return (file_failed(w, ESTALE, c->path));
	/* one alone needs no way back: there is no moment without it */
	if (only && c->head.flags == (c->head.flags & SBX_CHANGE_MODE)) {
		if (rename(c->temp, c->real) == -1)
			return (file_failed(w, errno, c->path));
		c->temp[0] = '\0';
	} else if (swap(c, false) == -1)
		return (file_failed(w, errno, c->path));
	c->placed = c->temp[0] != '\0';
	return (0);
}

/* Also of the directory: a new name is as durable as the bytes. */
static void
sync_dir(const struct change *c)
{
	char dir[4096];
	int fd;

	(void)snprintf(dir, sizeof(dir), "%.*s/", (int)(strrchr(c->real, '/') -
	    c->real), c->real);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd != -1)
		(void)fsync(fd);
	sbx_close(&fd);
}

/* Back.  Where the sandbox has put something in the way meanwhile, what was
 * there before stays beside it. */
static void
back(struct change *c)
{
	bool gone = (c->head.flags & SBX_CHANGE_REMOVE) != 0;

	if (c->placed && swap(c, true) == -1 &&
	    (c->head.flags & SBX_CHANGE_CREATE) == 0 &&
	    renameat2(AT_FDCWD, c->temp, AT_FDCWD, c->real,
	    RENAME_NOREPLACE) == -1)
		return;
	if (c->temp[0] != '\0' && !gone)
		(void)unlink(c->temp);
	remove_parents(c);
}

static void
finish(struct changes *all, bool undo)
{
	struct change *c;

	for (size_t i = all->n; i-- > 0;) {
		c = &all->v[i];
		if (undo) {
			back(c);
			continue;
		}
		if (c->placed && (c->head.flags & SBX_CHANGE_CREATE) == 0)
			(void)unlink(c->temp);
		sync_dir(c);
	}
}

void
file_write(struct file_work *w)
{
	struct changes all = { .v = calloc(SBX_CHANGE_MAX,
	    sizeof(struct change)) };
	struct stat st;
	size_t i;
	int r;

	if (all.v == NULL) {
		(void)file_failed(w, ENOMEM, "the request");
		return;
	}
	r = parse(w, &all);
	for (i = 0; r == 0 && i < all.n; i++) {
		w->r.first = i;
		if ((r = place(w, &all.v[i])) == 0)
			r = stage(w, &all.v[i]);
	}
	for (i = 0; r == 0 && i < all.n; i++) {
		w->r.first = i;
		r = commit(w, &all.v[i], all.n == 1);
	}
	finish(&all, r != 0);
	if (r != 0 || all.n == 0)
		return;
	(void)sbx_strlcpy(w->path, all.v[all.n - 1].real, sizeof(w->path));
	if (lstat(w->path, &st) == 0)
		file_stamp(w, &st);
	w->r.count = all.n;
}
