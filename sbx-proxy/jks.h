#ifndef SBX_PROXY_JKS_H
#define SBX_PROXY_JKS_H

/*
 * Java's own format of a key store, trusted certificates only.  Written rather
 * than PKCS #12, since it is read without a password, and by every Java: the
 * default type recognises it (security property keystore.type.compat).
 * Source: sun.security.provider.JavaKeyStore of OpenJDK.
 */

#include "common/base/base.h"

#define JKS_PASSWORD "changeit"	/* what everybody's is */

/* Append one entry.  alias: at most 64 bytes, unique, lower case.
 * 0, SBX_E_LIMIT. */
int jks_entry(struct sbx_buf *b, const char *alias, const uint8_t *der,
    size_t n);
/* Append a whole store of n entries.  0, SBX_E_LIMIT, SBX_E_SYS. */
int jks_store(struct sbx_buf *b, const struct sbx_buf *entries, unsigned n);

#endif
