#include "sbxd/monitor/monitor.h"

#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/*
 * Runs: one command each.  The engine says when it ended, the recorder what
 * it printed; the monitor sees neither output nor pipe, only numbers, and
 * hands read-only descriptors on.
 */

#define FINISH_NS (5 * S_NS)	/* for RUN_FINISHED, whatever recorder */
#define FINISH_TRIES 16		/* RUN_FINISH overtook RUN_OPEN: again */
#define FINISH_AT_ONCE 10
#define LIST_MAX 100
#define ASK_S 10
#define WAIT_MAX_MS 3600000u

/* Ids are random and ours, so any spread will do. */
static unsigned
chain_of(const char *id)
{
	unsigned h = 0;

	while (*id != '\0')
		h = h * 31 + (unsigned char)*id++;
	return (h % RUN_CHAINS);
}

/* By whole id. */
struct run *
run_find(struct monitor *m, const char *id)
{
	struct run *r;

	LIST_FOREACH(r, &m->chains[chain_of(id)], hash)
		if (strcmp(r->id, id) == 0)
			return (r);
	return (NULL);
}

/* The recorder forgets its output too. */
void
run_free(struct monitor *m, struct run *r)
{
	struct sbx_peer *rec = component_peer(m, SBX_PROC_RECORDER);

	if (rec != NULL && r->stored)
		(void)sbx_send_run_drop(rec, 0,
		    &(struct sbx_run_drop){ .run = r->id }, NULL);
	if (r->timer != NULL)
		event_free(r->timer);
	sbx_buf_clear(&r->records);
	free(r->clone_path);
	free(r->install);
	if (r->call != NULL)
		r->call->runs--;
	TAILQ_REMOVE(&m->runs, r, link);
	LIST_REMOVE(r, hash);
	m->nruns--;
	free(r);
}

/* The oldest that ended makes room. */
static bool
run_room(struct monitor *m)
{
	struct run *r;

	if (m->nruns < SBX_MAX_RUNS)
		return (true);
	TAILQ_FOREACH_REVERSE(r, &m->runs, run_list, link)
		if (r->state == SBX_RUN_ENDED) {
			run_free(m, r);
			return (true);
		}
	return (false);
}

static void on_timeout(evutil_socket_t fd, short what, void *arg);

static struct run *
run_add(struct monitor *m, struct principal *who, const char *container,
    const char *tool)
{
	struct run *r = sbx_xcalloc(1, sizeof(*r));

	do
		sbx_random_hex(r->id, SBX_RUN_HEX / 2);
	while (run_find(m, r->id) != NULL);
	r->m = m;
	r->who = who;
	(void)sbx_strlcpy(r->container, container, sizeof(r->container));
	(void)sbx_strlcpy(r->tool, tool, sizeof(r->tool));
	r->kill_why = SBX_EXIT_MAX;
	sbx_buf_init(&r->records, SBX_RUN_RECORDS_BYTES);
	r->started_ns = sbx_mono_ns();
	r->started_wall_ns = sbx_wall_ns();
	TAILQ_INSERT_HEAD(&m->runs, r, link);
	LIST_INSERT_HEAD(&m->chains[chain_of(r->id)], r, hash);
	m->nruns++;
	return (r);
}

struct run *
run_new(struct monitor *m, struct principal *who, const char *container,
    const char *tool)
{
	return (run_room(m) ? run_add(m, who, container, tool) : NULL);
}

struct run *
run_mark(struct monitor *m, struct principal *who, const char *container,
    const char *tool)
{
	struct run *r;

	(void)run_room(m);	/* one over the limit is better than none */
	r = run_add(m, who, container, tool);
	r->state = SBX_RUN_ENDED;
	r->why = SBX_EXIT_EXITED;
	r->ended_ns = r->started_ns;
	return (r);
}

/* --- start --------------------------------------------------------------- */

void
run_show_argv(struct sbx_buf *b, const struct sbx_strs *argv)
{
	const char *s = NULL;

	while ((s = sbx_strs_next(argv, s)) != NULL)
		if (sbx_buf_printf(b, "%s%s", b->len > 0 ? " " : "", s) != 0) {
			/* the head of what does not fit says most */
			(void)sbx_buf_add(b, s, b->max > b->len + 2 ?
			    strnlen(s, b->max - b->len - 2) : 0);
			break;
		}
}

/* journald masks in argv what looks like a secret. */
static void
journal_exec_start(struct monitor *m, const struct run *r,
    const struct sbx_exec_start *e)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	char timeout[24];

	sbx_buf_init(&b, SBX_ARGV_SHOWN);
	run_show_argv(&b, &e->argv);
	(void)snprintf(timeout, sizeof(timeout), "%" PRIu64, e->timeout_ms);
	journal_add(m, &(struct record){ .op = "exec", .phase = "start",
	    .who = r->who, .container = r->container, .run = r->id },
	    "tool", r->tool, "argv", b.data != NULL ? b.data : "", "cwd",
	    e->cwd, "background", r->background ? "1" : "0", "timeout_ms",
	    timeout, NULL);
}

/*
 * Safe for a hostile worker: the sandbox must be its principal's, argv and env
 * are only data for a program inside, and stdin is a descriptor that the worker
 * had already.
 */
void
run_exec(struct monitor *m, struct worker *w, const struct sbx_exec_start *e,
    int stdin_fd)
{
	struct sandbox *sb = sandbox_own(m, w, e->container);
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);
	struct sbx_buf SBX_CLEANUP_BUF env = { 0 };
	struct sbx_engine_exec msg;
	const char *why;
	struct run *r;

	if (sb == NULL)
		return;
	if ((why = policy_exec(e)) != NULL) {
		ask_refuse(w, "bad_argument", "", "%s", why);
		return;
	}
	if (sb->live_runs >= SBX_MAX_JOBS_SANDBOX || !run_room(m) ||
	    engine == NULL) {
		ask_refuse(w, "too_many_jobs", "Wait for a job to end, or end "
		    "one with sandbox_exec_kill.", "there are %u jobs in this "
		    "sandbox, the most it may have", sb->live_runs);
		return;
	}
	r = run_add(m, w->who, sb->id, w->call->tool);
	r->call = w->call;
	w->call->runs++;
	r->background = e->background;
	r->timeout_ms = e->timeout_ms;
	memcpy(w->ask.run, r->id, sizeof(r->id));
	w->ask.deadline_ns = sbx_mono_ns() + ASK_S * S_NS;
	journal_exec_start(m, r, e);
	msg = (struct sbx_engine_exec){ .container = sb->id, .run = r->id,
		.argv = e->argv, .cwd = e->cwd, .head = e->head,
		.by_ns = w->ask.deadline_ns };
	if (egress_env(sb, &e->env, &msg.env, &env) != 0 ||
	    sbx_send_engine_exec(engine, ++m->next_id, &msg, &stdin_fd) != 0) {
		run_free(m, r);
		ask_refuse(w, "exec_failed", "", "the engine did not take it");
		return;
	}
	sb->live_runs++;
	sb->used_ns = sbx_mono_ns();
}

static const char *
run_op(const struct run *r)
{
	return (r->interactive ? "shell" : "exec");
}

static void
run_forget_failed(struct monitor *m, struct run *r, int32_t error,
    const char *reason)
{
	struct sandbox *sb = sandbox_find(m, r->container);

	journal_add(m, &(struct record){ .op = run_op(r), .phase = "end",
	    .who = r->who, .container = r->container, .run = r->id,
	    .code = error }, "reason", reason, NULL);
	run_free(m, r);
	if (sb != NULL)
		sandbox_run_ended(m, sb);
}

/* The engine's answer; from now on there is something to kill. */
void
run_exec_started(struct monitor *m, const struct sbx_engine_exec_started *q)
{
	struct worker *w = ask_of_run(m, SBX_MSG_EXEC_START, q->run);
	struct run *r = run_find(m, q->run);
	struct timeval tv;

	if (r == NULL || r->state != SBX_RUN_STARTING)
		return;
	if (r->interactive)
		shell_started(m, r, q->error != 0 ? q->reason : NULL);
	if (q->error != 0) {
		run_forget_failed(m, r, q->error, q->reason);
		if (w != NULL)
			ask_refuse(w, "exec_failed", "", "the command could "
			    "not be started: %s", q->reason);
		return;
	}
	r->state = SBX_RUN_RUNNING;
	r->stored = !r->interactive;
	if (r->timeout_ms > 0) {
		r->timer = evtimer_new(m->base, on_timeout, r);
		if (r->timer == NULL)
			sbx_fatal("no memory for a timer");
		tv.tv_sec = (time_t)(r->timeout_ms / 1000);
		tv.tv_usec = (suseconds_t)(r->timeout_ms % 1000) * 1000;
		(void)evtimer_add(r->timer, &tv);
	}
	if (w != NULL) {
		(void)sbx_send_exec_started(w->peer, w->ask.id,
		    &(struct sbx_exec_started){ .run = r->id }, NULL);
		ask_done(w);
	}
	/* killed before it was there */
	if (r->kill_why != SBX_EXIT_MAX)
		run_kill(m, r, r->kill_why);
}

/* --- kill ---------------------------------------------------------------- */

/* All of its processes, by the engine; the reason is kept for the end. */
void
run_kill(struct monitor *m, struct run *r, enum sbx_exit_why why)
{
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);

	if (r->kill_why == SBX_EXIT_MAX)
		r->kill_why = why;
	if (r->state == SBX_RUN_STARTING || engine == NULL ||
	    (!r->stored && !r->interactive))
		return;
	journal_add(m, &(struct record){ .op = "kill", .who = r->who,
	    .container = r->container, .run = r->id }, "reason",
	    r->kill_why == SBX_EXIT_TIMEOUT ? "timeout" : "asked for", NULL);
	/* However many want it, the engine is asked by one at a time: it holds
	 * few, and a guest can make each of them last. */
	if (r->killing)
		return;
	r->killing = true;
	(void)sbx_send_engine_kill(engine, ++m->next_id,
	    &(struct sbx_engine_kill){ .run = r->id }, NULL);
}

static void
on_timeout(evutil_socket_t fd, short what, void *arg)
{
	struct run *r = arg;

	(void)fd;
	(void)what;
	if (r->state == SBX_RUN_RUNNING)
		run_kill(r->m, r, SBX_EXIT_TIMEOUT);
}

/*
 * undo: the call was cancelled or its worker died.  Otherwise its runs go on.
 */
void
run_call_ended(struct monitor *m, struct call *c, bool undo)
{
	struct run *r;

	/* newest first, so those of a call are near the head */
	TAILQ_FOREACH(r, &m->runs, link) {
		if (c->runs == 0)
			return;
		if (r->call != c)
			continue;
		r->call = NULL;
		c->runs--;
		/* a background job whose id was not told yet is nobody's */
		if (undo && (!r->background || r->state == SBX_RUN_STARTING))
			run_kill(m, r, SBX_EXIT_KILLED);
	}
}

/* --- state of a run, for a worker ---------------------------------------- */

/* st NULL: what is known without the recorder. */
static void
state_send(struct worker *w, const struct run *r,
    const struct sbx_run_stats *st)
{
	uint64_t end = r->state == SBX_RUN_ENDED ? r->ended_ns : sbx_mono_ns();
	struct sbx_run_state s = { .run = r->id, .container = r->container,
		.tool = r->tool, .state = r->state, .why = r->why,
		.status = r->status, .background = r->background,
		.elapsed_ms = (end - r->started_ns) / MS_NS,
		.idle_ms = UINT64_MAX, .out_bytes = r->out_bytes,
		.err_bytes = r->err_bytes,
		.started_wall_ns = r->started_wall_ns };

	if (st != NULL && st->known) {
		s.idle_ms = st->idle_ms;
		s.out_bytes = st->out_bytes;
		s.err_bytes = st->err_bytes;
		s.dropped = st->dropped;
	}
	(void)sbx_send_run_state(w->peer, w->ask.id, &s, NULL);
}

static void
stat_answered(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	struct run *r = run_find(m, w->ask.run);

	(void)why;	/* without a recorder the numbers known so far do */
	if (r == NULL)
		ask_refuse(w, "unknown_run", "", "that run is gone");
	else {
		state_send(w, r, in != NULL ? &in->m.run_stats : NULL);
		ask_done(w);
	}
}

/* Sent, or sent again to the next recorder (run_recorder_back). */
static void
stat_ask(struct monitor *m, struct worker *w)
{
	struct sbx_peer *rec = component_peer(m, SBX_PROC_RECORDER);
	const struct run *r = run_find(m, w->ask.run);

	if (w->ask.back_id != 0)
		return;		/* asked already */
	w->ask.back = SBX_PROC_RECORDER;
	w->ask.back_id = ++m->next_id;
	w->ask.then = stat_answered;
	w->ask.deadline_ns = sbx_mono_ns() + ASK_S * S_NS;
	if (r == NULL || !r->stored ||
	    m->comps[SBX_PROC_RECORDER].state == COMP_DOWN)
		stat_answered(m, w, NULL, "");
	else if (rec != NULL)
		(void)sbx_send_run_stat(rec, w->ask.back_id,
		    &(struct sbx_run_stat){ .run = r->id }, NULL);
}

struct run *
run_own(struct monitor *m, struct worker *w, const char *id)
{
	struct run *r = policy_run(m, w->who, id);

	if (r == NULL && publish_find(m, w->who, id) != NULL)
		ask_refuse(w, "unknown_run", "Call publish again with the same "
		    "arguments and this run_id.",
		    "%s is a publication, not a run", id);
	else if (r == NULL)
		ask_refuse(w, "unknown_run", "Use the run_id that the call "
		    "returned.", "there is no run %s", id);
	else
		memcpy(w->ask.run, r->id, sizeof(r->id));
	return (r);
}

/* Answered at the end of the run, or after wait_ms, with the state then. */
void
run_wait(struct monitor *m, struct worker *w, const struct sbx_exec_wait *q)
{
	struct run *r = run_own(m, w, q->run);
	struct timeval tv = { .tv_sec = q->wait_ms / 1000,
		.tv_usec = (suseconds_t)(q->wait_ms % 1000) * 1000 };

	if (r == NULL)
		return;
	if (r->state == SBX_RUN_ENDED || q->wait_ms == 0) {
		stat_ask(m, w);
		return;
	}
	if (q->wait_ms > WAIT_MAX_MS) {
		ask_refuse(w, "bad_argument", "", "the wait is longer than an "
		    "hour");
		return;
	}
	w->ask.deadline_ns = sbx_mono_ns() + q->wait_ms * MS_NS + ASK_S * S_NS;
	(void)evtimer_add(w->timer, &tv);
}

void
run_wait_over(struct monitor *m, struct worker *w)
{
	if (w->ask.type == SBX_MSG_EXEC_WAIT ||
	    w->ask.type == SBX_MSG_EXEC_KILL)
		stat_ask(m, w);
}

/* Also for a command that has ended: what it left behind is killed. */
void
run_kill_asked(struct monitor *m, struct worker *w, const char *id)
{
	struct run *r = run_own(m, w, id);

	if (r == NULL)
		return;
	if ((!r->stored && !r->interactive) ||
	    sandbox_find(m, r->container) == NULL) {
		stat_ask(m, w);		/* nothing of it can live */
		return;
	}
	w->ask.deadline_ns = sbx_mono_ns() + ASK_S * S_NS;
	run_kill(m, r, SBX_EXIT_KILLED);
}

/* Nothing of it lives any more; the answer is its state once it ended. */
void
run_killed(struct monitor *m, const struct sbx_engine_killed *q)
{
	struct run *r = run_find(m, q->run);
	const struct timeval tv = { .tv_sec = 2 };
	struct worker *w;
	size_t i;

	if (r == NULL)
		return;
	r->killing = false;
	for (i = 0; i < SBX_NELEM(m->workers); i++) {
		w = &m->workers[i];
		if (w->ask.type != SBX_MSG_EXEC_KILL ||
		    strcmp(w->ask.run, r->id) != 0)
			continue;
		/* its ENGINE_EXITED is on the way, or was here */
		if (r->state == SBX_RUN_ENDED)
			stat_ask(m, w);
		else
			(void)evtimer_add(w->timer, &tv);
	}
}

/* --- end ----------------------------------------------------------------- */

/* Everybody who waits for it is answered, and the record closed.  st: what the
 * recorder said with its end; NULL: it is asked for those who wait. */
static void
run_end(struct monitor *m, struct run *r, const struct sbx_run_stats *st)
{
	struct sandbox *sb = sandbox_find(m, r->container);
	char status[16], out[24], errs[24];
	struct worker *w;
	size_t i;

	r->state = SBX_RUN_ENDED;
	r->finishing = false;
	packages_run_ended(m, r);	/* whoever waits may ask for it */
	(void)snprintf(status, sizeof(status), "%d", r->status);
	(void)snprintf(out, sizeof(out), "%" PRIu64, r->out_bytes);
	(void)snprintf(errs, sizeof(errs), "%" PRIu64, r->err_bytes);
	journal_add(m, &(struct record){ .op = run_op(r), .phase = "end",
	    .who = r->who, .container = r->container, .run = r->id,
	    .code = r->why }, "wait_status", status, "out_bytes", out,
	    "err_bytes", errs, NULL);
	for (i = 0; i < SBX_NELEM(m->workers); i++) {
		w = &m->workers[i];
		if ((w->ask.type != SBX_MSG_EXEC_WAIT &&
		    w->ask.type != SBX_MSG_EXEC_KILL) ||
		    strcmp(w->ask.run, r->id) != 0)
			continue;
		if (st == NULL || w->ask.back_id != 0) {
			stat_ask(m, w);
			continue;
		}
		state_send(w, r, st);
		ask_done(w);
	}
	watch_run_ended(m, r);
	repo_run_ended(m, r);
	if (r->interactive)
		shell_ended(m, r);
	if (sb != NULL)
		sandbox_run_ended(m, sb);
}

/* Nothing is sent while there is no recorder: run_recorder_back() does it. */
static void
run_ask_finish(struct monitor *m, struct run *r)
{
	struct sbx_peer *rec = component_peer(m, SBX_PROC_RECORDER);

	if (m->comps[SBX_PROC_RECORDER].state == COMP_DOWN) {
		run_end(m, r, NULL);
		return;
	}
	if (rec != NULL)
		(void)sbx_send_run_finish(rec, ++m->next_id,
		    &(struct sbx_run_finish){ .run = r->id }, NULL);
}

/* The command ended; what it printed last is still on its way to the store. */
static void
run_over(struct monitor *m, struct run *r, enum sbx_exit_why why,
    int32_t status)
{
	if (r->state == SBX_RUN_ENDED || r->finishing)
		return;
	if (r->timer != NULL && !r->interactive)	/* shell_gone() */
		(void)evtimer_del(r->timer);
	/* the engine knows that it was killed, only we know what for */
	r->why = why == SBX_EXIT_KILLED && r->kill_why != SBX_EXIT_MAX ?
	    r->kill_why : why;
	r->status = status;
	r->ended_ns = sbx_mono_ns();
	if (r->interactive) {	/* no recorder knows it */
		run_end(m, r, NULL);
		return;
	}
	r->finish_by_ns = r->ended_ns + FINISH_NS;
	r->finishing = true;
	tick_arm(m);
	run_ask_finish(m, r);
}

/* The engine's word; only a wait(2) status and why. */
void
run_exited(struct monitor *m, const struct sbx_engine_exited *q)
{
	struct run *r = run_find(m, q->run);

	if (r != NULL)
		run_over(m, r, q->why < SBX_EXIT_MAX ? q->why :
		    SBX_EXIT_EXITED, q->status);
}

void
run_finished(struct monitor *m, const struct sbx_run_finished *q)
{
	struct run *r = run_find(m, q->run);

	if (r == NULL || !r->finishing)
		return;
	/* The engine's RUN_OPEN goes by another channel and may be behind
	 * our RUN_FINISH: ask again, first at once, then from the tick. */
	if (!q->known && r->finish_tries < FINISH_TRIES) {
		if (r->finish_tries++ < FINISH_AT_ONCE)
			run_ask_finish(m, r);
		return;
	}
	r->out_bytes = q->out_bytes;
	r->err_bytes = q->err_bytes;
	run_end(m, r, &(struct sbx_run_stats){ .known = q->known,
	    .out_bytes = q->out_bytes, .err_bytes = q->err_bytes,
	    .idle_ms = q->idle_ms, .dropped = q->dropped });
}

/* All that lived in it ended with it. */
void
run_sandbox_ended(struct monitor *m, const char *container)
{
	struct worker *w;
	struct run *r;

	TAILQ_FOREACH(r, &m->runs, link) {
		if (r->state == SBX_RUN_ENDED ||
		    strcmp(r->container, container) != 0)
			continue;
		w = ask_of_run(m, SBX_MSG_EXEC_START, r->id);
		if (r->state == SBX_RUN_STARTING) {
			r->state = SBX_RUN_RUNNING;
			if (w != NULL)
				ask_refuse(w, "sandbox_gone", "Call "
				    "sandbox_initialize for a new one.",
				    "the sandbox ended");
		}
		run_over(m, r, SBX_EXIT_SANDBOX, SIGKILL);
	}
}

void
run_tick(struct monitor *m, uint64_t now_ns)
{
	struct run *r;

	TAILQ_FOREACH(r, &m->runs, link) {
		if (!r->finishing)
			continue;
		tick_arm(m);
		/* the output is what the recorder holds, whenever it is back;
		 * the end of the command does not wait for that */
		if (now_ns > r->finish_by_ns)
			run_end(m, r, NULL);
		else if (r->finish_tries >= FINISH_AT_ONCE)
			run_ask_finish(m, r);
	}
}

/* --- output -------------------------------------------------------------- */

/* The descriptor is passed on unread; the recorder opened it read-only. */
static void
read_answered(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	struct sbx_out_data d;

	(void)m;
	if (in == NULL)
		ask_refuse(w, "suite_degraded", "", "stored output cannot be "
		    "read: %s", why);
	else if (in->hdr.type == SBX_MSG_RUN_NODATA) {
		(void)sbx_send_out_nodata(w->peer, w->ask.id,
		    &(struct sbx_out_nodata){ .known = in->m.run_nodata.known,
		    .total = in->m.run_nodata.total }, NULL);
		ask_done(w);
	} else {
		d = (struct sbx_out_data){ .start = in->m.run_data.start,
			.length = in->m.run_data.length,
			.file_offset = in->m.run_data.file_offset,
			.total = in->m.run_data.total };
		(void)sbx_send_out_data(w->peer, w->ask.id, &d, in->fds);
		ask_done(w);
	}
}

/* Nothing is sent while there is no recorder: run_recorder_back() does it. */
static void
read_send(struct monitor *m, struct worker *w)
{
	struct sbx_peer *rec = component_peer(m, SBX_PROC_RECORDER);

	if (rec != NULL)
		(void)sbx_send_run_read(rec, w->ask.back_id,
		    &(struct sbx_run_read){ .run = w->ask.run,
		    .stream = w->ask.stream, .offset = w->ask.offset }, NULL);
}

/*
 * Safe for a hostile worker: the run must be its principal's, and what it gets
 * can only be read.
 */
void
run_read(struct monitor *m, struct worker *w, const struct sbx_out_read *q)
{
	struct run *r = run_own(m, w, q->run);

	if (r == NULL)
		return;
	if (q->stream >= SBX_STREAM_MAX) {
		ask_refuse(w, "bad_argument", "", "there is no such stream");
		return;
	}
	if (!r->stored) {
		(void)sbx_send_out_nodata(w->peer, w->ask.id,
		    &(struct sbx_out_nodata){ .known = 1 }, NULL);
		ask_done(w);
		return;
	}
	w->ask.stream = q->stream;
	w->ask.offset = q->offset;
	w->ask.back = SBX_PROC_RECORDER;
	w->ask.back_id = ++m->next_id;
	w->ask.then = read_answered;
	w->ask.deadline_ns = sbx_mono_ns() + ASK_S * S_NS;
	if (m->comps[SBX_PROC_RECORDER].state == COMP_DOWN)
		read_answered(m, w, NULL,
		    component_why(m, SBX_PROC_RECORDER));
	else
		read_send(m, w);
}

/* From memory: a list must not cost a question to the recorder for each. */
void
run_list(struct monitor *m, struct worker *w, const struct sbx_run_list *q)
{
	uint32_t max = q->max > LIST_MAX ? LIST_MAX : q->max, skip = q->skip;
	struct sbx_sb_end end = { 0 };
	struct run *r;

	TAILQ_FOREACH(r, &m->runs, link) {
		if (end.count >= max)
			break;
		if (r->who != w->who || (skip > 0 && skip-- > 0))
			continue;
		state_send(w, r, NULL);
		end.count++;
	}
	(void)sbx_send_sb_end(w->peer, w->ask.id, &end, NULL);
	ask_done(w);
}

/* --- a recorder's death -------------------------------------------------- */

/* The store on disk is whole (its pipes wait meanwhile), so the questions
 * are simply put again. */
void
run_recorder_back(struct monitor *m)
{
	struct worker *w;
	struct run *r;
	size_t i;

	TAILQ_FOREACH(r, &m->runs, link)
		if (r->finishing) {
			r->finish_by_ns = sbx_mono_ns() + FINISH_NS;
			run_ask_finish(m, r);
		}
	for (i = 0; i < SBX_NELEM(m->workers); i++) {
		w = &m->workers[i];
		if (w->ask.type == 0 || w->ask.back_id == 0 ||
		    w->ask.back != SBX_PROC_RECORDER)
			continue;
		if (w->ask.type == SBX_MSG_OUT_READ)
			read_send(m, w);
		else if (w->ask.type == SBX_MSG_UNDO_KEEP ||
		    w->ask.type == SBX_MSG_UNDO_FIND) {
			w->ask.back_id = 0;
			w->ask.then(m, w, NULL, "its process was restarted");
		} else {
			w->ask.back_id = 0;
			stat_ask(m, w);
		}
	}
}

/* Runs end without their last numbers, reads are refused with the reason. */
void
run_recorder_down(struct monitor *m)
{
	struct run *r, *next;

	for (r = TAILQ_FIRST(&m->runs); r != NULL; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->finishing)
			run_end(m, r, NULL);
	}
	ask_fail_all(m, SBX_PROC_RECORDER,
	    component_why(m, SBX_PROC_RECORDER));
}

void
run_drop_principal(struct monitor *m, const struct principal *p)
{
	struct run *r, *next;

	for (r = TAILQ_FIRST(&m->runs); r != NULL; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->who == p)
			run_free(m, r);
	}
}
