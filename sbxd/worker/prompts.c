/*
 * Prompts, and completion of what has a known set of values.
 * Source: MCP revision 2025-06-18, server/prompts, server/utilities/completion.
 */

#include "sbxd/worker/worker.h"

int
prompts_list(struct call *call)
{
	result_open(call->res, "prompts", '[');
	result_close(call->res, ']');
	return (0);
}

int
prompts_get(struct call *call)
{
	result_error(call->res, "not_found", NULL, "There is no such prompt.");
	return (0);
}

int
prompts_complete(struct call *call)
{
	result_open(call->res, "completion", '{');
	result_open(call->res, "values", '[');
	result_close(call->res, ']');
	result_close(call->res, '}');
	return (0);
}
