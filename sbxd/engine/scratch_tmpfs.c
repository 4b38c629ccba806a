/*
 * Scratch in memory: a tmpfs of its own for each sandbox, which is the one way
 * to give it a size without the help of the filesystem below.  It is mounted
 * in the engine's mount namespace, on the directory that would be its scratch
 * on disk, so all that looks there finds the same.  What a guest writes is
 * charged to the guest's group as well.
 */
#include "sbxd/engine/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define FLAGS (MS_NOSUID | MS_NODEV)
#define SMALL "256k"		/* until the sandbox's own size is known */
#define INODES_MIN 4096
#define BYTES_AN_INODE 4096	/* and no more inodes than that */

int
scratch_tmpfs_mount(const char *name)
{
	return (mount("tmpfs", name, "tmpfs", FLAGS,
	    "mode=0700,size=" SMALL));
}

/* A mount point cannot be renamed, but what is mounted there be moved. */
int
scratch_tmpfs_move(const char *from, const char *to)
{
	if (mkdir(to, 0700) == -1)
		return (-1);
	if (mount(from, to, NULL, MS_MOVE, NULL) == 0) {
		(void)rmdir(from);	/* else it is found at the next start */
		return (0);
	}
	(void)rmdir(to);
	return (-1);
}

int
scratch_tmpfs_size(const char *name, uint64_t bytes)
{
	uint64_t inodes = bytes / BYTES_AN_INODE;
	char options[96];

	(void)snprintf(options, sizeof(options), "size=%" PRIu64
	    ",nr_inodes=%" PRIu64, bytes, inodes > INODES_MIN ? inodes :
	    INODES_MIN);
	return (mount(NULL, name, NULL, MS_REMOUNT | FLAGS, options));
}

/* Its memory is free when the sandbox's own mounts are gone, too. */
void
scratch_tmpfs_drop(const char *name)
{
	(void)umount2(name, MNT_DETACH);	/* EINVAL: it was no mount */
}
