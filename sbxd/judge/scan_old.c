/*
 * The lines that the base's file has.  Nothing is done before the first time
 * that one is asked for; most files have nothing to ask for.
 */
#include "sbxd/judge/scan_parts.h"

#include <string.h>

struct line {
	uint32_t off, len;	/* len UINT32_MAX: an empty place */
};
struct old {
	const char *p;
	size_t n;
	char *decoded;		/* of UTF-16, owned */
	uint64_t key;
	struct line *v;		/* NULL: not looked at yet */
	size_t size, used;	/* a power of two */
};

/* FNV-1a from a start that nobody can know. */
static uint64_t
hash(const struct old *o, const char *p, size_t n)
{
	uint64_t h = o->key;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)p[i]) * 0x100000001b3ull;
	return (h ^ h >> 29);
}

/* A line is the same with another end of line. */
static size_t
trim(const char *p, size_t n)
{
	return (n > 0 && p[n - 1] == '\r' ? n - 1 : n);
}

/* Where the line is, or the empty place for it. */
static struct line *
place(const struct old *o, const char *p, size_t n)
{
	size_t i = (size_t)hash(o, p, n) & (o->size - 1);

	while (o->v[i].len != UINT32_MAX && (o->v[i].len != n ||
	    memcmp(o->p + o->v[i].off, p, n) != 0))
		i = (i + 1) & (o->size - 1);
	return (&o->v[i]);
}

static void
resize(struct old *o, size_t size)
{
	struct line *was = o->v;
	size_t n = o->size;

	o->v = sbx_xcalloc(size, sizeof(*o->v));
	o->size = size;
	memset(o->v, 0xff, size * sizeof(*o->v));
	for (size_t i = 0; i < n; i++)
		if (was[i].len != UINT32_MAX)
			*place(o, o->p + was[i].off, was[i].len) = was[i];
	free(was);
}

static void
decode(struct old *o)
{
	struct text t = { .form = text_form((const uint8_t *)o->p, o->n) };
	size_t n;

	if (t.form == TEXT_BYTES)
		return;
	o->decoded = sbx_xcalloc(1, TEXT_ROOM(o->n));
	n = text_put(&t, (const uint8_t *)o->p + 2, o->n - 2, o->decoded);
	n += text_end(&t, o->decoded + n);
	o->p = o->decoded;
	o->n = n;
}

static void
look(struct old *o)
{
	const char *end, *nl;
	struct line *l;
	size_t n;

	decode(o);
	sbx_random(&o->key, sizeof(o->key));
	resize(o, 1024);
	end = o->p + o->n;
	for (const char *p = o->p; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (nl == NULL)
			nl = end;
		n = trim(p, (size_t)(nl - p));
		l = place(o, p, n);
		if (l->len != UINT32_MAX)
			continue;
		*l = (struct line){ (uint32_t)(p - o->p), (uint32_t)n };
		if (++o->used * 2 > o->size)
			resize(o, o->size * 2);
	}
}

/* Offsets are 32 bits wide: of what is longer, the first of it. */
struct old *
old_new(const void *p, size_t n)
{
	struct old *o = sbx_xcalloc(1, sizeof(*o));

	o->p = p;
	o->n = n < 1u << 30 ? n : 1u << 30;
	return (o);
}

bool
old_has(struct old *o, const char *line, size_t n)
{
	if (o == NULL || o->n == 0)
		return (false);
	if (o->v == NULL)
		look(o);
	n = trim(line, n);
	return (n < UINT32_MAX && place(o, line, n)->len != UINT32_MAX);
}

void
old_free(struct old *o)
{
	if (o == NULL)
		return;
	free(o->v);
	free(o->decoded);
	free(o);
}
