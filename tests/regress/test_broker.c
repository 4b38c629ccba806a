/* The broker, alone. */

#include <sys/socket.h>

#include "tests/regress/daemon.h"

int
main(void)
{
	tap_plan(0);
	if (!users_prepare())
		ok(false, "prepare: %s", strerror(errno));
	daemon_common("sbx-broker", SBX_PROC_BROKER, SBX_MSG_BROKER_START);
	daemon_bad("sbx-broker", SBX_PROC_BROKER, SBX_MSG_BROKER_START,
	    SBX_MSG_INTRODUCE, "a channel to another process");
	return tap_done();
}
