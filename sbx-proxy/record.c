#include "sbx-proxy/record.h"

#include "common/base/log.h"
#include "common/proto/record.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TARGET_MAX 512u
#define NS_S 1000000000ull

const struct sbx_dispatch_table proxy_from_journald = {
	SBX_PROC_PROXY, SBX_PROC_JOURNALD, sbx_record_rows,
};

/* One refusal that is being coalesced. */
struct key {
	bool used;
	bool told;		/* for the first time */
	enum layer layer;
	char code[40];
	char target[TARGET_MAX + 1];
	char why[256];		/* the first one's */
	uint64_t count;		/* not told yet */
	uint64_t first, last;	/* of these, wall clock */
	uint64_t until;		/* monotonic: told then */
};

struct denials {
	struct listener *l;
	struct key keys[RECORD_KEYS];
	struct sbx_record_rate denied, passed;
	uint64_t dropped;	/* refusals that no record tells of yet */
	uint64_t more;		/* exchanges likewise */
	struct event *timer;	/* owned; pending while a key is used */
};

const char *
layer_name(enum layer layer)
{
	static const char *const names[LAYER_MAX] = { "parse", "limit",
		"policy", "dns", "address", "dial", "sni", "tls", "host",
		"gate", "grant", "push", "budget", "courier" };

	return (layer < LAYER_MAX ? names[layer] : "");
}

/* --- one record --------------------------------------------------------------- */

/* f is cleared. */
static void
append(struct listener *l, const char *op, const char *phase,
    struct sbx_record *f)
{
	const struct sbx_journal_append a = { .op = op, .phase = phase,
		.principal = l->principal, .container = l->container,
		.run = "" };

	/* of what is lost the next record tells */
	(void)sbx_record_send(f, l->x->journald, &a, &l->x->lost_records);
}

/* --- refusals ------------------------------------------------------------------ */

static void
tell(struct denials *d, struct key *k)
{
	char first[SBX_WALL_SIZE], last[SBX_WALL_SIZE];
	struct sbx_record f;

	sbx_wall_text(k->first, first);
	sbx_wall_text(k->last, last);
	sbx_record_begin(&f);
	sbx_record_add(&f, "verdict", "denied");
	sbx_record_add(&f, "layer", "%s", layer_name(k->layer));
	sbx_record_add(&f, "code", "%s", k->code);
	sbx_record_add(&f, "target", "%s", k->target);
	sbx_record_add(&f, "reason", "%s", k->why);
	sbx_record_number(&f, "count", k->count);
	sbx_record_add(&f, "first", "%s", first);
	sbx_record_add(&f, "last", "%s", last);
	sbx_record_number(&f, "dropped", d->dropped);
	d->dropped = 0;
	k->count = 0;
	k->told = true;
	append(d->l, "egress", "", &f);
}

/* No other record came to tell of them. */
static void
tell_dropped(struct denials *d)
{
	struct key k = { .layer = LAYER_LIMIT, .code = "too_many_refusals",
		.why = "more was refused than is told one by one" };

	if (d->dropped == 0)
		return;
	k.first = k.last = sbx_wall_ns();
	tell(d, &k);
}

static void
wait_second(struct denials *d)
{
	const struct timeval second = { .tv_sec = 1 };

	if (!evtimer_pending(d->timer, NULL) &&
	    evtimer_add(d->timer, &second) < 0)
		sbx_fatal("records cannot be timed");
}

/* What is due, as far as the rate goes. */
static void
on_second(evutil_socket_t fd, short what, void *ctx)
{
	struct denials *d = ctx;
	uint64_t now = sbx_mono_ns();
	bool used = false, due;
	struct key *k;

	(void)fd;
	(void)what;
	for (k = d->keys; k < d->keys + RECORD_KEYS; k++) {
		if (!k->used)
			continue;
		due = now >= k->until;
		if (k->count > 0 && (due || !k->told) &&
		    sbx_record_rate(&d->denied, now, RECORD_RATE))
			tell(d, k);
		k->used = !due || k->count > 0;
		used = used || k->used;
	}
	if (used)
		wait_second(d);
	else
		tell_dropped(d);
}

static struct denials *
denials_of(struct listener *l)
{
	if (l->denials == NULL) {
		l->denials = sbx_xcalloc(1, sizeof(*l->denials));
		l->denials->l = l;
		l->denials->timer = evtimer_new(l->x->base, on_second,
		    l->denials);
		if (l->denials->timer == NULL)
			sbx_fatal("records cannot be timed");
	}
	return (l->denials);
}

/* The one of (layer, code, target), or an unused one, or NULL. */
static struct key *
find_key(struct denials *d, enum layer layer, const char *code,
    const char *target)
{
	struct key *k, *unused = NULL;

	for (k = d->keys; k < d->keys + RECORD_KEYS; k++) {
		if (!k->used)
			unused = k;
		else if (k->layer == layer && strcmp(k->code, code) == 0 &&
		    strcmp(k->target, target) == 0)
			return (k);
	}
	return (unused);
}

void
record_denied(struct listener *l, enum layer layer, const char *code,
    const char *target, const char *why)
{
	struct denials *d = denials_of(l);
	uint64_t now = sbx_mono_ns(), wall = sbx_wall_ns();
	char cut[TARGET_MAX + 1], name[sizeof(d->keys[0].code)];
	struct key *k;

	/* cut alike, so that what is told is what is compared */
	(void)snprintf(cut, sizeof(cut), "%s", target);
	(void)snprintf(name, sizeof(name), "%s", code);
	wait_second(d);
	if ((k = find_key(d, layer, name, cut)) == NULL) {
		d->dropped++;
		return;
	}
	if (k->count++ == 0)
		k->first = wall;
	k->last = wall;
	if (k->used)
		return;
	k->used = true;
	k->told = false;
	k->layer = layer;
	k->until = now + RECORD_WINDOW_S * NS_S;
	memcpy(k->code, name, sizeof(k->code));
	memcpy(k->target, cut, sizeof(k->target));
	(void)snprintf(k->why, sizeof(k->why), "%s", why);
	if (sbx_record_rate(&d->denied, now, RECORD_RATE))
		tell(d, k);
}

/* --- what was let through --------------------------------------------------------- */

void
record_passed(const struct record_passed *r)
{
	const struct conn *c = r->c;
	struct denials *d = denials_of(c->l);
	struct sbx_record f;

	if (!sbx_record_rate(&d->passed, sbx_mono_ns(), RECORD_RATE)) {
		d->more++;
		return;
	}
	sbx_record_begin(&f);
	sbx_record_add(&f, "verdict", "allowed");
	sbx_record_add(&f, "what", "%s", r->what);
	sbx_record_add(&f, "scheme", "%s", c->scheme == POLICY_HTTP ? "http" :
	    "https");
	sbx_record_add(&f, "host", "%s", c->host.text);
	sbx_record_add(&f, "port", "%u", c->port);
	sbx_record_add(&f, "method", "%.64s", r->method);
	sbx_record_add(&f, "path", "%.512s", r->path);
	sbx_record_number(&f, "status", r->status);
	sbx_record_add(&f, "out", "%" PRIu64, r->out);
	sbx_record_add(&f, "in", "%" PRIu64, r->in);
	sbx_record_add(&f, "ms", "%" PRIu64, r->ms);
	sbx_record_add(&f, "grant", "%s", r->grant);
	if (r->courier)
		sbx_record_add(&f, "via", "courier");
	sbx_record_add(&f, "end", "%s", r->end);
	sbx_record_number(&f, "more", d->more);
	d->more = 0;
	append(c->l, "egress", "end", &f);
}

void
record_grant_used(struct listener *l, const char *grant, unsigned left)
{
	struct sbx_record f;

	sbx_record_begin(&f);
	sbx_record_add(&f, "grant", "%s", grant);
	sbx_record_add(&f, "uses", "%u", left);
	append(l, "grant", "use", &f);
}

/* --- their end ---------------------------------------------------------------------- */

void
record_flush(struct listener *l)
{
	struct denials *d = l->denials;
	struct sbx_record f;

	if (d == NULL)
		return;
	for (struct key *k = d->keys; k < d->keys + RECORD_KEYS; k++) {
		if (k->used && k->count > 0)
			tell(d, k);
		k->used = false;
	}
	tell_dropped(d);
	if (d->more == 0)
		return;
	sbx_record_begin(&f);
	sbx_record_add(&f, "verdict", "allowed");
	sbx_record_number(&f, "more", d->more);
	d->more = 0;
	append(l, "egress", "end", &f);
}

void
denials_free(struct denials *d)
{
	if (d == NULL)
		return;
	event_free(d->timer);
	free(d);
}
