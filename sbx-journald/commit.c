#include "sbx-journald/journald.h"

#include "common/base/log.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Records of one turn of the loop form a batch: the commit event has a lower
 * priority than reading, so it fires when nothing is left to read.  A batch
 * is written with one write(2) and made durable with one fdatasync(2); then
 * its durable records are answered.
 *
 * Unable (disk full, input/output error): only records that end a crossing
 * are still taken, into the space that store_room() keeps; the rest is
 * refused or counted, until a try each second succeeds.
 */

#define BATCH_AGE_NS 4000000	/* a steady stream must not delay answers */
#define SYNC_S 1		/* records that are not durable are, by then */
#define RETRY_S 1
#define CHECKPOINT_S 60
#define CHECKPOINT_RECORDS 10000
#define DROPPED_NS UINT64_C(10000000000) /* between two `dropped` */
#define ROTATE_AGAIN_NS UINT64_C(10000000000)
/* A try to become able again wants this much beside the reserve. */
#define RETRY_ROOM (64u << 10)

struct answer {
	uint64_t seq;		/* 0: refused */
	uint32_t id;
	int sys_errno;		/* why */
};

/* --- answers --------------------------------------------------------------- */

static void
reason_text(int sys_errno, char *dst, size_t size)
{
	(void)snprintf(dst, size, "the journal cannot commit: %s",
	    strerror(sys_errno));
}

static int
send_answer(struct writer *w, const struct answer *a)
{
	struct sbx_journal_done done = { .seq = a->seq, .reason = "" };
	char reason[128];

	if (a->seq == 0) {
		reason_text(a->sys_errno, reason, sizeof(reason));
		done.reason = reason;
	}
	return (sbx_wire_send(sbx_peer_fd(w->peer), SBX_PROC_JOURNALD,
	    SBX_MSG_JOURNAL_DONE, a->id, &done, NULL, MSG_DONTWAIT));
}

/*
 * Send what the socket takes; the rest waits in the ring, which is larger
 * than what a peer's own queue may hold.
 */
static void
pump_answers(struct writer *w)
{
	int r = 0;

	while (w->count > 0 &&
	    (r = send_answer(w, &w->answers[w->first])) == 0) {
		w->first = (w->first + 1) % SBX_JOURNAL_ANSWERS;
		w->count--;
	}
	if (r == SBX_E_AGAIN)
		(void)event_add(w->writable, NULL);
	else if (r == SBX_E_CLOSED)
		w->count = 0;	/* what it sent before is still read */
	else if (r < 0)
		sbx_peer_end_later(w->peer, r);
}

static void
add_answer(struct writer *w, uint32_t id, uint64_t seq, int sys_errno)
{
	if (w->peer == NULL)
		return;
	if (w->count == SBX_JOURNAL_ANSWERS) {
		sbx_peer_end_later(w->peer, SBX_E_LIMIT);
		return;
	}
	w->answers[(w->first + w->count++) % SBX_JOURNAL_ANSWERS] =
	    (struct answer){ .seq = seq, .id = id, .sys_errno = sys_errno };
}

static void
pump_all(struct journald *j)
{
	size_t i;

	for (i = 0; i < WRITER_MAX; i++)
		if (j->writers[i].peer != NULL)
			pump_answers(&j->writers[i]);
}

static void
on_writable(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	pump_answers(arg);
}

void
commit_tell_state(struct journald *j)
{
	struct sbx_journal_state st = { .able = j->able, .reason = "" };
	struct sbx_peer *p = j->writers[WRITER_MONITOR].peer;
	char reason[128];

	if (!j->able) {
		reason_text(j->sys_errno, reason, sizeof(reason));
		st.reason = reason;
	}
	if (p != NULL)
		(void)sbx_send_journal_state(p, 0, &st, NULL); /* ends p */
}

/* --- able and not ------------------------------------------------------------ */

static void
set_unable(struct journald *j, int sys_errno)
{
	const struct timeval again = { .tv_sec = RETRY_S };

	j->sys_errno = sys_errno;
	(void)event_add(j->retry_ev, &again);
	if (!j->able)
		return;
	j->able = false;
	j->say_lost = true;
	log_err("the journal cannot commit: %s", strerror(sys_errno));
	commit_tell_state(j);
}

static void
set_able(struct journald *j)
{
	if (j->able)
		return;
	j->able = true;
	log_notice("the journal can commit again");
	commit_tell_state(j);
}

/* A record that will not be written. */
static void
refuse(struct journald *j, struct writer *w, uint32_t id, bool durable)
{
	if (durable) {
		j->refused++;
		add_answer(w, id, 0, j->sys_errno);
	} else
		j->lost++;
}

/* --- our own records ---------------------------------------------------------- */

/*
 * key, value, ... NULL.  A fresh chain_add() cannot fail: the batch has room
 * for its own records beyond its limit.
 */
static void
add_own(struct journald *j, enum pending_kind kind, const char *op, ...)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	struct sbx_strs fields = { 0 };
	struct record r = {
		.component = sbx_proc_name(SBX_PROC_JOURNALD), .op = op,
		.phase = "", .principal = "", .container = "", .run = "",
		.fields = &fields,
	};
	const char *text;
	va_list ap;

	sbx_buf_init(&b, 4096);
	va_start(ap, op);
	while ((text = va_arg(ap, const char *)) != NULL)
		(void)sbx_strs_add(&fields, &b, text);
	va_end(ap);
	if (chain_add(&j->maker, &j->chain, &r, &j->lines) < 0)
		return;
	j->pending[j->npending++] = (struct pending){
		.kind = kind, .end = j->lines.len, .after = j->chain,
	};
}

static void
add_open(struct journald *j)
{
	char version[8], file[16];

	(void)snprintf(version, sizeof(version), "%d", JOURNAL_VERSION);
	(void)snprintf(file, sizeof(file), "%u", j->store.number);
	add_own(j, PENDING_OPEN, "open", "version", version, "file", file,
	    "why", j->open_why, "checkpoints",
	    j->outlet.system_fd >= 0 ? "system-journal" : "none", "reserve",
	    j->store.prealloc ? "kept" : "none", "tail",
	    j->mismatch ? "mismatch" : "good", NULL);
}

static void
add_torn(struct journald *j, const struct torn *t)
{
	char file[16], offset[24], length[24], hex[JOURNAL_HASH_HEX + 1];

	(void)snprintf(file, sizeof(file), "%u", t->file);
	(void)snprintf(offset, sizeof(offset), "%" PRIu64, t->offset);
	(void)snprintf(length, sizeof(length), "%" PRIu64, t->length);
	journal_hex(t->hash, hex);
	add_own(j, PENDING_TORN, "torn", "file", file, "offset", offset,
	    "length", length, "sha256", hex, NULL);
}

static void
add_lost(struct journald *j)
{
	char lost[24], refused[24];

	(void)snprintf(lost, sizeof(lost), "%" PRIu64, j->lost);
	(void)snprintf(refused, sizeof(refused), "%" PRIu64, j->refused);
	add_own(j, PENDING_LOST, "lost", "lost", lost, "refused", refused,
	    "reason", strerror(j->sys_errno), NULL);
}

static bool
any_dropped(const struct journald *j)
{
	return (j->allowances[WRITER_PROXY].dropped > 0 ||
	    j->allowances[WRITER_BROKER].dropped > 0);
}

static void
add_dropped(struct journald *j)
{
	struct allowance *p = &j->allowances[WRITER_PROXY];
	struct allowance *b = &j->allowances[WRITER_BROKER];
	char proxy[24], broker[24];

	if (!any_dropped(j) || sbx_mono_ns() - j->dropped_ns < DROPPED_NS)
		return;
	(void)snprintf(proxy, sizeof(proxy), "%" PRIu64, p->dropped);
	(void)snprintf(broker, sizeof(broker), "%" PRIu64, b->dropped);
	log_warn("records were dropped, since their writer sent too many "
	    "proxy=%s broker=%s", proxy, broker);
	add_own(j, PENDING_DROPPED, "dropped", "proxy", proxy, "broker",
	    broker, NULL);
	p->told = p->dropped;
	b->told = b->dropped;
	j->dropped_ns = sbx_mono_ns();
}

static void
dropped_is_told(struct allowance *a)
{
	a->dropped -= a->told;
	a->told = 0;
}

/*
 * Start a batch with what the file needs first: the end of an unfinished
 * line, an account of what is no record, `open`, `lost`.
 */
static void
begin_batch(struct journald *j)
{
	unsigned i;

	j->begin = j->chain;
	j->begin_mono_ns = sbx_mono_ns();
	j->ends_line = j->end_line;
	if (j->ends_line)
		(void)sbx_buf_add(&j->lines, "\n", 1);
	if (j->store.fresh)
		add_open(j);
	for (i = 0; i < j->ntorn; i++)
		add_torn(j, &j->torn[i]);
	if (!j->said_open && !j->store.fresh)
		add_open(j);
	if (j->say_lost && j->able)
		add_lost(j);
	if (j->able)
		add_dropped(j);
}

static void
own_is_written(struct journald *j, enum pending_kind kind)
{
	switch (kind) {
	case PENDING_OPEN:
		j->said_open = true;
		j->mismatch = false;
		break;
	case PENDING_TORN:
		memmove(j->torn, j->torn + 1, --j->ntorn * sizeof(*j->torn));
		break;
	case PENDING_LOST:
		j->lost = j->refused = 0;
		j->say_lost = false;
		break;
	case PENDING_DROPPED:
		dropped_is_told(&j->allowances[WRITER_PROXY]);
		dropped_is_told(&j->allowances[WRITER_BROKER]);
		break;
	case PENDING_OTHERS:
	case PENDING_MAX:
		break;
	}
}

/* --- commit ------------------------------------------------------------------- */

/*
 * The write ended early: the first ndone records and then a piece of a line
 * are in the file.  The chain goes on from there.
 */
static void
written_in_part(struct journald *j, size_t ndone, size_t bytes)
{
	size_t start = ndone > 0 ? j->pending[ndone - 1].end : j->ends_line;
	struct torn *t;

	j->chain = ndone > 0 ? j->pending[ndone - 1].after : j->begin;
	if (bytes > 0)
		j->end_line = false;
	if (bytes <= start)
		return;
	if (j->ntorn == SBX_JOURNAL_TORN)
		sbx_fatal("the journal was cut %u times, giving up",
		    SBX_JOURNAL_TORN);
	t = &j->torn[j->ntorn++];
	t->file = j->store.number;
	t->offset = j->store.size - (bytes - start);
	t->length = bytes - start;
	chain_hash(&j->maker, j->lines.data + start, bytes - start, t->hash);
	memcpy(j->chain.hash, t->hash, sizeof(t->hash));
	j->end_line = true;
}

/* Answer the first n records of the batch as committed, refuse the rest. */
static void
settle(struct journald *j, size_t n)
{
	struct pending *p;
	size_t i;

	for (i = 0; i < j->npending; i++) {
		p = &j->pending[i];
		if (p->kind != PENDING_OTHERS)
			continue;
		if (i >= n)
			refuse(j, p->writer, p->id, p->durable);
		else if (p->durable)
			add_answer(p->writer, p->id, p->after.seq, 0);
	}
	j->npending = 0;
	j->lines.len = 0;
	pump_all(j);
}

/* Must this batch be synced before it is settled? */
static bool
wants_sync(const struct journald *j, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (j->pending[i].durable ||
		    j->pending[i].kind != PENDING_OTHERS)
			return (true);
	return (false);
}

static int
sync_file(struct journald *j)
{
	int r;

	(void)event_del(j->sync_ev);
	r = store_sync(&j->store);
	j->dirty = false;
	if (r < 0) {
		/* the kernel may have dropped the pages: what the file holds
		 * is unknown now, and no later sync would say so */
		j->bad_file = true;
		set_unable(j, j->store.sys_errno);
	}
	return (r);
}

static void
rotate(struct journald *j, const char *why)
{
	if (j->dirty && sync_file(j) < 0)
		return;
	if (store_rotate(&j->store) < 0) {
		log_warn("no new journal file: %s, ignoring",
		    strerror(j->store.sys_errno));
		j->rotate_mono_ns = sbx_mono_ns() + ROTATE_AGAIN_NS;
		return;
	}
	j->open_why = why;
	j->said_open = false;
	j->bad_file = false;
}

/* After a batch that went well. */
static void
maybe_rotate(struct journald *j)
{
	if (j->store.size >= j->store.rotate_bytes && j->able &&
	    !j->bad_file && j->ntorn == 0 &&
	    sbx_mono_ns() >= j->rotate_mono_ns)
		rotate(j, "rotated");
}

void
commit_now(struct journald *j)
{
	const struct timeval later = { .tv_sec = SYNC_S };
	size_t bytes, n = 0;
	int r, sys_errno;

	if (j->npending == 0)
		return;
	r = store_write(&j->store, j->lines.data, j->lines.len, &bytes);
	sys_errno = j->store.sys_errno;
	while (n < j->npending && j->pending[n].end <= bytes)
		own_is_written(j, j->pending[n++].kind);
	written_in_part(j, n, bytes);
	if (wants_sync(j, n)) {
		if (sync_file(j) < 0)
			n = 0;
	} else if (n > 0 && !j->dirty) {
		j->dirty = true;
		(void)event_add(j->sync_ev, &later);
	}
	if (r < 0)
		set_unable(j, sys_errno);
	if (n > 0)
		outlet_lines(&j->outlet, j->lines.data, j->pending[n - 1].end);
	settle(j, n);
	if (j->able && j->chain.seq >= j->outlet.last_seq + CHECKPOINT_RECORDS)
		outlet_checkpoint(&j->outlet, &j->chain);
	maybe_rotate(j);
}

/*
 * Anybody but the monitor may be taken over by what it talks to: it must not
 * fill the disk at the speed of the disk.
 */
static bool
may_write(struct journald *j, const struct writer *w)
{
	struct allowance *a = &j->allowances[w - j->writers];
	uint64_t ms = (sbx_mono_ns() - a->since_ns) / 1000000u;

	if (w == &j->writers[WRITER_MONITOR])
		return (true);
	a->since_ns += ms * 1000000u;
	a->credit += (int64_t)(ms < SBX_JOURNAL_BURST ?
	    ms * SBX_JOURNAL_BYTES_MS : SBX_JOURNAL_BURST);
	if (a->credit > (int64_t)SBX_JOURNAL_BURST)
		a->credit = SBX_JOURNAL_BURST;
	return (a->credit > 0);
}

static void
drop(struct journald *j, struct writer *w, uint32_t id, bool durable)
{
	j->allowances[w - j->writers].dropped++;
	if (durable)
		add_answer(w, id, 0, EDQUOT);
	pump_answers(w);
}

void
commit_append(struct journald *j, struct writer *w, uint32_t id,
    uint8_t flags, const struct record *r)
{
	bool durable = (flags & SBX_JOURNAL_DURABLE) != 0;
	bool reserved = (flags & SBX_JOURNAL_RESERVED) != 0;
	struct chain before;
	size_t start;

	if (!may_write(j, w)) {
		drop(j, w, id, durable);
		return;
	}
	if (j->npending >= SBX_JOURNAL_BATCH_RECORDS ||
	    j->lines.len >= SBX_JOURNAL_BATCH_BYTES ||
	    (j->npending > 0 &&
	    sbx_mono_ns() - j->begin_mono_ns > BATCH_AGE_NS))
		commit_now(j);
	if (j->bad_file || (!j->able && !reserved)) {
		refuse(j, w, id, durable);
		pump_answers(w);
		return;
	}
	if (j->npending == 0) {
		begin_batch(j);
		event_active(j->commit_ev, EV_TIMEOUT, 0);
	}
	before = j->chain;
	start = j->lines.len;
	if (chain_add(&j->maker, &j->chain, r, &j->lines) < 0)
		sbx_fatal("a record exceeds the batch");
	j->allowances[w - j->writers].credit -=
	    (int64_t)(j->lines.len - start);
	/* a reserved record may use what store_room() kept for it */
	if (!reserved && store_room(&j->store, j->lines.len) < 0) {
		j->chain = before;
		j->lines.len = start;
		set_unable(j, j->store.sys_errno);
		refuse(j, w, id, durable);
		pump_answers(w);
		return;
	}
	j->pending[j->npending++] = (struct pending){
		.writer = w, .id = id, .durable = durable,
		.end = j->lines.len, .after = j->chain,
	};
}

/* Write what a batch begins with, and nothing else. */
static void
commit_own(struct journald *j)
{
	begin_batch(j);
	if (j->npending > 0)
		commit_now(j);
	else
		j->lines.len = 0;
}

static void
try_again(struct journald *j)
{
	const struct timeval again = { .tv_sec = RETRY_S };

	commit_now(j);
	if (j->bad_file)
		rotate(j, "sync-failed");
	if (j->bad_file || store_room(&j->store, RETRY_ROOM) < 0) {
		(void)event_add(j->retry_ev, &again);
		return;
	}
	/* `lost` is only written by an able journal; the monitor hears of it
	 * when that record is durable */
	j->able = true;
	commit_own(j);
	if (!j->able)
		return;
	j->able = false;
	set_able(j);
}

static void
on_retry(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	try_again(arg);
}

static void
on_commit(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	commit_now(arg);
}

static void
on_sync(evutil_socket_t fd, short events, void *arg)
{
	struct journald *j = arg;

	(void)fd;
	(void)events;
	if (j->dirty)
		(void)sync_file(j);
}

/* When nobody else has a record to begin a batch with. */
static void
tell_dropped(struct journald *j)
{
	if (j->able && any_dropped(j))
		commit_own(j);
}

/* Only what is durable is worth a checkpoint. */
static void
checkpoint(struct journald *j)
{
	if (j->dirty)
		(void)sync_file(j);
	if (j->able)
		outlet_checkpoint(&j->outlet, &j->chain);
}

static void
on_checkpoint(evutil_socket_t fd, short events, void *arg)
{
	struct journald *j = arg;

	(void)fd;
	(void)events;
	commit_now(j);
	tell_dropped(j);
	checkpoint(j);
}

void
commit_finish(struct journald *j)
{
	commit_now(j);
	j->dropped_ns = 0;
	tell_dropped(j);
	checkpoint(j);
}

int
commit_init(struct journald *j, struct sbx_err *err)
{
	const struct timeval minute = { .tv_sec = CHECKPOINT_S };

	/* room for one more line of a writer, and for our own */
	sbx_buf_init(&j->lines, SBX_JOURNAL_BATCH_BYTES + 2 * JOURNAL_LINE_MAX);
	j->pending = sbx_xcalloc(SBX_JOURNAL_BATCH_RECORDS +
	    SBX_JOURNAL_TORN + 4, sizeof(*j->pending));
	j->commit_ev = event_new(j->base, -1, 0, on_commit, j);
	j->sync_ev = event_new(j->base, -1, 0, on_sync, j);
	j->retry_ev = event_new(j->base, -1, 0, on_retry, j);
	j->checkpoint_ev = event_new(j->base, -1, EV_PERSIST, on_checkpoint,
	    j);
	if (j->commit_ev == NULL || j->sync_ev == NULL ||
	    j->retry_ev == NULL || j->checkpoint_ev == NULL ||
	    event_priority_set(j->commit_ev, 2) < 0 ||
	    event_add(j->checkpoint_ev, &minute) < 0)
		return (sbx_err_set(err, SBX_E_SYS, "no events"));
	j->able = true;
	if (store_room(&j->store, RETRY_ROOM) < 0)
		set_unable(j, j->store.sys_errno);
	else
		commit_own(j);
	if (j->able)
		checkpoint(j);
	return (0);
}

void
commit_clear(struct journald *j)
{
	if (j->commit_ev != NULL)
		event_free(j->commit_ev);
	if (j->sync_ev != NULL)
		event_free(j->sync_ev);
	if (j->retry_ev != NULL)
		event_free(j->retry_ev);
	if (j->checkpoint_ev != NULL)
		event_free(j->checkpoint_ev);
	free(j->pending);
	sbx_buf_clear(&j->lines);
}

/* --- writers ------------------------------------------------------------------ */

int
writer_init(struct writer *w, struct journald *j, struct sbx_peer *p)
{
	*w = (struct writer){ .j = j, .peer = p };
	w->writable = event_new(j->base, sbx_peer_fd(p), EV_WRITE, on_writable,
	    w);
	if (w->writable == NULL)
		return (SBX_E_SYS);
	w->answers = sbx_xcalloc(SBX_JOURNAL_ANSWERS, sizeof(*w->answers));
	return (0);
}

void
writer_clear(struct writer *w)
{
	if (w->writable != NULL)
		event_free(w->writable);
	free(w->answers);
	*w = (struct writer){ 0 };
}
