/* Directories of its own for the checks, on the suite's filesystems. */
#include "sbxd/cli/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".sbx-doctor."
#define NOBODY 65534

/* Where path is, or will be made: the nearest of it that exists. */
static void
nearest(const char *path, char ret_dir[PATH_MAX])
{
	struct stat st;
	char *slash;

	(void)sbx_strlcpy(ret_dir, path, PATH_MAX);
	while (lstat(ret_dir, &st) == -1 && errno == ENOENT &&
	    (slash = strrchr(ret_dir, '/')) != NULL)
		if (slash == ret_dir) {
			ret_dir[1] = '\0';
			return;
		} else
			*slash = '\0';
}

/* What a doctor that was killed left: nobody holds its lock any more. */
static void
remove_stale(const char *dir)
{
	char path[PATH_MAX + 256];
	struct dirent *e;
	DIR *d = opendir(dir);

	if (d == NULL)
		return;
	while ((e = readdir(d)) != NULL) {
		int SBX_CLEANUP(fd) fd = -1;

		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY |
		    O_NOFOLLOW | O_CLOEXEC);
		if (fd == -1 || flock(fd, LOCK_EX | LOCK_NB) == -1)
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		cli_empty_dir(path);
		(void)rmdir(path);
	}
	(void)closedir(d);
}

static int
dir_failed(struct doctor_dir *dir, const char *call)
{
	dir->error = errno;
	(void)sbx_strlcpy(dir->call, call, sizeof(dir->call));
	return (-1);
}

/* 0 or -1 with dir->call and dir->error. */
static int
make_dir(struct doctor_dir *dir, const char *path, uid_t uid, gid_t gid)
{
	char parent[PATH_MAX];

	dir->fd = -1;
	nearest(path, parent);
	(void)sbx_strlcpy(dir->path, parent, sizeof(dir->path));
	remove_stale(parent);
	if (snprintf(dir->path, sizeof(dir->path), "%s/" PREFIX "XXXXXX",
	    parent[1] == '\0' ? "" : parent) >= (int)sizeof(dir->path)) {
		errno = ENAMETOOLONG;
		return (dir_failed(dir, "mkdir"));
	}
	if (mkdtemp(dir->path) == NULL) {
		(void)sbx_strlcpy(dir->path, parent, sizeof(dir->path));
		return (dir_failed(dir, "mkdir"));
	}
	dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir->fd == -1)
		return (dir_failed(dir, "open"));
	if (flock(dir->fd, LOCK_EX | LOCK_NB) == -1 ||
	    (geteuid() == 0 && fchown(dir->fd, uid, gid) == -1))
		return (dir_failed(dir, "fchown"));
	return (0);
}

static void
remove_dir(struct doctor_dir *dir)
{
	if (dir->fd == -1)
		return;
	cli_empty_dir(dir->path);
	(void)rmdir(dir->path);
	sbx_close(&dir->fd);
}

void
doctor_begin(struct doctor *d, const struct cli *cli)
{
	const struct passwd *pw;

	*d = (struct doctor){ .cli = cli, .uid = geteuid(), .gid = getegid() };
	if (geteuid() == 0) {
		/* without its user, which is a row of its own, as anybody */
		pw = getpwnam("sbxd");
		d->uid = pw == NULL || pw->pw_uid == 0 ? NOBODY : pw->pw_uid;
		d->gid = pw == NULL || pw->pw_uid == 0 ? NOBODY : pw->pw_gid;
	}
	(void)cli_conf(cli, &d->conf, &d->conf_err);
	(void)make_dir(&d->state, cli->paths.state, d->uid, d->gid);
	(void)make_dir(&d->run, cli->paths.run, geteuid(), getegid());
}

void
doctor_end(struct doctor *d)
{
	remove_dir(&d->state);
	remove_dir(&d->run);
}
