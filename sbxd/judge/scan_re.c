/*
 * Regular expressions in the syntax of Go's regexp/syntax (RE2's), for PCRE2.
 *
 * PCRE2 takes more than Go does, and takes some of it differently.  So nothing
 * is handed through: an expression is read as Go reads it and written anew in
 * the few forms that mean the same in PCRE2; what Go does not have (what looks
 * around, back or into itself) is refused by name, and so is what would not
 * mean the same.  Matching is by bytes: a `.` or a negated class takes one.
 *
 * On the way it is learned how long a match is and which words it must have,
 * so that only what is around such a word is tried (scan.c).
 */
#include "sbxd/judge/scan_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What is known of a part of an expression. */
struct info {
	uint32_t min, max;
	bool exact;		/* it matches one of `all`, in any case */
	struct lits all;
	struct lits words;	/* n 0: not known */
	uint32_t pre_min, pre_max;
};
enum { FOLD = 1, LINES = 2, DOT_ALL = 4, LAZY = 8 };	/* i, m, s, U */
struct reader {
	const char *p, *end, *start;
	char *reason;
	struct sbx_buf out;
	unsigned flags, groups, depth;
	bool folded;		/* what PCRE2 takes (?i) to be, here */
};
struct set {
	uint8_t has[256];
};

static int fail(struct reader *r, const char *fmt, ...) SBX_PRINTF(2, 3);
static int
fail(struct reader *r, const char *fmt, ...)
{
	va_list ap;
	char what[SCAN_REASON / 2];

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	(void)snprintf(r->reason, SCAN_REASON, "at byte %zu of the expression: "
	    "%s", (size_t)(r->p - r->start) + 1, what);
	return (-1);
}

static int
peek(const struct reader *r)
{
	return (r->p < r->end ? (unsigned char)*r->p : -1);
}

static bool
take(struct reader *r, const char *s)
{
	size_t n = strlen(s);

	if ((size_t)(r->end - r->p) < n || memcmp(r->p, s, n) != 0)
		return (false);
	r->p += n;
	return (true);
}

static int
emit(struct reader *r, const char *s)
{
	return (sbx_buf_str(&r->out, s) == 0 ? 0 : fail(r, "it is too long"));
}

static bool
is_letter(int c)
{
	return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static bool
is_digit(int c)
{
	return (c >= '0' && c <= '9');
}

static char
lower(int c)
{
	return ((char)(c >= 'A' && c <= 'Z' ? c + 0x20 : c));
}

/* --- what is known --------------------------------------------------------------- */

static uint32_t
sum(uint32_t a, uint32_t b)
{
	return (a > RE_ENDLESS - b ? RE_ENDLESS : a + b);
}

static uint32_t
times(uint32_t a, uint32_t n)
{
	uint64_t v = (uint64_t)a * n;

	if (a == 0 || n == 0)
		return (0);
	return (a == RE_ENDLESS || v > RE_ENDLESS ? RE_ENDLESS : (uint32_t)v);
}

/* false: there is no room. */
static bool
lits_add(struct lits *l, const char *s, size_t n)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->len[i] == n && memcmp(l->s[i], s, n) == 0)
			return (true);
	if (l->n == LITS_MAX || n > LIT_MAX)
		return (false);
	memcpy(l->s[l->n], s, n);
	l->len[l->n++] = (uint8_t)n;
	return (true);
}

static bool
lits_both(struct lits *dst, const struct lits *b)
{
	for (unsigned i = 0; i < b->n; i++)
		if (!lits_add(dst, b->s[i], b->len[i]))
			return (false);
	return (true);
}

/* Each of a with each of b behind it. */
static bool
lits_product(const struct lits *a, const struct lits *b, struct lits *ret)
{
	char s[2 * LIT_MAX];

	ret->n = 0;
	for (unsigned i = 0; i < a->n; i++)
		for (unsigned k = 0; k < b->n; k++) {
			memcpy(s, a->s[i], a->len[i]);
			memcpy(s + a->len[i], b->s[k], b->len[k]);
			if (!lits_add(ret, s, (size_t)a->len[i] + b->len[k]))
				return (false);
		}
	return (true);
}

static unsigned
shortest(const struct lits *l)
{
	unsigned least = l->n == 0 ? 0 : LIT_MAX;

	for (unsigned i = 0; i < l->n; i++)
		least = l->len[i] < least ? l->len[i] : least;
	return (least);
}

/* How good words are to look for: long, few, close to where a match begins. */
static int
worth(const struct lits *l, uint32_t pre_min, uint32_t pre_max)
{
	unsigned n = shortest(l);

	if (n < 2 || pre_max > RE_MAX_PRE || pre_max - pre_min > 1024)
		return (-1);
	return ((int)(n > 6 ? 6 : n) * 64 - (int)l->n -
	    (int)(pre_max - pre_min) / 8);
}

/* Of what is exact and what is known else, the better to look for. */
static void
settle(struct info *a)
{
	if (!a->exact || worth(&a->all, 0, 0) <= (a->words.n == 0 ? -1 :
	    worth(&a->words, a->pre_min, a->pre_max)))
		return;
	a->words = a->all;
	a->pre_min = a->pre_max = 0;
}

/* a, then b: into a. */
static void
join(struct info *a, struct info *b)
{
	struct lits all;
	uint32_t pre_min, pre_max;

	if (a->exact && a->min == 0 && a->max == 0) {
		*a = *b;
		return;
	}
	settle(a);
	settle(b);
	pre_min = sum(a->min, b->pre_min);
	pre_max = sum(a->max, b->pre_max);
	if (b->words.n > 0 && worth(&b->words, pre_min, pre_max) >
	    (a->words.n == 0 ? -1 : worth(&a->words, a->pre_min, a->pre_max))) {
		a->words = b->words;
		a->pre_min = pre_min;
		a->pre_max = pre_max;
	}
	a->exact = a->exact && b->exact && lits_product(&a->all, &b->all, &all);
	if (a->exact)
		a->all = all;
	a->min = sum(a->min, b->min);
	a->max = sum(a->max, b->max);
}

/* a or b: into a. */
static void
either(struct info *a, struct info *b)
{
	settle(a);
	settle(b);
	if (a->words.n > 0 && b->words.n > 0 && lits_both(&a->words, &b->words)) {
		a->pre_min = a->pre_min < b->pre_min ? a->pre_min : b->pre_min;
		a->pre_max = a->pre_max > b->pre_max ? a->pre_max : b->pre_max;
	} else
		a->words.n = 0;
	a->exact = a->exact && b->exact && lits_both(&a->all, &b->all);
	a->min = a->min < b->min ? a->min : b->min;
	a->max = a->max > b->max ? a->max : b->max;
}

static void
repeat(struct info *a, uint32_t lo, uint32_t hi)
{
	struct lits once = a->all, all;

	settle(a);
	if (lo == 0) {
		a->words.n = 0;
		a->exact = a->exact && hi <= 1 && lits_add(&a->all, "", 0);
		if (hi == 0)
			a->exact = false;
	} else {
		a->exact = a->exact && lo == hi;
		for (uint32_t i = 1; i < lo && a->exact; i++) {
			a->exact = lits_product(&a->all, &once, &all);
			if (a->exact)
				a->all = all;
		}
	}
	a->min = times(a->min, lo);
	a->max = hi == RE_ENDLESS && a->max > 0 ? RE_ENDLESS : times(a->max, hi);
}

static void
info_empty(struct info *a)
{
	memset(a, 0, sizeof(*a));
	a->exact = true;
	a->all.n = 1;
}

static void
info_text(struct info *a, const char *s, size_t n)
{
	memset(a, 0, sizeof(*a));
	a->min = a->max = (uint32_t)n;
	a->exact = lits_add(&a->all, s, n);
}

/* One byte of a set. */
static void
info_set(struct info *a, const struct set *set)
{
	memset(a, 0, sizeof(*a));
	a->min = a->max = 1;
	a->exact = true;
	for (int c = 0; c < 256 && a->exact; c++)
		if (set->has[c])
			a->exact = lits_add(&a->all, &(char){ lower(c) }, 1) &&
			    a->all.n <= 8;
}

/* --- writing --------------------------------------------------------------------- */

static int
emit_byte(struct reader *r, int c)
{
	char text[8];

	if (is_letter(c) || is_digit(c))
		(void)snprintf(text, sizeof(text), "%c", c);
	else
		(void)snprintf(text, sizeof(text), "\\x%02x", (unsigned)c);
	return (emit(r, text));
}

static int
emit_fold(struct reader *r, bool fold)
{
	if (r->folded == fold)
		return (0);
	r->folded = fold;
	return (emit(r, fold ? "(?i)" : "(?-i)"));
}

static void
set_fold(struct set *set)
{
	for (int c = 'a'; c <= 'z'; c++)
		set->has[c] = set->has[c - 0x20] = set->has[c] |
		    set->has[c - 0x20];
}

static int
emit_set(struct reader *r, const struct set *set)
{
	int n = 0, to, bad;

	for (int c = 0; c < 256; c++)
		n += set->has[c];
	if (n == 0)
		return (fail(r, "a class that matches nothing"));
	if (n == 256)
		return (emit(r, "."));
	/* a set that was folded is the same in any case */
	bad = r->folded && (r->flags & FOLD) == 0 ? emit_fold(r, false) : 0;
	bad |= emit(r, "[");
	for (int c = 0; c < 256 && bad == 0; c = to + 1) {
		for (to = c; to < 255 && set->has[to + 1]; to++)
			;
		if (!set->has[c]) {
			to = c;
			continue;
		}
		bad = emit_byte(r, c);
		if (bad == 0 && to > c)
			bad = emit(r, "-") != 0 ? -1 : emit_byte(r, to);
	}
	return (bad != 0 ? -1 : emit(r, "]"));
}

/* --- escapes and classes ---------------------------------------------------------- */

static void
set_range(struct set *set, int from, int to)
{
	for (int c = from; c <= to; c++)
		set->has[c] = 1;
}

/* \d \s \w and what they are not. */
static bool
set_perl(struct set *set, int c)
{
	struct set one = { 0 };

	switch (c | 0x20) {
	case 'd':
		set_range(&one, '0', '9');
		break;
	case 's':
		set_range(&one, '\t', '\n');
		set_range(&one, '\f', '\r');
		one.has[' '] = 1;
		break;
	case 'w':
		set_range(&one, '0', '9');
		set_range(&one, 'A', 'Z');
		set_range(&one, 'a', 'z');
		one.has['_'] = 1;
		break;
	default:
		return (false);
	}
	for (int i = 0; i < 256; i++)
		set->has[i] |= one.has[i] ^ (c < 'a');
	return (true);
}

static const struct {
	const char *name;
	const char *ranges;	/* pairs */
} posix[] = {
	{ "alnum", "09AZaz" }, { "alpha", "AZaz" }, { "ascii", "\001\177" },
	{ "blank", "\t\t  " }, { "cntrl", "\001\037\177\177" },
	{ "digit", "09" }, { "graph", "!~" }, { "lower", "az" },
	{ "print", " ~" }, { "punct", "!/:@[`{~" }, { "space", "\t\r  " },
	{ "upper", "AZ" }, { "word", "09AZaz__" }, { "xdigit", "09AFaf" },
};

/* [:name:] or [:^name:] in a class; 1: it was one, -1: it is none that is. */
static int
take_posix(struct reader *r, struct set *set)
{
	struct set one = { 0 };
	const char *from = r->p, *p;
	bool not;

	if (!take(r, "[:"))
		return (0);
	not = take(r, "^");
	for (size_t i = 0; i < SBX_NELEM(posix); i++) {
		if (!take(r, posix[i].name))
			continue;
		if (!take(r, ":]"))
			break;
		for (p = posix[i].ranges; *p != '\0'; p += 2)
			set_range(&one, p[0], p[1]);
		/* where its text cannot have a NUL */
		if (*posix[i].ranges == '\001')
			one.has[0] = 1;
		if ((r->flags & FOLD) != 0)
			set_fold(&one);
		for (int c = 0; c < 256; c++)
			set->has[c] |= one.has[c] ^ not;
		return (1);
	}
	r->p = from;
	return (fail(r, "a class [:name:] that is not known"));
}

static int
hex_digit(int c)
{
	return (is_digit(c) ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ?
	    (c | 0x20) - 'a' + 10 : -1);
}

static int
take_hex(struct reader *r)
{
	int v = 0, n = 0, d;
	bool braces = take(r, "{");

	for (; (d = hex_digit(peek(r))) >= 0 && n < (braces ? 6 : 2); n++) {
		v = v << 4 | d;
		r->p++;
	}
	if (n == 0 || (!braces && n != 2) || (braces && !take(r, "}")))
		return (fail(r, "\\x without its digits"));
	if (v > 0x7f)
		return (fail(r, "\\x above 7f: matching is by bytes; write the "
		    "character itself"));
	return (v);
}

/* One byte, by an escape whose backslash is gone; -1: refused. */
static int
take_escaped(struct reader *r)
{
	static const char from[] = "aftnrv", to[] = "\a\f\t\n\r\v";
	int c = peek(r), v = 0;
	const char *e;

	if (c == -1)
		return (fail(r, "it ends with a backslash"));
	r->p++;
	if (c < 0x80 && !is_letter(c) && !is_digit(c))
		return (c);
	if (c == 'x')
		return (take_hex(r));
	if ((e = strchr(from, c)) != NULL)
		return (to[e - from]);
	/* Go: \0, or two digits at least, up to three, are octal */
	if (c == '0' || (c >= '1' && c <= '7' && peek(r) >= '0' &&
	    peek(r) <= '7')) {
		v = c - '0';
		for (int i = 0; i < 2 && peek(r) >= '0' && peek(r) <= '7'; i++)
			v = v << 3 | (*r->p++ - '0');
		return (v <= 0x7f ? v : fail(r, "an octal escape above 177"));
	}
	r->p -= 1;
	if (is_digit(c))
		return (fail(r, "\\%c: a reference back is not in Go's syntax",
		    c));
	if (c == 'p' || c == 'P')
		return (fail(r, "\\%c: classes of Unicode are not understood: "
		    "matching is by bytes", c));
	return (fail(r, "an escape that is not in Go's syntax"));
}

/* One byte of a class; -1: refused. */
static int
take_member(struct reader *r)
{
	int c = peek(r);

	if (c == -1)
		return (fail(r, "a class [ lacks its ]"));
	if (c >= 0x80)
		return (fail(r, "a character beyond ASCII in a class: matching "
		    "is by bytes"));
	r->p++;
	return (c == '\\' ? take_escaped(r) : c);
}

static int
take_class(struct reader *r, struct set *set)
{
	bool not = take(r, "^"), first = true;
	int from, to, k;

	for (; first || peek(r) != ']'; first = false) {
		if ((k = take_posix(r, set)) < 0)
			return (-1);
		if (k > 0)
			continue;
		if (peek(r) == '\\' && r->p + 1 < r->end &&
		    set_perl(set, r->p[1])) {
			r->p += 2;
			continue;
		}
		if ((from = take_member(r)) < 0)
			return (-1);
		to = from;
		if (peek(r) == '-' && r->p + 1 < r->end && r->p[1] != ']') {
			r->p++;
			if ((to = take_member(r)) < 0)
				return (-1);
			if (to < from)
				return (fail(r, "a range that ends before it "
				    "begins"));
		}
		set_range(set, from, to);
	}
	r->p++;
	if ((r->flags & FOLD) != 0)
		set_fold(set);
	for (int c = 0; c < 256 && not; c++)
		set->has[c] = !set->has[c];
	return (0);
}

/* --- reading --------------------------------------------------------------------- */

static int read_choice(struct reader *r, struct info *ret);

static int
read_text(struct reader *r, struct info *ret, const char *s, size_t n)
{
	char low[4] = { 0 };

	if (n == 1 && is_letter(s[0]) &&
	    emit_fold(r, (r->flags & FOLD) != 0) != 0)
		return (-1);
	if (n > 1 && (r->flags & FOLD) != 0)
		return (fail(r, "a character beyond ASCII where case does not "
		    "count: matching is by bytes"));
	if (n > 1 && emit(r, "(?:") != 0)
		return (-1);
	for (size_t i = 0; i < n; i++) {
		low[i] = lower((unsigned char)s[i]);
		if (emit_byte(r, (unsigned char)s[i]) != 0)
			return (-1);
	}
	info_text(ret, low, n);
	return (n > 1 ? emit(r, ")") : 0);
}

/* A character as it stands: the bytes of UTF-8 are one. */
static int
read_char(struct reader *r, struct info *ret)
{
	const char *s = r->p++;

	if ((unsigned char)*s >= 0x80)
		while (r->p < r->end && ((unsigned char)*r->p & 0xc0) == 0x80 &&
		    r->p - s < 4)
			r->p++;
	return (read_text(r, ret, s, (size_t)(r->p - s)));
}

static int
read_set(struct reader *r, struct info *ret, const struct set *set)
{
	info_set(ret, set);
	return (emit_set(r, set));
}

/* \Q...\E, whose last character is what a repetition repeats. */
static int
read_quoted(struct reader *r, struct info *ret)
{
	struct info one;

	info_empty(ret);
	while (r->p < r->end && !take(r, "\\E")) {
		if (read_char(r, &one) != 0)
			return (-1);
		join(ret, &one);
	}
	if (peek(r) != -1 && strchr("*+?{", peek(r)) != NULL)
		return (fail(r, "a repetition right behind \\E: put what it "
		    "repeats into a group"));
	return (0);
}

static int
read_escape(struct reader *r, struct info *ret)
{
	struct set set = { 0 };
	int c;

	r->p++;
	if (take(r, "Q"))
		return (read_quoted(r, ret));
	info_empty(ret);
	if (take(r, "b"))
		return (emit(r, "\\b"));
	if (take(r, "B"))
		return (emit(r, "\\B"));
	if (take(r, "A"))
		return (emit(r, "^"));
	if (take(r, "z"))
		return (emit(r, "$"));
	if (peek(r) > 0 && set_perl(&set, peek(r))) {
		r->p++;
		return (read_set(r, ret, &set));
	}
	c = take_escaped(r);
	return (c < 0 ? -1 : read_text(r, ret, &(char){ (char)c }, 1));
}

/* (?flags) or (?flags: with the (? gone; 1: the group goes on. */
static int
take_flags(struct reader *r)
{
	static const char names[] = "imsU";
	unsigned flags = r->flags;
	bool off = false, any = false;
	const char *f;
	int c;

	for (;; any = true) {
		c = peek(r);
		f = c > 0 ? strchr(names, c) : NULL;
		if (f != NULL)
			flags = off ? flags & ~(1u << (f - names)) :
			    flags | 1u << (f - names);
		else if (c == '-' && !off)
			off = true;
		else
			break;
		r->p++;
	}
	if (c == ')' && any) {
		r->p++;
		r->flags = flags;
		return (0);
	}
	if (c != ':')
		return (fail(r, "a group (?... that is not in Go's syntax: it "
		    "does not look around, back or into itself"));
	r->p++;
	r->flags = flags;
	return (1);
}

static int
take_group_name(struct reader *r)
{
	size_t n = 0;

	while (is_letter(peek(r)) || is_digit(peek(r)) || peek(r) == '_') {
		r->p++;
		n++;
	}
	return (n > 0 && take(r, ">") ? 0 : fail(r, "a group's name is letters, "
	    "digits and _, and ends with >"));
}

/* What is behind a parenthesis.  1: only flags, for what follows. */
static int
read_head(struct reader *r)
{
	int k;

	if (peek(r) == '*')
		return (fail(r, "(*...) is not in Go's syntax"));
	if (!take(r, "?")) {
		r->groups++;
		return (emit(r, "("));
	}
	if (take(r, "P<") || (peek(r) == '<' && r->p + 1 < r->end &&
	    r->p[1] != '=' && r->p[1] != '!' && take(r, "<"))) {
		r->groups++;
		return (take_group_name(r) != 0 ? -1 : emit(r, "("));
	}
	k = take_flags(r);
	return (k == 0 ? 1 : k < 0 ? -1 : emit(r, "(?:"));
}

static int
read_group(struct reader *r, struct info *ret)
{
	unsigned flags = r->flags;
	bool folded = r->folded;
	int k;

	r->p++;
	if ((k = read_head(r)) < 0)
		return (-1);
	info_empty(ret);
	if (k == 1)
		return (1);	/* flags hold until the group ends */
	if (r->groups > RE_MAX_GROUPS || ++r->depth > RE_MAX_DEPTH)
		return (fail(r, "more than %d groups, or %d in each other",
		    RE_MAX_GROUPS, RE_MAX_DEPTH));
	if (read_choice(r, ret) != 0)
		return (-1);
	if (!take(r, ")"))
		return (fail(r, "a ( lacks its )"));
	r->depth--;
	r->flags = flags;
	r->folded = folded;
	return (emit(r, ")"));
}

/* One that may be repeated, or not (1). */
static int
read_atom(struct reader *r, struct info *ret)
{
	struct set set = { 0 };

	switch (peek(r)) {
	case '(':
		return (read_group(r, ret));
	case '[':
		r->p++;
		return (take_class(r, &set) != 0 ? -1 : read_set(r, ret, &set));
	case '.':
		r->p++;
		set_range(&set, 0, 255);
		set.has['\n'] = (r->flags & DOT_ALL) != 0;
		info_set(ret, &set);
		return (emit(r, set.has['\n'] ? "." : "[^\\x0a]"));
	case '^':
		r->p++;
		info_empty(ret);
		return (emit(r, r->flags & LINES ? "(?m:^)" : "^"));
	case '$':
		r->p++;
		info_empty(ret);
		return (emit(r, r->flags & LINES ? "(?m:$)" : "$"));
	case '\\':
		return (read_escape(r, ret));
	case '*':
	case '+':
	case '?':
		return (fail(r, "a repetition of nothing"));
	default:
		return (read_char(r, ret));
	}
}

static bool
take_count(struct reader *r, uint32_t *ret)
{
	const char *from = r->p;
	uint32_t v = 0;

	while (is_digit(peek(r)) && v <= RE_MAX_REPEAT)
		v = v * 10 + (uint32_t)(*r->p++ - '0');
	*ret = v;
	/* Go: no zeros before another digit */
	return (r->p > from && (*from != '0' || r->p == from + 1));
}

/* {n}, {n,} or {n,m}; false: braces that are text. */
static bool
take_braces(struct reader *r, uint32_t *lo, uint32_t *hi)
{
	if (!take(r, "{") || !take_count(r, lo))
		return (false);
	*hi = *lo;
	if (take(r, ",")) {
		*hi = RE_ENDLESS;
		if (peek(r) != '}' && !take_count(r, hi))
			return (false);
	}
	return (take(r, "}"));
}

/* 1: there was one; 0: none; -1: refused. */
static int
take_repeat(struct reader *r, uint32_t *lo, uint32_t *hi)
{
	const char *from = r->p;

	*lo = peek(r) == '+';
	*hi = peek(r) == '?' ? 1 : RE_ENDLESS;
	if (take(r, "*") || take(r, "+") || take(r, "?"))
		return (1);
	if (!take_braces(r, lo, hi)) {
		r->p = from;
		return (0);
	}
	if (*lo > RE_MAX_REPEAT || (*hi > RE_MAX_REPEAT &&
	    *hi != RE_ENDLESS) || *hi < *lo)
		return (fail(r, "a repetition {n,m} needs n <= m <= %d",
		    RE_MAX_REPEAT));
	return (1);
}

static int
emit_repeat(struct reader *r, uint32_t lo, uint32_t hi, bool lazy)
{
	char text[32];

	if (hi == RE_ENDLESS)
		(void)snprintf(text, sizeof(text), "{%u,}", lo);
	else
		(void)snprintf(text, sizeof(text), "{%u,%u}", lo, hi);
	if (emit(r, text) != 0)
		return (-1);
	return (lazy ? emit(r, "?") : 0);
}

static int
read_piece(struct reader *r, struct info *ret)
{
	const char *from = r->p;
	bool anchor, lazy;
	uint32_t lo, hi, more[2];
	int k = read_atom(r, ret), n;

	if (k < 0 || (n = take_repeat(r, &lo, &hi)) < 0)
		return (-1);
	if (n == 0)
		return (0);
	anchor = *from == '^' || *from == '$' || (*from == '\\' &&
	    strchr("bBAzQ", from[1]) != NULL);
	if (k == 1 || anchor)
		return (fail(r, "a repetition of what has no length"));
	lazy = take(r, "?");
	if ((r->flags & LAZY) != 0)
		lazy = !lazy;
	if (take_repeat(r, &more[0], &more[1]) != 0)
		return (fail(r, "a repetition of a repetition"));
	repeat(ret, lo, hi);
	return (emit_repeat(r, lo, hi, lazy));
}

/*
 * One after the other.  What is exact is kept apart for as long as it is, so
 * that letters become words.
 */
static int
read_sequence(struct reader *r, struct info *ret)
{
	struct info word, one;
	struct lits all;

	info_empty(ret);
	info_empty(&word);
	while (r->p < r->end && *r->p != '|' && *r->p != ')') {
		if (read_piece(r, &one) != 0)
			return (-1);
		if (one.exact && lits_product(&word.all, &one.all, &all)) {
			word.all = all;
			word.min = sum(word.min, one.min);
			word.max = sum(word.max, one.max);
			continue;
		}
		join(ret, &word);
		info_empty(&word);
		if (one.exact)
			word = one;
		else
			join(ret, &one);
	}
	join(ret, &word);
	return (0);
}

static int
read_choice(struct reader *r, struct info *ret)
{
	struct info other;

	if (read_sequence(r, ret) != 0)
		return (-1);
	while (take(r, "|")) {
		if (emit(r, "|") != 0 || read_sequence(r, &other) != 0)
			return (-1);
		either(ret, &other);
	}
	return (0);
}

/* --- the whole ------------------------------------------------------------------- */

static int
compile(struct re *re, const struct sbx_buf *text, char *reason)
{
	pcre2_compile_context *c = pcre2_compile_context_create(NULL);
	char why[SCAN_REASON / 2];
	PCRE2_SIZE where;
	int error;

	if (c == NULL)
		return (snprintf(reason, SCAN_REASON, "no memory"), -1);
	(void)pcre2_set_newline(c, PCRE2_NEWLINE_LF);
	re->code = pcre2_compile((PCRE2_SPTR)(text->data != NULL ? text->data :
	    ""), text->len, PCRE2_DOLLAR_ENDONLY | PCRE2_DOTALL |
	    PCRE2_NEVER_BACKSLASH_C | PCRE2_NEVER_UCP | PCRE2_NEVER_UTF |
	    PCRE2_USE_OFFSET_LIMIT, &error, &where, c);
	pcre2_compile_context_free(c);
	if (re->code != NULL)
		return (0);
	(void)pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof(why));
	(void)snprintf(reason, SCAN_REASON, "the expression: %s", why);
	return (-1);
}

int
re_compile(struct re *re, const char *text, char *reason)
{
	struct reader r = { .p = text, .end = text + strlen(text),
		.start = text, .reason = reason };
	struct info *all = sbx_xcalloc(1, sizeof(*all));
	int bad;

	memset(re, 0, sizeof(*re));
	sbx_buf_init(&r.out, RE_MAX_OUT);
	bad = read_choice(&r, all);
	if (bad == 0 && r.p < r.end)
		bad = fail(&r, "a ) without its (");
	if (bad == 0)
		bad = compile(re, &r.out, reason);
	settle(all);
	re->groups = r.groups;
	re->min = all->min;
	re->max = all->max;
	if (all->words.n > 0 && worth(&all->words, all->pre_min,
	    all->pre_max) >= 0)
		re->words = all->words;
	re->pre_min = all->pre_min;
	re->pre_max = all->pre_max;
	sbx_buf_clear(&r.out);
	free(all);
	return (bad);
}

void
re_free(struct re *re)
{
	pcre2_code_free(re->code);
	re->code = NULL;
}
