/*
 * `sbx journal` on any directory: journal-read DIR VERB [OPTION ...].  It
 * remembers in $JOURNAL_CACHE.
 */

#include <stdio.h>
#include <stdlib.h>

#include "sbxd/cli/cmd_journal.h"

int
main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: journal-read DIR VERB [OPTION ...]\n");
		return 1;
	}
	return cmd_journal(argv[1], getenv("JOURNAL_CACHE"), argc - 1,
	    argv + 1);
}
