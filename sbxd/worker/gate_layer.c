/*
 * What the dependency layer of a fresh verification is made of, in the result.
 */

#include "sbxd/worker/gate.h"

#include "sbxd/worker/output.h"
#include "sbxd/worker/worker.h"

#define TAIL_LINES 40

static void
put_members(struct result *r, const struct ask_gate_deps *d)
{
	const char *s = NULL;

	result_str_or_null(r, "layer", d->layer);
	result_str_or_null(r, "setup", d->setup);
	result_open(r, "packages", '[');
	while ((s = sbx_strs_next(&d->packages, s)) != NULL)
		result_str(r, NULL, s);
	result_close(r, ']');
	result_bool(r, "prepared", d->prepared);
	if (d->prepared)
		result_bool(r, "cached", d->cached);
	result_str_or_null(r, "run_id", d->run);
	result_u64(r, "left_out", d->left_out);
	if (d->left_out > 0)
		result_printf(r, "note", "%u install%s of this sandbox %s not "
		    "in the layer: only what package_install got by name, "
		    "with a way out, can be. sandbox_initialize has setup "
		    "for the rest.", (unsigned)d->left_out, d->left_out == 1 ?
		    "" : "s", d->left_out == 1 ? "is" : "are");
}

int
gate_put_deps(struct call *call, const char *gate)
{
	struct ask_gate_deps d;
	struct output_page p;
	int error = gate_deps(call->ask, gate, &d);

	if (error != 0)
		return (error);
	result_open(call->res, "dependencies", '{');
	put_members(call->res, &d);
	if (d.error != 0) {
		error = output_page(call, d.run, SBX_STREAM_ERR, 0, 0,
		    TAIL_LINES, &p);
		if (error == 0 && p.text.len > 0)
			result_strn(call->res, "stderr", p.text.data,
			    p.text.len);
		output_page_clear(&p);
	}
	result_close(call->res, '}');
	return (error == SBX_E_POLICY ? 0 : error);
}
