/*
 * sbx-journald writes the audit journal.
 *
 * It alone holds the journal directory: one JSON object a line, each with the
 * hash of the line before, appended and never changed.  The monitor talks to
 * it, and the proxy and the broker over channels that the monitor hands in;
 * each may only append, under the name of its own channel, and is answered
 * when its record is on the disk.
 *
 * It must never be able to reach the network, execute anything, open a file
 * outside of its directory, or shorten, rename or remove one inside.
 */

#include "common/base/log.h"
#include "common/privs/privs.h"
#include "common/privs/start.h"
#include "common/proto/hello.h"
#include "common/proto/loop.h"
#include "config.h"
#include "sbx-journald/journald.h"

#include <event2/event.h>
#include <string.h>

/* Bounds of what JOURNALD_START may ask for. */
#define ROTATE_MIN (16u << 10)
#define ROTATE_MAX (4ull << 30)
#define RESERVE_MAX (256ull << 20)

static const uint16_t start_types[] = { SBX_MSG_JOURNALD_START, 0 };
static const struct sbx_accepts start_list = {
	SBX_PROC_JOURNALD, SBX_PROC_MONITOR, start_types
};

static struct journald journald;

static void
on_monitor_end(struct sbx_peer *p, int error)
{
	struct journald *j = sbx_peer_ctx(p);

	/* what it sent still counts; there is nobody left to answer */
	sbx_log_to(NULL, NULL);
	if (error != SBX_E_CLOSED) {
		log_err("channel of monitor ended: %s", sbx_error_name(error));
		j->exit_code = 3;
	}
	commit_now(j);
	writer_clear(&j->writers[WRITER_MONITOR]);
	(void)event_base_loopbreak(j->base);
}

static uint64_t
clamp(uint64_t v, uint64_t min, uint64_t max)
{
	return (v < min ? min : v > max ? max : v);
}

/* Open the journal with what JOURNALD_START brings. */
static int
start(struct journald *j, struct sbx_chan *c, struct sbx_err *err)
{
	const struct sbx_journald_start *m = &c->in->m.journald_start;
	struct tail tail;
	int r;

	if (chain_maker_init(&j->maker) < 0)
		return (sbx_err_set(err, SBX_E_SYS, "libcrypto has no SHA-256"));
	outlet_init(&j->outlet, m->to_stdout != 0);
	r = store_open(&j->store, sbx_steal_fd(&c->in->fds[0]),
	    clamp(m->rotate_bytes, ROTATE_MIN, ROTATE_MAX),
	    clamp(m->reserve_bytes, 0, RESERVE_MAX), &j->maker, &tail, err);
	if (r < 0)
		return (r);
	j->chain = tail.chain;
	j->end_line = tail.open_line;
	j->mismatch = tail.mismatch;
	memcpy(j->torn, tail.torn, sizeof(j->torn));
	j->ntorn = tail.ntorn;
	j->open_why = j->store.fresh && tail.chain.seq == 0 ? "created" :
	    "started";
	return (0);
}

/* The loop's objects, and the cage around them.  fd: owned. */
static int
prepare(struct journald *j, int fd, bool trap, struct sbx_err *err)
{
	struct sbx_privs_args args = {
		.dir_fds = &j->store.dir_fd, .ndir_fds = 1, .trap = trap,
	};
	struct sbx_peer *p;
	uint32_t features;
	int r;

	j->base = sbx_loop_new();
	/* reading comes before committing: see commit.c */
	if (j->base == NULL || event_base_priority_init(j->base, 3) < 0)
		return (sbx_err_set(err, SBX_E_SYS, "no event loop"));
	r = sbx_privs_enter(SBX_PROC_JOURNALD, &args, &features, err);
	if (r == 0)
		r = commit_init(j, err);
	if (r < 0)
		return (r);
	p = sbx_peer_new(j->base, fd, &journald_from_monitor, j,
	    on_monitor_end);
	if (writer_init(&j->writers[WRITER_MONITOR], j, p) < 0)
		return (sbx_err_set(err, SBX_E_SYS, "no channel to the monitor"));
	r = sbx_peer_hello(p, PACKAGE_VERSION, features);
	if (r < 0)
		return (sbx_err_set(err, r, "HELLO: %s", sbx_error_name(r)));
	if (!j->able)
		commit_tell_state(j);
	return (0);
}

int
main(int argc, char **argv)
{
	static const struct sbx_dispatch_table *const tables[] = {
		&journald_from_monitor, &journald_from_proxy,
		&journald_from_broker, NULL
	};
	static const struct sbx_program how = {
		.name = "sbx-journald", .list = &start_list, .tables = tables,
	};
	struct journald *j = &journald;
	struct sbx_err err = { 0 };
	struct sbx_chan c;
	bool trap = sbx_program_start(argc, argv, &how, &c);

	if (start(j, &c, &err) < 0 ||
	    prepare(j, sbx_steal_fd(&c.fd), trap, &err) < 0)
		sbx_fatal("%s", err.msg);
	sbx_chan_clear(&c);
	if (event_base_dispatch(j->base) < 0)
		sbx_fatal("the event loop failed");
	journald_end_writers(j);
	commit_finish(j);
	sbx_log_to(NULL, NULL);
	if (j->writers[WRITER_MONITOR].peer != NULL) {
		/* last answers; a monitor that is gone does not matter */
		(void)sbx_peer_flush(j->writers[WRITER_MONITOR].peer, 200);
		sbx_peer_free(j->writers[WRITER_MONITOR].peer);
	}
	writer_clear(&j->writers[WRITER_MONITOR]);
	commit_clear(j);
	event_base_free(j->base);
	outlet_clear(&j->outlet);
	store_clear(&j->store);
	chain_maker_clear(&j->maker);
	return (j->exit_code);
}
