#ifndef SBX_RECORDER_RECORDER_H
#define SBX_RECORDER_RECORDER_H

/* Private to sbxd-recorder. */

#include <sys/queue.h>

#include "common/base/base.h"
#include "common/base/limits.h"
#include "common/proto/peer.h"

struct event;
struct event_base;

/*
 * A stream is stored as files of segment_bytes each, the last one shorter:
 * byte n is in file n / segment_bytes at n % segment_bytes.  At most
 * STREAM_SEGMENTS are kept: the first STREAM_HEAD and the last ones.
 */
#define STREAM_SEGMENTS 8
#define STREAM_HEAD 2
#define STREAM_STEP (256u << 10) /* stored at one readiness of a pipe */
#define SEGMENTS_OPEN 64	/* of all runs: those written to last */
#define RECORDER_RUNS (2 * SBX_MAX_RUNS)
#define RECORDER_BUCKETS 1024
#define UNDO_VERSIONS 20000	/* of all files; the oldest go first */
#define UNDO_BUCKETS 1024

/* Order of the loop: the engine's RUN_OPEN is read before the monitor's
 * question about that run, and both before any output. */
enum { PRIO_ENGINE, PRIO_MONITOR, PRIO_OUTPUT, PRIO_MAX };

struct run;
struct stream {
	TAILQ_ENTRY(stream) open_link;	/* in recorder.open */
	struct run *run;
	char letter;		/* of its files: o, e */
	int fd;			/* owned: read end of the pipe; -1: closed */
	struct event *ev;
	int segment_fd;		/* owned: the segment written to; -1: not in
				 * recorder.open */
	uint64_t size;		/* bytes stored since the begin, deleted too */
	uint32_t tail_first;	/* first segment kept behind the head */
	uint64_t lost;		/* bytes that could not be stored */
	bool discard;		/* nothing more of it is stored */
	uint64_t last_ns;	/* of the last byte, monotonic; 0: none */
};
TAILQ_HEAD(stream_list, stream);

struct run {
	TAILQ_ENTRY(run) link;	/* in recorder.live or recorder.closed */
	LIST_ENTRY(run) hash;
	struct recorder *rec;
	char id[SBX_RUN_HEX + 1];
	struct stream streams[SBX_STREAM_MAX];
	bool opened;		/* by RUN_OPEN in this life */
	bool closed;		/* in recorder.closed: may be evicted */
	uint64_t closed_ns;	/* monotonic */
	bool dropped;		/* nobody may read it: gone when closed */
	uint64_t kept;		/* bytes on disk */
};
TAILQ_HEAD(run_list, run);
LIST_HEAD(run_bucket, run);

struct version;
TAILQ_HEAD(version_list, version);
LIST_HEAD(version_bucket, version);

struct recorder {
	struct event_base *base;
	struct sbx_peer *monitor, *engine; /* NULL when there is none */
	int store_fd;		/* owned: the run store */
	uint64_t segment_bytes, total_cap_bytes;
	uint64_t kept;		/* bytes on disk, all runs */
	struct run_list live, closed;	/* closed: the oldest first */
	struct run_bucket buckets[RECORDER_BUCKETS];
	unsigned nruns;
	struct stream_list open;	/* those that rest the longest first */
	unsigned nopen;
	struct version_list undo;	/* the oldest first */
	struct version_bucket undo_buckets[UNDO_BUCKETS];
	unsigned undo_n;
	uint64_t undo_bytes, undo_last;	/* number of the newest ever */
	uint64_t started_ns;
	bool disk_full;		/* said once, until something was stored */
	int exit_code;
};

/* --- store.c: the files ----------------------------------------------------- */

/*
 * Empty the store (fresh) or take up the runs in it, as closed ones.  Names
 * that the recorder would not give are removed with their files.
 * 0, SBX_E_SYS.
 */
int store_open(struct recorder *r, bool fresh, struct sbx_err *err);
/* Called for each name in a directory.  0, SBX_E_SYS. */
typedef void (*each_fn)(void *arg, int dir_fd, const char *name);
int store_each(int at_fd, const char *dir, each_fn fn, void *arg);
/*
 * Have the segment open that the next byte of s belongs to, as the last of
 * recorder.open; delete the segment, and close the one, that is too many with
 * it.  0, SBX_E_SYS with errno set.
 */
int store_open_segment(struct stream *s);
void store_close_segment(struct stream *s);	/* nothing when not open */
/* A read-only descriptor of segment number `n`, owned by the caller. 0,
 * SBX_E_SYS. */
int store_read_segment(const struct stream *s, uint32_t n, int *ret_fd);
/* Delete all files of the run. */
void store_remove(struct run *run);
/* Is segment n of s kept? */
bool store_has(const struct stream *s, uint32_t n);
uint32_t store_segments(const struct stream *s, uint64_t segment_bytes);

/* --- run.c: runs and their pipes --------------------------------------------- */

struct run *run_find(struct recorder *r, const char *id);
/* A new run without pipes; NULL: the table is full of live ones. */
struct run *run_new(struct recorder *r, const char *id);
/* Record from these pipes (consumed).  0, SBX_E_SYS, SBX_E_POLICY: one is
 * not the read end of a pipe. */
int run_record(struct run *run, int out_fd, int err_fd);
/* Store what the pipes hold now: never more than they can hold at once. */
void run_drain(struct run *run);
/* Close the pipes, then as at their end. */
void run_close(struct run *run);
/* After anything that may have closed a pipe: with both closed, it may be
 * evicted, and is gone if it was dropped. */
void run_settle(struct run *run, uint64_t now_ns);
/* Forget it and delete its files; while its pipes live, they are emptied. */
void run_drop(struct run *run);
void run_free(struct run *run);		/* keeps the files */
void run_less(struct run *run, uint64_t bytes);	/* so many were deleted */
uint64_t run_lost(const struct run *run); /* bytes not kept, both streams */
/* Evict closed runs, the oldest first, while more than the cap is kept, at
 * most `max` of them and never the last one closed: its reader may be on the
 * way.  Returns how many. */
unsigned runs_evict(struct recorder *r, uint64_t cap_bytes, unsigned max);
void runs_drain(struct recorder *r);
void runs_free(struct recorder *r);

/* --- undo.c: what files were before edits -------------------------------------- */

/*
 * A ring of SBX_MAX_UNDO versions for each (container, path), below the store.
 * 0; errno with *ret_reason set: it was not kept.
 */
int undo_put(struct recorder *r, const struct sbx_keep_put *q, int fd,
    const char **ret_reason);
/* Answers KEEP_GET on p. */
int undo_answer(struct recorder *r, struct sbx_peer *p, uint32_t id,
    const struct sbx_keep_get *q);
void undo_drop(struct recorder *r, const char *container);
/* Take up the versions, when `name` in the store is their directory. */
bool undo_take(struct recorder *r, const char *name);
void undo_free(struct recorder *r);	/* keeps the files */

extern const struct sbx_dispatch_table recorder_from_monitor;
extern const struct sbx_dispatch_table recorder_from_engine;
/* main.c: the engine's channel, consumed. */
int recorder_meet_engine(struct recorder *r, int fd);

#endif
