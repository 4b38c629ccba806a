/*
 * UTF-16, told by its byte order mark, becomes UTF-8 before it is looked at.
 * Each unit is written by itself (as CESU-8 does): no pair is needed to compare.
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
