/*
 * The tree that a publication makes: the base's, with the declared paths as they
 * came, and nothing else.  It is walked twice from the base's commit down: for
 * what the base has of each path, before files come, and to build.  Of a merge,
 * paths that the other parent changed become what its tree has: what is as the
 * repository has it already is nobody's to judge again.
 */
#include "sbxd/judge/publish.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int
pub_fail(struct pub *p, const char *step, const char *fmt, ...)
{
	va_list ap;

	if (p->step[0] != '\0')
		return (-1);	/* the first one is the cause */
	(void)sbx_strlcpy(p->step, step, sizeof(p->step));
	va_start(ap, fmt);
	(void)vsnprintf(p->reason, sizeof(p->reason), fmt, ap);
	va_end(ap);
	return (-1);
}

static int
fail_path(struct pub *p, const char *step, const char *path, size_t n,
    const char *why)
{
	char text[128];

	return (pub_fail(p, step, "%s: %s", sbx_vis(text, sizeof(text), path,
	    n), why));
}

/* --- what is asked --------------------------------------------------------------- */

static int
by_path(const void *a, const void *b)
{
	return (strcmp(((const struct decl *)a)->path,
	    ((const struct decl *)b)->path));
}

struct decl *
pub_find(struct pub *p, const char *path)
{
	union { const char *path; char *key; } u = { .path = path };
	const struct decl key = { .path = u.key };

	return (bsearch(&key, p->v, p->n, sizeof(key), by_path));
}

bool
pub_theirs(const struct pub *p, const struct decl *d)
{
	bool none = d->their_mode == 0 || d->their_mode == MODE_TREE;

	return (p->parent2[0] != '\0' && (d->came ? d->mode == d->their_mode &&
	    memcmp(&d->id, &d->their_id, sizeof(d->id)) == 0 : none));
}

/* This side has it as it was where both parted: what parent2 has is what a merge
 * makes of it, and undoes nothing. */
static bool
untouched(const struct decl *d)
{
	return (d->base_mode == d->fork_mode && memcmp(&d->base_id,
	    &d->fork_id, sizeof(d->base_id)) == 0);
}

/* The last `merged` of them are parent2's. */
static int
take_names(struct pub *p, size_t len, uint32_t merged)
{
	const char *end = p->names + len, *why;

	if (len == 0)
		return (pub_fail(p, "unchanged", "no path is declared"));
	if (end[-1] != '\0')
		return (pub_fail(p, "malformed", "a path without its end"));
	for (char *s = p->names; s < end; s += strlen(s) + 1) {
		if (p->n == PUBLISH_MAX_PATHS)
			return (pub_fail(p, "too_large", "more than %u paths "
			    "are declared", PUBLISH_MAX_PATHS));
		if ((why = path_refused(s)) != NULL)
			return (fail_path(p, "path", s, strlen(s), why));
		p->n++;
	}
	if (merged > (p->parent2[0] != '\0' ? p->n : 0))
		return (pub_fail(p, "malformed", "more is merged than there "
		    "is"));
	p->v = sbx_xcalloc(p->n, sizeof(*p->v));
	for (size_t i = 0, at = 0; i < p->n; i++, at += strlen(p->names + at) +
	    1) {
		p->v[i].path = p->names + at;
		p->v[i].merged = i >= p->n - merged;
	}
	qsort(p->v, p->n, sizeof(*p->v), by_path);
	for (size_t i = 1; i < p->n; i++)
		if (by_path(&p->v[i - 1], &p->v[i]) == 0)
			return (fail_path(p, "path", p->v[i].path,
			    strlen(p->v[i].path), "it is declared twice"));
	return (0);
}

static int
take_waived(struct pub *p, const struct sbx_strs *waived)
{
	for (const char *s = sbx_strs_next(waived, NULL); s != NULL;
	    s = sbx_strs_next(waived, s)) {
		if (!sbx_is_hex(s, 64) || p->nwaived == PUBLISH_WAIVED)
			return (pub_fail(p, "malformed", "a fingerprint of "
			    "another form"));
		memcpy(p->waived[p->nwaived++], s, 65);
	}
	return (0);
}

static bool
known(const void *ctx, const char *secret, size_t n)
{
	return (baseline_has(ctx, secret, n));
}

static int
take_rules(struct pub *p, int fd)
{
	SBX_CLEANUP(free) char *rules = NULL;
	char why[SCAN_REASON] = "";
	size_t n;

	if (sbx_memfd_read(fd, SCAN_MAX_RULES_BYTES, &rules, &n) != 0)
		return (pub_fail(p, "malformed", "the rules for secrets cannot "
		    "be read"));
	p->scan = scan_new(rules, n, why);
	if (p->scan != NULL)
		scan_known(p->scan, known, &p->baseline);
	return (p->scan != NULL ? 0 : pub_fail(p, "malformed", "the rules for "
	    "secrets: %.200s", why));
}

/* The root's tree from the commit, whose first line it is. */
static int
take_commit(struct pub *p, const struct oid *id, const char *whose,
    struct oid *ret_tree)
{
	SBX_CLEANUP(free) char *text = NULL;
	const struct object *o = base_find(&p->objects, id, OBJECT_COMMIT);
	size_t n = 2 * oid_bytes(p->format);

	if (o == NULL || base_load(&p->objects, o, &text) != 0)
		return (pub_fail(p, "base", "the %s's commit is not there",
		    whose));
	if (o->size < 5 + n + 1 || memcmp(text, "tree ", 5) != 0 ||
	    text[5 + n] != '\n' || oid_parse(text + 5, n, ret_tree) !=
	    p->format)
		return (pub_fail(p, "base", "the %s's commit names no tree",
		    whose));
	return (0);
}

static void
take_commits(struct pub *p)
{
	struct oid id;

	if (take_commit(p, &p->base_commit, "base", &p->base_tree) != 0 ||
	    p->parent2[0] == '\0')
		return;
	(void)oid_parse(p->parent2, strlen(p->parent2), &id);
	if (take_commit(p, &id, "second parent", &p->their_tree) != 0 ||
	    p->fork[0] == '\0')
		return;
	if (oid_parse(p->fork, strlen(p->fork), &id) != p->format)
		(void)pub_fail(p, "malformed", "where both parted is no "
		    "commit's id");
	else
		(void)take_commit(p, &id, "parents' common history",
		    &p->fork_tree);
}

void
pub_begin(struct pub *p, const struct sbx_judge_publish *q, const int fds[4])
{
	size_t n = 0;

	sbx_buf_init(&p->findings.text, PUBLISH_FINDINGS_BYTES);
	sbx_buf_init(&p->passed.text, PUBLISH_FINDINGS_BYTES);
	p->out = -1;
	p->h = hasher_new();
	p->attrs = attr_new();
	p->format = oid_parse(q->base, strlen(q->base), &p->base_commit);
	p->time = q->time;
	p->allow = q->allow;
	(void)sbx_strlcpy(p->base, q->base, sizeof(p->base));
	(void)sbx_strlcpy(p->parent2, q->parent2, sizeof(p->parent2));
	(void)sbx_strlcpy(p->fork, q->fork, sizeof(p->fork));
	(void)sbx_strlcpy(p->author, q->author, sizeof(p->author));
	if (p->format < 0) {
		(void)pub_fail(p, "malformed", "the base is no commit's id");
		return;
	}
	hasher_only(p->h, p->format);
	if (sbx_memfd_read(fds[0], PUBLISH_NAMES_BYTES, &p->names, &n) != 0)
		(void)pub_fail(p, "too_large", "the declared paths cannot be "
		    "read");
	if (p->step[0] != '\0' || take_names(p, n, q->merged) != 0)
		return;
	if (sbx_memfd_read(fds[2], PUBLISH_MESSAGE_BYTES, &p->message,
	    &p->message_len) != 0)
		(void)pub_fail(p, "malformed", "the message has more than %u "
		    "bytes", PUBLISH_MESSAGE_BYTES);
	if (commit_check(p) != 0 || take_waived(p, &q->waived) != 0 ||
	    take_rules(p, fds[3]) != 0)
		return;
	if (base_read(&p->objects, fds[1], q->base_offset, q->base_length,
	    p->format) != 0)
		(void)pub_fail(p, "base", "what was read of the base: %s",
		    p->objects.reason);
	else
		take_commits(p);
}

void
pub_clear(struct pub *p)
{
	base_clear(&p->objects);
	attr_free(p->attrs);
	if (p->h != NULL)
		hasher_free(p->h);
	if (p->scan != NULL)
		scan_free(p->scan);
	sbx_buf_clear(&p->findings.text);
	sbx_buf_clear(&p->passed.text);
	sbx_buf_clear(&p->text);
	sbx_close(&p->out);
	free(p->names);
	free(p->v);
	free(p->message);
	memset(p, 0, sizeof(*p));
	p->out = -1;
}

/* --- a directory ------------------------------------------------------------------- */

/* One of the base's trees, loaded. */
struct dir {
	struct pub *p;
	char *body;		/* owned */
	size_t bytes;
	struct ents in;		/* owned */
};
/* A name in a directory that something declared has: itself, or below it. */
struct name {
	const char *s;		/* n bytes, */
	size_t n, prefix;	/* that many behind a path's begin */
	struct decl *leaf;	/* NULL: only below it */
	size_t lo, hi;		/* of pub.v, below it */
};
struct names {
	struct name *v;		/* owned */
	size_t n;
};

static void
dir_clear(struct dir *d)
{
	if (d->p != NULL)
		d->p->loaded -= d->bytes;
	free(d->body);
	free(d->in.v);
	*d = (struct dir){ 0 };
}
#define CLEANUP_DIR __attribute__((cleanup(dir_clear)))

static void
names_clear(struct names *t)
{
	free(t->v);
	*t = (struct names){ 0 };
}
#define CLEANUP_NAMES __attribute__((cleanup(names_clear)))

static int
dir_load(struct pub *p, struct dir *d, const struct oid *id, const char *path,
    size_t n)
{
	const struct object *o = base_find(&p->objects, id, OBJECT_TREE);

	/* its entries take about twice as much, and what becomes of them */
	d->bytes = o == NULL ? 0 : 6 * (size_t)o->size;
	if (d->bytes > PUBLISH_LOADED_BYTES - p->loaded)
		return (fail_path(p, "too_large", path, n, "its directories "
		    "have more entries than are read"));
	d->p = p;
	p->loaded += d->bytes;
	if (base_load(&p->objects, o, &d->body) != 0)
		return (fail_path(p, "base", path, n, "this directory of the "
		    "base is not there"));
	if (ents_parse(&d->in, p->format, d->body, o->size) != 0)
		return (fail_path(p, "base", path, n, "this directory of the "
		    "base is none that git makes"));
	return (0);
}

static int
by_name(const void *pa, const void *pb)
{
	const struct name *a = pa, *b = pb;
	size_t n = a->n < b->n ? a->n : b->n;
	int r = memcmp(a->s, b->s, n);

	return (r != 0 ? r : a->n < b->n ? -1 : a->n > b->n);
}

/* "a" and "a/b" need not be neighbours in pub.v: "a.c" is between them. */
static void
names_make(struct pub *p, struct names *t, size_t prefix, size_t lo, size_t hi)
{
	size_t to = 0;

	t->v = sbx_xcalloc(hi - lo + 1, sizeof(*t->v));
	for (size_t i = lo, k; i < hi; i = k) {
		const char *s = p->v[i].path + prefix;
		size_t n = strcspn(s, "/");
		struct name *e = &t->v[t->n++];

		*e = (struct name){ .s = s, .n = n, .prefix = prefix };
		k = i + 1;
		if (s[n] == '\0') {
			e->leaf = &p->v[i];
			continue;
		}
		while (k < hi && strncmp(p->v[k].path + prefix, s, n + 1) == 0)
			k++;
		e->lo = i;
		e->hi = k;
	}
	qsort(t->v, t->n, sizeof(*t->v), by_name);
	for (size_t i = 0; i < t->n; i++) {
		if (to == 0 || by_name(&t->v[to - 1], &t->v[i]) != 0) {
			t->v[to++] = t->v[i];
			continue;
		}
		if (t->v[i].leaf != NULL)
			t->v[to - 1].leaf = t->v[i].leaf;
		else {
			t->v[to - 1].lo = t->v[i].lo;
			t->v[to - 1].hi = t->v[i].hi;
		}
	}
	t->n = to;
}

/* --- the declared paths in the base ---------------------------------------------- */

#define ATTRIBUTES ".gitattributes"

/* Those that the result has. */
static const struct ent *
attrs_ent(struct pub *p, const struct dir *d, const struct dir *theirs,
    const char *path, size_t n)
{
	SBX_CLEANUP(free) char *name = sbx_xasprintf("%.*s" ATTRIBUTES, (int)n,
	    path);
	const struct decl *decl = pub_find(p, name);

	return (ents_find(decl != NULL && decl->merged ? &theirs->in : &d->in,
	    ATTRIBUTES, sizeof(ATTRIBUTES) - 1));
}

static int
push_attrs(struct pub *p, const struct ent *e, const char *path, size_t n)
{
	static const char name[] = ATTRIBUTES;
	const struct object *o;
	SBX_CLEANUP(free) char *text = NULL;
	char why[128] = "", text_path[128];
	int r;

	(void)sbx_vis(text_path, sizeof(text_path), path, n);
	if (e == NULL)
		return (attr_push(p->attrs, path, n, "", 0, why));
	if (e->mode != MODE_FILE && e->mode != MODE_EXEC)
		return (pub_fail(p, "attribute", "%s%s: it is no file",
		    text_path, name));
	o = base_find(&p->objects, &e->id, OBJECT_BLOB);
	if (base_load(&p->objects, o, &text) != 0)
		return (pub_fail(p, "base", "%s%s: this file of the base is not "
		    "there", text_path, name));
	r = attr_push(p->attrs, path, n, text, o->size, why);
	return (r == 0 ? 0 : pub_fail(p, "attribute", "%s%s: %s", text_path,
	    name, why));
}

/* Not given, or no file: there is none. */
static int
take_baseline(struct pub *p, const struct dir *root)
{
	const struct ent *e = ents_find(&root->in, BASELINE,
	    sizeof(BASELINE) - 1);
	const struct object *o = e == NULL ? NULL : base_find(&p->objects,
	    &e->id, OBJECT_BLOB);
	SBX_CLEANUP(free) char *text = NULL;

	if (o == NULL || (e->mode != MODE_FILE && e->mode != MODE_EXEC))
		return (0);
	if (base_load(&p->objects, o, &text) != 0)
		return (pub_fail(p, "base", BASELINE " of the base is another "
		    "one by now"));
	baseline_read(&p->baseline, text, o->size);
	return (0);
}

/* What it becomes is in parent2's tree already. */
static int
leaf_merged(struct pub *p, struct decl *d)
{
	d->came = d->their_mode != 0 && d->their_mode != MODE_TREE;
	if (!d->came && d->base_mode == 0)
		return (fail_path(p, "merge", d->path, strlen(d->path),
		    "neither parent has it"));
	if (!untouched(d))
		return (fail_path(p, "merge", d->path, strlen(d->path),
		    "this side changed it as well: declare it"));
	d->mode = d->their_mode;
	d->id = d->their_id;
	return (0);
}

static int
leaf_scout(struct pub *p, struct decl *d, const struct ent *base,
    const struct ent *theirs, const struct ent *fork)
{
	if (base != NULL) {
		d->base_mode = base->mode;
		d->base_id = base->id;
	}
	if (theirs != NULL) {
		d->their_mode = theirs->mode;
		d->their_id = theirs->id;
	}
	if (fork != NULL) {
		d->fork_mode = fork->mode;
		d->fork_id = fork->id;
	}
	if (d->merged)
		return (leaf_merged(p, d));
	if (attr_lookup(p->attrs, d->path, &d->attrs) != 0)
		return (pub_fail(p, "attribute", "the base's patterns take too "
		    "long to match"));
	return (0);
}

static const struct oid *
tree_of(const struct ent *e)
{
	return (e != NULL && e->mode == MODE_TREE ? &e->id : NULL);
}

/* Each of the trees: NULL where there is no such directory. */
static int
scout(struct pub *p, size_t prefix, size_t lo, size_t hi,
    const struct oid *tree, const struct oid *their, const struct oid *fork)
{
	CLEANUP_DIR struct dir d = { 0 }, o = { 0 }, f = { 0 };
	CLEANUP_NAMES struct names t = { 0 };
	const char *path = p->v[lo].path;
	int r = 0;

	if ((tree != NULL && dir_load(p, &d, tree, path, prefix) != 0) ||
	    (their != NULL && dir_load(p, &o, their, path, prefix) != 0) ||
	    (fork != NULL && dir_load(p, &f, fork, path, prefix) != 0))
		return (-1);
	if (prefix == 0 && take_baseline(p, &d) != 0)
		return (-1);
	if (push_attrs(p, attrs_ent(p, &d, &o, path, prefix), path, prefix) !=
	    0)
		return (-1);
	names_make(p, &t, prefix, lo, hi);
	for (size_t i = 0; i < t.n && r == 0; i++) {
		struct name *e = &t.v[i];
		const struct ent *b = ents_find(&d.in, e->s, e->n);
		const struct ent *c = ents_find(&o.in, e->s, e->n);
		const struct ent *g = ents_find(&f.in, e->s, e->n);

		if (e->leaf != NULL)
			r = leaf_scout(p, e->leaf, b, c, g);
		if (r == 0 && e->hi > e->lo)
			r = scout(p, prefix + e->n + 1, e->lo, e->hi,
			    tree_of(b), tree_of(c), tree_of(g));
	}
	if (r == 0)
		attr_pop(p->attrs);
	return (r);
}

void
pub_scout(struct pub *p)
{
	if (p->step[0] == '\0')
		(void)scout(p, 0, 0, p->n, &p->base_tree,
		    p->parent2[0] != '\0' ? &p->their_tree : NULL,
		    p->fork[0] != '\0' ? &p->fork_tree : NULL);
}

/* --- the new tree ------------------------------------------------------------------- */

/* What a directory became. */
struct built {
	struct oid id;
	bool empty, changed;
};
static int build(struct pub *p, size_t prefix, size_t lo, size_t hi,
    const struct oid *tree, struct built *ret);

static int
change(struct pub *p, const struct decl *d)
{
	bool link = (d->came && (d->mode == MODE_LINK ||
	    d->mode == MODE_GITLINK)) ||
	    d->base_mode == MODE_LINK || d->base_mode == MODE_GITLINK;

	if ((p->allow & SBX_PUBLISH_SENSITIVE) != 0 ||
	    ((p->allow & SBX_PUBLISH_UPSTREAM) != 0 && pub_theirs(p, d) &&
	    untouched(d)))
		return (0);
	if (link)
		return (fail_path(p, "sensitive", d->path, strlen(d->path),
		    "it is, or was, a symbolic link or a submodule; "
		    "allow_sensitive_paths is off"));
	if (path_sensitive(d->path))
		return (fail_path(p, "sensitive", d->path, strlen(d->path),
		    "what it says changes more than files; "
		    "allow_sensitive_paths is off"));
	return (0);
}

static int
leaf_went(struct pub *p, const struct name *e, struct built *ret)
{
	const struct decl *d = e->leaf;

	if (d->base_mode == 0) {
		/* said at the end, with what the others came to */
		if (p->gone == NULL)
			p->gone = d;
		return (0);
	}
	if (d->base_mode == MODE_TREE)
		return (fail_path(p, "path", d->path, strlen(d->path), "the "
		    "base has a directory of that name: declare its files"));
	p->deleted++;
	ret->changed = true;
	return (change(p, d));
}

static int
leaf_came(struct pub *p, const struct name *e, const struct ent *b,
    struct ents *out, struct built *ret)
{
	const struct decl *d = e->leaf;
	struct ent new = { .mode = d->mode, .name = e->s, .n = e->n,
		.id = d->id, .fresh = b == NULL && !pub_theirs(p, d) };
	bool tree = b != NULL && b->mode == MODE_TREE;
	struct built below = { .empty = true };

	if (e->hi > e->lo && build(p, strlen(d->path) + 1, e->lo, e->hi,
	    tree ? &b->id : NULL, &below) != 0)
		return (-1);
	if (tree && (e->hi == e->lo || !below.empty))
		return (fail_path(p, "path", d->path, strlen(d->path), "it is in "
		    "the place of a directory whose files are not all "
		    "declared"));
	ents_add(out, &new);
	if (b != NULL && b->mode == d->mode &&
	    memcmp(&b->id, &d->id, sizeof(d->id)) == 0) {
		p->unchanged++;
		return (0);
	}
	if (b == NULL || tree)
		p->added++;
	else
		p->modified++;
	ret->changed = true;
	return (change(p, d));
}

static bool
some_came(const struct pub *p, size_t lo, size_t hi)
{
	for (size_t i = lo; i < hi; i++)
		if (p->v[i].came)
			return (true);
	return (false);
}

/* Something declared is below this name. */
static int
name_below(struct pub *p, const struct name *e, const struct ent *b,
    struct ents *out, struct built *ret)
{
	size_t n = e->prefix + e->n;
	const char *path = p->v[e->lo].path;
	bool tree = b != NULL && b->mode == MODE_TREE;
	struct built below;
	struct ent new;

	if (b != NULL && b->mode == MODE_GITLINK && e->leaf == NULL)
		return (fail_path(p, "mode", path, n, "a submodule is in the "
		    "way"));
	if (b != NULL && !tree && e->leaf == NULL && some_came(p, e->lo, e->hi))
		return (fail_path(p, "path", path, n, "a file of that name is "
		    "in the way, and is not declared"));
	if (build(p, n + 1, e->lo, e->hi, tree ? &b->id : NULL, &below) != 0)
		return (-1);
	ret->changed |= below.changed;
	if (below.empty)
		return (0);
	new = (struct ent){ .mode = MODE_TREE, .name = e->s, .n = e->n,
		.id = below.id, .fresh = b == NULL };
	ents_add(out, &new);
	return (0);
}

static int
name_build(struct pub *p, const struct name *e, const struct ent *b,
    struct ents *out, struct built *ret)
{
	bool came = e->leaf != NULL && e->leaf->came;

	if (came && e->hi > e->lo && some_came(p, e->lo, e->hi))
		return (fail_path(p, "path", e->leaf->path,
		    strlen(e->leaf->path), "it came as a file and as a "
		    "directory"));
	if (came)
		return (leaf_came(p, e, b, out, ret));
	if (e->leaf != NULL && leaf_went(p, e, ret) != 0)
		return (-1);
	return (e->hi > e->lo ? name_below(p, e, b, out, ret) : 0);
}

/* Merge what stays of the base into out. */
static void
keep(const struct dir *d, const struct names *t, struct ents *out)
{
	for (size_t i = 0; i < d->in.n; i++) {
		const struct ent *b = &d->in.v[i];
		const struct name key = { .s = b->name, .n = b->n };

		if (bsearch(&key, t->v, t->n, sizeof(key), by_name) == NULL)
			ents_add(out, b);
	}
}

static int
close_dir(struct pub *p, struct ents *out, const char *path, size_t n,
    struct built *ret)
{
	struct sbx_buf SBX_CLEANUP_BUF body = { 0 };
	char a[64], b[64], dir[64];
	size_t i, k;

	if (ents_collide(out, &i, &k))
		return (pub_fail(p, "path", "%s%s and %s are one name where case "
		    "or normal form does not count", sbx_vis(dir, sizeof(dir),
		    path, n), sbx_vis(a, sizeof(a), out->v[i].name,
		    out->v[i].n), sbx_vis(b, sizeof(b), out->v[k].name,
		    out->v[k].n)));
	ents_sort(out);
	if (ents_write(out, p->format, &body) != 0)
		return (fail_path(p, "too_large", path, n, "a directory with "
		    "more entries than are written"));
	oid_of(p->h, p->format, OBJECT_TREE, body.len > 0 ? body.data : "",
	    body.len, &ret->id);
	return (0);
}

static int
build(struct pub *p, size_t prefix, size_t lo, size_t hi,
    const struct oid *tree, struct built *ret)
{
	CLEANUP_DIR struct dir d = { 0 };
	CLEANUP_NAMES struct names t = { 0 };
	struct ents out = { 0 };
	const char *path = p->v[lo].path;
	int r = 0;

	*ret = (struct built){ 0 };
	if (tree != NULL && dir_load(p, &d, tree, path, prefix) != 0)
		return (-1);
	names_make(p, &t, prefix, lo, hi);
	keep(&d, &t, &out);
	for (size_t i = 0; i < t.n && r == 0; i++)
		r = name_build(p, &t.v[i], ents_find(&d.in, t.v[i].s,
		    t.v[i].n), &out, ret);
	ret->empty = out.n == 0;
	if (r == 0 && !ret->changed && tree != NULL)
		ret->id = *tree;
	else if (r == 0)
		r = close_dir(p, &out, path, prefix, ret);
	free(out.v);
	return (r);
}

/* --- what a merge leaves out --------------------------------------------------------- */

static bool
same(const struct ent *a, const struct ent *b)
{
	return (a == NULL || b == NULL ? a == b : a->mode == b->mode &&
	    memcmp(&a->id, &b->id, sizeof(a->id)) == 0);
}

static bool
is_link(const struct ent *e)
{
	return (e != NULL && (e->mode == MODE_LINK || e->mode == MODE_GITLINK));
}

/* of: what parent2 and the fork have there, not the same. */
static int
left_leaf(struct pub *p, const char *path, const struct ent *const of[2])
{
	const struct decl *d = pub_find(p, path);

	if ((d != NULL && pub_theirs(p, d)) || (!path_sensitive(path) &&
	    !is_link(of[0]) && !is_link(of[1])))
		return (0);
	return (fail_path(p, "sensitive", path, strlen(path), "the merged "
	    "branch changed it, and the merge leaves that out; "
	    "allow_sensitive_paths is off"));
}

static int left(struct pub *p, const char *path, const struct oid *base,
    const struct oid *their, const struct oid *fork);

/* c: the base's. */
static int
left_name(struct pub *p, const char *dir, const struct ent *c,
    const struct ent *const of[2])
{
	const struct ent *e = of[0] != NULL ? of[0] : of[1];
	SBX_CLEANUP(free) char *path = sbx_xasprintf("%s%.*s", dir, (int)e->n,
	    e->name);
	SBX_CLEANUP(free) char *below = sbx_xasprintf("%s/", path);

	if (same(of[0], of[1]) || same(of[0], c))
		return (0);
	if (((of[0] != NULL && tree_of(of[0]) == NULL) ||
	    (of[1] != NULL && tree_of(of[1]) == NULL)) &&
	    left_leaf(p, path, of) != 0)
		return (-1);
	return (tree_of(of[0]) == NULL && tree_of(of[1]) == NULL ? 0 :
	    left(p, below, tree_of(c), tree_of(of[0]), tree_of(of[1])));
}

/*
 * Whoever merges this commit into that branch takes what the commit has: so what
 * parent2's side changed of what others run must not be left as it was.
 */
static int
left(struct pub *p, const char *path, const struct oid *base,
    const struct oid *their, const struct oid *fork)
{
	CLEANUP_DIR struct dir d = { 0 }, o = { 0 }, f = { 0 };
	const struct ents *const in[2] = { &o.in, &f.in };
	const size_t n = strlen(path);
	int r = 0;

	if (n > PUBLISH_MAX_PATH || p->depth == JUDGE_MAX_DEPTH)
		return (fail_path(p, "too_large", path, n, "it is too deep"));
	if ((base != NULL && dir_load(p, &d, base, path, n) != 0) ||
	    (their != NULL && dir_load(p, &o, their, path, n) != 0) ||
	    (fork != NULL && dir_load(p, &f, fork, path, n) != 0))
		return (-1);
	p->depth++;
	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; r == 0 && i < in[k]->n; i++) {
			const struct ent *e = &in[k]->v[i];
			const struct ent *of[2] = { ents_find(&o.in, e->name,
			    e->n), ents_find(&f.in, e->name, e->n) };

			if (k == 0 || of[0] == NULL)
				r = left_name(p, path, ents_find(&d.in,
				    e->name, e->n), of);
		}
	p->depth--;
	return (r);
}

void
pub_build(struct pub *p)
{
	struct built b;

	if (p->step[0] == '\0' && p->parent2[0] != '\0' &&
	    (p->allow & SBX_PUBLISH_SENSITIVE) == 0)
		(void)left(p, "", &p->base_tree, &p->their_tree,
		    p->fork[0] != '\0' ? &p->fork_tree : NULL);
	if (p->step[0] != '\0' || build(p, 0, 0, p->n, &p->base_tree, &b) != 0)
		return;
	p->tree = b.id;
	if (p->gone != NULL)
		(void)fail_path(p, "missing", p->gone->path,
		    strlen(p->gone->path), "neither the sandbox nor the base "
		    "has it");
	/* a merge may change nothing */
	else if (!b.changed && p->parent2[0] == '\0')
		(void)pub_fail(p, "unchanged", "every declared file is as in "
		    "the base already");
	else if (p->findings.total > 0)
		(void)pub_fail(p, "secret", "%u %s of a secret in what is new",
		    p->findings.total, p->findings.total == 1 ? "finding" :
		    "findings");
}
