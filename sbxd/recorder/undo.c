/*
 * What files were before edits: undo/CONTAINER.HASH.NUMBER.MODE.KIND below the
 * store, one file a version.  The names and the files' own times are all that
 * is known of them, so a recorder that was killed is followed by one that
 * knows as much.
 */
#include "sbxd/recorder/recorder.h"

#include "common/base/log.h"
#include "common/base/sha256.h"

#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIR_NAME "undo"
#define NAME_FORMAT DIR_NAME "/%s.%s.%016" PRIx64 ".%04o.%c"
#define NAME_BYTES 128
/* Where its parts are, behind the directory. */
#define AT_KEY (SBX_CONTAINER_HEX + 1)
#define AT_NUMBER (AT_KEY + SBX_SHA256_HEX + 1)
#define AT_MODE (AT_NUMBER + 17)
#define AT_KIND (AT_MODE + 5)
#define VERSION_CHARS (AT_KIND + 1)
#define PART DIR_NAME "/part"	/* what is being written */
#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

struct version {
	TAILQ_ENTRY(version) age;	/* in recorder.undo */
	LIST_ENTRY(version) hash;
	char container[SBX_CONTAINER_HEX + 1];
	char key[SBX_SHA256_HEX + 1];	/* of container and path */
	uint64_t number;		/* grows: the order of all */
	uint64_t bytes, wall_ns;
	uint32_t mode;
	bool absent;
};

static void
make_key(const char *container, const char *path, char *ret_key)
{
	struct sbx_sha256 s;

	sbx_sha256_init(&s);
	sbx_sha256_add(&s, container, SBX_CONTAINER_HEX);
	sbx_sha256_add(&s, path, strlen(path));
	sbx_sha256_end(&s, ret_key);
}

/* n digits of base 8 or 16; what is none counts as 0. */
static uint64_t
digits(const char *s, size_t n, unsigned base)
{
	static const char all[] = "0123456789abcdef";
	const char *d;
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++) {
		d = memchr(all, s[i], base);
		v = v * base + (d != NULL ? (uint64_t)(d - all) : 0);
	}
	return (v);
}

static struct version_bucket *
bucket(struct recorder *r, const char *key)
{
	return (&r->undo_buckets[digits(key, 8, 16) % UNDO_BUCKETS]);
}

static void
version_name(const struct version *v, char *ret_name)
{
	(void)snprintf(ret_name, NAME_BYTES, NAME_FORMAT, v->container, v->key,
	    v->number, v->mode, v->absent ? 'a' : 'f');
}

/* It is the newest. */
static void
version_add(struct recorder *r, struct version *v)
{
	TAILQ_INSERT_TAIL(&r->undo, v, age);
	LIST_INSERT_HEAD(bucket(r, v->key), v, hash);
	r->undo_bytes += v->bytes;
	r->undo_n++;
	if (v->number > r->undo_last)
		r->undo_last = v->number;
}

static void
version_forget(struct recorder *r, struct version *v)
{
	TAILQ_REMOVE(&r->undo, v, age);
	LIST_REMOVE(v, hash);
	r->undo_bytes -= v->bytes;
	r->undo_n--;
	free(v);
}

static void
version_remove(struct recorder *r, struct version *v)
{
	char name[NAME_BYTES];

	version_name(v, name);
	if (unlinkat(r->store_fd, name, 0) < 0 && errno != ENOENT)
		log_warn("unlinkat: run store: %s, ignoring", strerror(errno));
	version_forget(r, v);
}

/* Those of one file, the newest first; at most SBX_MAX_UNDO. */
static size_t
versions_of(struct recorder *r, const char *key, struct version **ret_v)
{
	struct version *v;
	size_t n = 0;

	LIST_FOREACH(v, bucket(r, key), hash)
		if (n < SBX_MAX_UNDO && strcmp(v->key, key) == 0)
			ret_v[n++] = v;
	return (n);
}

/* Room for one more of this file, and for its bytes. */
static void
make_room(struct recorder *r, const char *key, uint64_t bytes)
{
	struct version *v[SBX_MAX_UNDO];

	if (versions_of(r, key, v) == SBX_MAX_UNDO)
		version_remove(r, v[SBX_MAX_UNDO - 1]);
	while (r->undo_n > 0 && (r->undo_n >= UNDO_VERSIONS ||
	    r->undo_bytes + bytes > SBX_UNDO_ALL_BYTES))
		version_remove(r, TAILQ_FIRST(&r->undo));
}

static int
copy(int from, int to, uint64_t bytes)
{
	char block[64 << 10];
	uint64_t at = 0;
	ssize_t n;

	while (at < bytes) {
		n = pread(from, block, bytes - at < sizeof(block) ?
		    (size_t)(bytes - at) : sizeof(block), (off_t)at);
		if (n == 0)
			errno = EIO;
		if (n <= 0 || sbx_write_all(to, block, (size_t)n) < 0)
			return (-1);
		at += (uint64_t)n;
	}
	return (0);
}

/* Under its name only when it is whole.  0 or errno. */
static int
store(struct recorder *r, const struct version *v, int fd)
{
	char name[NAME_BYTES];
	int error = 0, to;

	if (mkdirat(r->store_fd, DIR_NAME, 0700) < 0 && errno != EEXIST)
		return (errno);
	to = openat(r->store_fd, PART, O_WRONLY | O_CREAT | O_TRUNC |
	    O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return (errno);
	version_name(v, name);
	if (copy(fd, to, v->bytes) < 0 ||
	    renameat2(r->store_fd, PART, r->store_fd, name,
	    RENAME_NOREPLACE) < 0)
		error = errno;
	sbx_close(&to);
	if (error != 0)
		(void)unlinkat(r->store_fd, PART, 0);
	return (error);
}

/* What cannot change while it is copied.  0 or errno, with the reason. */
static int
look(const struct sbx_keep_put *q, int fd, uint64_t *ret_bytes,
    const char **ret_reason)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	*ret_reason = "its former content came in a wrong way";
	if (seals == -1 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 ||
	    st.st_size < 0 || (q->absent != 0 && st.st_size != 0))
		return (EINVAL);
	*ret_reason = "a file of more than 5 MiB is not kept";
	if (st.st_size > (off_t)SBX_UNDO_BYTES)
		return (EFBIG);
	*ret_bytes = (uint64_t)st.st_size;
	return (0);
}

int
undo_put(struct recorder *r, const struct sbx_keep_put *q, int fd,
    const char **ret_reason)
{
	struct version *v;
	uint64_t bytes;
	int error;

	error = look(q, fd, &bytes, ret_reason);
	if (error != 0)
		return (error);
	v = calloc(1, sizeof(*v));
	*ret_reason = "the recorder is out of memory";
	if (v == NULL)
		return (ENOMEM);
	memcpy(v->container, q->container, SBX_CONTAINER_HEX);
	make_key(v->container, q->path, v->key);
	v->bytes = bytes;
	v->mode = q->mode & 07777;
	v->absent = q->absent != 0;
	v->wall_ns = sbx_wall_ns();
	make_room(r, v->key, bytes);
	v->number = r->undo_last + 1;
	error = store(r, v, fd);
	*ret_reason = error == ENOSPC || error == EDQUOT ?
	    "the disk of the run store is full" :
	    "the run store could not be written";
	if (error != 0) {
		log_err("what a file was is not kept: %s", strerror(error));
		free(v);
		return (error);
	}
	version_add(r, v);
	*ret_reason = "";
	return (0);
}

static int
list(struct version *const *v, size_t n, struct sbx_buf *b,
    struct sbx_strs *ret)
{
	char line[64];

	for (size_t i = 0; i < n; i++) {
		if (v[i]->absent)
			(void)snprintf(line, sizeof(line), "- %" PRIu64,
			    v[i]->wall_ns);
		else
			(void)snprintf(line, sizeof(line), "%" PRIu64 " %"
			    PRIu64, v[i]->bytes, v[i]->wall_ns);
		if (sbx_strs_add(ret, b, line) != 0)
			return (SBX_E_LIMIT);
	}
	ret->data = b->data;
	return (0);
}

int
undo_answer(struct recorder *r, struct sbx_peer *p, uint32_t id,
    const struct sbx_keep_get *q)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char key[SBX_SHA256_HEX + 1], name[NAME_BYTES];
	struct version *v[SBX_MAX_UNDO], *it;
	struct sbx_keep_version m = { 0 };
	int SBX_CLEANUP(fd) fd = -1;
	size_t n;

	make_key(q->container, q->path, key);
	n = versions_of(r, key, v);
	sbx_buf_init(&b, 512);
	if (list(v, n, &b, &m.versions) != 0)
		return (SBX_E_LIMIT);
	if (q->steps >= 1 && q->steps <= n) {
		it = v[q->steps - 1];
		version_name(it, name);
		fd = openat(r->store_fd, name, O_RDONLY | O_NOFOLLOW |
		    O_CLOEXEC);
		m.absent = it->absent;
		m.mode = it->mode;
	}
	if (fd == -1)
		return (sbx_send_keep_none(p, id, &(struct sbx_keep_none){
		    .versions = m.versions }, NULL));
	return (sbx_send_keep_version(p, id, &m, &fd));
}

void
undo_drop(struct recorder *r, const char *container)
{
	struct version *v, *next;

	for (v = TAILQ_FIRST(&r->undo); v != NULL; v = next) {
		next = TAILQ_NEXT(v, age);
		if (strcmp(v->container, container) == 0)
			version_remove(r, v);
	}
}

void
undo_free(struct recorder *r)
{
	while (!TAILQ_EMPTY(&r->undo))
		version_forget(r, TAILQ_FIRST(&r->undo));
}

/* --- taking up what is there -------------------------------------------------- */

struct taking {
	struct version **v;
	size_t n;
};

/* Names that the recorder would not give are refused. */
static bool
version_parse(const char *name, struct version *v)
{
	char again[NAME_BYTES];

	if (strlen(name) != VERSION_CHARS)
		return (false);
	memcpy(v->container, name, SBX_CONTAINER_HEX);
	memcpy(v->key, name + AT_KEY, SBX_SHA256_HEX);
	v->number = digits(name + AT_NUMBER, 16, 16);
	v->mode = (uint32_t)digits(name + AT_MODE, 4, 8);
	v->absent = name[AT_KIND] == 'a';
	version_name(v, again);
	return (sbx_is_hex(v->container, SBX_CONTAINER_HEX) &&
	    sbx_is_hex(v->key, SBX_SHA256_HEX) &&
	    strcmp(again + sizeof(DIR_NAME), name) == 0);
}

static void
take(void *arg, int dir_fd, const char *name)
{
	struct taking *t = arg;
	struct version *v = calloc(1, sizeof(*v));
	struct stat st;

	if (v == NULL || t->n == UNDO_VERSIONS || !version_parse(name, v) ||
	    fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode) || st.st_size < 0 ||
	    st.st_size > (off_t)SBX_UNDO_BYTES) {
		free(v);
		(void)unlinkat(dir_fd, name, 0);
		return;
	}
	v->bytes = (uint64_t)st.st_size;
	v->wall_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000ull +
	    (uint64_t)st.st_mtim.tv_nsec;
	t->v[t->n++] = v;
}

static int
by_number(const void *a, const void *b)
{
	const struct version *x = *(struct version *const *)a,
	    *y = *(struct version *const *)b;

	return (x->number < y->number ? -1 : x->number > y->number);
}

bool
undo_take(struct recorder *r, const char *name)
{
	struct taking t = { 0 };

	if (strcmp(name, DIR_NAME) != 0)
		return (false);
	t.v = calloc(UNDO_VERSIONS, sizeof(struct version *));
	if (t.v == NULL)
		return (false);
	(void)store_each(r->store_fd, DIR_NAME, take, &t);
	qsort(t.v, t.n, sizeof(struct version *), by_number);
	for (size_t i = 0; i < t.n; i++)
		version_add(r, t.v[i]);
	free(t.v);
	while (r->undo_bytes > SBX_UNDO_ALL_BYTES)
		version_remove(r, TAILQ_FIRST(&r->undo));
	return (true);
}
