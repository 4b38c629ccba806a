/*
 * Only data of peer.h is used here, nothing of peer.c: a program that blocks
 * prints its lists without linking libevent.
 */

#include "common/proto/accepts.h"

#include <stdio.h>
#include <string.h>

static void
accepts_line(enum sbx_proc self, enum sbx_proc remote, unsigned type)
{
	const char *name = sbx_msg_specs[type].name;

	/* A row for a number that does not exist is worth seeing, too. */
	printf("%s %s %s\n", sbx_proc_name(self), sbx_proc_name(remote),
	    name != NULL ? name : "UNKNOWN");
}

void
sbx_accepts_print(int argc, char **argv,
    const struct sbx_dispatch_table *const *tables,
    const struct sbx_accepts *const *lists)
{
	const uint16_t *t;
	unsigned i;

	if (argc != 2 || strcmp(argv[1], "-P") != 0)
		return;
	for (; tables != NULL && *tables != NULL; tables++)
		for (i = 0; i < SBX_MSG_MAX; i++)
			if ((*tables)->rows[i].fn != NULL)
				accepts_line((*tables)->self,
				    (*tables)->remote, i);
	for (; lists != NULL && *lists != NULL; lists++)
		for (t = (*lists)->types; *t != 0; t++)
			accepts_line((*lists)->self, (*lists)->remote, *t);
	exit(fflush(stdout) == 0 ? 0 : 2);
}

bool
sbx_accepts(const struct sbx_accepts *list, uint16_t type)
{
	const uint16_t *t;

	for (t = list->types; *t != 0; t++)
		if (*t == type)
			return (true);
	return (false);
}
