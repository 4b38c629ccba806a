/* Tools that are tasks, quickly, slowly, and when they fail or ask. */

#include "tests/conformance/fixture.h"

#include <json-c/json.h>
#include <string.h>

#define TEXT(name) "{\"type\":\"object\",\"properties\":{\"" name "\":{" \
	"\"type\":\"string\"}},\"required\":[\"" name "\"]," \
	"\"additionalProperties\":false}"
#define FORM(message, name, type) "{\"mode\":\"form\",\"message\":\"" \
	message "\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{" \
	"\"" name "\":{\"type\":\"" type "\"}},\"required\":[\"" name "\"]}}"
#define ELICIT "elicitation/create"

const struct sbx_tool fixture_tasks_tools[] = {
	{ .name = "greet", .description = "Greets at once.",
	    .input_schema = TEXT("name"), .content = true },
	{ .name = "slow_compute", .description = "Takes its time.",
	    .input_schema = "{\"type\":\"object\",\"properties\":{"
	    "\"seconds\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":60,"
	    "\"default\":1},\"label\":{\"type\":\"string\"}},\"required\":[],"
	    "\"additionalProperties\":false}",
	    .content = true, .task = SBX_TASK_SOON },
	{ .name = "failing_job", .description = "A task that fails.",
	    .input_schema = FIXTURE_ANY_IN, .task = SBX_TASK_MUST },
	{ .name = "protocol_error_job",
	    .description = "A task that ends with a JSON-RPC error.",
	    .input_schema = FIXTURE_ANY_IN, .task = SBX_TASK_SOON },
	{ .name = "confirm_delete", .description = "A task that asks once.",
	    .input_schema = TEXT("filename"), .content = true,
	    .task = SBX_TASK_SOON },
	{ .name = "multi_input", .description = "A task that asks twice.",
	    .input_schema = FIXTURE_ANY_IN, .content = true,
	    .task = SBX_TASK_SOON },
	{ .name = "asks_again",
	    .description = "A task that asks until it is told yes.",
	    .input_schema = FIXTURE_ANY_IN, .content = true,
	    .task = SBX_TASK_SOON },
	{ .name = "test_tool_with_task",
	    .description = "Asks first, then becomes a task.",
	    .input_schema = FIXTURE_ANY_IN, .content = true },
};
const size_t fixture_tasks_tools_n = SBX_NELEM(fixture_tasks_tools);

/* The member of an accepted form; NULL: it was not accepted. */
static struct json_object *
accepted(struct json_object *answer, const char *name)
{
	struct json_object *v;
	const char *action;

	action = json_object_get_string(json_object_object_get(answer,
	    "action"));
	if (action == NULL || strcmp(action, "accept") != 0 ||
	    !json_object_object_get_ex(answer, "content", &v) ||
	    !json_object_object_get_ex(v, name, &v))
		return (NULL);
	return (v);
}

int
fixture_greet(struct call *call)
{
	return (fixture_text(call, "Hello, %s!",
	    args_str(&call->args, "name", NULL)));
}

int
fixture_slow_compute(struct call *call)
{
	int64_t i, n = args_int(&call->args, "seconds");
	const char *label = args_str(&call->args, "label", NULL);
	int error = 0;

	for (i = 0; i < n && error == 0; i++) {
		fixture_sleep(1000);
		error = call_progress(call, (uint64_t)n * 1000, "computing");
	}
	return (error != 0 ? error : fixture_text(call, "%s took %d seconds",
	    label != NULL ? label : "it", (int)n));
}

int
fixture_failing_job(struct call *call)
{
	fixture_sleep(1000);
	result_error(call->res, "failed", NULL, "This job always fails");
	return (0);
}

int
fixture_protocol_error_job(struct call *call)
{
	result_error(call->res, "internal", NULL, "This job breaks the "
	    "protocol");
	call->res->kind = SBX_RESULT_FAULT;
	return (0);
}

int
fixture_confirm_delete(struct call *call)
{
	struct json_object *answer = call_ask(call, "confirm", ELICIT,
	    FORM("Delete it?", "confirm", "boolean"));

	if (answer == NULL)
		return (0);
	return (fixture_text(call, json_object_get_boolean(accepted(answer,
	    "confirm")) ? "Deleted %s" : "Kept %s",
	    args_str(&call->args, "filename", NULL)));
}

int
fixture_multi_input(struct call *call)
{
	struct json_object *name = call_ask(call, "name", ELICIT,
	    FORM("Your name?", "name", "string")),
	    *sure = call_ask(call, "confirm", ELICIT,
	    FORM("Really?", "confirm", "boolean"));

	if (name == NULL || sure == NULL)
		return (0);
	name = accepted(name, "name");
	return (fixture_text(call, "%s: %s", name != NULL ?
	    json_object_get_string(name) : "nobody",
	    json_object_get_boolean(accepted(sure, "confirm")) ? "sure" :
	    "not sure"));
}

int
fixture_asks_again(struct call *call)
{
	static const char form[] = FORM("Say yes.", "word", "string");
	const char *word = json_object_get_string(accepted(call_ask(call,
	    "word", ELICIT, form), "word"));

	if (word != NULL && strcmp(word, "yes") == 0)
		return (fixture_text(call, "yes"));
	if (word != NULL)
		call_ask_again(call, "word", ELICIT, form);
	return (0);
}

int
fixture_tool_with_task(struct call *call)
{
	struct json_object *name = call_ask(call, "user_name", ELICIT,
	    FORM("Your name?", "name", "string"));

	if (name == NULL)
		return (0);
	fixture_sleep(2500);
	name = accepted(name, "name");
	return (fixture_text(call, "Hello, %s!", name != NULL ?
	    json_object_get_string(name) : "nobody"));
}
