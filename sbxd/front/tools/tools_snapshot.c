#include "sbxd/front/tools/tools.h"

#include "sbxd/front/tools/schema.h"

/* States of a sandbox: keeping one, going back to it, starting from it. */

#define NAME_IN(text)                                                    \
	"\"name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":59,"\
	"\"pattern\":\"^[A-Za-z0-9][A-Za-z0-9._-]*$\",\"description\":\""\
	text "\"}"
#define SNAPSHOT_IN                                                      \
	SCHEMA("snapshot": {"type": "string", "minLength": 1,            \
	    "maxLength": 64, "description": "A snapshot_id or its name."})
#define LABEL_IN                                                         \
	SCHEMA("session_label": {"type": "string", "maxLength": 64})

const struct sbx_tool sbx_tools_snapshot[] = {
	{
		.name = "sandbox_snapshot",
		.title = "Keep the state of a sandbox",
		.description =
		    "Keep the files of a sandbox as they are now, to return "
		    "to with sandbox_restore or to start others from with "
		    "sandbox_fork. Takes milliseconds while no process runs "
		    "in it, else its files are copied. Processes are not "
		    "part of it. It lives until sandbox_drop_snapshot or the "
		    "end of the server.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    NAME_IN("To find it again.") "," LABEL_IN,
		    SCHEMA("container_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"),
		    SCHEMA("snapshot_id": {"type": "string",
		    "pattern": "^[0-9a-f]{12}$"},
		    "container_id": {"type": "string"},
		    "run_id": {"type": "string"},
		    "name": {"type": "string"},
		    "session_label": {"type": ["string", "null"]},
		    "files": {"type": ["integer", "null"]},
		    "bytes": {"type": ["integer", "null"]},
		    "method": {"enum": ["stacked", "reflink", "copy"]},
		    "processes": {"const": "not part of a snapshot"},
		    "note": {"type": "string"}),
		    SCHEMA("snapshot_id", "container_id", "run_id", "name",
		    "files", "bytes", "method", "processes", "note")),
		.hints = 0,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "sandbox_restore",
		.title = "Return to a snapshot",
		.description =
		    "Give a sandbox the files of a snapshot; it keeps its "
		    "container_id, and its processes end. Refused, saying "
		    "why, while runs live in it or files are newer than "
		    "what is kept of it; force: true does it all the same.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER "," SNAPSHOT_IN ","
		    SCHEMA("force": {"type": "boolean", "default": false,
		    "description": "Discard newer files, end runs."}),
		    SCHEMA("container_id", "snapshot")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"),
		    SCHEMA("container_id": {"type": "string"},
		    "run_id": {"type": "string"},
		    "snapshot_id": {"type": "string"},
		    "name": {"type": "string"},
		    "ended_runs": {"type": "array", "items":
		    {"type": "string"}},
		    "note": {"type": "string"}),
		    SCHEMA("container_id", "run_id", "snapshot_id", "name",
		    "ended_runs", "note")),
		.hints = SBX_TOOL_DESTRUCTIVE,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "sandbox_fork",
		.title = "Start sandboxes from one state",
		.description =
		    "Make count sandboxes (1 to 16) that begin with the "
		    "files of a sandbox as they are now, or of a snapshot: "
		    "give container_id or snapshot. Image and limits are "
		    "the source's. All of them are made, or none.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER "," SNAPSHOT_IN ","
		    SCHEMA("count": {"type": "integer", "minimum": 1,
		    "maximum": 16, "default": 1}) ","
		    NAME_IN("They are called NAME-1, NAME-2 ...") ","
		    LABEL_IN, ""),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"),
		    SCHEMA("sandboxes": {"type": "array", "items":
		    {"type": "object", "properties": {
		    "container_id": {"type": "string"},
		    "run_id": {"type": "string"},
		    "name": {"type": "string"},
		    "image": {"type": "string"},
		    "image_digest": {"type": ["string", "null"]},
		    "network": {"enum": ["off", "on"]}},
		    "required": ["container_id", "run_id", "name", "image",
		    "image_digest", "network"],
		    "additionalProperties": false}},
		    "count": {"type": "integer"},
		    "processes": {"const": "not part of a snapshot"}),
		    SCHEMA("sandboxes", "count", "processes")),
		.hints = 0,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "sandbox_drop_snapshot",
		.title = "Forget a snapshot",
		.description =
		    "Forget a snapshot. Sandboxes made from it go on.",
		.input_schema = SCHEMA_IN(SNAPSHOT_IN, SCHEMA("snapshot")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"),
		    SCHEMA("snapshot_id": {"type": "string"},
		    "name": {"type": "string"},
		    "dropped": {"const": true}),
		    SCHEMA("snapshot_id", "name", "dropped")),
		.hints = SBX_TOOL_DESTRUCTIVE,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
	},
};
const size_t sbx_tools_snapshot_n =
    sizeof(sbx_tools_snapshot) / sizeof(sbx_tools_snapshot[0]);
