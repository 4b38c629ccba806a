#include "sbxd/image/importer.h"

#include "common/base/paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Making one entry of an image.  Whoever made the image chose every name,
 * link and order here.  Nobody else writes below rootfs meanwhile, so what was
 * looked at is what is used; and every path is opened in one call that follows
 * no link and cannot leave rootfs (openat2(2)).
 */

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

static int
open_below(int dir, const char *path, int flags)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
		    RESOLVE_NO_MAGICLINKS };

	return ((int)syscall(SYS_openat2, dir, *path != '\0' ? path : ".",
	    &how, sizeof(how)));
}

/* --- names ------------------------------------------------------------------------ */

int
entry_clean(char *dst, const char *path)
{
	size_t len = 0, n;
	unsigned depth = 0;

	if (*path == '/' || *path == '\0')
		return (SBX_E_POLICY);
	for (; *path != '\0'; path += n + (path[n] == '/')) {
		n = strcspn(path, "/");
		if (n == 0 || (n == 1 && *path == '.'))
			continue;
		if ((n == 2 && memcmp(path, "..", 2) == 0) || n > NAME_MAX ||
		    ++depth > MAX_DEPTH || len + n + 2 > PATH_BYTES)
			return (SBX_E_POLICY);
		if (len > 0)
			dst[len++] = '/';
		memcpy(dst + len, path, n);
		len += n;
	}
	dst[len] = '\0';
	return (0);
}

/* The same for every import of one process, and unknown to who makes images:
 * nobody can choose two paths that are one here. */
static uint64_t
hash_path(uint64_t key, const char *path)
{
	uint64_t h = key ^ UINT64_C(0x9e3779b97f4a7c15);

	for (; *path != '\0'; path++) {
		h = (h ^ (unsigned char)*path) * UINT64_C(0xff51afd7ed558ccd);
		h ^= h >> 32 ^ key >> 7;
	}
	return (h != 0 ? h : 1);
}

static bool
seen_find(const struct seen *s, uint64_t h, size_t *ret_at)
{
	size_t at = s->size == 0 ? 0 : h & (s->size - 1);

	while (s->size != 0 && s->slots[at] != 0 && s->slots[at] != h)
		at = (at + 1) & (s->size - 1);
	*ret_at = at;
	return (s->size != 0 && s->slots[at] == h);
}

static void
seen_add(struct seen *s, const char *path)
{
	struct seen old = *s;
	uint64_t h;
	size_t at;

	if (s->key == 0)
		sbx_random(&s->key, sizeof(s->key));
	h = hash_path(s->key, path);
	if (s->n * 2 >= s->size) {
		s->size = old.size == 0 ? 4096 : old.size * 2;
		s->slots = sbx_xcalloc(s->size, sizeof(uint64_t));
		for (size_t i = 0; i < old.size; i++)
			if (old.slots[i] != 0) {
				(void)seen_find(s, old.slots[i], &at);
				s->slots[at] = old.slots[i];
			}
		free(old.slots);
	}
	if (!seen_find(s, h, &at)) {
		s->slots[at] = h;
		s->n++;
	}
}

/* With the directories it lies in, which this layer has thereby, too. */
static void
seen_add_all(struct seen *s, const char *path)
{
	char part[PATH_BYTES];

	for (size_t n = 0; path[n] != '\0'; ) {
		n += path[n] == '/';
		n += strcspn(path + n, "/");
		memcpy(part, path, n);
		part[n] = '\0';
		seen_add(s, part);
	}
}

static bool
seen_has(const struct seen *s, const char *path)
{
	size_t at;

	return (seen_find(s, hash_path(s->key, path), &at));
}

void
seen_clear(struct seen *s)
{
	free(s->slots);
	*s = (struct seen){ .key = s->key };
}

/* --- removing ------------------------------------------------------------------------ */

/* What lower layers have in path (dir, consumed), and not this one. */
static int
remove_lower(struct importer *im, int dir, const char *path)
{
	char below[PATH_BYTES];
	DIR *d = fdopendir(dir);
	struct dirent *e;
	int sub, r = 0;

	if (d == NULL) {
		(void)close(dir);
		return (-1);
	}
	while (r == 0 && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if ((size_t)snprintf(below, sizeof(below), "%s%s%s", path,
		    *path != '\0' ? "/" : "", e->d_name) >= sizeof(below) ||
		    !seen_has(&im->seen, below)) {
			r = sbx_remove_at(dirfd(d), e->d_name);
			continue;
		}
		sub = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY |
		    O_NOFOLLOW | O_CLOEXEC);
		if (sub != -1)
			r = remove_lower(im, sub, below);
	}
	(void)closedir(d);
	return (r);
}

/* --- parents --------------------------------------------------------------------------- */

static int
bad_parent(struct importer *im, const char *path)
{
	char shown[128];

	return (import_fail(im, SBX_E_POLICY, "'%s' lies behind a link or a "
	    "file, not in a directory", sbx_vis(shown, sizeof(shown), path,
	    strlen(path))));
}

/* Parts that no entry of the image made, as tar does. */
static int
make_parents(struct importer *im, const char *path)
{
	char part[PATH_BYTES];
	int SBX_CLEANUP(fd) dir = -1;
	size_t len = 0;

	for (;;) {
		len += strcspn(path + len, "/");
		memcpy(part, path, len);
		part[len] = '\0';
		sbx_close(&dir);
		dir = open_below(im->rootfs, part, O_PATH | O_DIRECTORY);
		if (dir == -1 && errno == ENOENT &&
		    mkdirat(im->rootfs, part, 0700) == 0 &&
		    /* whatever the umask is */
		    fchmodat(im->rootfs, part, 0755, 0) == 0) {
			im->entries++;
			dir = open_below(im->rootfs, part,
			    O_PATH | O_DIRECTORY);
		}
		if (dir == -1)
			return (bad_parent(im, path));
		if (path[len] == '\0')
			return (0);
		len++;
	}
}

/* The directory of path as im->parent; *ret_name: the last part. */
static int
enter_parent(struct importer *im, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	char parent[PATH_BYTES];
	size_t n = slash != NULL ? (size_t)(slash - path) : 0;

	memcpy(parent, path, n);
	parent[n] = '\0';
	*ret_name = slash != NULL ? slash + 1 : path;
	if (im->parent != -1 && strcmp(parent, im->parent_path) == 0)
		return (0);
	sbx_close(&im->parent);
	im->parent = open_below(im->rootfs, parent, O_RDONLY | O_DIRECTORY);
	if (im->parent == -1 && errno == ENOENT) {
		if (make_parents(im, parent) != 0)
			return (im->err.code);
		im->parent = open_below(im->rootfs, parent,
		    O_RDONLY | O_DIRECTORY);
	}
	if (im->parent == -1)
		return (bad_parent(im, path));
	memcpy(im->parent_path, parent, n + 1);
	return (0);
}

/* Something is removed that im->parent may be, or be below. */
static void
forget_parent(struct importer *im)
{
	sbx_close(&im->parent);
}

/* --- kinds ------------------------------------------------------------------------------- */

static int
failed(struct importer *im, const char *path, const char *what)
{
	char shown[128];

	return (import_fail_sys(im, "%s of '%s'", what, sbx_vis(shown,
	    sizeof(shown), path, strlen(path))));
}

/* The later entry of a name wins, but for a directory that is one again. */
static int
make_way(struct importer *im, const char *name, bool dir, bool *ret_there)
{
	struct stat st;

	*ret_there = false;
	if (fstatat(im->parent, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return (errno == ENOENT ? 0 : -1);
	if (dir && S_ISDIR(st.st_mode)) {
		*ret_there = true;
		return (0);
	}
	return (sbx_remove_at(im->parent, name));
}

static int
make_file(struct importer *im, const struct entry *e, const char *name)
{
	const struct timespec times[2] = { e->mtime, e->mtime };
	int SBX_CLEANUP(fd) fd = -1;
	char shown[128];
	int r;

	if (e->size > MAX_FILE || im->bytes + e->size > MAX_BYTES)
		return (import_fail(im, SBX_E_LIMIT, "with '%s' the image is "
		    "larger than %llu GiB, or a file than %llu GiB",
		    sbx_vis(shown, sizeof(shown), e->path, strlen(e->path)),
		    MAX_BYTES >> 30, MAX_FILE >> 30));
	im->bytes += e->size;
	fd = openat(im->parent, name, O_WRONLY | O_CREAT | O_EXCL |
	    O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd == -1)
		return (failed(im, e->path, "making"));
	if ((r = e->fill(im, e->arg, fd, e->size)) != 0)
		return (r);
	/* readable for the suite, whose file it is from now on */
	if (fchmod(fd, (e->mode & 0777) | 0400) == -1 ||
	    futimens(fd, times) == -1)
		return (failed(im, e->path, "setting the mode"));
	return (0);
}

static int
make_dir(struct importer *im, const struct entry *e, const char *name,
    bool there)
{
	/* usable for the suite, which has to read and to remove it */
	mode_t mode = (e->mode & 01777) | 0700;

	if ((!there && mkdirat(im->parent, name, 0700) == -1) ||
	    fchmodat(im->parent, name, mode, 0) == -1)
		return (failed(im, e->path, "making"));
	return (0);
}

static int
bad_link(struct importer *im, const struct entry *e, const char *why)
{
	char shown[128];

	return (import_fail(im, SBX_E_POLICY, "the link '%s' %s",
	    sbx_vis(shown, sizeof(shown), e->path, strlen(e->path)), why));
}

/* To an entry of this image that is there already, and is a file or, as file
 * systems can, a link itself: neither is followed. */
static int
make_hardlink(struct importer *im, const struct entry *e, const char *name)
{
	char target[PATH_BYTES];
	int SBX_CLEANUP(fd) fd = -1;
	const char *slash, *last;
	struct stat st;

	if (entry_clean(target, e->target) != 0 || *target == '\0')
		return (bad_link(im, e, "goes out of the image"));
	slash = strrchr(target, '/');
	last = slash != NULL ? slash + 1 : target;
	if (slash != NULL)
		target[slash - target] = '\0';
	fd = open_below(im->rootfs, slash != NULL ? target : "",
	    O_PATH | O_DIRECTORY);
	if (fd == -1 || fstatat(fd, last, &st, AT_SYMLINK_NOFOLLOW) == -1 ||
	    (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)))
		return (bad_link(im, e, "goes to what is no file of the "
		    "image, or behind a link"));
	if (linkat(fd, last, im->parent, name, 0) == -1)
		return (failed(im, e->path, "linking"));
	return (0);
}

static int
make_symlink(struct importer *im, const struct entry *e, const char *name)
{
	const struct timespec times[2] = { e->mtime, e->mtime };

	if (*e->target == '\0' || strlen(e->target) >= PATH_BYTES)
		return (bad_link(im, e, "has no target, or one that is too "
		    "long"));
	if (symlinkat(e->target, im->parent, name) == -1)
		return (failed(im, e->path, "making"));
	(void)utimensat(im->parent, name, times, AT_SYMLINK_NOFOLLOW);
	return (0);
}

/* --- layers --------------------------------------------------------------------------------- */

/* What lower layers have in name of im->parent, which is path: all of it, or
 * what is beside what this layer made there. */
static int
whiten(struct importer *im, const char *path, const char *name)
{
	int dir;

	if (!seen_has(&im->seen, path))
		return (sbx_remove_at(im->parent, name));
	dir = openat(im->parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	return (dir == -1 ? 0 : remove_lower(im, dir, path));
}

/* Source: OCI image specification 1.1, layer.md, whiteouts. */
static int
apply_whiteout(struct importer *im, const char *path, const char *name)
{
	char gone[PATH_BYTES], shown[128];
	size_t n = (size_t)(name - path);
	int dir;

	if (strcmp(name, OPAQUE) == 0) {
		dir = openat(im->parent, ".", O_RDONLY | O_DIRECTORY |
		    O_CLOEXEC);
		memcpy(gone, im->parent_path, sizeof(gone));
		if (dir == -1 || remove_lower(im, dir, gone) == -1)
			return (failed(im, path, "an opaque directory"));
		return (0);
	}
	name += strlen(WHITEOUT);
	if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return (import_fail(im, SBX_E_POLICY, "the whiteout '%s' "
		    "names nothing", sbx_vis(shown, sizeof(shown), path,
		    strlen(path))));
	(void)snprintf(gone, sizeof(gone), "%.*s%s", (int)n, path, name);
	if (whiten(im, gone, name) == -1)
		return (failed(im, path, "a whiteout"));
	return (0);
}

/* true: not made, and counted. */
static bool
is_dropped(struct importer *im, const struct entry *e)
{
	if (e->mode & (S_ISUID | S_ISGID) && e->kind != ENTRY_SYMLINK &&
	    e->kind != ENTRY_HARDLINK)
		im->config.dropped_setuid++;
	im->config.dropped_xattrs += e->xattrs > 0;
	im->config.dropped_devices += e->kind == ENTRY_DEVICE;
	im->config.dropped_other += e->kind == ENTRY_OTHER;
	return (e->kind == ENTRY_DEVICE || e->kind == ENTRY_OTHER);
}

static int
make_kind(struct importer *im, const struct entry *e, const char *name,
    bool there)
{
	switch (e->kind) {
	case ENTRY_FILE:
		return (make_file(im, e, name));
	case ENTRY_DIR:
		return (make_dir(im, e, name, there));
	case ENTRY_SYMLINK:
		return (make_symlink(im, e, name));
	case ENTRY_HARDLINK:
		return (make_hardlink(im, e, name));
	case ENTRY_DEVICE:
	case ENTRY_OTHER:
	case ENTRY_KIND_MAX:
		break;
	}
	return (import_fail(im, SBX_E_TYPE, "an entry of no kind"));
}

int
entry_make(struct importer *im, const struct entry *e)
{
	char path[PATH_BYTES], shown[128];
	const char *name;
	bool there;
	int r;

	if (entry_clean(path, e->path) != 0)
		return (import_fail(im, SBX_E_POLICY, "'%s' is absolute, has "
		    "'..', or is too long or too deep", sbx_vis(shown,
		    sizeof(shown), e->path, strlen(e->path))));
	if (++im->entries > MAX_ENTRIES)
		return (import_fail(im, SBX_E_LIMIT, "the image has more than "
		    "%u entries", MAX_ENTRIES));
	if (*path == '\0')	/* the root itself */
		return (e->kind == ENTRY_DIR ? 0 : import_fail(im,
		    SBX_E_POLICY, "the root is no directory"));
	if ((r = enter_parent(im, path, &name)) != 0)
		return (r);
	if (im->layered && strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0) {
		seen_add_all(&im->seen, im->parent_path);
		r = apply_whiteout(im, path, name);
		forget_parent(im);
		return (r);
	}
	/* also where nothing comes: it would have replaced what was there */
	if (make_way(im, name, e->kind == ENTRY_DIR, &there) == -1)
		return (failed(im, path, "replacing"));
	if (im->layered)
		seen_add_all(&im->seen, path);
	return (is_dropped(im, e) ? 0 : make_kind(im, e, name, there));
}
