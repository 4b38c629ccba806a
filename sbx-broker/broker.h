#ifndef SBX_BROKER_BROKER_H
#define SBX_BROKER_BROKER_H

#include "common/proto/peer.h"

struct broker {
	struct event_base *base;
	struct sbx_peer *monitor;
	int exit_code;
};

extern const struct sbx_dispatch_table broker_from_monitor;

#endif
