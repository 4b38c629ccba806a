#include "common/base/markers.h"
#include "sbxd/copyin/copyin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/*
 * Which marker files of languages are at the top of the root?  Names only:
 * none is opened, and a link counts for nothing, wherever it leads.
 */

#define ENTRIES_MAX 100000u	/* a directory of more is given up */

static bool
is_regular(int dir, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return (e->d_type == DT_REG);
	return (fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISREG(st.st_mode));
}

int
markers_find(struct copyin *c, uint32_t *ret_found)
{
	int fd = open_below(c->root, ".", O_RDONLY | O_DIRECTORY), row;
	const struct dirent *e;
	unsigned n = 0;
	DIR *d;

	*ret_found = 0;
	if (fd == -1)
		return (copy_fail(c, errno, "%s", open_why(errno)));
	if ((d = fdopendir(fd)) == NULL) {
		(void)close(fd);
		return (copy_fail(c, errno, "it cannot be listed"));
	}
	for (errno = 0; (e = readdir(d)) != NULL && n < ENTRIES_MAX; n++) {
		row = sbx_marker_match(e->d_name);
		if (row != -1 && is_regular(c->root, e))
			*ret_found |= UINT32_C(1) << row;
		errno = 0;
	}
	if (errno != 0)
		(void)copy_fail(c, errno, "it cannot be listed");
	else if (e != NULL)
		(void)copy_fail(c, E2BIG, "it has more than %u entries",
		    ENTRIES_MAX);
	(void)closedir(d);
	return (c->error != 0 ? -1 : 0);
}
