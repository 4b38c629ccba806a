#include "common/proto/wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define RECORD_MAX (SBX_HDR_BYTES + SBX_MSG_BYTES_MAX)
#define SMALL 4096		/* records up to this are built on the stack */
#define SNDBUF_WANT (400 << 10)	/* what is asked for; the kernel doubles it */
#define SNDBUF_SLACK 4096	/* the kernel's own part of the buffer */

/* Room for exactly the most there are: any more the kernel closes by itself
 * and says MSG_CTRUNC. */
union fds_cmsg {
	struct cmsghdr align_;
	char buf[CMSG_SPACE(SBX_MSG_FDS_MAX * sizeof(int))];
};

int
sbx_wire_pair(int ret_fd[2])
{
	int i, size, fd[2];
	socklen_t len;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0)
		return (SBX_E_SYS);
	for (i = 0; i < 2; i++) {
		/*
		 * Only the sender's buffer counts for AF_UNIX, and a record
		 * must be smaller than it (unix(7)).  Without privilege it
		 * can be set to twice net.core.wmem_max, whose default of
		 * 212992 is enough; what was got is checked.
		 */
		len = sizeof(size);
		size = SNDBUF_WANT;
		(void)setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &size, len);
		if (getsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &size, &len) < 0 ||
		    size < RECORD_MAX + SNDBUF_SLACK) {
			sbx_close(&fd[0]);
			sbx_close(&fd[1]);
			errno = ENOBUFS;
			return (SBX_E_SYS);
		}
	}
	ret_fd[0] = fd[0];
	ret_fd[1] = fd[1];
	return (0);
}

bool
sbx_wire_secret(uint16_t type)
{
	switch (type) {
	case SBX_MSG_COURIER_GIT:
	case SBX_MSG_COURIER_REST:
	case SBX_MSG_COURIER_MINT:
	case SBX_MSG_COURIER_REVOKE:
	case SBX_MSG_COURIER_MINTED:
	case SBX_MSG_COMMAND_TOKEN:
		return (true);
	default:
		return (false);
	}
}

/* What held a record of that type, or a part of one. */
static void
wire_wipe(uint16_t type, void *p, size_t n)
{
	if (p != NULL && sbx_wire_secret(type))
		explicit_bzero(p, n);
}

/* --- sending --------------------------------------------------------------- */

static void
wire_be(uint8_t *p, uint32_t v, unsigned bytes)
{
	while (bytes-- > 0) {
		p[bytes] = (uint8_t)v;
		v >>= 8;
	}
}

static int
wire_may_send(enum sbx_proc self, uint16_t type)
{
	if (type >= SBX_MSG_MAX || sbx_msg_specs[type].name == NULL)
		return (SBX_E_TYPE);
	if ((sbx_msg_specs[type].from & (1u << self)) == 0)
		return (SBX_E_SENDER);
	return (0);
}

static int
wire_fds_there(uint16_t type, const int *fds)
{
	int i;

	for (i = 0; i < sbx_msg_specs[type].fds; i++)
		if (fds == NULL || fds[i] < 0)
			return (SBX_E_FDS);
	return (0);
}

int
sbx_wire_may_send(enum sbx_proc self, enum sbx_proc remote, uint16_t type,
    const int *fds)
{
	int r = wire_may_send(self, type);

	if (r < 0)
		return (r);
	if ((sbx_msg_specs[type].to & (1u << remote)) == 0)
		return (SBX_E_RECEIVER);
	return (wire_fds_there(type, fds));
}

/* buf has room for the header and max_bytes. */
static int
wire_build(uint16_t type, uint32_t id, const void *msg, uint8_t *buf,
    size_t *ret_len)
{
	const struct sbx_msg_spec *spec = &sbx_msg_specs[type];
	size_t body;
	int r;

	r = spec->put(msg, buf + SBX_HDR_BYTES, spec->max_bytes, &body);
	if (r < 0)
		return (r);
	wire_be(buf, (uint32_t)body, 4);
	wire_be(buf + 4, type, 2);
	wire_be(buf + 6, SBX_PROTO_VERSION, 2);
	wire_be(buf + 8, id, 4);
	*ret_len = SBX_HDR_BYTES + body;
	return (0);
}

int
sbx_wire_encode(enum sbx_proc self, uint16_t type, uint32_t id,
    const void *msg, uint8_t **ret_p, size_t *ret_len)
{
	SBX_CLEANUP(free) uint8_t *p = NULL;
	int r = wire_may_send(self, type);

	if (r < 0)
		return (r);
	p = sbx_xreallocarray(NULL,
	    SBX_HDR_BYTES + sbx_msg_specs[type].max_bytes, 1);
	if ((r = wire_build(type, id, msg, p, ret_len)) < 0) {
		wire_wipe(type, p,
		    SBX_HDR_BYTES + sbx_msg_specs[type].max_bytes);
		return (r);
	}
	*ret_p = p;
	p = NULL;
	return (0);
}

int
sbx_wire_put(int fd, const void *record, size_t len, const int *fds, int nfds,
    int flags)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)record,
	    .iov_len = len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	union fds_cmsg cm;
	struct cmsghdr *c;
	size_t bytes = (size_t)nfds * sizeof(int);
	ssize_t n;

	if (nfds > 0) {
		mh.msg_control = cm.buf;
		mh.msg_controllen = CMSG_SPACE(bytes);
		memset(cm.buf, 0, sizeof(cm.buf));
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(c), fds, bytes);
	}
	do
		n = sendmsg(fd, &mh, flags | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return (0);	/* a record goes whole or not at all */
	switch (errno) {
	case EAGAIN:
		return (SBX_E_AGAIN);
	case EPIPE:
	case ECONNRESET:
	case ENOTCONN:
		return (SBX_E_CLOSED);
	case EMSGSIZE:
		return (SBX_E_LIMIT);
	default:
		return (SBX_E_SYS);
	}
}

int
sbx_wire_send(int fd, enum sbx_proc self, uint16_t type, uint32_t id,
    const void *msg, const int *fds, int flags)
{
	/* Not cleared: the compiler would, at every message. */
	uint8_t small[SMALL] __attribute__((uninitialized));
	SBX_CLEANUP(free) uint8_t *large = NULL;
	const struct sbx_msg_spec *spec;
	uint8_t *p = small;
	size_t len;
	int r;

	if ((r = wire_may_send(self, type)) < 0 ||
	    (r = wire_fds_there(type, fds)) < 0)
		return (r);
	spec = &sbx_msg_specs[type];
	if (SBX_HDR_BYTES + spec->max_bytes > sizeof(small))
		p = large = sbx_xreallocarray(NULL,
		    SBX_HDR_BYTES + spec->max_bytes, 1);
	if ((r = wire_build(type, id, msg, p, &len)) == 0)
		r = sbx_wire_put(fd, p, len, fds, spec->fds, flags);
	wire_wipe(type, p, SBX_HDR_BYTES + spec->max_bytes);
	return (r);
}

/* --- receiving ------------------------------------------------------------- */

static uint32_t
be_wire(const uint8_t *p, unsigned bytes)
{
	uint32_t v = 0;

	while (bytes-- > 0)
		v = v << 8 | *p++;
	return (v);
}

void
sbx_in_clear(struct sbx_in *in)
{
	int i;

	for (i = 0; i < in->nfds; i++)
		sbx_close(&in->fds[i]);
	in->nfds = 0;
	/* the head stays: it is what a violation is logged by */
	wire_wipe(in->hdr.type, in->body, sizeof(in->body));
}

/*
 * Take the descriptors out of the control message.  Close-on-exec was set by
 * the kernel.  Returns how many came, also those without room (closed).
 */
static int
wire_fds(struct msghdr *mh, struct sbx_in *in)
{
	struct cmsghdr *c;
	size_t i, n;
	int fd, seen = 0;

	for (c = CMSG_FIRSTHDR(mh); c != NULL; c = CMSG_NXTHDR(mh, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int),
			    sizeof(fd));
			seen++;
			if (in->nfds < SBX_MSG_FDS_MAX)
				in->fds[in->nfds++] = fd;
			else
				sbx_close(&fd);
		}
	}
	return (seen);
}

/* The checks that need no more than the header, in the documented order. */
static int
wire_check(struct sbx_in *in, size_t len, enum sbx_proc self,
    enum sbx_proc remote, bool cut, int nfds)
{
	const struct sbx_msg_spec *spec;

	if (len < SBX_HDR_BYTES)
		return (SBX_E_LENGTH);
	in->hdr.length = be_wire(in->body, 4);
	in->hdr.type = (uint16_t)be_wire(in->body + 4, 2);
	in->hdr.version = (uint16_t)be_wire(in->body + 6, 2);
	in->hdr.id = be_wire(in->body + 8, 4);
	if (in->hdr.version != SBX_PROTO_VERSION)
		return (SBX_E_VERSION);
	if (in->hdr.type >= SBX_MSG_MAX ||
	    sbx_msg_specs[in->hdr.type].name == NULL)
		return (SBX_E_TYPE);
	spec = &sbx_msg_specs[in->hdr.type];
	if ((spec->from & (1u << remote)) == 0)
		return (SBX_E_SENDER);
	if ((spec->to & (1u << self)) == 0)
		return (SBX_E_RECEIVER);
	if (cut || in->hdr.length != len - SBX_HDR_BYTES ||
	    in->hdr.length > spec->max_bytes)
		return (SBX_E_LENGTH);
	if (nfds != spec->fds)
		return (SBX_E_FDS);
	return (0);
}

int
sbx_wire_take(int fd, enum sbx_proc self, enum sbx_proc remote,
    struct sbx_in *in, int flags)
{
	struct iovec iov = { .iov_base = in->body,
	    .iov_len = sizeof(in->body) };
	struct msghdr mh;
	union fds_cmsg cm;
	bool reset = false;
	ssize_t n;
	int nfds, r;

	in->nfds = 0;
	for (;;) {
		mh = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1,
		    .msg_control = cm.buf, .msg_controllen = sizeof(cm.buf) };
		n = recvmsg(fd, &mh, flags | MSG_CMSG_CLOEXEC);
		if (n >= 0)
			break;
		if (errno == EINTR)
			continue;
		/*
		 * The peer closed with unread records in its queue: the
		 * kernel says so once, ahead of what it had sent before.
		 * Those records still count (a result, an exit status).
		 */
		if (errno == ECONNRESET && !reset) {
			reset = true;
			continue;
		}
		if (errno == EAGAIN)
			return (SBX_E_AGAIN);
		return (errno == ECONNRESET || errno == ENOTCONN ?
		    SBX_E_CLOSED : SBX_E_SYS);
	}
	in->hdr = (struct sbx_hdr){ 0 };
	nfds = wire_fds(&mh, in);
	/* Some were lost, or there was no room in our own table. */
	if ((mh.msg_flags & MSG_CTRUNC) != 0)
		nfds = SBX_MSG_FDS_MAX + 1;
	r = n == 0 ? SBX_E_CLOSED : wire_check(in, (size_t)n, self, remote,
	    (mh.msg_flags & MSG_TRUNC) != 0, nfds);
	if (r < 0)
		sbx_in_clear(in);
	return (r);
}

int
sbx_wire_decode(struct sbx_in *in)
{
	int r;

	r = sbx_msg_specs[in->hdr.type].get(in->body + SBX_HDR_BYTES,
	    in->hdr.length, &in->m);
	if (r < 0)
		sbx_in_clear(in);
	return (r);
}

int
sbx_wire_recv(int fd, enum sbx_proc self, enum sbx_proc remote,
    struct sbx_in *in, int flags)
{
	int r = sbx_wire_take(fd, self, remote, in, flags);

	return (r < 0 ? r : sbx_wire_decode(in));
}

/* --- blocking client ------------------------------------------------------- */

void
sbx_chan_init(struct sbx_chan *c, int fd, enum sbx_proc self,
    enum sbx_proc remote)
{
	*c = (struct sbx_chan){ .fd = fd, .self = self, .remote = remote };
	c->in = sbx_xcalloc(1, sizeof(*c->in));
}

void
sbx_chan_clear(struct sbx_chan *c)
{
	if (c->in != NULL)
		sbx_in_clear(c->in);
	free(c->in);
	c->in = NULL;
	sbx_close(&c->fd);
}

/* 0: no deadline (for ever) */
static uint64_t
chan_deadline(int timeout_ms)
{
	return (timeout_ms < 0 ? 0 :
	    sbx_mono_ns() + (uint64_t)timeout_ms * 1000000u);
}

/* Wait for events, at most until the deadline. */
static int
chan_wait(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd pfd = { .fd = fd, .events = events };
	uint64_t now, left;
	int ms = -1, r;

	if (deadline_ns != 0) {
		now = sbx_mono_ns();
		if (now >= deadline_ns)
			return (SBX_E_TIMEOUT);
		/* rounded up, so that the last wait does not spin */
		left = (deadline_ns - now + 999999u) / 1000000u;
		ms = left > INT32_MAX ? INT32_MAX : (int)left;
	}
	r = poll(&pfd, 1, ms);
	return (r < 0 && errno != EINTR ? SBX_E_SYS : 0);
}

static int
chan_send_until(struct sbx_chan *c, uint16_t type, uint32_t id,
    const void *msg, const int *fds, uint64_t deadline_ns)
{
	SBX_CLEANUP(free) uint8_t *p = NULL;
	size_t len;
	int r;

	if ((r = sbx_wire_may_send(c->self, c->remote, type, fds)) < 0)
		return (r);
	r = sbx_wire_send(c->fd, c->self, type, id, msg, fds, MSG_DONTWAIT);
	if (r != SBX_E_AGAIN)
		return (r);
	if ((r = sbx_wire_encode(c->self, type, id, msg, &p, &len)) < 0)
		return (r);
	do
		if ((r = chan_wait(c->fd, POLLOUT, deadline_ns)) < 0)
			break;
	while ((r = sbx_wire_put(c->fd, p, len, fds, sbx_msg_specs[type].fds,
	    MSG_DONTWAIT)) == SBX_E_AGAIN);
	wire_wipe(type, p, len);
	return (r);
}

static int
chan_recv_until(struct sbx_chan *c, uint64_t deadline_ns)
{
	int r;

	sbx_in_clear(c->in);
	if (deadline_ns == 0)
		return (sbx_wire_recv(c->fd, c->self, c->remote, c->in, 0));
	while ((r = sbx_wire_recv(c->fd, c->self, c->remote, c->in,
	    MSG_DONTWAIT)) == SBX_E_AGAIN)
		if ((r = chan_wait(c->fd, POLLIN, deadline_ns)) < 0)
			return (r);
	return (r);
}

int
sbx_chan_send(struct sbx_chan *c, uint16_t type, uint32_t id, const void *msg,
    const int *fds, int timeout_ms)
{
	return (chan_send_until(c, type, id, msg, fds,
	    chan_deadline(timeout_ms)));
}

int
sbx_chan_recv(struct sbx_chan *c, int timeout_ms)
{
	return (chan_recv_until(c, chan_deadline(timeout_ms)));
}

int
sbx_chan_call(struct sbx_chan *c, uint16_t type, const void *msg,
    const int *fds, int timeout_ms)
{
	uint64_t deadline_ns = chan_deadline(timeout_ms);
	uint32_t id;
	int r;

	if (++c->next_id == 0)
		c->next_id = 1;
	id = c->next_id;
	if ((r = chan_send_until(c, type, id, msg, fds, deadline_ns)) < 0 ||
	    (r = chan_recv_until(c, deadline_ns)) < 0)
		return (r);
	return (c->in->hdr.id == id ? 0 : SBX_E_STATE);
}
