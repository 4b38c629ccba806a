#include "sbxd/front/tools/tools.h"

#include "sbxd/front/tools/schema.h"

#define LANGUAGES                                                        \
	SCHEMA("language": {"type": "string", "enum": ["python", "js",   \
	    "ts", "go", "rust", "c", "shell"],                           \
	    "description": "Found by markers when absent."})
#define WHERE_IN                                                         \
	SCHEMA("working_dir": {"type": "string", "maxLength": 4095,      \
	    "default": "/workspace"},                                   \
	"run_id": {"type": "string", "pattern": "^[0-9a-f]{16}$",        \
	    "description": "Result of an earlier run; runs nothing."})   \
	"," LANGUAGES "," SCHEMA_TIMEOUT
#define FILE_IN                                                          \
	SCHEMA("file_path": {"type": "string", "maxLength": 4095,        \
	    "default": "", "description": "File or directory; all."})

#define COUNTS                                                           \
	SCHEMA("passed": {"type": "integer"},                            \
	"failed": {"type": "integer"}, "errors": {"type": "integer"},    \
	"skipped": {"type": "integer"}, "total": {"type": "integer"},    \
	"collected": {"type": "integer"})
#define TOOL_OUT                                                         \
	SCHEMA("tool": {"type": "string"},                               \
	"tool_version": {"type": "string"}, "ran": {"type": "boolean"},  \
	"config": {"type": "string"},                                    \
	"reason": {"type": "string"}, "total": {"type": "integer"},      \
	"findings": {"type": "array", "items": {"type": "object",        \
	    "properties": {"file": {"type": "string"},                   \
	    "line": {"type": "integer"}, "column": {"type": "integer"},  \
	    "rule": {"type": "string"}, "message": {"type": "string"},   \
	    "severity": {"enum": ["error", "warning", "info"]},          \
	    "tool": {"type": "string"}},                                 \
	    "required": ["file", "line", "rule", "message",              \
	    "severity"], "additionalProperties": false}})
#define RUN_OUT                                                          \
	SCHEMA("run_id": {"type": "string"},                             \
	"container_id": {"type": "string"},                              \
	"job_id": {"type": "string"},                                    \
	"elapsed_seconds": {"type": "number"},                           \
	"replaced_bytes": {"type": "integer"},                           \
	"languages": {"type": "array", "items": {"type": "string"}})
#define GATE_OUT(name)                                                   \
	"\"" name "\":{\"type\":\"array\",\"items\":{\"type\":\"object\"," \
	"\"properties\":{\"language\":{\"type\":\"string\"}," TOOL_OUT "},"\
	"\"required\":[\"language\",\"tool\",\"ran\",\"findings\"],"     \
	"\"additionalProperties\":false}}"
#define TEST_OUT                                                         \
	"\"tests\":{\"type\":\"array\",\"items\":{\"type\":\"object\","  \
	"\"properties\":{" SCHEMA("language": {"type": "string"},        \
	"runner": {"type": "string"}, "verdict": {"type": "string"},     \
	"why": {"type": "string"}, "filtered": {"type": "boolean"},      \
	"run_id": {"type": "string"},                                    \
	"command": {"type": "string"}, "exit_code": {"type": "integer"}, \
	"seconds": {"type": "number"},                                   \
	"failures_omitted": {"type": "integer"},                         \
	"failures": {"type": "array", "items": {"type": "object",        \
	    "properties": {"test": {"type": "string"},                   \
	    "error": {"type": "string"}, "file": {"type": "string"},     \
	    "line": {"type": "integer"}},                                \
	    "required": ["test", "error", "file", "line"],               \
	    "additionalProperties": false}}) "," COUNTS "},"             \
	"\"required\":[\"language\",\"runner\",\"verdict\"],"                \
	"\"additionalProperties\":false}}"
#define DIFF_OUT                                                         \
	SCHEMA("diff_summary": {"type": "object"},                       \
	"diff_hash": {"type": "string"},                                 \
	"test_selection": {"type": "object", "properties": {             \
	    "mode": {"enum": ["affected", "widened"]},                   \
	    "changed_files": {"type": "array",                           \
	    "items": {"type": "string"}},                                \
	    "selected_count": {"type": "integer"},                       \
	    "widened_to_full_reason": {"type": ["string", "null"]}},     \
	    "additionalProperties": false})
/* Of a fresh verification alone. */
#define FRESH_OUT                                                        \
	SCHEMA("fresh": {"const": true},                                 \
	"tree_id": {"type": ["string", "null"]},                         \
	"tree_sha256": {"type": ["string", "null"]},                     \
	"image": {"type": "string"},                                     \
	"image_digest": {"type": ["string", "null"]},                    \
	"layer": {"type": ["string", "null"]},                           \
	"dependencies": {"type": "object", "properties": {               \
	    "layer": {"type": ["string", "null"]},                       \
	    "setup": {"type": ["string", "null"]},                       \
	    "packages": {"type": "array", "items": {"type": "string"}},  \
	    "prepared": {"type": "boolean"},                             \
	    "cached": {"type": "boolean"},                               \
	    "run_id": {"type": ["string", "null"]},                      \
	    "left_out": {"type": "integer"},                             \
	    "note": {"type": "string"}, "stderr": {"type": "string"}},   \
	    "required": ["layer", "setup", "packages", "prepared",       \
	    "left_out"], "additionalProperties": false},                 \
	"files": {"type": "integer"}, "bytes": {"type": "integer"})
#define CHECK_REQUIRED                                                   \
	SCHEMA("run_id")

const struct sbx_tool sbx_tools_verify[] = {
	{
		.name = "verify_in_container",
		.title = "Run the project's tests",
		.description =
		    "Find the project's languages, run linters and type "
		    "checkers, then its own tests, and say what failed, "
		    "where and why. status is ok only when tests ran and all "
		    "passed (partial: all that were selected); a missing "
		    "runner, no tests or a crash is not. "
		    "That is feedback: gate is false. fresh: true runs them "
		    "in a sandbox of their own; a pass of that opens the "
		    "gate for exactly this tree.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER ","
		    SCHEMA("path": {"type": "string", "maxLength": 4095,
		    "default": "", "description": "File or directory."},
		    "test_filter": {"type": "string", "maxLength": 4096,
		    "description":
		    "Runs first; then, if green, all (-k, -t, -run)."},
		    "pytest_args": {"type": "array", "maxItems": 64,
		    "items": {"type": "string"}},
		    "test_scope": {"type": "string",
		    "enum": ["full", "affected"], "default": "full",
		    "description":
		    "affected: Python tests that import what changed."},
		    "fresh": {"type": "boolean", "default": false,
		    "description": "With files and timeout only."},
		    "files": {"type": "array", "minItems": 1,
		    "maxItems": 1000, "items": {"type": "string"},
		    "description": "fresh: base with these; else all."},
		    "branch": {"type": "string", "minLength": 1,
		    "maxLength": 244, "description":
		    "fresh: where publish would push."},
		    "skip_lint_gate": {"type": "boolean", "default": false},
		    "skip_type_gate": {"type": "boolean", "default": false})
		    "," WHERE_IN, SCHEMA("container_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok", "failed", "timeout",
		    "running"), SCHEMA("verdict": {"type":
		    "string"}, "why": {"type": "string"},
		    "gate": {"type": "boolean"},
		    "gate_incomplete": {"type": "boolean"},
		    "partial": {"type": "boolean"},
		    "output": {"type": "string"},
		    "output_lines": {"type": "integer"},
		    "output_truncated": {"type": "boolean"},
		    "masked": {"type": "integer"}) "," COUNTS "," RUN_OUT ","
		    TEST_OUT "," FRESH_OUT "," GATE_OUT("lint") "," GATE_OUT("types") ","
		    DIFF_OUT, SCHEMA("gate", "run_id")),
		.hints = SBX_TOOL_DESTRUCTIVE,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "lint_in_container",
		.title = "Lint files",
		.description =
		    "Lint a file or a directory: ruff (flake8, pylint), "
		    "eslint, golangci-lint or go vet, clippy, clang-tidy or "
		    "cppcheck, shellcheck. A tool that could not run is "
		    "ran:false with the reason, never clean. fix applies "
		    "what the tool can mend.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER "," FILE_IN ","
		    SCHEMA("fix": {"type": "boolean", "default": false}) ","
		    WHERE_IN, SCHEMA("container_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok", "failed", "timeout",
		    "running"), TOOL_OUT "," RUN_OUT, CHECK_REQUIRED),
		.hints = SBX_TOOL_DESTRUCTIVE,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
	{
		.name = "type_check_in_container",
		.title = "Check types",
		.description =
		    "Check the types of a file or a directory: pyright for "
		    "Python, tsc for TypeScript. A tool that could not run is "
		    "ran:false with the reason, never clean.",
		.input_schema = SCHEMA_IN(SCHEMA_CONTAINER "," FILE_IN ","
		    WHERE_IN, SCHEMA("container_id")),
		.output_schema = SCHEMA_OUT(SCHEMA("ok", "failed", "timeout",
		    "running"), TOOL_OUT "," RUN_OUT, CHECK_REQUIRED),
		.hints = SBX_TOOL_DESTRUCTIVE,
		.profiles = SBX_PROFILE_IMPLEMENT | SBX_PROFILE_REVIEW,
		.pool = SBX_POOL_WORK,
		.container_arg = "container_id",
	},
};
const size_t sbx_tools_verify_n = sizeof(sbx_tools_verify) /
    sizeof(sbx_tools_verify[0]);
