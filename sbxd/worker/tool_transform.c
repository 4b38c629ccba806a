/*
 * transform_file: code of the caller, run by the sandbox's python3, says what
 * files shall be.  It gets their bytes and gives bytes back; what is written is
 * written by this side, all or nothing.
 */

#include "common/base/json.h"
#include "sbxd/worker/edit_file.h"
#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define MAX_FILES 64u
#define ALL_ROWS 1200u		/* of all diffs: they fit into a result */
#define ALL_BYTES (32u << 20)	/* of all files, before and after */

static const char shell[] =
    "command -v python3 >/dev/null 2>&1 || exit 127\n"
    "s=$1; shift; exec python3 -c \"$s\" \"$@\"\n";

/*
 * stdin: the length of the code and it, then of each file the length and its
 * bytes.  stdout: of each file the length and its bytes, -1: as it was.  What
 * the code prints goes to stderr.  Exit codes 3, 4: the code is at fault.
 */
static const char driver[] =
"import os, sys, traceback\n"
"inp = sys.stdin.buffer\n"
"def take():\n"
"    return inp.read(int(inp.readline())).decode('utf-8',"
" 'surrogateescape')\n"
"code, texts = take(), [take() for _ in sys.argv[1:]]\n"
"out = os.fdopen(os.dup(1), 'wb')\n"
"os.dup2(2, 1)\n"
"def fail(status, what):\n"
"    sys.stdout.flush()\n"
"    sys.stderr.write(what + '\\n')\n"
"    sys.stderr.flush()\n"
"    os._exit(status)\n"
"space = {'__name__': 'transform'}\n"
"try:\n"
"    exec(compile(code, '<code>', 'exec'), space)\n"
"except BaseException:\n"
"    fail(3, traceback.format_exc())\n"
"f = space.get('transform')\n"
"if not callable(f):\n"
"    fail(3, 'code defines no function transform(text)')\n"
"made = []\n"
"for path, text in zip(sys.argv[1:], texts):\n"
"    try:\n"
"        r = f(text)\n"
"    except BaseException:\n"
"        fail(4, path + ': ' + traceback.format_exc())\n"
"    if not isinstance(r, str):\n"
"        fail(4, path + ': transform returned ' + type(r).__name__ +"
" ', not str')\n"
"    try:\n"
"        made.append(None if r == text else r.encode('utf-8',"
" 'surrogateescape'))\n"
"    except UnicodeEncodeError as e:\n"
"        fail(4, path + ': ' + str(e))\n"
"for m in made:\n"
"    out.write(b'-1\\n' if m is None else b'%d\\n' % len(m) + m)\n"
"out.flush()\n"
"sys.stdout.flush()\n"
"os._exit(0)\n";

struct work {
	struct edited files[MAX_FILES];
	struct bytes made[MAX_FILES];	/* p NULL: as it was; borrowed */
	const char *argv[MAX_FILES + 6];
	size_t n;
	struct sbx_buf in, out;		/* owned */
	struct ask_filed done;		/* what was written */
};

static void
work_clear(struct work *w)
{
	for (size_t i = 0; i < MAX_FILES; i++)
		edited_clear(&w->files[i]);
	sbx_buf_clear(&w->in);
	sbx_buf_clear(&w->out);
}

static bool
too_much(struct call *call)
{
	result_error(call->res, "too_large", "Transform fewer files at once.",
	    "The files are larger than 32 MiB together.");
	return (false);
}

/* file_path or paths.  false: refused. */
static bool
take_paths(struct call *call, struct work *w)
{
	const char *one = args_str(&call->args, "file_path", NULL);
	struct json_object *list = args_json(&call->args, "paths");

	if ((one != NULL) == (list != NULL)) {
		result_error(call->res, "bad_argument",
		    "Mend the argument and call again.",
		    "Give either \"file_path\" or \"paths\".");
		return (false);
	}
	w->n = one != NULL ? 1 : json_object_array_length(list);
	for (size_t i = 0; i < w->n; i++)
		w->files[i].path = one != NULL ? one : json_object_get_string(
		    json_object_array_get_idx(list, i));
	return (true);
}

static bool
add_piece(struct work *w, const char *p, size_t n)
{
	return (sbx_buf_printf(&w->in, "%zu\n", n) == 0 &&
	    sbx_buf_add(&w->in, p, n) == 0);
}

/* 1: all are read. */
static int
read_all(struct call *call, struct work *w)
{
	const char *code;
	size_t len;
	int r;

	code = args_str(&call->args, "code", &len);
	sbx_buf_init(&w->in, ALL_BYTES + len + MAX_FILES * 24);
	(void)add_piece(w, code, len);
	for (size_t i = 0; i < w->n; i++) {
		r = edited_read(call, w->files[i].path, false, false,
		    &w->files[i]);
		if (r != 1)
			return (r);
		for (size_t j = 0; j < i; j++)
			if (strcmp(w->files[i].was.path,
			    w->files[j].was.path) == 0) {
				result_error(call->res, "bad_argument",
				    "Name each file once.",
				    "Two of \"paths\" are one file.");
				return (0);
			}
		if (!add_piece(w, w->files[i].old.data != NULL ?
		    w->files[i].old.data : "", w->files[i].old.len))
			return (too_much(call));
	}
	return (1);
}

/* What it answered, strictly. */
static bool
parse(struct work *w)
{
	const char *p = w->out.data, *end = p + w->out.len, *nl;
	uint64_t n;

	for (size_t i = 0; i < w->n; i++) {
		nl = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
		if (nl == NULL)
			return (false);
		if (nl - p == 2 && memcmp(p, "-1", 2) == 0) {
			p = nl + 1;
			continue;
		}
		n = piece_number(p, nl);
		p = nl + 1;
		if (n > (uint64_t)(end - p))
			return (false);
		w->made[i] = (struct bytes){ p, (size_t)n };
		p += n;
	}
	return (p == end);
}

/* 1: w->made is what the code made. */
static int
run(struct call *call, struct work *w, struct ask_run *ret_state)
{
	struct script s = { .argv = w->argv };
	bool whole = false;
	size_t n = 0;
	int r;

	w->argv[n++] = "sh";
	w->argv[n++] = "-c";
	w->argv[n++] = shell;
	w->argv[n++] = "sbx";
	w->argv[n++] = driver;
	for (size_t i = 0; i < w->n; i++)
		w->argv[n++] = w->files[i].path;
	s.in = w->in.data;
	s.in_len = w->in.len;
	r = script_run(call, &s, ret_state);
	if (r != 1)
		return (r);
	if (script_exit(ret_state) == SCRIPT_MISSING) {
		result_error(call->res, "no_python",
		    "Use edit_file, or an image that has it.",
		    "There is no python3 in this sandbox.");
		script_ids(call, ret_state);
		return (0);
	}
	if (script_exit(ret_state) != 0)
		return (script_failed(call, ret_state, "transform_failed",
		    "Mend the code; nothing was written.",
		    "The code failed"));
	r = script_output(call, ret_state, ALL_BYTES + MAX_FILES * 24,
	    &w->out, &whole);
	if (r != 0)
		return (call_refused(call, r));
	if (!whole || !parse(w)) {
		result_error(call->res, "transform_failed", "",
		    "What the code made is more than 32 MiB, or it ended "
		    "early; nothing was written.");
		script_ids(call, ret_state);
		return (0);
	}
	return (1);
}

/* 1: those that changed are written. */
static int
write_all(struct call *call, struct work *w)
{
	struct file_change c[MAX_FILES];
	size_t n = 0, which[MAX_FILES];
	int r;

	for (size_t i = 0; i < w->n; i++) {
		if (w->made[i].p == NULL)
			continue;
		if ((r = edited_keep(call, &w->files[i])) != 0)
			return (call_refused(call, r));
		which[n] = i;
		c[n++] = (struct file_change){ .path = w->files[i].was.path,
			.was = &w->files[i].was, .data = w->made[i].p,
			.len = w->made[i].n };
	}
	r = n == 0 ? 0 : file_put(call, args_str(&call->args, "container_id",
	    NULL), c, n, &w->done);
	if (r == 0)
		return (1);
	return (file_refused(call, r, w->done.first < n && r == 1 ?
	    w->files[which[w->done.first]].path : "the files", &w->done));
}

static void
put(struct call *call, struct work *w, const struct ask_run *st)
{
	struct result *r = call->res;
	unsigned rows = (unsigned)args_int(&call->args, "max_lines");
	unsigned shown = 0, share;
	bool changed = false;

	for (size_t i = 0; i < w->n; i++)
		changed |= w->made[i].p != NULL;
	result_str(r, "status", "ok");
	script_ids(call, st);
	result_bool(r, "changed", changed);
	file_put_warnings(call, &w->done);
	result_open(r, "files", '[');
	for (size_t i = 0; i < w->n; i++) {
		const struct edited *f = &w->files[i];
		struct bytes text = w->made[i];

		if (text.p == NULL)
			text = (struct bytes){ f->old.data != NULL ?
			    f->old.data : "", f->old.len };
		share = (ALL_ROWS - shown) / (unsigned)(w->n - i);
		shown += share < rows ? share : rows;
		result_open(r, NULL, '{');
		edited_put(call, f, text, f->was.path, share < rows ? share :
		    rows);
		if (w->made[i].p != NULL)
			edited_put_undo(call, f);
		result_close(r, '}');
	}
	result_close(r, ']');
}

int
tool_transform_file(struct call *call)
{
	struct work *w = sbx_xcalloc(1, sizeof(*w));
	struct ask_run st;
	int r;

	r = take_paths(call, w) ? read_all(call, w) : 0;
	if (r == 1)
		r = run(call, w, &st);
	if (r == 1)
		r = write_all(call, w);
	if (r == 1) {
		put(call, w, &st);
		r = 0;
	}
	work_clear(w);
	free(w);
	return (r);
}
