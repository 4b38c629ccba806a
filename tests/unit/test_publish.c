/* Parts of a publication's judgement: paths, patterns, attributes, line ends, and
 * what git printed of a base. */

#include "common/base/commitsig.h"
#include "sbxd/judge/match.h"
#include "sbxd/judge/publish.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tests/tap.h"

static void
test_paths(void)
{
	static const char *const bad[] = { "", "/x", "x/", "a//b", ".", "./a",
		"a/.", "..", "a/../b", ".git", ".git/config", ".GIT/x",
		"a/.gIt/x", ".g\xe2\x80\x8cit/x", "\xef\xbb\xbf.git",
		".gi\xe2\x81\xaft", "git~1", "GIT~1/x", "GI7EBA~1",
		"gitmod~4", "g12~1", ".git. .", ".git /x", ".git...",
		".git::$INDEX_ALLOCATION/x", ".git:x", ".git .:y", "a\\b",
		".git\\x", "a\nb", "\x01", "a\x7f", "a\xc2\x85", "...",
		"a/ . ", ":x", " ", "\xe2\x80\x8d", "\xff", "\xc0\xae",
		"\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x80", "a\x80" };
	static const char *const good[] = { "a", ".gitignore", ".gitfoo",
		"a.git", "git~x", "git~", "xgit~1", "a:b", "...a", "a. b",
		"g1234567~1", "\xc3\xa4/\xe2\x82\xac", "~", "a~1/b", ".github/x" };

	for (size_t i = 0; i < SBX_NELEM(bad); i++)
		ok(path_refused(bad[i]) != NULL, "bad path %zu: %s", i,
		    path_refused(bad[i]));
	for (size_t i = 0; i < SBX_NELEM(good); i++)
		ok(path_refused(good[i]) == NULL, "good path %zu", i);
}

static void
test_long_paths(void)
{
	static char path[8192];

	memset(path, 'n', 256);
	ok(path_refused(path) != NULL, "a name of 256 bytes");
	path[255] = '\0';
	ok(path_refused(path) == NULL, "a name of 255 bytes");
	for (size_t i = 0; i < JUDGE_MAX_DEPTH; i++)
		memcpy(path + 2 * i, "d/", 3);
	path[2 * JUDGE_MAX_DEPTH - 1] = '\0';
	ok(path_refused(path) == NULL, "as deep as may be");
	memcpy(path + 2 * JUDGE_MAX_DEPTH - 1, "/f", 3);
	ok(path_refused(path) != NULL, "too deep");
	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 128 == 127 ? '/' : 'x';
	path[PUBLISH_MAX_PATH + 1] = '\0';
	ok(path_refused(path) != NULL, "too long");
	path[PUBLISH_MAX_PATH] = '\0';
	ok(path_refused(path) == NULL, "as long as may be");
}

static void
test_sensitive(void)
{
	static const char *const hot[] = { ".github/w", ".github/a/b",
		".GitHub/x", ".github", ".github./x", "CODEOWNERS",
		"codeowners", "docs/CODEOWNERS", "Docs/CodeOwners",
		".github/CODEOWNERS", ".gitmodules", "a/.gitmodules",
		".gitattributes", "a/b/.gitattributes", ".GITATTRIBUTES",
		".gitattributes.", ".gitattributes:x",
		".git\342\200\214attributes", "CODEOWNERS " };
	static const char *const cold[] = { "a", "src/CODEOWNERS", "x/.github/w",
		"docs/a/CODEOWNERS", "a/docs/CODEOWNERS", ".gitignore",
		"CODEOWNERS/x", "gitattributes" };

	for (size_t i = 0; i < SBX_NELEM(hot); i++)
		ok(path_sensitive(hot[i]), "sensitive: %zu", i);
	for (size_t i = 0; i < SBX_NELEM(cold); i++)
		ok(!path_sensitive(cold[i]), "not sensitive: %s", cold[i]);
}

static void
test_folds(void)
{
	static const struct {
		const char *a, *b;
		bool same;
	} rows[] = {
		{ "README", "readme", true }, { "a", "b", false },
		{ "caf\xc3\xa9", "CAFE\xcc\x81", true },	/* NFC, NFD */
		{ "stra\xc3\x9f""e", "STRASSE", true },
		{ "\xe2\x84\xaa", "k", true },		/* Kelvin */
		{ "\xce\xa3", "\xcf\x82", true },	/* sigmas */
		{ "\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", true },
		{ "q\xcc\xa3\xcc\x87", "q\xcc\x87\xcc\xa3", true },
		{ "a\xe2\x80\x8d", "a", true }, { "\xff", "\xfe", false },
		{ "a\xe2\x80\x8c", "a\xe2\x80\x8f", true },
		{ "a\xe2\x80\x8b", "a", false }, { "a\xe2\x80\x90", "a", false },
		{ "\xf0\x90\x90\x80", "\xf0\x90\x90\xa8", true },
		{ "\xd0\x96", "\xd0\xb6", true }, { "a\xcc\x81", "a", false },
	};

	for (size_t i = 0; i < SBX_NELEM(rows); i++) {
		char *a = fold_name(rows[i].a, strlen(rows[i].a));
		char *b = fold_name(rows[i].b, strlen(rows[i].b));

		ok((strcmp(a, b) == 0) == rows[i].same, "names %zu are %s", i,
		    rows[i].same ? "one" : "two");
		free(a);
		free(b);
	}
}

static void
test_trees(void)
{
#define ID "iiiiiiiiiiiiiiiiiiii"
#define TREE(text) text, sizeof(text) - 1
	static const struct {
		const char *p;
		size_t n;
		bool good;
		const char *why;
	} rows[] = {
		{ TREE(""), true, "an empty one" },
		{ TREE("100644 a\0" ID "40000 b\0" ID), true, "two entries" },
		{ TREE("100664 a\0" ID "120000 b\0" ID "160000 c\0" ID), true,
		    "other modes" },
		{ TREE("040000 a\0" ID), false, "a mode that begins with 0" },
		{ TREE("160001 a\0" ID), false, "a mode that is none" },
		{ TREE("100648 a\0" ID), false, "an 8" },
		{ TREE("100644 \0" ID), false, "no name" },
		{ TREE("100644 a/b\0" ID), false, "a slash" },
		{ TREE("100644 a\0iiiiiiiiiiiiiiiiiii"), false, "a cut id" },
		{ TREE("100644 a"), false, "a cut name" },
		{ TREE("100644 b\0" ID "100644 a\0" ID), false, "no order" },
		{ TREE("100644 a\0" ID "100644 a\0" ID), false, "a name twice" },
		{ TREE("100644 a\0" ID "100644 a.b\0" ID "40000 a\0" ID), false,
		    "a file and a directory of one name" },
		{ TREE("100644 a.b\0" ID "40000 a\0" ID "100644 a0\0" ID), true,
		    "a directory's order" },
	};

	for (size_t i = 0; i < SBX_NELEM(rows); i++) {
		struct ents t = { 0 };

		ok((ents_parse(&t, ID_SHA1, rows[i].p, rows[i].n) == 0) ==
		    rows[i].good, "a tree: %s", rows[i].why);
		free(t.v);
	}
}

static void
test_patterns(void)
{
	static const struct {
		const char *pattern, *text;
		bool match;
	} rows[] = {
		{ "", "", true }, { "", "a", false }, { "*", "", true },
		{ "*", "abc", true }, { "*", "a/b", false }, { "**", "a/b", true },
		{ "a/**", "a/b/c", true }, { "a/**", "a", false },
		{ "**/a", "a", true }, { "**/a", "x/y/a", true },
		{ "**/a", "xa", false }, { "a/**/b", "a/b", true },
		{ "a/**/b", "a/x/y/b", true }, { "a**b", "a/b", false },
		{ "a**b", "axxb", true }, { "***", "a/b", true },
		{ "?", "/", false }, { "?", "a", true }, { "[/]", "/", false },
		{ "[!a]", "/", false }, { "[!a]", "b", true },
		{ "[^a]", "a", false }, { "[]]", "]", true }, { "[a-c]", "b", true },
		{ "[a-]", "-", true }, { "[c-a]", "b", false },
		{ "[[:digit:]]", "5", true }, { "[[:nope:]]", "n", false },
		{ "[[:nope:]n]", "n", false },
		{ "[[:alpha:]", "a", false }, { "[", "[", false },
		{ "[a", "a", false }, { "\\*", "*", true }, { "\\*", "a", false },
		{ "a\\", "a", false }, { "[\\]]", "]", true },
		{ "[\\a-\\c]", "b", true }, { "*.c", ".c", true },
		{ "a*b*c", "aXbYbZc", true }, { "[[:x]", "[", true },
		{ "**\\/a", "b/a", true }, { "a/*", "a/b/c", false },
	};

	for (size_t i = 0; i < SBX_NELEM(rows); i++) {
		struct pattern p;
		uint64_t steps = 0;

		pattern_make(&p, rows[i].pattern);
		ok(pattern_match(&p, rows[i].text, &steps) == rows[i].match,
		    "%s %s %s", rows[i].pattern, rows[i].match ? "matches" :
		    "does not match", rows[i].text);
		pattern_clear(&p);
	}
}

static void
test_attributes(void)
{
	static const char root[] = "\xef\xbb\xbf* text=auto\r\n"
	    "[attr]both text eol=crlf ident\n*.c both\n*.c -ident\n"
	    "*.d both !text\n*.e -both both=x\n*.bin binary\n"
	    "\"a\\\"\\303\\244\" ident\n!*.n text\n*.n/ text\n"
	    "*.o text =bad\n/top -text\n  # not\n*.x eol=lf\n*.y -crlf !text";
	static const char sub[] = "[attr]both -text\n*.c text\nin/* -text\n"
	    "*.x !eol";
	static const struct {
		const char *path;
		enum eol_rule eol;
		bool ident;
	} rows[] = {
		{ "d/z", EOL_AUTO, false }, { "d/a.c", EOL_TEXT, false },
		{ "d/a.d", EOL_TEXT, true }, { "d/a.e", EOL_AUTO, false },
		{ "d/a.bin", EOL_NONE, false },
		{ "d/a\"\xc3\xa4", EOL_AUTO, true }, { "d/a.n", EOL_AUTO, false },
		{ "d/a.o", EOL_AUTO, false }, { "d/top", EOL_AUTO, false },
		{ "d/in/x", EOL_NONE, false }, { "d/a.x", EOL_AUTO, false },
		{ "d/a.y", EOL_NONE, false },
	};
	struct attr_set *s = attr_new();
	struct attrs a;
	char why[128];

	ok(attr_push(s, "", 0, root, sizeof(root) - 1, why) == 0 &&
	    attr_push(s, "d/", 2, sub, sizeof(sub) - 1, why) == 0,
	    "two files are read");
	for (size_t i = 0; i < SBX_NELEM(rows); i++)
		ok(attr_lookup(s, rows[i].path, &a) == 0 && a.eol ==
		    rows[i].eol && a.ident == rows[i].ident, "%s: %d %d",
		    rows[i].path, a.eol, a.ident);
	attr_pop(s);
	ok(attr_lookup(s, "top", &a) == 0 && a.eol == EOL_NONE,
	    "/top is at the top");
	attr_free(s);
}

static void
test_clean(void)
{
	static const struct {
		enum eol_rule eol;
		bool ident, old;
		const char *in, *out;
	} rows[] = {
		{ EOL_NONE, false, false, "a\r\n", "a\r\n" },
		{ EOL_TEXT, false, false, "a\r\nb\rc\r\r\n", "a\nb\rc\r\n" },
		{ EOL_TEXT, false, true, "a\r\n", "a\n" },
		{ EOL_AUTO, false, false, "a\r\n", "a\n" },
		{ EOL_AUTO, false, true, "a\r\n", "a\r\n" },
		{ EOL_AUTO, false, false, "a\r\nb\r", "a\r\nb\r" },
		{ EOL_AUTO, false, false, "a\x01\r\n", "a\x01\r\n" },
		{ EOL_AUTO, false, false, "a\r\n\x1a", "a\n\x1a" },
		{ EOL_NONE, true, false, "$Id: x $ $Id$ $Id: y", "$Id$ $Id$ "
		    "$Id: y" },
		{ EOL_NONE, true, false, "$Id:\n$Id:z$", "$Id:\n$Id$" },
		{ EOL_NONE, true, false, "$$Id:$", "$$Id$" },
		{ EOL_TEXT, true, false, "$Id: \r\n$\r\n", "$Id: \n$\n" },
	};
	char buf[64];
	size_t n;

	for (size_t i = 0; i < SBX_NELEM(rows); i++) {
		struct attrs a = { .eol = rows[i].eol, .ident = rows[i].ident };

		(void)sbx_strlcpy(buf, rows[i].in, sizeof(buf));
		n = convert_clean(&a, rows[i].old, buf, strlen(buf));
		ok(n == strlen(rows[i].out) && memcmp(buf, rows[i].out, n) == 0,
		    "clean %zu", i);
	}
}

/* The file changes between the two times that it is read. */
static void
test_base(void)
{
	static const char text[] = "x y missing\n"
	    "8baef1b4abc478178b004d62031cf7fe6db6f903 blob 3\nabc\n"
	    "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f blob 3\nabc\n";
	int fd = -1;
	struct base b;
	struct oid id;
	char *p = NULL;

	(void)oid_parse("f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f", 40, &id);
	ok(sbx_memfd_sealed("t", text, sizeof(text) - 1, &fd) == 0 &&
	    base_read(&b, fd, 0, sizeof(text) - 1, ID_SHA1) != 0,
	    "an id that is not its bytes': %s", b.reason);
	base_clear(&b);
	close(fd);
	fd = memfd_create("t", 0);
	ok(pwrite(fd, text + 64, sizeof(text) - 65, 0) > 0 && base_read(&b, fd,
	    0, sizeof(text) - 65, ID_SHA1) == 0 && b.n == 1,
	    "an id that is: %s", b.reason);
	ok(base_find(&b, &id, OBJECT_TREE) == NULL, "it is no tree");
	ok(base_load(&b, base_find(&b, &id, OBJECT_BLOB), &p) == 0 &&
	    strcmp(p, "abc") == 0, "it is loaded");
	free(p);
	ok(pwrite(fd, "abd", 3, 48) == 3 && base_load(&b,
	    base_find(&b, &id, OBJECT_BLOB), &p) == -1,
	    "what changed since is not");
	base_clear(&b);
	close(fd);
}

static void
test_signatures(void)
{
	static const char armored[] = SBX_COMMITSIG_BEGIN "AAAA\n"
	    SBX_COMMITSIG_END;
	static const struct {
		const char *commit;
		int r;
	} rows[] = {
		{ "tree 0\nauthor a\n\nm\n", 0 },
		{ "tree 0\ngpgsig x\n\nm\n", SBX_E_SYNTAX },
		{ "tree 0\ngpgsig-sha256 x\n\nm\n", SBX_E_SYNTAX },
		{ "tree 0\nauthor a\n\nm\n\ngpgsig x\n", 0 },
		{ "tree 0\n", SBX_E_SYNTAX }, { "\n\n", SBX_E_SYNTAX },
		{ "tag 00\n\nm\n", SBX_E_SYNTAX }, { "", SBX_E_SYNTAX },
	};

	for (size_t i = 0; i < SBX_NELEM(rows); i++) {
		struct sbx_buf SBX_CLEANUP_BUF b = { 0 };

		sbx_buf_init(&b, 4096);
		ok(sbx_commitsig_add(&b, rows[i].commit,
		    strlen(rows[i].commit), armored) == rows[i].r,
		    "a signature of commit %zu", i);
	}
}

int
main(void)
{
	test_paths();
	test_long_paths();
	test_sensitive();
	test_folds();
	test_trees();
	test_patterns();
	test_attributes();
	test_clean();
	test_base();
	test_signatures();
	return (tap_done());
}
