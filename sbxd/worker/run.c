/*
 * Runs: from arguments to EXEC_START, the wait, and the result that a model
 * reads.  The run is the monitor's from the start on; a worker that dies loses
 * nothing of it but the answer.
 */

#include "sbxd/worker/run.h"

#include "common/base/limits.h"
#include "sbxd/front/tools/tools.h"
#include "sbxd/worker/output.h"
#include "sbxd/worker/worker.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/*
 * The commands are arguments, each evaluated as it is: a comment, a here-
 * document or an unclosed quote in one cannot reach into the next.  One shell,
 * so cd and variables carry over, and `set -e` of a command holds; `exit`
 * alone passes on the status of the command that failed.
 */
static const char script[] =
    "for sbx_c in \"$@\"; do eval \"$sbx_c\"; case $? in 0) ;; *) exit ;; "
    "esac; done";

#define ENV_MAX_BYTES 24576	/* of EXEC_START */
#define KILL_MS 15000u
#define SLICE_MS 600000u	/* the monitor waits no longer than an hour */
#define WORK_DIR "/workspace"

static void
spec_init(struct run_spec *s)
{
	memset(s, 0, sizeof(*s));
	s->stdin_fd = -1;
	s->cwd = "";
	sbx_buf_init(&s->argv_buf, SBX_MAX_COMMANDS);
	sbx_buf_init(&s->env_buf, ENV_MAX_BYTES);
}

void
run_spec_clear(struct run_spec *s)
{
	sbx_close(&s->stdin_fd);
	sbx_buf_clear(&s->argv_buf);
	sbx_buf_clear(&s->env_buf);
}

int
run_spec_make(const char *container, const char *cwd,
    const char *const *argv, struct run_spec *ret_spec)
{
	int error = 0;

	spec_init(ret_spec);
	ret_spec->container = container;
	ret_spec->cwd = cwd;
	for (; error == 0 && *argv != NULL; argv++)
		error = sbx_strs_add(&ret_spec->argv, &ret_spec->argv_buf,
		    *argv);
	if (error == 0)
		error = sbx_memfd_sealed("stdin", "", 0, &ret_spec->stdin_fd);
	return (error);
}

/* Strings of a checked list, as arguments of the command. */
static int
add_list(struct run_spec *s, struct json_object *list)
{
	size_t i, n = json_object_array_length(list);
	int error = 0;

	for (i = 0; error == 0 && i < n; i++)
		error = sbx_strs_add(&s->argv, &s->argv_buf,
		    json_object_get_string(json_object_array_get_idx(list,
		    i)));
	return (error);
}

/* Exactly one of commands and argv. */
static int
spec_argv(struct call *call, struct run_spec *s)
{
	/* run_container_and_exec has no argv */
	struct json_object *commands = args_json(&call->args, "commands");
	struct json_object *argv = strcmp(call->tool->name,
	    "run_container_and_exec") == 0 ? NULL :
	    args_json(&call->args, "argv");
	int error = 0;

	if ((commands == NULL) == (argv == NULL)) {
		result_error(call->res, "bad_argument",
		    "Mend the argument and call again.",
		    commands == NULL ? "Give \"commands\" or \"argv\"." :
		    "Give \"commands\" or \"argv\", not both.");
		return (SBX_E_SYNTAX);
	}
	if (commands != NULL) {
		if (json_object_array_length(commands) == 1)
			s->only = json_object_get_string(
			    json_object_array_get_idx(commands, 0));
		error = sbx_strs_add(&s->argv, &s->argv_buf, "bash");
		if (error == 0)
			error = sbx_strs_add(&s->argv, &s->argv_buf, "-c");
		if (error == 0)
			error = sbx_strs_add(&s->argv, &s->argv_buf, script);
		if (error == 0)
			error = sbx_strs_add(&s->argv, &s->argv_buf, "bash");
	}
	if (error == 0)
		error = add_list(s, commands != NULL ? commands : argv);
	if (error == 0)
		return (0);
	result_error(call->res, "too_large",
	    "Copy a script in with copy_file and run that, or give the data "
	    "as stdin.", "\"%s\" is larger than %u bytes in all.",
	    commands != NULL ? "commands" : "argv", SBX_MAX_COMMANDS);
	return (SBX_E_SYNTAX);
}

/* NAME=value for each member. */
static int
spec_env(struct call *call, struct run_spec *s)
{
	struct json_object *env = args_json(&call->args, "env");
	SBX_CLEANUP_BUF struct sbx_buf pair = { 0 };
	int error = 0;

	sbx_buf_init(&pair, ENV_MAX_BYTES);
	if (env == NULL)
		return (0);
	json_object_object_foreach(env, name, value) {
		if (*name == '\0' || strchr(name, '=') != NULL) {
			result_error(call->res, "bad_argument",
			    "Mend the argument and call again.",
			    "\"env\": a name must not be empty or have \"=\".");
			return (SBX_E_SYNTAX);
		}
		sbx_buf_consume(&pair, pair.len);
		error = sbx_buf_printf(&pair, "%s=%s", name,
		    json_object_get_string(value));
		if (error == 0)
			error = sbx_strs_add(&s->env, &s->env_buf, pair.data);
		if (error != 0)
			break;
	}
	if (error == 0)
		return (0);
	result_error(call->res, "too_large",
	    "Put large values into a file, or give them as stdin.",
	    "\"env\" is larger than %u bytes in all.", ENV_MAX_BYTES);
	return (SBX_E_SYNTAX);
}

int
run_spec_from_args(struct call *call, struct run_spec *s)
{
	const char *text, *cwd = args_str(&call->args, "working_dir", NULL);
	uint64_t timeout_s = (uint64_t)args_int(&call->args, "timeout");
	size_t len;
	int error;

	spec_init(s);
	s->cwd = *cwd != '\0' ? cwd : WORK_DIR;
	s->timeout_ms = timeout_s != 0 ? timeout_s * 1000 :
	    call->exec_timeout_ms;
	if (*cwd != '\0' && *cwd != '/') {
		result_error(call->res, "bad_argument",
		    "Mend the argument and call again.",
		    "\"working_dir\" must be an absolute path, such as "
		    WORK_DIR "/%s.", cwd);
		return (SBX_E_SYNTAX);
	}
	error = spec_argv(call, s);
	if (error == 0)
		error = spec_env(call, s);
	if (error != 0)
		return (error);
	text = args_str(&call->args, "stdin", &len);
	return (sbx_memfd_sealed("stdin", text == NULL ? "" : text, len,
	    &s->stdin_fd));
}

int
run_start(struct call *call, const struct run_spec *s, char *ret_run)
{
	struct sbx_exec_start m = {
		.container = s->container, .argv = s->argv, .env = s->env,
		.cwd = s->cwd, .head = s->head, .timeout_ms = s->timeout_ms,
		.background = s->background,
	};

	/* A growing buffer moves: only now is it where it stays. */
	m.argv.data = s->argv_buf.data;
	m.env.data = s->env_buf.data;
	return (exec_start(call->ask, &m, s->stdin_fd, ret_run));
}

int
run_wait_most(struct call *call, const char *run, uint32_t ms,
    uint64_t timeout_ms, uint64_t max_out, struct ask_run *ret_state)
{
	uint64_t end = sbx_mono_ns() + (uint64_t)ms * 1000000, now;
	uint32_t left = ms, slice, i;
	char text[128];
	int error;

	/* Counted, so that a monitor that answers early makes no storm. */
	for (i = 0; i < ms / WORKER_PROGRESS_MS + 2; i++) {
		slice = call->want_progress || max_out != UINT64_MAX ?
		    WORKER_PROGRESS_MS : SLICE_MS;
		if (slice > left)
			slice = left;
		error = exec_wait(call->ask, run, slice, ret_state);
		if (error != 0 || ret_state->state == SBX_RUN_ENDED)
			return (error);
		if (ret_state->out_bytes > max_out)
			return (exec_kill(call->ask, run, ret_state));
		now = sbx_mono_ns();
		left = now < end ? (uint32_t)((end - now) / 1000000) : 0;
		if (left == 0)
			return (0);
		(void)snprintf(text, sizeof(text), "running for %" PRIu64
		    " s, %" PRIu64 " bytes of output",
		    ret_state->elapsed_ms / 1000, ret_state->out_bytes +
		    ret_state->err_bytes);
		error = call_progress(call, timeout_ms, text);
		if (error != 0)
			return (error);
	}
	return (0);
}

int
run_wait(struct call *call, const char *run, uint32_t ms,
    uint64_t timeout_ms, struct ask_run *ret_state)
{
	return (run_wait_most(call, run, ms, timeout_ms, UINT64_MAX,
	    ret_state));
}

/* A client that polls waits for the command's own time-out, and for what it
 * takes to kill it. */
static uint32_t
foreground_ms(const struct call *call, const struct run_spec *s)
{
	uint64_t ms = s->timeout_ms + KILL_MS;

	if (!call->patient || ms < WORKER_CALL_MS)
		return (call_left_ms(call));
	return (ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms);
}

int
run_await(struct call *call, const struct run_spec *s,
    struct ask_run *ret_state)
{
	char run[SBX_RUN_HEX + 1];
	int error;

	error = run_start(call, s, run);
	if (error != 0)
		return (call_refused(call, error));
	error = run_wait(call, run, foreground_ms(call, s), s->timeout_ms,
	    ret_state);
	if (error == SBX_E_POLICY) {
		error = call_refused(call, error);
		result_str(call->res, "run_id", run);
		return (error);
	}
	return (error != 0 ? error : 1);
}

int
run_foreground(struct call *call, const struct run_spec *s, bool *ret_over)
{
	struct ask_run state;
	int error;

	*ret_over = true;
	error = run_await(call, s, &state);
	if (error != 1)
		return (error);
	*ret_over = state.state == SBX_RUN_ENDED;
	return (run_result(call, &state, s->only));
}

/* --- showing it ----------------------------------------------------------- */

/* Ended from outside: its wait status says nothing of the command. */
static bool
killed_by_us(const struct ask_run *st)
{
	return (st->why == SBX_EXIT_TIMEOUT || st->why == SBX_EXIT_SANDBOX);
}

void
run_put_exit(struct call *call, const struct ask_run *st)
{
	const char *name;

	if (st->state != SBX_RUN_ENDED || killed_by_us(st)) {
		result_null(call->res, "exit_code");
		return;
	}
	if (!WIFSIGNALED(st->status)) {
		result_i64(call->res, "exit_code", WEXITSTATUS(st->status));
		return;
	}
	/* As a shell says it: 128 and the signal. */
	result_i64(call->res, "exit_code", 128 + WTERMSIG(st->status));
	name = sigabbrev_np(WTERMSIG(st->status));
	result_printf(call->res, "signal", "SIG%s", name != NULL ? name : "?");
}

static bool
is_ok(const struct ask_run *st)
{
	return (st->state == SBX_RUN_ENDED &&
	    (st->why == SBX_EXIT_EXITED || st->why == SBX_EXIT_MEMORY) &&
	    WIFEXITED(st->status) && WEXITSTATUS(st->status) == 0);
}

/* Begins the result: status, and what to do about it. */
static void
put_status(struct call *call, const struct ask_run *st)
{
	struct result *r = call->res;

	if (st->state != SBX_RUN_ENDED) {
		result_str(r, "status", "running");
		result_str(r, "job_id", st->run);
		result_str(r, "recommended_next_action",
		    "It goes on as a job: poll sandbox_exec_check with "
		    "job_id, or end it with sandbox_exec_kill.");
	} else if (st->why == SBX_EXIT_SANDBOX) {
		result_error(r, "sandbox_gone",
		    "read_output still reads what this run wrote. "
		    "sandbox_list_containers says whether the sandbox is "
		    "there; sandbox_initialize makes another.",
		    "The sandbox ended, or was restored, while this ran in "
		    "it.");
	} else if (st->why == SBX_EXIT_TIMEOUT) {
		result_str(r, "status", "timeout");
	} else {
		result_str(r, "status", is_ok(st) ? "ok" : "failed");
		if (st->why == SBX_EXIT_MEMORY)
			result_str(r, "recommended_next_action",
			    "The memory of the sandbox was used up while this "
			    "ran, and the kernel killed a process of it. Use "
			    "less, or make a sandbox with a larger "
			    "mem_limit.");
	}
}

int
run_result(struct call *call, const struct ask_run *st, const char *only)
{
	struct result *r = call->res;

	put_status(call, st);
	result_str(r, "run_id", st->run);
	if (sbx_is_hex(st->container, SBX_CONTAINER_HEX))
		result_str(r, "container_id", st->container);
	run_put_exit(call, st);
	if (only != NULL && st->state == SBX_RUN_ENDED && !is_ok(st) &&
	    (st->why == SBX_EXIT_EXITED || st->why == SBX_EXIT_MEMORY))
		result_masked(r, "failed_command", only, strnlen(only, 200));
	result_seconds(r, "elapsed_seconds", st->elapsed_ms);
	if (st->state != SBX_RUN_ENDED) {
		if (st->idle_ms == UINT64_MAX)
			result_null(r, "last_output_seconds_ago");
		else
			result_seconds(r, "last_output_seconds_ago",
			    st->idle_ms);
	}
	result_u64(r, "out_bytes", st->out_bytes);
	result_u64(r, "err_bytes", st->err_bytes);
	return (output_views(call, st, !is_ok(st) &&
	    st->state == SBX_RUN_ENDED));
}
