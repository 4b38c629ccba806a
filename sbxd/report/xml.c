/* XML, as much of it as reports are made of. */

#include "sbxd/report/xml.h"

#include <ctype.h>
#include <string.h>

void
xml_init(struct xml *x, struct text t)
{
	memset(x, 0, sizeof(*x));
	if (text_starts(t, TEXT("\xef\xbb\xbf")))
		t = text_skip(t, 3);
	x->rest = t;
}

/* The character that the reference at p (after &, n bytes before ;) means. */
static bool
reference(const char *p, size_t n, uint32_t *ret_c)
{
	static const struct {
		const char *name;
		uint32_t c;
	} names[] = { { "lt", '<' }, { "gt", '>' }, { "amp", '&' },
	    { "quot", '"' }, { "apos", '\'' } };
	uint32_t c = 0, base = 10, digit;
	size_t i;

	for (i = 0; i < SBX_NELEM(names); i++)
		if (text_is((struct text){ p, n }, names[i].name)) {
			*ret_c = names[i].c;
			return (true);
		}
	if (n < 2 || p[0] != '#')
		return (false);
	i = 1;
	if (p[1] == 'x') {
		base = 16;
		i = 2;
	}
	if (i == n)
		return (false);
	for (; i < n; i++) {
		if (!isxdigit((unsigned char)p[i]))
			return (false);
		digit = isdigit((unsigned char)p[i]) ? (uint32_t)(p[i] - '0') :
		    (uint32_t)(tolower((unsigned char)p[i]) - 'a' + 10);
		if (digit >= base || (c = c * base + digit) > 0x10ffff)
			return (false);
	}
	*ret_c = c;
	return (c != 0 && (c < 0xd800 || c > 0xdfff));
}

/* The next & of t and what it means; false with *ret_bad: it means nothing. */
static bool
next_reference(struct text t, size_t *ret_at, size_t *ret_len,
    uint32_t *ret_c, bool *ret_bad)
{
	const char *amp = t.n == 0 ? NULL : memchr(t.p, '&', t.n), *semi;
	struct text after;

	*ret_bad = false;
	if (amp == NULL)
		return (false);
	*ret_at = (size_t)(amp - t.p);
	after = text_skip(t, *ret_at + 1);
	semi = after.n == 0 ? NULL : memchr(after.p, ';', after.n < 12 ?
	    after.n : 12);
	if (semi == NULL || !reference(after.p, (size_t)(semi - after.p),
	    ret_c)) {
		*ret_bad = true;
		return (false);
	}
	*ret_len = (size_t)(semi - amp) + 1;
	return (true);
}

static bool
references_ok(struct text t)
{
	size_t at, len;
	uint32_t c;
	bool bad;

	while (next_reference(t, &at, &len, &c, &bad))
		t = text_skip(t, at + len);
	return (!bad);
}

static int
add_utf8(struct sbx_buf *b, uint32_t c)
{
	char out[4];

	if (c < 0x80) {
		out[0] = (char)c;
		return (sbx_buf_add(b, out, 1));
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return (sbx_buf_add(b, out, 2));
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return (sbx_buf_add(b, out, 3));
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return (sbx_buf_add(b, out, 4));
}

int
xml_decode(struct text t, struct sbx_buf *b)
{
	size_t at, len;
	uint32_t c;
	bool bad;
	int error = 0;

	while (error == 0 && next_reference(t, &at, &len, &c, &bad)) {
		error = sbx_buf_add(b, t.p, at);
		if (error == 0)
			error = add_utf8(b, c);
		t = text_skip(t, at + len);
	}
	return (error != 0 ? error : sbx_buf_add(b, t.p, t.n));
}

struct text
xml_attr(const struct xml *x, const char *name)
{
	for (unsigned i = 0; i < x->nattrs; i++)
		if (text_is(x->attrs[i].name, name))
			return (x->attrs[i].value);
	return ((struct text){ NULL, 0 });
}

/* --- tokens --------------------------------------------------------------- */

static void
skip_blanks(struct text *t)
{
	while (t->n > 0 && memchr(" \t\r\n", t->p[0], 4) != NULL)
		*t = text_skip(*t, 1);
}

static struct text
take_name(struct text *t)
{
	struct text name = { t->p, 0 };

	while (name.n < t->n && name.n < 64 &&
	    (isalnum((unsigned char)t->p[name.n]) ||
	    memchr("_-.:", t->p[name.n], 4) != NULL))
		name.n++;
	*t = text_skip(*t, name.n);
	return (name);
}

static bool
take_attr(struct xml *x)
{
	struct text name = take_name(&x->rest), value;
	const char *end;
	char quote;

	skip_blanks(&x->rest);
	if (name.n == 0 || x->nattrs == XML_ATTRS || x->rest.n < 3 ||
	    x->rest.p[0] != '=')
		return (false);
	x->rest = text_skip(x->rest, 1);
	skip_blanks(&x->rest);
	if (x->rest.n < 2 || (x->rest.p[0] != '"' && x->rest.p[0] != '\''))
		return (false);
	quote = x->rest.p[0];
	x->rest = text_skip(x->rest, 1);
	end = x->rest.n == 0 ? NULL : memchr(x->rest.p, quote, x->rest.n);
	if (end == NULL)
		return (false);
	value = (struct text){ x->rest.p, (size_t)(end - x->rest.p) };
	x->rest = text_skip(x->rest, value.n + 1);
	for (unsigned i = 0; i < x->nattrs; i++)
		if (x->attrs[i].name.n == name.n &&
		    memcmp(x->attrs[i].name.p, name.p, name.n) == 0)
			return (false);
	if ((value.n > 0 && memchr(value.p, '<', value.n) != NULL) ||
	    !references_ok(value))
		return (false);
	x->attrs[x->nattrs].name = name;
	x->attrs[x->nattrs++].value = value;
	return (true);
}

static enum xml_token
take_open(struct xml *x)
{
	struct text before;

	x->rest = text_skip(x->rest, 1);
	x->name = take_name(&x->rest);
	x->nattrs = 0;
	if (x->name.n == 0 || x->depth == XML_DEPTH ||
	    (x->depth == 0 && x->rooted))
		return (XML_BAD);
	x->open[x->depth++] = x->name;
	x->rooted = true;
	for (;;) {
		before = x->rest;
		skip_blanks(&x->rest);
		if (text_starts(x->rest, TEXT("/>"))) {
			x->rest = text_skip(x->rest, 2);
			x->closing = true;
			return (XML_OPEN);
		}
		if (text_starts(x->rest, TEXT(">"))) {
			x->rest = text_skip(x->rest, 1);
			return (XML_OPEN);
		}
		if (before.n == x->rest.n || !take_attr(x))
			return (XML_BAD);
	}
}

static enum xml_token
take_close(struct xml *x)
{
	struct text top;

	x->rest = text_skip(x->rest, 2);
	x->name = take_name(&x->rest);
	skip_blanks(&x->rest);
	if (x->depth == 0 || !text_starts(x->rest, TEXT(">")))
		return (XML_BAD);
	x->rest = text_skip(x->rest, 1);
	top = x->open[--x->depth];
	return (top.n == x->name.n && memcmp(top.p, x->name.p, top.n) == 0 ?
	    XML_CLOSE : XML_BAD);
}

/* Up to and with `end`: false: there is none. */
static bool
take_until(struct xml *x, size_t head, struct text end, struct text *ret_text)
{
	struct text t = text_skip(x->rest, head);
	const char *p = text_find(t, end);

	if (p == NULL)
		return (false);
	*ret_text = (struct text){ t.p, (size_t)(p - t.p) };
	x->rest = text_skip(t, ret_text->n + end.n);
	return (true);
}

static enum xml_token
take_text(struct xml *x)
{
	const char *lt = memchr(x->rest.p, '<', x->rest.n);

	x->cdata = false;
	x->text = (struct text){ x->rest.p, lt == NULL ? x->rest.n :
	    (size_t)(lt - x->rest.p) };
	x->rest = text_skip(x->rest, x->text.n);
	if (x->depth == 0)
		return (text_trim(x->text).n == 0 ? XML_TEXT : XML_BAD);
	return (references_ok(x->text) ? XML_TEXT : XML_BAD);
}

enum xml_token
xml_next(struct xml *x)
{
	struct text skipped;

	if (x->closing) {
		x->closing = false;
		x->name = x->open[--x->depth];
		return (XML_CLOSE);
	}
	/* each round takes something */
	while (text_starts(x->rest, TEXT("<?")) ||
	    text_starts(x->rest, TEXT("<!--"))) {
		if (x->rest.p[1] == '?' ? !take_until(x, 2, TEXT("?>"),
		    &skipped) : !take_until(x, 4, TEXT("-->"), &skipped))
			return (XML_BAD);
	}
	if (x->rest.n == 0)
		return (x->depth == 0 && x->rooted ? XML_END : XML_BAD);
	if (x->depth > 0 && text_starts(x->rest, TEXT("<![CDATA["))) {
		x->cdata = true;
		return (take_until(x, 9, TEXT("]]>"), &x->text) ? XML_TEXT :
		    XML_BAD);
	}
	if (text_starts(x->rest, TEXT("</")))
		return (take_close(x));
	if (x->rest.p[0] == '<')
		return (take_open(x));
	return (take_text(x));
}
