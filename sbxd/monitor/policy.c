#include "sbxd/monitor/monitor.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Who may do what.  Decided here, on this side, from what the monitor itself
 * recorded: who a handle belongs to, whom a worker is bound to, who made a
 * sandbox or a run.  What a message says about any of that is only a name to
 * look up; somebody else's thing and no thing get the same answer.
 */

/* Names of tools and of the two pseudo tools; whether there is such a tool is
 * the worker's to say, who has the schemas. */
bool
policy_tool_name(const char *tool)
{
	return (tool[0] >= 'a' && tool[0] <= 'z' &&
	    strspn(tool, "abcdefghijklmnopqrstuvwxyz0123456789_/") ==
	    strlen(tool));
}

/* What may stand for a sandbox in a call: an id, a prefix, a name, or "". */
bool
policy_container_ref(const char *ref)
{
	return (ref[0] == '\0' || policy_sandbox_name(ref));
}

bool
policy_is_recovery(const char *tool)
{
	return (strcmp(tool, "sandbox_stop") == 0 ||
	    strcmp(tool, "sandbox_list_containers") == 0);
}

/* [A-Za-z0-9][A-Za-z0-9._-]{0,63} */
bool
policy_sandbox_name(const char *name)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(name);

	return (len >= 1 && len <= 64 && strspn(name, set) == len &&
	    strchr("._-", name[0]) == NULL);
}

/* A path inside a sandbox: init resolves it there, as the sandbox user. */
bool
policy_path_inside(const char *path)
{
	return (path[0] == '/');
}

/* Root of a suite that root started sees and stops everybody's sandboxes;
 * reading their runs or working in them is not part of that. */
bool
policy_is_operator(const struct monitor *m, const struct principal *p)
{
	return (m->by_root && !m->stdio && p->uid == 0);
}

/* Root, and without root whoever started the suite: both could do to it what
 * they like anyway.  m->uid is that of before the cage. */
bool
policy_is_ctl(const struct monitor *m, uid_t uid)
{
	return (uid == 0 || (!m->by_root && uid == m->uid));
}

/*
 * A front may act only as those who are connected meanwhile: the monitor
 * holds the connection too and asks the kernel.  A client that only finished
 * writing is still there; POLLHUP comes when it is gone.
 */
bool
policy_connected(const struct session *s)
{
	struct pollfd pfd = { .fd = s->fd, .events = 0 };

	if (s->fd == -1)
		return (true);
	return (poll(&pfd, 1, 0) == 0);
}

bool
policy_call_fits(struct monitor *m, const struct call *c,
    const char **ret_why)
{
	unsigned work = 0, recovery = 0, same = 0;
	const struct call *o;
	size_t i;

	for (i = 0; i < SBX_NELEM(m->calls); i++) {
		o = &m->calls[i];
		if (!o->used || o == c)
			continue;
		if (o->recovery) {
			recovery++;
			continue;
		}
		work++;
		same += c->capped[0] != '\0' && o->who == c->who &&
		    strcmp(o->capped, c->capped) == 0;
	}
	if (c->recovery) {
		*ret_why = "recovery";
		return (recovery < SBX_MAX_CALLS_RECOVERY);
	}
	*ret_why = "global";
	if (work >= SBX_MAX_CALLS)
		return (false);
	*ret_why = "sandbox";
	return (same < SBX_MAX_CALLS_SANDBOX);
}

/*
 * Calls that may last have a part of the places only: however many of them
 * there are, and whoever's, short ones find theirs.
 */
bool
policy_patient_fits(const struct monitor *m, const struct call *c)
{
	unsigned all = 0, own = 0, same = 0;
	const struct call *o;
	size_t i;

	for (i = 0; i < SBX_NELEM(m->calls); i++) {
		o = &m->calls[i];
		if (!o->used || o == c || !o->patient)
			continue;
		all++;
		own += o->who == c->who;
		same += c->capped[0] != '\0' && o->who == c->who &&
		    strcmp(o->capped, c->capped) == 0;
	}
	return (all < SBX_MAX_CALLS_PATIENT &&
	    own < SBX_MAX_CALLS_PATIENT_PRINCIPAL &&
	    same < SBX_MAX_CALLS_PATIENT_SANDBOX);
}

struct sandbox *
policy_sandbox(struct monitor *m, const struct principal *p, const char *id)
{
	struct sandbox *sb = sandbox_find(m, id);

	if (sb != NULL && sb->who != p)
		journal_foreign(m, p, "sandbox", id);
	/* a dependency layer is made of nothing but its commands */
	if (sb != NULL && (sb->who != p || sb->hidden))
		sb = NULL;
	return (sb);
}

struct snapshot *
policy_snapshot(struct monitor *m, const struct principal *p, const char *ref)
{
	struct snapshot *s = snapshot_named(m, p, ref);

	if (s == NULL && (s = snapshot_find(m, ref)) != NULL && s->who != p) {
		journal_foreign(m, p, "snapshot", ref);
		s = NULL;
	}
	return (s != NULL && s->ready ? s : NULL);
}

struct run *
policy_run(struct monitor *m, const struct principal *p, const char *id)
{
	struct run *r = run_find(m, id);

	if (r != NULL && r->who != p) {
		journal_foreign(m, p, "run", id);
		r = NULL;
	}
	return (r);
}

/* Which ones are refused was found out before the cage (setup.c). */
bool
policy_copy_root(const struct monitor *m, int fd)
{
	return (sbx_homes_permit(&m->homes, fd));
}

#define ASKS_BURST 4000
#define ASKS_PER_S 2000

/* A token bucket a principal, for asks that leave a record. */
bool
policy_rate(struct principal *p)
{
	uint64_t now = sbx_mono_ns();
	uint64_t fresh = (now - p->rate_ns) / (S_NS / ASKS_PER_S);

	if (fresh > 0) {
		p->rate_ns = now;
		p->tokens = fresh + p->tokens > ASKS_BURST ? ASKS_BURST :
		    p->tokens + (unsigned)fresh;
	}
	if (p->tokens == 0)
		return (false);
	p->tokens--;
	return (true);
}

static bool
env_name(const char *entry)
{
	size_t n = strspn(entry, "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

	return (n > 0 && entry[n] == '=' &&
	    (entry[0] < '0' || entry[0] > '9'));
}

const char *
policy_exec(const struct sbx_exec_start *e)
{
	const char *s = NULL;

	if (e->argv.count == 0)
		return ("there is no command");
	if (e->argv.len > SBX_MAX_COMMANDS)
		return ("the commands are longer than 120 KiB");
	if (sbx_strs_next(&e->argv, NULL)[0] == '\0')
		return ("the command is empty");
	if (!policy_path_inside(e->cwd))
		return ("the working directory must be an absolute path");
	if (e->timeout_ms > UINT64_C(86400000))
		return ("the timeout is longer than a day");
	while ((s = sbx_strs_next(&e->env, s)) != NULL)
		if (!env_name(s))
			return ("an environment entry is not NAME=value");
	return (NULL);
}

/* An operator's: what is in it is data for a program inside all the same. */
const char *
policy_shell(const struct sbx_shell_start *q)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";

	if (q->argv.len > SBX_MAX_COMMANDS)
		return ("the command is longer than 120 KiB");
	if (q->argv.count > 0 && sbx_strs_next(&q->argv, NULL)[0] == '\0')
		return ("the command is empty");
	if (q->cwd[0] != '\0' && !policy_path_inside(q->cwd))
		return ("the working directory must be an absolute path");
	if (strspn(q->term, set) != strlen(q->term))
		return ("TERM is not a terminal's name");
	if (q->rows > UINT16_MAX || q->cols > UINT16_MAX)
		return ("there is no terminal of that size");
	return (NULL);
}
