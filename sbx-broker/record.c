#include "sbx-broker/record.h"

#include "common/base/rest.h"

#define NS_S 1000000000ull

const struct sbx_dispatch_table broker_from_journald = {
	SBX_PROC_BROKER, SBX_PROC_JOURNALD, sbx_record_rows,
};

static void
add_source(struct sbx_record *f, const struct source *s)
{
	sbx_record_add(f, "host", "%s", s->host);
	sbx_record_add(f, "source", "%s", source_kind_name(s->kind));
	sbx_record_add(f, "app", "%s", s->app);
}

/* f is cleared.  The monitor's own record of a grant is durable before anything
 * here begins. */
static void
append(struct broker *k, const char *op, const char *phase, bool failed,
    struct sbx_record *f)
{
	const struct sbx_journal_append a = { .op = op, .phase = phase,
		.principal = "", .container = "", .run = "", .code = failed };

	if (!sbx_record_rate(&k->record_rate, sbx_mono_ns(), RECORD_RATE)) {
		k->records_more++;
		sbx_buf_clear(&f->buf);
		return;
	}
	sbx_record_number(f, "more", k->records_more);
	if (sbx_record_send(f, k->journald, &a, &k->records_lost))
		k->records_more = 0;
}

void
record_mint(struct broker *k, const struct token *t, uint64_t expires_wall_s)
{
	const uint64_t most = UINT64_MAX / NS_S;
	char expires[SBX_WALL_SIZE];
	struct sbx_record f;

	sbx_wall_text((expires_wall_s < most ? expires_wall_s : most) * NS_S,
	    expires);
	sbx_record_begin(&f);
	sbx_record_number(&f, "token", t->number);
	add_source(&f, t->source);
	sbx_record_add(&f, "repo", "%s", t->repo);
	sbx_record_add(&f, "permissions", "%s", t->permissions);
	sbx_record_add(&f, "expires", "%s", expires);
	append(k, "token_mint", "", false, &f);
}

void
record_no_mint(struct broker *k, const struct source *s, const char *repo,
    const char *permissions, const char *why)
{
	struct sbx_record f;

	sbx_record_begin(&f);
	add_source(&f, s);
	sbx_record_add(&f, "repo", "%s", repo);
	sbx_record_add(&f, "permissions", "%s", permissions);
	sbx_record_add(&f, "reason", "%s", why);
	append(k, "token_mint", "", true, &f);
}

void
record_revoke(struct broker *k, const struct token *t, const char *why,
    unsigned tries, uint64_t again_ns, const struct fault *f)
{
	const uint64_t now = sbx_mono_ns();
	struct sbx_record g;

	sbx_record_begin(&g);
	sbx_record_number(&g, "token", t->number);
	add_source(&g, t->source);
	sbx_record_add(&g, "repo", "%s", t->repo);
	sbx_record_add(&g, "why", "%s", why);
	if (tries > 1)
		sbx_record_number(&g, "tries", tries);
	if (again_ns > now)	/* in seconds, at least one */
		sbx_record_number(&g, "again", (again_ns - now) / NS_S + 1);
	if (f != NULL) {
		sbx_record_add(&g, "code", "%s", f->code);
		sbx_record_add(&g, "reason", "%s", f->reason);
	}
	append(k, "token_revoke", "", f != NULL, &g);
}

void
record_sign(struct broker *k, const struct announced *a, const char *publish,
    const char *commit, const char *why)
{
	struct sbx_record f;

	sbx_record_begin(&f);
	sbx_record_add(&f, "publish", "%s", publish);
	if (a != NULL) {
		sbx_record_add(&f, "host", "%s", a->host);
		sbx_record_add(&f, "repo", "%s", a->repo);
	}
	if (why != NULL)
		sbx_record_add(&f, "reason", "%s", why);
	else {
		sbx_record_number(&f, "number", a->number);
		sbx_record_add(&f, "commit", "%s", commit);
		sbx_record_add(&f, "key", "%s", k->sources.signer_line);
	}
	append(k, "commit_sign", "", why != NULL, &f);
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
	struct sbx_record f;

	sbx_record_begin(&f);
	sbx_record_add(&f, "verdict", "%s", j->state == JOB_RUNNING ? "allowed" :
	    "denied");
	sbx_record_add(&f, "grant", "%s", j->grant);
	sbx_record_add(&f, "what", "%s", op_name(j));
	sbx_record_add(&f, "host", "%s", j->host);
	sbx_record_add(&f, "repo", "%s", j->repo);
	sbx_record_number(&f, "number", j->number);
	if (j->token != NULL) {
		sbx_record_add(&f, "source", "%s",
		    source_kind_name(j->token->source->kind));
		sbx_record_number(&f, "token", j->token->number);
	}
	sbx_record_number(&f, "status", out->status);
	sbx_record_number(&f, "out", out->out_bytes);
	sbx_record_number(&f, "in", out->in_bytes);
	if (out->fault.error != 0) {
		sbx_record_add(&f, "code", "%s", out->fault.code);
		sbx_record_add(&f, "reason", "%s", out->fault.reason);
	}
	append(j->k, "exchange", "end", out->fault.error != 0, &f);
}
