#include "sbx-broker/given.h"

#include <endian.h>
#include <linux/magic.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#define ENTRIES 5		/* of the one ACL that is taken, acl(5) */

/* Are these ENTRIES, in the kernel's order, of that ACL? */
static bool
is_for(const struct posix_acl_xattr_entry *e, uid_t uid)
{
	static const struct {
		uint16_t tag, perm;
	} want[ENTRIES] = {
		{ ACL_USER_OBJ, ACL_READ }, { ACL_USER, ACL_READ },
		{ ACL_GROUP_OBJ, 0 }, { ACL_MASK, ACL_READ },
		{ ACL_OTHER, 0 },
	};

	for (size_t i = 0; i < ENTRIES; i++)
		if (le16toh(e[i].e_tag) != want[i].tag ||
		    le16toh(e[i].e_perm) != want[i].perm)
			return (false);
	return (le32toh(e[1].e_id) == uid);
}

/* Source: acl(5); linux/posix_acl_xattr.h. */
static bool
has_acl_for(int fd, uid_t uid)
{
	struct {
		struct posix_acl_xattr_header head;
		struct posix_acl_xattr_entry entries[ENTRIES];
	} acl;

	/* one with more entries does not fit, which is an error */
	return (fgetxattr(fd, "system.posix_acl_access", &acl,
	    sizeof(acl)) == (ssize_t)sizeof(acl) &&
	    le32toh(acl.head.a_version) == POSIX_ACL_XATTR_VERSION &&
	    is_for(acl.entries, uid));
}

const char *
given_check(int fd, const struct stat *st, uid_t uid)
{
	struct statvfs mount;
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0 || fstatvfs(fd, &mount) < 0 ||
	    ((unsigned long)fs.f_type != TMPFS_MAGIC &&
	    (unsigned long)fs.f_type != RAMFS_MAGIC))
		return ("it is root's, and not in memory alone");
	if ((mount.f_flag & ST_RDONLY) == 0)
		return ("it is root's, and not mounted read-only");
	/* with an ACL, a group's bits are its mask */
	if ((st->st_mode & 07777) != 0440 || !has_acl_for(fd, uid))
		return ("it is root's, and readable by others than root and "
		    "sbx-broker");
	return (NULL);
}
