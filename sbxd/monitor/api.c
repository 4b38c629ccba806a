#include "sbxd/monitor/monitor.h"

#include "common/base/rest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Requests of REST that tools make.  Which there are is one table (rest.h), and
 * whether one is made, and with a credential, is decided here: what writes, or
 * uses one, has its record first.  Neither question nor answer is read.
 */

#define LATE_NS (90 * S_NS)	/* then nobody will know what came of it */
#define BURST 120u		/* of one principal, */
#define PER_S 2u		/* and how many more a second */
/* What the broker, a courier and a host need at least, behind our own end. */
#define LEAST_MS (SBX_API_LEAST_MS + 2 * SBX_API_STEP_MS)
#define LOOK "Look whether it was done before you retry."

/* Its end. */
static void
record(struct monitor *m, const struct api *a,
    const struct sbx_broker_rested *q)
{
	char text[12];

	(void)snprintf(text, sizeof(text), "%" PRIu32, q->status);
	journal_add(m, &(struct record){ .op = "api", .phase = "end",
	    .who = a->who, .code = q->error != 0, .flags = a->row->write ?
	    SBX_JOURNAL_RESERVED : 0 }, "request", a->row->name, "repo",
	    a->repo, "status", text, "begun", q->begun ? "1" : "0", "what",
	    q->code, "reason", q->reason, NULL);
}

static struct worker *
asker(struct monitor *m, const struct api *a)
{
	struct worker *w = a->worker != 0 ? worker_find(m, a->worker) : NULL;

	return (w != NULL && w->ask.type == SBX_MSG_API_ASK ? w : NULL);
}

static struct api *
api_of_worker(struct monitor *m, uint32_t worker)
{
	for (size_t i = 0; i < SBX_NELEM(m->apis); i++)
		if (m->apis[i].used && m->apis[i].worker == worker)
			return (&m->apis[i]);
	return (NULL);
}

static void
forget(struct api *a)
{
	sbx_close(&a->body_fd);
	sbx_close(&a->answer_fd);
	*a = (struct api){ .body_fd = -1, .answer_fd = -1 };
}

/* It was recorded as begun, and did not get to the host, or nobody knows. */
static void
fail(struct monitor *m, struct api *a, const char *code, const char *next,
    const char *why)
{
	struct worker *w = asker(m, a);

	if (a->began)
		record(m, a, &(struct sbx_broker_rested){
		    .error = SBX_E_CLOSED, .code = code, .reason = why,
		    .begun = a->rest_id != 0 && a->row->write });
	a->worker = 0;
	if (w != NULL)
		ask_refuse(w, code, next, "%s", why);
	forget(a);
}

/* What is not shown to nobody in particular may be shown with a credential,
 * which the list promises and nothing gives. */
static const char *
code_of(const struct worker *w, const struct api *a, const char *code)
{
	struct monitor *m = w->m;

	return (!a->credential && strcmp(code, "not_found") == 0 &&
	    !w->who->anybody && repos_may_read(m, a->host, a->repo) &&
	    !repos_source(m, a->host) ? "no_source" : code);
}

static void
answer(struct worker *w, const struct api *a,
    const struct sbx_broker_rested *q)
{
	(void)sbx_send_api_done(w->peer, w->ask.id, &(struct sbx_api_done){
	    .error = q->error, .begun = q->begun, .status = q->status,
	    .code = code_of(w, a, q->code),
	    .reason = q->reason, .next_page = q->next_page,
	    .retry_s = q->retry_s, .credential = a->credential }, NULL);
	ask_done(w);
}

static void
finish(struct monitor *m, struct api *a, const struct sbx_broker_rested *q)
{
	struct worker *w = asker(m, a);

	record(m, a, q);
	a->worker = 0;
	if (w != NULL)
		answer(w, a, q);
	forget(a);
}

/* --- may it be made? ---------------------------------------------------------- */

/* A token bucket a principal: the host has one of its own, which all share. */
static bool
rate_ok(struct principal *p)
{
	uint64_t now = sbx_mono_ns();
	uint64_t fresh = (now - p->api_ns) / (S_NS / PER_S);

	if (fresh > 0) {
		p->api_ns = now;
		p->api_tokens = fresh + p->api_tokens > BURST ? BURST :
		    p->api_tokens + (unsigned)fresh;
	}
	if (p->api_tokens == 0)
		return (false);
	p->api_tokens--;
	return (true);
}

static bool
has(const struct sbx_rest *r, const char *word)
{
	return (strstr(r->path, word) != NULL);
}

/* NULL, or what is wrong with its arguments. */
static const char *
check(const struct sbx_rest *r, const struct sbx_api_ask *q)
{
	if (r == NULL)
		return ("there is no such request");
	if (!repos_is_one(q->host, q->repo))
		return ("there can be no such repository");
	if (has(r, ":n") != (q->number != 0))
		return ("the number is missing, or is one too many");
	if (r->paged ? !sbx_rest_page_ok(q->page) : q->page != 0)
		return ("the page is missing, or is one too many");
	if (has(r, ":t") ? !sbx_is_hex(q->text, 40) && !sbx_is_hex(q->text, 64) :
	    has(r, ":b") ? !sbx_rest_branch_ok(q->text) : q->text[0] != '\0')
		return ("the text is no id of a commit or name of a branch, "
		    "or is one too many");
	return (NULL);
}

/* The ask is refused, or it is permitted: with a credential? */
static bool
permitted(struct monitor *m, struct worker *w, const struct sbx_rest *r,
    const struct sbx_api_ask *q, bool *ret_credential)
{
	bool source = repos_source(m, q->host), known = !w->who->anybody;

	*ret_credential = known && source &&
	    repos_may_read(m, q->host, q->repo);
	if (!r->write)
		return (true);
	if (!known || !repos_may_write(m, q->host, q->repo)) {
		journal_add(m, &(struct record){ .op = "api",
		    .phase = "refused", .who = w->who, .code = 1 }, "request",
		    r->name, "host", q->host, "repo", q->repo, NULL);
		ask_refuse(w, "repo_not_allowed", known ? "The operator may "
		    "write `allowed_repo OWNER/NAME` into sbx.conf." : "Show "
		    "a token (`sbx token add`).", "%s is not a repository "
		    "that %s", q->repo, known ? "may be written" :
		    "a client of http_auth none may write");
		return (false);
	}
	if (!source)
		ask_refuse(w, "no_source", "The operator may name one "
		    "(`sbx register`).", "no source of a credential is "
		    "configured for %s", q->host);
	return (source);
}

/* NULL: the ask was refused. */
static struct api *
api_new(struct monitor *m, struct worker *w)
{
	struct api *a = NULL;
	unsigned own = 0;

	for (size_t i = 0; i < SBX_NELEM(m->apis); i++) {
		if (!m->apis[i].used)
			a = &m->apis[i];
		else
			own += m->apis[i].who == w->who;
	}
	if (a == NULL || own >= SBX_MAX_API_PRINCIPAL || !rate_ok(w->who)) {
		ask_refuse(w, "busy", "Retry in a few seconds.", "too many "
		    "requests to GitHub are under way, or were made in the "
		    "last minute");
		return (NULL);
	}
	*a = (struct api){ .used = true, .worker = w->id, .who = w->who,
		.body_fd = -1, .answer_fd = -1,
		.by_ns = sbx_mono_ns() + LATE_NS };
	tick_arm(m);
	return (a);
}

/* --- its way --------------------------------------------------------------------- */

static void
dial(struct monitor *m, struct api *a)
{
	struct worker *w = asker(m, a);

	if (w != NULL)
		w->ask.deadline_ns = a->end_ns;
	a->began = true;
	a->dial_id = ++m->next_id;
	if (!broker_proxy_dial(m, a->dial_id, repos_api_host(a->host)))
		fail(m, a, "suite_degraded", "Retry.", "the proxy is not "
		    "there");
}

static void
recorded(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	struct api *a = api_of_worker(m, w->id);

	w->ask.back_id = 0;
	if (a == NULL) {
		ask_refuse(w, "suite_degraded", "Retry.", "it is not known "
		    "any more");
		return;
	}
	if ((why = journal_why(in, why)) != NULL)
		fail(m, a, "journal_unavailable", "Retry.", why);
	else if (m->locked)
		fail(m, a, "locked", LOCKED_NEXT, LOCKED_WHY);
	else
		dial(m, a);
}

static void
begin(struct monitor *m, struct worker *w, struct api *a)
{
	const char *cred = a->credential ? "1" : "0";
	const struct record r = { .op = "api", .phase = "start",
		.who = w->who };
	char number[24];

	(void)snprintf(number, sizeof(number), "%" PRIu64, a->number);
	if (a->row->write || a->credential) {
		journal_cross(m, w, recorded, &r, "request", a->row->name,
		    "host", a->host, "repo", a->repo, "number", number,
		    "credential", cred, "tool", w->call->tool, NULL);
		return;
	}
	journal_add(m, &r, "request", a->row->name, "host", a->host, "repo",
	    a->repo, "number", number, "credential", cred, "tool",
	    w->call->tool, NULL);
	dial(m, a);
}

/*
 * Safe for a hostile worker: of the requests of the table only, writes to the
 * repositories that the operator named only, so many at once and in a minute,
 * each on record.
 */
void
api_ask(struct monitor *m, struct worker *w, const struct sbx_api_ask *q,
    int fds[2])
{
	const struct sbx_rest *r = sbx_rest_row(q->op);
	const char *why = check(r, q);
	bool credential;
	struct api *a;

	if (why != NULL) {
		ask_refuse(w, "bad_argument", "", "%s", why);
		return;
	}
	if (m->locked) {
		ask_refuse(w, "locked", LOCKED_NEXT, LOCKED_WHY);
		return;
	}
	if (!permitted(m, w, r, q, &credential))
		return;
	if (q->within_ms == 0) {
		/* a question only, before a user is asked */
		(void)sbx_send_api_done(w->peer, w->ask.id,
		    &(struct sbx_api_done){ .code = "", .reason = "",
		    .credential = credential }, NULL);
		ask_done(w);
		return;
	}
	if ((a = api_new(m, w)) == NULL)
		return;
	a->row = r;
	a->op = q->op;
	a->number = q->number;
	a->page = q->page;
	a->end_ns = sbx_mono_ns() + MS_NS * (q->within_ms < SBX_API_MS ?
	    q->within_ms : SBX_API_MS);
	a->credential = credential;
	(void)sbx_strlcpy(a->host, q->host, sizeof(a->host));
	(void)sbx_strlcpy(a->repo, q->repo, sizeof(a->repo));
	(void)sbx_strlcpy(a->text, q->text, sizeof(a->text));
	a->body_fd = sbx_steal_fd(&fds[0]);
	a->answer_fd = sbx_steal_fd(&fds[1]);
	begin(m, w, a);
}

static void
ask_broker(struct monitor *m, struct api *a, int fd)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_BROKER);
	const uint64_t now = sbx_mono_ns();
	const uint32_t left = now < a->end_ns ?
	    (uint32_t)((a->end_ns - now) / MS_NS) : 0;

	if (p == NULL || left < LEAST_MS) {
		fail(m, a, p == NULL ? "suite_degraded" : "timeout", "Retry.",
		    p == NULL ? "the broker is not there" : "too little time "
		    "was left for it: nothing was sent");
		return;
	}
	a->dial_id = 0;
	a->rest_id = ++m->next_id;
	(void)sbx_send_broker_rest(p, a->rest_id, &(struct sbx_broker_rest){
	    .op = a->op, .host = a->host, .repo = a->repo,
	    .number = a->number, .page = a->page, .text = a->text,
	    .credential = a->credential,
	    .within_ms = left - SBX_API_STEP_MS },
	    (int[]){ fd, a->body_fd, a->answer_fd });
	sbx_close(&a->body_fd);
	sbx_close(&a->answer_fd);
}

bool
api_dialled(struct monitor *m, struct sbx_in *in)
{
	const struct sbx_proxy_not_dialled *q = &in->m.proxy_not_dialled;
	struct api *a = NULL;

	for (size_t i = 0; a == NULL && i < SBX_NELEM(m->apis); i++)
		if (m->apis[i].used && in->hdr.id != 0 &&
		    m->apis[i].dial_id == in->hdr.id)
			a = &m->apis[i];
	if (a == NULL)
		return (false);
	if (in->hdr.type == SBX_MSG_PROXY_NOT_DIALLED)
		finish(m, a, &(struct sbx_broker_rested){
		    .error = SBX_E_CLOSED, .code = strcmp(q->code,
		    "timeout") == 0 ? "timeout" : "upstream",
		    .reason = q->reason });
	else if (asker(m, a) == NULL)
		fail(m, a, "cancelled", "", "its call ended first");
	else
		ask_broker(m, a, in->fds[0]);
	return (true);
}

void
api_rested(struct monitor *m, uint32_t id, const struct sbx_broker_rested *q)
{
	for (size_t i = 0; i < SBX_NELEM(m->apis); i++)
		if (m->apis[i].used && id != 0 && m->apis[i].rest_id == id) {
			finish(m, &m->apis[i], q);
			return;
		}
}

/* --- ends -------------------------------------------------------------------------- */

/* What is on its way is called off, and recorded when it is back. */
void
api_worker_gone(struct worker *w)
{
	struct sbx_peer *p = component_peer(w->m, SBX_PROC_BROKER);
	struct api *a = api_of_worker(w->m, w->id);

	if (a == NULL)
		return;
	a->worker = 0;
	if (a->rest_id != 0 && p != NULL)
		(void)sbx_send_broker_cancel(p, a->rest_id,
		    &(struct sbx_broker_cancel){ 0 }, NULL); /* or it ends */
	if (a->rest_id == 0 && a->dial_id == 0)
		fail(w->m, a, "cancelled", "", "its call ended first");
}

void
api_late(struct worker *w)
{
	const struct api *a = api_of_worker(w->m, w->id);
	const bool begun = a != NULL && a->rest_id != 0 && a->row->write;

	ask_refuse(w, "timeout", begun ? LOOK : "Retry.", begun ?
	    "the host did not answer in time, and may have done it" :
	    "it was not answered in time");
}

void
api_drop_principal(struct monitor *m, const struct principal *p)
{
	for (size_t i = 0; i < SBX_NELEM(m->apis); i++)
		if (m->apis[i].who == p)
			m->apis[i].who = NULL;
}

void
api_broker_lost(struct monitor *m)
{
	for (size_t i = 0; i < SBX_NELEM(m->apis); i++)
		if (m->apis[i].used && m->apis[i].rest_id != 0)
			fail(m, &m->apis[i], "suite_degraded", LOOK,
			    "the broker ended amid the request");
}

void
api_proxy_lost(struct monitor *m)
{
	for (size_t i = 0; i < SBX_NELEM(m->apis); i++)
		if (m->apis[i].used && m->apis[i].dial_id != 0)
			fail(m, &m->apis[i], "suite_degraded", "Retry.",
			    "the proxy is being restarted");
}

void
api_tick(struct monitor *m, uint64_t now_ns)
{
	struct api *a;

	for (size_t i = 0; i < SBX_NELEM(m->apis); i++) {
		a = &m->apis[i];
		if (!a->used)
			continue;
		tick_arm(m);
		if (now_ns > a->by_ns)
			fail(m, a, "timeout", LOOK, "nothing was heard of "
			    "it in time");
	}
}
