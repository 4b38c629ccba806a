#ifndef SBX_PROXY_COURIER_H
#define SBX_PROXY_COURIER_H

/*
 * What the proxy does for couriers, who add credentials that it never sees: it
 * dials, and hands on.
 */

#include "sbx-proxy/proxy.h"

#define COURIER_ORDERS 16u	/* PROXY_DIAL under way */
#define COURIER_SAY_S 3		/* for why none took it, once its stream ended */

/* PROXY_DIAL, answered now or later. */
void courier_dial(struct proxy *x, uint32_t id,
    const struct sbx_proxy_dial *q);
void courier_dials_end(struct proxy *x);
/* PROXY_NO_EXCHANGE; of one that is over: nothing. */
void courier_none(struct proxy *x, uint32_t id,
    const struct sbx_proxy_no_exchange *q);

#endif
