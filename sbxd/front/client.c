#include "sbxd/front/client.h"

#include "common/proto/proto.h"

#include <json-c/json.h>
#include <string.h>

/* parent NULL: of the capabilities themselves.  Source: ClientCapabilities of
 * the schemas; the tasks extension. */
static const struct {
	const char *parent, *name;
	uint32_t bit;
} known[] = {
	{ NULL, "elicitation", SBX_CAN_ELICIT },
	{ "elicitation", "url", SBX_CAN_ELICIT_URL },
	{ NULL, "sampling", SBX_CAN_SAMPLE },
	{ "sampling", "tools", SBX_CAN_SAMPLE_TOOLS },
	{ NULL, "roots", SBX_CAN_ROOTS },
	{ "extensions", "io.modelcontextprotocol/tasks", SBX_CAN_TASKS },
};

uint32_t
client_can(struct json_object *capabilities)
{
	struct json_object *o, *v;
	uint32_t can = 0;
	size_t i;

	for (i = 0; i < SBX_NELEM(known); i++) {
		o = capabilities;
		if (known[i].parent != NULL &&
		    !json_object_object_get_ex(o, known[i].parent, &o))
			continue;
		if (json_object_object_get_ex(o, known[i].name, &v) &&
		    json_object_is_type(v, json_type_object))
			can |= known[i].bit;
	}
	/* one that names its modes has these only; none means forms
	 * (MCP revision 2025-11-25, client/elicitation) */
	if (json_object_object_get_ex(capabilities, "elicitation", &o) &&
	    (can & SBX_CAN_ELICIT_URL) &&
	    !json_object_object_get_ex(o, "form", NULL))
		can &= ~(uint32_t)SBX_CAN_ELICIT;
	return (can);
}

static const char *const levels[SBX_MCP_MAX] = {
	[SBX_MCP_NONE] = "", [SBX_MCP_DEBUG] = "debug",
	[SBX_MCP_INFO] = "info", [SBX_MCP_NOTICE] = "notice",
	[SBX_MCP_WARNING] = "warning", [SBX_MCP_ERROR] = "error",
	[SBX_MCP_CRITICAL] = "critical", [SBX_MCP_ALERT] = "alert",
	[SBX_MCP_EMERGENCY] = "emergency",
};

uint8_t
level_find(struct json_object *name)
{
	uint8_t i;

	for (i = SBX_MCP_NONE + 1; i < SBX_MCP_MAX; i++)
		if (json_object_is_type(name, json_type_string) &&
		    strcmp(json_object_get_string(name), levels[i]) == 0)
			return (i);
	return (SBX_MCP_NONE);
}

const char *
level_name(uint8_t level)
{
	return (levels[level < SBX_MCP_MAX ? level : SBX_MCP_NONE]);
}
