#ifndef SBX_WORKER_LIMITS_H
#define SBX_WORKER_LIMITS_H

/* The limits of a sandbox, as arguments and in results. */

#include "common/base/base.h"

struct args;
struct call;
struct result;
struct sbx_sb_create;

/* What the monitor says of a sandbox: 0 is none, cpu in thousandths. */
struct limits {
	uint32_t nproc, nofile, enforced, cpu_milli;
	uint64_t mem_bytes, disk_bytes, ttl_s;
};

/*
 * mem_limit, cpus, disk_limit and ttl_seconds of sandbox_initialize to m.
 * 0, or SBX_E_SYNTAX with the error object in res.  How much is too much, the
 * monitor says.
 */
int limits_from_args(const struct args *a, struct sbx_sb_create *m,
    struct result *res);
/* The member `limits`: each with its value and whether anything holds it. */
void limits_put(struct result *r, const struct limits *l);
/* Items of the open array `warnings`: what was asked for and does not hold. */
void limits_warn(struct result *r, const struct args *a,
    const struct limits *l);

/* The same, for the client's log.  As call_log(). */
int limits_log(struct call *call, const struct limits *l);

#endif
