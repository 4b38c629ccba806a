#include "sbxd/monitor/publish.h"

#include <string.h>

/*
 * With confirm_publish user, the user's yes lets a publication go as well as an
 * operator's: the yes to a question that named it and its commit, as the client
 * gave it to the front.  What he was shown is the worker's.
 */

#define PATHS_MAX 20		/* PUBLISH_QUESTION.paths, */
#define PATHS_BYTES 4096	/* and their bytes */
#define TOOL "publish"

/* NULL, or a word for why not, with a sentence. */
static const char *
barred(const struct worker *w, const struct publish *p, const char **ret_why)
{
	*ret_why = "there is no such publication";
	if (p == NULL)
		return ("unknown_run");
	*ret_why = "the operator alone approves it (confirm_publish), or the "
	    "client cannot ask its user (elicitation)";
	if (strcmp(p->m->conf.confirm_publish, "user") != 0 ||
	    w->call == NULL || strcmp(w->call->tool, TOOL) != 0 ||
	    (w->call->client_can & SBX_CAN_ELICIT) == 0)
		return ("not_asked");
	*ret_why = "it does not wait for an approval (any more)";
	if (p->phase != SBX_PUBLISH_APPROVAL || p->approve_id != 0)
		return ("not_waiting");
	return (NULL);
}

static void
question(struct worker *w, struct publish *p)
{
	struct sbx_publish_question q = { .host = p->host, .repo = p->repo,
		.branch = p->branch, .commit = p->commit, .base = p->base,
		.files = p->files, .plus = p->plus, .minus = p->minus,
		.declared = p->declared, .merged = p->merged };
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	const char *s = p->names;

	p->user_asked = true;
	sbx_buf_init(&b, PATHS_BYTES);
	for (; s < p->names + p->nnames && q.paths.count < PATHS_MAX;
	    s += strlen(s) + 1)
		if (sbx_strs_add(&q.paths, &b, s) != 0)
			break;
	(void)sbx_send_publish_question(w->peer, w->ask.id, &q, NULL);
	ask_done(w);
}

/* Its record is durable before anything leaves: publish_recorded(). */
static void
approve(struct worker *w, struct publish *p)
{
	const char *why = "it cannot be recorded";

	if (journal_up(p->m, &why))
		p->approve_id = journal_own(p->m, &(struct record){
		    .op = "publish", .phase = "approved", .who = p->who,
		    .container = p->work, .run = p->id }, "agreed", "user",
		    "host", p->host, "repo", p->repo, "branch", p->branch,
		    "commit", p->commit, NULL);
	if (p->approve_id == 0)
		ask_refuse(w, "journal_unavailable", "Try again later.", "it "
		    "waits on: %s", why);
	else
		publish_state_send(w, p);
}

/* Safe for a hostile worker: own ones; the answer counts for what its question
 * was of, by what the front kept with it. */
void
publish_confirm(struct monitor *m, struct worker *w,
    const struct sbx_publish_confirm *q)
{
	struct publish *p = publish_find(m, w->who, q->publish);
	const char *why, *code = barred(w, p, &why);

	if (code != NULL)
		ask_refuse(w, code, "Call again with the same run_id.", "%s",
		    why);
	else if (!q->said)
		question(w, p);
	else if (!call_asked_of(w->call, "run_id", p->id) ||
	    !call_asked_of(w->call, "commit", p->commit))
		ask_refuse(w, "another", "Call again with the same run_id.",
		    "its user was not asked about that");
	else if (call_user_said(w->call, TOOL, "accept"))
		approve(w, p);
	else {
		if (call_user_said(w->call, TOOL, "decline"))
			publish_refuse(p, "confirm", "the user did not agree");
		publish_state_send(w, p);
	}
}

/* Who does not answer in time has a call that failed, and no run_id to go on
 * with: the next one to that branch takes its place. */
void
publish_user_again(const struct publish *new)
{
	struct publish *p;

	for (p = new->m->publishes; p < new->m->publishes + MAX_PUBLISHES; p++)
		if (p->used && p->who == new->who && p->user_asked &&
		    p->phase == SBX_PUBLISH_APPROVAL && p->approve_id == 0 &&
		    strcmp(p->host, new->host) == 0 &&
		    strcmp(p->repo, new->repo) == 0 &&
		    strcmp(p->branch, new->branch) == 0)
			publish_refuse(p, "cancelled", "another publication "
			    "to that branch was begun");
}
