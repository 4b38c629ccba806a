/*
 * A record as a struct, and as a line for a human.  The line before it may have
 * been written by anybody, so types and order are checked before any use.
 */

#include "sbx-journald/reader.h"

#include "common/base/json.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

/* The members of a record, in their order. */
static const struct member {
	const char *name;
	enum json_type type;
} members[] = {
	{ "seq", json_type_int },
	{ "prev", json_type_string },
	{ "wall", json_type_string },
	{ "mono_ns", json_type_int },
	{ "component", json_type_string },
	{ "op", json_type_string },
	{ "phase", json_type_string },
	{ "principal", json_type_string },
	{ "container_id", json_type_string },
	{ "run_id", json_type_string },
	{ "code", json_type_int },
	{ "fields", json_type_object },
};

/* Exactly the members, in their order: json-c keeps the order of the text. */
static bool
is_record(struct json_object *all)
{
	size_t i = 0;

	json_object_object_foreach(all, name, value) {
		if (i == SBX_NELEM(members) ||
		    strcmp(name, members[i].name) != 0 ||
		    !json_object_is_type(value, members[i].type))
			return (false);
		i++;
	}
	if (i != SBX_NELEM(members))
		return (false);
	json_object_object_foreach(json_object_object_get(all, "fields"), key,
	    field) {
		(void)key;
		if (!json_object_is_type(field, json_type_string))
			return (false);
	}
	return (true);
}

static const char *
text_of(struct json_object *all, const char *name)
{
	return (json_object_get_string(json_object_object_get(all, name)));
}

bool
journal_is_plain(const char *s)
{
	return (s[strspn(s, "0123456789abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ_.-")] == '\0');
}

/*
 * What can be written without escapes is: then its bytes are enough to find
 * it, and a forged line cannot hide from those who look for them.
 */
static bool
is_findable(const char *text, size_t len, const char *name, const char *value)
{
	char SBX_CLEANUP(free) *as_written = NULL;

	if (!journal_is_plain(value))
		return (true);
	as_written = sbx_xasprintf("\"%s\":\"%s\"", name, value);
	return (memmem(text, len, as_written, strlen(as_written)) != NULL);
}

/* By these a record is looked for. */
static bool
is_all_findable(const char *text, size_t len, const struct journal_record *rec)
{
	return (is_findable(text, len, "op", rec->op) &&
	    is_findable(text, len, "container_id", rec->container) &&
	    is_findable(text, len, "run_id", rec->run));
}

int
journal_parse(const char *text, size_t len, struct journal_record *ret_rec)
{
	struct json_tokener *tok;
	struct json_object *all;

	*ret_rec = (struct journal_record){ 0 };
	if (journal_line_head(text, len, &ret_rec->seq, ret_rec->prev) < 0)
		return (SBX_E_SYNTAX);
	/* the scan above bounded size and depth; json-c alone would not */
	tok = json_tokener_new_ex(4);
	if (tok == NULL)
		return (SBX_E_SYNTAX);
	all = json_tokener_parse_ex(tok, text, (int)len);
	json_tokener_free(tok);
	if (!json_object_is_type(all, json_type_object) || !is_record(all)) {
		json_object_put(all);
		return (SBX_E_SYNTAX);
	}
	ret_rec->all = all;
	ret_rec->mono_ns = json_object_get_uint64(
	    json_object_object_get(all, "mono_ns"));
	ret_rec->wall = text_of(all, "wall");
	ret_rec->component = text_of(all, "component");
	ret_rec->op = text_of(all, "op");
	ret_rec->phase = text_of(all, "phase");
	ret_rec->principal = text_of(all, "principal");
	ret_rec->container = text_of(all, "container_id");
	ret_rec->run = text_of(all, "run_id");
	ret_rec->code = json_object_get_int64(
	    json_object_object_get(all, "code"));
	ret_rec->fields = json_object_object_get(all, "fields");
	if (!is_all_findable(text, len, ret_rec)) {
		journal_record_clear(ret_rec);
		return (SBX_E_SYNTAX);
	}
	return (0);
}

void
journal_record_clear(struct journal_record *rec)
{
	json_object_put(rec->all);
	rec->all = NULL;
}

const char *
journal_field(const struct journal_record *rec, const char *key)
{
	struct json_object *o;

	return (json_object_object_get_ex(rec->fields, key, &o) ?
	    json_object_get_string(o) : NULL);
}

bool
journal_matches(const struct journal_filter *f,
    const struct journal_record *rec)
{
	/* what only begins like an id is none, and could be escaped */
	if (f->container != NULL && (strncmp(rec->container, f->container,
	    strlen(f->container)) != 0 || !journal_is_plain(rec->container)))
		return (false);
	if (f->run != NULL && strcmp(rec->run, f->run) != 0)
		return (false);
	if (f->op != NULL && strcmp(rec->op, f->op) != 0)
		return (false);
	/* RFC 3339 in UTC with a fixed width sorts as text */
	return (f->since == NULL || strcmp(rec->wall, f->since) >= 0);
}

/* Printable ASCII without blanks and quotes needs none. */
static bool
is_plain(const char *s, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (s[i] <= ' ' || s[i] >= 0x7f || s[i] == '"' ||
		    s[i] == '\\' || s[i] == '=')
			return (false);
	return (len > 0);
}

static int
add_text(struct sbx_buf *b, const char *s, size_t len)
{
	return (is_plain(s, len) ? sbx_buf_add(b, s, len) :
	    sbx_json_str(b, s, len, NULL));
}

/* " name=text", nothing for an empty text. */
static void
add_pair(struct sbx_buf *b, const char *name, const char *s)
{
	if (s[0] == '\0')
		return;
	(void)sbx_buf_str(b, " ");
	(void)sbx_buf_str(b, name);
	(void)sbx_buf_str(b, "=");
	(void)add_text(b, s, strlen(s));
}

int
journal_render(const struct journal_record *rec, struct sbx_buf *b)
{
	struct json_object *text;

	(void)add_text(b, rec->wall, strlen(rec->wall));
	(void)sbx_buf_printf(b, " %" PRIu64 " ", rec->seq);
	(void)add_text(b, rec->component, strlen(rec->component));
	(void)sbx_buf_str(b, " ");
	(void)add_text(b, rec->op, strlen(rec->op));
	if (rec->phase[0] != '\0') {
		(void)sbx_buf_str(b, " ");
		(void)add_text(b, rec->phase, strlen(rec->phase));
	}
	add_pair(b, "principal", rec->principal);
	add_pair(b, "container", rec->container);
	add_pair(b, "run", rec->run);
	if (rec->code != 0)
		(void)sbx_buf_printf(b, " code=%" PRId64, rec->code);
	/* keys are the writer's choice as well, if this journal is forged */
	json_object_object_foreach(rec->fields, key, value) {
		(void)sbx_buf_str(b, " ");
		(void)add_text(b, key, strlen(key));
		(void)sbx_buf_str(b, "=");
		text = value;
		(void)add_text(b, json_object_get_string(text),
		    (size_t)json_object_get_string_len(text));
	}
	return (b->overflow ? SBX_E_LIMIT : 0);
}
