/* The scan that foreign JSON passes first, and the string writer. */

#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "tests/tap.h"

/* The names of cases are foreign text. */
static void
check(bool good, const char *what)
{
	char shown[200];

	ok(good, "%s", sbx_vis(shown, sizeof(shown), what, strlen(what)));
}

/* text, bytes (0: strlen), the fault, its offset */
static const struct scan_case {
	const char *text;
	size_t len;
	enum sbx_json_fault fault;
	size_t offset;
} scan_cases[] = {
	/* values */
	{ "null", 0, SBX_JSON_OK, 0 },
	{ " \t\r\n true \n", 0, SBX_JSON_OK, 0 },
	{ "false", 0, SBX_JSON_OK, 0 },
	{ "\"\"", 0, SBX_JSON_OK, 0 },
	{ "{}", 0, SBX_JSON_OK, 0 },
	{ "[]", 0, SBX_JSON_OK, 0 },
	{ " { \"a\" : [ 1 , { } , [ ] ] } ", 0, SBX_JSON_OK, 0 },
	{ "{\"a\":{\"a\":{\"a\":1}},\"b\":{\"a\":2}}", 0, SBX_JSON_OK, 0 },
	{ "[{\"a\":1},{\"a\":1}]", 0, SBX_JSON_OK, 0 },
	{ "", 0, SBX_JSON_SYNTAX, 0 },
	{ " ", 0, SBX_JSON_SYNTAX, 1 },
	{ "nul", 0, SBX_JSON_SYNTAX, 3 },
	{ "nulL", 0, SBX_JSON_SYNTAX, 3 },
	{ "True", 0, SBX_JSON_SYNTAX, 0 },
	{ "nulls", 0, SBX_JSON_SYNTAX, 4 },
	{ "NaN", 0, SBX_JSON_SYNTAX, 0 },
	{ "Infinity", 0, SBX_JSON_SYNTAX, 0 },
	{ "-Infinity", 0, SBX_JSON_SYNTAX, 1 },
	{ "undefined", 0, SBX_JSON_SYNTAX, 0 },
	{ "'a'", 0, SBX_JSON_SYNTAX, 0 },
	{ "// x\n1", 0, SBX_JSON_SYNTAX, 0 },
	{ "/* */1", 0, SBX_JSON_SYNTAX, 0 },
	{ "\xef\xbb\xbf{}", 0, SBX_JSON_SYNTAX, 0 },
	{ "\f1", 0, SBX_JSON_SYNTAX, 0 },
	{ "\xc2\xa0" "1", 0, SBX_JSON_SYNTAX, 0 },
	/* structure */
	{ "{", 0, SBX_JSON_SYNTAX, 1 },
	{ "[", 0, SBX_JSON_SYNTAX, 1 },
	{ "]", 0, SBX_JSON_SYNTAX, 0 },
	{ "}", 0, SBX_JSON_SYNTAX, 0 },
	{ "[}", 0, SBX_JSON_SYNTAX, 1 },
	{ "{]", 0, SBX_JSON_SYNTAX, 1 },
	{ "[1}", 0, SBX_JSON_SYNTAX, 2 },
	{ "{\"a\":1]", 0, SBX_JSON_SYNTAX, 6 },
	{ "[1,]", 0, SBX_JSON_SYNTAX, 3 },
	{ "[,1]", 0, SBX_JSON_SYNTAX, 1 },
	{ "[1,,2]", 0, SBX_JSON_SYNTAX, 3 },
	{ "[1 2]", 0, SBX_JSON_SYNTAX, 3 },
	{ "[1:2]", 0, SBX_JSON_SYNTAX, 2 },
	{ "{\"a\":1,}", 0, SBX_JSON_SYNTAX, 7 },
	{ "{,}", 0, SBX_JSON_SYNTAX, 1 },
	{ "{\"a\"}", 0, SBX_JSON_SYNTAX, 4 },
	{ "{\"a\":}", 0, SBX_JSON_SYNTAX, 5 },
	{ "{\"a\" 1}", 0, SBX_JSON_SYNTAX, 5 },
	{ "{\"a\",1}", 0, SBX_JSON_SYNTAX, 4 },
	{ "{a:1}", 0, SBX_JSON_SYNTAX, 1 },
	{ "{1:1}", 0, SBX_JSON_SYNTAX, 1 },
	{ "{\"a\":1 \"b\":2}", 0, SBX_JSON_SYNTAX, 7 },
	{ "{}{}", 0, SBX_JSON_SYNTAX, 2 },
	{ "{}\n{}", 0, SBX_JSON_SYNTAX, 3 },
	{ "1 2", 0, SBX_JSON_SYNTAX, 2 },
	{ "{},", 0, SBX_JSON_SYNTAX, 2 },
	{ "{}x", 0, SBX_JSON_SYNTAX, 2 },
	{ "{}\0", 3, SBX_JSON_SYNTAX, 2 },
	{ "\0", 1, SBX_JSON_SYNTAX, 0 },
	{ "[1\0]", 4, SBX_JSON_SYNTAX, 2 },
	/* numbers */
	{ "0", 0, SBX_JSON_OK, 0 },
	{ "-0", 0, SBX_JSON_OK, 0 },
	{ "-0.0e-0", 0, SBX_JSON_OK, 0 },
	{ "1.5E+3", 0, SBX_JSON_OK, 0 },
	{ "1e5", 0, SBX_JSON_OK, 0 },
	{ "01", 0, SBX_JSON_SYNTAX, 1 },
	{ "-01", 0, SBX_JSON_SYNTAX, 2 },
	{ "00", 0, SBX_JSON_SYNTAX, 1 },
	{ "1.", 0, SBX_JSON_SYNTAX, 2 },
	{ "1.e3", 0, SBX_JSON_SYNTAX, 2 },
	{ ".5", 0, SBX_JSON_SYNTAX, 0 },
	{ "+1", 0, SBX_JSON_SYNTAX, 0 },
	{ "-", 0, SBX_JSON_SYNTAX, 1 },
	{ "--1", 0, SBX_JSON_SYNTAX, 1 },
	{ "1e", 0, SBX_JSON_SYNTAX, 2 },
	{ "1e+", 0, SBX_JSON_SYNTAX, 3 },
	{ "1e1.5", 0, SBX_JSON_SYNTAX, 3 },
	{ "0x10", 0, SBX_JSON_SYNTAX, 1 },
	{ "1_000", 0, SBX_JSON_SYNTAX, 1 },
	{ "1,000", 0, SBX_JSON_SYNTAX, 1 },
	{ "9223372036854775807", 0, SBX_JSON_OK, 0 },
	{ "9223372036854775808", 0, SBX_JSON_NUMBER, 0 },
	{ "-9223372036854775808", 0, SBX_JSON_OK, 0 },
	{ "-9223372036854775809", 0, SBX_JSON_NUMBER, 0 },
	{ "[18446744073709551616]", 0, SBX_JSON_NUMBER, 1 },
	{ "100000000000000000000", 0, SBX_JSON_NUMBER, 0 },
	{ "9223372036854775808.0", 0, SBX_JSON_OK, 0 },
	{ "1e308", 0, SBX_JSON_OK, 0 },
	{ "1.7976931348623157e308", 0, SBX_JSON_OK, 0 },
	{ "1.7976931348623158e308", 0, SBX_JSON_OK, 0 },
	{ "1.7976931348623159e308", 0, SBX_JSON_NUMBER, 0 },
	{ "17976931348623159e292", 0, SBX_JSON_NUMBER, 0 },
	{ "1e309", 0, SBX_JSON_NUMBER, 0 },
	{ "-1e309", 0, SBX_JSON_NUMBER, 0 },
	{ "0.1e309", 0, SBX_JSON_OK, 0 },
	{ "0.01e311", 0, SBX_JSON_NUMBER, 0 },
	{ "0.001e311", 0, SBX_JSON_OK, 0 },
	{ "1e-400", 0, SBX_JSON_OK, 0 },
	{ "0e999999999999999999999999", 0, SBX_JSON_OK, 0 },
	{ "1e99999999999999999999999", 0, SBX_JSON_NUMBER, 0 },
	{ "1e-99999999999999999999999", 0, SBX_JSON_OK, 0 },
	/* strings */
	{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"", 0, SBX_JSON_OK, 0 },
	{ "\"\x7f\"", 0, SBX_JSON_OK, 0 },
	{ "\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"abc", 0, SBX_JSON_SYNTAX, 4 },
	{ "\"\\", 0, SBX_JSON_SYNTAX, 2 },
	{ "\"\\\"", 0, SBX_JSON_SYNTAX, 3 },
	{ "\"\\x41\"", 0, SBX_JSON_SYNTAX, 2 },
	{ "\"\\'\"", 0, SBX_JSON_SYNTAX, 2 },
	{ "\"\\\0\"", 4, SBX_JSON_SYNTAX, 2 },
	{ "\"\\u\"", 0, SBX_JSON_SYNTAX, 3 },
	{ "\"\\u12g4\"", 0, SBX_JSON_SYNTAX, 5 },
	{ "\"\\u123", 0, SBX_JSON_SYNTAX, 6 },
	{ "\"\\U0041\"", 0, SBX_JSON_SYNTAX, 2 },
	{ "\"a\nb\"", 0, SBX_JSON_SYNTAX, 2 },
	{ "\"a\tb\"", 0, SBX_JSON_SYNTAX, 2 },
	{ "\"a\0b\"", 5, SBX_JSON_SYNTAX, 2 },
	{ "\"\x1f\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\\u0000\"", 0, SBX_JSON_OK, 0 },
	{ "\"\\ud83d\\ude00\"", 0, SBX_JSON_OK, 0 },
	{ "\"\\uD83D\\uDE00\"", 0, SBX_JSON_OK, 0 },
	{ "\"\\ud83d\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\\ude00\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\\ud83d\\ud83d\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\\ud83d\\u0041\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\\ude00\\ud83d\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\\ud83dx\\ude00\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\\ud83d\\n12345\"", 0, SBX_JSON_SYNTAX, 1 },
	/* UTF-8: RFC 3629 section 4 at its borders */
	{ "\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\"", 0, SBX_JSON_OK, 0 },
	{ "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"", 0, SBX_JSON_OK, 0 },
	{ "\"\xed\x9f\xbf\xee\x80\x80\"", 0, SBX_JSON_OK, 0 },
	{ "\"\x80\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xbf\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xc0\x80\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xc1\xbf\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xe0\x80\x80\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xe0\x9f\xbf\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xed\xa0\x80\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xed\xbf\xbf\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xf0\x80\x80\x80\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xf0\x8f\xbf\xbf\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xf4\x90\x80\x80\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xf5\x80\x80\x80\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xff\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xc3\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xe2\x82\"", 0, SBX_JSON_SYNTAX, 1 },
	{ "\"\xf0\x9f\x98", 0, SBX_JSON_SYNTAX, 1 },
	/* member names */
	{ "{\"a\":1,\"a\":1}", 0, SBX_JSON_DUPLICATE, 8 },
	{ "{\"a\":1,\"\\u0061\":1}", 0, SBX_JSON_DUPLICATE, 8 },
	{ "{\"\\u0061\":1,\"a\":1}", 0, SBX_JSON_DUPLICATE, 13 },
	{ "{\"\\u006A\":1,\"\\u006a\":1}", 0, SBX_JSON_DUPLICATE, 13 },
	{ "{\"\":1,\"\":1}", 0, SBX_JSON_DUPLICATE, 7 },
	{ "{\"\\/\":1,\"/\":1}", 0, SBX_JSON_DUPLICATE, 9 },
	{ "{\"\\n\":1,\"\\u000a\":1}", 0, SBX_JSON_DUPLICATE, 9 },
	{ "{\"\\\"\":1,\"\\u0022\":1}", 0, SBX_JSON_DUPLICATE, 9 },
	{ "{\"\xc3\xa9\":1,\"\\u00e9\":1}", 0, SBX_JSON_DUPLICATE, 9 },
	{ "{\"\xf0\x9f\x98\x80\":1,\"\\ud83d\\ude00\":1}", 0,
	    SBX_JSON_DUPLICATE, 11 },
	{ "{\"a\":{\"b\":[],\"b\":1}}", 0, SBX_JSON_DUPLICATE, 14 },
	{ "{\"a\":{\"b\":1},\"a\":1}", 0, SBX_JSON_DUPLICATE, 14 },
	{ "[[[{\"a\":[{\"c\":1}],\"c\":2,\"a\":1}]]]", 0,
	    SBX_JSON_DUPLICATE, 25 },
	{ "{\"a\":1,\"A\":1,\"aa\":1,\"\":1}", 0, SBX_JSON_OK, 0 },
	{ "{\"e\xcc\x81\":1,\"\xc3\xa9\":1}", 0, SBX_JSON_OK, 0 },
	{ "{\"a\\u0000b\":1}", 0, SBX_JSON_SYNTAX, 2 },
	{ "{\"a\n\":1}", 0, SBX_JSON_SYNTAX, 3 },
};

static void
test_scan_cases(void)
{
	struct sbx_json_where w;
	const struct scan_case *c;
	char what[160], *copy;
	size_t i, len;
	int r;

	for (i = 0; i < SBX_NELEM(scan_cases); i++) {
		c = &scan_cases[i];
		len = c->len == 0 ? strlen(c->text) : c->len;
		/* of its exact size, so that a sanitizer sees a read behind */
		copy = malloc(len == 0 ? 1 : len);
		if (copy == NULL)
			exit(2);
		memcpy(copy, c->text, len);
		r = sbx_json_scan(copy, len, 1 << 20, 64, &w);
		free(copy);
		snprintf(what, sizeof(what), "%s -> %s at %zu", c->text,
		    sbx_json_fault_text(c->fault), c->offset);
		if (w.fault != c->fault || w.offset != c->offset)
			printf("# got %s at %zu\n",
			    sbx_json_fault_text(w.fault), w.offset);
		check(w.fault == c->fault && w.offset == c->offset &&
		    r == (c->fault == SBX_JSON_OK ? 0 : SBX_E_SYNTAX), what);
	}
}

/* What is refused and well formed, from what only begins so. */
static void
test_well_formed(void)
{
	static const struct {
		const char *text;
		enum sbx_json_fault fault;
		size_t offset;
		bool well_formed;
	} rows[] = {
		{ "{\"a\":1}", SBX_JSON_OK, 0, true },
		{ "{\"a\":99999999999999999999}", SBX_JSON_NUMBER, 5, true },
		{ "{\"a\":1e999,\"a\":[{}]}", SBX_JSON_NUMBER, 5, true },
		{ "{\"a\":1,\"a\":1e999}", SBX_JSON_DUPLICATE, 8, true },
		{ "[[[[1]]],{\"a\":1}]", SBX_JSON_DEPTH, 3, true },
		{ "{\"a\":1,\"a\":1", SBX_JSON_DUPLICATE, 8, false },
		{ "[1e999,}", SBX_JSON_NUMBER, 1, false },
		{ "[[[[1}]]]", SBX_JSON_DEPTH, 3, false },
		{ "[", SBX_JSON_SYNTAX, 1, false },
	};
	struct sbx_json_where w;
	int r;

	for (size_t i = 0; i < SBX_NELEM(rows); i++) {
		r = sbx_json_scan(rows[i].text, strlen(rows[i].text), 100, 3,
		    &w);
		check((r == 0) == (rows[i].fault == SBX_JSON_OK) &&
		    w.fault == rows[i].fault && w.offset == rows[i].offset &&
		    w.well_formed == rows[i].well_formed, rows[i].text);
	}
}

/* No prefix of a valid text is one, but for numbers. */
static void
test_prefixes(void)
{
	static const char text[] = "{\"a\\u00e9\\ud83d\\ude00\":[1.5e3,true,"
	    "null,{\"\xe2\x82\xac\":\"x\\n\"},-7,[]],\"b\":{}}";
	bool good = true;
	size_t i;

	for (i = 0; i < sizeof(text) - 1; i++)
		good = good && sbx_json_scan(text, i, 1000, 64, NULL) ==
		    SBX_E_SYNTAX;
	ok(good && sbx_json_scan(text, sizeof(text) - 1, 1000, 64, NULL) == 0,
	    "every prefix of a document is refused, the whole is not");
}

static void
test_depth_and_size(void)
{
	struct sbx_json_where w;
	size_t i, n = 1000000;
	char *t = sbx_xcalloc(2 * n, 1);

	for (i = 0; i < n; i++) {
		t[i] = '[';
		t[2 * n - 1 - i] = ']';
	}
	ok(sbx_json_scan(t + n - 64, 128, 1000, 64, &w) == 0,
	    "nested as deeply as permitted");
	ok(sbx_json_scan(t + n - 65, 130, 1000, 64, &w) == SBX_E_SYNTAX &&
	    w.fault == SBX_JSON_DEPTH && w.offset == 64,
	    "one deeper is refused where it opens");
	ok(sbx_json_scan(t, 2 * n, 2 * n, 2000000, &w) == 0,
	    "a million levels take no stack");
	ok(sbx_json_scan(t, 2 * n, 2 * n, 64, &w) == SBX_E_SYNTAX &&
	    w.fault == SBX_JSON_DEPTH && !w.well_formed,
	    "a million levels are refused");
	ok(sbx_json_scan("[]", 2, 1000, 0, &w) == SBX_E_SYNTAX &&
	    w.fault == SBX_JSON_DEPTH, "depth 0 permits no container");
	ok(sbx_json_scan("1", 1, 1000, 0, &w) == 0, "but a plain value");
	ok(sbx_json_scan("[1]", 3, 3, 64, &w) == 0, "as long as permitted");
	ok(sbx_json_scan("[1] ", 4, 3, 64, &w) == SBX_E_SYNTAX &&
	    w.fault == SBX_JSON_SIZE && w.offset == 3, "too long is refused");
	free(t);
}

/* n different members, then (when dup >= 0) that one again, escaped. */
static int
scan_members(size_t n, ssize_t dup, struct sbx_json_where *w)
{
	struct sbx_buf b SBX_CLEANUP_BUF;
	size_t i;

	sbx_buf_init(&b, 64 << 20);
	(void)sbx_buf_str(&b, "{");
	for (i = 0; i < n; i++)
		(void)sbx_buf_printf(&b, "%s\"m%zu\":%zu", i > 0 ? "," : "",
		    i, i);
	if (dup >= 0)
		(void)sbx_buf_printf(&b, ",\"\\u006d%zd\":0", dup);
	(void)sbx_buf_str(&b, "}");
	return sbx_json_scan(b.data, b.len, 64 << 20, 64, w);
}

static void
test_many_names(void)
{
	static const size_t counts[] = { 1, 15, 16, 17, 18, 31, 32, 33, 1000,
	    300000 };
	struct sbx_json_where w;
	char what[80];
	size_t i;
	bool good;

	for (i = 0; i < SBX_NELEM(counts); i++) {
		good = scan_members(counts[i], -1, &w) == 0 &&
		    scan_members(counts[i], 0, &w) == SBX_E_SYNTAX &&
		    w.fault == SBX_JSON_DUPLICATE &&
		    strstr(w.name, "u006d0") != NULL &&
		    scan_members(counts[i], (ssize_t)counts[i] - 1, &w) ==
		    SBX_E_SYNTAX && w.fault == SBX_JSON_DUPLICATE;
		if (!good)
			printf("# name %s\n", w.name);
		snprintf(what, sizeof(what),
		    "a duplicate among %zu names is found", counts[i]);
		check(good, what);
	}
}

static const struct str_case {
	const char *in;
	size_t len;
	const char *out;
	size_t replaced;
} str_cases[] = {
	{ "", 0, "\"\"", 0 },
	{ "plain / text", 12, "\"plain / text\"", 0 },
	{ "\"\\", 2, "\"\\\"\\\\\"", 0 },
	{ "\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\"", 0 },
	{ "a\0b", 3, "\"a\\u0000b\"", 0 },
	{ "\x01\x1b[31m\x1f\x7f", 8, "\"\\u0001\\u001b[31m\\u001f\\u007f\"", 0 },
	{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
	    "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", 0 },
	{ "\xc2\x9b" "1m", 4, "\"\\u009b1m\"", 0 },
	{ "\xe2\x80\xa8\xe2\x80\xa9", 6, "\"\\u2028\\u2029\"", 0 },
	{ "\xe2\x80\xae\xe2\x81\xa6\xef\xbb\xbf\xd8\x9c\xe2\x80\x8b", 14,
	    "\"\\u202e\\u2066\\ufeff\\u061c\\u200b\"", 0 },
	{ "a\xff" "b", 3, "\"a\xef\xbf\xbd" "b\"", 1 },
	{ "\xc0\x80", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"", 2 },
	{ "\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"", 3 },
	{ "\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"", 2 },
};

static void
test_strings(void)
{
	const struct str_case *c;
	struct sbx_buf b;
	size_t i, replaced;
	char what[160];
	int r;

	for (i = 0; i < SBX_NELEM(str_cases); i++) {
		c = &str_cases[i];
		sbx_buf_init(&b, 1000);
		r = sbx_json_str(&b, c->in, c->len, &replaced);
		snprintf(what, sizeof(what), "written as %s", c->out);
		check(r == 0 && strcmp(b.data, c->out) == 0 &&
		    replaced == c->replaced &&
		    sbx_json_scan(b.data, b.len, 1000, 1, NULL) == 0, what);
		sbx_buf_clear(&b);
	}
	sbx_buf_init(&b, 6);
	ok(sbx_json_str(&b, "aaaaaaaaaaaa", 12, NULL) == SBX_E_LIMIT &&
	    b.overflow, "a string that does not fit is an error");
	sbx_buf_clear(&b);
}

/* Any bytes, written, are valid; scanning them raw must only not crash. */
static void
test_random(void)
{
	struct sbx_buf b;
	char raw[64];
	bool good = true;
	size_t i;

	for (i = 0; i < 20000; i++) {
		sbx_random(raw, sizeof(raw));
		sbx_buf_init(&b, 1000);
		good = good && sbx_json_str(&b, raw, i % 65, NULL) == 0 &&
		    sbx_json_scan(b.data, b.len, 1000, 1, NULL) == 0;
		sbx_buf_clear(&b);
		(void)sbx_json_scan(raw, i % 65, 1000, 4, NULL);
	}
	ok(good, "random bytes become valid strings");
}

static void
test_utf8(void)
{
	ok(sbx_utf8_len("", 0) == 0 && sbx_utf8_len("a", 1) == 1 &&
	    sbx_utf8_len("\0", 1) == 1, "one byte");
	ok(sbx_utf8_len("\xc3\xa9", 2) == 2 && sbx_utf8_len("\xc3\xa9", 1) == 0,
	    "two bytes, and cut");
	ok(sbx_utf8_len("\xe2\x82\xac", 3) == 3 &&
	    sbx_utf8_len("\xe2\x82\xac", 2) == 0, "three bytes, and cut");
	ok(sbx_utf8_len("\xf0\x9f\x98\x80", 4) == 4 &&
	    sbx_utf8_len("\xf0\x9f\x98\x80", 3) == 0, "four bytes, and cut");
}

int
main(void)
{
	test_scan_cases();
	test_well_formed();
	test_prefixes();
	test_depth_and_size();
	test_many_names();
	test_strings();
	test_random();
	test_utf8();
	return tap_done();
}
