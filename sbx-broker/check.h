#ifndef SBX_BROKER_CHECK_H
#define SBX_BROKER_CHECK_H

/* Texts of the monitor's messages, read as strictly as another's: what they
 * mean decides what a credential is used for. */

#include <stdbool.h>

bool check_host(const char *s);	/* canonical, as sbx-proxy/host.h reads it */
/* "OWNER/NAME"; in lower case unless upper. */
bool check_repo(const char *s, bool upper);
bool check_oid(const char *s);	/* of SHA-1 or SHA-256 */

#endif
