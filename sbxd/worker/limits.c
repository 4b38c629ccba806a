#include "sbxd/worker/limits.h"

#include "common/base/cgroup.h"
#include "common/proto/proto.h"
#include "sbxd/worker/args.h"
#include "sbxd/worker/result.h"
#include "sbxd/worker/worker.h"

#include <math.h>
#include <string.h>

#define NO_GROUP "this user has no control group for it: sbx doctor, on the " \
	"host, prints the mend"
#define ON_DISK "scratch lies on the disk, which has no quota for it: " \
	"scratch_storage tmpfs in sbx.conf enforces it"

/* --- arguments ----------------------------------------------------------- */

static int
size_from(const struct args *a, const char *name, uint64_t *ret_bytes,
    struct result *res)
{
	const char *text = args_str(a, name, NULL);
	char vis[64];

	if (text == NULL || sbx_parse_size(text, ret_bytes) == 0)
		return (0);
	sbx_vis(vis, sizeof(vis), text, strlen(text));
	result_error(res, "bad_argument", "Mend the argument and call again.",
	    "\"%s\" must be a whole number of bytes above 0, with at most "
	    "one of k, m, g: write \"512m\" or \"2g\", not \"%s\".", name, vis);
	return (SBX_E_SYNTAX);
}

static int
cpus_from(const struct args *a, uint32_t *ret_milli, struct result *res)
{
	double v = args_number(a, "cpus");

	if (!args_has(a, "cpus"))
		return (0);
	if (v >= 0.0005 && v <= 4096) {
		*ret_milli = (uint32_t)lround(v * 1000);
		return (0);
	}
	result_error(res, "bad_argument", "Mend the argument and call again.",
	    "\"cpus\" must be a number of processors from 0.01 to those of "
	    "the machine, such as 0.5 or 2.");
	return (SBX_E_SYNTAX);
}

int
limits_from_args(const struct args *a, struct sbx_sb_create *m,
    struct result *res)
{
	int error;

	if ((error = size_from(a, "mem_limit", &m->mem_bytes, res)) != 0 ||
	    (error = cpus_from(a, &m->cpu_milli, res)) != 0 ||
	    (error = size_from(a, "disk_limit", &m->disk_bytes, res)) != 0)
		return (error);
	m->ttl_s = (uint64_t)args_int(a, "ttl_seconds");
	return (0);
}

/* --- results ------------------------------------------------------------- */

static const char *
why_not(const struct limits *l, uint32_t bit)
{
	if (l->enforced & bit)
		return (NULL);
	if (bit == SBX_LIMIT_DISK)
		return (ON_DISK);
	if (bit == SBX_LIMIT_SWAP && (l->enforced & SBX_LIMIT_MEMORY))
		return ("this kernel does not count swap");
	return (NO_GROUP);
}

/* After its value. */
static void
close_limit(struct result *r, bool enforced, const char *reason)
{
	result_bool(r, "enforced", enforced);
	if (reason != NULL)
		result_str(r, "reason", reason);
	result_close(r, '}');
}

static void
put_bytes(struct result *r, const char *name, const struct limits *l,
    uint64_t bytes, uint32_t bit)
{
	result_open(r, name, '{');
	if (bytes == 0 && bit != SBX_LIMIT_SWAP)
		result_null(r, "limit");
	else
		result_u64(r, "limit", bytes);
	close_limit(r, l->enforced & bit, why_not(l, bit));
}

/* RLIMIT_NPROC counts a sandbox's processes alone where its user namespace
 * has a count of its own (Linux 5.14). */
static void
put_pids(struct result *r, const struct limits *l)
{
	bool group = l->enforced & SBX_LIMIT_PIDS;

	result_open(r, "pids", '{');
	result_u64(r, "limit", l->nproc);
	close_limit(r, group || (l->enforced & SBX_LIMIT_PIDS_RLIMIT),
	    group ? NULL : l->enforced & SBX_LIMIT_PIDS_RLIMIT ?
	    "by RLIMIT_NPROC only, without a control group" : NO_GROUP);
}

void
limits_put(struct result *r, const struct limits *l)
{
	result_open(r, "limits", '{');
	put_bytes(r, "memory", l, l->mem_bytes, SBX_LIMIT_MEMORY);
	put_bytes(r, "swap", l, 0, SBX_LIMIT_SWAP);
	result_open(r, "cpus", '{');
	if (l->cpu_milli == 0)
		result_null(r, "limit");
	else
		result_seconds(r, "limit", l->cpu_milli); /* n / 1000 */
	close_limit(r, l->enforced & SBX_LIMIT_CPU, why_not(l, SBX_LIMIT_CPU));
	put_pids(r, l);
	put_bytes(r, "disk", l, l->disk_bytes, SBX_LIMIT_DISK);
	result_open(r, "nofile", '{');
	result_u64(r, "limit", l->nofile);
	close_limit(r, true, NULL);
	result_close(r, '}');
}

static const struct { const char *name; uint32_t bit; } limited[] = {
	{ "mem_limit", SBX_LIMIT_MEMORY }, { "cpus", SBX_LIMIT_CPU },
	{ "disk_limit", SBX_LIMIT_DISK },
};

void
limits_warn(struct result *r, const struct args *a, const struct limits *l)
{
	for (size_t i = 0; i < SBX_NELEM(limited); i++)
		if (args_has(a, limited[i].name) &&
		    !(l->enforced & limited[i].bit))
			result_printf(r, NULL, "%s is not enforced: %s.",
			    limited[i].name, why_not(l, limited[i].bit));
}

int
limits_log(struct call *call, const struct limits *l)
{
	int error = 0;
	size_t i;

	for (i = 0; error == 0 && i < SBX_NELEM(limited); i++)
		if (args_has(&call->args, limited[i].name) &&
		    !(l->enforced & limited[i].bit))
			error = call_log(call, SBX_MCP_WARNING,
			    "%s is not enforced: %s", limited[i].name,
			    why_not(l, limited[i].bit));
	return (error);
}
