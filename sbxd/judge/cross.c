/*
 * The declared files on their way to the publisher: as git would take them in,
 * hashed, and looked through for secrets.  A file is only held whole where its
 * line ends or its $Id$ may change.
 */
#include "common/proto/copystream.h"
#include "sbxd/judge/publish.h"
#include "sbxd/judge/stream.h"

#include <stdio.h>
#include <string.h>

struct cross {
	struct pub *p;
	int in, out;
	struct record rec;
	struct decl *d;
	char *old;		/* owned: the base's file of that path, NULL: */
	size_t nold;		/* there is none, or it was not given */
};

/* --- secrets ------------------------------------------------------------------- */

/* What was not looked at is nobody's to judge. */
static bool
is_waived(const struct pub *p, const struct scan_finding *f)
{
	if (strcmp(f->rule, SCAN_LIMIT) == 0)
		return (false);
	for (size_t i = 0; i < p->nwaived; i++)
		if (strcmp(p->waived[i], f->fingerprint) == 0)
			return (true);
	return (false);
}

static void
found(void *ctx, const struct scan_finding *f)
{
	struct pub *p = ctx;
	struct told *t = is_waived(p, f) ? &p->passed : &p->findings;
	char line[16];
	const char *const words[] = { f->rule, p->named != NULL ? p->named :
		f->path, line, f->fingerprint };
	size_t need = 0;
	struct sbx_strs s = { 0 };

	t->total += t->total < UINT32_MAX;
	(void)snprintf(line, sizeof(line), "%u", f->line);
	for (size_t i = 0; i < SBX_NELEM(words); i++)
		need += strlen(words[i]) + 1;
	if (t->n == PUBLISH_FINDINGS || need > t->text.max - t->text.len)
		return;
	t->n++;
	for (size_t i = 0; i < SBX_NELEM(words); i++)
		(void)sbx_strs_add(&s, &t->text, words[i]);
}

void
pub_scan_begin(struct pub *p, const char *path, const char *old, size_t nold)
{
	scan_begin(p->scan, path, old, nold, found, p);
}

/* What it does not manage it reports. */
void
pub_scan_add(struct pub *p, const void *data, size_t n)
{
	(void)scan_add(p->scan, data, n);
}

void
pub_scan_end(struct pub *p)
{
	(void)scan_end(p->scan);
}

/* Findings of a file that parent2 has just so: the repository has them, and
 * whoever put them there answers for them. */
struct mark {
	struct {
		uint32_t n, total;
		size_t len;
	} v[2];
};

static struct mark
mark(const struct pub *p)
{
	const struct told *f = &p->findings, *w = &p->passed;

	return ((struct mark){ { { f->n, f->total, f->text.len },
	    { w->n, w->total, w->text.len } } });
}

static void
forget(struct pub *p, const struct mark *m)
{
	struct told *const v[] = { &p->findings, &p->passed };

	for (size_t i = 0; i < SBX_NELEM(v); i++) {
		v[i]->n = m->v[i].n;
		v[i]->total = m->v[i].total;
		v[i]->text.len = m->v[i].len;
	}
}

static void
scan_text(struct pub *p, const char *name, const char *text, size_t n)
{
	pub_scan_begin(p, name, NULL, 0);
	pub_scan_add(p, text, n);
	pub_scan_end(p);
}

/* Under no name that rules may pass over. */
static void
scan_path(struct pub *p, const char *path)
{
	p->named = path;
	scan_text(p, "(path)", path, strlen(path));
	p->named = NULL;
}

/* --- files ----------------------------------------------------------------------- */

static int
fail_file(struct cross *c, const char *step, const char *why)
{
	char text[128];

	return (pub_fail(c->p, step, "%s: %s", sbx_vis(text, sizeof(text),
	    c->rec.path, strlen(c->rec.path)), why));
}

static int
take(struct cross *c, void *p, size_t n)
{
	const char *why;
	int error;

	return (stream_take(c->in, p, n, &error, &why) == 0 ? 0 :
	    pub_fail(c->p, "suite", "%s", why));
}

static int
give(struct cross *c, const void *p, size_t n)
{
	return (sbx_write_all(c->out, p, n) == 0 ? 0 : pub_fail(c->p,
	    "suite", "the files were not taken"));
}

static int
begin(struct cross *c, uint64_t size)
{
	char path[SBX_COPY_MAX_PATH + sizeof("files/")];

	(void)snprintf(path, sizeof(path), "files/%s", c->rec.path);
	hasher_begin(c->p->h, "blob", size);
	pub_scan_begin(c->p, c->rec.path, c->old, c->nold);
	return (stream_head(c->out, c->rec.type, c->rec.mode, path, size) == 0 ?
	    0 : pub_fail(c->p, "suite", "the files were not taken"));
}

static int
piece(struct cross *c, const char *p, size_t n)
{
	hasher_add(c->p->h, p, n);
	pub_scan_add(c->p, p, n);
	return (give(c, p, n));
}

static void
end(struct cross *c)
{
	oid_end(c->p->h, c->p->format, &c->d->id);
	pub_scan_end(c->p);
}

static int
pass_through(struct cross *c)
{
	char buf[64 << 10];
	uint64_t left = c->rec.size;
	bool link = c->rec.type == SBX_COPY_T_LINK;

	if (link && left == 0)
		return (fail_file(c, "mode", "a link to nothing"));
	if (begin(c, left) != 0)
		return (-1);
	while (left > 0) {
		size_t n = left < sizeof(buf) ? (size_t)left : sizeof(buf);

		if (take(c, buf, n) != 0)
			return (-1);
		if (link && memchr(buf, '\0', n) != NULL)
			return (fail_file(c, "mode", "a link to what has no "
			    "name"));
		if (piece(c, buf, n) != 0)
			return (-1);
		left -= n;
	}
	end(c);
	return (0);
}

static int
pass_cleaned(struct cross *c)
{
	const struct attrs *a = &c->d->attrs;
	SBX_CLEANUP(free) char *p = NULL;
	size_t n = (size_t)c->rec.size;
	bool old_crlf = false;

	if (c->rec.size > PUBLISH_CONVERT_BYTES)
		return (fail_file(c, "too_large", "the base's attributes change "
		    "its line ends or $Id$, which takes a file of at most "
		    "64 MiB"));
	p = sbx_xreallocarray(NULL, n + 1, 1);
	if (take(c, p, n) != 0)
		return (-1);
	if (c->old != NULL)
		old_crlf = convert_has_crlf(c->old, c->nold);
	else if (c->d->base_mode != 0 && c->d->base_mode != MODE_TREE &&
	    c->d->base_mode != MODE_GITLINK && convert_asks_old(a, p, n))
		return (fail_file(c, "too_large", "what becomes of its line ends "
		    "depends on the base's file, which is too large"));
	n = convert_clean(a, old_crlf, p, n);
	if (begin(c, n) != 0 || piece(c, p, n) != 0)
		return (-1);
	end(c);
	return (0);
}

static int
load_old(struct cross *c)
{
	const struct object *o = c->d->base_mode == 0 ? NULL :
	    base_find(&c->p->objects, &c->d->base_id, OBJECT_BLOB);

	free(c->old);
	c->old = NULL;
	c->nold = 0;
	if (o == NULL)
		return (0);
	if (base_load(&c->p->objects, o, &c->old) != 0)
		return (fail_file(c, "base", "the base's file cannot be read"));
	c->nold = o->size;
	return (0);
}

/* What would be refused of it is where it is parent2's, byte for byte as the
 * sandbox has it. */
static int
pass_content(struct cross *c)
{
	const struct attrs *a = &c->d->attrs;
	bool file = c->d->mode != MODE_LINK;
	bool refused = file && a->refused[0] != '\0';
	struct mark m = mark(c->p);
	int r;

	if (refused && c->d->their_mode == 0)
		return (fail_file(c, "attribute", a->refused));
	r = file && !refused && (a->eol != EOL_NONE || a->ident) ?
	    pass_cleaned(c) : pass_through(c);
	if (r == 0 && pub_theirs(c->p, c->d))
		forget(c->p, &m);
	else if (r == 0 && refused)
		return (fail_file(c, "attribute", a->refused));
	return (r);
}

/* 1: it was the end. */
static int
pass_file(struct cross *c)
{
	struct pub *p = c->p;
	const char *why;
	int error, r;

	r = stream_record(c->in, &c->rec, &error, &why);
	if (r != 0)
		return (r > 0 ? r : pub_fail(p, "suite", "%s", why));
	if (c->rec.size > SBX_COPY_MAX_BYTES - p->bytes)
		return (fail_file(c, "too_large", "more bytes than may be "
		    "published at once"));
	p->bytes += c->rec.size;
	c->d = pub_find(p, c->rec.path);
	if (c->d == NULL || c->d->merged || c->d->came)
		return (fail_file(c, "path", c->d == NULL || c->d->merged ?
		    "it came and is not declared" : "it came twice"));
	c->d->came = true;
	c->d->mode = c->rec.type == SBX_COPY_T_LINK ? MODE_LINK :
	    c->rec.mode == 0755 ? MODE_EXEC : MODE_FILE;
	if (c->d->base_mode == 0 && c->d->their_mode == 0)
		scan_path(p, c->rec.path);
	return (load_old(c) != 0 ? -1 : pass_content(c));
}

void
pub_cross(struct pub *p, int in, int out)
{
	SBX_CLEANUP(free) struct cross *c = sbx_xcalloc(1, sizeof(*c));
	int r;

	if (p->step[0] != '\0')
		return;
	c->p = p;
	c->in = in;
	c->out = out;
	scan_text(p, "(message)", p->message, p->message_len);
	scan_text(p, "(author)", p->author, strlen(p->author));
	while ((r = pass_file(c)) == 0)
		;
	free(c->old);
}
