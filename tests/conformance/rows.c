/* Each name that a suite calls, and what serves it. */

#include "tests/conformance/fixture.h"

/* What is told of a tool and what its arguments are checked against differ
 * where a schema is an example of all that a schema may have. */
static const struct sbx_tool header_arguments = {
	.name = "test_custom_headers", .input_schema = SCHEMA({
	"type": "object", "properties": {"region": {"type": "string"},
	"count": {"type": "integer"}, "dry": {"type": "boolean"},
	"where": {"type": "object",
	"additionalProperties": {"type": "string"}}}, "required": []}),
};
static const struct sbx_tool any_arguments = {
	.name = "json_schema_2020_12_tool", .input_schema = "{\"type\":\"object\",\"properties\":{"
	"\"name\":{\"type\":\"string\"}},\"required\":[]}",
};

/* The methods, by their product rows' schemas. */
#define METHOD(method, properties)                                       \
	&(const struct sbx_tool){ .name = method, .input_schema =        \
	    "{\"type\":\"object\",\"properties\":{" properties           \
	    "},\"required\":[]}" }
#define STRING(name) "\"" name "\":{\"type\":\"string\"}"
#define STRINGS(name) "\"" name "\":{\"type\":\"object\","               \
	"\"additionalProperties\":{\"type\":\"string\"}}"

const struct serve_row fixture_rows[] = {
	{ "test_simple_text", fixture_constant, NULL },
	{ "test_image_content", fixture_constant, NULL },
	{ "test_audio_content", fixture_constant, NULL },
	{ "test_embedded_resource", fixture_constant, NULL },
	{ "test_multiple_content_types", fixture_constant, NULL },
	{ "test_tool_with_logging", fixture_tool_with_logging, NULL },
	{ "test_logging_tool", fixture_tool_with_logging, NULL },
	{ "test_tool_with_progress", fixture_tool_with_progress, NULL },
	{ "test_error_handling", fixture_error_handling, NULL },
	{ "test_reconnection", fixture_reconnection, NULL },
	{ "test_custom_headers", fixture_constant, &header_arguments },
	{ "json_schema_2020_12_tool", fixture_constant, &any_arguments },

	{ "greet", fixture_greet, NULL },
	{ "slow_compute", fixture_slow_compute, NULL },
	{ "failing_job", fixture_failing_job, NULL },
	{ "protocol_error_job", fixture_protocol_error_job, NULL },
	{ "confirm_delete", fixture_confirm_delete, NULL },
	{ "multi_input", fixture_multi_input, NULL },
	{ "asks_again", fixture_asks_again, NULL },
	{ "test_tool_with_task", fixture_tool_with_task, NULL },

	{ "test_elicitation", fixture_elicitation, NULL },
	{ "test_sampling", fixture_sampling, NULL },
	{ "test_elicitation_sep1034_defaults", fixture_ask_once, NULL },
	{ "test_elicitation_sep1330_enums", fixture_ask_once, NULL },
	{ "test_missing_capability", fixture_ask_once, NULL },
	{ "test_streaming_elicitation", fixture_ask_once, NULL },
	{ "test_input_required_result_elicitation", fixture_ask_name, NULL },
	{ "test_input_required_result_sampling", fixture_ask_once, NULL },
	{ "test_input_required_result_list_roots", fixture_ask_once, NULL },
	{ "test_input_required_result_request_state", fixture_ask_state,
	    NULL },
	{ "test_input_required_result_multiple_inputs", fixture_ask_many,
	    NULL },
	{ "test_input_required_result_multi_round", fixture_ask_twice, NULL },
	{ "test_input_required_result_tampered_state", fixture_ask_state,
	    NULL },
	{ "test_input_required_result_capabilities", fixture_ask_able, NULL },

	{ "prompts/list", fixture_prompts_list, METHOD("prompts/list", "") },
	{ "prompts/get", fixture_prompts_get, METHOD("prompts/get",
	    STRING("name") "," STRINGS("arguments")) },
	{ "completion/complete", fixture_complete,
	    METHOD("completion/complete", STRINGS("ref") ","
	    STRINGS("argument")) },
	{ "resources/list", fixture_resources_list,
	    METHOD("resources/list", STRING("cursor")) },
	{ "resources/templates/list", fixture_resources_templates,
	    METHOD("resources/templates/list", "") },
	{ "resources/subscribe", fixture_resources_subscribe,
	    METHOD("resources/subscribe", STRING("uri")) },
	{ "resources/read", fixture_resources_read,
	    METHOD("resources/read", STRING("uri")) },
};
const size_t fixture_rows_n = SBX_NELEM(fixture_rows);
