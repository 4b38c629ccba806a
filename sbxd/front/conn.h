#ifndef SBX_FRONT_CONN_H
#define SBX_FRONT_CONN_H

/*
 * A client's connection: the stdio pair or an accepted Unix socket, both with
 * one JSON-RPC message a line, or one that speaks HTTP (http.h).
 * Source: MCP revision 2026-07-28, basic/transports/stdio.
 */

#include "sbxd/front/sink.h"

enum conn_state {
	CONN_AUTH,	/* waits for FRONT_PRINCIPAL; nothing is read */
	CONN_OPEN,	/* requests are read and answered */
	CONN_PAUSED,	/* it does not read its answers, or the monitor lags
			 * behind: no requests are read */
	CONN_DEAD,	/* freed from the loop; nothing is read or sent */
	CONN_STATE_MAX
};

/* What kind of descriptor it is: how not to block on it. */
enum conn_io {
	CONN_IO_READY,	/* pipe, socket: O_NONBLOCK and the event loop */
	CONN_IO_TTY,	/* the loop; shared with others, so it stays blocking */
	CONN_IO_FILE,	/* no readiness (file, /dev/null), never blocks long */
};

struct conn {
	struct front *f;
	struct conn *next;
	struct listener *from;	/* NULL: stdio */
	struct http *http;	/* owned; NULL: lines */
	uint32_t number;	/* in FRONT_AUTH; 0: stdio */
	enum conn_state state;
	struct sink sink;	/* lines */
	struct client client;
	int fd_in, fd_out;	/* the same number for a socket */
	enum conn_io io_in, io_out;
	bool first;		/* nothing was received yet */
	bool discard;		/* in a message that is too long */
	bool feeding;		/* flushed when all lines are handled */
	bool warned;		/* of descriptors that are not wanted */
	struct event *ev_in, *ev_out, *deadline, *reap;
	struct event *ev_next;	/* look at what is buffered */
	struct sbx_buf in;
	size_t in_off, in_seen;	/* handled; searched for a newline */
	size_t out_off;		/* written */
	uint64_t line_ns;	/* monotonic: when a message began */
	uint64_t sent_ns;	/* when output last moved; 0: none waits */
};

/* fd: owned.  Starts in CONN_AUTH: the monitor is asked who it is. */
void conn_new_unix(struct listener *l, int fd);
/* fd: owned.  Starts in CONN_OPEN; each request says who it is. */
void conn_new_http(struct listener *l, int fd);
/* All are taken: end the one that has been without a request for longest. */
void conn_make_room(struct listener *l);
/* Both owned.  Starts in CONN_OPEN. */
struct conn *conn_new_stdio(struct front *f, int fd_in, int fd_out,
    uint64_t principal);
/* The monitor's word on connection `number`; principal 0: refused. */
void conn_authenticated(struct front *f, uint32_t number, uint64_t principal,
    const char *reason);
/* End it from anywhere: it is freed from the loop, its calls are cancelled. */
void conn_end(struct conn *c, const char *why);
/* Free it now, without a word to the monitor. */
void conn_free(struct conn *c);

/* conn_io.c: */
/* The input path: any number of bytes, whole lines are handled. */
void conn_feed(struct conn *c, const void *data, size_t len);
/* Handle what is buffered, while it is CONN_OPEN. */
void conn_take(struct conn *c);
/* What HTTP does with it: c->http is not NULL. */
void http_take(struct conn *c);
void http_conn_free(struct conn *c);
/* Go on reading requests, if all that it was paused for is over. */
void conn_resume(struct conn *c);
void conn_send(struct sink *s, bool last);
/* Something was appended to c->sink.out: send what can be sent. */
void conn_sent(struct conn *c);
void conn_flush(struct conn *c);
size_t conn_unsent(const struct conn *c);
void conn_on_in(int fd, short what, void *arg);
void conn_on_out(int fd, short what, void *arg);
/* f->resume (conn.c) */
void conn_on_resume(int fd, short what, void *arg);
/* Watch the times that apply to its state now (conn.c). */
void conn_arm(struct conn *c);
void conn_set_state(struct conn *c, enum conn_state state);

#endif
