#include "common/base/paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* dst = base + suffix; base must be absolute, so that a daemon and its
 * command line mean the same place from every working directory */
static int
path_join(char dst[PATH_MAX], const char *base, const char *suffix,
    const char *what, struct sbx_err *err)
{
	int n;

	if (base[0] != '/')
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "%s must be an absolute path", what));
	n = snprintf(dst, PATH_MAX, "%s%s", base, suffix);
	if (n < 0 || n >= PATH_MAX)
		return (sbx_err_set(err, SBX_E_LIMIT, "%s is too long", what));
	return (0);
}

/* An XDG variable (ignored when relative, as the specification says), else
 * a directory below HOME. */
static int
path_xdg(char dst[PATH_MAX], char *(*env)(const char *), const char *name,
    const char *below_home, struct sbx_err *err)
{
	const char *v = env(name), *home = env("HOME");
	char suffix[64];

	if (v != NULL && v[0] == '/')
		return (path_join(dst, v, "/sbx", name, err));
	if (home == NULL || home[0] == '\0')
		return (sbx_err_set(err, SBX_E_NOENT,
		    "HOME is not set: set it, or SBX_ROOT"));
	(void)snprintf(suffix, sizeof(suffix), "/%s/sbx", below_home);
	return (path_join(dst, home, suffix, "HOME", err));
}

int
sbx_paths_get(uid_t uid, char *(*env)(const char *),
    struct sbx_paths *ret_paths, struct sbx_err *err)
{
	const char *root = env("SBX_ROOT"), *rt = env("XDG_RUNTIME_DIR");
	struct sbx_paths *p = ret_paths;
	int r;

	if (root != NULL && root[0] != '\0') {
		if ((r = path_join(p->state, root, "/state", "SBX_ROOT", err)) ||
		    (r = path_join(p->run, root, "/run", "SBX_ROOT", err)) ||
		    (r = path_join(p->cache, root, "/cache", "SBX_ROOT", err)))
			return (r);
		return (path_join(p->etc, root, "/etc", "SBX_ROOT", err));
	}
	if (uid == 0) {
		(void)sbx_strlcpy(p->state, "/var/lib/sbx", PATH_MAX);
		(void)sbx_strlcpy(p->run, "/run/sbx", PATH_MAX);
		(void)sbx_strlcpy(p->etc, "/etc/sbx", PATH_MAX);
		(void)sbx_strlcpy(p->cache, "/var/cache/sbx", PATH_MAX);
		return (0);
	}
	if ((r = path_xdg(p->state, env, "XDG_STATE_HOME", ".local/state",
	    err)) ||
	    (r = path_xdg(p->etc, env, "XDG_CONFIG_HOME", ".config", err)))
		return (r);
	/* nobody needs it */
	if (path_xdg(p->cache, env, "XDG_CACHE_HOME", ".cache", NULL) != 0)
		p->cache[0] = '\0';
	if (rt != NULL && rt[0] == '/')
		return (path_join(p->run, rt, "/sbx", "XDG_RUNTIME_DIR", err));
	return (path_join(p->run, p->state, "/run", "the state path", err));
}

static bool
same_dir(const struct stat *a, const struct stat *b)
{
	return (a->st_ino == b->st_ino && a->st_dev == b->st_dev);
}

/*
 * Is want the directory at or one of its parents?  at: owned, closed here.
 * 1, 0, or -1 when the walk could not be finished.
 */
static int
on_the_way_up(int at, const struct stat *want)
{
	struct stat st, last = { 0 };
	int next;

	while (at != -1 && fstat(at, &st) == 0) {
		if (same_dir(&st, want) || same_dir(&st, &last)) {
			sbx_close(&at);
			return (same_dir(&st, want));
		}
		last = st;
		next = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		sbx_close(&at);
		at = next;
	}
	sbx_close(&at);
	return (-1);
}

/*
 * Compared by device and inode, walking up from home: names can lie (links,
 * bind mounts), inodes cannot.  A home that is not there has no contents to
 * lose, but / holds everybody's.
 */
int
sbx_copy_root_open(const char *dir, const char *home, int *ret_fd,
    struct sbx_err *err)
{
	int SBX_CLEANUP(fd) fd = -1;
	struct stat want, root;
	int at, r = 0;

	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd == -1 || fstat(fd, &want) == -1 || stat("/", &root) == -1)
		return (sbx_err_sys(err, "copy root %.128s", dir));
	at = open(home != NULL ? home : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at != -1)
		r = on_the_way_up(at, &want);
	if (r == -1)
		return (sbx_err_set(err, SBX_E_POLICY,
		    "%.128s could not be compared with your home directory",
		    dir));
	if (r == 1 || same_dir(&want, &root))
		return (sbx_err_set(err, SBX_E_POLICY,
		    "%.128s holds your home directory: name a project "
		    "directory with --copy-root", dir));
	*ret_fd = sbx_steal_fd(&fd);
	return (0);
}

int
sbx_make_dirs(const char *path, struct sbx_err *err)
{
	char part[PATH_MAX];
	char *p;

	if (sbx_strlcpy(part, path, sizeof(part)) != 0)
		return (sbx_err_set(err, SBX_E_LIMIT, "a path is too long"));
	for (p = part + 1; ; p++) {
		if (*p != '/' && *p != '\0')
			continue;
		char c = *p;

		*p = '\0';
		if (mkdir(part, 0700) == -1 && errno != EEXIST)
			return (sbx_err_sys(err, "mkdir %.160s", part));
		if ((*p = c) == '\0')
			return (0);
	}
}

static int
remove_children(int dir)
{
	DIR *d = fdopendir(dir);
	struct dirent *e;
	int r = 0;

	if (d == NULL) {
		(void)close(dir);
		return (-1);
	}
	while (r == 0 && (e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = sbx_remove_at(dirfd(d), e->d_name);
	(void)closedir(d);
	return (r);
}

int
sbx_remove_at(int dir, const char *name)
{
	int sub;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return (0);
	if (errno != EISDIR && errno != EPERM)
		return (-1);
	sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	if (sub == -1 || remove_children(sub) == -1)
		return (-1);
	return (unlinkat(dir, name, AT_REMOVEDIR));
}
