/*
 * package_install: the managers of the languages, with what was installed
 * before and after beside what they print.
 */

#include "common/base/install.h"
#include "common/base/limits.h"
#include "sbxd/worker/run.h"
#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define LIST_MAX (1u << 20)
#define LINES_MAX 4000u
#define LIST_MS 60000u

/* $1 the manager.  Prints where it installs to, and NAME==VERSION lines. */
static const char list_script[] =
    "case $1 in\n"
    "pip)\n" SBX_INSTALL_PYTHON
    "printf '%s\\n' \"$v\"\n"
    "exec \"$py\" -m pip list --format=freeze "
    "--disable-pip-version-check ;;\n"
    "npm) echo \"$PWD/node_modules\"\n"
    "npm ls --depth=0 --parseable --long | sed -n "
    "'2,$s/^[^:]*:\\(@\\{0,1\\}[^@:]*\\)@\\([^:]*\\).*$/\\1==\\2/p' ;;\n"
    "cargo) echo \"$PWD\"\n"
    "awk -F'\"' '/^name = /{n=$2} /^version = /{if (n != \"\") "
    "print n \"==\" $2; n=\"\"}' Cargo.lock ;;\n"
    "go) echo \"$PWD\"\n"
    "GOPROXY=off GOFLAGS=-mod=mod go list -m "
    "-f '{{.Path}}=={{.Version}}' all ;;\n"
    "esac\n"
    "exit 0\n";

struct argv {
	const char *v[SCRIPT_ARGS * 4];
	size_t n;
};

static void
arg(struct argv *a, const char *s)
{
	if (a->n + 1 < SBX_NELEM(a->v))
		a->v[a->n++] = s;
}

static bool
bad(struct call *call, const char *why)
{
	result_error(call->res, "bad_argument",
	    "Mend the argument and call again.", "%s", why);
	return (false);
}

static bool
is_local(const char *p)
{
	return (*p == '/' || strcmp(p, ".") == 0 || strncmp(p, "./", 2) == 0 ||
	    strncmp(p, "../", 3) == 0 || strncmp(p, "file:", 5) == 0);
}

/* The list of packages: none of them an option; *ret_local: all are paths. */
static bool
add_packages(struct call *call, struct argv *a, bool *ret_local)
{
	struct json_object *list = args_json(&call->args, "packages");
	size_t i, n = list == NULL ? 0 : json_object_array_length(list);
	const char *p;

	*ret_local = n > 0;
	for (i = 0; i < n; i++) {
		p = json_object_get_string(json_object_array_get_idx(list, i));
		if (*p == '\0' || *p == '-')
			return (bad(call, "\"packages\": a package is not "
			    "empty and does not begin with \"-\"."));
		*ret_local &= is_local(p);
		arg(a, p);
	}
	return (true);
}

static void
pair(struct call *call, struct argv *a, const char *name, const char *option)
{
	const char *value = args_str(&call->args, name, NULL);

	if (value == NULL)
		return;
	arg(a, option);
	arg(a, value);
}

/* What only pip has. */
static bool
not_pip(struct call *call)
{
	static const char *const names[] = { "editable", "constraints",
		"requirements", "extras", "find_links", "upgrade" };
	size_t i;

	for (i = 0; i < SBX_NELEM(names); i++)
		if (args_has(&call->args, names[i]))
			return (bad(call, "editable, constraints, "
			    "requirements, extras, upgrade and find_links "
			    "are for manager pip."));
	return (true);
}

/* editable: "path" or "path[extras]". */
static bool
pip_args(struct call *call, struct argv *a, bool offline, char *editable,
    size_t size)
{
	const struct args *g = &call->args;
	const char *path = args_str(g, "editable", NULL);
	const char *extras = args_str(g, "extras", NULL);
	bool links = args_has(g, "find_links");

	if (path == NULL && !args_has(g, "packages") &&
	    !args_has(g, "requirements"))
		return (bad(call, "Give \"packages\", \"editable\" or "
		    "\"requirements\"."));
	if (path != NULL && args_has(g, "packages"))
		return (bad(call, "Give \"packages\" or \"editable\", not "
		    "both."));
	if (extras != NULL && path == NULL)
		return (bad(call, "\"extras\" goes with \"editable\"; a "
		    "package is written name[extra]."));
	if (args_bool(g, "upgrade"))
		arg(a, "--upgrade");
	if (offline || links)
		arg(a, "--no-index");
	if (offline)
		arg(a, "--no-build-isolation");
	pair(call, a, "find_links", "--find-links");
	pair(call, a, "constraints", "-c");
	pair(call, a, "requirements", "-r");
	if (path != NULL) {
		(void)snprintf(editable, size, extras != NULL ? "%s[%s]" :
		    "%s", path, extras);
		arg(a, "-e");
		arg(a, editable);
	}
	return (true);
}

static void
take_network(void *arg_, const struct ask_item *item)
{
	*(bool *)arg_ = item->network;
}

/* Does it fetch what is not there?  false with the error object. */
static bool
reachable(struct call *call, bool local, bool *ret_offline, int *ret_error)
{
	const struct args *g = &call->args;
	bool network = false;
	size_t n;

	*ret_error = sb_list(call->ask, args_str(g, "container_id", NULL),
	    take_network, NULL, &network, &n);
	if (*ret_error != 0)
		return (false);
	*ret_offline = args_bool(g, "offline") || !network;
	if (network || local || args_bool(g, "offline") ||
	    args_has(g, "find_links") || n == 0)
		return (true);
	result_error(call->res, "no_network",
	    "Give local paths, find_links, or offline: true for what is there "
	    "already; or have sandbox_initialize prepare it with setup.",
	    "This sandbox has no network, and this would fetch packages.");
	return (false);
}

/* --- before and after ----------------------------------------------------------- */

static int
list(struct call *call, const char *dir, const char *manager,
    struct sbx_buf *ret_text)
{
	const char *const argv[] = { "sh", "-c", list_script, "sbx", manager,
		NULL };
	const struct script s = { .cwd = dir, .argv = argv,
		.timeout_ms = LIST_MS };
	struct ask_run st;
	bool whole;
	int r;

	r = script_run(call, &s, &st);
	if (r != 1)
		return (r);
	r = script_output(call, &st, LIST_MAX, ret_text, &whole);
	return (r == 0 ? 1 : call_refused(call, r));
}

/* The next line at *at, "" at the end. */
static const char *
line(const struct sbx_buf *b, size_t *at, size_t *ret_len)
{
	const char *p = b->len == 0 ? "" : b->data + *at, *nl;

	*ret_len = 0;
	if (b->len == 0 || *at >= b->len)
		return (p);
	nl = memchr(p, '\n', b->len - *at);
	*ret_len = nl == NULL ? b->len - *at : (size_t)(nl - p);
	*at += *ret_len + 1;
	return (p);
}

static bool
has_line(const struct sbx_buf *b, const char *p, size_t len)
{
	size_t at = 0, n;
	const char *l;

	(void)line(b, &at, &n);
	while (at < b->len) {
		l = line(b, &at, &n);
		if (n == len && memcmp(l, p, n) == 0)
			return (true);
	}
	return (false);
}

static void
put_installed(struct result *r, const struct sbx_buf *before,
    const struct sbx_buf *after)
{
	size_t at = 0, len, masked = 0;
	uint64_t n = 0, lines = 0;
	const char *p = line(after, &at, &len);

	if (len > 0)
		script_put(r, "environment", p, len, &masked);
	result_open(r, "installed_packages", '[');
	while (at < after->len && lines++ < LINES_MAX) {
		p = line(after, &at, &len);
		if (len == 0 || has_line(before, p, len))
			continue;
		script_put(r, NULL, p, len, &masked);
		n++;
	}
	result_close(r, ']');
	result_u64(r, "changed", n);
}

/* --- the tool ------------------------------------------------------------------- */

/* Ended without having begun: the manager, or a place for packages. */
static bool
not_begun(struct call *call, const struct ask_run *st, const char *manager,
    int *ret_r)
{
	*ret_r = 0;
	if (st->state != SBX_RUN_ENDED || st->out_bytes > 0)
		return (false);
	if (script_exit(st) == SBX_INSTALL_NO_VENV) {
		*ret_r = script_failed(call, st, "no_venv",
		    "Make a sandbox of an image with python3-venv or uv.",
		    "The system's Python takes no packages, and ~/.venv "
		    "cannot be made");
		return (true);
	}
	if (script_exit(st) != SCRIPT_MISSING || st->err_bytes > 0)
		return (false);
	result_error(call->res, "no_manager",
	    "Make a sandbox of an image that has it.",
	    "There is no %s in this sandbox.", manager);
	script_ids(call, st);
	return (true);
}

/* The monitor keeps what the client named, for fresh verifications: told before
 * anything can be known of how it ended. */
static int
note(struct call *call, const char *run, const struct argv *names,
    bool offline, bool *ret_kept)
{
	static const char *const others[] = { "editable", "constraints",
		"requirements", "find_links" };
	struct sbx_package_note m = { .run = run, .whole = !offline &&
		names->n > 0, .manager = args_str(&call->args, "manager",
		NULL), .upgrade = args_bool(&call->args, "upgrade") };
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

	for (size_t i = 0; i < SBX_NELEM(others); i++)
		m.whole &= !args_has(&call->args, others[i]);
	sbx_buf_init(&b, SBX_INSTALLS_BYTES);
	for (size_t i = 0; m.whole && i < names->n; i++)
		m.whole = sbx_strs_add(&m.packages, &b, names->v[i]) == 0;
	m.packages.data = b.data;
	if (!m.whole)
		m.packages = (struct sbx_strs){ 0 };
	return (package_note(call->ask, &m, ret_kept));
}

static int
install(struct call *call, const char *dir, struct argv *a,
    const struct argv *names, const struct sbx_buf *before)
{
	const char *manager = a->v[4];
	SBX_CLEANUP_BUF struct sbx_buf after = { 0 };
	struct run_spec spec;
	struct ask_run st;
	char run[SBX_RUN_HEX + 1];
	uint64_t seconds = (uint64_t)args_int(&call->args, "timeout");
	bool kept;
	int r;

	a->v[a->n] = NULL;
	r = run_spec_make(args_str(&call->args, "container_id", NULL), dir,
	    a->v, &spec);
	spec.timeout_ms = seconds != 0 ? seconds * 1000 :
	    call->exec_timeout_ms;
	if (r == 0)
		r = run_start(call, &spec, run);
	run_spec_clear(&spec);
	if (r == 0)
		r = note(call, run, names, a->v[5][0] != '\0', &kept);
	if (r == 0)
		r = run_wait(call, run, script_wait_ms(call,
		    spec.timeout_ms), spec.timeout_ms, &st);
	if (r != 0)
		return (call_refused(call, r));
	if (not_begun(call, &st, manager, &r))
		return (r);
	if (st.state == SBX_RUN_ENDED && st.why == SBX_EXIT_EXITED) {
		r = list(call, dir, manager, &after);
		if (r != 1)
			return (r);
	}
	r = run_result(call, &st, NULL);
	if (r != 0 || call->res->kind == SBX_RESULT_ERROR)
		return (r);
	result_str(call->res, "manager", manager);
	result_bool(call->res, "in_fresh", kept && (st.state !=
	    SBX_RUN_ENDED || (st.why == SBX_EXIT_EXITED && st.status == 0)));
	if (after.len > 0)
		put_installed(call->res, before, &after);
	return (0);
}

int
tool_package_install(struct call *call)
{
	const char *manager = args_str(&call->args, "manager", NULL), *dir;
	bool pip = strcmp(manager, "pip") == 0, local, offline;
	SBX_CLEANUP_BUF struct sbx_buf before = { 0 };
	struct argv a = { .v = { "sh", "-c", sbx_install_script, "sbx", manager,
		"" }, .n = 6 };
	struct argv names = { .n = 0 };
	char editable[8192];
	size_t i;
	int r = 0;

	if (!script_dir(call, &dir) || (!pip && !not_pip(call)) ||
	    !add_packages(call, &names, &local))
		return (0);
	if (pip && args_has(&call->args, "editable"))
		local = true;
	if (args_has(&call->args, "requirements"))
		local = false;
	if (!reachable(call, local, &offline, &r))
		return (r != 0 ? call_refused(call, r) : 0);
	if (offline)
		a.v[5] = "offline";
	if (pip && !pip_args(call, &a, offline, editable, sizeof(editable)))
		return (0);
	for (i = 0; i < names.n; i++)
		arg(&a, names.v[i]);
	r = list(call, dir, manager, &before);
	return (r == 1 ? install(call, dir, &a, &names, &before) : r);
}
