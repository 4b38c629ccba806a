/*
 * One exchange from the monitor's word to its end, and the two that the broker
 * makes for itself: to mint a token, and to revoke one.
 */

#include "common/base/log.h"
#include "common/base/rest.h"
#include "sbx-broker/broker.h"
#include "sbx-broker/check.h"
#include "sbx-broker/record.h"

#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define GIT_USER "x-access-token"
/* A probe of git's whether a push would be heard: one empty pkt-line. */
#define PROBE_BYTES 4u

void
fault_set(struct fault *f, int error, const char *code, const char *fmt, ...)
{
	va_list ap;

	f->error = error;
	f->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(f->reason, sizeof(f->reason), fmt, ap); /* cut */
	va_end(ap);
}

/* --- deadlines ----------------------------------------------------------------- */

/* At least one: what is over ends in the loop. */
static int
left_ms(const struct job *j)
{
	const uint64_t now = sbx_mono_ns();

	return (now < j->by_ns ? (int)((j->by_ns - now) / 1000000) + 1 : 1);
}

static int
deadline_ms(const struct job *j)
{
	static const int of_state[JOB_STATE_MAX] = {
		[JOB_TURN] = BROKER_TURN_MS, [JOB_TOKEN] = BROKER_TOKEN_MS,
		[JOB_DIAL] = 0, /* the ask has its own */
		[JOB_COURIER] = BROKER_COURIER_MS };
	static const int of_kind[JOB_KIND_MAX] = {
		[JOB_GIT] = BROKER_EXCHANGE_MS, [JOB_REST] = 0, /* below */
		[JOB_MINT] = BROKER_MINT_MS, [JOB_REVOKE] = BROKER_MINT_MS };

	const int ms = j->state == JOB_RUNNING ? of_kind[j->kind] :
	    of_state[j->state];
	const int left = left_ms(j);

	return (j->by_ns != 0 && (ms == 0 || left < ms) ? left : ms);
}

static void
on_timeout(evutil_socket_t fd, short what, void *ctx)
{
	static const char *const of_state[JOB_STATE_MAX] = {
		[JOB_TURN] = "other exchanges of that grant did not end",
		[JOB_TOKEN] = "no source gave a token",
		[JOB_COURIER] = "no courier was free",
		[JOB_RUNNING] = "the exchange did not end" };
	struct job *j = ctx;
	const char *code = j->state == JOB_COURIER ? "no_courier" : "timeout";

	(void)fd, (void)what;
	job_fail(j, SBX_E_TIMEOUT, code, "%s in time",
	    of_state[j->state] != NULL ? of_state[j->state] : "it did not end");
}

void
job_set_state(struct job *j, enum job_state state)
{
	struct timeval t;
	int ms;

	j->state = state;
	if (state == JOB_COURIER)
		j->k->keep_idle = BROKER_KEEP_IDLE;
	ms = deadline_ms(j);
	(void)evtimer_del(j->timer); /* fails for no timer of a base only */
	t = (struct timeval){ ms / 1000, ms % 1000 * 1000 };
	if (ms > 0 && evtimer_add(j->timer, &t) < 0)
		sbx_fatal("an exchange cannot be timed");
}

/* --- their way --------------------------------------------------------------------- */

struct job *
job_new(struct broker *k, enum job_kind kind)
{
	struct job *j = sbx_xcalloc(1, sizeof(*j));

	j->k = k;
	j->kind = kind;
	j->fds[0] = j->fds[1] = j->fds[2] = -1;
	j->permissions = "";
	j->timer = evtimer_new(k->base, on_timeout, j);
	if (j->timer == NULL)
		sbx_fatal("an exchange cannot be timed");
	TAILQ_INSERT_TAIL(&k->jobs, j, link);
	k->njobs++;
	return (j);
}

static void
job_free(struct job *j)
{
	TAILQ_REMOVE(&j->k->jobs, j, link);
	j->k->njobs--;
	ask_forget(j->ask);
	event_free(j->timer);
	token_release(j->k, j->token);
	for (size_t i = 0; i < SBX_NELEM(j->fds); i++)
		sbx_close(&j->fds[i]);
	free(j);
}

void
job_has_token(struct job *j, struct token *t)
{
	j->token = token_ref(t);
	j->mint = NULL;
	job_set_state(j, JOB_COURIER);
	pool_run(j->k);
}

void
job_start(struct job *j)
{
	if (j->credential) {
		job_set_state(j, JOB_TOKEN);
		mint_for(j);
	} else {
		job_set_state(j, JOB_COURIER);
		pool_run(j->k);
	}
}

static void
on_dialled(void *ctx, uint32_t id, int fd, const char *why)
{
	struct job *j = ctx;
	char text[BROKER_REASON];

	(void)id;
	j->ask = NULL;
	if (fd < 0) {
		job_fail(j, SBX_E_CLOSED, "upstream", "no connection: %s",
		    sbx_vis(text, sizeof(text), why, strlen(why)));
		return;
	}
	j->fds[0] = fd;
	job_set_state(j, JOB_COURIER);
	pool_run(j->k);
}

void
job_dial(struct job *j, const char *host)
{
	const char *why;

	job_set_state(j, JOB_DIAL);
	j->ask = ask_start(j->k, ASK_DIAL, host, on_dialled, j, &why);
	if (j->ask == NULL)
		job_fail(j, SBX_E_LIMIT, "upstream", "no connection: %s", why);
}

bool
job_is_late(const struct job *j)
{
	return (j->kind == JOB_REST && left_ms(j) <
	    (int)(SBX_API_LEAST_MS + SBX_API_STEP_MS));
}

static int
send_git(struct job *j, struct child *c)
{
	const struct grant *g = grant_find(j->k, j->grant);
	struct sbx_courier_git m = { .user = GIT_USER, .port = 443 };

	if (g == NULL)
		return (SBX_E_NOENT);	/* job_end_grant() was there first */
	m.op = (uint8_t)g->op;
	m.host = g->host;
	m.repo = g->repo;
	m.ref = g->ref;
	m.old_id = g->old_id;
	m.new_id = g->new_id;
	m.force = g->force;
	m.token = sbx_secret_text(j->token->secret);
	return (sbx_send_courier_git(c->peer, 0, &m, j->fds));
}

static int
send_rest(struct job *j, struct child *c)
{
	char buf[254];
	struct sbx_courier_rest m = { .op = j->op,
		.bot_commands = j->k->bot_commands,
		.host = source_api_host(j->host, buf), .port = 443,
		.prefix = source_api_prefix(j->host), .repo = j->repo,
		.number = j->number, .page = j->page, .text = j->text,
		.within_ms = (uint32_t)left_ms(j) - SBX_API_STEP_MS,
		.token = j->token == NULL ? "" :
		    sbx_secret_text(j->token->secret) };

	return (sbx_send_courier_rest(c->peer, 0, &m, j->fds));
}

static int
send_revoke(struct job *j, struct child *c)
{
	const struct source *s = j->token->source;
	struct sbx_courier_revoke m = { .host = s->api_host, .port = 443,
		.prefix = s->prefix,
		.token = sbx_secret_text(j->token->secret) };

	return (sbx_send_courier_revoke(c->peer, 0, &m, j->fds));
}

int
job_send(struct job *j, struct child *c)
{
	static int (*const how[JOB_KIND_MAX])(struct job *, struct child *) = {
		[JOB_GIT] = send_git, [JOB_REST] = send_rest,
		[JOB_MINT] = mint_send, [JOB_REVOKE] = send_revoke };
	int r = how[j->kind](j, c);

	/* the courier has them now, and its end must be theirs */
	for (size_t i = 0; i < SBX_NELEM(j->fds); i++)
		sbx_close(&j->fds[i]);
	return (r);
}

/* --- their end ----------------------------------------------------------------------- */

static void
tell_exchange(struct job *j, const struct outcome *out)
{
	struct sbx_broker_exchanged m = { .error = out->fault.error,
		.begun = j->state == JOB_RUNNING, .status = out->status,
		.out_bytes = out->out_bytes, .in_bytes = out->in_bytes,
		.code = out->fault.error != 0 ? out->fault.code : "",
		.reason = out->fault.reason };

	if (j->k->monitor != NULL)
		(void)sbx_send_broker_exchanged(j->k->monitor, j->id, &m,
		    NULL); /* or its channel ends, and all with it */
}

static void
tell_rest(struct job *j, const struct outcome *out)
{
	struct sbx_broker_rested m = { .error = out->fault.error,
		.begun = j->begun, .status = out->status,
		.next_page = out->next_page, .retry_s = out->retry_s,
		.code = out->fault.error != 0 ? out->fault.code : "",
		.reason = out->fault.reason };

	if (j->k->monitor != NULL)
		(void)sbx_send_broker_rested(j->k->monitor, j->id, &m,
		    NULL); /* or its channel ends, and all with it */
}

/* Its grant has one fewer under way: others have their turn. */
static void
leave_grant(struct broker *k, const char *id, bool ran, bool used)
{
	struct grant *g = grant_find(k, id);
	const char *why;
	struct job *j;

	if (g == NULL)
		return;
	grant_over(g, ran, used);
	for (;;) {
		TAILQ_FOREACH(j, &k->jobs, link)
			if (j->state == JOB_TURN && strcmp(j->grant, id) == 0)
				break;
		if (j == NULL)
			break;
		if ((why = grant_spent(g)) != NULL)
			job_fail(j, SBX_E_POLICY, "not_granted", "%s", why);
		else if (!grant_takes(g))
			break;
		else {
			j->counted = true;
			job_start(j);
			/* which may have ended it, and more */
			return;
		}
	}
	grant_reap(g);
}

static void
tell(struct job *j, const struct outcome *out)
{
	switch (j->kind) {
	case JOB_GIT:
		tell_exchange(j, out);
		record_exchange(j, out);
		return;
	case JOB_REST:
		tell_rest(j, out);
		record_exchange(j, out);
		return;
	case JOB_MINT:
		if (out->fault.error != 0 && j->mint != NULL)
			mint_failed(j->mint, &out->fault);
		return;
	case JOB_REVOKE:
		revoke_over(j, out);
		return;
	case JOB_KIND_MAX:
		break;
	}
	sbx_fatal("an exchange of no kind");
}

/* How it went with what its token is from, for who looks at the status. */
static void
tell_source(const struct job *j, const struct outcome *out)
{
	if (j->token == NULL || j->kind == JOB_REVOKE)
		return;
	if (out->fault.error == 0 && out->told)
		source_said(&j->k->sources, j->token->source, NULL);
	else if (out->fault.error != 0 &&
	    strcmp(out->fault.code, "unauthorized") == 0)
		source_said(&j->k->sources, j->token->source, "the host does "
		    "not take its token");
}

void
job_end(struct job *j, const struct outcome *out)
{
	static const struct outcome well;
	struct broker *k = j->k;
	const bool counted = j->counted;
	char grant[sizeof(j->grant)];
	const bool ran = j->state == JOB_RUNNING;
	bool used;

	if (out == NULL)
		out = &well;
	/* A courier that began and says nothing may have sent all of it. */
	used = ran && (out->told ? out->out_bytes > PROBE_BYTES : j->begun);
	memcpy(grant, j->grant, sizeof(grant));
	if (j->child != NULL)
		child_end(j->child);
	/* its host does not take it, so the next exchange gets another; or
	 * somebody between said so, and it is good */
	if (out->fault.error != 0 && j->token != NULL &&
	    strcmp(out->fault.code, "unauthorized") == 0)
		token_retire(k, j->token, "its host did not take it");
	tell_source(j, out);
	tell(j, out);
	job_free(j);
	if (counted)
		leave_grant(k, grant, ran, used);
}

void
job_fail(struct job *j, int error, const char *code, const char *fmt, ...)
{
	struct outcome out = { .told = false };
	va_list ap;

	out.fault.error = error;
	out.fault.code = code;
	va_start(ap, fmt);
	(void)vsnprintf(out.fault.reason, sizeof(out.fault.reason), fmt,
	    ap); /* cut, not refused */
	va_end(ap);
	job_end(j, &out);
}

/* The ends of some may end or start others: looked for anew each time. */
void
job_end_grant(struct broker *k, const char *grant, const char *code,
    const char *why)
{
	struct job *j;

	for (;;) {
		TAILQ_FOREACH(j, &k->jobs, link)
			if (grant == NULL ? j->kind != JOB_REVOKE :
			    strcmp(j->grant, grant) == 0)
				break;
		if (j == NULL)
			return;
		job_fail(j, SBX_E_POLICY, code, "%s", why);
	}
}

void
job_end_revocations(struct broker *k, const char *why)
{
	struct job *j;

	for (;;) {
		TAILQ_FOREACH(j, &k->jobs, link)
			if (j->kind == JOB_REVOKE)
				break;
		if (j == NULL)
			return;
		job_fail(j, SBX_E_TIMEOUT, "timeout", "%s", why);
	}
}

void
job_cancel(struct broker *k, uint32_t id)
{
	struct job *j;

	TAILQ_FOREACH(j, &k->jobs, link)
		if (j->kind == JOB_REST && j->id == id)
			break;
	if (j != NULL)
		job_fail(j, SBX_E_CLOSED, "cancelled", "its call ended first");
}

void
job_free_all(struct broker *k)
{
	struct job *j;

	while ((j = TAILQ_FIRST(&k->jobs)) != NULL)
		job_free(j);
}

/* --- the monitor's word ------------------------------------------------------------------ */

static struct job *
job_of(struct broker *k, struct sbx_in *in, enum job_kind kind)
{
	struct job *j = job_new(k, kind);

	j->id = in->hdr.id;
	for (int i = 0; i < in->nfds; i++)
		j->fds[i] = sbx_steal_fd(&in->fds[i]);
	return (j);
}

/* Refused before it begins?  It has ended then. */
static bool
is_refused(struct job *j)
{
	if (j->k->locked)
		job_fail(j, SBX_E_POLICY, "locked", "%s", BROKER_LOCKED);
	else if (j->k->njobs - j->k->nrevokes > BROKER_JOBS)
		job_fail(j, SBX_E_LIMIT, "no_courier",
		    "there are too many exchanges; try again later");
	else
		return (false);
	return (true);
}

/*
 * Safe, since what may be done is what the grant says that the monitor opened,
 * and its descriptors are passed on unread.
 */
void
job_on_exchange(struct broker *k, struct sbx_in *in)
{
	const char *id = in->m.broker_exchange.grant;
	struct job *j = job_of(k, in, JOB_GIT);
	struct grant *g = grant_find(k, id);
	const char *why;

	(void)sbx_strlcpy(j->grant, id, sizeof(j->grant)); /* it fits */
	if (is_refused(j))
		return;
	if (g == NULL || sbx_mono_ns() >= g->by_ns) {
		job_fail(j, SBX_E_NOENT, "not_granted",
		    "there is no such grant, or it is over");
		return;
	}
	/* both are of the same sizes */
	memcpy(j->host, g->host, sizeof(j->host));
	memcpy(j->repo, g->repo, sizeof(j->repo));
	j->op = (uint8_t)g->op;
	j->permissions = g->op == SBX_GRANT_PUSH ? SBX_PERM_PUSH :
	    SBX_PERM_FETCH;
	j->credential = true;
	if ((why = grant_spent(g)) != NULL)
		job_fail(j, SBX_E_POLICY, "not_granted", "%s", why);
	else if (grant_takes(g)) {
		j->counted = true;
		job_start(j);
	} else
		job_set_state(j, JOB_TURN);
}

static const char *
check_rest(const struct sbx_broker_rest *m)
{
	if (m->within_ms == 0 || m->within_ms > SBX_API_MS)
		return ("it has no time, or too much");
	if (sbx_rest_row(m->op) == NULL)
		return ("its operation is none");
	if (!check_host(m->host))
		return ("its host is no canonical name");
	if (!check_repo(m->repo, true))
		return ("its repository is not OWNER/NAME");
	return (NULL);
}

void
job_on_rest(struct broker *k, struct sbx_in *in)
{
	const struct sbx_broker_rest *m = &in->m.broker_rest;
	struct job *j = job_of(k, in, JOB_REST);
	const char *why = check_rest(m);

	if (is_refused(j))
		return;
	if (why != NULL || sbx_strlcpy(j->host, m->host, sizeof(j->host)) < 0 ||
	    sbx_strlcpy(j->repo, m->repo, sizeof(j->repo)) < 0 ||
	    sbx_strlcpy(j->text, m->text, sizeof(j->text)) < 0) {
		job_fail(j, SBX_E_SYNTAX, "bad_request", "%s",
		    why != NULL ? why : "it is too long");
		return;
	}
	j->by_ns = sbx_mono_ns() + m->within_ms * UINT64_C(1000000);
	j->op = m->op;
	j->number = m->number;
	j->page = m->page;
	j->credential = m->credential != 0;
	j->permissions = sbx_rest_row(m->op)->permissions;
	job_start(j);
}
