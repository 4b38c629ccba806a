#ifndef SBX_PROXY_PROXY_H
#define SBX_PROXY_PROXY_H

#include "common/base/limits.h"
#include "common/proto/peer.h"


/* The egress socket of one sandbox: bound inside it, not listening. */
struct listener {
	char container[SBX_CONTAINER_HEX + 1];
	int fd;			/* owned */
	uint64_t netns;		/* the kernel's cookie of its namespace, or 0 */
};

struct proxy {
	struct event_base *base;	/* owned */
	struct sbx_peer *monitor;	/* owned; NULL: its channel ended */
	struct sbx_peer *engine;	/* owned; NULL until introduced */
	struct listener listeners[SBX_MAX_SANDBOXES];
	size_t nlisteners;
	/* A close can overtake the listener that it is for, since they come on
	 * different channels. */
	char closed[SBX_PROXY_CLOSED][SBX_CONTAINER_HEX + 1];
	unsigned closed_next;
	uint64_t own_netns;		/* cookie, 0 where unknown */
	int exit_code;		/* of main(): 0, or 3 on a violation */
};

/* The cookie of the namespace we dial from.  Before the cage. */
void listener_init(struct proxy *x);
/*
 * Hold fd (consumed) as the socket of container, which must be
 * SBX_CONTAINER_HEX digits.  0, or errno with *ret_reason a sentence:
 * EINVAL not an id or not such a socket, EEXIST held or ended already,
 * ENFILE SBX_MAX_SANDBOXES are held.
 */
int listener_add(struct proxy *x, const char *container, int fd,
    const char **ret_reason);
/* Close it, if held; refuse it if it comes later. */
void listener_close(struct proxy *x, const char *container);
void listener_close_all(struct proxy *x);

/* A channel to the engine (fd consumed); replaces an older one, whose sockets
 * are closed.  0: on_introduce() returns it. */
int proxy_add_engine(struct proxy *x, int fd);

extern const struct sbx_dispatch_table proxy_from_monitor;
extern const struct sbx_dispatch_table proxy_from_engine;

#endif
