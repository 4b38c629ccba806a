#ifndef SBX_FRONT_FRONT_H
#define SBX_FRONT_FRONT_H

#include "common/base/limits.h"
#include "common/proto/peer.h"
#include "sbxd/front/revs.h"

struct call;
struct conn;
struct http_session;
struct http_user;
struct input;
struct stream;
struct sub;
struct task;
struct event;
struct event_base;
struct json_tokener;

/* The table: streams of subscriptions, which are idle for hours, take nothing
 * from what is worked on. */
#define SBX_FRONT_CALLS (SBX_MAX_FRONT_CALLS + SBX_MAX_FRONT_LISTENS)

enum listener_kind { LISTENER_UNIX, LISTENER_HTTP, LISTENER_MAX };

struct listener {
	struct front *f;
	struct event *ev, *again;	/* owned, NULL: there is none */
	unsigned count, max;		/* connections */
	void (*accepted)(struct listener *l, int fd);	/* takes fd */
	uint64_t full_ns;		/* when it was last said that all are
					 * taken; monotonic */
};

struct front {
	struct event_base *base;
	struct sbx_peer *monitor;	/* NULL in tests of the input path */
	struct json_tokener *tokener;	/* reused for every envelope */
	/* connections; conn.c */
	struct conn *conns;
	uint32_t last_conn;
	struct listener listeners[LISTENER_MAX];
	struct event *resume;		/* looks again at paused connections */
	/* of HTTP; http_auth.c, http_session.c, http_stream.c */
	struct http_user *users;
	struct http_session *sessions;
	struct stream *streams;
	unsigned nusers, nsessions, nstreams;
	uint32_t last_stream;
	struct event *sweep;
	size_t kept;			/* bytes of events that may be asked
					 * for again */
	size_t bodies;			/* bytes of all requests under way */
	bool http_open;			/* no token is needed */
	uint32_t http_hold_s;		/* of a silent answer; 0: no end */
	char http_hosts[256];		/* names of ours beside loopback */
	char chunk[65536];		/* of input, used up at once */
	/* calls in flight; calls.c */
	struct call *calls[SBX_FRONT_CALLS];
	unsigned ncalls, nlistens;	/* the latter among the former */
	uint32_t last_call;
	/* calls that their clients will make again; inputs.c */
	struct input *inputs;
	unsigned ninputs;
	uint64_t last_ask;	/* ids of requests of ours; inputs_legacy.c */
	struct task *tasks;	/* tasks.c */
	unsigned ntasks;
	size_t task_bytes;	/* of what they ended with */
	struct sub *subs;	/* subs.c */
	unsigned nsubs;
	uint8_t profile;	/* which tools are listed: SBX_PROFILE_* */
	int exit_code;
};

extern const struct sbx_dispatch_table front_from_monitor;
extern const char front_instructions[];	/* at most 2,048 bytes */

/*
 * base: borrowed, must outlive f.  profile: "", "implement", "review" or
 * "issue", which tools are listed; all can be called under any.
 * 0, SBX_E_NOENT (another word; f is not initialised).
 */
int front_init(struct front *f, struct event_base *base, const char *profile);
/* Sends what goes without waiting, then ends all connections without a word
 * to the monitor. */
void front_clear(struct front *f);
/* Accept on fd (owned, listening), up to a limit at once.
 * 0, SBX_E_EXISTS (there is one of the kind; fd is closed). */
int front_listen(struct front *f, enum listener_kind kind, int fd);
/* One of its connections has gone. */
void listen_freed(struct listener *l);
void listen_clear(struct listener *l);

/*
 * What the front tells the monitor (to_monitor.c).  Borrowed descriptors.
 * Without a channel they do nothing and return 0; else what sbx_peer_send()
 * returns.  None of them waits.
 */
/* Does it lag behind?  Then no more requests are taken from clients, for a
 * channel that is not read in the end takes the front with it. */
bool monitor_lags(const struct front *f);
int monitor_auth(struct front *f, uint32_t conn, int fd);
/* sha256: of a bearer token, 64 hex digits */
int monitor_token(struct front *f, uint32_t number, const char *sha256);
int monitor_gone(struct front *f, uint64_t principal);
int monitor_root(struct front *f, uint64_t principal, int fd);
int monitor_eof(struct front *f);
int monitor_call(struct front *f, const struct sbx_call *call, int fd);
int monitor_cancel(struct front *f, uint32_t call);
int monitor_unwatch(struct front *f, uint64_t principal, const char *run);

#endif
