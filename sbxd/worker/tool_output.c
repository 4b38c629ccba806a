/* read_output: stored output by lines. */

#include "sbxd/worker/output.h"

#include "sbxd/worker/worker.h"

#include <string.h>

static void
put_page(struct result *r, const struct output_page *p)
{
	uint64_t next = p->first + p->shown;
	bool more = next < p->total_lines;

	result_u64(r, "offset", p->first);
	result_strn(r, "output", p->text.len > 0 ? p->text.data : "",
	    p->text.len);
	result_u64(r, "shown", p->shown);
	result_u64(r, "total_lines", p->total_lines);
	result_bool(r, "truncated", more || p->first > 0);
	if (more)
		result_u64(r, "next_offset", next);
	else
		result_null(r, "next_offset");
	result_bool(r, "has_more", more);
	result_u64(r, "total_bytes", p->total_bytes);
	if (p->masked > 0)
		result_u64(r, "masked", p->masked);
	if (p->dropped > 0)
		result_u64(r, "dropped_bytes", p->dropped);
}

int
tool_read_output(struct call *call)
{
	const char *run = args_str(&call->args, "run_id", NULL);
	const char *stream = args_str(&call->args, "stream", NULL);
	bool has_tail = args_has(&call->args, "tail");
	struct output_page p;
	struct ask_run st;
	int error;

	if (has_tail && (args_has(&call->args, "limit") ||
	    args_int(&call->args, "offset") != 0)) {
		result_error(call->res, "bad_argument",
		    "Mend the argument and call again.",
		    "Give \"tail\", or \"offset\" and \"limit\", not both.");
		return (0);
	}
	error = exec_wait(call->ask, run, 0, &st);
	if (error != 0)
		return (call_refused(call, error));
	error = output_page(call, run, strcmp(stream, "stderr") == 0 ?
	    SBX_STREAM_ERR : SBX_STREAM_OUT,
	    (uint64_t)args_int(&call->args, "offset"),
	    (uint64_t)args_int(&call->args, "limit"),
	    has_tail ? (uint64_t)args_int(&call->args, "tail") : 0, &p);
	if (error == 0 && !p.known) {
		result_error(call->res, "output_gone",
		    "Run it again if the output is needed.",
		    "The output of run %s is no longer stored.", run);
	} else if (error == 0) {
		result_str(call->res, "status", st.state == SBX_RUN_ENDED ?
		    "ok" : "running");
		result_str(call->res, "run_id", run);
		result_str(call->res, "stream", stream);
		if (strcmp(st.tool, SBX_TOOL_SHELL) == 0)
			result_bool(call->res, "interactive", true);
		put_page(call->res, &p);
	}
	output_page_clear(&p);
	return (call_refused(call, error));
}
