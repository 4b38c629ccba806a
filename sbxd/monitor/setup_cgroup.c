#include "sbxd/monitor/monitor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/*
 * The suite's control groups, made once before the cage.  Each hierarchy gets
 * one group, named so that the next start of this slot knows a dead suite's
 * by its lock file; below it the engine makes one a sandbox, and the starter
 * removes all at its end.  The groups of others are left alone.
 */

#define STALE_MS 200		/* for the processes of a suite just killed */
#define MOVE_PASSES 16		/* processes may fork while they are moved */
#define MEM_MIN (UINT64_C(16) << 20)	/* less, and nothing starts */
#define MEM_FLOOR (UINT64_C(512) << 20)	/* of the default */
#define CPU_MIN 10		/* thousandths; the kernel takes 1 ms in 100 */
#define CPU_FLOOR 500

/* Children of the group get what of memory, pids and cpu there is; each
 * alone, since one that is missing would fail all. */
static void
give_controllers(int dir)
{
	static const char *const each[] = { "+memory", "+pids", "+cpu" };

	for (size_t i = 0; i < SBX_NELEM(each); i++)
		(void)sbx_cgroup_put(dir, "cgroup.subtree_control", each[i]);
}

/* All processes of a delegated group go to a leaf, for it gives its children
 * no controllers while it has some.  They are of our own unit. */
static int
empty_group(int base, struct sbx_err *err)
{
	char text[4096], *rest, *pid;

	if (mkdirat(base, "main", 0755) == -1 && errno != EEXIST)
		return (sbx_err_sys(err, "mkdir main"));
	for (unsigned pass = 0; pass < MOVE_PASSES; pass++) {
		if (sbx_cgroup_get(base, "cgroup.procs", text,
		    sizeof(text)) != 0)
			return (sbx_err_sys(err, "cgroup.procs"));
		if (text[0] == '\0')
			return (0);
		for (rest = text; (pid = strsep(&rest, "\n")) != NULL;)
			if (*pid != '\0')	/* it may have ended */
				(void)sbx_cgroup_put(base, "main/cgroup.procs",
				    pid);
	}
	return (sbx_err_set(err, SBX_E_LIMIT, "its processes cannot be moved "
	    "to a leaf"));
}

static int
open_base(const struct sbx_cgroup_place *p, bool v2, int *ret_fd,
    struct sbx_err *err)
{
	int SBX_CLEANUP(fd) top = -1, SBX_CLEANUP(fd) base = -1;
	int r;

	if (p->make) {
		top = open(p->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (top == -1)
			return (sbx_err_sys(err, "%.160s", p->mount));
		if (v2)
			give_controllers(top);
		/* 0755: groups of users may be made in it by hand */
		if (mkdir(p->base, 0755) == 0)
			(void)chmod(p->base, 0755);
		else if (errno != EEXIST)
			return (sbx_err_sys(err, "mkdir %.160s", p->base));
	}
	base = open(p->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (base == -1)
		return (sbx_err_sys(err, "%.160s", p->base));
	if (p->empty && (r = empty_group(base, err)) != 0)
		return (r);
	if (v2)
		give_controllers(base);
	*ret_fd = sbx_steal_fd(&base);
	return (0);
}

/* What a killed suite of this slot left: we hold its lock, so it is dead. */
static void
remove_stale(int base, const char *prefix)
{
	int fd = openat(base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (d == NULL) {
		sbx_close(&fd);
		return;
	}
	while ((e = readdir(d)) != NULL)
		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0 &&
		    sbx_cgroup_remove(base, e->d_name, STALE_MS) == 0)
			log_notice("left behind by an earlier run: control "
			    "group %s, removed", e->d_name);
	(void)closedir(d);
}

/*
 * The suite's group: the engine's to use, and by its group id also root's
 * own, since the starter has no capability to pass over a mode.
 */
static int
make_group(int base, const char *name, bool v2, uid_t engine,
    struct sbx_err *err)
{
	int SBX_CLEANUP(fd) fd = -1;

	if (mkdirat(base, name, 0770) == -1)
		return (sbx_err_sys(err, "mkdir %s", name));
	fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd == -1)
		return (sbx_err_sys(err, "%s", name));
	if (v2) {
		give_controllers(fd);
		if (mkdirat(fd, "engine", 0755) == -1)
			return (sbx_err_sys(err, "mkdir %s/engine", name));
	}
	if (geteuid() == 0 && (fchown(fd, engine, (gid_t)-1) == -1 ||
	    (v2 && fchownat(fd, "cgroup.procs", engine, (gid_t)-1, 0) == -1)))
		return (sbx_err_sys(err, "chown %s", name));
	if (fchmod(fd, 0770) == -1)
		return (sbx_err_sys(err, "chmod %s", name));
	return (0);
}

static int
setup_one(struct monitor *m, enum sbx_hierarchy h, uid_t engine,
    const struct sbx_cgroup_place *p, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) base = -1;
	bool v2 = h == SBX_CGROUP_V2;
	char prefix[48];
	struct stat st;
	int r;

	if (fstat(m->fd_lock, &st) == -1)
		return (sbx_err_sys(err, "the slot's lock"));
	if ((r = open_base(p, v2, &base, err)) != 0)
		return (r);
	(void)snprintf(prefix, sizeof(prefix), "suite-%u.%jx-%jx.", m->slot,
	    (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	remove_stale(base, prefix);
	(void)snprintf(m->groups[h].name, sizeof(m->groups[h].name), "%s%d",
	    prefix, (int)getpid());
	r = make_group(base, m->groups[h].name, v2, engine, err);
	if (r != 0) {
		(void)sbx_cgroup_remove(base, m->groups[h].name, 0);
		return (r);
	}
	m->groups[h].fd = sbx_steal_fd(&base);
	return (0);
}

/* What the controllers that we have can hold, as enum sbx_limit. */
static uint32_t
limits_of(unsigned controllers)
{
	uint32_t bits = SBX_LIMIT_PIDS_RLIMIT;

	if (controllers & SBX_CGROUP_BIT(SBX_CGROUP_MEMORY))
		bits |= SBX_LIMIT_MEMORY;
	if (controllers & SBX_CGROUP_BIT(SBX_CGROUP_PIDS))
		bits |= SBX_LIMIT_PIDS;
	if (controllers & SBX_CGROUP_BIT(SBX_CGROUP_CPU))
		bits |= SBX_LIMIT_CPU;
	return (bits);
}

/* A group that is missing is said and, unless required, does not matter. */
void
setup_cgroups(struct monitor *m, uid_t engine)
{
	struct sbx_cgroup_place p;
	struct sbx_err err = { 0 };
	unsigned controllers = 0;

	for (int h = 0; h < SBX_CGROUP_MAX; h++) {
		m->groups[h].fd = -1;
		if (sbx_cgroup_find((enum sbx_hierarchy)h, m->conf.cgroup,
		    geteuid(), &p) != 0 || !p.usable) {
			log_debug("no control group %s: %s", sbx_cgroup_name(
			    (enum sbx_hierarchy)h), p.why);
			continue;
		}
		if (setup_one(m, (enum sbx_hierarchy)h, engine, &p,
		    &err) != 0) {
			log_warn("no control group %s: %s, ignoring",
			    sbx_cgroup_name((enum sbx_hierarchy)h), err.msg);
			continue;
		}
		controllers |= p.controllers;
	}
	m->limits_able = limits_of(controllers);
	if (strcmp(m->conf.scratch_storage, "tmpfs") == 0)
		m->limits_able |= SBX_LIMIT_DISK;
	if (controllers != SBX_CGROUP_ALL)
		log_info("not enforced:%s%s%s; sbx doctor says the mend",
		    controllers & SBX_CGROUP_BIT(SBX_CGROUP_MEMORY) ? "" :
		    " memory", controllers & SBX_CGROUP_BIT(SBX_CGROUP_PIDS) ?
		    "" : " pids", controllers & SBX_CGROUP_BIT(SBX_CGROUP_CPU)
		    ? "" : " cpus");
}

void
setup_cgroups_undo(struct monitor *m)
{
	for (int h = 0; h < SBX_CGROUP_MAX; h++)
		if (m->groups[h].fd > 0)
			(void)sbx_cgroup_remove(m->groups[h].fd,
			    m->groups[h].name, 0);
}

int
setup_limits(struct monitor *m, struct sbx_err *err)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	struct sysinfo si;
	uint64_t mem;

	if (sysinfo(&si) == -1 || n < 1)
		return (sbx_err_sys(err, "sysinfo"));
	mem = (uint64_t)si.totalram * si.mem_unit;
	m->mem_max = mem / 10 * 9 & ~UINT64_C(4095);
	m->cpu_max = (uint32_t)n * 1000;
	if ((m->mem_default = m->conf.mem_limit) == 0)
		m->mem_default = mem / 4 > MEM_FLOOR ? mem / 4 : MEM_FLOOR;
	if (m->mem_default > m->mem_max)
		m->mem_default = m->mem_max;
	m->mem_default &= ~UINT64_C(4095);
	if (m->conf.cpus[0] == '\0')
		m->cpu_default = m->cpu_max / 4 > CPU_FLOOR ? m->cpu_max / 4 :
		    CPU_FLOOR;
	else
		(void)sbx_parse_cpus(m->conf.cpus, &m->cpu_default);
	if (m->cpu_default > m->cpu_max)
		m->cpu_default = m->cpu_max;
	if (m->cpu_default < CPU_MIN || m->mem_default < MEM_MIN)
		return (sbx_err_set(err, SBX_E_RANGE, "sbx.conf: cpus must be "
		    "at least 0.01 and mem_limit at least 16M"));
	return (0);
}
