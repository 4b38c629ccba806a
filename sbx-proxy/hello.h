#ifndef SBX_PROXY_HELLO_H
#define SBX_PROXY_HELLO_H

/*
 * The name that a TLS client asks for, before any of its bytes go on.
 * Source: RFC 8446 sections 4.1.2 and 5.1, RFC 6066 section 3, RFC 9849 (ECH).
 */

#include <stddef.h>
#include <stdint.h>

#define HELLO_MAX 16384u	/* bytes of a ClientHello */
#define HELLO_RAW_MAX 98304u	/* of the records that carry it, each of which
				 * may carry one byte */

/*
 * The n bytes at p are all that the client has sent.  However they are split
 * into records, the whole ClientHello is read.  ret_name: the one host name
 * in it, at most 255 bytes, as it stands there, no NUL inside.
 * 0; SBX_E_AGAIN: more bytes are needed (n is below HELLO_RAW_MAX);
 * SBX_E_NOENT: it asks for no name; SBX_E_SYNTAX: it is no ClientHello, it asks
 * for several names, or hides one (Encrypted Client Hello).  *ret_why says
 * what, for a human.
 */
int hello_name(const uint8_t *p, size_t n, char ret_name[256],
    const char **ret_why);

#endif
