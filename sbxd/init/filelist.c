/* Lists of names, and files as a stream (filework.h). */
#include "common/proto/copystream.h"
#include "sbxd/init/init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_DEPTH 128

struct walk {
	struct file_work *w;
	struct sbx_buf names;		/* each with its NUL */
	uint64_t seen, n;
	uint64_t by_ns;			/* monotonic: it ends */
	char path[4096];		/* of the directory, "" or ends in / */
	bool full;			/* a limit was hit: it ends */
	bool more;			/* something was passed over */
};

static bool
skipped(const struct walk *k, const char *name)
{
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	    strcmp(name, ".git") == 0)
		return (true);
	if (name[0] == '.' && (k->w->q->flags & SBX_FILE_HIDDEN) == 0)
		return (true);
	/* what the kernel makes up has no end */
	return (k->path[0] == '\0' && strcmp(k->w->path, "/") == 0 &&
	    (strcmp(name, "proc") == 0 || strcmp(name, "sys") == 0 ||
	    strcmp(name, "dev") == 0));
}

static void
add(struct walk *k, const char *name)
{
	const char *pattern = k->w->q->pattern;
	size_t dir = strlen(k->path), n = strlen(name) + 1;

	if (dir + n > sizeof(k->path)) {
		k->more = true;
		return;
	}
	memcpy(k->path + dir, name, n);
	if (pattern[0] == '\0' || fnmatch(pattern, strchr(pattern, '/') !=
	    NULL ? k->path : name, 0) == 0) {
		if (sbx_buf_add(&k->names, k->path, dir + n) == 0)
			k->n++;
		else
			k->full = true;
	}
	k->path[dir] = '\0';
}

static bool
is_dir(int dir, const struct dirent *d)
{
	struct stat st;

	if (d->d_type != DT_UNKNOWN)
		return (d->d_type == DT_DIR);
	return (fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode));
}

static void walk(struct walk *k, int fd, unsigned depth);

static void
walk_below(struct walk *k, int dir, const char *name, unsigned depth)
{
	size_t len = strlen(k->path), n = strlen(name);
	int fd;

	if (len + n + 2 > sizeof(k->path)) {
		k->more = true;
		return;
	}
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	if (fd == -1) {
		k->more |= errno != ENOENT && errno != ENOTDIR;
		return;
	}
	memcpy(k->path + len, name, n);
	memcpy(k->path + len + n, "/", 2);
	walk(k, fd, depth);
	k->path[len] = '\0';
}

/* fd is consumed.  A directory that cannot be read is passed over. */
static void
walk(struct walk *k, int fd, unsigned depth)
{
	DIR *dir = fdopendir(fd);
	struct dirent *d;

	if (dir == NULL) {
		k->more = true;
		sbx_close(&fd);
		return;
	}
	k->full |= sbx_mono_ns() > k->by_ns;
	while (!k->full && (d = readdir(dir)) != NULL) {
		if (skipped(k, d->d_name))
			continue;
		if (++k->seen > SBX_FILE_MAX_LIST)
			k->full = true;
		else if (!is_dir(fd, d))
			add(k, d->d_name);
		else if (depth > 1)
			walk_below(k, fd, d->d_name, depth - 1);
	}
	(void)closedir(dir);
}

static int
by_bytes(const void *a, const void *b)
{
	return (strcmp(*(const char *const *)a, *(const char *const *)b));
}

/* The wanted part of the sorted names. */
static void
put_names(struct walk *k, struct sbx_buf *page)
{
	struct file_work *w = k->w;
	const char **v = calloc(k->n + 1, sizeof(*v)), *p = k->names.data;
	uint64_t i;

	if (v == NULL) {
		(void)file_failed(w, ENOMEM, "the list");
		return;
	}
	for (i = 0; i < k->n; i++, p += strlen(p) + 1)
		v[i] = p;
	qsort(v, k->n, sizeof(*v), by_bytes);
	for (i = w->q->first; i < k->n && w->r.count < w->q->count; i++) {
		if (sbx_buf_add(page, v[i], strlen(v[i]) + 1) != 0)
			break;
		w->r.count++;
	}
	free(v);
	if (page->len > 0 && sbx_write_all(w->out, page->data, page->len) != 0)
		(void)file_failed(w, errno, "the answer");
}

void
file_list(struct file_work *w)
{
	static struct walk k;
	static struct sbx_buf page;
	unsigned depth = w->q->flags >> SBX_FILE_DEPTH_SHIFT;
	struct stat st;
	int fd;

	k.w = w;
	if (file_resolve(w, w->q->path, &st) != 0)
		return;
	fd = open(w->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1) {
		(void)file_failed(w, errno, w->q->path);
		return;
	}
	k.by_ns = sbx_mono_ns() + (uint64_t)SBX_FILE_LIST_MS * 1000000;
	sbx_buf_init(&k.names, SBX_FILE_MAX_NAMES);
	sbx_buf_init(&page, (size_t)w->max);
	walk(&k, fd, depth > MAX_DEPTH ? MAX_DEPTH : depth);
	w->r.total = k.n;
	w->r.first = w->q->first;
	put_names(&k, &page);
	w->r.bytes = k.full || k.more;
}

/* --- pack ----------------------------------------------------------------------- */

/* All of it may take long, and each step not. */
static int
pack_moves(struct file_work *w)
{
	unsigned s = sbx_file_pack_left_s((sbx_mono_ns() - w->began_ns) /
	    1000000);

	if (s == 0)
		return (file_failed(w, ETIMEDOUT, "the stream"));
	(void)alarm(s);
	return (0);
}

static int
pack_head(struct file_work *w, unsigned type, unsigned mode, const char *name,
    uint64_t size)
{
	uint8_t h[SBX_COPY_HDR_BYTES] = { (uint8_t)type, (uint8_t)(mode >> 8),
		(uint8_t)mode };
	size_t n = strlen(name);

	h[3] = (uint8_t)(n >> 8);
	h[4] = (uint8_t)n;
	for (int i = 0; i < 8; i++)
		h[5 + i] = (uint8_t)(size >> (56 - 8 * i));
	if (sbx_write_all(w->out, h, sizeof(h)) != 0 ||
	    sbx_write_all(w->out, name, n) != 0)
		return (file_failed(w, errno, "the stream"));
	return (0);
}

/* As many bytes as it had; one that shrinks meanwhile ends the stream. */
static int
pack_data(struct file_work *w, int fd, uint64_t size, const char *name)
{
	static char buf[128 << 10];

	while (size > 0) {
		ssize_t n;

		if (pack_moves(w) != 0)
			return (-1);
		n = read(fd, buf, size < sizeof(buf) ? (size_t)size :
		    sizeof(buf));
		if (n <= 0)
			return (file_failed(w, n == 0 ? ESTALE : errno, name));
		if (sbx_write_all(w->out, buf, (size_t)n) != 0)
			return (file_failed(w, errno, "the stream"));
		size -= (uint64_t)n;
	}
	return (0);
}

static int
open_beneath(int dir, const char *name, uint64_t flags)
{
	struct open_how how = { .flags = flags | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
		    RESOLVE_NO_MAGICLINKS };

	return ((int)syscall(SYS_openat2, dir, name, &how, sizeof(how)));
}

static int
pack_link(struct file_work *w, int dir, const char *name)
{
	char target[SBX_COPY_MAX_PATH + 1];
	int fd = open_beneath(dir, name, O_PATH);
	ssize_t n = fd == -1 ? -1 : readlinkat(fd, "", target, sizeof(target));

	if (n <= 0 || (size_t)n == sizeof(target))
		return (file_failed(w, n == -1 ? errno : EINVAL, name));
	sbx_close(&fd);
	if (pack_head(w, SBX_COPY_T_LINK, 0, name, (uint64_t)n) != 0)
		return (-1);
	return (sbx_write_all(w->out, target, (size_t)n) == 0 ? 0 :
	    file_failed(w, errno, "the stream"));
}

static int
pack_one(struct file_work *w, int dir, const char *name)
{
	int fd = open_beneath(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY), r;
	struct stat st;

	if (fd == -1 && errno == ELOOP)
		return (pack_link(w, dir, name));
	if (fd == -1 && (errno == ENOENT || errno == ENOTDIR) &&
	    (w->q->flags & SBX_FILE_PRESENT) != 0)
		return (0);
	if (fd == -1 || fstat(fd, &st) == -1)
		return (file_failed(w, errno, name));
	if (!S_ISREG(st.st_mode)) {
		sbx_close(&fd);
		return (file_failed_as(w, S_ISDIR(st.st_mode) ? EISDIR :
		    EINVAL, name, file_kind(&st)));
	}
	r = pack_head(w, SBX_COPY_T_FILE, st.st_mode & 0777, name,
	    (uint64_t)st.st_size);
	if (r == 0)
		r = pack_data(w, fd, (uint64_t)st.st_size, name);
	sbx_close(&fd);
	return (r);
}

void
file_pack(struct file_work *w)
{
	struct stat st;
	const char *list, *p;
	int dir;

	w->began_ns = sbx_mono_ns();
	if (file_resolve(w, w->q->path, &st) != 0)
		return;
	dir = open(w->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir == -1 || fstat(w->in, &st) == -1) {
		(void)file_failed(w, errno, w->q->path);
		return;
	}
	list = st.st_size > 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ,
	    MAP_PRIVATE, w->in, 0) : "";
	if (list == MAP_FAILED || (st.st_size > 0 &&
	    list[st.st_size - 1] != '\0')) {
		(void)file_failed(w, EINVAL, "the list");
		return;
	}
	for (p = list; p < list + st.st_size; p += strlen(p) + 1) {
		if (strlen(p) > SBX_COPY_MAX_PATH) {
			(void)file_failed(w, ENAMETOOLONG, p);
			return;
		}
		if (pack_moves(w) != 0 || pack_one(w, dir, p) != 0)
			return;
		w->r.count++;
	}
	(void)pack_head(w, SBX_COPY_T_END, 0, "", 0);
}
