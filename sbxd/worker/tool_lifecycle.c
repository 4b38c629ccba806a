/*
 * Making, finding and ending sandboxes.  All of it is the monitor's to do and
 * to refuse; here it becomes arguments and results.
 */

#include "common/base/json.h"
#include "sbxd/worker/clone.h"
#include "sbxd/worker/limits.h"
#include "sbxd/worker/run.h"
#include "sbxd/worker/worker.h"

#include <string.h>

#define KEEP_BYTES 65536u	/* of a list of SB_CREATED */

/* Who made the image put it there; tokens among it are not for the client. */
static void
put_strs(struct result *r, const char *key, const struct sbx_strs *strs)
{
	const char *s = NULL;

	result_open(r, key, '[');
	while ((s = sbx_strs_next(strs, s)) != NULL)
		result_masked(r, NULL, s, strlen(s));
	result_close(r, ']');
}

/* Shown only: commands run as sandbox in /workspace, whatever it says. */
static void
put_image_config(struct result *r, const struct ask_created *c)
{
	if (c->digest[0] == '\0') {
		result_null(r, "image_config");
		return;
	}
	result_open(r, "image_config", '{');
	result_str_or_null(r, "user", c->user);
	result_str_or_null(r, "working_dir", c->workdir);
	put_strs(r, "env", &c->env);
	put_strs(r, "entrypoint", &c->entrypoint);
	result_close(r, '}');
}

/* The one in force: the configuration may allow less than was asked for. */
static void
put_ttl(struct result *r, uint64_t ttl_s)
{
	if (ttl_s != 0)
		result_u64(r, "ttl_seconds", ttl_s);
	else
		result_null(r, "ttl_seconds");
}

/* What a user who looks at the client's log wants to know of it. */
static int
log_made(struct call *call, const struct ask_created *c)
{
	int error;

	error = call_log(call, SBX_MCP_INFO, "sandbox %s of image %s%s%s",
	    c->container, c->image, *c->why_image != '\0' ? ": " : "",
	    c->why_image);
	return (error != 0 ? error : limits_log(call, &c->limits));
}

/* `clone` and `deps`: null where there is none. */
static int
put_project(struct call *call, const struct clone *c,
    const struct ask_deps *deps)
{
	struct result *r = call->res;
	bool install = c->wanted && !c->running &&
	    args_bool(&call->args, "deps"), running;
	int error = 0;

	if (c->wanted) {
		result_open(r, "clone", '{');
		result_str(r, "status", c->running ? "running" : "ok");
		clone_put(call, c);
		result_close(r, '}');
	} else
		result_null(r, "clone");
	if (!install && deps->layer[0] == '\0') {
		result_null(r, "deps");
		return (0);
	}
	result_open(r, "deps", '{');
	setup_put(r, deps);
	if (install) {
		result_open(r, "install", '{');
		error = deps_install(call, c->container, c->dest, &running);
		result_close(r, '}');
	}
	result_close(r, '}');
	return (error);
}

static int
put_made(struct call *call, const struct ask_created *c,
    const struct clone *clone, const struct ask_deps *deps)
{
	const char *label = args_str(&call->args, "session_label", NULL);
	struct result *r = call->res;
	int error;

	result_str(r, "status", "ok");
	result_str(r, "container_id", c->container);
	result_str(r, "run_id", c->run);
	result_str(r, "image", c->image);
	result_str_or_null(r, "image_digest", c->digest);
	result_str_or_null(r, "image_reason", c->why_image);
	put_image_config(r, c);
	result_str(r, "users", c->own_user ? "own" : "shared");
	error = put_project(call, clone, deps);
	if (error != 0)
		return (error);
	result_str(r, "network", c->network ? "on" : "off");
	result_str_or_null(r, "name", c->name);
	result_str_or_null(r, "session_label", label != NULL ? label : "");
	put_ttl(r, c->limits.ttl_s);
	limits_put(r, &c->limits);
	result_open(r, "warnings", '[');
	limits_warn(r, &call->args, &c->limits);
	clone_warn(call, clone);
	result_close(r, ']');
	return (log_made(call, c));
}

/* A list that outlives the next question: b has it. */
static void
keep(struct sbx_strs *strs, struct sbx_buf *b)
{
	struct sbx_strs copy = { 0 };
	const char *s = NULL;

	sbx_buf_init(b, KEEP_BYTES);
	while ((s = sbx_strs_next(strs, s)) != NULL)
		if (sbx_strs_add(&copy, b, s) != 0)
			break;
	copy.data = b->data;
	*strs = copy;
}

static int
initialize(struct call *call, struct clone *clone)
{
	const char *image = args_str(&call->args, "image", NULL);
	const char *name = args_str(&call->args, "name", NULL);
	const char *label = args_str(&call->args, "session_label", NULL);
	struct sbx_sb_create m = {
		.image = image != NULL ? image : "",
		.name = name != NULL ? name : "",
		.label = label != NULL ? label : "", .snapshot = "",
		.want_network = args_bool(&call->args, "allow_network") ||
		    clone->wanted,
	};
	SBX_CLEANUP_BUF struct sbx_buf env = { 0 }, entry = { 0 };
	struct ask_created c;
	struct ask_deps deps;
	bool go;
	int error;

	if (limits_from_args(&call->args, &m, call->res) != 0)
		return (0);
	error = setup_from_args(call, &m, &deps, &go);
	if (error != 0 || !go)
		return (error);
	error = sb_create(call->ask, &m, &c);
	if (error != 0)
		return (call_refused(call, error));
	clone->container = c.container;
	if (clone->wanted) {
		keep(&c.env, &env);
		keep(&c.entrypoint, &entry);
		error = clone_run(call, clone);
		if (error != 1)
			return (error != 0 ? error :
			    clone_failed(call, clone));
	}
	return (put_made(call, &c, clone, &deps));
}

int
tool_sandbox_initialize(struct call *call)
{
	struct clone c;
	int r;

	clone_init(call, &c);
	r = clone_wanted(call, &c);
	if (r == 1)
		r = initialize(call, &c);
	clone_clear(&c);
	return (r);
}

/* Whether there is work to lose, the monitor decides: it has the baseline. */
int
tool_sandbox_stop(struct call *call)
{
	const char *container = args_str(&call->args, "container_id", NULL);
	char run[SBX_RUN_HEX + 1];
	int error;

	error = sb_stop(call->ask, container, args_bool(&call->args, "force"),
	    run);
	if (error != 0)
		return (call_refused(call, error));
	result_str(call->res, "status", "ok");
	result_str(call->res, "container_id", container);
	result_str(call->res, "run_id", run);
	result_bool(call->res, "stopped", true);
	return (0);
}

/* --- a throwaway one ----------------------------------------------------------- */

/* 0: an error object. */
static int
too_slow(struct call *call, const char *what)
{
	result_reset(call->res);
	result_error(call->res, "timeout", "sandbox_initialize does it as a "
	    "job and keeps the sandbox; then sandbox_exec.",
	    "%s was not done in the time of one call; the sandbox is gone.",
	    what);
	return (0);
}

/* What the clone needs: in it, before the commands.  As tool_fn, 1: they may
 * run. */
static int
throwaway_deps(struct call *call, const struct clone *c)
{
	bool running = false;
	int error;

	if (!args_bool(&call->args, "deps"))
		return (1);
	result_open(call->res, "deps", '{');
	error = deps_install(call, c->container, c->dest, &running);
	result_close(call->res, '}');
	if (error != 0)
		return (error);
	return (running ? too_slow(call, "What the project needs") : 1);
}

/* Members of the result before those of the commands.  As tool_fn, 1: they may
 * run. */
static int
throwaway_clone(struct call *call, struct clone *c)
{
	struct result *r = call->res;
	int error;

	if (!c->wanted)
		return (1);
	error = clone_run(call, c);
	if (error != 1)
		return (error);
	if (c->running)
		return (too_slow(call, "The clone"));
	result_open(r, "clone", '{');
	result_str(r, "status", "ok");
	clone_put(call, c);
	result_close(r, '}');
	result_open(r, "warnings", '[');
	clone_warn(call, c);
	result_close(r, ']');
	return (throwaway_deps(call, c));
}

/* *ret_over: nothing of it goes on as a job. */
static int
throwaway_run(struct call *call, const struct ask_created *created,
    struct clone *c, struct run_spec *spec, bool *ret_over)
{
	int r;

	*ret_over = true;
	c->container = spec->container = created->container;
	if (c->wanted && *args_str(&call->args, "working_dir", NULL) == '\0')
		spec->cwd = c->dest;
	r = throwaway_clone(call, c);
	if (r != 1)
		return (r);
	r = run_foreground(call, spec, ret_over);
	if (r == 0) {	/* also beside an error of the run */
		result_str(call->res, "image", created->image);
		result_str_or_null(call->res, "image_reason",
		    created->why_image);
	}
	return (r);
}

/*
 * Gone afterwards in any case: stopped here, or by the monitor when this call
 * breaks off.
 */
static int
throwaway(struct call *call, struct clone *c, struct run_spec *spec)
{
	const char *image = args_str(&call->args, "image", NULL);
	const char *label = args_str(&call->args, "session_label", NULL);
	struct sbx_sb_create m = {
		.image = image != NULL ? image : "",
		.name = "", .label = label != NULL ? label : "",
		.throwaway = 1,
		.want_network = args_bool(&call->args, "allow_network") ||
		    c->wanted,
	};
	struct ask_created created;
	char stopped[SBX_RUN_HEX + 1];
	bool over;
	int error, stop_error;

	error = sb_create(call->ask, &m, &created);
	if (error != 0)
		return (call_refused(call, error));
	error = throwaway_run(call, &created, c, spec, &over);
	/* A run that goes on as a job keeps its sandbox; the monitor stops a
	 * throwaway one when the last run in it has ended. */
	if (error != 0 || !over)
		return (error);
	stop_error = sb_stop(call->ask, created.container, true, stopped);
	return (stop_error == SBX_E_POLICY ? 0 : stop_error);
}

/* The arguments are looked at before there is a sandbox. */
int
tool_run_container_and_exec(struct call *call)
{
	struct run_spec spec;
	struct clone c;
	int r;

	clone_init(call, &c);
	r = run_spec_from_args(call, &spec);
	if (r == 0)
		r = clone_wanted(call, &c);
	else if (r == SBX_E_SYNTAX)
		r = 0;
	if (r == 1)
		r = throwaway(call, &c, &spec);
	run_spec_clear(&spec);
	clone_clear(&c);
	return (r);
}

/* --- finding them -------------------------------------------------------------- */

/* The members that sandbox_list_containers and sandbox_attach share. */
static void
put_item(struct result *r, const struct ask_item *it)
{
	static const char *const states[SBX_SANDBOX_MAX] = {
		[SBX_SANDBOX_CREATING] = "creating",
		[SBX_SANDBOX_READY] = "running",
		[SBX_SANDBOX_STOPPING] = "stopping",
		[SBX_SANDBOX_FROZEN] = "frozen",
	};

	result_str(r, "container_id", it->container);
	result_str_or_null(r, "name", it->name);
	result_str_or_null(r, "session_label", it->label);
	result_str(r, "kind", "sandbox");
	result_str(r, "image", it->image);
	result_str_or_null(r, "image_digest", it->digest);
	result_str(r, "principal", it->principal);
	result_str(r, "state", states[it->state]);
	result_str(r, "network", it->network ? "on" : "off");
	result_bool(r, "allow_network", it->network);
	result_u64(r, "jobs", it->jobs);
	result_time(r, "created_at", it->created_wall_ns);
	result_seconds(r, "age_seconds", it->age_ms);
	result_seconds(r, "idle_seconds", it->idle_ms);
	result_time(r, "last_activity_ts", sbx_wall_ns() -
	    it->idle_ms * 1000000);
	result_bool(r, "has_baseline", it->has_baseline);
	result_str_or_null(r, "reap_held", it->reap_held);
	put_ttl(r, it->limits.ttl_s);
	limits_put(r, &it->limits);
}

/* The list that is being written; the second one follows the first. */
struct listing {
	struct result *r;
	bool reaped;
};

static void
list_item(void *arg, const struct ask_item *it)
{
	struct listing *l = arg;

	result_open(l->r, NULL, '{');
	put_item(l->r, it);
	result_close(l->r, '}');
}

static void
list_second(struct listing *l)
{
	if (l->reaped)
		return;
	l->reaped = true;
	result_close(l->r, ']');
	result_open(l->r, "reaped", '[');
}

static void
list_reaped(void *arg, const struct ask_reaped *d)
{
	struct listing *l = arg;

	list_second(l);
	result_open(l->r, NULL, '{');
	result_str(l->r, "container_id", d->container);
	result_str_or_null(l->r, "name", d->name);
	result_str(l->r, "reason", d->reason);
	result_time(l->r, "when", d->when_wall_ns);
	result_close(l->r, '}');
}

int
tool_sandbox_list_containers(struct call *call)
{
	struct listing l = { call->res, false };
	size_t n;
	int error;

	result_str(call->res, "status", "ok");
	result_open(call->res, "containers", '[');
	error = sb_list(call->ask, "", list_item, list_reaped, &l, &n);
	if (error != 0)
		return (call_refused(call, error));
	list_second(&l);
	result_close(call->res, ']');
	result_u64(call->res, "total", n);
	error = snapshots_put(call);
	return (error == 0 ? 0 : call_refused(call, error));
}

/* What fits a name or id: the first, and some of them for a sentence. */
struct found {
	struct ask_item item;
	size_t n;
	struct sbx_buf names;
};

static void
found_item(void *arg, const struct ask_item *it)
{
	struct found *f = arg;

	if (f->n == 0)
		f->item = *it;
	if (f->n < 8)
		(void)sbx_buf_printf(&f->names, "%s%s%s%s%s",
		    f->n == 0 ? "" : ", ", it->container,
		    it->name[0] != '\0' ? " (" : "", it->name,
		    it->name[0] != '\0' ? ")" : "");
	f->n++;
}

/* Exactly one sandbox, or the error object and SBX_E_NOENT. */
static int
attach_find(struct call *call, const char *what, struct found *f)
{
	char vis[80];
	size_t n;
	int error;

	error = sb_list(call->ask, what, found_item, NULL, f, &n);
	if (error == SBX_E_POLICY) {
		(void)call_refused(call, error);
		return (SBX_E_NOENT);
	}
	if (error != 0 || f->n == 1)
		return (error);
	sbx_vis(vis, sizeof(vis), what, strlen(what));
	if (f->n == 0)
		result_error(call->res, "not_found",
		    "sandbox_list_containers shows your sandboxes; "
		    "sandbox_initialize makes one.",
		    "None of your sandboxes has the name or id \"%s\".", vis);
	else
		result_error(call->res, "ambiguous",
		    "Give more digits of the id.",
		    "\"%s\" fits %zu sandboxes: %s%s.", vis, f->n,
		    f->names.data, f->n > 8 ? ", ..." : "");
	return (SBX_E_NOENT);
}

int
tool_sandbox_attach(struct call *call)
{
	const char *what = args_str(&call->args, "name_or_id", NULL);
	const char *label = args_str(&call->args, "session_label", NULL);
	struct found f = { .n = 0 };
	char previous[65] = "";
	int error;

	sbx_buf_init(&f.names, 1024);
	error = attach_find(call, what, &f);
	sbx_buf_clear(&f.names);
	if (error != 0)
		return (error == SBX_E_NOENT ? 0 : error);
	if (label != NULL) {
		error = sb_label(call->ask, f.item.container, label, previous);
		if (error != 0)
			return (call_refused(call, error));
		(void)sbx_strlcpy(f.item.label, label, sizeof(f.item.label));
	}
	result_str(call->res, "status", "ok");
	result_bool(call->res, "found", true);
	result_str(call->res, "match_type",
	    f.item.match == SBX_MATCH_NAME ? "name" : "id");
	put_item(call->res, &f.item);
	if (label != NULL)
		result_str_or_null(call->res, "previous_session_label",
		    previous);
	return (0);
}
