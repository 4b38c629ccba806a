/* What git printed of a base, its trees and attributes, and paths. */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sbxd/judge/publish.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
try_base(int format, const char *p, size_t n)
{
	struct base b;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd == -1 || write(fd, p, n) != (ssize_t)n)
		abort();
	if (base_read(&b, fd, 0, n, format) == 0)
		for (size_t i = 0; i < b.n; i++) {
			SBX_CLEANUP(free) char *text = NULL;

			/* what was read once is there again */
			if (base_load(&b, &b.v[i], &text) != 0)
				abort();
		}
	else if (b.reason[0] == '\0')
		abort();
	base_clear(&b);
	(void)close(fd);
}

/* A tree that is read is written as the same bytes, but for modes. */
static void
try_tree(int format, const char *p, size_t n)
{
	struct ents t = { 0 };
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	size_t i, k;

	if (ents_parse(&t, format, p, n) == 0) {
		ents_sort(&t);
		if (ents_write(&t, format, &b) != 0 || b.len != n)
			abort();
		for (i = 0; i < t.n; i++)
			if (ents_find(&t, t.v[i].name, t.v[i].n) != &t.v[i])
				abort();
		if (t.n > 0)
			t.v[0].fresh = true;
		(void)ents_collide(&t, &i, &k);
	}
	free(t.v);
}

static void
try_attr(const char *path, const char *p, size_t n)
{
	struct attr_set *s = attr_new();
	char why[128];
	struct attrs a;
	const char *slash = strchr(path, '/');

	if (attr_push(s, "", 0, p, n / 2, why) == 0 && (slash == NULL ||
	    attr_push(s, path, (size_t)(slash - path) + 1, p + n / 2,
	    n - n / 2, why) == 0) && attr_lookup(s, path, &a) == 0) {
		SBX_CLEANUP(free) char *text = sbx_xcalloc(n + 1, 1);

		memcpy(text, p, n);
		if (convert_clean(&a, false, text, n) > n)
			abort();
	}
	attr_free(s);
}

/* No good path has a component that is .git to anybody. */
static void
try_path(const char *path)
{
	SBX_CLEANUP(free) char *f = fold_name(path, strlen(path));

	(void)path_sensitive(path);
	if (path_refused(path) == NULL && (strcmp(f, ".git") == 0 ||
	    strncmp(f, ".git/", 5) == 0 || strstr(f, "/.git/") != NULL ||
	    strstr(f, "//") != NULL || strchr(f, '\\') != NULL))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	SBX_CLEANUP(free) char *rest = NULL;
	char path[256];
	const uint8_t *nul, *from;
	size_t n;
	int format;

	if (size < 2)
		return (0);
	format = (data[0] & 16) != 0 ? ID_SHA256 : ID_SHA1;
	nul = memchr(data + 1, 0, size - 1);
	from = nul == NULL ? data + 1 : nul + 1;
	n = nul == NULL ? 0 : (size_t)(nul - data - 1);
	if (n >= sizeof(path))
		return (0);
	memcpy(path, data + 1, n);
	path[n] = '\0';
	n = size - (size_t)(from - data);
	rest = sbx_xcalloc(n == 0 ? 1 : n, 1);	/* ends where its memory does */
	memcpy(rest, from, n);
	switch (data[0] & 3) {
	case 0:
		try_base(format, rest, n);
		break;
	case 1:
		try_tree(format, rest, n);
		break;
	case 2:
		try_attr(path, rest, n);
		break;
	default:
		try_path(path);
	}
	return (0);
}
