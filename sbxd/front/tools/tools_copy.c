#include "sbxd/front/tools/tools.h"

#include "sbxd/front/tools/schema.h"

/* Host files into a sandbox; only from below the caller's own root. */

#define COPY_OUT                                                         \
	SCHEMA("container_id": {"type": "string"},                       \
	"run_id": {"type": "string"},                                    \
	"source": {"type": "string"},                                    \
	"dest": {"type": "string"},                                      \
	"files": {"type": "integer"},                                    \
	"bytes": {"type": "integer"},                                    \
	"refused": {"type": "array", "items": {"type": "object",         \
	    "properties": {"path": {"type": "string"},                   \
	    "reason": {"type": "string"}},                               \
	    "required": ["path", "reason"],                              \
	    "additionalProperties": false}},                             \
	"refused_total": {"type": "integer"},                            \
	"replaced_bytes": {"type": "integer"},                           \
	"warnings": {"type": "array", "items": {"type": "string"}})

const struct sbx_tool sbx_tools_copy[] = {
	{
		.name = "copy_project",
		.title = "Copy a project into a sandbox",
		.description =
		    "Copy a git work tree from this machine into a sandbox: "
		    "its tracked files and .git (without credentials). "
		    "Ignored files are never copied, untracked ones only "
		    "with include_untracked, which a directory without git "
		    "needs too. Links out of the project are not followed; "
		    "files that are secrets by name or content are refused "
		    "by name. It is the baseline for sandbox_stop.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    SCHEMA("local_src_dir": {"type": "string", "minLength": 1,
		    "maxLength": 4095, "default": ".", "description":
		    "Below the directory that your client allows."},
		    "dest_dir": {"type": "string", "minLength": 1,
		    "maxLength": 4095, "default": "/workspace"},
		    "include_untracked": {"type": "boolean",
		    "default": false}), SCHEMA("container_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"), COPY_OUT ","
		    SCHEMA("git": {"type": "boolean"},
		    "tracked": {"type": "integer"},
		    "untracked_copied": {"type": "integer"},
		    "untracked_skipped": {"type": "integer"},
		    "deleted_skipped": {"type": "integer"},
		    "submodules_skipped": {"type": "integer"}),
		    SCHEMA("container_id", "run_id", "source", "dest",
		    "files", "bytes", "refused", "refused_total", "warnings",
		    "git", "tracked", "untracked_copied", "untracked_skipped",
		    "deleted_skipped", "submodules_skipped")),
		.hints = SBX_TOOL_DESTRUCTIVE | SBX_TOOL_OPEN_WORLD,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "copy_file",
		.title = "Copy a file into a sandbox",
		.description =
		    "Copy one file from this machine into a sandbox. "
		    "dest_path that is a directory there keeps the file's "
		    "name, else it is the new name; its parent must exist. "
		    "A file that is a secret by name or content is refused.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    SCHEMA("local_src_file": {"type": "string", "minLength": 1,
		    "maxLength": 4095, "description":
		    "Below the directory that your client allows."},
		    "dest_path": {"type": "string", "minLength": 1,
		    "maxLength": 4095, "default": "/workspace"}),
		    SCHEMA("container_id", "local_src_file")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"), COPY_OUT,
		    SCHEMA("container_id", "source", "dest", "files",
		    "bytes", "warnings")),
		.hints = SBX_TOOL_DESTRUCTIVE | SBX_TOOL_IDEMPOTENT |
		    SBX_TOOL_OPEN_WORLD,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW |
		    SBX_PROFILE_ISSUE,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
};
const size_t sbx_tools_copy_n =
    sizeof(sbx_tools_copy) / sizeof(sbx_tools_copy[0]);
