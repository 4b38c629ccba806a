/*
 * What a tool shows of output: the whole text is cut into lines, each cleaned
 * and compared with the one before, and then as many as are wanted are taken
 * from both ends.  Linear in the text.
 */

#include "sbxd/worker/view.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/limits.h"
#include "common/base/mask.h"

/* One line of the view: where its text is in the cleaned buffer. */
struct vline {
	size_t off, len;
	size_t json;		/* bytes of it as JSON */
	uint64_t raw;		/* number of its first raw line in head/tail */
	uint64_t times;		/* identical ones in a row; notice: skipped */
	bool data;		/* part of a diff or of JSON: never folded */
	bool notice;		/* ours, not the command's */
};
struct vlines {
	struct sbx_buf text;
	struct sbx_buf json_text;	/* one line at a time, to measure it */
	struct vline *v;
	size_t n, size;
	uint64_t raw;		/* raw lines so far */
	bool diff;		/* inside a hunk */
	uint64_t json;		/* brackets of a JSON text that are open */
	bool open;		/* the last line has no newline */
};

#define VIEW_TEXT_MAX (1280u << 10)
#define VIEW_MAX (1u << 20)
/* Both streams' views are in one result, as JSON, and other members. */
#define VIEW_JSON_MAX (SBX_MAX_RESULT / 2 - (64u << 10))
#define BYTES_A_TOKEN 4u

/* --- cleaning ------------------------------------------------------------- */

/*
 * Length of the terminal sequence at p; 0: none.  Text behind a sequence that
 * is broken off is shown, so that nothing can be hidden by one.
 * Source: ECMA-48, 5.3 and 5.4; xterm's control sequences.
 */
static size_t
escape_len(const char *p, size_t n)
{
	size_t i;

	if (n < 2 || p[0] != '\033')
		return 0;
	if (p[1] == '[') {
		for (i = 2; i < n && p[i] >= 0x20 && p[i] <= 0x3f; i++)
			;
		return i + (i < n && p[i] >= 0x40 && p[i] <= 0x7e);
	}
	/* OSC, DCS, SOS, PM, APC: a string to its terminator */
	if (strchr("]PX^_", p[1]) != NULL && p[1] != '\0') {
		for (i = 2; i < n; i++) {
			if (p[i] == '\a')
				return i + 1;
			if (p[i] == '\033' && i + 1 < n && p[i + 1] == '\\')
				return i + 2;
		}
		return 2;
	}
	/* intermediates and a final byte: "ESC ( B" chooses a character set */
	for (i = 1; i < n && p[i] >= 0x20 && p[i] <= 0x2f; i++)
		;
	return i < n && p[i] >= 0x30 && p[i] <= 0x7e ? i + 1 : 0;
}

/* A backspace takes the character before it, not beyond the line's begin. */
static void
back_space(struct sbx_buf *b, size_t begin)
{
	while (b->len > begin) {
		b->len--;
		if (((unsigned char)b->data[b->len] & 0xc0) != 0x80)
			return;
	}
}

static void
add_clean(struct sbx_buf *b, const char *p, size_t n)
{
	size_t i, skip, start = 0, begin = b->len;

	if (memchr(p, '\033', n) == NULL && memchr(p, '\b', n) == NULL) {
		(void)sbx_buf_add(b, p, n);
		return;
	}
	for (i = 0; i < n;) {
		skip = p[i] == '\b' ? 1 : escape_len(p + i, n - i);
		if (skip == 0) {
			i++;
			continue;
		}
		(void)sbx_buf_add(b, p + start, i - start);
		if (p[i] == '\b')
			back_space(b, begin);
		i += skip;
		start = i;
	}
	(void)sbx_buf_add(b, p + start, n - start);
}

/* A progress bar overwrites its line: what stood there last is what counts. */
static const char *
after_cr(const char *p, size_t *len)
{
	size_t n = *len, i;

	while (n > 0 && p[n - 1] == '\r')
		n--;
	for (i = n; i > 0; i--)
		if (p[i - 1] == '\r')
			break;
	*len = n - i;
	return (p + i);
}

/* JSON has no control characters but blanks; a progress bar, a colour or a
 * log's "[INFO]" may begin like it. */
static bool
json_begins(const char *p, size_t n)
{
	size_t i;

	if (n == 0 || (p[0] != '{' && p[0] != '[' && p[0] != '"'))
		return false;
	for (i = 1; i < n && (p[i] == ' ' || p[i] == '\t'); i++)
		;
	if (p[0] == '[' && i < n && p[i] != '\r' &&
	    strchr("{[]\"-0123456789", p[i]) == NULL &&
	    memcmp(p + i, "true", n - i < 4 ? n - i : 4) != 0 &&
	    memcmp(p + i, "null", n - i < 4 ? n - i : 4) != 0 &&
	    memcmp(p + i, "false", n - i < 5 ? n - i : 5) != 0)
		return false;
	for (i = 0; i < n; i++)
		if ((unsigned char)p[i] < ' ' && p[i] != '\t' &&
		    !(p[i] == '\r' && i + 1 == n))
			return false;
	return true;
}

/* Inside a JSON text of several lines: can this be one of them? */
static bool
json_goes_on(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n && (p[i] == ' ' || p[i] == '\t'); i++)
		;
	return i < n && p[i] != '\0' &&
	    strchr("{}[]\"-0123456789tfn", p[i]) != NULL;
}

static void
json_count(uint64_t *open, const char *p, size_t n)
{
	bool string = false;
	size_t i;

	for (i = 0; i < n; i++) {
		if (string && p[i] == '\\')
			i++;
		else if (p[i] == '"')
			string = !string;
		else if (!string && (p[i] == '{' || p[i] == '['))
			(*open)++;
		else if (!string && (p[i] == '}' || p[i] == ']') && *open > 0)
			(*open)--;
	}
}

/* Lines that are data: whole hunks of a diff, and JSON. */
static bool
is_data(struct vlines *l, const char *p, size_t n)
{
	if (n >= 4 && memcmp(p, "@@ -", 4) == 0)
		l->diff = true;
	else if (n == 0 || p[0] == '\0' || strchr(" +-\\@", p[0]) == NULL)
		l->diff = false;
	if (l->diff)
		return true;
	if (!(l->json > 0 ? json_goes_on(p, n) : json_begins(p, n))) {
		l->json = 0;
		return false;
	}
	json_count(&l->json, p, n);
	return true;
}

/* How long the line is in a JSON string: binary output gets up to six times
 * longer.  More than VIEW_JSON_MAX is all one. */
static size_t
json_len(struct vlines *l, const struct vline *v)
{
	if (v->len == 0)
		return (0);
	l->json_text.len = 0;
	l->json_text.overflow = false;
	if (sbx_json_str(&l->json_text, l->text.data + v->off, v->len,
	    NULL) != 0)
		return (VIEW_JSON_MAX + 1);
	return (l->json_text.len);
}

static struct vline *
new_line(struct vlines *l)
{
	if (l->n == l->size) {
		l->size = l->size == 0 ? 256 : l->size * 2;
		l->v = sbx_xreallocarray(l->v, l->size, sizeof(*l->v));
	}
	memset(&l->v[l->n], 0, sizeof(l->v[l->n]));
	l->v[l->n].off = l->text.len;
	l->v[l->n].raw = l->raw;
	l->v[l->n].times = 1;
	return (&l->v[l->n++]);
}

/* One raw line without its newline. */
static void
add_line(struct vlines *l, const char *p, size_t n)
{
	struct vline *v = new_line(l), *last;
	bool data = is_data(l, p, n);

	last = l->n > 1 ? &l->v[l->n - 2] : NULL;
	v->data = data;
	if (data)
		(void)sbx_buf_add(&l->text, p, n);
	else {
		p = after_cr(p, &n);
		add_clean(&l->text, p, n);
	}
	v->len = l->text.len - v->off;
	l->raw++;
	if (last == NULL || data || last->data || last->notice ||
	    last->len != v->len || memcmp(l->text.data + last->off,
	    l->text.data + v->off, v->len) != 0) {
		v->json = json_len(l, v);
		return;
	}
	last->times++;
	l->text.len = v->off;
	l->n--;
}

static void
add_piece(struct vlines *l, const char *p, size_t n)
{
	const char *nl;
	size_t len;

	while (n > 0) {
		nl = memchr(p, '\n', n);
		len = nl != NULL ? (size_t)(nl - p) : n;
		add_line(l, p, len);
		l->open = nl == NULL;
		len += nl != NULL;
		p += len;
		n -= len;
	}
}

static void
add_skipped(struct vlines *l, uint64_t lines)
{
	struct vline *v = new_line(l);

	v->notice = true;
	v->times = lines;
	(void)sbx_buf_printf(&l->text, "... (%" PRIu64 " lines omitted)",
	    lines);
	v->len = l->text.len - v->off;
}

/* --- cutting -------------------------------------------------------------- */

static void
put_line(struct view *view, const struct vlines *l, size_t i)
{
	const struct vline *v = &l->v[i];

	if (v->times > 1 && !v->notice)
		(void)sbx_buf_printf(&view->text, "[\xc3\x97%" PRIu64 "] ",
		    v->times);
	(void)sbx_buf_add(&view->text, l->text.len > 0 ? l->text.data +
	    v->off : "", v->len);
	if (i + 1 < l->n || !l->open)
		(void)sbx_buf_add(&view->text, "\n", 1);
	view->shown += !v->notice;
}

/* What is left of the two limits. */
struct budget {
	size_t bytes, json;
};

static bool
pay(struct budget *b, const struct vline *v)
{
	size_t more = v->times > 1 ? 8 : 0;
	size_t bytes = v->len + 1 + more, json = v->json + 2 + more;

	if (bytes > b->bytes || json > b->json)
		return (false);
	b->bytes -= bytes;
	b->json -= json;
	return (true);
}

/* Lines [0, head) and [tail, n), and between them how many are not shown. */
static void
put_ends(struct view *view, const struct vlines *l, size_t head, size_t tail)
{
	uint64_t omitted = 0;
	size_t i;

	for (i = 0; i < head; i++)
		put_line(view, l, i);
	if (tail > head) {
		for (i = head; i < tail; i++)
			omitted += l->v[i].times;
		(void)sbx_buf_printf(&view->text, "... (%" PRIu64
		    " lines omitted)\n", omitted);
		view->truncated = true;
		if (view->raw_before_cut > l->v[head].raw)
			view->raw_before_cut = l->v[head].raw;
	}
	for (i = tail; i < l->n; i++)
		put_line(view, l, i);
}

/*
 * How much of both ends fits: at most `lines` lines and `bytes` bytes.  Of
 * what failed the end gets three quarters of the lines and two thirds of the
 * bytes, else half of each.
 */
static void
choose(const struct vlines *l, uint64_t lines, size_t bytes, bool failed,
    size_t *ret_head, size_t *ret_tail)
{
	struct budget all = { bytes, VIEW_JSON_MAX }, begin = { failed ?
	    bytes / 3 : bytes / 2, VIEW_JSON_MAX / 2 }, whole = begin;
	size_t head = 0, tail = l->n;
	uint64_t first = failed ? lines / 4 : lines / 2;

	while (head < l->n && head < first && pay(&begin, &l->v[head]))
		head++;
	all.bytes -= whole.bytes - begin.bytes;
	all.json -= whole.json - begin.json;
	while (tail > head && l->n - tail < lines - head &&
	    pay(&all, &l->v[tail - 1]))
		tail--;
	/* What the end left over goes to the begin. */
	while (head < tail && head + (l->n - tail) < lines &&
	    pay(&all, &l->v[head]))
		head++;
	*ret_head = head;
	*ret_tail = tail;
}

static void
cut(const struct view_want *want, const struct vlines *l, struct view *view)
{
	uint64_t lines = want->mode == VIEW_FULL ? UINT64_MAX :
	    want->max_lines;
	size_t bytes = VIEW_MAX - 4096, head, tail;

	if (want->max_tokens > 0) {
		lines = UINT64_MAX;
		if (want->max_tokens < bytes / BYTES_A_TOKEN)
			bytes = want->max_tokens * BYTES_A_TOKEN;
	}
	if (want->mode == VIEW_ERROR_ONLY && want->max_tokens == 0) {
		struct budget all = { bytes, VIEW_JSON_MAX };

		head = 0;
		for (tail = l->n; tail > 0 && l->n - tail < lines &&
		    pay(&all, &l->v[tail - 1]);)
			tail--;
	} else
		choose(l, lines, bytes, want->failed, &head, &tail);
	put_ends(view, l, head, tail);
}

/* "ghp_" in red and the rest not was no token before its colour went. */
static void
mask_again(struct view *view)
{
	size_t len = view->text.len;

	if (len == 0)
		return;
	view->masked = sbx_mask(view->text.data, &len);
	if (len < view->text.len) {
		view->text.len = len;
		view->text.data[len] = '\0';
	}
}

void
view_make(const struct view_want *want, const struct view_in *in,
    struct view *ret_view)
{
	struct vlines l = { 0 };

	memset(ret_view, 0, sizeof(*ret_view));
	sbx_buf_init(&ret_view->text, VIEW_MAX);
	sbx_buf_init(&l.text, VIEW_TEXT_MAX);
	sbx_buf_init(&l.json_text, VIEW_JSON_MAX);
	ret_view->raw_before_cut = UINT64_MAX;
	add_piece(&l, in->head, in->head_len);
	if (in->skipped_lines > 0) {
		ret_view->truncated = true;
		ret_view->raw_before_cut = l.raw;
		add_skipped(&l, in->skipped_lines);
	}
	add_piece(&l, in->tail, in->tail_len);
	if (want->mode == VIEW_ERROR_ONLY && !want->failed) {
		ret_view->truncated = l.n > 0;
		ret_view->raw_before_cut = l.n > 0 ? 0 : UINT64_MAX;
	} else
		cut(want, &l, ret_view);
	if (ret_view->raw_before_cut == UINT64_MAX)
		ret_view->raw_before_cut = l.raw;
	mask_again(ret_view);
	ret_view->estimated_tokens = ret_view->text.len == 0 ? 0 :
	    (ret_view->text.len + BYTES_A_TOKEN - 1) / BYTES_A_TOKEN;
	sbx_buf_clear(&l.text);
	sbx_buf_clear(&l.json_text);
	free(l.v);
}

void
view_clear(struct view *v)
{
	sbx_buf_clear(&v->text);
}
