#ifndef SBX_PROXY_DIAL_H
#define SBX_PROXY_DIAL_H

/*
 * From a name that is allowed to a connected socket: pins, then DNS, then each
 * address is classified (addr.h), and exactly what was classified is dialled;
 * the peer's address is looked at again.  A pinned address is the operator's
 * choice and may be anything.
 */

#include "sbx-proxy/proxy.h"

#define DIAL_S 20		/* from the question to the connection, in all */
#define DIAL_ADDRS 8		/* tried, of one answer */

struct dial;
/* fd: connected, non-blocking, owned by the callee; or -1 with code (a stable
 * word: dns_failed, address_refused, connect_failed, timeout) and why, a
 * sentence without its full stop, valid during the call.  Never called from
 * within dial_start(), nor after dial_cancel(). */
typedef void (*dial_done)(void *ctx, int fd, const char *code,
    const char *why);
/* h was allowed by the policy.  Never NULL. */
struct dial *dial_start(struct proxy *x, const struct host *h, uint16_t port,
    dial_done done, void *ctx);
void dial_cancel(struct dial *d);	/* NULL ok */

/* The name servers of resolv.conf(5); searches are not done.
 * text: NUL-terminated.  Replaces what was there; questions under way go on
 * with what was there. */
void dial_resolver(struct proxy *x, const char *text);

#endif
