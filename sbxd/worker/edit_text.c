/* Replacing parts of a text (edit.h). */

#include "sbxd/worker/edit.h"

#include <string.h>

void
edit_init(struct edit *e, struct bytes old)
{
	*e = (struct edit){ .old = old };
}

void
edit_clear(struct edit *e)
{
	free(e->spans);
	for (size_t i = 0; i < e->owned; i++)
		free(e->own[i]);
	free(e->own);
	*e = (struct edit){ 0 };
}

int
edit_add(struct edit *e, size_t at, size_t len, struct bytes text)
{
	if (e->n == EDIT_MAX_SPANS)
		return (SBX_E_LIMIT);
	if (e->n == e->size) {
		e->size = e->size == 0 ? 16 : 2 * e->size;
		e->spans = sbx_xreallocarray(e->spans, e->size,
		    sizeof(*e->spans));
	}
	e->spans[e->n++] = (struct edit_span){ .at = at, .len = len,
		.text = text };
	return (0);
}

static int
by_place(const void *a, const void *b)
{
	const struct edit_span *x = a, *y = b;

	if (x->at != y->at)
		return (x->at < y->at ? -1 : 1);
	return (x->len < y->len ? -1 : x->len > y->len);
}

int
edit_apply(struct edit *e, struct sbx_buf *ret_text, size_t *ret_at)
{
	size_t at = 0;
	int error = 0;

	if (e->n > 0)
		qsort(e->spans, e->n, sizeof(*e->spans), by_place);
	for (size_t i = 0; error == 0 && i < e->n; i++) {
		const struct edit_span *s = &e->spans[i];

		*ret_at = s->at;
		/* two at one place: which is first is not said */
		if (s->at < at || (i > 0 && s->at == e->spans[i - 1].at))
			return (SBX_E_POLICY);
		error = sbx_buf_add(ret_text, e->old.p + at, s->at - at);
		if (error == 0)
			error = sbx_buf_add(ret_text, s->text.p, s->text.n);
		at = s->at + s->len;
	}
	if (error == 0)
		error = sbx_buf_add(ret_text, e->old.p + at, e->old.n - at);
	return (error);
}

/* --- places ------------------------------------------------------------------ */

size_t
edit_find(struct bytes in, struct bytes what, size_t *ret_at, size_t max)
{
	const char *p = in.p, *end = in.p + in.n;
	size_t n = 0;

	while (what.n > 0 && (p = memmem(p, (size_t)(end - p), what.p,
	    what.n)) != NULL) {
		if (n < max)
			ret_at[n] = (size_t)(p - in.p);
		n++;
		p += what.n;
	}
	return (n);
}

static uint64_t
newlines(const char *p, size_t n)
{
	uint64_t lines = 0;

	for (size_t i = 0; i < n; i++)
		lines += p[i] == '\n';
	return (lines);
}

uint64_t
edit_line_of(struct bytes in, size_t at)
{
	return (1 + newlines(in.p, at));
}

uint64_t
edit_lines(struct bytes in)
{
	return (newlines(in.p, in.n) + (in.n > 0 && in.p[in.n - 1] != '\n'));
}

size_t
edit_line_at(struct bytes in, uint64_t n)
{
	const char *p = in.p, *end = in.p + in.n;

	for (; n > 1 && p < end; n--) {
		p = memchr(p, '\n', (size_t)(end - p));
		p = p == NULL ? end : p + 1;
	}
	return ((size_t)(p - in.p));
}

bool
edit_is_crlf(struct bytes in)
{
	const char *p = in.p, *end = in.p + in.n;
	bool any = false;

	while (p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		if (p == in.p || p[-1] != '\r')
			return (false);
		any = true;
		p++;
	}
	return (any);
}

bool
edit_is_wide(struct bytes in)
{
	size_t n = in.n < 4096 ? in.n : 4096, nuls = 0;

	if (n >= 2 && (memcmp(in.p, "\xff\xfe", 2) == 0 ||
	    memcmp(in.p, "\xfe\xff", 2) == 0))
		return (true);
	for (size_t i = 0; i < n; i++)
		nuls += in.p[i] == '\0';
	return (n >= 4 && n % 2 == 0 && nuls >= n / 3);
}

static char *
own(struct edit *e, char *text)
{
	e->own = sbx_xreallocarray(e->own, e->owned + 1, sizeof(*e->own));
	return (e->own[e->owned++] = text);
}

struct bytes
edit_endings(struct edit *e, struct bytes text)
{
	uint64_t lines = newlines(text.p, text.n);
	char *made, *to;

	if (lines == 0 || memchr(text.p, '\r', text.n) != NULL ||
	    !edit_is_crlf(e->old))
		return (text);
	made = own(e, sbx_xcalloc(1, text.n + (size_t)lines));
	to = made;
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] == '\n')
			*to++ = '\r';
		*to++ = text.p[i];
	}
	e->crlf = true;
	return ((struct bytes){ made, (size_t)(to - made) });
}

struct bytes
edit_join(struct edit *e, struct bytes a, struct bytes b)
{
	char *made = own(e, sbx_xcalloc(1, a.n + b.n + 1));

	memcpy(made, a.p, a.n);
	memcpy(made + a.n, b.p, b.n);
	return ((struct bytes){ made, a.n + b.n });
}

/* --- matching by lines -------------------------------------------------------- */

static bool
is_blank(char c)
{
	return (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v');
}

/* The line at p, up to its newline or the end. */
static struct bytes
line_at(const char *p, const char *end)
{
	const char *nl = memchr(p, '\n', (size_t)(end - p));

	return ((struct bytes){ p, (size_t)((nl != NULL ? nl : end) - p) });
}

static struct bytes
trimmed(struct bytes l)
{
	while (l.n > 0 && is_blank(l.p[l.n - 1]))
		l.n--;
	while (l.n > 0 && is_blank(l.p[0])) {
		l.p++;
		l.n--;
	}
	return (l);
}

static bool
same(struct bytes a, struct bytes b)
{
	return (a.n == b.n && memcmp(a.p, b.p, a.n) == 0);
}

/* Lines without the blanks around them.  Owned: free(). */
static struct bytes *
lines_make(struct bytes in, size_t *ret_n)
{
	const char *p = in.p, *end = in.p + in.n;
	struct bytes *v = sbx_xcalloc((size_t)edit_lines(in) + 1, sizeof(*v));
	struct bytes l;

	for (*ret_n = 0; p < end; p = l.p + l.n + 1) {
		l = line_at(p, end);
		v[(*ret_n)++] = trimmed(l);
	}
	return (v);
}

/*
 * Where the pattern's lines stand in `in` (Knuth, Morris, Pratt, 1977): the
 * first and, if it is there at all, a second place.  Returns how many, 0..2.
 */
static size_t
find_lines(struct bytes in, const struct bytes *pat, size_t n,
    size_t ret_line[2])
{
	const char *p = in.p, *end = in.p + in.n;
	size_t *fail = sbx_xcalloc(n, sizeof(*fail)), k = 0, found = 0;
	struct bytes l;

	for (size_t i = 1; i < n; i++) {
		while (k > 0 && !same(pat[i], pat[k]))
			k = fail[k - 1];
		fail[i] = k += same(pat[i], pat[k]);
	}
	k = 0;
	for (size_t i = 0; p < end && found < 2; i++, p += l.n + 1) {
		l = line_at(p, end);
		while (k > 0 && !same(trimmed(l), pat[k]))
			k = fail[k - 1];
		k += same(trimmed(l), pat[k]);
		if (k == n) {
			ret_line[found++] = i + 1 - n;
			k = fail[k - 1];
		}
	}
	free(fail);
	return (found);
}

static struct bytes
indent_of(struct bytes l)
{
	struct bytes t = { l.p, 0 };

	while (t.n < l.n && (l.p[t.n] == ' ' || l.p[t.n] == '\t'))
		t.n++;
	return (t);
}

/* The first line of both that is not blank has these indents. */
static void
indents(struct bytes what, struct bytes there, struct bytes *ret_what,
    struct bytes *ret_there)
{
	const char *p = what.p, *q = there.p;
	struct bytes l, m;

	for (;; p += l.n + 1, q += m.n + 1) {
		l = line_at(p, what.p + what.n);
		m = line_at(q, there.p + there.n);
		if (trimmed(l).n > 0 || p + l.n >= what.p + what.n ||
		    q + m.n >= there.p + there.n)
			break;
	}
	*ret_what = indent_of(l);
	*ret_there = indent_of(m);
}

/* One line of the new text, moved as the first one is. */
static int
put_moved(struct sbx_buf *b, struct bytes l, struct bytes from,
    struct bytes to)
{
	struct bytes in = indent_of(l);
	size_t less;

	if (trimmed(l).n == 0)
		return (sbx_buf_add(b, l.p, l.n));
	if (in.n >= from.n && memcmp(in.p, from.p, from.n) == 0) {
		l.p += from.n;
		l.n -= from.n;
	} else {	/* it stands further left than the first one */
		less = from.n > in.n ? from.n - in.n : 0;
		to.n = to.n > less ? to.n - less : 0;
		l.p += in.n;
		l.n -= in.n;
	}
	if (sbx_buf_add(b, to.p, to.n) != 0)
		return (SBX_E_LIMIT);
	return (sbx_buf_add(b, l.p, l.n));
}

/* `with`, indented as `there` is where `what` was meant. */
static struct bytes
moved(struct edit *e, struct bytes what, struct bytes with,
    struct bytes there)
{
	const char *p = with.p, *end = with.p + with.n;
	struct bytes from, to, l;
	struct sbx_buf b;

	indents(what, there, &from, &to);
	if (same(from, to) || with.n == 0)
		return (with);
	sbx_buf_init(&b, EDIT_MAX_BYTES + 1);
	for (; p < end; p += l.n + 1) {
		l = line_at(p, end);
		if (put_moved(&b, l, from, to) != 0 || (l.p + l.n < end &&
		    sbx_buf_add(&b, "\n", 1) != 0)) {
			sbx_buf_clear(&b);
			return (with);
		}
	}
	return ((struct bytes){ own(e, b.data), b.len });
}

static enum edit_match
replace_lines(struct edit *e, struct bytes what, struct bytes with,
    struct edit_where *w)
{
	size_t n, line[2], found, at, end;
	struct bytes *pat, there;
	bool any = false;

	if (edit_lines(what) > EDIT_FLEXIBLE_LINES)
		return (EDIT_NONE);
	pat = lines_make(what, &n);
	for (size_t i = 0; i < n; i++)
		any |= pat[i].n > 0;
	found = any ? find_lines(e->old, pat, n, line) : 0;
	free(pat);
	w->count = found;
	w->more = found == SBX_NELEM(line);
	for (w->told = 0; w->told < found; w->told++)
		w->lines[w->told] = line[w->told] + 1;
	if (found != 1)
		return (found == 0 ? EDIT_NONE : EDIT_MANY);
	at = edit_line_at(e->old, line[0] + 1);
	there = (struct bytes){ e->old.p + at, e->old.n - at };
	end = at + edit_line_at(there, n + 1);
	/* the last line's end is replaced only when `what` has one, too */
	if (what.p[what.n - 1] != '\n' && end > at &&
	    e->old.p[end - 1] == '\n') {
		end--;
		if (end > at && e->old.p[end - 1] == '\r')
			end--;
	}
	there.n = end - at;
	with = edit_endings(e, moved(e, what, with, there));
	if (edit_add(e, at, end - at, with) != 0)
		return (EDIT_LIMIT);
	e->flexible = true;
	return (EDIT_MATCHED);
}

enum edit_match
edit_replace(struct edit *e, struct bytes what, struct bytes with,
    uint64_t expected, struct edit_where *ret_where)
{
	struct edit_where *w = ret_where;
	size_t *at, n;

	*w = (struct edit_where){ 0 };
	at = sbx_xcalloc(EDIT_MAX_SPANS, sizeof(*at));
	w->count = n = edit_find(e->old, what, at, EDIT_MAX_SPANS);
	for (; w->told < n && w->told < EDIT_LINES_TOLD; w->told++)
		w->lines[w->told] = edit_line_of(e->old, at[w->told]);
	with = n > 0 ? edit_endings(e, with) : with;
	for (size_t i = 0; n == (expected != 0 ? expected : 1) && i < n; i++)
		if (i == EDIT_MAX_SPANS || edit_add(e, at[i], what.n, with) !=
		    0) {
			free(at);
			return (EDIT_LIMIT);
		}
	free(at);
	if (n == (expected != 0 ? expected : 1))
		return (EDIT_MATCHED);
	if (n == 0 && expected == 0)
		return (replace_lines(e, what, with, w));
	return (expected != 0 ? EDIT_COUNT : EDIT_MANY);
}
