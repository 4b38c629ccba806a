/* What a courier decides by: where a credential is, which members of JSON pass,
 * what fits a grant. */

#include "common/base/base.h"
#include "common/base/json.h"
#include "sbx-broker/courier/canary.h"
#include "sbx-broker/courier/courier.h"
#include "sbx-broker/courier/fields.h"
#include "sbx-broker/courier/request.h"
#include "tests/tap.h"

static struct canary canary;

static bool
finds(const char *text)
{
	return (canary_find(&canary, text, strlen(text)));
}

/* Alone, at each place of a longer text, and cut in two at each byte: what is
 * held back of the first part must be enough to see it in both. */
static bool
found_everywhere(const char *shape)
{
	size_t n = strlen(shape), keep;
	char text[2048];

	if (n + 80 > sizeof(text) || !finds(shape))
		return (false);
	for (size_t at = 0; at < 70; at++) {
		memset(text, 'x', sizeof(text));
		memcpy(text + at, shape, n);
		if (!canary_find(&canary, text, n + 80) ||
		    canary_find(&canary, text, at + n - 1))
			return (false);
	}
	for (size_t cut = 1; cut < n; cut++) {
		keep = canary_tail(&canary, text, 69 + cut);
		if (keep < cut)
			return (false);
	}
	return (true);
}

static void
test_canary(void)
{
	static const char token[] = "ghs_aB3-dE5.gH7~/+\"\\";
	static const char *const shapes[] = {
		"ghs_aB3-dE5.gH7~/+\"\\",
		"Z2hzX2FCMy1kRTUuZ0g3fi8rIl",
		"6768735f6142332d6445352e6748377e2f2b225c",
		"6768735F6142332D6445352E6748377E2F2B225C",
		"ghs_aB3-dE5.gH7~%2F%2B%22%5C", "ghs_aB3-dE5.gH7~%2f%2b%22%5c",
		"ghs%5FaB3%2DdE5%2EgH7%7E%2F%2B%22%5C",
		"%67%68%73%5F%61%42%33%2D%64%45%35%2E%67%48%37%7E%2F%2B%22%5C",
		"ghs_aB3-dE5.gH7~/+\\\"\\\\", "ghs_aB3-dE5.gH7~\\/+\\\"\\\\",
		"\\u0067\\u0068\\u0073\\u005f\\u0061\\u0042\\u0033\\u002d"
		"\\u0064\\u0045\\u0035\\u002e\\u0067\\u0048\\u0037\\u007e"
		"\\u002f\\u002b\\u0022\\u005c",
	};
	/* echo -n 'aghs...' | base64 and so on, without the neighbours' digits */
	static const char *const whole[] = {
		"Z2hzX2FCMy1kRTUuZ0g3fi8rIlw=",
		"YWdoc19hQjMtZEU1LmdIN34vKyJc",
		"YWJnaHNfYUIzLWRFNS5nSDd+LysiXA==",
		"YWJnaHNfYUIzLWRFNS5nSDd-LysiXA==",
	};

	ok(!finds(token), "nothing is looked for before it is set");
	ok(canary_set(&canary, token, strlen(token)) == 0, "it is set");
	for (size_t i = 0; i < SBX_NELEM(shapes); i++)
		ok(found_everywhere(shapes[i]), "found: %s", shapes[i]);
	for (size_t i = 0; i < SBX_NELEM(whole); i++)
		ok(finds(whole[i]), "found in base64: %s", whole[i]);
	ok(!finds("ghs_aB3-dE5.gH7~/+\""), "all but the last is not it");
	ok(!finds(""), "nor is nothing");
	ok(canary_tail(&canary, "xx ghs", 6) == 3, "three bytes may begin it");
	ok(canary_tail(&canary, "xx yyy", 6) == 0, "or none");
	canary_clear(&canary);
	ok(!finds(token), "cleared, it is not there");
	ok(canary_set(&canary, "short", 5) == SBX_E_RANGE, "too short");
	ok(canary_set(&canary, token, CANARY_MAX + 1) == SBX_E_RANGE,
	    "too long");
}

static void
test_longest(void)
{
	static char token[CANARY_MAX];

	for (size_t i = 0; i < sizeof(token); i++)
		token[i] = i % 7 == 0 ? '"' : '/';
	ok(canary_set(&canary, token, sizeof(token)) == 0 &&
	    canary.used <= sizeof(canary.bytes) &&
	    canary.n <= CANARY_PATTERNS, "the longest has room: %zu bytes, "
	    "%zu patterns", canary.used, canary.n);
	ok(canary.used < sizeof(canary.bytes), "none of them is cut");
	ok(canary_find(&canary, token, sizeof(token)), "and is found");
	canary_clear(&canary);
}

/* --- members ------------------------------------------------------------------------- */

static const struct {
	enum sbx_rest_op op;
	const char *in, *out;	/* out NULL: refused */
} answers[] = {
	{ SBX_REST_REPO, "{\"full_name\":\"o/r\",\"temp_clone_token\":\"T\","
	    "\"private\":true,\"size\":3,\"permissions\":{\"pull\":true,"
	    "\"x\":1},\"html_url\":\"https://github.com/o/r\"}",
	    "{\"full_name\":\"o/r\",\"private\":true,\"html_url\":"
	    "\"https://github.com/o/r\",\"size\":3,\"permissions\":"
	    "{\"pull\":true}}" },
	{ SBX_REST_REPO, "{\"html_url\":\"https://h/x?token=1\"}", "{}" },
	{ SBX_REST_REPO, "{\"html_url\":\"https://u:p@h/x\"}", "{}" },
	{ SBX_REST_REPO, "{\"html_url\":\"http://h/x\"}", "{}" },
	{ SBX_REST_REPO, "{\"html_url\":\"https://h/@x#a?b\"}", "{}" },
	{ SBX_REST_REPO, "{\"html_url\":\"https://h/@x#a\"}",
	    "{\"html_url\":\"https://h/@x#a\"}" },
	{ SBX_REST_REPO, "{\"html_url\":\"https://h/a\\u0000?t=1\"}", "{}" },
	{ SBX_REST_REPO, "{\"html_url\":\"https://h\\t/a\"}", "{}" },
	{ SBX_REST_REPO, "{\"html_url\":\"https:///h/a\"}", "{}" },
	{ SBX_REST_REPO, "{\"html_url\":\"https://h/\\u202ea\"}", "{}" },
	{ SBX_REST_REPO, "{\"size\":\"3\",\"fork\":1,\"full_name\":{}}", "{}" },
	{ SBX_REST_REPO, "{\"size\":3.5}", "{}" },
	{ SBX_REST_REPO, "{\"default_branch\":null}",
	    "{\"default_branch\":null}" },
	{ SBX_REST_ISSUE, "{\"number\":1,\"pull_request\":{\"url\":"
	    "\"https://x/?t=1\"},\"user\":{\"login\":\"a\",\"id\":1},"
	    "\"labels\":[{\"name\":\"b\",\"url\":\"x\"},\"c\",null]}",
	    "{\"number\":1,\"user\":{\"login\":\"a\"},\"labels\":"
	    "[{\"name\":\"b\"}],\"pull_request\":true}" },
	{ SBX_REST_ISSUE, "{\"pull_request\":null,\"user\":null}",
	    "{\"user\":null,\"pull_request\":false}" },
	{ SBX_REST_ISSUE, "{\"title\":\"\\u0067\\u202e\"}",
	    "{\"title\":\"g\\u202e\"}" },
	{ SBX_REST_ISSUE, "[]", NULL }, { SBX_REST_ISSUE, "", NULL },
	{ SBX_REST_ISSUE, "{\"a\":1,\"a\":2}", NULL },
	{ SBX_REST_ISSUE, "{\"a\":NaN}", NULL },
	{ SBX_REST_ISSUE, "{} x", NULL },
	{ SBX_REST_ISSUE_COMMENTS, "{}", NULL },
	{ SBX_REST_ISSUE_COMMENTS, "[{\"id\":12345678901,\"body\":\"b\","
	    "\"download_url\":\"https://x\"},{}]",
	    "[{\"id\":12345678901,\"body\":\"b\"},{}]" },
	{ SBX_REST_CHECK_RUNS, "{\"total_count\":1,\"check_runs\":[{\"name\":"
	    "\"n\",\"output\":{\"title\":\"t\",\"text\":\"x\"},"
	    "\"details_url\":\"https://x\"}]}",
	    "{\"total_count\":1,\"check_runs\":[{\"name\":\"n\",\"output\":"
	    "{\"title\":\"t\"}}]}" },
	{ SBX_REST_OP_MAX, "{}", NULL },
};

static void
test_answers(void)
{
	for (size_t i = 0; i < SBX_NELEM(answers); i++) {
		SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
		int r;

		sbx_buf_init(&b, 4096);
		r = fields_answer(answers[i].op, answers[i].in,
		    strlen(answers[i].in), &b);
		ok(answers[i].out == NULL ? r == SBX_E_SYNTAX : r == 0 &&
		    strcmp(b.data, answers[i].out) == 0, "%s: %s",
		    answers[i].in, r == 0 ? b.data : "refused");
	}
}

/* An answer that would take a hundred times its length in memory. */
static void
test_values(void)
{
	static char text[3 * FIELDS_VALUES_MAX + 2];
	static const char quoted[] = "[\"a,[{\\\",\",{}]";
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	size_t n = 0;

	text[n++] = '[';
	for (size_t i = 0; i < FIELDS_VALUES_MAX; i++) {
		if (i > 0)
			text[n++] = ',';
		text[n++] = '1';
	}
	text[n++] = ']';
	sbx_buf_init(&b, 4096);
	ok(sbx_json_values(text, n) > FIELDS_VALUES_MAX &&
	    fields_answer(SBX_REST_ISSUE_COMMENTS, text, n, &b) ==
	    SBX_E_SYNTAX, "too many values are no answer");
	text[n - 3] = text[n - 2] = ' ';
	ok(fields_answer(SBX_REST_ISSUE_COMMENTS, text, n, &b) == 0,
	    "as many as may be are");
	ok(sbx_json_values(quoted, strlen(quoted)) == 4,
	    "what is in a string counts for nothing");
}

static void
test_bots(void)
{
	static const struct { const char *text; bool command; } texts[] = {
		{ "", false }, { "a/b c@d", false }, { "a/b @c", false }, { "/merge", true },
		{ "a\n/merge", true }, { "a\r@bot", true }, { " \t/x", true },
		{ "a\n\n  @x", true }, { "> /x", true }, { "a\v/x", true },
		{ "a\xe2\x80\xa8/x", true }, { "\xef\xbb\xbf/x", true },
		{ "\xe2\x80\x8b@x", true }, { "\xc2\xa0/x", true },
		{ "a\xc2\x85/x", true }, { "\xe3\x80\x80/x", true },
		{ "\xc3\xa4/x", false }, { "a\n- /x", true },
		{ "1. /x", true }, { "12) @x", true }, { "1/2", false },
		{ "* **/x**", true }, { "<!-- a --> /x", true },
		{ "<!-- -->/x", true }, { "a --> /x", true },
		{ "\xef\xbc\xa0x", true }, { "\xef\xbc\x8fx", true },
		{ "thanks, \xef\xbc\xa0x", false },
		{ "\xcd\x8f/x", true }, { "\xe3\x85\xa4/x", true },
		{ "\xef\xb8\x8f/x", true }, { "\xe2\xa0\x80/x", true },
		{ "\xf3\xa0\x80\xa0/x", true }, { "(@x)", false },
		{ "to `@types/node` 20", false }, { "a @ b", false },
		{ "./x ~/y", false }, { "a \xe2\x80\x8b@x", false },
	};

	for (size_t i = 0; i < SBX_NELEM(texts); i++)
		ok(fields_has_bot_command(texts[i].text,
		    strlen(texts[i].text)) == texts[i].command,
		    "text %zu is %s command", i, texts[i].command ? "a" : "no");
}

static void
test_names(void)
{
	static const struct { const char *repo; bool good; } repos[] = {
		{ "o/r", true }, { "O-1/r.s_t", true }, { "o", false },
		{ "o/r/s", false }, { "o/..", false }, { "../r", false },
		{ "o/", false }, { "/r", false }, { "o/r?x", false },
		{ "o/r%2f", false }, { "o/r ", false },
	};
	static const struct { const char *host; bool good; } hosts[] = {
		{ "github.com", true }, { "a", true }, { "", false },
		{ "GitHub.com", false }, { ".a", false }, { "a..b", false },
		{ "a/b", false }, { "a:1", false }, { "a@b", false },
	};

	static const struct { const char *prefix; bool good; } prefixes[] = {
		{ "", true }, { "/api/v3", true }, { "api", false },
		{ "/a/../b", false }, { "//a", false }, { "/a?b", false },
		{ "/", true },
	};

	for (size_t i = 0; i < SBX_NELEM(prefixes); i++)
		ok(courier_prefix_is_good(prefixes[i].prefix) ==
		    prefixes[i].good, "prefix \"%s\"", prefixes[i].prefix);
	for (size_t i = 0; i < SBX_NELEM(repos); i++)
		ok(courier_repo_is_good(repos[i].repo) == repos[i].good,
		    "repository \"%s\"", repos[i].repo);
	for (size_t i = 0; i < SBX_NELEM(hosts); i++)
		ok(courier_host_is_good(hosts[i].host) == hosts[i].good,
		    "host \"%s\"", hosts[i].host);
}

int
main(void)
{
	tap_plan(0);
	test_canary();
	test_longest();
	test_answers();
	test_values();
	test_bots();
	test_names();
	return (tap_done());
}
