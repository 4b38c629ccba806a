/*
 * Killing whole trees.  PID 1's /proc was mounted for it and no guest can
 * mount over it, so what it shows is what there is.
 */
#include "sbxd/init/init.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_PROCS 4096		/* far above RLIMIT_NPROC of a sandbox */
#define STOP_PASSES 32
#define PASS_MS 3

enum place { UNKNOWN, OUTSIDE, BELOW };
struct proc {
	pid_t pid, parent, group;
	bool alive, stopped;
	enum place place;
};
/* In the order of pid, as proc(5) lists them.  Not on the stack, and never
 * more: a guest decides how many there are. */
static struct proc procs[MAX_PROCS];
static size_t nprocs;
static bool overflow;

/* The next blank-separated number; *s moves behind it. */
static int
number(char **s)
{
	int v = 0, sign = 1;

	while (**s == ' ')
		(*s)++;
	if (**s == '-') {
		sign = -1;
		(*s)++;
	}
	for (; **s >= '0' && **s <= '9'; (*s)++)
		v = v * 10 + (**s - '0');
	while (**s != ' ' && **s != '\0')
		(*s)++;
	return (sign * v);
}

/*
 * "pid (comm) S ppid pgrp ...": comm may hold anything, the last ')' ends it.
 * A process whose first thread has ended is shown as a zombie while the
 * others run: only the number of threads (the 20th field) tells.
 */
static bool
read_stat(const char *name, struct proc *p)
{
	char path[32], buf[512], *s;
	uint64_t v;
	ssize_t n;
	int fd, threads = 0;

	if (sbx_parse_u64(name, 1, INT32_MAX, &v) != 0)
		return (false);
	(void)snprintf(path, sizeof(path), "/proc/%s/stat", name);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return (false);
	n = read(fd, buf, sizeof(buf) - 1);
	(void)close(fd);
	if (n <= 0)
		return (false);
	buf[n] = '\0';
	if ((s = strrchr(buf, ')')) == NULL || s[1] != ' ' || s[2] == '\0')
		return (false);
	*p = (struct proc){ .pid = (pid_t)v, .stopped = s[2] == 'T',
		.alive = s[2] != 'Z' && s[2] != 'X' };
	s += 3;
	p->parent = number(&s);
	p->group = number(&s);
	for (int field = 6; field <= 20; field++)
		threads = number(&s);
	if (threads > 1)
		p->alive = true;
	return (true);
}

static void
scan(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	nprocs = 0;
	overflow = d == NULL;
	if (d == NULL)
		return;
	while ((e = readdir(d)) != NULL) {
		if (nprocs == MAX_PROCS) {
			overflow = true;	/* nobody is known to be dead */
			break;
		}
		if (read_stat(e->d_name, &procs[nprocs]))
			nprocs++;
	}
	(void)closedir(d);
}

static struct proc *
find(pid_t pid)
{
	size_t low = 0, high = nprocs;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (procs[mid].pid < pid)
			low = mid + 1;
		else
			high = mid;
	}
	return (low < nprocs && procs[low].pid == pid ? &procs[low] : NULL);
}

/* Where p is, seen from root; what is on the way there is settled with it. */
static enum place
place_of(struct proc *p, pid_t root)
{
	enum place where = UNKNOWN;
	struct proc *up = p, *next;

	for (size_t hops = 0; where == UNKNOWN && hops <= nprocs; hops++) {
		if (up->place != UNKNOWN)
			where = up->place;
		else if (up->parent == root)
			where = BELOW;
		else if (up->parent <= 1 || (next = find(up->parent)) == NULL)
			where = OUTSIDE;	/* or its parent is just gone:
						 * the next pass sees where it
						 * fell */
		else
			up = next;
	}
	for (up = p; up != NULL && up->place == UNKNOWN; up = find(up->parent))
		up->place = where;
	return (where);
}

/* Mark everything below root (without it); the number of those alive. */
static size_t
mark_below(pid_t root, size_t *ret_running)
{
	size_t alive = 0;

	*ret_running = 0;
	for (size_t i = 0; i < nprocs; i++)
		procs[i].place = procs[i].pid == root ? OUTSIDE : UNKNOWN;
	for (size_t i = 0; i < nprocs; i++)
		if (place_of(&procs[i], root) == BELOW && procs[i].alive) {
			alive++;
			*ret_running += !procs[i].stopped;
		}
	return (alive);
}

/*
 * Groups first: that is one step, which no fork in the group escapes.  A group
 * lies within one session, and a session within one run.
 */
static void
signal_marked(int sig)
{
	pid_t last = 0;

	for (size_t i = 0; i < nprocs; i++) {
		const struct proc *p = &procs[i];

		if (p->place != BELOW || p->group <= 1 || p->group == last)
			continue;
		last = p->group;
		(void)kill(-last, sig);
	}
	for (size_t i = 0; i < nprocs; i++)
		if (procs[i].place == BELOW)
			(void)kill(procs[i].pid, sig);
}

/*
 * Stop first, until none runs: what is stopped forks no more and still counts
 * for RLIMIT_NPROC, so a fork bomb is overtaken.  Then kill.  Returns how many
 * were alive.
 */
static size_t
kill_below(pid_t root)
{
	size_t alive, running = 0;

	for (int pass = 0; pass < STOP_PASSES; pass++) {
		scan();
		alive = mark_below(root, &running);
		if (running == 0)
			break;
		/* few processes: no bomb, one blow is enough */
		if (pass == 0 && alive < 8)
			break;
		signal_marked(SIGSTOP);
	}
	signal_marked(SIGKILL);
	return (alive + overflow);
}

static bool
is_ours(struct init *in, pid_t pid)
{
	for (size_t i = 0; i < SBX_NELEM(in->jobs); i++)
		if (in->jobs[i].run[0] != '\0' &&
		    in->jobs[i].supervisor == pid)
			return (true);
	for (size_t i = 0; i < SBX_NELEM(in->helpers); i++)
		if (in->helpers[i].pid == pid)
			return (true);
	return (false);
}

void
kill_orphans(struct init *in)
{
	if (in->orphans_since_ns == 0)
		in->orphans_since_ns = sbx_mono_ns();
}

/*
 * Children of PID 1 that it did not make, and what is below them.  Only a
 * supervisor that a guest killed leaves such, so all of them must go.
 */
static void
orphans_pass(struct init *in)
{
	static pid_t roots[MAX_PROCS];
	size_t n = 0;

	scan();
	for (size_t i = 0; i < nprocs; i++)
		if (procs[i].parent == 1 && procs[i].alive &&
		    !is_ours(in, procs[i].pid))
			roots[n++] = procs[i].pid;
	if (n == 0 && !overflow) {
		in->orphans_since_ns = 0;
		for (size_t i = 0; i < SBX_NELEM(in->jobs); i++)
			if (in->jobs[i].run[0] != '\0' &&
			    in->jobs[i].orphaned)
				job_gone(in, &in->jobs[i]);
		return;
	}
	/* nothing that was to be dead may live on: all of it ends with us */
	if (sbx_mono_ns() - in->orphans_since_ns > KILL_MS * 1000000ull)
		_exit(4);
	for (size_t i = 0; i < n; i++)
		(void)kill(roots[i], SIGSTOP);
	for (size_t i = 0; i < n; i++) {
		(void)kill_below(roots[i]);
		(void)kill(roots[i], SIGKILL);
	}
}

void
kill_begin(struct init *in, struct job *j, uint32_t id)
{
	struct sbx_init_killed m = { .run = j->run };

	if (j->killing) {	/* both askers are answered */
		init_send(SBX_MSG_INIT_KILLED, id, &m, NULL);
		return;
	}
	j->killing = true;
	j->kill_id = id;
	j->kill_since_ns = sbx_mono_ns();
	(void)in;
}

/* One pass over one tree.  The supervisor reaps it and ends by itself, which
 * is what answers; one that a guest stopped is woken, or killed at last. */
static void
kill_pass(struct job *j)
{
	struct sbx_init_killed m = { .run = j->run, .left = 1 };
	uint64_t ms;
	size_t n;

	n = kill_below(j->supervisor);
	(void)kill(j->supervisor, SIGCONT);
	if (j->killed < n)
		j->killed = (uint32_t)n;
	ms = (sbx_mono_ns() - j->kill_since_ns) / 1000000;
	if (n == 0 && ms >= KILL_SUPERVISOR_MS)
		(void)kill(j->supervisor, SIGKILL);
	if (ms < KILL_MS)
		return;
	m.killed = j->killed;
	init_send(SBX_MSG_INIT_KILLED, j->kill_id, &m, NULL);
	j->killing = false;	/* the engine ends the sandbox now */
}

int
kill_step(struct init *in)
{
	int next = -1;

	for (size_t i = 0; i < SBX_NELEM(in->jobs); i++) {
		struct job *j = &in->jobs[i];

		if (j->run[0] == '\0' || !j->killing || j->supervisor == 0)
			continue;
		kill_pass(j);
		next = PASS_MS;
	}
	if (in->orphans_since_ns != 0)
		orphans_pass(in);
	return (in->orphans_since_ns != 0 ? PASS_MS : next);
}
