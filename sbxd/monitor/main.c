/*
 * sbxd, the monitor: what the suite decides with, and its switchboard.
 *
 * What it is for: it knows who the clients are, what is theirs, and what may
 * be done; it starts the other processes, introduces them to each other, and
 * says yes or no to everything that a worker asks for.
 * What it alone holds: the principals and their handles, who owns which
 * sandbox and run, the control channel of every process, the suite's slot.
 * Who talks to it: each process of the suite on its own channel
 * (from_<peer>.c), and operators on the control socket.
 * What it must never be able to do: open a file, open a socket of the
 * Internet, execute a program, signal another process, parse JSON, or read
 * what a client wrote or a sandbox printed: it passes descriptors on unread.
 * Everything it needs from the file system is opened before the cage.
 */

#include "common/privs/privs.h"
#include "common/proto/accepts.h"
#include "common/proto/loop.h"
#include "sbxd/monitor/monitor.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct monitor monitor;	/* the one mutable global of the process */

static const struct sbx_dispatch_table *const tables[] = {
	&monitor_from_starter, &monitor_from_engine, &monitor_from_recorder,
	&monitor_from_journald, &monitor_from_broker, &monitor_from_proxy,
	&monitor_from_zygote, &monitor_from_front, &monitor_from_worker,
	&monitor_from_copyin, &monitor_from_judge, &monitor_from_cli, NULL };

/* As sbx_privs_early() for the children, but keeping the client's stdio. */
static void
early(void)
{
	struct rlimit core = { 0, 0 };

	/* somebody may have lowered it already; it cannot be raised then */
	(void)getrlimit(RLIMIT_CORE, &core);
	core.rlim_max = core.rlim_max < SBX_CORE_NEVER ? core.rlim_max :
	    SBX_CORE_NEVER;
	core.rlim_cur = core.rlim_max;
	if (fcntl(0, F_GETFD) == -1 || fcntl(1, F_GETFD) == -1 ||
	    fcntl(2, F_GETFD) == -1)
		_exit(2);	/* a channel must never become "stdout" */
	if (close_range(3, ~0U, 0) == -1 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1 ||
	    setrlimit(RLIMIT_CORE, &core) == -1 ||
	    signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		_exit(2);
	(void)umask(077);
}

/* On stdio the client's descriptors become the front's; nothing of ours, nor
 * of a child, can then write into the protocol by mistake. */
static void
take_stdio(struct monitor *m)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null == -1)
		sbx_fatal("/dev/null: %s", strerror(errno));
	if (m->stdio) {
		m->fd_in = fcntl(0, F_DUPFD_CLOEXEC, 3);
		m->fd_out = fcntl(1, F_DUPFD_CLOEXEC, 3);
		if (m->fd_in == -1 || m->fd_out == -1 || dup2(null, 1) == -1)
			sbx_fatal("standard input and output: %s",
			    strerror(errno));
	}
	if (dup2(null, 0) == -1)
		sbx_fatal("standard input: %s", strerror(errno));
	sbx_close(&null);
}

/* Called from the loop, not in signal context. */
static void
on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct monitor *m = arg;

	(void)what;
	if (sig == SIGHUP)
		egress_reload(m);
	else
		shutdown_begin(m, 0, sig == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* It ends last, after all others; earlier than that is the end of the suite. */
static void
starter_end(struct sbx_peer *p, int error)
{
	struct monitor *m = sbx_peer_ctx(p);

	m->starter = NULL;
	if (!m->stopping) {
		/* its children are being ended by it, or by its death */
		log_err("ending: the starter ended, and with it all others "
		    "(%s)", sbx_error_name(error));
		m->exit_code = m->serving ? 3 : 2;
	}
	(void)event_base_loopbreak(m->base);
}

static void
make_loop(struct monitor *m)
{
	static const int sigs[] = { SIGTERM, SIGINT, SIGHUP };
	size_t i;

	if ((m->base = sbx_loop_new()) == NULL)
		sbx_fatal("no event loop");
	for (i = 0; i < SBX_NELEM(sigs); i++) {
		m->sigs[i] = evsignal_new(m->base, sigs[i], on_signal, m);
		if (m->sigs[i] == NULL || event_add(m->sigs[i], NULL) != 0)
			sbx_fatal("no signal event");
	}
	TAILQ_INIT(&m->sandboxes);
	TAILQ_INIT(&m->snapshots);
	TAILQ_INIT(&m->deps);
	TAILQ_INIT(&m->runs);
	for (i = 0; i < SBX_NELEM(m->sessions); i++)
		m->sessions[i].fd = m->sessions[i].root_fd = -1;
	component_init(m);
}

/* From here on this process can open nothing but what lies beside sbx.conf, to
 * read it (common/privs, row monitor). */
static void
cage(struct monitor *m)
{
	const struct sbx_privs_args args = { .trap = m->debug > 0,
		.dir_fds = &m->dir_conf, .ndir_fds = 1 };
	struct sbx_err err = { 0 };
	uint32_t features = 0;

	if (sbx_privs_enter(SBX_PROC_MONITOR, &args, &features, &err) != 0)
		sbx_fatal("%s", err.msg);
	log_info("the monitor is caged features=0x%x", features);
}

/* The starter ends after its last child; wait for that, but not for ever. */
static void
reap_starter(struct monitor *m)
{
	const struct timespec ts = { .tv_nsec = 2000000 };
	unsigned i;

	sbx_peer_free(m->starter);
	m->starter = NULL;
	for (i = 0; i < 500; i++) {
		if (waitpid(m->starter_pid, NULL, WNOHANG) != 0)
			return;
		(void)nanosleep(&ts, NULL);
	}
}

static void
start_all(struct monitor *m, int channel)
{
	size_t i;

	m->starter = sbx_peer_new(m->base, channel, &monitor_from_starter, m,
	    starter_end);
	for (int h = 0; h < SBX_CGROUP_MAX; h++)
		if (m->groups[h].fd != -1)
			(void)sbx_send_cgroup(m->starter, 0,
			    &(struct sbx_cgroup){ .hierarchy = (uint8_t)h,
			    .name = m->groups[h].name }, &m->groups[h].fd);
	/* all at once: each finds what it needs to know in its channel */
	for (i = 0; i < component_order_n; i++)
		component_start(&m->comps[component_order[i]]);
}

int
main(int argc, char **argv)
{
	struct monitor *m = &monitor;
	struct sbx_err err = { 0 };
	int channel, r;

	early();
	sbx_accepts_print(argc, argv, tables, NULL);
	sbx_log_init("sbxd", SBX_LOG_NOTICE);
	m->fd_in = m->fd_out = m->fd_root = m->fd_listen = m->fd_lock = -1;
	m->dir_journal = m->dir_runs = m->dir_scratch = m->dir_images = -1;
	m->fd_init = m->fd_userns = m->fd_ctl = -1;
	m->fd_http = m->fd_tokens = m->fd_roots = m->fd_resolv = -1;
	m->dir_conf = -1;
	if ((r = setup_options(m, argc, argv, getenv)) >= 0)
		return (r);
	m->given = getenv("CREDENTIALS_DIRECTORY");
	take_stdio(m);
	if (setup_open(m, getenv, &err) != 0 ||
	    setup_starter(m, &channel, &err) != 0) {
		log_err("the suite could not start: %s", err.msg);
		setup_cgroups_undo(m);
		return (2);
	}
	make_loop(m);
	/* The starter does from now on what needs the world; the monitor can
	 * be caged before it has talked to anybody at all. */
	cage(m);
	start_all(m, channel);
	(void)event_base_dispatch(m->base);
	reap_starter(m);
	return (m->exit_code);
}
