/*
 * .gitattributes of a base, as git reads them on a file's way in
 * (gitattributes(5)): the last line of a file that says something of an attribute
 * counts, the nearest file comes first, macros are those of the root.
 */
#include "sbxd/judge/match.h"
#include "sbxd/judge/publish.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LINE_BYTES 2048		/* git ignores what is longer; older ones cut it */
#define MAX_RULES 65536
#define MAX_ITEMS 1024		/* of one line */
#define BLANK " \t\r"

enum { TEXT, CRLF, EOL, IDENT, FILTER, ENCODING, BINARY, DIFF, MERGE, KNOWN };
enum value { UNKNOWN, UNSET, FALSE, TRUE, STRING };
struct item {
	uint16_t attr;
	uint8_t value;
	char *text;		/* of STRING; owned */
};
struct rule {
	struct item *v;		/* owned */
	size_t n;
	bool whole;		/* with its directories, below its file's */
	char *literal;		/* owned: what goes before the first wildcard */
	struct pattern rest;
};
struct attr_file {
	char *dir;		/* owned: "" or with its slash */
	struct rule *v;		/* owned */
	size_t n, size, bytes;
};
struct state {
	uint8_t value;
	const char *text;
};
struct attr_set {
	char *names[ATTR_NAMES];	/* owned */
	size_t nnames;
	struct rule *macros[ATTR_NAMES]; /* owned */
	struct attr_file files[JUDGE_MAX_DEPTH + 1];
	size_t nfiles, bytes, rules;
	uint64_t steps;
	struct state found[ATTR_NAMES];
};

static void
rule_clear(struct rule *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->v[i].text);
	free(r->v);
	free(r->literal);
	pattern_clear(&r->rest);
	*r = (struct rule){ 0 };
}

static void
file_clear(struct attr_file *f)
{
	for (size_t i = 0; i < f->n; i++)
		rule_clear(&f->v[i]);
	free(f->v);
	free(f->dir);
	*f = (struct attr_file){ 0 };
}

/* --- reading ------------------------------------------------------------------- */

static bool
name_good(const char *p, size_t n)
{
	if (n == 0 || p[0] == '-')
		return (false);
	for (size_t i = 0; i < n; i++)
		if (!((p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' &&
		    p[i] <= 'Z') || (p[i] >= '0' && p[i] <= '9') ||
		    p[i] == '-' || p[i] == '_' || p[i] == '.'))
			return (false);
	return (true);
}

/* Its number; ATTR_NAMES: there is no room. */
static size_t
name_find(struct attr_set *s, const char *p, size_t n)
{
	for (size_t i = 0; i < s->nnames; i++)
		if (strlen(s->names[i]) == n &&
		    memcmp(s->names[i], p, n) == 0)
			return (i);
	if (s->nnames == ATTR_NAMES)
		return (ATTR_NAMES);
	s->names[s->nnames] = sbx_xasprintf("%.*s", (int)n, p);
	return (s->nnames++);
}

static int
refuse(char ret_reason[128], const char *why)
{
	(void)snprintf(ret_reason, 128, "%s", why);
	return (-1);
}

/* 0: added; 1: git would not read this line; -1: refused. */
static int
add_item(struct attr_set *s, struct rule *r, const char *p, size_t n,
    char ret_reason[128])
{
	const char *equals = memchr(p, '=', n);
	size_t len = equals != NULL ? (size_t)(equals - p) : n, attr;
	struct item it = { .value = p[0] == '-' ? FALSE : p[0] == '!' ? UNSET :
	    equals != NULL ? STRING : TRUE };

	if (it.value == FALSE || it.value == UNSET) {
		p++;
		len--;
	}
	if (!name_good(p, len))
		return (1);
	if (len >= 8 && strncmp(p, "builtin_", 8) == 0)
		return (refuse(ret_reason, "an attribute that git keeps for "
		    "itself in it"));
	attr = name_find(s, p, len);
	if (attr == ATTR_NAMES || r->n == MAX_ITEMS)
		return (refuse(ret_reason, "more attributes than are read"));
	if (it.value == STRING)
		it.text = sbx_xasprintf("%.*s", (int)(n - len - 1),
		    equals + 1);
	it.attr = (uint16_t)attr;
	r->v = sbx_xreallocarray(r->v, r->n + 1, sizeof(*r->v));
	r->v[r->n++] = it;
	return (0);
}

static int
add_items(struct attr_set *s, struct rule *r, const char *p,
    char ret_reason[128])
{
	size_t n;
	int k;

	for (p += strspn(p, BLANK); *p != '\0'; p += n, p += strspn(p, BLANK)) {
		n = strcspn(p, BLANK);
		if ((k = add_item(s, r, p, n, ret_reason)) != 0)
			return (k);
	}
	return (0);
}

/* A name in quotes as git's quote.c writes them; NULL: it is none.  Otherwise
 * behind it. */
static const char *
unquote(const char *p, char *out)
{
	static const char from[] = "abfnrtv\\\"", to[] = "\a\b\f\n\r\t\v\\\"";
	const char *known;

	for (p++; *p != '"'; p++) {
		if (*p == '\0')
			return (NULL);
		if (*p != '\\') {
			*out++ = *p;
			continue;
		}
		p++;
		if (*p >= '0' && *p <= '3') {
			if (p[1] < '0' || p[1] > '7' || p[2] < '0' ||
			    p[2] > '7')
				return (NULL);
			*out++ = (char)((p[0] - '0') << 6 | (p[1] - '0') << 3 |
			    (p[2] - '0'));
			p += 2;
			continue;
		}
		known = *p == '\0' ? NULL : strchr(from, *p);
		if (known == NULL)
			return (NULL);
		*out++ = to[known - from];
	}
	*out = '\0';
	return (p + 1);
}

/* false: a pattern of directories, or a negative one: no file's. */
static bool
rule_pattern(struct rule *r, const char *p)
{
	size_t n = strlen(p), k;

	if (p[0] == '!' || (n > 0 && p[n - 1] == '/'))
		return (false);
	r->whole = strchr(p, '/') != NULL;
	p += r->whole && p[0] == '/';
	/* git compares this part, and begins anew behind it */
	k = strcspn(p, "*?[\\");
	r->literal = sbx_xasprintf("%.*s", (int)k, p);
	pattern_make(&r->rest, p + k);
	return (true);
}

/* items: what the macro stands for. */
static int
add_macro(struct attr_set *s, const char *name, const char *items,
    char ret_reason[128])
{
	struct rule r = { 0 };
	size_t n, attr;
	int k;

	name += strspn(name, BLANK);
	n = strcspn(name, BLANK);
	if (!name_good(name, n))
		return (0);
	attr = name_find(s, name, n);
	if (attr == ATTR_NAMES)
		return (refuse(ret_reason, "more attributes than are read"));
	k = add_items(s, &r, items, ret_reason);
	if (k != 0) {
		rule_clear(&r);
		return (k < 0 ? -1 : 0);
	}
	if (s->macros[attr] == NULL)
		s->macros[attr] = sbx_xcalloc(1, sizeof(r));
	rule_clear(s->macros[attr]);
	*s->macros[attr] = r;
	return (0);
}

static int
add_line(struct attr_set *s, struct attr_file *f, const char *line,
    char ret_reason[128])
{
	static const char macro[] = "[attr]";
	const char *p = line + strspn(line, BLANK), *rest = NULL;
	char name[LINE_BYTES];
	struct rule r = { 0 };
	size_t n = strcspn(p, BLANK);
	int k;

	if (*p == '\0' || *p == '#')
		return (0);
	if (*p == '"')
		rest = unquote(p, name);
	if (rest == NULL) {
		memcpy(name, p, n);
		name[n] = '\0';
		rest = p + n;
	}
	/* also one in quotes, as git has it */
	if (strlen(name) > sizeof(macro) - 1 && strncmp(name, macro,
	    sizeof(macro) - 1) == 0)
		return (f->dir[0] != '\0' ? 0 : add_macro(s, name +
		    sizeof(macro) - 1, rest, ret_reason));
	k = add_items(s, &r, rest, ret_reason);
	if (k == 0 && rule_pattern(&r, name)) {
		if (++s->rules > MAX_RULES)
			k = refuse(ret_reason, "more lines than are read");
		if (f->n == f->size) {
			f->size = f->size == 0 ? 16 : 2 * f->size;
			f->v = sbx_xreallocarray(f->v, f->size,
			    sizeof(*f->v));
		}
		f->v[f->n++] = r;
		return (k);
	}
	rule_clear(&r);
	return (k < 0 ? -1 : 0);
}

static int
add_lines(struct attr_set *s, struct attr_file *f, const char *p,
    size_t left, char ret_reason[128])
{
	char line[LINE_BYTES];
	const char *nl;
	size_t n;

	if (memchr(p, '\0', left) != NULL)
		return (refuse(ret_reason, "a byte of zero in it"));
	if (left >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) {
		p += 3;
		left -= 3;
	}
	for (; left > 0; p += n, left -= n) {
		nl = memchr(p, '\n', left);
		n = nl != NULL ? (size_t)(nl - p) : left;
		if (n >= sizeof(line))
			return (refuse(ret_reason, "a line of more than 2047 "
			    "bytes in it"));
		memcpy(line, p, n);
		line[n] = '\0';
		n += nl != NULL;
		if (add_line(s, f, line, ret_reason) != 0)
			return (-1);
	}
	return (0);
}

int
attr_push(struct attr_set *s, const char *dir, size_t ndir, const char *text,
    size_t n, char ret_reason[128])
{
	struct attr_file *f = &s->files[s->nfiles];

	if (s->nfiles == SBX_NELEM(s->files) || n > ATTR_FILE_BYTES ||
	    n > ATTR_ALL_BYTES - s->bytes)
		return (refuse(ret_reason, "more of it than is read"));
	s->nfiles++;
	s->bytes += n;
	*f = (struct attr_file){ .dir = sbx_xasprintf("%.*s", (int)ndir, dir),
		.bytes = n };
	return (add_lines(s, f, text, n, ret_reason));
}

void
attr_pop(struct attr_set *s)
{
	struct attr_file *f = &s->files[--s->nfiles];

	s->bytes -= f->bytes;
	s->rules -= f->n;
	file_clear(f);
}

struct attr_set *
attr_new(void)
{
	static const char *const known[KNOWN] = { [TEXT] = "text",
		[CRLF] = "crlf", [EOL] = "eol", [IDENT] = "ident",
		[FILTER] = "filter", [ENCODING] = "working-tree-encoding",
		[BINARY] = "binary", [DIFF] = "diff", [MERGE] = "merge" };
	struct attr_set *s = sbx_xcalloc(1, sizeof(*s));
	char reason[128];

	for (int i = 0; i < KNOWN; i++)
		(void)name_find(s, known[i], strlen(known[i]));
	(void)add_macro(s, "binary", "-diff -merge -text", reason);
	return (s);
}

void
attr_free(struct attr_set *s)
{
	if (s == NULL)
		return;
	while (s->nfiles > 0)
		attr_pop(s);
	for (size_t i = 0; i < s->nnames; i++) {
		if (s->macros[i] != NULL)
			rule_clear(s->macros[i]);
		free(s->macros[i]);
		free(s->names[i]);
	}
	free(s);
}

/* --- asking --------------------------------------------------------------------- */

/* What was said first, from behind, stays; a macro speaks at once. */
static void
apply(struct attr_set *s, const struct rule *r)
{
	s->steps += r->n;
	for (size_t i = r->n; i-- > 0;) {
		const struct item *it = &r->v[i];
		struct state *st = &s->found[it->attr];

		if (st->value != UNKNOWN)
			continue;
		st->value = it->value;
		st->text = it->text;
		if (it->value == TRUE && s->macros[it->attr] != NULL)
			apply(s, s->macros[it->attr]);
	}
}

static bool
matches(struct attr_set *s, const struct attr_file *f, const struct rule *r,
    const char *path)
{
	const char *slash = strrchr(path, '/'), *p = path + strlen(f->dir);
	size_t n = strlen(r->literal);

	if (!r->whole)
		p = slash != NULL ? slash + 1 : path;
	s->steps += n + 1;
	return (strncmp(p, r->literal, n) == 0 &&
	    pattern_match(&r->rest, p + n, &s->steps));
}

static bool
is_text(const struct state *st, const char *text)
{
	return (st->value == STRING && strcmp(st->text, text) == 0);
}

/* text, else the older crlf: what it says of line ends, -1: nothing. */
static int
eol_of(const struct state *st)
{
	return (st->value == TRUE || is_text(st, "input") ? EOL_TEXT :
	    st->value == FALSE ? EOL_NONE : is_text(st, "auto") ? EOL_AUTO :
	    -1);
}

static void
decide(const struct state *found, struct attrs *ret)
{
	const struct state *enc = &found[ENCODING];
	int eol = eol_of(&found[TEXT]);
	bool ends = is_text(&found[EOL], "lf") || is_text(&found[EOL], "crlf");

	*ret = (struct attrs){ .ident = found[IDENT].value == TRUE };
	if (eol < 0)
		eol = eol_of(&found[CRLF]);
	if (eol < 0)
		eol = ends ? EOL_TEXT : EOL_NONE;
	ret->eol = (enum eol_rule)eol;
	if (found[FILTER].value == STRING)
		(void)snprintf(ret->refused, sizeof(ret->refused),
		    "filter=%.30s", found[FILTER].text);
	else if (enc->value == TRUE || enc->value == FALSE)
		(void)snprintf(ret->refused, sizeof(ret->refused),
		    "working-tree-encoding");
	else if (enc->value == STRING && enc->text[0] != '\0' &&
	    strcasecmp(enc->text, "utf-8") != 0 &&
	    strcasecmp(enc->text, "utf8") != 0)
		(void)snprintf(ret->refused, sizeof(ret->refused),
		    "working-tree-encoding=%.20s", enc->text);
}

int
attr_lookup(struct attr_set *s, const char *path, struct attrs *ret)
{
	memset(s->found, 0, sizeof(s->found));
	for (size_t i = s->nfiles; i-- > 0;)
		for (size_t k = s->files[i].n; k-- > 0;) {
			if (matches(s, &s->files[i], &s->files[i].v[k], path))
				apply(s, &s->files[i].v[k]);
			if (s->steps > ATTR_STEPS)
				return (-1);
		}
	decide(s->found, ret);
	return (0);
}
