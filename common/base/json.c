#include "common/base/json.h"

#include <string.h>

/*
 * The scan is a loop over a small state machine; open containers are frames
 * on a stack of max_depth entries, so hostile nesting costs no C stack.
 */

enum scan_state {
	SCAN_VALUE,		/* a value must come */
	SCAN_VALUE_OR_END,	/* after '[' */
	SCAN_NAME,		/* after ',' in an object */
	SCAN_NAME_OR_END,	/* after '{' */
	SCAN_COLON,
	SCAN_AFTER,		/* a value is complete */
};

/* A member name of an open object, as it stands in the text. */
struct name {
	uint64_t hash;
	size_t offset;		/* behind the opening quote */
	uint32_t len;		/* raw bytes; a text is below 4 GiB */
};

/* An open container. */
struct frame {
	bool object;
	size_t first;		/* its first entry in scan.names */
	uint32_t *index;	/* hash index of its names, or NULL while few */
	size_t index_size;	/* a power of two */
};

struct scan {
	const unsigned char *text;
	size_t len, at;
	struct frame *frames;
	unsigned depth, max_depth, frames_size;
	struct name *names;	/* of all open objects, outermost first */
	size_t nnames, names_size;
	uint64_t key, mix;	/* random: names are the sender's choice */
	bool refused;
	struct sbx_json_where *where;
};

/* Up to here names are compared one by one; beyond, through an index. */
#define FEW_NAMES 16
/* Deeper than this nothing is looked at, not even whether it is JSON. */
#define DEPTH_SEEN 4096u
#define HASH_PRIME ((UINT64_C(1) << 61) - 1)

static const char *const fault_texts[SBX_JSON_MAX] = {
	[SBX_JSON_OK] = "valid JSON",
	[SBX_JSON_SYNTAX] = "not valid JSON",
	[SBX_JSON_DEPTH] = "JSON is nested too deeply",
	[SBX_JSON_DUPLICATE] = "a member name is given twice in one object",
	[SBX_JSON_NUMBER] = "a number does not fit",
	[SBX_JSON_SIZE] = "JSON text is too long",
};

const char *
sbx_json_fault_text(enum sbx_json_fault fault)
{
	if ((unsigned)fault >= SBX_JSON_MAX)
		return ("unknown fault");
	return (fault_texts[fault]);
}

/* Source: RFC 3629, section 4 (the table of well-formed sequences). */
unsigned
sbx_utf8_len(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;
	unsigned char low = 0x80, high = 0xbf;
	unsigned n, i;

	if (len == 0)
		return (0);
	if (p[0] < 0x80)
		return (1);
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return (0);
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (len < n)
		return (0);
	/* overlong forms, surrogates and > U+10FFFF show in the second byte */
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (p[1] < low || p[1] > high)
		return (0);
	for (i = 2; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return (0);
	return (n);
}

uint32_t
sbx_utf8_point(const char *s, unsigned n)
{
	const unsigned char *p = (const unsigned char *)s;

	switch (n) {
	case 1:
		return (p[0]);
	case 2:
		return ((uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f));
	case 3:
		return ((uint32_t)(p[0] & 0x0f) << 12 |
		    (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f));
	default:
		return ((uint32_t)(p[0] & 0x07) << 18 |
		    (uint32_t)(p[1] & 0x3f) << 12 |
		    (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f));
	}
}

/* The first one is told.  true: this is it. */
static bool
note_fault(struct scan *s, enum sbx_json_fault fault, size_t offset)
{
	if (s->where->fault != SBX_JSON_OK)
		return (false);
	s->where->fault = fault;
	s->where->offset = offset;
	return (true);
}

static int
scan_fault(struct scan *s, enum sbx_json_fault fault, size_t offset)
{
	(void)note_fault(s, fault, offset);
	return (SBX_E_SYNTAX);
}

/* It is JSON, and refused: what follows is looked at, so that one who asks can
 * be told, by a name that is in it. */
static bool
scan_refuse(struct scan *s, enum sbx_json_fault fault, size_t offset)
{
	s->refused = true;
	return (note_fault(s, fault, offset));
}

static bool
is_digit(unsigned char c)
{
	return (c >= '0' && c <= '9');
}

/* -1 when c is no hex digit. */
static int
hex_value(unsigned char c)
{
	if (is_digit(c))
		return (c - '0');
	c |= 0x20;
	return (c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1);
}

/* Four hex digits at p, or -1; *ret_bad: how many were good. */
static int
hex4(const unsigned char *p, size_t len, size_t *ret_bad)
{
	int v = 0, d;
	size_t i;

	for (i = 0; i < 4; i++) {
		*ret_bad = i;
		if (i == len || (d = hex_value(p[i])) < 0)
			return (-1);
		v = v << 4 | d;
	}
	return (v);
}

/* Check the escape whose backslash is at s->at and step over it. */
static int
scan_escape(struct scan *s)
{
	const unsigned char *p = s->text;
	size_t start = s->at, bad;
	int unit;

	if (start + 1 == s->len)
		return (scan_fault(s, SBX_JSON_SYNTAX, s->len));
	if (p[start + 1] != 'u') {
		if (memchr("\"\\/bfnrt", p[start + 1], 8) == NULL)
			return (scan_fault(s, SBX_JSON_SYNTAX, start + 1));
		s->at += 2;
		return (0);
	}
	unit = hex4(p + start + 2, s->len - start - 2, &bad);
	if (unit < 0)
		return (scan_fault(s, SBX_JSON_SYNTAX, start + 2 + bad));
	s->at += 6;
	if (unit < 0xd800 || unit > 0xdfff)
		return (0);
	/* half a pair has no meaning: two parsers could read it differently */
	if (unit > 0xdbff || s->len - s->at < 6 || p[s->at] != '\\' ||
	    p[s->at + 1] != 'u')
		return (scan_fault(s, SBX_JSON_SYNTAX, start));
	unit = hex4(p + s->at + 2, 4, &bad);
	if (unit < 0xdc00 || unit > 0xdfff)
		return (scan_fault(s, SBX_JSON_SYNTAX, start));
	s->at += 6;
	return (0);
}

/* A string; s->at is behind its opening quote, afterwards behind the last. */
static int
scan_string(struct scan *s, size_t *ret_len)
{
	size_t start = s->at;
	unsigned char c;
	unsigned n;
	int r;

	for (;;) {
		if (s->at == s->len)
			return (scan_fault(s, SBX_JSON_SYNTAX, s->len));
		c = s->text[s->at];
		if (c == '"')
			break;
		if (c == '\\') {
			r = scan_escape(s);
			if (r < 0)
				return (r);
			continue;
		}
		if (c >= 0x20 && c < 0x80) {
			s->at++;
			continue;
		}
		n = c < 0x20 ? 0 :
		    sbx_utf8_len((const char *)s->text + s->at, s->len - s->at);
		if (n == 0)
			return (scan_fault(s, SBX_JSON_SYNTAX, s->at));
		s->at += n;
	}
	*ret_len = s->at - start;
	s->at++;
	return (0);
}

/* The next code point of a checked string at *at, which moves on. */
static uint32_t
next_point(const unsigned char *p, size_t *at)
{
	uint32_t v, w;
	unsigned n;
	size_t bad;

	if (p[*at] != '\\') {
		n = sbx_utf8_len((const char *)p + *at, 4);
		v = sbx_utf8_point((const char *)p + *at, n);
		*at += n;
		return (v);
	}
	*at += 2;
	switch (p[*at - 1]) {
	case 'b':
		return ('\b');
	case 'f':
		return ('\f');
	case 'n':
		return ('\n');
	case 'r':
		return ('\r');
	case 't':
		return ('\t');
	case 'u':
		break;
	default:
		return (p[*at - 1]);
	}
	v = (uint32_t)hex4(p + *at, 4, &bad);
	*at += 4;
	if (v < 0xd800 || v > 0xdfff)
		return (v);
	w = (uint32_t)hex4(p + *at + 2, 4, &bad);
	*at += 6;
	return (0x10000 + ((v - 0xd800) << 10) + (w - 0xdc00));
}

/*
 * Polynomial over the code points with a random key, modulo 2^61 - 1: names
 * made to collide without knowing the key do not, whatever their number.
 */
static uint64_t
name_hash(const struct scan *s, size_t at, size_t end, bool *ret_nul)
{
	unsigned __int128 m;
	uint64_t h = 1;
	uint32_t point;

	*ret_nul = false;
	while (at < end) {
		point = next_point(s->text, &at);
		*ret_nul |= point == 0;
		m = (unsigned __int128)h * s->key + point + 1;
		h = (uint64_t)(m & HASH_PRIME) + (uint64_t)(m >> 61);
		if (h >= HASH_PRIME)
			h -= HASH_PRIME;
	}
	h *= s->mix;
	return (h ^ h >> 32);
}

/* "a" and "\u0061" are one name. */
static bool
same_name(const struct scan *s, const struct name *a, const struct name *b)
{
	size_t i = a->offset, iend = a->offset + a->len;
	size_t j = b->offset, jend = b->offset + b->len;

	if (a->hash != b->hash)
		return (false);
	while (i < iend && j < jend)
		if (next_point(s->text, &i) != next_point(s->text, &j))
			return (false);
	return (i == iend && j == jend);
}

/* The index slot of n: its equal's, or the empty one where it belongs. */
static uint32_t *
index_slot(const struct scan *s, const struct frame *f, const struct name *n)
{
	size_t i = n->hash & (f->index_size - 1);

	while (f->index[i] != 0 &&
	    !same_name(s, &s->names[f->first + f->index[i] - 1], n))
		i = (i + 1) & (f->index_size - 1);
	return (&f->index[i]);
}

/* (Re)build the index of f with room for twice its names. */
static void
index_build(struct scan *s, struct frame *f)
{
	size_t i, count = s->nnames - f->first;

	free(f->index);
	f->index_size = 4 * FEW_NAMES;
	while (f->index_size < 4 * count)
		f->index_size *= 2;
	f->index = sbx_xcalloc(f->index_size, sizeof(*f->index));
	for (i = 0; i < count; i++)
		*index_slot(s, f, &s->names[f->first + i]) = (uint32_t)i + 1;
}

static bool
name_known(struct scan *s, struct frame *f, const struct name *n)
{
	size_t i, count = s->nnames - f->first;
	uint32_t *slot;

	if (count < FEW_NAMES) {
		for (i = f->first; i < s->nnames; i++)
			if (same_name(s, &s->names[i], n))
				return (true);
		return (false);
	}
	if (2 * (count + 1) > f->index_size)
		index_build(s, f);
	slot = index_slot(s, f, n);
	if (*slot != 0)
		return (true);
	*slot = (uint32_t)count + 1;
	return (false);
}

/* A member name; s->at is behind its opening quote. */
static int
scan_name(struct scan *s)
{
	struct frame *f = &s->frames[s->depth - 1];
	struct name n = { .offset = s->at };
	size_t len;
	bool nul;
	int r;

	r = scan_string(s, &len);
	if (r < 0)
		return (r);
	n.len = (uint32_t)len;
	n.hash = name_hash(s, n.offset, n.offset + len, &nul);
	/* C libraries would cut the name there and see another one */
	if (nul)
		return (scan_fault(s, SBX_JSON_SYNTAX, n.offset));
	if (name_known(s, f, &n)) {
		if (scan_refuse(s, SBX_JSON_DUPLICATE, n.offset))
			(void)sbx_vis(s->where->name, sizeof(s->where->name),
			    (const char *)s->text + n.offset, len);
		return (0);
	}
	if (s->nnames == s->names_size) {
		s->names_size = s->names_size == 0 ? 64 : 2 * s->names_size;
		s->names = sbx_xreallocarray(s->names, s->names_size,
		    sizeof(*s->names));
	}
	s->names[s->nnames++] = n;
	return (0);
}

static size_t
skip_digits(const struct scan *s, size_t at)
{
	while (at < s->len && is_digit(s->text[at]))
		at++;
	return (at);
}

/*
 * Does an integer of n digits at p fit in int64?  The lower bound is one
 * larger in magnitude than the upper one.
 */
static bool
integer_fits(const unsigned char *p, size_t n, bool negative)
{
	const char *most = negative ? "9223372036854775808" :
	    "9223372036854775807";

	return (n < 19 || (n == 19 && memcmp(p, most, 19) <= 0));
}

/*
 * Does a number with fraction or exponent round to a finite double?  text
 * from..end is its digits with at most one point; exponent as written.
 * Numbers from 2^1024 - 2^970 on round to infinity: 1.7976931348623158079...
 * e308.  Twenty digits are compared; what lies between is refused.
 */
static bool
double_fits(const struct scan *s, size_t from, size_t end, int64_t exponent)
{
	static const char most[] = "17976931348623158079";
	int64_t scale = -1;	/* power of ten of the first digit */
	size_t i, digits = 0;
	bool point = false;
	int order = 0;

	for (i = from; i < end; i++) {
		if (s->text[i] == '.') {
			point = true;
			continue;
		}
		if (digits == 0 && s->text[i] == '0') {
			scale -= point;
			continue;
		}
		if (order == 0 && digits < sizeof(most) - 1)
			order = s->text[i] - most[digits];
		digits++;
		scale += !point;
	}
	if (digits == 0)
		return (true);	/* zero, whatever the exponent */
	exponent += scale;
	return (exponent < 308 || (exponent == 308 &&
	    (order < 0 || (order == 0 && digits < sizeof(most) - 1))));
}

static int
scan_number(struct scan *s)
{
	size_t start = s->at, digits, end, i;
	bool negative, minus = false;
	int64_t exponent = 0;
	bool real = false;

	negative = s->text[s->at] == '-';
	digits = start + negative;
	end = skip_digits(s, digits);
	if (end == digits)
		return (scan_fault(s, SBX_JSON_SYNTAX, end));
	if (s->text[digits] == '0' && end > digits + 1)
		return (scan_fault(s, SBX_JSON_SYNTAX, digits + 1));
	s->at = end;
	if (s->at < s->len && s->text[s->at] == '.') {
		real = true;
		end = skip_digits(s, s->at + 1);
		if (end == s->at + 1)
			return (scan_fault(s, SBX_JSON_SYNTAX, end));
		s->at = end;
	}
	if (s->at < s->len && (s->text[s->at] | 0x20) == 'e') {
		real = true;
		i = s->at + 1;
		if (i < s->len && (s->text[i] == '+' || s->text[i] == '-'))
			minus = s->text[i++] == '-';
		s->at = skip_digits(s, i);
		if (s->at == i)
			return (scan_fault(s, SBX_JSON_SYNTAX, i));
		/* far beyond any count of digits, far below overflow */
		for (; i < s->at; i++)
			if (exponent < INT64_C(1000000000000))
				exponent = exponent * 10 + s->text[i] - '0';
	}
	if (real ? !double_fits(s, digits, end, minus ? -exponent : exponent) :
	    !integer_fits(s->text + digits, end - digits, negative))
		(void)scan_refuse(s, SBX_JSON_NUMBER, start);
	return (0);
}

static int
scan_word(struct scan *s)
{
	static const char *const words[] = { "true", "false", "null" };
	size_t i, n;

	for (i = 0; i < SBX_NELEM(words); i++) {
		if (words[i][0] != s->text[s->at])
			continue;
		for (n = 0; words[i][n] != '\0'; n++)
			if (s->at + n == s->len ||
			    s->text[s->at + n] != (unsigned char)words[i][n])
				return (scan_fault(s, SBX_JSON_SYNTAX,
				    s->at + n));
		s->at += n;
		return (0);
	}
	return (scan_fault(s, SBX_JSON_SYNTAX, s->at));
}

static int
scan_open(struct scan *s, bool object)
{
	if (s->depth >= s->max_depth)
		(void)scan_refuse(s, SBX_JSON_DEPTH, s->at);
	if (s->depth >= s->max_depth && s->depth >= DEPTH_SEEN)
		return (SBX_E_SYNTAX);
	if (s->depth == s->frames_size) {
		s->frames_size = s->frames_size == 0 ? 16 : 2 * s->frames_size;
		s->frames = sbx_xreallocarray(s->frames, s->frames_size,
		    sizeof(*s->frames));
	}
	s->frames[s->depth++] = (struct frame){
		.object = object, .first = s->nnames
	};
	s->at++;
	return (0);
}

static void
scan_close(struct scan *s)
{
	struct frame *f = &s->frames[--s->depth];

	free(f->index);
	s->nnames = f->first;
	s->at++;
}

/* A value begins at s->at.  Returns the next state, or a negative error. */
static int
scan_value(struct scan *s)
{
	unsigned char c = s->text[s->at];
	size_t len;
	int r;

	switch (c) {
	case '{':
		r = scan_open(s, true);
		return (r < 0 ? r : SCAN_NAME_OR_END);
	case '[':
		r = scan_open(s, false);
		return (r < 0 ? r : SCAN_VALUE_OR_END);
	case '"':
		s->at++;
		r = scan_string(s, &len);
		break;
	default:
		r = c == '-' || is_digit(c) ? scan_number(s) : scan_word(s);
		break;
	}
	return (r < 0 ? r : SCAN_AFTER);
}

/* A byte that is not white space, in `state`.  The next state or an error. */
static int
scan_step(struct scan *s, enum scan_state state)
{
	unsigned char c = s->text[s->at];
	bool object;
	int r;

	switch (state) {
	case SCAN_VALUE_OR_END:
	case SCAN_NAME_OR_END:
		if (c == (state == SCAN_NAME_OR_END ? '}' : ']')) {
			scan_close(s);
			return (SCAN_AFTER);
		}
		return (scan_step(s, state == SCAN_NAME_OR_END ? SCAN_NAME :
		    SCAN_VALUE));
	case SCAN_VALUE:
		return (scan_value(s));
	case SCAN_NAME:
		if (c != '"')
			break;
		s->at++;
		r = scan_name(s);
		return (r < 0 ? r : SCAN_COLON);
	case SCAN_COLON:
		if (c != ':')
			break;
		s->at++;
		return (SCAN_VALUE);
	case SCAN_AFTER:
		if (s->depth == 0)
			break;
		object = s->frames[s->depth - 1].object;
		if (c == ',') {
			s->at++;
			return (object ? SCAN_NAME : SCAN_VALUE);
		}
		if (c != (object ? '}' : ']'))
			break;
		scan_close(s);
		return (SCAN_AFTER);
	}
	return (scan_fault(s, SBX_JSON_SYNTAX, s->at));
}

static int
scan_run(struct scan *s)
{
	int state = SCAN_VALUE;
	unsigned char c;

	while (s->at < s->len) {
		c = s->text[s->at];
		if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
			s->at++;
			continue;
		}
		state = scan_step(s, (enum scan_state)state);
		if (state < 0)
			return (state);
	}
	if (state != SCAN_AFTER || s->depth > 0)
		return (scan_fault(s, SBX_JSON_SYNTAX, s->len));
	return (0);
}

int
sbx_json_scan(const char *text, size_t len, size_t max_bytes,
    unsigned max_depth, struct sbx_json_where *ret_where)
{
	struct sbx_json_where unused;
	struct scan s = {
		.text = (const unsigned char *)text, .len = len,
		.max_depth = max_depth,
		.where = ret_where == NULL ? &unused : ret_where,
	};
	uint64_t seed[2];
	int r;

	memset(s.where, 0, sizeof(*s.where));
	if (len > max_bytes || len >= UINT32_MAX)
		return (scan_fault(&s, SBX_JSON_SIZE,
		    len > max_bytes ? max_bytes : UINT32_MAX));
	sbx_random(seed, sizeof(seed));
	s.key = seed[0] % (HASH_PRIME - 2) + 2;
	s.mix = seed[1] | 1;
	r = scan_run(&s);
	s.where->well_formed = r == 0;
	while (s.depth > 0)
		scan_close(&s);
	free(s.frames);
	free(s.names);
	return (s.refused ? SBX_E_SYNTAX : r);
}

/* Source: Unicode 15, Default_Ignorable_Code_Point, general categories Cc and
 * Cf, and the blank of Braille. */
bool
sbx_is_invisible(uint32_t point)
{
	static const uint32_t ranges[][2] = {
		{ 0x00, 0x1f }, { 0x7f, 0x9f }, { 0xad, 0xad },
		{ 0x34f, 0x34f }, { 0x600, 0x605 }, { 0x61c, 0x61c },
		{ 0x6dd, 0x6dd }, { 0x70f, 0x70f }, { 0x890, 0x891 },
		{ 0x8e2, 0x8e2 }, { 0x115f, 0x1160 }, { 0x17b4, 0x17b5 },
		{ 0x180b, 0x180f }, { 0x200b, 0x200f }, { 0x2028, 0x202e },
		{ 0x2060, 0x206f }, { 0x2800, 0x2800 }, { 0x3164, 0x3164 },
		{ 0xfe00, 0xfe0f }, { 0xfeff, 0xfeff }, { 0xffa0, 0xffa0 },
		{ 0xfff0, 0xfffb }, { 0x110bd, 0x110bd },
		{ 0x110cd, 0x110cd }, { 0x13430, 0x1343f },
		{ 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
		{ 0xe0000, 0xe0fff },
	};

	for (size_t i = 0; i < SBX_NELEM(ranges); i++)
		if (point >= ranges[i][0] && point <= ranges[i][1])
			return (true);
	return (false);
}

size_t
sbx_json_values(const char *text, size_t len)
{
	bool string = false;
	size_t n = 1;

	for (size_t i = 0; i < len; i++)
		if (text[i] == '"')
			string = !string;
		else if (string)
			i += text[i] == '\\';
		else
			n += text[i] == ',' || text[i] == '[' || text[i] == '{';
	return (n);
}

/*
 * Code points that could end a line or steer a terminal are written as
 * escapes, so that a reader with plain tools (tail, less) is safe as well.
 */
static bool
is_unsafe(uint32_t point)
{
	return (point < 0x20 || (point >= 0x7f && point <= 0x9f) ||
	    point == 0x061c || point == 0xfeff ||
	    (point >= 0x200b && point <= 0x200f) ||
	    (point >= 0x2028 && point <= 0x202e) ||
	    (point >= 0x2060 && point <= 0x2069));
}

/* ASCII that stands for itself: most bytes, so they are passed over first. */
static size_t
skip_plain(const unsigned char *p, size_t at, size_t len)
{
	while (at < len && p[at] >= 0x20 && p[at] < 0x7f && p[at] != '"' &&
	    p[at] != '\\')
		at++;
	return (at);
}

static int
add_escape(struct sbx_buf *b, uint32_t point)
{
	static const char hex[] = "0123456789abcdef";
	char e[6] = { '\\', 'u' };
	const char *shorts = "\bb\ff\nn\rr\tt\"\"\\\\";

	for (; *shorts != '\0'; shorts += 2)
		if ((uint32_t)*shorts == point)
			return (sbx_buf_add(b, (char[]){ '\\', shorts[1] }, 2));
	e[2] = hex[point >> 12 & 15];
	e[3] = hex[point >> 8 & 15];
	e[4] = hex[point >> 4 & 15];
	e[5] = hex[point & 15];
	return (sbx_buf_add(b, e, sizeof(e)));
}

int
sbx_json_str(struct sbx_buf *b, const char *s, size_t len,
    size_t *ret_replaced)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t at = 0, plain = 0, replaced = 0;
	uint32_t point;
	unsigned n;
	int r;

	r = sbx_buf_add(b, "\"", 1);
	while ((at = skip_plain(p, at, len)) < len && r == 0) {
		n = sbx_utf8_len(s + at, len - at);
		point = n == 0 ? 0xfffd : sbx_utf8_point(s + at, n);
		if (n != 0 && point != '"' && point != '\\' &&
		    !is_unsafe(point)) {
			at += n;
			continue;
		}
		if (at > plain)
			r = sbx_buf_add(b, s + plain, at - plain);
		if (r == 0)
			r = n == 0 ? sbx_buf_add(b, "\xef\xbf\xbd", 3) :
			    add_escape(b, point);
		replaced += n == 0;
		at += n == 0 ? 1 : n;
		plain = at;
	}
	if (r == 0 && at > plain)
		r = sbx_buf_add(b, s + plain, at - plain);
	if (r == 0)
		r = sbx_buf_add(b, "\"", 1);
	if (ret_replaced != NULL)
		*ret_replaced = replaced;
	return (r);
}
