#include "sbx-broker/record.h"

#include "common/base/rest.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FIELDS_MAX 8192u
#define BACKLOG 512		/* records; the queue ends its peer at 1024 */
#define NS_S 1000000000ull

struct fields {
	struct sbx_strs strs;
	struct sbx_buf buf;
};

static void
fields_init(struct fields *f)
{
	memset(f, 0, sizeof(*f));
	sbx_buf_init(&f->buf, FIELDS_MAX);
}

static void SBX_PRINTF(3, 4)
add(struct fields *f, const char *name, const char *fmt, ...)
{
	char value[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(value, sizeof(value), fmt, ap); /* cut, not refused */
	va_end(ap);
	if (value[0] == '\0')
		return;
	/* a record with a field too few is better than none */
	if (sbx_strs_add(&f->strs, &f->buf, name) == 0)
		(void)sbx_strs_add(&f->strs, &f->buf, value);
}

static void
add_number(struct fields *f, const char *name, uint64_t n)
{
	if (n != 0)
		add(f, name, "%" PRIu64, n);
}

static void
add_source(struct fields *f, const struct source *s)
{
	add(f, "host", "%s", s->host);
	add(f, "source", "%s", source_kind_name(s->kind));
	add(f, "app", "%s", s->app);
}

static bool
rate_takes(struct broker *k)
{
	const uint64_t second = sbx_mono_ns() / NS_S;

	if (second != k->record_second) {
		k->record_second = second;
		k->record_count = 0;
	}
	if (k->record_count == RECORD_RATE) {
		k->records_more++;
		return (false);
	}
	k->record_count++;
	return (true);
}

/* f is cleared.  A journal that is absent or does not keep up is not waited
 * for: what it misses is counted.  The monitor's own record of a grant is
 * durable before anything here begins. */
static void
append(struct broker *k, const char *op, const char *phase, bool failed,
    struct fields *f)
{
	struct sbx_journal_append a = { .op = op, .phase = phase,
		.principal = "", .container = "", .run = "", .code = failed };

	if (!rate_takes(k)) {
		sbx_buf_clear(&f->buf);
		return;
	}
	add_number(f, "more", k->records_more);
	add_number(f, "lost_records", k->records_lost);
	a.fields = f->strs;
	if (k->journald != NULL && sbx_peer_queued(k->journald) < BACKLOG &&
	    sbx_send_journal_append(k->journald, 0, &a, NULL) == 0)
		k->records_more = k->records_lost = 0;
	else
		k->records_lost++;
	sbx_buf_clear(&f->buf);
}

void
record_mint(struct broker *k, const struct token *t, uint64_t expires_wall_s)
{
	const uint64_t most = UINT64_MAX / NS_S;
	char expires[SBX_WALL_SIZE];
	struct fields f;

	sbx_wall_text((expires_wall_s < most ? expires_wall_s : most) * NS_S,
	    expires);
	fields_init(&f);
	add_number(&f, "token", t->number);
	add_source(&f, t->source);
	add(&f, "repo", "%s", t->repo);
	add(&f, "permissions", "%s", t->permissions);
	add(&f, "expires", "%s", expires);
	append(k, "token_mint", "", false, &f);
}

void
record_no_mint(struct broker *k, const struct source *s, const char *repo,
    const char *permissions, const char *why)
{
	struct fields f;

	fields_init(&f);
	add_source(&f, s);
	add(&f, "repo", "%s", repo);
	add(&f, "permissions", "%s", permissions);
	add(&f, "reason", "%s", why);
	append(k, "token_mint", "", true, &f);
}

void
record_revoke(struct broker *k, const struct token *t, const char *why,
    const struct fault *f)
{
	struct fields g;

	fields_init(&g);
	add_number(&g, "token", t->number);
	add_source(&g, t->source);
	add(&g, "repo", "%s", t->repo);
	add(&g, "why", "%s", why);
	if (f != NULL) {
		add(&g, "code", "%s", f->code);
		add(&g, "reason", "%s", f->reason);
	}
	append(k, "token_revoke", "", f != NULL, &g);
}

static const char *
op_name(const struct job *j)
{
	if (j->kind == JOB_REST)
		return (sbx_rest_row(j->op) == NULL ? "" :
		    sbx_rest_row(j->op)->name);
	if (j->host[0] == '\0')
		return ("");	/* of no grant */
	return (j->op == SBX_GRANT_PUSH ? "push" : "fetch");
}

void
record_exchange(const struct job *j, const struct outcome *out)
{
	struct fields f;

	fields_init(&f);
	add(&f, "verdict", "%s", j->state == JOB_RUNNING ? "allowed" :
	    "denied");
	add(&f, "grant", "%s", j->grant);
	add(&f, "what", "%s", op_name(j));
	add(&f, "host", "%s", j->host);
	add(&f, "repo", "%s", j->repo);
	add_number(&f, "number", j->number);
	if (j->token != NULL) {
		add(&f, "source", "%s",
		    source_kind_name(j->token->source->kind));
		add_number(&f, "token", j->token->number);
	}
	add_number(&f, "status", out->status);
	add_number(&f, "out", out->out_bytes);
	add_number(&f, "in", out->in_bytes);
	if (out->fault.error != 0) {
		add(&f, "code", "%s", out->fault.code);
		add(&f, "reason", "%s", out->fault.reason);
	}
	append(j->k, "exchange", "end", out->fault.error != 0, &f);
}
