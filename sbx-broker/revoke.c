/*
 * Tokens that are used no more are given back to who made them: those that
 * leave the cache, whatever the reason, and those that were minted and never
 * got there.  By a courier each, so many at a time, and again for a while where
 * that fails; what cannot be revoked is recorded, and ends by itself within the
 * hour.
 */

#include "sbx-broker/broker.h"

#include "common/base/log.h"
#include "sbx-broker/record.h"
#include "sbx-broker/times.h"

#include <event2/event.h>
#include <inttypes.h>
#include <string.h>

/* t: one reference, taken. */
static struct job *
job_of(struct broker *k, struct token *t, const char *why)
{
	const struct timeval now = { 0, 0 };
	struct job *j = job_new(k, JOB_REVOKE);

	j->token = t;
	j->why = why;
	k->nrevokes++;
	/* from the loop: whoever came here may be amid the table of jobs */
	if (evtimer_add(k->revoke_timer, &now) < 0)
		sbx_fatal("a revocation cannot be timed");
	return (j);
}

/* t: one reference, taken. */
static void
enqueue(struct broker *k, struct token *t)
{
	const char *why = t->retired;
	struct fault f;

	if (k->nrevokes == BROKER_REVOKES) {
		fault_set(&f, SBX_E_LIMIT, "no_courier",
		    "too many wait to be revoked");
		record_revoke(k, t, why, 1, 0, &f);
		token_unref(t);
		return;
	}
	t->retired = NULL;
	(void)job_of(k, t, why);
}

void
token_release(struct broker *k, struct token *t)
{
	if (t != NULL && t->refs == 1 && t->retired != NULL)
		enqueue(k, t);
	else
		token_unref(t);
}

void
token_retire(struct broker *k, struct token *t, const char *why)
{
	if (t == NULL || !t->cached)
		return;		/* not minted, or retired before */
	t->retired = why;
	(void)token_ref(t);
	tokens_drop(&k->tokens, t);
	token_release(k, t);
}

void
token_retire_all(struct broker *k, const char *why)
{
	struct token *t;

	while ((t = LIST_FIRST(&k->tokens.list)) != NULL)
		token_retire(k, t, why);
}

/* It never was in the cache. */
void
revoke_text(struct broker *k, const struct source *s, const char *repo,
    const char *text, const char *why)
{
	const size_t len = strlen(text);
	struct sbx_secret *secret;
	struct sbx_err err = { 0 };
	struct token *t;

	if (token_check("", text, len) != NULL)
		return;		/* "", or nothing that a header could take */
	secret = sbx_secret_new(len, &err);
	if (secret == NULL || sbx_secret_add(secret, text, len) < 0) {
		log_warn("a token of %s is not revoked: %s", s->host, err.msg);
		sbx_secret_free(secret);
		return;
	}
	t = token_new(secret, s);
	t->number = ++k->tokens.minted;
	t->retired = why;
	t->expires_ns = sbx_mono_ns() + TIMES_LIFE_S * UINT64_C(1000000000);
	if (sbx_strlcpy(t->repo, repo, sizeof(t->repo)) < 0)
		sbx_fatal("a mint's text is longer than itself");
	token_release(k, t);
}

/* --- when their time is over --------------------------------------------------- */

void
revoke_expired(struct broker *k)
{
	const uint64_t now = sbx_mono_ns();
	uint64_t next = UINT64_MAX, ms;
	struct token *t, *after;
	struct timeval in;

	for (t = LIST_FIRST(&k->tokens.list); t != NULL; t = after) {
		after = LIST_NEXT(t, link);
		if (now >= t->until_ns)
			token_retire(k, t, "its time is over");
		else if (t->until_ns < next)
			next = t->until_ns;
	}
	(void)evtimer_del(k->expiry_timer); /* or it is over just now */
	if (next == UINT64_MAX)
		return;
	ms = (next - now) / 1000000 + 1;
	in.tv_sec = (time_t)(ms / 1000);
	in.tv_usec = (suseconds_t)(ms % 1000 * 1000);
	if (evtimer_add(k->expiry_timer, &in) < 0)
		sbx_fatal("a token cannot be timed");
}

static void
on_expiry(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd, (void)what;
	revoke_expired(ctx);
}

/* --- their turn ------------------------------------------------------------------ */

/* The first that waits, if one more may begin; the monitor has a limit of
 * connections, of which mints have their share unless there are none.
 * *ret_from_ns: when the first of those is due that are not yet. */
static struct job *
next_job(struct broker *k, uint64_t *ret_from_ns)
{
	const uint64_t now = sbx_mono_ns();
	const unsigned most = k->locked ? SBX_MAX_BROKER_DIALS :
	    BROKER_REVOKING;
	struct job *j, *first = NULL;
	unsigned n = 0;

	*ret_from_ns = UINT64_MAX;
	TAILQ_FOREACH(j, &k->jobs, link) {
		if (j->kind != JOB_REVOKE)
			continue;
		if (j->state != JOB_NEW)
			n++;
		else if (j->from_ns > now)
			*ret_from_ns = j->from_ns < *ret_from_ns ?
			    j->from_ns : *ret_from_ns;
		else if (first == NULL)
			first = j;
	}
	return (n < most && ask_count(k, ASK_DIAL) < most ? first : NULL);
}

static void
on_turn(evutil_socket_t fd, short what, void *ctx)
{
	struct broker *k = ctx;
	uint64_t from, ms;
	struct timeval in;
	struct job *j;

	(void)fd, (void)what;
	while ((j = next_job(k, &from)) != NULL)
		job_dial(j, j->token->source->api_host);
	if (from == UINT64_MAX)
		return;
	ms = from > sbx_mono_ns() ? (from - sbx_mono_ns()) / 1000000 + 1 : 1;
	in.tv_sec = (time_t)(ms / 1000);
	in.tv_usec = (suseconds_t)(ms % 1000 * 1000);
	if (evtimer_add(k->revoke_timer, &in) < 0)
		sbx_fatal("a revocation cannot be timed");
}

void
revoke_next(struct broker *k)
{
	const struct timeval now = { 0, 0 };

	if (k->nrevokes > 0 && evtimer_add(k->revoke_timer, &now) < 0)
		sbx_fatal("a revocation cannot be timed");
}

void
revoke_hurry(struct broker *k)
{
	struct job *j;

	TAILQ_FOREACH(j, &k->jobs, link)
		if (j->kind == JOB_REVOKE) {
			j->from_ns = 0;
			j->tries = 0;
		}
	revoke_next(k);
}

/* When it is tried again; 0: never.  A lock has its own time, and behind that
 * nothing is dialled any more. */
static uint64_t
again_ns(const struct job *j, const struct outcome *out)
{
	const uint64_t now = sbx_mono_ns();

	if (!j->k->locked)
		return (times_again_ns(j->tries + 1, out->retry_s, now,
		    j->token->expires_ns));
	return (lock_has_time(j->k) && j->tries + 1 < TIMES_TRIES ?
	    now + TIMES_HURRY_NS : 0);
}

void
revoke_over(struct job *j, const struct outcome *out)
{
	struct broker *k = j->k;
	/* 401: it was none any more */
	const bool gone = out->fault.error == 0 ||
	    strcmp(out->fault.code, "unauthorized") == 0;
	const uint64_t from = gone ? 0 : again_ns(j, out);
	struct job *next;

	record_revoke(k, j->token, j->why, j->tries + 1, from,
	    gone ? NULL : &out->fault);
	k->nrevokes--;
	if (from == 0) {
		lock_count(k, gone);
		revoke_next(k);
		return;
	}
	next = job_of(k, token_ref(j->token), j->why);
	next->tries = j->tries + 1;
	next->from_ns = from;
}

void
revoke_init(struct broker *k)
{
	k->revoke_timer = evtimer_new(k->base, on_turn, k);
	k->expiry_timer = evtimer_new(k->base, on_expiry, k);
	if (k->revoke_timer == NULL || k->expiry_timer == NULL)
		sbx_fatal("revocations cannot be timed");
}

void
revoke_free(struct broker *k)
{
	if (k->revoke_timer != NULL)
		event_free(k->revoke_timer);
	if (k->expiry_timer != NULL)
		event_free(k->expiry_timer);
}
