/*
 * Killing whole trees.  PID 1 mounted this /proc and no guest can mount over
 * it, so what it shows is what there is.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sbxd/init/init.h"

#define MAX_PROCS 4096		/* far above RLIMIT_NPROC of a sandbox */
#define STOP_PASSES 32
#define PASS_MS 3

struct proc {
	pid_t pid, parent;
	char state;
	bool in_tree;
};
static struct proc procs[MAX_PROCS];
static size_t nprocs;

/* "pid (comm) S ppid ...": comm may hold anything, the last ')' ends it. */
static bool
read_stat(const char *name, struct proc *p)
{
	char path[32], buf[512], *s;
	uint64_t v;
	ssize_t n;
	int fd, parent;

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
	p->pid = (pid_t)v;
	p->state = s[2];
	/* digits up to the next blank */
	for (parent = 0, s += 4; *s >= '0' && *s <= '9'; s++)
		parent = parent * 10 + (*s - '0');
	p->parent = parent;
	p->in_tree = false;
	return (true);
}

static void
scan(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	nprocs = 0;
	if (d == NULL)
		return;
	while ((e = readdir(d)) != NULL && nprocs < MAX_PROCS)
		if (read_stat(e->d_name, &procs[nprocs]) &&
		    procs[nprocs].state != 'Z' && procs[nprocs].state != 'X')
			nprocs++;
	(void)closedir(d);
}

/* Mark everything below root (without it); their number. */
static size_t
mark_below(pid_t root)
{
	size_t marked = 0;
	bool more = true;

	for (size_t i = 0; i < nprocs; i++)
		procs[i].in_tree = false;
	while (more) {
		more = false;
		for (size_t i = 0; i < nprocs; i++) {
			struct proc *p = &procs[i];

			if (p->in_tree || p->pid == root)
				continue;
			p->in_tree = p->parent == root;
			for (size_t k = 0; k < nprocs && !p->in_tree; k++)
				p->in_tree = procs[k].in_tree &&
				    procs[k].pid == p->parent;
			more = more || p->in_tree;
			marked += p->in_tree;
		}
	}
	return (marked);
}

static void
signal_marked(int sig)
{
	for (size_t i = 0; i < nprocs; i++)
		if (procs[i].in_tree)
			(void)kill(procs[i].pid, sig);
}

/*
 * Stop first, until no new process shows up: what is stopped forks no more,
 * so a fork bomb is overtaken.  Then kill.  Returns how many there were.
 */
static size_t
kill_below(pid_t root)
{
	size_t last = 0, now;

	for (int pass = 0; pass < STOP_PASSES; pass++) {
		scan();
		now = mark_below(root);
		if (now == 0 || (now == last && pass > 1))
			break;
		signal_marked(SIGSTOP);
		last = now;
	}
	scan();
	now = mark_below(root);
	signal_marked(SIGKILL);
	return (now);
}

static bool
is_ours(struct init *in, pid_t pid)
{
	for (size_t i = 0; i < SBX_NELEM(in->jobs); i++)
		if (in->jobs[i].run[0] != '\0' &&
		    in->jobs[i].supervisor == pid)
			return (true);
	for (size_t i = 0; i < SBX_NELEM(in->unpacks); i++)
		if (in->unpacks[i].pid == pid)
			return (true);
	return (false);
}

void
kill_orphans(struct init *in)
{
	static pid_t roots[MAX_PROCS];
	size_t n = 0;

	scan();
	for (size_t i = 0; i < nprocs; i++)
		if (procs[i].parent == 1 && !is_ours(in, procs[i].pid))
			roots[n++] = procs[i].pid;
	for (size_t i = 0; i < n; i++) {
		(void)kill(roots[i], SIGSTOP);
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
	j->kill_by_ns = sbx_mono_ns() + (uint64_t)KILL_MS * 1000000;
	(void)kill_step(in);
}

/* One pass over one tree.  The supervisor reaps it and ends by itself, which
 * is what answers; one that a guest stopped is woken, or killed at last. */
static void
kill_pass(struct init *in, struct job *j)
{
	struct sbx_init_killed m = { .run = j->run, .left = 1 };
	size_t n;

	(void)kill(j->supervisor, SIGCONT);
	n = kill_below(j->supervisor);
	j->killed += (uint32_t)n;
	if (sbx_mono_ns() < j->kill_by_ns)
		return;
	if (n == 0) {
		(void)kill(j->supervisor, SIGKILL);
		j->kill_by_ns += (uint64_t)KILL_MS * 1000000;
		return;
	}
	m.killed = j->killed;
	init_send(SBX_MSG_INIT_KILLED, j->kill_id, &m, NULL);
	j->killing = false;	/* the engine ends the sandbox now */
	(void)in;
}

int
kill_step(struct init *in)
{
	int next = -1;

	for (size_t i = 0; i < SBX_NELEM(in->jobs); i++) {
		struct job *j = &in->jobs[i];

		if (j->run[0] == '\0' || !j->killing || j->supervisor == 0)
			continue;
		kill_pass(in, j);
		next = PASS_MS;
	}
	return (next);
}
