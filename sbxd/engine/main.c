/*
 * sbxd-engine: makes the sandboxes and is their parent.
 *
 * It alone holds their inits, their pidfds, the read ends of their jobs'
 * pipes (duplicates of the recorder's) and their egress sockets (duplicates of
 * the proxy's).  The monitor talks to it in validated specs, each sandbox's
 * init over a channel of its own, and the recorder and the proxy over channels
 * that the monitor brings.  It must never read what a job printed, act on
 * anything but those messages, or outlive the monitor; its death ends its
 * sandboxes.
 *
 * It runs in a user and a network namespace of its own: the capabilities that
 * it keeps are worth something only in there, and there is no device but lo.
 * It has no allowlist of calls, since guests inherit its filter.
 */
#include "common/privs/privs.h"
#include "common/privs/start.h"
#include "common/proto/hello.h"
#include "common/proto/loop.h"
#include "config.h"
#include "sbxd/engine/engine.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DELETE_MS 400ull

static const uint16_t start_types[] = { SBX_MSG_ENGINE_START, 0 };
static const struct sbx_accepts start_list = { SBX_PROC_ENGINE,
	SBX_PROC_MONITOR, start_types };

static struct engine engine;

static void
on_monitor_end(struct sbx_peer *p, int error)
{
	struct engine *e = sbx_peer_ctx(p);

	e->monitor = NULL;
	sbx_log_to(NULL, NULL);
	if (error != SBX_E_CLOSED) {
		log_err("channel of monitor ended: %s", sbx_error_name(error));
		e->exit_code = 3;
	}
	(void)event_base_loopbreak(e->base);
}

/* What it had not taken is sent again to its next life. */
static void
on_other_end(struct sbx_peer *p, int error)
{
	struct engine *e = sbx_peer_ctx(p);

	if (error != SBX_E_CLOSED)
		log_err("channel of %s ended: %s",
		    sbx_proc_name(sbx_peer_remote(p)), sbx_error_name(error));
	if (p == e->recorder)
		e->recorder = NULL;
	else if (p == e->proxy)
		e->proxy = NULL;
}

void
engine_add_peer(struct engine *e, enum sbx_proc proc, int fd)
{
	bool rec = proc == SBX_PROC_RECORDER;
	struct sbx_peer **slot = rec ? &e->recorder : &e->proxy;
	struct sandbox *sb;
	struct job *j;

	sbx_peer_free(*slot);
	*slot = sbx_peer_new(e->base, fd,
	    rec ? &engine_from_recorder : &engine_from_proxy, e, on_other_end);
	if (rec)
		spent_tell_recorder(e);
	LIST_FOREACH(sb, &e->sandboxes, link) {
		if (!rec) {
			trust_tell_proxy(sb);
			sandbox_tell_proxy(sb);
			continue;
		}
		LIST_FOREACH(j, &sb->jobs, link)
			job_tell_recorder(j);
	}
}

static void
on_sigchld(evutil_socket_t sig, short what, void *arg)
{
	struct engine *e = arg;
	int status;
	pid_t pid;

	(void)sig, (void)what;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (!scratch_reaped(&e->scratch, pid) &&
		    !blank_reaped(e, pid) && !snap_reaped(e, pid))
			sandbox_reaped(e, pid, status);
}

void
engine_quiet(struct engine *e)
{
	const struct timeval soon = { 0, QUIET_MS * 1000 };

	if (event_add(e->quiet, &soon) == -1)
		sbx_fatal("out of memory");
}

static void
on_quiet(evutil_socket_t fd, short what, void *arg)
{
	struct engine *e = arg;

	(void)fd, (void)what;
	if (scratch_spare(&e->scratch))
		engine_quiet(e);
	else
		blank_ahead(e);
}

static void
on_leftover(void *arg, const char *id)
{
	struct engine *e = arg;
	struct sbx_engine_leftover m = { .container = id,
		.what = "scratch of a sandbox that did not end, removed" };

	(void)sbx_send_engine_leftover(e->monitor, 0, &m, NULL);
}

/* The lowest layer of all sandboxes, anew: the host may have changed. */
static int
prepare_image(struct engine *e, struct sbx_err *err)
{
	SBX_CLEANUP(fd) int skel = -1;

	scratch_drop(&e->scratch, "skel");
	/* m: where each sandbox mounts its root, in a namespace of its own */
	if ((mkdirat(e->scratch_fd, "m", 0755) == -1 && errno != EEXIST) ||
	    mkdirat(e->scratch_fd, "skel", 0755) == -1 ||
	    fchmodat(e->scratch_fd, "skel", 0755, 0) == -1 ||
	    (skel = openat(e->scratch_fd, "skel", O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC)) == -1)
		return (sbx_err_sys(err, "the scratch directory"));
	image_add_host(e);
	return (image_host_prepare(skel, &e->binds, err));
}

/* Before the cage: nothing.  After it, as its own user: files and filter. */
static int
prepare(struct engine *e, int channel_fd, bool trap, struct sbx_err *err)
{
	struct sbx_privs_args args = { .trap = trap,
		.userns_fd = &e->userns_fd };
	struct rlimit files;
	uint32_t features;
	int r;

	if ((r = sbx_privs_enter(SBX_PROC_ENGINE, &args, &features, err)) < 0)
		return (r);
	sbx_close(&e->userns_fd);
	if (getrlimit(RLIMIT_NOFILE, &files) == -1)
		return (sbx_err_sys(err, "getrlimit"));
	e->fd_max = (int)files.rlim_cur;
	if ((r = mounts_prepare(e, err)) < 0)
		return (r);
	e->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (e->null_fd == -1)
		return (sbx_err_sys(err, "/dev/null"));
	if ((r = scratch_open(&e->scratch, e->scratch_fd, e->storage,
	    err)) < 0 ||
	    (r = prepare_image(e, err)) < 0 ||
	    (r = guest_filter(&e->filter_fd, err)) < 0)
		return (r);
	e->base = sbx_loop_new();
	if (e->base == NULL || (e->sigchld = evsignal_new(e->base, SIGCHLD,
	    on_sigchld, e)) == NULL || event_add(e->sigchld, NULL) == -1)
		return (sbx_err_set(err, SBX_E_SYS, "no event loop"));
	if ((e->quiet = evtimer_new(e->base, on_quiet, e)) == NULL ||
	    groups_open(&e->groups, e->base) < 0)
		return (sbx_err_set(err, SBX_E_SYS, "no event loop"));
	e->monitor = sbx_peer_new(e->base, channel_fd, &engine_from_monitor, e,
	    on_monitor_end);
	if ((r = sbx_peer_hello(e->monitor, PACKAGE_VERSION, features)) < 0)
		return (sbx_err_set(err, r, "HELLO: %s", sbx_error_name(r)));
	scratch_collect(&e->scratch, on_leftover, e);
	/* a child that ended before the handler was there */
	event_active(e->sigchld, EV_SIGNAL, 1);
	engine_quiet(e);
	return (0);
}

/* ENGINE_START's descriptors and numbers. */
static void
take_start(struct engine *e, struct sbx_in *in)
{
	e->nofile = in->m.engine_start.nofile_hard;
	e->nproc = in->m.engine_start.nproc;
	e->storage = in->m.engine_start.storage;
	ids_open(&e->ids, in->m.engine_start.first_uid,
	    in->m.engine_start.uids);
	e->scratch_fd = sbx_steal_fd(&in->fds[0]);
	e->init_fd = sbx_steal_fd(&in->fds[1]);
	e->images_fd = sbx_steal_fd(&in->fds[2]);
	e->userns_fd = sbx_steal_fd(&in->fds[3]);
}

/* Until nothing is left to delete, or time is up. */
static void
finish_deleting(struct engine *e)
{
	uint64_t until = sbx_mono_ns() + DELETE_MS * 1000000ull;
	int status;
	pid_t pid;

	while (e->scratch.deleter != 0 && sbx_mono_ns() < until) {
		pid = waitpid(e->scratch.deleter, &status, WNOHANG);
		if (pid > 0)
			(void)scratch_reaped(&e->scratch, pid);
		else
			(void)usleep(1000);
	}
}

/*
 * The end: every init is killed and waited for, so that nobody sees the
 * engine gone and a sandbox alive.  SIGKILL cannot be put off for long.
 * Deleting can: what is not gone in time, the next start collects.
 */
static void
finish(struct engine *e)
{
	struct sandbox *sb;
	int status;

	sbx_log_to(NULL, NULL);
	LIST_FOREACH(sb, &e->sandboxes, link)
		if (sb->pid != 0) {
			(void)kill(sb->pid, SIGKILL);
			group_hurry(&e->groups, &sb->group);
		}
	blank_drop(e);
	snap_finish(e);
	LIST_FOREACH(sb, &e->sandboxes, link)
		if (sb->pid != 0)
			(void)waitpid(sb->pid, &status, 0);
	/* nobody is left to record these ends: the next start finds them */
	if (!e->asked_to_end)
		return;
	LIST_FOREACH(sb, &e->sandboxes, link)
		scratch_drop(&e->scratch, sb->dir);
	snapshot_finish(e);
	if (e->monitor != NULL)
		(void)sbx_peer_flush(e->monitor, 200);
	finish_deleting(e);
}

int
main(int argc, char **argv)
{
	static const struct sbx_dispatch_table *const tables[] = {
		&engine_from_monitor, &engine_from_init, &engine_from_recorder,
		&engine_from_proxy, NULL };
	static const struct sbx_program how = {
		.name = "sbxd-engine", .list = &start_list, .tables = tables };
	struct engine *e = &engine;
	struct sbx_err err = { 0 };
	struct sbx_chan c;
	bool debug = sbx_program_start(argc, argv, &how, &c);

	take_start(e, c.in);
	if (prepare(e, sbx_steal_fd(&c.fd), debug, &err) < 0)
		sbx_fatal("%s", err.msg);
	sbx_chan_clear(&c);
	if (event_base_dispatch(e->base) < 0)
		sbx_fatal("the event loop failed");
	finish(e);
	return (e->exit_code);
}
