/* What the journal does on the monitor's word, beside appending. */

#include "sbx-journald/journald.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>

/* Not able is not healthy: the monitor then refuses crossings. */
static int
on_ping(struct sbx_peer *p, struct sbx_in *in)
{
	struct journald *j = sbx_peer_ctx(p);
	char state[64];

	(void)snprintf(state, sizeof(state), "seq=%" PRIu64 " file=%u",
	    j->chain.seq, j->store.number);
	return (sbx_send_pong(p, in->hdr.id, &(struct sbx_pong){
	    .healthy = j->able, .state = state }, NULL));
}

static int
on_shutdown(struct sbx_peer *p, struct sbx_in *in)
{
	struct journald *j = sbx_peer_ctx(p);

	(void)in;
	/* main() commits what is pending after the loop */
	(void)event_base_loopbreak(j->base);
	return (0);
}

/* Only the monitor can bring a writer, so a channel's name is its word. */
static int
on_introduce(struct sbx_peer *p, struct sbx_in *in)
{
	struct journald *j = sbx_peer_ctx(p);

	return (journald_add_writer(j, (enum sbx_proc)in->m.introduce.peer,
	    sbx_steal_fd(&in->fds[0])));
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_PING] = { SBX_ST_ANY, 0, on_ping },
	[SBX_MSG_SHUTDOWN] = { SBX_ST_ANY, SBX_D_ONCE, on_shutdown },
	[SBX_MSG_INTRODUCE] = { SBX_ST_ANY, 0, on_introduce },
	[SBX_MSG_JOURNAL_APPEND] = { SBX_ST_ANY, 0, journald_on_append },
};
const struct sbx_dispatch_table journald_from_monitor = {
	SBX_PROC_JOURNALD, SBX_PROC_MONITOR, rows
};
