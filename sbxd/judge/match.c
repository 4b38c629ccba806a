/*
 * Patterns as git matches them (gitignore(5), PATTERN FORMAT): a slash is only
 * matched by itself and by two asterisks that stand alone between slashes.  All
 * places in the pattern that the text may have come to are known at once, so no
 * pattern takes longer than its length times that of the text.
 */
#include "sbxd/judge/match.h"

#include <ctype.h>
#include <string.h>

enum kind {
	LITERAL, ANY, SET, STAR,
	STARS,			/* slashes, too */
	MAYBE,			/* the next two, STARS and a slash, or neither */
	NEVER
};
struct token {
	uint8_t kind, c;
	uint8_t *set;		/* 256 bits, owned */
};

static struct token *
push(struct pattern *p, enum kind kind, unsigned char c)
{
	p->v[p->n] = (struct token){ .kind = (uint8_t)kind, .c = c };
	return (&p->v[p->n++]);
}

static void
put(uint8_t *set, unsigned char c)
{
	set[c / 8] |= (uint8_t)(1u << c % 8);
}

static bool
in_class(const char *name, size_t n, unsigned char c)
{
	static const struct {
		const char *name;
		int (*is)(int);
	} rows[] = {
		{ "alnum", isalnum }, { "alpha", isalpha },
		{ "blank", isblank }, { "cntrl", iscntrl },
		{ "digit", isdigit }, { "graph", isgraph },
		{ "lower", islower }, { "print", isprint },
		{ "punct", ispunct }, { "space", isspace },
		{ "upper", isupper }, { "xdigit", isxdigit },
	};

	for (size_t i = 0; i < SBX_NELEM(rows); i++)
		if (strlen(rows[i].name) == n &&
		    memcmp(rows[i].name, name, n) == 0)
			return (c < 128 && rows[i].is(c) != 0);
	return (false);
}

/* "[:name:]" at s: what follows it; s: it is none; NULL: of an unknown name. */
static const char *
add_class(uint8_t *set, const char *s)
{
	const char *name = s + 2, *end = name + strcspn(name, "]");
	bool some = false;

	if (*end == '\0')
		return (NULL);
	if (end - name < 1 || end[-1] != ':')
		return (s);
	for (unsigned c = 0; c < 256; c++)
		if (in_class(name, (size_t)(end - 1 - name),
		    (unsigned char)c)) {
			put(set, (unsigned char)c);
			some = true;
		}
	return (some ? end + 1 : NULL);
}

/* From behind the bracket that opens to behind that which closes, or NULL. */
static const char *
add_set(uint8_t *set, const char *s)
{
	bool not = *s == '!' || *s == '^';
	unsigned char last = 0, c;
	const char *next;

	s += not;
	do {
		c = (unsigned char)*s;
		if (c == '[' && s[1] == ':') {
			if ((next = add_class(set, s)) == NULL)
				return (NULL);
			if (next != s) {
				s = next;
				last = 0;
				continue;
			}
		}
		if (c == '-' && last != 0 && s[1] != '\0' && s[1] != ']') {
			s += s[1] == '\\' ? 2 : 1;
			if (*s == '\0')
				return (NULL);
			for (unsigned k = last; k <= (unsigned char)*s; k++)
				put(set, (unsigned char)k);
			s++;
			last = 0;
			continue;
		}
		s += c == '\\';
		if (*s == '\0')
			return (NULL);
		last = (unsigned char)*s++;
		put(set, last);
	} while (*s != ']');
	for (int i = 0; not && i < 32; i++)
		set[i] = (uint8_t)~set[i];
	return (s + 1);
}

static const char *
add_stars(struct pattern *p, const char *whole, const char *s)
{
	const char *end = s + strspn(s, "*");

	if (end - s >= 2 && (s == whole || s[-1] == '/') && (*end == '\0' ||
	    *end == '/' || (end[0] == '\\' && end[1] == '/'))) {
		if (*end == '/')
			(void)push(p, MAYBE, 0);
		(void)push(p, STARS, 0);
	} else
		(void)push(p, STAR, 0);
	return (end);
}

void
pattern_make(struct pattern *p, const char *text)
{
	const char *s = text;

	*p = (struct pattern){ .v = sbx_xcalloc(strlen(text) + 1,
	    sizeof(*p->v)) };
	while (s != NULL && *s != '\0') {
		if (*s == '?') {
			(void)push(p, ANY, 0);
			s++;
		} else if (*s == '*')
			s = add_stars(p, text, s);
		else if (*s == '[') {
			struct token *t = push(p, SET, 0);

			t->set = sbx_xcalloc(32, 1);
			s = add_set(t->set, s + 1);
			if (s == NULL)
				t->kind = NEVER;
		} else if (*s == '\\' && s[1] == '\0') {
			(void)push(p, NEVER, 0);
			s++;
		} else {
			s += *s == '\\';
			(void)push(p, LITERAL, (unsigned char)*s++);
		}
	}
}

void
pattern_clear(struct pattern *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i].set);
	free(p->v);
	*p = (struct pattern){ 0 };
}

static bool
takes(const struct token *t, unsigned char c)
{
	switch (t->kind) {
	case LITERAL:
		return (t->c == c);
	case ANY:
		return (c != '/');
	case SET:
		return (c != '/' && (t->set[c / 8] >> c % 8 & 1) != 0);
	default:
		return (false);
	}
}

/* Asterisks match nothing, too. */
static void
pass_stars(const struct pattern *p, uint8_t *at)
{
	for (size_t i = 0; i < p->n; i++) {
		if (!at[i])
			continue;
		if (p->v[i].kind == STAR || p->v[i].kind == STARS ||
		    p->v[i].kind == MAYBE)
			at[i + 1] = 1;
		if (p->v[i].kind == MAYBE)
			at[i + 3] = 1;
	}
}

static bool
step(const struct pattern *p, const uint8_t *at, uint8_t *next,
    unsigned char c)
{
	bool some = false;

	memset(next, 0, p->n + 1);
	for (size_t i = 0; i < p->n; i++) {
		const struct token *t = &p->v[i];
		bool stays = t->kind == STARS || (t->kind == STAR &&
		    c != '/');

		if (!at[i])
			continue;
		if (stays)
			next[i] = 1;
		else if (takes(t, c))
			next[i + 1] = 1;
		some |= stays || next[i + 1];
	}
	pass_stars(p, next);
	return (some);
}

bool
pattern_match(const struct pattern *p, const char *text, uint64_t *steps)
{
	uint8_t *both = sbx_xcalloc(p->n + 1, 2), *at = both;
	uint8_t *next = both + p->n + 1, *was;
	bool alive = true, r;

	at[0] = 1;
	pass_stars(p, at);
	for (; *text != '\0' && alive; text++, was = at, at = next, next = was,
	    *steps += p->n + 1)
		alive = step(p, at, next, (unsigned char)*text);
	r = alive && at[p->n];
	free(both);
	return (r);
}
