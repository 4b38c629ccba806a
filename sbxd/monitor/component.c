#include "sbxd/monitor/monitor.h"
#include "sbxd/monitor/publish.h"

#include "config.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * The programs that sbxd-starter runs for us: one row each, one channel each.
 * A dead one is started again after 100 ms, doubling; five deaths in a minute
 * and it stays down, its work refused with the reason.  Only the engine (its
 * death ended the sandboxes) and journald (no record, no guarantee) take the
 * suite with them.
 */

#define HELLO_MS 10000		/* from START to HELLO */
#define BACKOFF_MS 100
#define MINUTE_NS (60 * S_NS)

/* Also the order of starting; INTRODUCE follows as soon as both ends are. */
const enum sbx_proc component_order[] = { SBX_PROC_ENGINE, SBX_PROC_RECORDER,
	SBX_PROC_JOURNALD, SBX_PROC_BROKER, SBX_PROC_PROXY, SBX_PROC_ZYGOTE,
	SBX_PROC_FRONT };
const size_t component_order_n = SBX_NELEM(component_order);

static void component_timer(evutil_socket_t fd, short what, void *arg);
static void component_end(struct sbx_peer *p, int error);

void
component_init(struct monitor *m)
{
	struct component *c;
	size_t i;

	for (i = 0; i < component_order_n; i++) {
		c = &m->comps[component_order[i]];
		c->m = m;
		c->proc = component_order[i];
		c->timer = evtimer_new(m->base, component_timer, c);
		if (c->timer == NULL)
			sbx_fatal("no memory for a timer");
	}
}

static void
component_set_state(struct component *c, enum component_state state)
{
	static const char *const names[COMP_STATE_MAX] = { "absent",
		"starting", "ready", "ending", "backoff", "down" };

	log_debug("component %s: %s -> %s", sbx_proc_name(c->proc),
	    names[c->state], names[state]);
	c->state = state;
	c->since_ns = sbx_mono_ns();
}

/* --- what each is told first --------------------------------------------- */

/* The scratch directory and sbx-init as descriptors: it opens no path. */
static int
start_engine(struct component *c)
{
	struct monitor *m = c->m;
	const struct sbx_engine_start s = { .nofile_hard = m->nofile_hard,
		.first_uid = m->first_uid, .uids = m->uids,
		.nproc = SBX_SANDBOX_NPROC,
		.storage = strcmp(m->conf.scratch_storage, "tmpfs") == 0 ?
		    SBX_STORAGE_TMPFS : SBX_STORAGE_DISK };
	int r = sbx_send_engine_start(c->peer, 0, &s,
	    (int[]){ m->dir_scratch, m->fd_init, m->dir_images,
	    m->fd_userns });

	for (int h = 0; r == 0 && h < SBX_CGROUP_MAX; h++)
		if (m->groups[h].fd != -1)
			r = sbx_send_cgroup(c->peer, 0, &(struct sbx_cgroup){
			    .hierarchy = (uint8_t)h,
			    .name = m->groups[h].name }, &m->groups[h].fd);
	return (r);
}

static int
start_recorder(struct component *c)
{
	/* a restarted one goes on with the streams that are there */
	const struct sbx_recorder_start s = { .fresh = c->deaths == 0,
		.run_cap_bytes = c->m->conf.run_cap_bytes,
		.total_cap_bytes = c->m->conf.run_total_bytes };

	return (sbx_send_recorder_start(c->peer, 0, &s, &c->m->dir_runs));
}

/*
 * On stdio our standard output is the protocol: no copy of records goes there.
 */
static int
start_journald(struct component *c)
{
	const struct sbx_journald_start s = {
		.rotate_bytes = c->m->conf.journal_rotate_bytes,
		.reserve_bytes = c->m->conf.journal_reserve_bytes,
		.to_stdout = c->m->conf.journal_stdout && !c->m->stdio };

	return (sbx_send_journald_start(c->peer, 0, &s, &c->m->dir_journal));
}

static int
start_proxy(struct component *c)
{
	int r = sbx_send_proxy_start(c->peer, 0,
	    &(struct sbx_proxy_start){ 0 }, NULL);

	return (r == 0 ? egress_proxy_started(c->m) : r);
}

/* Which tools it lists; it decides nothing else. */
static int
start_front(struct component *c)
{
	const char *profile = c->m->conf.profile;
	const struct sbx_front_start s = {
		.profile = strcmp(profile, "all") == 0 ? "" : profile,
		.observability = c->m->conf.observability_tools,
		.http_open = strcmp(c->m->conf.http_auth, "none") == 0,
		.http_hosts = c->m->conf.http_hosts,
		.http_hold_s = (uint32_t)c->m->conf.http_hold };

	return (sbx_send_front_start(c->peer, 0, &s, NULL));
}

static const struct {
	const struct sbx_dispatch_table *table;
	int (*first)(struct component *c);	/* NULL: no *_START message */
} rows[SBX_PROC_MAX] = {
	[SBX_PROC_ENGINE] = { &monitor_from_engine, start_engine },
	[SBX_PROC_RECORDER] = { &monitor_from_recorder, start_recorder },
	[SBX_PROC_JOURNALD] = { &monitor_from_journald, start_journald },
	[SBX_PROC_BROKER] = { &monitor_from_broker, broker_start },
	[SBX_PROC_PROXY] = { &monitor_from_proxy, start_proxy },
	[SBX_PROC_ZYGOTE] = { &monitor_from_zygote, NULL },
	[SBX_PROC_FRONT] = { &monitor_from_front, start_front },
};

/* Everything the child reads is queued before it even runs: it takes *_START,
 * cages itself, and finds its introductions waiting. */
void
component_start(struct component *c)
{
	struct monitor *m = c->m;
	struct sbx_start s = { .proc = c->proc, .instance = ++c->instance };
	int pair[2], r;

	if (sbx_wire_pair(pair) != 0)
		sbx_fatal("no socketpair for %s", sbx_proc_name(c->proc));
	r = sbx_send_start(m->starter, 0, &s, &pair[1]);
	sbx_close(&pair[1]);
	c->peer = sbx_peer_new(m->base, pair[0], rows[c->proc].table, c,
	    component_end);
	c->alive = r == 0;
	c->pid = 0;
	c->reason[0] = '\0';
	component_set_state(c, COMP_STARTING);
	if (rows[c->proc].first != NULL && rows[c->proc].first(c) != 0)
		component_fail(c, "its first message could not be sent");
	if (c->proc == SBX_PROC_JOURNALD && m->suite_start_id == 0) {
		m->suite_start_id = journal_suite(m,
		    m->serving ? "suite_continue" : "suite_start", 0);
		m->suite_start_by_ns = sbx_mono_ns() + 10 * S_NS;
	}
	introduce(m, c->proc);
	tick_arm(m);
}

/* The back-off is over. */
static void
component_timer(evutil_socket_t fd, short what, void *arg)
{
	struct component *c = arg;

	(void)fd;
	(void)what;
	if (!c->m->stopping && c->state == COMP_BACKOFF)
		component_start(c);
}

/* --- up ------------------------------------------------------------------ */

/* The front gets its listener, and on stdio the client's descriptors.  After
 * a restart the stdio client is still there but its MCP session is not: the
 * new front takes requests of the stateless revision as they come, and a
 * client of a legacy revision is told to initialize again. */
static void
front_open(struct component *c)
{
	struct monitor *m = c->m;
	struct session *s;

	if (m->stdio && (s = session_stdio(m)) != NULL)
		(void)sbx_send_front_stdio(c->peer, 0,
		    &(struct sbx_front_stdio){ .principal = s->handle,
		    .name = s->who->name }, (int[]){ m->fd_in, m->fd_out });
	if (m->fd_listen != -1)
		(void)sbx_send_front_listen(c->peer, 0,
		    &(struct sbx_front_listen){ .kind = 0 }, &m->fd_listen);
	if (m->fd_http != -1)
		(void)sbx_send_front_listen(c->peer, 0,
		    &(struct sbx_front_listen){ .kind = 1 }, &m->fd_http);
}

void
component_serve(struct monitor *m)
{
	char url[SBX_HTTP_URL_MAX];
	size_t i;

	if (m->serving || m->stopping || m->suite_start_id != 0)
		return;
	for (i = 0; i < component_order_n; i++)
		if (m->comps[component_order[i]].state != COMP_READY)
			return;
	m->serving = true;
	front_open(&m->comps[SBX_PROC_FRONT]);
	ctl_serve(m);
	publish_reconcile_tick(m, sbx_mono_ns());
	if (m->stdio)
		log_info("serving standard input suite=%u", m->slot);
	else
		log_notice("serving %s suite=%u", m->socket, m->slot);
	if (m->fd_http != -1)
		log_notice("serving %s", http_url(m, url));
}

/* What waited for it goes on. */
static void
component_is_up(struct component *c)
{
	struct monitor *m = c->m;

	if (c->proc == SBX_PROC_RECORDER)
		run_recorder_back(m);
	else if (c->proc == SBX_PROC_ZYGOTE)
		worker_fill(m);
	else if (c->proc == SBX_PROC_BROKER)
		broker_is_up(m);
	else if (c->proc == SBX_PROC_FRONT && m->serving)
		front_open(c);
	else if (c->proc == SBX_PROC_JOURNALD)
		m->journal_able = true;	/* until JOURNAL_STATE says else */
	component_serve(m);
}

/* Comes from inside the cage: before it, nothing but LOG is permitted. */
int
component_hello(struct sbx_peer *p, struct sbx_in *in)
{
	struct component *c = sbx_peer_ctx(p);
	char version[64], features[16], pid[16];

	sbx_vis(version, sizeof(version), in->m.hello.version,
	    strlen(in->m.hello.version));
	if (strcmp(version, PACKAGE_VERSION) != 0)
		log_warn("%s is version %s, not %s, ignoring",
		    sbx_proc_name(c->proc), version, PACKAGE_VERSION);
	(void)snprintf(features, sizeof(features), "0x%x",
	    in->m.hello.features);
	/* the starter's word, unless this came first; for reading only */
	if (c->pid == 0)
		c->pid = (pid_t)in->m.hello.pid;
	(void)snprintf(pid, sizeof(pid), "%d", (int)c->pid);
	sbx_peer_set_state(p, ST_READY);
	component_set_state(c, COMP_READY);
	c->reason[0] = '\0';
	log_info("%s is up pid=%s features=%s", sbx_proc_name(c->proc), pid,
	    features);
	journal_add(c->m, &(struct record){ .op = "component_start" },
	    "component", sbx_proc_name(c->proc), "pid", pid, "features",
	    features, NULL);
	component_is_up(c);
	return (0);
}

int
component_log(struct sbx_peer *p, struct sbx_in *in)
{
	struct component *c = sbx_peer_ctx(p);

	log_child(c, sbx_proc_name(c->proc), in->m.log.level, in->m.log.text);
	return (0);
}

int
component_pong(struct sbx_peer *p, struct sbx_in *in)
{
	(void)p;
	(void)in;
	return (0);
}

/* --- down ---------------------------------------------------------------- */

/* What waited for it, at once: those waiting for a recorder wait on, since
 * the next one answers them (run_recorder_back). */
static void
component_lost(struct component *c)
{
	struct monitor *m = c->m;
	size_t i;

	if (c->proc == SBX_PROC_JOURNALD) {
		m->journal_able = false;
		(void)sbx_strlcpy(m->journal_reason,
		    "the journal is being restarted",
		    sizeof(m->journal_reason));
		ask_fail_all(m, SBX_PROC_JOURNALD, m->journal_reason);
		grant_journald_lost(m);
	} else if (c->proc == SBX_PROC_ZYGOTE)
		worker_all_gone(m);
	else if (c->proc == SBX_PROC_BROKER)
		broker_lost(m);
	else if (c->proc == SBX_PROC_PROXY)
		broker_proxy_lost(m);
	else if (c->proc == SBX_PROC_FRONT)
		for (i = 0; i < SBX_NELEM(m->sessions); i++)
			if (m->sessions[i].used)
				session_free(m, &m->sessions[i]);
}

/* This death included; the ring holds as many as matter. */
static unsigned
deaths_in_a_minute(struct component *c)
{
	uint64_t now = sbx_mono_ns();
	unsigned i, n = 0;

	c->deaths_ns[c->deaths++ % SBX_RESTARTS_PER_MIN] = now;
	for (i = 0; i < SBX_RESTARTS_PER_MIN; i++)
		n += c->deaths_ns[i] != 0 && now - c->deaths_ns[i] < MINUTE_NS;
	return (n);
}

/* No more restarts.  What needs it asks component_why(). */
static void
component_down(struct component *c)
{
	struct monitor *m = c->m;

	component_set_state(c, COMP_DOWN);
	log_err("%s died %d times in a minute and stays down: %s",
	    sbx_proc_name(c->proc), SBX_RESTARTS_PER_MIN, c->reason);
	journal_add(m, &(struct record){ .op = "component_down" },
	    "component", sbx_proc_name(c->proc), "reason", c->reason, NULL);
	if (c->proc == SBX_PROC_JOURNALD)
		shutdown_begin(m, 3, "the journal stays down");
	else if (c->proc == SBX_PROC_FRONT && m->stdio)
		/* the only client can no longer be told anything */
		shutdown_begin(m, 3, "the front stays down");
	else if (c->proc == SBX_PROC_RECORDER)
		run_recorder_down(m);
	else if (c->proc == SBX_PROC_ZYGOTE)
		call_dispatch(m);
}

/* Process and channel are gone: record it, then restart, give up, or end. */
static void
component_dead(struct component *c)
{
	struct monitor *m = c->m;
	const char *name = sbx_proc_name(c->proc);
	bool was_up = m->serving;
	struct timeval tv;
	unsigned n;

	component_set_state(c, m->stopping ? COMP_ABSENT : COMP_BACKOFF);
	component_lost(c);
	if (m->stopping) {
		shutdown_step(m);
		return;
	}
	log_warn("%s ended: %s", name, c->reason);
	journal_add(m, &(struct record){ .op = "component_exit" },
	    "component", name, "reason", c->reason, NULL);
	if (!was_up) {
		log_err("the suite could not start: %s ended before it was "
		    "ready: %s", name, c->reason);
		shutdown_begin(m, 2, "a component could not start");
		return;
	}
	if (c->proc == SBX_PROC_ENGINE) {
		shutdown_begin(m, 3, "the engine ended, and with it all "
		    "sandboxes");
		return;
	}
	n = c->renewed ? 1 : deaths_in_a_minute(c);
	c->renewed = false;
	if (n >= SBX_RESTARTS_PER_MIN) {
		component_down(c);
		return;
	}
	c->backoff_ms = n == 1 ? BACKOFF_MS : c->backoff_ms * 2;
	tv.tv_sec = c->backoff_ms / 1000;
	tv.tv_usec = (c->backoff_ms % 1000) * 1000;
	(void)evtimer_add(c->timer, &tv);
}

/* Dead when both are gone, channel and process: a second one must not meet
 * the first one's locks, and what the first one still said is read. */
static void
component_check_dead(struct component *c)
{
	if (c->state == COMP_BACKOFF || c->state == COMP_DOWN ||
	    c->state == COMP_ABSENT)
		return;
	if (c->peer == NULL && !c->alive)
		component_dead(c);
	else if (c->state != COMP_ENDING)
		component_set_state(c, COMP_ENDING);
}

/* Its channel ended, by itself or for a violation. */
static void
component_end(struct sbx_peer *p, int error)
{
	struct component *c = sbx_peer_ctx(p);
	const struct sbx_start_kill k = { .proc = c->proc,
		.instance = c->instance };

	c->peer = NULL;
	if (error != SBX_E_CLOSED) {
		log_warn("%s: channel closed: %s", sbx_proc_name(c->proc),
		    sbx_error_name(error));
		(void)snprintf(c->reason, sizeof(c->reason),
		    "broke the protocol (%s)", sbx_error_name(error));
	}
	/* without its channel it can only end; do not wait for it to notice.
	 * At a shutdown it has its time (shutdown.c). */
	if (c->alive && !c->m->stopping && c->m->starter != NULL)
		(void)sbx_send_start_kill(c->m->starter, 0, &k, NULL);
	component_check_dead(c);
	tick_arm(c->m);
}

/* The starter's word; an EXITED of an earlier life is passed over. */
void
component_exited(struct component *c, uint32_t instance, int status)
{
	char text[64];

	if (instance != c->instance || !c->alive)
		return;
	c->alive = false;
	/* a violation or a missed deadline says more than how it was ended */
	if (c->reason[0] == '\0')
		(void)snprintf(c->reason, sizeof(c->reason), "%s",
		    log_status(status, text, sizeof(text)));
	component_check_dead(c);
}

/* The channel is closed first; the starter's kill follows from that. */
void
component_fail(struct component *c, const char *reason)
{
	(void)snprintf(c->reason, sizeof(c->reason), "%s", reason);
	if (c->peer != NULL)
		sbx_peer_end_later(c->peer, SBX_E_CLOSED);
}

void
component_renew(struct component *c, const char *reason)
{
	if (c->state != COMP_STARTING && c->state != COMP_READY)
		return;
	c->renewed = true;
	component_fail(c, reason);
}

/* Starts that take too long, and ends of which only half came. */
void
component_tick(struct monitor *m, uint64_t now_ns)
{
	struct component *c;
	size_t i;

	for (i = 0; i < component_order_n; i++) {
		c = &m->comps[component_order[i]];
		if (c->state == COMP_STARTING &&
		    now_ns - c->since_ns > HELLO_MS * MS_NS)
			component_fail(c, "it did not become ready in time");
		if (c->state == COMP_STARTING || c->state == COMP_ENDING)
			tick_arm(m);
		/* the process is gone but somebody holds its channel */
		if (c->state == COMP_ENDING && !c->alive &&
		    now_ns - c->since_ns > S_NS && c->peer != NULL)
			sbx_peer_end_later(c->peer, SBX_E_CLOSED);
	}
}

bool
component_ready(const struct monitor *m, enum sbx_proc proc)
{
	return (m->comps[proc].state == COMP_READY);
}

struct sbx_peer *
component_peer(struct monitor *m, enum sbx_proc proc)
{
	return (component_ready(m, proc) ? m->comps[proc].peer : NULL);
}

static const char *const back_soon[SBX_PROC_MAX] = {
	[SBX_PROC_JOURNALD] = "the journal is being restarted",
	[SBX_PROC_RECORDER] = "the recorder of output is being restarted",
	[SBX_PROC_ENGINE] = "the engine is being restarted",
};

const char *
component_why(const struct monitor *m, enum sbx_proc proc)
{
	const struct component *c = &m->comps[proc];

	if (c->state == COMP_DOWN)
		return (c->reason);
	return (back_soon[proc] != NULL ? back_soon[proc] :
	    "a part of the suite is being restarted");
}
