/*
 * Tools and a prompt that ask their client for something, as the suites have
 * them: elicitation, sampling and roots, alone, together and in rounds.
 * Source: the descriptions of the scenarios in the suites themselves.
 */

#include "tests/conformance/fixture.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define ELICIT "elicitation/create"
#define SAMPLE "sampling/createMessage"
#define ROOTS "roots/list"
#define FORM(message, properties, required) "{\"message\":\"" message        \
	"\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{"       \
	properties "},\"required\":[" required "]}}"
#define FIELD(name, type) "\"" name "\":{\"type\":\"" type "\"}"
#define PROMPT(text, max) "{\"messages\":[{\"role\":\"user\",\"content\":"   \
	"{\"type\":\"text\",\"text\":" text "}}],\"maxTokens\":" max "}"
#define NAME FORM("What is your name?", FIELD("name", "string"), "\"name\"")
#define CONFIRM FORM("Please confirm", FIELD("ok", "boolean"), "\"ok\"")

#define TOOL(n, d) { .name = n, .description = d, \
	.input_schema = FIXTURE_ANY_IN, .content = true }
#define TOOL_OF(n, d, argument) { .name = n, .description = d,               \
	.content = true, .input_schema = "{\"type\":\"object\","             \
	"\"properties\":{\"" argument "\":{\"type\":\"string\","             \
	"\"maxLength\":4096}},\"required\":[\"" argument "\"],"              \
	"\"additionalProperties\":false}" }
const struct sbx_tool fixture_input_tools[] = {
	TOOL_OF("test_elicitation", "Asks for a name and an address.",
	    "message"),
	TOOL_OF("test_sampling", "Asks the client's model.", "prompt"),
	TOOL("test_elicitation_sep1034_defaults", "A form with defaults."),
	TOOL("test_elicitation_sep1330_enums", "A form with choices."),
	TOOL("test_missing_capability", "Needs sampling."),
	TOOL("test_streaming_elicitation", "Asks for a confirmation."),
	TOOL("test_input_required_result_elicitation", "Asks for a name."),
	TOOL("test_input_required_result_sampling", "Asks for a capital."),
	TOOL("test_input_required_result_list_roots", "Asks for the roots."),
	TOOL("test_input_required_result_request_state",
	    "Has a state between its rounds."),
	TOOL("test_input_required_result_multiple_inputs",
	    "Asks for three things at once."),
	TOOL("test_input_required_result_multi_round", "Asks twice."),
	TOOL("test_input_required_result_tampered_state",
	    "Has a state that must not be changed."),
	TOOL("test_input_required_result_capabilities",
	    "Asks for what the client can do."),
};
const size_t fixture_input_tools_n = SBX_NELEM(fixture_input_tools);

/* --- tools that ask once --------------------------------------------------- */

/* Shown as they are: what they ask, and the text before the answer. */
static const struct {
	const char *tool, *key, *method, *params, *text;
} once[] = {
	{ "test_elicitation_sep1034_defaults", "form", ELICIT, FORM(
	    "Please check these values",
	    "\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},"
	    "\"age\":{\"type\":\"integer\",\"default\":30},"
	    "\"score\":{\"type\":\"number\",\"default\":95.5},"
	    "\"status\":{\"type\":\"string\",\"enum\":[\"active\","
	    "\"inactive\",\"pending\"],\"default\":\"active\"},"
	    "\"verified\":{\"type\":\"boolean\",\"default\":true}", ""),
	    "Elicitation completed: " },
	{ "test_elicitation_sep1330_enums", "form", ELICIT, FORM(
	    "Please choose",
	    "\"untitledSingle\":{\"type\":\"string\",\"enum\":[\"option1\","
	    "\"option2\",\"option3\"]},"
	    "\"titledSingle\":{\"type\":\"string\",\"oneOf\":["
	    "{\"const\":\"value1\",\"title\":\"First Option\"},"
	    "{\"const\":\"value2\",\"title\":\"Second Option\"},"
	    "{\"const\":\"value3\",\"title\":\"Third Option\"}]},"
	    "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\","
	    "\"opt3\"],\"enumNames\":[\"Option One\",\"Option Two\","
	    "\"Option Three\"]},"
	    "\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":"
	    "\"string\",\"enum\":[\"option1\",\"option2\",\"option3\"]}},"
	    "\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":["
	    "{\"const\":\"value1\",\"title\":\"First Choice\"},"
	    "{\"const\":\"value2\",\"title\":\"Second Choice\"},"
	    "{\"const\":\"value3\",\"title\":\"Third Choice\"}]}}", ""),
	    "Elicitation completed: " },
	{ "test_missing_capability", "answer", SAMPLE,
	    PROMPT("\"Are you there?\"", "10"), "Sampled: " },
	{ "test_streaming_elicitation", "confirm", ELICIT, CONFIRM,
	    "Confirmed: " },
	{ "test_input_required_result_sampling", "capital_question", SAMPLE,
	    PROMPT("\"What is the capital of France?\"", "100"), "Sampled: " },
	{ "test_input_required_result_list_roots", "client_roots", ROOTS,
	    "{}", "Roots: " },
};

static int
show(struct call *call, const char *text, struct json_object *answer)
{
	return (fixture_text(call, "%s%s", text,
	    json_object_to_json_string(answer)));
}

int
fixture_ask_once(struct call *call)
{
	struct json_object *answer;
	size_t i;

	for (i = 0; i < SBX_NELEM(once) - 1; i++)
		if (strcmp(once[i].tool, call->tool->name) == 0)
			break;
	answer = call_ask(call, once[i].key, once[i].method, once[i].params);
	return (answer == NULL ? 0 : show(call, once[i].text, answer));
}

/* What is asked has a text from the arguments in it. */
static struct json_object *
ask_with(struct call *call, const char *key, const char *method,
    const char *before, const char *argument, const char *after)
{
	struct json_object *text = json_object_new_string(
	    args_str(&call->args, argument, NULL)), *answer;
	char *params = sbx_xasprintf("%s%s%s", before,
	    json_object_to_json_string(text), after);

	answer = call_ask(call, key, method, params);
	free(params);
	json_object_put(text);
	return (answer);
}

int
fixture_elicitation(struct call *call)
{
	struct json_object *answer = ask_with(call, "form", ELICIT,
	    "{\"message\":", "message", ",\"requestedSchema\":{"
	    "\"type\":\"object\",\"properties\":{\"username\":{"
	    "\"type\":\"string\",\"description\":\"User's response\"},"
	    "\"email\":{\"type\":\"string\",\"description\":"
	    "\"User's email address\"}},"
	    "\"required\":[\"username\",\"email\"]}}");

	return (answer == NULL ? 0 : show(call, "User response: ", answer));
}

int
fixture_sampling(struct call *call)
{
	struct json_object *answer = ask_with(call, "answer", SAMPLE,
	    "{\"messages\":[{\"role\":\"user\",\"content\":{"
	    "\"type\":\"text\",\"text\":", "prompt",
	    "}}],\"maxTokens\":100}"), *v = NULL;

	if (answer == NULL)
		return (0);
	(void)json_object_object_get_ex(answer, "content", &v);
	(void)json_object_object_get_ex(v, "text", &v);
	return (fixture_text(call, "LLM response: %s",
	    v == NULL ? "" : json_object_get_string(v)));
}

/* --- rounds ------------------------------------------------------------------ */

/* A member of what was filled in; NULL: it is missing, or was declined. */
static const char *
filled(struct json_object *answer, const char *name)
{
	struct json_object *v = NULL;

	if (!json_object_object_get_ex(answer, "content", &v) ||
	    !json_object_object_get_ex(v, name, &v) ||
	    !json_object_is_type(v, json_type_string))
		return (NULL);
	return (json_object_get_string(v));
}

int
fixture_ask_name(struct call *call)
{
	struct json_object *answer = call_ask(call, "user_name", ELICIT, NAME);
	const char *name;

	if (answer == NULL)
		return (0);
	if ((name = filled(answer, "name")) == NULL)
		return (show(call, "No name: ", answer));
	return (fixture_text(call, "Hello, %s!", name));
}

int
fixture_ask_state(struct call *call)
{
	call_state(call, "{\"round\":1}");
	if (call_ask(call, "confirm", ELICIT, CONFIRM) == NULL)
		return (0);
	return (fixture_text(call, "%s", call_state_get(call) != NULL ?
	    "state-ok" : "There is no state."));
}

int
fixture_ask_many(struct call *call)
{
	struct json_object *name, *greeting, *roots;

	call_state(call, "{\"round\":1}");
	name = call_ask(call, "user_name", ELICIT, NAME);
	greeting = call_ask(call, "greeting", SAMPLE,
	    PROMPT("\"Generate a greeting\"", "50"));
	roots = call_ask(call, "client_roots", ROOTS, "{}");
	if (name == NULL || greeting == NULL || roots == NULL)
		return (0);
	return (show(call, "All there: ", name));
}

int
fixture_ask_twice(struct call *call)
{
	struct json_object *name, *color;

	call_state(call, "{\"round\":1}");
	name = call_ask(call, "step1", ELICIT, FORM(
	    "Step 1: What is your name?", FIELD("name", "string"),
	    "\"name\""));
	if (name == NULL)
		return (0);
	call_state(call, "{\"round\":2}");
	color = call_ask(call, "step2", ELICIT, FORM(
	    "Step 2: What is your favorite color?", FIELD("color", "string"),
	    "\"color\""));
	return (color == NULL ? 0 : show(call, "Color: ", color));
}

int
fixture_ask_able(struct call *call)
{
	struct json_object *said = NULL, *name = NULL;
	bool sample = call->client_can & SBX_CAN_SAMPLE;
	bool elicit = call->client_can & SBX_CAN_ELICIT;

	if (sample)
		said = call_ask(call, "capital_question", SAMPLE,
		    PROMPT("\"What is the capital of France?\"", "100"));
	if (elicit)
		name = call_ask(call, "user_name", ELICIT, NAME);
	if ((sample && said == NULL) || (elicit && name == NULL))
		return (0);
	return (fixture_text(call, "All that can be asked was answered."));
}

/* A prompt: its name is looked for in fixture.c. */
int
fixture_ask_prompt(struct call *call)
{
	struct json_object *answer = call_ask(call, "user_context", ELICIT,
	    FORM("What context should the prompt use?",
	    FIELD("context", "string"), "\"context\""));
	const char *context;

	if (answer == NULL)
		return (0);
	context = filled(answer, "context");
	fixture_user_text(call, "Use this context: %s",
	    context == NULL ? "none" : context);
	return (0);
}
