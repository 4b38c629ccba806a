/*
 * The run store: RUN/o.NNNN and RUN/e.NNNN below one directory, beside undo/.  The sizes of
 * the files are the only record of what is stored, so a recorder that was
 * killed is followed by one that goes on with the next byte.
 */

#include "sbxd/recorder/recorder.h"

#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"

#define NAME_BYTES 40
#define SEGMENT_DIGITS 4
#define SEGMENT_MAX 4000000000u

static void
segment_name(const struct stream *s, uint32_t n, char *ret_name)
{
	(void)snprintf(ret_name, NAME_BYTES, "%s/%c.%0*" PRIu32, s->run->id,
	    s->letter, SEGMENT_DIGITS, n);
}

uint32_t
store_segments(const struct stream *s, uint64_t segment_bytes)
{
	return ((uint32_t)((s->size + segment_bytes - 1) / segment_bytes));
}

bool
store_has(const struct stream *s, uint32_t n)
{
	return (n < store_segments(s, s->run->rec->segment_bytes) &&
	    (n < STREAM_HEAD || n >= s->tail_first));
}

static int
store_make(struct run *run)
{
	if (mkdirat(run->rec->store_fd, run->id, 0700) < 0 && errno != EEXIST)
		return (SBX_E_SYS);
	return (0);
}

/* The oldest segment behind the head makes room for a new one. */
static void
drop_middle(struct stream *s)
{
	struct recorder *r = s->run->rec;
	char name[NAME_BYTES];
	uint32_t n = store_segments(s, r->segment_bytes);

	while (n - (s->tail_first - STREAM_HEAD) >= STREAM_SEGMENTS) {
		segment_name(s, s->tail_first, name);
		if (unlinkat(r->store_fd, name, 0) < 0 && errno != ENOENT)
			log_warn("unlinkat: %s: %s, ignoring", name,
			    strerror(errno));
		s->tail_first++;
		run_less(s->run, r->segment_bytes);
	}
}

void
store_close_segment(struct stream *s)
{
	struct recorder *r = s->run->rec;

	if (s->segment_fd < 0)
		return;
	TAILQ_REMOVE(&r->open, s, open_link);
	r->nopen--;
	sbx_close(&s->segment_fd);
}

static bool
close_oldest(struct recorder *r)
{
	if (TAILQ_EMPTY(&r->open))
		return (false);
	store_close_segment(TAILQ_FIRST(&r->open));
	return (true);
}

/* Descriptors are for pipes: a silent run must not hold more than those. */
static int
open_one_more(struct recorder *r, const char *name)
{
	int fd;

	if (r->nopen >= SEGMENTS_OPEN)
		(void)close_oldest(r);
	do {
		/* splice(2) refuses O_APPEND; the offset is said each time */
		fd = openat(r->store_fd, name,
		    O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	} while (fd < 0 && (errno == EMFILE || errno == ENFILE) &&
	    close_oldest(r));
	return (fd);
}

int
store_open_segment(struct stream *s)
{
	struct recorder *r = s->run->rec;
	char name[NAME_BYTES];

	if (s->segment_fd >= 0) {
		TAILQ_REMOVE(&r->open, s, open_link);
		TAILQ_INSERT_TAIL(&r->open, s, open_link);
		return (0);
	}
	/* A new one; else it goes on with a segment that is there. */
	if (s->size % r->segment_bytes == 0)
		drop_middle(s);
	if (s->size / r->segment_bytes >= SEGMENT_MAX) {
		errno = EFBIG;
		return (SBX_E_SYS);
	}
	/* with the first byte: most runs print nothing to one of the two */
	if (s->size == 0 && store_make(s->run) < 0)
		return (SBX_E_SYS);
	segment_name(s, (uint32_t)(s->size / r->segment_bytes), name);
	s->segment_fd = open_one_more(r, name);
	if (s->segment_fd < 0)
		return (SBX_E_SYS);
	TAILQ_INSERT_TAIL(&r->open, s, open_link);
	r->nopen++;
	return (0);
}

int
store_read_segment(const struct stream *s, uint32_t n, int *ret_fd)
{
	char name[NAME_BYTES];

	segment_name(s, n, name);
	*ret_fd = openat(s->run->rec->store_fd, name,
	    O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return (*ret_fd < 0 ? SBX_E_SYS : 0);
}

/* --- directories -------------------------------------------------------------- */

int
store_each(int at_fd, const char *dir, each_fn fn, void *arg)
{
	struct dirent *de;
	DIR *d;
	int fd;

	fd = openat(at_fd, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	if (fd < 0)
		return (SBX_E_SYS);
	if ((d = fdopendir(fd)) == NULL) {
		sbx_close(&fd);
		return (SBX_E_SYS);
	}
	while ((de = readdir(d)) != NULL)
		if (strcmp(de->d_name, ".") != 0 &&
		    strcmp(de->d_name, "..") != 0)
			fn(arg, fd, de->d_name);
	(void)closedir(d);
	return (0);
}

static void
remove_file(void *arg, int dir_fd, const char *name)
{
	(void)arg;
	if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
		log_warn("unlinkat: run store: %s, ignoring", strerror(errno));
}

/* A file, or a directory of files: nothing deeper is ever in the store. */
static void
remove_entry(void *arg, int dir_fd, const char *name)
{
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return;
	(void)store_each(dir_fd, name, remove_file, arg);
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
		log_warn("unlinkat: run store: %s, ignoring", strerror(errno));
}

void
store_remove(struct run *run)
{
	if (store_each(run->rec->store_fd, run->id, remove_file, NULL) < 0)
		return;		/* it was never made */
	if (unlinkat(run->rec->store_fd, run->id, AT_REMOVEDIR) < 0)
		log_warn("unlinkat: %s: %s, ignoring", run->id,
		    strerror(errno));
}

/* --- taking up what is there --------------------------------------------------- */

/* What a walk over a run's directory found of one stream. */
struct found {
	uint32_t last, tail_first;
	uint64_t last_bytes, bytes, wall_ns;
	bool any;
};
struct scan {
	struct run *run;
	struct found streams[SBX_STREAM_MAX];
};

static void
scan_segment(void *arg, int dir_fd, const char *name)
{
	struct scan *sc = arg;
	struct found *f;
	struct stat st;
	uint64_t n, ns;

	if ((name[0] != 'o' && name[0] != 'e') || name[1] != '.' ||
	    sbx_parse_u64(name + 2, 0, SEGMENT_MAX, &n) < 0 ||
	    fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode) || st.st_size < 0 ||
	    (uint64_t)st.st_size > sc->run->rec->segment_bytes) {
		remove_file(NULL, dir_fd, name);
		return;
	}
	f = &sc->streams[name[0] == 'o' ? SBX_STREAM_OUT : SBX_STREAM_ERR];
	if (!f->any || n >= f->last) {
		f->last = (uint32_t)n;
		f->last_bytes = (uint64_t)st.st_size;
	}
	if (n >= STREAM_HEAD && n < f->tail_first)
		f->tail_first = (uint32_t)n;
	ns = (uint64_t)st.st_mtim.tv_sec * 1000000000ull +
	    (uint64_t)st.st_mtim.tv_nsec;
	if (ns > f->wall_ns)
		f->wall_ns = ns;
	f->bytes += (uint64_t)st.st_size;
	f->any = true;
}

static void
take_stream(struct stream *s, const struct found *f)
{
	struct recorder *r = s->run->rec;
	uint64_t now = sbx_wall_ns(), mono = sbx_mono_ns(), ago;

	if (!f->any)
		return;
	s->size = f->last * r->segment_bytes + f->last_bytes;
	s->tail_first = f->tail_first < f->last ? f->tail_first : f->last;
	if (s->tail_first < STREAM_HEAD)
		s->tail_first = STREAM_HEAD;
	s->run->kept += f->bytes;
	r->kept += f->bytes;
	ago = now > f->wall_ns ? now - f->wall_ns : 0;
	if (s->size > 0)
		s->last_ns = mono > ago ? mono - ago : 1;
}

static void
scan_run(void *arg, int dir_fd, const char *name)
{
	struct recorder *r = arg;
	struct scan sc = { 0 };
	uint64_t last_ns = 0;
	size_t i;

	if (undo_take(r, name))
		return;
	if (!sbx_is_hex(name, SBX_RUN_HEX) ||
	    (sc.run = run_new(r, name)) == NULL) {
		remove_entry(NULL, dir_fd, name);
		return;
	}
	for (i = 0; i < SBX_STREAM_MAX; i++)
		sc.streams[i].tail_first = UINT32_MAX;
	(void)store_each(dir_fd, name, scan_segment, &sc);
	for (i = 0; i < SBX_STREAM_MAX; i++) {
		take_stream(&sc.run->streams[i], &sc.streams[i]);
		if (sc.run->streams[i].last_ns > last_ns)
			last_ns = sc.run->streams[i].last_ns;
	}
	/* Closed, as far as is known; if it lives, RUN_OPEN comes again. */
	run_settle(sc.run, last_ns);
}

int
store_open(struct recorder *r, bool fresh, struct sbx_err *err)
{
	if (store_each(r->store_fd, ".", fresh ? remove_entry : scan_run,
	    fresh ? NULL : (void *)r) < 0)
		return (sbx_err_sys(err, "run store"));
	return (0);
}
