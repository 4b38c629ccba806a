/* The parsers of reports, over what real runners wrote in every outcome
 * (tests/interop/reports) and over what none of them would. */

#include "sbxd/report/report.h"

#include <ctype.h>

#include "tests/tap.h"

static const char *top;

struct row {
	enum sbx_report_format format;
	const char *name;	/* RUNNER/OUTCOME */
	enum sbx_verdict verdict;
	uint64_t passed, failed, errors, skipped;
	const char *test, *error, *file; /* some failure has these */
	uint64_t line;
};
#define P SBX_REPORT_PYTEST
#define J SBX_REPORT_JEST
#define T SBX_REPORT_TAP
#define G SBX_REPORT_GO
#define R SBX_REPORT_CARGO
#define A SBX_REPORT_AUTOMAKE
#define C SBX_REPORT_CTEST
#define GREEN SBX_VERDICT_GREEN
#define FAILED SBX_VERDICT_FAILED
#define COMPILE SBX_VERDICT_COMPILE
#define COLLECT SBX_VERDICT_COLLECT
#define CRASH SBX_VERDICT_CRASH
#define NONE SBX_VERDICT_NO_TESTS
#define UNPARSABLE SBX_VERDICT_UNPARSABLE

static const struct row rows[] = {
	{ P, "pytest/pass", GREEN, 2, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ P, "pytest/fail", FAILED, 2, 6, 2, 2, "test_b::test_long",
	    "E       assert (((((((((((1 + 2)", "test_b.py", 24 },
	{ P, "pytest/fail", FAILED, 2, 6, 2, 2, "test_b::test_param[5]",
	    "the sum of <5> & more", "test_b.py", 8 },
	{ P, "pytest/fail", FAILED, 2, 6, 2, 2, "test_b::test_fixture",
	    "RuntimeError: no database", "test_b.py", 34 },
	{ P, "pytest/fail", FAILED, 2, 6, 2, 2, "test_b::test_xpass",
	    "XPASS(strict)", "test_b.py", 61 },
	{ P, "pytest/fail", FAILED, 2, 6, 2, 2,
	    "test_b.TestClass::test_method", "{'b': [1, 2]} != {'b': [1, 3]}",
	    "test_b.py", 68 },
	{ P, "pytest/collect", COLLECT, 0, 0, 1, 0, "test_c",
	    "No module named 'nothing_there'", "test_c.py", 1 },
	{ P, "pytest/syntax", COMPILE, 0, 0, 1, 0, "test_e", "SyntaxError",
	    NULL, 0 },
	{ P, "pytest/none", NONE, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ P, "pytest/crash", CRASH, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ P, "pytest/exit0", CRASH, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ P, "pytest/timeout", CRASH, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ P, "pytest/skipped", NONE, 0, 0, 0, 1, NULL, NULL, NULL, 0 },
	{ P, "pytest/conftest", COLLECT, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ P, "pytest/usage", COLLECT, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ P, "pytest/odd", FAILED, 0, 1, 0, 0, "test_m::test_x", "]]>",
	    "test_m.py", 5 },
	{ J, "jest/pass", GREEN, 1, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ J, "jest/fail", FAILED, 1, 2, 0, 2, "math is wrong", "toEqual",
	    "/p/b.test.js", 4 },
	{ J, "jest/fail", FAILED, 1, 2, 0, 2, "throws", "second line",
	    "/p/b.test.js", 9 },
	{ J, "jest/syntax", COMPILE, 1, 0, 1, 0, "/p/c.test.js",
	    "SyntaxError", NULL, 0 },
	{ J, "jest/module", COLLECT, 0, 0, 1, 0, "/p/d.test.js",
	    "Cannot find module './nothing'", "d.test.js", 1 },
	{ J, "jest/empty", COLLECT, 0, 0, 1, 0, "/p/e.test.js",
	    "at least one test", NULL, 0 },
	{ J, "jest/none", NONE, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ J, "jest/crash", CRASH, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ J, "jest/skipped", NONE, 0, 0, 0, 1, NULL, NULL, NULL, 0 },
	{ J, "jest/hook", FAILED, 0, 1, 0, 0, "x", "no server",
	    "/p/h.test.js", 1 },
	{ J, "vitest/pass", GREEN, 1, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ J, "vitest/fail", FAILED, 1, 1, 0, 2, "math is wrong",
	    "expected { a: 1 } to deeply equal { a: 2 }", "/p/b.test.js", 4 },
	{ J, "vitest/syntax", COMPILE, 1, 0, 1, 0, "/p/c.test.js",
	    "Failed to parse source", NULL, 0 },
	{ J, "vitest/module", COLLECT, 0, 0, 1, 0, "/p/d.test.js", "nothing",
	    NULL, 0 },
	{ J, "vitest/empty", COLLECT, 0, 0, 1, 0, "/p/e.test.js", "", NULL,
	    0 },
	{ J, "vitest/none", NONE, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ J, "vitest/unhandled", FAILED, 1, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ J, "vitest/skipped", NONE, 0, 0, 0, 1, NULL, NULL, NULL, 0 },
	{ J, "vitest/hook", COLLECT, 0, 0, 1, 1, "/p/h.test.js", "no server",
	    NULL, 0 },
	{ T, "node/pass", GREEN, 3, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ T, "node/fail", FAILED, 5, 4, 0, 2, "wrong", "+     2",
	    "/p/b.test.js", 4 },
	{ T, "node/fail", FAILED, 5, 4, 0, 2, "throws", "boom: [it]",
	    "/p/b.test.js", 9 },
	{ T, "node/fail", FAILED, 5, 4, 0, 2, "parent", "1 == 2",
	    "/p/b.test.js", 11 },
	{ T, "node/fail", FAILED, 5, 4, 0, 2, "never awaited",
	    "did not finish before its parent", "/p/b.test.js", 12 },
	{ T, "node/syntax", COMPILE, 0, 0, 1, 0, "/p/c.test.js",
	    "SyntaxError: Unexpected end of input", "/p/c.test.js", 3 },
	{ T, "node/helper", GREEN, 2, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ T, "node/late", COMPILE, 2, 0, 1, 0, "/p/b.test.js",
	    "SyntaxError: Unexpected end of input", "/p/b.test.js", 3 },
	{ T, "node/empty", NONE, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ T, "node/none", NONE, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ T, "node/crash", CRASH, 0, 0, 1, 0, "/p/e.test.js", "", NULL, 0 },
	{ T, "node/timeout", FAILED, 0, 1, 0, 0, "x",
	    "test timed out after 50ms", "/p/f.test.js", 2 },
	{ T, "node/skipped", NONE, 0, 0, 0, 1, NULL, NULL, NULL, 0 },
	{ T, "tap/pass", GREEN, 1, 0, 0, 2, NULL, NULL, NULL, 0 },
	{ T, "tap/fail", FAILED, 2, 1, 0, 0, "b", "x is 2", "lib/x.js", 12 },
	{ T, "tap/plan", UNPARSABLE, 2, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ T, "tap/skipall", NONE, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ T, "tap/bailout", CRASH, 1, 0, 1, 0, "Bail out!", "no more disk",
	    NULL, 0 },
	{ T, "tap/noplan", UNPARSABLE, 2, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ T, "tap/nested", FAILED, 1, 1, 0, 0, "out", "", NULL, 0 },
	{ T, "tap/nestedplan", UNPARSABLE, 1, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ T, "tap/notap", UNPARSABLE, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ T, "tap/twice", UNPARSABLE, 2, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ G, "go/pass", GREEN, 2, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ G, "go/fail", FAILED, 3, 2, 0, 2, "example.test/m/a.TestA",
	    "got 1, want 2", "a_test.go", 6 },
	{ G, "go/fail", FAILED, 3, 2, 0, 2,
	    "example.test/m/a.TestSub/bad_one", "this is wrong", "a_test.go",
	    12 },
	{ G, "go/compile", COMPILE, 1, 0, 1, 0, "(build)",
	    "undefined: undefined", "a/a_test.go", 5 },
	{ G, "go/none", NONE, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ G, "go/panic", FAILED, 0, 1, 0, 0, "example.test/m/d.TestP",
	    "assignment to entry in nil map", "/p/d/d_test.go", 7 },
	{ G, "go/exit0", FAILED, 0, 1, 0, 0, "example.test/m/e.TestX",
	    "unexpected call to os.Exit(0)", "/p/e/e_test.go", 8 },
	{ G, "go/timeout", CRASH, 0, 0, 1, 0, "example.test/m/f.TestX",
	    "test timed out after 1s", "/p/f/f_test.go", 8 },
	{ G, "go/crash", CRASH, 0, 0, 1, 0, "example.test/m/g.TestX",
	    "did not end", NULL, 0 },
	{ G, "go/main", FAILED, 0, 0, 1, 0, "example.test/m/i",
	    "exit status 3", NULL, 0 },
	{ G, "go/module", COMPILE, 0, 0, 1, 0, "(build)",
	    "cannot find module", "j/j.go", 3 },
	{ G, "go/skipped", NONE, 0, 0, 0, 1, NULL, NULL, NULL, 0 },
	{ R, "cargo/pass", GREEN, 3, 0, 0, 1, NULL, NULL, NULL, 0 },
	{ R, "cargo/fail", FAILED, 2, 3, 0, 1, "adds", "is more",
	    "tests/outer.rs", 4 },
	{ R, "cargo/fail", FAILED, 2, 3, 0, 1, "no_panic",
	    "did not panic as expected", NULL, 0 },
	{ R, "cargo/doc", FAILED, 1, 1, 0, 0, "src/lib.rs - x (line 1)",
	    "right: `2`", "src/lib.rs", 3 },
	{ R, "cargo/compile", COMPILE, 0, 0, 1, 0, "(build)", "E0308",
	    "src/lib.rs", 1 },
	{ R, "cargo/none", NONE, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ R, "cargo/crash", CRASH, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ R, "cargo/exit0", CRASH, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ R, "cargo/ignored", NONE, 0, 0, 0, 1, NULL, NULL, NULL, 0 },
	{ R, "cargo/manifest", COLLECT, 0, 0, 1, 0, "(build)",
	    "failed to parse manifest", NULL, 0 },
	{ A, "automake/pass", GREEN, 1, 0, 0, 1, NULL, NULL, NULL, 0 },
	{ A, "automake/fail", FAILED, 1, 3, 0, 1, "b.sh",
	    "assertion failed: x == 3", "b.c", 12 },
	{ A, "automake/fail", FAILED, 1, 3, 0, 1, "c.sh",
	    "exit status: 139", NULL, 0 },
	{ A, "automake/tap", FAILED, 2, 1, 1, 1, "a.test 2 - two",
	    "got 1, want 2", NULL, 0 },
	{ A, "automake/compile", COMPILE, 0, 0, 1, 0, "(build)", "undeclared",
	    "a.c", 1 },
	{ A, "automake/none", NONE, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ A, "automake/error", FAILED, 0, 0, 1, 0, "a.sh",
	    "exit status: 99", NULL, 0 },
	{ A, "automake/skipped", NONE, 0, 0, 0, 1, NULL, NULL, NULL, 0 },
	{ C, "ctest/pass", GREEN, 2, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ C, "ctest/fail", FAILED, 1, 2, 1, 2, "assertion",
	    "Assertion `x == 3' failed", "/p/t.c", 4 },
	{ C, "ctest/fail", FAILED, 1, 2, 1, 2, "missing",
	    "Unable to find executable", NULL, 0 },
	{ C, "ctest/none", NONE, 0, 0, 0, 0, NULL, NULL, NULL, 0 },
	{ C, "ctest/compile", COMPILE, 0, 0, 1, 0, "(build)", "undeclared",
	    "/p/t.c", 1 },
};

static char *
slurp(const char *name, const char *suffix, size_t *ret_len)
{
	char *path = sbx_xasprintf("%s/tests/interop/reports/%s%s", top, name,
	    suffix), *p;
	FILE *f = fopen(path, "rbe");

	*ret_len = 0;
	free(path);
	if (f == NULL)
		return (NULL);
	p = sbx_xcalloc(1, SBX_REPORT_BYTES);
	*ret_len = fread(p, 1, SBX_REPORT_BYTES - 1, f);
	(void)fclose(f);
	/* exactly as long: a sanitizer sees a byte too many */
	p = sbx_xreallocarray(p, *ret_len + 1, 1);
	return (p);
}

static int
status_of(const char *exits, const char *name)
{
	const char *p = exits;
	size_t n = strlen(name);

	for (; p != NULL && *p != '\0'; p = strchr(p, '\n'), p += p != NULL)
		if (strncmp(p, name, n) == 0 && p[n] == ' ')
			return (atoi(p + n));
	return (-1000);
}

static const struct sbx_report_failure *
find(const struct sbx_report *r, const char *test)
{
	for (size_t i = 0; i < r->nfailures; i++)
		if (strcmp(r->failures[i].test, test) == 0)
			return (&r->failures[i]);
	return (NULL);
}

static void
show(const struct sbx_report *r)
{
	char text[600];

	printf("# %s: %s passed %d failed %d errors %d skipped %d\n",
	    sbx_verdict_name(r->verdict), r->why, (int)r->passed,
	    (int)r->failed, (int)r->errors, (int)r->skipped);
	for (size_t i = 0; i < r->nfailures; i++)
		printf("# %s %s:%d %s\n", r->failures[i].test,
		    r->failures[i].file, (int)r->failures[i].line,
		    sbx_vis(text, sizeof(text), r->failures[i].error,
		    strlen(r->failures[i].error)));
}

static bool
has_failure(const struct sbx_report *r, const struct row *row)
{
	const struct sbx_report_failure *f;

	if (row->test == NULL)
		return (true);
	f = find(r, row->test);
	return (f != NULL && strstr(f->error, row->error) != NULL &&
	    (row->file == NULL || (strcmp(f->file, row->file) == 0 &&
	    f->line == row->line)));
}

static void
try_row(const struct row *row, const char *exits)
{
	struct sbx_report_in in = { .format = row->format,
		.status = status_of(exits, row->name) };
	struct sbx_report r;
	char *report = slurp(row->name, ".report", &in.report_len),
	    *out = slurp(row->name, ".out", &in.output_len);
	bool good;

	in.report = report;
	in.output = out;
	/* ctest's sample: 9 is what its script says of a failed build */
	in.build_failed = row->format == C && in.status == 9;
	sbx_report_parse(&in, &r);
	good = r.verdict == row->verdict && r.passed == row->passed &&
	    r.failed == row->failed && r.errors == row->errors &&
	    r.skipped == row->skipped && has_failure(&r, row) &&
	    (r.verdict == GREEN) == (*r.why == '\0') &&
	    r.total == r.passed + r.failed + r.errors + r.skipped &&
	    r.nfailures + r.omitted <= r.failed + r.errors;
	ok(good && (report != NULL || out != NULL), "%s: %s%s%s", row->name,
	    sbx_verdict_name(row->verdict), row->test != NULL ? ", " : "",
	    row->test != NULL ? row->test : "");
	if (!good)
		show(&r);
	sbx_report_clear(&r);
	/* cut anywhere, or with another exit code, it is not green */
	for (size_t n = 0; row->verdict == GREEN && report != NULL &&
	    n + 1 < in.report_len; n += 1 + in.report_len / 200) {
		struct sbx_report_in cut = in;
		char *piece = sbx_xcalloc(1, n + 1);

		memcpy(piece, report, n);
		cut.report = piece;
		cut.report_len = n;
		sbx_report_parse(&cut, &r);
		if (r.verdict == GREEN && row->format != A &&
		    row->format != G && row->format != R && row->format != T)
			ok(false, "%s cut at %zu is green", row->name, n);
		sbx_report_clear(&r);
		free(piece);
	}
	in.status = 1;
	sbx_report_parse(&in, &r);
	if (r.verdict == GREEN)
		ok(false, "%s is green though it exited with 1", row->name);
	sbx_report_clear(&r);
	free(report);
	free(out);
}

/* --- what none of them writes ---------------------------------------------- */

static enum sbx_verdict
verdict_of(enum sbx_report_format format, const char *report,
    const char *output, int status)
{
	struct sbx_report_in in = { .format = format, .report = report,
		.report_len = report == NULL ? 0 : strlen(report),
		.output = output, .output_len = output == NULL ? 0 :
		strlen(output), .status = status };
	struct sbx_report r;
	enum sbx_verdict v;

	sbx_report_parse(&in, &r);
	v = r.verdict;
	sbx_report_clear(&r);
	return (v);
}

#define CASE "<testcase classname=\"a\" name=\"b\"/>"
#define SUITE(attrs, body) "<testsuites><testsuite " attrs ">" body         \
	"</testsuite></testsuites>"

static void
test_xml(void)
{
	static const char *const bad[] = {
		"", " ", "x", "<", "<a", "<a>", "<a></b>", "<a/><b/>",
		"<!DOCTYPE a []><a/>", "<a b=\"1\" b=\"1\"/>", "<a b=1/>",
		"<a b=\"<\"/>", "<a>&x;</a>", "<a>&#0;</a>", "<a>&#xd800;</a>",
		"<a>&#99999999;</a>", "<a><![CDATA[</a>", "<!-- <a/>",
		"<testcase/>", SUITE("tests=\"1\"", ""),
		SUITE("tests=\"1\"", CASE CASE), SUITE("", CASE),
		SUITE("tests=\"x\"", CASE),
		SUITE("tests=\"1\" failures=\"1\"", CASE),
		SUITE("tests=\"1\"", "<testsuite tests=\"1\">" CASE
		    "</testsuite>"),
		SUITE("tests=\"1\"", CASE) "x",
		"<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>",
	};

	for (size_t i = 0; i < SBX_NELEM(bad); i++)
		ok(verdict_of(P, bad[i], NULL, 0) == UNPARSABLE,
		    "unparsable: %s", bad[i]);
	ok(verdict_of(P, SUITE("tests=\"1\"", CASE), NULL, 0) == GREEN,
	    "and one that is green");
	ok(verdict_of(P, "<?xml version=\"1.0\"?><!-- c -->"
	    SUITE("tests=\"1\" name='&lt;&#x41;'", CASE) "\n", NULL, 0) ==
	    GREEN, "with what may stand around it");
	ok(verdict_of(P, SUITE("tests=\"1\"", CASE), NULL, 139) == CRASH,
	    "a signal is a crash, whatever the report says");
	ok(verdict_of(P, SUITE("tests=\"1\"", "<testcase name=\"a\"><failure "
	    "message=\"m\"/></testcase>"), NULL, 0) == FAILED,
	    "a failure is one, whatever the runner's exit code");
}

#define JEST(total, bad, status, tests) "{\"numTotalTests\":" total        \
	",\"numFailedTests\":" bad ",\"success\":true,\"testResults\":["   \
	"{\"name\":\"a\",\"status\":\"" status "\",\"assertionResults\":[" \
	tests "]}]}"
#define JTEST(status) "{\"fullName\":\"x\",\"status\":\"" status "\"}"

static void
test_json(void)
{
	ok(verdict_of(J, JEST("1", "0", "passed", JTEST("passed")), NULL,
	    0) == GREEN, "jest: green");
	ok(verdict_of(J, JEST("2", "0", "passed", JTEST("passed")), NULL,
	    0) == UNPARSABLE, "jest: totals disagree");
	ok(verdict_of(J, JEST("1", "1", "passed", JTEST("passed")), NULL,
	    0) == UNPARSABLE, "jest: a failure that is nowhere");
	ok(verdict_of(J, JEST("1", "0", "failed", JTEST("passed")), NULL,
	    0) == COLLECT, "jest: a failed file whose tests passed");
	ok(verdict_of(J, JEST("1", "0", "passed", JTEST("winning")), NULL,
	    0) == UNPARSABLE, "jest: a state that there is not");
	ok(verdict_of(J, JEST("1", "0", "passed", JTEST("failed")), NULL,
	    0) == FAILED, "jest: failed, whatever the exit code");
	ok(verdict_of(J, "{\"success\":true}", NULL, 0) == UNPARSABLE,
	    "jest: no list of files");
	ok(verdict_of(J, "[]", NULL, 0) == UNPARSABLE, "jest: an array");
	ok(verdict_of(J, "1", NULL, 0) == UNPARSABLE, "jest: a number");
	ok(verdict_of(J, NULL, NULL, 0) == UNPARSABLE, "jest: no report");
#define GO(action, test) "{\"Action\":\"" action "\",\"Package\":\"p\""     \
	test "}\n"
#define GOT ",\"Test\":\"T\""
	ok(verdict_of(G, GO("run", GOT) GO("pass", GOT) GO("pass", ""), NULL,
	    0) == GREEN, "go: green");
	ok(verdict_of(G, GO("run", GOT) GO("pass", GOT), NULL, 0) ==
	    UNPARSABLE, "go: a package that does not end");
	ok(verdict_of(G, GO("run", GOT) GO("fail", GOT) GO("pass", GOT)
	    GO("pass", ""), NULL, 0) == UNPARSABLE,
	    "go: a verdict that is taken back");
	ok(verdict_of(G, GO("fail", GOT) GO("pass", ""), NULL, 0) == FAILED,
	    "go: failed in a package that passed");
	ok(verdict_of(G, "noise\n{\"x\":1}\n" GO("pass", GOT) GO("pass", "")
	    "{broken\n", NULL, 0) == GREEN, "go: lines that are no events");
}

static void
test_text(void)
{
	char *big = sbx_xcalloc(1, 2 << 20);
	struct sbx_report_in in = { .format = T, .report = big };
	struct sbx_report r;
	size_t n = 0;

	ok(verdict_of(T, "1..1\nok 1\n1..1\n", NULL, 0) == UNPARSABLE,
	    "tap: two plans");
	ok(verdict_of(T, "1..1\nok 1\n  ---\nnot ok 2\n", NULL, 0) != GREEN,
	    "tap: a block that hides a failure");
	ok(verdict_of(T, "1..2\nok 1\n  ---\n  not ok 2\n  ...\n", NULL, 0) ==
	    UNPARSABLE, "tap: so does its plan");
	ok(verdict_of(T, "1..1\nok\n# fail 1\n", NULL, 0) == UNPARSABLE,
	    "tap: a summary that says otherwise");
	ok(verdict_of(T, "1..1\nok 1 # a \\# SKIP\n", NULL, 0) == GREEN,
	    "tap: an escaped number sign is none");
	ok(verdict_of(T, "1..1\nokay\n", NULL, 0) == UNPARSABLE,
	    "tap: okay is not ok");
	ok(verdict_of(R, NULL, "running 1 test\ntest result: ok. 2 passed; "
	    "0 failed; 0 ignored;\n", 0) == UNPARSABLE,
	    "cargo: more passed than ran");
	ok(verdict_of(R, NULL, "test result: ok. 2 passed; 0 failed; "
	    "0 ignored\n", 0) == UNPARSABLE, "cargo: a result of nothing");
	ok(verdict_of(R, NULL, "running 1 test\ntest result: FAILED. "
	    "1 passed; 0 failed; 0 ignored\n", 0) == UNPARSABLE,
	    "cargo: a result that contradicts itself");
	ok(verdict_of(A, NULL, "PASS: a\nFAIL: b\n# TOTAL: 1\n# PASS:  1\n",
	    0) == FAILED, "make check: a failure that no summary has");
	ok(verdict_of(A, NULL, "PASS: a\n# TOTAL: 2\n# PASS:  2\n", 0) ==
	    UNPARSABLE, "make check: fewer lines than it says");
	ok(verdict_of(A, NULL, "1..1\nok 1 - a\n", 0) == GREEN &&
	    verdict_of(A, "", "1..1\nok 1 - a\n", 0) == GREEN,
	    "make check: TAP will do");
	for (int i = 1; i <= 60; i++)
		n += (size_t)sprintf(big + n, "not ok %d - t%d\n", i, i);
	n += (size_t)sprintf(big + n, "1..60\n");
	in.report_len = n;
	sbx_report_parse(&in, &r);
	ok(r.failed == 60 && r.nfailures == 60 && r.omitted == 0,
	    "60 failures are 60");
	sbx_report_clear(&r);
	for (int i = 61; i <= 1000; i++)
		n += (size_t)sprintf(big + n, "not ok %d - t%d\n  ---\n  "
		    "error: |-\n    %01000d\n  ...\n", i, i, 7);
	in.report_len = n;
	sbx_report_parse(&in, &r);
	ok(r.failed == 1000 && r.nfailures <= SBX_REPORT_FAILURES &&
	    r.nfailures + r.omitted == 1000 && r.error_bytes <=
	    SBX_REPORT_ERRORS_BYTES + SBX_REPORT_ERROR_BYTES,
	    "1000 are counted, %zu kept", r.nfailures);
	sbx_report_clear(&r);
	free(big);
}

/* The text of an assertion is whole, with what stands around it cut. */
static void
test_long(void)
{
	char *big = sbx_xcalloc(1, 300000);
	struct sbx_report_in in = { .format = P, .report = big, .status = 1 };
	struct sbx_report r;
	size_t n = (size_t)sprintf(big, "<testsuite tests=\"1\"><testcase "
	    "name=\"x\" file=\"/src/pytest/lib/python/t.py\" line=\"4\">"
	    "<failure message=\"m\">");

	for (int i = 0; i < 2000; i++)
		n += (size_t)sprintf(big + n, "    line = %d\n", i);
	n += (size_t)sprintf(big + n, "E  the end\n\n/src/pytest/lib/python/"
	    "t.py:2006: AssertionError</failure></testcase></testsuite>");
	in.report_len = n;
	sbx_report_parse(&in, &r);
	ok(r.nfailures == 1 && strstr(r.failures[0].error, "E  the end") !=
	    NULL && strlen(r.failures[0].error) <= SBX_REPORT_ERROR_BYTES +
	    64 && strcmp(r.failures[0].file, "/src/pytest/lib/python/t.py") ==
	    0 && r.failures[0].line == 2006,
	    "a long body keeps its assertion, a path its user's directories");
	sbx_report_clear(&r);
	n = (size_t)sprintf(big, "1..1\nnot ok 1 \033[31mred\033[0m \001");
	in = (struct sbx_report_in){ .format = T, .report = big,
		.report_len = n };
	sbx_report_parse(&in, &r);
	ok(r.nfailures == 1 && strncmp(r.failures[0].test, "red", 3) == 0,
	    "without terminal sequences");
	sbx_report_clear(&r);
	in.report_len = SBX_REPORT_BYTES;
	sbx_report_parse(&in, &r);
	ok(r.verdict == UNPARSABLE && strstr(r.why, "larger") != NULL,
	    "too large is not read");
	sbx_report_clear(&r);
	free(big);
}

/* --- where tests and builds of C say that they failed --------------------- */

#define CTEST(message, out) "<testsuite tests=\"1\" failures=\"1\">"         \
	"<testcase name=\"a\" status=\"fail\"><failure message=\"" message    \
	"\"/><system-out>" out "</system-out></testcase></testsuite>"
#define SUMS(fail, error) "# TOTAL: 1\n# PASS:  0\n# SKIP:  0\n"            \
	"# XFAIL: 0\n# FAIL:  " #fail "\n# XPASS: 0\n# ERROR: " #error "\n"

static const struct place_row {
	const char *name;
	enum sbx_report_format format;
	const char *report, *output;
	int status;
	bool build_failed;
	enum sbx_verdict verdict;
	const char *file;
	uint64_t line;
	const char *error;	/* the failure's text has it */
} places[] = {
	{ "ctest: the assertion, not what was said before it", C, CTEST("",
	    "read conf.ini:3\nt: /p/t.c:5: main: Assertion `x == 2' failed."),
	    NULL, 8, false, FAILED, "/p/t.c", 5, "conf.ini" },
	{ "ctest: a reason and an output", C, CTEST("Subprocess aborted",
	    "t: /p/t.c:5: main: Assertion `x == 2' failed."), NULL, 8, false,
	    FAILED, "/p/t.c", 5, "aborted" },
	{ "ctest: musl", C, CTEST("", "Assertion failed: x == 2 (t.c: main: "
	    "12)"), NULL, 8, false, FAILED, "t.c", 12, "" },
	{ "ctest: BSD", C, CTEST("", "Assertion failed: (x == 2), function "
	    "main, file t.c, line 13."), NULL, 8, false, FAILED, "t.c", 13,
	    "" },
	{ "ctest: Boost", C, CTEST("", "Running 1 test case...\n/p/t.cpp(7): "
	    "error: in \"x\": check a == b has failed"), NULL, 8, false,
	    FAILED, "/p/t.cpp", 7, "" },
	{ "ctest: cmocka", C, CTEST("", "[   LINE   ] --- t.c:12: error: "
	    "Failure!"), NULL, 8, false, FAILED, "t.c", 12, "" },
	{ "ctest: GoogleTest", C, CTEST("", "[ RUN      ] a.b\n/p/t.cc:9: "
	    "Failure\nExpected: 1"), NULL, 8, false, FAILED, "/p/t.cc", 9,
	    "" },
	{ "ctest: Check", C, CTEST("", "0%: Checks: 1, Failures: 1, Errors: 0"
	    "\nt.c:33:F:core:test_x:0: a == b"), NULL, 8, false, FAILED,
	    "t.c", 33, "" },
	{ "ctest: a sanitizer", C, CTEST("", "==1==ERROR: AddressSanitizer: "
	    "heap-use-after-free\n    #0 0x1 in memcpy ../../src/libsanitizer"
	    "/asan/x.inc:827\n    #1 0x2 in main /p/t.c:4:3"), NULL, 8, false,
	    FAILED, "/p/t.c", 4, "" },
	{ "cmake: what it does not find", C, NULL, "-- Performing Test "
	    "HAVE_strerror\nCMake Error at CMakeLists.txt:3 (find_package):\n"
	    "  By not providing\n\n-- Configuring incomplete, errors occurred!"
	    "\n", 1, true, COMPILE, "CMakeLists.txt", 3, "By not providing" },
	{ "a build that shows its commands", C, NULL, "cc -Werror=format -c "
	    "error.c:1 -o e.o\n/p/t.c:4:25: error: no x\nmake[1]: *** "
	    "[CMakeFiles/t.dir/build.make:76: t.o] Error 1\n", 1, true,
	    COMPILE, "/p/t.c", 4, "no x" },
	{ "a linker without lines", C, NULL, "/usr/bin/ld: t.o: in function "
	    "`main':\nt.c:(.text+0x5): undefined reference to `x'\ncollect2: "
	    "error: ld returned 1 exit status\nmake[1]: *** [CMakeFiles/"
	    "t.dir/build.make:76: t] Error 1\n", 1, true, COMPILE, "t.c", 0,
	    "undefined reference" },
	{ "a build below another", A, NULL, "make[1]: Entering directory "
	    "'/p/lib'\nmake[1]: Leaving directory '/p/lib'\nmake[1]: Entering "
	    "directory '/p/src'\na.c:3:1: error: no\nmake[1]: *** [Makefile:7"
	    ": a.o] Error 1\n", 2, false, COMPILE, "/p/src/a.c", 3, "no" },
	{ "a build beside its sources", A, NULL, "make[1]: Entering directory "
	    "'/p/b/src'\n../../src/./a.c:3:1: error: no\n", 2, false, COMPILE,
	    "/p/src/./a.c", 3, "no" },
	{ "a directory that is not built, where others pass", A, NULL,
	    "a.c:3:1: error: no\nPASS: x\n# TOTAL: 1\n# PASS:  1\n# SKIP:  0\n"
	    "# XFAIL: 0\n# FAIL:  0\n# XPASS: 0\n# ERROR: 0\n", 2, false,
	    COMPILE, "a.c", 3, "no" },
	{ "make: a source that is not there", A, NULL, "make: *** No rule to "
	    "make target 'x.c', needed by 'x'.  Stop.\n", 2, false, COMPILE,
	    "", 0, "No rule" },
	{ "automake: a test's directory", A, "FAIL: t\n=======\n\nt: t.c:4: "
	    "main: Assertion `0' failed.\nFAIL t (exit status: 134)\n",
	    "make[2]: Entering directory '/p/src'\nFAIL: t\n" SUMS(1, 0), 2,
	    false, FAILED, "/p/src/t.c", 4, "Assertion" },
	{ "automake: a TAP test that died says why before", A, "ERROR: t\n"
	    "========\n\nt: t.c:4: main: Assertion `0' failed.\nERROR: t - "
	    "missing test plan\n", "ERROR: t - missing test plan\n" SUMS(0,
	    1), 2, false, FAILED, "t.c", 4, "Assertion" },
	{ "make check: a program with words of its own", A, NULL, "./t\nt: "
	    "t.c:4: main: Assertion `0' failed.\nmake: *** [Makefile:3: check] "
	    "Aborted\n", 2, false, FAILED, "t.c", 4, "Assertion" },
	{ "make check: one whose words are cmocka's", A, NULL, "[   LINE   ] "
	    "--- t.c:12: error: Failure!\nmake: *** [Makefile:3: check] Error "
	    "1\n", 2, false, FAILED, "t.c", 12, "Failure" },
	{ "make check: failed, without a place", A, NULL, "no\nmake: *** "
	    "[Makefile:3: check] Error 1\n", 2, false, UNPARSABLE, NULL, 0,
	    NULL },
};

static void
test_places(void)
{
	for (size_t i = 0; i < SBX_NELEM(places); i++) {
		const struct place_row *p = &places[i];
		struct sbx_report_in in = { .format = p->format,
			.report = p->report, .output = p->output,
			.status = p->status, .build_failed = p->build_failed };
		struct sbx_report r;
		bool good;

		in.report_len = p->report != NULL ? strlen(p->report) : 0;
		in.output_len = p->output != NULL ? strlen(p->output) : 0;
		sbx_report_parse(&in, &r);
		good = r.verdict == p->verdict && (p->file == NULL ?
		    r.nfailures == 0 : r.nfailures == 1 &&
		    strcmp(r.failures[0].file, p->file) == 0 &&
		    r.failures[0].line == p->line &&
		    strstr(r.failures[0].error, p->error) != NULL);
		if (!ok(good, "%s", p->name))
			show(&r);
		sbx_report_clear(&r);
	}
}

int
main(void)
{
	size_t len;
	char *exits;

	top = getenv("SBX_SRC") != NULL ? getenv("SBX_SRC") : ".";
	exits = slurp("exits", "", &len);
	tap_plan(0);
	if (ok(exits != NULL, "the captured reports are there"))
		for (size_t i = 0; i < SBX_NELEM(rows); i++)
			try_row(&rows[i], exits);
	free(exits);
	test_xml();
	test_json();
	test_text();
	test_long();
	test_places();
	return (tap_done());
}
