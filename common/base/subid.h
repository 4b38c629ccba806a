#ifndef SBX_BASE_SUBID_H
#define SBX_BASE_SUBID_H

/* The ids that the operator gave to a user for namespaces: subuid(5). */

#include "common/base/base.h"

#include <sys/types.h>

#define SBX_SUBUID_FILE "/etc/subuid"
#define SBX_SUBGID_FILE "/etc/subgid"
/* A suite with fewer has its sandboxes share one id: a sandbox, one that is
 * made ahead and a snapshot hold one each, and none comes back at once. */
#define SBX_SUBIDS_MIN 512u

struct sbx_subids {
	uint32_t uid, gid;	/* the first of each */
	uint32_t n;		/* how many there are of both */
};

/*
 * The largest range of one file that belongs to a user, by name or number.
 * Reads a local file of at most 1 MiB; a line that does not parse is passed
 * over, as newuidmap(1) does.
 * 0, SBX_E_NOENT (none, also when there is no such file), SBX_E_SYS,
 * SBX_E_LIMIT, with err set.
 */
int sbx_subid_find(const char *file, const char *user, uid_t uid,
    uint32_t *ret_first, uint32_t *ret_n, struct sbx_err *err);
/*
 * Both files: what a suite run by this user can give its sandboxes.
 * 0, or as above; SBX_E_LIMIT when there are fewer than SBX_SUBIDS_MIN.  The
 * sentence says what is missing and the mend.
 */
int sbx_subids(const char *user, uid_t uid, struct sbx_subids *ret,
    struct sbx_err *err);

#endif
