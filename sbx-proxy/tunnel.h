#ifndef SBX_PROXY_TUNNEL_H
#define SBX_PROXY_TUNNEL_H

#include "sbx-proxy/proxy.h"

#define TUNNEL_HELLO_S 10	/* for a whole ClientHello */
#define TUNNEL_IDLE_S 300	/* no byte either way */
#define TUNNEL_LIFE_S 86400	/* looked at every TUNNEL_IDLE_S */

/*
 * CONNECT to a host whose bytes are passed as they are.  Dials, answers 200 (or
 * 502, 504 with a sentence), waits for the ClientHello, which must ask for the
 * same name (for an IP address: for none), passes it on and then splices.
 * Bytes to the host are counted, and past the sandbox's budget for it the
 * tunnel ends.  fd: consumed; what the client has sent after its CONNECT is
 * still in it.
 */
void tunnel_start(struct listener *l, int fd, const struct host *h,
    uint16_t port);
/* Pipes that are kept: at the end. */
void tunnel_pipes_free(struct proxy *x);

#endif
