/*
 * Is there work newer than a baseline?  Read from the scratch layer and those
 * it stands on, from outside, by change times that no guest can set.  A guest
 * could only make work of its own look old by not doing it.
 */
#include "sbxd/engine/engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_ENTRIES 100000
#define MAX_NS 150000000ull	/* the asker's caller has 200 ms in all */
#define MAX_DEPTH 64
#define MAX_NAMES 10

/* What tools make by themselves, wherever it is. */
static const char *const caches[] = { "__pycache__", "node_modules",
	".pytest_cache", ".mypy_cache", ".ruff_cache", ".cache" };
/* Of .git only what says that something was committed. */
static const char *const git_kept[] = { "HEAD", "refs", "packed-refs" };

struct search {
	uint64_t since_ns, until_ns, copied_from_ns, copied_to_ns;
	unsigned entries;
	bool complete;
	struct sbx_engine_work_found m;
	struct sbx_buf names;
	bool copied;		/* as in struct layer */
	int above[SBX_MAX_LAYERS + 1]; /* tops of the layers gone through */
	unsigned nabove;
	char path[PATH_MAX];
};

static bool
listed(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, list[i]) == 0)
			return (true);
	return (false);
}

/*
 * Another is seen there, or nothing.  What lies below an opaque directory is
 * taken for seen: that can only make the guard stricter.
 */
static bool
hidden(const struct search *s)
{
	struct stat st;

	for (unsigned i = 0; i < s->nabove; i++)
		if (fstatat(s->above[i], s->path, &st,
		    AT_SYMLINK_NOFOLLOW) == 0 || errno == ENOTDIR)
			return (true);
	return (false);
}

static bool
is_newer(const struct search *s, const struct stat *st)
{
	const struct timespec *t = s->copied ? &st->st_atim : &st->st_ctim;
	uint64_t ns = (uint64_t)t->tv_sec * 1000000000ull +
	    (uint64_t)t->tv_nsec;

	return (ns > s->since_ns && (ns < s->copied_from_ns ||
	    ns > s->copied_to_ns));
}

/* Something of a layer below was deleted here. */
static bool
is_whiteout(const struct stat *st)
{
	return (S_ISCHR(st->st_mode) && st->st_rdev == 0);
}

/* What git wrote of a commit is counted: its names tell nobody what was done. */
static void
found(struct search *s, bool git)
{
	char text[256];

	s->m.count++;
	if (!git && s->m.names.count < MAX_NAMES)
		(void)sbx_strs_add(&s->m.names, &s->names, sbx_vis(text,
		    sizeof(text), s->path, strlen(s->path)));
}

static void walk(struct search *s, int dir, bool git, unsigned depth);

/* One entry; its path is in s->path. */
static void
visit(struct search *s, int dir, const char *name, bool git, unsigned depth)
{
	struct stat st;
	int sub;

	if (++s->entries > MAX_ENTRIES || sbx_mono_ns() > s->until_ns) {
		s->complete = false;
		return;
	}
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return;
	if (S_ISDIR(st.st_mode)) {
		/* by its contents: its own time changes with every cache */
		sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
		    O_CLOEXEC);
		if (sub == -1 || depth >= MAX_DEPTH)
			s->complete = false;
		if (sub != -1 && depth < MAX_DEPTH)
			walk(s, sub, git || strcmp(name, ".git") == 0,
			    depth + 1);
		else
			sbx_close(&sub);
		return;
	}
	if ((!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode) &&
	    !is_whiteout(&st)) || hidden(s))
		return;
	if (is_newer(s, &st))
		found(s, git);
	else
		s->m.old += !is_whiteout(&st);
}

/* dir: consumed */
static void
walk(struct search *s, int dir, bool git, unsigned depth)
{
	size_t len = strlen(s->path);
	bool git_top = git && len >= 4 &&
	    strcmp(s->path + len - 4, ".git") == 0;
	DIR *d = fdopendir(dir);
	struct dirent *e;

	if (d == NULL) {
		s->complete = false;
		(void)close(dir);
		return;
	}
	while (s->complete && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (git ? git_top && !listed(e->d_name, git_kept,
		    SBX_NELEM(git_kept)) : listed(e->d_name, caches,
		    SBX_NELEM(caches)))
			continue;
		if (snprintf(s->path + len, sizeof(s->path) - len, "%s%s",
		    len > 0 ? "/" : "", e->d_name) <
		    (int)(sizeof(s->path) - len))
			visit(s, dir, e->d_name, git, depth);
		else
			s->complete = false;
		s->path[len] = '\0';
	}
	(void)closedir(d);
}

/* PATH below a layer (borrowed), one component after the other, no link and no
 * ".." followed; -1 with ENOENT: nothing was ever written there. */
static int
open_below(int layer, const char *path)
{
	char part[NAME_MAX + 1];
	int dir = fcntl(layer, F_DUPFD_CLOEXEC, 3), next;

	while (dir != -1 && *path != '\0') {
		size_t n = strcspn(path, "/");

		if ((n == 2 && strncmp(path, "..", 2) == 0) ||
		    n >= sizeof(part)) {
			sbx_close(&dir);
			errno = EINVAL;
			return (-1);
		}
		if (n > 0) {
			memcpy(part, path, n);
			part[n] = '\0';
			next = openat(dir, part, O_RDONLY | O_DIRECTORY |
			    O_NOFOLLOW | O_CLOEXEC);
			sbx_close(&dir);
			dir = next;
		}
		path += n + (path[n] == '/');
	}
	return (dir);
}

/* What path is in this layer, and is not hidden by those before. */
static void
search_layer(struct search *s, int layer, const char *path, bool copied)
{
	int dir = open_below(layer, path);

	s->copied = copied;
	if (dir == -1) {
		/* a layer may hold something else there, or its end */
		if (errno != ENOENT && (errno != ENOTDIR || s->nabove == 0))
			s->complete = false;
		return;
	}
	if (s->complete)
		walk(s, fcntl(dir, F_DUPFD_CLOEXEC, 3), false, 0);
	s->above[s->nabove++] = dir;
}

void
work_find(struct sandbox *sb, const struct sbx_engine_work *q, uint32_t id)
{
	struct search *s = sbx_xcalloc(1, sizeof(*s));
	char path[LAYER_NAME + 8];
	int SBX_CLEANUP(fd) upper = -1;

	s->since_ns = q->since_ns;
	s->copied_from_ns = q->copied_from_ns;
	s->copied_to_ns = q->copied_to_ns;
	s->until_ns = sbx_mono_ns() + MAX_NS;
	s->complete = true;
	s->m.container = sb->id;
	sbx_buf_init(&s->names, 4096);
	(void)snprintf(path, sizeof(path), "%s/upper", sb->dir);
	upper = openat(sb->e->scratch_fd, path, O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC);
	if (upper == -1)
		s->complete = false;
	else
		search_layer(s, upper, q->path, false);
	for (unsigned i = 0; s->complete && i < sb->stack.n; i++)
		search_layer(s, sb->stack.layers[i]->upper, q->path,
		    sb->stack.layers[i]->copied);
	s->m.complete = s->complete;
	(void)sbx_send_engine_work_found(sb->e->monitor, id, &s->m, NULL);
	while (s->nabove > 0)
		sbx_close(&s->above[--s->nabove]);
	sbx_buf_clear(&s->names);
	free(s);
}
