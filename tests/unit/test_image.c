/* common/base/image.c and subid.c: forms, limits, what is refused whole. */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/image.h"
#include "common/base/subid.h"
#include "tests/tap.h"

#define HEX16 "0123456789abcdef"
#define HEX HEX16 HEX16 HEX16 HEX16
#define DIGEST "sha256:" HEX

static void
test_forms(void)
{
	static const struct {
		const char *s;
		bool name, wanted;
	} t[] = {
		{ "full", true, true }, { "a/b:1.2-x_y", true, true },
		{ "host", false, true }, { "", false, false },
		{ "A", false, false }, { "a b", false, false },
		{ "../x", false, false }, { "-x", false, false },
		{ "/x", false, false }, { ":x", false, false },
		{ "a\n", false, false }, { "\xc3\xa4", false, false },
		{ "abcdef01234", true, true },		/* 11: a name */
		{ "abcdef012345", false, true },	/* 12: digits */
		{ HEX, false, true }, { HEX "0", false, false },
		{ DIGEST, false, true }, { DIGEST "0", false, false },
		{ "sha256:abcdef012345", false, true },
		{ "sha256:abcdef01234", false, false },
		{ "sha256:ABCDEF012345", false, false },
	};
	char longest[SBX_IMAGE_NAME_SIZE + 1];

	for (size_t i = 0; i < SBX_NELEM(t); i++)
		ok(sbx_image_is_name(t[i].s) == t[i].name &&
		    sbx_image_is_wanted(t[i].s) == t[i].wanted, "form %zu: %s",
		    i, t[i].s[0] != '\n' && strchr(t[i].s, '\n') == NULL ?
		    t[i].s : "(a newline)");
	memset(longest, 'n', sizeof(longest));
	longest[SBX_IMAGE_NAME_SIZE - 1] = '\0';
	ok(sbx_image_is_name(longest), "a name of 128");
	longest[SBX_IMAGE_NAME_SIZE - 1] = 'n';
	longest[SBX_IMAGE_NAME_SIZE] = '\0';
	ok(!sbx_image_is_name(longest), "one of 129");
	ok(sbx_image_is_env("A=") && sbx_image_is_env("_a1=b=c") &&
	    !sbx_image_is_env("=a") && !sbx_image_is_env("1=a") &&
	    !sbx_image_is_env("A") && !sbx_image_is_env("A B=c"),
	    "forms of variables");
}

static void
test_config(void)
{
	static const char text[] = "sbx-image 1\nuser u\nworkdir \n"
	    "bytes 7\nenv A=b c\nenv B=\nentrypoint \nentrypoint x\n";
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct sbx_image_config c;
	struct sbx_err err = { 0 };

	ok(sbx_image_config_parse(text, sizeof(text) - 1, &c, &err) == 0 &&
	    strcmp(c.user, "u") == 0 && c.workdir[0] == '\0' && c.bytes == 7 &&
	    c.env.n == 2 && strcmp(c.env.v[0], "A=b c") == 0 &&
	    c.entrypoint.n == 2 && c.entrypoint.v[0][0] == '\0' &&
	    c.entrypoint.bytes == 3, "what a config says");
	sbx_buf_init(&b, 4096);
	ok(sbx_image_config_print(&c, &b) == 0 && strstr(b.data,
	    "entrypoint \nentrypoint x\n") != NULL, "and prints");
	(void)sbx_strlcpy(c.user, "a\nenv X=y", sizeof(c.user));
	ok(sbx_image_config_print(&c, &b) == SBX_E_SYNTAX,
	    "a value that would be two lines is not printed");
	sbx_image_config_clear(&c);
	ok(c.env.v == NULL && c.env.n == 0, "cleared");
}

static void
test_list(void)
{
	struct sbx_image_config c = { 0 };
	struct sbx_image_list *l = &c.env;
	int r = 0;

	ok(sbx_image_list_add(l, "A=\x1b[2J", 100) == SBX_E_SYNTAX &&
	    sbx_image_list_add(l, "A=\xff", 100) == SBX_E_SYNTAX &&
	    sbx_image_list_add(l, "A=\xc2\x9b", 100) == SBX_E_SYNTAX &&
	    l->n == 0, "controls and what is no UTF-8 are refused");
	ok(sbx_image_list_add(l, "A=bc", 5) == 0 &&
	    sbx_image_list_add(l, "", 5) == SBX_E_LIMIT && l->n == 1,
	    "bytes count with their NUL");
	for (int i = 0; r == 0; i++)
		r = sbx_image_list_add(l, "A=b", 100000);
	ok(r == SBX_E_LIMIT && l->n == SBX_IMAGE_MAX_ITEMS, "so do entries");
	sbx_image_config_clear(&c);
}

static void
put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (f == NULL || fputs(text, f) == EOF || fclose(f) == EOF)
		abort();
}

static void
test_resolve(void)
{
	char dir[] = "/tmp/sbx-test-image.XXXXXX", hex[SBX_IMAGE_HEX + 1];
	struct sbx_err err = { 0 };
	int store, lock = -1, d = -1;

	if (mkdtemp(dir) == NULL || chdir(dir) == -1 ||
	    (store = open(".", O_RDONLY | O_DIRECTORY)) == -1)
		abort();
	ok(sbx_image_resolve(store, "full", hex, &err) == SBX_E_NOENT &&
	    strstr(err.msg, "sbx image import") != NULL, "an empty store");
	put("names", "full " DIGEST "\n");
	ok(sbx_image_resolve(store, "full", hex, &err) == 0 &&
	    strcmp(hex, HEX) == 0, "a name");
	ok(sbx_image_open(store, hex, &d, &lock, &err) == SBX_E_NOENT,
	    "of nothing");
	if (mkdir(HEX, 0700) == -1)
		abort();
	put(HEX "/lock", "");
	ok(sbx_image_resolve(store, "0123456789ab", hex, &err) == 0 &&
	    sbx_image_open(store, hex, &d, &lock, &err) == 0,
	    "the first digits, and it is opened");
	ok(sbx_image_resolve(store, "0123456789ac", hex, &err) == SBX_E_NOENT &&
	    strstr(err.msg, "full") != NULL, "other digits: which there are");
	(void)unlink(HEX "/lock");
	(void)rmdir(HEX);
	(void)unlink("names");
	(void)rmdir(dir);
	sbx_close(&store);
	sbx_close(&lock);
	sbx_close(&d);
}

static void
test_subids(void)
{
	char path[] = "/tmp/sbx-test-subid.XXXXXX";
	int fd = mkstemp(path);
	uint32_t first, n;
	struct sbx_err err = { 0 };

	if (fd == -1)
		abort();
	put(path, "other:1:9\nme:5:600:7\nme:x:1\nme:10:20\n77:100:65536\n"
	    "me:4294967295:1\nme:4294967000:1000\nme:1000:30\nme:9:0");
	ok(sbx_subid_find(path, "me", 1, &first, &n, &err) == 0 &&
	    first == 1000 && n == 30, "the largest that parses");
	ok(sbx_subid_find(path, "no", 77, &first, &n, &err) == 0 &&
	    first == 100 && n == 65536, "by number");
	ok(sbx_subid_find(path, "no", 1, &first, &n, &err) == SBX_E_NOENT,
	    "none");
	(void)unlink(path);
	ok(sbx_subid_find(path, "me", 1, &first, &n, &err) == SBX_E_NOENT,
	    "no such file");
	sbx_close(&fd);
}

int
main(void)
{
	tap_plan(0);
	test_forms();
	test_config();
	test_list();
	test_resolve();
	test_subids();
	return (tap_done());
}
