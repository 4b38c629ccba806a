/*
 * Arguments against a tool's schema.  The text comes from a client and may be
 * anything: it is scanned before json-c sees it, each error names the argument
 * and how to mend it (a model reads that, and calls again), and foreign text
 * in a message is escaped and cut.
 */

#include "sbxd/worker/args.h"

#include "common/base/json.h"
#include "common/base/limits.h"
#include "sbxd/front/tools/tools.h"
#include "sbxd/worker/result.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#define MAX_PROPS 32

enum args_type {
	ARGS_STRING, ARGS_INTEGER, ARGS_NUMBER, ARGS_BOOLEAN, ARGS_ARRAY,
	ARGS_OBJECT, ARGS_TYPE_MAX
};
static const struct {
	const char *name, *noun;
	enum json_type json;
} types[ARGS_TYPE_MAX] = {
	[ARGS_STRING] = { "string", "a string", json_type_string },
	[ARGS_INTEGER] = { "integer", "an integer", json_type_int },
	[ARGS_NUMBER] = { "number", "a number", json_type_double },
	[ARGS_BOOLEAN] = { "boolean", "true or false", json_type_boolean },
	[ARGS_ARRAY] = { "array", "a list", json_type_array },
	[ARGS_OBJECT] = { "object", "an object", json_type_object },
};

struct args_prop {
	const char *name;	/* borrowed from root */
	enum args_type type;
	bool required, has_regex;
	int64_t min, max;	/* value, or length, or number of items */
	const char *pattern;	/* borrowed from root */
	regex_t regex;
	struct json_object *choices, *dflt; /* borrowed from root */
	struct args_schema *item; /* owned; of objects in a list, or NULL */
};
struct args_schema {
	const char *name;	/* borrowed: the tool's, or of an item */
	struct json_object *root;
	char item_name[48];
	size_t n;
	struct args_prop props[MAX_PROPS];
};

/* --- compiling ------------------------------------------------------------ */

static const struct {
	const char *name;
	enum args_type type;
	bool max;
} bounds[] = {
	{ "minimum", ARGS_INTEGER, false }, { "maximum", ARGS_INTEGER, true },
	{ "minLength", ARGS_STRING, false }, { "maxLength", ARGS_STRING, true },
	{ "minItems", ARGS_ARRAY, false }, { "maxItems", ARGS_ARRAY, true },
	{ "maxProperties", ARGS_OBJECT, true },
};

/* A keyword that bounds a value, where it fits the argument's type. */
static bool
set_bound(struct args_prop *p, const char *key, struct json_object *v)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(bounds); i++) {
		if (strcmp(key, bounds[i].name) != 0)
			continue;
		if (bounds[i].type != p->type)
			return (false);
		*(bounds[i].max ? &p->max : &p->min) = json_object_get_int64(v);
		return (true);
	}
	return (false);
}

/* {"type":"string"}: the only members that lists and maps may have. */
static bool
is_strings(struct json_object *v)
{
	struct json_object *type;

	return (json_object_is_type(v, json_type_object) &&
	    json_object_object_length(v) == 1 &&
	    json_object_object_get_ex(v, "type", &type) &&
	    strcmp(json_object_get_string(type), "string") == 0);
}

static int compile(struct args_schema *s, struct json_object *root,
    struct sbx_err *err);

/* Items that are objects: their members, as arguments are. */
static bool
set_items(struct args_prop *p, struct json_object *v)
{
	struct sbx_err err;

	if (p->type != ARGS_ARRAY)
		return (false);
	if (is_strings(v))
		return (true);
	p->item = sbx_xcalloc(1, sizeof(*p->item));
	(void)snprintf(p->item->item_name, sizeof(p->item->item_name),
	    "an item of \"%s\"", p->name);
	p->item->name = p->item->item_name;
	return (compile(p->item, json_object_get(v), &err) == 0);
}

/* One keyword of an argument; false: not one that is enforced here, and one
 * that is only shown would be a promise without anybody behind it. */
static bool
set_keyword(struct args_prop *p, const char *key, struct json_object *v)
{
	if (strcmp(key, "type") == 0 || strcmp(key, "description") == 0 ||
	    strcmp(key, "x-mcp-header") == 0)	/* the front's */
		return (true);
	if (strcmp(key, "default") == 0) {
		p->dflt = v;
		return (json_object_is_type(v, types[p->type].json));
	}
	if (strcmp(key, "enum") == 0) {
		p->choices = v;
		return (p->type == ARGS_STRING);
	}
	if (strcmp(key, "pattern") == 0) {
		p->pattern = json_object_get_string(v);
		p->has_regex = regcomp(&p->regex, p->pattern,
		    REG_EXTENDED | REG_NOSUB) == 0;
		return (p->has_regex && p->type == ARGS_STRING);
	}
	if (strcmp(key, "items") == 0)
		return (set_items(p, v));
	if (strcmp(key, "additionalProperties") == 0)
		return (p->type == ARGS_OBJECT && is_strings(v));
	return (set_bound(p, key, v));
}

static int
compile_prop(struct args_prop *p, const char *name, struct json_object *v,
    struct sbx_err *err)
{
	struct json_object *type;
	size_t t = ARGS_TYPE_MAX;

	if (json_object_object_get_ex(v, "type", &type))
		for (t = 0; t < ARGS_TYPE_MAX; t++)
			if (strcmp(json_object_get_string(type),
			    types[t].name) == 0)
				break;
	if (t == ARGS_TYPE_MAX)
		return (sbx_err_set(err, SBX_E_SYNTAX, "%s has no known type",
		    name));
	p->name = name;
	p->type = (enum args_type)t;
	p->min = t == ARGS_INTEGER ? INT64_MIN : 0;
	p->max = INT64_MAX;
	json_object_object_foreach(v, key, val) {
		if (!set_keyword(p, key, val))
			return (sbx_err_set(err, SBX_E_SYNTAX,
			    "%s: keyword %s", name, key));
	}
	return (0);
}

/* NULL when the schema has no such argument. */
static struct args_prop *
prop_find(const struct args_schema *s, const char *name)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (strcmp(s->props[i].name, name) == 0)
			return ((struct args_prop *)&s->props[i]);
	return (NULL);
}

/* root is consumed. */
static int
compile(struct args_schema *s, struct json_object *root, struct sbx_err *err)
{
	struct json_object *props, *required;
	struct args_prop *p;
	size_t i;
	int error;

	s->root = root;
	if (s->root == NULL ||
	    !json_object_object_get_ex(s->root, "properties", &props) ||
	    !json_object_object_get_ex(s->root, "required", &required))
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "no properties or no required"));
	json_object_object_foreach(props, name, v) {
		if (s->n == MAX_PROPS)
			return (sbx_err_set(err, SBX_E_LIMIT, "many arguments"));
		error = compile_prop(&s->props[s->n++], name, v, err);
		if (error != 0)
			return (error);
	}
	for (i = 0; i < json_object_array_length(required); i++) {
		p = prop_find(s, json_object_get_string(
		    json_object_array_get_idx(required, i)));
		if (p == NULL)
			return (sbx_err_set(err, SBX_E_SYNTAX,
			    "required names no argument"));
		p->required = true;
	}
	return (0);
}

struct args_schema *
args_compile(const struct sbx_tool *tool, struct sbx_err *err)
{
	struct args_schema *s = sbx_xcalloc(1, sizeof(*s));

	s->name = tool->name;
	if (compile(s, json_tokener_parse(tool->input_schema), err) == 0)
		return (s);
	args_schema_free(s);
	return (NULL);
}

void
args_schema_free(struct args_schema *s)
{
	size_t i;

	if (s == NULL)
		return;
	for (i = 0; i < s->n; i++) {
		if (s->props[i].has_regex)
			regfree(&s->props[i].regex);
		args_schema_free(s->props[i].item);
	}
	json_object_put(s->root);
	free(s);
}

/* --- saying what is wrong -------------------------------------------------- */

SBX_PRINTF(3, 4)
static int
bad(struct result *res, const char *code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	result_verror(res, code, "Mend the argument and call again.", fmt, ap);
	va_end(ap);
	return (SBX_E_SYNTAX);
}

/* How many letters to change, insert or remove; b has at most 63. */
static unsigned
distance(const char *a, const char *b)
{
	unsigned row[64], above, left, best;
	size_t i, j, n = strlen(b);

	for (j = 0; j <= n; j++)
		row[j] = (unsigned)j;
	for (i = 1; a[i - 1] != '\0'; i++) {
		above = row[0];
		row[0] = (unsigned)i;
		for (j = 1; j <= n; j++) {
			left = row[j - 1] + 1;
			best = above + (a[i - 1] != b[j - 1]);
			if (left < best)
				best = left;
			above = row[j];
			if (above + 1 < best)
				best = above + 1;
			row[j] = best;
		}
	}
	return (row[n]);
}

/* The argument that was meant: a usual other name, else the nearest by
 * letters, at most three away. */
static const char *
nearest(const struct args_schema *s, const char *name)
{
	static const char *const other[][2] = { { "cmd", "commands" },
		{ "command", "commands" }, { "cwd", "working_dir" },
		{ "environment", "env" }, { "id", "container_id" },
		{ "input", "stdin" }, { "lines", "limit" },
		{ "path", "local_src_dir" }, { "path", "local_src_file" },
		{ "path", "file_path" }, { "path", "file_name" },
		{ "file_path", "file_name" }, { "new_str", "file_contents" },
		{ "content", "file_contents" },
		{ "run_id", "job_id" }, { "job_id", "run_id" },
		{ "sandbox_id", "container_id" }, { "label", "session_label" },
		{ "timeout_seconds", "timeout" }, { "workdir", "working_dir" },
	};
	unsigned d, best = 4;
	const char *found = NULL;
	size_t i;

	for (i = 0; i < SBX_NELEM(other); i++)
		if (strcmp(name, other[i][0]) == 0 &&
		    prop_find(s, other[i][1]) != NULL)
			return (other[i][1]);
	if (strlen(name) > 63)
		return (NULL);
	for (i = 0; i < s->n; i++) {
		if (strlen(s->props[i].name) > 63)
			continue;
		d = distance(name, s->props[i].name);
		if (d < best && d < strlen(name)) {
			best = d;
			found = s->props[i].name;
		}
	}
	return (found);
}

static int
bad_unknown(const struct args_schema *s, const char *name, struct result *res)
{
	SBX_CLEANUP_BUF struct sbx_buf valid = { 0 };
	const char *near = nearest(s, name);
	char vis[80];
	size_t i;

	sbx_buf_init(&valid, 1024);
	for (i = 0; i < s->n; i++)
		(void)sbx_buf_printf(&valid, "%s%s", i == 0 ? "" : ", ",
		    s->props[i].name); /* cut at worst */
	sbx_vis(vis, sizeof(vis), name, strlen(name));
	if (s->n == 0)
		return (bad(res, "unknown_argument",
		    "Unknown argument \"%s\": %s takes none.", vis,
		    s->name));
	/* All names: the next try should not have to guess. */
	return (bad(res, "unknown_argument", near != NULL ?
	    "Unknown argument \"%s\": did you mean \"%s\"? %s takes: %s." :
	    "Unknown argument \"%s\".%.0s %s takes: %s.", vis, near,
	    s->name, valid.data));
}

/* --- checking ------------------------------------------------------------- */

/* The mend depends on what came: a quoted number, a bare string for a list. */
static int
bad_type(const struct args_prop *p, struct json_object *v, struct result *res)
{
	char vis[64];
	uint64_t u;

	if (p->type == ARGS_INTEGER &&
	    json_object_is_type(v, json_type_string) &&
	    sbx_parse_u64(json_object_get_string(v), 0, INT64_MAX, &u) == 0)
		return (bad(res, "bad_argument", "\"%s\" must be an integer: "
		    "write %" PRIu64 " without quotes.", p->name, u));
	if (p->type == ARGS_ARRAY && p->item == NULL &&
	    json_object_is_type(v, json_type_string))
		return (bad(res, "bad_argument", "\"%s\" must be a list of "
		    "strings: write [\"%s\"].", p->name,
		    sbx_vis(vis, sizeof(vis), json_object_get_string(v),
		    (size_t)json_object_get_string_len(v))));
	return (bad(res, "bad_argument", "\"%s\" must be %s, not %s.", p->name,
	    types[p->type].noun, json_type_to_name(json_object_get_type(v))));
}

/* Value, length or number of items, by type. */
static int
check_bounds(const struct args_prop *p, int64_t v, const char *unit,
    struct result *res)
{
	if (v >= p->min && v <= p->max)
		return (0);
	if (p->max == INT64_MAX)
		return (bad(res, "bad_argument", "\"%s\" must be at least "
		    "%" PRId64 "%s, not %" PRId64 ".", p->name, p->min, unit,
		    v));
	return (bad(res, "bad_argument", "\"%s\" must be %" PRId64 " to "
	    "%" PRId64 "%s, not %" PRId64 ".", p->name, p->min, p->max, unit,
	    v));
}

/* What becomes a C string on its way must not end early there. */
static int
check_nul(const struct args_prop *p, struct json_object *v, struct result *res)
{
	if (memchr(json_object_get_string(v), 0,
	    (size_t)json_object_get_string_len(v)) == NULL)
		return (0);
	return (bad(res, "bad_argument", "\"%s\" must not contain U+0000.",
	    p->name));
}

static int
check_string(const struct args_prop *p, struct json_object *v,
    struct result *res)
{
	const char *s = json_object_get_string(v);
	size_t i, n = p->choices == NULL ? 0 :
	    json_object_array_length(p->choices);
	char vis[80];
	int error;

	error = check_nul(p, v, res);
	if (error == 0)
		error = check_bounds(p, json_object_get_string_len(v),
		    " bytes long", res);
	if (error != 0)
		return (error);
	for (i = 0; i < n; i++)
		if (strcmp(s, json_object_get_string(
		    json_object_array_get_idx(p->choices, i))) == 0)
			return (0);
	sbx_vis(vis, sizeof(vis), s, strlen(s));
	if (n > 0)
		return (bad(res, "bad_argument", "\"%s\" must be one of %s, "
		    "not \"%s\".", p->name,
		    json_object_to_json_string(p->choices), vis));
	if (p->has_regex && regexec(&p->regex, s, 0, NULL, 0) != 0 &&
	    strcmp(p->name, "container_id") == 0)
		return (bad(res, "bad_argument", "\"container_id\" is 12 hex "
		    "digits, not \"%s\": sandbox_attach finds it by name or "
		    "by its beginning.", vis));
	if (p->has_regex && regexec(&p->regex, s, 0, NULL, 0) != 0)
		return (bad(res, "bad_argument", "\"%s\" must match %s, not "
		    "\"%s\".", p->name, p->pattern, vis));
	return (0);
}

static int
bad_item(const struct args_prop *p, const char *where, struct json_object *v,
    struct result *res)
{
	char vis[64];

	return (bad(res, "bad_argument", "\"%s\" must be %s of %s; %s is "
	    "%s.", p->name, types[p->type].noun,
	    p->item != NULL ? "objects" : "strings",
	    sbx_vis(vis, sizeof(vis), where, strlen(where)),
	    json_type_to_name(json_object_get_type(v))));
}

static int check_all(struct args *a, struct result *res);

static int
check_array(const struct args_prop *p, struct json_object *v,
    struct result *res)
{
	struct json_object *item;
	size_t i, n = json_object_array_length(v);
	char where[32] = "item 0";
	int error;

	error = check_bounds(p, (int64_t)n, " items", res);
	for (i = 0; error == 0 && i < n; i++) {
		item = json_object_array_get_idx(v, i);
		if (p->item == NULL && json_object_is_type(item,
		    json_type_string)) {
			error = check_nul(p, item, res);
			continue;
		}
		if (p->item != NULL && json_object_is_type(item,
		    json_type_object)) {
			error = check_all(&(struct args){ .schema = p->item,
			    .obj = item }, res);
			continue;
		}
		(void)snprintf(where, sizeof(where), "item %zu", i);
		error = bad_item(p, where, item, res);
	}
	return (error);
}

static int
check_object(const struct args_prop *p, struct json_object *v,
    struct result *res)
{
	int error;

	error = check_bounds(p, json_object_object_length(v), " members", res);
	if (error != 0)
		return (error);
	json_object_object_foreach(v, key, val) {
		if (!json_object_is_type(val, json_type_string))
			return (bad_item(p, key, val, res));
		error = check_nul(p, val, res);
		if (error != 0)
			return (error);
	}
	return (0);
}

/* Of scanned text only.  Owned by the caller; NULL also for a lone null. */
static struct json_object *
parse(const char *text, size_t len)
{
	struct json_tokener *tok = json_tokener_new_ex(SBX_MAX_JSON_DEPTH);
	struct json_object *obj;

	if (tok == NULL)
		return (NULL);
	obj = json_tokener_parse_ex(tok, text, (int)len);
	/* The scan has found one complete value; a number at the very end
	 * would want one byte more. */
	if (json_tokener_get_error(tok) != json_tokener_success) {
		json_object_put(obj);
		obj = NULL;
	}
	json_tokener_free(tok);
	return (obj);
}

/* What the argument becomes when another type stands for it, else NULL. */
static struct json_object *
convert(const struct args_prop *p, struct json_object *v)
{
	struct json_object *parsed;
	const char *s;
	size_t len;
	double d;

	/* JSON has one kind of number: 30.0 is an integer (draft 2020-12). */
	if (p->type == ARGS_INTEGER &&
	    json_object_is_type(v, json_type_double)) {
		d = json_object_get_double(v);
		if (d == floor(d) && fabs(d) < 9e15)
			return (json_object_new_int64((int64_t)d));
		return (NULL);
	}
	if (p->type == ARGS_NUMBER && json_object_is_type(v, json_type_int))
		return (json_object_new_double(json_object_get_double(v)));
	if ((p->type != ARGS_ARRAY && p->type != ARGS_OBJECT) ||
	    !json_object_is_type(v, json_type_string))
		return (NULL);
	s = json_object_get_string(v);
	len = (size_t)json_object_get_string_len(v);
	if (sbx_json_scan(s, len, SBX_MAX_JSON, SBX_MAX_JSON_DEPTH, NULL) != 0)
		return (NULL);
	parsed = parse(s, len);
	if (json_object_is_type(parsed, types[p->type].json))
		return (parsed);
	json_object_put(parsed);
	return (NULL);
}

static int
check_prop(const struct args_prop *p, struct args *a, struct json_object *v,
    struct result *res)
{
	struct json_object *other;

	if (!json_object_is_type(v, types[p->type].json)) {
		other = convert(p, v);
		if (other == NULL)
			return (bad_type(p, v, res));
		json_object_object_add(a->obj, p->name, other);
		v = other;
	}
	switch (p->type) {
	case ARGS_STRING:
		return (check_string(p, v, res));
	case ARGS_INTEGER:
		return (check_bounds(p, json_object_get_int64(v), "", res));
	case ARGS_NUMBER:
	case ARGS_BOOLEAN:
		return (0);
	case ARGS_ARRAY:
		return (check_array(p, v, res));
	case ARGS_OBJECT:
		return (check_object(p, v, res));
	case ARGS_TYPE_MAX:
		break;
	}
	abort();
}

/* Of props[at], which is the first, and of all the others at once. */
static int
bad_missing(const struct args *a, size_t at, struct result *res)
{
	const struct args_schema *s = a->schema;
	struct json_object *v;
	char also[512] = "";
	size_t n = 0;

	for (size_t i = at + 1; i < s->n && n < sizeof(also); i++)
		if (s->props[i].required && (!json_object_object_get_ex(a->obj,
		    s->props[i].name, &v) || v == NULL))
			n += (size_t)snprintf(also + n, sizeof(also) - n,
			    "%s\"%s\"", n == 0 ? " Missing, too: " : ", ",
			    s->props[i].name);
	return (bad(res, "missing_argument", "\"%s\" is missing: %s needs it "
	    "(%s).%s%s", s->props[at].name, s->name,
	    types[s->props[at].type].noun, also, n > 0 ? "." : ""));
}

/* Unknown ones first: a misspelt name is the better answer than the missing
 * argument that it leaves. */
static int
check_all(struct args *a, struct result *res)
{
	const struct args_schema *s = a->schema;
	struct json_object *v;
	size_t i;
	int error;

	json_object_object_foreach(a->obj, key, val) {
		if (prop_find(s, key) != NULL)
			continue;
		error = bad_unknown(s, key, res);
		if (error != 0)
			return (error);
	}
	for (i = 0; i < s->n; i++) {
		if (!json_object_object_get_ex(a->obj, s->props[i].name, &v) ||
		    v == NULL) {
			if (!s->props[i].required)
				continue;
			return (bad_missing(a, i, res));
		}
		error = check_prop(&s->props[i], a, v, res);
		if (error != 0)
			return (error);
	}
	return (0);
}

int
args_check(const struct args_schema *s, const char *text, size_t len,
    struct args *ret_args, struct result *res)
{
	struct sbx_json_where where = { 0 };

	ret_args->schema = s;
	ret_args->obj = NULL;
	if (sbx_json_scan(text, len, SBX_MAX_JSON, SBX_MAX_JSON_DEPTH,
	    &where) != 0)
		return (where.fault == SBX_JSON_DUPLICATE ?
		    bad(res, "bad_argument",
		    "The arguments have \"%s\" twice: give it once.",
		    where.name) :
		    bad(res, "bad_argument", "The arguments are not JSON that "
		    "is taken here, at byte %zu: %s.", where.offset,
		    sbx_json_fault_text(where.fault)));
	ret_args->obj = parse(text, len);
	if (!json_object_is_type(ret_args->obj, json_type_object))
		return (bad(res, "bad_argument",
		    "The arguments must be one object."));
	return (check_all(ret_args, res));
}

void
args_clear(struct args *a)
{
	json_object_put(a->obj);
	a->obj = NULL;
}

/* --- reading -------------------------------------------------------------- */

/* Borrowed: the argument, else its default, else NULL. */
static struct json_object *
value(const struct args *a, const char *name)
{
	const struct args_prop *p = prop_find(a->schema, name);
	struct json_object *v;

	if (p == NULL)
		abort(); /* the tool asks for what its schema lacks */
	if (json_object_object_get_ex(a->obj, name, &v) && v != NULL)
		return (v);
	return (p->dflt);
}

bool
args_has(const struct args *a, const char *name)
{
	struct json_object *v;

	return (json_object_object_get_ex(a->obj, name, &v) && v != NULL);
}

const char *
args_str(const struct args *a, const char *name, size_t *ret_len)
{
	struct json_object *v = value(a, name);

	if (ret_len != NULL)
		*ret_len = v == NULL ? 0 :
		    (size_t)json_object_get_string_len(v);
	return (v == NULL ? NULL : json_object_get_string(v));
}

bool
args_bool(const struct args *a, const char *name)
{
	struct json_object *v = value(a, name);

	return (v != NULL && json_object_get_boolean(v));
}

int64_t
args_int(const struct args *a, const char *name)
{
	struct json_object *v = value(a, name);

	return (v == NULL ? 0 : json_object_get_int64(v));
}

double
args_number(const struct args *a, const char *name)
{
	struct json_object *v = value(a, name);

	return (v == NULL ? 0 : json_object_get_double(v));
}

struct json_object *
args_json(const struct args *a, const char *name)
{
	return (value(a, name));
}
