/*
 * sbx-privs: print the privilege table, or check the running kernel.
 *
 * Holds nothing and talks to nobody.  It must never be able to change what it
 * prints: the table is compiled in, the checks run in children that end.
 */

#include "common/privs/row.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

static int
usage(void)
{
	(void)fprintf(stderr, "usage: sbx-privs [-c]\n");
	return (1);
}

static int
put(const struct sbx_buf *b)
{
	if (b->overflow || sbx_write_all(STDOUT_FILENO, b->data, b->len) < 0) {
		(void)fprintf(stderr, "sbx-privs: cannot write\n");
		return (2);
	}
	return (0);
}

static int
check(void)
{
	SBX_CLEANUP_BUF struct sbx_buf b;
	int missing, why, fd;

	sbx_buf_init(&b, 64 << 10);
	missing = sbx_privs_check_kernel(&b);
	if (missing == 0)
		(void)sbx_buf_str(&b, "ok      kernel\n");
	/* Above the floor: used where present. */
	fd = memfd_create("check", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	(void)sbx_buf_printf(&b, "note    Landlock ABI %d (network rules from "
	    "4, scopes from 6); memfds without execution: %s\n",
	    sbx_privs_landlock_abi(&why), fd < 0 ? "no" : "yes");
	sbx_close(&fd);
	if (put(&b) != 0)
		return (2);
	return (missing == 0 ? 0 : 1);
}

int
main(int argc, char **argv)
{
	SBX_CLEANUP_BUF struct sbx_buf b;

	if (argc == 2 && strcmp(argv[1], "-c") == 0)
		return (check());
	if (argc != 1)
		return (usage());
	sbx_buf_init(&b, 256 << 10);
	(void)sbx_privs_print(&b); /* an overflow is seen by put() */
	return (put(&b));
}
