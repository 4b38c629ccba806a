#include "sbxd/recorder/recorder.h"

#include "common/base/log.h"

#include <event2/event.h>
#include <stdio.h>

/* Right after a start the engine's RUN_OPEN may be behind the questions. */
#define EARLY_NS 2000000000ull

/* Run ids become parts of paths. */
static int
find(struct sbx_peer *p, const char *id, struct run **ret_run)
{
	struct run *run;

	if (!sbx_is_hex(id, SBX_RUN_HEX))
		return (SBX_E_SYNTAX);
	run = run_find(sbx_peer_ctx(p), id);
	*ret_run = run != NULL && !run->dropped ? run : NULL;
	return (0);
}

static struct sbx_run_stats
stats_of(const struct run *run)
{
	const struct stream *o = &run->streams[SBX_STREAM_OUT],
	    *e = &run->streams[SBX_STREAM_ERR];
	uint64_t last_ns = o->last_ns > e->last_ns ? o->last_ns : e->last_ns;

	return ((struct sbx_run_stats){ .known = 1, .out_bytes = o->size,
	    .err_bytes = e->size, .dropped = run_lost(run),
	    .idle_ms = last_ns != 0 ? (sbx_mono_ns() - last_ns) / 1000000 :
	    UINT64_MAX });
}

/*
 * What the pipes hold now is stored before the answer; a descendant that goes
 * on writing is recorded, but not waited for.
 */
static int
on_run_finish(struct sbx_peer *p, struct sbx_in *in)
{
	struct recorder *r = sbx_peer_ctx(p);
	struct sbx_run_finished m = { .run = in->m.run_finish.run,
		.idle_ms = UINT64_MAX };
	struct sbx_run_stats st;
	struct run *run;
	int error;

	error = find(p, in->m.run_finish.run, &run);
	if (error != 0)
		return (error);
	if (run != NULL) {
		run_drain(run);
		m.known = run->opened ||
		    sbx_mono_ns() - r->started_ns > EARLY_NS;
		st = stats_of(run);
		m.out_bytes = st.out_bytes;
		m.err_bytes = st.err_bytes;
		m.idle_ms = st.idle_ms;
		m.dropped = st.dropped;
		run_settle(run, sbx_mono_ns());
	}
	return (sbx_send_run_finished(p, in->hdr.id, &m, NULL));
}

static int
send_nodata(struct sbx_peer *p, uint32_t id, const struct stream *s)
{
	return (sbx_send_run_nodata(p, id, &(struct sbx_run_nodata){
	    .known = s != NULL, .total = s != NULL ? s->size : 0 }, NULL));
}

/*
 * Safe for a hostile monitor's caller: the descriptor is read-only and of one
 * file of the run that was asked for.
 */
static int
on_run_read(struct sbx_peer *p, struct sbx_in *in)
{
	const struct recorder *r = sbx_peer_ctx(p);
	const struct sbx_run_read *q = &in->m.run_read;
	struct sbx_run_data d = { .start = q->offset };
	const struct stream *s;
	struct run *run;
	uint64_t n, end;
	int fd, error;

	error = find(p, q->run, &run);
	if (error != 0 || q->stream >= SBX_STREAM_MAX)
		return (error != 0 ? error : SBX_E_RANGE);
	s = run != NULL ? &run->streams[q->stream] : NULL;
	if (s == NULL || q->offset >= s->size)
		return (send_nodata(p, in->hdr.id, s));
	n = q->offset / r->segment_bytes;
	if (!store_has(s, (uint32_t)n)) {
		/* the cap took it: what comes next */
		n = s->tail_first;
		d.start = n * r->segment_bytes;
	}
	end = (n + 1) * r->segment_bytes;
	d.length = (end < s->size ? end : s->size) - d.start;
	d.file_offset = d.start % r->segment_bytes;
	d.total = s->size;
	if (store_read_segment(s, (uint32_t)n, &fd) < 0) {
		log_err("a segment is missing: run=%s", run->id);
		return (send_nodata(p, in->hdr.id, NULL));
	}
	error = sbx_send_run_data(p, in->hdr.id, &d, &fd);
	sbx_close(&fd);
	return (error);
}

static int
on_run_stat(struct sbx_peer *p, struct sbx_in *in)
{
	struct sbx_run_stats m = { .idle_ms = UINT64_MAX };
	struct run *run;
	int error;

	error = find(p, in->m.run_stat.run, &run);
	if (error != 0)
		return (error);
	if (run != NULL)
		m = stats_of(run);
	return (sbx_send_run_stats(p, in->hdr.id, &m, NULL));
}

static int
on_run_drop(struct sbx_peer *p, struct sbx_in *in)
{
	struct run *run;
	int error;

	error = find(p, in->m.run_drop.run, &run);
	if (error == 0 && run != NULL)
		run_drop(run);
	return (error);
}

/* Container ids become parts of paths; paths of files do not. */
static int
on_keep_put(struct sbx_peer *p, struct sbx_in *in)
{
	struct sbx_keep_have m = { .reason = "" };

	if (!sbx_is_hex(in->m.keep_put.container, SBX_CONTAINER_HEX))
		return (SBX_E_SYNTAX);
	m.error = undo_put(sbx_peer_ctx(p), &in->m.keep_put, in->fds[0],
	    &m.reason);
	return (sbx_send_keep_have(p, in->hdr.id, &m, NULL));
}

static int
on_keep_get(struct sbx_peer *p, struct sbx_in *in)
{
	if (!sbx_is_hex(in->m.keep_get.container, SBX_CONTAINER_HEX))
		return (SBX_E_SYNTAX);
	return (undo_answer(sbx_peer_ctx(p), p, in->hdr.id,
	    &in->m.keep_get));
}

static int
on_keep_drop(struct sbx_peer *p, struct sbx_in *in)
{
	if (!sbx_is_hex(in->m.keep_drop.container, SBX_CONTAINER_HEX))
		return (SBX_E_SYNTAX);
	undo_drop(sbx_peer_ctx(p), in->m.keep_drop.container);
	return (0);
}

/* Only the monitor can bring the engine, so a channel's name is its word. */
static int
on_introduce(struct sbx_peer *p, struct sbx_in *in)
{
	if (in->m.introduce.peer != SBX_PROC_ENGINE)
		return (SBX_E_POLICY);
	return (recorder_meet_engine(sbx_peer_ctx(p),
	    sbx_steal_fd(&in->fds[0])));
}

static int
on_ping(struct sbx_peer *p, struct sbx_in *in)
{
	const struct recorder *r = sbx_peer_ctx(p);
	char state[80];

	(void)snprintf(state, sizeof(state), "runs=%u kept_bytes=%llu%s",
	    r->nruns, (unsigned long long)r->kept,
	    r->disk_full ? " disk full" : "");
	return (sbx_send_pong(p, in->hdr.id, &(struct sbx_pong){
	    .healthy = !r->disk_full, .state = state }, NULL));
}

static int
on_shutdown(struct sbx_peer *p, struct sbx_in *in)
{
	struct recorder *r = sbx_peer_ctx(p);

	(void)in;
	runs_drain(r);
	(void)event_base_loopbreak(r->base);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_PING] = { SBX_ST_ANY, 0, on_ping },
	[SBX_MSG_SHUTDOWN] = { SBX_ST_ANY, SBX_D_ONCE, on_shutdown },
	[SBX_MSG_INTRODUCE] = { SBX_ST_ANY, 0, on_introduce },
	[SBX_MSG_RUN_FINISH] = { SBX_ST_ANY, 0, on_run_finish },
	[SBX_MSG_RUN_READ] = { SBX_ST_ANY, 0, on_run_read },
	[SBX_MSG_RUN_STAT] = { SBX_ST_ANY, 0, on_run_stat },
	[SBX_MSG_RUN_DROP] = { SBX_ST_ANY, 0, on_run_drop },
	[SBX_MSG_KEEP_PUT] = { SBX_ST_ANY, 0, on_keep_put },
	[SBX_MSG_KEEP_GET] = { SBX_ST_ANY, 0, on_keep_get },
	[SBX_MSG_KEEP_DROP] = { SBX_ST_ANY, 0, on_keep_drop },
};
const struct sbx_dispatch_table recorder_from_monitor = {
	SBX_PROC_RECORDER, SBX_PROC_MONITOR, rows
};
