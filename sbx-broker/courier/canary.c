#include "sbx-broker/courier/canary.h"

#include "common/base/base.h"

#include <stdio.h>
#include <string.h>

/* The window is what the search reads at a time (Wu and Manber, 1994): longer
 * ones skip more and cost more pairs. */
#define WINDOW_MAX 24u

static void
put(struct canary *c, char ch)
{
	if (c->used < sizeof(c->bytes))
		c->bytes[c->used++] = ch;
}

static void
put_hex(struct canary *c, const char *before, unsigned char ch, bool upper)
{
	const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";

	while (*before != '\0')
		put(c, *before++);
	put(c, digits[ch >> 4]);
	put(c, digits[ch & 15]);
}

/* What was put since the last one is a pattern, unless there is the same. */
static void
done(struct canary *c)
{
	size_t at = c->n == 0 ? 0 : c->pattern[c->n - 1].at +
	    c->pattern[c->n - 1].len, len = c->used - at;

	for (size_t i = 0; i < c->n; i++)
		if (c->pattern[i].len == len && memcmp(c->bytes +
		    c->pattern[i].at, c->bytes + at, len) == 0) {
			c->used = at;
			return;
		}
	if (c->n == CANARY_PATTERNS)
		return;
	c->pattern[c->n].at = at;
	c->pattern[c->n++].len = len;
}

/* Six bits of it from that one on, all of them its own. */
static unsigned
six_bits(const char *secret, size_t bit)
{
	unsigned char hi = (unsigned char)secret[bit / 8];
	unsigned char lo = bit % 8 > 2 ? (unsigned char)secret[bit / 8 + 1] : 0;

	return (((unsigned)hi << 8 | lo) >> (10 - bit % 8) & 63);
}

/* The digits that the secret alone decides, when it stands `phase` bytes
 * after a whole group. */
static void
base64(struct canary *c, const char *secret, size_t len, unsigned phase,
    const char *last_two)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t begin = (8u * phase + 5) / 6, end = (8 * (phase + len)) / 6;

	for (size_t d = begin; d < end; d++) {
		unsigned v = six_bits(secret, 6 * d - 8u * phase);

		put(c, v < 62 ? digits[v] : last_two[v - 62]);
	}
	done(c);
}

static bool
is_alnum(char ch)
{
	return ((ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z') ||
	    (ch >= 'A' && ch <= 'Z'));
}

/* keep: what stays as it is, beside letters and digits; NULL: nothing does. */
static void
url(struct canary *c, const char *s, size_t len, const char *keep, bool upper)
{
	for (size_t i = 0; i < len; i++)
		if (keep != NULL && (is_alnum(s[i]) || (s[i] != '\0' &&
		    strchr(keep, s[i]) != NULL)))
			put(c, s[i]);
		else
			put_hex(c, "%", (unsigned char)s[i], upper);
	done(c);
}

/* escaped: by a backslash, as strings of JSON are */
static void
json(struct canary *c, const char *s, size_t len, const char *escaped)
{
	for (size_t i = 0; i < len; i++) {
		if (s[i] != '\0' && strchr(escaped, s[i]) != NULL)
			put(c, '\\');
		put(c, s[i]);
	}
	done(c);
}

static void
every(struct canary *c, const char *s, size_t len, const char *before,
    bool upper)
{
	for (size_t i = 0; i < len; i++)
		put_hex(c, before, (unsigned char)s[i], upper);
	done(c);
}

static void
add_patterns(struct canary *c, const char *s, size_t len)
{
	json(c, s, len, "");
	for (unsigned phase = 0; phase < 3; phase++) {
		base64(c, s, len, phase, "+/");
		base64(c, s, len, phase, "-_");
	}
	json(c, s, len, "\"\\");
	json(c, s, len, "\"\\/");
	for (unsigned upper = 0; upper < 2; upper++) {
		every(c, s, len, "", upper);
		every(c, s, len, "\\u00", upper);
		url(c, s, len, "-._~", upper);
		url(c, s, len, "", upper);
		url(c, s, len, NULL, upper);
	}
}

static unsigned
pair(const char *p)
{
	return ((unsigned)(unsigned char)p[0] << 8 | (unsigned char)p[1]);
}

int
canary_set(struct canary *c, const char *secret, size_t len)
{
	const char *p;

	canary_clear(c);
	if (len < CANARY_MIN || len > CANARY_MAX)
		return (SBX_E_RANGE);
	add_patterns(c, secret, len);
	c->window = WINDOW_MAX;
	for (size_t i = 0; i < c->n; i++) {
		if (c->pattern[i].len < c->window)
			c->window = c->pattern[i].len;
		if (c->pattern[i].len > c->longest)
			c->longest = c->pattern[i].len;
	}
	memset(c->shift, (int)c->window - 1, sizeof(c->shift));
	for (size_t i = 0; i < c->n; i++)
		for (size_t j = 1; j < c->window; j++) {
			p = c->bytes + c->pattern[i].at + j - 1;
			if (c->shift[pair(p)] > c->window - 1 - j)
				c->shift[pair(p)] =
				    (uint8_t)(c->window - 1 - j);
		}
	return (0);
}

void
canary_clear(struct canary *c)
{
	explicit_bzero(c, sizeof(*c));
}

static bool
begins(const struct canary *c, const char *p, size_t n)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->pattern[i].len <= n && memcmp(c->bytes +
		    c->pattern[i].at, p, c->pattern[i].len) == 0)
			return (true);
	return (false);
}

bool
canary_find(const struct canary *c, const char *p, size_t n)
{
	size_t i = c->window, skip;	/* behind the window */

	if (c->n == 0)
		return (false);
	while (i <= n) {
		skip = c->shift[pair(p + i - 2)];
		if (skip == 0 && begins(c, p + i - c->window,
		    n - (i - c->window)))
			return (true);
		i += skip == 0 ? 1 : skip;
	}
	return (false);
}

size_t
canary_tail(const struct canary *c, const char *p, size_t n)
{
	size_t best = 0, d;
	const char *s;

	for (size_t i = 0; i < c->n; i++) {
		s = c->bytes + c->pattern[i].at;
		d = c->pattern[i].len - 1;
		for (d = d < n ? d : n; d > best; d--)
			if (p[n - d] == *s && memcmp(p + n - d, s, d) == 0)
				best = d;
	}
	return (best);
}
