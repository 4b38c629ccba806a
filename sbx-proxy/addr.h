#ifndef SBX_PROXY_ADDR_H
#define SBX_PROXY_ADDR_H

/*
 * Which addresses a sandbox may be led to: global unicast, and nothing else.
 * Source: the special-purpose address registries of IANA (RFC 6890 and what
 * updates it), RFC 4291, RFC 6052.
 */

#include <sys/socket.h>

/*
 * NULL: an ordinary address of the public Internet.  Else what it is, for a
 * human ("loopback", "private (RFC 1918)").  An IPv6 address that embeds an
 * IPv4 address in whatever way is never ordinary: what it leads to is decided
 * elsewhere.
 */
const char *addr_special(const struct sockaddr *sa);

#endif
