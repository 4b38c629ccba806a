#ifndef SBX_PRIVS_PRIVS_H
#define SBX_PRIVS_PRIVS_H

/*
 * Who may do what, as one const table, and the only code that drops.
 */

#include "common/base/base.h"
#include "common/proto/proto.h"

#include <sys/types.h>

/* Used above the floor; reported in HELLO and logged at each start. */
enum sbx_privs_feature {
	SBX_PRIVS_LANDLOCK_NET = 1,	/* ABI 4 */
	SBX_PRIVS_LANDLOCK_SCOPE = 2,	/* ABI 6 */
	SBX_PRIVS_OWN_USER = 4,		/* started by root: a user of its own */
	SBX_PRIVS_USERNS = 8,
	SBX_PRIVS_NETNS = 16,
};

/* The row of a process (row.h has its shape); proc < SBX_PROC_MAX. */
struct sbx_privs_row;
/*
 * RLIMIT_CORE of the suite and of every guest.  0 means "no file", and with a
 * pipe in kernel.core_pattern the kernel then starts the host's handler, as
 * root, all the same; 1 it takes for "never" (core(5)), and no file is as
 * short.
 */
#define SBX_CORE_NEVER 1
const struct sbx_privs_row *sbx_privs_row(enum sbx_proc proc);

/* What the process was handed and its row grants access to. */
struct sbx_privs_args {
	/* Directories for Landlock, in row order; -1: there is none. */
	const int *dir_fds;
	int ndir_fds;
	/* Only for the row with namespaces: the user namespace to enter, the
	 * caller's own or NULL to make one.  It must map the caller's ids. */
	const int *userns_fd;
	uid_t uid;		/* only for the row whose user is "caller" */
	gid_t gid;
	bool trap;		/* -d: name the refused call, then die */
};

/*
 * First thing in every main() behind fd 3: close_range(4, ~0), dumpable off,
 * no core dumps, umask 077, SIGPIPE ignored, stdin from /dev/null.
 * Exits on failure.
 */
void sbx_privs_early(void);

/*
 * Enter the row of proc: rlimits, bounding set, namespaces, groups, gid, uid
 * (then tries to regain them), capabilities, parent-death signal, dumpable 0,
 * no_new_privs, Landlock, seccomp.  Irreversible.  Less than the floor
 * (seccomp, Landlock ABI 1) is an error: the caller must exit.
 * *ret_features: enum sbx_privs_feature bits in use.
 * 0, SBX_E_SYS, SBX_E_UNSUPPORTED, SBX_E_POLICY (a regained id) with err set:
 * the sentence names the call that failed and the mend.
 */
int sbx_privs_enter(enum sbx_proc proc, const struct sbx_privs_args *args,
    uint32_t *ret_features, struct sbx_err *err);

/*
 * Started by root, between fork and exec: take the ids of proc's row and drop
 * all capabilities, so that the program never runs as root and opens what it
 * needs as its own user.  Nothing happens to a row that keeps its ids or gets
 * them later (copyin), nor when not started by root.  Irreversible.
 * 0, SBX_E_SYS, SBX_E_POLICY (a regained id) with err set.
 */
int sbx_privs_become(enum sbx_proc proc, struct sbx_err *err);
/* Started by root: does the user of every row exist?  0, SBX_E_SYS,
 * SBX_E_POLICY with err set, naming the mend. */
int sbx_privs_users(struct sbx_err *err);

/* Write all rows as text (one a paragraph) to b. */
int sbx_privs_print(struct sbx_buf *b);

#endif
