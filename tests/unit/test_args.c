/* Arguments against a schema, and the text of a result. */

#include <json-c/json.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/limits.h"
#include "sbxd/front/tools/tools.h"
#include "sbxd/worker/args.h"
#include "sbxd/worker/result.h"
#include "tests/tap.h"

static const struct sbx_tool tool = {
	.name = "probe",
	.input_schema = "{\"type\":\"object\",\"properties\":{"
	    "\"id\":{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{4}$\"},"
	    "\"mode\":{\"type\":\"string\",\"enum\":[\"one\",\"two\"],"
	    "\"default\":\"one\"},"
	    "\"note\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":5},"
	    "\"count\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":10,"
	    "\"default\":3},"
	    "\"floor\":{\"type\":\"integer\",\"minimum\":-5},"
	    "\"flag\":{\"type\":\"boolean\",\"default\":true},"
	    "\"list\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},"
	    "\"minItems\":1,\"maxItems\":3},"
	    "\"map\":{\"type\":\"object\",\"maxProperties\":2,"
	    "\"additionalProperties\":{\"type\":\"string\"}}},"
	    "\"required\":[\"id\"],\"additionalProperties\":false}",
};

/* arguments, the code of the error (NULL: accepted), words of it */
static const struct check_case {
	const char *text, *code, *words;
} cases[] = {
	{ "{\"id\":\"00ff\"}", NULL, NULL },
	{ " {\"id\":\"00ff\",\"note\":null,\"list\":null} ", NULL, NULL },
	{ "{\"id\":\"00ff\",\"count\":10,\"floor\":-5}", NULL, NULL },
	{ "{\"id\":\"00ff\",\"count\":2.0}", NULL, NULL },
	{ "{\"id\":\"00ff\",\"count\":1e1}", NULL, NULL },
	{ "{\"id\":\"00ff\",\"list\":[\"\"]}", NULL, NULL },
	{ "{\"id\":\"00ff\",\"list\":\"[\\\"a\\\"]\"}", NULL, NULL },
	{ "{\"id\":\"00ff\",\"map\":\"{\\\"a\\\":\\\"b\\\"}\"}", NULL, NULL },
	{ "{\"id\":\"00ff\",\"note\":\"\\u00e9\"}", NULL, NULL },
	{ "{}", "missing_argument", "\"id\"" },
	{ "{\"id\":null}", "missing_argument", "\"id\"" },
	{ "{\"id\":1}", "bad_argument", "a string, not int" },
	{ "{\"id\":\"00FF\"}", "bad_argument", "must match" },
	{ "{\"id\":\"00ff0\"}", "bad_argument", "must match" },
	{ "{\"id\":\"00ff\\n\"}", "bad_argument", "must match" },
	{ "{\"id\":\"00ff\\u0000\"}", "bad_argument", "U+0000" },
	{ "{\"id\":\"00ff\",\"mode\":\"three\"}", "bad_argument",
	    "\"one\", \"two\"" },
	{ "{\"id\":\"00ff\",\"note\":\"x\"}", "bad_argument",
	    "2 to 5 bytes" },
	{ "{\"id\":\"00ff\",\"note\":\"123456\"}", "bad_argument", "not 6" },
	{ "{\"id\":\"00ff\",\"count\":11}", "bad_argument", "0 to 10" },
	{ "{\"id\":\"00ff\",\"count\":-1}", "bad_argument", "0 to 10" },
	{ "{\"id\":\"00ff\",\"floor\":-6}", "bad_argument", "at least -5" },
	{ "{\"id\":\"00ff\",\"count\":2.5}", "bad_argument", "an integer" },
	{ "{\"id\":\"00ff\",\"count\":\"7\"}", "bad_argument",
	    "write 7 without quotes" },
	{ "{\"id\":\"00ff\",\"count\":\"-7\"}", "bad_argument", "integer" },
	{ "{\"id\":\"00ff\",\"flag\":\"true\"}", "bad_argument",
	    "true or false" },
	{ "{\"id\":\"00ff\",\"flag\":1}", "bad_argument", "true or false" },
	{ "{\"id\":\"00ff\",\"list\":[]}", "bad_argument", "1 to 3 items" },
	{ "{\"id\":\"00ff\",\"list\":[\"a\",\"b\",\"c\",\"d\"]}",
	    "bad_argument", "1 to 3 items" },
	{ "{\"id\":\"00ff\",\"list\":[\"a\",null]}", "bad_argument",
	    "item 1" },
	{ "{\"id\":\"00ff\",\"list\":\"a\"}", "bad_argument",
	    "write [\"a\"]" },
	{ "{\"id\":\"00ff\",\"list\":\"[1]\"}", "bad_argument", "item 0" },
	{ "{\"id\":\"00ff\",\"map\":{\"a\":1}}", "bad_argument", "a is int" },
	{ "{\"id\":\"00ff\",\"map\":{\"a\":\"\",\"b\":\"\",\"c\":\"\"}}",
	    "bad_argument", "2 members" },
	{ "{\"id\":\"00ff\",\"map\":\"{\\\"a\\\":\\\"\\\","
	    "\\\"a\\\":\\\"\\\"}\"}", "bad_argument", "\"map\"" },
	{ "{\"id\":\"00ff\",\"cuont\":1}", "unknown_argument",
	    "did you mean \"count\"" },
	{ "{\"id\":\"00ff\",\"zzzzzzzz\":1}", "unknown_argument",
	    "probe takes: id, mode" },
	{ "{\"id\":\"00ff\",\"allow_network\":false}", "unknown_argument",
	    "allow_network" },
	{ "{\"id\":\"00ff\",\"id\":\"00ff\"}", "bad_argument", "twice" },
	{ "[]", "bad_argument", "one object" },
	{ "null", "bad_argument", "one object" },
	{ "", "bad_argument", "byte 0" },
	{ "{\"id\":\"00ff\"}x", "bad_argument", "byte 13" },
};

static void
test_cases(const struct args_schema *s)
{
	struct result res;
	struct args a;
	size_t i;
	int error;
	bool good;
	char code[64];

	for (i = 0; i < SBX_NELEM(cases); i++) {
		result_init(&res);
		error = args_check(s, cases[i].text, strlen(cases[i].text),
		    &a, &res);
		result_finish(&res, false);
		good = (error == 0) == (cases[i].code == NULL);
		if (good && error != 0) {
			(void)snprintf(code, sizeof(code), "\"code\":\"%s\"",
			    cases[i].code);
			good = strstr(res.text.data, code) != NULL;
			/* Quotes are escaped in the text: compare parsed. */
			struct json_object *o =
			    json_tokener_parse(res.text.data), *e;
			good = good && json_object_object_get_ex(o, "error",
			    &e) && strstr(json_object_get_string(e),
			    cases[i].words) != NULL;
			json_object_put(o);
		}
		ok(good, "case %zu: %s", i, cases[i].code == NULL ?
		    "accepted" : cases[i].code);
		if (!good)
			printf("# %s -> %s\n", cases[i].text, res.text.data);
		args_clear(&a);
		result_clear(&res);
	}
}

static void
test_values(const struct args_schema *s)
{
	static const char text[] = "{\"id\":\"00ff\",\"list\":"
	    "\"[\\\"x\\\",\\\"y\\\"]\",\"floor\":4.0}";
	struct result res;
	struct args a;
	size_t len;

	result_init(&res);
	ok(args_check(s, text, sizeof(text) - 1, &a, &res) == 0, "accepted");
	ok(strcmp(args_str(&a, "id", &len), "00ff") == 0 && len == 4,
	    "a string");
	ok(strcmp(args_str(&a, "mode", NULL), "one") == 0, "its default");
	ok(args_str(&a, "note", &len) == NULL && len == 0, "none");
	ok(args_int(&a, "count") == 3 && args_int(&a, "floor") == 4,
	    "integers");
	ok(args_bool(&a, "flag") && !args_has(&a, "flag"), "a default");
	ok(json_object_array_length(args_json(&a, "list")) == 2, "a list");
	ok(args_json(&a, "map") == NULL, "no map");
	args_clear(&a);
	result_clear(&res);
}

static void
test_schemas(void)
{
	static const char *const bad[] = { "", "[]", "{\"properties\":{}}",
		"{\"properties\":{\"a\":{}},\"required\":[]}",
		"{\"properties\":{\"a\":{\"type\":\"null\"}},"
		"\"required\":[]}",
		"{\"properties\":{\"a\":{\"type\":\"string\","
		"\"format\":\"uri\"}},\"required\":[]}",
		"{\"properties\":{\"a\":{\"type\":\"string\","
		"\"maximum\":1}},\"required\":[]}",
		"{\"properties\":{\"a\":{\"type\":\"string\","
		"\"pattern\":\"[\"}},\"required\":[]}",
		"{\"properties\":{\"a\":{\"type\":\"integer\","
		"\"default\":\"1\"}},\"required\":[]}",
		"{\"properties\":{},\"required\":[\"a\"]}",
	};
	struct sbx_tool t = tool;
	struct args_schema *s;
	struct sbx_err err;
	size_t i;

	for (i = 0; i < SBX_NELEM(bad); i++) {
		t.input_schema = bad[i];
		s = args_compile(&t, &err);
		ok(s == NULL, "schema %zu does not compile", i);
		args_schema_free(s);
	}
	for (i = 0; sbx_tool_at(i) != NULL; i++) {
		s = args_compile(sbx_tool_at(i), &err);
		ok(s != NULL, "schema of %s compiles", sbx_tool_at(i)->name);
		args_schema_free(s);
	}
}

static void
test_result(void)
{
	static const char want[] = "{\"s\":\"a\\u2028\xef\xbf\xbd\","
	    "\"n\":-1,\"l\":[true,null],\"t\":\"1970-01-01T00:00:00.000Z\","
	    "\"u\":\"2024-02-29T23:59:59.999Z\",\"w\":1.005,"
	    "\"replaced_bytes\":1}";
	struct result r;
	size_t i;
	char *big;

	result_init(&r);
	result_strn(&r, "s", "a\xe2\x80\xa8\xff", 5);
	result_i64(&r, "n", -1);
	result_open(&r, "l", '[');
	result_bool(&r, NULL, true);
	result_null(&r, NULL);
	result_close(&r, ']');
	result_time(&r, "t", 0);
	result_time(&r, "u", 1709251199999000000);
	result_seconds(&r, "w", 1005);
	result_finish(&r, true);
	ok(strcmp(r.text.data, want) == 0, "a result");
	ok(sbx_json_scan(r.text.data, r.text.len, SBX_MAX_RESULT, 8, NULL) ==
	    0, "is JSON");
	result_clear(&r);

	result_init(&r);
	big = sbx_xcalloc(1, 1u << 20);
	memset(big, 'x', 1u << 20);
	for (i = 0; i < 5; i++)
		result_strn(&r, "x", big, 1u << 20);
	free(big);
	result_finish(&r, true);
	ok(r.kind == SBX_RESULT_ERROR && strstr(r.text.data, "result_too_large") != NULL &&
	    sbx_json_scan(r.text.data, r.text.len, SBX_MAX_RESULT, 8, NULL) ==
	    0, "too large a result is an error");
	result_clear(&r);
}

int
main(void)
{
	struct sbx_err err;
	struct args_schema *s = args_compile(&tool, &err);

	ok(s != NULL, "the schema compiles");
	if (s == NULL)
		return tap_done();
	test_cases(s);
	test_values(s);
	test_schemas();
	test_result();
	args_schema_free(s);
	return tap_done();
}
