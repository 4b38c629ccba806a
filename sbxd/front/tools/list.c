#include "sbxd/front/tools/tools.h"

#include <string.h>

const struct sbx_tool *
sbx_tool_at(size_t i)
{
	if (i < sbx_tools_lifecycle_n)
		return (&sbx_tools_lifecycle[i]);
	i -= sbx_tools_lifecycle_n;
	if (i < sbx_tools_exec_n)
		return (&sbx_tools_exec[i]);
	i -= sbx_tools_exec_n;
	if (i < sbx_tools_copy_n)
		return (&sbx_tools_copy[i]);
	i -= sbx_tools_copy_n;
	return (i < sbx_tools_snapshot_n ? &sbx_tools_snapshot[i] : NULL);
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
