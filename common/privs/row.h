#ifndef SBX_PRIVS_ROW_H
#define SBX_PRIVS_ROW_H

/*
 * The shape of a row of the privilege table, and the parts of the library
 * that work on one.  Private to common/privs and its tests.
 */

#include "common/privs/privs.h"

#include <linux/filter.h>
#include <sys/resource.h>
#include <sys/types.h>

/* Whose ids the process runs under when it was started by root. */
enum sbx_privs_ids {
	SBX_IDS_OWN,	/* row->user, looked up in the user database */
	SBX_IDS_KEEP,	/* those it was started with */
	SBX_IDS_ARGS,	/* args->uid and args->gid */
	SBX_IDS_MAX
};

enum sbx_privs_flag {
	SBX_ROW_ALLOW = 1,	/* seccomp: only the listed calls */
	SBX_ROW_DENY = 2,	/* seccomp: all but the denied calls */
	SBX_ROW_LANDLOCK = 4,	/* the listed directories and no others */
	/* own network namespace, in a user namespace of its own or handed in */
	SBX_ROW_NAMESPACES = 8,
	SBX_ROW_DIES = 16,	/* dies with its parent */
	SBX_ROW_EXEC = 32,	/* may execute programs */
	SBX_ROW_CONNECT = 64,	/* Landlock leaves TCP connect to it */
	SBX_ROW_HARD = 128,	/* hard NOFILE untouched, for its children */
	SBX_ROW_CAPS = 256,	/* capabilities untouched */
};

enum sbx_privs_family {
	SBX_FAM_UNIX = 1, SBX_FAM_INET = 2, SBX_FAM_INET6 = 4,
};

/* What the arguments of a listed call must look like. */
enum sbx_privs_rule {
	SBX_RULE_ANY,
	SBX_RULE_NOEXEC,	/* mmap, mprotect: without PROT_EXEC */
	SBX_RULE_SELF,		/* first argument is this process */
	SBX_RULE_PID0,		/* first argument is 0, "myself" */
	SBX_RULE_SIGKILL,	/* kill: SIGKILL only */
	SBX_RULE_ABORT,		/* tgkill: SIGABRT only */
	SBX_RULE_FAMILY,	/* socket: families of the row; TCP, UDP only */
	SBX_RULE_UNIX,		/* socketpair: AF_UNIX */
	SBX_RULE_FCNTL,		/* no owner, signal or lease */
	SBX_RULE_IOCTL,		/* FIONREAD, FIONBIO, TCGETS */
	SBX_RULE_STAT_FD,	/* newfstatat: with AT_EMPTY_PATH */
	SBX_RULE_NO_TRUNC,	/* openat: without O_TRUNC */
	SBX_RULE_SENDTO,	/* not MSG_FASTOPEN, with which it connects */
	SBX_RULE_SENDMSG,
	SBX_RULE_FORK,		/* clone: no namespace, same as fork(2) */
	SBX_RULE_PRCTL,		/* what a nested sbx_privs_enter() calls */
	SBX_RULE_NOSYS,		/* answered ENOSYS: libc falls back */
	SBX_RULE_NODELAY,	/* setsockopt: TCP_NODELAY */
	SBX_RULE_FAMILIES_DENY,	/* denylist: all but unix, IP, netlink */
	SBX_RULE_PERSONALITY,	/* denylist: what changes the mapping rules */
	SBX_RULE_MAX
};

struct sbx_privs_call {
	const char *name;	/* of the call; NULL ends a list */
	const char *why;	/* NULL: needs no reason */
	enum sbx_privs_rule rule;
	int error;		/* denylist: the errno it gets */
};

#define SBX_PRIVS_DIRS_MAX 2
#define SBX_PRIVS_LISTS 5
struct sbx_privs_dir {
	const char *what;
	uint64_t rights;	/* LANDLOCK_ACCESS_FS_* */
};

struct sbx_privs_row {
	const char *why;
	const char *user;	/* with SBX_IDS_OWN; its group has its name */
	enum sbx_privs_ids ids;
	uint32_t flags;		/* enum sbx_privs_flag */
	uint64_t caps;		/* kept when started by root: bit per number */
	uint32_t families;	/* enum sbx_privs_family */
	struct sbx_privs_dir dirs[SBX_PRIVS_DIRS_MAX];
	/* Call lists, the row's own first: the first mention of a name wins.
	 * With SBX_ROW_DENY: what is denied to others, not to this row. */
	const struct sbx_privs_call *calls[SBX_PRIVS_LISTS];
	/* RLIM_INFINITY: as high as the hard limit goes. */
	rlim_t nofile, nproc, data;
};

extern const struct sbx_privs_call sbx_privs_denied[];
/* Is the call in one of the row's first `upto` lists? */
bool sbx_privs_mentioned(const struct sbx_privs_row *row, unsigned upto,
    const char *name);
/* What the rule lets through, in a few words; NULL: everything. */
const char *sbx_privs_rule_text(enum sbx_privs_rule rule);

/*
 * Restrict the caller by Landlock to the directories of row, given as dir_fds
 * in row order (ndirs of them; borrowed).
 * Adds to *features.  0, SBX_E_SYS, SBX_E_UNSUPPORTED (no Landlock), err set.
 * Source: landlock(7); the kernel's userspace-api/landlock.rst.
 */
int sbx_privs_landlock(const struct sbx_privs_row *row, const int *dir_fds,
    int ndirs, uint32_t *features, struct sbx_err *err);
/* The kernel's Landlock ABI; 0 when there is none, *ret_errno says why. */
int sbx_privs_landlock_abi(int *ret_errno);

/*
 * Load the row's seccomp filter.  trap: a refused call raises SIGSYS, whose
 * handler names it on stderr and ends the process, instead of killing.
 * 0, SBX_E_SYS, SBX_E_UNSUPPORTED, err set.  Source: seccomp(2).
 */
int sbx_privs_seccomp(const struct sbx_privs_row *row, bool trap,
    struct sbx_err *err);

/*
 * Enter the user namespace *userns_fd (borrowed), which maps the caller's uid
 * and gid to themselves and whose owner is the caller.  NULL, or the caller's
 * own: make one, with an identity map of that one uid and gid.  Then make a
 * network namespace that belongs to it.
 * 0, SBX_E_SYS, SBX_E_POLICY with err set.  Source: user_namespaces(7).
 */
int sbx_privs_namespaces(const int *userns_fd, struct sbx_err *err);

/* Under sanitizers: no leak check at exit from here on (it uses ptrace). */
void sbx_privs_sanitizer_caged(void);

#endif
