/*
 * Control groups: one a sandbox in each hierarchy that the monitor found, made
 * with the sandbox, before its id and its limits are known.  Nothing but its
 * child is ever in it.  What the kernel did not take is not enforced, and the
 * bits that the monitor gets say so: they come from reading back.
 */
#include "sbxd/engine/engine.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RETRY_MS 20		/* the last process of a group is going */
#define RETRIES 250
#define PERIOD_US 100000ull	/* of the processor's quota */
/* Beside what a guest may have (RLIMIT_NPROC): PID 1, the supervisors of its
 * runs and its helpers, so that a fork bomb cannot keep us from it. */
#define PIDS_OWN (1 + SBX_MAX_JOBS_SANDBOX + 15)

/* A group that could not be removed at once. */
struct group_left {
	LIST_ENTRY(group_left) link;
	unsigned serial, has, tries;
};

static void
serial_name(char name[16], unsigned serial)
{
	(void)snprintf(name, 16, "%u", serial);
}

/* --- the suite's groups -------------------------------------------------- */

int
groups_add(struct groups *g, unsigned hierarchy, int parent, const char *name)
{
	int SBX_CLEANUP(fd) fd = parent;

	if (hierarchy >= SBX_CGROUP_MAX || g->dir[hierarchy] != -1)
		return (SBX_E_POLICY);
	g->dir[hierarchy] = openat(fd, name, O_RDONLY | O_DIRECTORY |
	    O_NOFOLLOW | O_CLOEXEC);
	if (g->dir[hierarchy] == -1)
		log_warn("control group %s: %s; its limits are not enforced, "
		    "ignoring", name, strerror(errno));
	return (0);
}

static unsigned
remove_now(struct groups *g, unsigned serial, unsigned has)
{
	char name[16];

	serial_name(name, serial);
	for (int h = 0; h < SBX_CGROUP_MAX; h++)
		if ((has & 1u << h) && (unlinkat(g->dir[h], name,
		    AT_REMOVEDIR) == 0 || errno == ENOENT))
			has &= ~(1u << h);
	return (has);
}

static void
arm(struct groups *g)
{
	const struct timeval soon = { 0, RETRY_MS * 1000 };

	if (event_add(g->timer, &soon) == -1)
		sbx_fatal("out of memory");
}

static void
on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct groups *g = arg;
	struct group_left *l, *next;

	(void)fd, (void)what;
	for (l = LIST_FIRST(&g->left); l != NULL; l = next) {
		next = LIST_NEXT(l, link);
		l->has = remove_now(g, l->serial, l->has);
		if (l->has != 0 && ++l->tries < RETRIES)
			continue;
		if (l->has != 0)
			log_warn("control group %u stays until the suite "
			    "ends: %s, ignoring", l->serial, strerror(errno));
		LIST_REMOVE(l, link);
		free(l);
	}
	if (!LIST_EMPTY(&g->left))
		arm(g);
}

int
groups_open(struct groups *g, struct event_base *base)
{
	for (int h = 0; h < SBX_CGROUP_MAX; h++)
		g->dir[h] = -1;
	LIST_INIT(&g->left);
	g->timer = evtimer_new(base, on_retry, g);
	return (g->timer != NULL ? 0 : SBX_E_SYS);
}

/* --- one sandbox's ------------------------------------------------------- */

/* v2: the group itself, for clone3(2).  v1: `tasks`, since one thread that
 * moves itself there needs no lock over all of the machine. */
static int
open_join(const struct groups *g, int h, const char *name)
{
	char path[32];

	if (h == SBX_CGROUP_V2)
		return (openat(g->dir[h], name, O_RDONLY | O_DIRECTORY |
		    O_CLOEXEC));
	(void)snprintf(path, sizeof(path), "%s/tasks", name);
	return (openat(g->dir[h], path, O_WRONLY | O_CLOEXEC));
}

void
group_make(struct groups *g, struct cgroup *ret_group,
    int ret_join[SBX_CGROUP_MAX])
{
	char name[16];

	*ret_group = (struct cgroup){ .serial = ++g->serial, .kills = -1 };
	serial_name(name, g->serial);
	for (int h = 0; h < SBX_CGROUP_MAX; h++) {
		ret_join[h] = -1;
		if (g->dir[h] == -1)
			continue;
		if (mkdirat(g->dir[h], name, 0755) == 0) {
			ret_group->has |= 1u << h;
			ret_join[h] = open_join(g, h, name);
		}
		if (ret_join[h] == -1)
			log_warn("control group %s of %s: %s, ignoring", name,
			    sbx_cgroup_name((enum sbx_hierarchy)h),
			    strerror(errno));
		else
			ret_group->joined |= 1u << h;
	}
}

/* Which hierarchy's file this sandbox's controller h is in; -1: none. */
static int
where(const struct cgroup *gr, const struct groups *g, int h,
    const char *v2_file, char path[64])
{
	if (gr->joined & 1u << h) {
		(void)snprintf(path, 64, "%u", gr->serial);
		return (h);
	}
	(void)snprintf(path, 64, "%u/%s", gr->serial, v2_file);
	if ((gr->joined & 1u << SBX_CGROUP_V2) &&
	    faccessat(g->dir[SBX_CGROUP_V2], path, W_OK, AT_EACCESS) == 0)
		return (SBX_CGROUP_V2);
	return (-1);
}

/* Written, and the same when read back. */
static bool
set(const struct groups *g, const struct cgroup *gr, int h, const char *file,
    const char *text)
{
	char path[64], back[64];
	size_t n = strlen(text);

	(void)snprintf(path, sizeof(path), "%u/%s", gr->serial, file);
	return (sbx_cgroup_put(g->dir[h], path, text) == 0 &&
	    sbx_cgroup_get(g->dir[h], path, back, sizeof(back)) == 0 &&
	    strncmp(back, text, n) == 0 && (back[n] == '\n' ||
	    back[n] == '\0'));
}

static bool
set_u64(const struct groups *g, const struct cgroup *gr, int h,
    const char *file, uint64_t v)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, v);
	return (set(g, gr, h, file, text));
}

/* And swap, which must not be a way round it. */
static uint32_t
set_memory(const struct groups *g, struct cgroup *gr, uint64_t bytes)
{
	char path[64];
	int h = where(gr, g, SBX_CGROUP_MEMORY, "memory.max", path);
	bool v2 = h == SBX_CGROUP_V2;
	uint32_t bits = 0;

	if (h == -1 || !set_u64(g, gr, h, v2 ? "memory.max" :
	    "memory.limit_in_bytes", bytes))
		return (0);
	bits = SBX_LIMIT_MEMORY;
	if (v2 ? set_u64(g, gr, h, "memory.swap.max", 0) :
	    set_u64(g, gr, h, "memory.memsw.limit_in_bytes", bytes))
		bits |= SBX_LIMIT_SWAP;
	(void)snprintf(path, sizeof(path), "%u/%s", gr->serial, v2 ?
	    "memory.events" : "memory.oom_control");
	gr->kills = openat(g->dir[h], path, O_RDONLY | O_CLOEXEC);
	return (bits);
}

static uint32_t
set_pids(const struct groups *g, const struct cgroup *gr, uint32_t n)
{
	char path[64];
	int h = where(gr, g, SBX_CGROUP_PIDS, "pids.max", path);

	return (h != -1 && set_u64(g, gr, h, "pids.max", n + PIDS_OWN) ?
	    SBX_LIMIT_PIDS : 0);
}

static uint32_t
set_cpu(const struct groups *g, const struct cgroup *gr, uint32_t milli)
{
	uint64_t quota = milli * PERIOD_US / 1000;
	char path[64], text[48];
	int h = where(gr, g, SBX_CGROUP_CPU, "cpu.max", path);
	bool done;

	if (h == -1)
		return (0);
	(void)snprintf(text, sizeof(text), "%" PRIu64 " %llu", quota,
	    PERIOD_US);
	done = h == SBX_CGROUP_V2 ? set(g, gr, h, "cpu.max", text) :
	    set_u64(g, gr, h, "cpu.cfs_period_us", PERIOD_US) &&
	    set_u64(g, gr, h, "cpu.cfs_quota_us", quota);
	return (done ? SBX_LIMIT_CPU : 0);
}

uint32_t
group_limit(const struct groups *g, struct cgroup *gr, uint64_t mem_bytes,
    uint32_t cpu_milli, uint32_t pids)
{
	uint32_t bits = SBX_LIMIT_PIDS_RLIMIT;	/* sbx-init sets that one */

	if (mem_bytes != 0)
		bits |= set_memory(g, gr, mem_bytes);
	if (cpu_milli != 0)
		bits |= set_cpu(g, gr, cpu_milli);
	return (bits | set_pids(g, gr, pids));
}

/* The line "oom_kill N"; 0 when there is none. */
uint64_t
group_kills(const struct cgroup *gr)
{
	char text[512], *rest = text, *line;
	uint64_t n = 0;
	ssize_t got = gr->kills == -1 ? -1 : pread(gr->kills, text,
	    sizeof(text) - 1, 0);

	if (got <= 0)
		return (0);
	text[got] = '\0';
	while ((line = strsep(&rest, "\n")) != NULL)
		if (strncmp(line, "oom_kill ", 9) == 0 &&
		    sbx_parse_u64(line + 9, 0, UINT64_MAX, &n) != 0)
			n = 0;
	return (n);
}

void
group_hurry(const struct groups *g, const struct cgroup *gr)
{
	char path[64];
	int h = where(gr, g, SBX_CGROUP_CPU, "cpu.max", path);

	if (h == -1)
		return;
	(void)snprintf(path, sizeof(path), "%u/%s", gr->serial,
	    h == SBX_CGROUP_V2 ? "cpu.max" : "cpu.cfs_quota_us");
	(void)sbx_cgroup_put(g->dir[h], path, h == SBX_CGROUP_V2 ? "max" :
	    "-1");
}

void
group_drop(struct groups *g, struct cgroup *gr)
{
	unsigned serial = gr->serial, has = gr->has;
	struct group_left *l;

	sbx_close(&gr->kills);
	*gr = (struct cgroup){ .kills = -1 };
	if (has == 0 || (has = remove_now(g, serial, has)) == 0)
		return;
	l = sbx_xcalloc(1, sizeof(*l));
	l->serial = serial;
	l->has = has;
	LIST_INSERT_HEAD(&g->left, l, link);
	arm(g);
}
