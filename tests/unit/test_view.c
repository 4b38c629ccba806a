/* Views of output: cleaned, folded, cut. */

#include <string.h>

#include "sbxd/worker/view.h"
#include "tests/tap.h"

#define X "\xc3\x97"

/* what comes in, how it is wanted, what is shown */
static const struct view_case {
	const char *what, *in;
	struct view_want want;
	const char *out;
	uint64_t shown, before_cut;
	bool truncated;
} cases[] = {
	{ "nothing", "", { VIEW_SUMMARY, false, 10, 0 }, "", 0, 0, false },
	{ "one line", "a\n", { VIEW_SUMMARY, false, 10, 0 }, "a\n", 1, 1,
	    false },
	{ "no newline", "a\nb", { VIEW_SUMMARY, false, 10, 0 }, "a\nb", 2, 2,
	    false },
	{ "empty lines", "\n\n\n", { VIEW_SUMMARY, false, 10, 0 },
	    "[" X "3] \n", 1, 3, false },
	{ "folded", "a\na\nb\nb\nb\na\n", { VIEW_SUMMARY, false, 10, 0 },
	    "[" X "2] a\n[" X "3] b\na\n", 3, 6, false },
	{ "cut", "1\n2\n3\n4\n5\n6\n", { VIEW_SUMMARY, false, 4, 0 },
	    "1\n2\n... (2 lines omitted)\n5\n6\n", 4, 2, true },
	{ "one line wanted", "1\n2\n3\n", { VIEW_SUMMARY, true, 1, 0 },
	    "... (2 lines omitted)\n3\n", 1, 0, true },
	{ "cut after a fold", "a\na\na\n2\n3\n4\n5\n",
	    { VIEW_SUMMARY, false, 2, 0 },
	    "[" X "3] a\n... (3 lines omitted)\n5\n", 2, 3, true },
	{ "error_only, failed", "1\n2\n3\n", { VIEW_ERROR_ONLY, true, 2, 0 },
	    "... (1 lines omitted)\n2\n3\n", 2, 0, true },
	{ "error_only, ok", "1\n", { VIEW_ERROR_ONLY, false, 2, 0 }, "", 0, 0,
	    true },
	{ "full", "1\n2\n3\n", { VIEW_FULL, false, 1, 0 }, "1\n2\n3\n", 3, 3,
	    false },
	{ "tokens", "aaa\nbbb\nccc\nddd\neee\nfff\n",
	    { VIEW_FULL, false, 1, 4 },
	    "aaa\nbbb\n... (2 lines omitted)\neee\nfff\n", 4, 2, true },
	{ "failed: more of the end", "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
	    { VIEW_SUMMARY, true, 4, 0 },
	    "1\n... (5 lines omitted)\n7\n8\n9\n", 4, 1, true },
	{ "colours", "\033[1;31mx\033[m\033(By\033[38:5:1mz\033=\n",
	    { VIEW_SUMMARY, false, 9, 0 }, "xyz\n", 1, 1, false },
	{ "title", "\033]0;t\ax\033]8;;u\033\\y\n",
	    { VIEW_SUMMARY, false, 9, 0 }, "xy\n", 1, 1, false },
	{ "unfinished", "x\033[3", { VIEW_SUMMARY, false, 9, 0 }, "x", 1, 1,
	    false },
	{ "a sequence hides nothing", "\033]0;text\n\033[1\xc3\xa9x\n",
	    { VIEW_SUMMARY, false, 9, 0 }, "0;text\n\xc3\xa9x\n", 2, 2,
	    false },
	{ "a device control string", "a\033Pq#0\033\\b\033_x\033\\c\n",
	    { VIEW_SUMMARY, false, 9, 0 }, "abc\n", 1, 1, false },
	{ "backspaces", "10%\b\b\b20%\b\b\b\b\bd\xc3\xa9\b.\n",
	    { VIEW_SUMMARY, false, 9, 0 }, "d.\n", 1, 1, false },
	{ "a bar", "[#  ] 1\r[## ] 2\r[###] 3\r\n",
	    { VIEW_SUMMARY, false, 9, 0 }, "[###] 3\n", 1, 1, false },
	{ "a log in colour", "[\033[1mINFO\033[m] x\n[INFO] x\n[INFO] x\n",
	    { VIEW_SUMMARY, false, 9, 0 }, "[" X "3] [INFO] x\n", 1, 3,
	    false },
	{ "a rule and a list", "---\n- a\n- a\n",
	    { VIEW_SUMMARY, false, 9, 0 }, "---\n[" X "2] - a\n", 2, 3,
	    false },
	{ "JSON over lines", "{\n  \"a\": [\n    0,\n    0,\n    {\n    }\n"
	    "  ],\n  \"b\": \"}\"\n}\nx\nx\n", { VIEW_SUMMARY, false, 99, 0 },
	    "{\n  \"a\": [\n    0,\n    0,\n    {\n    }\n"
	    "  ],\n  \"b\": \"}\"\n}\n[" X "2] x\n", 10, 11, false },
	{ "no JSON after all", "[\n  1\nrest\nrest\n",
	    { VIEW_SUMMARY, false, 9, 0 }, "[\n  1\n[" X "2] rest\n", 3, 4,
	    false },
	{ "a token in two colours", "\033[31mghp_\033[m\033[Ka1B2c3D4e5F6g7H8"
	    "i9J0\n", { VIEW_SUMMARY, false, 9, 0 }, "***\n", 1, 1, false },
	{ "progress", "1\r2\r3\r\n", { VIEW_SUMMARY, false, 9, 0 }, "3\n", 1,
	    1, false },
	{ "progress, folded", "1\r2\n1\r2\n", { VIEW_SUMMARY, false, 9, 0 },
	    "[" X "2] 2\n", 1, 2, false },
	{ "JSON", "{\"a\":1}\n{\"a\":1}\n", { VIEW_SUMMARY, false, 9, 0 },
	    "{\"a\":1}\n{\"a\":1}\n", 2, 2, false },
	{ "diff", "@@ -1 +1 @@\n \n \n-a\r\n-a\r\nx\nx\n",
	    { VIEW_SUMMARY, false, 9, 0 },
	    "@@ -1 +1 @@\n \n \n-a\r\n-a\r\n[" X "2] x\n", 6, 7, false },
};

static void
test_cases(void)
{
	struct view v;
	struct view_in in;
	size_t i;

	for (i = 0; i < SBX_NELEM(cases); i++) {
		in = (struct view_in){ .head = cases[i].in,
			.head_len = strlen(cases[i].in), .tail = "" };
		view_make(&cases[i].want, &in, &v);
		if (!ok(v.text.len == strlen(cases[i].out) &&
		    memcmp(v.text.len > 0 ? v.text.data : "", cases[i].out,
		    v.text.len) == 0 && v.shown == cases[i].shown &&
		    v.truncated == cases[i].truncated &&
		    v.raw_before_cut == cases[i].before_cut, "%s",
		    cases[i].what))
			printf("# %d %d %d: %s\n", (int)v.shown, v.truncated,
			    (int)v.raw_before_cut,
			    v.text.len > 0 ? v.text.data : "");
		view_clear(&v);
	}
}

static void
test_pieces(void)
{
	struct view_want want = { VIEW_SUMMARY, true, 4, 0 };
	struct view_in in = { .head = "1\n2\n", .head_len = 4,
		.tail = "8\n9\n", .tail_len = 4, .skipped_lines = 5 };
	struct view v;

	want.max_lines = 10;
	view_make(&want, &in, &v);
	ok(strcmp(v.text.data, "1\n2\n... (5 lines omitted)\n8\n9\n") == 0 &&
	    v.truncated && v.raw_before_cut == 2 && v.shown == 4,
	    "what was skipped is said");
	view_clear(&v);
	want.max_lines = 2;
	view_make(&want, &in, &v);
	ok(strcmp(v.text.data, "... (7 lines omitted)\n8\n9\n") == 0 &&
	    v.raw_before_cut == 0, "and counted when more is cut");
	view_clear(&v);
	in.skipped_lines = 0;
	want.max_lines = 10;
	view_make(&want, &in, &v);
	ok(strcmp(v.text.data, "1\n2\n8\n9\n") == 0 && !v.truncated,
	    "nothing skipped");
	view_clear(&v);
}

static void
test_large(void)
{
	struct view_want want = { VIEW_FULL, true, 4, 0 };
	size_t n = 512u << 10, i;
	char *p = sbx_xcalloc(1, n);
	struct view_in in = { .head = p, .head_len = n, .tail = p,
		.tail_len = n };
	struct view v;

	for (i = 0; i < n; i++)
		p[i] = i % 64 == 63 ? '\n' : (char)('a' + i / 64 % 26);
	view_make(&want, &in, &v);
	ok(!v.text.overflow && v.text.len <= 1u << 20 && v.truncated,
	    "a large text keeps its bound");
	view_clear(&v);
	for (i = 0; i < n; i++)
		p[i] = i & 1 ? '\n' : (char)('a' + i / 2 % 26);
	view_make(&want, &in, &v);
	ok(!v.text.overflow && v.text.len <= 1u << 20,
	    "many short lines, too");
	view_clear(&v);
	free(p);
}

int
main(void)
{
	test_cases();
	test_pieces();
	test_large();
	return tap_done();
}
