#ifndef SBX_PROTO_PEER_H
#define SBX_PROTO_PEER_H

/*
 * A channel in a libevent loop: queued sending with a mark, receiving by
 * sbx_wire_recv(), then the dispatch table of (this process, that peer):
 * state permits -> once -> handler.  Absent row = refused.
 */

#include "common/proto/wire.h"

struct event_base;
struct sbx_peer;

/* Takes ownership of a descriptor in in->fds by sbx_steal_fd(); the rest is
 * closed after it.  Decoded strings are valid until it returns.
 * 0, or a negative sbx_error: a violation, the channel is ended with it. */
typedef int (*sbx_handler)(struct sbx_peer *p, struct sbx_in *in);
/* The channel ended: SBX_E_CLOSED or the violation.  The peer is freed right
 * after it returns; do not free it inside. */
typedef void (*sbx_peer_end)(struct sbx_peer *p, int error);

enum { SBX_D_ONCE = 1 };
#define SBX_ST(n) (1u << (n))	/* peer state n (0..31) as a mask */
#define SBX_ST_ANY 0xffffffffu

struct sbx_dispatch {
	uint32_t states;	/* mask of SBX_ST(peer state) */
	uint8_t flags;		/* SBX_D_ONCE */
	sbx_handler fn;		/* NULL = absent row */
};
/* For the walk over all tables (tests/proto) and for PROTOCOL.ipc. */
struct sbx_dispatch_table {
	enum sbx_proc self, remote;
	const struct sbx_dispatch *rows;	/* [SBX_MSG_MAX] */
};

/* fd: owned.  ctx: the caller's, borrowed.  Starts in state 0.  Never NULL: it
 * ends the process when memory is out. */
struct sbx_peer *sbx_peer_new(struct event_base *base, int fd,
    const struct sbx_dispatch_table *table, void *ctx, sbx_peer_end on_end);
/* NULL ok.  Not from inside a handler of the same peer: return an error
 * there, or use sbx_peer_end_later(). */
void sbx_peer_free(struct sbx_peer *p);
/* End from anywhere: on_end(p, error) is called from the loop, once. */
void sbx_peer_end_later(struct sbx_peer *p, int error);
/* Records that wait to be sent: a sender with a choice can hold back. */
size_t sbx_peer_queued(const struct sbx_peer *p);
/* Try to send all that is queued now, blocking at most timeout_ms.
 * 0, SBX_E_TIMEOUT, SBX_E_CLOSED, and what sbx_wire_send() returns. */
int sbx_peer_flush(struct sbx_peer *p, int timeout_ms);

void *sbx_peer_ctx(const struct sbx_peer *p);
enum sbx_proc sbx_peer_remote(const struct sbx_peer *p);
int sbx_peer_fd(const struct sbx_peer *p);
/* What the last record claimed to be, for the log of a violation; 0: none. */
uint16_t sbx_peer_last_type(const struct sbx_peer *p);
unsigned sbx_peer_state(const struct sbx_peer *p);
void sbx_peer_set_state(struct sbx_peer *p, unsigned state);
/* Which of two peers is read first when both have sent: libevent priority,
 * 0 first; the base must have it.  Outside of the loop's callbacks of p. */
void sbx_peer_set_priority(struct sbx_peer *p, int priority);
uint32_t sbx_peer_next_id(struct sbx_peer *p);	/* never 0 */

/*
 * Send or queue (at most 4 MiB or 1,024 records queued; past that SBX_E_LIMIT
 * and the peer is ended: it does not read).  A peer that takes nothing of its
 * queue for 30 s is ended with SBX_E_TIMEOUT; past 1 MiB or 256 records nothing
 * is read from it either, until half of that is gone.  Descriptors are
 * duplicated when queued, so they stay the caller's.  0, SBX_E_CLOSED (on_end
 * follows once what the peer had sent is handled), SBX_E_LIMIT, SBX_E_RECEIVER
 * (that peer may not get it), and what sbx_wire_send() returns.
 */
int sbx_peer_send(struct sbx_peer *p, uint16_t type, uint32_t id,
    const void *msg, const int *fds);

/* sbx_send_exec_start(p, id, &(struct sbx_exec_start){...}, fds) and so on */
#define F_NONE
#define MSG(NAME, name, num, from, to, nfds, max, fields)                     \
	static inline int sbx_send_##name(struct sbx_peer *p, uint32_t id,    \
	    const struct sbx_##name *m, const int *fds)                       \
	{                                                                     \
		return (sbx_peer_send(p, SBX_MSG_##NAME, id, m, fds));        \
	}
#include "common/proto/msgs.def"
#undef MSG
#undef F_NONE

#endif
