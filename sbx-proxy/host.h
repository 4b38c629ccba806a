#ifndef SBX_PROXY_HOST_H
#define SBX_PROXY_HOST_H

/*
 * Names of hosts in one form: what is allowed, looked up, compared with SNI
 * and Host, and written into the journal is this and nothing else.
 * Source: RFC 1123 section 2.1, RFC 3986 section 3.2.2.
 */

#include "common/http/http.h"

#include <stdint.h>

#define HOST_MAX 253u		/* bytes of a name; RFC 1035 section 2.3.4 */

enum host_kind { HOST_NAME, HOST_V4, HOST_V6, HOST_KIND_MAX };

struct host {
	enum host_kind kind;
	char text[HOST_MAX + 1]; /* lower case, no dot at the end; an address
				  * as inet_ntop(3) writes it, no brackets */
};

/*
 * Letters, digits and '-' in labels of 1..63 bytes; one dot at the end is
 * dropped; "1.2.3.4" and "[v6]" are addresses.  Other forms that some resolver
 * takes for an address (0x7f.1, 2130706433, 127.1, 010.0.0.1) are refused.
 * 0, SBX_E_SYNTAX.
 */
int host_read(struct sbx_text t, struct host *ret_host);
/* "host:port", or without ":port" and port_default (0: it must be there).
 * A port is 1..65535 without leading zeros.  0, SBX_E_SYNTAX. */
int host_port_read(struct sbx_text t, uint16_t port_default,
    struct host *ret_host, uint16_t *ret_port);

#endif
