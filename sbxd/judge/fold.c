/*
 * Names as file systems see them that know no case, or only one of the ways to
 * write a character: two names with the same fold may be one there.  Rather too
 * many are the same than too few: marks are in the order of their numbers, and
 * what HFS+ does not see is left out.
 */
#include "sbxd/judge/publish.h"

#include <string.h>

#define FOLD_BYTES 12		/* what one character becomes, at most */

struct fold {
	uint32_t c;
	char to[FOLD_BYTES + 1];
};
struct range {
	uint32_t first, last;
};

#define FOLD(c, to) { c, to },
#define MARKS(first, last)
static const struct fold folds[] = {
#include "sbxd/judge/fold.def"
};
#undef FOLD
#undef MARKS
#define FOLD(c, to)
#define MARKS(first, last) { first, last },
static const struct range marks[] = {
#include "sbxd/judge/fold.def"
};

/* One character of p: its bytes, 0: this is no UTF-8. */
static size_t
take(const char *p, size_t n, uint32_t *ret)
{
	const uint8_t *b = (const uint8_t *)p;
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t k = b[0] < 0x80 ? 1 : (b[0] & 0xe0) == 0xc0 ? 2 :
	    (b[0] & 0xf0) == 0xe0 ? 3 : (b[0] & 0xf8) == 0xf0 ? 4 : 0;
	uint32_t c;

	if (k == 0 || k > n)
		return (0);
	c = k == 1 ? b[0] : b[0] & (0x7fu >> k);
	for (size_t i = 1; i < k; i++) {
		if ((b[i] & 0xc0) != 0x80)
			return (0);
		c = c << 6 | (b[i] & 0x3f);
	}
	if (c < least[k] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return (0);
	*ret = c;
	return (k);
}

static size_t
give(char *to, uint32_t c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return (1);
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return (2);
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return (3);
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return (4);
}

bool
utf8_valid(const char *p, size_t n)
{
	uint32_t c;
	size_t k;

	for (; n > 0; p += k, n -= k)
		if ((k = take(p, n, &c)) == 0)
			return (false);
	return (true);
}

/* What next_hfs_char() of git's utf8.c leaves out. */
static bool
unseen(uint32_t c)
{
	return ((c >= 0x200c && c <= 0x200f) || (c >= 0x202a && c <= 0x202e) ||
	    (c >= 0x206a && c <= 0x206f) || c == 0xfeff);
}

static int
by_char(const void *key, const void *row)
{
	uint32_t a = *(const uint32_t *)key, b = ((const struct fold *)row)->c;

	return (a < b ? -1 : a > b);
}

static int
by_range(const void *key, const void *row)
{
	const struct range *r = row;
	uint32_t c = *(const uint32_t *)key;

	return (c < r->first ? -1 : c > r->last);
}

/* Hangul's syllables are made of their parts by rule (Unicode, 3.12). */
static size_t
split(char *to, uint32_t c)
{
	size_t n;

	c -= 0xac00;
	n = give(to, 0x1100 + c / 588);
	n += give(to + n, 0x1161 + c % 588 / 28);
	return (c % 28 == 0 ? n : n + give(to + n, 0x11a7 + c % 28));
}

static size_t
fold_char(char *to, uint32_t c)
{
	const struct fold *f;

	if (unseen(c))
		return (0);
	if (c < 0x80)
		return (give(to, c >= 'A' && c <= 'Z' ? c + 32 : c));
	if (c >= 0xac00 && c < 0xd7a4)
		return (split(to, c));
	f = bsearch(&c, folds, SBX_NELEM(folds), sizeof(folds[0]), by_char);
	if (f == NULL)
		return (give(to, c));
	memcpy(to, f->to, strlen(f->to));
	return (strlen(f->to));
}

static bool
is_mark(uint32_t c)
{
	return (bsearch(&c, marks, SBX_NELEM(marks), sizeof(marks[0]),
	    by_range) != NULL);
}

static int
by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x < y ? -1 : x > y);
}

/* Each run of marks by number, in place: bytes of UTF-8 stay as many. */
static void
sort_marks(char *p, size_t n)
{
	uint32_t run[256], c;
	size_t k, at = 0, from = 0, nrun = 0;

	for (at = 0; at <= n; at += k) {
		k = at < n ? take(p + at, n - at, &c) : 0;
		if (k > 0 && is_mark(c) && nrun < SBX_NELEM(run)) {
			from = nrun == 0 ? at : from;
			run[nrun++] = c;
			continue;
		}
		if (nrun > 1)
			qsort(run, nrun, sizeof(run[0]), by_number);
		for (size_t i = 0; nrun > 1 && i < nrun; i++)
			from += give(p + from, run[i]);
		nrun = 0;
		k = k == 0 ? 1 : k;
	}
}

char *
fold_name(const char *name, size_t n)
{
	char *out = sbx_xcalloc(n + 1, FOLD_BYTES);
	size_t k, len = 0;
	uint32_t c;

	for (; n > 0; name += k, n -= k) {
		k = take(name, n, &c);
		if (k > 0)
			len += fold_char(out + len, c);
		else {
			out[len++] = *name;
			k = 1;
		}
	}
	out[len] = '\0';
	sort_marks(out, len);
	return (sbx_xreallocarray(out, len + 1, 1));
}
