/*
 * TOML 1.0, what configurations of gitleaks use of it: comments, tables, arrays
 * of tables, bare keys, strings of all four kinds, arrays of strings, numbers
 * without exponent, booleans.  All else is refused by name.
 */
#include "sbxd/judge/scan_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int
toml_fail(struct toml *t, const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(t->reason, SCAN_REASON, "line %u: ", t->line);

	va_start(ap, fmt);
	(void)vsnprintf(t->reason + n, (size_t)(SCAN_REASON - n), fmt, ap);
	va_end(ap);
	return (-1);
}

static int
peek(const struct toml *t)
{
	return (t->p < t->end ? (unsigned char)*t->p : -1);
}

static bool
at(const struct toml *t, const char *s)
{
	size_t n = strlen(s);

	return ((size_t)(t->end - t->p) >= n && memcmp(t->p, s, n) == 0);
}

static bool
take(struct toml *t, const char *s)
{
	if (!at(t, s))
		return (false);
	t->p += strlen(s);
	return (true);
}

static bool
take_newline(struct toml *t)
{
	if (!take(t, "\n") && !take(t, "\r\n"))
		return (false);
	t->line++;
	return (true);
}

static bool
is_control(int c)
{
	return ((c >= 0 && c < 0x20 && c != '\t') || c == 0x7f);
}

static void
skip_blanks(struct toml *t)
{
	while (peek(t) == ' ' || peek(t) == '\t')
		t->p++;
}

/* Blanks and a comment, to the end of the line, not over it. */
static int
skip_rest(struct toml *t)
{
	skip_blanks(t);
	if (peek(t) != '#')
		return (0);
	while (t->p < t->end && !at(t, "\n") && !at(t, "\r\n")) {
		if (is_control(peek(t)))
			return (toml_fail(t, "a control character in a "
			    "comment"));
		t->p++;
	}
	return (0);
}

static int
end_of_line(struct toml *t, const char *after)
{
	if (skip_rest(t) != 0)
		return (-1);
	if (t->p < t->end && !take_newline(t))
		return (toml_fail(t, "something follows %s on its line", after));
	return (0);
}

/* --- keys ------------------------------------------------------------------------ */

static bool
is_bare(int c)
{
	return ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    (c >= '0' && c <= '9') || c == '_' || c == '-');
}

/* A bare key; with dots, where a table is named. */
static int
take_key(struct toml *t, bool dots, char key[TOML_MAX_KEY + 1])
{
	size_t n = 0;

	if (peek(t) == '"' || peek(t) == '\'')
		return (toml_fail(t, "a key in quotes is not understood: write "
		    "it without"));
	while (is_bare(peek(t)) || (dots && peek(t) == '.' && n > 0)) {
		if (n == TOML_MAX_KEY)
			return (toml_fail(t, "a key of more than %u bytes",
			    TOML_MAX_KEY));
		key[n++] = *t->p++;
	}
	key[n] = '\0';
	if (!dots && peek(t) == '.')
		return (toml_fail(t, "the dotted key \"%s.\" is not understood: "
		    "write a [table]", key));
	if (n == 0 || key[n - 1] == '.')
		return (toml_fail(t, "a key was expected"));
	return (0);
}

/* --- strings --------------------------------------------------------------------- */

struct text_out {
	char *s;
	size_t n;
};

static int
put(struct toml *t, struct text_out *o, char c)
{
	if (o->n == TOML_MAX_TEXT)
		return (toml_fail(t, "a string of more than %u bytes",
		    TOML_MAX_TEXT));
	if (c == '\0')
		return (toml_fail(t, "a NUL in a string"));
	o->s[o->n++] = c;
	return (0);
}

static int
put_rune(struct toml *t, struct text_out *o, uint32_t c)
{
	char b[4];
	int n = 0;

	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return (toml_fail(t, "an escape of no character"));
	if (c < 0x80)
		b[n++] = (char)c;
	else if (c < 0x800)
		b[n++] = (char)(0xc0 | c >> 6);
	else if (c < 0x10000)
		b[n++] = (char)(0xe0 | c >> 12);
	else
		b[n++] = (char)(0xf0 | c >> 18);
	if (c >= 0x10000)
		b[n++] = (char)(0x80 | (c >> 12 & 0x3f));
	if (c >= 0x800)
		b[n++] = (char)(0x80 | (c >> 6 & 0x3f));
	if (c >= 0x80)
		b[n++] = (char)(0x80 | (c & 0x3f));
	for (int i = 0; i < n; i++)
		if (put(t, o, b[i]) != 0)
			return (-1);
	return (0);
}

static int
take_hex(struct toml *t, int digits, uint32_t *ret)
{
	static const char hex[] = "0123456789abcdef";

	*ret = 0;
	for (; digits > 0; digits--, t->p++) {
		int c = peek(t);
		const char *d = c <= 0 ? NULL : strchr(hex, c | 0x20);

		if (d == NULL || (c < '0' || (c > '9' && c < 'A')))
			return (toml_fail(t, "an escape lacks digits"));
		*ret = *ret << 4 | (uint32_t)(d - hex);
	}
	return (0);
}

static int
take_escape(struct toml *t, struct text_out *o)
{
	static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
	int c = peek(t);
	const char *e = c <= 0 ? NULL : strchr(from, c);
	uint32_t rune;

	if (e != NULL) {
		t->p++;
		return (put(t, o, to[e - from]));
	}
	if (c != 'u' && c != 'U')
		return (toml_fail(t, "an escape that TOML does not have; a "
		    "regular expression belongs in '''three quotes'''"));
	t->p++;
	return (take_hex(t, c == 'u' ? 4 : 8, &rune) != 0 ? -1 :
	    put_rune(t, o, rune));
}

/* A backslash at the end of a line: nothing until the next visible byte. */
static bool
take_fold(struct toml *t)
{
	const char *p = t->p;
	unsigned line = t->line;

	skip_blanks(t);
	if (!take_newline(t)) {
		t->p = p;
		t->line = line;
		return (false);
	}
	do
		skip_blanks(t);
	while (take_newline(t));
	return (true);
}

/* The quotes that end it; in a long one up to two more belong to the text. */
static int
take_end(struct toml *t, struct text_out *o, char quote, bool is_long)
{
	int n = 0;

	if (!is_long) {
		t->p++;
		return (1);
	}
	for (; peek(t) == quote && n < 5; n++)
		t->p++;
	for (int i = n >= 3 ? n - 3 : n; i > 0; i--)
		if (put(t, o, quote) != 0)
			return (-1);
	return (n >= 3);
}

static int
take_body(struct toml *t, struct text_out *o, char quote, bool is_long)
{
	int r;

	for (;;) {
		int c = peek(t);

		if (c == -1 || (!is_long && (c == '\n' || c == '\r')))
			return (toml_fail(t, "a string does not end"));
		if (c == quote) {
			if ((r = take_end(t, o, quote, is_long)) != 0)
				return (r < 0 ? -1 : 0);
			continue;
		}
		if (take_newline(t)) {
			r = put(t, o, '\n');
		} else if (c == '\\' && quote == '"') {
			t->p++;
			r = is_long && take_fold(t) ? 0 : take_escape(t, o);
		} else if (is_control(c)) {
			return (toml_fail(t, "a control character in a string"));
		} else {
			t->p++;
			r = put(t, o, (char)c);
		}
		if (r != 0)
			return (-1);
	}
}

static int
take_text(struct toml *t, char **ret)
{
	char quote = *t->p;
	bool is_long = at(t, quote == '"' ? "\"\"\"" : "'''");
	size_t left = (size_t)(t->end - t->p);
	struct text_out o = { .s = sbx_xcalloc(1, left < TOML_MAX_TEXT ?
	    left : TOML_MAX_TEXT) };
	int r;

	t->p += is_long ? 3 : 1;
	if (is_long)
		(void)take_newline(t);
	r = take_body(t, &o, quote, is_long);
	if (r == 0)
		*ret = pool_text(t->pool, o.s, o.n);
	free(o.s);
	return (r);
}

/* --- values ---------------------------------------------------------------------- */

static int
skip_lines(struct toml *t)
{
	do
		if (skip_rest(t) != 0)
			return (-1);
	while (take_newline(t));
	return (0);
}

static int
add_item(struct toml *t, struct toml_value *v, char *s)
{
	if (v->n == TOML_MAX_ITEMS)
		return (toml_fail(t, "an array of more than %u", TOML_MAX_ITEMS));
	/* 0, 1, 2, 4...: full, so twice as long */
	if ((v->n & (v->n - 1)) == 0) {
		char **more = pool_get(t->pool, (v->n == 0 ? 1 : 2 * v->n) *
		    sizeof(*more));

		if (v->n > 0)
			memcpy(more, v->v, v->n * sizeof(*more));
		v->v = more;
	}
	v->v[v->n++] = s;
	return (0);
}

static int
take_array(struct toml *t, struct toml_value *v)
{
	char *s;

	v->type = TOML_TEXTS;
	t->p++;
	for (;;) {
		if (skip_lines(t) != 0)
			return (-1);
		if (take(t, "]"))
			return (0);
		if (peek(t) != '"' && peek(t) != '\'')
			return (toml_fail(t, peek(t) == -1 ? "an array does not "
			    "end" : "an array of something but strings is not "
			    "understood"));
		if (take_text(t, &s) != 0 || add_item(t, v, s) != 0 ||
		    skip_lines(t) != 0)
			return (-1);
		if (!take(t, ",") && peek(t) != ']')
			return (toml_fail(t, "an array lacks a comma or its "
			    "end"));
	}
}

/* Digits, and a point with digits. */
static int
take_number(struct toml *t, struct toml_value *v)
{
	bool minus = take(t, "-"), zero = peek(t) == '0';
	double unit = 1;
	int n = 0;

	if (!minus)
		(void)take(t, "+");
	v->type = TOML_NUMBER;
	v->whole = true;
	for (; peek(t) >= '0' && peek(t) <= '9' && n < 9; n++)
		v->number = v->number * 10 + (*t->p++ - '0');
	if (n == 0 || (zero && n > 1))
		return (toml_fail(t, "a value was expected: a string, an array "
		    "of strings, a number, true or false"));
	if (take(t, ".")) {
		v->whole = false;
		for (n = 0; peek(t) >= '0' && peek(t) <= '9' && n < 9; n++)
			v->number += (*t->p++ - '0') * (unit /= 10);
		if (n == 0)
			return (toml_fail(t, "digits were expected after the "
			    "point"));
	}
	if (is_bare(peek(t)) || peek(t) == '.' || peek(t) == ':')
		return (toml_fail(t, "a number, date or time in a form that is "
		    "not understood: digits, at most 9, and a point"));
	if (minus)
		v->number = -v->number;
	return (0);
}

static int
take_value(struct toml *t, struct toml_value *v)
{
	char *s;

	switch (peek(t)) {
	case '"':
	case '\'':
		v->type = TOML_TEXT;
		return (take_text(t, &s) != 0 ? -1 : add_item(t, v, s));
	case '[':
		return (take_array(t, v));
	case '{':
		return (toml_fail(t, "an inline table is not understood: write "
		    "a [table]"));
	case 't':
	case 'f':
		v->type = TOML_BOOL;
		v->yes = take(t, "true");
		if (!v->yes && !take(t, "false"))
			return (toml_fail(t, "a value was expected"));
		return (0);
	default:
		return (take_number(t, v));
	}
}

static int
take_pair(struct toml *t)
{
	struct toml_value v = { 0 };
	char key[TOML_MAX_KEY + 1];
	unsigned first = t->line, last;

	if (take_key(t, false, key) != 0)
		return (-1);
	skip_blanks(t);
	if (!take(t, "="))
		return (toml_fail(t, "\"%s\" lacks its =", key));
	skip_blanks(t);
	if (take_value(t, &v) != 0 || end_of_line(t, "a value") != 0)
		return (-1);
	last = t->line;
	t->line = first;	/* what is wrong with it is wrong there */
	if (t->value(t->ctx, key, &v) != 0)
		return (-1);
	t->line = last;
	return (0);
}

static int
take_table(struct toml *t)
{
	char name[TOML_MAX_KEY + 1];
	bool array = take(t, "[[");

	if (!array)
		t->p++;
	skip_blanks(t);
	if (take_key(t, true, name) != 0)
		return (-1);
	skip_blanks(t);
	if (!take(t, array ? "]]" : "]"))
		return (toml_fail(t, "the table \"%s\" lacks its ]", name));
	if (t->table(t->ctx, name, array) != 0)
		return (-1);
	return (end_of_line(t, "a table's name"));
}

/* --- the whole ------------------------------------------------------------------- */

/* The bytes of the character at p, 0: it is none of UTF-8. */
static size_t
rune_len(const unsigned char *p, size_t left)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 :
	    p[0] >> 3 == 30 ? 4 : 0;
	uint32_t c;

	if (n == 1 || n == 0 || n > left)
		return (n == 1 ? 1 : 0);
	c = p[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if (p[i] >> 6 != 2)
			return (0);
		c = c << 6 | (p[i] & 0x3f);
	}
	return (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ?
	    0 : n);
}

static int
check_utf8(struct toml *t)
{
	size_t n;

	for (const char *p = t->p; p < t->end; p += n) {
		n = rune_len((const unsigned char *)p, (size_t)(t->end - p));
		if (n == 0)
			return (toml_fail(t, "it is not UTF-8"));
		t->line += *p == '\n';
	}
	t->line = 1;
	return (0);
}

int
toml_parse(struct toml *t, const char *p, size_t n)
{
	t->p = p;
	t->end = p + n;
	t->line = 1;
	if (check_utf8(t) != 0)
		return (-1);
	for (;;) {
		if (skip_lines(t) != 0)
			return (-1);
		if (peek(t) == -1)
			return (0);
		if ((peek(t) == '[' ? take_table(t) : take_pair(t)) != 0)
			return (-1);
	}
}
