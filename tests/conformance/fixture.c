/*
 * The basics: contents of every type, logging, progress, errors, prompts and
 * resources, word for word what the suites compare with.
 * Source: the descriptions of the scenarios in the suites themselves.
 */

#include "tests/conformance/fixture.h"

#include <json-c/json.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define PNG "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8" \
	"DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
#define WAV "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
#define TEXT(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define IMAGE "{\"type\":\"image\",\"data\":\"" PNG \
	"\",\"mimeType\":\"image/png\"}"
#define RESOURCE(body) "{\"type\":\"resource\",\"resource\":{" body "}}"
#define CONTENT(...) "\"content\":[" __VA_ARGS__ "]"

#define TOOL(n, d) { .name = n, .description = d, \
	.input_schema = FIXTURE_ANY_IN, .content = true, \
	.hints = SBX_TOOL_READ_ONLY }
const struct sbx_tool fixture_basic_tools[] = {
	TOOL("test_simple_text", "One text."),
	TOOL("test_image_content", "One image."),
	TOOL("test_audio_content", "One sound."),
	TOOL("test_embedded_resource", "One embedded resource."),
	TOOL("test_multiple_content_types", "A text, an image, a resource."),
	TOOL("test_tool_with_logging", "Logs three messages."),
	TOOL("test_logging_tool", "Logs three messages."),
	TOOL("test_tool_with_progress", "Reports progress three times."),
	TOOL("test_error_handling", "Fails."),
	TOOL("test_reconnection", "Lasts longer than its event stream."),
	{ .name = "test_custom_headers", .content = true,
	    .description = "Has arguments that headers repeat.",
	    .input_schema = SCHEMA({"type": "object", "properties": {
	    "region": {"type": "string", "x-mcp-header": "Region"},
	    "count": {"type": "integer", "x-mcp-header": "Count"},
	    "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
	    "where": {"type": "object", "properties": {
	    "zone": {"type": "string", "x-mcp-header": "Zone"}}}},
	    "required": [], "additionalProperties": false}) },
	{ .name = "json_schema_2020_12_tool", .content = true,
	    .description = "Has a schema with many keywords.",
	    .input_schema = SCHEMA({
	    "$schema": "https://json-schema.org/draft/2020-12/schema",
	    "type": "object",
	    "$defs": {"address": {"$anchor": "addressDef", "type": "object",
	    "properties": {"street": {"type": "string"},
	    "city": {"type": "string"}}}},
	    "properties": {"name": {"type": "string"},
	    "address": {"$ref": "#/$defs/address"},
	    "contactMethod": {"type": "string", "enum": ["phone", "email"]},
	    "phone": {"type": "string"}, "email": {"type": "string"}},
	    "allOf": [{"anyOf": [{"required": ["phone"]},
	    {"required": ["email"]}]}],
	    "if": {"properties": {"contactMethod": {"const": "phone"}},
	    "required": ["contactMethod"]},
	    "then": {"required": ["phone"]}, "else": {"required": ["email"]},
	    "additionalProperties": false}) },
};
const size_t fixture_basic_tools_n = SBX_NELEM(fixture_basic_tools);

static const struct {
	const char *tool, *members;
} constants[] = {
	{ "test_simple_text",
	    CONTENT(TEXT("This is a simple text response for testing.")) },
	{ "test_image_content", CONTENT(IMAGE) },
	{ "test_audio_content", CONTENT("{\"type\":\"audio\",\"data\":\"" WAV
	    "\",\"mimeType\":\"audio/wav\"}") },
	{ "test_embedded_resource", CONTENT(RESOURCE(
	    "\"uri\":\"test://embedded-resource\","
	    "\"mimeType\":\"text/plain\","
	    "\"text\":\"This is an embedded resource content.\"")) },
	{ "test_multiple_content_types", CONTENT(
	    TEXT("Multiple content types test:") "," IMAGE "," RESOURCE(
	    "\"uri\":\"test://mixed-content-resource\","
	    "\"mimeType\":\"application/json\","
	    "\"text\":\"{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}\"")) },
	{ "test_custom_headers", CONTENT(TEXT("It was called.")) },
	{ "json_schema_2020_12_tool", CONTENT(TEXT("It was called.")) },
};

int
fixture_raw(struct call *call, const char *members)
{
	/* a text that is too long is seen in result_finish() */
	(void)sbx_buf_str(&call->res->text, call->res->comma ? "," : "");
	(void)sbx_buf_str(&call->res->text, members);
	call->res->comma = true;
	return (0);
}

int
fixture_text(struct call *call, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);	/* cut, if need be */
	va_end(ap);
	result_open(call->res, "content", '[');
	result_open(call->res, NULL, '{');
	result_str(call->res, "type", "text");
	result_str(call->res, "text", text);
	result_close(call->res, '}');
	result_close(call->res, ']');
	return (0);
}

void
fixture_sleep(unsigned ms)
{
	(void)poll(NULL, 0, (int)ms);
}

/* --- tools ------------------------------------------------------------------ */

int
fixture_constant(struct call *call)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(constants); i++)
		if (strcmp(constants[i].tool, call->tool->name) == 0)
			return (fixture_raw(call, constants[i].members));
	result_error(call->res, "not_found", NULL, "There is no such text.");
	return (0);
}

int
fixture_tool_with_logging(struct call *call)
{
	static const char *const said[] = { "Tool execution started",
		"Tool processing data", "Tool execution completed" };
	size_t i;
	int error = 0;

	for (i = 0; i < SBX_NELEM(said) && error == 0; i++) {
		error = call_log(call, SBX_MCP_INFO, "%s", said[i]);
		fixture_sleep(50);
	}
	return (error != 0 ? error :
	    fixture_text(call, "Tool with logging executed successfully"));
}

int
fixture_tool_with_progress(struct call *call)
{
	static const uint64_t steps[] = { 0, 50, 100 };
	char text[64];
	size_t i;
	int error = 0;

	for (i = 0; i < SBX_NELEM(steps) && error == 0; i++) {
		(void)snprintf(text, sizeof(text),
		    "Completed step %u of 100", (unsigned)steps[i]);
		if (call->want_progress)
			error = work_progress(call->ask, steps[i], 100, text);
		fixture_sleep(300);	/* the front lets four a second pass */
	}
	return (error != 0 ? error : fixture_text(call, "Done."));
}

int
fixture_error_handling(struct call *call)
{
	result_error(call->res, "failed", NULL,
	    "This tool intentionally returns an error for testing");
	return (0);
}

int
fixture_reconnection(struct call *call)
{
	fixture_sleep(3500);
	return (fixture_text(call, "Reconnection test completed successfully. "
	    "If you received this, the client properly reconnected after "
	    "stream closure."));
}

/* --- prompts ------------------------------------------------------------------ */

#define USER(content) "{\"role\":\"user\",\"content\":" content "}"

int
fixture_prompts_list(struct call *call)
{
	return (fixture_raw(call, "\"prompts\":["
	    "{\"name\":\"test_simple_prompt\",\"title\":\"Simple\","
	    "\"description\":\"A simple prompt without arguments\"},"
	    "{\"name\":\"test_prompt_with_arguments\","
	    "\"description\":\"A prompt with required arguments\","
	    "\"arguments\":[{\"name\":\"arg1\",\"description\":\"The first\","
	    "\"required\":true},{\"name\":\"arg2\","
	    "\"description\":\"The second\",\"required\":true}]},"
	    "{\"name\":\"test_prompt_with_embedded_resource\","
	    "\"description\":\"A prompt that embeds a resource\","
	    "\"arguments\":[{\"name\":\"resourceUri\","
	    "\"description\":\"What it embeds\",\"required\":true}]},"
	    "{\"name\":\"test_input_required_result_prompt\","
	    "\"description\":\"A prompt that asks for its context\"},"
	    "{\"name\":\"test_prompt_with_image\","
	    "\"description\":\"A prompt with an image\"}]"));
}

/* An argument of prompts/get; "" where it is missing. */
static const char *
prompt_argument(struct call *call, const char *name)
{
	struct json_object *v = NULL;

	(void)json_object_object_get_ex(args_json(&call->args, "arguments"),
	    name, &v);
	return (v != NULL ? json_object_get_string(v) : "");
}

void
fixture_user_text(struct call *call, const char *fmt, ...)
{
	struct result *r = call->res;
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	result_open(r, "messages", '[');
	result_open(r, NULL, '{');
	result_str(r, "role", "user");
	result_open(r, "content", '{');
	result_str(r, "type", "text");
	result_str(r, "text", text);
	result_close(r, '}');
	result_close(r, '}');
	result_close(r, ']');
}

static void
prompt_arguments(struct call *call)
{
	fixture_user_text(call, "Prompt with arguments: arg1='%s', arg2='%s'",
	    prompt_argument(call, "arg1"), prompt_argument(call, "arg2"));
}

static void
prompt_resource(struct call *call)
{
	struct result *r = call->res;

	result_open(r, "messages", '[');
	result_open(r, NULL, '{');
	result_str(r, "role", "user");
	result_open(r, "content", '{');
	result_str(r, "type", "resource");
	result_open(r, "resource", '{');
	result_str(r, "uri", prompt_argument(call, "resourceUri"));
	result_str(r, "mimeType", "text/plain");
	result_str(r, "text", "Embedded resource content for testing.");
	result_close(r, '}');
	result_close(r, '}');
	result_close(r, '}');
	(void)fixture_raw(call, USER(TEXT(
	    "Please process the embedded resource above.")));
	result_close(r, ']');
}

int
fixture_prompts_get(struct call *call)
{
	const char *name = args_str(&call->args, "name", NULL);

	if (strcmp(name, "test_simple_prompt") == 0)
		return (fixture_raw(call, "\"messages\":[" USER(TEXT(
		    "This is a simple prompt for testing.")) "]"));
	if (strcmp(name, "test_prompt_with_image") == 0)
		return (fixture_raw(call, "\"messages\":[" USER(IMAGE) ","
		    USER(TEXT("Please analyze the image above.")) "]"));
	if (strcmp(name, "test_prompt_with_arguments") == 0)
		prompt_arguments(call);
	else if (strcmp(name, "test_prompt_with_embedded_resource") == 0)
		prompt_resource(call);
	else if (strcmp(name, "test_input_required_result_prompt") == 0)
		return (fixture_ask_prompt(call));
	else
		return (prompts_get(call));
	return (0);
}

int
fixture_complete(struct call *call)
{
	struct json_object *v = NULL;
	struct json_object *ref = args_json(&call->args, "ref");

	(void)json_object_object_get_ex(ref, "name", &v);
	if (v == NULL || strncmp(json_object_get_string(v), "test_", 5) != 0)
		return (prompts_complete(call));
	return (fixture_raw(call, "\"completion\":{\"values\":[\"paris\","
	    "\"park\",\"party\"],\"total\":150,\"hasMore\":true}"));
}

/* --- resources ------------------------------------------------------------------ */

static const struct {
	const char *uri, *type, *content;	/* text or blob */
} resources[] = {
	{ "test://static-text", "text/plain", "\"text\":"
	    "\"This is the content of the static text resource.\"" },
	{ "test://static-binary", "image/png", "\"blob\":\"" PNG "\"" },
	{ "test://watched-resource", "text/plain",
	    "\"text\":\"Watched resource content\"" },
};

int
fixture_resources_list(struct call *call)
{
	struct result *r = call->res;
	size_t i;

	result_open(r, "resources", '[');
	for (i = 0; i < SBX_NELEM(resources); i++) {
		result_open(r, NULL, '{');
		result_str(r, "uri", resources[i].uri);
		result_str(r, "name", resources[i].uri + strlen("test://"));
		result_str(r, "description", "A resource for testing");
		result_str(r, "mimeType", resources[i].type);
		result_close(r, '}');
	}
	result_close(r, ']');
	return (0);
}

int
fixture_resources_templates(struct call *call)
{
	return (fixture_raw(call, "\"resourceTemplates\":[{"
	    "\"uriTemplate\":\"test://template/{id}/data\","
	    "\"name\":\"template\",\"description\":\"Filled in\","
	    "\"mimeType\":\"application/json\"}]"));
}

static void
read_template(struct call *call, const char *uri, const char *id, int len)
{
	struct result *r = call->res;

	result_open(r, "contents", '[');
	result_open(r, NULL, '{');
	result_str(r, "uri", uri);
	result_str(r, "mimeType", "application/json");
	result_printf(r, "text", "{\"id\":\"%.*s\",\"templateTest\":true,"
	    "\"data\":\"Data for ID: %.*s\"}", len, id, len, id);
	result_close(r, '}');
	result_close(r, ']');
}

int
fixture_resources_read(struct call *call)
{
	static const char before[] = "test://template/", after[] = "/data";
	const char *uri = args_str(&call->args, "uri", NULL);
	size_t i, n = strlen(uri), b = sizeof(before) - 1,
	    a = sizeof(after) - 1;

	if (n > a + b && strncmp(uri, before, b) == 0 &&
	    strcmp(uri + n - a, after) == 0) {
		read_template(call, uri, uri + b, (int)(n - a - b));
		return (0);
	}
	for (i = 0; i < SBX_NELEM(resources); i++)
		if (strcmp(resources[i].uri, uri) == 0)
			break;
	if (i == SBX_NELEM(resources))
		return (resources_read(call));
	result_open(call->res, "contents", '[');
	result_open(call->res, NULL, '{');
	result_str(call->res, "uri", uri);
	result_str(call->res, "mimeType", resources[i].type);
	(void)fixture_raw(call, resources[i].content);
	result_close(call->res, '}');
	result_close(call->res, ']');
	return (0);
}

int
fixture_resources_subscribe(struct call *call)
{
	const char *uri = args_str(&call->args, "uri", NULL);

	if (strcmp(uri, "test://watched-resource") != 0)
		return (resources_subscribe(call));
	return (fixture_raw(call, "\"granted\":[{"
	    "\"uri\":\"test://watched-resource\",\"watch\":\"\"}]"));
}
