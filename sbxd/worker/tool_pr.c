/* pr_view and sandbox_pr_review_write. */

#include "sbxd/worker/thread.h"

#include "common/base/json.h"
#include "sbxd/worker/github.h"
#include "sbxd/worker/worker.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define REVIEWERS_MAX 100u
#define FAILING_MAX 50u
#define SUMMARY_BYTES 400u
#define TEXT_MAX (1u << 20)

static bool
is_id(const char *s)
{
	return (sbx_is_hex(s, 40) || sbx_is_hex(s, 64));
}

/* --- checks ------------------------------------------------------------------------ */

enum verdict { PASSED, FAILED, PENDING, VERDICTS };

struct checks {
	uint64_t n[VERDICTS];
	struct json_object *failing[FAILING_MAX];	/* borrowed */
	size_t nfailing;
	struct json_object *runs, *statuses;	/* owned */
};

static enum verdict
verdict_of(struct json_object *o)
{
	static const char *const good[] = { "success", "neutral", "skipped" };
	const char *end = gh_str(o, "conclusion");

	if (*gh_str(o, "context") != '\0') {	/* a status, not a run */
		end = gh_str(o, "state");
		if (strcmp(end, "pending") == 0)
			return (PENDING);
	} else if (strcmp(gh_str(o, "status"), "completed") != 0)
		return (PENDING);
	for (size_t i = 0; i < SBX_NELEM(good); i++)
		if (strcmp(end, good[i]) == 0)
			return (PASSED);
	return (FAILED);
}

static void
count(struct checks *c, struct json_object *list)
{
	struct json_object *o;
	enum verdict v;

	for (size_t i = 0; i < gh_len(list); i++) {
		if ((o = gh_at(list, i)) == NULL)
			continue;
		v = verdict_of(o);
		c->n[v]++;
		if (v == FAILED && c->nfailing < FAILING_MAX)
			c->failing[c->nfailing++] = o;
	}
}

static int
checks_get(struct call *call, struct thread *t, const struct gh_repo *r,
    const char *sha, struct checks *c)
{
	const struct gh_ask runs = { .op = SBX_REST_CHECK_RUNS, .text = sha },
	    statuses = { .op = SBX_REST_STATUS, .text = sha };
	bool more = false;
	int k;

	if (!is_id(sha))
		return (1);
	k = thread_soft(call, t, gh_list(call, r, &runs, "check_runs",
	    &c->runs, &more));
	t->more |= more;
	if (k == 1)
		k = thread_soft(call, t, gh_list(call, r, &statuses,
		    "statuses", &c->statuses, &more));
	t->more |= more;
	count(c, c->runs);
	count(c, c->statuses);
	return (k);
}

static const char *
check_name(struct json_object *o)
{
	return (*gh_str(o, "context") != '\0' ? "context" : "name");
}

static void
checks_text(struct thread *t, const struct checks *c)
{
	struct sbx_buf *b = &t->text;
	size_t i;
	bool status;

	if (c->runs == NULL && c->statuses == NULL)
		return;
	(void)sbx_buf_printf(b, "\n## Checks\n\n%" PRIu64 " passed, %" PRIu64
	    " failed, %" PRIu64 " pending\n", c->n[PASSED], c->n[FAILED],
	    c->n[PENDING]);
	for (i = 0; i < c->nfailing; i++) {
		status = *gh_str(c->failing[i], "context") != '\0';
		(void)sbx_buf_str(b, "failed: ");
		(void)gh_line(b, c->failing[i], check_name(c->failing[i]));
		(void)sbx_buf_str(b, ", ");
		(void)gh_line(b, c->failing[i], status ? "state" :
		    "conclusion");
		(void)sbx_buf_str(b, "\n");
	}
}

static void
checks_put(struct call *call, const struct checks *c)
{
	struct result *r = call->res;
	struct json_object *o;
	bool status;

	result_open(r, "checks", '{');
	result_bool(r, "known", c->runs != NULL || c->statuses != NULL);
	result_u64(r, "total", c->n[PASSED] + c->n[FAILED] + c->n[PENDING]);
	result_u64(r, "passed", c->n[PASSED]);
	result_u64(r, "failed", c->n[FAILED]);
	result_u64(r, "pending", c->n[PENDING]);
	result_open(r, "failing", '[');
	for (size_t i = 0; i < c->nfailing; i++) {
		o = c->failing[i];
		status = *gh_str(o, "context") != '\0';
		result_open(r, NULL, '{');
		gh_put(call, "name", o, check_name(o), 200);
		gh_put(call, "conclusion", o, status ? "state" : "conclusion",
		    32);
		gh_put(call, "url", o, status ? "target_url" : "html_url",
		    400);
		result_close(r, '}');
	}
	result_close(r, ']');
	result_close(r, '}');
}

/* --- reviews ----------------------------------------------------------------------- */

/* Does the later one count in the place of the earlier?  A remark does not
 * take back a verdict. */
static bool
replaces(struct json_object *later)
{
	return (strcmp(gh_str(later, "state"), "COMMENTED") != 0 &&
	    strcmp(gh_str(later, "state"), "PENDING") != 0);
}

/* The one that counts of each author; they come in the order of time. */
static void
reviews_put(struct call *call, struct json_object *list)
{
	struct json_object *last[REVIEWERS_MAX], *o;
	size_t i, k, n = 0;

	for (i = 0; i < gh_len(list); i++) {
		if ((o = gh_at(list, i)) == NULL)
			continue;
		for (k = 0; k < n && strcmp(gh_str(last[k], "user.login"),
		    gh_str(o, "user.login")) != 0; k++)
			;
		if (k == n && n < REVIEWERS_MAX)
			last[n++] = o;
		else if (k < n && (replaces(o) || !replaces(last[k])))
			last[k] = o;
	}
	result_open(call->res, "reviews", '[');
	for (k = 0; k < n; k++) {
		result_open(call->res, NULL, '{');
		gh_put(call, "author", last[k], "user.login", 100);
		gh_put(call, "state", last[k], "state", 32);
		gh_put(call, "submitted_at", last[k], "submitted_at", 40);
		result_close(call->res, '}');
	}
	result_close(call->res, ']');
}

/* --- pr_view ------------------------------------------------------------------------- */

static void
put_end(struct call *call, struct json_object *o, const char *key)
{
	struct json_object *end = gh_get(o, key);

	result_open(call->res, key, '{');
	gh_put(call, "ref", end, "ref", 255);
	gh_put(call, "sha", end, "sha", 64);
	gh_put(call, "repo", end, "repo.full_name", 200);
	result_close(call->res, '}');
}

static void
put_pull(struct call *call, struct json_object *o, uint64_t number)
{
	struct result *r = call->res;
	struct json_object *can = gh_get(o, "mergeable");

	result_str(r, "status", "ok");
	result_u64(r, "number", number);
	gh_put(call, "title", o, "title", SUMMARY_BYTES);
	if (gh_true(o, "merged"))
		result_str(r, "state", "merged");
	else
		gh_put(call, "state", o, "state", 32);
	result_bool(r, "draft", gh_true(o, "draft"));
	gh_put(call, "author", o, "user.login", 100);
	put_end(call, o, "head");
	put_end(call, o, "base");
	if (json_object_is_type(can, json_type_boolean))
		result_bool(r, "mergeable", json_object_get_boolean(can));
	else
		result_null(r, "mergeable");
	gh_put(call, "mergeable_state", o, "mergeable_state", 32);
	result_u64(r, "changed_files", gh_num(o, "changed_files"));
	result_u64(r, "additions", gh_num(o, "additions"));
	result_u64(r, "deletions", gh_num(o, "deletions"));
	gh_put(call, "summary", o, "body", SUMMARY_BYTES);
	gh_put(call, "html_url", o, "html_url", 400);
}

static int
view(struct call *call, const struct gh_repo *r, uint64_t number,
    struct json_object *o, struct thread *t, struct checks *c)
{
	struct json_object *reviews = NULL;
	int k;

	if (thread_head(t, r, o, "pull request") != 0)
		t->more = true;
	k = checks_get(call, t, r, gh_str(o, "head.sha"), c);
	checks_text(t, c);
	if (k == 1)
		k = thread_soft(call, t, thread_comments(call, t, r, number));
	if (k == 1)
		k = thread_reviews(call, t, r, number, &reviews);
	if (k == 1)
		k = thread_inline(call, t, r, number);
	if (k == 1) {
		put_pull(call, o, number);
		reviews_put(call, reviews);
		checks_put(call, c);
		k = thread_save(call, t);
	}
	json_object_put(reviews);
	return (k == 1 ? 0 : k);
}

/* The pull request itself.  As gh_ask(). */
static int
pull(struct call *call, const struct gh_repo *r, uint64_t number, bool writes,
    struct json_object **ret_o)
{
	return (gh_ask(call, r, &(struct gh_ask){ .op = SBX_REST_PULL,
	    .number = number, .writes = writes }, json_type_object, NULL,
	    ret_o));
}

int
tool_pr_view(struct call *call)
{
	uint64_t number = (uint64_t)args_int(&call->args, "pr");
	struct checks c = { .nfailing = 0 };
	struct json_object *o;
	struct thread t;
	struct gh_repo r;
	int k;

	if (!gh_repo_arg(call, "repo", &r))
		return (0);
	k = gh_place(call, args_str(&call->args, "save_to", NULL));
	if (k != 1)
		return (k);
	k = pull(call, &r, number, false, &o);
	if (k != 1)
		return (k);
	thread_init(&t);
	k = view(call, &r, number, o, &t, &c);
	thread_clear(&t);
	json_object_put(c.runs);
	json_object_put(c.statuses);
	json_object_put(o);
	return (k);
}

/* --- sandbox_pr_review_write ------------------------------------------------------------ */

static bool
comment_ok(struct call *call, struct json_object *o)
{
	if (gh_blank(gh_str(o, "path")) || *gh_str(o, "path") == '/')
		return (gh_bad(call, "\"comments\": path is that of a file in "
		    "the repository, such as src/main.c."));
	if (gh_blank(gh_str(o, "body")))
		return (gh_bad(call, "\"comments\": body must not be empty."));
	return (gh_clean_out(call, "comments", gh_str(o, "path")) &&
	    gh_clean_out(call, "comments", gh_str(o, "body")));
}

static bool
review_args(struct call *call, const char *event)
{
	struct json_object *comments = args_json(&call->args, "comments");
	const char *body = args_str(&call->args, "body", NULL);

	if (strcmp(event, "APPROVE") == 0 && !args_has(&call->args, "head_sha"))
		return (gh_bad(call, "\"head_sha\" must name the commit that is "
		    "approved: head.sha of pr_view."));
	if (gh_blank(body) && strcmp(event, "REQUEST_CHANGES") == 0)
		return (gh_bad(call, "\"body\" must not be empty: "
		    "REQUEST_CHANGES says what to change."));
	if (gh_blank(body) && strcmp(event, "COMMENT") == 0 &&
	    gh_len(comments) == 0)
		return (gh_bad(call, "Give \"body\" or \"comments\": a COMMENT "
		    "without any says nothing."));
	for (size_t i = 0; i < gh_len(comments); i++)
		if (!comment_ok(call, gh_at(comments, i)))
			return (false);
	return (gh_clean_out(call, "body", body));
}

static bool
agreed(struct call *call, const struct gh_repo *r, const char *event)
{
	struct json_object *list = args_json(&call->args, "comments"), *o;
	const char *body = args_str(&call->args, "body", NULL), *path;
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char repo[400];

	sbx_buf_init(&b, GH_SHOWN_MAX);
	(void)sbx_buf_printf(&b, "Review %s#%" PRIi64 " with %s and %zu "
	    "comments on lines?\n\n", gh_repo_text(r, repo, sizeof(repo)),
	    args_int(&call->args, "pr"), event, gh_len(list));
	if (!gh_blank(body))
		gh_show(&b, body);
	for (size_t i = 0; i < gh_len(list); i++) {
		o = gh_at(list, i);
		path = gh_str(o, "path");
		(void)sbx_buf_str(&b, "\n");
		(void)gh_text(&b, path, strlen(path), &(struct gh_text){
		    .line = true, .max = GH_SHOWN_MAX });
		(void)sbx_buf_printf(&b, ":%" PRIu64 "%s\n", gh_num(o,
		    "line"), strcmp(gh_str(o, "side"), "LEFT") == 0 ?
		    " (before the change)" : "");
		gh_show(&b, gh_str(o, "body"));
	}
	return (gh_confirmed(call, &b));
}

/* false: too long */
static bool
review_body(struct call *call, const char *sha, const char *event,
    struct sbx_buf *b)
{
	struct json_object *list = args_json(&call->args, "comments"), *o;
	const char *body = args_str(&call->args, "body", NULL), *side;

	sbx_buf_init(b, TEXT_MAX);
	gh_json_member(b, "commit_id", sha);
	gh_json_member(b, "event", event);
	/* what was to be an approval without words */
	if (gh_blank(body) && strcmp(event, "COMMENT") == 0 &&
	    gh_len(list) == 0)
		body = "(APPROVE, by the author of the pull request)";
	if (!gh_blank(body))
		gh_json_member(b, "body", body);
	if (gh_len(list) > 0)
		(void)sbx_buf_str(b, ",\"comments\":[");
	for (size_t i = 0; i < gh_len(list); i++) {
		SBX_CLEANUP_BUF struct sbx_buf one = { 0 };

		o = gh_at(list, i);
		side = gh_str(o, "side");
		sbx_buf_init(&one, TEXT_MAX);
		gh_json_member(&one, "path", gh_str(o, "path"));
		gh_json_member(&one, "body", gh_str(o, "body"));
		gh_json_member(&one, "side", *side != '\0' ? side : "RIGHT");
		(void)sbx_buf_printf(b, "%s%s,\"line\":%" PRIu64 "}",
		    i > 0 ? "," : "", one.data, gh_num(o, "line"));
		if (one.overflow)
			return (false);
	}
	(void)sbx_buf_str(b, gh_len(list) > 0 ? "]}" : "}");
	return (!b->overflow);
}

/* As gh_ask(). */
static int
post(struct call *call, const struct gh_repo *r, const char *sha,
    const char *event, struct ask_api *ret_done, struct json_object **ret_o)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

	if (!review_body(call, sha, event, &b)) {
		(void)gh_bad(call, "\"body\" and \"comments\" are too long.");
		return (0);
	}
	return (gh_ask(call, r, &(struct gh_ask){
	    .op = SBX_REST_REVIEW_CREATE, .body = b.data,
	    .number = (uint64_t)args_int(&call->args, "pr") },
	    json_type_object, ret_done, ret_o));
}

/* Nobody may approve or refuse what is his own: then it is a remark. */
static bool
is_own(const struct ask_api *d)
{
	return (d->status == 422 && strcasestr(d->reason,
	    "your own pull request") != NULL);
}

static int
review(struct call *call, const struct gh_repo *r, const char *event,
    const char *sha)
{
	struct json_object *o = NULL;
	const char *posted = event;
	struct ask_api d;
	int k;

	k = post(call, r, sha, event, &d, &o);
	if (k == 0 && is_own(&d) && strcmp(event, "COMMENT") != 0) {
		result_reset(call->res);
		posted = "COMMENT";
		k = post(call, r, sha, posted, &d, &o);
	}
	if (k != 1)
		return (k);
	result_str(call->res, "status", "ok");
	gh_put(call, "html_url", o, "html_url", 400);
	result_u64(call->res, "review_id", gh_num(o, "id"));
	result_str(call->res, "event", posted);
	if (posted != event) {
		result_str(call->res, "original_event", event);
		result_str(call->res, "downgraded_to", posted);
	}
	json_object_put(o);
	return (0);
}

/* What was read is what is judged, whatever was pushed meanwhile. */
static bool
is_as_read(struct call *call, const char *sha)
{
	const char *read = args_str(&call->args, "head_sha", NULL);

	if (read == NULL || strcmp(read, sha) == 0)
		return (true);
	result_error(call->res, "head_moved", "Read it again with pr_view, "
	    "then judge what is there now.", "The pull request's head is %s "
	    "now, not the \"head_sha\" that was read.", sha);
	return (false);
}

int
tool_sandbox_pr_review_write(struct call *call)
{
	const char *event = args_str(&call->args, "event", NULL);
	struct json_object *o;
	struct gh_repo r;
	char sha[65];
	int k;

	if (!gh_repo_arg(call, "repo", &r) || !review_args(call, event))
		return (0);
	/* nobody is asked for what is refused then */
	k = gh_may_write(call, &r, &(struct gh_ask){
	    .op = SBX_REST_REVIEW_CREATE,
	    .number = (uint64_t)args_int(&call->args, "pr") });
	if (k != 1)
		return (k);
	if (!agreed(call, &r, event))
		return (0);
	k = pull(call, &r, (uint64_t)args_int(&call->args, "pr"), true, &o);
	if (k != 1)
		return (k);
	if (!is_id(gh_str(o, "head.sha"))) {
		json_object_put(o);
		result_error(call->res, "bad_answer", "Try again later.",
		    "The pull request has no head commit that could be "
		    "reviewed.");
		return (0);
	}
	(void)sbx_strlcpy(sha, gh_str(o, "head.sha"), sizeof(sha));
	json_object_put(o);
	return (is_as_read(call, sha) ? review(call, &r, event, sha) : 0);
}
