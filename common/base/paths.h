#ifndef SBX_BASE_PATHS_H
#define SBX_BASE_PATHS_H

/*
 * Where a suite keeps things, for sbxd and the command line alike.
 * Source: XDG Base Directory Specification 0.8; file-hierarchy(7).
 */

#include "common/base/base.h"

#include <limits.h>
#include <sys/types.h>

#define SBX_MAX_SLOTS 32	/* suite-0 is the daemon's, 1..31 private ones */

struct sbx_paths {
	char state[PATH_MAX];	/* suite-N/{lock,journal,runs,scratch} below */
	char run[PATH_MAX];	/* suite-N/mcp.sock below */
	char etc[PATH_MAX];	/* sbx.conf */
	char cache[PATH_MAX];	/* what can be made anew; "": none */
};

/*
 * SBX_ROOT moves all four below it (state, run, etc, cache); root has
 * /var/lib/sbx, /run/sbx, /etc/sbx, /var/cache/sbx; everybody else the XDG directories, with
 * STATE/run for a missing XDG_RUNTIME_DIR.  env: getenv(3) of main().
 * Every path is absolute or refused.  Makes nothing.
 * 0, SBX_E_NOENT (no HOME), SBX_E_SYNTAX (relative), SBX_E_LIMIT; err set.
 */
int sbx_paths_get(uid_t uid, char *(*env)(const char *),
    struct sbx_paths *ret_paths, struct sbx_err *err);

/*
 * Open the directory below which copy tools may read for this caller.  The
 * root directory, home (NULL: none) and the parents of home are refused: they
 * hold credentials.  *ret_fd owned by the caller, O_PATH|O_DIRECTORY.
 * 0, SBX_E_POLICY, SBX_E_SYS; err says why in a sentence.
 */
int sbx_copy_root_open(const char *dir, const char *home, int *ret_fd,
    struct sbx_err *err);

/*
 * Make path, absolute, and its parents, all 0700; those that exist stay as
 * they are, whoever's they are.  0, SBX_E_LIMIT, SBX_E_SYS with err set.
 */
int sbx_make_dirs(const char *path, struct sbx_err *err);

/*
 * Delete name below dir, a directory with all that is in it.  Follows no link.
 * Deep trees cost a descriptor a level; for those of guests, which are as deep
 * as they like, see sbxd/engine/scratch.c.
 * 0, also when there is none; -1 with errno.
 */
int sbx_remove_at(int dir, const char *name);

#endif
