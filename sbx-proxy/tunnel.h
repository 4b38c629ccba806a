#ifndef SBX_PROXY_TUNNEL_H
#define SBX_PROXY_TUNNEL_H

#include "sbx-proxy/proxy.h"

#define TUNNEL_HELLO_S 10	/* for a whole ClientHello */
#define TUNNEL_IDLE_S 300	/* no byte either way */
#define TUNNEL_LIFE_S 86400

struct evbuffer;

/*
 * CONNECT to a host whose bytes are passed as they are.  Dials, answers 200 (or
 * 502, 504 with a sentence), waits for the ClientHello, which must ask for the
 * same name (for an IP address: for none), passes it on and then splices.
 * Bytes to the host are counted, and past the sandbox's budget for it the
 * tunnel ends.  fd: consumed.  early: what the client sent after its CONNECT,
 * consumed, may be NULL.
 */
void tunnel_start(struct listener *l, int fd, const struct host *h,
    uint16_t port, struct evbuffer *early);
/* Pipes that are kept: at the end. */
void tunnel_pipes_free(struct proxy *x);

#endif
