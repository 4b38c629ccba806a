#include "sbxd/monitor/monitor.h"

#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/*
 * Shells: runs on a terminal, one for an operator's connection.  The terminal
 * is the sandbox's; its master side comes here as a descriptor and goes on to
 * the operator, so what is typed and printed passes no process of the suite
 * and is stored nowhere.
 */

#define START_NS (15 * S_NS)
#define HANGUP_MS 300		/* for SIGHUP to do its work, then SIGKILL */

static void
journal_shell_start(const struct ctl *c, const struct run *r,
    const struct sbx_shell_start *q)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	char uid[24];

	sbx_buf_init(&b, SBX_ARGV_SHOWN);
	run_show_argv(&b, &q->argv);
	(void)snprintf(uid, sizeof(uid), "uid:%u", c->uid);
	journal_add(c->m, &(struct record){ .op = "shell", .phase = "start",
	    .who = r->who, .container = r->container, .run = r->id },
	    "operator", uid, "argv", b.data != NULL ? b.data : "", "cwd",
	    q->cwd, NULL);
}

/* The sandbox of that id if it can run something, whoever's it is.  In one that
 * stands for what was made in it nothing else may run. */
static struct sandbox *
shell_sandbox(struct ctl *c, const struct sbx_shell_start *q)
{
	struct sandbox *sb = sandbox_find(c->m, q->container);
	const char *why = policy_shell(q);

	if (sb == NULL || sb->hidden || sb->state != SBX_SANDBOX_READY)
		ctl_refuse(c, "not_found", "Run `sbx ps` for those that "
		    "exist.", "there is no sandbox %s", q->container);
	else if (why != NULL)
		ctl_refuse(c, "bad_argument", "", "%s", why);
	else if (sb->live_runs >= SBX_MAX_JOBS_SANDBOX)
		ctl_refuse(c, "too_many_jobs", "Wait for a job to end.",
		    "there are %u jobs in this sandbox, the most it may have",
		    sb->live_runs);
	else
		return (sb);
	return (NULL);
}

/* The run is the sandbox's owner's, like all that runs in it: who may end
 * the sandbox may see and end this, too. */
void
shell_start(struct ctl *c, const struct sbx_shell_start *q)
{
	struct monitor *m = c->m;
	struct sandbox *sb = shell_sandbox(c, q);
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	struct sbx_strs env;
	struct run *r;

	if (sb == NULL)
		return;
	if (engine == NULL || egress_env(sb, NULL, &env, &b) != 0 ||
	    (r = run_new(m, sb->who, sb->id, SBX_TOOL_SHELL)) == NULL) {
		ctl_refuse(c, "busy", "Try again.", "the suite has as many "
		    "runs as it may, or is ending");
		return;
	}
	r->interactive = r->background = true;
	journal_shell_start(c, r, q);
	memcpy(c->run, r->id, sizeof(c->run));
	sb->live_runs++;
	sb->used_ns = sbx_mono_ns();
	c->by_ns = sb->used_ns + START_NS;
	sbx_peer_set_state(c->peer, CTL_ASKED);
	/* a failure is the engine's end, which ends the suite */
	(void)sbx_send_engine_shell(engine, ++m->next_id,
	    &(struct sbx_engine_shell){ .container = sb->id, .run = r->id,
	    .argv = q->argv, .env = env, .cwd = q->cwd[0] != '\0' ? q->cwd : "/workspace",
	    .term = q->term, .rows = q->rows, .cols = q->cols }, NULL);
}

/* /dev/ptmx, Source: the kernel's admin-guide/devices.txt. */
static bool
is_pty_master(int fd)
{
	struct stat st;

	return (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) &&
	    st.st_rdev == makedev(5, 2) &&
	    (fcntl(fd, F_GETFL) & (O_ACCMODE | O_PATH)) == O_RDWR);
}

/*
 * Safe for a hostile sandbox: the engine saw that it is a terminal's master
 * side, and so does this; it goes to the operator who asked, to nobody else.
 */
void
shell_pty(struct monitor *m, const char *run, int fd)
{
	int SBX_CLEANUP(fd) master = fd;
	struct ctl *c = ctl_of_run(m, run);

	if (c == NULL || c->master != -1 || !is_pty_master(master) ||
	    sbx_peer_state(c->peer) != CTL_ASKED)
		return;		/* without one the start is refused */
	c->master = sbx_steal_fd(&master);
}

/* The operator gets the terminal only when there is something at it. */
void
shell_started(struct monitor *m, const struct run *r, const char *reason)
{
	struct ctl *c = ctl_of_run(m, r->id);

	if (c == NULL)
		return;		/* gone: shell_gone() saw to the run */
	if (reason == NULL && c->master == -1) {
		reason = "the sandbox gave no terminal";
		shell_gone(c);
	}
	if (reason != NULL)
		ctl_refuse(c, "exec_failed", "", "%s", reason);
	else {
		(void)sbx_send_shell_started(c->peer, c->id,
		    &(struct sbx_shell_started){ .run = r->id }, &c->master);
		sbx_peer_set_state(c->peer, CTL_SHELL);
	}
	/* the operator's is the last one: its close hangs the terminal up */
	sbx_close(&c->master);
}

static const char *
end_reason(const struct run *r)
{
	switch ((enum sbx_exit_why)r->why) {
	case SBX_EXIT_SANDBOX:
		return ("the sandbox ended");
	case SBX_EXIT_KILLED:
	case SBX_EXIT_TIMEOUT:
		return ("it was killed on request");
	case SBX_EXIT_MEMORY:
		return ("the sandbox's memory was used up");
	case SBX_EXIT_EXITED:
	case SBX_EXIT_MAX:
		break;
	}
	return ("");
}

void
shell_ended(struct monitor *m, const struct run *r)
{
	struct ctl *c = ctl_of_run(m, r->id);

	if (c == NULL)
		return;
	if (sbx_peer_state(c->peer) != CTL_SHELL) {
		ctl_refuse(c, "sandbox_gone", "", "%s", end_reason(r));
		return;
	}
	(void)sbx_send_shell_ended(c->peer, c->id,
	    &(struct sbx_shell_ended){ .status = r->status, .why = r->why,
	    .reason = end_reason(r) }, NULL);
	ctl_over(c);
}

static void
on_hangup(evutil_socket_t fd, short what, void *arg)
{
	struct run *r = arg;

	(void)fd;
	(void)what;
	/* also when the command ended by it: who ignores it is still there */
	if (sandbox_find(r->m, r->container) != NULL)
		run_kill(r->m, r, SBX_EXIT_KILLED);
}

/*
 * Nobody sits at it any more, and nobody read of its end: which of the two was
 * first cannot be known.  The kernel hangs up the terminal, since the
 * last master is closed; who does not end by that is killed.
 */
void
shell_gone(struct ctl *c)
{
	const struct timeval tv = { .tv_usec = HANGUP_MS * 1000 };
	struct run *r = run_find(c->m, c->run);

	c->run[0] = '\0';
	if (r == NULL)
		return;
	r->kill_why = SBX_EXIT_KILLED;	/* one that starts yet is killed */
	if (r->timer == NULL)
		r->timer = evtimer_new(c->m->base, on_hangup, r);
	if (r->timer == NULL || evtimer_add(r->timer, &tv) != 0)
		sbx_fatal("no memory for a timer");
}

void
shell_shutdown(struct monitor *m)
{
	struct ctl *c;
	size_t i;

	for (i = 0; i < SBX_NELEM(m->ctls); i++) {
		c = &m->ctls[i];
		if (!c->used || sbx_peer_state(c->peer) != CTL_SHELL)
			continue;
		(void)sbx_send_shell_ended(c->peer, c->id,
		    &(struct sbx_shell_ended){ .status = 9,
		    .why = SBX_EXIT_SANDBOX, .reason = "the suite ended" },
		    NULL);
		c->run[0] = '\0';
		ctl_over(c);
	}
}
