/*
 * The scan against json-c: what it lets through json-c must take, whole, with
 * the same nesting limit; and any bytes written as a string come back.
 */

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"

#define DEPTH 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
against_json_c(const char *text, size_t size)
{
	struct sbx_json_where w;
	struct json_tokener *tok;
	struct json_object *o;

	if (sbx_json_scan(text, size, 1 << 20, DEPTH, &w) != 0) {
		if (w.fault == SBX_JSON_OK || w.offset > size)
			abort();
		return;
	}
	/* its depth counts the values inside the innermost container */
	tok = json_tokener_new_ex(DEPTH + 1);
	if (tok == NULL)
		abort();
	json_tokener_set_flags(tok, JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(tok, text, (int)size);
	/* a number or word that ends the text waits for more: no error */
	if (json_tokener_get_error(tok) != json_tokener_success &&
	    json_tokener_get_error(tok) != json_tokener_continue)
		abort();
	json_object_put(o);
	json_tokener_free(tok);
}

static void
round_trip(const char *bytes, size_t size)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	struct json_object *o;
	size_t replaced, i;

	sbx_buf_init(&b, 8 * size + 16);
	if (sbx_json_str(&b, bytes, size, &replaced) != 0 ||
	    sbx_json_scan(b.data, b.len, b.len, 0, NULL) != 0)
		abort();
	for (i = 0; i < b.len; i++)
		if ((unsigned char)b.data[i] < 0x20 || b.data[i] == 0x7f)
			abort();
	o = json_tokener_parse(b.data);
	if (!json_object_is_type(o, json_type_string) || (replaced == 0 &&
	    ((size_t)json_object_get_string_len(o) != size ||
	    memcmp(json_object_get_string(o), bytes, size) != 0)))
		abort();
	json_object_put(o);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	against_json_c((const char *)data, size);
	round_trip((const char *)data, size);
	return 0;
}
