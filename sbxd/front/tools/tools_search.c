#include "sbxd/front/tools/tools.h"

#include "sbxd/front/tools/schema.h"

/* Finding code, what changed, states in git, packages, Python. */

#define WORKING_DIR                                                      \
	SCHEMA("working_dir": {"type": "string", "maxLength": 4095,      \
	    "default": "/workspace"})
#define VIEW_IN(lines)                                                   \
	SCHEMA("verbose": {"type": "string",                             \
	    "enum": ["summary", "error_only", "full"],                   \
	    "default": "summary"}) ","                                   \
	"\"max_lines\":{\"type\":\"integer\",\"minimum\":1,"             \
	"\"maximum\":10000,\"default\":" lines "},"                      \
	SCHEMA("offset": {"type": "integer", "minimum": 0,               \
	    "maximum": 1000000000, "default": 0},                        \
	"limit": {"type": "integer", "minimum": 1, "maximum": 10000},    \
	"max_output_tokens": {"type": "integer", "minimum": 0,           \
	    "maximum": 1000000, "default": 0})

const struct sbx_tool sbx_tools_search[] = {
	{
		.name = "run_python",
		.title = "Run Python code",
		.description =
		    "Run code by the sandbox's python3 (that of $VIRTUAL_ENV "
		    "or ~/.venv when there is one). It comes on standard "
		    "input, so nothing needs quoting. output is stdout; the "
		    "result is sandbox_exec's.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    SCHEMA("code": {"type": "string", "minLength": 1}) ","
		    WORKING_DIR "," SCHEMA_TIMEOUT "," VIEW_IN("2000"),
		    SCHEMA("container_id", "code")),
		.output_schema = SCHEMA_OUT(SCHEMA_RUN_STATES, SCHEMA_RUN_OUT,
		    SCHEMA_RUN_REQUIRED),
		.hints = SBX_TOOL_DESTRUCTIVE,
		.profiles = SBX_PROFILE_IMPLEMENT,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
};
const size_t sbx_tools_search_n = sizeof(sbx_tools_search) /
    sizeof(sbx_tools_search[0]);
