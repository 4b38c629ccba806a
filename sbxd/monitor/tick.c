#include "sbxd/monitor/monitor.h"

#include <event2/event.h>

/*
 * Deadlines.  Everything that waits is looked over four times a second while
 * there is anything that waits; an idle suite does not wake.
 */

#define TICK_US 250000

static void
on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct monitor *m = arg;
	uint64_t now = sbx_mono_ns();

	(void)fd;
	(void)what;
	if (m->stopping)
		return;		/* shutdown.c has its own, shorter ones */
	if (m->suite_start_id != 0) {
		tick_arm(m);
		if (now > m->suite_start_by_ns) {
			log_err("the suite could not start: the journal did "
			    "not commit its first record in time");
			shutdown_begin(m, 2, "the journal is too slow");
			return;
		}
	}
	component_tick(m, now);
	call_tick(m, now);
	worker_tick(m, now);
	sandbox_tick(m, now);
	run_tick(m, now);
	watch_tick(m, now);
	copy_tick(m, now);
	detect_tick(m, now);
	gate_tick(m, now);
	publish_tick(m, now);
	ctl_tick(m, now);
	grant_tick(m, now);
	broker_tick(m, now);
	api_tick(m, now);
}

void
tick_arm(struct monitor *m)
{
	const struct timeval tv = { .tv_usec = TICK_US };

	if (m->tick == NULL)
		m->tick = evtimer_new(m->base, on_tick, m);
	if (m->tick == NULL)
		sbx_fatal("no memory for a timer");
	if (!evtimer_pending(m->tick, NULL))
		(void)evtimer_add(m->tick, &tv);
}
