#ifndef SBX_PROXY_ISSUE_H
#define SBX_PROXY_ISSUE_H

/*
 * The three kinds of certificates that a sandbox's authority consists of and
 * makes.  Source: RFC 5280 section 4; RFC 6125 section 6.4.4 (no common name
 * in a leaf).  All: P-256, SHA-256, random serial numbers.  NULL: OpenSSL says
 * why in its queue.
 */

#include "common/base/base.h"
#include "sbx-proxy/policy.h"

#include <openssl/x509.h>

static inline void
sbx_cleanup_x509(X509 **x)
{
	X509_free(*x);
}

static inline void
sbx_cleanup_pkey(EVP_PKEY **k)
{
	EVP_PKEY_free(*k);	/* wipes */
}

EVP_PKEY *issue_key(void);
/* container: stands in the name. */
X509 *issue_root(const char *container, EVP_PKEY *key);
/* For all names below what p intercepts, and for no others. */
X509 *issue_intermediate(const char *container, const struct policy *p,
    EVP_PKEY *key, const X509 *root, EVP_PKEY *root_key);
/* name: as host_read() leaves it.  Valid as long as its issuer. */
X509 *issue_leaf(const char *name, EVP_PKEY *key, const X509 *issuer,
    EVP_PKEY *issuer_key);
/* Append its text.  0, SBX_E_LIMIT, SBX_E_SYS. */
int issue_pem(X509 *x, struct sbx_buf *b);
/* The common name of container's root or intermediate. */
void issue_name(const char *container, const char *what, char ret_name[65]);

#endif
