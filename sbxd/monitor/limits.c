#include "sbxd/monitor/monitor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * How much a sandbox may have: what was asked for, within what the machine
 * has, or the configured default.  The engine sets it and reports what holds.
 */

#define MEM_MIN (UINT64_C(16) << 20)	/* less, and no command starts */
#define DISK_MIN (UINT64_C(1) << 20)
#define CPU_MIN 10			/* the kernel's: 1 ms of 100 */
#define TTL_MAX (30 * 86400)

/* Which of them nothing here can hold; NULL: none. */
static const char *
missing(const struct monitor *m, const struct limits *l, bool disk_wanted,
    char *dst, size_t size)
{
	uint32_t able = m->limits_able;

	(void)snprintf(dst, size, "%s%s%s%s",
	    able & SBX_LIMIT_MEMORY ? "" : " mem_limit",
	    able & SBX_LIMIT_CPU ? "" : " cpus",
	    able & SBX_LIMIT_PIDS ? "" : " pids",
	    !disk_wanted || l->disk_bytes == 0 || (able & SBX_LIMIT_DISK) ?
	    "" : " disk_limit");
	return (dst[0] != '\0' ? dst : NULL);
}

/* The numbers; NULL or what is wrong with them. */
static const char *
fill(const struct monitor *m, const struct sbx_sb_create *q,
    struct limits *l, char *dst, size_t size)
{
	bool tmpfs = m->limits_able & SBX_LIMIT_DISK;
	char most[32];

	l->mem_bytes = q->mem_bytes != 0 ? q->mem_bytes & ~UINT64_C(4095) :
	    m->mem_default;
	l->cpu_milli = q->cpu_milli != 0 ? q->cpu_milli : m->cpu_default;
	l->disk_bytes = q->disk_bytes != 0 ? q->disk_bytes :
	    m->conf.disk_limit;
	if (l->disk_bytes == 0 && tmpfs)
		l->disk_bytes = l->mem_bytes / 2;
	l->ttl_s = reap_ttl(m, q->ttl_s);
	*dst = '\0';
	if (l->mem_bytes < MEM_MIN || l->mem_bytes > m->mem_max)
		(void)snprintf(dst, size, "mem_limit must be 16m to %s, nine "
		    "tenths of this machine's memory", sbx_format_size(most,
		    sizeof(most), m->mem_max >> 20 << 20));
	else if (l->cpu_milli < CPU_MIN || l->cpu_milli > m->cpu_max)
		(void)snprintf(dst, size, "cpus must be 0.01 to %u, which is "
		    "what this machine has", m->cpu_max / 1000);
	else if (l->disk_bytes != 0 && (l->disk_bytes < DISK_MIN ||
	    l->disk_bytes > INT64_MAX))
		(void)snprintf(dst, size, "disk_limit must be at least 1m");
	else if (l->ttl_s > TTL_MAX)
		(void)snprintf(dst, size, "ttl_seconds must be at most %u, "
		    "which is 30 days", TTL_MAX);
	return (*dst != '\0' ? dst : NULL);
}

const char *
limits_resolve(const struct monitor *m, const struct sbx_sb_create *q,
    struct limits *ret_limits, const char **ret_code, char *dst, size_t size)
{
	char which[64];

	memset(ret_limits, 0, sizeof(*ret_limits));
	*ret_code = "bad_argument";
	if (fill(m, q, ret_limits, dst, size) != NULL)
		return (dst);
	if (!m->conf.require_limits || missing(m, ret_limits,
	    q->disk_bytes != 0 || m->conf.disk_limit != 0, which,
	    sizeof(which)) == NULL)
		return (NULL);
	*ret_code = "limits_unavailable";
	(void)snprintf(dst, size, "require_limits is set, and this machine "
	    "cannot enforce:%s", which);
	return (dst);
}
