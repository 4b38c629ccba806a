/*
 * sbx-privs: print the privilege table.
 *
 * Holds nothing and talks to nobody.  It must never be able to change what it
 * prints: the table is compiled in.
 */

#include "common/privs/row.h"

#include <stdio.h>
#include <unistd.h>

static int
usage(void)
{
	(void)fprintf(stderr, "usage: sbx-privs\n");
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

int
main(int argc, char **argv)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

	(void)argv;
	if (argc != 1)
		return (usage());
	sbx_buf_init(&b, 256 << 10);
	(void)sbx_privs_print(&b); /* an overflow is seen by put() */
	return (put(&b));
}
