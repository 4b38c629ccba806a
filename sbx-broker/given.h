#ifndef SBX_BROKER_GIVEN_H
#define SBX_BROKER_GIVEN_H

/* A file that belongs to root and was given to us: a credential of systemd. */

#include "common/base/base.h"

#include <sys/stat.h>

#define GIVEN_BELOW "/run/credentials/"

/*
 * May fd, a regular file of root with st, hold a secret of user uid?  Only as
 * systemd makes a unit's credential where it cannot, or need not, be the user's
 * own: on a tmpfs or ramfs that is mounted read-only, readable by root, by an
 * ACL for uid, and by nobody else.  NULL, or which of it is not so.
 */
const char *given_check(int fd, const struct stat *st, uid_t uid);

#endif
