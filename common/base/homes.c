#include "common/base/homes.h"

#include "common/base/paths.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FIRST_PERSON 1000	/* uids below are services: login.defs(5) */

static bool
have(const struct sbx_homes *h, const struct stat *st)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->at[i].ino == st->st_ino && h->at[i].dev == st->st_dev)
			return (true);
	return (false);
}

/* Each once. */
static void
add(struct sbx_homes *h, const char *path)
{
	struct stat st;

	if (stat(path, &st) == -1 || have(h, &st) || h->n == SBX_MAX_HOMES)
		return;
	h->at[h->n].dev = st.st_dev;
	h->at[h->n++].ino = st.st_ino;
}

static void
add_with_parents(struct sbx_homes *h, const char *home)
{
	char path[PATH_MAX];

	if (home == NULL || home[0] != '/' ||
	    sbx_strlcpy(path, home, sizeof(path)) != 0)
		return;
	do {
		add(h, path);
		*strrchr(path, '/') = '\0';
	} while (path[0] != '\0');
}

/* From the local file only, since a directory service could take long to
 * list. */
void
sbx_homes_find(struct sbx_homes *h, const char *home)
{
	FILE *f = fopen("/etc/passwd", "re");
	const struct passwd *pw;

	add(h, "/");
	add_with_parents(h, home);
	while (f != NULL && (pw = fgetpwent(f)) != NULL)
		if (pw->pw_uid == 0 || pw->pw_uid >= FIRST_PERSON)
			add_with_parents(h, pw->pw_dir);
	if (f != NULL)
		(void)fclose(f);
}

bool
sbx_homes_permit(const struct sbx_homes *h, int fd)
{
	struct stat st;

	return (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && !have(h, &st));
}

int
sbx_homes_open_root(const struct sbx_homes *h, const char *dir, int *ret_fd,
    struct sbx_err *err)
{
	int SBX_CLEANUP(fd) fd = -1;
	int r;

	if ((r = sbx_copy_root_open(dir, NULL, &fd, err)) != 0)
		return (r);
	if (!sbx_homes_permit(h, fd))
		return (sbx_err_set(err, SBX_E_POLICY, "%.128s is a home "
		    "directory or above one", dir));
	*ret_fd = sbx_steal_fd(&fd);
	return (0);
}
