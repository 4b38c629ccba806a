/* issue_view and sandbox_issue_write. */

#include "sbxd/worker/thread.h"

#include "common/base/json.h"
#include "common/base/mask.h"
#include "sbxd/worker/github.h"
#include "sbxd/worker/worker.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define SUMMARY_BYTES 400u
#define TEXT_MAX (512u << 10)	/* of a body, as JSON */

static void
put_labels(struct result *r, struct call *call, struct json_object *o)
{
	struct json_object *labels = gh_get(o, "labels");

	result_open(r, "labels", '[');
	for (size_t i = 0; i < gh_len(labels) && i < 100; i++)
		gh_put(call, NULL, gh_at(labels, i), "name", 100);
	result_close(r, ']');
}

static int
view(struct call *call, const struct gh_repo *r, uint64_t number,
    struct json_object *o, struct thread *t)
{
	struct json_object *is = gh_get(o, "pull_request");
	bool pull = json_object_is_type(is, json_type_boolean) ?
	    json_object_get_boolean(is) : is != NULL;
	int k;

	if (thread_head(t, r, o, pull ? "pull request" : "issue") != 0)
		t->more = true;
	k = thread_comments(call, t, r, number);
	if (k == 1 && pull)
		k = thread_reviews(call, t, r, number, NULL);
	if (k == 1 && pull)
		k = thread_inline(call, t, r, number);
	if (k != 1)
		return (k);
	result_str(call->res, "status", "ok");
	result_u64(call->res, "number", number);
	result_bool(call->res, "is_pull_request", pull);
	gh_put(call, "title", o, "title", SUMMARY_BYTES);
	gh_put(call, "state", o, "state", 32);
	gh_put(call, "author", o, "user.login", 100);
	put_labels(call->res, call, o);
	gh_put(call, "summary", o, "body", SUMMARY_BYTES);
	gh_put(call, "html_url", o, "html_url", 400);
	k = thread_save(call, t);
	return (k == 1 ? 0 : k);
}

int
tool_issue_view(struct call *call)
{
	uint64_t number = (uint64_t)args_int(&call->args, "issue_number");
	struct json_object *o;
	struct thread t;
	struct gh_repo r;
	int k;

	if (!gh_repo_arg(call, "repo", &r))
		return (0);
	k = gh_place(call, args_str(&call->args, "save_to", NULL));
	if (k != 1)
		return (k);
	k = gh_ask(call, &r, &(struct gh_ask){ .op = SBX_REST_ISSUE,
	    .number = number }, json_type_object, NULL, &o);
	if (k != 1)
		return (k);
	thread_init(&t);
	k = view(call, &r, number, o, &t);
	thread_clear(&t);
	json_object_put(o);
	return (k);
}

/* --- writing ---------------------------------------------------------------------- */

static bool
write_args(struct call *call, bool create)
{
	const struct args *a = &call->args;

	if (create && gh_blank(args_str(a, "title", NULL)))
		return (gh_bad(call, "\"title\" must not be empty: method "
		    "create makes an issue of that title."));
	if (create && args_has(a, "issue_number"))
		return (gh_bad(call, "\"issue_number\" goes with method "
		    "comment; a new issue gets its number."));
	if (!create && !args_has(a, "issue_number"))
		return (gh_bad(call, "\"issue_number\" is missing: method "
		    "comment needs it."));
	if (!create && args_has(a, "title"))
		return (gh_bad(call, "\"title\" goes with method create; a "
		    "comment has none."));
	if (!create && gh_blank(args_str(a, "body", NULL)))
		return (gh_bad(call, "\"body\" must not be empty."));
	return (gh_clean_out(call, "title", args_str(a, "title", NULL)) &&
	    gh_clean_out(call, "body", args_str(a, "body", NULL)));
}

/* What the user is asked. */
static bool
agreed(struct call *call, const struct gh_repo *r, bool create)
{
	const char *title = args_str(&call->args, "title", NULL);
	const char *body = args_str(&call->args, "body", NULL);
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char repo[400];

	sbx_buf_init(&b, GH_SHOWN_MAX);
	gh_repo_text(r, repo, sizeof(repo));
	if (create)
		(void)sbx_buf_printf(&b, "Create an issue in %s?\n\n", repo);
	else
		(void)sbx_buf_printf(&b, "Comment on %s#%" PRIi64 "?\n\n",
		    repo, args_int(&call->args, "issue_number"));
	if (create)
		gh_show(&b, title);
	if (create && !gh_blank(body))
		(void)sbx_buf_str(&b, "\n");
	if (!gh_blank(body))
		gh_show(&b, body);
	return (gh_confirmed(call, &b));
}

int
tool_sandbox_issue_write(struct call *call)
{
	bool create = strcmp(args_str(&call->args, "method", NULL),
	    "create") == 0;
	uint64_t number = create ? 0 :
	    (uint64_t)args_int(&call->args, "issue_number");
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct json_object *o;
	struct gh_repo r;
	int k;

	if (!gh_repo_arg(call, "repo", &r) || !write_args(call, create))
		return (0);
	/* nobody is asked for what is refused then */
	k = gh_may_write(call, &r, &(struct gh_ask){ .op = create ?
	    SBX_REST_ISSUE_CREATE : SBX_REST_ISSUE_COMMENT,
	    .number = number });
	if (k != 1)
		return (k);
	if (!agreed(call, &r, create))
		return (0);
	sbx_buf_init(&b, TEXT_MAX);
	if (create)
		gh_json_member(&b, "title", args_str(&call->args, "title",
		    NULL));
	gh_json_member(&b, "body", args_str(&call->args, "body", NULL));
	if (sbx_buf_str(&b, "}") != 0 || b.overflow)
		return (gh_bad(call, "\"body\" is too long."), 0);
	k = gh_ask(call, &r, &(struct gh_ask){ .op = create ?
	    SBX_REST_ISSUE_CREATE : SBX_REST_ISSUE_COMMENT, .number = number,
	    .body = b.data }, json_type_object, NULL, &o);
	if (k != 1)
		return (k);
	result_str(call->res, "status", "ok");
	gh_put(call, "html_url", o, "html_url", 400);
	result_u64(call->res, "number", create ? gh_num(o, "number") :
	    number);
	if (!create)
		result_u64(call->res, "comment_id", gh_num(o, "id"));
	json_object_put(o);
	return (0);
}
