/*
 * The engine's own mount namespace.
 *
 * The directories it is handed are descriptors of its parent's mounts, and
 * nothing of those can be mounted in a namespace of ours; nor can they be
 * reached by name, since what lies above them is closed to this user.  But a
 * process takes its root and its working directory along into a new
 * namespace.  So both are set to what is to come along, for one unshare(2),
 * and then the root is that of the namespace again.
 */
#include "sbxd/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* The working directory is already the one that comes along as images. */
static int
cross(struct engine *e, int *ret_images, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) proc = open("/proc/self/ns", O_PATH | O_CLOEXEC);
	int SBX_CLEANUP(fd) ns = -1;
	char scratch[32];

	(void)snprintf(scratch, sizeof(scratch), "/proc/self/fd/%d",
	    e->scratch_fd);
	if (proc == -1 || chroot(scratch) == -1)
		return (sbx_err_sys(err, "chroot to the scratch directory"));
	if (unshare(CLONE_NEWNS) == -1)
		return (sbx_err_sys(err, "unshare of a mount namespace"));
	sbx_close(&e->scratch_fd);
	if ((e->scratch_fd = open("/", DIR_FLAGS)) == -1 ||
	    (*ret_images = open(".", DIR_FLAGS)) == -1)
		return (sbx_err_sys(err, "the engine's directories"));
	if ((ns = openat(proc, "mnt", O_RDONLY | O_CLOEXEC)) == -1 ||
	    setns(ns, CLONE_NEWNS) == -1)
		return (sbx_err_sys(err, "setns to the own mount namespace"));
	return (0);
}

int
mounts_prepare(struct engine *e, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) images = -1;
	char source[32];
	int r;

	if (fchdir(e->images_fd) == -1)
		return (sbx_err_sys(err, "the image store"));
	sbx_close(&e->images_fd);
	if ((r = cross(e, &images, err)) < 0)
		return (r);
	if (fchdir(e->scratch_fd) == -1 ||
	    (mkdir(IMAGES, 0700) == -1 && errno != EEXIST))
		return (sbx_err_sys(err, "the scratch directory"));
	(void)snprintf(source, sizeof(source), "/proc/self/fd/%d", images);
	if (mount(source, IMAGES, NULL, MS_BIND, NULL) == -1)
		return (sbx_err_sys(err, "mount: the image store"));
	e->images_fd = open(IMAGES, DIR_FLAGS);
	if (e->images_fd == -1)
		return (sbx_err_sys(err, "the image store"));
	return (0);
}
