/*
 * What workers serve: the tools of the lists, and what the front passes on of
 * other methods as tools that no list shows.
 */

#include "sbxd/worker/worker.h"

#include "sbxd/front/tools/tools.h"

#define PSEUDO(tool, properties, required)                               \
	&(const struct sbx_tool){ .name = tool, .input_schema =          \
	    "{\"type\":\"object\",\"properties\":{" properties           \
	    "},\"required\":[" required "]}" }
#define STRINGS(name, max)                                               \
	"\"" name "\":{\"type\":\"object\",\"maxProperties\":" max         \
	",\"additionalProperties\":{\"type\":\"string\"}}"
#define CURSOR "\"cursor\":{\"type\":\"string\",\"maxLength\":32}"

const struct serve_row serves[] = {
	{ "resources/read", resources_read, PSEUDO("resources/read",
	    "\"uri\":{\"type\":\"string\",\"minLength\":1,"
	    "\"maxLength\":1024}", "\"uri\"") },
	{ "resources/list", resources_list, PSEUDO("resources/list", CURSOR,
	    "") },
	{ "resources/templates/list", resources_templates,
	    PSEUDO("resources/templates/list", CURSOR, "") },
	{ "resources/subscribe", resources_subscribe,
	    PSEUDO("resources/subscribe", "\"uri\":{\"type\":\"string\","
	    "\"minLength\":1,\"maxLength\":1024}", "\"uri\"") },
	{ "subscriptions/listen", resources_listen,
	    PSEUDO("subscriptions/listen", "\"uris\":{\"type\":\"array\","
	    "\"maxItems\":64,\"items\":{\"type\":\"string\"}}",
	    "\"uris\"") },
	{ "prompts/list", prompts_list, PSEUDO("prompts/list", CURSOR, "") },
	{ "prompts/get", prompts_get, PSEUDO("prompts/get",
	    "\"name\":{\"type\":\"string\",\"maxLength\":64},"
	    STRINGS("arguments", "16"), "\"name\"") },
	{ "completion/complete", prompts_complete,
	    PSEUDO("completion/complete", STRINGS("ref", "4") ","
	    STRINGS("argument", "2"), "\"ref\",\"argument\"") },
	{ "checkpoint", tool_checkpoint, NULL },
	{ "checkpoint_list", tool_checkpoint_list, NULL },
	{ "checkpoint_restore", tool_checkpoint_restore, NULL },
	{ "clone_repo", tool_clone_repo, NULL },
	{ "copy_file", tool_copy_file, NULL },
	{ "copy_project", tool_copy_project, NULL },
	{ "diff_in_container", tool_diff_in_container, NULL },
	{ "edit_file", tool_edit_file, NULL },
	{ "get_workflow_guide", tool_get_workflow_guide, NULL },
	{ "issue_view", tool_issue_view, NULL },
	{ "lint_in_container", tool_lint_in_container, NULL },
	{ "list_files", tool_list_files, NULL },
	{ "merge_abort", tool_merge_abort, NULL },
	{ "merge_base", tool_merge_base, NULL },
	{ "merge_complete", tool_merge_complete, NULL },
	{ "package_install", tool_package_install, NULL },
	{ "pr_view", tool_pr_view, NULL },
	{ "publish", tool_publish, NULL },
	{ "read_file_range", tool_read_file_range, NULL },
	{ "read_output", tool_read_output, NULL },
	{ "run_container_and_exec", tool_run_container_and_exec, NULL },
	{ "run_python", tool_run_python, NULL },
	{ "sandbox_attach", tool_sandbox_attach, NULL },
	{ "sandbox_drop_snapshot", tool_sandbox_drop_snapshot, NULL },
	{ "sandbox_exec", tool_sandbox_exec, NULL },
	{ "sandbox_exec_background", tool_sandbox_exec_background, NULL },
	{ "sandbox_exec_check", tool_sandbox_exec_check, NULL },
	{ "sandbox_exec_kill", tool_sandbox_exec_kill, NULL },
	{ "sandbox_fork", tool_sandbox_fork, NULL },
	{ "sandbox_initialize", tool_sandbox_initialize, NULL },
	{ "sandbox_issue_write", tool_sandbox_issue_write, NULL },
	{ "sandbox_list_containers", tool_sandbox_list_containers, NULL },
	{ "sandbox_pr_review_write", tool_sandbox_pr_review_write, NULL },
	{ "sandbox_restore", tool_sandbox_restore, NULL },
	{ "sandbox_snapshot", tool_sandbox_snapshot, NULL },
	{ "sandbox_stop", tool_sandbox_stop, NULL },
	{ "search_in_container", tool_search_in_container, NULL },
	{ "secret_scan_override", tool_secret_scan_override, NULL },
	{ "transform_file", tool_transform_file, NULL },
	{ "type_check_in_container", tool_type_check_in_container, NULL },
	{ "undo_file_edit", tool_undo_file_edit, NULL },
	{ "verify_in_container", tool_verify_in_container, NULL },
	{ "write_file_sandbox", tool_write_file_sandbox, NULL },
};
const size_t serves_n = SBX_NELEM(serves);
