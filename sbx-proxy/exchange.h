#ifndef SBX_PROXY_EXCHANGE_H
#define SBX_PROXY_EXCHANGE_H

/*
 * One client's connection of HTTP, and the request that is under way on it:
 * what http.c (connection), request.c (verdict), upstream.c and relay.c share.
 *
 * libevent's callbacks are deferred, note what happened and run the machine
 * with http_run() as the last thing they do: only there is a connection freed.
 */

#include "common/http/http.h"
#include "sbx-proxy/body.h"
#include "sbx-proxy/gate.h"
#include "sbx-proxy/http.h"
#include "sbx-proxy/proxy.h"
#include "sbx-proxy/record.h"

#include <openssl/ssl.h>

struct bufferevent;
struct dial;
struct evbuffer;
struct event;

#define HTTP_SIDE (HTTP_BUFFER / 2)	/* of it: read, and to be written */
#define HTTP_INTERIM 16u	/* 1xx before one answer */

enum http_state {
	ST_TLS,		/* the client's handshake */
	ST_HEAD,		/* for a request, or the rest of its head */
	ST_PUSH,		/* for the commands of a push */
	ST_REPORT,		/* for the end of one that is refused */
	ST_DIAL,		/* for a connection upstream */
	ST_UPTLS,		/* for its handshake */
	ST_RELAY,		/* request and answer are under way */
	ST_DRAIN,		/* no more requests: the answer goes out, and
				 * what still comes is dropped */
	ST_MAX
};

/* What a step of the machine says. */
enum step { STEP_WAIT, STEP_AGAIN, STEP_END };

/* One side that bytes come from and go to. */
struct side {
	struct bufferevent *bev;	/* owned; NULL: none */
	SSL *ssl;		/* of bev; NULL: plain */
	struct event *reader;	/* owned; of a plain one, which bev writes only */
	bool ended;		/* what lies in its buffer is all */
	bool failed;		/* and it did not end as it should */
	bool deaf;		/* takes nothing any more */
	bool paused;		/* is not read: its input is full */
	size_t seen;		/* bytes of a head that have no line's end */
};

struct upstream {
	struct side side;
	struct dial *dial;	/* owned; NULL: none is under way */
	enum policy_scheme scheme;
	struct host host;
	uint16_t port;
	unsigned answers;	/* on this connection */
	uint32_t exchange;	/* of the PROXY_EXCHANGE; 0: without courier */
	uint64_t told_by_ns;	/* its stream ended: why may be said until
				 * then; 0: it has not */
};

/* A request, from its head to the end of its answer. */
struct request {
	char *raw;		/* owned; the head's bytes */
	struct sbx_http_head head;	/* points into raw */
	const char *what;	/* "git read" ... */
	enum gate_class class;	/* of a host that is judged by gate.h */
	char repo[160];		/* "owner/name" */
	char grant[17];		/* that it rests on, or "" */
	bool courier;		/* and which says so */
	bool probe;		/* git asks whether a push would be heard */
	bool retried;
	bool begun;		/* bytes went upstream */
	bool answered;		/* the answer's head was passed */
	bool close;		/* the client's connection ends after it */
	bool last;		/* and the host's */
	unsigned status, interim;
	struct body out, in;	/* to the host, and to the client */
	struct evbuffer *push;	/* owned; read before the verdict, or in
				 * ST_REPORT what is said of it */
	uint64_t began_ns;
};

struct http {
	struct conn c;		/* the first member */
	LIST_ENTRY(http) exchange;	/* while up.exchange is not 0 */
	enum http_state state;
	struct side down;
	struct upstream up;
	struct request req;
	struct event *timer;	/* owned */
	uint64_t moved_ns;	/* when a byte came or went last, */
	size_t unsent;		/* and what was still to be written then */
	uint64_t dropped;	/* bytes, in ST_DRAIN */
	bool shut;		/* in it: all was sent, and the end of it */
	bool told;		/* why TLS failed is on record */
};

/* --- http.c ----------------------------------------------------------------------- */

/* Sets the state and its deadline; returns STEP_AGAIN. */
enum step http_enter(struct http *h, enum http_state state);
/* A shorter deadline than the state's. */
void http_hurry(struct http *h, unsigned seconds);
/* Go on, from what a step said; h may be gone then. */
void http_go(struct http *h, enum step step);
void http_run(struct http *h);
/* Read and write, with callbacks of this side; false: no memory.  s stays where
 * it is until side_close(). */
bool side_open(struct side *s, struct bufferevent *bev, SSL *ssl,
    void (*read)(struct bufferevent *, void *),
    void (*written)(struct bufferevent *, void *),
    void (*event)(struct bufferevent *, short, void *), struct http *h);
void side_close(struct side *s);
struct evbuffer *side_in(const struct side *s);
struct evbuffer *side_out(const struct side *s);
/* What may still be put into its output. */
size_t side_room(const struct side *s);
/* Read it, or not, as there is room. */
void side_pace(struct side *s);
/* Of a head that is still to be read: is there a line's end that was not
 * there before, so that it is worth a try?  Cheap for a client that sends
 * byte by byte. */
bool side_has_line(struct side *s);

/* --- request.c -------------------------------------------------------------------- */

struct refusal {
	enum layer layer;
	unsigned status;
	const char *code, *why, *mend;
};
/* Answer it ourselves, on record.  The connection goes on only if nothing of
 * the request is left to come. */
enum step http_refuse(struct http *h, const struct refusal *r);
/* Ask the client for the body that it announced (Expect: 100-continue). */
void http_continue(struct http *h);
enum step step_head(struct http *h);
enum step step_push(struct http *h);
enum step step_report(struct http *h);
/* Is what it rests on still there?  A push uses it up, and so does what a
 * courier reads.  False: refuse. */
bool request_use(struct http *h);
/* Bytes that may still go to a host whose requests are not looked into, and
 * that so many went. */
uint64_t request_budget(const struct http *h);
void request_spend(const struct http *h, size_t bytes);
extern const struct refusal budget_used_up;
/* It is over; end: "" when well.  Recorded if it had begun. */
void request_over(struct http *h, const char *end);
/* "https://host:port/path" into text. */
void request_target(const struct http *h, char *text, size_t size);

/* --- upstream.c ------------------------------------------------------------------- */

/* Towards ST_RELAY: on the connection that there is, or a new one. */
enum step upstream_go(struct http *h);
void upstream_close(struct http *h);
/* The head of the request, and what was held back of its body. */
enum step upstream_send(struct http *h);

/* --- courier.c -------------------------------------------------------------------- */

/* fd (consumed) was dialled for a request that rests on a grant with a
 * credential: on to the monitor with it.  Our end of the stream that is
 * upstream now, or -1. */
int courier_start(struct http *h, int fd);
void courier_end(struct http *h);
/* Its stream has ended before an answer.  True: why may be said yet. */
bool courier_may_say(struct http *h);

/* --- relay.c ---------------------------------------------------------------------- */

enum step step_relay(struct http *h);

#endif
