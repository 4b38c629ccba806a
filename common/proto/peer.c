#include "common/proto/peer.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#define QUEUE_BYTES (4u << 20)	/* queued at most, else the peer is ended */
#define QUEUE_RECORDS 1024
#define MARK_BYTES (1u << 20)	/* past it nothing is read from the peer */
#define MARK_RECORDS 256
#define STALL_S 30		/* takes nothing of its queue for so long */
#define TURN_RECORDS 64		/* handled at once, then others have a turn */

struct record {
	STAILQ_ENTRY(record) link;
	uint8_t *data;			/* owned */
	size_t len;
	int fds[SBX_MSG_FDS_MAX];	/* owned duplicates */
	int nfds;
};

struct sbx_peer {
	struct event *ev_read, *ev_write, *ev_end;
	const struct sbx_dispatch_table *table;
	void *ctx;
	sbx_peer_end on_end;
	int fd, end_error;
	unsigned state;
	bool ending, in_loop, freed;
	uint32_t next_id;
	uint16_t last_type;
	uint8_t used[SBX_MSG_MAX / 8];	/* once-only types that came */
	STAILQ_HEAD(, record) queue;
	size_t queued_bytes, queued_records;
};

/*
 * One receive buffer for all peers of a process: a message is handled before
 * the next is read, and handlers never receive by themselves.
 */
static struct sbx_in *shared_in;

static void
record_free(struct record *r)
{
	for (int i = 0; i < r->nfds; i++)
		sbx_close(&r->fds[i]);
	free(r->data);
	free(r);
}

static void
queue_pop(struct sbx_peer *p)
{
	struct record *r = STAILQ_FIRST(&p->queue);

	STAILQ_REMOVE_HEAD(&p->queue, link);
	p->queued_bytes -= r->len;
	p->queued_records--;
	record_free(r);
}

static void
peer_destroy(struct sbx_peer *p)
{
	if (p->ev_read != NULL)
		event_free(p->ev_read);
	if (p->ev_write != NULL)
		event_free(p->ev_write);
	if (p->ev_end != NULL)
		event_free(p->ev_end);
	while (!STAILQ_EMPTY(&p->queue))
		queue_pop(p);
	sbx_close(&p->fd);
	free(p);
}

void
sbx_peer_free(struct sbx_peer *p)
{
	if (p == NULL)
		return;
	if (p->in_loop) {
		/* deeper in the stack this peer is being served */
		p->freed = true;
		p->ending = true;
		return;
	}
	peer_destroy(p);
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
	event_active(p->ev_end, EV_TIMEOUT, 0);
}

static void
on_end_event(evutil_socket_t fd, short what, void *arg)
{
	struct sbx_peer *p = arg;

	(void)fd, (void)what;
	/* the owner may call sbx_peer_free() here all the same: harmless */
	p->in_loop = true;
	p->on_end(p, p->end_error);
	p->in_loop = false;
	peer_destroy(p);
}

/* May this message come now?  0 or what it violates. */
static int
peer_permits(struct sbx_peer *p, uint16_t type,
    const struct sbx_dispatch **ret_row)
{
	const struct sbx_dispatch *row = &p->table->rows[type];
	uint8_t bit = (uint8_t)(1u << (type % 8));

	if (row->fn == NULL || (row->states & SBX_ST(p->state)) == 0)
		return (SBX_E_STATE);
	if ((row->flags & SBX_D_ONCE) != 0) {
		if (p->used[type / 8] & bit)
			return (SBX_E_AGAINST_ONCE);
		p->used[type / 8] |= bit;
	}
	*ret_row = row;
	return (0);
}

/* One record.  0, SBX_E_AGAIN when there is none, or the violation. */
static int
peer_one(struct sbx_peer *p)
{
	const struct sbx_dispatch *row;
	struct sbx_in *in = shared_in;
	int r;

	r = sbx_wire_take(p->fd, p->table->self, p->table->remote, in,
	    MSG_DONTWAIT);
	if (r == SBX_E_AGAIN)
		return (r);
	p->last_type = in->hdr.type;
	if (r < 0)
		return (r);
	if ((r = peer_permits(p, in->hdr.type, &row)) < 0) {
		sbx_in_clear(in);
		return (r);
	}
	if ((r = sbx_wire_decode(in)) < 0)
		return (r);
	r = row->fn(p, in);
	sbx_in_clear(in);
	return (r);
}

static bool
peer_above_mark(const struct sbx_peer *p, unsigned part)
{
	return (p->queued_bytes > MARK_BYTES / part ||
	    p->queued_records > MARK_RECORDS / part);
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct sbx_peer *p = arg;
	int r = 0;

	(void)fd, (void)what;
	p->in_loop = true;
	for (int i = 0; i < TURN_RECORDS && r == 0 && !p->ending; i++) {
		r = peer_one(p);
		if (peer_above_mark(p, 1)) {
			(void)event_del(p->ev_read);
			break;
		}
	}
	p->in_loop = false;
	if (p->freed) {
		peer_destroy(p);
		return;
	}
	if (r < 0 && r != SBX_E_AGAIN)
		sbx_peer_end_later(p, r);
}

/* Send what is queued until the socket is full.  0, or why it ends. */
static int
queue_send(struct sbx_peer *p)
{
	struct record *r;
	int e;

	while ((r = STAILQ_FIRST(&p->queue)) != NULL) {
		e = sbx_wire_put(p->fd, r->data, r->len, r->fds, r->nfds,
		    MSG_DONTWAIT);
		if (e < 0)
			return (e == SBX_E_AGAIN ? 0 : e);
		queue_pop(p);
	}
	return (0);
}

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct sbx_peer *p = arg;
	struct timeval stall = { STALL_S, 0 };
	int r;

	(void)fd;
	if ((what & EV_TIMEOUT) != 0) {
		sbx_peer_end_later(p, SBX_E_TIMEOUT);
		return;
	}
	if ((r = queue_send(p)) < 0 && r != SBX_E_CLOSED) {
		sbx_peer_end_later(p, r);
		return;
	}
	if (r == SBX_E_CLOSED)
		while (!STAILQ_EMPTY(&p->queue))
			queue_pop(p);	/* what it had sent is still read */
	if (!STAILQ_EMPTY(&p->queue))
		(void)event_add(p->ev_write, &stall);
	if (!peer_above_mark(p, 2))
		(void)event_add(p->ev_read, NULL);
}

struct sbx_peer *
sbx_peer_new(struct event_base *base, int fd,
    const struct sbx_dispatch_table *table, void *ctx, sbx_peer_end on_end)
{
	struct sbx_peer *p = sbx_xcalloc(1, sizeof(*p));

	if (shared_in == NULL)
		shared_in = sbx_xcalloc(1, sizeof(*shared_in));
	STAILQ_INIT(&p->queue);
	p->fd = fd;
	p->table = table;
	p->ctx = ctx;
	p->on_end = on_end;
	p->ev_read = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, p);
	p->ev_write = event_new(base, fd, EV_WRITE, on_writable, p);
	p->ev_end = event_new(base, -1, 0, on_end_event, p);
	if (p->ev_read == NULL || p->ev_write == NULL || p->ev_end == NULL ||
	    event_add(p->ev_read, NULL) != 0) {
		/* out of memory, like the sbx_x* allocators */
		static const char text[] = "sbx: out of memory\n";

		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		_exit(2);
	}
	return (p);
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
	return (p->last_type);
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

uint32_t
sbx_peer_next_id(struct sbx_peer *p)
{
	if (++p->next_id == 0)
		p->next_id = 1;
	return (p->next_id);
}

/* Keep a record for later, with duplicates of its descriptors. */
static int
queue_add(struct sbx_peer *p, uint16_t type, uint32_t id, const void *msg,
    const int *fds)
{
	struct timeval stall = { STALL_S, 0 };
	struct record *r = sbx_xcalloc(1, sizeof(*r));
	int e;

	e = sbx_wire_encode(p->table->self, type, id, msg, &r->data, &r->len);
	for (int i = 0; e == 0 && i < sbx_msg_specs[type].fds; i++) {
		r->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 4);
		if (r->fds[i] == -1)
			e = SBX_E_SYS;
		else
			r->nfds++;
	}
	if (e < 0) {
		record_free(r);
		return (e);
	}
	if (p->queued_records >= QUEUE_RECORDS ||
	    p->queued_bytes + r->len > QUEUE_BYTES) {
		record_free(r);
		sbx_peer_end_later(p, SBX_E_LIMIT);
		return (SBX_E_LIMIT);
	}
	if (STAILQ_EMPTY(&p->queue))
		(void)event_add(p->ev_write, &stall);
	STAILQ_INSERT_TAIL(&p->queue, r, link);
	p->queued_bytes += r->len;
	p->queued_records++;
	return (0);
}

int
sbx_peer_send(struct sbx_peer *p, uint16_t type, uint32_t id,
    const void *msg, const int *fds)
{
	int r;

	if (p->ending)
		return (SBX_E_CLOSED);
	if (type >= SBX_MSG_MAX || sbx_msg_specs[type].name == NULL)
		return (SBX_E_TYPE);
	if ((sbx_msg_specs[type].to & (1u << p->table->remote)) == 0)
		return (SBX_E_RECEIVER);
	for (int i = 0; i < sbx_msg_specs[type].fds; i++)
		if (fds == NULL || fds[i] < 0)
			return (SBX_E_FDS);
	if (!STAILQ_EMPTY(&p->queue))
		return (queue_add(p, type, id, msg, fds));
	r = sbx_wire_send(p->fd, p->table->self, type, id, msg, fds,
	    MSG_DONTWAIT);
	/* ETOOMANYREFS: descriptors in flight of this uid; it passes */
	if (r == SBX_E_AGAIN || (r == SBX_E_SYS &&
	    (errno == ETOOMANYREFS || errno == ENOBUFS)))
		return (queue_add(p, type, id, msg, fds));
	return (r);
}

int
sbx_peer_flush(struct sbx_peer *p, int timeout_ms)
{
	uint64_t until = sbx_mono_ns() + (uint64_t)timeout_ms * 1000000;
	int r;

	while ((r = queue_send(p)) == 0 && !STAILQ_EMPTY(&p->queue)) {
		struct pollfd pfd = { .fd = p->fd, .events = POLLOUT };
		uint64_t now = sbx_mono_ns();

		if (now >= until)
			return (SBX_E_TIMEOUT);
		(void)poll(&pfd, 1, (int)((until - now) / 1000000) + 1);
	}
	return (r);
}
