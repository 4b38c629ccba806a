#include "sbxd/front/tools/tools.h"

#include "sbxd/front/tools/schema.h"

const struct sbx_tool sbx_tools_guide[] = {
	{
		.name = "get_workflow_guide",
		.title = "How to work with the sandboxes",
		.description =
		    "What to do in a phase of the work, and which tools are "
		    "for it: init, explore, edit, verify, issue, cleanup. "
		    "Nothing runs.",
		.input_schema = SCHEMA_IN(SCHEMA("phase": {"type": "string",
		    "enum": ["init", "explore", "edit", "verify", "publish",
		    "issue", "cleanup"],
		    "default": "init"}), ""),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"),
		    SCHEMA("phase": {"type": "string"},
		    "guide": {"type": "string"},
		    "tools": {"type": "array", "items": {"type": "string"}},
		    "next_phase": {"type": ["string", "null"]}),
		    SCHEMA("phase", "guide", "tools", "next_phase")),
		.hints = SBX_TOOL_READ_ONLY | SBX_TOOL_IDEMPOTENT,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
	},
};
const size_t sbx_tools_guide_n = sizeof(sbx_tools_guide) /
    sizeof(sbx_tools_guide[0]);
