#include "common/privs/start.h"

#include "common/base/log.h"
#include "common/privs/privs.h"

#include <string.h>

#define CHANNEL_FD 3		/* where the starter puts it */
/* The monitor sends it in the same turn in which it has the program started;
 * only a monitor that died meanwhile does not. */
#define START_TIMEOUT_MS 10000

bool
sbx_program_start(int argc, char **argv, const struct sbx_program *how,
    struct sbx_chan *ret_chan)
{
	const struct sbx_accepts *const lists[] = { how->list, NULL };
	bool debug = argc == 2 && strncmp(argv[1], "-d", 2) == 0;
	int r;

	sbx_accepts_print(argc, argv, how->tables, lists);
	/* Nothing but this is ever passed, so a human gets no more to read. */
	if (argc > 2 || (argc == 2 && !debug))
		exit(1);
	/* Before anything is opened: it closes what was inherited. */
	sbx_privs_early();
	sbx_log_init(how->name, debug ? SBX_LOG_DEBUG : SBX_LOG_INFO);
	sbx_chan_init(ret_chan, CHANNEL_FD, how->list->self,
	    how->list->remote);
	r = sbx_chan_recv(ret_chan, START_TIMEOUT_MS);
	if (r == 0 && !sbx_accepts(how->list, ret_chan->in->hdr.type))
		r = SBX_E_STATE;
	if (r < 0)
		sbx_fatal("no %s: %s", sbx_msg_specs[how->list->types[0]].name,
		    sbx_error_name(r));
	return (debug);
}
