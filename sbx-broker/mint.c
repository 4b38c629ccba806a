/*
 * Where a token comes from: the sources of its host, one after the other, until
 * one gives it.  Exchanges that need the same one wait for the same mint.
 *
 * Behind the operator's command nothing else is asked: what it refuses to give
 * is not taken from elsewhere.  Behind an App that is not installed for the
 * repository the next one is.
 */

#include "common/base/log.h"
#include "sbx-broker/broker.h"
#include "sbx-broker/key.h"
#include "sbx-broker/record.h"
#include "sbx-broker/times.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NS_S 1000000000ull

struct mint {
	LIST_ENTRY(mint) link;
	struct broker *k;
	char host[254], repo[141];
	const char *permissions;	/* static */
	const struct source *src;	/* borrowed; the one that is asked */
	struct ask *ask;		/* of a command's process */
	struct child *child;		/* the command's */
	struct job *job;		/* of an App: JOB_MINT */
	char why[BROKER_REASON];	/* of the sources before it */
};

/* --- its end --------------------------------------------------------------------- */

static void
mint_free(struct mint *m)
{
	LIST_REMOVE(m, link);
	m->k->nmints--;
	ask_forget(m->ask);
	free(m);
}

static struct job *
find_waiter(struct broker *k, const struct mint *m)
{
	struct job *j;

	TAILQ_FOREACH(j, &k->jobs, link)
		if (j->state == JOB_TOKEN && j->mint == m)
			return (j);
	return (NULL);
}

/* t: borrowed; NULL: f says why there is none.  It has left the table before
 * anybody hears of it, so that nobody joins it any more. */
static void
mint_over(struct mint *m, struct token *t, const struct fault *f)
{
	struct broker *k = m->k;
	struct job *j;

	LIST_REMOVE(m, link);
	k->nmints--;
	while ((j = find_waiter(k, m)) != NULL) {
		j->mint = NULL;
		if (t != NULL)
			job_has_token(j, t);
		else
			job_fail(j, f->error, f->code, "%s", f->reason);
	}
	free(m);
}

/* --- one source -------------------------------------------------------------------- */

static const char *
source_text(const struct source *s, char *buf, size_t size)
{
	if (s->kind == SOURCE_APP)
		(void)snprintf(buf, size, "github_app %.20s at %.64s", s->app,
		    s->host);
	else if (s->kind == SOURCE_COMMAND)
		(void)snprintf(buf, size, "github_token_command");
	else
		(void)snprintf(buf, size, "github_token_file of %.64s",
		    s->host);
	return (buf);
}

/* The first one's word stands: it is the one that should have worked. */
static void SBX_PRINTF(2, 3)
note(struct mint *m, const char *fmt, ...)
{
	char who[128], text[BROKER_REASON];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut, not refused */
	va_end(ap);
	log_notice("no token of %s: %s", source_text(m->src, who, sizeof(who)),
	    text);
	record_no_mint(m->k, m->src, m->repo, m->permissions, text);
	source_said(&m->k->sources, m->src, text);
	if (m->why[0] == '\0')
		(void)snprintf(m->why, sizeof(m->why), "%.96s: %.150s",
		    source_text(m->src, who, sizeof(who)), text);
}

static void
fail(struct mint *m, int error, const char *code)
{
	struct fault f;

	fault_set(&f, error, code, "%s", m->why);
	mint_over(m, NULL, &f);
}

static void
on_command(void *ctx, uint32_t id, int fd, const char *why)
{
	struct mint *m = ctx;
	char text[128];

	(void)id;
	m->ask = NULL;
	if (fd < 0) {
		note(m, "its process was not started: %s",
		    sbx_vis(text, sizeof(text), why, strlen(why)));
		fail(m, SBX_E_CLOSED, "source_failed");
		return;
	}
	m->child = pool_command(m->k, fd, m, (int)m->src->within_s * 1000 +
	    BROKER_COMMAND_MS);
}

static void
ask_command(struct mint *m)
{
	const char *why;

	m->ask = ask_start(m->k, ASK_COMMAND, NULL, on_command, m, &why);
	if (m->ask != NULL)
		return;
	note(m, "%s", why);
	fail(m, SBX_E_LIMIT, "source_failed");
}

static void
ask_app(struct mint *m)
{
	m->job = job_new(m->k, JOB_MINT);
	m->job->mint = m;
	job_dial(m->job, m->src->api_host);
}

/* The next source, if there is one. */
static void
mint_next(struct mint *m)
{
	const struct sources *all = &m->k->sources;

	while ((m->src = sources_next(all, m->host, m->src)) != NULL) {
		if (m->src->bad[0] != '\0') {
			note(m, "%s", m->src->bad);
			continue;
		}
		switch (m->src->kind) {
		case SOURCE_COMMAND:
			ask_command(m);
			return;
		case SOURCE_APP:
			ask_app(m);
			return;
		case SOURCE_TOKEN:
			mint_over(m, m->src->token, NULL);
			return;
		case SOURCE_KIND_MAX:
			break;
		}
		sbx_fatal("a source of no kind");
	}
	fail(m, SBX_E_UNSUPPORTED, "source_failed");
}

static struct mint *
mint_find(struct broker *k, const char *host, const char *repo,
    const char *permissions)
{
	struct mint *m;

	LIST_FOREACH(m, &k->mints, link)
		if (strcmp(m->host, host) == 0 &&
		    strcmp(m->repo, repo) == 0 &&
		    strcmp(m->permissions, permissions) == 0)
			return (m);
	return (NULL);
}

static struct mint *
mint_new(struct broker *k, const char *host, const char *repo,
    const char *permissions)
{
	struct mint *m = sbx_xcalloc(1, sizeof(*m));

	m->k = k;
	m->permissions = permissions;
	if (sbx_strlcpy(m->host, host, sizeof(m->host)) < 0 ||
	    sbx_strlcpy(m->repo, repo, sizeof(m->repo)) < 0)
		sbx_fatal("an exchange's text is longer than itself");
	LIST_INSERT_HEAD(&k->mints, m, link);
	k->nmints++;
	return (m);
}

void
mint_for(struct job *j)
{
	struct broker *k = j->k;
	const struct source *s = sources_next(&k->sources, j->host, NULL);
	const char *repo = j->repo, *permissions = j->permissions;
	struct token *t;

	if (s == NULL) {
		job_fail(j, SBX_E_NOENT, "no_source", "no source of "
		    "credentials is configured for %s", j->host);
		return;
	}
	t = tokens_find(&k->tokens, j->host, repo, permissions, sbx_mono_ns());
	if (t != NULL) {
		job_has_token(j, t);
		return;
	}
	/* the command is not told for what its token is */
	if (s->kind == SOURCE_COMMAND)
		repo = permissions = "";
	if ((j->mint = mint_find(k, j->host, repo, permissions)) != NULL)
		return;
	if (k->nmints == BROKER_MINTS) {
		job_fail(j, SBX_E_LIMIT, "source_failed", "too many tokens are "
		    "being asked for; try again later");
		return;
	}
	j->mint = mint_new(k, j->host, repo, permissions);
	mint_next(j->mint);
}

/* --- what was answered ----------------------------------------------------------------- */

/* Why an App got none, by the status of the answer.  true: another one may. */
static bool
app_refused(struct mint *m, const struct minted *a)
{
	const struct source *s = m->src;

	switch (a->status) {
	case 401:
		note(m, "401: the App's id or its key (%s) is wrong, or this "
		    "machine's clock is off", s->fingerprint);
		return (true);
	case 403:
		note(m, "403: installation %" PRIu64 " is suspended, or lacks "
		    "%s", s->installation, m->permissions);
		return (true);
	case 404:
		note(m, "404: the App has no installation %" PRIu64
		    ", or that has no access to %s", s->installation, m->repo);
		return (true);
	case 422:
		note(m, "422: installation %" PRIu64 " has no access to %s, or "
		    "lacks %s", s->installation, m->repo, m->permissions);
		return (true);
	default:
		return (false);
	}
}

static void
app_failed(struct mint *m, const struct minted *a)
{
	char text[BROKER_REASON];

	if (app_refused(m, a)) {
		mint_next(m);
		return;
	}
	(void)sbx_vis(text, sizeof(text), a->reason, strlen(a->reason));
	if (a->status != 0)
		note(m, "%" PRIu32 ": %s", a->status, text);
	else
		note(m, "%s", text);
	fail(m, SBX_E_CLOSED, a->status == 429 ? "rate_limited" :
	    a->error == SBX_E_TIMEOUT ? "timeout" : "upstream");
}

/* NULL: note() was told why.  One reference, the caller's. */
static struct token *
take(struct mint *m, const char *text)
{
	const size_t len = strlen(text);
	const char *why = token_check(m->host, text, len);
	struct sbx_secret *secret;
	struct sbx_err err = { 0 };

	if (why != NULL) {
		note(m, "what it gave is no token: %s", why);
		return (NULL);
	}
	if ((secret = sbx_secret_new(len, &err)) == NULL ||
	    sbx_secret_add(secret, text, len) < 0) {
		sbx_secret_free(secret);
		note(m, "%s", err.msg);
		return (NULL);
	}
	return (token_new(secret, m->src));
}

static void
app_answered(struct mint *m, struct token *t, uint64_t expires_s)
{
	struct broker *k = m->k;
	const uint64_t now = sbx_wall_ns() / NS_S, mono = sbx_mono_ns();

	if (times_odd(now, expires_s))
		log_warn("a token of %s expires in %" PRIu64 " s, not in an "
		    "hour: is this machine's clock right?", m->host,
		    times_left_s(now, expires_s));
	t->number = ++k->tokens.minted;
	t->permissions = m->permissions;
	memcpy(t->repo, m->repo, sizeof(t->repo));
	t->until_ns = mono + times_keep_s(now, expires_s) * NS_S;
	t->expires_ns = mono + times_revoke_s(now, expires_s) * NS_S;
	if (k->tokens.n == BROKER_TOKENS)
		token_retire(k, tokens_oldest(&k->tokens),
		    "there are too many");
	tokens_keep(&k->tokens, t);
	record_mint(k, t, expires_s);
}

void
mint_answered(struct mint *m, const struct minted *a)
{
	const bool command = m->src->kind == SOURCE_COMMAND;
	struct broker *k = m->k;
	char text[BROKER_REASON];
	struct token *t;

	m->job = NULL;
	m->child = NULL;
	if (!command && find_waiter(k, m) == NULL) {
		revoke_text(k, m->src, m->repo, a->token,
		    "nobody waits for it any more");
		fail(m, SBX_E_CLOSED, "source_failed");
		return;
	}
	if (a->error != 0) {
		if (!command) {
			revoke_text(k, m->src, m->repo, a->token,
			    "it is not what was asked for");
			app_failed(m, a);
			return;
		}
		note(m, "%s", sbx_vis(text, sizeof(text), a->reason,
		    strlen(a->reason)));
		fail(m, SBX_E_UNSUPPORTED, a->error == SBX_E_TIMEOUT ?
		    "timeout" : "source_failed");
		return;
	}
	if ((t = take(m, a->token)) == NULL) {
		if (!command)
			revoke_text(m->k, m->src, m->repo, a->token,
			    "it is no token that is known here");
		fail(m, SBX_E_SYNTAX, "source_failed");
		return;
	}
	source_said(&m->k->sources, m->src, NULL);
	if (!command)
		app_answered(m, t, a->expires_wall_s);
	mint_over(m, t, NULL);
	token_release(k, t);
	if (!command)
		revoke_expired(k);	/* or when it is over */
}

/* Whoever was asked is gone. */
void
mint_failed(struct mint *m, const struct fault *f)
{
	m->job = NULL;
	m->child = NULL;
	note(m, "%s", f->reason);
	fail(m, f->error, f->code);
}

int
mint_send(struct job *j, struct child *c)
{
	const struct mint *m = j->mint;
	const struct source *s = m->src;
	char jwt[KEY_JWT_SIZE];
	struct sbx_courier_mint q = { .host = s->api_host, .port = 443,
		.prefix = s->prefix, .installation = s->installation,
		.repo = m->repo, .permissions = m->permissions, .jwt = jwt };
	int r;

	/* now, and not before the waits for a connection and a courier */
	c->source = s;
	memcpy(c->repo, m->repo, sizeof(c->repo));
	r = key_jwt(s->key, s->app, sbx_wall_ns() / NS_S, jwt, sizeof(jwt));
	if (r == 0)
		r = sbx_send_courier_mint(c->peer, 0, &q, j->fds);
	explicit_bzero(jwt, sizeof(jwt));
	return (r);
}

/* Whoever waits for one is not told: job_end_grant() was there before, or all of
 * it ends.  Before pool_free(). */
void
mint_free_all(struct broker *k)
{
	struct mint *m;

	while ((m = LIST_FIRST(&k->mints)) != NULL) {
		if (m->child != NULL)
			child_end(m->child);
		mint_free(m);
	}
}
