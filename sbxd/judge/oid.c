/* Objects' ids in one of git's formats, and tree objects. */
#include "common/base/log.h"
#include "sbxd/judge/publish.h"

#include <stdio.h>
#include <string.h>

#define MAX_TREE (16u << 20)	/* bytes of one */

size_t
oid_bytes(int format)
{
	return (format == ID_SHA1 ? 20 : 32);
}

static int
digit(char c)
{
	return (c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ?
	    c - 'a' + 10 : -1);
}

int
oid_parse(const char *hex, size_t n, struct oid *ret)
{
	*ret = (struct oid){ 0 };
	if (n != 40 && n != 64)
		return (-1);
	for (size_t i = 0; i < n; i++) {
		int d = digit(hex[i]);

		if (d < 0)
			return (-1);
		ret->b[i / 2] = (uint8_t)(ret->b[i / 2] << 4 | d);
	}
	return (n == 40 ? ID_SHA1 : ID_SHA256);
}

void
oid_hex(int format, const struct oid *id, char ret[65])
{
	for (size_t i = 0; i < oid_bytes(format); i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", id->b[i]);
}

void
oid_end(struct hasher *h, int format, struct oid *ret)
{
	struct id id;

	hasher_end(h, &id);
	*ret = (struct oid){ 0 };
	memcpy(ret->b, format == ID_SHA1 ? id.sha1 : id.sha256,
	    oid_bytes(format));
}

const char *const object_words[OBJECT_MAX] = {
	[OBJECT_COMMIT] = "commit", [OBJECT_TREE] = "tree",
	[OBJECT_BLOB] = "blob",
};

void
oid_of(struct hasher *h, int format, enum object_type type, const void *p,
    size_t n, struct oid *ret)
{
	hasher_begin(h, object_words[type], n);
	hasher_add(h, p, n);
	oid_end(h, format, ret);
}

/* --- tree objects ----------------------------------------------------------------- */

void
ents_add(struct ents *t, const struct ent *e)
{
	if (t->n == t->size) {
		t->size = t->size == 0 ? 64 : 2 * t->size;
		t->v = sbx_xreallocarray(t->v, t->size, sizeof(*t->v));
	}
	t->v[t->n++] = *e;
}

/* git's order: a directory's name ends with a slash there (gitformat-index(5)). */
static int
compare(const char *a, size_t na, bool a_dir, const char *b, size_t nb,
    bool b_dir)
{
	size_t n = na < nb ? na : nb;
	int r = memcmp(a, b, n);
	unsigned char ca, cb;

	if (r != 0)
		return (r);
	ca = na > n ? (unsigned char)a[n] : a_dir ? '/' : '\0';
	cb = nb > n ? (unsigned char)b[n] : b_dir ? '/' : '\0';
	return (ca < cb ? -1 : ca > cb);
}

static int
by_order(const void *pa, const void *pb)
{
	const struct ent *a = pa, *b = pb;

	return (compare(a->name, a->n, a->mode == MODE_TREE, b->name, b->n,
	    b->mode == MODE_TREE));
}

static int
by_name(const void *pa, const void *pb)
{
	const struct ent *a = pa, *b = pb;

	return (compare(a->name, a->n, false, b->name, b->n, false));
}

/* As an index would hold it: files of old trees may have other permissions. */
static bool
take_mode(const char *p, size_t n, uint32_t *ret)
{
	uint32_t mode = 0;

	if (n < 5 || n > 6 || p[0] == '0')
		return (false);
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '7')
			return (false);
		mode = mode << 3 | (uint32_t)(p[i] - '0');
	}
	if ((mode & 0170000) == 0100000)
		mode = (mode & 0100) != 0 ? MODE_EXEC : MODE_FILE;
	*ret = mode;
	return (mode == MODE_TREE || mode == MODE_FILE || mode == MODE_EXEC ||
	    mode == MODE_LINK || mode == MODE_GITLINK);
}

/* Neighbours in good order may still be a file and a directory of one name, with
 * others between them. */
static bool
names_differ(const struct ents *t)
{
	struct ent *v = sbx_xreallocarray(NULL, t->n + 1, sizeof(*v));
	bool good = true;

	if (t->n > 0)
		memcpy(v, t->v, t->n * sizeof(*v));
	qsort(v, t->n, sizeof(*v), by_name);
	for (size_t i = 1; i < t->n && good; i++)
		good = by_name(&v[i - 1], &v[i]) != 0;
	free(v);
	return (good);
}

int
ents_parse(struct ents *t, int format, const char *p, size_t n)
{
	const char *end = p + n, *space, *nul;
	size_t k = oid_bytes(format);

	for (; p < end; p = nul + 1 + k) {
		struct ent e = { 0 };

		space = memchr(p, ' ', (size_t)(end - p));
		nul = space == NULL ? NULL : memchr(space, '\0',
		    (size_t)(end - space));
		if (nul == NULL || nul == space + 1 ||
		    (size_t)(end - nul) <= k ||
		    !take_mode(p, (size_t)(space - p), &e.mode))
			return (-1);
		e.name = space + 1;
		e.n = (size_t)(nul - e.name);
		if (memchr(e.name, '/', e.n) != NULL)
			return (-1);
		memcpy(e.id.b, nul + 1, k);
		if (t->n > 0 && by_order(&t->v[t->n - 1], &e) >= 0)
			return (-1);
		ents_add(t, &e);
	}
	return (names_differ(t) ? 0 : -1);
}

const struct ent *
ents_find(const struct ents *t, const char *name, size_t n)
{
	struct ent key = { .mode = MODE_FILE, .name = name, .n = n };
	const struct ent *e;

	if (t->n == 0)
		return (NULL);
	e = bsearch(&key, t->v, t->n, sizeof(key), by_order);
	if (e != NULL)
		return (e);
	key.mode = MODE_TREE;
	return (bsearch(&key, t->v, t->n, sizeof(key), by_order));
}

void
ents_sort(struct ents *t)
{
	if (t->n > 0)
		qsort(t->v, t->n, sizeof(*t->v), by_order);
}

int
ents_write(const struct ents *t, int format, struct sbx_buf *b)
{
	int r = 0;

	sbx_buf_init(b, MAX_TREE);
	for (size_t i = 0; i < t->n && r == 0; i++) {
		const struct ent *e = &t->v[i];

		r = sbx_buf_printf(b, "%o ", e->mode);
		if (r == 0)
			r = sbx_buf_add(b, e->name, e->n);
		if (r == 0)
			r = sbx_buf_add(b, "", 1);
		if (r == 0)
			r = sbx_buf_add(b, e->id.b, oid_bytes(format));
	}
	return (r);
}
