/* Pieces of foreign text: lines, numbers, places, copies. */

#include "sbxd/report/work.h"

#include <ctype.h>
#include <string.h>

bool
text_line(struct text *rest, struct text *ret_line)
{
	const char *nl;

	if (rest->n == 0)
		return (false);
	nl = memchr(rest->p, '\n', rest->n);
	ret_line->p = rest->p;
	ret_line->n = nl == NULL ? rest->n : (size_t)(nl - rest->p);
	*rest = text_skip(*rest, ret_line->n + (nl != NULL));
	if (ret_line->n > 0 && ret_line->p[ret_line->n - 1] == '\r')
		ret_line->n--;
	return (true);
}

bool
text_starts(struct text t, struct text prefix)
{
	return (t.n >= prefix.n && memcmp(t.p, prefix.p, prefix.n) == 0);
}

bool
text_is(struct text t, const char *s)
{
	return (t.n == strlen(s) && memcmp(t.p, s, t.n) == 0);
}

const char *
text_find(struct text t, struct text what)
{
	return (t.n == 0 ? NULL : memmem(t.p, t.n, what.p, what.n));
}

struct text
text_skip(struct text t, size_t n)
{
	if (n > t.n)
		n = t.n;
	return ((struct text){ t.p + n, t.n - n });
}

struct text
text_trim(struct text t)
{
	while (t.n > 0 && isspace((unsigned char)t.p[0]))
		t = text_skip(t, 1);
	while (t.n > 0 && isspace((unsigned char)t.p[t.n - 1]))
		t.n--;
	return (t);
}

size_t
text_number(struct text t, uint64_t *ret_v)
{
	uint64_t v = 0;
	size_t i;

	for (i = 0; i < t.n && isdigit((unsigned char)t.p[i]); i++) {
		if (i == 15)
			return (0);
		v = v * 10 + (uint64_t)(t.p[i] - '0');
	}
	if (i > 0)
		*ret_v = v;
	return (i);
}

/* How many bytes at p are one terminal sequence, 0: none. */
static size_t
escape_len(const char *p, size_t n)
{
	size_t i;

	if (n < 2 || p[0] != '\033')
		return (0);
	if (p[1] != '[')
		return (2);
	for (i = 2; i < n && i < 32; i++)
		if (p[i] >= '@' && p[i] <= '~')
			return (i + 1);
	return (2);
}

static void
copy_shown(struct sbx_buf *b, struct text t)
{
	size_t i, skip, from = 0;

	for (i = 0; i < t.n; ) {
		skip = escape_len(t.p + i, t.n - i);
		if (skip == 0 && t.p[i] != '\0') {
			i++;
			continue;
		}
		(void)sbx_buf_add(b, t.p + from, i - from);
		i += skip > 0 ? skip : 1;
		from = i;
	}
	(void)sbx_buf_add(b, t.p + from, t.n - from);
}

/* A cut in the middle of a character moves to its begin. */
static size_t
char_begin(struct text t, size_t at)
{
	size_t i = at;

	while (i > 0 && at - i < 4 && ((unsigned char)t.p[i] & 0xc0) == 0x80)
		i--;
	return (at - i < 4 ? i : at);
}

char *
text_copy(struct text t, size_t max)
{
	struct sbx_buf b;
	size_t half = max / 2 > 32 ? max / 2 - 32 : max / 2, head, tail;

	sbx_buf_init(&b, max + 64);
	if (t.n <= max) {
		copy_shown(&b, t);
	} else {
		head = char_begin(t, half);
		tail = char_begin(t, t.n - half);
		copy_shown(&b, (struct text){ t.p, head });
		(void)sbx_buf_printf(&b, "\n[... %zu bytes ...]\n",
		    tail - head);
		copy_shown(&b, text_skip(t, tail));
	}
	return (b.data != NULL ? b.data : sbx_xstrdup(""));
}

/* --- places --------------------------------------------------------------- */

bool
text_is_library(struct text file)
{
	static const struct text marks[] = {
		TEXT("node_modules/"), TEXT("node:"), TEXT("site-packages/"),
		TEXT("dist-packages/"), TEXT("/usr/lib/"), TEXT("/rustc"),
		TEXT("internal/"), TEXT("<frozen"), TEXT("/testing/testing.go"),
		TEXT("_testmain.go"), TEXT("/runtime/panic.go"),
		TEXT("libsanitizer/"), TEXT("sysdeps/"),
	};

	for (size_t i = 0; i < SBX_NELEM(marks); i++)
		if (text_find(file, marks[i]) != NULL)
			return (true);
	return (false);
}

static bool
is_path_char(char c)
{
	return ((unsigned char)c > ' ' && strchr(":()[]{}'\"`<>,;|", c) == NULL);
}

/* The FILE:LINE whose colon is at t.p[at]. */
static bool
place_at(struct text t, size_t at, struct place *ret_place)
{
	size_t from = at;
	struct text file;
	uint64_t line;

	while (from > 0 && is_path_char(t.p[from - 1]) && at - from <
	    SBX_REPORT_NAME_BYTES)
		from--;
	file = (struct text){ t.p + from, at - from };
	if (file.n < 2 || (memchr(file.p, '.', file.n) == NULL &&
	    memchr(file.p, '/', file.n) == NULL) ||
	    text_number(text_skip(t, at + 1), &line) == 0 || line == 0 ||
	    text_starts(file, TEXT("//")))
		return (false);
	/* 127.0.0.1:80 and 12.5:3 are none */
	if (isdigit((unsigned char)file.p[file.n - 1]) &&
	    isdigit((unsigned char)file.p[0]))
		return (false);
	*ret_place = (struct place){ file, line };
	return (true);
}

bool
text_place(struct text t, bool last, struct place *ret_place)
{
	struct place p, any = { { "", 0 }, 0 };
	bool found = false;

	for (size_t i = 1; i + 1 < t.n; i++) {
		if (t.p[i] != ':' || !isdigit((unsigned char)t.p[i + 1]) ||
		    !place_at(t, i, &p))
			continue;
		if (text_is_library(p.file)) {
			if (any.line == 0)
				any = p;
			continue;
		}
		*ret_place = p;
		found = true;
		if (!last)
			return (true);
	}
	if (!found && any.line != 0)
		*ret_place = any;
	return (found || any.line != 0);
}
