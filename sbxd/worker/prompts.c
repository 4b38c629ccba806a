/*
 * Prompts, and completion of what has a known set of values.
 * Source: MCP revision 2025-06-18, server/prompts, server/utilities/completion.
 */

#include <json-c/json.h>
#include <string.h>

#include "sbxd/worker/guide.h"
#include "sbxd/worker/worker.h"

#define PROMPT "workflow"
#define ABOUT "How to go about work in a sandbox, by phase"
#define VALUES_MAX 100u		/* CompleteResult.completion.values */
#define VALUE_MAX 255u		/* bytes of an argument */
#define RUN_PAGE 100u

static const struct {
	const char *name, *about;
} arguments[] = {
	{ "phase", "init, explore, edit, verify, issue or cleanup; init if absent" },
	{ "container_id", "The sandbox to work in, if there is one" },
	{ "image", "The image to begin from, if it matters" },
};

int
prompts_list(struct call *call)
{
	struct result *r = call->res;
	size_t i;

	if (cursor_refused(call))
		return (0);
	result_open(r, "prompts", '[');
	result_open(r, NULL, '{');
	result_str(r, "name", PROMPT);
	result_str(r, "title", "Workflow guide");
	result_str(r, "description", ABOUT);
	result_open(r, "arguments", '[');
	for (i = 0; i < SBX_NELEM(arguments); i++) {
		result_open(r, NULL, '{');
		result_str(r, "name", arguments[i].name);
		result_str(r, "description", arguments[i].about);
		result_bool(r, "required", false);
		result_close(r, '}');
	}
	result_close(r, ']');
	result_close(r, '}');
	result_close(r, ']');
	return (0);
}

static const char *
member(struct json_object *o, const char *name)
{
	struct json_object *v;

	return (json_object_object_get_ex(o, name, &v) ?
	    json_object_get_string(v) : "");
}

/* One that is not known, or too long; NULL: all are good. */
static const char *
wrong_argument(struct json_object *given)
{
	size_t i;

	if (given == NULL)
		return (NULL);
	json_object_object_foreach(given, name, v) {
		for (i = 0; i < SBX_NELEM(arguments); i++)
			if (strcmp(name, arguments[i].name) == 0)
				break;
		if (i == SBX_NELEM(arguments) ||
		    strlen(json_object_get_string(v)) > VALUE_MAX)
			return (name);
	}
	return (NULL);
}

static void
put_message(struct result *r, const struct guide_phase *p,
    const char *container, const char *image)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	size_t i;

	/* an overflow cuts; all parts have a length that fits */
	sbx_buf_init(&b, 8192);
	(void)sbx_buf_printf(&b, "Phase %s.\n%s\nTools:", p->name, p->text);
	for (i = 0; p->tools[i] != NULL; i++)
		(void)sbx_buf_printf(&b, "%s %s", i > 0 ? "," : "",
		    p->tools[i]);
	if (*container != '\0')
		(void)sbx_buf_printf(&b, "\nThe sandbox: container_id %s.",
		    container);
	if (*image != '\0')
		(void)sbx_buf_printf(&b, "\nThe image: %s.", image);
	if (p->next != NULL)
		(void)sbx_buf_printf(&b, "\nThe next phase: %s.", p->next);
	result_open(r, "messages", '[');
	result_open(r, NULL, '{');
	result_str(r, "role", "user");
	result_open(r, "content", '{');
	result_str(r, "type", "text");
	result_strn(r, "text", b.data, b.len);
	result_close(r, '}');
	result_close(r, '}');
	result_close(r, ']');
}

int
prompts_get(struct call *call)
{
	struct json_object *given = args_json(&call->args, "arguments");
	const char *wrong = wrong_argument(given), *phase;
	const struct guide_phase *p;

	if (strcmp(args_str(&call->args, "name", NULL), PROMPT) != 0) {
		result_error(call->res, "not_found", NULL,
		    "There is no such prompt.");
		return (0);
	}
	phase = member(given, "phase");
	p = guide_find(*phase != '\0' ? phase : "init");
	if (wrong != NULL || p == NULL) {
		result_error(call->res, "bad_argument", NULL,
		    "The argument \"%s\" is not one of this prompt, or its "
		    "value is not.", wrong != NULL ? wrong : "phase");
		return (0);
	}
	result_str(call->res, "description", ABOUT);
	put_message(call->res, p, member(given, "container_id"),
	    member(given, "image"));
	return (0);
}

/* --- completion -------------------------------------------------------------- */

/* Values that begin with what was typed, each once. */
struct values {
	struct call *call;
	const char *prefix;
	struct sbx_strs all;
	struct sbx_buf text;
};

static void
offer(struct values *v, const char *value)
{
	const char *s = NULL;

	if (strncmp(value, v->prefix, strlen(v->prefix)) != 0)
		return;
	while ((s = sbx_strs_next(&v->all, s)) != NULL)
		if (strcmp(s, value) == 0)
			return;
	(void)sbx_strs_add(&v->all, &v->text, value); /* enough is enough */
}

static int
offer_phases(struct values *v)
{
	const struct guide_phase *p;
	size_t i;

	for (i = 0; (p = guide_at(i)) != NULL; i++)
		offer(v, p->name);
	return (0);
}

static void
offer_id(void *arg, const struct ask_item *item)
{
	offer(arg, item->container);
}

static void
offer_image(void *arg, const struct ask_item *item)
{
	offer(arg, item->image);
}

static int
offer_sandboxes(struct values *v)
{
	size_t n;

	return (sb_list(v->call->ask, "", offer_id, NULL, v, &n));
}

/* Those that are in use, and the one that always is there. */
static int
offer_images(struct values *v)
{
	size_t n;

	offer(v, "host");
	return (sb_list(v->call->ask, "", offer_image, NULL, v, &n));
}

static int
offer_runs(struct values *v)
{
	SBX_CLEANUP(free) struct ask_run *runs =
	    sbx_xcalloc(RUN_PAGE, sizeof(*runs));
	uint32_t skip = 0;
	size_t i, n;
	int error;

	do {
		error = run_list(v->call->ask, skip, RUN_PAGE, runs, &n);
		for (i = 0; error == 0 && i < n; i++)
			offer(v, runs[i].run);
		skip += RUN_PAGE;
	} while (error == 0 && n == RUN_PAGE && skip < SBX_MAX_RUNS);
	return (error);
}

static int
offer_streams(struct values *v)
{
	offer(v, "stdout");
	offer(v, "stderr");
	offer(v, "journal");
	return (0);
}

static const struct {
	const char *type, *key, *of, *argument;
	int (*offer)(struct values *v);
} completions[] = {
	{ "ref/prompt", "name", PROMPT, "phase", offer_phases },
	{ "ref/prompt", "name", PROMPT, "container_id", offer_sandboxes },
	{ "ref/prompt", "name", PROMPT, "image", offer_images },
	{ "ref/resource", "uri", RESOURCE_TEMPLATE, "run_id", offer_runs },
	{ "ref/resource", "uri", RESOURCE_TEMPLATE, "stream",
	    offer_streams },
	{ "ref/resource", "uri", JOURNAL_TEMPLATE, "run_id", offer_runs },
};

static void
put_values(struct result *r, const struct values *v)
{
	const char *s = NULL;
	unsigned n;

	result_open(r, "completion", '{');
	result_open(r, "values", '[');
	for (n = 0; n < VALUES_MAX &&
	    (s = sbx_strs_next(&v->all, s)) != NULL; n++)
		result_str(r, NULL, s);
	result_close(r, ']');
	result_u64(r, "total", v->all.count);
	result_bool(r, "hasMore", v->all.count > n);
	result_close(r, '}');
}

int
prompts_complete(struct call *call)
{
	struct json_object *ref = args_json(&call->args, "ref");
	struct json_object *arg = args_json(&call->args, "argument");
	struct values v = { .call = call, .prefix = member(arg, "value") };
	int error = 0;
	size_t i;

	for (i = 0; i < SBX_NELEM(completions); i++)
		if (strcmp(completions[i].type, member(ref, "type")) == 0 &&
		    strcmp(completions[i].of, member(ref,
		    completions[i].key)) == 0 &&
		    strcmp(completions[i].argument, member(arg, "name")) == 0)
			break;
	if (i == SBX_NELEM(completions)) {
		result_error(call->res, "bad_argument", NULL,
		    "There is no such prompt, template or argument.");
		return (0);
	}
	sbx_buf_init(&v.text, 1u << 20);
	error = completions[i].offer(&v);
	if (error == 0)
		put_values(call->res, &v);
	sbx_buf_clear(&v.text);
	return (call_refused(call, error));
}
