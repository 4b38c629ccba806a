#ifndef SBX_BROKER_BROKER_H
#define SBX_BROKER_BROKER_H

#include "common/proto/peer.h"

struct event_base;

/* All that the key process knows; there is one. */
struct broker {
	struct event_base *base;	/* owned */
	struct sbx_peer *monitor;	/* owned; NULL: its channel ended */
	int exit_code;			/* of main(): 0, or 3 on a violation */
};

/* What is taken from the monitor.  There is no other table. */
extern const struct sbx_dispatch_table broker_from_monitor;

#endif
