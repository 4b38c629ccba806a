#include "sbxd/front/forward.h"

#include "common/base/json.h"
#include "common/base/log.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/methods.h"
#include "sbxd/front/reply.h"
#include "sbxd/front/subs.h"

#include <json-c/json.h>
#include <limits.h>
#include <string.h>

#define TEXT_MAX 1026u		/* bytes of a string as JSON text */

static const struct forward rows[] = {
	{ METHOD_RESOURCES_LIST, { { "cursor", 's' } },
	    { "[resources", " nextCursor" }, .scope = "private",
	    .titled = true },
	{ METHOD_RESOURCES_TEMPLATES, { { "cursor", 's' } },
	    { "[resourceTemplates", " nextCursor" }, REPLY_TTL_MS, "public",
	    .titled = true },
	/* a run may still write */
	{ METHOD_RESOURCES_READ, { { "uri", 'S' } }, { "[contents" },
	    .scope = "private", .resource = true },
	{ METHOD_SUBSCRIBE, { { "uri", 'S' } }, .resource = true,
	    .granted = subs_granted },
	{ METHOD_PROMPTS_LIST, { { "cursor", 's' } },
	    { "[prompts", " nextCursor" }, REPLY_TTL_MS, "public",
	    .titled = true },
	{ METHOD_PROMPTS_GET, { { "name", 'S' }, { "arguments", 'o' } },
	    { "[messages", " description" } },
	{ METHOD_COMPLETE, { { "ref", 'O' }, { "argument", 'O' } },
	    { "{completion" } },
};

const struct forward *
forward_row(enum method_id method)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(rows) - 1; i++)
		if (rows[i].method == method)
			break;
	return (&rows[i]);
}

/* The value as text: arguments were cut out of what was parsed.  p NULL: it is
 * not there, or null. */
static struct span
param(const struct request *r, const char *name)
{
	struct json_object *v;
	struct span s = { NULL, 0 };

	if (r->params == NULL ||
	    !json_object_object_get_ex(r->params, name, &v))
		return (s);
	if (strcmp(name, "arguments") == 0 && r->arguments.p != NULL)
		return (r->arguments.p[0] != 'n' ? r->arguments : s);
	if (v == NULL)
		return (s);
	s.p = json_object_to_json_string_length(v, JSON_C_TO_STRING_PLAIN,
	    &s.len);
	return (s);
}

static bool
fits(char kind, struct span v)
{
	bool must = kind == 'S' || kind == 'O';

	if (v.p == NULL)
		return (!must);
	return (kind == 's' || kind == 'S' ? *v.p == '"' &&
	    v.len <= TEXT_MAX : *v.p == '{');
}

void
on_forward(struct request *r)
{
	const struct forward *row = forward_row(r->method);
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	const char *name;
	struct span v;
	size_t i;

	sbx_buf_init(&b, SBX_MAX_FORWARD);
	(void)sbx_buf_str(&b, "{");
	for (i = 0; i < SBX_NELEM(row->params); i++) {
		if ((name = row->params[i].name) == NULL)
			break;
		v = param(r, name);
		if (!fits(row->params[i].kind, v)) {
			reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS,
			    NULL, "Invalid params: %s must be %s", name,
			    strchr("sS", row->params[i].kind) != NULL ?
			    "a string of at most 1024 bytes" : "an object");
			return;
		}
		if (v.p == NULL)
			continue;
		reply_name(&b, name);
		(void)sbx_buf_add(&b, v.p, v.len);
	}
	if (sbx_buf_str(&b, "}") != 0)
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: more than %u bytes", SBX_MAX_FORWARD);
	else
		(void)calls_start(r, CALL_FORWARD, methods[r->method].name, "",
		    (struct span){ b.data, b.len });
}

/* --- what the worker says --------------------------------------------------- */

static bool
member_is(char kind, struct span v)
{
	return (*v.p == (kind == ' ' ? '"' : kind));
}

/* The list without the titles of its items, which a revision may not have. */
static void
add_untitled(struct sbx_buf *b, struct span list)
{
	struct json_object *o = NULL;
	struct json_tokener *t;
	size_t i;

	t = json_tokener_new_ex(SBX_MAX_JSON_DEPTH);
	if (t != NULL && list.len < INT_MAX)
		o = json_tokener_parse_ex(t, list.p, (int)list.len);
	for (i = 0; json_object_is_type(o, json_type_array) &&
	    i < json_object_array_length(o); i++)
		json_object_object_del(json_object_array_get_idx(o, i),
		    "title");
	/* what cannot be read was clean, and stays as it is */
	if (o == NULL)
		(void)sbx_buf_add(b, list.p, list.len);
	else
		(void)sbx_buf_str(b, json_object_to_json_string_ext(o,
		    JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
	if (t != NULL)
		json_tokener_free(t);
}

/* Only the members that the protocol has are taken over. */
static void
put_members(const struct call *call, const char *const *members, size_t n,
    const char *text, size_t len)
{
	struct sbx_buf *b = &call->to->out;
	struct span v;
	size_t i;

	for (i = 0; i < n && members[i] != NULL; i++) {
		if (!member_find(text, len, members[i] + 1, &v) ||
		    !member_is(*members[i], v))
			continue;
		reply_name(b, members[i] + 1);
		if (forward_row(call->method)->titled && v.p[0] == '[' &&
		    (call->rev->fields & REV_F_STRUCTURED) == 0)
			add_untitled(b, v);
		else
			(void)sbx_buf_add(b, v.p, v.len); /* the sink tells */
	}
}

/* Is the first of them there?  Else it is answered that it is not. */
static bool
usable(const struct call *call, const char *member, const char *text,
    size_t len)
{
	struct span v;

	if (member == NULL || (member_find(text, len, member + 1, &v) &&
	    member_is(*member, v)))
		return (true);
	log_warn("a worker's result has no %s", member + 1);
	reply_error(call->to, call->rev, call->id, RPC_INTERNAL_ERROR, NULL,
	    "The worker's result was not usable");
	return (false);
}

void
forward_result(struct call *call, const char *text, size_t len)
{
	const struct forward *row = forward_row(call->method);
	struct sbx_buf *b;

	if (!usable(call, row->members[0], text, len))
		return;
	if (row->granted != NULL && row->granted(call, text, len) != 0) {
		reply_error(call->to, call->rev, call->id, RPC_INTERNAL_ERROR,
		    NULL, "There are too many of these");
		return;
	}
	b = reply_begin(call->to, call->rev, call->id);
	if (row->scope != NULL)
		reply_cache(b, call->rev, row->ttl_ms, row->scope);
	put_members(call, row->members, SBX_NELEM(row->members), text, len);
	reply_end(call->to);
}

void
forward_content(const struct call *call, const char *text, size_t len)
{
	static const char *const members[] = { "[content",
		"{structuredContent" };
	struct sbx_buf *b;

	if (!usable(call, members[0], text, len))
		return;
	b = reply_begin(call->to, call->rev, call->id);
	put_members(call, members, call->rev->fields & REV_F_STRUCTURED ? 2 : 1,
	    text, len);
	reply_name(b, "isError");
	(void)sbx_buf_str(b, "false");
	reply_end(call->to);
}

static const char *
text_of(struct json_object *o, const char *name, const char *otherwise)
{
	struct json_object *v = NULL;

	(void)json_object_object_get_ex(o, name, &v);
	return (json_object_is_type(v, json_type_string) ?
	    json_object_get_string(v) : otherwise);
}

/* The error object as a JSON-RPC error, by its stable word.  What is missing
 * is named by its URI. */
void
forward_error(const struct call *call, const char *text, size_t len)
{
	const struct forward *row = forward_row(call->method);
	struct json_object *o, *data = NULL, *uri = NULL;
	int number = RPC_INTERNAL_ERROR;
	const char *word;

	o = len <= SBX_MAX_ENVELOPE ? json_tokener_parse(text) : NULL;
	word = text_of(o, "code", "");
	if (strcmp(word, "not_found") == 0 || strcmp(word, "unknown_run") == 0)
		number = row->resource ? call->rev->code_no_resource :
		    RPC_INVALID_PARAMS;
	else if (strncmp(word, "bad_", 4) == 0 ||
	    strcmp(word, "unknown_argument") == 0)
		number = RPC_INVALID_PARAMS;
	if (json_object_object_get_ex(o, "uri", &uri)) {
		data = json_object_new_object();
		(void)json_object_object_add(data, "uri",
		    json_object_get(uri));
	}
	reply_error(call->to, call->rev, call->id, number, data == NULL ?
	    NULL : json_object_to_json_string_ext(data,
	    JSON_C_TO_STRING_PLAIN), "%s", text_of(o, "error",
	    "The request could not be served"));
	json_object_put(data);
	json_object_put(o);
}
