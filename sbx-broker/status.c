/* What an operator may know of the credentials: nothing of one. */

#include "sbx-broker/broker.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define NS_S 1000000000ull
#define LINES_MAX 15360u	/* BROKER_STATE.lines */

struct lines {
	struct sbx_strs strs;
	struct sbx_buf buf;
};

static void SBX_PRINTF(2, 3)
add(struct lines *l, const char *fmt, ...)
{
	char text[640];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut, not refused */
	va_end(ap);
	/* the last ones may be missing then: better than no answer */
	(void)sbx_strs_add(&l->strs, &l->buf, text);
}

static void
add_asked(struct lines *l, const struct source *s)
{
	const time_t t = (time_t)(s->asked_wall_ns / NS_S);
	char when[32] = "";
	struct tm tm;

	if (gmtime_r(&t, &tm) != NULL)
		(void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	add(l, "  last used %s UTC: %s", when, s->why[0] == '\0' ? "it went "
	    "well" : s->why);
}

static void
add_source(struct lines *l, const struct source *s)
{
	char what[320];

	switch (s->kind) {
	case SOURCE_COMMAND:
		(void)snprintf(what, sizeof(what), "github_token_command");
		break;
	case SOURCE_APP:
		(void)snprintf(what, sizeof(what), "github_app %s installation "
		    "%" PRIu64 "%s%s", s->app, s->installation,
		    s->fingerprint[0] != '\0' ? " key " : "", s->fingerprint);
		break;
	case SOURCE_TOKEN:
		(void)snprintf(what, sizeof(what), "github_token_file");
		break;
	case SOURCE_KIND_MAX:
		return;
	}
	add(l, "%s: %s: %s", s->host, what,
	    s->bad[0] == '\0' ? "usable" : s->bad);
	if (s->asked_wall_ns != 0)
		add_asked(l, s);
}

static void
add_changed(struct lines *l, struct sbx_broker_state *m, const struct source *s)
{
	m->bad |= s->bad[0] != '\0';
	if (!source_changed(s))
		return;
	m->changed = 1;
	add(l, "  %.256s changed since it was read: SIGHUP to sbxd has it read "
	    "anew", s->file);
}

static unsigned
at_work(const struct broker *k)
{
	return (pool_count(k, CHILD_MINT) + pool_count(k, CHILD_WORK));
}

void
status_line(const struct broker *k, char *buf, size_t size)
{
	(void)snprintf(buf, size, "sources=%u tokens=%u grants=%u "
	    "couriers=%u%s", k->sources.n, k->tokens.n, k->ngrants,
	    pool_count(k, CHILD_IDLE) + at_work(k), k->locked ? " locked" : "");
}

int
status_send(struct broker *k, uint32_t id)
{
	struct sbx_broker_state m = { .signer_bad = k->sources.signer.bad };
	struct lines l = { .strs = { 0 } };
	int r;

	revoke_expired(k);
	sbx_buf_init(&l.buf, LINES_MAX);
	add(&l, "tokens: %u kept, %" PRIu64 " minted", k->tokens.n,
	    k->tokens.minted);
	if (k->nrevokes > 0)
		add(&l, "revocations: %u under way", k->nrevokes);
	add(&l, "grants: %u", k->ngrants);
	add(&l, "couriers: %u ready, %u at work", pool_count(k, CHILD_IDLE),
	    at_work(k));
	add(&l, "locked: %s", k->locked ? "yes" : "no");
	if (k->sources.n == 0)
		add(&l, "sources: none");
	for (unsigned i = 0; i < k->sources.n; i++) {
		add_source(&l, &k->sources.s[i]);
		add_changed(&l, &m, &k->sources.s[i]);
	}
	if (k->sources.signs)
		add(&l, "publish_signing_key: %s", k->sources.signer.bad[0] ==
		    '\0' ? "usable" : k->sources.signer.bad);
	if (k->sources.signer_line[0] != '\0')
		add(&l, "  %s", k->sources.signer_line);
	if (k->sources.signs)
		add_changed(&l, &m, &k->sources.signer);
	m.lines = l.strs;
	r = sbx_send_broker_state(k->monitor, id, &m, NULL);
	sbx_buf_clear(&l.buf);
	return (r);
}
