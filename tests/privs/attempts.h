#ifndef SBX_TESTS_PRIVS_ATTEMPTS_H
#define SBX_TESTS_PRIVS_ATTEMPTS_H

#include <sys/types.h>

#include <stdbool.h>

/* What is there when a row is entered; made before, as for the real ones. */
struct stage {
	pid_t sibling;		/* of the same uid, not dumpable */
	int chan[2];		/* a channel's two ends */
	int dir;		/* the row's directory */
	int tcp;		/* an IPv4 stream socket that was passed in */
	int tcp_port;		/* of a listener on 127.0.0.1 */
	int unix_fd;		/* a Unix stream socket that was passed in */
	const char *abstract;	/* name of an abstract listener outside */
	const char *outside;	/* a directory anybody may write to */
};

struct attempt {
	const char *name;
	/* 0, or errno.  Runs inside the cage, in a process that ends then. */
	int (*fn)(const struct stage *st);
	/* One letter a row, in the order of enum sbx_proc, for a suite that is
	 * started by an ordinary user: K killed by SIGSYS, E refused with one
	 * of the errors, A allowed, - not tried. */
	const char *user;
	const char *root;	/* started by root; NULL: the same */
	int errors[2];
	int abi;		/* Landlock ABI from which this holds; before
				 * it, an E is an A */
	bool own_signals;	/* a worker of the zygote cannot */
};

extern const struct attempt attempts[];	/* ends with name NULL */

#endif
