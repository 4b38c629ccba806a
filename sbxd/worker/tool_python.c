/* run_python: code that reaches the interpreter by its standard input. */

#include "sbxd/worker/run.h"
#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <string.h>

/* Where package_install puts what a Python of the system will not take is
 * where code finds it. */
static const char script[] =
    "for p in \"${VIRTUAL_ENV:-$HOME/.venv}/bin/python3\" "
    "\"$HOME/.venv/bin/python3\" python3; do\n"
    "command -v \"$p\" >/dev/null && exec \"$p\" -\n"
    "done\n"
    "exit 127\n";

/* The script found none: it printed nothing, and a Python that starts at all
 * does not end so. */
static bool
missing(const struct ask_run *st)
{
	return (script_exit(st) == SCRIPT_MISSING && st->out_bytes == 0 &&
	    st->err_bytes == 0);
}

static int
show(struct call *call, const struct ask_run *st)
{
	if (st->state != SBX_RUN_ENDED || !missing(st))
		return (run_result(call, st, NULL));
	result_error(call->res, "no_python",
	    "Make a sandbox of an image that has it, such as python.",
	    "There is no python3 in this sandbox.");
	script_ids(call, st);
	return (0);
}

int
tool_run_python(struct call *call)
{
	static const char *const argv[] = { "sh", "-c", script, "sbx", NULL };
	uint64_t seconds = (uint64_t)args_int(&call->args, "timeout");
	struct run_spec spec;
	struct ask_run st;
	const char *dir, *code;
	char run[SBX_RUN_HEX + 1];
	size_t len;
	int error;

	if (!script_dir(call, &dir))
		return (0);
	code = args_str(&call->args, "code", &len);
	error = run_spec_make(args_str(&call->args, "container_id", NULL), dir,
	    argv, &spec);
	spec.timeout_ms = seconds != 0 ? seconds * 1000 :
	    call->exec_timeout_ms;
	sbx_close(&spec.stdin_fd);
	if (error == 0)
		error = sbx_memfd_sealed("code", code, len, &spec.stdin_fd);
	if (error == 0)
		error = run_start(call, &spec, run);
	run_spec_clear(&spec);
	if (error == 0)
		error = run_wait(call, run, script_wait_ms(call,
		    spec.timeout_ms), spec.timeout_ms, &st);
	return (error != 0 ? call_refused(call, error) : show(call, &st));
}
