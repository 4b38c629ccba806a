/*
 * Snapshots, restores, forks, and the dependency layer of sandbox_initialize.
 * All of it is the monitor's to do and to refuse.
 */

#include "common/base/json.h"
#include "sbxd/worker/output.h"
#include "sbxd/worker/worker.h"

#include <json-c/json.h>
#include <string.h>

#define PROCESSES "not part of a snapshot"
#define TAIL_LINES 40

static const char *const methods[SBX_SNAP_MAX] = {
	[SBX_SNAP_STACKED] = "stacked", [SBX_SNAP_REFLINK] = "reflink",
	[SBX_SNAP_COPY] = "copy",
};

/* Not counted in time: null. */
static void
put_count(struct result *r, const char *key, uint64_t n)
{
	if (n == UINT64_MAX)
		result_null(r, key);
	else
		result_u64(r, key, n);
}

static const char *
arg_or_empty(struct call *call, const char *name)
{
	const char *s = args_str(&call->args, name, NULL);

	return (s != NULL ? s : "");
}

int
tool_sandbox_snapshot(struct call *call)
{
	const struct sbx_sb_snapshot m = {
		.container = args_str(&call->args, "container_id", NULL),
		.name = arg_or_empty(call, "name"),
		.label = arg_or_empty(call, "session_label"),
	};
	struct ask_snapshot s;
	struct result *r = call->res;
	int error;

	error = sb_snapshot(call->ask, &m, &s);
	if (error != 0)
		return (call_refused(call, error));
	result_str(r, "status", "ok");
	result_str(r, "snapshot_id", s.id);
	result_str(r, "container_id", s.container);
	result_str(r, "run_id", s.run);
	result_str(r, "name", s.name);
	result_str_or_null(r, "session_label", m.label);
	put_count(r, "files", s.files);
	put_count(r, "bytes", s.bytes);
	result_str(r, "method", methods[s.method]);
	result_str(r, "processes", PROCESSES);
	result_str(r, "note", s.live ? "Runs were live: a file that was being "
	    "written is as it was at some moment of the copy." :
	    "files and bytes count what was written since the snapshot "
	    "before.");
	return (0);
}

int
tool_sandbox_restore(struct call *call)
{
	const struct sbx_sb_restore m = {
		.container = args_str(&call->args, "container_id", NULL),
		.snapshot = args_str(&call->args, "snapshot", NULL),
		.force = args_bool(&call->args, "force"),
	};
	struct ask_restored s;
	struct result *r = call->res;
	const char *run = NULL;
	int error;

	error = sb_restore(call->ask, &m, &s);
	if (error != 0)
		return (call_refused(call, error));
	result_str(r, "status", "ok");
	result_str(r, "container_id", m.container);
	result_str(r, "run_id", s.run);
	result_str(r, "snapshot_id", s.id);
	result_str(r, "name", s.name);
	result_open(r, "ended_runs", '[');
	while ((run = sbx_strs_next(&s.ended, run)) != NULL)
		result_str(r, NULL, run);
	result_close(r, ']');
	result_str(r, "note", "Its processes have ended; outputs of runs stay "
	    "readable.");
	return (0);
}

static void
put_fork(void *arg, const struct ask_created *c)
{
	struct result *r = arg;

	result_open(r, NULL, '{');
	result_str(r, "container_id", c->container);
	result_str(r, "run_id", c->run);
	result_str(r, "name", c->name);
	result_str(r, "image", c->image);
	result_str_or_null(r, "image_digest", c->digest);
	result_str(r, "network", c->network ? "on" : "off");
	result_close(r, '}');
}

int
tool_sandbox_fork(struct call *call)
{
	const struct sbx_sb_fork m = {
		.container = arg_or_empty(call, "container_id"),
		.snapshot = arg_or_empty(call, "snapshot"),
		.name = arg_or_empty(call, "name"),
		.label = arg_or_empty(call, "session_label"),
		.count = (uint32_t)args_int(&call->args, "count"),
	};
	struct result *r = call->res;
	size_t n;
	int error;

	result_str(r, "status", "ok");
	result_open(r, "sandboxes", '[');
	error = sb_fork(call->ask, &m, put_fork, r, &n);
	if (error != 0)
		return (call_refused(call, error));
	result_close(r, ']');
	result_u64(r, "count", n);
	result_str(r, "processes", PROCESSES);
	return (0);
}

int
tool_sandbox_drop_snapshot(struct call *call)
{
	char id[SBX_CONTAINER_HEX + 1], name[65];
	int error;

	error = snap_remove(call->ask, args_str(&call->args, "snapshot",
	    NULL), id, name);
	if (error != 0)
		return (call_refused(call, error));
	result_str(call->res, "status", "ok");
	result_str(call->res, "snapshot_id", id);
	result_str(call->res, "name", name);
	result_bool(call->res, "dropped", true);
	return (0);
}

static void
put_item(void *arg, const struct ask_snapshot *s)
{
	struct result *r = arg;

	result_open(r, NULL, '{');
	result_str(r, "snapshot_id", s->id);
	result_str(r, "name", s->name);
	result_str_or_null(r, "session_label", s->label);
	result_str(r, "container_id", s->container);
	result_str(r, "image", s->image);
	result_str(r, "method", methods[s->method]);
	put_count(r, "files", s->files);
	put_count(r, "bytes", s->bytes);
	result_time(r, "created_at", s->created_wall_ns);
	result_close(r, '}');
}

int
snapshots_put(struct call *call)
{
	int error;

	result_open(call->res, "snapshots", '[');
	error = snap_list(call->ask, put_item, call->res);
	result_close(call->res, ']');
	return (error);
}

/* --- the dependency layer -------------------------------------------------- */

/* The end of what the commands printed, whose last line says which failed. */
static int
setup_failed(struct call *call, const struct ask_deps *d)
{
	struct output_page p;
	int error;

	error = output_page(call, d->run, SBX_STREAM_ERR, 0, 0, TAIL_LINES,
	    &p);
	if (error == 0)
		result_error(call->res, "setup_failed", "Mend the command; "
		    "read_output(run_id) has all that was printed.",
		    "The setup commands failed, and no sandbox was made. The "
		    "end of their stderr:\n%s", p.text.data != NULL ?
		    p.text.data : "");
	output_page_clear(&p);
	if (error == SBX_E_POLICY)
		return (call_refused(call, error));
	if (error == 0)
		result_str(call->res, "run_id", d->run);
	return (error);
}

/* The monitor answers in the time of a call; who polls asks again. */
static int
deps_wait(struct call *call, const struct sbx_deps_make *q,
    struct ask_deps *ret_deps)
{
	int error;

	for (;;) {
		error = deps_make(call->ask, q, ret_deps);
		if (error != SBX_E_POLICY || !call->patient ||
		    call_elapsed_ms(call) >= SBX_SETUP_S * 1000 ||
		    strcmp(call->ask->refused.code, "setup_running") != 0)
			return (error);
		error = call_progress(call, 0, "the setup commands run");
		if (error != 0)
			return (error);
	}
}

int
setup_from_args(struct call *call, struct sbx_sb_create *m,
    struct ask_deps *ret_deps, bool *ret_go)
{
	struct json_object *list = args_json(&call->args, "setup");
	struct sbx_deps_make q = { .image = m->image,
		.network = m->want_network };
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	size_t i, n;
	int error = 0;

	memset(ret_deps, 0, sizeof(*ret_deps));
	*ret_go = list == NULL;
	if (list == NULL)
		return (0);
	sbx_buf_init(&b, SBX_MAX_COMMANDS);
	n = json_object_array_length(list);
	for (i = 0; error == 0 && i < n; i++)
		error = sbx_strs_add(&q.commands, &b, json_object_get_string(
		    json_object_array_get_idx(list, i)));
	if (error != 0) {
		result_error(call->res, "too_large", "Copy a script in and "
		    "run that.", "\"setup\" is larger than %u bytes in all.",
		    SBX_MAX_COMMANDS);
		return (0);
	}
	q.commands.data = b.data;
	error = deps_wait(call, &q, ret_deps);
	if (error != 0)
		return (call_refused(call, error));
	if (ret_deps->error != 0)
		return (setup_failed(call, ret_deps));
	m->snapshot = ret_deps->snapshot;
	*ret_go = true;
	return (0);
}

void
setup_put(struct result *r, const struct ask_deps *d)
{
	if (d->layer[0] == '\0')
		return;
	result_str(r, "layer", d->layer);
	result_bool(r, "cached", d->cached);
	result_seconds(r, "seconds", d->ms);
	put_count(r, "files", d->files);
	put_count(r, "bytes", d->bytes);
	result_str(r, "run_id", d->run);
}
