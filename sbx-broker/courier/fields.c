#include "sbx-broker/courier/fields.h"

#include "common/base/json.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

enum kind {
	TEXT, NUMBER, FLAG,
	URL,		/* a text that is https:// without a query */
	PRESENT,	/* whether it is there and not null */
	OBJECT, LIST,	/* of objects with the members of `below` */
};
struct field {
	const char *name;	/* NULL ends a table */
	enum kind kind;
	const struct field *below;
};

/* --- answers ----------------------------------------------------------------------- */

static const struct field user[] = { { "login", TEXT, NULL }, { NULL } };
static const struct field named[] = { { "name", TEXT, NULL }, { NULL } };
static const struct field permissions[] = {
	{ "admin", FLAG, NULL }, { "maintain", FLAG, NULL },
	{ "pull", FLAG, NULL }, { "push", FLAG, NULL },
	{ "triage", FLAG, NULL }, { NULL },
};
static const struct field repo[] = {
	{ "full_name", TEXT, NULL }, { "private", FLAG, NULL },
	{ "default_branch", TEXT, NULL }, { "archived", FLAG, NULL },
	{ "disabled", FLAG, NULL }, { "fork", FLAG, NULL },
	{ "has_issues", FLAG, NULL }, { "html_url", URL, NULL },
	{ "size", NUMBER, NULL }, { "permissions", OBJECT, permissions },
	{ NULL },
};
#define ISSUE \
	{ "number", NUMBER, NULL }, { "title", TEXT, NULL }, \
	{ "state", TEXT, NULL }, { "state_reason", TEXT, NULL }, \
	{ "locked", FLAG, NULL }, { "body", TEXT, NULL }, \
	{ "user", OBJECT, user }, { "labels", LIST, named }, \
	{ "assignees", LIST, user }, { "created_at", TEXT, NULL }, \
	{ "updated_at", TEXT, NULL }, { "closed_at", TEXT, NULL }, \
	{ "comments", NUMBER, NULL }, { "html_url", URL, NULL }, \
	{ "author_association", TEXT, NULL }
static const struct field issue[] = {
	ISSUE, { "pull_request", PRESENT, NULL }, { NULL },
};
static const struct field end_repo[] = {
	{ "full_name", TEXT, NULL }, { NULL },
};
static const struct field end[] = {
	{ "ref", TEXT, NULL }, { "sha", TEXT, NULL },
	{ "repo", OBJECT, end_repo }, { NULL },
};
static const struct field pull[] = {
	ISSUE, { "draft", FLAG, NULL }, { "merged", FLAG, NULL },
	{ "merged_at", TEXT, NULL }, { "mergeable", FLAG, NULL },
	{ "mergeable_state", TEXT, NULL }, { "head", OBJECT, end },
	{ "base", OBJECT, end }, { "review_comments", NUMBER, NULL },
	{ "commits", NUMBER, NULL }, { "additions", NUMBER, NULL },
	{ "deletions", NUMBER, NULL }, { "changed_files", NUMBER, NULL },
	{ "requested_reviewers", LIST, user }, { NULL },
};
static const struct field comment[] = {
	{ "id", NUMBER, NULL }, { "user", OBJECT, user },
	{ "body", TEXT, NULL }, { "created_at", TEXT, NULL },
	{ "updated_at", TEXT, NULL }, { "html_url", URL, NULL },
	{ "author_association", TEXT, NULL }, { NULL },
};
static const struct field review[] = {
	{ "id", NUMBER, NULL }, { "user", OBJECT, user },
	{ "state", TEXT, NULL }, { "body", TEXT, NULL },
	{ "submitted_at", TEXT, NULL }, { "commit_id", TEXT, NULL },
	{ "html_url", URL, NULL }, { "author_association", TEXT, NULL },
	{ NULL },
};
static const struct field review_comment[] = {
	{ "id", NUMBER, NULL }, { "user", OBJECT, user },
	{ "path", TEXT, NULL }, { "line", NUMBER, NULL },
	{ "side", TEXT, NULL }, { "start_line", NUMBER, NULL },
	{ "start_side", TEXT, NULL }, { "original_line", NUMBER, NULL },
	{ "body", TEXT, NULL }, { "in_reply_to_id", NUMBER, NULL },
	{ "pull_request_review_id", NUMBER, NULL },
	{ "commit_id", TEXT, NULL }, { "created_at", TEXT, NULL },
	{ "updated_at", TEXT, NULL }, { "html_url", URL, NULL },
	{ "author_association", TEXT, NULL }, { NULL },
};
static const struct field check_output[] = {
	{ "title", TEXT, NULL }, { NULL },
};
static const struct field check_run[] = {
	{ "id", NUMBER, NULL }, { "name", TEXT, NULL },
	{ "status", TEXT, NULL }, { "conclusion", TEXT, NULL },
	{ "started_at", TEXT, NULL }, { "completed_at", TEXT, NULL },
	{ "html_url", URL, NULL }, { "output", OBJECT, check_output },
	{ NULL },
};
static const struct field check_runs[] = {
	{ "total_count", NUMBER, NULL }, { "check_runs", LIST, check_run },
	{ NULL },
};
static const struct field one_status[] = {
	{ "context", TEXT, NULL }, { "state", TEXT, NULL },
	{ "description", TEXT, NULL }, { "target_url", URL, NULL },
	{ "created_at", TEXT, NULL }, { "updated_at", TEXT, NULL }, { NULL },
};
static const struct field status[] = {
	{ "state", TEXT, NULL }, { "sha", TEXT, NULL },
	{ "total_count", NUMBER, NULL }, { "statuses", LIST, one_status },
	{ NULL },
};
static const struct field made_issue[] = {
	{ "number", NUMBER, NULL }, { "id", NUMBER, NULL },
	{ "html_url", URL, NULL }, { NULL },
};
static const struct field made[] = {
	{ "id", NUMBER, NULL }, { "state", TEXT, NULL },
	{ "html_url", URL, NULL }, { NULL },
};

static const struct field answers[SBX_REST_OP_MAX] = {
	[SBX_REST_REPO] = { "", OBJECT, repo },
	[SBX_REST_ISSUE] = { "", OBJECT, issue },
	[SBX_REST_ISSUE_COMMENTS] = { "", LIST, comment },
	[SBX_REST_PULL] = { "", OBJECT, pull },
	[SBX_REST_REVIEWS] = { "", LIST, review },
	[SBX_REST_REVIEW_COMMENTS] = { "", LIST, review_comment },
	[SBX_REST_CHECK_RUNS] = { "", OBJECT, check_runs },
	[SBX_REST_STATUS] = { "", OBJECT, status },
	[SBX_REST_PULLS_OF] = { "", LIST, pull },
	[SBX_REST_ISSUE_CREATE] = { "", OBJECT, made_issue },
	[SBX_REST_ISSUE_COMMENT] = { "", OBJECT, made },
	[SBX_REST_REVIEW_CREATE] = { "", OBJECT, made },
	[SBX_REST_PULL_CREATE] = { "", OBJECT, made_issue },
};

/* json-c is lenient, so the scan comes first. */
static struct json_object *
parse(const char *text, size_t n, size_t max)
{
	struct json_tokener *tok;
	struct json_object *o;

	if (sbx_json_scan(text, n, max, FIELDS_DEPTH, NULL) < 0 ||
	    sbx_json_values(text, n) > FIELDS_VALUES_MAX ||
	    (tok = json_tokener_new_ex((int)FIELDS_DEPTH + 1)) == NULL)
		return (NULL);
	o = json_tokener_parse_ex(tok, text, (int)n);
	json_tokener_free(tok);
	return (o);
}

/* No query, which may sign it, nobody's name, and nothing that two readers
 * could take for different things. */
static bool
is_plain_url(const char *s, size_t n)
{
	static const char scheme[] = "https://";
	size_t at = sizeof(scheme) - 1;

	if (n <= at || memcmp(s, scheme, at) != 0 || s[at] == '/')
		return (false);
	for (; at < n; at++)
		if (s[at] <= ' ' || s[at] > '~' ||
		    strchr("?\\\"<>^`{|}", s[at]) != NULL)
			return (false);
	at = sizeof(scheme) - 1;
	return (memchr(s + at, '@', strcspn(s + at, "/#")) == NULL);
}

static void write_value(struct sbx_buf *out, const struct field *f,
    struct json_object *v);

/* Does it have the type that it is documented with?  null is of any. */
static bool
is_of_kind(const struct field *f, struct json_object *v)
{
	enum json_type t = json_object_get_type(v);

	if (v == NULL || f->kind == PRESENT)
		return (true);
	switch (f->kind) {
	case TEXT:
		return (t == json_type_string);
	case NUMBER:
		return (t == json_type_int);
	case FLAG:
		return (t == json_type_boolean);
	case URL:
		return (t == json_type_string &&
		    is_plain_url(json_object_get_string(v),
		    (size_t)json_object_get_string_len(v)));
	case OBJECT:
		return (t == json_type_object);
	case LIST:
		return (t == json_type_array);
	case PRESENT:
		return (true);
	}
	return (false);
}

static void
write_object(struct sbx_buf *out, const struct field *below,
    struct json_object *o)
{
	struct json_object *v;
	bool first = true;

	(void)sbx_buf_str(out, "{"); /* out->overflow tells, here and on */
	for (; below->name != NULL; below++) {
		if (!json_object_object_get_ex(o, below->name, &v) ||
		    !is_of_kind(below, v))
			continue;
		(void)sbx_buf_printf(out, "%s\"%s\":", first ? "" : ",",
		    below->name);
		write_value(out, below, v);
		first = false;
	}
	(void)sbx_buf_str(out, "}");
}

static void
write_list(struct sbx_buf *out, const struct field *below,
    struct json_object *o)
{
	bool first = true;

	(void)sbx_buf_str(out, "[");
	for (size_t i = 0; i < json_object_array_length(o); i++) {
		struct json_object *v = json_object_array_get_idx(o, i);

		if (json_object_get_type(v) != json_type_object)
			continue;
		if (!first)
			(void)sbx_buf_str(out, ",");
		write_object(out, below, v);
		first = false;
	}
	(void)sbx_buf_str(out, "]");
}

static void
write_value(struct sbx_buf *out, const struct field *f, struct json_object *v)
{
	if (f->kind == PRESENT) {
		(void)sbx_buf_str(out, v != NULL ? "true" : "false");
		return;
	}
	if (v == NULL) {
		(void)sbx_buf_str(out, "null");
		return;
	}
	switch (f->kind) {
	case TEXT:
	case URL:
		(void)sbx_json_str(out, json_object_get_string(v),
		    (size_t)json_object_get_string_len(v), NULL);
		return;
	case NUMBER:
		(void)sbx_buf_printf(out, "%" PRId64,
		    json_object_get_int64(v));
		return;
	case FLAG:
		(void)sbx_buf_str(out, json_object_get_boolean(v) ? "true" :
		    "false");
		return;
	case OBJECT:
		write_object(out, f->below, v);
		return;
	case LIST:
		write_list(out, f->below, v);
		return;
	case PRESENT:
		return;
	}
}

int
fields_answer(enum sbx_rest_op op, const char *text, size_t n,
    struct sbx_buf *out)
{
	struct json_object *o;
	int r = SBX_E_SYNTAX;

	if (op >= SBX_REST_OP_MAX ||
	    (o = parse(text, n, FIELDS_ANSWER_MAX)) == NULL)
		return (SBX_E_SYNTAX);
	if (is_of_kind(&answers[op], o)) {
		write_value(out, &answers[op], o);
		r = out->overflow ? SBX_E_LIMIT : 0;
	}
	(void)json_object_put(o); /* its count is not asked for */
	return (r);
}

static const char *
text_of(struct json_object *o, const char *name)
{
	struct json_object *v;

	if (json_object_get_type(o) != json_type_object ||
	    !json_object_object_get_ex(o, name, &v) ||
	    json_object_get_type(v) != json_type_string)
		return (NULL);
	return (json_object_get_string(v));
}

void
fields_message(const char *text, size_t n, char *ret_text, size_t size)
{
	SBX_CLEANUP(free) char *all = NULL;
	struct json_object *o, *errors, *first = NULL;
	const char *message, *field, *more;

	ret_text[0] = '\0';
	if ((o = parse(text, n, FIELDS_ANSWER_MAX)) == NULL)
		return;
	message = text_of(o, "message");
	if (json_object_get_type(o) == json_type_object &&
	    json_object_object_get_ex(o, "errors", &errors) &&
	    json_object_get_type(errors) == json_type_array &&
	    json_object_array_length(errors) > 0)
		first = json_object_array_get_idx(errors, 0);
	field = text_of(first, "field");
	more = text_of(first, "message");
	if (more == NULL)
		more = text_of(first, "code");
	if (more == NULL && json_object_get_type(first) == json_type_string)
		more = json_object_get_string(first);
	all = sbx_xasprintf("%s%s%s%s%s", message == NULL ? "" : message,
	    more == NULL ? "" : ": ", field == NULL || more == NULL ? "" :
	    field, field == NULL || more == NULL ? "" : " ",
	    more == NULL ? "" : more);
	(void)sbx_vis(ret_text, size, all, strlen(all));
	(void)json_object_put(o); /* its count is not asked for */
}

/* --- bodies ---------------------------------------------------------------------------- */

enum wants {
	W_TEXT,		/* for people: bots read it, too */
	W_WORD,		/* a text for the host alone */
	W_WHOLE,	/* a number above 0 */
	W_WORDS,	/* a list of texts */
	W_LIST,		/* of objects */
};
struct member {
	const char *name;
	enum wants wants;
	bool must;
	unsigned max;			/* bytes of a text, items of a list */
	const char *const *one_of;	/* NULL: any */
	const struct member *below;
};

static const char *const events[] = { "APPROVE", "REQUEST_CHANGES", "COMMENT",
	NULL };
static const char *const sides[] = { "LEFT", "RIGHT", NULL };

#define BODY_BYTES 65536u
static const struct member body_issue[] = {
	{ "title", W_TEXT, true, 256, NULL, NULL },
	{ "body", W_TEXT, false, BODY_BYTES, NULL, NULL },
	{ "labels", W_WORDS, false, 32, NULL, NULL }, { NULL },
};
static const struct member body_comment[] = {
	{ "body", W_TEXT, true, BODY_BYTES, NULL, NULL }, { NULL },
};
static const struct member body_review_comment[] = {
	{ "path", W_WORD, true, 4096, NULL, NULL },
	{ "body", W_TEXT, true, BODY_BYTES, NULL, NULL },
	{ "line", W_WHOLE, false, 0, NULL, NULL },
	{ "side", W_WORD, false, 8, sides, NULL },
	{ "start_line", W_WHOLE, false, 0, NULL, NULL },
	{ "start_side", W_WORD, false, 8, sides, NULL }, { NULL },
};
static const struct member body_review[] = {
	{ "event", W_WORD, true, 32, events, NULL },
	{ "body", W_TEXT, false, BODY_BYTES, NULL, NULL },
	{ "commit_id", W_WORD, false, 64, NULL, NULL },
	{ "comments", W_LIST, false, 100, NULL, body_review_comment },
	{ NULL },
};
static const struct member body_pull[] = {
	{ "title", W_TEXT, true, 256, NULL, NULL },
	{ "body", W_TEXT, false, BODY_BYTES, NULL, NULL },
	{ "head", W_WORD, true, 244, NULL, NULL },
	{ "base", W_WORD, true, 244, NULL, NULL }, { NULL },
};
static const struct member *const bodies[SBX_REST_OP_MAX] = {
	[SBX_REST_ISSUE_CREATE] = body_issue,
	[SBX_REST_ISSUE_COMMENT] = body_comment,
	[SBX_REST_REVIEW_CREATE] = body_review,
	[SBX_REST_PULL_CREATE] = body_pull,
};

struct writer {
	struct sbx_buf *out;
	bool bot_commands;
	const char *code, *why;
};

static bool
refuse(struct writer *w, const char *code, const char *why)
{
	w->code = code;
	w->why = why;
	return (false);
}

static bool
ends_line(uint32_t v)
{
	return ((v >= '\n' && v <= '\r') || v == 0x85 || v == 0x2028 ||
	    v == 0x2029);
}

/* All that is blank or cannot be seen, to whatever bot. */
static bool
is_blank(uint32_t v)
{
	return (v == ' ' || v == 0xa0 || v == 0x1680 ||
	    (v >= 0x2000 && v <= 0x200a) || v == 0x202f || v == 0x205f ||
	    v == 0x3000 || sbx_is_invisible(v));
}

/* What may stand before a line's text without being any, in Markdown. */
static bool
is_mark(uint32_t v)
{
	return (v < 0x80 && v != 0 && strchr("><!-*+#_[]", (int)v) != NULL);
}

/* Also as bots read them that normalize what they get. */
static bool
is_order(uint32_t v, uint32_t sign)
{
	return (v == sign || (sign == '@' && (v == 0xff20 || v == 0xfe6b)) ||
	    (sign == '/' && v == 0xff0f));
}

/* Where a reader of orders is in a text. */
struct orders {
	enum { LINE_BEGIN, LINE_NUMBER, LINE_TEXT } where;
	unsigned dashes;
};

/* The end of a number, a comment or a line is the begin of another one. */
static void
orders_move(struct orders *o, uint32_t v)
{
	bool digit = v >= '0' && v <= '9';

	if (ends_line(v) || (v == '>' && o->dashes >= 2))
		o->where = LINE_BEGIN;
	else if (o->where == LINE_BEGIN && digit)
		o->where = LINE_NUMBER;
	else if (o->where == LINE_NUMBER && (v == '.' || v == ')'))
		o->where = LINE_BEGIN;
	else if ((o->where == LINE_BEGIN && !is_blank(v) && !is_mark(v)) ||
	    (o->where == LINE_NUMBER && !digit))
		o->where = LINE_TEXT;
	o->dashes = v == '-' ? o->dashes + 1 : 0;
}

/* Inside a line an @ is as often a package or a decorator, and passes. */
bool
fields_has_bot_command(const char *text, size_t n)
{
	struct orders o = { .where = LINE_BEGIN };
	unsigned len;
	uint32_t v;

	for (size_t i = 0; i < n; i += len) {
		len = sbx_utf8_len(text + i, n - i);
		v = len == 0 ? 0xfffd : sbx_utf8_point(text + i, len);
		len = len == 0 ? 1 : len;
		if (o.where == LINE_BEGIN && (is_order(v, '/') ||
		    is_order(v, '@')))
			return (true);
		orders_move(&o, v);
	}
	return (false);
}

static bool
write_text(struct writer *w, const struct member *m, struct json_object *v,
    size_t max)
{
	const char *s;
	size_t n;

	if (json_object_get_type(v) != json_type_string)
		return (refuse(w, "bad_request", "a member that must be a text "
		    "is none"));
	s = json_object_get_string(v);
	n = (size_t)json_object_get_string_len(v);
	if (n > max || (n == 0 && m->must) || memchr(s, '\0', n) != NULL)
		return (refuse(w, "bad_request", "a text is empty or too "
		    "long"));
	for (unsigned i = 0; m->one_of != NULL; i++) {
		if (m->one_of[i] == NULL)
			return (refuse(w, "bad_request", "a word is none of "
			    "those that the host takes"));
		if (strcmp(m->one_of[i], s) == 0)
			break;
	}
	if (m->wants != W_WORD && !w->bot_commands &&
	    fields_has_bot_command(s, n))
		return (refuse(w, "bot_command", "a line begins with / or @, "
		    "which bots take for a command"));
	return (sbx_json_str(w->out, s, n, NULL) == 0 ||
	    refuse(w, "bad_request", "it is too long"));
}

static bool write_members(struct writer *w, const struct member *table,
    struct json_object *o);

static bool
write_items(struct writer *w, const struct member *m, struct json_object *v)
{
	size_t n;

	if (json_object_get_type(v) != json_type_array ||
	    (n = json_object_array_length(v)) > m->max)
		return (refuse(w, "bad_request", "a member that must be a list "
		    "is none, or too long"));
	(void)sbx_buf_str(w->out, "["); /* the last one tells */
	for (size_t i = 0; i < n; i++) {
		struct json_object *one = json_object_array_get_idx(v, i);

		if (i > 0)
			(void)sbx_buf_str(w->out, ",");
		if (m->wants == W_WORDS ? !write_text(w, m, one, 256) :
		    !write_members(w, m->below, one))
			return (false);
	}
	return (sbx_buf_str(w->out, "]") == 0 ||
	    refuse(w, "bad_request", "it is too long"));
}

static bool
write_member(struct writer *w, const struct member *m, struct json_object *v)
{
	switch (m->wants) {
	case W_TEXT:
	case W_WORD:
		return (write_text(w, m, v, m->max));
	case W_WHOLE:
		if (json_object_get_type(v) != json_type_int ||
		    json_object_get_int64(v) < 1)
			return (refuse(w, "bad_request", "a member that must "
			    "be a number above 0 is none"));
		return (sbx_buf_printf(w->out, "%" PRId64,
		    json_object_get_int64(v)) == 0 ||
		    refuse(w, "bad_request", "it is too long"));
	case W_WORDS:
	case W_LIST:
		return (write_items(w, m, v));
	}
	return (refuse(w, "bad_request", "a member of no kind"));
}

static bool
write_members(struct writer *w, const struct member *table,
    struct json_object *o)
{
	struct json_object *v;
	int known = 0;

	if (json_object_get_type(o) != json_type_object)
		return (refuse(w, "bad_request", "it is no JSON object"));
	(void)sbx_buf_str(w->out, "{"); /* the last one tells */
	for (const struct member *m = table; m->name != NULL; m++) {
		if (!json_object_object_get_ex(o, m->name, &v)) {
			if (m->must)
				return (refuse(w, "bad_request", "a member "
				    "that it must have is not there"));
			continue;
		}
		(void)sbx_buf_printf(w->out, "%s\"%s\":", known++ == 0 ? "" :
		    ",", m->name);
		if (!write_member(w, m, v))
			return (false);
	}
	if (known != json_object_object_length(o))
		return (refuse(w, "bad_request", "it has a member that this "
		    "request has not"));
	return (sbx_buf_str(w->out, "}") == 0 ||
	    refuse(w, "bad_request", "it is too long"));
}

const char *
fields_body(enum sbx_rest_op op, bool bot_commands, const char *text, size_t n,
    struct sbx_buf *out, const char **ret_code)
{
	struct writer w = { .out = out, .bot_commands = bot_commands,
		.code = "bad_request" };
	struct json_object *o;

	if (op >= SBX_REST_OP_MAX || bodies[op] == NULL)
		w.why = "this request has no body";
	else if ((o = parse(text, n, FIELDS_BODY_MAX)) == NULL)
		w.why = "the body is no JSON, or too long";
	else {
		(void)write_members(&w, bodies[op], o); /* w.why tells */
		(void)json_object_put(o); /* its count is not asked for */
	}
	*ret_code = w.code;
	return (w.why);
}
