/*
 * sbxd-recorder stores what runs print.
 *
 * It alone holds the read ends of their pipes and the run store, which keeps
 * the first and the last part of each stream.  The engine brings the pipes of
 * a run; the monitor asks for read-only descriptors of what is stored, for
 * the workers of that run's owner.
 *
 * It must never be able to interpret a byte of it, reach the network, execute
 * anything, or open a file outside of the store.
 */

#include "common/base/log.h"
#include "common/privs/privs.h"
#include "common/privs/start.h"
#include "common/proto/hello.h"
#include "common/proto/loop.h"
#include "config.h"
#include "sbxd/recorder/recorder.h"

#include <event2/event.h>
#include <string.h>
#include <unistd.h>

/* Bounds of what RECORDER_START may ask for. */
#define RUN_CAP_MIN (32u << 10)
#define RUN_CAP_MAX (1ull << 40)

static const uint16_t start_types[] = { SBX_MSG_RECORDER_START, 0 };
static const struct sbx_accepts start_list = {
	SBX_PROC_RECORDER, SBX_PROC_MONITOR, start_types
};

static struct recorder recorder;

static void
on_monitor_end(struct sbx_peer *p, int error)
{
	struct recorder *r = sbx_peer_ctx(p);

	sbx_log_to(NULL, NULL);
	r->monitor = NULL;
	if (error != SBX_E_CLOSED) {
		log_err("channel of monitor ended: %s", sbx_error_name(error));
		r->exit_code = 3;
	}
	(void)event_base_loopbreak(r->base);
}

/* The pipes stay: they end with the sandboxes, or come again. */
static void
on_engine_end(struct sbx_peer *p, int error)
{
	struct recorder *r = sbx_peer_ctx(p);

	if (error != SBX_E_CLOSED)
		log_err("channel of engine ended: %s", sbx_error_name(error));
	if (r->engine == p)
		r->engine = NULL;
}

int
recorder_meet_engine(struct recorder *r, int fd)
{
	sbx_peer_free(r->engine);
	r->engine = sbx_peer_new(r->base, fd, &recorder_from_engine, r,
	    on_engine_end);
	if (r->engine == NULL)
		return (SBX_E_SYS);
	sbx_peer_set_priority(r->engine, PRIO_ENGINE);
	return (0);
}

/* What RECORDER_START brings.  Returns: the store is to be emptied. */
static bool
take_start(struct recorder *r, struct sbx_in *in)
{
	const struct sbx_recorder_start *m = &in->m.recorder_start;
	uint64_t cap = m->run_cap_bytes;

	cap = cap < RUN_CAP_MIN ? RUN_CAP_MIN : cap > RUN_CAP_MAX ?
	    RUN_CAP_MAX : cap;
	/* whole pages, so that splice(2) can go by them */
	r->segment_bytes = cap / STREAM_SEGMENTS & ~4095ull;
	r->total_cap_bytes = m->total_cap_bytes < cap ? cap :
	    m->total_cap_bytes;
	r->store_fd = sbx_steal_fd(&in->fds[0]);
	return (m->fresh != 0);
}

/* The loop's objects, and the cage around them.  fd: owned. */
static int
prepare(struct recorder *r, int fd, bool fresh, bool trap,
    struct sbx_err *err)
{
	struct sbx_privs_args args = {
		.dir_fds = &r->store_fd, .ndir_fds = 1, .trap = trap,
	};
	uint32_t features;
	int error;

	r->base = sbx_loop_new();
	if (r->base == NULL || event_base_priority_init(r->base, PRIO_MAX) < 0)
		return (sbx_err_set(err, SBX_E_SYS, "no event loop"));
	error = sbx_privs_enter(SBX_PROC_RECORDER, &args, &features, err);
	if (error == 0)
		error = store_open(r, fresh, err);
	if (error < 0)
		return (error);
	r->started_ns = sbx_mono_ns();
	r->monitor = sbx_peer_new(r->base, fd, &recorder_from_monitor, r,
	    on_monitor_end);
	error = sbx_peer_hello(r->monitor, PACKAGE_VERSION, features);
	return (error < 0 ? sbx_err_set(err, error, "HELLO: %s",
	    sbx_error_name(error)) : 0);
}

int
main(int argc, char **argv)
{
	static const struct sbx_dispatch_table *const tables[] = {
		&recorder_from_monitor, &recorder_from_engine, NULL
	};
	static const struct sbx_program how = {
		.name = "sbxd-recorder", .list = &start_list, .tables = tables,
	};
	struct recorder *r = &recorder;
	struct sbx_err err = { 0 };
	struct sbx_chan c;
	bool trap = sbx_program_start(argc, argv, &how, &c), fresh;

	TAILQ_INIT(&r->live);
	TAILQ_INIT(&r->closed);
	TAILQ_INIT(&r->open);
	TAILQ_INIT(&r->undo);
	fresh = take_start(r, c.in);
	if (prepare(r, sbx_steal_fd(&c.fd), fresh, trap, &err) < 0)
		sbx_fatal("%s", err.msg);
	sbx_chan_clear(&c);
	if (event_base_dispatch(r->base) < 0)
		sbx_fatal("the event loop failed");
	sbx_log_to(NULL, NULL);
	if (r->monitor != NULL)
		(void)sbx_peer_flush(r->monitor, 200); /* last answers */
	sbx_peer_free(r->monitor);
	sbx_peer_free(r->engine);
	runs_free(r);
	undo_free(r);
	event_base_free(r->base);
	sbx_close(&r->store_fd);
	return (r->exit_code);
}
