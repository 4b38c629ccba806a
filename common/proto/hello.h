#ifndef SBX_PROTO_HELLO_H
#define SBX_PROTO_HELLO_H

#include "common/proto/peer.h"

/*
 * A daemon's first words on its channel p to the monitor (borrowed): HELLO,
 * and from then on its log as LOG.  version: of the program; features: what
 * sbx_privs_enter() gave.  p's on_end, and main() before it frees p, must call
 * sbx_log_to(NULL, NULL).
 * 0, or what sbx_peer_send() returns; the log then stays where it was.
 */
int sbx_peer_hello(struct sbx_peer *p, const char *version, uint32_t features);

#endif
