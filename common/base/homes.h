#ifndef SBX_BASE_HOMES_H
#define SBX_BASE_HOMES_H

/*
 * Directories that nobody copies from: the root directory, homes and their
 * parents, which hold credentials.  By inode: names can lie.
 * Source of homes: passwd(5).
 */

#include "common/base/base.h"

#include <sys/types.h>

#define SBX_MAX_HOMES 256	/* later ones are passed over */

struct sbx_homes {
	size_t n;
	struct {
		dev_t dev;
		ino_t ino;
	} at[SBX_MAX_HOMES];
};

/* home: one more, or NULL. */
void sbx_homes_find(struct sbx_homes *h, const char *home);
/* Is it a directory, and none of them? */
bool sbx_homes_permit(const struct sbx_homes *h, int fd);
/* The copy root of a token: as sbx_copy_root_open(), which see. */
int sbx_homes_open_root(const struct sbx_homes *h, const char *dir,
    int *ret_fd, struct sbx_err *err);

#endif
