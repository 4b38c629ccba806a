#include "sbx-journald/reader.h"

#include "sbx-journald/index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A place to go on from. */
struct place {
	unsigned file;
	size_t at;
};

struct journal_reader {
	int dir_fd, fd;		/* owned */
	int cache;		/* owned, -1: none */
	unsigned number;	/* of fd */
	unsigned first;		/* lowest number in the directory */
	char *map;
	size_t mapped;
	size_t at;		/* of the next line in map */
	char *needle;		/* lines without these bytes are passed over */
	size_t needle_len;	/* 0: none are */
	/* What journal_seek_last() found, to be given newest last, and where
	 * to go on then. */
	struct place *places;	/* owned, newest first */
	size_t nplaces, room;
	struct place after;
	bool resume;		/* nothing is left of them: go there */
};

/* Backwards in steps: what is read for nothing when the lines that are looked
 * for are the last ones. */
#define AHEAD_STEPS 8u
#define ADD_STEPS 64u	/* to remember at a time: each takes 0.3 ms */
/* So many lines are remembered when they are found; for more, the journal is
 * gone through again from the oldest of them. */
#define PLACES_MAX ((uint64_t)1 << 20)

/* The last lines that match, so far. */
struct last_lines {
	const struct journal_filter *filter;
	uint64_t want, found;
	struct place oldest;
	size_t *starts;		/* owned: candidates of one step, oldest first */
	size_t room;
	unsigned added;		/* steps, to what is remembered */
};

/* The lowest and the highest number there is; 0 when there is no file. */
static int
find_range(int dir_fd, unsigned *ret_first, unsigned *ret_last)
{
	struct dirent *de;
	unsigned n;
	DIR *dir;
	int fd;

	*ret_first = *ret_last = 0;
	fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return (SBX_E_SYS);
	dir = fdopendir(fd);
	if (dir == NULL) {
		sbx_close(&fd);
		return (SBX_E_SYS);
	}
	while ((de = readdir(dir)) != NULL) {
		n = journal_name_number(de->d_name);
		if (n > *ret_last)
			*ret_last = n;
		if (n != 0 && (*ret_first == 0 || n < *ret_first))
			*ret_first = n;
	}
	(void)closedir(dir);
	return (0);
}

static void
unmap(struct journal_reader *r)
{
	if (r->map != NULL)
		(void)munmap(r->map, r->mapped);
	r->map = NULL;
	r->mapped = 0;
}

/* Map what the current file holds now. */
static int
map_again(struct journal_reader *r, struct sbx_err *err)
{
	struct stat st;
	void *p;

	if (fstat(r->fd, &st) < 0)
		return (sbx_err_sys(err, "fstat of journal file %u", r->number));
	if ((size_t)st.st_size == r->mapped)
		return (0);
	unmap(r);
	if (st.st_size == 0)
		return (0);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, r->fd, 0);
	if (p == MAP_FAILED)
		return (sbx_err_sys(err, "mmap of journal file %u", r->number));
	r->map = p;
	r->mapped = (size_t)st.st_size;
	/* it was cut while we read: what comes next is not known to us */
	if (r->at > r->mapped)
		r->at = r->mapped;
	return (0);
}

static int
use_number(struct journal_reader *r, unsigned number, struct sbx_err *err)
{
	char name[JOURNAL_NAME_SIZE];
	struct stat st;
	int fd;

	(void)snprintf(name, sizeof(name), JOURNAL_NAME_FMT, number);
	/* a link or a FIFO in its place must not lead or hold us elsewhere */
	fd = openat(r->dir_fd, name,
	    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return (sbx_err_set(err, SBX_E_NOENT, "%s is missing", name));
	if (fd < 0)
		return (sbx_err_sys(err, "opening %s", name));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		sbx_close(&fd);
		return (sbx_err_set(err, SBX_E_SYS, "%s is no file", name));
	}
	unmap(r);
	sbx_close(&r->fd);
	r->fd = fd;
	r->number = number;
	r->at = 0;
	return (map_again(r, err));
}

/*
 * Is it time to leave the current file?  The newest one may have been made
 * and be empty because the disk filled up: then this one still grows.
 */
static bool
go_on(const struct journal_reader *r, unsigned last)
{
	char name[JOURNAL_NAME_SIZE];
	struct stat st;

	if (r->number + 1 != last)
		return (r->number < last);
	(void)snprintf(name, sizeof(name), JOURNAL_NAME_FMT, last);
	return (fstatat(r->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_size > 0);
}

int
journal_open(const char *dir, struct journal_reader **ret_reader,
    struct sbx_err *err)
{
	struct journal_reader *r;
	unsigned last;
	int res;

	r = sbx_xcalloc(1, sizeof(*r));
	r->fd = r->cache = -1;
	r->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->dir_fd < 0 || find_range(r->dir_fd, &r->first, &last) < 0)
		res = sbx_err_sys(err, "reading the journal in %s", dir);
	else if (r->first == 0)
		res = sbx_err_set(err, SBX_E_NOENT,
		    "there is no journal in %s yet", dir);
	else
		res = use_number(r, r->first, err);
	if (res < 0) {
		journal_close(r);
		return (res);
	}
	*ret_reader = r;
	return (0);
}

void
journal_close(struct journal_reader *r)
{
	if (r == NULL)
		return;
	unmap(r);
	sbx_close(&r->fd);
	sbx_close(&r->dir_fd);
	sbx_close(&r->cache);
	free(r->places);
	free(r->needle);
	free(r);
}

/*
 * Only lines that have these bytes can match.  journal_parse() takes no record
 * whose id or operation is written in another way, so none is passed over
 * that a look at every line would find.
 */
static char *
needle_of(const struct journal_filter *f)
{
	if (f->run != NULL)
		return (sbx_xasprintf("\"run_id\":\"%s\"", f->run));
	/* a container's first digits are enough: its end is not known */
	if (f->container != NULL)
		return (sbx_xasprintf("\"container_id\":\"%s", f->container));
	if (f->op != NULL && journal_is_plain(f->op))
		return (sbx_xasprintf("\"op\":\"%s\"", f->op));
	return (NULL);
}

void
journal_want(struct journal_reader *r, const struct journal_filter *f)
{
	free(r->needle);
	r->needle = needle_of(f);
	r->needle_len = r->needle == NULL ? 0 : strlen(r->needle);
}

/* Where the line begins that holds byte `at`. */
static size_t
line_of(const struct journal_reader *r, size_t at)
{
	const char *nl = at == 0 ? NULL : memrchr(r->map, '\n', at);

	return (nl == NULL ? 0 : (size_t)(nl - r->map) + 1);
}

/* Where the first line begins in [from, end), or end. */
static size_t
line_after(const struct journal_reader *r, size_t from, size_t end)
{
	const char *nl;

	if (from == 0)
		return (0);
	nl = memchr(r->map + from - 1, '\n', end - (from - 1));
	return (nl == NULL ? end : (size_t)(nl - r->map) + 1);
}

/* The line at `at`.  The last one is a line without an end, too. */
static struct journal_line
line_at(const struct journal_reader *r, size_t at)
{
	size_t left = r->mapped - at;
	const char *nl = memchr(r->map + at, '\n', left);

	return ((struct journal_line){
		.file = r->number, .offset = at, .text = r->map + at,
		.len = nl == NULL ? left : (size_t)(nl - (r->map + at)),
		.ended = nl != NULL,
	});
}

/* The first line in [from, end) that may be wanted, or end. */
static size_t
candidate(const struct journal_reader *r, size_t from, size_t end)
{
	const char *hit;

	if (r->needle_len == 0 || from == end)
		return (from);
	hit = memmem(r->map + from, end - from, r->needle, r->needle_len);
	return (hit == NULL ? end : line_of(r, (size_t)(hit - r->map)));
}

/*
 * Go to the next line that may be wanted.  When there is none, wait before a
 * last line without an end: what is missing of it may be what is looked for.
 */
static bool
go_to_line(struct journal_reader *r)
{
	size_t at = candidate(r, r->at, r->mapped);

	if (at < r->mapped) {
		r->at = at;
		return (true);
	}
	at = line_of(r, r->mapped);
	if (at > r->at)
		r->at = at;
	return (false);
}

/* See that there is a line at r->at: 0, SBX_E_AGAIN, and journal_next's. */
static int
find_line(struct journal_reader *r, struct sbx_err *err)
{
	unsigned first, last;
	size_t before;
	int res;

	while (!go_to_line(r)) {
		res = find_range(r->dir_fd, &first, &last);
		if (res < 0)
			return (sbx_err_sys(err, "reading the journal"));
		/* the file first: a newer one is made after its last line */
		before = r->mapped;
		res = map_again(r, err);
		if (res < 0)
			return (res);
		if (r->mapped != before)
			continue;
		if (!go_on(r, last))
			return (SBX_E_AGAIN);
		res = use_number(r, r->number + 1, err);
		if (res < 0)
			return (res);
	}
	return (0);
}

static int
go_to(struct journal_reader *r, struct place p, struct sbx_err *err)
{
	int res = r->number == p.file ? 0 : use_number(r, p.file, err);

	r->at = res == 0 && p.at < r->mapped ? p.at : r->mapped;
	return (res);
}

int
journal_next(struct journal_reader *r, struct journal_line *ret_line,
    struct sbx_err *err)
{
	int res;

	if (r->nplaces > 0) {
		res = go_to(r, r->places[--r->nplaces], err);
		if (res < 0)
			return (res);
		*ret_line = line_at(r, r->at);
		r->resume = true;
		return (0);
	}
	res = r->resume ? go_to(r, r->after, err) : 0;
	r->resume = false;
	if (res == 0)
		res = find_line(r, err);
	if (res < 0)
		return (res);
	*ret_line = line_at(r, r->at);
	if (!ret_line->ended) {
		/* perhaps its end has come since the file was mapped */
		res = map_again(r, err);
		if (res < 0)
			return (res);
		if (r->at >= r->mapped)
			return (SBX_E_AGAIN);	/* or it was cut off */
		*ret_line = line_at(r, r->at);
	}
	r->at += ret_line->len + ret_line->ended;
	return (0);
}

bool
journal_line_matches(const struct journal_filter *f,
    const struct journal_line *l)
{
	struct journal_record rec;
	bool yes;

	if (f->container == NULL && f->run == NULL && f->op == NULL &&
	    f->since == NULL)
		return (true);
	if (journal_parse(l->text, l->len, &rec) < 0)
		return (false);
	yes = journal_matches(f, &rec);
	journal_record_clear(&rec);
	return (yes);
}

static void
add_start(struct last_lines *last, size_t n, size_t start)
{
	if (n == last->room) {
		/* each is of another line, so no more than a step has */
		last->room = last->room == 0 ? 1024 : 2 * last->room;
		last->starts = sbx_xreallocarray(last->starts, last->room,
		    sizeof(*last->starts));
	}
	last->starts[n] = start;
}

static void
add_place(struct journal_reader *r, struct place p)
{
	if (r->nplaces == r->room) {
		r->room = r->room == 0 ? 128 : 2 * r->room;
		r->places = sbx_xreallocarray(r->places, r->room,
		    sizeof(*r->places));
	}
	r->places[r->nplaces++] = p;
}

void
journal_unread(struct journal_reader *r, const struct journal_line *l)
{
	if (r->nplaces > 0) {
		add_place(r, (struct place){ l->file, l->offset });
		return;
	}
	r->resume = false;
	r->at = l->offset;
}

/* The lines that begin in [from, end), newest first. */
static void
look_back(struct journal_reader *r, size_t from, size_t end,
    struct last_lines *last)
{
	struct journal_line l;
	size_t at, n = 0;

	for (at = from; (at = candidate(r, at, end)) < end;) {
		l = line_at(r, at);
		add_start(last, n++, at);
		at += l.len + l.ended;
	}
	while (n-- > 0 && last->found < last->want) {
		l = line_at(r, last->starts[n]);
		if (!journal_line_matches(last->filter, &l))
			continue;
		last->oldest = (struct place){ r->number, last->starts[n] };
		last->found++;
		if (last->want <= PLACES_MAX)
			add_place(r, last->oldest);
	}
}

/*
 * Backwards the kernel does not guess what is needed next.  Advice only: a
 * failure costs time.
 */
static void
read_ahead(const struct journal_reader *r, size_t end, size_t steps)
{
	size_t most = steps * JOURNAL_STEP;
	size_t from = end > most ? end - most : 0;

	(void)madvise(r->map + from, end - from, MADV_WILLNEED);
}

/* Steps from their last to their first; their borders do not depend on what
 * was appended. */
static void
look_back_steps(struct journal_reader *r, struct journal_index *ix,
    struct last_lines *last)
{
	size_t step = (r->mapped - 1) / JOURNAL_STEP + 1;
	size_t start, end = r->mapped;
	bool passed = false;

	while (step-- > 0 && last->found < last->want) {
		if (!journal_index_may(ix, step, last->filter)) {
			passed = true;
			continue;
		}
		if (passed)
			end = line_after(r, (step + 1) * JOURNAL_STEP, end);
		if (ix != NULL && journal_index_knows(ix, step))
			read_ahead(r, end, 1);
		else if ((step + 1) % AHEAD_STEPS == 0)
			read_ahead(r, end, AHEAD_STEPS);
		passed = false;
		/* none begins here when one line is longer than a step */
		start = line_after(r, step * JOURNAL_STEP, end);
		if (start < end)
			look_back(r, start, end, last);
		/* where a line follows, nothing is appended any more */
		if (end < r->mapped && last->added < ADD_STEPS &&
		    !journal_index_knows(ix, step)) {
			journal_index_add(ix, step, r->map + start,
			    end - start);
			last->added++;
		}
		end = start;
	}
}

static void
look_back_file(struct journal_reader *r, struct last_lines *last)
{
	struct journal_index *ix = NULL;
	struct stat st;

	if (r->mapped == 0)
		return;
	/* only ids are remembered */
	if (r->cache != -1 && (last->filter->run != NULL ||
	    last->filter->container != NULL) && fstat(r->fd, &st) == 0)
		ix = journal_index_open(r->cache, st.st_ino, r->map,
		    r->mapped);
	look_back_steps(r, ix, last);
	journal_index_close(ix, r->map, r->mapped);
}

static int
look_back_all(struct journal_reader *r, struct last_lines *last,
    struct sbx_err *err)
{
	unsigned number;
	int res;

	if (find_range(r->dir_fd, &r->first, &number) < 0)
		return (sbx_err_sys(err, "reading the journal"));
	res = use_number(r, number, err);
	if (res < 0)
		return (res);
	/* where to go on: what comes next is not lost */
	r->after = last->oldest = (struct place){ number, r->mapped };
	for (;;) {
		look_back_file(r, last);
		if (last->found == last->want || number <= r->first)
			break;
		res = use_number(r, --number, err);
		if (res < 0)
			return (res);
	}
	/* taken from journal_next() when they are remembered */
	return (go_to(r, last->oldest, err));
}

int
journal_seek_last(struct journal_reader *r, const struct journal_filter *f,
    uint64_t n, uint64_t *ret_found, struct sbx_err *err)
{
	struct last_lines last = { .filter = f, .want = n };
	int res;

	journal_want(r, f);
	r->nplaces = 0;
	r->resume = false;
	res = look_back_all(r, &last, err);
	free(last.starts);
	*ret_found = last.found;
	return (res);
}

void
journal_cache(struct journal_reader *r, const char *path)
{
	sbx_close(&r->cache);
	r->cache = journal_cache_open(path);
}
