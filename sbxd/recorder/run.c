/*
 * Runs and their pipes.  splice(2) moves bytes from a pipe to a file in one
 * call: a recorder that is killed has either stored them or left them in the
 * pipe, which outlives it.
 */

#include "sbxd/recorder/recorder.h"

#include <sys/ioctl.h>
#include <sys/stat.h>

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"

#define EVICT_AT_ONCE 8u

/* --- the table ---------------------------------------------------------------- */

static struct run_bucket *
bucket(struct recorder *r, const char *id)
{
	uint32_t h = 2166136261u;	/* FNV-1a; ids are random */

	for (; *id != '\0'; id++)
		h = (h ^ (unsigned char)*id) * 16777619u;
	return (&r->buckets[h % RECORDER_BUCKETS]);
}

struct run *
run_find(struct recorder *r, const char *id)
{
	struct run *run;

	LIST_FOREACH(run, bucket(r, id), hash)
		if (strcmp(run->id, id) == 0)
			return (run);
	return (NULL);
}

static void
stream_close(struct stream *s)
{
	if (s->ev != NULL)
		event_free(s->ev);
	s->ev = NULL;
	sbx_close(&s->fd);
	store_close_segment(s);
}

static bool
is_closed(const struct run *run)
{
	return (run->streams[SBX_STREAM_OUT].fd < 0 &&
	    run->streams[SBX_STREAM_ERR].fd < 0);
}

void
run_free(struct run *run)
{
	struct recorder *r = run->rec;

	stream_close(&run->streams[SBX_STREAM_OUT]);
	stream_close(&run->streams[SBX_STREAM_ERR]);
	TAILQ_REMOVE(run->closed ? &r->closed : &r->live, run, link);
	LIST_REMOVE(run, hash);
	r->nruns--;
	free(run);
}

void
run_less(struct run *run, uint64_t bytes)
{
	/* A store that somebody else changed must not wrap it around. */
	if (bytes > run->kept)
		bytes = run->kept;
	run->kept -= bytes;
	run->rec->kept -= bytes;
}

static void
remove_files(struct run *run)
{
	store_remove(run);
	run_less(run, run->kept);
}

/* Never the last one that closed: its reader may be on the way. */
static bool
evict_oldest(struct recorder *r)
{
	struct run *run = TAILQ_FIRST(&r->closed);

	if (run == NULL || TAILQ_NEXT(run, link) == NULL)
		return (false);
	log_debug("evicting a run: run=%s", run->id);
	remove_files(run);
	run_free(run);
	return (true);
}

unsigned
runs_evict(struct recorder *r, uint64_t cap_bytes, unsigned max)
{
	unsigned n = 0;

	while (n < max && r->kept > cap_bytes && evict_oldest(r))
		n++;
	return (n);
}

struct run *
run_new(struct recorder *r, const char *id)
{
	struct run *run;
	size_t i;

	if (r->nruns >= RECORDER_RUNS && !evict_oldest(r))
		return (NULL);
	run = sbx_xcalloc(1, sizeof(*run));
	run->rec = r;
	memcpy(run->id, id, SBX_RUN_HEX);
	for (i = 0; i < SBX_STREAM_MAX; i++)
		run->streams[i] = (struct stream){ .run = run,
			.letter = "oe"[i], .fd = -1, .segment_fd = -1,
			.tail_first = STREAM_HEAD };
	LIST_INSERT_HEAD(bucket(r, id), run, hash);
	TAILQ_INSERT_TAIL(&r->live, run, link);
	r->nruns++;
	return (run);
}

uint64_t
run_lost(const struct run *run)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < SBX_STREAM_MAX; i++)
		n += run->streams[i].lost + (run->streams[i].tail_first -
		    STREAM_HEAD) * run->rec->segment_bytes;
	return (n);
}

/* Ordered by the time of closing; nearly always the last one. */
static void
insert_closed(struct run *run)
{
	struct run_list *list = &run->rec->closed;
	struct run *at = TAILQ_LAST(list, run_list);

	while (at != NULL && at->closed_ns > run->closed_ns)
		at = TAILQ_PREV(at, run_list, link);
	if (at == NULL)
		TAILQ_INSERT_HEAD(list, run, link);
	else
		TAILQ_INSERT_AFTER(list, at, run, link);
}

void
run_settle(struct run *run, uint64_t now_ns)
{
	if (run->closed || !is_closed(run))
		return;
	if (run->dropped) {
		run_free(run);
		return;
	}
	TAILQ_REMOVE(&run->rec->live, run, link);
	run->closed = true;
	run->closed_ns = now_ns;
	insert_closed(run);
}

/* --- storing ------------------------------------------------------------------ */

/* The writer must never wait for a disk that takes nothing. */
static ssize_t
discard(struct stream *s, size_t max)
{
	char buf[65536];
	ssize_t n;

	n = read(s->fd, buf, max < sizeof(buf) ? max : sizeof(buf));
	if (n > 0)
		s->lost += (uint64_t)n;
	if (n >= 0 || errno == EAGAIN || errno == EINTR)
		return (n);
	/* It would stay readable, and fail, for ever. */
	log_err("a pipe cannot be read: %s run=%s", strerror(errno),
	    s->run->id);
	return (0);
}

/* A failure to store: make room, or give up on the rest of this stream. */
static void
cannot_store(struct stream *s, int error)
{
	struct recorder *r = s->run->rec;

	store_close_segment(s);
	if ((error == ENOSPC || error == EDQUOT) && evict_oldest(r))
		return;
	s->discard = true;
	if (r->disk_full)
		return;
	r->disk_full = true;
	log_err("output is not stored: %s run=%s", strerror(error),
	    s->run->id);
}

#define MOVE_AGAIN (-2)

/*
 * Move at most max bytes.  Bytes moved; 0: the end of the stream; -1: there
 * is nothing now; MOVE_AGAIN: it could not be stored, and something was done
 * about that.
 */
static ssize_t
move_some(struct stream *s, size_t max)
{
	struct recorder *r = s->run->rec;
	loff_t at = (loff_t)(s->size % r->segment_bytes);
	uint64_t room = r->segment_bytes - (uint64_t)at;
	ssize_t n;

	if (s->discard || s->run->dropped)
		return (discard(s, max));
	if (store_open_segment(s) < 0) {
		cannot_store(s, errno);
		return (MOVE_AGAIN);
	}
	n = splice(s->fd, NULL, s->segment_fd, &at, room < max ? room : max,
	    SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		cannot_store(s, errno);
		return (MOVE_AGAIN);
	}
	if (n <= 0)
		return (n);
	s->size += (uint64_t)n;
	s->run->kept += (uint64_t)n;
	r->kept += (uint64_t)n;
	r->disk_full = false;
	if (s->size % r->segment_bytes == 0)
		store_close_segment(s);
	return (n);
}

/* No writer and no byte is left: no file is made to find that out. */
static bool
at_end(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return (poll(&pfd, 1, 0) == 1 &&
	    (pfd.revents & (POLLIN | POLLHUP)) == POLLHUP);
}

/* Store what is there, at most max bytes; closes the stream at its end. */
static void
stream_store(struct stream *s, size_t max)
{
	unsigned again = 0;
	ssize_t n = 1;

	if (at_end(s->fd)) {
		stream_close(s);
		return;
	}
	while (max > 0 && n != 0 && n != -1) {
		n = move_some(s, max);
		if (n > 0) {
			max -= (size_t)n;
			s->last_ns = sbx_mono_ns();
		} else if (n == MOVE_AGAIN && ++again > EVICT_AT_ONCE)
			s->discard = true;
	}
	if (n == 0)
		stream_close(s);
}

static void
on_output(evutil_socket_t fd, short what, void *arg)
{
	struct stream *s = arg;
	struct run *run = s->run;
	struct recorder *r = run->rec;

	(void)fd;
	(void)what;
	/* No more than this before the others have their turn. */
	stream_store(s, STREAM_STEP);
	run_settle(run, sbx_mono_ns());
	(void)runs_evict(r, r->total_cap_bytes, EVICT_AT_ONCE);
}

/* Consumes fd. */
static int
stream_record(struct stream *s, int fd)
{
	struct recorder *r = s->run->rec;
	struct stat st;
	int flags;

	stream_close(s);
	s->fd = fd;
	flags = fcntl(fd, F_GETFL);
	if (fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode) || flags < 0 ||
	    (flags & O_ACCMODE) != O_RDONLY ||
	    fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return (SBX_E_POLICY);
	s->ev = event_new(r->base, fd, EV_READ | EV_PERSIST, on_output, s);
	if (s->ev == NULL || event_priority_set(s->ev, PRIO_OUTPUT) < 0 ||
	    event_add(s->ev, NULL) < 0)
		return (SBX_E_SYS);
	return (0);
}

int
run_record(struct run *run, int out_fd, int err_fd)
{
	struct recorder *r = run->rec;
	int error, error2;

	run->opened = true;
	if (run->closed) {
		TAILQ_REMOVE(&r->closed, run, link);
		TAILQ_INSERT_TAIL(&r->live, run, link);
		run->closed = false;
	}
	error = stream_record(&run->streams[SBX_STREAM_OUT], out_fd);
	error2 = stream_record(&run->streams[SBX_STREAM_ERR], err_fd);
	return (error != 0 ? error : error2);
}

/* --- the end ------------------------------------------------------------------ */

void
run_drain(struct run *run)
{
	struct stream *s;
	size_t i;
	int held;

	for (i = 0; i < SBX_STREAM_MAX; i++) {
		s = &run->streams[i];
		/* What is in it now: a writer that goes on does not keep us. */
		if (s->fd >= 0 && ioctl(s->fd, FIONREAD, &held) == 0 &&
		    held > 0)
			stream_store(s, (size_t)held);
	}
}

void
run_close(struct run *run)
{
	run_drain(run);
	stream_close(&run->streams[SBX_STREAM_OUT]);
	stream_close(&run->streams[SBX_STREAM_ERR]);
	run_settle(run, sbx_mono_ns());
}

void
run_drop(struct run *run)
{
	remove_files(run);
	run->dropped = true;
	store_close_segment(&run->streams[SBX_STREAM_OUT]);
	store_close_segment(&run->streams[SBX_STREAM_ERR]);
	if (run->closed)
		run_free(run);
}

void
runs_drain(struct recorder *r)
{
	struct run *run;

	TAILQ_FOREACH(run, &r->live, link)
		run_drain(run);
}

void
runs_free(struct recorder *r)
{
	struct run *run;

	while ((run = TAILQ_FIRST(&r->live)) != NULL)
		run_free(run);
	while ((run = TAILQ_FIRST(&r->closed)) != NULL)
		run_free(run);
}
