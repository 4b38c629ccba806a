/* Writing and editing files of a sandbox, and undoing that. */

#include "sbxd/worker/edit_file.h"
#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define ROWS 30			/* of a diff that is shown */
#define NEAR_CONTEXT 3
#define NEAR_LINES 30
#define NEAR_BYTES 300u		/* of a line that is shown */
#define MEND "Mend the argument and call again."

static struct bytes
arg_bytes(const struct call *call, const char *name)
{
	struct bytes b = { "", 0 };
	const char *s = args_str(&call->args, name, &b.n);

	if (s != NULL)
		b.p = s;
	return (b);
}

static struct bytes
json_bytes(struct json_object *o, const char *name)
{
	struct json_object *v = json_object_object_get(o, name);

	return (v == NULL ? (struct bytes){ "", 0 } : (struct bytes){
	    json_object_get_string(v), (size_t)json_object_get_string_len(v)
	    });
}

static struct bytes
text_of(const struct sbx_buf *b)
{
	return ((struct bytes){ b->data != NULL ? b->data : "", b->len });
}

/* --- what did not match ------------------------------------------------------- */

static void
list_lines(const struct edit_where *w, char *ret_text, size_t size)
{
	size_t at = 0;
	int n;

	ret_text[0] = '\0';
	for (size_t i = 0; i < w->told && at < size; i++) {
		n = snprintf(ret_text + at, size - at, "%s%" PRIu64,
		    i == 0 ? "" : ", ", w->lines[i]);
		at += n > 0 ? (size_t)n : 0;
	}
	if (w->count > w->told && at < size)
		(void)snprintf(ret_text + at, size - at, ", ...");
}

/* Lines around the window, numbered, those of it marked. */
static void
put_window(struct result *r, struct bytes in, const struct edit_near *n)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	uint64_t line = n->line > NEAR_CONTEXT ? n->line - NEAR_CONTEXT : 1;
	uint64_t last = n->line + (n->lines < NEAR_LINES ? n->lines :
	    NEAR_LINES) + NEAR_CONTEXT;
	const char *p = in.p + edit_line_at(in, line), *end = in.p + in.n, *nl;

	sbx_buf_init(&b, 64 << 10);
	for (; line < last && p < end; line++, p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		nl = nl != NULL ? nl : end;
		(void)sbx_buf_printf(&b, "%s %5" PRIu64 " ", line >= n->line &&
		    line < n->line + n->lines ? ">>>" : "   ", line);
		(void)edit_put_line(&b, (struct bytes){ p,
		    (size_t)(nl - p) }, NEAR_BYTES);
		(void)sbx_buf_str(&b, "\n");
	}
	script_put(r, "context", b.len > 0 ? b.data : "", b.len, NULL);
}

/* Which of several edits, in front of a sentence. */
static const char *
which(size_t i, char ret_text[32])
{
	ret_text[0] = '\0';
	if (i != SIZE_MAX)
		(void)snprintf(ret_text, 32, "edits[%zu]: ", i);
	return (ret_text);
}

static void
told_near(struct call *call, struct bytes in, struct bytes what,
    struct bytes with, size_t i)
{
	char found[256], wanted[256], pre[32];
	struct result *r = call->res;
	struct edit_near n;
	bool there = with.n >= EDIT_NOTE_BYTES && memmem(in.p, in.n, with.p,
	    with.n) != NULL;
	bool near = edit_near(in, what, &n);

	if (!near)
		result_error(r, "no_match", there ? "" : "Read the file, then "
		    "give old_str as it is there.", "%s\"old_str\" is not in "
		    "the file, and nothing is like it.%s", which(i, pre),
		    there ? " The new text is there: already applied?" : "");
	else
		result_error(r, "no_match", there ? "" : "Give old_str as "
		    "near_miss shows it, or a line range.",
		    "%s\"old_str\" is not in the file. Most like it is line "
		    "%" PRIu64 "; the first difference is in line %" PRIu64
		    ": there is \"%s\", not \"%s\".%s", which(i, pre), n.line,
		    n.differs, sbx_vis(found, sizeof(found), n.found.p,
		    n.found.n), sbx_vis(wanted, sizeof(wanted), n.wanted.p,
		    n.wanted.n), there ? " The new text is there: already "
		    "applied?" : "");
	if (there)
		result_bool(r, "already_applied", true);
	if (!near)
		return;
	result_open(r, "near_miss", '{');
	result_u64(r, "line", n.line);
	result_u64(r, "end_line", n.line + n.lines - (n.lines > 0));
	result_u64(r, "differs_at", n.differs);
	put_window(r, in, &n);
	result_close(r, '}');
}

/* The error object of what edit_replace() returned.  i: of edits. */
static void
refuse_match(struct call *call, struct bytes in, enum edit_match m,
    const struct edit_where *w, struct bytes what, struct bytes with,
    uint64_t expected, size_t i)
{
	char lines[160], pre[32];

	list_lines(w, lines, sizeof(lines));
	if (m == EDIT_NONE || (m == EDIT_COUNT && w->count == 0))
		told_near(call, in, what, with, i);
	else if (m == EDIT_MANY)
		result_error(call->res, "ambiguous", "Give more of what is "
		    "around it, or expected_count to replace all.",
		    "%s\"old_str\" is there %zu times%s, at lines %s.",
		    which(i, pre), w->count, w->more ? " or more" : "",
		    lines);
	else if (m == EDIT_COUNT)
		result_error(call->res, "count_mismatch", MEND,
		    "%s\"old_str\" is there %zu times, not %" PRIu64
		    " times: at lines %s.", which(i, pre), w->count, expected,
		    lines);
	else
		result_error(call->res, "too_large", "Use transform_file.",
		    "%sMore than %u replacements at once.", which(i, pre),
		    EDIT_MAX_SPANS);
}

/* --- the ways to edit ---------------------------------------------------------- */

static bool
bad_arg(struct call *call, const char *why)
{
	result_error(call->res, "bad_argument", MEND, "%s", why);
	return (false);
}

/* Lines [start, end] become text, which ends as they did. */
static bool
edit_range(struct call *call, struct edit *e)
{
	const struct args *a = &call->args;
	struct bytes text = arg_bytes(call, "file_contents");
	uint64_t lines = edit_lines(e->old);
	uint64_t start = args_has(a, "start_line") ?
	    (uint64_t)args_int(a, "start_line") : 1;
	uint64_t end = args_has(a, "end_line") ?
	    (uint64_t)args_int(a, "end_line") : lines;
	size_t at, stop;

	if (start > lines || end > lines || start > end) {
		result_error(call->res, "bad_argument", MEND, "Lines %" PRIu64
		    " to %" PRIu64 " are not in the file: it has %" PRIu64
		    ".", start, end, lines);
		return (false);
	}
	at = edit_line_at(e->old, start);
	stop = at + edit_line_at((struct bytes){ e->old.p + at,
	    e->old.n - at }, end - start + 2);
	/* no line end: that of the last line stays */
	if (text.n > 0 && text.p[text.n - 1] != '\n' && stop > at &&
	    e->old.p[stop - 1] == '\n') {
		stop--;
		if (stop > at && e->old.p[stop - 1] == '\r')
			stop--;
	}
	return (edit_add(e, at, stop - at, edit_endings(e, text)) == 0);
}

/* At the end, in a line of its own; the file ends with a newline as it did. */
static bool
edit_append(struct call *call, struct edit *e)
{
	struct bytes text = edit_endings(e, arg_bytes(call,
	    "file_contents"));
	const char *end = edit_is_crlf(e->old) ? "\r\n" : "\n";

	if (e->old.n > 0 && text.n > 0 && e->old.p[e->old.n - 1] != '\n')
		text = edit_join(e, (struct bytes){ end, strlen(end) },
		    text);
	else if (e->old.n > 0 && text.n > 0 && text.p[text.n - 1] != '\n')
		text = edit_join(e, text, (struct bytes){ end, strlen(end) });
	return (edit_add(e, e->old.n, 0, text) == 0);
}

static bool
replace_one(struct call *call, struct edit *e, struct bytes what,
    struct bytes with, uint64_t expected, size_t i)
{
	struct edit_where w;
	enum edit_match m;

	if (what.n == 0) {
		result_error(call->res, "bad_argument", MEND,
		    "\"old_str\" must not be empty.");
		return (false);
	}
	m = edit_replace(e, what, with, expected, &w);
	if (m == EDIT_MATCHED)
		return (true);
	refuse_match(call, e->old, m, &w, what, with, expected, i);
	return (false);
}

static bool
replace_many(struct call *call, struct edit *e, struct json_object *list)
{
	size_t n = json_object_array_length(list);
	struct json_object *o, *count;

	for (size_t i = 0; i < n; i++) {
		o = json_object_array_get_idx(list, i);
		if (!json_object_object_get_ex(o, "expected_count", &count))
			count = NULL;
		if (!replace_one(call, e, json_bytes(o, "old_str"),
		    json_bytes(o, "new_str"), count == NULL ? 0 :
		    (uint64_t)json_object_get_int64(count), i))
			return (false);
	}
	return (true);
}

/* Is the definition meant, of which old_str has the begin?  What is there as it
 * was given is replaced as it was given. */
static bool
wants_python(const struct call *call, const struct edit *e, const char *path,
    struct bytes what, struct bytes with)
{
	size_t n = strlen(path), lines, new_lines, at;

	if (n < 3 || strcmp(path + n - 3, ".py") != 0 ||
	    !edit_is_definition(what, &lines))
		return (false);
	if (args_has(&call->args, "ast"))
		return (args_bool(&call->args, "ast"));
	if (args_int(&call->args, "expected_count") > 0)
		return (false);
	return (edit_find(e->old, what, &at, 1) == 0 || (lines == 1 &&
	    edit_is_definition(with, &new_lines) && new_lines > 1));
}

/* 1: the spans are there; else as tool_fn. */
static int
replace_str(struct call *call, struct edit *e, const char *path, bool python)
{
	struct bytes what = arg_bytes(call, "old_str");
	struct bytes with = arg_bytes(call, "file_contents");
	bool fall = true;
	size_t lines;
	int r;

	if (python && wants_python(call, e, path, what, with)) {
		r = edit_python(call, e, what, with, &fall);
		/* a signature alone is no text to be replaced by all of it */
		(void)edit_is_definition(what, &lines);
		if (r != 0 || !fall || lines == 1 ||
		    args_has(&call->args, "ast"))
			return (r);
		result_reset(call->res);
	}
	return (replace_one(call, e, what, with, python ? (uint64_t)
	    args_int(&call->args, "expected_count") : 0, SIZE_MAX) ? 1 : 0);
}

/* --- the tools ------------------------------------------------------------------ */

enum way { WAY_NONE, WAY_STR, WAY_RANGE, WAY_APPEND, WAY_EDITS, WAY_TWO };

static enum way
way_of(const struct args *a, bool edits)
{
	enum way w = WAY_NONE;
	unsigned n = 0;

	if (args_has(a, "old_str")) {
		w = WAY_STR;
		n++;
	}
	if (args_has(a, "start_line") || args_has(a, "end_line")) {
		w = WAY_RANGE;
		n++;
	}
	if (args_bool(a, "append")) {
		w = WAY_APPEND;
		n++;
	}
	if (edits && args_has(a, "edits")) {
		w = WAY_EDITS;
		n++;
	}
	return (n > 1 ? WAY_TWO : w);
}

static void
put_edited(struct call *call, const struct edited *f, const struct edit *e,
    struct bytes text, const struct ask_filed *done, const char *warning)
{
	struct result *r = call->res;

	result_str(r, "status", "ok");
	result_str(r, "container_id", args_str(&call->args, "container_id",
	    NULL));
	edited_put(call, f, text, done->path, ROWS);
	file_put_warnings(call, done);
	if (e != NULL) {
		result_u64(r, "replaced", e->n);
		if (e->flexible)
			result_bool(r, "flexible_match", true);
		if (e->crlf)
			result_str(r, "line_endings", "crlf");
	}
	edited_put_undo(call, f);
	if (warning[0] != '\0')
		result_masked(r, "warning", warning, strlen(warning));
}

/* What is to be there is known: write it, and tell.  As tool_fn. */
static int
write_edited(struct call *call, struct edited *f, const struct edit *e,
    struct bytes text)
{
	struct ask_filed done;
	char why[256] = "";
	int r;

	if (!f->is_new && !f->huge && f->old.len == text.n &&
	    memcmp(text.p, f->old.data != NULL ? f->old.data : "", text.n) ==
	    0) {
		put_edited(call, f, e, text, &f->was, "");
		return (0);
	}
	r = edited_write(call, f, text, 0, &done);
	if (r != 1)
		return (r);
	r = e != NULL && e->parsed ? 0 : edit_python_check(call, done.path,
	    text, why, sizeof(why));
	if (r != 0)
		return (call_refused(call, r));
	put_edited(call, f, e, text, &done, why);
	return (0);
}

static int
apply(struct call *call, struct edited *f, struct edit *e)
{
	SBX_CLEANUP_BUF struct sbx_buf text = { 0 };
	size_t at = 0;
	int error;

	sbx_buf_init(&text, EDIT_MAX_BYTES);
	error = edit_apply(e, &text, &at);
	if (error == SBX_E_POLICY)
		result_error(call->res, "overlap", "Make one edit of them.",
		    "Two edits overlap, at line %" PRIu64 ".",
		    edit_line_of(e->old, at));
	else if (error != 0)
		result_error(call->res, "too_large", "Write less.",
		    "The file would be larger than 16 MiB.");
	return (error != 0 ? 0 : write_edited(call, f, e, text_of(&text)));
}

static int
edit_it(struct call *call, struct edited *f, enum way way, bool python)
{
	struct edit e;
	int r = 0;

	edit_init(&e, text_of(&f->old));
	if (!edited_is_text(call, f))
		;
	else if (way == WAY_STR)
		r = replace_str(call, &e, f->was.path, python);
	else if (way == WAY_RANGE)
		r = edit_range(call, &e);
	else if (way == WAY_APPEND)
		r = edit_append(call, &e);
	else
		r = replace_many(call, &e, args_json(&call->args, "edits"));
	if (r == 1)
		r = apply(call, f, &e);
	edit_clear(&e);
	return (r);
}

int
tool_write_file_sandbox(struct call *call)
{
	enum way way = way_of(&call->args, false);
	char path[4096];
	struct edited f;
	int r;

	if (way == WAY_TWO)
		return (bad_arg(call, "Give one of \"old_str\", a line range "
		    "and \"append\", or none to write the whole file."));
	if (!edited_path(call, path))
		return (0);
	r = edited_read(call, path, way == WAY_NONE || way == WAY_APPEND,
	    way == WAY_NONE, &f);
	if (r == 1 && (way == WAY_NONE || f.is_new))
		r = write_edited(call, &f, NULL, arg_bytes(call,
		    "file_contents"));
	else if (r == 1)
		r = edit_it(call, &f, way, false);
	edited_clear(&f);
	return (r);
}

int
tool_edit_file(struct call *call)
{
	enum way way = way_of(&call->args, true);
	char path[4096];
	struct edited f;
	int r;

	if (way == WAY_TWO || way == WAY_NONE)
		return (bad_arg(call, "Give exactly one of \"old_str\", a line "
		    "range, \"append\" and \"edits\"."));
	if (way == WAY_EDITS ? args_has(&call->args, "file_contents") :
	    !args_has(&call->args, "file_contents"))
		return (bad_arg(call, way == WAY_EDITS ? "\"edits\" has its "
		    "own texts: leave \"file_contents\" out." :
		    "\"file_contents\" is missing: the new text."));
	if (way != WAY_STR && args_has(&call->args, "expected_count"))
		return (bad_arg(call, "\"expected_count\" goes with "
		    "\"old_str\"."));
	if (!edited_path(call, path))
		return (0);
	r = edited_read(call, path, false, false, &f);
	if (r == 1)
		r = edit_it(call, &f, way, true);
	edited_clear(&f);
	return (r);
}

/* --- undo_file_edit -------------------------------------------------------------- */

/* "BYTES WALL_NS" each, the newest first. */
static void
put_versions(struct result *r, const struct sbx_strs *versions)
{
	const char *s = NULL, *space;
	uint64_t steps = 1, n;

	result_open(r, "snapshots", '[');
	while ((s = sbx_strs_next(versions, s)) != NULL) {
		space = strchr(s, ' ');
		if (space == NULL)
			continue;
		result_open(r, NULL, '{');
		result_u64(r, "steps", steps++);
		n = piece_number(s, space);
		if (n == UINT64_MAX)	/* there was no file */
			result_null(r, "size_bytes");
		else
			result_u64(r, "size_bytes", n);
		n = piece_number(space + 1, space + 1 + strlen(space + 1));
		result_time(r, "saved_at", n == UINT64_MAX ? 0 : n);
		result_close(r, '}');
	}
	result_close(r, ']');
}

static int
no_version(struct call *call, const struct ask_undo *v, uint32_t steps)
{
	const char *s = NULL;
	unsigned n = 0;

	while ((s = sbx_strs_next(&v->versions, s)) != NULL)
		n++;
	if (n == 0)
		result_error(call->res, "no_history", "Only edits by these "
		    "tools are kept.", "Nothing is kept of what this file "
		    "was.");
	else
		result_error(call->res, "bad_argument", MEND,
		    "\"steps\" is 1 to %u, not %u: so many are kept.", n,
		    steps);
	put_versions(call->res, &v->versions);
	return (0);
}

/* Make the file what it was; the undone content is kept, too. */
static int
put_back(struct call *call, struct edited *f, const struct ask_undo *v,
    const struct sbx_buf *text, struct ask_filed *ret_done)
{
	struct file_change c = { .path = f->path, .was = f->is_new ? NULL :
		&f->was, .data = v->absent ? NULL : text_of(text).p,
		.len = text->len, .mode = v->mode };
	int r;

	memset(ret_done, 0, sizeof(*ret_done));
	r = edited_keep(call, f);
	if (r != 0)
		return (call_refused(call, r));
	r = v->absent && f->is_new ? 0 : file_put(call, args_str(&call->args,
	    "container_id", NULL), &c, 1, ret_done);
	return (r != 0 ? file_refused(call, r, f->path, ret_done) : 1);
}

static int
undo_it(struct call *call, struct edited *f)
{
	const char *id = args_str(&call->args, "container_id", NULL);
	uint32_t steps = (uint32_t)args_int(&call->args, "steps");
	SBX_CLEANUP_BUF struct sbx_buf text = { 0 }, none = { 0 };
	struct ask_undo v, all;
	struct ask_filed done;
	int r;

	r = undo_get(call, id, f->was.path, steps, &v, &text);
	if (r != 0)
		return (call_refused(call, r));
	if (!v.known)
		return (no_version(call, &v, steps));
	r = put_back(call, f, &v, &text, &done);
	if (r != 1)
		return (r);
	r = undo_get(call, id, f->was.path, 0, &all, &none);
	if (r != 0)
		return (call_refused(call, r));
	result_str(call->res, "status", "ok");
	result_str(call->res, "container_id", id);
	result_u64(call->res, "restored_steps_back", steps);
	result_bool(call->res, "removed", v.absent);
	edited_put(call, f, text_of(&text), f->was.path, ROWS);
	file_put_warnings(call, &done);
	edited_put_undo(call, f);
	put_versions(call->res, &all.versions);
	result_str(call->res, "note", "What was undone is kept as version 1: "
	    "undo again brings it back.");
	return (0);
}

int
tool_undo_file_edit(struct call *call)
{
	const char *path = args_str(&call->args, "file_path", NULL);
	struct edited f;
	int r;

	r = edited_read(call, path, true, true, &f);
	/* of one that is gone the path is what it is called */
	if (r == 1 && f.is_new && (path[0] != '/' ||
	    sbx_strlcpy(f.was.path, path, sizeof(f.was.path)) != 0) &&
	    snprintf(f.was.path, sizeof(f.was.path), SCRIPT_WORK_DIR "/%s",
	    path) >= (int)sizeof(f.was.path))
		r = bad_arg(call, "\"file_path\" is too long.");
	if (r == 1)
		r = undo_it(call, &f);
	edited_clear(&f);
	return (r);
}
