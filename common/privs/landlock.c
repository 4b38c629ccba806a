/*
 * Landlock: the directories of a row and no others.  The C library has no
 * wrappers, and <linux/landlock.h> may be older than the running kernel, so
 * what came after its first version is spelled here.
 */

#include "common/privs/row.h"

#include <errno.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The attribute as of ABI 6; older kernels take a shorter one. */
struct ruleset_attr {
	uint64_t fs;		/* ABI 1 */
	uint64_t net;		/* ABI 4 */
	uint64_t scoped;	/* ABI 6 */
};

#define NET_BIND_TCP (1ULL << 0)
#define NET_CONNECT_TCP (1ULL << 1)
#define SCOPE_ABSTRACT_UNIX (1ULL << 0)
#define SCOPE_SIGNAL (1ULL << 1)

/* Highest right of each ABI: 1 make_sym, 2 refer, 3 truncate, 5 ioctl_dev. */
static uint64_t
rights_of_abi(int abi)
{
	if (abi >= 5)
		return ((1ULL << 16) - 1);
	if (abi >= 3)
		return ((1ULL << 15) - 1);
	if (abi >= 2)
		return ((1ULL << 14) - 1);
	return ((1ULL << 13) - 1);
}

int
sbx_privs_landlock_abi(int *ret_errno)
{
	long abi;

	abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
	    LANDLOCK_CREATE_RULESET_VERSION);
	*ret_errno = abi < 0 ? errno : 0;
	return (abi < 0 ? 0 : (int)abi);
}

static int
add_dirs(int ruleset, const struct sbx_privs_row *row, const int *dir_fds,
    uint64_t known, struct sbx_err *err)
{
	for (int i = 0; i < SBX_PRIVS_DIRS_MAX && row->dirs[i].what; i++) {
		struct landlock_path_beneath_attr beneath = {
			.allowed_access = row->dirs[i].rights & known,
			.parent_fd = dir_fds[i],
		};

		if (dir_fds[i] == -1)
			continue;	/* it does not exist */
		if (syscall(SYS_landlock_add_rule, ruleset,
		    LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) < 0)
			return (sbx_err_sys(err, "landlock_add_rule: %s (a "
			    "directory descriptor is needed)",
			    row->dirs[i].what));
	}
	return (0);
}

int
sbx_privs_landlock(const struct sbx_privs_row *row, const int *dir_fds,
    int ndirs, uint32_t *features, struct sbx_err *err)
{
	struct ruleset_attr attr = { 0 };
	SBX_CLEANUP(fd) int ruleset = -1;
	int abi, want = 0, r, why;
	size_t size = sizeof(attr.fs);

	while (want < SBX_PRIVS_DIRS_MAX && row->dirs[want].what)
		want++;
	if (ndirs != want)
		return (sbx_err_set(err, SBX_E_SYS, "Landlock: the row names "
		    "%d directories, %d were handed in", want, ndirs));

	abi = sbx_privs_landlock_abi(&why);
	if (abi < 1) {
		errno = why;
		return (sbx_err_set(err, SBX_E_UNSUPPORTED,
		    "landlock_create_ruleset: %s: boot Linux 5.13 or newer "
		    "with \"landlock\" in its lsm= list", strerror(why)));
	}
	/* Everything is handled, so everything not listed is refused. */
	attr.fs = rights_of_abi(abi);
	if (abi >= 4) {
		attr.net = NET_BIND_TCP;
		if (!(row->flags & SBX_ROW_CONNECT))
			attr.net |= NET_CONNECT_TCP;
		size = 2 * sizeof(uint64_t);
		*features |= SBX_PRIVS_LANDLOCK_NET;
	}
	if (abi >= 6) {
		attr.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
		size = sizeof(attr);
		*features |= SBX_PRIVS_LANDLOCK_SCOPE;
	}
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
		return (sbx_err_sys(err, "landlock_create_ruleset"));
	if ((r = add_dirs(ruleset, row, dir_fds, attr.fs, err)) < 0)
		return (r);
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return (sbx_err_sys(err, "landlock_restrict_self"));
	return (0);
}
