/* A page of what people wrote (thread.h). */

#include "sbxd/worker/thread.h"

#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#define WARNINGS_MAX 8192u

void
thread_init(struct thread *t)
{
	memset(t, 0, sizeof(*t));
	sbx_buf_init(&t->text, GH_FILE_MAX);
	sbx_buf_init(&t->warnings, WARNINGS_MAX);
}

void
thread_clear(struct thread *t)
{
	sbx_buf_clear(&t->text);
	sbx_buf_clear(&t->warnings);
}

int
thread_head(struct thread *t, const struct gh_repo *r, struct json_object *o,
    const char *what)
{
	struct sbx_buf *b = &t->text;
	struct json_object *labels = gh_get(o, "labels");
	char repo[400];
	size_t i;
	int error;

	error = sbx_buf_str(b, "# ");
	if (error == 0)
		error = gh_line(b, o, "title");
	if (error == 0)
		error = sbx_buf_printf(b, "\n\n%s %s#%" PRIu64 ", ", what,
		    gh_repo_text(r, repo, sizeof(repo)), gh_num(o, "number"));
	if (error == 0)
		error = gh_line(b, o, "state");
	if (error == 0)
		error = sbx_buf_str(b, ", opened by ");
	if (error == 0)
		error = gh_line(b, o, "user.login");
	if (error == 0)
		error = sbx_buf_str(b, " at ");
	if (error == 0)
		error = gh_line(b, o, "created_at");
	for (i = 0; error == 0 && i < gh_len(labels) && i < 100; i++) {
		error = sbx_buf_str(b, i == 0 ? "\nlabels: " : ", ");
		if (error == 0)
			error = gh_line(b, gh_at(labels, i), "name");
	}
	if (error == 0)
		error = sbx_buf_str(b, "\n" GH_DATA " Quoted lines (>) are "
		    "what people wrote.\n\n");
	return (error != 0 ? error : gh_body(b, o, "body"));
}

/* One of them.  extra: what is between the author and the time. */
static int
add(struct thread *t, struct json_object *o, const char *when,
    const char *extra)
{
	struct sbx_buf *b = &t->text;
	int error;

	error = sbx_buf_str(b, "\n### ");
	if (error == 0)
		error = gh_line(b, o, "user.login");
	if (error == 0)
		error = sbx_buf_printf(b, "%s, ", extra);
	if (error == 0)
		error = gh_line(b, o, when);
	if (error == 0)
		error = sbx_buf_str(b, "\n\n");
	if (error == 0 && *gh_str(o, "body") != '\0')
		error = gh_body(b, o, "body");
	return (error);
}

/* ", APPROVED" of a review, ", on PATH:LINE" of a comment on a line. */
static int
describe(struct sbx_buf *extra, struct json_object *o)
{
	uint64_t line = gh_num(o, "line");
	int error = 0;

	if (*gh_str(o, "path") != '\0') {
		error = sbx_buf_str(extra, ", on ");
		if (error == 0)
			error = gh_line(extra, o, "path");
		if (error == 0 && (line != 0 ||
		    (line = gh_num(o, "original_line")) != 0))
			error = sbx_buf_printf(extra, ":%" PRIu64 "%s", line,
			    gh_num(o, "line") == 0 ? " (outdated)" : "");
	} else if (*gh_str(o, "state") != '\0') {
		error = sbx_buf_str(extra, ", ");
		if (error == 0)
			error = gh_line(extra, o, "state");
	}
	return (error);
}

/* A review that says nothing is told by the comments that it came with. */
static bool
is_silent(struct json_object *o)
{
	return (*gh_str(o, "body") == '\0' && (*gh_str(o, "state") == '\0' ||
	    strcmp(gh_str(o, "state"), "COMMENTED") == 0));
}

/* What does not fit is left out whole, and told. */
static void
add_all(struct thread *t, struct json_object *list, const char *heading,
    const char *when)
{
	size_t i, begin = t->text.len, mark;
	bool any = false;
	int error;

	error = sbx_buf_printf(&t->text, "\n## %s\n", heading);
	for (i = 0; error == 0 && i < gh_len(list); i++) {
		SBX_CLEANUP_BUF struct sbx_buf extra = { 0 };
		struct json_object *o = gh_at(list, i);

		if (o == NULL || is_silent(o))
			continue;
		sbx_buf_init(&extra, 2048);
		mark = t->text.len;
		error = describe(&extra, o);
		if (error == 0)
			error = add(t, o, when, extra.data != NULL ?
			    extra.data : "");
		if (error != 0) {
			t->text.len = mark;
			t->text.data[mark] = '\0';
			t->more = true;
		} else {
			t->shown++;
			any = true;
		}
	}
	if (!any && t->text.data != NULL) {
		t->text.len = begin;
		t->text.data[begin] = '\0';
	}
}

int
thread_soft(struct call *call, struct thread *t, int r)
{
	struct result *res = call->res;
	SBX_CLEANUP_BUF struct sbx_buf copy = { 0 };
	struct json_object *o;
	const char *why;

	if (r != 0 || res->kind != SBX_RESULT_ERROR)
		return (r);
	sbx_buf_init(&copy, res->text.len + 2);
	(void)sbx_buf_add(&copy, res->text.data, res->text.len);
	(void)sbx_buf_add(&copy, "}", 1);
	o = script_json(copy.data, copy.len);
	why = gh_str(o, "error");
	(void)sbx_buf_add(&t->warnings, why, strlen(why) + 1);
	json_object_put(o);
	result_reset(res);
	t->more = true;
	return (1);
}

static int
section(struct call *call, struct thread *t, const struct gh_repo *r,
    const struct gh_ask *q, const char *heading, const char *when,
    struct json_object **ret_list)
{
	struct json_object *list;
	bool more;
	int k;

	k = gh_list(call, r, q, NULL, &list, &more);
	if (k != 1)
		return (k);
	t->more |= more;
	add_all(t, list, heading, when);
	if (ret_list != NULL)
		*ret_list = list;
	else
		json_object_put(list);
	return (1);
}

/* What is too large for one answer does not take the rest with it. */
static int
soft_if_large(struct call *call, struct thread *t, int r)
{
	const struct sbx_buf *text = &call->res->text;

	return (r == 0 && text->data != NULL && strstr(text->data,
	    "\"code\":\"too_large\"") != NULL ? thread_soft(call, t, r) : r);
}

int
thread_comments(struct call *call, struct thread *t, const struct gh_repo *r,
    uint64_t number)
{
	return (soft_if_large(call, t, section(call, t, r, &(struct gh_ask){
	    .op = SBX_REST_ISSUE_COMMENTS, .number = number }, "Comments",
	    "created_at", NULL)));
}

int
thread_reviews(struct call *call, struct thread *t, const struct gh_repo *r,
    uint64_t number, struct json_object **ret_list)
{
	if (ret_list != NULL)
		*ret_list = NULL;
	return (thread_soft(call, t, section(call, t, r, &(struct gh_ask){
	    .op = SBX_REST_REVIEWS, .number = number }, "Reviews",
	    "submitted_at", ret_list)));
}

int
thread_inline(struct call *call, struct thread *t, const struct gh_repo *r,
    uint64_t number)
{
	return (thread_soft(call, t, section(call, t, r, &(struct gh_ask){
	    .op = SBX_REST_REVIEW_COMMENTS, .number = number },
	    "Comments on lines", "created_at", NULL)));
}

int
thread_save(struct call *call, struct thread *t)
{
	const char *path = args_str(&call->args, "save_to", NULL);
	struct pieces in = { t->warnings.data, t->warnings.data +
	    t->warnings.len };
	struct result *r = call->res;
	char where[4096];
	const char *p;
	size_t len;
	int k;

	if (t->more)
		(void)sbx_buf_str(&t->text, "\n(There is more than this.)\n");
	k = gh_save(call, path, &t->text, where);
	if (k != 1)
		return (k);
	result_str(r, "container_id", args_str(&call->args, "container_id",
	    NULL));
	result_masked(r, "file", where, strlen(where));
	result_u64(r, "size_bytes", t->text.len);
	result_u64(r, "comments", t->shown);
	result_bool(r, "truncated", t->more);
	result_str(r, "note", GH_DATA);
	result_open(r, "warnings", '[');
	while (piece_next(&in, &p, &len))
		result_masked(r, NULL, p, len);
	result_close(r, ']');
	return (1);
}
