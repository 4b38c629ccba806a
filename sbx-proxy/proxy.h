#ifndef SBX_PROXY_PROXY_H
#define SBX_PROXY_PROXY_H

/*
 * What the proxy holds: one struct, passed down.  Which sandbox speaks is
 * known by the listening socket that it came to, and by nothing that it sends.
 */

#include "common/base/limits.h"
#include "common/proto/peer.h"
#include "sbx-proxy/policy.h"

#include <sys/queue.h>

struct ca;
struct conn;
struct denials;
struct event;
struct grant;
struct http;
struct order;
struct resolver;
struct roots;

/* One sandbox.  Listens when it has a socket, was opened, and has in it what
 * its clients need to trust us. */
struct listener {
	LIST_ENTRY(listener) link;
	struct proxy *x;
	char container[SBX_CONTAINER_HEX + 1];
	char principal[65];
	int fd;			/* owned; bound inside it; -1: not come yet */
	uint64_t netns;		/* the kernel's cookie of its namespace, or 0 */
	bool open;		/* PROXY_OPEN came */
	bool trusted;		/* PROXY_TRUSTED came */
	uint32_t open_id;	/* of the PROXY_OPEN that waits for its answer */
	struct event *deadline;	/* owned; of that answer; NULL: none is owed */
	struct event *accept;	/* owned; NULL: it refuses */
	struct event *later;	/* owned, with accept: when there is a descriptor
				 * again */
	bool paused;		/* nothing is accepted until there is room */
	struct ca *ca;		/* owned; NULL: none yet */
	struct denials *denials; /* owned */
	LIST_HEAD(, conn) conns;
	unsigned nconns;
	LIST_HEAD(, grant) grants; /* owned */
	/* bytes sent to tunnelled hosts; the last slot counts for the rest */
	struct { struct host host; uint64_t bytes; } out[SBX_PROXY_BUDGETS];
};
LIST_HEAD(listener_list, listener);

struct proxy {
	struct event_base *base;	/* owned */
	struct sbx_peer *monitor;	/* owned; NULL: its channel ended */
	struct sbx_peer *engine;	/* owned; NULL until introduced */
	struct sbx_peer *journald;	/* owned; NULL until introduced */
	struct listener_list listeners;
	size_t nlisteners;
	/* A close can overtake the listener that it is for, since they come on
	 * different channels. */
	char closed[SBX_PROXY_CLOSED][SBX_CONTAINER_HEX + 1];
	unsigned closed_next;
	uint64_t own_netns;		/* cookie, 0 where unknown */
	struct policy policy;
	struct resolver *dns;		/* owned; NULL: no name server */
	struct roots *roots;		/* owned; NULL: there are none */
	unsigned nconns;
	bool full;		/* some wait for others' connections to end */
	int pipes[SBX_PROXY_PIPES][2];	/* owned; empty ones, for the next */
	unsigned npipes;
	unsigned ngrants;
	LIST_HEAD(, http) exchanges;	/* that couriers have or are to get */
	LIST_HEAD(, order) orders;	/* owned; PROXY_DIAL under way */
	unsigned norders;
	uint64_t lost_records;		/* since the journal took one */
	int exit_code;		/* of main(): 0, or 3 on a violation */
};

/* The cookie of the namespace we dial from.  Before the cage. */
void listener_init(struct proxy *x);
/* The one of container, made without a socket if there is none.  NULL, with
 * *ret_errno and *ret_reason as of listener_add(). */
struct listener *listener_get(struct proxy *x, const char *container,
    int *ret_errno, const char **ret_reason);
/*
 * Hold fd (consumed) as the socket of container, which must be
 * SBX_CONTAINER_HEX digits.  0, or errno with *ret_reason a sentence:
 * EINVAL not an id or not such a socket, EEXIST held or ended already,
 * ENFILE SBX_MAX_SANDBOXES are held.
 */
int listener_add(struct proxy *x, const char *container, int fd,
    const char **ret_reason);
/* NULL: there is none. */
struct listener *listener_find(struct proxy *x, const char *container);

/* --- opening ------------------------------------------------------------------ */

#define OPENING_S 10		/* PROXY_OPENED is sent by then */

/* PROXY_OPEN: make its authority unless one was kept, hand it to the engine,
 * listen when all is there.  Answers id with one PROXY_OPENED, now or later. */
void listener_open(struct proxy *x, uint32_t id, const char *container,
    const char *principal);
/* Its socket came, maybe in place of an older one. */
void listener_came(struct listener *l);
/* It ends: the answer that is still owed. */
void listener_not_opened(struct listener *l);
/* Of PROXY_KEPT and PROXY_TRUSTED; fd: consumed. */
void listener_kept(struct proxy *x, const char *container, int fd);
void listener_trusted(struct proxy *x, const char *container, int error,
    const char *reason);

/* --- their end ----------------------------------------------------------------- */

/* Close it and end its connections, if held; refuse it if it comes later. */
void listener_close(struct proxy *x, const char *container);
void listener_close_all(struct proxy *x);
/* The policy has changed: end what it does not allow any more, or what it would
 * lead to another place. */
void listener_recheck(struct proxy *x, const struct policy *old);

/* --- connections ------------------------------------------------------------ */

/* Listen and accept from now on.  0, errno. */
int accept_start(struct listener *l);
void accept_stop(struct listener *l);
/* What ends an accept4(2) that a sandbox made block.  Before the cage. */
void accept_init(void);

/* A client's connection, in whatever is made of it (client.c, tunnel.c,
 * http.c); the first member of that. */
struct conn {
	LIST_ENTRY(conn) link;
	struct listener *l;
	/* Free all of it, conn_remove() included; why: for the record. */
	void (*end)(struct conn *c, const char *why);
	bool led;		/* the rest says where to */
	enum policy_scheme scheme;
	enum policy_how how;
	struct host host;
	uint16_t port;
};
/* Counted, and ended with its listener.  False: SBX_PROXY_CONNS of this
 * sandbox are there; c is not added. */
bool conn_add(struct conn *c, struct listener *l,
    void (*end)(struct conn *c, const char *why));
void conn_remove(struct conn *c);
/* A client that was accepted (client.c); fd: consumed. */
void client_start(struct listener *l, int fd);

/* --- channels ---------------------------------------------------------------- */

/* A channel to the engine or the journal (fd consumed); replaces an older one,
 * whose sockets are closed.  0: on_introduce() returns it. */
int proxy_add_engine(struct proxy *x, int fd);
int proxy_add_journald(struct proxy *x, int fd);

extern const struct sbx_dispatch_table proxy_from_monitor;
extern const struct sbx_dispatch_table proxy_from_engine;
extern const struct sbx_dispatch_table proxy_from_journald;

#endif
