/* Print every listed tool as one JSON object a line, for the tests. */

#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "sbxd/front/tools/tools.h"

static void
member(struct sbx_buf *b, const char *key, const char *text, bool quote)
{
	(void)sbx_buf_printf(b, ",\"%s\":", key);
	if (quote)
		(void)sbx_json_str(b, text, strlen(text), NULL);
	else
		(void)sbx_buf_str(b, text);
}

int
main(void)
{
	const struct sbx_tool *t;
	struct sbx_buf b;
	size_t i;

	for (i = 0; (t = sbx_tool_at(i)) != NULL; i++) {
		sbx_buf_init(&b, 1u << 20);
		(void)sbx_buf_printf(&b, "{\"hints\":%u,\"pool\":%u",
		    t->hints, t->pool);
		member(&b, "name", t->name, true);
		member(&b, "title", t->title, true);
		member(&b, "description", t->description, true);
		member(&b, "container_arg",
		    t->container_arg != NULL ? t->container_arg : "", true);
		member(&b, "input", t->input_schema, false);
		member(&b, "output", t->output_schema, false);
		(void)sbx_buf_str(&b, "}");
		puts(b.data);
		sbx_buf_clear(&b);
	}
	return fflush(stdout) == 0 ? 0 : 2;
}
