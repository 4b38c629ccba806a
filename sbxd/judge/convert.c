/*
 * What git makes of a file's bytes on their way in (gitattributes(5), End-of-line
 * conversion and ident): line ends, then $Id$.
 */
#include "sbxd/judge/publish.h"

#include <string.h>

struct stats {
	size_t nul, cr, lf, crlf;	/* cr, lf: those that stand alone */
	size_t text, other;
};

/* Characters are counted as git's convert.c does, since what is text to it is
 * a guess by their numbers. */
static void
count(struct stats *s, const char *p, size_t n)
{
	*s = (struct stats){ 0 };
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c == '\r' && i + 1 < n && p[i + 1] == '\n') {
			s->crlf++;
			i++;
		} else if (c == '\r')
			s->cr++;
		else if (c == '\n')
			s->lf++;
		else if (c == 127 || (c < 32 && c != '\b' && c != '\t' &&
		    c != 033 && c != '\f')) {
			s->other++;
			s->nul += c == '\0';
		} else
			s->text++;
	}
	/* that of DOS for the end of a text */
	if (n > 0 && p[n - 1] == 032)
		s->other--;
}

static bool
is_binary(const struct stats *s)
{
	return (s->cr > 0 || s->nul > 0 || s->text >> 7 < s->other);
}

bool
convert_has_crlf(const char *p, size_t n)
{
	struct stats s;

	count(&s, p, n);
	return (!is_binary(&s) && s.crlf > 0);
}

bool
convert_asks_old(const struct attrs *a, const char *p, size_t n)
{
	return (a->eol == EOL_AUTO && convert_has_crlf(p, n));
}

static size_t
clean_eol(char *p, size_t n)
{
	size_t to = 0;

	for (size_t i = 0; i < n; i++)
		if (p[i] != '\r' || i + 1 == n || p[i + 1] != '\n')
			p[to++] = p[i];
	return (to);
}

/* "$Id: anything but a line's end$" is "$Id$". */
static size_t
clean_ident(char *p, size_t n)
{
	static const char id[] = "$Id:";
	const char *from = p, *end = p + n, *dollar;
	char *to = p;

	while (from < end) {
		if ((size_t)(end - from) < sizeof(id) - 1 ||
		    memcmp(from, id, sizeof(id) - 1) != 0) {
			*to++ = *from++;
			continue;
		}
		dollar = memchr(from + 4, '$', (size_t)(end - from - 4));
		if (dollar == NULL || memchr(from + 4, '\n',
		    (size_t)(dollar - from - 4)) != NULL) {
			*to++ = *from++;
			continue;
		}
		memcpy(to, "$Id$", 4);
		to += 4;
		from = dollar + 1;
	}
	return ((size_t)(to - p));
}

size_t
convert_clean(const struct attrs *a, bool old_crlf, char *p, size_t n)
{
	if (a->eol == EOL_TEXT || (a->eol == EOL_AUTO && !old_crlf &&
	    convert_has_crlf(p, n)))
		n = clean_eol(p, n);
	return (a->ident ? clean_ident(p, n) : n);
}
