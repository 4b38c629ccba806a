#ifndef SBX_FRONT_TOOLS_H
#define SBX_FRONT_TOOLS_H

/*
 * What a tool is to a client.  One file per family exports one const array;
 * the front lists them, the worker checks arguments against them and has the
 * code (sbxd/worker/tool_*.c, found by name).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sbx_tool_hint {
	SBX_TOOL_READ_ONLY = 1, SBX_TOOL_DESTRUCTIVE = 2,
	SBX_TOOL_IDEMPOTENT = 4, SBX_TOOL_OPEN_WORLD = 8,
};
enum sbx_tool_profile {		/* which --profile lists it (all: always) */
	SBX_PROFILE_ALL = 0, SBX_PROFILE_IMPLEMENT = 1, SBX_PROFILE_REVIEW = 2,
	SBX_PROFILE_ISSUE = 4,
};
enum sbx_tool_task {		/* for clients that know tasks */
	SBX_TASK_LATE,		/* it becomes one when it lasts */
	SBX_TASK_SOON,		/* it is one from the beginning */
	SBX_TASK_MUST,		/* and cannot be called otherwise */
};
enum sbx_tool_pool { SBX_POOL_WORK, SBX_POOL_RECOVERY };

struct sbx_tool {
	const char *name, *title;
	const char *description;	/* <= 1024 bytes */
	const char *input_schema;	/* JSON text, draft 2020-12 */
	const char *output_schema;	/* NULL: none is told */
	uint8_t hints, profiles, pool;
	/* argument that names the sandbox ("container_id"), or NULL; the front
	 * puts its value into CALL.container, "" when absent */
	const char *container_arg;
	/* its result has the members `content` and perhaps
	 * `structuredContent` of its own; else the object is both */
	bool content;
	uint8_t task;		/* enum sbx_tool_task */
};
/*
 * All families, in listing order, up to one without tools.  Link-time data:
 * tables.c is what is installed; a program of the tests may link others.
 */
struct sbx_tool_table {
	const struct sbx_tool *tools;
	const size_t *n;
};
extern const struct sbx_tool_table sbx_tool_tables[];
extern const struct sbx_tool sbx_tools_lifecycle[], sbx_tools_exec[],
    sbx_tools_copy[], sbx_tools_files[], sbx_tools_search[], sbx_tools_snapshot[],
    sbx_tools_github[], sbx_tools_guide[], sbx_tools_verify[];
extern const size_t sbx_tools_lifecycle_n, sbx_tools_exec_n, sbx_tools_copy_n,
    sbx_tools_files_n,
    sbx_tools_search_n, sbx_tools_snapshot_n, sbx_tools_github_n,
    sbx_tools_guide_n,
    sbx_tools_verify_n;
/* What is installed, in listing order. */
#define SBX_TOOL_TABLES \
	{ sbx_tools_lifecycle, &sbx_tools_lifecycle_n }, \
	{ sbx_tools_exec, &sbx_tools_exec_n }, \
	{ sbx_tools_copy, &sbx_tools_copy_n }, \
	{ sbx_tools_files, &sbx_tools_files_n }, \
	{ sbx_tools_search, &sbx_tools_search_n }, \
	{ sbx_tools_snapshot, &sbx_tools_snapshot_n }, \
	{ sbx_tools_verify, &sbx_tools_verify_n }, \
	{ sbx_tools_github, &sbx_tools_github_n }, \
	{ sbx_tools_guide, &sbx_tools_guide_n }

/* All tools in listing order: i from 0, NULL at the end. */
const struct sbx_tool *sbx_tool_at(size_t i);
/* By name (len bytes, need not be terminated), NULL if there is none. */
const struct sbx_tool *sbx_tool_find(const char *name, size_t len);

#endif
