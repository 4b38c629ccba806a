#include "sbxd/front/tools/tools.h"

const struct sbx_tool_table sbx_tool_tables[] = {
	SBX_TOOL_TABLES,
	{ NULL, NULL }
};
