#ifndef SBX_PROTO_WIRE_H
#define SBX_PROTO_WIRE_H

/*
 * Records on an AF_UNIX SOCK_SEQPACKET socketpair: one message a record, its
 * descriptors with it (unix(7), SCM_RIGHTS).  This is the one receiving
 * routine of the suite (sbx_wire_recv), and a blocking client on top of it;
 * event loops use peer.h, also on top of it.
 */

#include "common/proto/proto.h"

struct sbx_hdr {
	uint32_t length;	/* of the body */
	uint16_t type;
	uint16_t version;
	uint32_t id;		/* 0: no answer expected */
};

/* A received message: body decoded into m, descriptors owned by the caller
 * until sbx_in_clear() closes those left (>= 0). */
struct sbx_in {
	struct sbx_hdr hdr;
	union sbx_any_msg m;
	int fds[SBX_MSG_FDS_MAX];
	int nfds;
	uint8_t body[SBX_HDR_BYTES + SBX_MSG_BYTES_MAX];
};

/* A pair of connected channel ends: SOCK_SEQPACKET|CLOEXEC, send buffer large
 * enough for SBX_MSG_BYTES_MAX.  0, SBX_E_SYS. */
int sbx_wire_pair(int ret_fd[2]);

/*
 * Encode and send one record.  fds: exactly as many as the message's row says
 * (borrowed: still the caller's afterwards); NULL when that is none.
 * flags: MSG_DONTWAIT or 0.  0, SBX_E_AGAIN, SBX_E_CLOSED, SBX_E_LIMIT,
 * SBX_E_TYPE, SBX_E_SENDER (self may not send it), SBX_E_FDS (one is missing
 * or -1), SBX_E_SYS.
 */
int sbx_wire_send(int fd, enum sbx_proc self, uint16_t type, uint32_t id,
    const void *msg, const int *fds, int flags);

/*
 * Receive and check one record, in the order: header, known type, sender
 * mask, receiver mask, length, descriptor count, decode.  Descriptors arrive
 * close-on-exec.  On error all descriptors are closed; in->hdr.type is what
 * the record claimed, for the log.
 * 0, SBX_E_AGAIN (MSG_DONTWAIT), SBX_E_CLOSED, SBX_E_* of the failing check.
 */
int sbx_wire_recv(int fd, enum sbx_proc self, enum sbx_proc remote,
    struct sbx_in *in, int flags);
/* Also zeroes the body when its type is one that carries a credential. */
void sbx_in_clear(struct sbx_in *in);
/* Does a message of that type carry one?  Every buffer of ours that held such a
 * record is zeroed when it was sent or handled. */
bool sbx_wire_secret(uint16_t type);

/*
 * The parts of both, for peer.c, which looks at its dispatch table before it
 * decodes and queues what cannot be sent now.  sbx_wire_take(): all checks up
 * to the descriptor count; in->m is not set.  sbx_wire_decode(): sets in->m;
 * SBX_E_DECODE closes the descriptors.  sbx_wire_encode(): one record, header
 * and body, allocated, *ret_p owned by the caller, who zeroes it when the type
 * is secret; 0, SBX_E_TYPE, SBX_E_SENDER, SBX_E_LIMIT.  sbx_wire_put(): send such a record.
 * sbx_wire_may_send(): 0, SBX_E_TYPE, SBX_E_SENDER, SBX_E_RECEIVER, SBX_E_FDS.
 */
int sbx_wire_may_send(enum sbx_proc self, enum sbx_proc remote, uint16_t type,
    const int *fds);
int sbx_wire_take(int fd, enum sbx_proc self, enum sbx_proc remote,
    struct sbx_in *in, int flags);
int sbx_wire_decode(struct sbx_in *in);
int sbx_wire_encode(enum sbx_proc self, uint16_t type, uint32_t id,
    const void *msg, uint8_t **ret_p, size_t *ret_len);
int sbx_wire_put(int fd, const void *record, size_t len, const int *fds,
    int nfds, int flags);

/* --- blocking client ------------------------------------------------------ */
struct sbx_chan {
	int fd;			/* owned */
	enum sbx_proc self, remote;
	uint32_t next_id;
	struct sbx_in *in;	/* the last message received */
};
void sbx_chan_init(struct sbx_chan *c, int fd, enum sbx_proc self,
    enum sbx_proc remote);
void sbx_chan_clear(struct sbx_chan *c);
/* Send; waits for room up to timeout_ms (-1: no deadline).  As
 * sbx_wire_send(), and SBX_E_TIMEOUT, SBX_E_RECEIVER. */
int sbx_chan_send(struct sbx_chan *c, uint16_t type, uint32_t id,
    const void *msg, const int *fds, int timeout_ms);
/* The next message, into c->in (the earlier one is cleared).  timeout_ms -1:
 * no deadline. */
int sbx_chan_recv(struct sbx_chan *c, int timeout_ms);
/* Send with a fresh id, wait for the record with that id.  Any record with
 * another id is SBX_E_STATE. */
int sbx_chan_call(struct sbx_chan *c, uint16_t type, const void *msg,
    const int *fds, int timeout_ms);

#endif
