/*
 * Arguments that a tool's schema marks with x-mcp-header are repeated by HTTP
 * headers; what decides by these on the way must have seen what is done here.
 * Source: MCP revision 2026-07-28, basic/transports/streamable-http, custom
 * headers from tool parameters.
 */

#include "sbxd/front/http_params.h"

#include "common/base/base.h"
#include "sbxd/front/http.h"
#include "sbxd/front/tools/tools.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define MARK "x-mcp-header"

/* An integer's text without a fraction of zeros: 42.0 is 42. */
static size_t
whole(const char *s, size_t len)
{
	size_t n = len;

	while (n > 0 && s[n - 1] == '0')
		n--;
	return (n > 1 && n < len && s[n - 1] == '.' ? n - 1 : len);
}

static bool
same_number(struct sbx_text v, const char *s)
{
	size_t a = whole(v.p, v.len), b = whole(s, strlen(s));

	return (a == b && memcmp(v.p, s, a) == 0);
}

/* value: JSON text of the argument; p NULL: it was not given. */
static bool
repeats(const struct sbx_http_head *h, const char *name, struct span value)
{
	SBX_CLEANUP(free) char *copy = NULL;
	struct json_object *o;
	struct sbx_text v;
	unsigned n = 0;
	const char *s;
	bool same;

	v = sbx_http_header(h, name, &n);
	if (value.p == NULL || n != 1)
		return (value.p == NULL && n == 0);
	/* a header's line holds no more, however it is escaped */
	if (value.len > 6 * SBX_HTTP_LINE_BYTES)
		return (false);
	copy = sbx_xasprintf("%.*s", (int)value.len, value.p);
	o = json_tokener_parse(copy);
	s = json_object_get_string(o);
	same = s != NULL && (http_says(v, s) ||
	    (json_object_get_type(o) != json_type_string &&
	    same_number(v, s)));
	if (json_object_is_type(o, json_type_string) &&
	    strlen(s) != (size_t)json_object_get_string_len(o))
		same = false;	/* there is a NUL in it */
	json_object_put(o);
	return (same);
}

/* props: of a schema; arguments: that object, p NULL: it was not given. */
static bool
all_repeated(const struct sbx_http_head *h, struct json_object *props,
    struct span arguments, char ret_header[HTTP_PARAM_NAME])
{
	struct json_object *mark, *sub;
	struct span v;

	json_object_object_foreach(props, key, schema) {
		if (arguments.p == NULL ||
		    !member_find(arguments.p, arguments.len, key, &v) ||
		    (v.len == 4 && memcmp(v.p, "null", 4) == 0))
			v = (struct span){ NULL, 0 };
		if (json_object_object_get_ex(schema, MARK, &mark)) {
			(void)snprintf(ret_header, HTTP_PARAM_NAME,
			    "Mcp-Param-%s", json_object_get_string(mark));
			if (!repeats(h, ret_header, v))
				return (false);
		}
		if (json_object_object_get_ex(schema, "properties", &sub) &&
		    !all_repeated(h, sub, v, ret_header))
			return (false);
	}
	return (true);
}

bool
http_params_differ(const struct sbx_http_head *h, const struct sbx_tool *t,
    struct span arguments, char ret_header[HTTP_PARAM_NAME])
{
	struct json_object *schema, *props;
	bool differ;

	if (strstr(t->input_schema, MARK) == NULL)
		return (false);
	schema = json_tokener_parse(t->input_schema);
	differ = !json_object_object_get_ex(schema, "properties", &props) ||
	    !all_repeated(h, props, arguments, ret_header);
	json_object_put(schema);
	return (differ);
}
