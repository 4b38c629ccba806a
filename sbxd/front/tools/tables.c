#include "sbxd/front/tools/tools.h"

const struct sbx_tool_table sbx_tool_tables[] = {
	{ sbx_tools_lifecycle, &sbx_tools_lifecycle_n },
	{ sbx_tools_exec, &sbx_tools_exec_n },
	{ sbx_tools_copy, &sbx_tools_copy_n },
	{ sbx_tools_snapshot, &sbx_tools_snapshot_n },
	{ sbx_tools_guide, &sbx_tools_guide_n },
	{ NULL, NULL }
};
