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

#define AGAIN_IN                                                         \
	SCHEMA("run_id": {"type": "string",                              \
	    "pattern": "^[0-9a-f]{16}$",                                 \
	    "description": "Of the first page: runs nothing again."})
#define IDS_OUT                                                          \
	SCHEMA("run_id": {"type": "string",                              \
	    "pattern": "^[0-9a-f]{16}$"},                                \
	"container_id": {"type": "string"},                              \
	"job_id": {"type": "string"},                                    \
	"masked": {"type": "integer"},                                   \
	"replaced_bytes": {"type": "integer"})
#define PAGE_OUT                                                         \
	SCHEMA("shown": {"type": "integer"},                             \
	"total": {"type": "integer"},                                    \
	"truncated": {"type": "boolean"},                                \
	"next_offset": {"type": ["integer", "null"]},                    \
	"has_more": {"type": "boolean"})

const struct sbx_tool sbx_tools_search[] = {
	{
		.name = "search_in_container",
		.title = "Search code in a sandbox",
		.description =
		    "Search files by regular expression (ripgrep: .gitignore "
		    "holds, hidden files are left out) or by structure "
		    "(ast-grep). Lines and columns from 1; context lines are "
		    "marked. path and file are relative to /workspace, or "
		    "absolute. Next page: run_id and offset alone.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    SCHEMA("pattern": {"type": "string", "minLength": 1,
		    "maxLength": 4096},
		    "path": {"type": "string", "minLength": 1,
		    "maxLength": 4095, "default": "."},
		    "mode": {"type": "string",
		    "enum": ["lexical", "structural"], "default": "lexical"},
		    "language": {"type": "string", "maxLength": 32,
		    "pattern": "^[A-Za-z+#]+$",
		    "description": "Of structures; else by file name."},
		    "glob": {"type": "string", "minLength": 1,
		    "maxLength": 1024},
		    "ignore_case": {"type": "boolean", "default": false},
		    "hidden": {"type": "boolean", "default": false},
		    "no_ignore": {"type": "boolean", "default": false},
		    "context": {"type": "integer", "minimum": 0,
		    "maximum": 20, "default": 0},
		    "output_mode": {"type": "string", "enum": ["content",
		    "files_with_matches", "count"], "default": "content"},
		    "max_results": {"type": "integer", "minimum": 1,
		    "maximum": 1000, "default": 50},
		    "offset": {"type": "integer", "minimum": 0,
		    "maximum": 1000000000, "default": 0}) "," AGAIN_IN ","
		    SCHEMA_TIMEOUT, SCHEMA("container_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok", "running", "timeout"),
		    IDS_OUT "," PAGE_OUT ","
		    SCHEMA("tool": {"enum": ["rg", "grep", "ast-grep"]},
		    "engine": {"const": "pcre2"},
		    "root": {"enum": ["/workspace", "/"]},
		    "fallback": {"const": true},
		    "note": {"type": "string"},
		    "warning": {"type": "string"},
		    "total_is_lower_bound": {"const": true},
		    "matches": {"type": "array", "items": {"type": "object",
		    "properties": {"file": {"type": "string"},
		    "line": {"type": "integer", "minimum": 1},
		    "column": {"type": "integer", "minimum": 1},
		    "end_line": {"type": "integer"},
		    "end_column": {"type": "integer"},
		    "text": {"type": "string"},
		    "count": {"type": "integer"},
		    "context": {"const": true}},
		    "required": ["file"], "additionalProperties": false}}),
		    SCHEMA("run_id", "container_id")),
		.hints = SBX_TOOL_READ_ONLY | SBX_TOOL_IDEMPOTENT,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "diff_in_container",
		.title = "Show what was changed",
		.description =
		    "What the work tree has that its base has not: without "
		    "path the changed files, untracked ones too; with a path "
		    "its hunks. Base: argument, git config sbx.base, the "
		    "default branch of origin, else HEAD. worktree: against "
		    "HEAD. Next page: run_id and offset. Changes nothing.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    SCHEMA("base": {"type": "string", "minLength": 1,
		    "maxLength": 256, "pattern": "^[^-]"},
		    "path": {"type": "string", "minLength": 1,
		    "maxLength": 4095},
		    "offset": {"type": "integer", "minimum": 0,
		    "maximum": 1000000000, "default": 0},
		    "limit": {"type": "integer", "minimum": 1,
		    "maximum": 1000, "default": 50},
		    "raw": {"type": "boolean", "default": false,
		    "description": "Also the text of the diff."},
		    "worktree": {"type": "boolean", "default": false}) ","
		    AGAIN_IN "," WORKING_DIR "," SCHEMA_TIMEOUT,
		    SCHEMA("container_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok", "running", "timeout"),
		    IDS_OUT "," PAGE_OUT ","
		    SCHEMA("base": {"type": "string"},
		    "base_commit": {"type": "string"},
		    "mode": {"enum": ["merge-base", "worktree"]},
		    "files": {"type": "array", "items": {"type": "object",
		    "properties": {"path": {"type": "string"},
		    "old_path": {"type": "string"},
		    "status": {"enum": ["A", "M", "D", "R", "C", "T", "U",
		    "untracked"]},
		    "additions": {"type": "integer"},
		    "deletions": {"type": "integer"},
		    "changes": {"type": "integer"},
		    "binary": {"const": true}},
		    "required": ["path", "status", "additions", "deletions",
		    "changes"], "additionalProperties": false}},
		    "total_files": {"type": "integer"},
		    "total_additions": {"type": "integer"},
		    "total_deletions": {"type": "integer"},
		    "total_untracked": {"type": "integer"},
		    "path": {"type": "string"},
		    "old_path": {"type": "string"},
		    "change_status": {"type": "string"},
		    "additions": {"type": "integer"},
		    "deletions": {"type": "integer"},
		    "binary": {"const": true},
		    "hunks": {"type": "array", "items": {"type": "object",
		    "properties": {"old_start": {"type": "integer"},
		    "old_count": {"type": "integer"},
		    "new_start": {"type": "integer"},
		    "new_count": {"type": "integer"},
		    "header": {"type": "string"},
		    "content": {"type": "string"},
		    "cut": {"const": true}}}},
		    "raw_diff": {"type": "string"},
		    "raw_truncated": {"const": true}),
		    SCHEMA("run_id", "container_id")),
		.hints = SBX_TOOL_READ_ONLY | SBX_TOOL_IDEMPOTENT,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "checkpoint",
		.title = "Commit the state of a work tree",
		.description =
		    "Commit all changes, untracked files too (told as "
		    "swept_untracked; .gitignore holds), on the branch of the "
		    "sandbox's repository, to go back to with "
		    "checkpoint_restore. No hooks, no signature, an identity "
		    "of its own. Refused while a merge is under way.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    SCHEMA("message": {"type": "string", "minLength": 1,
		    "maxLength": 65536, "pattern": "[^[:space:]]"}) ","
		    WORKING_DIR "," SCHEMA_TIMEOUT,
		    SCHEMA("container_id", "message")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok", "running", "timeout"),
		    IDS_OUT ","
		    SCHEMA("sha": {"type": "string"},
		    "message": {"type": "string"},
		    "swept_untracked": {"type": "array",
		    "items": {"type": "string"}},
		    "swept_total": {"type": "integer"}),
		    SCHEMA("run_id", "container_id")),
		.hints = 0,
		.profiles = SBX_PROFILE_IMPLEMENT,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "checkpoint_list",
		.title = "List checkpoints",
		.description =
		    "Commits of HEAD that no remote has, newest first; in a "
		    "repository without a remote all of them (scope). "
		    "by_checkpoint: made by checkpoint.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    SCHEMA("limit": {"type": "integer", "minimum": 1,
		    "maximum": 1000, "default": 20}) ","
		    WORKING_DIR "," SCHEMA_TIMEOUT, SCHEMA("container_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok", "running", "timeout"),
		    IDS_OUT ","
		    SCHEMA("scope": {"enum": ["unpushed", "all"]},
		    "truncated": {"type": "boolean"},
		    "checkpoints": {"type": "array", "items":
		    {"type": "object", "properties": {
		    "sha": {"type": "string"},
		    "date": {"type": "string"},
		    "message": {"type": "string"},
		    "by_checkpoint": {"type": "boolean"}},
		    "required": ["sha", "date", "message", "by_checkpoint"],
		    "additionalProperties": false}}),
		    SCHEMA("run_id", "container_id")),
		.hints = SBX_TOOL_READ_ONLY | SBX_TOOL_IDEMPOTENT,
		.profiles = SBX_PROFILE_IMPLEMENT,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "checkpoint_restore",
		.title = "Go back to a checkpoint",
		.description =
		    "git reset --hard to a commit of the repository: changes "
		    "that are not committed are lost (told as discarded), "
		    "untracked files stay. previous is what HEAD was.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    SCHEMA("sha": {"type": "string",
		    "pattern": "^[0-9a-f]{4,64}$"}) ","
		    WORKING_DIR "," SCHEMA_TIMEOUT,
		    SCHEMA("container_id", "sha")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok", "running", "timeout"),
		    IDS_OUT ","
		    SCHEMA("restored_to": {"type": "string"},
		    "previous": {"type": "string"},
		    "discarded": {"type": "array",
		    "items": {"type": "string"}},
		    "discarded_total": {"type": "integer"},
		    "warning": {"type": "string"}),
		    SCHEMA("run_id", "container_id")),
		.hints = SBX_TOOL_DESTRUCTIVE | SBX_TOOL_IDEMPOTENT,
		.profiles = SBX_PROFILE_IMPLEMENT,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "package_install",
		.title = "Install packages",
		.description =
		    "Install packages by pip (or uv), npm, cargo or go in "
		    "working_dir: those named, else what the project asks "
		    "for. pip installs into $VIRTUAL_ENV or ~/.venv, which "
		    "is made when the system's Python takes none. Without "
		    "network: local paths, find_links, or offline. "
		    "in_fresh: fresh verifications install it, too (what is "
		    "named by name).",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    SCHEMA("packages": {"type": "array", "minItems": 1,
		    "maxItems": 100, "items": {"type": "string"}},
		    "manager": {"type": "string",
		    "enum": ["pip", "npm", "cargo", "go"], "default": "pip"},
		    "editable": {"type": "string", "minLength": 1,
		    "maxLength": 4095, "pattern": "^[^-]"},
		    "extras": {"type": "string", "maxLength": 1024,
		    "pattern": "^[A-Za-z0-9._, -]+$"},
		    "constraints": {"type": "string", "minLength": 1,
		    "maxLength": 4095, "pattern": "^[^-]"},
		    "requirements": {"type": "string", "minLength": 1,
		    "maxLength": 4095, "pattern": "^[^-]"},
		    "find_links": {"type": "string", "minLength": 1,
		    "maxLength": 4095, "pattern": "^[^-]",
		    "description": "Directory of wheels; no index is asked."},
		    "upgrade": {"type": "boolean"},
		    "offline": {"type": "boolean", "default": false,
		    "description": "Use only what is there."}) ","
		    WORKING_DIR "," SCHEMA_TIMEOUT "," VIEW_IN("100"),
		    SCHEMA("container_id")),
		.output_schema = SCHEMA_OUT(SCHEMA_RUN_STATES, SCHEMA_RUN_OUT
		    "," SCHEMA("manager": {"type": "string"},
		    "environment": {"type": "string"},
		    "installed_packages": {"type": "array",
		    "items": {"type": "string"}},
		    "changed": {"type": "integer"},
		    "in_fresh": {"type": "boolean"}), SCHEMA("run_id")),
		.hints = SBX_TOOL_DESTRUCTIVE | SBX_TOOL_OPEN_WORLD,
		.profiles = SBX_PROFILE_IMPLEMENT,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
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
