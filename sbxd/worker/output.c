/*
 * From stored segments to lines, pages and views.  The monitor answers with a
 * descriptor for one segment at a time; a walk goes over them, a cutter makes
 * lines of the bytes, and a page keeps those that were asked for.  Nothing is
 * read into memory but what is shown.
 */

#include "sbxd/worker/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mask.h"
#include "sbxd/worker/view.h"
#include "sbxd/worker/worker.h"

/* --- reading -------------------------------------------------------------- */

/* A walk over what is stored of one stream, from an offset to its end. */
struct walk {
	struct call *call;
	const char *run;
	enum sbx_stream stream;
	uint64_t at, total, dropped;
	bool known;
	/* Given the bytes in order; nonzero stops the walk. */
	int (*fn)(void *arg, const char *p, size_t n);
	void *arg;
};

/* One descriptor's worth.  0, the fn's value, SBX_E_SYS as "no more". */
static int
walk_part(struct walk *w, const struct ask_data *d)
{
	char chunk[65536];
	uint64_t pos = w->at - d->start, n;
	ssize_t got;
	int error = 0;

	while (error == 0 && pos < d->length) {
		n = d->length - pos;
		got = pread(d->fd, chunk, n < sizeof(chunk) ? n :
		    sizeof(chunk), (off_t)(d->file_offset + pos));
		/* Short of what was promised: it was dropped meanwhile. */
		if (got <= 0)
			return (SBX_E_SYS);
		error = w->fn(w->arg, chunk, (size_t)got);
		pos += (uint64_t)got;
		w->at += (uint64_t)got;
	}
	return (error);
}

static int
walk_gap(struct walk *w, uint64_t n)
{
	char text[80];
	int len;

	w->dropped += n;
	w->at += n;
	len = snprintf(text, sizeof(text), "\n[%" PRIu64
	    " bytes were not kept: the output's limit]\n", n);
	return (w->fn(w->arg, text, (size_t)len));
}

/* From w->at to what is the end at the first look.  As the asks of ask.h. */
static int
walk(struct walk *w)
{
	struct ask_data d;
	uint64_t end = UINT64_MAX;
	int error, stop = 0;

	while (stop == 0 && w->at < end) {
		error = out_read(w->call->ask, w->run, w->stream, w->at, &d);
		if (error != 0)
			return (error);
		if (end == UINT64_MAX) {
			w->known = d.known;
			w->total = end = d.total;
		}
		if (d.fd < 0)
			break;
		if (d.start > w->at)
			stop = walk_gap(w, d.start - w->at);
		if (stop == 0)
			stop = walk_part(w, &d);
		sbx_close(&d.fd);
	}
	return (0);
}

/* --- lines ---------------------------------------------------------------- */

#define CUT_BYTES 1024u	/* longer than nearly all tokens */

/* Cuts a stream into lines, and follows whether a private key is open. */
struct lines {
	uint64_t n;		/* number of the line that is open */
	size_t len;		/* bytes of it so far */
	bool key;		/* inside a private key block */
	size_t nhead;
	char head[80];		/* its begin, to see such blocks */
};

static void
lines_end(struct lines *l)
{
	l->n++;
	l->len = 0;
	l->nhead = 0;
}

/* After the whole line (its begin) was seen. */
static void
lines_follow_key(struct lines *l)
{
	static const char begin[] = "-----BEGIN ", kind[] = "PRIVATE KEY",
	    end[] = "-----END ";

	if (memmem(l->head, l->nhead, begin, sizeof(begin) - 1) != NULL &&
	    memmem(l->head, l->nhead, kind, sizeof(kind) - 1) != NULL)
		l->key = true;
	else if (memmem(l->head, l->nhead, end, sizeof(end) - 1) != NULL)
		l->key = false;
}

/*
 * A line that gets too long is cut where no token is cut in two, when there
 * is such a place in its last CUT_BYTES: the halves could go to two pages,
 * and be masked in neither.  How many of n bytes belong to it at most.
 */
static size_t
late_cut(const struct lines *l, const char *p, size_t n, bool *ret_cut)
{
	size_t from = OUTPUT_LINE_BYTES - CUT_BYTES, i;

	for (i = l->len < from ? from - l->len : 0; i < n; i++)
		if (memchr(" \t,;", p[i], 4) != NULL) {
			*ret_cut = true;
			return (i + 1);
		}
	*ret_cut = l->len + n == OUTPUT_LINE_BYTES;
	return (n);
}

/* How many bytes of p belong to the open line; *ret_full: it ends there. */
static size_t
lines_cut(struct lines *l, const char *p, size_t n, bool *ret_full)
{
	size_t room = OUTPUT_LINE_BYTES - l->len, take, keep;
	const char *nl;

	take = late_cut(l, p, n < room ? n : room, ret_full);
	nl = memchr(p, '\n', take);
	if (nl != NULL) {
		take = (size_t)(nl - p) + 1;
		*ret_full = true;
	}
	keep = sizeof(l->head) - l->nhead;
	if (keep > take)
		keep = take;
	memcpy(l->head + l->nhead, p, keep);
	l->nhead += keep;
	l->len += take;
	return (take);
}

struct page_walk {
	struct lines lines;
	struct output_page *page;
	uint64_t from, to;	/* lines wanted */
	size_t mark;		/* where the open line begins in the text */
	/* The first line that begins at or after byte late of the stream. */
	uint64_t bytes, late, late_line;
	const uint64_t *dropped;
	bool full, hide;
};

/*
 * The lines of a private key are hidden one by one, so that a page that
 * begins in the middle of one shows none of it and line numbers stay true.
 */
static int
page_bytes(void *arg, const char *p, size_t n)
{
	struct page_walk *w = arg;
	struct lines *l = &w->lines;
	size_t take;
	bool ends, wanted;

	for (; n > 0; p += take, n -= take) {
		wanted = l->n >= w->from && l->n < w->to && !w->full;
		if (l->len == 0) {
			w->hide = l->key;
			w->mark = w->page->text.len;
			if (w->late_line == 0 &&
			    w->bytes + *w->dropped >= w->late)
				w->late_line = l->n;
		}
		take = lines_cut(l, p, n, &ends);
		w->bytes += take;
		if (ends)
			lines_follow_key(l);
		if (wanted && !w->hide) {
			w->full = sbx_buf_add(&w->page->text, p, take) != 0;
			/* Whole lines only; the next page begins with it. */
			if (w->full)
				w->page->text.len = w->mark;
		} else if (wanted && ends) {
			(void)sbx_buf_str(&w->page->text, "***\n");
			w->page->masked++;
		}
		if (!ends)
			continue;
		if (wanted && !w->full)
			w->page->shown++;
		lines_end(l);
	}
	return (0);
}

/* late: a byte offset; *ret_late_line the first line that begins there. */
static int
page_once(struct call *call, const char *run, enum sbx_stream stream,
    uint64_t from, uint64_t limit, struct output_page *p, uint64_t late,
    uint64_t *ret_late_line)
{
	struct page_walk pw = { .page = p, .from = from, .to = from + limit,
		.late = late };
	struct walk w = { .call = call, .run = run, .stream = stream,
		.fn = page_bytes, .arg = &pw };
	size_t len, whole;
	int error;

	pw.dropped = &w.dropped;
	sbx_buf_init(&p->text, OUTPUT_PAGE_BYTES);
	p->first = from;
	error = walk(&w);
	p->known = w.known;
	p->total_bytes = w.total;
	p->dropped = w.dropped;
	p->total_lines = pw.lines.n + (pw.lines.len > 0);
	if (ret_late_line != NULL)
		*ret_late_line = pw.late_line;
	/* A last line without its newline. */
	if (pw.lines.len > 0 && pw.lines.n >= pw.from &&
	    pw.lines.n < pw.to && !pw.full) {
		if (pw.hide)
			(void)sbx_buf_str(&p->text, "***");
		p->shown++;
	}
	if (error == 0 && p->text.len > 0) {
		len = whole = p->text.len;
		p->masked += sbx_mask(p->text.data, &len);
		p->text.len = len;
		if (len < whole)
			p->text.data[len] = '\0';
	}
	return (error);
}

int
output_page(struct call *call, const char *run, enum sbx_stream stream,
    uint64_t offset, uint64_t limit, uint64_t tail,
    struct output_page *ret_page)
{
	uint64_t total;
	int error;

	memset(ret_page, 0, sizeof(*ret_page));
	sbx_buf_init(&ret_page->text, OUTPUT_PAGE_BYTES);
	if (tail == 0)
		return (page_once(call, run, stream, offset, limit, ret_page,
		    0, NULL));
	/* Once to count, once to read. */
	error = page_once(call, run, stream, UINT64_MAX / 2, 0, ret_page, 0,
	    NULL);
	if (error != 0)
		return (error);
	total = ret_page->total_lines;
	output_page_clear(ret_page);
	return (page_once(call, run, stream, total > tail ? total - tail : 0,
	    tail, ret_page, 0, NULL));
}

void
output_page_clear(struct output_page *p)
{
	sbx_buf_clear(&p->text);
	memset(p, 0, sizeof(*p));
}

static int
all_bytes(void *arg, const char *p, size_t n)
{
	return (sbx_buf_add(arg, p, n));
}

int
output_all(struct call *call, const char *run, enum sbx_stream stream,
    size_t max, struct sbx_buf *ret_text)
{
	struct walk w = { .call = call, .run = run, .stream = stream,
		.fn = all_bytes, .arg = ret_text };
	int error;

	sbx_buf_init(ret_text, max);
	error = walk(&w);
	if (error == 0 && (ret_text->overflow || w.dropped > 0 ||
	    ret_text->len != w.total))
		error = SBX_E_LIMIT;
	return (error);
}

/* --- views ---------------------------------------------------------------- */

#define LATE_BYTES (OUTPUT_PAGE_BYTES - OUTPUT_LINE_BYTES * 4)
#define PAGE_LINES 50u		/* of an exec page without a limit */

/* The begin and, where that is not all, the end of a stream. */
struct ends {
	struct output_page head, tail;
};

/*
 * A page holds OUTPUT_PAGE_BYTES.  What is longer gets a second one for its
 * last bytes; `late` is where that begins, so that it does not fill up before
 * the end.
 */
static int
ends_get(struct call *call, const char *run, enum sbx_stream stream,
    uint64_t bytes, struct ends *e)
{
	uint64_t late = bytes > LATE_BYTES ? bytes - LATE_BYTES : 0, from;
	int error;

	memset(e, 0, sizeof(*e));
	if (bytes == 0)
		return (0);	/* as it was when its end was told */
	error = page_once(call, run, stream, 0, UINT64_MAX / 2, &e->head,
	    late, &from);
	sbx_buf_init(&e->tail.text, OUTPUT_PAGE_BYTES);
	if (error != 0 || e->head.shown >= e->head.total_lines)
		return (error);
	if (from < e->head.shown)
		from = e->head.shown;
	return (page_once(call, run, stream, from, UINT64_MAX / 2, &e->tail, 0,
	    NULL));
}

static void
ends_clear(struct ends *e)
{
	output_page_clear(&e->head);
	output_page_clear(&e->tail);
}

/* How the arguments want it. */
static struct view_want
wanted(struct call *call, bool failed)
{
	const char *verbose = args_str(&call->args, "verbose", NULL);
	struct view_want w = {
		.mode = strcmp(verbose, "full") == 0 ? VIEW_FULL :
		    strcmp(verbose, "error_only") == 0 ? VIEW_ERROR_ONLY :
		    VIEW_SUMMARY,
		.failed = failed,
		.max_lines = (uint64_t)args_int(&call->args, "max_lines"),
		.max_tokens = (uint64_t)args_int(&call->args,
		    "max_output_tokens"),
	};

	return (w);
}

static void
make_view(const struct view_want *want, const struct ends *e,
    struct view *ret_view)
{
	struct view_in in = {
		.head = e->head.text.len > 0 ? e->head.text.data : "",
		.head_len = e->head.text.len,
		.tail = e->tail.text.len > 0 ? e->tail.text.data : "",
		.tail_len = e->tail.text.len,
		.skipped_lines = e->tail.text.len == 0 ? 0 :
		    e->tail.first - e->head.shown,
	};

	view_make(want, &in, ret_view);
}

/* What is not in the view begins at raw line next. */
static void
put_more(struct result *r, bool more, uint64_t next)
{
	if (more)
		result_u64(r, "next_offset", next);
	else
		result_null(r, "next_offset");
	result_bool(r, "has_more", more);
}

static void
put_out(struct call *call, const struct view_want *want,
    const struct ends *e, const struct view *v)
{
	struct result *r = call->res;

	result_strn(r, "output", v->text.len > 0 ? v->text.data : "",
	    v->text.len);
	result_u64(r, "shown", v->shown);
	result_u64(r, "total_lines", e->head.total_lines);
	result_bool(r, "truncated", v->truncated);
	put_more(r, v->truncated && v->raw_before_cut < e->head.total_lines,
	    v->raw_before_cut);
	if (want->max_tokens > 0)
		result_u64(r, "estimated_tokens", v->estimated_tokens);
}

/* One page of lines, cleaned, instead of begin and end. */
static int
put_paged(struct call *call, const struct ask_run *st, size_t *masked,
    uint64_t *dropped)
{
	struct view_want want = wanted(call, false);
	struct ends e = { 0 };
	struct view v;
	uint64_t limit = args_has(&call->args, "limit") ?
	    (uint64_t)args_int(&call->args, "limit") : PAGE_LINES;
	int error;

	error = output_page(call, st->run, SBX_STREAM_OUT,
	    (uint64_t)args_int(&call->args, "offset"), limit, 0, &e.head);
	if (error != 0) {
		ends_clear(&e);
		return (error);
	}
	want.mode = VIEW_FULL;
	make_view(&want, &e, &v);
	result_strn(call->res, "output", v.text.len > 0 ? v.text.data : "",
	    v.text.len);
	result_u64(call->res, "shown", v.shown);
	result_u64(call->res, "total_lines", e.head.total_lines);
	result_bool(call->res, "truncated", v.truncated ||
	    e.head.shown < e.head.total_lines);
	put_more(call->res, e.head.first + e.head.shown < e.head.total_lines,
	    e.head.first + e.head.shown);
	if (want.max_tokens > 0)
		result_u64(call->res, "estimated_tokens", v.estimated_tokens);
	*masked += e.head.masked + e.tail.masked + v.masked;
	*dropped += e.head.dropped;
	view_clear(&v);
	ends_clear(&e);
	return (0);
}

static int
put_stdout(struct call *call, const struct ask_run *st,
    const struct view_want *want, size_t *masked, uint64_t *dropped)
{
	struct ends e;
	struct view v;
	int error;

	if (args_has(&call->args, "limit") ||
	    args_int(&call->args, "offset") > 0)
		return (put_paged(call, st, masked, dropped));
	error = ends_get(call, st->run, SBX_STREAM_OUT, st->out_bytes, &e);
	if (error == 0) {
		make_view(want, &e, &v);
		put_out(call, want, &e, &v);
		*masked += e.head.masked + e.tail.masked + v.masked;
		*dropped += e.head.dropped;
		view_clear(&v);
	}
	ends_clear(&e);
	return (error);
}

/* Its end is what matters: paging is for stdout, read_output for the rest. */
static int
put_stderr(struct call *call, const struct ask_run *st,
    const struct view_want *want, size_t *masked, uint64_t *dropped)
{
	struct ends e;
	struct view v;
	int error;

	if (st->err_bytes == 0 ||
	    (want->mode == VIEW_ERROR_ONLY && !want->failed))
		return (0);
	error = ends_get(call, st->run, SBX_STREAM_ERR, st->err_bytes, &e);
	if (error == 0) {
		make_view(want, &e, &v);
		result_strn(call->res, "stderr", v.text.len > 0 ?
		    v.text.data : "", v.text.len);
		result_u64(call->res, "stderr_lines", e.head.total_lines);
		result_bool(call->res, "stderr_truncated", v.truncated);
		*masked += e.head.masked + e.tail.masked + v.masked;
		*dropped += e.head.dropped;
		view_clear(&v);
	}
	ends_clear(&e);
	return (error);
}

int
output_views(struct call *call, const struct ask_run *st, bool failed)
{
	struct view_want want = wanted(call, failed);
	size_t masked = 0;
	uint64_t dropped = 0;
	int error;

	error = put_stdout(call, st, &want, &masked, &dropped);
	if (error == 0)
		error = put_stderr(call, st, &want, &masked, &dropped);
	if (error != 0)
		return (call_refused(call, error));
	if (masked > 0)
		result_u64(call->res, "masked", masked);
	/* Also what could not be stored at all, which leaves no gap to see. */
	if (dropped < st->dropped)
		dropped = st->dropped;
	if (dropped > 0)
		result_u64(call->res, "dropped_bytes", dropped);
	return (0);
}
