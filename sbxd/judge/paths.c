/*
 * Which paths may be published.  A name that some file system takes for git's own
 * directory is never good, wherever this suite runs: who checks it out may have
 * such a one (verify_path() in git's read-cache.c, is_ntfs_dotgit(), is_hfs_dotgit()).
 */
#include "sbxd/judge/publish.h"

#include <string.h>

/* As NTFS sees it: without a stream's name, and dots and spaces at its end. */
static char *
plain(const char *name, size_t n)
{
	char *f = fold_name(name, n);

	n = strcspn(f, ":");
	while (n > 0 && (f[n - 1] == '.' || f[n - 1] == ' '))
		n--;
	f[n] = '\0';
	return (f);
}

/* NTFS's short name of .git is GIT~1, of .gitmodules GITMOD~1 or GI7EBA~1. */
static bool
short_name(const char *f)
{
	const char *tilde = strchr(f, '~');

	return (f[0] == 'g' && strlen(f) <= 8 && tilde != NULL &&
	    tilde[1] != '\0' &&
	    tilde[1 + strspn(tilde + 1, "0123456789")] == '\0');
}

static const char *
name_refused(const char *p, size_t n)
{
	SBX_CLEANUP(free) char *f = NULL;

	if (n == 0 || n > 255)
		return (n == 0 ? "an empty name in it" : "a name of more than "
		    "255 bytes in it");
	if ((n == 1 && p[0] == '.') || (n == 2 && strncmp(p, "..", 2) == 0))
		return ("\".\" or \"..\" in it");
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c < 32 || c == 127 || (c == 0xc2 && i + 1 < n &&
		    (unsigned char)p[i + 1] < 0xa0))
			return ("a control character in it");
		if (c == '\\')
			return ("a backslash in it");
	}
	f = plain(p, n);
	if (f[0] == '\0')
		return ("a name in it that some file systems have no name "
		    "for");
	if (strcmp(f, ".git") == 0 || short_name(f))
		return ("a name in it that is, or somewhere is, .git");
	return (NULL);
}

const char *
path_refused(const char *path)
{
	const char *p = path, *why;
	unsigned depth = 0;
	size_t n;

	if (strlen(path) > PUBLISH_MAX_PATH)
		return ("it is too long");
	if (!utf8_valid(path, strlen(path)))
		return ("it is no UTF-8");
	for (;; p += n + 1) {
		n = strcspn(p, "/");
		if (++depth > JUDGE_MAX_DEPTH)
			return ("it is too deep");
		if ((why = name_refused(p, n)) != NULL || p[n] == '\0')
			return (why);
	}
}

bool
path_sensitive(const char *path)
{
	char first[24] = "";
	unsigned depth = 0;
	const char *p;
	size_t n;
	bool hit = false;

	for (p = path;; p += n + 1, depth++) {
		SBX_CLEANUP(free) char *f = NULL;

		n = strcspn(p, "/");
		f = plain(p, n);
		hit |= strcmp(f, ".gitmodules") == 0 ||
		    strcmp(f, ".gitattributes") == 0 ||
		    (depth == 0 && (strcmp(f, ".github") == 0 ||
		    strcmp(f, BASELINE) == 0));
		if (depth == 0)
			(void)sbx_strlcpy(first, f, sizeof(first));
		if (p[n] == '\0')
			return (hit || (strcmp(f, "codeowners") == 0 &&
			    (depth == 0 || (depth == 1 &&
			    strcmp(first, "docs") == 0))));
	}
}

/* --- names that are one somewhere ------------------------------------------------- */

struct folded {
	char *name;		/* owned */
	size_t i;		/* in the tree */
	bool fresh;
};

/* Fresh ones first among the same. */
static int
by_fold(const void *pa, const void *pb)
{
	const struct folded *a = pa, *b = pb;
	int r = strcmp(a->name, b->name);

	return (r != 0 ? r : (int)b->fresh - (int)a->fresh);
}

bool
ents_collide(const struct ents *t, size_t *ret_a, size_t *ret_b)
{
	SBX_CLEANUP(free) struct folded *v = NULL;
	bool fresh = false, found = false;

	for (size_t i = 0; i < t->n; i++)
		fresh |= t->v[i].fresh;
	if (!fresh)
		return (false);
	v = sbx_xcalloc(t->n, sizeof(*v));
	for (size_t i = 0; i < t->n; i++)
		v[i] = (struct folded){ fold_name(t->v[i].name, t->v[i].n), i,
			t->v[i].fresh };
	qsort(v, t->n, sizeof(*v), by_fold);
	for (size_t i = 1; i < t->n && !found; i++)
		if (v[i - 1].fresh && strcmp(v[i - 1].name, v[i].name) == 0) {
			*ret_a = v[i - 1].i;
			*ret_b = v[i].i;
			found = true;
		}
	for (size_t i = 0; i < t->n; i++)
		free(v[i].name);
	return (found);
}
