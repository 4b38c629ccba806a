/*
 * What `git cat-file --batch` printed of a base (git-cat-file(1), BATCH OUTPUT).
 *
 * It was printed in a sandbox.  Each object's id is computed here of its bytes;
 * one that is not so is not there, and says that the rest is not git's either.
 * Only where each is stays in memory.
 */
#include "sbxd/judge/publish.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 8192		/* an id and a path that is missing */

struct reader {
	int fd;
	uint64_t at, end;	/* of the file, what is not in buf yet */
	size_t pos, have;
	char buf[64 << 10];
};

static int SBX_PRINTF(2, 3)
fail(struct base *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(b->reason, sizeof(b->reason), fmt, ap);
	va_end(ap);
	return (-1);
}

/* What there is now, at most n; 0: the end. */
static size_t
peek(struct reader *r, size_t n, const char **ret_p)
{
	if (r->pos == r->have) {
		size_t want = r->end - r->at < sizeof(r->buf) ?
		    (size_t)(r->end - r->at) : sizeof(r->buf);
		ssize_t got = want == 0 ? 0 : pread(r->fd, r->buf, want,
		    (off_t)r->at);

		r->pos = 0;
		r->have = got > 0 ? (size_t)got : 0;
		r->at += r->have;
	}
	*ret_p = r->buf + r->pos;
	return (n < r->have - r->pos ? n : r->have - r->pos);
}

/* 1: the end; else a line without its end, which must be there. */
static int
take_line(struct reader *r, char line[LINE_BYTES])
{
	const char *p, *nl;
	size_t n, len = 0;

	while ((n = peek(r, LINE_BYTES - 1 - len, &p)) > 0) {
		nl = memchr(p, '\n', n);
		if (nl != NULL)
			n = (size_t)(nl - p);
		memcpy(line + len, p, n);
		len += n;
		line[len] = '\0';
		r->pos += n + (nl != NULL);
		if (nl != NULL)
			return (strlen(line) == len ? 0 : -1);
		if (len == LINE_BYTES - 1)
			return (-1);
	}
	return (len == 0 && r->at == r->end ? 1 : -1);
}

static int
take_object(struct base *b, struct reader *r, struct object *o)
{
	uint64_t left = o->size;
	const char *p;
	struct oid id;
	size_t n;

	o->offset = r->at - (r->have - r->pos);
	hasher_begin(b->h, object_words[o->type], o->size);
	for (; left > 0; left -= n) {
		n = peek(r, left < BASE_MAX_OBJECT ? (size_t)left :
		    BASE_MAX_OBJECT, &p);
		if (n == 0)
			return (fail(b, "an object is cut off"));
		hasher_add(b->h, p, n);
		r->pos += n;
	}
	oid_end(b->h, b->format, &id);
	if (memcmp(&id, &o->id, sizeof(id)) != 0)
		return (fail(b, "an object's id is not that of its bytes"));
	if (peek(r, 1, &p) != 1 || *p != '\n')
		return (fail(b, "an object is not followed by a line's end"));
	r->pos++;
	return (0);
}

static int
take_type(const char *word)
{
	for (int i = 0; i < OBJECT_MAX; i++)
		if (strcmp(object_words[i], word) == 0)
			return (i);
	return (-1);
}

/* "ID TYPE SIZE" */
static int
take_head(struct base *b, char *line, struct object *o)
{
	char *type = strchr(line, ' ');
	char *size = type == NULL ? NULL : strchr(type + 1, ' ');
	uint64_t bytes;
	int t;

	if (size == NULL || oid_parse(line, (size_t)(type - line), &o->id) !=
	    b->format)
		return (fail(b, "a line names no object"));
	*size++ = '\0';
	t = take_type(type + 1);
	if (t < 0)
		return (fail(b, "an object of another type"));
	if ((size[0] == '0' && size[1] != '\0') ||
	    sbx_parse_u64(size, 0, BASE_MAX_OBJECT, &bytes) != 0)
		return (fail(b, "an object larger than is read"));
	o->type = (uint8_t)t;
	o->size = (uint32_t)bytes;
	return (0);
}

static bool
is_missing(const char *line)
{
	static const char word[] = " missing";
	size_t n = strlen(line);

	return (n > sizeof(word) - 1 &&
	    strcmp(line + n - (sizeof(word) - 1), word) == 0);
}

static int
by_id(const void *a, const void *b)
{
	return (memcmp(a, b, sizeof(struct oid)));
}

static int
add(struct base *b, const struct object *o)
{
	if (b->n == BASE_MAX_OBJECTS)
		return (fail(b, "more objects than are read"));
	if (b->n == b->size) {
		b->size = b->size == 0 ? 256 : 2 * b->size;
		b->v = sbx_xreallocarray(b->v, b->size, sizeof(*b->v));
	}
	b->v[b->n++] = *o;
	return (0);
}

int
base_read(struct base *b, int fd, uint64_t offset, uint64_t length, int format)
{
	SBX_CLEANUP(free) struct reader *r = sbx_xcalloc(1, sizeof(*r));
	char line[LINE_BYTES];
	int k;

	*b = (struct base){ .fd = fd, .format = format, .h = hasher_new() };
	hasher_only(b->h, format);
	if (length > BASE_MAX_BYTES || offset > INT64_MAX - BASE_MAX_BYTES)
		return (fail(b, "more than is read"));
	r->fd = fd;
	r->at = offset;
	r->end = offset + length;
	while ((k = take_line(r, line)) == 0) {
		struct object o = { 0 };

		if (is_missing(line))
			continue;
		if (take_head(b, line, &o) != 0 ||
		    take_object(b, r, &o) != 0 || add(b, &o) != 0)
			return (-1);
	}
	if (k < 0)
		return (fail(b, "a line of another form"));
	if (b->n > 0)
		qsort(b->v, b->n, sizeof(*b->v), by_id);
	return (0);
}

void
base_clear(struct base *b)
{
	free(b->v);
	if (b->h != NULL)
		hasher_free(b->h);
	*b = (struct base){ .fd = -1 };
}

const struct object *
base_find(const struct base *b, const struct oid *id, enum object_type type)
{
	const struct object *o = b->n == 0 ? NULL : bsearch(id, b->v, b->n,
	    sizeof(*b->v), by_id);

	/* the type is part of what was hashed */
	return (o != NULL && o->type == type ? o : NULL);
}

int
base_load(struct base *b, const struct object *o, char **ret_p)
{
	SBX_CLEANUP(free) char *p = NULL;
	struct oid id;
	size_t at = 0;
	ssize_t got;

	if (o == NULL)
		return (-1);
	p = sbx_xreallocarray(NULL, (size_t)o->size + 1, 1);
	while (at < o->size) {
		got = pread(b->fd, p + at, o->size - at,
		    (off_t)(o->offset + at));
		if (got <= 0)
			return (-1);
		at += (size_t)got;
	}
	p[at] = '\0';
	oid_of(b->h, b->format, (enum object_type)o->type, p, at, &id);
	if (memcmp(&id, &o->id, sizeof(id)) != 0)
		return (-1);
	*ret_p = p;
	p = NULL;
	return (0);
}
