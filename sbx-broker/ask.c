/*
 * What the monitor was asked for and has not brought yet.  Each ask has a
 * deadline; one that is over stays in the table until its answer comes, so
 * that this is no violation, and what it brings is closed.
 */

#include "common/base/log.h"
#include "sbx-broker/broker.h"

#include <event2/event.h>
#include <inttypes.h>
#include <string.h>

struct ask {
	LIST_ENTRY(ask) link;
	struct broker *k;
	enum ask_kind kind;
	uint32_t id;
	ask_done done;		/* NULL: nobody waits */
	void *ctx;
	struct event *timer;	/* owned */
};

static void
ask_free(struct ask *a)
{
	LIST_REMOVE(a, link);
	a->k->nasks--;
	event_free(a->timer);
	free(a);
}

static void
on_timeout(evutil_socket_t fd, short what, void *ctx)
{
	struct ask *a = ctx;
	ask_done done = a->done;

	(void)fd, (void)what;
	a->done = NULL;
	if (done != NULL)
		done(a->ctx, a->id, -1, a->kind == ASK_DIAL ?
		    "no connection came in time" :
		    "it was not started in time");
}

static int
send_ask(struct broker *k, const struct ask *a, const char *host)
{
	const enum sbx_proc proc = a->kind == ASK_COMMAND ? SBX_PROC_COMMAND :
	    SBX_PROC_COURIER;

	if (a->kind == ASK_DIAL)
		return (sbx_send_broker_dial(k->monitor, a->id,
		    &(struct sbx_broker_dial){ .host = host, .port = 443 },
		    NULL));
	return (sbx_send_broker_want(k->monitor, a->id,
	    &(struct sbx_broker_want){ .proc = proc }, NULL));
}

struct ask *
ask_start(struct broker *k, enum ask_kind kind, const char *host,
    ask_done done, void *ctx, const char **ret_why)
{
	const int ms = kind == ASK_DIAL ? BROKER_DIAL_MS : BROKER_CHILD_MS;
	const struct timeval t = { ms / 1000, ms % 1000 * 1000 };
	struct ask *a;

	*ret_why = "too much is under way";
	if (k->nasks == BROKER_ASKS)
		return (NULL);
	*ret_why = "the monitor cannot be asked";
	if (k->monitor == NULL)
		return (NULL);
	a = sbx_xcalloc(1, sizeof(*a));
	a->k = k;
	a->kind = kind;
	a->id = sbx_peer_next_id(k->monitor);
	a->done = done;
	a->ctx = ctx;
	a->timer = evtimer_new(k->base, on_timeout, a);
	if (a->timer == NULL || evtimer_add(a->timer, &t) < 0)
		sbx_fatal("the monitor's answer cannot be timed");
	LIST_INSERT_HEAD(&k->asks, a, link);
	k->nasks++;
	if (send_ask(k, a, host) == 0)
		return (a);
	ask_free(a);
	return (NULL);
}

void
ask_forget(struct ask *a)
{
	if (a != NULL)
		a->done = NULL;
}

unsigned
ask_count(const struct broker *k, enum ask_kind kind)
{
	const struct ask *a;
	unsigned n = 0;

	LIST_FOREACH(a, &k->asks, link)
		n += a->kind == kind;
	return (n);
}

int
ask_answered(struct broker *k, uint32_t id, unsigned kinds, int *fd,
    const char *why)
{
	ask_done done;
	struct ask *a;
	void *ctx;

	LIST_FOREACH(a, &k->asks, link)
		if (a->id == id && (kinds & 1u << a->kind) != 0)
			break;
	if (a == NULL)
		return (SBX_E_STATE);
	done = a->done;
	ctx = a->ctx;
	ask_free(a);
	revoke_next(k);
	if (done != NULL)
		done(ctx, id, fd != NULL ? sbx_steal_fd(fd) : -1, why);
	return (0);
}

void
ask_free_all(struct broker *k)
{
	struct ask *a;

	while ((a = LIST_FIRST(&k->asks)) != NULL)
		ask_free(a);
}
