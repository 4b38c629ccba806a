#include "sbxd/front/conn.h"

#include "common/base/log.h"
#include "sbxd/front/http.h"
#include "sbxd/front/reply.h"
#include "sbxd/front/rpc.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define TTY_CHUNK 512	/* a ready terminal takes that without waiting */
#define KEEP_BYTES (256u << 10)	/* an idle connection keeps no more */
#define MAX_RIGHTS 8

/* --- input ---------------------------------------------------------------- */

/*
 * With its first bytes a client may send the one directory below which its
 * copy tools may read.  Safe for a hostile client: every other descriptor is
 * closed unused, and the monitor decides whether it takes this one.
 */
static void
take_rights(struct conn *c, struct msghdr *msg)
{
	int fds[MAX_RIGHTS];
	struct cmsghdr *h;
	struct stat st;
	size_t i, n;

	for (h = CMSG_FIRSTHDR(msg); h != NULL; h = CMSG_NXTHDR(msg, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		if (n > MAX_RIGHTS)
			sbx_fatal("%zu descriptors in a buffer for %d", n,
			    MAX_RIGHTS);
		memcpy(fds, CMSG_DATA(h), n * sizeof(int));
		for (i = 0; i < n; i++) {
			if (c->first && n == 1 && fstat(fds[i], &st) == 0 &&
			    S_ISDIR(st.st_mode))
				/* it cannot fail in a way that matters here:
				 * without a root copies are refused */
				(void)monitor_root(c->f, c->client.principal, fds[i]);
			else if (!c->warned) {
				c->warned = true;
				log_notice("a descriptor from a client was "
				    "closed connection=%u", c->number);
			}
			(void)close(fds[i]);
		}
	}
}

/* At most what the loop said is there: it does not wait. */
static ssize_t
receive(struct conn *c, void *buf, size_t size)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MAX_RIGHTS * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes) };
	ssize_t n;

	if (c->number == 0)
		return (read(c->fd_in, buf, size));
	n = recvmsg(c->fd_in, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n >= 0)
		take_rights(c, &msg);
	return (n);
}

/* Drop what was handled; give the memory of a long message back. */
static void
compact(struct conn *c)
{
	sbx_buf_consume(&c->in, c->in_off);
	c->in_seen -= c->in_seen < c->in_off ? c->in_seen : c->in_off;
	c->in_off = 0;
	if (c->in.len == 0 && c->in.size > KEEP_BYTES) {
		sbx_buf_clear(&c->in);
		sbx_buf_init(&c->in, c->in.max);
	}
}

/* A message is handled where it lies; rpc_line() does not touch c->in. */
static void
take_lines(struct conn *c)
{
	const char *line, *end;
	size_t len;

	while (c->state == CONN_OPEN) {
		line = c->in.data + c->in_off;
		end = memchr(c->in.data + c->in_seen, '\n',
		    c->in.len - c->in_seen);
		if (end == NULL) {
			c->in_seen = c->in.len;
			break;
		}
		len = (size_t)(end - line);
		c->in_off = c->in_seen = (size_t)(end + 1 - c->in.data);
		if (!c->discard)
			rpc_line(&c->sink, line, len);
		c->discard = false;
		c->line_ns = sbx_mono_ns();
		if (conn_unsent(c) > SBX_FRONT_OUT_MARK)
			conn_flush(c);
		if ((conn_unsent(c) > SBX_FRONT_OUT_MARK ||
		    monitor_lags(c->f)) && c->state == CONN_OPEN)
			conn_set_state(c, CONN_PAUSED);
	}
	if (c->state == CONN_OPEN && !c->discard &&
	    c->in.len - c->in_off > SBX_MAX_JSON) {
		reply_error(&c->sink, &revs[c->client.rev], NULL, RPC_PARSE_ERROR, NULL,
		    "the message is longer than %u bytes", SBX_MAX_JSON);
		c->discard = true;
	}
	if (c->discard && c->state == CONN_OPEN)
		c->in_off = c->in_seen = c->in.len;
}

void
conn_take(struct conn *c)
{
	c->feeding = true;
	if (c->http != NULL)
		http_take(c);
	else
		take_lines(c);
	c->feeding = false;
	compact(c);
	conn_flush(c);
	conn_arm(c);
}

void
conn_feed(struct conn *c, const void *data, size_t len)
{
	if (c->in.len == c->in_off)
		c->line_ns = sbx_mono_ns();
	if (sbx_buf_add(&c->in, data, len) != 0)
		conn_end(c, "its input buffer is full");
	else
		conn_take(c);
}

void
conn_on_in(int fd, short what, void *arg)
{
	struct conn *c = arg;
	char *chunk = c->f->chunk;
	ssize_t n;

	(void)fd;
	(void)what;
	if (c->state != CONN_OPEN)
		return;
	n = receive(c, chunk, sizeof(c->f->chunk));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_end(c, n == 0 ? "it closed its end" : strerror(errno));
		return;
	}
	c->first = false;
	conn_feed(c, chunk, (size_t)n);
	if (c->io_in == CONN_IO_FILE && c->state == CONN_OPEN)
		event_active(c->ev_in, EV_TIMEOUT, 0);
}

/* --- output --------------------------------------------------------------- */

size_t
conn_unsent(const struct conn *c)
{
	return (c->sink.out.len - c->out_off);
}

/* What can be written now, or EAGAIN.  A blocking terminal is asked for little
 * at a time, and only when the loop said that it is ready. */
static ssize_t
write_some(struct conn *c)
{
	const char *p = c->sink.out.data + c->out_off;
	size_t n = conn_unsent(c);

	if (c->number != 0)
		return (send(c->fd_out, p, n, MSG_NOSIGNAL | MSG_DONTWAIT));
	if (c->io_out == CONN_IO_TTY && n > TTY_CHUNK)
		n = TTY_CHUNK;
	return (write(c->fd_out, p, n));
}

void
conn_flush(struct conn *c)
{
	ssize_t n;

	while (c->state != CONN_DEAD && conn_unsent(c) > 0 &&
	    !event_pending(c->ev_out, EV_WRITE, NULL)) {
		n = write_some(c);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			conn_end(c, strerror(errno));
			return;
		}
		if (n > 0) {
			c->out_off += (size_t)n;
			c->sent_ns = sbx_mono_ns();
		}
		if ((n < 0 || (c->io_out == CONN_IO_TTY &&
		    conn_unsent(c) > 0)) && event_add(c->ev_out, NULL) != 0)
			conn_end(c, "its output cannot be watched");
	}
	if (conn_unsent(c) == 0) {
		c->sink.out.len = c->out_off = 0;
		c->sent_ns = 0;
		if (c->http != NULL && c->http->closing)
			conn_end(c, "its last answer is sent");
		if (c->sink.out.size > KEEP_BYTES) {
			sbx_buf_clear(&c->sink.out);
			sbx_buf_init(&c->sink.out, c->sink.out.max);
		}
	} else if (c->out_off > SBX_FRONT_OUT_MARK &&
	    c->out_off > c->sink.out.len / 2) {
		sbx_buf_consume(&c->sink.out, c->out_off);
		c->out_off = 0;
	}
}

void
conn_resume(struct conn *c)
{
	if (c->state != CONN_PAUSED || monitor_lags(c->f) ||
	    conn_unsent(c) >= SBX_FRONT_OUT_MARK / 2)
		return;
	conn_set_state(c, CONN_OPEN);
	conn_take(c);
}

void
conn_on_out(int fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	(void)what;
	if (c->state == CONN_DEAD)
		return;
	conn_flush(c);
	conn_resume(c);
	conn_arm(c);
}

/* struct sink's send: a message is a line. */
void
conn_send(struct sink *s, bool last)
{
	struct conn *c = (struct conn *)((char *)s -
	    offsetof(struct conn, sink));

	(void)last;
	(void)sbx_buf_add(&s->out, "\n", 1); /* the flag tells */
	conn_sent(c);
}

void
conn_sent(struct conn *c)
{
	if (c->sink.out.overflow) {
		conn_end(c, "it does not read");
		return;
	}
	if (c->sent_ns == 0)
		c->sent_ns = sbx_mono_ns();
	if (!c->feeding)
		conn_flush(c);
	conn_arm(c);
}
