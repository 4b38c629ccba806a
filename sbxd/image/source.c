#include "sbxd/image/importer.h"

#include "common/base/json.h"
#include "common/base/log.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

/*
 * Where entries come from: a tar, an archive of layers, or a tree.  libarchive
 * reads the formats; what it says is taken for what the image's maker said.
 */

#define BLOCK (64u << 10)
#define TAR_BLOCK 512
#define MAX_LINKS 8		/* from one name in an archive to its file */

/* --- a tar, unpacked while it is read ---------------------------------------------- */

/* Two readers: the outer one unpacks, the inner one reads the tar, so that
 * every byte that was unpacked is counted, and hashed where that is wanted. */
struct tar {
	struct importer *im;
	struct archive *outer, *inner;
	EVP_MD_CTX *sum;	/* NULL: nobody asks */
	uint64_t entries;	/* that were asked for */
	char buf[BLOCK];
};

static la_ssize_t
unpack_block(struct archive *a, void *arg, const void **ret_p)
{
	struct tar *t = arg;
	la_ssize_t n = archive_read_data(t->outer, t->buf, sizeof(t->buf));

	*ret_p = t->buf;
	if (n < 0) {
		archive_set_error(a, EINVAL, "%s",
		    archive_error_string(t->outer) != NULL ?
		    archive_error_string(t->outer) : "unpacking failed");
		return (-1);
	}
	t->im->unpacked += (uint64_t)n;
	if (t->im->unpacked > MAX_BYTES + (MAX_BYTES >> 3)) {
		archive_set_error(a, EFBIG, "it unpacks to more than %llu GiB",
		    MAX_BYTES >> 30);
		return (-1);
	}
	if (t->sum != NULL)
		(void)EVP_DigestUpdate(t->sum, t->buf, (size_t)n);
	return (n);
}

static int
tar_failed(struct tar *t, struct archive *a, const char *what)
{
	const char *why = archive_error_string(a);
	char shown[160] = "";

	if (why != NULL)
		sbx_vis(shown, sizeof(shown), why, strlen(why));
	return (import_fail(t->im, SBX_E_SYNTAX, "%s: %s", what, shown));
}

static int
tar_open(struct tar *t, int fd)
{
	struct archive_entry *e;

	t->outer = archive_read_new();
	t->inner = archive_read_new();
	if (t->outer == NULL || t->inner == NULL)
		sbx_fatal("out of memory");
	/* by name: "all" would also run programs */
	(void)archive_read_support_filter_gzip(t->outer);
	(void)archive_read_support_filter_bzip2(t->outer);
	(void)archive_read_support_filter_xz(t->outer);
	(void)archive_read_support_filter_zstd(t->outer);
	(void)archive_read_support_format_raw(t->outer);
	(void)archive_read_support_format_empty(t->outer);
	(void)archive_read_support_format_tar(t->inner);
	(void)archive_read_support_format_empty(t->inner);
	if (archive_read_open_fd(t->outer, fd, BLOCK) != ARCHIVE_OK ||
	    archive_read_next_header(t->outer, &e) == ARCHIVE_FATAL)
		return (tar_failed(t, t->outer, "it cannot be unpacked"));
	/* what expands between two filters is not seen, so there is one; the
	 * other that is counted is the file itself */
	if (archive_filter_count(t->outer) > 2)
		return (import_fail(t->im, SBX_E_POLICY, "it is compressed "
		    "more than once"));
	if (archive_read_open(t->inner, t, NULL, unpack_block, NULL) !=
	    ARCHIVE_OK)
		return (tar_failed(t, t->inner, "it is no tar"));
	return (0);
}

static void
tar_close(struct tar *t)
{
	(void)archive_read_free(t->inner);
	(void)archive_read_free(t->outer);
	EVP_MD_CTX_free(t->sum);
}

/*
 * The next header.  1: there is one; 0: the end; else a failure.
 * A tar ends with blocks of NULs.  libarchive also takes the end of what it
 * reads for that, so one that was cut between two entries would be an image
 * with half of its files.  A layer is known by its digest instead.
 */
static int
tar_next(struct tar *t, struct archive_entry **ret_e)
{
	la_int64_t at;
	int r;

	if (t->entries++ > 0 && archive_read_data_skip(t->inner) < ARCHIVE_WARN)
		return (tar_failed(t, t->inner, "the tar is damaged"));
	at = archive_filter_bytes(t->inner, 0);
	r = archive_read_next_header(t->inner, ret_e);
	if (r == ARCHIVE_EOF && t->sum == NULL &&
	    archive_filter_bytes(t->inner, 0) - at < TAR_BLOCK)
		return (import_fail(t->im, SBX_E_SYNTAX, "the tar is damaged: "
		    "it is cut before its end"));
	if (r == ARCHIVE_EOF)
		return (0);
	if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
		return (tar_failed(t, t->inner, "the tar is damaged"));
	if (archive_entry_pathname(*ret_e) == NULL)
		return (import_fail(t->im, SBX_E_SYNTAX, "a name in the tar "
		    "cannot be read"));
	return (1);
}

/* Holes stay holes; what is missing at the end is one. */
static int
fill_from_tar(struct importer *im, void *arg, int fd, uint64_t size)
{
	struct tar *t = arg;
	const void *p;
	la_int64_t at;
	size_t n;
	int r;

	while ((r = archive_read_data_block(t->inner, &p, &n, &at)) ==
	    ARCHIVE_OK) {
		if (at < 0 || (uint64_t)at > size || n > size - (uint64_t)at)
			return (import_fail(im, SBX_E_SYNTAX, "a file is "
			    "longer than it says"));
		while (n > 0) {
			ssize_t w = pwrite(fd, p, n, at);

			if (w <= 0)
				return (import_fail_sys(im, "writing"));
			p = (const char *)p + w;
			n -= (size_t)w;
			at += w;
		}
	}
	if (r != ARCHIVE_EOF)
		return (tar_failed(t, t->inner, "the tar is damaged"));
	if (ftruncate(fd, (off_t)size) == -1)
		return (import_fail_sys(im, "writing"));
	return (0);
}

static enum entry_kind
kind_of(mode_t type)
{
	switch (type) {
	case S_IFREG: return (ENTRY_FILE);
	case S_IFDIR: return (ENTRY_DIR);
	case S_IFLNK: return (ENTRY_SYMLINK);
	case S_IFCHR:
	case S_IFBLK: return (ENTRY_DEVICE);
	}
	return (ENTRY_OTHER);
}

static int
tar_entry(struct tar *t, struct archive_entry *ae)
{
	struct entry e = { .path = archive_entry_pathname(ae),
		.kind = kind_of(archive_entry_filetype(ae)),
		.mode = archive_entry_perm(ae),
		.mtime = { .tv_sec = archive_entry_mtime(ae),
		    .tv_nsec = archive_entry_mtime_nsec(ae) },
		.xattrs = (unsigned)(archive_entry_xattr_count(ae) +
		    archive_entry_acl_count(ae,
		    ARCHIVE_ENTRY_ACL_TYPE_ACCESS)),
		.fill = fill_from_tar, .arg = t };
	la_int64_t size = archive_entry_size(ae);

	if (archive_entry_hardlink(ae) != NULL) {
		e.kind = ENTRY_HARDLINK;
		e.target = archive_entry_hardlink(ae);
	} else if (e.kind == ENTRY_SYMLINK)
		e.target = archive_entry_symlink(ae) != NULL ?
		    archive_entry_symlink(ae) : "";
	if (e.kind == ENTRY_FILE && size < 0)
		return (import_fail(t->im, SBX_E_SYNTAX, "a file has no "
		    "size"));
	e.size = (uint64_t)size;
	return (entry_make(t->im, &e));
}

/* The tar ends before its stream does, whose own sums come last. */
static int
tar_finish(struct tar *t, char ret_hex[65])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char sum[EVP_MAX_MD_SIZE];
	const void *p;
	unsigned n = 0;
	la_ssize_t r;

	while ((r = unpack_block(t->inner, t, &p)) > 0)
		;
	if (r < 0)
		return (tar_failed(t, t->inner, "the tar is damaged"));
	if (t->sum == NULL)
		return (0);
	if (EVP_DigestFinal_ex(t->sum, sum, &n) != 1)
		return (import_fail(t->im, SBX_E_SYS, "SHA-256 failed"));
	for (unsigned i = 0; i < n; i++) {
		ret_hex[2 * i] = digits[sum[i] >> 4];
		ret_hex[2 * i + 1] = digits[sum[i] & 15];
	}
	ret_hex[2 * n] = '\0';
	return (0);
}

int
source_tar(struct importer *im, int fd, char ret_hex[65])
{
	struct tar *t = sbx_xcalloc(1, sizeof(*t));
	struct archive_entry *e;
	int r;

	t->im = im;
	if (ret_hex != NULL && ((t->sum = EVP_MD_CTX_new()) == NULL ||
	    EVP_DigestInit_ex(t->sum, EVP_sha256(), NULL) != 1))
		sbx_fatal("out of memory");
	r = lseek(fd, 0, SEEK_SET) == -1 ? import_fail_sys(im, "reading") :
	    tar_open(t, fd);
	if (r == 0)
		while ((r = tar_next(t, &e)) == 1)
			if ((r = tar_entry(t, e)) != 0)
				break;
	if (r == 0)
		r = tar_finish(t, ret_hex);
	tar_close(t);
	free(t);
	return (r);
}

/* --- an archive of layers -------------------------------------------------------------- */

static struct part *
part_find(const struct importer *im, const char *path)
{
	for (unsigned i = 0; i < im->nparts; i++)
		if (strcmp(im->parts[i].path, path) == 0)
			return (&im->parts[i]);
	return (NULL);
}

/* A link of such an archive goes from one name in it to another. */
static char *
link_target(const char *path, const char *target)
{
	char joined[2 * PATH_BYTES], clean[PATH_BYTES], *slash;
	const char *rest = target;

	(void)snprintf(joined, sizeof(joined), "%s", path);
	slash = strrchr(joined, '/');
	if (slash != NULL)
		*slash = '\0';
	else
		joined[0] = '\0';
	while (strncmp(rest, "../", 3) == 0) {
		rest += 3;
		if (joined[0] == '\0')
			return (NULL);
		slash = strrchr(joined, '/');
		if (slash != NULL)
			*slash = '\0';
		else
			joined[0] = '\0';
	}
	(void)snprintf(joined + strlen(joined), sizeof(joined) -
	    strlen(joined), "%s%s", joined[0] != '\0' ? "/" : "", rest);
	return (entry_clean(clean, joined) == 0 ? sbx_xstrdup(clean) : NULL);
}

static int
keep_part(struct tar *t, struct archive_entry *ae, const char *path)
{
	struct importer *im = t->im;
	const char *link = archive_entry_filetype(ae) == AE_IFLNK ?
	    archive_entry_symlink(ae) : NULL;
	int SBX_CLEANUP(fd) fd = -1;
	struct part *p;
	char name[16];

	if (archive_entry_hardlink(ae) == NULL && link == NULL &&
	    archive_entry_filetype(ae) != AE_IFREG)
		return (0);
	if (im->nparts == MAX_PARTS || part_find(im, path) != NULL)
		return (import_fail(im, SBX_E_LIMIT, "the archive has a file "
		    "twice, or more than %u", MAX_PARTS));
	(void)snprintf(name, sizeof(name), "%u", im->nparts);
	p = &im->parts[im->nparts++];
	p->path = sbx_xstrdup(path);
	if (archive_entry_hardlink(ae) != NULL || link != NULL) {
		char clean[PATH_BYTES];

		if (link != NULL)
			p->link = link_target(path, link);
		else if (entry_clean(clean, archive_entry_hardlink(ae)) == 0)
			p->link = sbx_xstrdup(clean);
		return (p->link != NULL ? 0 : import_fail(im, SBX_E_POLICY,
		    "a link goes out of the archive"));
	}
	if (archive_entry_size(ae) < 0 ||
	    (uint64_t)archive_entry_size(ae) > MAX_FILE)
		return (import_fail(im, SBX_E_LIMIT, "a part is too large"));
	fd = openat(im->parts_dir, name, O_WRONLY | O_CREAT | O_EXCL |
	    O_CLOEXEC, 0600);
	if (fd == -1)
		return (import_fail_sys(im, "a part of the archive"));
	return (fill_from_tar(im, t, fd, (uint64_t)archive_entry_size(ae)));
}

/* All of its files, each under a number: their names are not ours. */
static int
keep_parts(struct importer *im, int fd)
{
	struct tar *t = sbx_xcalloc(1, sizeof(*t));
	struct archive_entry *e;
	char path[PATH_BYTES];
	int r;

	t->im = im;
	im->parts = sbx_xcalloc(MAX_PARTS, sizeof(*im->parts));
	if (mkdirat(im->staging, "parts", 0700) == -1 ||
	    (im->parts_dir = openat(im->staging, "parts", O_RDONLY |
	    O_DIRECTORY | O_CLOEXEC)) == -1 || lseek(fd, 0, SEEK_SET) == -1)
		r = import_fail_sys(im, "the staging directory");
	else
		r = tar_open(t, fd);
	if (r == 0)
		while ((r = tar_next(t, &e)) == 1) {
			if (entry_clean(path, archive_entry_pathname(e)) != 0)
				r = import_fail(im, SBX_E_POLICY, "a name in "
				    "the archive is absolute or has '..'");
			else
				r = keep_part(t, e, path);
			if (r != 0)
				break;
		}
	if (r == 0)
		r = tar_finish(t, NULL);
	tar_close(t);
	free(t);
	return (r);
}

int
source_part(struct importer *im, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
		    RESOLVE_NO_MAGICLINKS };
	char clean[PATH_BYTES], name[16], shown[128];
	struct part *p = NULL;
	struct stat st;
	int fd = -1;

	if (entry_clean(clean, path) != 0)
		errno = EXDEV;
	else if (im->parts_dir == -1)
		fd = (int)syscall(SYS_openat2, im->source, clean, &how,
		    sizeof(how));
	else {
		p = part_find(im, clean);
		for (int i = 0; p != NULL && p->link != NULL; i++)
			p = i < MAX_LINKS ? part_find(im, p->link) : NULL;
		errno = ENOENT;
		if (p != NULL) {
			(void)snprintf(name, sizeof(name), "%u",
			    (unsigned)(p - im->parts));
			fd = openat(im->parts_dir, name, O_RDONLY | O_CLOEXEC);
		}
	}
	if (fd != -1 && (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))) {
		(void)close(fd);
		fd = -1;
		errno = EINVAL;
	}
	if (fd == -1)
		(void)import_fail_sys(im, "its part '%s'", sbx_vis(shown,
		    sizeof(shown), path, strlen(path)));
	return (fd);
}

char *
source_json(struct importer *im, const char *path, size_t *ret_len)
{
	int SBX_CLEANUP(fd) fd = source_part(im, path);
	SBX_CLEANUP(free) char *text = NULL;
	struct sbx_json_where where;
	size_t len = 0;
	ssize_t n = 0;
	char *r;

	if (fd == -1)
		return (NULL);
	text = sbx_xcalloc(1, MAX_JSON + 2);
	while (len <= MAX_JSON && (n = read(fd, text + len,
	    MAX_JSON + 1 - len)) > 0)
		len += (size_t)n;
	if (n < 0 || len > MAX_JSON ||
	    sbx_json_scan(text, len, MAX_JSON, 32, &where) != 0) {
		(void)import_fail(im, SBX_E_SYNTAX, "'%.80s' is not clean JSON "
		    "of at most %u MiB", path, MAX_JSON >> 20);
		return (NULL);
	}
	text[len] = '\0';
	*ret_len = len;
	r = text;
	text = NULL;
	return (r);
}

/* --- a tree ------------------------------------------------------------------------------- */

/* A file with several names, by its number: an open hash. */
struct hard {
	ino_t ino;
	char *path;	/* owned; NULL: nothing is here */
};
struct tree {
	struct importer *im;
	dev_t dev;
	struct hard *hard;
	size_t nhard, size;	/* size: a power of two, or 0 */
	char path[PATH_BYTES];
	unsigned depth;
};

/* One stretch of a file, to the same place in fd. */
static int
copy_data(struct importer *im, int from, int fd, uint64_t at, uint64_t end)
{
	static char buf[BLOCK];
	size_t want;
	ssize_t n;

	while (at < end) {
		want = end - at < sizeof(buf) ? (size_t)(end - at) :
		    sizeof(buf);
		n = pread(from, buf, want, (off_t)at);
		if (n < 0)
			return (import_fail_sys(im, "reading a file"));
		if (n == 0)
			return (import_fail(im, SBX_E_SYNTAX, "a file became "
			    "shorter while it was read"));
		if (pwrite(fd, buf, (size_t)n, (off_t)at) != n)
			return (import_fail_sys(im, "writing"));
		at += (uint64_t)n;
	}
	return (0);
}

/* Holes stay holes, where the file system says where they are. */
static int
fill_from_file(struct importer *im, void *arg, int fd, uint64_t size)
{
	int from = *(int *)arg, r;
	off_t data, hole;

	for (uint64_t at = 0; at < size; at = (uint64_t)hole) {
		data = lseek(from, (off_t)at, SEEK_DATA);
		if (data == -1 && errno == ENXIO)
			break;	/* a hole to the end */
		if (data == -1)
			return (copy_data(im, from, fd, at, size));
		hole = lseek(from, data, SEEK_HOLE);
		if (hole == -1 || (uint64_t)hole > size)
			hole = (off_t)size;
		if ((r = copy_data(im, from, fd, (uint64_t)data,
		    (uint64_t)hole)) != 0)
			return (r);
	}
	return (ftruncate(fd, (off_t)size) == -1 ?
	    import_fail_sys(im, "writing") : 0);
}

static struct hard *
hard_find(const struct tree *t, ino_t ino)
{
	size_t at = (size_t)(ino * UINT64_C(0x9e3779b97f4a7c15) >> 32);

	while (t->hard[at & (t->size - 1)].path != NULL &&
	    t->hard[at & (t->size - 1)].ino != ino)
		at++;
	return (&t->hard[at & (t->size - 1)]);
}

/* The name that this file has already, if it has several; NULL: none yet. */
static const char *
other_name(struct tree *t, const struct stat *st)
{
	struct tree old = *t;
	struct hard *h;

	if (2 * t->nhard >= t->size) {
		t->size = t->size == 0 ? 256 : 2 * t->size;
		t->hard = sbx_xcalloc(t->size, sizeof(*t->hard));
		for (size_t i = 0; i < old.size; i++)
			if (old.hard[i].path != NULL)
				*hard_find(t, old.hard[i].ino) = old.hard[i];
		free(old.hard);
	}
	h = hard_find(t, st->st_ino);
	if (h->path != NULL)
		return (h->path);
	*h = (struct hard){ st->st_ino, sbx_xstrdup(t->path) };
	t->nhard++;
	return (NULL);
}

/* To read, and still what was looked at.  -1: im->err is set. */
static int
tree_open(struct tree *t, int dir, const char *name, const struct stat *st)
{
	int SBX_CLEANUP(fd) fd = openat(dir, name, O_RDONLY | O_NOFOLLOW |
	    O_NONBLOCK | O_CLOEXEC | (S_ISDIR(st->st_mode) ? O_DIRECTORY : 0));
	char shown[128];
	struct stat now;

	if (fd == -1 || fstat(fd, &now) == -1) {
		(void)import_fail_sys(t->im, "opening '%s'", sbx_vis(shown,
		    sizeof(shown), t->path, strlen(t->path)));
		return (-1);
	}
	if (now.st_dev != st->st_dev || now.st_ino != st->st_ino ||
	    (now.st_mode & S_IFMT) != (st->st_mode & S_IFMT)) {
		(void)import_fail(t->im, SBX_E_SYNTAX, "'%s' became something "
		    "else while it was read", sbx_vis(shown, sizeof(shown),
		    t->path, strlen(t->path)));
		return (-1);
	}
	return (sbx_steal_fd(&fd));
}

static int tree_walk(struct tree *t, int dir);

static int
tree_entry(struct tree *t, int dir, const char *name)
{
	char target[PATH_BYTES + 1];
	struct entry e = { .path = t->path, .fill = fill_from_file };
	int SBX_CLEANUP(fd) fd = -1;
	struct stat st;
	ssize_t n;
	int r;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return (import_fail_sys(t->im, "reading the tree"));
	e.kind = kind_of(st.st_mode & S_IFMT);
	e.mode = st.st_mode & 07777;
	e.mtime = st.st_mtim;
	e.size = (uint64_t)st.st_size;
	e.arg = &fd;
	if (e.kind == ENTRY_SYMLINK) {
		n = readlinkat(dir, name, target, sizeof(target) - 1);
		if (n == -1)
			return (import_fail_sys(t->im, "reading a link"));
		target[n] = '\0';
		e.target = target;
	} else if (e.kind == ENTRY_FILE && st.st_nlink > 1 &&
	    st.st_dev == t->dev && (e.target = other_name(t, &st)) != NULL)
		e.kind = ENTRY_HARDLINK;
	if (e.kind == ENTRY_FILE || e.kind == ENTRY_DIR) {
		if ((fd = tree_open(t, dir, name, &st)) == -1)
			return (t->im->err.code);
		e.xattrs = flistxattr(fd, NULL, 0) > 0;
	}
	if ((r = entry_make(t->im, &e)) != 0 || e.kind != ENTRY_DIR)
		return (r);
	/* what is mounted there is another tree */
	return (st.st_dev == t->dev ? tree_walk(t, sbx_steal_fd(&fd)) : 0);
}

/* dir: consumed. */
static int
tree_walk(struct tree *t, int dir)
{
	size_t len = strlen(t->path);
	DIR *d = fdopendir(dir);
	struct dirent *e;
	int r = 0;

	if (d == NULL || t->depth++ > MAX_DEPTH) {
		if (d != NULL)
			(void)closedir(d);
		return (import_fail(t->im, SBX_E_LIMIT, "the tree is deeper "
		    "than %u", MAX_DEPTH));
	}
	while (r == 0 && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if ((size_t)snprintf(t->path + len, sizeof(t->path) - len,
		    "%s%s", len > 0 ? "/" : "", e->d_name) >=
		    sizeof(t->path) - len)
			r = import_fail(t->im, SBX_E_LIMIT, "a path is too "
			    "long");
		else
			r = tree_entry(t, dirfd(d), e->d_name);
		t->path[len] = '\0';
	}
	t->depth--;
	(void)closedir(d);
	return (r);
}

int
source_tree(struct importer *im, int dir)
{
	struct tree t = { .im = im };
	struct stat st;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	if (fd == -1 || fstat(fd, &st) == -1) {
		sbx_close(&fd);
		return (import_fail_sys(im, "reading the tree"));
	}
	t.dev = st.st_dev;
	r = tree_walk(&t, fd);
	for (size_t i = 0; i < t.size; i++)
		free(t.hard[i].path);
	free(t.hard);
	return (r);
}

/* --- which it is ------------------------------------------------------------------------------ */

/* What a file system has and an archive of layers has not. */
static bool
is_tree_top(const char *path)
{
	static const char *const tops[] = { "bin", "etc", "usr" };
	size_t n = strcspn(path, "/");

	for (size_t i = 0; i < SBX_NELEM(tops); i++)
		if (n == strlen(tops[i]) && memcmp(path, tops[i], n) == 0)
			return (true);
	return (false);
}

/* What stands at the top of an archive, in one pass over its names. */
static int
look(struct importer *im, int fd, bool *ret_oci, bool *ret_docker)
{
	struct tar *t = sbx_xcalloc(1, sizeof(*t));
	struct archive_entry *e;
	char path[PATH_BYTES];
	bool layout = false, index = false, manifest = false, tree = false;
	unsigned n = 0;
	int r;

	t->im = im;
	r = lseek(fd, 0, SEEK_SET) == -1 ? import_fail_sys(im, "reading") :
	    tar_open(t, fd);
	/* a file system has more at its top than an archive of layers may */
	if (r == 0)
		while ((r = tar_next(t, &e)) == 1 && !tree &&
		    ++n <= MAX_PARTS * 2) {
			if (entry_clean(path, archive_entry_pathname(e)) != 0)
				continue;
			layout |= strcmp(path, "oci-layout") == 0;
			index |= strcmp(path, "index.json") == 0;
			manifest |= strcmp(path, "manifest.json") == 0;
			tree |= is_tree_top(path);
		}
	*ret_oci = layout && index && !tree;
	*ret_docker = manifest && !tree;
	tar_close(t);
	free(t);
	im->unpacked = 0;
	return (r > 0 ? 0 : r);
}

/* What cannot be read twice is stored first. */
static int
spool(struct importer *im)
{
	char *buf = sbx_xcalloc(1, BLOCK);
	uint64_t total = 0;
	int fd, r = 0;
	ssize_t n;

	fd = openat(im->staging, "spool", O_RDWR | O_CREAT | O_EXCL |
	    O_CLOEXEC, 0600);
	if (fd == -1 || unlinkat(im->staging, "spool", 0) == -1)
		r = import_fail_sys(im, "the staging directory");
	while (r == 0 && (n = read(im->source, buf, BLOCK)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		total += n > 0 ? (uint64_t)n : 0;
		if (n < 0 || sbx_write_all(fd, buf, (size_t)n) != 0)
			r = import_fail_sys(im, "storing what comes in");
		else if (total > MAX_BYTES)
			r = import_fail(im, SBX_E_LIMIT, "more than %llu GiB "
			    "come in", MAX_BYTES >> 30);
	}
	free(buf);
	sbx_close(&im->source);
	im->source = fd;
	return (r);
}

int
source_import(struct importer *im)
{
	bool oci = false, docker = false;
	struct stat st;
	int r = 0;

	if (fstat(im->source, &st) == -1)
		return (import_fail_sys(im, "the source"));
	if (S_ISDIR(st.st_mode)) {
		if (fstatat(im->source, "oci-layout", &st,
		    AT_SYMLINK_NOFOLLOW) == 0)
			return (layers_oci(im));
		if (fstatat(im->source, "manifest.json", &st,
		    AT_SYMLINK_NOFOLLOW) == 0 && fstatat(im->source, "etc",
		    &st, AT_SYMLINK_NOFOLLOW) == -1)
			return (layers_docker(im));
		return (source_tree(im, im->source));
	}
	if (!S_ISREG(st.st_mode))
		r = spool(im);
	if (r != 0 || (r = look(im, im->source, &oci, &docker)) != 0)
		return (r);
	if (!oci && !docker)
		return (source_tar(im, im->source, NULL));
	if ((r = keep_parts(im, im->source)) != 0)
		return (r);
	return (oci ? layers_oci(im) : layers_docker(im));
}
