#include "sbxd/copyin/copyin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How a file is looked into before it is copied. */
enum look {
	LOOK_NONE,	/* packed by git, or for a listing only */
	LOOK_GIT,	/* texts of git's own */
	LOOK_ALL,
};

#define MAX_DEPTH 128
#define LIST_MAX (64u << 20)

int
open_below(int dir, const char *path, uint64_t flags)
{
	struct open_how how = { .flags = flags | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
		    RESOLVE_NO_MAGICLINKS };

	return ((int)syscall(SYS_openat2, dir, path, &how, sizeof(how)));
}

const char *
open_why(int error)
{
	switch (error) {
	case ENOENT:
		return ("there is no such file or directory");
	case EXDEV:
		return ("it is not below the directory that this client may "
		    "copy from");
	case ELOOP:
		return ("it is, or leads through, a symbolic link");
	case ENOTDIR:
		return ("it is not a directory");
	case EACCES:
	case EPERM:
		return ("permission denied");
	default:
		return ("it cannot be read");
	}
}

/* Relative, without empty components, "." and "..". */
static bool
path_good(const char *path)
{
	const char *p = path;

	if (strlen(path) > SBX_COPY_MAX_PATH)
		return (false);
	for (;;) {
		size_t n = strcspn(p, "/");

		if (n == 0 || n > NAME_MAX || (n == 1 && p[0] == '.') ||
		    (n == 2 && p[0] == '.' && p[1] == '.'))
			return (false);
		if (p[n] == '\0')
			return (true);
		p += n + 1;
	}
}

/* What git reads there is not copied as if it were a file of a project. */
bool
in_git(const char *path)
{
	for (const char *p = path; p != NULL; p = strchr(p, '/')) {
		p += *p == '/';
		if (strncasecmp(p, ".git", 4) == 0 &&
		    (p[4] == '/' || p[4] == '\0'))
			return (true);
	}
	return (false);
}

/* Does the link's text stay below the source, seen from where it is? */
static bool
link_stays(const char *path, const char *target)
{
	int depth = 0;

	if (target[0] == '/')
		return (false);
	for (const char *p = path; (p = strchr(p, '/')) != NULL; p++)
		depth++;
	for (const char *p = target; *p != '\0';) {
		size_t n = strcspn(p, "/");

		if (n == 2 && p[0] == '.' && p[1] == '.') {
			if (--depth < 0)
				return (false);
		} else if (n > 0 && !(n == 1 && p[0] == '.'))
			depth++;
		p += n + (p[n] == '/');
	}
	return (true);
}

static int
copy_link(struct copyin *c, int fd, const char *path)
{
	char target[SBX_COPY_MAX_PATH + 1];
	ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);

	if (n <= 0) {
		copy_report(c, "skipped: unreadable link", path);
		return (0);
	}
	target[n] = '\0';
	if (!link_stays(path, target)) {
		copy_report(c, "skipped: link out of the source", path);
		return (0);
	}
	return (out_record(c, SBX_COPY_T_LINK, 0, path, target, (uint64_t)n));
}

/* Fill c->buf from fd: bytes read, at most SCAN_MAX + 1, or -1. */
static ssize_t
read_small(struct copyin *c, int fd)
{
	size_t got = 0;
	ssize_t n;

	while (got <= SCAN_MAX) {
		n = read(fd, c->buf + got, SCAN_MAX + 1 - got);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return (-1);
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return ((ssize_t)got);
}

/* Judged by its whole path below the root: a source may be within .ssh. */
static const char *
refused(const struct copyin *c, const char *path, enum look look,
    const char *text, size_t len)
{
	char whole[2 * SBX_COPY_MAX_PATH + 2];

	if (look == LOOK_ALL) {
		(void)snprintf(whole, sizeof(whole), "%s/%s", c->src_path,
		    path);
		return (refuse_file(whole, text, len));
	}
	return (look == LOOK_GIT && text != NULL ?
	    refuse_git_file(text, len) : NULL);
}

/*
 * A regular file, opened: `path` in the source, sent as `name`.  Small ones
 * are looked into before a byte leaves; the length said first is the length
 * sent, whatever happens to the file.
 */
static int
copy_open_file(struct copyin *c, int fd, const struct stat *st,
    const char *path, const char *name, enum look look)
{
	const char *why;
	ssize_t got;

	if (st->st_size > (off_t)SCAN_MAX || look == LOOK_NONE) {
		why = refused(c, path, look, NULL, 0);
		if (why == NULL)
			return (out_file(c, fd, st->st_mode, name,
			    (uint64_t)st->st_size));
		copy_report(c, why, path);
		return (0);
	}
	got = read_small(c, fd);
	if (got > (ssize_t)SCAN_MAX)
		return (copy_fail(c, EAGAIN, "a file grew while it was read: "
		    "try again"));
	why = got < 0 ? "skipped: it cannot be read" :
	    refused(c, path, look, c->buf, (size_t)got);
	if (why != NULL) {
		copy_report(c, why, path);
		return (0);
	}
	return (out_record(c, SBX_COPY_T_FILE, st->st_mode, name, c->buf,
	    (uint64_t)got));
}

static const char *
skip_why(int error)
{
	return (error == ENOENT ? "skipped: it is gone" :
	    error == EACCES || error == EPERM ? "skipped: permission denied" :
	    error == ELOOP || error == EXDEV ?
	    "skipped: a symbolic link leads there" :
	    "skipped: it cannot be read");
}

static int
copy_path(struct copyin *c, const char *path, enum look look)
{
	int SBX_CLEANUP(fd) at = -1, SBX_CLEANUP(fd) fd = -1;
	struct stat st;

	at = open_below(c->src, path, O_PATH | O_NOFOLLOW);
	if (at == -1 || fstat(at, &st) == -1) {
		copy_report(c, skip_why(errno), path);
		return (0);
	}
	if (S_ISLNK(st.st_mode))
		return (copy_link(c, at, path));
	if (!S_ISREG(st.st_mode)) {
		copy_report(c, S_ISDIR(st.st_mode) ?
		    "skipped: a directory, maybe a repository of its own" :
		    "skipped: not a regular file", path);
		return (0);
	}
	/* opened anew to read; it may be something else by now */
	fd = open_below(c->src, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	if (fd == -1) {
		copy_report(c, skip_why(errno), path);
		return (0);
	}
	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)) {
		copy_report(c, "skipped: not a regular file", path);
		return (0);
	}
	return (copy_open_file(c, fd, &st, path, path, look));
}

/* --- directories ------------------------------------------------------------ */

typedef int visitor(struct copyin *, const char *, bool);

/* Every entry below path (relative to src), directories themselves too. */
static int
each_below(struct copyin *c, const char *path, unsigned depth, visitor *visit)
{
	int fd = open_below(c->src, path[0] != '\0' ? path : ".",
	    O_RDONLY | O_DIRECTORY);
	char sub[SBX_COPY_MAX_PATH + 1];
	struct dirent *e;
	struct stat st;
	DIR *d;
	int r = 0;

	if (fd == -1 || depth > MAX_DEPTH || (d = fdopendir(fd)) == NULL) {
		sbx_close(&fd);
		copy_report(c, "skipped: unreadable directory", path);
		return (0);
	}
	while (r == 0 && (e = readdir(d)) != NULL) {
		bool is_dir;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (snprintf(sub, sizeof(sub), "%s%s%s", path,
		    path[0] != '\0' ? "/" : "", e->d_name) >=
		    (int)sizeof(sub)) {
			copy_report(c, "skipped: the path is too long",
			    e->d_name);
			continue;
		}
		is_dir = e->d_type == DT_DIR || (e->d_type == DT_UNKNOWN &&
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ==
		    0 && S_ISDIR(st.st_mode));
		r = visit(c, sub, is_dir);
		if (r == 0 && is_dir)
			r = each_below(c, sub, depth + 1, visit);
		else if (r == 1)
			r = 0;	/* not into this one */
	}
	(void)closedir(d);
	return (r);
}

static const char *
base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return (slash != NULL ? slash + 1 : path);
}

/* What of .git a listing is made from: tracked names, and those that this
 * clone alone ignores.  Absent in a new repository: nothing is lost. */
static int
copy_git_lists(struct copyin *c)
{
	static const char *const lists[] = { ".git/index",
		".git/info/exclude" };
	struct stat st;
	int r = out_record(c, SBX_COPY_T_DIR, 0, ".git", NULL, 0);

	for (size_t i = 0; r == 0 && i < SBX_NELEM(lists); i++)
		if (fstatat(c->src, lists[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			r = copy_path(c, lists[i], LOOK_NONE);
	return (r);
}

/* NAMES: every name, but content only for what git needs to list them. */
static int
visit_name(struct copyin *c, const char *path, bool is_dir)
{
	const char *name = base(path);

	if (strcmp(name, ".git") == 0) {
		if (name != path)
			return (1);	/* another repository's */
		if (!is_dir)		/* a linked work tree: git will say */
			return (out_record(c, SBX_COPY_T_FILE, 0, path, NULL,
			    0));
		return (copy_git_lists(c) == 0 ? 1 : -1);
	}
	if (is_dir)
		return (out_record(c, SBX_COPY_T_DIR, 0, path, NULL, 0));
	if (strcmp(name, ".gitignore") == 0)
		return (copy_path(c, path, LOOK_NONE));
	return (out_record(c, SBX_COPY_T_FILE, 0, path, NULL, 0));
}

int
walk_names(struct copyin *c)
{
	int r = each_below(c, "", 0, visit_name);

	/* what a listing passes over is reported by the copy itself */
	c->refused = 0;
	return (r);
}

static int
copy_git_config(struct copyin *c, const char *path)
{
	int SBX_CLEANUP(fd) fd = open_below(c->src, path, O_RDONLY |
	    O_NOFOLLOW | O_NONBLOCK);
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct stat st;
	ssize_t got = -1;

	sbx_buf_init(&b, SCAN_MAX);
	if (fd != -1 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		got = read_small(c, fd);
	if (got < 0 || got > (ssize_t)SCAN_MAX) {
		copy_report(c, "skipped: it cannot be read", path);
		return (0);
	}
	if (clean_git_config(c->buf, (size_t)got, &b) != 0)
		copy_report(c, "skipped: the rest of it is not in git's syntax",
		    path);
	return (out_record(c, SBX_COPY_T_FILE, 0, path, b.data, b.len));
}

/*
 * What of .git is not copied: what git would execute, what belongs to the
 * host or to other work trees, locks of a git that runs there now.
 */
static const struct {
	const char *path;
	const char *why;	/* NULL: nobody misses it */
} git_left_out[] = {
	{ ".git/hooks", NULL },
	{ ".git/worktrees", NULL },
	{ ".git/modules", NULL },
	{ ".git/config.worktree", NULL },
	{ ".git/fsmonitor--daemon", NULL },
	{ ".git/fsmonitor--daemon.ipc", NULL },
	{ ".git/credentials", "refused: a secret by its name" },
	{ ".git/objects/info/alternates", "skipped: objects are borrowed from "
	    "another repository; git repack -a -d makes it complete" },
};

static int
visit_git(struct copyin *c, const char *path, bool is_dir)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < SBX_NELEM(git_left_out); i++)
		if (strcmp(path, git_left_out[i].path) == 0) {
			if (git_left_out[i].why != NULL)
				copy_report(c, git_left_out[i].why, path);
			return (1);
		}
	if (n > 5 && strcmp(path + n - 5, ".lock") == 0)
		return (1);
	if (strcmp(path, ".git/config") == 0)
		return (copy_git_config(c, path));
	if (is_dir)
		return (out_record(c, SBX_COPY_T_DIR, 0, path, NULL, 0));
	return (copy_path(c, path, strncmp(path, ".git/objects/", 13) == 0 ||
	    strcmp(path, ".git/index") == 0 ? LOOK_NONE : LOOK_GIT));
}

static int
copy_git(struct copyin *c)
{
	struct stat st;

	if (fstatat(c->src, ".git", &st, AT_SYMLINK_NOFOLLOW) == -1 ||
	    !S_ISDIR(st.st_mode)) {
		copy_report(c, "refused: a linked work tree, whose repository "
		    "is elsewhere; copy the main one", ".git");
		return (0);
	}
	if (out_record(c, SBX_COPY_T_DIR, 0, ".git", NULL, 0) != 0)
		return (-1);
	return (each_below(c, ".git", 0, visit_git));
}

/* Safe for a hostile list: a guest made it.  It names what is copied, below
 * the source in any case, and .git as a whole only. */
static int
copy_listed(struct copyin *c, const char *path)
{
	if (strcmp(path, ".git") == 0)
		return (copy_git(c));
	if (!path_good(path)) {
		copy_report(c, "skipped: not a plain relative path", path);
		return (0);
	}
	if (in_git(path)) {
		copy_report(c, "skipped: a part of a repository", path);
		return (0);
	}
	return (copy_path(c, path, LOOK_ALL));
}

int
walk_list(struct copyin *c, int list_fd)
{
	SBX_CLEANUP(free) char *list = NULL;
	size_t len = 0;
	int r = 0;

	if (sbx_memfd_read(list_fd, LIST_MAX, &list, &len) != 0 ||
	    (len > 0 && list[len - 1] != '\0'))
		return (copy_fail(c, EINVAL, "the list is not usable"));
	for (char *p = list; r == 0 && p < list + len; p += strlen(p) + 1)
		r = copy_listed(c, p);
	return (r);
}

int
walk_one(struct copyin *c, const char *source)
{
	int SBX_CLEANUP(fd) at = -1, SBX_CLEANUP(fd) fd = -1;
	uint32_t before = c->refused;
	struct stat st;

	/* first without opening it: a device does things when opened */
	at = open_below(c->root, source, O_PATH | O_NOFOLLOW);
	if (at == -1)
		return (copy_fail(c, errno, "%s", open_why(errno)));
	if (fstat(at, &st) == -1 || !S_ISREG(st.st_mode))
		return (copy_fail(c, EINVAL, S_ISDIR(st.st_mode) ?
		    "it is a directory: copy_project copies those" :
		    S_ISLNK(st.st_mode) ? "it is a symbolic link" :
		    "it is not a regular file"));
	fd = open_below(c->root, source, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	if (fd == -1)
		return (copy_fail(c, errno, "%s", open_why(errno)));
	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		return (copy_fail(c, EINVAL, "it is not a regular file"));
	if (copy_open_file(c, fd, &st, source, base(source), LOOK_ALL) != 0)
		return (-1);
	if (c->refused > before) {
		/* the stream ends well, with nothing in it */
		if (out_record(c, SBX_COPY_T_END, 0, "", NULL, 0) != 0)
			return (-1);
		return (copy_fail(c, EACCES, "it was refused as a secret"));
	}
	return (0);
}
