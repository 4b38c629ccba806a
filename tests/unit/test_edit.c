/* Editing of bytes: sbxd/worker/edit.h. */
#include "sbxd/worker/edit.h"
#include "tests/tap.h"

#include <string.h>

static struct bytes
str(const char *s)
{
	return ((struct bytes){ s, strlen(s) });
}

/* One replacement; the result, or NULL. */
static const char *
replaced(const char *old, const char *what, const char *with,
    uint64_t expected, enum edit_match *ret_m, struct edit_where *w,
    bool *ret_flexible)
{
	static struct sbx_buf b;
	struct edit e;
	size_t at;
	int error = -1;

	sbx_buf_clear(&b);
	sbx_buf_init(&b, 1 << 20);
	edit_init(&e, str(old));
	*ret_m = edit_replace(&e, str(what), str(with), expected, w);
	*ret_flexible = e.flexible;
	if (*ret_m == EDIT_MATCHED)
		error = edit_apply(&e, &b, &at);
	edit_clear(&e);
	return (error == 0 ? b.data != NULL ? b.data : "" : NULL);
}

static void
test_replace(void)
{
	static const struct {
		const char *name, *old, *what, *with;
		uint64_t expected;
		enum edit_match m;
		const char *want;
		bool flexible;
	} v[] = {
		{ "once", "a b c", "b", "X", 0, EDIT_MATCHED, "a X c", false },
		{ "to nothing", "a b c", " b", "", 0, EDIT_MATCHED, "a c",
		    false },
		{ "twice", "b\na\nb\n", "b", "X", 0, EDIT_MANY, NULL, false },
		{ "all", "b a b", "b", "XY", 2, EDIT_MATCHED, "XY a XY",
		    false },
		{ "not so often", "b a b", "b", "X", 3, EDIT_COUNT, NULL,
		    false },
		{ "overlapping", "aaa", "aa", "b", 1, EDIT_MATCHED, "ba",
		    false },
		{ "indented", "x:\n    if a:\n        b\n", "if a:\n    b",
		    "if c:\n    d\n    e", 0, EDIT_MATCHED,
		    "x:\n    if c:\n        d\n        e\n", true },
		{ "indented less", "if a:\n    b\nz\n",
		    "    if a:\n        b\n", "    q\n        r\n", 0,
		    EDIT_MATCHED, "q\n    r\nz\n", true },
		{ "left of the first line", "\t\ta\n\tb\n", "    a\nb\n",
		    "    c\nd\n", 0, EDIT_MATCHED, "\t\tc\nd\n", true },
		{ "blanks at the end", "a  \nb\t\n", "a\nb\n", "c\n", 0,
		    EDIT_MATCHED, "c\n", true },
		{ "lines twice", " a\n b\n  a\n  b\n", "a\nb\n", "c\n", 0,
		    EDIT_MANY, NULL, false },
		{ "overlapping lines", " x\n x\n x\n", "x\nx\n", "y\n", 0,
		    EDIT_MANY, NULL, false },
		{ "only blanks", "a\n\n\nb\n", "  \n", "x\n", 0, EDIT_NONE,
		    NULL, false },
		{ "lines of CR LF", "  a\r\n  b\r\nc\r\n", "a\nb",
		    "x\ny", 0, EDIT_MATCHED, "  x\r\n  y\r\nc\r\n", true },
		{ "mixed ends", "  a\r\n  b\nc\r\n", "a\nb", "x\ny", 0,
		    EDIT_MATCHED, "  x\n  y\nc\r\n", true },
		{ "CR LF put in", "a\r\nb\r\n", "b", "x\ny", 0, EDIT_MATCHED,
		    "a\r\nx\r\ny\r\n", false },
		{ "no last newline", "a\n b", "b\n", "c\n", 0, EDIT_MATCHED,
		    "a\n c\n", true },
		{ "nothing there", "", "x", "y", 0, EDIT_NONE, NULL, false },
		{ "to nothing by lines", "a\n  b\nc\n", "b\n", "", 0,
		    EDIT_MATCHED, "a\n  c\n", false },
	};
	struct edit_where w;
	enum edit_match m;
	bool flexible;

	for (size_t i = 0; i < SBX_NELEM(v); i++) {
		const char *got = replaced(v[i].old, v[i].what, v[i].with,
		    v[i].expected, &m, &w, &flexible);

		ok(m == v[i].m && flexible == v[i].flexible &&
		    (got == NULL) == (v[i].want == NULL) && (got == NULL ||
		    strcmp(got, v[i].want) == 0), "replace: %s", v[i].name);
		if (got != NULL && v[i].want != NULL &&
		    strcmp(got, v[i].want) != 0)
			printf("# got \"%s\"\n", got);
	}
	(void)replaced("b\na\nb\nb b\n", "b", "X", 0, &m, &w, &flexible);
	ok(w.count == 4 && w.told == 4 && w.lines[0] == 1 &&
	    w.lines[1] == 3 && w.lines[3] == 4, "where the matches are");
}

static void
test_apply(void)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	static const char nul[] = "a\0b\r\n\xe9\f\xe2\x80\xa8" "c";
	struct edit e;
	size_t at = 0;

	sbx_buf_init(&b, 100);
	edit_init(&e, (struct bytes){ nul, sizeof(nul) - 1 });
	(void)edit_add(&e, 10, 1, str("C"));
	(void)edit_add(&e, 0, 1, str("AA"));
	ok(edit_apply(&e, &b, &at) == 0 && b.len == sizeof(nul) &&
	    memcmp(b.data, "AA", 2) == 0 && memcmp(b.data + 2, nul + 1, 9) ==
	    0 && b.data[11] == 'C', "bytes between spans stay");
	(void)edit_add(&e, 9, 2, str(""));
	sbx_buf_clear(&b);
	sbx_buf_init(&b, 100);
	ok(edit_apply(&e, &b, &at) == SBX_E_POLICY && at == 10,
	    "an overlap");
	edit_clear(&e);
	edit_init(&e, str("abc"));
	(void)edit_add(&e, 1, 0, str("x"));
	(void)edit_add(&e, 1, 0, str("y"));
	ok(edit_apply(&e, &b, &at) == SBX_E_POLICY,
	    "two at one place");
	edit_clear(&e);
	edit_init(&e, str("abc"));
	(void)edit_add(&e, 1, 0, str("xxx"));
	sbx_buf_clear(&b);
	sbx_buf_init(&b, 5);
	ok(edit_apply(&e, &b, &at) == SBX_E_LIMIT, "a limit");
	edit_clear(&e);
}

static void
test_lines(void)
{
	struct bytes t = str("a\nbb\n\nc");

	ok(edit_lines(t) == 4 && edit_lines(str("")) == 0 &&
	    edit_lines(str("\n")) == 1 && edit_lines(str("a")) == 1,
	    "how many lines");
	ok(edit_line_at(t, 1) == 0 && edit_line_at(t, 2) == 2 &&
	    edit_line_at(t, 4) == 6 && edit_line_at(t, 5) == 7,
	    "where lines begin");
	ok(edit_line_of(t, 0) == 1 && edit_line_of(t, 3) == 2 &&
	    edit_line_of(t, 6) == 4, "lines of places");
	ok(edit_is_crlf(str("a\r\nb\r\n")) && !edit_is_crlf(str("a\r\nb\n"))
	    && !edit_is_crlf(str("a")) && !edit_is_crlf(str("\n")),
	    "CR LF");
	ok(edit_is_wide((struct bytes){ "\xff\xfe" "a\0", 4 }) &&
	    edit_is_wide((struct bytes){ "a\0b\0c\0d\0", 8 }) &&
	    !edit_is_wide(str("\xef\xbb\xbf" "abc")) &&
	    !edit_is_wide((struct bytes){ "some text\0more of it", 20 }) &&
	    !edit_is_wide(str("")), "wide text");
}

static void
test_near(void)
{
	struct edit_near n;
	const char *in = "one\ntwo\n\tdef f(self, a):\n\t\treturn a\n"
	    "three\n";

	ok(edit_near(str(in), str("two\n  def f(self, b):\n"
	    "  return a\n"), &n) && n.line == 2 && n.lines == 3 &&
	    n.differs == 3 && n.found.n == strlen("\tdef f(self, a):"),
	    "lines in their places");
	ok(edit_near(str(in), str("def f(self, x):"), &n) &&
	    n.line == 3 && n.differs == 3, "a line that is alike");
	ok(!edit_near(str(in), str("zzzz qqqq wwww"), &n),
	    "nothing alike");
	ok(!edit_near(str(""), str("a"), &n), "of no lines");
	ok(edit_near(str("a long line here\n"), str("a long line here\n"
	    "and another\nand one\n"), &n) && n.line == 1 && n.lines == 1 &&
	    n.differs == 2 && n.found.n == 0, "past the end");
}

static bool
diff_is(const char *a, const char *b, unsigned rows, const char *want)
{
	struct diff d;
	bool is;

	diff_make(str(a), str(b), 1, rows, &d);
	is = strcmp(d.text.data != NULL ? d.text.data : "", want) == 0;
	if (!is)
		printf("# got \"%s\"\n", d.text.data != NULL ? d.text.data :
		    "");
	sbx_buf_clear(&d.text);
	return (is);
}

static void
test_diff(void)
{
	ok(diff_is("a\n", "a\n", 30, ""), "diff: nothing");
	ok(diff_is("a\nb\nc\n", "a\nx\nc\n", 30,
	    "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"), "diff: a line");
	ok(diff_is("", "a\nb\n", 30, "@@ -0,0 +1,2 @@\n+a\n+b\n"),
	    "diff: from nothing");
	ok(diff_is("a\nb\n", "", 30, "@@ -1,2 +0,0 @@\n-a\n-b\n"),
	    "diff: to nothing");
	ok(diff_is("a", "a\n", 30, "@@ -1,1 +1,1 @@\n-a\n"
	    "\\ No newline at end of file\n+a\n"), "diff: the last newline");
	ok(diff_is("1\n2\n3\n4\n5\n6\n7\n8\n", "1\nX\n3\n4\n5\n6\nY\n8\n",
	    30, "@@ -1,3 +1,3 @@\n 1\n-2\n+X\n 3\n"
	    "@@ -6,3 +6,3 @@\n 6\n-7\n+Y\n 8\n"), "diff: two hunks");
	ok(diff_is("1\n2\n3\n4\n", "1\n4\n", 30,
	    "@@ -1,4 +1,2 @@\n 1\n-2\n-3\n 4\n"), "diff: lines less");
	ok(diff_is("a\na\na\n", "a\na\n", 30,
	    "@@ -2,2 +2,1 @@\n a\n-a\n"), "diff: the same lines");
	ok(diff_is("1\n2\n3\n4\n", "5\n6\n7\n8\n", 4,
	    "@@ -1,4 +1,4 @@\n-1\n... 5 rows are left out ...\n+7\n+8\n"),
	    "diff: cut in the middle");
}

static char *
many(size_t n, const char *fmt_odd, size_t mark)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

	sbx_buf_init(&b, 64 << 20);
	for (size_t i = 0; i < n; i++)
		(void)sbx_buf_printf(&b, "    %s value_%zu = f(%zu)\n",
		    i == mark ? "let" : fmt_odd, i % 977, i % 13);
	return (sbx_xstrdup(b.data));
}

/* Time is bounded, whatever the texts are. */
static void
test_time(void)
{
	char *a = many(100000, "set", SIZE_MAX), *b = many(100000, "set",
	    50000), *c = many(20, "put", SIZE_MAX), *braces;
	struct edit_near n;
	struct edit_where w;
	enum edit_match m;
	struct diff d;
	uint64_t t = sbx_mono_ns();
	bool flexible, good;

	good = edit_near(str(a), str(c), &n);
	t = sbx_mono_ns() - t;
	ok(good && t < 100000000, "a near miss of 20 lines in 100000: "
	    "%.1f ms", (double)t / 1e6);
	t = sbx_mono_ns();
	diff_make(str(a), str(b), 3, 30, &d);
	ok(d.added == 1 && d.removed == 1 && sbx_mono_ns() - t <
	    200000000, "a diff of 100000 lines: %.1f ms",
	    (double)(sbx_mono_ns() - t) / 1e6);
	sbx_buf_clear(&d.text);
	free(b);
	b = many(100000, "get", SIZE_MAX);
	t = sbx_mono_ns();
	diff_make(str(a), str(b), 3, 30, &d);
	ok(d.cut && d.added == 100000 && sbx_mono_ns() - t < 2000000000,
	    "of nothing alike: %.1f ms", (double)(sbx_mono_ns() - t) / 1e6);
	sbx_buf_clear(&d.text);
	braces = sbx_xcalloc(1, 2000001);
	for (size_t i = 0; i < 1000000; i++)
		memcpy(braces + 2 * i, "}\n", 2);
	braces[1999999] = 'x';
	free(c);
	c = sbx_xcalloc(1, 20001);
	memcpy(c, braces, 19998);
	memcpy(c + 19998, "y\n", 2);
	t = sbx_mono_ns();
	(void)replaced(braces, c, "z", 0, &m, &w, &flexible);
	(void)edit_near(str(braces), str(c), &n);
	ok(m == EDIT_NONE && sbx_mono_ns() - t < 2000000000,
	    "a million braces, ten thousand in the text: %.1f ms",
	    (double)(sbx_mono_ns() - t) / 1e6);
	free(a);
	free(b);
	free(c);
	free(braces);
}

int
main(void)
{
	test_replace();
	test_apply();
	test_lines();
	test_near();
	test_diff();
	test_time();
	return (tap_done());
}
