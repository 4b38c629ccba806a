#ifndef SBX_FRONT_HTTP_H
#define SBX_FRONT_HTTP_H

/*
 * MCP over HTTP: Streamable HTTP of every revision that has it at /mcp, and
 * the older pair of 2024-11-05 at /sse and /messages.
 * Source: MCP revisions 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and
 * 2026-07-28, basic/transports.
 *
 *	HEAD --> ASK --> BODY --> ANSWER --> HEAD	of a connection
 *
 * What a request may do is settled in HEAD, and who it is from, at the latest
 * in ASK, by the monitor: nobody's body is taken.
 */

#include "common/http/http.h"
#include "sbxd/front/conn.h"

#define HTTP_ID_HEX 32		/* digits of a session's id: 128 bits */
#define HTTP_TOKEN_MAX 1024u	/* bytes of a bearer token */

/* in the order of the picture above */
enum http_state { HTTP_HEAD, HTTP_ASK, HTTP_BODY, HTTP_ANSWER, HTTP_STATE_MAX };

struct http_route;

struct http {			/* of a connection */
	enum http_state state;
	char *text;		/* owned: what head refers to */
	struct sbx_http_head head;
	const struct http_route *route;
	struct sbx_http_chunks chunks;
	struct sbx_buf body;
	struct http_user *user;	/* borrowed; of the request */
	struct stream *stream;	/* that answers on it; NULL */
	bool closing;		/* when all is sent */
	bool bodiless;		/* HEAD: the answer is without its body */
};
struct http *http_conn_new(void);

/* --- http_auth.c: who it is ------------------------------------------------- */

/* A bearer token that was shown, by its digest: never the token itself. */
struct http_user {
	struct http_user *next;
	uint32_t number;	/* in FRONT_TOKEN */
	char sha256[65];
	bool known;		/* principal says, 0 is nobody */
	uint64_t principal;
	unsigned refs;		/* sessions, streams and requests */
	unsigned nsessions, nstreams;	/* among these */
	size_t bodies;		/* bytes of its requests under way */
	uint64_t used_ns, said_ns;	/* said: by the monitor, last */
};
/* By the request's Authorization; a reference for the caller in *ret_u.
 * 0, SBX_E_NOENT (there is no token), SBX_E_LIMIT (the table is full). */
int http_user_get(struct front *f, const struct sbx_http_head *head,
    struct http_user **ret_u);
void http_user_put(struct http_user *u);
/* FRONT_USER: what waited for it goes on. */
void http_user_known(struct front *f, uint32_t number, uint64_t principal);
/* Forget who was not seen for long; the monitor is told. */
void http_user_sweep(struct front *f, uint64_t now_ns);

/* --- http_session.c ------------------------------------------------------------ */

struct http_session {
	struct http_session *next;
	struct front *f;
	char id[HTTP_ID_HEX + 1];
	struct client client;
	struct http_user *user;	/* a reference */
	struct stream *get;	/* the newest of GET, open if one is; NULL */
	bool pair;		/* 2024-11-05: GET answers everything */
	uint64_t used_ns;
};
/* Ends one that is idle if there are too many.  NULL: none is. */
struct http_session *http_session_new(struct front *f, struct http_user *u);
/* NULL: there is none of that id that is this user's. */
struct http_session *http_session_find(struct front *f, struct sbx_text id,
    const struct http_user *u);
/* Cancels what is under way in it. */
void http_session_end(struct http_session *s);
void http_session_sweep(struct front *f, uint64_t now_ns);
/* initialize was served on this sink: if HTTP, a session begins. */
int http_session_begin(struct sink *to);

/* --- http_stream.c: an answer under way ---------------------------------------- */

struct kept {			/* an event that may be asked for again */
	struct kept *next;
	unsigned seq;
	size_t len;
	char text[];
};

struct stream {
	struct stream *next;
	struct sink sink;
	struct client own;		/* where there is no session */
	struct http_session *session;	/* borrowed; NULL: there is none */
	struct http_user *user;		/* a reference */
	struct conn *c;			/* NULL: its client went away */
	uint32_t id;
	unsigned seq;
	bool sse, done, endless;
	struct kept *kept, **kept_end;
	size_t kept_bytes;
	uint64_t used_ns;
	uint64_t said_ns;		/* when it said something on c */
	struct event *timer;		/* comments that keep it alive */
};
/* For the request of c.  session: NULL, or whose ids it uses.  One that waits
 * for its client to come back may end for it.  NULL: too many. */
struct stream *stream_new(struct conn *c, struct http_session *session,
    struct http_user *u);
/* An event as it is: "data: ...\n\n". */
void stream_event(struct stream *st, const char *text, size_t len);
/* Begin the events, if not begun. */
void stream_open(struct stream *st);
/* Its request was handed over: answer now what will not be answered later. */
void stream_settle(struct stream *st);
/* Its connection is gone, its session ends, or the front does. */
void stream_detach(struct stream *st);
void stream_free(struct stream *st);
/* Go on with an interrupted one on c.  after: the last event that came. */
void stream_resume(struct stream *st, struct conn *c, unsigned after);
/* "ID-SEQ" as events have it, "gID-SEQ" on a stream of GET. */
bool stream_event_id(const char *text, bool *ret_get, unsigned *ret_id,
    unsigned *ret_seq);
/* A stream of GET for the request of c: the oldest of too many ends.  NULL:
 * as stream_new(). */
struct stream *stream_of_get(struct conn *c, struct http_session *s);
struct stream *stream_find(struct front *f, uint32_t id,
    const struct http_session *s);
void stream_sweep(struct front *f, uint64_t now_ns);

/* --- http.c ------------------------------------------------------------------------ */

/* A whole answer, and the next request.  type NULL: no body.  more: header
 * lines, each with its CRLF, or "". */
void http_respond(struct conn *c, int status, const char *type,
    const char *more, const char *body, size_t len);
/* A plain refusal, said in one sentence. */
void http_refuse(struct conn *c, int status, const char *fmt, ...)
    SBX_PRINTF(3, 4);
/* The answer on c has ended: the next request. */
void http_answered(struct conn *c);
/* Its user is known now. */
void http_go_on(struct conn *c);
/* The status for a JSON-RPC error of a revision (0: a result). */
int http_status(const struct sink *s);
void http_start(struct front *f);
void http_clear(struct front *f);

/* --- http_check.c -------------------------------------------------------------------- */

/*
 * Do the request's headers say what its body says?  method, name: of the
 * body; name NULL: the method has none.  NULL, or what differs.
 * Source: MCP revision 2026-07-28, basic/transports/streamable-http.
 */
const char *http_mismatch(const struct sbx_http_head *h, const char *version,
    const char *method, const char *name);
/* Does MCP-Protocol-Version say another one? */
bool http_version_differs(const struct sbx_http_head *h, const char *version);
/* Is v, plain or in the base64 form, the text s? */
bool http_says(struct sbx_text v, const char *s);
/* Host and Origin name this machine, or one of the names in `also`, which
 * are separated by blanks.  NULL, or what does not. */
const char *http_foreign(const struct sbx_http_head *h, const char *also);

#endif
