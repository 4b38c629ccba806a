#ifndef SBX_PROXY_CA_H
#define SBX_PROXY_CA_H

/*
 * The authority of one sandbox.  A root, whose key is destroyed after its one
 * signature, goes into the sandbox; its intermediate, constrained to the names
 * that are intercepted, issues a leaf for each (RFC 5280 section 4.2.1.10).
 * Keys are P-256.  Leaves have no common name.
 */

#include "common/base/base.h"
#include "sbx-proxy/policy.h"

#include <openssl/ssl.h>

#define CA_LEAVES 64		/* contexts kept, the oldest go first */
#define CA_DAYS 30		/* of a root, an intermediate and a leaf */
#define CA_ROOTS_MAX (2u << 20)	/* bytes of the roots, as PEM */
#define CA_OWN_MAX 8192u	/* of the sandbox's own root, in any form */
#define CA_NAMES_MAX 49152	/* bytes of an intermediate, which clients have to
				 * take: they stop at 100 KiB at the latest */
#define CA_KEPT_MAX 65536u	/* bytes of what the engine keeps */

/* The roots that upstreams are verified with. */
struct roots {
	X509_STORE *store;	/* owned */
	struct sbx_buf pem;	/* written anew: certificates, nothing else */
	struct sbx_buf jks;	/* entries of a Java key store, without head
				 * and digest */
	unsigned n;
};
/* pem: any text with certificates.  0, SBX_E_SYNTAX (not one certificate,
 * or what is none between the marks), SBX_E_LIMIT. */
int roots_read(const char *pem, size_t n, struct roots **ret,
    struct sbx_err *err);
void roots_free(struct roots *r);	/* NULL ok */

struct ca;
/* For a new sandbox: what p intercepts is what it may issue.  0, SBX_E_SYS. */
int ca_make(const char *container, const struct policy *p, struct ca **ret,
    struct sbx_err *err);
/* From what the engine kept; fd: borrowed.  0, SBX_E_SYNTAX. */
int ca_load(int fd, const char *container, struct ca **ret,
    struct sbx_err *err);
/* ret_fds, owned by the caller: the descriptors of PROXY_TRUST. */
int ca_trust(const struct ca *ca, const struct roots *roots, int ret_fds[4],
    struct sbx_err *err);
/* For TLS with a client that asked for that host: leaf and chain, TLS 1.2 and
 * newer, ALPN http/1.1, no tickets.  *ret: borrowed, until the next call.
 * 0; SBX_E_POLICY: the authority may not issue it (the sandbox is older than
 * the entry); SBX_E_SYS. */
int ca_context(struct ca *ca, const struct host *h, SSL_CTX **ret,
    struct sbx_err *err);
void ca_free(struct ca *ca);		/* NULL ok; wipes the key */

/* For TLS with an upstream: verified with roots, TLS 1.2 and newer, ALPN
 * http/1.1, no renegotiation.  Owned by the caller; NULL: no memory. */
SSL_CTX *ca_upstream(const struct roots *roots);

#endif
