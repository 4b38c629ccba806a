#include "sbxd/front/asks.h"

#include "common/base/base.h"
#include "common/proto/proto.h"

#include <json-c/json.h>
#include <string.h>

struct member {
	const char *name;
	enum json_type type;
};

struct ask_kind {
	const char *method;
	uint32_t needs;
	const char *when, *is;	/* params has that member; with that value */
	struct member params[2], result[2];
	bool (*answered)(struct json_object *answer);	/* more of it; NULL */
};

static bool
elicit_answered(struct json_object *answer)
{
	static const char *const actions[] = { "accept", "decline", "cancel" };
	struct json_object *v;
	size_t i;

	if (json_object_object_get_ex(answer, "content", &v) &&
	    v != NULL && !json_object_is_type(v, json_type_object))
		return (false);
	v = json_object_object_get(answer, "action");
	for (i = 0; i < SBX_NELEM(actions); i++)
		if (strcmp(json_object_get_string(v), actions[i]) == 0)
			return (true);
	return (false);
}

static bool
sample_answered(struct json_object *answer)
{
	struct json_object *v = json_object_object_get(answer, "content");

	return (json_object_is_type(v, json_type_object) ||
	    json_object_is_type(v, json_type_array));
}

static bool
roots_answered(struct json_object *answer)
{
	struct json_object *roots = json_object_object_get(answer, "roots");
	size_t i;

	for (i = 0; i < json_object_array_length(roots); i++)
		if (!json_object_is_type(json_object_object_get(
		    json_object_array_get_idx(roots, i), "uri"),
		    json_type_string))
			return (false);
	return (true);
}

#define ELICIT { { "action", json_type_string } }, elicit_answered
#define SAMPLE { { "messages", json_type_array }, \
    { "maxTokens", json_type_int } }, { { "role", json_type_string }, \
    { "model", json_type_string } }, sample_answered

/* The first that fits is it: what needs more stands first. */
static const struct ask_kind kinds[] = {
	{ "elicitation/create", SBX_CAN_ELICIT_URL, "mode", "url",
	    { { "message", json_type_string }, { "url", json_type_string } },
	    ELICIT },
	{ "elicitation/create", SBX_CAN_ELICIT, "mode", "form",
	    { { "message", json_type_string },
	    { "requestedSchema", json_type_object } }, ELICIT },
	/* a mode that is not known: needs nothing, which is refused */
	{ "elicitation/create", 0, "mode", NULL, { { NULL } }, ELICIT },
	{ "elicitation/create", SBX_CAN_ELICIT, NULL, NULL,
	    { { "message", json_type_string },
	    { "requestedSchema", json_type_object } }, ELICIT },
	{ "sampling/createMessage", SBX_CAN_SAMPLE | SBX_CAN_SAMPLE_TOOLS,
	    "tools", NULL, SAMPLE },
	{ "sampling/createMessage", SBX_CAN_SAMPLE | SBX_CAN_SAMPLE_TOOLS,
	    "toolChoice", NULL, SAMPLE },
	{ "sampling/createMessage", SBX_CAN_SAMPLE, NULL, NULL, SAMPLE },
	{ "roots/list", SBX_CAN_ROOTS, NULL, NULL, { { NULL } },
	    { { "roots", json_type_array } }, roots_answered },
};

static bool
has(struct json_object *o, const struct member m[2])
{
	struct json_object *v;
	size_t i;

	for (i = 0; i < 2 && m[i].name != NULL; i++)
		if (!json_object_object_get_ex(o, m[i].name, &v) ||
		    !json_object_is_type(v, m[i].type))
			return (false);
	return (true);
}

static bool
is_when(const struct ask_kind *k, struct json_object *params)
{
	struct json_object *v;

	if (k->when == NULL)
		return (true);
	if (!json_object_object_get_ex(params, k->when, &v))
		return (false);
	return (k->is == NULL || (json_object_is_type(v, json_type_string) &&
	    strcmp(json_object_get_string(v), k->is) == 0));
}

const struct ask_kind *
ask_find(const char *method, struct json_object *params)
{
	size_t i;

	if (params != NULL && !json_object_is_type(params, json_type_object))
		return (NULL);
	for (i = 0; i < SBX_NELEM(kinds); i++)
		if (strcmp(kinds[i].method, method) == 0 &&
		    is_when(&kinds[i], params))
			return (kinds[i].needs != 0 &&
			    has(params, kinds[i].params) ? &kinds[i] : NULL);
	return (NULL);
}

uint32_t
ask_needs(const struct ask_kind *kind)
{
	return (kind->needs);
}

const char *
ask_method(const struct ask_kind *kind)
{
	return (kind->method);
}

static bool
fits(const struct ask_kind *k, struct json_object *answer)
{
	return (json_object_is_type(answer, json_type_object) &&
	    has(answer, k->result) && k->answered(answer));
}

bool
ask_answered(const struct ask_kind *kind, struct json_object *answer)
{
	size_t i;

	if (kind != NULL)
		return (fits(kind, answer));
	for (i = 0; i < SBX_NELEM(kinds); i++)
		if (fits(&kinds[i], answer))
			return (true);
	return (false);
}

bool
ask_answers(const char *method, struct json_object *answer)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(kinds); i++)
		if (strcmp(kinds[i].method, method) == 0)
			return (fits(&kinds[i], answer));
	return (false);
}

void
ask_put_capabilities(struct sbx_buf *b, uint32_t bits)
{
	static const struct {
		const char *name, *sub[2];
		uint32_t all, with[2];
	} caps[] = {
		{ "elicitation", { "form", "url" },
		    SBX_CAN_ELICIT | SBX_CAN_ELICIT_URL,
		    { SBX_CAN_ELICIT, SBX_CAN_ELICIT_URL } },
		{ "sampling", { "tools" },
		    SBX_CAN_SAMPLE | SBX_CAN_SAMPLE_TOOLS,
		    { SBX_CAN_SAMPLE_TOOLS } },
		{ "roots", { NULL }, SBX_CAN_ROOTS, { 0 } },
	};
	const char *comma = "", *inner;
	size_t i, j;

	/* a few hundred bytes: what does not fit is seen at the end */
	(void)sbx_buf_str(b, "{");
	for (i = 0; i < SBX_NELEM(caps); i++) {
		if ((bits & caps[i].all) == 0)
			continue;
		(void)sbx_buf_printf(b, "%s\"%s\":{", comma, caps[i].name);
		inner = "";
		for (j = 0; j < 2; j++) {
			if ((bits & caps[i].with[j]) == 0)
				continue;
			(void)sbx_buf_printf(b, "%s\"%s\":{}", inner,
			    caps[i].sub[j]);
			inner = ",";
		}
		(void)sbx_buf_str(b, "}");
		comma = ",";
	}
	(void)sbx_buf_str(b, "}");
}
