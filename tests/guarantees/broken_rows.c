/*
 * A broken build of whatever is linked with it (--wrap=sbx_privs_row): in each
 * row of the table that lists what is allowed, two more calls are, any socket
 * and any open, and its Landlock rules are gone.  For test_broken.py.
 */
#include "common/privs/row.h"

const struct sbx_privs_row *__real_sbx_privs_row(enum sbx_proc proc);
const struct sbx_privs_row *__wrap_sbx_privs_row(enum sbx_proc proc);

const struct sbx_privs_row *
__wrap_sbx_privs_row(enum sbx_proc proc)
{
	/* the first mention of a name wins; then the row's own first list */
	static struct sbx_privs_call calls[128] = {
		{ .name = "socket" }, { .name = "open" }, { .name = "openat" }
	};
	static struct sbx_privs_row row;
	size_t n = 3;

	row = *__real_sbx_privs_row(proc);
	if ((row.flags & SBX_ROW_ALLOW) == 0)
		return (__real_sbx_privs_row(proc));
	for (const struct sbx_privs_call *c = row.calls[0]; c->name != NULL &&
	    n < SBX_NELEM(calls) - 1; c++)
		calls[n++] = *c;
	calls[n].name = NULL;
	row.calls[0] = calls;
	row.flags &= ~(uint32_t)SBX_ROW_LANDLOCK;
	return (&row);
}
