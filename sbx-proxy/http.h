#ifndef SBX_PROXY_HTTP_H
#define SBX_PROXY_HTTP_H

/*
 * HTTP through the proxy: plain requests in absolute form, and those inside a
 * connection whose TLS ends here.  One decision a request; what goes on is
 * written anew from what was read.
 */

#include "sbx-proxy/proxy.h"

#define HTTP_HEAD_S 30		/* for a whole head */
#define HTTP_IDLE_S 120		/* between two requests, and without a byte */
#define HTTP_BUFFER 262144u	/* bytes that one direction holds at most */
#define HTTP_DRAIN 262144u	/* of a refused body, read so that the answer
				 * is; then the connection closes */
#define HTTP_DRAIN_PACK (256u << 20) /* the same of a refused push */

#define HTTP_LINGER_S 5		/* for a client to close after the last answer */

struct evbuffer;

/* The first request of a plain connection has been read by client.c and is at
 * the head of `in` (consumed), not yet taken.  fd: consumed. */
void http_start(struct listener *l, int fd, struct evbuffer *in);
/* CONNECT to an intercepted host: answers 200 and begins TLS.  What the client
 * has sent after its CONNECT is still in the socket. */
void http_start_tls(struct listener *l, int fd, const struct host *h,
    uint16_t port, enum policy_how how);

/* An answer of ours: text/plain, "BLOCKED by sbx: WHY. MEND" and a line's end
 * for 403 and 421, else "sbx: WHY"; with Connection: close unless keep. */
void http_refusal(struct evbuffer *out, unsigned status, const char *why,
    const char *mend, bool keep);

#endif
