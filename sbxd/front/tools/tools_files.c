#include "sbxd/front/tools/tools.h"

#include "sbxd/front/tools/schema.h"

/* Files of a sandbox: reading, listing, writing, editing, undoing. */

#define FILE_PATH                                                        \
	SCHEMA("file_path": {"type": "string", "minLength": 1,           \
	    "maxLength": 4095,                                           \
	    "description": "Absolute, or below /workspace."})
#define FILE_NAME                                                        \
	SCHEMA("file_name": {"type": "string", "minLength": 1,           \
	    "maxLength": 4095},                                          \
	"dest_dir": {"type": "string", "maxLength": 4095,                \
	    "default": "/workspace"})
#define WAYS                                                             \
	SCHEMA("start_line": {"type": "integer", "minimum": 1,           \
	    "maximum": 100000000},                                       \
	"end_line": {"type": "integer", "minimum": 1,                    \
	    "maximum": 100000000, "description": "Included."},           \
	"append": {"type": "boolean", "default": false},                 \
	"old_str": {"type": "string",                                    \
	    "description": "Text that file_contents replaces."})
#define NEXT_OUT                                                         \
	SCHEMA("has_more": {"type": "boolean"},                          \
	"next_offset": {"type": ["integer", "null"]})
#define WARNINGS_OUT                                                     \
	SCHEMA("warnings": {"type": "array",                             \
	"items": {"type": "string"}})
#define CHANGE_OUT                                                       \
	SCHEMA("path": {"type": "string"},                               \
	"bytes": {"type": "integer"},                                    \
	"changed": {"type": "boolean"},                                  \
	"created": {"type": "boolean"},                                  \
	"diff": {"type": "string"},                                      \
	"diff_cut": {"type": "boolean"},                                 \
	"added_lines": {"type": "integer"},                              \
	"removed_lines": {"type": "integer"},                            \
	"undo": {"type": "boolean"},                                     \
	"undo_note": {"type": "string"})
#define EDIT_OUT                                                         \
	SCHEMA("container_id": {"type": "string"}) "," CHANGE_OUT ","    \
	WARNINGS_OUT ","                                                 \
	SCHEMA("replaced": {"type": "integer"},                          \
	"flexible_match": {"type": "boolean"},                           \
	"line_endings": {"const": "crlf"},                               \
	"warning": {"type": "string"},                                   \
	"replaced_bytes": {"type": "integer"},                           \
	"already_applied": {"type": "boolean"},                          \
	"near_miss": {"type": "object", "properties": {                  \
	"line": {"type": "integer"},                                     \
	"end_line": {"type": "integer"},                                 \
	"differs_at": {"type": "integer"},                               \
	"context": {"type": "string"}},                                  \
	"required": ["line", "end_line", "differs_at", "context"],       \
	"additionalProperties": false})
#define EDIT_REQUIRED                                                    \
	SCHEMA("container_id", "path", "bytes", "changed", "created",    \
	    "diff", "undo")
#define SNAPSHOTS_OUT                                                    \
	SCHEMA("snapshots": {"type": "array", "items": {"type": "object", \
	"properties": {"steps": {"type": "integer"},                     \
	"size_bytes": {"type": ["integer", "null"]},                     \
	"saved_at": {"type": "string"}},                                 \
	"required": ["steps", "size_bytes", "saved_at"],                 \
	"additionalProperties": false}})

const struct sbx_tool sbx_tools_files[] = {
	{
		.name = "read_file_range",
		.title = "Read lines of a file",
		.description =
		    "Read part of a file: offset (from 0) and limit, or "
		    "start_line and end_line (from 1), or the last "
		    "tail_lines. total_lines is exact; lines of more than "
		    "4000 bytes are cut with a mark. content is the file's "
		    "text, without line numbers.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER "," FILE_PATH ","
		    SCHEMA("offset": {"type": "integer", "minimum": 0,
		    "maximum": 1000000000000, "default": 0},
		    "limit": {"type": "integer", "minimum": -1,
		    "maximum": 1000000, "default": 50,
		    "description": "-1: all."},
		    "start_line": {"type": "integer", "minimum": 1,
		    "maximum": 1000000000000},
		    "end_line": {"type": "integer", "minimum": 1,
		    "maximum": 1000000000000},
		    "tail_lines": {"type": "integer", "minimum": 1,
		    "maximum": 1000000}),
		    SCHEMA("container_id", "file_path")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"),
		    SCHEMA("container_id": {"type": "string"},
		    "path": {"type": "string"},
		    "content": {"type": "string"},
		    "start_line": {"type": "integer"},
		    "shown": {"type": "integer"},
		    "total_lines": {"type": "integer"}) "," NEXT_OUT ","
		    SCHEMA("file_size": {"type": "object", "properties": {
		    "lines": {"type": "integer"},
		    "bytes": {"type": "integer"},
		    "approx_tokens": {"type": "integer"}},
		    "required": ["lines", "bytes", "approx_tokens"],
		    "additionalProperties": false},
		    "cut_lines": {"type": "integer"},
		    "masked": {"type": "integer"},
		    "replaced_bytes": {"type": "integer"}),
		    SCHEMA("container_id", "path", "content", "start_line",
		    "shown", "total_lines", "has_more", "next_offset",
		    "file_size")),
		.hints = SBX_TOOL_READ_ONLY,
		.profiles = SBX_PROFILE_ALL,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "list_files",
		.title = "List files",
		.description =
		    "List the files below a directory, sorted, with paths "
		    "relative to it. pattern is a glob of the name or, with a "
		    "slash, of the path (* also matches /). Names that begin "
		    "with a dot only with hidden; .git never.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    SCHEMA("path": {"type": "string", "minLength": 1,
		    "maxLength": 4095, "default": "/workspace"},
		    "max_depth": {"type": "integer", "minimum": 1,
		    "maximum": 128, "default": 3},
		    "pattern": {"type": "string", "maxLength": 1023,
		    "default": ""},
		    "hidden": {"type": "boolean", "default": false},
		    "offset": {"type": "integer", "minimum": 0,
		    "maximum": 100000000, "default": 0},
		    "limit": {"type": "integer", "minimum": 1,
		    "maximum": 10000, "default": 1000}),
		    SCHEMA("container_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"),
		    SCHEMA("container_id": {"type": "string"},
		    "path": {"type": "string"},
		    "files": {"type": "array", "items": {"type": "string"}},
		    "total": {"type": "integer"},
		    "total_is_lower_bound": {"type": "boolean"},
		    "shown": {"type": "integer"}) "," NEXT_OUT ","
		    SCHEMA("replaced_bytes": {"type": "integer"}),
		    SCHEMA("container_id", "path", "files", "total", "shown",
		    "has_more", "next_offset")),
		.hints = SBX_TOOL_READ_ONLY,
		.profiles = SBX_PROFILE_ALL,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "write_file_sandbox",
		.title = "Write a file",
		.description =
		    "Write file_contents as the whole file, making parent "
		    "directories; or into it: over lines start_line to "
		    "end_line, at its end (append), or over old_str, which "
		    "must be there once. Other bytes and the mode stay; a "
		    "symbolic link is followed.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER "," FILE_NAME ","
		    SCHEMA("file_contents": {"type": "string"}) "," WAYS,
		    SCHEMA("container_id", "file_name", "file_contents")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"), EDIT_OUT,
		    EDIT_REQUIRED),
		.hints = SBX_TOOL_DESTRUCTIVE,
		.profiles = SBX_PROFILE_IMPLEMENT,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "edit_file",
		.title = "Edit a file",
		.description =
		    "Change a file in one way: old_str (once, or "
		    "expected_count times) or a line range becomes "
		    "file_contents, append, or edits, all or none. Python: "
		    "old_str 'def name' and a whole new definition replaces "
		    "that one (line says which; ast forces it). A miss shows "
		    "what is most like it.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER "," FILE_NAME ","
		    SCHEMA("file_contents": {"type": "string"}) "," WAYS ","
		    SCHEMA("expected_count": {"type": "integer", "minimum": 1,
		    "maximum": 20000},
		    "edits": {"type": "array", "minItems": 1,
		    "maxItems": 256, "items": {"type": "object",
		    "properties": {"old_str": {"type": "string",
		    "minLength": 1}, "new_str": {"type": "string"},
		    "expected_count": {"type": "integer", "minimum": 1,
		    "maximum": 20000}}, "required": ["old_str", "new_str"],
		    "additionalProperties": false}},
		    "ast": {"type": "boolean"},
		    "line": {"type": "integer", "minimum": 1,
		    "maximum": 100000000},
		    "preserve": {"type": "string", "enum": ["all",
		    "decorators", "docstring", "none"], "default": "all",
		    "description": "Kept where the new one has none."}),
		    SCHEMA("container_id", "file_name")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"), EDIT_OUT,
		    EDIT_REQUIRED),
		.hints = SBX_TOOL_DESTRUCTIVE,
		.profiles = SBX_PROFILE_IMPLEMENT,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "transform_file",
		.title = "Change files by code",
		.description =
		    "Change one file, or all of paths or none, by Python "
		    "code that defines transform(text) -> str; it runs in "
		    "the sandbox. Bytes that are not UTF-8 are surrogate "
		    "escapes in text and stay as they are.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER "," FILE_PATH ","
		    SCHEMA("paths": {"type": "array", "minItems": 1,
		    "maxItems": 64, "items": {"type": "string"}},
		    "code": {"type": "string", "minLength": 1},
		    "max_lines": {"type": "integer", "minimum": 2,
		    "maximum": 2000, "default": 200,
		    "description": "Of a diff."}) "," SCHEMA_TIMEOUT,
		    SCHEMA("container_id", "code")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok", "timeout",
		    "running"),
		    SCHEMA("container_id": {"type": "string"},
		    "run_id": {"type": "string"},
		    "job_id": {"type": "string"},
		    "changed": {"type": "boolean"},
		    "files": {"type": "array", "items": {"type": "object",
		    "properties": {) CHANGE_OUT SCHEMA(},
		    "required": ["path", "bytes", "changed", "diff"],
		    "additionalProperties": false}},
		    "replaced_bytes": {"type": "integer"}) "," WARNINGS_OUT,
		    SCHEMA("container_id", "run_id")),
		.hints = SBX_TOOL_DESTRUCTIVE,
		.profiles = SBX_PROFILE_IMPLEMENT,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "undo_file_edit",
		.title = "Undo an edit",
		.description =
		    "Make a file what it was before the last edit by these "
		    "tools, or steps edits back; a file that an edit made is "
		    "removed. What is undone is kept, so undo again is redo. "
		    "Ten versions of a file are kept, of at most 5 MiB.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER "," FILE_PATH ","
		    SCHEMA("steps": {"type": "integer", "minimum": 1,
		    "maximum": 10, "default": 1}),
		    SCHEMA("container_id", "file_path")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok"),
		    SCHEMA("container_id": {"type": "string"},
		    "restored_steps_back": {"type": "integer"},
		    "removed": {"type": "boolean"},
		    "note": {"type": "string"},
		    "replaced_bytes": {"type": "integer"}) "," CHANGE_OUT ","
		    WARNINGS_OUT ","
		    SNAPSHOTS_OUT,
		    SCHEMA("container_id", "path", "bytes", "changed", "diff",
		    "undo", "restored_steps_back", "removed", "snapshots")),
		.hints = SBX_TOOL_DESTRUCTIVE,
		.profiles = SBX_PROFILE_IMPLEMENT,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
};
const size_t sbx_tools_files_n =
    sizeof(sbx_tools_files) / sizeof(sbx_tools_files[0]);
