/*
 * Reading what rg, grep and ast-grep print.  They run in a sandbox, so it may
 * be anything: what does not parse ends the reading, and the result says that
 * it is not whole.
 */

#include "sbxd/worker/search.h"

#include "common/base/mask.h"
#include "sbxd/worker/result.h"
#include "sbxd/worker/script.h"

#include <json-c/json.h>
#include <string.h>

#define MASK_BYTES 65536u	/* of a long line, around what is shown */
#define CUT_MARK "\xe2\x80\xa6"
#define RING 128u		/* lines before a match; more than context is */

/* --- one event ---------------------------------------------------------------- */

/* A line of output as it is: with its newline outside. */
struct span {
	const char *p;
	size_t len;
};

static bool
next_line(const struct search *s, size_t *at, struct span *ret_line)
{
	const char *nl;

	if (*at >= s->len)
		return (false);
	nl = memchr(s->text + *at, '\n', s->len - *at);
	if (nl == NULL)
		return (false);
	ret_line->p = s->text + *at;
	ret_line->len = (size_t)(nl - ret_line->p);
	*at += ret_line->len + 1;
	return (true);
}

static bool
begins(const struct span *l, const char *with)
{
	size_t n = strlen(with);

	return (l->len >= n && memcmp(l->p, with, n) == 0);
}

#define RG_BEGIN "{\"type\":\"begin\""
#define RG_MATCH "{\"type\":\"match\""
#define RG_CONTEXT "{\"type\":\"context\""

static struct json_object *
get(struct json_object *o, const char *name, enum json_type type)
{
	struct json_object *v;

	if (!json_object_is_type(o, json_type_object) ||
	    !json_object_object_get_ex(o, name, &v) ||
	    !json_object_is_type(v, type))
		return (NULL);
	return (v);
}

static uint64_t
get_number(struct json_object *o, const char *name)
{
	struct json_object *v = get(o, name, json_type_int);
	int64_t n = v == NULL ? -1 : json_object_get_int64(v);

	return (n < 0 ? 0 : (uint64_t)n);
}

static int
digit64(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *d = c == '\0' ? NULL : strchr(digits, c);

	return (d == NULL ? -1 : (int)(d - digits));
}

/* As far as it is base64.  Owned by the caller. */
static char *
decode64(const char *p, size_t len, size_t *ret_len)
{
	char *out = sbx_xcalloc(1, len + 1);
	uint32_t bits = 0;
	size_t i, n = 0;
	unsigned have = 0;
	int d;

	for (i = 0; i < len && (d = digit64(p[i])) >= 0; i++) {
		bits = bits << 6 | (uint32_t)d;
		have += 6;
		if (have < 8)
			continue;
		have -= 8;
		out[n++] = (char)(bits >> have & 0xff);
	}
	*ret_len = n;
	return (out);
}

/* rg's {"text": ...} or {"bytes": base64}.  Owned by the caller; NULL: it is
 * neither. */
static char *
get_bytes(struct json_object *o, const char *name, size_t *ret_len)
{
	struct json_object *v = get(o, name, json_type_object), *s;
	char *copy;

	s = get(v, "text", json_type_string);
	if (s == NULL) {
		s = get(v, "bytes", json_type_string);
		return (s == NULL ? NULL : decode64(json_object_get_string(s),
		    (size_t)json_object_get_string_len(s), ret_len));
	}
	*ret_len = (size_t)json_object_get_string_len(s);
	copy = sbx_xcalloc(1, *ret_len + 1);
	memcpy(copy, json_object_get_string(s), *ret_len);
	return (copy);
}

/* --- reading -------------------------------------------------------------------- */

static struct search_item *
add(struct search *s, const char *path, size_t len)
{
	struct search_item *i;

	if (s->n == SEARCH_ITEMS_MAX) {
		s->cut = true;
		return (NULL);
	}
	if (s->n == s->size) {
		s->size = s->size == 0 ? 64 : s->size * 2;
		s->items = sbx_xreallocarray(s->items, s->size,
		    sizeof(*s->items));
	}
	if (len > 2 && memcmp(path, "./", 2) == 0) {
		path += 2;
		len -= 2;
	}
	i = &s->items[s->n++];
	memset(i, 0, sizeof(*i));
	i->path = sbx_xcalloc(1, len + 1);
	memcpy(i->path, path, len);
	i->path_len = len;
	return (i);
}

static bool
same_path(const struct search_item *i, const char *path, size_t len)
{
	if (len > 2 && memcmp(path, "./", 2) == 0) {
		path += 2;
		len -= 2;
	}
	return (i->path_len == len && memcmp(i->path, path, len) == 0);
}

/* A "begin" line; NULL: it is none, or one too many. */
static struct search_item *
rg_begin(struct search *s, const struct span *l)
{
	struct json_object *o = script_json(l->p, l->len);
	struct search_item *i = NULL;
	size_t len = 0;
	char *path;

	path = get_bytes(get(o, "data", json_type_object), "path", &len);
	if (path != NULL)
		i = add(s, path, len);
	free(path);
	json_object_put(o);
	return (i);
}

/* Files stay together, whatever the order of them.  Without the line that
 * ends it all there was more. */
static void
rg_read(struct search *s)
{
	struct search_item *open = NULL;
	struct span l;
	size_t at = 0;

	while (!s->cut && next_line(s, &at, &l)) {
		if (begins(&l, RG_BEGIN)) {
			open = rg_begin(s, &l);
			if (open == NULL)
				break;
			open->from = open->to = at;
		} else if (open != NULL && (begins(&l, RG_MATCH) ||
		    begins(&l, RG_CONTEXT))) {
			open->n += begins(&l, RG_MATCH);
			open->to = at;
		} else if (begins(&l, "{\"data\":{\"elapsed_total\""))
			return;
		else if (!begins(&l, "{\"type\":\"end\""))
			break;
	}
	s->cut = true;
}

static void
ast_item(struct search *s, struct json_object *o, size_t from, size_t to)
{
	struct json_object *file = get(o, "file", json_type_string);
	struct json_object *start = get(get(o, "range", json_type_object),
	    "start", json_type_object);
	struct search_item *i = NULL;

	if (file != NULL && start != NULL)
		i = add(s, json_object_get_string(file),
		    (size_t)json_object_get_string_len(file));
	if (i == NULL) {
		s->cut = true;
		return;
	}
	i->n = 1;
	i->line = get_number(start, "line");
	i->column = get_number(start, "column");
	i->from = from;
	i->to = to;
}

static void
ast_read(struct search *s)
{
	struct json_object *o;
	struct span l;
	size_t at = 0, from = 0;

	for (; !s->cut && next_line(s, &at, &l); from = at) {
		o = script_json(l.p, l.len);
		ast_item(s, o, from, at);
		json_object_put(o);
	}
	s->cut |= at < s->len;
}

/* Names with their NUL, and with count a number and a newline. */
static void
names_read(struct search *s)
{
	struct pieces in = { s->text, s->text + s->len };
	struct search_item *i;
	const char *p, *nl;
	uint64_t n = 1;
	size_t len;

	while (!s->cut && piece_next(&in, &p, &len)) {
		if (s->mode == SEARCH_COUNT) {
			nl = memchr(in.p, '\n', (size_t)(in.end - in.p));
			n = nl == NULL ? UINT64_MAX : piece_number(in.p, nl);
			if (n == UINT64_MAX) {
				s->cut = true;
				return;
			}
			in.p = nl + 1;
			if (n == 0)
				continue;
		}
		i = add(s, p, len);
		if (i != NULL)
			i->n = n;
	}
	s->cut |= in.p < in.end;
}

/* One line of grep -Zn: NAME NUL NUMBER : or - TEXT. */
struct grep_line {
	struct span path, text;
	uint64_t number;
	bool match;
};

static bool
grep_line(const struct span *l, struct grep_line *ret_g)
{
	const char *nul = memchr(l->p, '\0', l->len), *end = l->p + l->len;
	const char *p;

	if (nul == NULL)
		return (false);
	for (p = nul + 1; p < end && *p >= '0' && *p <= '9'; p++)
		;
	if (p == end || (*p != ':' && *p != '-'))
		return (false);
	ret_g->path = (struct span){ l->p, (size_t)(nul - l->p) };
	ret_g->number = piece_number(nul + 1, p);
	ret_g->match = *p == ':';
	ret_g->text = (struct span){ p + 1, (size_t)(end - p - 1) };
	return (ret_g->number != UINT64_MAX);
}

static void
grep_read(struct search *s)
{
	struct search_item *open = NULL;
	struct grep_line g;
	struct span l;
	size_t at = 0, from = 0;

	for (; !s->cut && next_line(s, &at, &l); from = at) {
		if (l.len == 2 && memcmp(l.p, "--", 2) == 0)
			continue;
		if (!grep_line(&l, &g)) {
			s->cut = true;
			return;
		}
		if (open == NULL || !same_path(open, g.path.p, g.path.len)) {
			open = add(s, g.path.p, g.path.len);
			if (open == NULL)
				return;
			open->from = from;
		}
		open->n += g.match;
		open->to = at;
	}
	s->cut |= at < s->len;
}

static int
by_place(const void *va, const void *vb)
{
	const struct search_item *a = va, *b = vb;
	size_t n = a->path_len < b->path_len ? a->path_len : b->path_len;
	int c = memcmp(a->path, b->path, n);

	if (c == 0)
		c = (a->path_len > b->path_len) - (a->path_len < b->path_len);
	if (c == 0)
		c = (a->line > b->line) - (a->line < b->line);
	return (c != 0 ? c : (a->column > b->column) -
	    (a->column < b->column));
}

/* Places of a structure become files, as the others' files are. */
static void
ast_files(struct search *s)
{
	size_t i, n = 0;

	for (i = 0; i < s->n; i++) {
		if (n > 0 && same_path(&s->items[n - 1], s->items[i].path,
		    s->items[i].path_len)) {
			s->items[n - 1].n++;
			free(s->items[i].path);
		} else
			s->items[n++] = s->items[i];
	}
	s->n = n;
}

void
search_read(struct search *s)
{
	size_t i;

	if (s->tool == SEARCH_AST)
		ast_read(s);
	else if (s->mode != SEARCH_LINES)
		names_read(s);
	else if (s->tool == SEARCH_RG)
		rg_read(s);
	else
		grep_read(s);
	if (s->n > 0)
		qsort(s->items, s->n, sizeof(*s->items), by_place);
	if (s->tool == SEARCH_AST && s->mode != SEARCH_LINES)
		ast_files(s);
	for (i = 0; i < s->n; i++)
		s->total += s->mode == SEARCH_LINES ? s->items[i].n : 1;
}

void
search_clear(struct search *s)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		free(s->items[i].path);
	free(s->items);
}

/* --- a page --------------------------------------------------------------------- */

struct line {
	const struct search_item *item;
	struct span text;		/* without its newline */
	size_t at;			/* where in it the match begins */
	uint64_t number, column;	/* column 0: not known */
	uint64_t end_line, end_column;	/* 0: not told */
	bool match, hidden;
};

struct page {
	const struct search *s;
	struct result *r;
	uint64_t skip, left, shown;	/* matches */
	uint64_t last;		/* line of the match before, 0: none yet */
	uint64_t seen;		/* line before, of any kind */
	size_t bytes, masked;
	bool key;		/* inside a private key */
	/* Lines that may be shown before a match, with copies of their text. */
	struct line ring[RING];
	size_t nring;
};

static bool
is_tail(char c)
{
	return (((unsigned char)c & 0xc0) == 0x80);
}

/* At most max bytes of a text, with the place `at` in them. */
static struct span
window(const char *p, size_t len, size_t at, size_t max)
{
	size_t from = at > max / 4 ? at - max / 4 : 0, to;

	if (len <= max)
		return ((struct span){ p, len });
	if (from > len - max)
		from = len - max;
	to = from + max;
	while (from > 0 && from < to && is_tail(p[from]))
		from++;
	while (to > from && to < len && is_tail(p[to]))
		to--;
	return ((struct span){ p + from, to - from });
}

/* Secrets go while the line is whole, or nearly; then it is cut. */
static void
put_text(struct page *g, const struct line *l)
{
	struct span near = window(l->text.p, l->text.len, l->at, MASK_BYTES);
	struct span shown;
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	size_t len = near.len, at = l->at - (size_t)(near.p - l->text.p), n;
	char *copy = sbx_xcalloc(1, len + 1);

	memcpy(copy, near.p, len);
	n = sbx_mask(copy, &len);
	if (n > 0)
		at = 0;		/* it may be elsewhere now */
	g->masked += n;
	shown = window(copy, len, at, SEARCH_TEXT_MAX);
	sbx_buf_init(&b, SEARCH_TEXT_MAX + 16);
	if (near.p > l->text.p || shown.p > copy)
		(void)sbx_buf_str(&b, CUT_MARK);
	(void)sbx_buf_add(&b, shown.p, shown.len);
	if (near.p + near.len < l->text.p + l->text.len ||
	    shown.p + shown.len < copy + len)
		(void)sbx_buf_str(&b, CUT_MARK);
	result_strn(g->r, "text", b.len > 0 ? b.data : "", b.len);
	g->bytes += b.len;
	free(copy);
}

static void
put_line(struct page *g, const struct line *l)
{
	struct result *r = g->r;

	result_open(r, NULL, '{');
	script_put(r, "file", l->item->path, l->item->path_len, &g->masked);
	result_u64(r, "line", l->number);
	if (l->column > 0)
		result_u64(r, "column", l->column);
	if (l->end_line > 0) {
		result_u64(r, "end_line", l->end_line);
		result_u64(r, "end_column", l->end_column);
	}
	if (l->hidden) {
		result_str(r, "text", "***");
		g->masked++;
	} else
		put_text(g, l);
	if (!l->match)
		result_bool(r, "context", true);
	result_close(r, '}');
	g->bytes += l->item->path_len + 64;
}

/* The lines of a private key are hidden where its begin was seen. */
static void
follow_key(struct page *g, struct line *l)
{
	static const char begin[] = "-----BEGIN ", kind[] = "PRIVATE KEY",
	    end[] = "-----END ";
	const struct span *t = &l->text;

	if (l->number != g->seen + 1)
		g->key = false;
	g->seen = l->number;
	l->hidden = g->key;
	if (memmem(t->p, t->len, end, sizeof(end) - 1) != NULL)
		g->key = false;
	else if (memmem(t->p, t->len, begin, sizeof(begin) - 1) != NULL &&
	    memmem(t->p, t->len, kind, sizeof(kind) - 1) != NULL)
		g->key = true;
}

static void
ring_clear(struct page *g)
{
	size_t i;

	for (i = 0; i < g->nring; i++)
		free((char *)(uintptr_t)g->ring[i].text.p);
	g->nring = 0;
}

static void
ring_add(struct page *g, const struct line *l)
{
	struct span keep = window(l->text.p, l->text.len, 0, MASK_BYTES);
	char *copy;

	if (g->s->context == 0)
		return;
	if (g->nring == RING) {
		free((char *)(uintptr_t)g->ring[0].text.p);
		memmove(g->ring, g->ring + 1, sizeof(*g->ring) * (RING - 1));
		g->nring--;
	}
	copy = sbx_xcalloc(1, keep.len + 1);
	memcpy(copy, keep.p, keep.len);
	g->ring[g->nring] = *l;
	g->ring[g->nring].text = (struct span){ copy, keep.len };
	g->ring[g->nring].match = false;
	g->ring[g->nring].column = 0;
	g->ring[g->nring++].at = 0;
}

static void
ring_put(struct page *g, uint64_t before)
{
	size_t i;

	for (i = 0; i < g->nring; i++)
		if (g->ring[i].number + g->s->context >= before)
			put_line(g, &g->ring[i]);
	ring_clear(g);
}

/* false: the page ends here. */
static bool
take(struct page *g, struct line *l)
{
	follow_key(g, l);
	if (!l->match) {
		if (g->last > 0 && l->number <= g->last + g->s->context)
			put_line(g, l);
		else
			ring_add(g, l);
		return (true);
	}
	if (g->skip > 0) {
		g->skip--;
		ring_add(g, l);
		return (true);
	}
	if (g->left == 0)
		return (false);
	ring_put(g, l->number);
	put_line(g, l);
	g->last = l->number;
	g->shown++;
	g->left = g->bytes > SEARCH_PAGE_BYTES ? 0 : g->left - 1;
	return (true);
}

static size_t
chomp(const char *p, size_t len)
{
	if (len > 0 && p[len - 1] == '\n')
		len--;
	if (len > 0 && p[len - 1] == '\r')
		len--;
	return (len);
}

static uint64_t
characters(const char *p, size_t len)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < len; i++)
		n += !is_tail(p[i]);
	return (n);
}

/* *ret_text: owned by the caller, l->text is in it.  false: not an event. */
static bool
rg_line(const struct span *in, struct line *l, char **ret_text)
{
	struct json_object *o = script_json(in->p, in->len);
	struct json_object *d = get(o, "data", json_type_object), *subs;
	size_t len = 0;

	*ret_text = get_bytes(d, "lines", &len);
	l->number = get_number(d, "line_number");
	l->match = begins(in, RG_MATCH);
	subs = get(d, "submatches", json_type_array);
	if (*ret_text != NULL) {
		l->text = (struct span){ *ret_text, chomp(*ret_text, len) };
		if (l->match && subs != NULL &&
		    json_object_array_length(subs) > 0) {
			l->at = get_number(json_object_array_get_idx(subs, 0),
			    "start");
			if (l->at > l->text.len)
				l->at = l->text.len;
			l->column = characters(*ret_text, l->at) + 1;
		}
	}
	json_object_put(o);
	return (*ret_text != NULL);
}

static bool
ast_line(const struct span *in, struct line *l, char **ret_text)
{
	struct json_object *o = script_json(in->p, in->len), *end;
	struct json_object *text = get(o, "text", json_type_string);
	size_t len = 0;

	if (text != NULL) {
		len = (size_t)json_object_get_string_len(text);
		*ret_text = sbx_xcalloc(1, len + 1);
		memcpy(*ret_text, json_object_get_string(text), len);
		end = get(get(o, "range", json_type_object), "end",
		    json_type_object);
		l->text = (struct span){ *ret_text, len };
		l->number = l->item->line + 1;
		l->column = l->item->column + 1;
		l->end_line = get_number(end, "line") + 1;
		l->end_column = get_number(end, "column") + 1;
		l->match = true;
	}
	json_object_put(o);
	return (text != NULL);
}

static bool
grep_event(const struct span *in, struct line *l)
{
	struct grep_line g;

	if (!grep_line(in, &g))
		return (false);
	l->text = (struct span){ g.text.p, chomp(g.text.p, g.text.len) };
	l->number = g.number;
	l->match = g.match;
	return (true);
}

/* false: the page ends in this file. */
static bool
put_item(struct page *g, const struct search_item *i)
{
	const struct search in = { .text = g->s->text, .len = i->to };
	struct span event;
	size_t at = i->from;
	bool more = true, good;

	g->last = g->seen = 0;
	g->key = false;
	while (more && next_line(&in, &at, &event)) {
		struct line l = { .item = i };
		char *text = NULL;

		good = g->s->tool == SEARCH_RG ? rg_line(&event, &l, &text) :
		    g->s->tool == SEARCH_AST ? ast_line(&event, &l, &text) :
		    grep_event(&event, &l);
		if (good)
			more = take(g, &l);
		free(text);
	}
	ring_clear(g);
	return (more);
}

static void
put_name(struct page *g, const struct search_item *i)
{
	result_open(g->r, NULL, '{');
	script_put(g->r, "file", i->path, i->path_len, &g->masked);
	if (g->s->mode == SEARCH_COUNT)
		result_u64(g->r, "count", i->n);
	result_close(g->r, '}');
	g->bytes += i->path_len + 64;
	g->shown++;
	g->left = g->bytes > SEARCH_PAGE_BYTES ? 0 : g->left - 1;
}

static void
put_matches(struct page *g)
{
	const struct search *s = g->s;
	size_t i;

	for (i = 0; i < s->n && g->left > 0; i++) {
		uint64_t n = s->mode == SEARCH_LINES ? s->items[i].n : 1;

		if (g->skip >= n) {
			g->skip -= n;
			continue;
		}
		if (s->mode != SEARCH_LINES)
			put_name(g, &s->items[i]);
		else if (!put_item(g, &s->items[i]))
			break;
	}
}

void
search_put(struct search *s, struct result *r, uint64_t offset, uint64_t max)
{
	struct page *g = sbx_xcalloc(1, sizeof(*g));
	bool more;

	g->s = s;
	g->r = r;
	g->skip = offset;
	g->left = max;
	result_open(r, "matches", '[');
	put_matches(g);
	result_close(r, ']');
	more = offset < s->total && offset + g->shown < s->total;
	result_u64(r, "shown", g->shown);
	result_u64(r, "total", s->total);
	if (s->cut)
		result_bool(r, "total_is_lower_bound", true);
	result_bool(r, "truncated", more || offset > 0 || s->cut);
	if (more && g->shown > 0)
		result_u64(r, "next_offset", offset + g->shown);
	else
		result_null(r, "next_offset");
	result_bool(r, "has_more", more);
	if (g->masked > 0)
		result_u64(r, "masked", g->masked);
	free(g);
}
