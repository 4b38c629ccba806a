/*
 * A unified diff (edit.h).  What both have at their begin and end is set
 * aside; what is between is compared by lines (Myers, "An O(ND) Difference
 * Algorithm", 1986), and replaced as a whole where that would take long.
 */

#include "sbxd/worker/edit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_LINES 200000u	/* of either side, that are compared */
#define MAX_D 300		/* lines that differ */
#define ROW_BYTES 400u

struct side {
	struct bytes text;
	struct bytes *lines;	/* of the middle, with their ends */
	size_t n;
	size_t from;		/* lines before the middle */
	size_t at;		/* and bytes */
};
/* Lines [a, a + na) become [b, b + nb), numbers in the middle. */
struct change {
	size_t a, na, b, nb;
};
struct changes {
	struct change *v;
	size_t n;
};

bool
edit_put_line(struct sbx_buf *b, struct bytes line, size_t max)
{
	size_t n = line.n;

	if (n <= max)
		return (sbx_buf_add(b, line.p, n), false);
	/* not in the middle of a character */
	for (n = max; n > max - 4 && n > 0 && ((uint8_t)line.p[n] & 0xc0) ==
	    0x80; n--)
		;
	(void)sbx_buf_add(b, line.p, n);
	(void)sbx_buf_printf(b, "... [%zu bytes more]", line.n - n);
	return (true);
}

static struct bytes
next_line(const char *p, const char *end)
{
	const char *nl = memchr(p, '\n', (size_t)(end - p));

	return ((struct bytes){ p, (size_t)((nl != NULL ? nl + 1 : end) -
	    p) });
}

static void
split(struct side *s, size_t end)
{
	const char *p = s->text.p + s->at, *stop = s->text.p + end;
	struct bytes middle = { p, (size_t)(stop - p) };
	struct bytes l;

	s->from = (size_t)edit_line_of(s->text, s->at) - 1;
	s->n = (size_t)edit_lines(middle);
	if (s->n > MAX_LINES)
		return;
	s->lines = sbx_xcalloc(s->n + 1, sizeof(*s->lines));
	for (size_t i = 0; p < stop; p += l.n)
		s->lines[i++] = l = next_line(p, stop);
}

/* Set aside what is the same, in whole lines. */
static void
trim(struct side *a, struct side *b)
{
	size_t n = a->text.n < b->text.n ? a->text.n : b->text.n, i, j, cut;

	for (i = 0; i < n && a->text.p[i] == b->text.p[i]; i++)
		;
	while (i > 0 && a->text.p[i - 1] != '\n')
		i--;
	for (j = 0, cut = 0; j < n - i; j++) {
		if (a->text.p[a->text.n - 1 - j] !=
		    b->text.p[b->text.n - 1 - j])
			break;
		/* what follows this newline may go */
		if (a->text.p[a->text.n - 1 - j] == '\n')
			cut = j;
	}
	/* all the rest of one side is the end of the other */
	if (j == n - i && (a->text.n - j == i || a->text.p[a->text.n - j - 1]
	    == '\n') && (b->text.n - j == i || b->text.p[b->text.n - j - 1] ==
	    '\n'))
		cut = j;
	a->at = b->at = i;
	split(a, a->text.n - cut);
	split(b, b->text.n - cut);
}

static bool
same(const struct side *a, size_t i, const struct side *b, size_t j)
{
	return (a->lines[i].n == b->lines[j].n && memcmp(a->lines[i].p,
	    b->lines[j].p, a->lines[i].n) == 0);
}

/* Row d of the trace: furthest x on diagonals -d .. d. */
static int32_t *
row(int32_t *trace, long d)
{
	return (trace + d * d + d);
}

/* The trace up to the row that reaches the end; -1: too many differ. */
static long
forward(const struct side *a, const struct side *b, int32_t *trace)
{
	long n = (long)a->n, m = (long)b->n, x, y;

	for (long d = 0; d <= MAX_D; d++)
		for (long k = -d; k <= d; k += 2) {
			const int32_t *prev = d > 0 ? row(trace, d - 1) : NULL;

			if (d == 0)
				x = 0;
			else if (k == -d || (k != d && prev[k - 1] <
			    prev[k + 1]))
				x = prev[k + 1];
			else
				x = prev[k - 1] + 1;
			for (y = x - k; x < n && y < m && y >= 0 &&
			    same(a, (size_t)x, b, (size_t)y); x++, y++)
				;
			row(trace, d)[k] = (int32_t)x;
			if (x >= n && y >= m)
				return (d);
		}
	return (-1);
}

static void
add_change(struct changes *c, size_t a, size_t na, size_t b, size_t nb)
{
	struct change *last = c->n > 0 ? &c->v[c->n - 1] : NULL;

	/* they come from the end: this one lies just before the last */
	if (last != NULL && a + na == last->a && b + nb == last->b) {
		last->a = a;
		last->b = b;
		last->na += na;
		last->nb += nb;
		return;
	}
	c->v[c->n++] = (struct change){ a, na, b, nb };
}

static void
backward(const struct side *a, const struct side *b, int32_t *trace, long d,
    struct changes *c)
{
	long x = (long)a->n, y = (long)b->n, k, px;
	const int32_t *prev;

	for (; d > 0; d--) {
		prev = row(trace, d - 1);
		k = x - y;
		if (k == -d || (k != d && prev[k - 1] < prev[k + 1])) {
			px = prev[k + 1];	/* a line of b more */
			y = px - (k + 1);
			add_change(c, (size_t)px, 0, (size_t)y, 1);
		} else {
			px = prev[k - 1];
			y = px - (k - 1);
			add_change(c, (size_t)px, 1, (size_t)y, 0);
		}
		x = px;
	}
}

/* The changes, the last one first. */
static void
compare(const struct side *a, const struct side *b, struct changes *c)
{
	int32_t *trace = NULL;
	long d = -1;

	c->v = sbx_xcalloc(MAX_D + 1, sizeof(*c->v));
	if (a->n == 0 && b->n == 0)
		return;
	if (a->n > 0 && b->n > 0 && a->n <= MAX_LINES && b->n <= MAX_LINES) {
		trace = sbx_xcalloc((MAX_D + 1) * (MAX_D + 1),
		    sizeof(*trace));
		d = forward(a, b, trace);
	}
	if (d >= 0)
		backward(a, b, trace, d, c);
	else
		add_change(c, 0, a->n, 0, b->n);
	free(trace);
}

/* --- writing -------------------------------------------------------------- */

struct out {
	struct diff *d;
	unsigned max;
	struct sbx_buf tail;	/* rows past the first half, each with a NUL */
	size_t tails;
	uint64_t dropped;
};

/* The first half of the rows is kept, and the last ones. */
static void
put_row(struct out *o, char mark, struct bytes l)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	bool ended = l.n > 0 && l.p[l.n - 1] == '\n';

	sbx_buf_init(&b, ROW_BYTES + 128);
	if (ended)
		l.n--;
	if (mark != '\0')
		(void)sbx_buf_add(&b, &mark, 1);
	(void)edit_put_line(&b, l, ROW_BYTES);
	(void)sbx_buf_str(&b, "\n");
	if (mark != '\0' && !ended)
		(void)sbx_buf_str(&b, "\\ No newline at end of file\n");
	if (o->d->rows++ < o->max / 2) {
		(void)sbx_buf_add(&o->d->text, b.data, b.len);
		return;
	}
	while (o->tails >= o->max - o->max / 2) {
		sbx_buf_consume(&o->tail, strlen(o->tail.data) + 1);
		o->tails--;
		o->dropped++;
	}
	/* a NUL would end the row */
	for (size_t i = 0; i < b.len; i++)
		if (b.data[i] == '\0')
			b.data[i] = '\x1a';
	if (sbx_buf_add(&o->tail, b.data, b.len + 1) == 0)
		o->tails++;
}

static void
finish(struct out *o)
{
	const char *p = o->tail.data, *end = p + o->tail.len;

	if (o->dropped > 0)
		(void)sbx_buf_printf(&o->d->text, "... %" PRIu64
		    " rows are left out ...\n", o->dropped);
	o->d->cut = o->dropped > 0;
	for (; o->tail.len > 0 && p < end; p += strlen(p) + 1)
		(void)sbx_buf_str(&o->d->text, p);
	sbx_buf_clear(&o->tail);
}

/* Lines of a side by number from its begin, also outside of the middle. */
static struct bytes
line_of(const struct side *s, size_t n)
{
	const char *p = s->text.p + s->at, *end = s->text.p + s->text.n;

	if (n >= s->from && s->lines != NULL && n - s->from < s->n)
		return (s->lines[n - s->from]);
	if (n < s->from)
		for (size_t i = s->from; i > n; i--)
			do
				p--;
			while (p > s->text.p && p[-1] != '\n');
	else if (s->lines != NULL && s->n > 0) {
		p = s->lines[s->n - 1].p + s->lines[s->n - 1].n;
		for (size_t i = s->from + s->n; i < n && p < end; i++)
			p += next_line(p, end).n;
	} else
		for (size_t i = s->from; i < n && p < end; i++)
			p += next_line(p, end).n;
	return (next_line(p, end));
}

static void
put_lines(struct out *o, const struct side *s, char mark, size_t from,
    size_t n)
{
	const char *end = s->text.p + s->text.n;
	struct bytes l;
	size_t skip = n > 2 * (size_t)o->max ? n - 2 * (size_t)o->max : 0;

	if (n == 0)
		return;
	l = line_of(s, from);
	for (size_t i = 0; i < n && l.p < end; i++) {
		/* the last ones would push these out */
		if (i >= o->max && skip > 0) {
			skip--;
			o->d->rows++;
			o->dropped++;
		} else
			put_row(o, mark, l);
		l = next_line(l.p + l.n, end);
	}
}

/* Changes `first` down to `last` of c are one hunk. */
static void
put_hunk(struct out *o, const struct side *a, const struct side *b,
    const struct changes *c, size_t first, size_t last, unsigned context)
{
	size_t total = (size_t)edit_lines(a->text), at, end, nb;
	const struct change *f = &c->v[first], *l = &c->v[last];
	char head[128];

	at = a->from + f->a > context ? a->from + f->a - context : 0;
	end = a->from + l->a + l->na + context;
	end = end < total ? end : total;
	nb = end - at + (l->b + l->nb - f->b) - (l->a + l->na - f->a);
	(void)snprintf(head, sizeof(head), "@@ -%zu,%zu +%zu,%zu @@",
	    end > at ? at + 1 : at, end - at,
	    nb > 0 ? at + 1 + f->b - f->a : at + f->b - f->a, nb);
	put_row(o, '\0', (struct bytes){ head, strlen(head) });
	for (size_t i = first + 1; i-- > last;) {
		const struct change *k = &c->v[i];

		put_lines(o, a, ' ', at, a->from + k->a - at);
		put_lines(o, a, '-', a->from + k->a, k->na);
		put_lines(o, b, '+', b->from + k->b, k->nb);
		at = a->from + k->a + k->na;
	}
	put_lines(o, a, ' ', at, end - at);
}

void
diff_make(struct bytes a, struct bytes b, unsigned context,
    unsigned max_rows, struct diff *ret_diff)
{
	struct side x = { .text = a }, y = { .text = b };
	struct out o = { .d = ret_diff, .max = max_rows };
	struct changes c = { 0 };
	size_t i, j;

	*ret_diff = (struct diff){ 0 };
	sbx_buf_init(&ret_diff->text, (size_t)max_rows * (ROW_BYTES + 128) +
	    256);
	sbx_buf_init(&o.tail, (size_t)max_rows * (ROW_BYTES + 128) + 256);
	trim(&x, &y);
	compare(&x, &y, &c);
	for (i = 0; i < c.n; i++) {
		ret_diff->removed += c.v[i].na;
		ret_diff->added += c.v[i].nb;
	}
	for (i = c.n; i > 0; i = j) {
		for (j = i - 1; j > 0 && c.v[j - 1].a - (c.v[j].a +
		    c.v[j].na) <= 2 * context; j--)
			;
		put_hunk(&o, &x, &y, &c, i - 1, j, context);
	}
	finish(&o);
	free(c.v);
	free(x.lines);
	free(y.lines);
}
