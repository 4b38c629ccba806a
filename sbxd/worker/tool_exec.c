/* Running programs in a sandbox, and what becomes of them. */

#include "sbxd/worker/run.h"

#include "sbxd/worker/worker.h"

#include <stdio.h>
#include <string.h>

int
tool_sandbox_exec(struct call *call)
{
	struct run_spec spec;
	bool over;
	int error;

	error = run_spec_from_args(call, &spec);
	spec.container = args_str(&call->args, "container_id", NULL);
	if (error == 0)
		error = run_foreground(call, &spec, &over);
	run_spec_clear(&spec);
	return (error == SBX_E_SYNTAX ? 0 : error);
}

/* Without a timeout of its own a job has none: the server's is for calls. */
int
tool_sandbox_exec_background(struct call *call)
{
	struct run_spec spec;
	char run[SBX_RUN_HEX + 1];
	int error;

	error = run_spec_from_args(call, &spec);
	spec.container = args_str(&call->args, "container_id", NULL);
	spec.background = true;
	spec.timeout_ms = (uint64_t)args_int(&call->args, "timeout") * 1000;
	if (error != 0) {
		run_spec_clear(&spec);
		return (error == SBX_E_SYNTAX ? 0 : error);
	}
	error = run_start(call, &spec, run);
	run_spec_clear(&spec);
	if (error != 0)
		return (call_refused(call, error));
	result_str(call->res, "status", "running");
	result_str(call->res, "job_id", run);
	result_str(call->res, "run_id", run);
	result_str(call->res, "container_id", spec.container);
	return (0);
}

/*
 * A job that is not in the sandbox that the caller named is not what the
 * caller means.  false: the error object is made.
 */
static bool
in_sandbox(struct call *call, const struct ask_run *st)
{
	const char *container = args_str(&call->args, "container_id", NULL);

	if (container == NULL || strcmp(container, st->container) == 0)
		return (true);
	result_error(call->res, "unknown_run",
	    "Leave container_id out, or give the right one.",
	    "Job %s did not run in sandbox %s.", st->run, container);
	return (false);
}

/*
 * A run of these writes records, and exits with 0 whatever its verdict: what
 * it comes to is theirs to say.  true: said so.
 */
static bool
is_anothers(struct call *call, const struct ask_run *st)
{
	static const char *const tools[] = { "verify_in_container",
		"lint_in_container", "type_check_in_container" };
	struct result *r = call->res;
	char next[160];
	size_t i;

	for (i = 0; i < SBX_NELEM(tools) && strcmp(st->tool, tools[i]) != 0;
	    i++)
		;
	if (i == SBX_NELEM(tools))
		return (false);
	(void)snprintf(next, sizeof(next), "Call %s with run_id: it waits for "
	    "the end and gives the verdict.", tools[i]);
	if (st->state != SBX_RUN_ENDED) {
		result_str(r, "status", "running");
		result_str(r, "recommended_next_action", next);
	} else {
		result_error(r, "other_tool", next, "Run %s is one of %s and "
		    "has ended: its exit code is no verdict.", st->run,
		    tools[i]);
	}
	result_str(r, "job_id", st->run);
	result_str(r, "run_id", st->run);
	if (sbx_is_hex(st->container, SBX_CONTAINER_HEX))
		result_str(r, "container_id", st->container);
	run_put_exit(call, st);
	result_seconds(r, "elapsed_seconds", st->elapsed_ms);
	result_str(r, "output", "");
	result_u64(r, "shown", 0);
	result_u64(r, "total_lines", 0);
	result_bool(r, "truncated", false);
	result_null(r, "next_offset");
	result_bool(r, "has_more", false);
	result_u64(r, "out_bytes", st->out_bytes);
	result_u64(r, "err_bytes", st->err_bytes);
	return (true);
}

int
tool_sandbox_exec_check(struct call *call)
{
	const char *job = args_str(&call->args, "job_id", NULL);
	uint32_t wait_ms = (uint32_t)args_int(&call->args, "wait") * 1000;
	struct ask_run st;
	int error;

	error = exec_wait(call->ask, job, 0, &st);
	if (error != 0)
		return (call_refused(call, error));
	if (!in_sandbox(call, &st))
		return (0);
	if (st.state != SBX_RUN_ENDED && wait_ms > 0) {
		error = run_wait(call, job, wait_ms, 0, &st);
		if (error != 0)
			return (call_refused(call, error));
	}
	return (is_anothers(call, &st) ? 0 : run_result(call, &st, NULL));
}

int
tool_sandbox_exec_kill(struct call *call)
{
	const char *job = args_str(&call->args, "job_id", NULL);
	struct ask_run st;
	bool live;
	int error;

	error = exec_wait(call->ask, job, 0, &st);
	if (error != 0)
		return (call_refused(call, error));
	if (!in_sandbox(call, &st))
		return (0);
	live = st.state != SBX_RUN_ENDED;
	/* Also when the command has ended: its descendants may live on. */
	error = exec_kill(call->ask, job, &st);
	if (error != 0 && (error != SBX_E_POLICY || live))
		return (call_refused(call, error));
	result_str(call->res, "status", "ok");
	result_str(call->res, "job_id", st.run);
	result_str(call->res, "run_id", st.run);
	if (sbx_is_hex(st.container, SBX_CONTAINER_HEX))
		result_str(call->res, "container_id", st.container);
	result_bool(call->res, "killed", live);
	/* No signal: the member is not in this result. */
	if (st.state == SBX_RUN_ENDED && !live &&
	    (st.why == SBX_EXIT_EXITED || st.why == SBX_EXIT_MEMORY))
		result_i64(call->res, "exit_code", (st.status >> 8) & 0xff);
	else
		result_null(call->res, "exit_code");
	result_seconds(call->res, "elapsed_seconds", st.elapsed_ms);
	return (0);
}
