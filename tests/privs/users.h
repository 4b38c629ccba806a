#ifndef SBX_TESTS_PRIVS_USERS_H
#define SBX_TESTS_PRIVS_USERS_H

/*
 * Started by root, the rows need users of the suite.  A test must not add any
 * to the machine, so it sees its own copy of the user database, in a mount
 * namespace that ends with it.
 */

#include <sys/mount.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define USERS_FIRST 64900	/* ids nobody else has */
static const char *const users_names[] = { "sbxd", "sbx-front", "sbx-broker",
	"sbx-proxy", "sbx-journal", "sbx-command" };
#define USERS_N (sizeof(users_names) / sizeof(users_names[0]))

static inline bool
users_file(const char *target, bool group)
{
	char tmp[] = "/tmp/sbx-users.XXXXXX";
	int fd = mkstemp(tmp);
	bool good;

	if (fd < 0)
		return false;
	for (int i = 0; i < (int)USERS_N; i++)
		if (group)
			(void)dprintf(fd, "%s:x:%d:\n", users_names[i],
			    USERS_FIRST + i);
		else
			(void)dprintf(fd, "%s:x:%d:%d::/:/bin/false\n",
			    users_names[i], USERS_FIRST + i, USERS_FIRST + i);
	good = fchmod(fd, 0644) == 0 &&
	    mount(tmp, target, NULL, MS_BIND, NULL) == 0;
	(void)unlink(tmp);
	(void)close(fd);
	return good;
}

/* true: the users are there, or are not needed. */
static inline bool
users_prepare(void)
{
	if (geteuid() != 0)
		return true;
	return unshare(CLONE_NEWNS) == 0 &&
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    users_file("/etc/passwd", false) &&
	    users_file("/etc/group", true);
}

#endif
