/* Reading files of a sandbox by lines, and listing them. */

#include "sbxd/worker/edit.h"
#include "sbxd/worker/files.h"
#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define READ_LINES 50		/* by default */
#define READ_RAW (4u << 20)	/* bytes of a page before lines are cut, */
#define READ_SHOWN (512u << 10)	/* and after; of a tail half of it */
#define READ_LINE 4000u		/* bytes of one line that are shown */
#define LIST_BYTES (1u << 20)

/* --- read_file_range ------------------------------------------------------- */

/* Which lines the arguments mean, from 0; count 0: to the end. */
struct range {
	uint64_t first, count;
	bool tail;
};

static bool
bad_range(struct call *call, const char *why)
{
	result_error(call->res, "bad_argument",
	    "Mend the argument and call again.", "%s", why);
	return (false);
}

static bool
range_from_args(struct call *call, struct range *ret)
{
	const struct args *a = &call->args;
	int64_t offset = args_int(a, "offset"), limit = args_int(a, "limit");
	int64_t start = args_int(a, "start_line"), end = args_int(a,
	    "end_line"), tail = args_int(a, "tail_lines");
	bool lines = args_has(a, "start_line") || args_has(a, "end_line");

	if (tail > 0 && (offset != 0 || args_has(a, "limit") || lines))
		return (bad_range(call, "\"tail_lines\" is given alone."));
	if (lines && (offset != 0 || args_has(a, "limit")))
		return (bad_range(call, "Give \"start_line\" and "
		    "\"end_line\", or \"offset\" and \"limit\", not both."));
	if (limit == 0 || limit < -1)
		return (bad_range(call, "\"limit\" is at least 1, or -1 for "
		    "all that follows."));
	start = start > 0 ? start : 1;
	if (args_has(a, "end_line") && end < start)
		return (bad_range(call, "\"end_line\" must not be before "
		    "\"start_line\"."));
	*ret = (struct range){ .first = (uint64_t)offset,
		.count = limit < 0 ? 0 : (uint64_t)limit };
	if (tail > 0)
		*ret = (struct range){ .count = (uint64_t)tail, .tail = true };
	else if (lines)
		*ret = (struct range){ .first = (uint64_t)start - 1,
			.count = end == 0 ? READ_LINES :
			    (uint64_t)(end - start + 1) };
	return (true);
}

/* How long a line of the answer is in the file (SBX_FILE_LINE); a sandbox that
 * forges that has forged its own file. */
static size_t
whole_length(const struct bytes *l)
{
	uint64_t more;

	if (l->n <= SBX_FILE_LINE)
		return (l->n);
	more = piece_number(l->p + SBX_FILE_LINE, l->p + l->n);
	return (more > SIZE_MAX / 2 ? l->n : SBX_FILE_LINE + (size_t)more);
}

/* Lines, each cut; as many as there is room for. */
static void
cut_lines(const struct sbx_buf *raw, struct sbx_buf *text, uint64_t *ret_n,
    uint64_t *ret_cut)
{
	const char *p = raw->data, *end = p + raw->len, *nl, *next;
	struct bytes l;

	for (*ret_n = *ret_cut = 0; raw->len > 0 && p < end; ++*ret_n) {
		nl = memchr(p, '\n', (size_t)(end - p));
		l = (struct bytes){ p, (size_t)((nl != NULL ? nl : end) - p) };
		next = p + l.n + (nl != NULL);
		l.n = whole_length(&l);
		if (text->len + (l.n < READ_LINE ? l.n : READ_LINE) + 64 >
		    text->max)
			break;
		*ret_cut += edit_put_line(text, l, READ_LINE);
		if (nl != NULL)
			(void)sbx_buf_str(text, "\n");
		p = next;
	}
}

static void
put_size(struct result *r, uint64_t lines, uint64_t bytes)
{
	result_open(r, "file_size", '{');
	result_u64(r, "lines", lines);
	result_u64(r, "bytes", bytes);
	result_u64(r, "approx_tokens", (bytes + 3) / 4);
	result_close(r, '}');
}

static void
put_next(struct result *r, uint64_t next, bool more)
{
	result_bool(r, "has_more", more);
	if (more)
		result_u64(r, "next_offset", next);
	else
		result_null(r, "next_offset");
}

static void
put_range(struct call *call, const struct ask_filed *f,
    const struct sbx_buf *raw)
{
	SBX_CLEANUP_BUF struct sbx_buf text = { 0 };
	struct result *r = call->res;
	uint64_t n, cut;
	size_t masked = 0;

	sbx_buf_init(&text, READ_SHOWN);
	cut_lines(raw, &text, &n, &cut);
	result_str(r, "status", "ok");
	result_str(r, "container_id", args_str(&call->args, "container_id",
	    NULL));
	result_str(r, "path", f->path);
	script_put(r, "content", text.len > 0 ? text.data : "", text.len,
	    &masked);
	result_u64(r, "start_line", f->first + (n > 0));
	result_u64(r, "shown", n);
	result_u64(r, "total_lines", f->total);
	put_next(r, f->first + n, f->first + n < f->total);
	put_size(r, f->total, f->size);
	if (cut > 0)
		result_u64(r, "cut_lines", cut);
	if (masked > 0)
		result_u64(r, "masked", masked);
}

int
tool_read_file_range(struct call *call)
{
	const char *path = args_str(&call->args, "file_path", NULL);
	SBX_CLEANUP_BUF struct sbx_buf raw = { 0 };
	struct range g;
	struct ask_filed f;
	int r;

	if (!range_from_args(call, &g))
		return (0);
	r = file_get(call, args_str(&call->args, "container_id", NULL),
	    &(struct file_want){ .op = SBX_FILE_READ, .path = path,
	    .first = g.first, .count = g.count,
	    .max_bytes = g.tail ? READ_SHOWN / 2 : READ_RAW,
	    .flags = g.tail ? SBX_FILE_TAIL : 0 }, &f, &raw);
	if (r != 0)
		return (file_refused(call, r, path, &f));
	put_range(call, &f, &raw);
	return (0);
}

/* --- list_files ------------------------------------------------------------- */

int
tool_list_files(struct call *call)
{
	const struct args *a = &call->args;
	const char *path = args_str(a, "path", NULL), *p;
	struct pieces names;
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct result *r = call->res;
	struct ask_filed f;
	uint64_t shown = 0;
	size_t len;
	int error;

	error = file_get(call, args_str(a, "container_id", NULL),
	    &(struct file_want){ .op = SBX_FILE_LIST, .path = path,
	    .pattern = args_str(a, "pattern", NULL),
	    .first = (uint64_t)args_int(a, "offset"),
	    .count = (uint64_t)args_int(a, "limit"), .max_bytes = LIST_BYTES,
	    .flags = (uint32_t)args_int(a, "max_depth") <<
	    SBX_FILE_DEPTH_SHIFT | (args_bool(a, "hidden") ?
	    SBX_FILE_HIDDEN : 0) }, &f, &b);
	if (error == 1 && f.error == ENOTDIR) {
		result_error(r, "not_directory", "Name a directory, or read "
		    "it with read_file_range.", "%s", f.reason);
		return (0);
	}
	if (error != 0)
		return (file_refused(call, error, path, &f));
	result_str(r, "status", "ok");
	result_str(r, "container_id", args_str(a, "container_id", NULL));
	result_str(r, "path", f.path);
	result_open(r, "files", '[');
	names = (struct pieces){ b.data, b.data + b.len };
	for (; piece_next(&names, &p, &len); shown++)
		result_strn(r, NULL, p, len);
	result_close(r, ']');
	result_u64(r, "total", f.total);
	if (f.bytes != 0)
		result_bool(r, "total_is_lower_bound", true);
	result_u64(r, "shown", shown);
	put_next(r, f.first + shown, f.first + shown < f.total);
	return (0);
}
