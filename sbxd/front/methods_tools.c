#include "sbxd/front/methods_tools.h"

#include "common/base/json.h"
#include "common/base/log.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/http_params.h"
#include "sbxd/front/methods.h"
#include "sbxd/front/reply.h"
#include "sbxd/front/tasks.h"
#include "sbxd/front/tools/tools.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 64	/* CALL.tool and CALL.container */

/* --- tools/list ----------------------------------------------------------- */

int
profile_find(const char *name, uint8_t *ret_profile)
{
	static const struct {
		const char *name;
		uint8_t profile;
	} names[] = {
		{ "", SBX_PROFILE_ALL },
		{ "implement", SBX_PROFILE_IMPLEMENT },
		{ "review", SBX_PROFILE_REVIEW },
		{ "issue", SBX_PROFILE_ISSUE },
	};
	size_t i;

	for (i = 0; i < SBX_NELEM(names); i++)
		if (strcmp(names[i].name, name) == 0) {
			*ret_profile = names[i].profile;
			return (0);
		}
	return (SBX_E_NOENT);
}

static void
put_hint(struct sbx_buf *b, const char *name, bool on)
{
	reply_name(b, name);
	(void)sbx_buf_str(b, on ? "true" : "false");
}

static void
put_text(struct sbx_buf *b, const char *name, const char *text)
{
	reply_name(b, name);
	(void)sbx_json_str(b, text, strlen(text), NULL);
}

static void
put_tool(struct sbx_buf *b, const struct sbx_tool *t, uint32_t fields)
{
	(void)sbx_buf_str(b, "{");
	put_text(b, "name", t->name);
	if ((fields & REV_F_STRUCTURED) && t->title != NULL)
		put_text(b, "title", t->title);
	put_text(b, "description", t->description);
	reply_name(b, "inputSchema");
	(void)sbx_buf_str(b, t->input_schema);
	if ((fields & REV_F_STRUCTURED) && t->output_schema != NULL) {
		reply_name(b, "outputSchema");
		(void)sbx_buf_str(b, t->output_schema);
	}
	if (fields & REV_F_ANNOTATIONS) {
		reply_name(b, "annotations");
		(void)sbx_buf_str(b, "{");
		if (t->title != NULL)
			put_text(b, "title", t->title);
		put_hint(b, "readOnlyHint", t->hints & SBX_TOOL_READ_ONLY);
		put_hint(b, "destructiveHint",
		    t->hints & SBX_TOOL_DESTRUCTIVE);
		put_hint(b, "idempotentHint",
		    t->hints & SBX_TOOL_IDEMPOTENT);
		put_hint(b, "openWorldHint", t->hints & SBX_TOOL_OPEN_WORLD);
		(void)sbx_buf_str(b, "}");
	}
	(void)sbx_buf_str(b, "}");
}

void
tools_put(struct sbx_buf *b, uint32_t fields, uint8_t profile)
{
	const struct sbx_tool *t;
	bool comma = false;
	size_t i;

	(void)sbx_buf_str(b, "[");
	for (i = 0; (t = sbx_tool_at(i)) != NULL; i++) {
		if (profile != SBX_PROFILE_ALL &&
		    (t->profiles & profile) == 0)
			continue;
		if (comma)
			(void)sbx_buf_str(b, ",");
		comma = true;
		put_tool(b, t, fields);
	}
	(void)sbx_buf_str(b, "]");
}

/* All fits on one page, so no cursor was ever handed out. */
static bool
cursor_refused(struct request *r)
{
	struct json_object *v;

	if (r->params == NULL ||
	    !json_object_object_get_ex(r->params, "cursor", &v) || v == NULL)
		return (false);
	reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
	    "Invalid cursor");
	return (true);
}

void
on_tools_list(struct request *r)
{
	struct sbx_buf *b;

	if (cursor_refused(r))
		return;
	b = reply_begin(r->to, r->rev, r->id);
	reply_name(b, "tools");
	tools_put(b, r->rev->fields, r->to->client->profile != 0 ?
	    r->to->client->profile : r->f->profile);
	reply_cache(b, r->rev, REPLY_TTL_MS, "public");
	reply_end(r->to);
}

/* --- tools/call ----------------------------------------------------------- */

/* Levenshtein's distance of two short names. */
static size_t
distance(const char *a, size_t na, const char *b, size_t nb)
{
	size_t row[NAME_MAX_BYTES + 1], i, j, diagonal, up;

	for (j = 0; j <= nb; j++)
		row[j] = j;
	for (i = 1; i <= na; i++) {
		diagonal = row[0];
		row[0] = i;
		for (j = 1; j <= nb; j++) {
			up = row[j];
			row[j] = diagonal + (a[i - 1] != b[j - 1]);
			if (up + 1 < row[j])
				row[j] = up + 1;
			if (row[j - 1] + 1 < row[j])
				row[j] = row[j - 1] + 1;
			diagonal = up;
		}
	}
	return (row[nb]);
}

const char *
tools_nearest(const char *name, size_t len)
{
	const struct sbx_tool *t;
	const char *best = NULL;
	size_t i, n, d, least = len / 2 + 1;

	if (len > NAME_MAX_BYTES)
		return (NULL);
	for (i = 0; (t = sbx_tool_at(i)) != NULL; i++) {
		n = strlen(t->name);
		if (n > NAME_MAX_BYTES)
			continue;
		d = distance(name, len, t->name, n);
		/* "exec" means sandbox_exec, however far that is */
		if (len >= 4 && memmem(t->name, n, name, len) != NULL)
			d = 1 + (n - len) / NAME_MAX_BYTES;
		if (d < least) {
			least = d;
			best = t->name;
		}
	}
	return (best);
}

/* A result and not a protocol error, so that a model can mend it. */
static void
unknown_tool(struct request *r, const char *name, size_t len)
{
	const char *near = tools_nearest(name, len);
	char text[256], next[160], shown[80];

	(void)snprintf(text, sizeof(text), "There is no tool \"%s\".",
	    sbx_vis(shown, sizeof(shown), name, len));
	if (near != NULL)
		(void)snprintf(next, sizeof(next), "Call %s, if that is "
		    "meant; tools/list has all names.", near);
	reply_tool_error(r->to, r->rev, r->id, "error", "unknown_tool",
	    near != NULL ? next : "Take a name that tools/list has.", text);
}

/*
 * The value of the argument that names the sandbox, for the monitor's caps:
 * printable ASCII of 1..64 bytes, else "".  The worker checks it properly.
 */
static void
find_container(const struct sbx_tool *t, struct span arguments,
    char ret_container[NAME_MAX_BYTES + 1])
{
	SBX_CLEANUP(free) char *copy = NULL;
	struct json_object *o;
	struct span v;
	const char *s;
	size_t i, n;

	*ret_container = '\0';
	if (t->container_arg == NULL ||
	    !member_find(arguments.p, arguments.len, t->container_arg, &v) ||
	    v.p[0] != '"' || v.len > 6 * NAME_MAX_BYTES + 2)
		return;
	copy = sbx_xasprintf("%.*s", (int)v.len, v.p);
	o = json_tokener_parse(copy);
	s = json_object_get_string(o);
	n = (size_t)json_object_get_string_len(o);
	for (i = 0; s != NULL && i < n && s[i] >= ' ' && s[i] <= '~'; i++)
		;
	if (s != NULL && n > 0 && i == n && n <= NAME_MAX_BYTES)
		memcpy(ret_container, s, n + 1);
	json_object_put(o);
}

/* A tool that is nothing but a task, where there can be none: answered. */
static bool
task_refused(struct request *r, const struct sbx_tool *t)
{
	if (t->task != SBX_TASK_MUST)
		return (false);
	if (!tasks_wanted(r))
		reply_error(r->to, r->rev, r->id, RPC_MISSING_CAPABILITY,
		    TASKS_REQUIRED, "Missing required client capability: "
		    "%s is a task", t->name);
	else if (tasks_full(r->f, r->to->client->principal))
		reply_tool_error(r->to, r->rev, r->id, "busy", "busy",
		    "Wait: a task is forgotten ten minutes after its end.",
		    "There are too many tasks.");
	else
		return (false);
	return (true);
}

void
on_tools_call(struct request *r)
{
	static const struct span none = { "{}", 2 };
	char container[NAME_MAX_BYTES + 1], header[HTTP_PARAM_NAME] = "";
	struct span arguments = none;
	const struct sbx_tool *t;
	struct call *call;
	const char *name;
	size_t len = 0;

	name = rpc_string(r, "name", &len, NULL);
	if (name == NULL) {
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: name must be a string");
		return;
	}
	t = sbx_tool_find(name, len);
	if (t == NULL) {
		unknown_tool(r, name, len);
		return;
	}
	if (r->arguments.p != NULL && r->arguments.p[0] != 'n')
		arguments = r->arguments;	/* null: none */
	if (arguments.p[0] != '{') {
		reply_tool_error(r->to, r->rev, r->id, "error", "bad_argument",
		    "Give the arguments by name, as one object.",
		    "\"arguments\" must be an object.");
		return;
	}
	if (r->to->http != NULL && (r->rev->fields & REV_F_HEADERS) &&
	    http_params_differ(r->to->http, t, arguments, header)) {
		reply_error(r->to, r->rev, r->id, RPC_HEADER_MISMATCH, NULL,
		    "Header mismatch: %s differs from its argument", header);
		return;
	}
	if (task_refused(r, t))
		return;
	find_container(t, arguments, container);
	call = calls_start(r, CALL_TOOL, t->name, container, arguments);
	if (call != NULL)
		call->content = t->content;
	if (call != NULL && call->task != NULL && t->task != SBX_TASK_LATE)
		task_show(call->task);
}
