/*
 * Lockdown: nothing is done with a credential, and what was minted is given
 * back.  The operator's own tokens, from a file, stay: nobody here could
 * revoke them, and the file cannot be read again.
 */

#include "common/base/log.h"
#include "sbx-broker/broker.h"

#include <event2/event.h>

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

void
lock_check(struct broker *k)
{
	if (k->nlockers > 0 && k->nrevokes == 0 && pool_late(k) == 0)
		answer(k);
}

static void
on_timeout(evutil_socket_t fd, short what, void *ctx)
{
	struct broker *k = ctx;

	(void)fd, (void)what;
	k->unrevoked += pool_late(k);
	pool_end_late(k);
	job_end_revocations(k, "its host was not reached in time");
	lock_check(k);
}

bool
lock_has_time(const struct broker *k)
{
	return (evtimer_pending(k->lock_timer, NULL) != 0);
}

void
lock_init(struct broker *k)
{
	k->lock_timer = evtimer_new(k->base, on_timeout, k);
	if (k->lock_timer == NULL)
		sbx_fatal("a lock cannot be timed");
}

void
lock_count(struct broker *k, bool revoked)
{
	if (k->nlockers == 0)
		return;
	if (revoked)
		k->revoked++;
	else
		k->unrevoked++;
	lock_check(k);
}

/* A mint under way goes on, for what comes of it is to be revoked, too. */
static void
lock(struct broker *k)
{
	const struct timeval t = { BROKER_LOCK_MS / 1000,
		BROKER_LOCK_MS % 1000 * 1000 };

	k->locked = true;
	grant_free_all(k);
	job_end_grant(k, NULL, "locked", BROKER_LOCKED);
	mint_free_all(k);
	token_retire_all(k, "the suite is locked down");
	if (!evtimer_pending(k->lock_timer, NULL) &&
	    evtimer_add(k->lock_timer, &t) < 0)
		sbx_fatal("a lock cannot be timed");
	/* those of before may be under way, too, of which more may go now */
	revoke_hurry(k);
	lock_check(k);
}

int
lock_set(struct broker *k, uint32_t id, bool on)
{
	if (!on) {
		k->locked = false;
		/* the rest is revoked without hurry, and waited for no more */
		k->unrevoked += k->nlockers > 0 ? k->nrevokes + pool_late(k) : 0;
		answer(k);
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
