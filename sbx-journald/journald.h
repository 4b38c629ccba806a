#ifndef SBX_JOURNALD_JOURNALD_H
#define SBX_JOURNALD_JOURNALD_H

/*
 * The parts of sbx-journald:
 *   main.c		start, the loop, the end
 *   from_monitor.c	what the monitor may ask
 *   from_writer.c	what proxy and broker may ask (only to append)
 *   chain.c		one record as a line, and the hash chain
 *   scan.c		where an existing journal ends, after a crash too
 *   store.c		the numbered files and the space kept for them
 *   commit.c		group commit, answers, what happens when the disk is full
 *   outlet.c		the system journal and stdout
 */

#include "common/base/base.h"
#include "common/base/limits.h"
#include "common/proto/peer.h"
#include "sbx-journald/line.h"

struct event;
struct event_base;
struct evp_md_ctx_st;
struct evp_md_st;

/* --- chain.c -------------------------------------------------------------- */

/* Where the chain stands: behind the last line. */
struct chain {
	uint64_t seq;			/* of the last record, 0: none */
	uint8_t hash[JOURNAL_HASH];	/* of the last line, zeros: none */
};

/* What it takes to make lines; no allocation once made. */
struct chain_maker {
	struct evp_md_ctx_st *ctx;
	struct evp_md_st *sha256;
	char scratch[24576 + 64];	/* the largest text of JOURNAL_APPEND */
	uint64_t wall_s;		/* second that `wall` shows */
	char wall[24];
};

/* One record before it has a place.  All borrowed. */
struct record {
	const char *component;	/* from the channel, never from bytes */
	const char *op, *phase, *principal, *container, *run;
	int32_t code;
	const struct sbx_strs *fields;	/* key, value, ...; NULL: none */
};

/* 0, SBX_E_SYS (no SHA-256 in libcrypto). */
int chain_maker_init(struct chain_maker *m);
void chain_maker_clear(struct chain_maker *m);
/* SHA-256 of n bytes. */
void chain_hash(struct chain_maker *m, const void *p, size_t n,
    uint8_t ret_hash[JOURNAL_HASH]);
/*
 * Append r as the line after *c, with its newline, to b, and move *c on.
 * 0, or SBX_E_LIMIT with b and *c as before.
 */
int chain_add(struct chain_maker *m, struct chain *c, const struct record *r,
    struct sbx_buf *b);
/*
 * Are these fields pairs of a plain key ([A-Za-z0-9_.-], 1..64) and a value,
 * each key once?  A last key without value (the sender had no room) counts as
 * empty.  0, SBX_E_DECODE.
 */
int chain_check_fields(const struct sbx_strs *fields);

/* --- scan.c --------------------------------------------------------------- */


/* Bytes of a file that are no record, as one line. */
struct torn {
	unsigned file;
	uint64_t offset, length;	/* without the newline that ends it */
	uint8_t hash[JOURNAL_HASH];
};

/* The end of a file. */
struct tail {
	struct chain chain;
	bool any;		/* a record was found; else chain is zero */
	bool open_line;		/* the last line has no newline yet */
	bool mismatch;		/* the last record does not follow the one
				 * before it */
	struct torn torn[SBX_JOURNAL_TORN];
	unsigned ntorn;
};

/*
 * Read the end of the journal file fd (borrowed), whose number is `number`.
 * Only its last records are looked at; `sbx journal verify` reads all.
 * Blocks on the disk.
 * 0, SBX_E_LIMIT (more than SBX_JOURNAL_TORN bad lines: not a journal),
 * SBX_E_SYS.
 */
int scan_tail(int fd, unsigned number, struct chain_maker *m,
    struct tail *ret_tail, struct sbx_err *err);

/* --- store.c -------------------------------------------------------------- */

struct store {
	int dir_fd, fd, lock_fd;	/* owned */
	unsigned number;	/* of the file fd */
	bool fresh;		/* the file has no record yet */
	bool prealloc;		/* the file system can keep space */
	uint64_t size;
	uint64_t allocated;	/* blocks are kept up to this offset */
	uint64_t rotate_bytes, reserve_bytes;
	int sys_errno;		/* of the last failure */
};

/*
 * Take the directory (owned, also on failure), lock it, open the newest file
 * or the first one, and find the end of the chain.  Blocks on the disk, and
 * up to a second for the lock of a predecessor that is just dying.
 * 0, SBX_E_EXISTS (another journald has it), SBX_E_SYS, SBX_E_LIMIT.
 */
int store_open(struct store *s, int dir_fd, uint64_t rotate_bytes,
    uint64_t reserve_bytes, struct chain_maker *m, struct tail *ret_tail,
    struct sbx_err *err);
void store_clear(struct store *s);
/* Make sure that n bytes and the reserve fit.  0, SBX_E_SYS. */
int store_room(struct store *s, size_t n);
/*
 * Append; *ret_done counts what is in the file, also on failure.
 * 0, SBX_E_SYS.
 */
int store_write(struct store *s, const char *p, size_t n, size_t *ret_done);
int store_sync(struct store *s);	/* 0, SBX_E_SYS; blocks on the disk */
/* Go on in the next numbered file, now empty.  On failure (SBX_E_SYS) the old
 * one stays in use. */
int store_rotate(struct store *s);

/* --- outlet.c ------------------------------------------------------------- */

struct outlet {
	int system_fd;		/* the system journal, or -1 */
	bool to_stdout;
	bool cut;		/* stdout was left in the middle of a line */
	uint64_t last_seq;	/* of the last checkpoint */
};

/* Connect to the system journal if it is there.  Before the cage. */
void outlet_init(struct outlet *o, bool to_stdout);
void outlet_clear(struct outlet *o);
/* Copy committed lines to stdout; what does not fit at once is dropped. */
void outlet_lines(struct outlet *o, const char *p, size_t n);
/* Tell the system journal where the chain stands, unless it knows. */
void outlet_checkpoint(struct outlet *o, const struct chain *c);

/* --- commit.c ------------------------------------------------------------- */

struct journald;

/* A peer that appends: the monitor, the proxy, the broker. */
struct writer {
	struct journald *j;
	struct sbx_peer *peer;	/* NULL: not there */
	struct event *writable;	/* while answers wait for room */
	struct answer *answers;	/* a ring of SBX_JOURNAL_ANSWERS */
	size_t first, count;
};
enum writer_slot { WRITER_MONITOR, WRITER_PROXY, WRITER_BROKER, WRITER_MAX };

/* What the proxy or the broker may write, also across its restarts: so many
 * bytes at once, and so many more as time goes on. */
struct allowance {
	int64_t credit;		/* bytes; below 0 after the last that it had */
	uint64_t since_ns;	/* up to when it was earned */
	uint64_t dropped, told;	/* records; told: by one that is not written */
};

/* Our own records, which repair or explain the file. */
enum pending_kind {
	PENDING_OTHERS,		/* a writer's */
	PENDING_OPEN,		/* first of a file, first of this life */
	PENDING_TORN,		/* accounts for the oldest of journald.torn */
	PENDING_LOST,		/* what was not written while unable */
	PENDING_DROPPED,	/* what was beyond an allowance */
	PENDING_MAX
};

/* A record that is not committed yet. */
struct pending {
	enum pending_kind kind;
	struct writer *writer;	/* of PENDING_OTHERS */
	uint32_t id;
	bool durable;
	size_t end;		/* of its line in journald.lines */
	struct chain after;
};

struct journald {
	struct event_base *base;	/* owned */
	struct event *commit_ev, *sync_ev, *retry_ev, *checkpoint_ev;
	struct writer writers[WRITER_MAX];
	struct allowance allowances[WRITER_MAX];
	uint64_t dropped_ns;	/* when it was told last that they are not kept */
	struct chain_maker maker;
	struct store store;
	struct outlet outlet;
	struct chain chain;		/* behind all lines, pending ones too */

	struct sbx_buf lines;		/* the batch */
	struct pending *pending;	/* [SBX_JOURNAL_BATCH_RECORDS] */
	size_t npending;
	struct chain begin;		/* the chain before the batch */
	uint64_t begin_mono_ns;

	bool able;		/* false: only reserved records are taken */
	bool dirty;		/* written but not synced */
	bool bad_file;		/* a sync failed: go on in another file */
	bool end_line;		/* the file ends inside a line */
	bool ends_line;		/* the batch begins with the newline for it */
	bool say_lost;		/* it was unable: `lost` follows */
	bool said_open;		/* this life's `open` is in the file */
	const char *open_why;	/* what the next `open` will say */
	bool mismatch;		/* found at start, goes into `open` */
	struct torn torn[SBX_JOURNAL_TORN];
	unsigned ntorn;		/* to be accounted for */
	uint64_t lost, refused;	/* since it was able last */
	int sys_errno;		/* why it is not able */
	uint64_t rotate_mono_ns; /* no earlier try than this */
	int exit_code;
};


/*
 * Make room for the events and the batch.  The first record (`open`) is
 * tried at once; when it cannot be written, the daemon starts unable.
 * 0, SBX_E_SYS.
 */
int commit_init(struct journald *j, struct sbx_err *err);
void commit_clear(struct journald *j);
/*
 * Take one record from w.  The answer (when durable) follows by itself,
 * after the commit or at once when it is refused.  May block on the disk.
 */
void commit_append(struct journald *j, struct writer *w, uint32_t id,
    uint8_t flags, const struct record *r);
/* Write, sync and answer all that is pending. */
void commit_now(struct journald *j);
/* commit_now, sync what was not durable, say the last checkpoint. */
void commit_finish(struct journald *j);
/* Send JOURNAL_STATE to the monitor. */
void commit_tell_state(struct journald *j);
/* Let p (borrowed) append through w.  0, SBX_E_SYS. */
int writer_init(struct writer *w, struct journald *j, struct sbx_peer *p);
/* Its channel ended: answers not sent are dropped.  An empty one is fine. */
void writer_clear(struct writer *w);

/* --- from_monitor.c, from_writer.c ---------------------------------------- */

extern const struct sbx_dispatch_table journald_from_monitor;
extern const struct sbx_dispatch_table journald_from_proxy;
extern const struct sbx_dispatch_table journald_from_broker;

/* The handler of JOURNAL_APPEND, the same for every writer. */
int journald_on_append(struct sbx_peer *p, struct sbx_in *in);
/*
 * Take fd (owned) as the channel of the proxy or the broker, in place of an
 * older one.  0, SBX_E_RANGE (another process), SBX_E_SYS.
 */
int journald_add_writer(struct journald *j, enum sbx_proc proc, int fd);
/* End all channels that journald_add_writer() made. */
void journald_end_writers(struct journald *j);

#endif
