#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sbxd/copyin/copyin.h"

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

/* A regular file, opened.  Small ones are looked into before a byte leaves;
 * what is in .git is compressed, and is not. */
static int
copy_open_file(struct copyin *c, int fd, const struct stat *st,
    const char *path, bool look)
{
	uint64_t size = (uint64_t)st->st_size;
	const char *why = look ? refuse_name(path) : NULL;
	size_t got = 0;
	ssize_t n;

	if (why == NULL && look && size <= SCAN_MAX) {
		while (got <= SCAN_MAX && (n = read(fd, c->buf + got,
		    SCAN_MAX + 1 - got)) > 0)
			got += (size_t)n;
		if (got > SCAN_MAX)
			return (copy_fail(c, EAGAIN, "a file grew while it was "
			    "read: try again"));
		why = refuse_content(c->buf, got);
		if (why == NULL)
			return (out_record(c, SBX_COPY_T_FILE, st->st_mode,
			    path, c->buf, got));
	}
	if (why != NULL) {
		copy_report(c, why, path);
		return (0);
	}
	return (out_file(c, fd, st->st_mode, path, size));
}

static int
copy_path(struct copyin *c, const char *path, bool look)
{
	int SBX_CLEANUP(fd) at = -1, SBX_CLEANUP(fd) fd = -1;
	struct stat st;

	at = open_below(c->src, path, O_PATH | O_NOFOLLOW);
	if (at == -1 || fstat(at, &st) == -1) {
		copy_report(c, errno == ENOENT ? "skipped: it is gone" :
		    "skipped: not below the source without a link", path);
		return (0);
	}
	if (S_ISLNK(st.st_mode))
		return (copy_link(c, at, path));
	if (!S_ISREG(st.st_mode)) {
		if (!S_ISDIR(st.st_mode))
			copy_report(c, "skipped: not a regular file", path);
		return (0);
	}
	/* opened anew to read; it may be something else by now */
	fd = open_below(c->src, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	if (fd == -1 || fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)) {
		copy_report(c, "skipped: unreadable", path);
		return (0);
	}
	return (copy_open_file(c, fd, &st, path, look));
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

/* NAMES: every name, but content only for what git needs to list them. */
static int
visit_name(struct copyin *c, const char *path, bool is_dir)
{
	const char *name = base(path);
	struct stat st;

	if (strcmp(name, ".git") == 0) {
		if (name != path)
			return (1);	/* another repository's */
		if (!is_dir)		/* a linked work tree: git will say */
			return (out_record(c, SBX_COPY_T_FILE, 0, path, NULL,
			    0));
		if (out_record(c, SBX_COPY_T_DIR, 0, path, NULL, 0) != 0)
			return (-1);
		/* absent in a new or unusual repository: nothing is lost */
		if (fstatat(c->src, ".git/index", &st, AT_SYMLINK_NOFOLLOW) ==
		    0 &&
		    copy_path(c, ".git/index", false) != 0)
			return (-1);
		return (1);
	}
	if (is_dir)
		return (out_record(c, SBX_COPY_T_DIR, 0, path, NULL, 0));
	if (strcmp(name, ".gitignore") == 0)
		return (copy_path(c, path, false));
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
	SBX_CLEANUP_BUF struct sbx_buf b;
	size_t got = 0;
	ssize_t n;

	sbx_buf_init(&b, SCAN_MAX);
	while (fd != -1 && got < SCAN_MAX && (n = read(fd, c->buf + got,
	    SCAN_MAX - got)) > 0)
		got += (size_t)n;
	clean_git_config(c->buf, got, &b);
	return (out_record(c, SBX_COPY_T_FILE, 0, path, b.data, b.len));
}

/* The repository itself: history as it is, nothing that git would execute,
 * no credential, no lock of a git that runs on the host now. */
static int
visit_git(struct copyin *c, const char *path, bool is_dir)
{
	static const char *const left_out[] = { ".git/hooks", ".git/worktrees",
		".git/modules", ".git/objects/info/alternates",
		".git/config.worktree", ".git/fsmonitor--daemon",
		".git/fsmonitor--daemon.ipc", ".git/credentials" };
	size_t n = strlen(path);

	for (size_t i = 0; i < SBX_NELEM(left_out); i++)
		if (strcmp(path, left_out[i]) == 0)
			return (1);
	if (n > 5 && strcmp(path + n - 5, ".lock") == 0)
		return (1);
	if (strcmp(path, ".git/config") == 0)
		return (copy_git_config(c, path));
	if (is_dir)
		return (out_record(c, SBX_COPY_T_DIR, 0, path, NULL, 0));
	return (copy_path(c, path, false));
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

int
walk_list(struct copyin *c, int list_fd)
{
	SBX_CLEANUP(free) char *list = NULL;
	size_t len = 0;
	int r = 0;

	if (sbx_memfd_read(list_fd, LIST_MAX, &list, &len) != 0 ||
	    (len > 0 && list[len - 1] != '\0'))
		return (copy_fail(c, EINVAL, "the list is not usable"));
	for (char *p = list; r == 0 && p < list + len; p += strlen(p) + 1) {
		if (strcmp(p, ".git") == 0)
			r = copy_git(c);
		else if (*p != '\0')
			r = copy_path(c, p, true);
	}
	return (r);
}

int
walk_one(struct copyin *c, const char *source)
{
	int SBX_CLEANUP(fd) fd = -1;
	struct stat st;
	uint32_t before = c->refused;

	fd = open_below(c->root, source, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	if (fd == -1)
		return (copy_fail(c, errno, errno == EXDEV ?
		    "it is not below the copy root" : errno == ELOOP ?
		    "it is, or leads through, a symbolic link" : "%s",
		    strerror(errno)));
	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		return (copy_fail(c, EINVAL, "it is not a regular file"));
	if (copy_open_file(c, fd, &st, base(source), true) != 0)
		return (-1);
	if (c->refused > before) {
		/* the stream ends well, with nothing in it */
		if (out_record(c, SBX_COPY_T_END, 0, "", NULL, 0) != 0)
			return (-1);
		return (copy_fail(c, EACCES, "it was refused as a secret"));
	}
	return (0);
}
