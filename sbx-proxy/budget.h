#ifndef SBX_PROXY_BUDGET_H
#define SBX_PROXY_BUDGET_H

/*
 * How many bytes a sandbox may send to one host whose requests are not looked
 * into, in tunnels and in plain HTTP together.  The first hosts have a slot
 * each, the rest share the last one.
 */

#include "sbx-proxy/proxy.h"

/* Of that host in l, for all of l's life. */
unsigned budget_slot(struct listener *l, const struct host *h);
/* Bytes; by the policy of now. */
uint64_t budget_left(const struct listener *l, unsigned slot);
void budget_take(struct listener *l, unsigned slot, uint64_t bytes);

#define BUDGET_CODE "budget_used_up"
#define BUDGET_WHY "the sandbox sent as many bytes to this host as it may " \
	"(tunnel_out_bytes)"

#endif
