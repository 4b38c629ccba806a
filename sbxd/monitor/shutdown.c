#include "sbxd/monitor/monitor.h"

#include <event2/event.h>
#include <string.h>

/*
 * The orderly end, within a second: clients are told, sandboxes end, the last
 * record is committed, then each component goes, journald last.  Where there are
 * tokens, the broker revokes them first, for which it has two seconds more.
 * Whoever does not go is killed by the starter, which goes after its last child.
 */

#define KILL_MS 650	/* from the start of the end: no more asking */
#define GIVE_UP_MS 920	/* not even the starter answers */
#define REVOKE_MS 2000	/* for the broker to revoke its tokens, first */

enum stop_step {
	STOP_NONE,
	STOP_PEOPLE,	/* front, workers, engine, proxy, broker */
	STOP_STORES,	/* recorder: nothing prints any more */
	STOP_JOURNAL,	/* suite_end is committed, or will not be */
	STOP_STARTER,	/* nobody is left */
};

/* In order: finish what is committed, then exit 0. */
static void
tell(struct monitor *m, enum sbx_proc proc)
{
	struct component *c = &m->comps[proc];

	if (c->peer != NULL)
		(void)sbx_send_shutdown(c->peer, 0,
		    &(struct sbx_shutdown){ 0 }, NULL);
}

/* Both: it has exited, and all it said was read. */
static bool
gone(const struct monitor *m, enum sbx_proc proc)
{
	return (m->comps[proc].peer == NULL && !m->comps[proc].alive);
}

/* By the starter: this process may signal nobody. */
static void
kill_rest(struct monitor *m)
{
	const struct component *c;
	size_t i;

	for (i = 0; i < component_order_n; i++) {
		c = &m->comps[component_order[i]];
		if (!c->alive || m->starter == NULL)
			continue;
		log_warn("%s did not end in time, killing it",
		    sbx_proc_name(c->proc));
		(void)sbx_send_start_kill(m->starter, 0,
		    &(struct sbx_start_kill){ .proc = c->proc,
		    .instance = c->instance }, NULL);
	}
}

/* What is needed to revoke tokens, and now no more. */
static void
tell_network(struct monitor *m)
{
	const struct timeval tv = { .tv_usec = KILL_MS * 1000 };

	m->stop_lock_id = 0;
	tell(m, SBX_PROC_PROXY);
	tell(m, SBX_PROC_BROKER);
	(void)evtimer_add(m->stop_timer, &tv);
}

/* true: they are being revoked, and tell_network() follows. */
static bool
revoke_first(struct monitor *m)
{
	const struct timeval tv = { .tv_sec = REVOKE_MS / 1000 };
	struct sbx_peer *p = component_peer(m, SBX_PROC_BROKER);

	if (p == NULL || !repos_source(m, NULL))
		return (false);
	m->stop_lock_id = ++m->next_id;
	if (sbx_send_broker_lock(p, m->stop_lock_id,
	    &(struct sbx_broker_lock){ .on = 1 }, NULL) != 0) {
		m->stop_lock_id = 0;
		return (false);
	}
	(void)evtimer_add(m->stop_timer, &tv);
	return (true);
}

void
shutdown_revoked(struct monitor *m)
{
	tell_network(m);
	shutdown_step(m);
}

/* First the time to go is up, then the time to be gone. */
static void
on_deadline(evutil_socket_t fd, short what, void *arg)
{
	const struct timeval tv = { .tv_usec = (GIVE_UP_MS - KILL_MS) * 1000 };
	struct monitor *m = arg;

	(void)fd;
	(void)what;
	if (m->stop_lock_id != 0) {
		log_warn("the broker did not revoke its tokens in time");
		tell_network(m);
		return;
	}
	if (m->stop_killed) {
		log_err("the suite did not end in time");
		(void)event_base_loopbreak(m->base);
		return;
	}
	m->stop_killed = true;
	m->suite_end_id = 0;
	kill_rest(m);
	shutdown_step(m);
	(void)evtimer_add(m->stop_timer, &tv);
}

/* Go as far as what has ended permits. */
void
shutdown_step(struct monitor *m)
{
	if (m->stop_lock_id != 0 && gone(m, SBX_PROC_BROKER))
		tell_network(m);
	if (m->stop_step == STOP_PEOPLE && (m->stop_killed ||
	    (gone(m, SBX_PROC_ENGINE) && gone(m, SBX_PROC_ZYGOTE) &&
	    gone(m, SBX_PROC_FRONT)))) {
		m->stop_step = STOP_STORES;
		tell(m, SBX_PROC_RECORDER);
		if (m->comps[SBX_PROC_JOURNALD].peer != NULL)
			m->suite_end_id = journal_suite(m, "suite_end",
			    m->exit_code);
	}
	if (m->stop_step == STOP_STORES && m->suite_end_id == 0 &&
	    (m->stop_killed || (gone(m, SBX_PROC_RECORDER) &&
	    gone(m, SBX_PROC_PROXY) && gone(m, SBX_PROC_BROKER)))) {
		m->stop_step = STOP_JOURNAL;
		tell(m, SBX_PROC_JOURNALD);
	}
	if (m->stop_step == STOP_JOURNAL && gone(m, SBX_PROC_JOURNALD) &&
	    gone(m, SBX_PROC_ENGINE) && gone(m, SBX_PROC_ZYGOTE) &&
	    gone(m, SBX_PROC_FRONT) && gone(m, SBX_PROC_RECORDER) &&
	    gone(m, SBX_PROC_PROXY) && gone(m, SBX_PROC_BROKER)) {
		m->stop_step = STOP_STARTER;
		if (m->starter != NULL)
			(void)sbx_send_shutdown(m->starter, 0,
			    &(struct sbx_shutdown){ 0 }, NULL);
		else
			(void)event_base_loopbreak(m->base);
	}
}

/* Every client is told; their sandboxes are recorded as ended by this. */
static void
stop_work(struct monitor *m)
{
	struct sandbox *sb;
	struct call *c;
	size_t i;

	for (i = 0; i < SBX_NELEM(m->calls); i++) {
		c = &m->calls[i];
		if (!c->used)
			continue;
		call_refuse(m, c->number, "shutting_down",
		    "the suite is shutting down", "");
		if (c->worker != NULL) {
			c->worker->call = NULL;
			worker_kill(c->worker);
		}
		c->worker = NULL;
		c->used = false;
		sbx_close(&c->args_fd);
	}
	shell_shutdown(m);
	gate_shutdown(m);
	publish_shutdown(m);
	TAILQ_FOREACH(sb, &m->sandboxes, link)
		journal_add(m, &(struct record){ .op = "sandbox_end",
		    .phase = "end", .who = sb->who, .container = sb->id,
		    .code = SBX_END_SHUTDOWN + 1 }, "reason",
		    "the suite ends", NULL);
}

/* The first reason counts; later ones find the end under way. */
void
shutdown_begin(struct monitor *m, int exit_code, const char *reason)
{
	if (m->stopping)
		return;
	m->stopping = true;
	m->exit_code = exit_code;
	if (exit_code == 0)
		log_info("ending: %s", reason);
	else
		log_err("ending: %s", reason);
	stop_work(m);
	m->stop_step = STOP_PEOPLE;
	tell(m, SBX_PROC_FRONT);
	tell(m, SBX_PROC_ZYGOTE);
	tell(m, SBX_PROC_ENGINE);
	m->stop_timer = evtimer_new(m->base, on_deadline, m);
	if (m->stop_timer == NULL)
		sbx_fatal("no memory for a timer");
	if (!revoke_first(m))
		tell_network(m);
	shutdown_step(m);
}
