#ifndef SBX_PROTO_ACCEPTS_H
#define SBX_PROTO_ACCEPTS_H

/*
 * Every program prints what it has handlers for, so that a test can compare
 * all programs with msgs.def.  An event-driven process has dispatch tables
 * (peer.h); a blocking one has a const list of the types it takes, and checks
 * what it received against that same list.
 */

#include "common/proto/peer.h"

struct sbx_accepts {
	enum sbx_proc self, remote;
	const uint16_t *types;	/* ends with 0 */
};
/*
 * First call of main(): when argv is exactly {prog, "-P"}, print one line
 * "self remote MESSAGE" for each row of each table and list, and exit 0.
 * Either array may be NULL; both end with a NULL pointer.
 */
void sbx_accepts_print(int argc, char **argv,
    const struct sbx_dispatch_table *const *tables,
    const struct sbx_accepts *const *lists);
bool sbx_accepts(const struct sbx_accepts *list, uint16_t type);

#endif
