/*
 * search_in_container: rg, else grep; ast-grep for structures.  One run in
 * the sandbox, whose stored output all pages come from.  Its first line is
 * ours: what was searched for, so that a later page knows how to read the rest.
 */

#include "common/base/json.h"
#include "common/base/limits.h"
#include "sbxd/worker/run.h"
#include "sbxd/worker/script.h"
#include "sbxd/worker/search.h"
#include "sbxd/worker/worker.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define TOOL "search_in_container"
#define WARNING_BYTES 400u
#define CONTEXT_MAX 20u
#define HEAD_MAX 4000u		/* of EXEC_START.head */

enum { EXIT_NO_PATH = 66, EXIT_DENIED = 67 };

static const char *const tool_names[SEARCH_TOOL_MAX] = {
	[SEARCH_RG] = "rg", [SEARCH_GREP] = "grep", [SEARCH_AST] = "ast-grep",
};
static const char *const mode_names[SEARCH_MODE_MAX] = {
	[SEARCH_LINES] = "content", [SEARCH_FILES] = "files_with_matches",
	[SEARCH_COUNT] = "count",
};

/*
 * $1 our line, $2 the path (with a slash in it), then the command.  A link may
 * lead to where nothing is searched: where it leads is looked at.  ast-grep is
 * also a module of npm, and its short name another program's.  rg in the work
 * directory itself needs none of it, nor the shell, which takes longer than a
 * search of a small project.
 */
static const char script[] =
    "h=$1 p=$2 w=$PWD\n"
    "shift 2\n"
    "[ -e \"$p\" ] || { echo \"$p: no such file or directory\" >&2; "
    "exit 66; }\n"
    "[ -f \"$p\" ] || [ -d \"$p\" ] || { echo \"$p: neither a file nor a "
    "directory\" >&2; exit 66; }\n"
    "if [ -d \"$p\" ]; then\n"
    "cd -P -- \"$p\" && d=$PWD/ && cd -- \"$w\" || exit 66\n"
    "case $d in //|/proc/*|/sys/*|/dev/*) exit 67 ;; esac\n"
    "fi\n"
    "c=$1\n"
    "shift\n"
    "[ \"$c\" != ast-grep ] || command -v ast-grep >/dev/null ||\n"
    "PATH=$PATH:$HOME/.local/bin:$w/node_modules/.bin\n"
    "command -v \"$c\" >/dev/null || exit 127\n"
    "printf '%s\\n' \"$h\"\n"
    "exec \"$c\" \"$@\"\n";

/* What is searched for, of the arguments or of a stored output. */
struct want {
	const char *pattern, *path, *glob, *language;
	enum search_tool tool;
	enum search_mode mode;
	uint64_t context;
	bool ignore_case, hidden, no_ignore, pcre2;
	char place[4096 + 4];	/* the path as the command gets it */
};

static int
bad(struct call *call, const char *why)
{
	result_error(call->res, "bad_argument",
	    "Mend the argument and call again.", "%s", why);
	return (SBX_E_SYNTAX);
}

/* Where path leads, without looking: components one by one. */
static bool
denied(const char *path)
{
	static const char *const roots[] = { "proc", "sys", "dev" };
	char top[8] = "";
	size_t depth = 1, len, i;	/* below /workspace */

	if (*path == '/')
		depth = 0;
	for (; *path != '\0'; path += len) {
		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len == 0 || (len == 1 && *path == '.'))
			continue;
		if (len == 2 && memcmp(path, "..", 2) == 0) {
			depth -= depth > 0;
			continue;
		}
		if (depth++ == 0)
			(void)snprintf(top, sizeof(top), "%.*s", (int)(len <
			    sizeof(top) ? len : sizeof(top) - 1), path);
	}
	for (i = 0; i < SBX_NELEM(roots); i++)
		if (depth > 0 && strcmp(top, roots[i]) == 0)
			return (true);
	return (depth == 0);
}

static int
refuse_path(struct call *call, const char *path)
{
	result_error(call->res, "path_denied",
	    "Give the directory of the project, or another one below /.",
	    "\"path\" %s is not searched: /, /proc, /sys and /dev have no end.",
	    path);
	return (SBX_E_SYNTAX);
}

/* What ast-grep has no way to do is refused, not left out. */
static int
check_structural(struct call *call, const struct want *w)
{
	if (w->ignore_case)
		return (bad(call, "\"ignore_case\" is for mode lexical: a "
		    "structure has exact names."));
	if (w->context > 0)
		return (bad(call, "\"context\" is for mode lexical: a "
		    "structure is shown whole."));
	return (0);
}

static int
want_from_args(struct call *call, struct want *w)
{
	const struct args *a = &call->args;
	const char *mode = args_str(a, "output_mode", NULL);
	bool structural = strcmp(args_str(a, "mode", NULL), "structural") == 0;

	memset(w, 0, sizeof(*w));
	w->pattern = args_str(a, "pattern", NULL);
	w->path = args_str(a, "path", NULL);
	w->glob = args_str(a, "glob", NULL);
	w->language = args_str(a, "language", NULL);
	w->context = (uint64_t)args_int(a, "context");
	w->ignore_case = args_bool(a, "ignore_case");
	w->hidden = args_bool(a, "hidden");
	w->no_ignore = args_bool(a, "no_ignore");
	w->tool = structural ? SEARCH_AST : SEARCH_RG;
	while (w->mode < SEARCH_MODE_MAX - 1 && strcmp(mode,
	    mode_names[w->mode]) != 0)
		w->mode++;
	if (w->pattern == NULL)
		return (bad(call, "\"pattern\" is missing: what to search "
		    "for."));
	if (args_int(a, "offset") > 0)
		return (bad(call, "\"offset\" needs the \"run_id\" of the first "
		    "page: later pages come from what that found."));
	if (w->language != NULL && !structural)
		return (bad(call, "\"language\" is for mode structural."));
	if (denied(w->path))
		return (refuse_path(call, w->path));
	(void)snprintf(w->place, sizeof(w->place), "%s%s",
	    *w->path == '/' ? "" : "./", w->path);
	if (strcmp(w->path, ".") == 0)
		w->place[2] = '\0';
	return (structural ? check_structural(call, w) : 0);
}

/* --- the command ------------------------------------------------------------------ */

struct argv {
	const char *v[SCRIPT_ARGS];
	size_t n;
	char number[24];
};

static void
arg(struct argv *a, const char *s)
{
	if (a->n + 1 < SCRIPT_ARGS)
		a->v[a->n++] = s;
}

static void
arg_if(struct argv *a, bool on, const char *s)
{
	if (on)
		arg(a, s);
}

static void
arg_pair(struct argv *a, const char *name, const char *value)
{
	if (value == NULL)
		return;
	arg(a, name);
	arg(a, value);
}

static void
rg_args(const struct want *w, struct argv *a)
{
	arg(a, "--no-config");
	arg(a, "--one-file-system");
	arg(a, w->mode == SEARCH_LINES ? "--json" : w->mode == SEARCH_COUNT ?
	    "--count" : "--files-with-matches");
	if (w->mode != SEARCH_LINES) {
		arg(a, "--null");
		arg(a, "--with-filename");
	} else if (w->context > 0)
		arg_pair(a, "-C", a->number);
	arg_if(a, w->ignore_case, "-i");
	arg_if(a, w->pcre2, "-P");
	arg_if(a, w->no_ignore, "--no-ignore");
	arg_if(a, w->hidden, "--hidden");
	arg_pair(a, "-g", w->glob);
	arg_pair(a, "-g", w->hidden ? "!.git" : NULL);
	arg_pair(a, "-e", w->pattern);
}

/* Without a second syntax of patterns: that of POSIX, extended, is nearest. */
static void
grep_args(const struct want *w, struct argv *a)
{
	arg(a, "-rIEZ");
	arg(a, w->mode == SEARCH_LINES ? "-nH" : w->mode == SEARCH_COUNT ?
	    "-cH" : "-l");
	if (w->mode == SEARCH_LINES && w->context > 0)
		arg_pair(a, "-C", a->number);
	arg_if(a, w->ignore_case, "-i");
	arg(a, w->hidden ? "--exclude-dir=.git" : "--exclude-dir=.[!/.]*");
	arg_if(a, !w->hidden, "--exclude=.[!/.]*");
	arg_pair(a, "-e", w->pattern);
}

static void
ast_args(const struct want *w, struct argv *a)
{
	static const char *const ignores[] = { "dot", "exclude", "global",
		"parent", "vcs" };
	size_t i;

	arg(a, "run");
	arg(a, "--json=stream");
	arg(a, "--color=never");
	for (i = 0; w->no_ignore && i < SBX_NELEM(ignores); i++)
		arg_pair(a, "--no-ignore", ignores[i]);
	arg_pair(a, "--no-ignore", w->hidden ? "hidden" : NULL);
	arg_pair(a, "--globs", w->glob);
	arg_pair(a, "--globs", w->hidden ? "!.git" : NULL);
	arg_pair(a, "--lang", w->language);
}

/* Our line of the stored output. */
static void
make_header(const struct want *w, struct sbx_buf *b)
{
	sbx_buf_init(b, 65536);
	(void)sbx_buf_printf(b, "{\"search\":%d,\"mode\":%d,\"context\":%d,"
	    "\"pcre2\":%d,\"path\":", (int)w->tool, (int)w->mode,
	    (int)w->context, (int)w->pcre2);
	(void)sbx_json_str(b, w->path, strlen(w->path), NULL);
	(void)sbx_buf_str(b, ",\"pattern\":");
	(void)sbx_json_str(b, w->pattern, strlen(w->pattern), NULL);
	(void)sbx_buf_str(b, "}");
}

/* Without the shell.  As script_run(), 2: it could not be. */
static int
run_rg(struct call *call, const struct want *w, const char *header,
    struct ask_run *ret_state)
{
	struct argv a = { .v = { tool_names[SEARCH_RG] }, .n = 1 };
	SBX_CLEANUP_BUF struct sbx_buf head = { 0 };
	struct script s = { .argv = a.v, .max_out = SEARCH_OUT_MAX };
	char *code = call->ask->refused.code;
	int r;

	sbx_buf_init(&head, HEAD_MAX + 1);
	if (w->tool != SEARCH_RG || strcmp(w->place, "./") != 0 ||
	    sbx_buf_printf(&head, "%s\n", header) != 0)
		return (2);
	s.head = head.data;
	(void)snprintf(a.number, sizeof(a.number), "%d", (int)w->context);
	rg_args(w, &a);
	arg(&a, "--");
	arg(&a, w->place);
	code[0] = '\0';
	r = script_run(call, &s, ret_state);
	if (r != 0 || strcmp(code, "exec_failed") != 0)
		return (r);
	result_reset(call->res);
	return (2);
}

/* As script_run(). */
static int
run(struct call *call, const struct want *w, struct ask_run *ret_state)
{
	struct argv a = { .v = { "sh", "-c", script, "sbx" }, .n = 4 };
	SBX_CLEANUP_BUF struct sbx_buf header = { 0 };
	SBX_CLEANUP_BUF struct sbx_buf pattern = { 0 };
	const struct script s = { .argv = a.v, .max_out = SEARCH_OUT_MAX };
	int r;

	make_header(w, &header);
	r = run_rg(call, w, header.data, ret_state);
	if (r != 2)
		return (r);
	sbx_buf_init(&pattern, 65536);
	(void)snprintf(a.number, sizeof(a.number), "%d", (int)w->context);
	arg(&a, header.data);
	arg(&a, w->place);
	arg(&a, tool_names[w->tool]);
	if (w->tool == SEARCH_RG)
		rg_args(w, &a);
	else if (w->tool == SEARCH_GREP)
		grep_args(w, &a);
	else {
		ast_args(w, &a);
		(void)sbx_buf_printf(&pattern, "--pattern=%s", w->pattern);
		arg(&a, pattern.data);
	}
	arg(&a, "--");
	arg(&a, w->place);
	a.v[a.n] = NULL;
	return (script_run(call, &s, ret_state));
}

/* --- its result --------------------------------------------------------------------- */

/* A small number of an object, UINT_MAX: it has none of that name. */
static unsigned
small(struct json_object *o, const char *name)
{
	struct json_object *v;
	int64_t n;

	if (!json_object_object_get_ex(o, name, &v) ||
	    !json_object_is_type(v, json_type_int))
		return (UINT_MAX);
	n = json_object_get_int64(v);
	return (n < 0 || n > INT_MAX ? UINT_MAX : (unsigned)n);
}

static const char *
string(struct json_object *o, const char *name)
{
	struct json_object *v;

	if (!json_object_object_get_ex(o, name, &v) ||
	    !json_object_is_type(v, json_type_string))
		return (NULL);
	return (json_object_get_string(v));
}

/* The first line, which is ours unless the sandbox forged it.  w->pattern and
 * w->path are borrowed from *ret_header, which is owned by the caller. */
static bool
read_header(struct search *s, struct want *w, struct json_object **ret_header)
{
	const char *nl = s->len == 0 ? NULL : memchr(s->text, '\n', s->len);
	struct json_object *o = nl == NULL ? NULL : script_json(s->text,
	    (size_t)(nl - s->text));
	unsigned tool, mode, context;

	*ret_header = o;
	if (!json_object_is_type(o, json_type_object))
		return (false);
	tool = small(o, "search");
	mode = small(o, "mode");
	context = small(o, "context");
	w->path = string(o, "path");
	w->pattern = string(o, "pattern");
	w->pcre2 = small(o, "pcre2") == 1;
	if (tool >= SEARCH_TOOL_MAX || mode >= SEARCH_MODE_MAX ||
	    context > CONTEXT_MAX || w->path == NULL || w->pattern == NULL)
		return (false);
	s->tool = w->tool = (enum search_tool)tool;
	s->mode = w->mode = (enum search_mode)mode;
	s->context = context;
	s->len -= (size_t)(nl + 1 - s->text);
	s->text += nl + 1 - s->text;
	return (true);
}

/* The same search as that whose page this is?  An argument that is left out
 * is. */
static bool
same(struct call *call, const struct want *w)
{
	const struct args *a = &call->args;
	const char *pattern = args_str(a, "pattern", NULL);
	const char *path = args_str(a, "path", NULL);

	if ((pattern == NULL || strcmp(pattern, w->pattern) == 0) &&
	    (!args_has(a, "path") || strcmp(path, w->path) == 0))
		return (true);
	(void)bad(call, "\"pattern\" or \"path\" is not what that run "
	    "searched for: leave them out to page it, or run_id to search.");
	return (false);
}

static int
put_warning(struct call *call, const struct ask_run *st)
{
	char text[SCRIPT_ERR_MAX];
	int error;

	if (st->err_bytes == 0)
		return (0);
	error = script_errors(call, st, text);
	if (error != 0)
		return (error);
	result_masked(call->res, "warning", text, strnlen(text,
	    WARNING_BYTES));
	return (0);
}

static int
put_found(struct call *call, const struct ask_run *st, struct search *s,
    const struct want *w)
{
	struct result *r = call->res;

	result_str(r, "status", "ok");
	script_ids(call, st);
	result_str(r, "tool", tool_names[s->tool]);
	if (w->pcre2)
		result_str(r, "engine", "pcre2");
	result_str(r, "root", *w->path == '/' ? "/" : SCRIPT_WORK_DIR);
	if (s->tool == SEARCH_GREP) {
		result_bool(r, "fallback", true);
		result_str(r, "note", "There is no rg in this sandbox: grep -E "
		    "searched, also files that .gitignore names, and without "
		    "columns.");
	}
	search_put(s, r, (uint64_t)args_int(&call->args, "offset"),
	    (uint64_t)args_int(&call->args, "max_results"));
	return (call_refused(call, put_warning(call, st)));
}

/* Nothing was found because nothing was searched: a bad pattern, mostly. */
static bool
failed(const struct ask_run *st, const struct search *s)
{
	int code = script_exit(st);

	return (code != 0 && code != 1 && s->n == 0 &&
	    (s->cut || s->tool != SEARCH_RG || s->mode != SEARCH_LINES));
}

static int
show(struct call *call, const struct ask_run *st)
{
	SBX_CLEANUP_BUF struct sbx_buf text = { 0 };
	struct search s = { 0 };
	struct json_object *header = NULL;
	struct want w = { 0 };
	bool whole;
	int error;

	error = script_output(call, st, SEARCH_OUT_MAX, &text, &whole);
	if (error != 0)
		return (call_refused(call, error));
	s.text = text.data;
	s.len = text.len;
	if (!read_header(&s, &w, &header)) {
		error = script_failed(call, st, "search_failed", NULL,
		    "The search did not begin");
	} else if (same(call, &w)) {
		search_read(&s);
		s.cut |= !whole || script_exit(st) > 2;
		error = failed(st, &s) ? script_failed(call, st,
		    "search_failed", "Mend the pattern or the path, and call "
		    "again.", tool_names[s.tool]) :
		    put_found(call, st, &s, &w);
	}
	search_clear(&s);
	json_object_put(header);
	return (error);
}

/* --- the tool ------------------------------------------------------------------------- */

/* The script ended before our line: it says why by its exit code. */
static int
not_begun(struct call *call, const struct ask_run *st, const struct want *w)
{
	int code = script_exit(st);

	if (code == EXIT_DENIED) {
		(void)refuse_path(call, w->path);
	} else if (code == EXIT_NO_PATH) {
		return (script_failed(call, st, "no_such_path",
		    "list the directory above it to see its name.",
		    "\"path\""));
	} else if (code == SCRIPT_MISSING && w->tool == SEARCH_AST) {
		result_error(call->res, "no_ast_grep",
		    "Use mode lexical, or install the npm package "
		    "@ast-grep/cli.",
		    "There is no ast-grep in this sandbox.");
	} else if (code == SCRIPT_MISSING) {
		result_error(call->res, "no_grep",
		    "Make a sandbox of another image.",
		    "There is neither rg nor grep in this sandbox.");
	} else
		return (script_failed(call, st, "search_failed", NULL,
		    "The search did not begin"));
	script_ids(call, st);
	return (0);
}

/* Without rg, by grep.  As script_run(). */
static int
fall_back(struct call *call, struct want *w, struct ask_run *st)
{
	if (w->glob != NULL) {
		result_error(call->res, "no_rg", "Leave \"glob\" out, or give "
		    "\"path\".", "There is no rg in this sandbox, and grep "
		    "cannot do \"glob\" as rg does.");
		script_ids(call, st);
		return (0);
	}
	w->tool = SEARCH_GREP;
	return (run(call, w, st));
}

/* rg says that its other engine is needed.  As script_run(). */
static int
with_pcre2(struct call *call, struct want *w, struct ask_run *st)
{
	char text[SCRIPT_ERR_MAX];
	int error;

	if (w->tool != SEARCH_RG || script_exit(st) != 2 ||
	    st->err_bytes == 0 || st->out_bytes > SBX_MAX_COMMANDS)
		return (1);
	error = script_errors(call, st, text);
	if (error != 0)
		return (call_refused(call, error));
	if (strstr(text, "--pcre2") == NULL)
		return (1);
	w->pcre2 = true;
	return (run(call, w, st));
}

int
tool_search_in_container(struct call *call)
{
	struct ask_run st;
	struct want w;
	int r;

	if (args_has(&call->args, "run_id")) {
		r = script_again(call, TOOL, SEARCH_OUT_MAX, &st);
		return (r == 1 ? show(call, &st) : r);
	}
	if (want_from_args(call, &w) != 0)
		return (0);
	r = run(call, &w, &st);
	if (r == 1 && st.out_bytes == 0 && w.tool == SEARCH_RG &&
	    script_exit(&st) == SCRIPT_MISSING)
		r = fall_back(call, &w, &st);
	if (r == 1 && st.out_bytes == 0)
		return (not_begun(call, &st, &w));
	if (r == 1)
		r = with_pcre2(call, &w, &st);
	return (r == 1 ? show(call, &st) : r);
}
