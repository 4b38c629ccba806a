/*
 * What is most like a text that is not there: the window of lines that has the
 * most lines of it in their places or, when it has none, the line that shares
 * the most pairs of bytes with its longest one.
 */

#include "sbxd/worker/edit.h"

#include <string.h>

#define BUCKETS 4096u		/* power of two */
#define PATTERN_LINES 2000u	/* of `what`, that are looked for */
#define SAME_HASH 4		/* lines of one hash that are looked at */
#define LIKE_PERCENT 40		/* less alike is not told */
#define PAIR_BYTES 400u		/* of a line, that are compared */

struct line {
	struct bytes text;	/* without the blanks around it */
	size_t next;		/* in its bucket: 1 + index, 0: none */
};
struct pattern {
	struct line *v;
	size_t n, head[BUCKETS];
};

static bool
is_blank(char c)
{
	return (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v');
}

/* The next line of *s without blanks around it; false: there is none. */
static bool
next_line(struct bytes *s, struct bytes *ret_line, struct bytes *ret_whole)
{
	const char *nl;
	struct bytes l;

	if (s->n == 0)
		return (false);
	nl = memchr(s->p, '\n', s->n);
	l = (struct bytes){ s->p, nl != NULL ? (size_t)(nl - s->p) : s->n };
	s->p += l.n + (nl != NULL);
	s->n -= l.n + (nl != NULL);
	if (ret_whole != NULL)
		*ret_whole = l;
	while (l.n > 0 && is_blank(l.p[l.n - 1]))
		l.n--;
	while (l.n > 0 && is_blank(l.p[0])) {
		l.p++;
		l.n--;
	}
	*ret_line = l;
	return (true);
}

static uint32_t
hash(struct bytes l)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < l.n; i++)
		h = (h ^ (uint8_t)l.p[i]) * 16777619u;
	return ((h ^ h >> 15) % BUCKETS);
}

static void
pattern_make(struct pattern *t, struct bytes what)
{
	struct bytes l;
	uint32_t h;

	t->v = sbx_xcalloc(PATTERN_LINES, sizeof(*t->v));
	while (t->n < PATTERN_LINES && next_line(&what, &l, NULL)) {
		h = hash(l);
		t->v[t->n] = (struct line){ .text = l, .next = t->head[h] };
		t->head[h] = ++t->n;
	}
}

/* A long line in its place says more than a brace. */
static uint32_t
weight(struct bytes l)
{
	return (l.n == 0 ? 0 : l.n < 24 ? (uint32_t)l.n : 24);
}

/* How much of the pattern is in place for each first line: the best of them. */
static size_t
best_by_lines(const struct pattern *t, struct bytes in, uint32_t *votes)
{
	size_t best = SIZE_MAX, i = 0, j, looked, at;
	struct bytes l;

	for (; next_line(&in, &l, NULL); i++) {
		j = l.n > 0 ? t->head[hash(l)] : 0;
		for (looked = 0; j != 0 && looked < SAME_HASH; looked++) {
			at = i - (j - 1);
			if (j - 1 <= i && t->v[j - 1].text.n == l.n &&
			    memcmp(t->v[j - 1].text.p, l.p, l.n) == 0) {
				votes[at] += weight(l);
				if (best == SIZE_MAX ||
				    votes[at] > votes[best])
					best = at;
			}
			j = t->v[j - 1].next;
		}
	}
	return (best);
}

static unsigned
pair(const char *p)
{
	return (((uint8_t)p[0] * 31u + (uint8_t)p[1]) % BUCKETS);
}

/* Percent of pairs that both have; have: of the one line. */
static unsigned
alike(const uint16_t *have, size_t n, struct bytes l, uint16_t *seen)
{
	size_t m = l.n < PAIR_BYTES ? l.n : PAIR_BYTES, both = 0;

	if (l.n < 2)
		return (0);
	for (size_t i = 0; i + 1 < m; i++)
		if (seen[pair(l.p + i)]++ < have[pair(l.p + i)])
			both++;
	for (size_t i = 0; i + 1 < m; i++)
		seen[pair(l.p + i)] = 0;
	return ((unsigned)(200 * both / (n - 1 + m - 1)));
}

/* The line that is most like line j of the pattern, its longest. */
static size_t
best_by_pairs(const struct pattern *t, struct bytes in, size_t *ret_j)
{
	static uint16_t have[BUCKETS], seen[BUCKETS];
	size_t best = SIZE_MAX, i = 0, n;
	unsigned a, top = LIKE_PERCENT;
	struct bytes l, want = { 0 };

	for (size_t j = 0; j < t->n; j++)
		if (t->v[j].text.n > want.n) {
			want = t->v[j].text;
			*ret_j = j;
		}
	n = want.n < PAIR_BYTES ? want.n : PAIR_BYTES;
	if (n < 4)
		return (SIZE_MAX);
	memset(have, 0, sizeof(have));
	for (size_t k = 0; k + 1 < n; k++)
		have[pair(want.p + k)]++;
	for (; next_line(&in, &l, NULL); i++)
		if ((a = alike(have, n, l, seen)) > top) {
			top = a;
			best = i;
		}
	return (best);
}

/* Where both go apart, from that line on; blanks at the end do not count. */
static void
first_difference(struct bytes in, struct bytes what, struct edit_near *near)
{
	struct bytes a, b, x, y;

	for (uint64_t i = 0; next_line(&what, &y, &b); i++) {
		near->wanted = b;
		near->found = (struct bytes){ "", 0 };
		near->differs = near->line + i;
		if (!next_line(&in, &x, &a))
			return;
		near->found = a;
		if (a.n != b.n || memcmp(a.p, b.p, a.n) != 0)
			if (x.n != y.n || memcmp(x.p, y.p, x.n) != 0)
				return;
	}
}

bool
edit_near(struct bytes in, struct bytes what, struct edit_near *ret_near)
{
	static struct pattern t;
	uint64_t lines = edit_lines(in);
	size_t first, j = 0, at;
	uint32_t *votes = sbx_xcalloc((size_t)lines + 1, sizeof(*votes));

	memset(&t, 0, sizeof(t));
	pattern_make(&t, what);
	first = best_by_lines(&t, in, votes);
	if (first == SIZE_MAX) {
		first = best_by_pairs(&t, in, &j);
		if (first != SIZE_MAX)
			first = first > j ? first - j : 0;
	}
	free(votes);
	free(t.v);
	if (first == SIZE_MAX)
		return (false);
	*ret_near = (struct edit_near){ .line = first + 1,
		.lines = edit_lines(what) };
	if (ret_near->lines > lines - first)
		ret_near->lines = lines - first;
	at = edit_line_at(in, ret_near->line);
	first_difference((struct bytes){ in.p + at, in.n - at }, what,
	    ret_near);
	return (true);
}
