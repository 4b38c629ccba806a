#include "sbxd/front/tools/tools.h"

#include "sbxd/front/tools/schema.h"

/* Making, finding and ending sandboxes. */

#define LIMITS_OUT                                                       \
	SCHEMA("limits": {"type": "object", "additionalProperties": {    \
	    "type": "object", "properties": {                            \
	    "limit": {"type": ["number", "null"]},                       \
	    "enforced": {"type": "boolean"},                             \
	    "reason": {"type": "string"}},                               \
	    "required": ["limit", "enforced"],                           \
	    "additionalProperties": false},                              \
	    "required": ["memory", "swap", "cpus", "pids", "disk",       \
	    "nofile"]})
#define LIMITS_IN                                                        \
	SCHEMA("mem_limit": {"type": "string", "maxLength": 20,          \
	    "description": "Memory: 512m, 2g."},                         \
	    "cpus": {"type": "number", "description":                    \
	    "Processors: 0.5, 2."},                                      \
	    "disk_limit": {"type": "string", "maxLength": 20,            \
	    "description": "What it may write: 5g."},                    \
	    "ttl_seconds": {"type": "integer", "minimum": 1,             \
	    "maximum": 2592000, "description":                           \
	    "End it after so long."})
#define NETWORK_IN                                                       \
	SCHEMA("allow_network": {"type": "boolean", "default": false,    \
	    "description":                                               \
	    "A way out, by proxy, to allowed hosts only."})
/* One sandbox as sandbox_list_containers and sandbox_attach show it. */
#define SANDBOX_OUT                                                      \
	SCHEMA("container_id": {"type": "string"},                       \
	"name": {"type": ["string", "null"]},                            \
	"session_label": {"type": ["string", "null"]},                   \
	"kind": {"const": "sandbox"},                                    \
	"image": {"type": "string"},                                     \
	"image_digest": {"type": ["string", "null"]},                    \
	"principal": {"type": "string"},                                 \
	"state": {"enum": ["creating", "running", "stopping", "frozen"]},\
	"network": {"enum": ["off", "on"]},                              \
	"allow_network": {"type": "boolean"},                            \
	"jobs": {"type": "integer"},                                     \
	"created_at": {"type": "string"},                                \
	"age_seconds": {"type": "number"},                               \
	"idle_seconds": {"type": "number"},                              \
	"last_activity_ts": {"type": "string"},                          \
	"has_baseline": {"type": "boolean"},                             \
	"ttl_seconds": {"type": ["integer", "null"]},                    \
	"reap_held": {"type": ["string", "null"]}) "," LIMITS_OUT
#define SANDBOX_REQUIRED                                                 \
	SCHEMA("container_id", "name", "session_label", "kind", "image", \
	    "image_digest", "principal", "state", "network",             \
	    "allow_network", "jobs", "created_at", "age_seconds",        \
	    "idle_seconds", "last_activity_ts", "has_baseline",          \
	    "ttl_seconds", "reap_held", "limits")
#define LABEL_IN                                                         \
	SCHEMA("session_label": {"type": "string", "maxLength": 64,      \
	    "description": "Free text that lists show."})
#define IMAGE_IN                                                         \
	SCHEMA("image": {"type": "string", "minLength": 1,               \
	    "maxLength": 255, "description":                             \
	    "host, a name or a digest; default: by the project's language."})
/* What deps_install() says. */
#define INSTALL_OUT                                                      \
	SCHEMA("status": {"enum": ["ok", "failed", "running"]},          \
	"run_id": {"type": "string"},                                    \
	"job_id": {"type": "string"},                                    \
	"managers": {"type": "array", "items": {"type": "object",        \
	    "properties": {"manager": {"type": "string"},                \
	    "status": {"type": "string"}, "detail": {"type": "string"}}, \
	    "required": ["manager", "status", "detail"],                 \
	    "additionalProperties": false}},                             \
	"stderr": {"type": "string"})
#define KEEP_IN                                                          \
	SCHEMA("keep_on_error": {"type": "boolean", "default": false,    \
	    "description": "Keep the sandbox when the clone fails."})
#define CLONE_IN                                                         \
	SCHEMA("clone_repo": {"type": "string", "maxLength": 512,        \
	    "description": "OWNER/NAME to clone; implies a network."},   \
	"branch": {"type": "string", "minLength": 1, "maxLength": 250,   \
	    "description": "Of clone_repo."},                            \
	"repo": {"type": "string", "maxLength": 512, "description":      \
	    "That of pr."},                                              \
	"pr": {"type": "integer", "minimum": 1, "maximum": 2147483647,   \
	    "description": "Check out this pull request of repo."},      \
	"clone_dest": {"type": "string", "maxLength": 4000,              \
	    "pattern": "^/", "default": "/workspace"},                   \
	"deps": {"type": "boolean", "default": true, "description":      \
	    "Install what the project declares."},                       \
	"pip_extras": {"type": "string", "maxLength": 200,               \
	    "default": "[dev]"},                                         \
	"pip_args": {"type": "string", "maxLength": 1000})

const struct sbx_tool sbx_tools_lifecycle[] = {
	{
		.name = "sandbox_initialize",
		.title = "Create a sandbox",
		.description =
		    "Create a sandbox: own processes, files and users, no "
		    "network unless allow_network (HTTP and HTTPS, to "
		    "allowed hosts; a refusal says why). Returns "
		    "container_id, which every other tool takes. It runs as "
		    "user sandbox (uid 1000), home /home/sandbox, work in "
		    "/workspace. It lives until "
		    "sandbox_stop or the end of the server; what is in it "
		    "is lost then. Put files into it with copy_project or "
		    "copy_file, or clone_repo it, a branch or a pull request "
		    "(repo, pr) of it, to clone_dest: needs what it declares "
		    "installed then. limits says what is enforced. setup runs "
		    "commands in a fresh sandbox of the image (allow_network "
		    "is also theirs) and starts from what they left, as a "
		    "fresh verification does; again it is instant.",
		.input_schema = SCHEMA_IN(IMAGE_IN "," NETWORK_IN ","
		    LIMITS_IN ","
		    SCHEMA("setup": {"type": "array", "minItems": 1,
		    "maxItems": 64, "items": {"type": "string"},
		    "description": "bash, one shell; kept as a layer."}) ","
		    SCHEMA("name": {"type": "string", "minLength": 1,
		    "maxLength": 64, "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$",
		    "description": "To find it again with sandbox_attach."})
		    "," LABEL_IN "," CLONE_IN "," KEEP_IN, ""),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"),
		    SCHEMA("container_id": {"type": "string",
		    "pattern": "^[0-9a-f]{12}$"},
		    "run_id": {"type": "string"},
		    "image": {"type": "string"},
		    "image_digest": {"type": ["string", "null"]},
		    "image_reason": {"type": ["string", "null"]},
		    "image_config": {"type": ["object", "null"], "properties":
		    {"user": {"type": ["string", "null"]},
		    "working_dir": {"type": ["string", "null"]},
		    "env": {"type": "array", "items": {"type": "string"}},
		    "entrypoint": {"type": "array", "items":
		    {"type": "string"}}}, "required": ["user", "working_dir",
		    "env", "entrypoint"], "additionalProperties": false},
		    "users": {"enum": ["own", "shared"]},
		    "deps": {"type": ["object", "null"], "properties":
		    {"install": {"type": "object", "properties": {)
		    INSTALL_OUT SCHEMA(}, "required": ["status"],
		    "additionalProperties": false},
		    "layer": {"type": "string"},
		    "cached": {"type": "boolean"},
		    "seconds": {"type": "number"},
		    "files": {"type": ["integer", "null"]},
		    "bytes": {"type": ["integer", "null"]},
		    "run_id": {"type": "string"}},
		    "additionalProperties": false},
		    "kept": {"type": "boolean"},
		    "replaced_bytes": {"type": "integer"},
		    "network": {"enum": ["off", "on"]},
		    "name": {"type": ["string", "null"]},
		    "session_label": {"type": ["string", "null"]},
		    "ttl_seconds": {"type": ["integer", "null"]},
		    "warnings": {"type": "array",
		    "items": {"type": "string"}}) "," LIMITS_OUT
		    ",\"clone\":{\"type\":[\"object\",\"null\"],"
		    "\"properties\":{" SCHEMA("status": {"enum": ["ok",
		    "running"]}) "," SCHEMA_CLONE_OUT "},"
		    "\"additionalProperties\":false}",
		    SCHEMA("container_id", "run_id", "image", "image_digest",
		    "image_reason", "image_config", "users", "clone", "deps",
		    "network", "name", "ttl_seconds", "limits", "warnings")),
		.hints = 0,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
	},
	{
		.name = "sandbox_stop",
		.title = "End a sandbox",
		.description =
		    "End a sandbox and everything in it. Refused, naming "
		    "the files, while it holds work newer than the project "
		    "that was copied in; force: true ends it all the same. "
		    "Outputs of its runs stay readable with read_output.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    SCHEMA("force": {"type": "boolean", "default": false,
		    "description": "Discard work in it."}),
		    SCHEMA("container_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"),
		    SCHEMA("container_id": {"type": "string"},
		    "run_id": {"type": "string"},
		    "stopped": {"const": true}),
		    SCHEMA("container_id", "run_id", "stopped")),
		.hints = SBX_TOOL_DESTRUCTIVE,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_RECOVERY,
		.container_arg = "container_id",
	},
	{
		.name = "run_container_and_exec",
		.title = "Run commands in a throwaway sandbox",
		.description =
		    "Run commands in a fresh sandbox that is gone "
		    "afterwards. For one-off work; to keep files between "
		    "calls use sandbox_initialize and sandbox_exec. With "
		    "clone_repo or pr they run in the clone, with what it "
		    "declares installed (all of it within 45 s). status "
		    "is ok, failed (exit_code), timeout, or running: after "
		    "45 s it returns with job_id and goes on; poll "
		    "sandbox_exec_check. All output stays readable with "
		    "read_output(run_id).",
		.input_schema = SCHEMA_IN(SCHEMA_COMMANDS "," IMAGE_IN ","
		    NETWORK_IN "," SCHEMA_TIMEOUT "," SCHEMA_STDIN ","
		    SCHEMA_PLACE "," SCHEMA_VIEW_IN "," LABEL_IN ","
		    CLONE_IN,
		    SCHEMA("commands")),
		.output_schema = SCHEMA_OUT(SCHEMA_RUN_STATES, SCHEMA_RUN_OUT
		    "," SCHEMA("image": {"type": "string"},
		    "image_reason": {"type": ["string", "null"]},
		    "clone": {"type": "object", "properties": {
		    "status": {"const": "ok"},) SCHEMA_CLONE_OUT
		    SCHEMA(}, "additionalProperties": false},
		    "warnings": {"type": "array",
		    "items": {"type": "string"}},
		    "deps": {"type": "object", "properties": {)
		    INSTALL_OUT SCHEMA(}, "required": ["status"],
		    "additionalProperties": false}),
		    SCHEMA_RUN_REQUIRED),
		.hints = 0,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
	},
	{
		.name = "sandbox_list_containers",
		.title = "List sandboxes",
		.description =
		    "List your sandboxes: id, name, label, image, state, "
		    "network, limits, live jobs, age and idle time. "
		    "has_baseline: a project was copied in, and sandbox_stop "
		    "guards work done since. reaped: those that ended by "
		    "time since the last list; reap_held: why one did not. "
		    "snapshots: those that you took.",
		.input_schema = SCHEMA_IN("", ""),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"),
		    "\"containers\":{\"type\":\"array\",\"items\":{"
		    "\"type\":\"object\",\"properties\":{" SANDBOX_OUT
		    "},\"required\":[" SANDBOX_REQUIRED
		    "],\"additionalProperties\":false}},"
		    SCHEMA("reaped": {"type": "array", "items": {
		    "type": "object", "properties": {
		    "container_id": {"type": "string"},
		    "name": {"type": ["string", "null"]},
		    "reason": {"type": "string"},
		    "when": {"type": "string"}},
		    "required": ["container_id", "name", "reason", "when"],
		    "additionalProperties": false}},
		    "total": {"type": "integer"},
		    "snapshots": {"type": "array", "items":
		    {"type": "object", "properties": {
		    "snapshot_id": {"type": "string"},
		    "name": {"type": "string"},
		    "session_label": {"type": ["string", "null"]},
		    "container_id": {"type": "string"},
		    "image": {"type": "string"},
		    "method": {"type": "string"},
		    "files": {"type": ["integer", "null"]},
		    "bytes": {"type": ["integer", "null"]},
		    "created_at": {"type": "string"}},
		    "required": ["snapshot_id", "name", "container_id"],
		    "additionalProperties": false}}),
		    SCHEMA("containers", "reaped", "total", "snapshots")),
		.hints = SBX_TOOL_READ_ONLY | SBX_TOOL_IDEMPOTENT,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_RECOVERY,
	},
	{
		.name = "sandbox_attach",
		.title = "Find a sandbox again",
		.description =
		    "Find one of your sandboxes by its name, its id or the "
		    "first digits of its id (at least 4), and optionally "
		    "give it a new session_label. An ambiguous prefix is an "
		    "error that names the candidates.",
		.input_schema = SCHEMA_IN(
		    SCHEMA("name_or_id": {"type": "string", "minLength": 1,
		    "maxLength": 64}) "," LABEL_IN, SCHEMA("name_or_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"), SANDBOX_OUT ","
		    SCHEMA("found": {"const": true},
		    "match_type": {"enum": ["name", "id"]},
		    "previous_session_label": {"type": ["string", "null"]}),
		    SANDBOX_REQUIRED "," SCHEMA("found", "match_type")),
		.hints = SBX_TOOL_IDEMPOTENT,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
	},
};
const size_t sbx_tools_lifecycle_n =
    sizeof(sbx_tools_lifecycle) / sizeof(sbx_tools_lifecycle[0]);
