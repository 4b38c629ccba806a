/* What the suite's programs serve: its own names before the product's. */

#include "tests/conformance/fixture.h"

const struct sbx_tool_table sbx_tool_tables[] = {
	{ fixture_basic_tools, &fixture_basic_tools_n },
	{ fixture_tasks_tools, &fixture_tasks_tools_n },
	{ fixture_input_tools, &fixture_input_tools_n },
	SBX_TOOL_TABLES,
	{ NULL, NULL }
};

const struct serve_table serve_tables[] = {
	{ fixture_rows, &fixture_rows_n },
	{ serves, &serves_n },
	{ NULL, NULL }
};
