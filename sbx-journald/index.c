/* The reader's memory of a journal file; index.h says what it is worth. */

#include "sbx-journald/index.h"

#include "sbx-journald/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x31786469786273ull	/* in this machine's byte order */
#define FILE_MAX (64u << 20)		/* bytes of a file of the cache */
#define WORTH 8			/* steps: less is looked through faster */
#define OLD_S (90 * 86400)	/* since it was written: made anew if needed */
#define RUN_DIGITS 16u
#define BOX_DIGITS 12u

/* On disk, and followed by `steps` of struct step, each followed by its ids. */
struct header {
	uint64_t magic, inode, size, steps;
	uint8_t first[JOURNAL_HASH];	/* of the first line */
	uint8_t last[JOURNAL_HASH];	/* of the line at `anchor` */
	uint64_t anchor;
	uint8_t body[JOURNAL_HASH];	/* of all behind the header */
};
struct step {
	uint64_t number;
	uint32_t nruns, nboxes;
};
_Static_assert(sizeof(struct header) == 136 && sizeof(struct step) == 16,
    "no padding on disk");

struct entry {
	const uint64_t *runs, *boxes;	/* sorted; of loaded, or in own */
	uint64_t *own[2];		/* owned */
	uint32_t nruns, nboxes;
	bool known;
};

struct journal_index {
	int cache;		/* borrowed */
	uint64_t inode;
	uint8_t first[JOURNAL_HASH];
	char name[JOURNAL_HASH_HEX + 1];
	char *loaded;		/* owned */
	struct entry *entries;	/* owned */
	size_t n;
	size_t added;
};

int
journal_cache_open(const char *path)
{
	int SBX_CLEANUP(fd) fd = -1;
	struct stat st;

	if (mkdir(path, 0700) == -1 && errno != EEXIST)
		return (-1);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1 || fstat(fd, &st) == -1 || st.st_uid != geteuid() ||
	    (st.st_mode & 022) != 0)
		return (-1);
	return (sbx_steal_fd(&fd));
}

static bool
digest(const void *p, size_t n, uint8_t ret_hash[JOURNAL_HASH])
{
	uint8_t hash[EVP_MAX_MD_SIZE];

	if (EVP_Digest(p, n, hash, NULL, EVP_sha256(), NULL) != 1)
		return (false);
	memcpy(ret_hash, hash, JOURNAL_HASH);
	return (true);
}

/* Of the whole line at `at`; false when it has no end yet. */
static bool
digest_line(const char *text, size_t size, size_t at,
    uint8_t ret_hash[JOURNAL_HASH])
{
	const char *nl = at >= size ? NULL :
	    memchr(text + at, '\n', size - at);

	return (nl != NULL && digest(text + at, (size_t)(nl - text) - at,
	    ret_hash));
}

/* --- reading ------------------------------------------------------------------ */

/* The file of that name, whole, or NULL. */
static char *
read_file(int cache, const char *name, size_t *ret_len)
{
	int SBX_CLEANUP(fd) fd = openat(cache, name,
	    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char SBX_CLEANUP(free) *buf = NULL;
	struct stat st;
	size_t got = 0;
	ssize_t n;
	char *p;

	if (fd == -1 || fstat(fd, &st) == -1 || !S_ISREG(st.st_mode) ||
	    st.st_uid != geteuid() || st.st_size <= 0 ||
	    st.st_size > (off_t)FILE_MAX)
		return (NULL);
	buf = sbx_xcalloc(1, (size_t)st.st_size);
	while (got < (size_t)st.st_size &&
	    (n = read(fd, buf + got, (size_t)st.st_size - got)) > 0)
		got += (size_t)n;
	if (got != (size_t)st.st_size)
		return (NULL);
	*ret_len = got;
	p = buf;
	buf = NULL;
	return (p);
}

static bool
fits(const struct journal_index *ix, const struct header *h, const char *body,
    size_t body_len, const char *text, size_t size)
{
	uint8_t hash[JOURNAL_HASH];

	return (h->magic == MAGIC && h->inode == ix->inode &&
	    h->size <= size && h->anchor < h->size &&
	    memcmp(h->first, ix->first, JOURNAL_HASH) == 0 &&
	    digest(body, body_len, hash) &&
	    memcmp(h->body, hash, JOURNAL_HASH) == 0 &&
	    digest_line(text, size, h->anchor, hash) &&
	    memcmp(h->last, hash, JOURNAL_HASH) == 0);
}

static void
forget(struct journal_index *ix)
{
	for (size_t i = 0; i < ix->n; i++) {
		free(ix->entries[i].own[0]);
		free(ix->entries[i].own[1]);
	}
	memset(ix->entries, 0, ix->n * sizeof(*ix->entries));
	free(ix->loaded);
	ix->loaded = NULL;
}

/* The steps of ix->loaded.  false: their numbers do not add up. */
static bool
take_steps(struct journal_index *ix, size_t len, uint64_t steps)
{
	size_t at = sizeof(struct header), ids;
	struct entry *e;
	struct step s;

	for (; steps > 0; steps--) {
		if (len - at < sizeof(s))
			return (false);
		memcpy(&s, ix->loaded + at, sizeof(s));
		at += sizeof(s);
		ids = (size_t)s.nruns + s.nboxes;
		if (s.number >= ix->n || ix->entries[s.number].known ||
		    ids > (len - at) / sizeof(uint64_t))
			return (false);
		e = &ix->entries[s.number];
		/* everything on disk is a multiple of 8 bytes */
		e->runs = (const void *)(ix->loaded + at);
		e->boxes = e->runs + s.nruns;
		e->nruns = s.nruns;
		e->nboxes = s.nboxes;
		e->known = true;
		at += ids * sizeof(uint64_t);
	}
	return (at == len);
}

static void
load(struct journal_index *ix, const char *text, size_t size)
{
	struct header h;
	size_t len;

	ix->loaded = read_file(ix->cache, ix->name, &len);
	if (ix->loaded == NULL)
		return;
	if (len >= sizeof(h)) {
		memcpy(&h, ix->loaded, sizeof(h));
		if (fits(ix, &h, ix->loaded + sizeof(h), len - sizeof(h), text,
		    size) && take_steps(ix, len, h.steps))
			return;
	}
	forget(ix);
}

struct journal_index *
journal_index_open(int cache, ino_t inode, const char *text, size_t size)
{
	struct journal_index *ix;
	uint8_t first[JOURNAL_HASH];

	if (cache == -1 || size < WORTH * JOURNAL_STEP ||
	    !digest_line(text, size, 0, first))
		return (NULL);
	ix = sbx_xcalloc(1, sizeof(*ix));
	ix->cache = cache;
	ix->inode = inode;
	memcpy(ix->first, first, sizeof(first));
	journal_hex(first, ix->name);
	ix->n = size / JOURNAL_STEP + 1;
	ix->entries = sbx_xcalloc(ix->n, sizeof(*ix->entries));
	load(ix, text, size);
	return (ix);
}

/* --- asking -------------------------------------------------------------------- */

/* n digits of hex, as many as there are, the others as 0. */
static uint64_t
id_value(const char *s, size_t len, unsigned n)
{
	uint64_t v = 0;
	unsigned i;

	for (i = 0; i < n && i < len; i++)
		if (s[i] >= '0' && s[i] <= '9')
			v = v << 4 | (uint64_t)(s[i] - '0');
		else if (s[i] >= 'a' && s[i] <= 'f')
			v = v << 4 | (uint64_t)(s[i] - 'a' + 10);
		else
			break;
	return (v << 4 * (n - i) % 64);
}

/* Is one of the sorted values in [low, high]? */
static bool
has_between(const uint64_t *v, size_t n, uint64_t low, uint64_t high)
{
	size_t a = 0, b = n, mid;

	while (a < b) {
		mid = a + (b - a) / 2;
		if (v[mid] < low)
			a = mid + 1;
		else
			b = mid;
	}
	return (a < n && v[a] <= high);
}

bool
journal_index_may(const struct journal_index *ix, size_t step,
    const struct journal_filter *f)
{
	const struct entry *e;
	uint64_t low;
	size_t len;

	if (ix == NULL || step >= ix->n || !ix->entries[step].known)
		return (true);
	e = &ix->entries[step];
	if (f->run != NULL) {
		low = id_value(f->run, strlen(f->run), RUN_DIGITS);
		if (!has_between(e->runs, e->nruns, low, low))
			return (false);
	}
	if (f->container == NULL)
		return (true);
	len = strlen(f->container);
	low = id_value(f->container, len, BOX_DIGITS);
	return (len == 0 || has_between(e->boxes, e->nboxes, low,
	    low | ((UINT64_C(1) << 4 * (BOX_DIGITS - len)) - 1)));
}

bool
journal_index_knows(const struct journal_index *ix, size_t step)
{
	return (ix == NULL || step >= ix->n || ix->entries[step].known);
}

/* --- adding -------------------------------------------------------------------- */

static int
by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return ((*x > *y) - (*x < *y));
}

struct ids {
	uint64_t *v;		/* owned */
	size_t n, room;
};

static void
add_id(struct ids *ids, uint64_t v)
{
	/* the records of one run or sandbox stand together */
	if (ids->n > 0 && ids->v[ids->n - 1] == v)
		return;
	if (ids->n == ids->room) {
		ids->room = ids->room == 0 ? 1024 : 2 * ids->room;
		ids->v = sbx_xreallocarray(ids->v, ids->room,
		    sizeof(*ids->v));
	}
	ids->v[ids->n++] = v;
}

/*
 * Everything that stands behind "run_id":" and "container_id":", wherever: the
 * search for a line is one for the same bytes, so nothing that it finds is
 * missing here.
 */
static void
collect(struct ids *runs, struct ids *boxes, const char *lines, size_t len)
{
	static const char mark[] = "_id\":\"", run[] = "\"run",
	    box[] = "\"container";
	const size_t nmark = sizeof(mark) - 1, nrun = sizeof(run) - 1,
	    nbox = sizeof(box) - 1;
	const char *p = lines, *end = lines + len;

	/* one rare byte, then a look around it: a search for either would be
	 * set up anew for each of a million hits */
	while ((p = memchr(p, '_', (size_t)(end - p))) != NULL) {
		if ((size_t)(end - p) < nmark ||
		    memcmp(p, mark, nmark) != 0) {
			p++;
			continue;
		}
		if ((size_t)(p - lines) >= nrun &&
		    memcmp(p - nrun, run, nrun) == 0)
			add_id(runs, id_value(p + nmark,
			    (size_t)(end - p) - nmark, RUN_DIGITS));
		else if ((size_t)(p - lines) >= nbox &&
		    memcmp(p - nbox, box, nbox) == 0)
			add_id(boxes, id_value(p + nmark,
			    (size_t)(end - p) - nmark, BOX_DIGITS));
		p += nmark;
	}
}

/* Sorted, each once. */
static void
sort(struct ids *ids)
{
	size_t i, n = 0;

	if (ids->n > 1)
		qsort(ids->v, ids->n, sizeof(*ids->v), by_value);
	for (i = 0; i < ids->n; i++)
		if (n == 0 || ids->v[n - 1] != ids->v[i])
			ids->v[n++] = ids->v[i];
	ids->n = n;
}

void
journal_index_add(struct journal_index *ix, size_t step, const char *lines,
    size_t len)
{
	struct ids runs = { 0 }, boxes = { 0 };
	struct entry *e;

	if (journal_index_knows(ix, step))
		return;
	e = &ix->entries[step];
	collect(&runs, &boxes, lines, len);
	sort(&runs);
	sort(&boxes);
	e->runs = e->own[0] = runs.v;
	e->boxes = e->own[1] = boxes.v;
	e->nruns = (uint32_t)runs.n;
	e->nboxes = (uint32_t)boxes.n;
	e->known = true;
	ix->added++;
}

/* --- writing ------------------------------------------------------------------- */

/* Where the last line that begins in the known part begins. */
static size_t
find_anchor(const struct journal_index *ix, const char *text, size_t size)
{
	size_t end = ix->n;
	const char *nl;

	while (end > 0 && !ix->entries[end - 1].known)
		end--;
	end = end * JOURNAL_STEP < size ? end * JOURNAL_STEP : size;
	nl = end < 2 ? NULL : memrchr(text, '\n', end - 1);
	return (nl == NULL ? 0 : (size_t)(nl - text) + 1);
}

static int
put_all(const struct journal_index *ix, const char *text, size_t size,
    struct sbx_buf *b)
{
	struct header h = { .magic = MAGIC, .inode = ix->inode, .size = size,
		.anchor = find_anchor(ix, text, size) };

	memcpy(h.first, ix->first, sizeof(h.first));
	(void)sbx_buf_add(b, &h, sizeof(h));	/* overflow is asked below */
	for (size_t i = 0; i < ix->n; i++) {
		const struct entry *e = &ix->entries[i];
		struct step s = { i, e->nruns, e->nboxes };

		if (!e->known)
			continue;
		h.steps++;
		(void)sbx_buf_add(b, &s, sizeof(s));
		if (e->nruns > 0)
			(void)sbx_buf_add(b, e->runs,
			    e->nruns * sizeof(*e->runs));
		if (e->nboxes > 0)
			(void)sbx_buf_add(b, e->boxes,
			    e->nboxes * sizeof(*e->boxes));
	}
	if (b->overflow || !digest_line(text, size, h.anchor, h.last) ||
	    !digest(b->data + sizeof(h), b->len - sizeof(h), h.body))
		return (SBX_E_LIMIT);
	memcpy(b->data, &h, sizeof(h));
	return (0);
}

/* Files of journals that are gone, and of readers that were killed. */
static void
remove_old(int cache)
{
	int fd = openat(cache, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct stat st;

	if (d == NULL) {
		sbx_close(&fd);
		return;
	}
	while ((e = readdir(d)) != NULL)
		if (fstatat(cache, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode) && st.st_mtime < time(NULL) - OLD_S)
			(void)unlinkat(cache, e->d_name, 0);
	(void)closedir(d);
}

/* A failure anywhere only means that the next reader has more to read. */
static void
save(const struct journal_index *ix, const char *text, size_t size)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	int SBX_CLEANUP(fd) fd = -1;
	char temporary[48];

	sbx_buf_init(&b, FILE_MAX);
	if (put_all(ix, text, size, &b) < 0)
		return;
	remove_old(ix->cache);
	(void)snprintf(temporary, sizeof(temporary), "tmp.%d", (int)getpid());
	(void)unlinkat(ix->cache, temporary, 0);
	fd = openat(ix->cache, temporary,
	    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd == -1)
		return;
	if (sbx_write_all(fd, b.data, b.len) < 0 ||
	    renameat(ix->cache, temporary, ix->cache, ix->name) == -1)
		(void)unlinkat(ix->cache, temporary, 0);
}

void
journal_index_close(struct journal_index *ix, const char *text, size_t size)
{
	if (ix == NULL)
		return;
	if (ix->added >= WORTH)
		save(ix, text, size);
	forget(ix);
	free(ix->entries);
	free(ix);
}
