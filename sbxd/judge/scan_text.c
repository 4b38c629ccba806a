/*
 * UTF-16, told by its byte order mark, becomes UTF-8 before it is looked at.
 * Each unit is written by itself (as CESU-8 does): no pair is needed to compare.
 * Runs of base64 that hold printable text are looked at, too, once decoded.
 */
#include "sbxd/judge/scan_parts.h"

#include <string.h>

enum text_form
text_form(const uint8_t *p, size_t n)
{
	if (n >= 2 && p[0] == 0xff && p[1] == 0xfe)
		return (TEXT_LE);
	if (n >= 2 && p[0] == 0xfe && p[1] == 0xff)
		return (TEXT_BE);
	return (TEXT_BYTES);
}

static size_t
put_unit(const struct text *t, const uint8_t *p, char *dst)
{
	unsigned c = t->form == TEXT_LE ? p[0] | (unsigned)p[1] << 8 :
	    p[1] | (unsigned)p[0] << 8;
	size_t n = 0;

	if (c < 0x80) {
		dst[n++] = (char)c;
		return (n);
	}
	if (c < 0x800) {
		dst[n++] = (char)(0xc0 | c >> 6);
	} else {
		dst[n++] = (char)(0xe0 | c >> 12);
		dst[n++] = (char)(0x80 | (c >> 6 & 0x3f));
	}
	dst[n++] = (char)(0x80 | (c & 0x3f));
	return (n);
}

size_t
text_put(struct text *t, const uint8_t *p, size_t n, char *dst)
{
	size_t done = 0, i = 0;

	if (t->nheld == 1 && n > 0) {
		t->held[1] = p[i++];
		t->nheld = 0;
		done += put_unit(t, t->held, dst);
	}
	for (; n - i >= 2; i += 2)
		done += put_unit(t, p + i, dst + done);
	if (i < n) {
		t->held[0] = p[i];
		t->nheld = 1;
	}
	return (done);
}

size_t
text_end(struct text *t, char *dst)
{
	size_t n = t->nheld;

	memcpy(dst, t->held, n);
	t->nheld = 0;
	return (n);
}

/* --- base64 (RFC 4648, both alphabets) -------------------------------------------- */

/* The value of a digit and one; 0: it is none. */
static const uint8_t digits[256] = {
	['A'] = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
	19, 20, 21, 22, 23, 24, 25, 26,
	['a'] = 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42,
	43, 44, 45, 46, 47, 48, 49, 50, 51, 52,
	['0'] = 53, 54, 55, 56, 57, 58, 59, 60, 61, 62,
	['+'] = 63, ['-'] = 63, ['/'] = 64, ['_'] = 64,
};

static bool
is_digit(char c)
{
	return (digits[(uint8_t)c] != 0);
}

bool
base64_next(const char *p, size_t len, size_t limit, size_t *at, size_t *ret_end)
{
	size_t i = *at, k;

	/* what began before is not for here */
	if (i > 0 && i < len && is_digit(p[i - 1]))
		while (i < len && is_digit(p[i]))
			i++;
	while (i < limit && len - i >= BASE64_MIN) {
		/* from its end: most of the text is never looked at */
		for (k = BASE64_MIN; k > 0 && is_digit(p[i + k - 1]); k--)
			;
		i += k;
		if (k > 0)
			continue;
		*at = i;
		for (i += BASE64_MIN; i < len && is_digit(p[i]); i++)
			;
		*ret_end = i;
		return (true);
	}
	return (false);
}

size_t
base64_decode(const char *p, size_t n, char *dst)
{
	uint32_t bits = 0;
	size_t out = 0;
	unsigned have = 0;

	for (size_t i = 0; i < n; i++) {
		char c;

		bits = bits << 6 | (uint32_t)(digits[(uint8_t)p[i]] - 1);
		have += 6;
		if (have < 8)
			continue;
		have -= 8;
		c = (char)(bits >> have);
		if ((c < ' ' || c > '~') && c != '\n' && c != '\r' && c != '\t')
			return (0);
		dst[out++] = c;
	}
	return (out);
}
