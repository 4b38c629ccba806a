#include "sbxd/front/tools/tools.h"

#include <string.h>

const struct sbx_tool *
sbx_tool_at(size_t i)
{
	const struct sbx_tool_table *t;

	for (t = sbx_tool_tables; t->tools != NULL; i -= *t->n, t++)
		if (i < *t->n)
			return (&t->tools[i]);
	return (NULL);
}

const struct sbx_tool *
sbx_tool_find(const char *name, size_t len)
{
	const struct sbx_tool *t;
	size_t i;

	for (i = 0; (t = sbx_tool_at(i)) != NULL; i++)
		if (strlen(t->name) == len && memcmp(t->name, name, len) == 0)
			return (t);
	return (NULL);
}
