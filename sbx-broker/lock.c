/*
 * Lockdown: nothing is done with a credential, and what was minted is given
 * back.  The operator's own tokens, from a file, stay: nobody here could
 * revoke them, and the file cannot be read again.
 */

#include "common/base/log.h"
#include "sbx-broker/broker.h"
#include "sbx-broker/record.h"

#include <event2/event.h>
#include <string.h>

static void
answer(struct broker *k)
{
	struct sbx_broker_locked a = { .tokens = k->revoked,
		.failed = k->unrevoked };

	(void)evtimer_del(k->lock_timer); /* or it is over just now */
	for (unsigned i = 0; i < k->nlockers && k->monitor != NULL; i++)
		(void)sbx_send_broker_locked(k->monitor, k->lockers[i], &a,
		    NULL); /* or its channel ends, and all with it */
	k->nlockers = 0;
	k->revoked = k->unrevoked = 0;
}

static void
on_timeout(evutil_socket_t fd, short what, void *ctx)
{
	struct broker *k = ctx;

	(void)fd, (void)what;
	job_end_revocations(k, "its host was not reached in time");
}

void
lock_init(struct broker *k)
{
	k->lock_timer = evtimer_new(k->base, on_timeout, k);
	if (k->lock_timer == NULL)
		sbx_fatal("a lock cannot be timed");
}

void
lock_revoked(struct broker *k, const struct token *t,
    const struct outcome *out)
{
	/* 401: it was none any more */
	const bool gone = out->fault.error == 0 ||
	    strcmp(out->fault.code, "unauthorized") == 0;

	record_revoke(k, t, gone ? NULL : &out->fault);
	k->revoking--;
	if (gone)
		k->revoked++;
	else
		k->unrevoked++;
	if (k->revoking == 0)
		answer(k);
}

/* Counted before any begins, since one may end at once. */
static void
revoke_all(struct broker *k)
{
	struct token *t;
	struct job *j;

	k->revoking += k->tokens.n;
	while ((t = LIST_FIRST(&k->tokens.list)) != NULL) {
		job_new(k, JOB_REVOKE)->token = token_ref(t);
		tokens_drop(&k->tokens, t);
	}
	for (;;) {
		TAILQ_FOREACH(j, &k->jobs, link)
			if (j->kind == JOB_REVOKE && j->state == JOB_NEW)
				break;
		if (j == NULL)
			return;
		job_dial(j, j->token->source->api_host);
	}
}

/*
 * A mint under way is given up: what comes of it is known to its courier alone,
 * which ends.
 */
static void
lock(struct broker *k)
{
	const struct timeval t = { BROKER_LOCK_MS / 1000,
		BROKER_LOCK_MS % 1000 * 1000 };

	k->locked = true;
	grant_free_all(k);
	job_end_grant(k, NULL, "locked", "the suite is locked down");
	mint_free_all(k);
	/* those of an earlier lock may still be under way */
	if (k->tokens.n > 0) {
		if (evtimer_add(k->lock_timer, &t) < 0)
			sbx_fatal("a lock cannot be timed");
		revoke_all(k);
		return;
	}
	if (k->revoking == 0)
		answer(k);
}

int
lock_set(struct broker *k, uint32_t id, bool on)
{
	if (!on) {
		k->locked = false;
		return (sbx_send_broker_locked(k->monitor, id,
		    &(struct sbx_broker_locked){ 0 }, NULL));
	}
	if (k->nlockers == BROKER_LOCKERS)
		return (SBX_E_LIMIT);
	k->lockers[k->nlockers++] = id;
	lock(k);
	return (0);
}

void
lock_free(struct broker *k)
{
	if (k->lock_timer != NULL)
		event_free(k->lock_timer);
}
