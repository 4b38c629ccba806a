/*
 * A tree's id from its files' ids.
 *
 * git sorts a tree by name, a directory as if its name ended with a slash
 * (base_name_compare() in git's tree.c, gitformat-index(5)): that is the order
 * of whole paths by bytes.  So one pass over the sorted paths, with the open
 * directories on a stack, meets every tree whole.
 */
#include "common/base/log.h"
#include "sbxd/judge/judge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_TREE (64u << 20)	/* bytes of one tree object */

int
tree_fail(struct tree *t, int error, const char *fmt, ...)
{
	va_list ap;

	if (t->error != 0)
		return (-1);	/* the first one is the cause */
	t->error = error;
	va_start(ap, fmt);
	(void)vsnprintf(t->reason, sizeof(t->reason), fmt, ap);
	va_end(ap);
	return (-1);
}

void
tree_clear(struct tree *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].path);
	free(t->v);
	memset(t, 0, sizeof(*t));
}

/* Relative; no empty, ".", ".." or ".git" component, in any case of letters. */
static bool
path_good(const char *path)
{
	unsigned depth = 0;
	size_t n;

	for (const char *p = path;; p += n + 1) {
		n = strcspn(p, "/");
		if (n == 0 || n > 255 || ++depth > JUDGE_MAX_DEPTH ||
		    (n == 1 && p[0] == '.') ||
		    (n == 2 && strncmp(p, "..", 2) == 0) ||
		    (n == 4 && strncasecmp(p, ".git", 4) == 0))
			return (false);
		if (p[n] == '\0')
			return (true);
	}
}

struct entry *
tree_add(struct tree *t, const char *path, uint32_t mode)
{
	size_t n = strlen(path) + 1;
	char text[128];

	if (!path_good(path)) {
		(void)tree_fail(t, EINVAL, "a path that no tree may have: %s",
		    sbx_vis(text, sizeof(text), path, n - 1));
		return (NULL);
	}
	if (t->n == SBX_COPY_MAX_FILES || n > JUDGE_MAX_NAMES - t->names) {
		(void)tree_fail(t, EFBIG, "more files than a tree may have");
		return (NULL);
	}
	if (t->n == t->size) {
		t->size = t->size == 0 ? 256 : 2 * t->size;
		t->v = realloc(t->v, t->size * sizeof(*t->v));
		if (t->v == NULL)
			sbx_fatal("no memory for a tree");
	}
	t->names += n;
	t->v[t->n] = (struct entry){ .path = sbx_xstrdup(path), .mode = mode };
	return (&t->v[t->n++]);
}

static int
by_path(const void *a, const void *b)
{
	return (strcmp(((const struct entry *)a)->path,
	    ((const struct entry *)b)->path));
}

/* --- trees --------------------------------------------------------------------- */

/* A directory whose entries are still coming: its object in both formats. */
struct open_dir {
	size_t len;		/* of its path, with the slash; 0: the root */
	struct sbx_buf body[ID_MAX];
};
struct building {
	struct tree *t;
	struct hasher *h;
	const char *path;	/* of the entry at hand */
	struct open_dir dirs[JUDGE_MAX_DEPTH + 1];
	unsigned depth;		/* the last of them */
};

static int
put(struct building *b, uint32_t mode, const char *name, size_t n,
    const struct id *id)
{
	const uint8_t *const ids[ID_MAX] = { id->sha1, id->sha256 };
	const size_t sizes[ID_MAX] = { sizeof(id->sha1), sizeof(id->sha256) };
	char head[16];
	int k = snprintf(head, sizeof(head), "%o ", mode), r = 0;

	for (int i = 0; i < ID_MAX && r == 0; i++) {
		struct sbx_buf *body = &b->dirs[b->depth].body[i];

		r = sbx_buf_add(body, head, (size_t)k);
		if (r == 0)
			r = sbx_buf_add(body, name, n);
		if (r == 0)
			r = sbx_buf_add(body, "", 1);
		if (r == 0)
			r = sbx_buf_add(body, ids[i], sizes[i]);
	}
	return (r == 0 ? 0 : tree_fail(b->t, EFBIG, "a directory with more "
	    "entries than a tree may have"));
}

static void
dir_open(struct building *b, unsigned depth, size_t len)
{
	b->depth = depth;
	b->dirs[depth].len = len;
	for (int i = 0; i < ID_MAX; i++)
		sbx_buf_init(&b->dirs[depth].body[i], MAX_TREE);
}

/* The formats differ in what they refer to, so each has its own object. */
static void
dir_close(struct building *b, struct id *ret_id)
{
	struct sbx_buf *body = b->dirs[b->depth].body;
	struct id ids[ID_MAX];

	for (int i = 0; i < ID_MAX; i++) {
		hasher_begin(b->h, "tree", body[i].len);
		hasher_add(b->h, body[i].data != NULL ? body[i].data : "",
		    body[i].len);
		hasher_end(b->h, &ids[i]);
		sbx_buf_clear(&body[i]);
	}
	memcpy(ret_id->sha1, ids[ID_SHA1].sha1, sizeof(ret_id->sha1));
	memcpy(ret_id->sha256, ids[ID_SHA256].sha256, sizeof(ret_id->sha256));
}

/* Close what path is not in; `from` is a path that was. */
static int
leave(struct building *b, const char *from, const char *path)
{
	struct id id;
	size_t len, parent;

	while (b->depth > 0 && (len = b->dirs[b->depth].len,
	    strncmp(from, path, len) != 0)) {
		parent = b->dirs[b->depth - 1].len;
		dir_close(b, &id);
		b->depth--;
		if (put(b, 040000, from + parent, len - 1 - parent, &id) != 0)
			return (-1);
	}
	return (0);
}

static int
build(struct building *b)
{
	const struct entry *e;
	const char *from = "", *slash;
	char text[128];
	size_t len;

	for (size_t i = 0; i < b->t->n; from = e->path, i++) {
		e = &b->t->v[i];
		if (i > 0 && strcmp(from, e->path) == 0)
			return (tree_fail(b->t, EEXIST, "a path twice: %s",
			    sbx_vis(text, sizeof(text), from, strlen(from))));
		if (leave(b, from, e->path) != 0)
			return (-1);
		len = b->dirs[b->depth].len;
		for (; (slash = strchr(e->path + len, '/')) != NULL;
		    len = (size_t)(slash - e->path) + 1)
			dir_open(b, b->depth + 1, (size_t)(slash - e->path) +
			    1);
		if (put(b, e->mode, e->path + len, strlen(e->path + len),
		    &e->id) != 0)
			return (-1);
	}
	return (leave(b, from, ""));
}

/*
 * A file `a` and a path `a/b` need not be neighbours (`a.b` sorts between
 * them), so that conflict is looked for by name.
 */
static int
check_dirs(struct tree *t)
{
	char dir[SBX_COPY_MAX_PATH + 1], text[128];
	const struct entry key = { .path = dir };
	const char *last = "";

	for (size_t i = 0; i < t->n; last = t->v[i++].path)
		for (const char *s = t->v[i].path; (s = strchr(s, '/')) !=
		    NULL; s++) {
			size_t n = (size_t)(s - t->v[i].path);

			if (strncmp(last, t->v[i].path, n + 1) == 0)
				continue;	/* seen with that one */
			memcpy(dir, t->v[i].path, n);
			dir[n] = '\0';
			if (bsearch(&key, t->v, t->n, sizeof(key), by_path) !=
			    NULL)
				return (tree_fail(t, ENOTDIR, "a file and a "
				    "directory of one name: %s", sbx_vis(text,
				    sizeof(text), dir, n)));
		}
	return (0);
}

int
tree_id(struct tree *t, struct id *ret_id)
{
	static struct building b;
	int r;

	if (t->error != 0)
		return (-1);
	if (t->n > 0)
		qsort(t->v, t->n, sizeof(*t->v), by_path);
	if (check_dirs(t) != 0)
		return (-1);
	b = (struct building){ .t = t, .h = hasher_new() };
	dir_open(&b, 0, 0);
	r = build(&b);
	for (; r != 0 && b.depth > 0; b.depth--)
		dir_close(&b, ret_id);
	dir_close(&b, ret_id);
	hasher_free(b.h);
	return (r);
}
