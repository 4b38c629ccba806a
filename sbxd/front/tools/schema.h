#ifndef SBX_FRONT_TOOLS_SCHEMA_H
#define SBX_FRONT_TOOLS_SCHEMA_H

/*
 * Pieces that the schemas of several tools share.  SCHEMA() turns JSON as it
 * is written into a string literal, so that what a client sees can be read
 * here as such.  It does not expand macros inside; pieces are put side by
 * side instead (and `true` of stdbool.h stays `true`).
 */
#define SCHEMA(...) #__VA_ARGS__

#define SCHEMA_IN(props, required)                                       \
	"{\"type\":\"object\",\"properties\":{" props                    \
	"},\"required\":[" required "],\"additionalProperties\":false}"

/*
 * A result: the tool's own members, or the one error shape, also of a refusal
 * past a cap ("busy").  `required` is what every result without an error has.
 */
#define SCHEMA_OUT(states, props, required)                              \
	"{\"type\":\"object\",\"properties\":{\"status\":{\"enum\":["    \
	states ",\"error\",\"busy\"]}," props "," SCHEMA_ERROR        \
	"},\"required\":[\"status\"],\"additionalProperties\":false,"    \
	"\"if\":{\"properties\":{\"status\":{\"enum\":[\"error\","      \
	"\"busy\"]}}},"                                                  \
	"\"then\":{\"required\":[\"error\",\"code\"]},"                  \
	"\"else\":{\"required\":[" required "]}}"
#define SCHEMA_ERROR                                                     \
	"\"error\":{\"type\":\"string\"},\"code\":{\"type\":\"string\"}," \
	"\"recommended_next_action\":{\"type\":\"string\"}"

#define SCHEMA_CONTAINER                                                 \
	SCHEMA("container_id": {"type": "string",                        \
	    "pattern": "^[0-9a-f]{12}$",                                 \
	    "description": "From sandbox_initialize."})

/* How a view of output is asked for, and what it is. */
#define SCHEMA_VIEW_IN                                                   \
	SCHEMA("verbose": {"type": "string",                             \
	    "enum": ["summary", "error_only", "full"],                   \
	    "default": "summary"},                                       \
	"max_lines": {"type": "integer", "minimum": 1,                   \
	    "maximum": 10000, "default": 100,                            \
	    "description": "Lines shown: the first and the last half."}, \
	"offset": {"type": "integer", "minimum": 0,                      \
	    "maximum": 1000000000, "default": 0,                         \
	    "description": "First line of a page, from 0."},             \
	"limit": {"type": "integer", "minimum": 1, "maximum": 10000,     \
	    "description": "Lines of a page (50); pages when given."},   \
	"max_output_tokens": {"type": "integer", "minimum": 0,           \
	    "maximum": 1000000, "default": 0,                            \
	    "description": "Budget for the view, 0: none."})
#define SCHEMA_PAGE_OUT                                                  \
	SCHEMA("output": {"type": "string"},                             \
	"shown": {"type": "integer"},                                    \
	"total_lines": {"type": "integer"},                              \
	"truncated": {"type": "boolean"},                                \
	"next_offset": {"type": ["integer", "null"]},                    \
	"has_more": {"type": "boolean"},                                 \
	"masked": {"type": "integer"},                                   \
	"replaced_bytes": {"type": "integer"},                           \
	"dropped_bytes": {"type": "integer"})
#define SCHEMA_RUN_OUT                                                   \
	SCHEMA("run_id": {"type": "string",                              \
	    "pattern": "^[0-9a-f]{16}$"},                                \
	"container_id": {"type": "string",                               \
	    "pattern": "^[0-9a-f]{12}$"},                                \
	"job_id": {"type": "string"},                                    \
	"exit_code": {"type": ["integer", "null"]},                      \
	"signal": {"type": "string"},                                    \
	"failed_command": {"type": "string"},                            \
	"stderr": {"type": "string"},                                    \
	"stderr_lines": {"type": "integer"},                             \
	"stderr_truncated": {"type": "boolean"},                         \
	"estimated_tokens": {"type": "integer"},                         \
	"elapsed_seconds": {"type": "number"},                           \
	"last_output_seconds_ago": {"type": ["number", "null"]},         \
	"out_bytes": {"type": "integer"},                                \
	"err_bytes": {"type": "integer"}) "," SCHEMA_PAGE_OUT
#define SCHEMA_RUN_STATES                                                \
	SCHEMA("ok", "failed", "timeout", "running")
#define SCHEMA_RUN_REQUIRED                                              \
	SCHEMA("run_id", "exit_code", "output", "shown", "total_lines",  \
	    "truncated", "next_offset", "has_more", "elapsed_seconds",   \
	    "out_bytes", "err_bytes")

/* What to run. */
#define SCHEMA_COMMANDS                                                  \
	SCHEMA("commands": {"type": "array", "minItems": 1,              \
	    "maxItems": 512, "items": {"type": "string"},                \
	    "description": "bash, one shell; stops at the first failure."})
#define SCHEMA_ARGV                                                      \
	SCHEMA("argv": {"type": "array", "minItems": 1,                  \
	    "maxItems": 1024, "items": {"type": "string"},               \
	    "description": "Instead: a program and arguments, no shell."})
#define SCHEMA_PLACE                                                     \
	SCHEMA("working_dir": {"type": "string", "maxLength": 4095,      \
	    "default": "/workspace"},                                   \
	"env": {"type": "object", "maxProperties": 256,                  \
	    "additionalProperties": {"type": "string"},                  \
	    "description": "Variables to set, name to value."})
#define SCHEMA_TIMEOUT                                                   \
	SCHEMA("timeout": {"type": "integer", "minimum": 0,              \
	    "maximum": 86400, "default": 0,                              \
	    "description": "Seconds; 0: the server's default."})
#define SCHEMA_STDIN                                                     \
	SCHEMA("stdin": {"type": "string",                               \
	    "description": "Text given on standard input."})

/* A clone as clone_repo and sandbox_initialize show it. */
#define SCHEMA_CLONE_OUT                                                 \
	SCHEMA("repo": {"type": "string"},                               \
	"clone_path": {"type": "string"},                                \
	"run_id": {"type": "string"},                                    \
	"job_id": {"type": "string"},                                    \
	"branch": {"type": "string"},                                    \
	"head": {"type": "string"},                                      \
	"default_branch": {"type": "string"},                            \
	"base": {"type": "string"},                                      \
	"shallow": {"type": "boolean"},                                  \
	"pr": {"type": "integer"},                                       \
	"credential": {"enum": ["grant", "none"]},                       \
	"grant": {"type": "string"},                                     \
	"credential_reason": {"type": "string"},                         \
	"submodules_granted": {"type": "array",                          \
	    "items": {"type": "string"}},                                \
	"replaced_bytes": {"type": "integer"})

#endif
