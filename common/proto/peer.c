#include "common/proto/peer.h"

#include "common/base/limits.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/time.h>

#ifndef SBX_PEER_STALL_S	/* test_peer cannot wait so long */
#define SBX_PEER_STALL_S 30	/* a peer that takes nothing so long is ended */
#endif
#define BATCH 32		/* records in one turn, then others' turn */

struct queued {
	STAILQ_ENTRY(queued) link;
	uint8_t *record;
	size_t len;
	int fds[SBX_MSG_FDS_MAX];
	int nfds;
	bool secret;		/* zeroed before it is freed */
};

struct sbx_peer {
	const struct sbx_dispatch_table *table;
	void *ctx;
	sbx_peer_end on_end;
	struct event *ev_read, *ev_write;
	struct event *ev_end;	/* never waits: only made active */
	int fd;
	unsigned state;
	uint32_t next_id;
	uint8_t used[SBX_MSG_MAX / 8];	/* what came already, for D_ONCE */
	STAILQ_HEAD(, queued) queue;
	size_t queue_bytes;
	unsigned queue_records;
	bool paused;		/* not read: the queue is past its mark */
	bool deaf;		/* it takes no more, but may have sent */
	bool ending;		/* end_error goes to on_end */
	int end_error;
	unsigned busy;		/* our callbacks on the stack */
	bool freed;		/* freed inside one: memory goes after it */
	struct sbx_in in;	/* last: large */
};

/* --- the queue ------------------------------------------------------------- */

static void
queued_free(struct queued *q)
{
	int i;

	for (i = 0; i < q->nfds; i++)
		sbx_close(&q->fds[i]);
	if (q->secret)
		explicit_bzero(q->record, q->len);
	free(q->record);
	free(q);
}

static void
queue_drop(struct sbx_peer *p)
{
	struct queued *q = STAILQ_FIRST(&p->queue);

	STAILQ_REMOVE_HEAD(&p->queue, link);
	p->queue_bytes -= q->len;
	p->queue_records--;
	queued_free(q);
}

static void
queue_clear(struct sbx_peer *p)
{
	while (!STAILQ_EMPTY(&p->queue))
		queue_drop(p);
}

/* Stop or go on reading, as the queue is now. */
static void
peer_mark(struct sbx_peer *p)
{
	if (p->ending)
		return;
	if (!p->paused && (p->queue_bytes > SBX_PEER_MARK_BYTES ||
	    p->queue_records > SBX_PEER_MARK_RECORDS)) {
		p->paused = true;
		(void)event_del(p->ev_read);
	} else if (p->paused && p->queue_bytes <= SBX_PEER_MARK_BYTES / 2 &&
	    p->queue_records <= SBX_PEER_MARK_RECORDS / 2) {
		p->paused = false;
		(void)event_add(p->ev_read, NULL);
	}
}

/*
 * The peer takes nothing more.  What it sent before still counts, so it is
 * read to its end; a turn is forced, since a peer that only shut down its
 * receiving side would never show an end.
 */
static void
peer_deaf(struct sbx_peer *p)
{
	p->deaf = true;
	queue_clear(p);
	(void)event_del(p->ev_write);
	peer_mark(p);
	event_active(p->ev_read, EV_READ, 0);
}

/* Duplicates, so that the caller may close its own at once. */
static int
queue_fds(struct queued *q, uint16_t type, const int *fds)
{
	int saved;

	for (; q->nfds < sbx_msg_specs[type].fds; q->nfds++) {
		q->fds[q->nfds] = fcntl(fds[q->nfds], F_DUPFD_CLOEXEC, 3);
		if (q->fds[q->nfds] >= 0)
			continue;
		saved = errno;
		while (q->nfds > 0)
			sbx_close(&q->fds[--q->nfds]);
		errno = saved;
		return (SBX_E_SYS);
	}
	return (0);
}

static int
queue_add(struct sbx_peer *p, uint16_t type, uint32_t id, const void *msg,
    const int *fds)
{
	static const struct timeval stall = { .tv_sec = SBX_PEER_STALL_S };
	struct queued *q;
	uint8_t *record;
	size_t len;
	int r;

	r = sbx_wire_encode(p->table->self, type, id, msg, &record, &len);
	if (r < 0)
		return (r);
	q = sbx_xcalloc(1, sizeof(*q));
	q->secret = sbx_wire_secret(type);
	/* The buffer was made for the largest: keep what is needed.  Not where
	 * that could leave a copy behind. */
	q->record = q->secret ? record : sbx_xreallocarray(record, len, 1);
	q->len = len;
	if (p->queue_records >= SBX_PEER_QUEUE_RECORDS ||
	    len > SBX_PEER_QUEUE_BYTES - p->queue_bytes) {
		sbx_peer_end_later(p, SBX_E_LIMIT);
		r = SBX_E_LIMIT;
	} else
		r = queue_fds(q, type, fds);
	if (r < 0) {
		queued_free(q);
		return (r);
	}
	STAILQ_INSERT_TAIL(&p->queue, q, link);
	p->queue_bytes += len;
	p->queue_records++;
	if (p->queue_records == 1)
		(void)event_add(p->ev_write, &stall);
	peer_mark(p);
	return (0);
}

/* Send from the queue what goes.  0 when it is empty, SBX_E_AGAIN, or the
 * error that ends the peer. */
static int
queue_send(struct sbx_peer *p)
{
	struct queued *q;
	int r;

	while ((q = STAILQ_FIRST(&p->queue)) != NULL) {
		r = sbx_wire_put(p->fd, q->record, q->len, q->fds, q->nfds,
		    MSG_DONTWAIT);
		if (r < 0)
			return (r);
		queue_drop(p);
	}
	return (0);
}

/* What a result of queue_send() means for the peer. */
static void
queue_sent(struct sbx_peer *p, int r)
{
	if (r == SBX_E_CLOSED) {
		peer_deaf(p);
		return;
	}
	if (r < 0 && r != SBX_E_AGAIN) {
		sbx_peer_end_later(p, r);
		return;
	}
	if (r == 0)
		(void)event_del(p->ev_write);
	peer_mark(p);
}

/* --- callbacks ------------------------------------------------------------- */

static void
peer_destroy(struct sbx_peer *p)
{
	event_free(p->ev_read);
	event_free(p->ev_write);
	event_free(p->ev_end);
	free(p);
}

/* Every callback ends here: was the peer freed meanwhile? */
static void
peer_leave(struct sbx_peer *p)
{
	if (--p->busy == 0 && p->freed)
		peer_destroy(p);
}

static void
peer_on_end(evutil_socket_t fd, short what, void *arg)
{
	struct sbx_peer *p = arg;

	(void)fd, (void)what;
	p->busy++;
	if (p->on_end != NULL)
		p->on_end(p, p->end_error);
	sbx_peer_free(p);
	peer_leave(p);
}

static void
peer_on_write(evutil_socket_t fd, short what, void *arg)
{
	struct sbx_peer *p = arg;

	(void)fd;
	p->busy++;
	if ((what & EV_WRITE) != 0)
		queue_sent(p, queue_send(p));
	else
		sbx_peer_end_later(p, SBX_E_TIMEOUT);
	peer_leave(p);
}

/* The part of receiving that only this side knows: state, once, handler. */
static int
peer_dispatch(struct sbx_peer *p)
{
	struct sbx_in *in = &p->in;
	const struct sbx_dispatch *row = &p->table->rows[in->hdr.type];
	uint8_t bit = (uint8_t)(1u << (in->hdr.type % 8));
	uint8_t *used = &p->used[in->hdr.type / 8];
	int r;

	if (row->fn == NULL || (row->states & SBX_ST(p->state)) == 0)
		r = SBX_E_STATE;
	else if ((row->flags & SBX_D_ONCE) != 0 && (*used & bit) != 0)
		r = SBX_E_AGAINST_ONCE;
	else if ((r = sbx_wire_decode(in)) == 0) {
		*used |= bit;
		r = row->fn(p, in);
	}
	sbx_in_clear(in);
	return (r);
}

static void
peer_on_read(evutil_socket_t fd, short what, void *arg)
{
	struct sbx_peer *p = arg;
	int i, r = 0;

	(void)fd, (void)what;
	p->busy++;
	for (i = 0; i < BATCH && r == 0 && !p->ending && !p->paused; i++) {
		r = sbx_wire_take(p->fd, p->table->self, p->table->remote,
		    &p->in, MSG_DONTWAIT);
		if (r == SBX_E_AGAIN) {
			/* From the socket it means "no more now"; from a
			 * handler, below, it would be a violation. */
			r = 0;
			if (p->deaf)
				sbx_peer_end_later(p, SBX_E_CLOSED);
			break;
		}
		if (r == 0)
			r = peer_dispatch(p);
	}
	if (r < 0)
		sbx_peer_end_later(p, r);
	else if (p->deaf && !p->ending)
		event_active(p->ev_read, EV_READ, 0);
	peer_leave(p);
}

/* --- interface ------------------------------------------------------------- */

struct sbx_peer *
sbx_peer_new(struct event_base *base, int fd,
    const struct sbx_dispatch_table *table, void *ctx, sbx_peer_end on_end)
{
	struct sbx_peer *p = sbx_xcalloc(1, sizeof(*p));

	p->table = table;
	p->ctx = ctx;
	p->on_end = on_end;
	p->fd = fd;
	STAILQ_INIT(&p->queue);
	p->ev_read = event_new(base, fd, EV_READ | EV_PERSIST, peer_on_read,
	    p);
	p->ev_write = event_new(base, fd, EV_WRITE | EV_PERSIST,
	    peer_on_write, p);
	p->ev_end = event_new(base, -1, 0, peer_on_end, p);
	/* libevent says NULL or -1 here only when memory is out; the
	 * allocators of base.h end the process then, and so does this. */
	if (p->ev_read == NULL || p->ev_write == NULL || p->ev_end == NULL ||
	    event_add(p->ev_read, NULL) < 0)
		abort();
	return (p);
}

void
sbx_peer_free(struct sbx_peer *p)
{
	if (p == NULL || p->freed)
		return;
	/* Also an event that is active in this very turn is taken back. */
	(void)event_del(p->ev_read);
	(void)event_del(p->ev_write);
	(void)event_del(p->ev_end);
	queue_clear(p);
	sbx_close(&p->fd);
	p->freed = true;
	p->ending = true;
	if (p->busy == 0) {
		sbx_in_clear(&p->in);
		peer_destroy(p);
	}
}

void
sbx_peer_end_later(struct sbx_peer *p, int error)
{
	if (p->ending)
		return;
	p->ending = true;
	p->end_error = error;
	(void)event_del(p->ev_read);
	(void)event_del(p->ev_write);
	queue_clear(p);
	event_active(p->ev_end, EV_TIMEOUT, 0);
}

int
sbx_peer_send(struct sbx_peer *p, uint16_t type, uint32_t id, const void *msg,
    const int *fds)
{
	int r;

	if (p->ending || p->deaf)
		return (SBX_E_CLOSED);
	r = sbx_wire_may_send(p->table->self, p->table->remote, type, fds);
	if (r < 0)
		return (r);
	/* Never past what waits already: order is part of the protocol. */
	r = SBX_E_AGAIN;
	if (p->queue_records == 0)
		r = sbx_wire_send(p->fd, p->table->self, type, id, msg, fds,
		    MSG_DONTWAIT);
	if (r == SBX_E_AGAIN)
		r = queue_add(p, type, id, msg, fds);
	else if (r == SBX_E_CLOSED)
		peer_deaf(p);
	return (r);
}

size_t
sbx_peer_queued(const struct sbx_peer *p)
{
	return (p->queue_records);
}

int
sbx_peer_flush(struct sbx_peer *p, int timeout_ms)
{
	uint64_t deadline_ns, now;
	struct pollfd pfd;
	int r;

	deadline_ns = sbx_mono_ns() + (uint64_t)timeout_ms * 1000000u;
	for (;;) {
		if (p->ending || p->deaf)
			return (SBX_E_CLOSED);
		r = queue_send(p);
		queue_sent(p, r);
		if (r != SBX_E_AGAIN)
			return (r);
		now = sbx_mono_ns();
		if (now >= deadline_ns)
			return (SBX_E_TIMEOUT);
		pfd = (struct pollfd){ .fd = p->fd, .events = POLLOUT };
		(void)poll(&pfd, 1,
		    (int)((deadline_ns - now + 999999u) / 1000000u));
	}
}

void *
sbx_peer_ctx(const struct sbx_peer *p)
{
	return (p->ctx);
}

enum sbx_proc
sbx_peer_remote(const struct sbx_peer *p)
{
	return (p->table->remote);
}

int
sbx_peer_fd(const struct sbx_peer *p)
{
	return (p->fd);
}

uint16_t
sbx_peer_last_type(const struct sbx_peer *p)
{
	return (p->in.hdr.type);
}

unsigned
sbx_peer_state(const struct sbx_peer *p)
{
	return (p->state);
}

void
sbx_peer_set_state(struct sbx_peer *p, unsigned state)
{
	p->state = state;
}

void
sbx_peer_set_priority(struct sbx_peer *p, int priority)
{
	/* fails for an event that is active just now: not outside a callback */
	(void)event_priority_set(p->ev_read, priority);
}

uint32_t
sbx_peer_next_id(struct sbx_peer *p)
{
	if (++p->next_id == 0)
		p->next_id = 1;
	return (p->next_id);
}
