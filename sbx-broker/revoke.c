/*
 * Tokens that are used no more are given back to who made them: those that
 * leave the cache, whatever the reason, and those that were minted and never
 * got there.  Once each, by a courier, so many at a time; what cannot be
 * revoked is recorded, and ends by itself within the hour.
 */

#include "sbx-broker/broker.h"

#include "common/base/log.h"
#include "sbx-broker/record.h"

#include <event2/event.h>
#include <inttypes.h>
#include <string.h>

/* t: one reference, taken. */
static void
enqueue(struct broker *k, struct token *t)
{
	const struct timeval now = { 0, 0 };
	struct fault f;
	struct job *j;

	if (k->nrevokes == BROKER_REVOKES) {
		fault_set(&f, SBX_E_LIMIT, "no_courier",
		    "too many wait to be revoked");
		record_revoke(k, t, t->retired, &f);
		token_unref(t);
		return;
	}
	j = job_new(k, JOB_REVOKE);
	j->token = t;
	j->why = t->retired;
	t->retired = NULL;
	k->nrevokes++;
	/* from the loop: whoever came here may be amid the table of jobs */
	if (evtimer_add(k->revoke_timer, &now) < 0)
		sbx_fatal("a revocation cannot be timed");
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
 * connections, of which mints have their share unless there are none. */
static struct job *
next_job(struct broker *k)
{
	const unsigned most = k->locked ? SBX_MAX_BROKER_DIALS :
	    BROKER_REVOKING;
	struct job *j, *first = NULL;
	unsigned n = 0;

	TAILQ_FOREACH(j, &k->jobs, link) {
		if (j->kind != JOB_REVOKE)
			continue;
		if (j->state != JOB_NEW)
			n++;
		else if (first == NULL)
			first = j;
	}
	return (n < most && ask_count(k, ASK_DIAL) < most ? first : NULL);
}

static void
on_turn(evutil_socket_t fd, short what, void *ctx)
{
	struct broker *k = ctx;
	struct job *j;

	(void)fd, (void)what;
	while ((j = next_job(k)) != NULL)
		job_dial(j, j->token->source->api_host);
}

void
revoke_next(struct broker *k)
{
	const struct timeval now = { 0, 0 };

	if (k->nrevokes > 0 && evtimer_add(k->revoke_timer, &now) < 0)
		sbx_fatal("a revocation cannot be timed");
}

void
revoke_over(struct job *j, const struct outcome *out)
{
	struct broker *k = j->k;
	/* 401: it was none any more */
	const bool gone = out->fault.error == 0 ||
	    strcmp(out->fault.code, "unauthorized") == 0;

	record_revoke(k, j->token, j->why, gone ? NULL : &out->fault);
	k->nrevokes--;
	lock_count(k, gone);
	revoke_next(k);
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
