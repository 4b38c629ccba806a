#ifndef SBX_WORKER_WORKER_H
#define SBX_WORKER_WORKER_H

/*
 * What the parts of a worker share: one call, its arguments, its result.
 */

#include "sbxd/worker/args.h"
#include "sbxd/worker/ask.h"
#include "sbxd/worker/result.h"

#include <stdbool.h>
#include <stdint.h>

struct sbx_tool;

#define RESOURCE_TEMPLATE "sbx://run/{run_id}/{stream}"
#define JOURNAL_TEMPLATE "sbx://run/{run_id}/journal"
/* Nothing keeps a client waiting longer: then it gets a handle or an error. */
#define WORKER_CALL_MS 45000u
/* How often a waiting client hears that work goes on (MCP: at most 4/s). */
#define WORKER_PROGRESS_MS 2000u

/* One call.  Strings live as long as it does. */
struct call {
	struct ask *ask;
	const struct sbx_tool *tool;
	struct args args;
	struct result *res;
	uint64_t started_ns;	/* monotonic */
	uint64_t exec_timeout_ms;
	bool want_progress;
	bool patient;		/* nobody is kept waiting: it may last */
	uint8_t log_level;	/* enum sbx_mcp_level, 0: none */
	uint32_t client_can;	/* enum sbx_client_can */
	struct json_object *inputs;	/* what the client answered, or NULL */
	char *state;		/* JSON for the next round; owned, NULL: none */
	char container[65];	/* what the monitor bound the call to, or "" */
	uint64_t progress;	/* last value sent: must grow */
};

/*
 * A tool: fills call->res.  0, or a negative sbx_error of the channel; a
 * refusal or a bad argument is not one: it is a result (result_error()).
 */
typedef int (*tool_fn)(struct call *call);

int tool_sandbox_initialize(struct call *call);
int tool_sandbox_stop(struct call *call);
int tool_run_container_and_exec(struct call *call);
int tool_sandbox_list_containers(struct call *call);
int tool_sandbox_attach(struct call *call);
int tool_sandbox_exec(struct call *call);
int tool_sandbox_exec_background(struct call *call);
int tool_sandbox_exec_check(struct call *call);
int tool_sandbox_exec_kill(struct call *call);
int tool_read_output(struct call *call);
int tool_copy_project(struct call *call);
int tool_copy_file(struct call *call);
int tool_read_file_range(struct call *call);
int tool_list_files(struct call *call);
int tool_write_file_sandbox(struct call *call);
int tool_edit_file(struct call *call);
int tool_undo_file_edit(struct call *call);
int tool_transform_file(struct call *call);
int tool_sandbox_snapshot(struct call *call);
int tool_sandbox_restore(struct call *call);
int tool_sandbox_fork(struct call *call);
int tool_sandbox_drop_snapshot(struct call *call);
int tool_get_workflow_guide(struct call *call);
int tool_checkpoint(struct call *call);
int tool_checkpoint_list(struct call *call);
int tool_checkpoint_restore(struct call *call);
int tool_diff_in_container(struct call *call);
int tool_verify_in_container(struct call *call);
int tool_lint_in_container(struct call *call);
int tool_type_check_in_container(struct call *call);
int tool_package_install(struct call *call);
int tool_run_python(struct call *call);
int tool_search_in_container(struct call *call);
int tool_clone_repo(struct call *call);
int tool_issue_view(struct call *call);
int tool_pr_view(struct call *call);
int tool_merge_base(struct call *call);
int tool_merge_complete(struct call *call);
int tool_merge_abort(struct call *call);
int tool_publish(struct call *call);
int tool_secret_scan_override(struct call *call);
int tool_sandbox_issue_write(struct call *call);
int tool_sandbox_pr_review_write(struct call *call);
int resources_read(struct call *call);
int resources_list(struct call *call);
int resources_templates(struct call *call);
int resources_subscribe(struct call *call);
int resources_listen(struct call *call);
int prompts_list(struct call *call);
int prompts_get(struct call *call);
int prompts_complete(struct call *call);
/* All fits on one page: a cursor was never handed out.  true: refused. */
bool cursor_refused(struct call *call);

/* --- tool_snapshot.c ------------------------------------------------------ */
/* The member `snapshots`.  As the asks of ask.h. */
int snapshots_put(struct call *call);
/*
 * The argument `setup`, if there is one: *ret_go: the layer is there, and m
 * begins from it; false: the result says why not.  As tool_fn.
 */
int setup_from_args(struct call *call, struct sbx_sb_create *m,
    struct ask_deps *ret_deps, bool *ret_go);
/* Its members, inside `deps`; none when there is no layer. */
void setup_put(struct result *r, const struct ask_deps *d);

/* Milliseconds since the call began, and left: of WORKER_CALL_MS, or where
 * nobody is kept waiting of the time-out of commands, if that is longer. */
uint32_t call_elapsed_ms(const struct call *call);
uint32_t call_left_ms(const struct call *call);
/* Tell the client, if it wants to know; message is cut to fit. */
int call_progress(struct call *call, uint64_t total, const char *message);
/* A message for the client's log, if it wants such. */
int call_log(struct call *call, enum sbx_mcp_level level, const char *fmt, ...)
    SBX_PRINTF(3, 4);
/*
 * What an ask returned: a refusal becomes the error object and 0; anything
 * else negative is the channel's end and is returned as it is.
 */
int call_refused(struct call *call, int error);

/* --- inputs.c --------------------------------------------------------------- */
/*
 * What a tool needs of its client, under a key of its own ([A-Za-z0-9_.-]):
 * method is elicitation/create, sampling/createMessage or roots/list, params
 * the JSON text of an object, or "".  The answer (a result of that method,
 * borrowed) if it is there; NULL: the tool returns 0, what it asked for is its
 * result, and it is called again with all answers so far.  It may ask for
 * several (at most SBX_MAX_ASKS) before it returns.  A client that cannot
 * (call->client_can tells) makes it an error for the client.
 */
struct json_object *call_ask(struct call *call, const char *key,
    const char *method, const char *params);
/* The same, whatever was answered before: that was not good enough. */
void call_ask_again(struct call *call, const char *key, const char *method,
    const char *params);
/* The answer, or NULL. */
struct json_object *call_answer(const struct call *call, const char *key,
    const char *method);
/* JSON text for the next round, with what is asked in this one; nobody but
 * the front sees it.  And that of the round before (borrowed), or NULL. */
void call_state(struct call *call, const char *json);
struct json_object *call_state_get(const struct call *call);
/* For serve.c: WORK_CALL.inputs (owned by the caller), and the end. */
struct json_object *call_inputs(const char *text);
void call_inputs_finish(struct call *call);

/* --- what is served ------------------------------------------------------- */

struct serve_row {
	const char *name;
	tool_fn fn;
	const struct sbx_tool *tool;	/* NULL: the listed one of that name */
};
/*
 * Up to one without rows; of two rows of one name the first is taken.
 * Link-time data: tables.c is what is installed; a program of the tests may
 * link others.
 */
struct serve_table {
	const struct serve_row *rows;
	const size_t *n;
};
extern const struct serve_table serve_tables[];
extern const struct serve_row serves[];
extern const size_t serves_n;

/* --- serve.c -------------------------------------------------------------- */
/* Compile the schemas of all tools; once, in the zygote.  Fatal on a bad one:
 * they are our own constants. */
void serve_init(void);
/* A worker's life on channel fd (owned), after its cage: the exit code. */
int serve(int fd, uint32_t features);

#endif
