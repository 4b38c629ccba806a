/* The scratch directory: one directory a sandbox, its upper layer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sbxd/engine/engine.h"

#define MAX_DEPTH 2000		/* of a guest's tree; deeper is flattened */

int
scratch_make(int scratch, const char *id, struct sbx_err *err)
{
	static const char *const parts[] = { "upper", "work", "m" };
	int SBX_CLEANUP(fd) dir = -1;
	mode_t old = umask(022);
	int r = 0;

	if (mkdirat(scratch, id, 0700) == -1 || (dir = openat(scratch, id,
	    O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		r = sbx_err_sys(err, "the scratch directory");
	for (size_t i = 0; r == 0 && i < SBX_NELEM(parts); i++)
		if (mkdirat(dir, parts[i], 0755) == -1)
			r = sbx_err_sys(err, "the scratch directory");
	(void)umask(old);
	return (r);
}

/*
 * Delete everything in dir (consumed), links not followed.  A tree deeper
 * than the descriptors that may be open is moved up first: guests can make
 * them as deep as they like.
 */
static void
empty(int dir, int top, unsigned depth)
{
	DIR *d = fdopendir(dir);
	struct dirent *e;
	char name[40];
	int sub;

	if (d == NULL) {
		(void)close(dir);
		return;
	}
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(dir, e->d_name, 0) == 0 || errno != EISDIR)
			continue;
		/* a directory, so no link is followed; overlayfs leaves some
		 * of mode 000 */
		(void)!fchmodat(dir, e->d_name, 0700, 0);
		sub = depth < MAX_DEPTH ? openat(dir, e->d_name, O_RDONLY |
		    O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
		if (sub == -1 && depth > 0) {
			(void)snprintf(name, sizeof(name), "deep.%llx",
			    (unsigned long long)e->d_ino);
			(void)renameat(dir, e->d_name, top, name);
			continue;
		}
		if (sub != -1)
			empty(sub, top, depth + 1);
		(void)unlinkat(dir, e->d_name, AT_REMOVEDIR);
	}
	(void)closedir(d);
}

static _Noreturn void
delete_child(int scratch, const char *name)
{
	int dir;

	(void)prctl(PR_SET_NAME, "sbx-delete");
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);	/* the suite ends in time */
	(void)setpriority(PRIO_PROCESS, 0, 19);
	/* what was moved up in one pass is deleted in the next */
	for (int pass = 0; pass < 64; pass++) {
		dir = openat(scratch, name, O_RDONLY | O_DIRECTORY |
		    O_NOFOLLOW | O_CLOEXEC);
		if (dir == -1)
			break;
		empty(fcntl(dir, F_DUPFD_CLOEXEC, 3), dir, 0);
		(void)close(dir);
		if (unlinkat(scratch, name, AT_REMOVEDIR) == 0)
			break;
	}
	_exit(0);
}

/* It may die with the engine half way: the next start collects. */
void
scratch_drop(int scratch, const char *id)
{
	static unsigned serial;
	char name[64];
	pid_t pid;

	(void)snprintf(name, sizeof(name), "trash.%s.%d.%u", id,
	    (int)getpid(), serial++);
	if (renameat(scratch, id, scratch, name) == -1)
		return;
	pid = fork();
	if (pid == 0)
		delete_child(scratch, name);
	if (pid == -1)
		log_warn("scratch of %s stays until the next start: fork: %s, "
		    "ignoring", id, strerror(errno));
}

void
scratch_collect(int scratch, void (*found)(void *, const char *), void *arg)
{
	int fd = openat(scratch, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *e;
	char prefix[32];

	/* those of this very life are being deleted already */
	(void)snprintf(prefix, sizeof(prefix), "trash.skel.%d.",
	    (int)getpid());
	while (d != NULL && (e = readdir(d)) != NULL) {
		if (sbx_is_hex(e->d_name, SBX_CONTAINER_HEX))
			found(arg, e->d_name);
		else if (strncmp(e->d_name, "trash.", 6) != 0 ||
		    strncmp(e->d_name, prefix, strlen(prefix)) == 0)
			continue;
		scratch_drop(scratch, e->d_name);
	}
	if (d != NULL)
		(void)closedir(d);
}
