#include "sbxd/front/tools/tools.h"

#include "sbxd/front/tools/schema.h"

/* Running programs in a sandbox, and reading what they wrote. */

#define RUN_ID_IN(what)                                                  \
	"\"" what "\":{\"type\":\"string\","                             \
	"\"pattern\":\"^[0-9a-f]{16}$\"}"

const struct sbx_tool sbx_tools_exec[] = {
	{
		.name = "sandbox_exec",
		.title = "Run commands in a sandbox",
		.description =
		    "Run commands (bash, one shell: cd and variables carry "
		    "over; stops at the first failure) or argv (one program, "
		    "no shell) in a sandbox. status is ok, failed "
		    "(exit_code), timeout, or running: after 45 s it returns "
		    "with job_id and goes on; poll sandbox_exec_check. "
		    "output is stdout, stderr is apart; long output shows "
		    "its first and last lines, with repeated lines as "
		    "[\xc3\x97N] and secrets masked. Everything stays "
		    "readable with read_output(run_id), without running "
		    "again.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER "," SCHEMA_COMMANDS
		    "," SCHEMA_ARGV "," SCHEMA_TIMEOUT "," SCHEMA_STDIN ","
		    SCHEMA_PLACE "," SCHEMA_VIEW_IN, SCHEMA("container_id")),
		.output_schema = SCHEMA_OUT(SCHEMA_RUN_STATES, SCHEMA_RUN_OUT,
		    SCHEMA_RUN_REQUIRED),
		.hints = SBX_TOOL_DESTRUCTIVE,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "sandbox_exec_background",
		.title = "Start a background job",
		.description =
		    "Start commands or argv as a background job and return "
		    "its job_id (which is its run_id) at once: for servers "
		    "and long builds. It has no time limit unless timeout is "
		    "given. Poll sandbox_exec_check, end it with "
		    "sandbox_exec_kill. It ends with its sandbox.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER "," SCHEMA_COMMANDS
		    "," SCHEMA_ARGV "," SCHEMA_STDIN "," SCHEMA_PLACE ","
		    SCHEMA("timeout": {"type": "integer", "minimum": 0,
		    "maximum": 86400, "default": 0, "description":
		    "Seconds until it is killed; 0: never."}),
		    SCHEMA("container_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("running"),
		    SCHEMA("job_id": {"type": "string"},
		    "run_id": {"type": "string"},
		    "container_id": {"type": "string"}),
		    SCHEMA("job_id", "run_id", "container_id")),
		.hints = SBX_TOOL_DESTRUCTIVE,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "sandbox_exec_check",
		.title = "Check a job",
		.description =
		    "State and output so far of a job or any earlier run. "
		    "wait waits up to that many seconds for its end. The "
		    "result stays readable however often it is read; an "
		    "unknown job_id is an error.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    RUN_ID_IN("job_id") ","
		    SCHEMA("wait": {"type": "integer", "minimum": 0,
		    "maximum": 40, "default": 0}) "," SCHEMA_VIEW_IN,
		    SCHEMA("job_id")),
		.output_schema = SCHEMA_OUT(SCHEMA_RUN_STATES, SCHEMA_RUN_OUT,
		    SCHEMA_RUN_REQUIRED),
		.hints = SBX_TOOL_READ_ONLY | SBX_TOOL_IDEMPOTENT,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "sandbox_exec_kill",
		.title = "Kill a job",
		.description =
		    "Kill a job with all its processes, also those that "
		    "ignore signals or went into the background. Its output "
		    "stays readable. A job that has already ended is left "
		    "as it is: killed is false then.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    RUN_ID_IN("job_id"), SCHEMA("job_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"),
		    SCHEMA("job_id": {"type": "string"},
		    "run_id": {"type": "string"},
		    "container_id": {"type": "string"},
		    "killed": {"type": "boolean"},
		    "exit_code": {"type": ["integer", "null"]},
		    "elapsed_seconds": {"type": "number"}),
		    SCHEMA("job_id", "run_id", "container_id", "killed",
		    "exit_code", "elapsed_seconds")),
		.hints = SBX_TOOL_DESTRUCTIVE | SBX_TOOL_IDEMPOTENT,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "read_output",
		.title = "Read stored output",
		.description =
		    "Read the stored output of any run by lines, as it was "
		    "written (only secrets masked, invalid UTF-8 replaced): "
		    "from offset on, or the last tail lines. Runs nothing. "
		    "A line longer than 16,384 bytes counts as several.",
		.input_schema = SCHEMA_IN(RUN_ID_IN("run_id") ","
		    SCHEMA("stream": {"type": "string",
		    "enum": ["stdout", "stderr"], "default": "stdout"},
		    "offset": {"type": "integer", "minimum": 0,
		    "maximum": 1000000000, "default": 0,
		    "description": "First line, from 0."},
		    "limit": {"type": "integer", "minimum": 1,
		    "maximum": 10000, "default": 200},
		    "tail": {"type": "integer", "minimum": 1,
		    "maximum": 10000, "description":
		    "Last lines; instead of offset and limit."}),
		    SCHEMA("run_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok", "running"),
		    SCHEMA("run_id": {"type": "string"},
		    "stream": {"enum": ["stdout", "stderr"]},
		    "interactive": {"type": "boolean", "description":
		    "A shell of an operator: its output is not stored."},
		    "offset": {"type": "integer"},
		    "total_bytes": {"type": "integer"}) "," SCHEMA_PAGE_OUT,
		    SCHEMA("run_id", "stream", "offset", "total_bytes",
		    "output", "shown", "total_lines", "truncated",
		    "next_offset", "has_more")),
		.hints = SBX_TOOL_READ_ONLY | SBX_TOOL_IDEMPOTENT,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
	},
};
const size_t sbx_tools_exec_n =
    sizeof(sbx_tools_exec) / sizeof(sbx_tools_exec[0]);
