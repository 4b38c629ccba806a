#ifndef SBX_BASE_USERNS_H
#define SBX_BASE_USERNS_H

/* A user namespace with a range of ids: what sandboxes are made in, and what
 * their files can be deleted from. */

#include "common/base/subid.h"

/*
 * Make one that belongs to uid and gid and maps them to themselves and, under
 * the numbers of the range's uids, the range.  By root, or by the caller with
 * his own ids, for whom newgidmap(1) and newuidmap(1) are run as his PATH finds
 * them: not under no_new_privs.  *ret_fd: owned, for setns(2).
 * Blocks for a fork, and 5 s at most for each program.
 * 0; SBX_E_UNSUPPORTED, SBX_E_SYS with err set, and *ret_call (NULL ok): the
 * call that failed, static.  Of execvp(PROGRAM) err's sys_errno is ENOENT
 * where there is no such program, 0 where it would not do it.
 * Source: user_namespaces(7).
 */
int sbx_userns_make(uid_t uid, gid_t gid, const struct sbx_subids *range,
    int *ret_fd, const char **ret_call, struct sbx_err *err);

#endif
