#include "sbxd/monitor/monitor.h"

#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/*
 * Workers: two fresh ones are kept ready; the first call binds one to its
 * principal for the rest of its life, which ends after 256 calls, any error,
 * a cancel or a timeout.  A worker asks one thing at a time and waits.
 */

#define HELLO_NS (10 * S_NS)	/* from WORKER_FORK */
#define COMPUTE_NS (60 * S_NS)	/* between two asks of one call */
#define KEEP_NS (30 * S_NS)	/* an idle bound one */

static void worker_ended(struct sbx_peer *p, int error);

/* EXEC_WAIT, GATE_WAIT and PUBLISH_WAIT have a time of its own, shorter than its
 * deadline. */
static void
on_wait_over(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;

	(void)fd;
	(void)what;
	if (w->ask.type == SBX_MSG_GATE_WAIT)
		gate_wait_over(w->m, w);
	else if (w->ask.type == SBX_MSG_PUBLISH_WAIT)
		publish_wait_over(w->m, w);
	else
		run_wait_over(w->m, w);
}

/*
 * The channel first, then the word to the zygote: the new worker finds it as
 * its descriptor and cages itself before it reads.
 */
static void
worker_fork(struct monitor *m, struct sbx_peer *zygote)
{
	struct worker *w = NULL;
	struct sbx_worker_fork f;
	int pair[2], r;
	size_t i;

	for (i = 0; i < SBX_NELEM(m->workers) && w == NULL; i++)
		if (m->workers[i].state == WORKER_NONE)
			w = &m->workers[i];
	if (w == NULL || sbx_wire_pair(pair) != 0)
		return;
	f.worker = ++m->next_worker;
	r = sbx_send_worker_fork(zygote, 0, &f, &pair[1]);
	sbx_close(&pair[1]);
	if (r != 0) {
		sbx_close(&pair[0]);
		return;
	}
	if (w->timer == NULL)
		w->timer = evtimer_new(m->base, on_wait_over, w);
	if (w->timer == NULL)
		sbx_fatal("no memory for a timer");
	w->m = m;
	w->id = f.worker;
	w->who = NULL;
	w->call = NULL;
	w->calls = 0;
	w->exited = false;
	w->state = WORKER_FORKING;
	w->since_ns = sbx_mono_ns();
	memset(&w->ask, 0, sizeof(w->ask));
	w->peer = sbx_peer_new(m->base, pair[0], &monitor_from_worker, w,
	    worker_ended);
	tick_arm(m);
}

/* An idle one of somebody else makes room when the table is full. */
static void
worker_make_room(struct monitor *m)
{
	struct worker *w, *oldest = NULL;
	size_t i;

	for (i = 0; i < SBX_NELEM(m->workers); i++) {
		w = &m->workers[i];
		if (w->state == WORKER_NONE)
			return;
		if (w->state == WORKER_IDLE && w->who != NULL &&
		    (oldest == NULL || w->since_ns < oldest->since_ns))
			oldest = w;
	}
	if (oldest != NULL)
		worker_kill(oldest);
}

/* As many fresh ones as are kept ready, and one for each call that waits. */
void
worker_fill(struct monitor *m)
{
	struct sbx_peer *zygote = component_peer(m, SBX_PROC_ZYGOTE);
	unsigned fresh = 0, want = SBX_WORKER_POOL;
	const struct worker *w;
	size_t i;

	if (zygote == NULL || m->stopping)
		return;
	for (i = 0; i < SBX_NELEM(m->workers); i++) {
		w = &m->workers[i];
		fresh += w->state == WORKER_FORKING ||
		    (w->state == WORKER_IDLE && w->who == NULL);
	}
	for (i = 0; i < SBX_NELEM(m->calls); i++)
		want += m->calls[i].used && m->calls[i].worker == NULL;
	if (fresh < want)
		worker_make_room(m);
	while (fresh++ < want)
		worker_fork(m, zygote);
}

/* Its own if one is idle, else a fresh one; NULL: the call waits. */
struct worker *
worker_for(struct monitor *m, struct principal *who)
{
	struct worker *w, *fresh = NULL;
	size_t i;

	for (i = 0; i < SBX_NELEM(m->workers); i++) {
		w = &m->workers[i];
		if (w->state != WORKER_IDLE)
			continue;
		if (w->who == who)
			return (w);
		if (w->who == NULL && fresh == NULL)
			fresh = w;
	}
	if (fresh != NULL)
		fresh->who = who;	/* for the rest of its life */
	return (fresh);
}

/* The arguments go on as they came, sealed and unread. */
void
worker_give(struct worker *w, struct call *c)
{
	const struct sbx_work_call msg = { .tool = c->tool,
		.container = c->container, .want_progress = c->want_progress,
		.patient = c->patient, .log_level = c->log_level,
		.client_can = c->client_can, .inputs = c->inputs,
		.exec_timeout_ms = w->m->conf.exec_timeout * 1000 };

	w->call = c;
	c->worker = w;
	w->calls++;
	w->logs = 0;
	w->state = WORKER_BUSY;
	w->since_ns = sbx_mono_ns();
	sbx_peer_set_state(w->peer, ST_BUSY);
	if (sbx_send_work_call(w->peer, 0, &msg, &c->args_fd) != 0) {
		/* it died idle and we have not read so yet: the call waits
		 * for the next one (worker_check_gone) */
		w->call = NULL;
		c->worker = NULL;
		worker_kill(w);
		return;
	}
	sbx_close(&c->args_fd);
}

/* Its call was answered. */
void
worker_idle(struct worker *w, bool is_error)
{
	w->call = NULL;
	w->state = WORKER_IDLE;
	w->since_ns = sbx_mono_ns();
	sbx_peer_set_state(w->peer, ST_READY);
	if (is_error || w->calls >= SBX_WORKER_CALLS)
		worker_kill(w);
}

/* The ask goes with it; what it had begun is undone by its call's end. */
static void
worker_drop_ask(struct worker *w)
{
	if (w->ask.type == SBX_MSG_COPY_IN)
		copy_worker_gone(w->m, w->id);
	else if (w->ask.type == SBX_MSG_SB_CREATE)
		detect_worker_gone(w->m, w->id);
	else if (w->ask.type == SBX_MSG_REPO_OPEN)
		grant_worker_gone(w);
	else if (w->ask.type == SBX_MSG_API_ASK)
		api_worker_gone(w);
	if (w->timer != NULL)
		(void)evtimer_del(w->timer);
	memset(&w->ask, 0, sizeof(w->ask));
}

/* It gets no chance to finish: what it was told may be what made it fail. */
void
worker_kill(struct worker *w)
{
	struct sbx_peer *zygote = component_peer(w->m, SBX_PROC_ZYGOTE);
	const struct sbx_worker_kill k = { .worker = w->id };

	if (w->state == WORKER_NONE || w->state == WORKER_DYING)
		return;
	worker_drop_ask(w);
	w->state = WORKER_DYING;
	w->since_ns = sbx_mono_ns();
	if (w->peer != NULL) {
		sbx_peer_set_state(w->peer, ST_DEAD);
		sbx_peer_end_later(w->peer, SBX_E_CLOSED);
	}
	if (zygote != NULL && !w->exited)
		(void)sbx_send_worker_kill(zygote, 0, &k, NULL);
	tick_arm(w->m);
}

/* The slot is free when neither channel nor process is left. */
static void
worker_check_gone(struct worker *w)
{
	if (w->peer == NULL && w->exited) {
		w->state = WORKER_NONE;
		w->who = NULL;
		call_dispatch(w->m);
	}
}

/* One failed call; nothing else knows of it. */
static void
worker_lost_call(struct worker *w)
{
	struct call *c = w->call;

	if (c == NULL)
		return;
	w->call = NULL;
	log_warn("worker %u ended in a call of %s", w->id, c->tool);
	call_refuse(w->m, c->number, "worker_died",
	    "the worker of this call ended before it had a result; what the "
	    "call ran was stopped",
	    "Look at the sandbox's state, then call again.");
	call_end(w->m, c, true);
}

/* By itself, or because it broke the protocol. */
static void
worker_ended(struct sbx_peer *p, int error)
{
	struct worker *w = sbx_peer_ctx(p);

	if (error != SBX_E_CLOSED && w->state != WORKER_DYING)
		log_warn("worker %u: channel closed: %s message=%u", w->id,
		    sbx_error_name(error), sbx_peer_last_type(p));
	w->peer = NULL;
	worker_kill(w);
	worker_lost_call(w);
	worker_check_gone(w);
}

struct worker *
worker_find(struct monitor *m, uint32_t id)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(m->workers); i++)
		if (m->workers[i].state != WORKER_NONE &&
		    m->workers[i].id == id)
			return (&m->workers[i]);
	return (NULL);
}

/* The zygote's word; the channel's end counts for the call. */
void
worker_exited(struct monitor *m, uint32_t id, int status)
{
	struct worker *w = worker_find(m, id);
	char text[64];

	if (w == NULL)
		return;
	w->exited = true;
	if (w->state != WORKER_DYING)
		log_debug("worker %u: %s", id,
		    log_status(status, text, sizeof(text)));
	worker_check_gone(w);	/* else its channel's end is on the way */
}

/* The zygote's children die with it (PR_SET_PDEATHSIG); nobody is left to
 * report them. */
void
worker_all_gone(struct monitor *m)
{
	struct worker *w;
	size_t i;

	for (i = 0; i < SBX_NELEM(m->workers); i++) {
		w = &m->workers[i];
		if (w->state == WORKER_NONE)
			continue;
		w->exited = true;
		worker_kill(w);
		worker_lost_call(w);
		worker_check_gone(w);
	}
}

/*
 * What may still come of it is not wanted any more.  A recorder that is there
 * and silent is replaced; a silent journald may wait for its disk, which
 * another one would do as well.
 */
static void
ask_late(struct monitor *m, struct worker *w)
{
	struct run *r = run_find(m, w->ask.run);

	if (w->ask.back_id != 0 && w->ask.back == SBX_PROC_RECORDER)
		component_fail(&m->comps[SBX_PROC_RECORDER],
		    "it did not answer in time");
	if (w->ask.back_id != 0 && w->ask.back == SBX_PROC_JOURNALD) {
		w->ask.back_id = 0;
		w->ask.then(m, w, NULL, "the journal did not commit in time");
		return;
	}
	if (w->ask.type == SBX_MSG_SB_CREATE)
		sandbox_unwanted(m, w->ask.container);
	if (w->ask.type == SBX_MSG_SB_FORK)
		fork_undo(m, w);
	if (w->ask.type == SBX_MSG_API_ASK) {
		api_late(w);
		return;
	}
	if (w->ask.type == SBX_MSG_DEPS_MAKE) {
		ask_refuse(w, "setup_running", "Call again with the same "
		    "arguments to wait for it.", "the setup commands take "
		    "longer than a call may wait; they go on");
		return;
	}
	if (w->ask.type == SBX_MSG_EXEC_START && r != NULL)
		run_kill(m, r, SBX_EXIT_KILLED);
	ask_refuse(w, "timeout", "Retry.", "the suite did not answer in time");
}

/* Deadlines: of HELLO, of an ask, of thinking, of idling. */
void
worker_tick(struct monitor *m, uint64_t now_ns)
{
	struct worker *w;
	size_t i;

	for (i = 0; i < SBX_NELEM(m->workers); i++) {
		w = &m->workers[i];
		if (w->state == WORKER_NONE ||
		    (w->state == WORKER_IDLE && w->who == NULL))
			continue;
		tick_arm(m);
		if (w->ask.type != 0) {
			if (now_ns > w->ask.deadline_ns)
				ask_late(m, w);
		} else if ((w->state == WORKER_FORKING &&
		    now_ns - w->since_ns > HELLO_NS) ||
		    (w->state == WORKER_BUSY &&
		    now_ns - w->since_ns > COMPUTE_NS) ||
		    (w->state == WORKER_IDLE &&
		    now_ns - w->since_ns > KEEP_NS)) {
			worker_kill(w);
			worker_lost_call(w);
		}
	}
}

/* --- asks ---------------------------------------------------------------- */

/* A second one before the answer is refused by its dispatch state. */
void
ask_begin(struct worker *w, const struct sbx_in *in, unsigned seconds)
{
	memset(&w->ask, 0, sizeof(w->ask));
	w->ask.type = in->hdr.type;
	w->ask.id = in->hdr.id;
	w->ask.deadline_ns = sbx_mono_ns() + seconds * S_NS;
	sbx_peer_set_state(w->peer, ST_ASKED);
}

/* The worker may ask again. */
void
ask_done(struct worker *w)
{
	worker_drop_ask(w);
	w->since_ns = sbx_mono_ns();
	if (w->peer != NULL)
		sbx_peer_set_state(w->peer, ST_BUSY);
}

/* Every refusal has a stable word for programs and a sentence for people. */
void
ask_refuse(struct worker *w, const char *code, const char *next,
    const char *fmt, ...)
{
	struct sbx_work_refused r = { .code = code, .next = next };
	char reason[4096];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	r.reason = reason;
	if (w->peer != NULL)
		(void)sbx_send_work_refused(w->peer, w->ask.id, &r, NULL);
	ask_done(w);
}

/* The worker whose pending ask of that type is about that run. */
struct worker *
ask_of_run(struct monitor *m, uint16_t type, const char *run)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(m->workers); i++)
		if (m->workers[i].ask.type == type &&
		    strcmp(m->workers[i].ask.run, run) == 0)
			return (&m->workers[i]);
	return (NULL);
}

/* The same for a sandbox. */
struct worker *
ask_of_sandbox(struct monitor *m, uint16_t type, const char *container)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(m->workers); i++)
		if (m->workers[i].ask.type == type &&
		    strcmp(m->workers[i].ask.container, container) == 0)
			return (&m->workers[i]);
	return (NULL);
}

/* The same by the id of our own request at the other process. */
struct worker *
ask_of_id(struct monitor *m, enum sbx_proc back, uint32_t id)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(m->workers); i++)
		if (m->workers[i].ask.back_id == id && id != 0 &&
		    m->workers[i].ask.back == back)
			return (&m->workers[i]);
	return (NULL);
}

/* That process is gone and its next life knows nothing of these. */
void
ask_fail_all(struct monitor *m, enum sbx_proc back, const char *why)
{
	struct worker *w;
	size_t i;

	for (i = 0; i < SBX_NELEM(m->workers); i++) {
		w = &m->workers[i];
		if (w->ask.type == 0 || w->ask.back_id == 0 ||
		    w->ask.back != back)
			continue;
		w->ask.back_id = 0;
		w->ask.then(m, w, NULL, why);
	}
}
