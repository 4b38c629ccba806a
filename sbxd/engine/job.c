#include "sbxd/engine/engine.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define CHAINS 256
static LIST_HEAD(job_chain, job) chains[CHAINS];

static struct job_chain *
chain_of(const char *run)
{
	unsigned h = 5381;

	while (*run != '\0')
		h = h * 33 + (unsigned char)*run++;
	return (&chains[h % CHAINS]);
}

struct job *
job_find(struct engine *e, const char *run)
{
	struct job *j;

	(void)e;
	LIST_FOREACH(j, chain_of(run), hash)
		if (strcmp(j->run, run) == 0)
			return (j);
	return (NULL);
}

void
job_tell_recorder(struct job *j)
{
	struct sbx_run_open m = { .run = j->run };

	if (j->sb->e->recorder != NULL && !j->shell)
		(void)sbx_send_run_open(j->sb->e->recorder, 0, &m, j->out);
}

void
job_refuse(struct engine *e, const char *run, uint32_t id, int error,
    const char *reason)
{
	struct sbx_engine_exec_started m = { .run = run, .error = error,
		.reason = reason };

	(void)sbx_send_engine_exec_started(e->monitor, id, &m, NULL);
}

struct job *
job_new(struct sandbox *sb, const char *run, uint32_t id)
{
	struct job *j = sbx_xcalloc(1, sizeof(*j));

	(void)sbx_strlcpy(j->run, run, sizeof(j->run));
	j->sb = sb;
	j->exec_id = id;
	j->out[0] = j->out[1] = -1;
	LIST_INSERT_HEAD(&sb->jobs, j, link);
	LIST_INSERT_HEAD(chain_of(run), j, hash);
	sb->njobs++;
	return (j);
}

static void
job_free(struct job *j)
{
	LIST_REMOVE(j, link);
	LIST_REMOVE(j, hash);
	j->sb->njobs--;
	if (j->kill_timer != NULL)
		event_free(j->kill_timer);
	sbx_close(&j->out[0]);
	sbx_close(&j->out[1]);
	free(j);
}

/*
 * The command's stdout and stderr are pipes whose read ends go to the
 * recorder; the duplicates kept here are never read, they only keep the bytes
 * when a recorder dies.
 */
void
job_exec(struct sandbox *sb, const struct sbx_engine_exec *q, int stdin_fd,
    uint32_t id)
{
	struct engine *e = sb->e;
	struct sbx_init_exec m = { .run = q->run, .argv = q->argv,
		.env = q->env, .cwd = q->cwd, .by_ns = q->by_ns };
	int out[2] = { -1, -1 }, err[2] = { -1, -1 };
	struct job *j;

	if (e->recorder == NULL) {
		job_refuse(e, q->run, id, EAGAIN, "the recorder, which stores "
		    "output, is not running at the moment: try again");
		return;
	}
	if (job_find(e, q->run) != NULL) {
		job_refuse(e, q->run, id, EEXIST, "there is a run of this id");
		return;
	}
	if (sb->njobs >= SBX_MAX_JOBS_SANDBOX) {
		job_refuse(e, q->run, id, EAGAIN, "too many runs in this sandbox");
		return;
	}
	if (pipe2(out, O_CLOEXEC) == -1 || pipe2(err, O_CLOEXEC) == -1) {
		job_refuse(e, q->run, id, errno, "pipe: out of descriptors");
		sbx_close(&out[0]);
		sbx_close(&out[1]);
		return;
	}
	if (err[1] >= FD_JOBS(e)) {	/* the lowest that is free */
		job_refuse(e, q->run, id, EAGAIN, "the suite has as many runs "
		    "as it may have descriptors for");
		for (int i = 0; i < 2; i++) {
			sbx_close(&out[i]);
			sbx_close(&err[i]);
		}
		return;
	}
	/* an empty pipe takes PIPE_BUF bytes at once: pipe(7) */
	(void)!write(out[1], q->head, strlen(q->head));
	j = job_new(sb, q->run, id);
	j->kills = group_kills(&sb->group);
	j->out[0] = out[0];
	j->out[1] = err[0];
	job_tell_recorder(j);
	/* when init is gone, its end answers for this job too */
	(void)sbx_send_init_exec(sb->init, 0, &m,
	    (int[]){ stdin_fd, out[1], err[1] });
	sbx_close(&out[1]);
	sbx_close(&err[1]);
}

void
job_started(struct job *j, int32_t error, const char *reason)
{
	struct sbx_engine_exec_started m = { .run = j->run, .error = error,
		.reason = reason };

	j->started = true;
	j->exited = error != 0;
	if (j->sb->e->monitor != NULL)
		(void)sbx_send_engine_exec_started(j->sb->e->monitor,
		    j->exec_id, &m, NULL);
}

void
job_exited(struct job *j, int32_t status, uint8_t why)
{
	struct sbx_engine_exited m = { .run = j->run, .status = status,
		.why = why };

	/* also with status 0: a shell has only that of a pipeline's end */
	if (why != SBX_EXIT_SANDBOX && j->nkills == 0 &&
	    group_kills(&j->sb->group) > j->kills)
		m.why = SBX_EXIT_MEMORY;
	j->exited = true;
	if (j->sb->e->monitor != NULL)
		(void)sbx_send_engine_exited(j->sb->e->monitor, 0, &m, NULL);
}

static void
on_kill_timeout(evutil_socket_t fd, short what, void *arg)
{
	struct job *j = arg;

	(void)fd, (void)what;
	job_killed(j, 0, 1);
}

int
job_kill(struct job *j, uint32_t id)
{
	struct timeval limit = { KILL_S, 0 };
	struct sbx_init_kill m = { .run = j->run };

	if (j->nkills == MAX_WAITING)
		return (SBX_E_LIMIT);
	j->kill_ids[j->nkills++] = id;
	if (j->nkills > 1)
		return (0);	/* one answer is for all */
	if (j->kill_timer == NULL)
		j->kill_timer = evtimer_new(j->sb->e->base, on_kill_timeout, j);
	if (j->kill_timer == NULL || event_add(j->kill_timer, &limit) == -1)
		sbx_fatal("out of memory");
	/* when init is gone, its end answers */
	if (j->sb->init != NULL)
		(void)sbx_send_init_kill(j->sb->init, id, &m, NULL);
	return (0);
}

void
job_killed(struct job *j, uint32_t killed, uint8_t left)
{
	struct sbx_engine_killed m = { .run = j->run, .killed = killed,
		.left = left };

	if (j->nkills == 0)
		return;
	for (unsigned i = 0; i < j->nkills; i++)
		if (j->sb->e->monitor != NULL)
			(void)sbx_send_engine_killed(j->sb->e->monitor,
			    j->kill_ids[i], &m, NULL);
	j->nkills = 0;
	(void)event_del(j->kill_timer);
	if (left != 0)
		sandbox_end(j->sb, SBX_END_KILL_FAILED, "the processes of run "
		    "%s could not be killed in time", j->run);
}

void
job_gone(struct job *j)
{
	struct engine *e = j->sb->e;
	struct spent *s;

	job_killed(j, 0, 0);	/* answers a kill that waits */
	if (j->shell) {		/* nothing of it was recorded */
		job_free(j);
		return;
	}
	s = sbx_xcalloc(1, sizeof(*s));
	memcpy(s->run, j->run, sizeof(s->run));
	s->out[0] = sbx_steal_fd(&j->out[0]);
	s->out[1] = sbx_steal_fd(&j->out[1]);
	LIST_INSERT_HEAD(&e->spent, s, link);
	if (e->recorder != NULL)
		(void)sbx_send_run_closed(e->recorder, 0,
		    &(struct sbx_run_closed){ .run = s->run }, NULL);
	job_free(j);
}

void
spent_tell_recorder(struct engine *e)
{
	struct spent *s;

	LIST_FOREACH(s, &e->spent, link) {
		(void)sbx_send_run_open(e->recorder, 0,
		    &(struct sbx_run_open){ .run = s->run }, s->out);
		(void)sbx_send_run_closed(e->recorder, 0,
		    &(struct sbx_run_closed){ .run = s->run }, NULL);
	}
}

void
spent_taken(struct engine *e, const char *run)
{
	struct spent *s;

	LIST_FOREACH(s, &e->spent, link)
		if (strcmp(s->run, run) == 0)
			break;
	if (s == NULL)
		return;
	LIST_REMOVE(s, link);
	sbx_close(&s->out[0]);
	sbx_close(&s->out[1]);
	free(s);
}
