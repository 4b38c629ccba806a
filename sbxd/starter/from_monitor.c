/* What the starter does on the monitor's word. */

#include "sbxd/starter/starter.h"

#include "common/base/log.h"

#include <string.h>
#include <sys/socket.h>

static const uint16_t types[] = {
	SBX_MSG_START, SBX_MSG_START_KILL, SBX_MSG_CGROUP, SBX_MSG_PING,
	SBX_MSG_SHUTDOWN, 0,
};
const struct sbx_accepts starter_from_monitor = {
	SBX_PROC_STARTER, SBX_PROC_MONITOR, types,
};

/*
 * Safe for a hostile monitor: it names a program by a number of a fixed
 * table, and hands over one descriptor that only that program will hold.
 */
static void
on_start(struct starter *s, struct sbx_in *in)
{
	/* An ending suite starts nothing that would outlive the drain. */
	if (!s->ending)
		child_start(s, in->m.start.proc, in->m.start.instance,
		    sbx_steal_fd(&in->fds[0]));
}

static void
on_start_kill(struct starter *s, struct sbx_in *in)
{
	child_kill(s, in->m.start_kill.proc, in->m.start_kill.instance);
}

/*
 * Safe for a hostile monitor: the name is one component and must begin as a
 * suite's does, and all that is ever done to a group is to put the engine in
 * it, and to remove it once it has no process.
 */
static int
on_cgroup(struct starter *s, struct sbx_in *in)
{
	const struct sbx_cgroup *q = &in->m.cgroup;

	if (q->hierarchy >= SBX_CGROUP_MAX ||
	    s->groups[q->hierarchy].dir != -1 ||
	    strncmp(q->name, "suite-", 6) != 0 ||
	    strchr(q->name, '/') != NULL)
		return (SBX_E_POLICY);
	(void)sbx_strlcpy(s->groups[q->hierarchy].name, q->name,
	    sizeof(s->groups[0].name));
	s->groups[q->hierarchy].dir = sbx_steal_fd(&in->fds[0]);
	return (0);
}

static void
on_ping(struct starter *s, struct sbx_in *in)
{
	struct sbx_pong m = { .healthy = 1, .state = "" };

	starter_send(s, SBX_MSG_PONG, in->hdr.id, &m);
}

int
from_monitor(struct starter *s)
{
	struct sbx_in *in = s->monitor.in;
	int r;

	sbx_in_clear(in);
	r = sbx_wire_recv(s->monitor.fd, s->monitor.self, s->monitor.remote,
	    in, MSG_DONTWAIT);
	if (r == SBX_E_AGAIN)
		return (0);
	if (r < 0)
		return (r);
	if (!sbx_accepts(&starter_from_monitor, in->hdr.type))
		return (SBX_E_STATE);
	switch (in->hdr.type) {
	case SBX_MSG_START:
		on_start(s, in);
		break;
	case SBX_MSG_START_KILL:
		on_start_kill(s, in);
		break;
	case SBX_MSG_CGROUP:
		r = on_cgroup(s, in);
		break;
	case SBX_MSG_PING:
		on_ping(s, in);
		break;
	case SBX_MSG_SHUTDOWN:
		starter_end(s);
		break;
	}
	sbx_in_clear(in);
	return (r);
}
