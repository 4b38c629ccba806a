#ifndef SBX_BASE_CGROUP_H
#define SBX_BASE_CGROUP_H

/*
 * Control groups: which hierarchies this machine has, and where below them a
 * suite may make its groups.  Finding changes nothing; the monitor makes the
 * group (sbxd/monitor/setup_cgroup.c), `sbx doctor` prints what was found.
 * Source: cgroups(7); the kernel's admin-guide/cgroup-v2.rst, cgroup-v1/.
 */

#include "common/base/base.h"

#include <limits.h>
#include <sys/types.h>

/* Whose controllers: all of a v2 hierarchy, or one of v1's. */
enum sbx_hierarchy {
	SBX_CGROUP_V2, SBX_CGROUP_MEMORY, SBX_CGROUP_PIDS, SBX_CGROUP_CPU,
	SBX_CGROUP_MAX
};
#define SBX_CGROUP_BIT(h) (1u << (h))	/* of a controller, never of V2 */
#define SBX_CGROUP_ALL (SBX_CGROUP_BIT(SBX_CGROUP_MEMORY) | \
    SBX_CGROUP_BIT(SBX_CGROUP_PIDS) | SBX_CGROUP_BIT(SBX_CGROUP_CPU))
/* "memory", "pids", "cpu"; "v2" */
const char *sbx_cgroup_name(enum sbx_hierarchy h);

/* Where the group of a suite goes in one hierarchy. */
struct sbx_cgroup_place {
	bool usable;		/* else why and mend say what is missing */
	bool make;		/* base is to be made (0755) when missing */
	bool empty;		/* v2: move what runs in base to a leaf first */
	unsigned controllers;	/* SBX_CGROUP_BIT()s that it is used for */
	char mount[256];	/* absolute: the hierarchy's root */
	char base[PATH_MAX];	/* absolute: the suite's group is made in it */
	char why[256];		/* a sentence without its full stop */
	char mend[768];		/* shell commands, a line each */
};

/*
 * Find the place in hierarchy h.  wanted: the keyword `cgroup`, a path below
 * the hierarchy's root, or "" to look for one: for root, a delegated own
 * group (systemd's Delegate=yes) or /sbx; else the nearest group that this
 * user may use, or /sbx/uid-UID.  A controller that v1 has is v1's.
 * 0, also when there is none (not usable), or SBX_E_SYS.  Reads files of
 * /proc and /sys; changes nothing.
 */
int sbx_cgroup_find(enum sbx_hierarchy h, const char *wanted, uid_t uid,
    struct sbx_cgroup_place *ret_place);

/*
 * Remove the group `name` of the group open as parent, and the groups below
 * it; name is one component.  A group that still has processes is tried again
 * until wait_ms have passed.  0, SBX_E_NOENT, SBX_E_POLICY (not a group),
 * SBX_E_TIMEOUT, SBX_E_SYS (errno); blocks up to wait_ms.
 */
int sbx_cgroup_remove(int parent, const char *name, unsigned wait_ms);
/* Write text to a group's file (path relative to dir).  0, SBX_E_SYS. */
int sbx_cgroup_put(int dir, const char *path, const char *text);
/* What a group's file says, cut at size - 1 bytes.  0, SBX_E_SYS. */
int sbx_cgroup_get(int dir, const char *path, char *dst, size_t size);

/* One limit, as doctor prints it. */
enum sbx_limit_row {
	SBX_ROW_MEMORY, SBX_ROW_SWAP, SBX_ROW_PIDS, SBX_ROW_CPUS,
	SBX_ROW_DISK, SBX_LIMIT_ROWS
};
struct sbx_limit_probe {
	const char *name;	/* "memory" ... */
	bool enforced;		/* a suite that this user starts enforces it */
	char how[256];		/* by what; else what is missing */
	char mend[768];		/* "" when enforced, else commands, a line each */
};
/*
 * What a suite of this user, started from here, would enforce.  wanted,
 * storage: the keywords `cgroup` and `scratch_storage`.
 * 0 or SBX_E_SYS.  As sbx_cgroup_find() it changes nothing.
 */
int sbx_limits_probe(const char *wanted, const char *storage, uid_t uid,
    struct sbx_limit_probe ret_rows[SBX_LIMIT_ROWS]);

/*
 * "2", "0.5", "1.25" as thousandths.  0, SBX_E_SYNTAX, SBX_E_RANGE (0, or
 * more than 4096 processors).
 */
int sbx_parse_cpus(const char *s, uint32_t *ret_milli);
/* "512m", "2g", "1048576": digits and at most one of k, m, g, t (powers of
 * 1024, either case).  0, SBX_E_SYNTAX, SBX_E_RANGE (0, or 2^63 and more). */
int sbx_parse_size(const char *s, uint64_t *ret_bytes);
/* The other way, with the largest unit that divides it: "2g".  Returns dst. */
const char *sbx_format_size(char *dst, size_t size, uint64_t bytes);

#endif
