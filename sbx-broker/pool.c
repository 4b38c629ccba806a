/*
 * The pool of couriers.  Each is asked for, made ready, given one job, and
 * never used again.  What one says decides about its own job and nothing else;
 * what is not due ends it.
 */

#include "common/base/log.h"
#include "sbx-broker/broker.h"

#include <event2/event.h>
#include <string.h>

#define AFTER_FAILURE_MS 1000	/* none is asked for so long */
#define FAILURES_MAX 3u		/* in a row: who waits for one waits no more */

static void
child_free(struct child *c)
{
	LIST_REMOVE(c, link);
	c->k->nchildren--;
	event_free(c->timer);
	free(c);
}

void
child_set_state(struct child *c, enum child_state state)
{
	const int ms[CHILD_STATE_MAX] = { [CHILD_LOADING] = BROKER_CHILD_MS,
		[CHILD_MINT] = BROKER_LATE_MS,
		[CHILD_OVER] = BROKER_OVER_MS,
		[CHILD_COMMAND] = c->within_ms };
	const struct timeval t = { ms[state] / 1000, ms[state] % 1000 * 1000 };

	sbx_peer_set_state(c->peer, state);
	(void)evtimer_del(c->timer); /* fails for no timer of a base only */
	if (ms[state] > 0 && evtimer_add(c->timer, &t) < 0)
		sbx_fatal("a courier cannot be timed");
}

/* Whoever had it is told, once. */
static void
child_lost(struct child *c, const char *how)
{
	struct job *j = c->job;
	struct mint *m = c->mint;
	struct fault f;

	c->job = NULL;
	c->mint = NULL;
	if (j != NULL) {
		j->child = NULL;
		job_fail(j, SBX_E_CLOSED, "no_courier", "its courier %s", how);
	}
	if (m != NULL) {
		fault_set(&f, SBX_E_CLOSED, "source_failed",
		    "github_token_command: its process %s", how);
		mint_failed(m, &f);
	}
}

/* The end of its channel ends it, unless it hangs: who shares its stream and
 * its connection can make reads of them block. */
static void
child_kill(const struct child *c)
{
	if (c->k->monitor != NULL && sbx_peer_remote(c->peer) ==
	    SBX_PROC_COURIER)
		(void)sbx_send_broker_kill(c->k->monitor, c->id,
		    &(struct sbx_broker_kill){ 0 }, NULL); /* or its channel
					 * ends, and the monitor kills all */
}

void
child_end(struct child *c)
{
	struct job *j = c->job;
	const bool mints = sbx_peer_state(c->peer) == CHILD_MINT &&
	    j != NULL && j->state == JOB_RUNNING;

	c->job = NULL;
	c->mint = NULL;
	if (j != NULL)
		j->child = NULL;
	if (mints)
		return;
	child_kill(c);
	sbx_peer_end_later(c->peer, SBX_E_CLOSED);
}

static void
pool_failed(struct broker *k)
{
	const struct timeval t = { AFTER_FAILURE_MS / 1000, 0 };
	struct job *j, *next;

	k->failures++;
	k->pool_from_ns = sbx_mono_ns() + AFTER_FAILURE_MS * 1000000ull;
	if (evtimer_add(k->pool_timer, &t) < 0)
		sbx_fatal("couriers cannot be timed");
	if (k->failures < FAILURES_MAX)
		return;
	k->failures = 0;
	for (j = TAILQ_FIRST(&k->jobs); j != NULL; j = next) {
		next = TAILQ_NEXT(j, link);
		if (j->state != JOB_COURIER)
			continue;
		job_fail(j, SBX_E_CLOSED, "no_courier",
		    "no courier could be started: see the suite's log");
		/* that may have ended others */
		next = TAILQ_FIRST(&k->jobs);
	}
}

static void
on_end(struct sbx_peer *p, int error)
{
	struct child *c = sbx_peer_ctx(p);
	struct broker *k = c->k;
	const bool loading = sbx_peer_state(p) == CHILD_LOADING;

	if (error != SBX_E_CLOSED)
		log_warn("channel of %s ended: %s, at %s",
		    sbx_proc_name(sbx_peer_remote(p)), sbx_error_name(error),
		    sbx_peer_last_type(p) < SBX_MSG_MAX &&
		    sbx_msg_specs[sbx_peer_last_type(p)].name != NULL ?
		    sbx_msg_specs[sbx_peer_last_type(p)].name : "no message");
	if (error != SBX_E_CLOSED)
		child_kill(c);
	child_lost(c, error == SBX_E_CLOSED ? "ended without a word" :
	    "said what it may not");
	child_free(c);
	lock_check(k);
	if (loading)
		pool_failed(k);
	pool_run(k);
}

static void
on_timeout(evutil_socket_t fd, short what, void *ctx)
{
	struct child *c = ctx;

	(void)fd, (void)what;
	if (sbx_peer_state(c->peer) == CHILD_LOADING)
		log_warn("a courier was not ready in time");
	child_lost(c, "did not answer in time");
	child_kill(c);
	sbx_peer_end_later(c->peer, SBX_E_CLOSED);
}

/* fd: consumed. */
static struct child *
child_new(struct broker *k, uint32_t id, int fd, const struct sbx_dispatch_table *table,
    enum child_state state)
{
	struct child *c = sbx_xcalloc(1, sizeof(*c));

	c->k = k;
	c->id = id;
	c->timer = evtimer_new(k->base, on_timeout, c);
	if (c->timer == NULL)
		sbx_fatal("a courier cannot be timed");
	c->peer = sbx_peer_new(k->base, fd, table, c, on_end);
	LIST_INSERT_HEAD(&k->children, c, link);
	k->nchildren++;
	child_set_state(c, state);
	return (c);
}

static void
on_courier(void *ctx, uint32_t id, int fd, const char *why)
{
	struct broker *k = ctx;
	struct child *c;

	if (fd < 0) {
		log_warn("no courier: %s", why);
		pool_failed(k);
		return;
	}
	c = child_new(k, id, fd, &broker_from_courier, CHILD_LOADING);
	if (sbx_send_courier_start(c->peer, 0, &(struct sbx_courier_start){ 0 },
	    &k->roots) < 0)
		sbx_peer_end_later(c->peer, SBX_E_CLOSED);
}

struct child *
pool_command(struct broker *k, int fd, struct mint *m, int within_ms)
{
	struct child *c = child_new(k, 0, fd, &broker_from_command,
	    CHILD_COMMAND);

	c->mint = m;
	c->within_ms = within_ms;
	child_set_state(c, CHILD_COMMAND);
	return (c);
}

unsigned
pool_count(const struct broker *k, enum child_state state)
{
	const struct child *c;
	unsigned n = 0;

	LIST_FOREACH(c, &k->children, link)
		n += sbx_peer_state(c->peer) == state;
	return (n);
}

static bool
is_late(const struct child *c)
{
	return (sbx_peer_state(c->peer) == CHILD_MINT && c->job == NULL);
}

unsigned
pool_late(const struct broker *k)
{
	const struct child *c;
	unsigned n = 0;

	LIST_FOREACH(c, &k->children, link)
		n += is_late(c);
	return (n);
}

/* Their channels end in the loop; until then they are over. */
void
pool_end_late(struct broker *k)
{
	struct child *c;

	LIST_FOREACH(c, &k->children, link)
		if (is_late(c)) {
			child_set_state(c, CHILD_OVER);
			child_end(c);
		}
}

static struct child *
find_idle(struct broker *k)
{
	struct child *c;

	LIST_FOREACH(c, &k->children, link)
		if (sbx_peer_state(c->peer) == CHILD_IDLE)
			return (c);
	return (NULL);
}

static bool
is_exchange(const struct job *j)
{
	return (j->kind == JOB_GIT || j->kind == JOB_REST);
}

/* The oldest that may have one now: exchanges leave some couriers to those who
 * mint and revoke, and of these git, which may last an hour, some to REST. */
static struct job *
find_waiting(struct broker *k)
{
	const unsigned most = BROKER_COURIERS - BROKER_RESERVE;
	unsigned git = 0, exchanges = 0;
	struct job *j;

	TAILQ_FOREACH(j, &k->jobs, link) {
		git += j->kind == JOB_GIT && j->state == JOB_RUNNING;
		exchanges += is_exchange(j) && j->state == JOB_RUNNING;
	}
	TAILQ_FOREACH(j, &k->jobs, link)
		if (j->state == JOB_COURIER && (!is_exchange(j) ||
		    (exchanges < most && (j->kind != JOB_GIT ||
		    git < most - BROKER_RESERVE_REST))))
			return (j);
	return (NULL);
}

static void
give_out(struct broker *k)
{
	struct child *c;
	struct job *j;
	int r;

	while ((c = find_idle(k)) != NULL && (j = find_waiting(k)) != NULL) {
		if (job_is_late(j)) {
			job_fail(j, SBX_E_TIMEOUT, "timeout", "too little time "
			    "was left for it: nothing was sent");
			continue;
		}
		j->child = c;
		c->job = j;
		child_set_state(c, j->kind == JOB_MINT ? CHILD_MINT :
		    CHILD_WORK);
		r = job_send(j, c);
		if (r == 0) {
			job_set_state(j, JOB_RUNNING);
			continue;
		}
		/* it does not run, and so costs its grant nothing */
		child_end(c);
		job_fail(j, r, "no_courier", "its courier could not be told: "
		    "%s", sbx_error_name(r));
	}
}

static unsigned
count_waiting(const struct broker *k)
{
	const struct job *j;
	unsigned n = 0;

	TAILQ_FOREACH(j, &k->jobs, link)
		n += j->state == JOB_COURIER;
	return (n);
}

/* As many as wait, and the ones that are kept ready; those on their way are
 * counted, and all that live. */
static void
ask_more(struct broker *k)
{
	const unsigned want = count_waiting(k) + k->keep_idle;
	unsigned asked = ask_count(k, ASK_COURIER);
	unsigned have = asked + pool_count(k, CHILD_LOADING) +
	    pool_count(k, CHILD_IDLE);
	const char *why;

	if (sbx_mono_ns() < k->pool_from_ns)
		return;
	for (; have < want && k->nchildren + asked < BROKER_COURIERS;
	    have++, asked++)
		if (ask_start(k, ASK_COURIER, NULL, on_courier, k,
		    &why) == NULL) {
			log_warn("no courier: %s", why);
			break;
		}
}

void
pool_run(struct broker *k)
{
	if (k->monitor == NULL)
		return;		/* all of it ends */
	give_out(k);
	ask_more(k);
}

static void
on_pool(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd, (void)what;
	pool_run(ctx);
}

void
pool_init(struct broker *k)
{
	k->pool_timer = evtimer_new(k->base, on_pool, k);
	if (k->pool_timer == NULL)
		sbx_fatal("couriers cannot be timed");
}

void
pool_free(struct broker *k)
{
	struct child *c;

	while ((c = LIST_FIRST(&k->children)) != NULL) {
		sbx_peer_free(c->peer);
		child_free(c);
	}
	if (k->pool_timer != NULL)
		event_free(k->pool_timer);
}

/* --- what couriers say --------------------------------------------------------- */

static int
on_ready(struct sbx_peer *p, struct sbx_in *in)
{
	struct child *c = sbx_peer_ctx(p);

	(void)in;
	c->k->failures = 0;
	child_set_state(c, CHILD_IDLE);
	pool_run(c->k);
	return (0);
}

/* Its job, which is not its any more. */
static struct job *
last_word(struct child *c)
{
	struct job *j = c->job;

	c->job = NULL;
	child_set_state(c, CHILD_OVER);
	if (j != NULL)
		j->child = NULL;
	return (j);
}

static int
on_minted(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_courier_minted *m = &in->m.courier_minted;
	struct child *c = sbx_peer_ctx(p);
	struct broker *k = c->k;
	struct job *j = last_word(c);
	struct mint *mint = j != NULL ? j->mint : NULL;

	if (j != NULL) {
		j->mint = NULL;
		job_end(j, NULL);
	}
	if (mint == NULL) {
		revoke_text(k, c->source, c->repo, m->token, "it came too late");
		lock_check(k);
	} else
		mint_answered(mint, &(struct minted){ .error = m->error,
		    .status = m->status, .token = m->token,
		    .reason = m->reason,
		    .expires_wall_s = m->expires_wall_s });
	pool_run(k);
	return (0);
}

/* A word that is none of ours goes nowhere. */
static const char *
code_of(const char *code)
{
	static const char *const codes[] = { "unauthorized", "forbidden",
		"not_found", "moved", "gone", "validation", "rate_limited",
		"upstream", "tls", "timeout", "too_large", "not_granted",
		"bot_command", "bad_request", "secret_in_answer" };

	for (size_t i = 0; i < SBX_NELEM(codes); i++)
		if (strcmp(code, codes[i]) == 0)
			return (codes[i]);
	return ("upstream");
}

static int
on_over(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_courier_over *m = &in->m.courier_over;
	struct child *c = sbx_peer_ctx(p);
	struct outcome out = { .told = true, .status = m->status,
		.next_page = m->next_page, .out_bytes = m->out_bytes,
		.in_bytes = m->in_bytes, .retry_s = m->retry_s };
	char reason[BROKER_REASON];
	struct job *j = last_word(c);

	if (j == NULL)
		return (0);	/* it was given up */
	if (m->error != 0)
		fault_set(&out.fault, m->error < 0 &&
		    m->error >= SBX_E_UNSUPPORTED ? m->error : SBX_E_SYS,
		    code_of(m->code), "%s", sbx_vis(reason, sizeof(reason),
		    m->reason, strlen(m->reason)));
	job_end(j, &out);
	pool_run(c->k);
	return (0);
}

static int
on_begun(struct sbx_peer *p, struct sbx_in *in)
{
	struct child *c = sbx_peer_ctx(p);

	(void)in;
	if (c->job != NULL)
		c->job->begun = true;
	return (0);
}

static const struct sbx_dispatch courier_rows[SBX_MSG_MAX] = {
	[SBX_MSG_COURIER_READY] = { SBX_ST(CHILD_LOADING), SBX_D_ONCE,
	    on_ready },
	[SBX_MSG_COURIER_MINTED] = { SBX_ST(CHILD_MINT), SBX_D_ONCE,
	    on_minted },
	[SBX_MSG_COURIER_BEGUN] = { SBX_ST(CHILD_WORK), SBX_D_ONCE, on_begun },
	[SBX_MSG_COURIER_OVER] = { SBX_ST(CHILD_WORK), SBX_D_ONCE, on_over },
};
const struct sbx_dispatch_table broker_from_courier = {
	SBX_PROC_BROKER, SBX_PROC_COURIER, courier_rows,
};

/* --- and the operator's command ---------------------------------------------------- */

static int
on_token(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_command_token *m = &in->m.command_token;
	struct child *c = sbx_peer_ctx(p);
	struct mint *mint = c->mint;

	c->mint = NULL;
	child_set_state(c, CHILD_OVER);
	if (mint != NULL)
		mint_answered(mint, &(struct minted){ .error = m->error,
		    .token = m->token, .reason = m->reason });
	pool_run(c->k);
	return (0);
}

static const struct sbx_dispatch command_rows[SBX_MSG_MAX] = {
	[SBX_MSG_COMMAND_TOKEN] = { SBX_ST(CHILD_COMMAND), SBX_D_ONCE,
	    on_token },
};
const struct sbx_dispatch_table broker_from_command = {
	SBX_PROC_BROKER, SBX_PROC_COMMAND, command_rows,
};
