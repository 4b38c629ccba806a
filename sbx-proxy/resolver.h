#ifndef SBX_PROXY_RESOLVER_H
#define SBX_PROXY_RESOLVER_H

/*
 * A stub resolver: A and AAAA of one name, from the name servers that it was
 * told.  Not evdns: that one asks for a name of its own choice when a server
 * fails, sends all from one port, and cannot be told apart whose questions
 * wait.  Here each question has a socket, so a random port, of its own, and
 * what nobody allowed is never asked.
 */

#include "sbx-proxy/dns.h"

#define RESOLVER_SERVERS 3	/* as of resolv.conf(5) */
#define RESOLVER_ROUNDS 2	/* each is asked */
#define RESOLVER_TRY_MS 3000	/* for an answer */
#define RESOLVER_SECOND_MS 250	/* for the other family's, RFC 8305 */

struct ask;
struct event_base;
struct resolver;

/* The nameserver lines of resolv.conf(5); text: NUL-terminated.  NULL: there
 * are none.  Owned by the caller. */
struct resolver *resolver_new(struct event_base *base, const char *text);
/* NULL ok.  Questions under way go on with what they know. */
void resolver_free(struct resolver *r);

/* addrs: those of both families, n of them, port 0; valid during the call.
 * NULL: none, and why, a part of a sentence ("... does not exist"). */
typedef void (*ask_done)(void *ctx, const struct dns_addrs *addrs,
    const char *why);
/* name: canonical, no address.  Never NULL; done is never called from within,
 * nor after ask_cancel(). */
struct ask *ask_start(const struct resolver *r, const char *name,
    ask_done done, void *ctx);
void ask_cancel(struct ask *a);	/* NULL ok; not after done was called */

#endif
