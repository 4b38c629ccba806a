/* sbx.conf: parsing, sources, messages, and a dump that reads back. */

#include <string.h>

#include "common/base/conf.h"
#include "tests/tap.h"

/* text, error code, what the message must contain ("" when it is right) */
static const struct parse_case {
	const char *text;
	int code;
	const char *says;
} cases[] = {
	{ "", 0, "" },
	{ "# only a comment", 0, "" },
	{ "\n\n \t\r\n", 0, "" },
	{ "transport stdio", 0, "" },
	{ "transport stdio # behind it\nport 1", 0, "" },
	{ "transport\tstdio\r\n", 0, "" },
	{ "\"transport\" \"stdio\"", 0, "" },
	{ "copy_root \"/a b/\\\"c\\\\\"", 0, "" },
	{ "copy_root \"\"", 0, "" },
	{ "default_image \"#1\"", 0, "" },
	{ "http_hosts \"a.b-c.example 10.0.0.1 [2001:db8::1]\"", 0, "" },
	{ "http_hosts a/b", SBX_E_SYNTAX, "without scheme, path or port" },
	{ "http_hosts ::1", SBX_E_SYNTAX, "without scheme, path or port" },
	{ "http_hosts [::1]:80", SBX_E_SYNTAX, "without scheme" },
	{ "http_hosts []", SBX_E_SYNTAX, "without scheme" },
	{ "exec_timeout 10m", 0, "" },
	{ "journal_rotate_bytes 1M", 0, "" },
	{ "journal_stdout true", 0, "" },
	{ "transprot stdio", SBX_E_NOENT,
	    "x.conf:1: unknown keyword 'transprot', nearest valid: "
	    "'transport'" },
	{ "\n# two\nexec_timeot 5", SBX_E_NOENT, "x.conf:3: " },
	{ "exec_timeot", SBX_E_NOENT, "'exec_timeout'" },
	{ "transport stdoi", SBX_E_SYNTAX,
	    "x.conf:1: unknown value 'stdoi' of 'transport', nearest valid: "
	    "'stdio'" },
	{ "profile Review", SBX_E_SYNTAX, "'review'" },
	{ "transport", SBX_E_SYNTAX, "has no value" },
	{ "transport # none", SBX_E_SYNTAX, "has no value" },
	{ "transport stdio unix", SBX_E_SYNTAX, "more than one value" },
	{ "transport \"stdio", SBX_E_SYNTAX, "quote" },
	{ "transport \"stdio\\", SBX_E_SYNTAX, "quote" },
	{ "transport std\"io\"", SBX_E_SYNTAX, "quote" },
	{ "transport \"std\"io", SBX_E_SYNTAX, "quote" },
	{ "port 0", SBX_E_RANGE, "1..65535" },
	{ "port 65536", SBX_E_RANGE, "not '65536'" },
	{ "port 80K", SBX_E_SYNTAX, "port" },
	{ "port -1", SBX_E_SYNTAX, "port" },
	{ "exec_timeout 25h", SBX_E_RANGE, "seconds" },
	{ "exec_timeout 1d", SBX_E_SYNTAX, "exec_timeout" },
	{ "run_cap_bytes 99999999999999999999", SBX_E_RANGE, "bytes" },
	{ "run_cap_bytes 18446744073709551615G", SBX_E_RANGE, "bytes" },
	{ "journal_stdout maybe", SBX_E_SYNTAX, "'yes', 'no'" },
	{ "copy_root relative", SBX_E_SYNTAX, "absolute" },
	{ "default_image \"a\tb\"", SBX_E_SYNTAX, "control" },
	{ "port 1\nhost x\nport 2", SBX_E_EXISTS,
	    "x.conf:3: 'port' was set before" },
	{ "port 1\nport 1", SBX_E_EXISTS, "set before" },
	{ "\x1b[31m 1", SBX_E_NOENT, "\\x1b" },
};

static char *
fake_env(const char *name)
{
	if (strcmp(name, "SBX_PORT") == 0)
		return ("7000");
	if (strcmp(name, "SBX_PROFILE") == 0)
		return ("");
	return (NULL);
}

static char *
bad_env(const char *name)
{
	return (strcmp(name, "SBX_EXEC_TIMEOUT") == 0 ? "soon" : NULL);
}

static int
parse(struct sbx_conf *c, const char *text, size_t len, struct sbx_err *err)
{
	memset(err, 0, sizeof(*err));
	sbx_conf_init(c);
	return (sbx_conf_parse(c, "x.conf", text, len, err));
}

static void
test_cases(void)
{
	struct sbx_conf c;
	struct sbx_err err;
	size_t i;
	int r;

	for (i = 0; i < SBX_NELEM(cases); i++) {
		r = parse(&c, cases[i].text, strlen(cases[i].text), &err);
		ok(r == cases[i].code && strstr(err.msg, cases[i].says) !=
		    NULL && strchr(err.msg, '\x1b') == NULL,
		    "case %zu: %s", i, r == 0 ? "taken" : err.msg);
	}
	r = parse(&c, "port 1\0port 2", 13, &err);
	ok(r == SBX_E_SYNTAX && strstr(err.msg, "NUL"), "NUL is refused");
}

static void
test_limits(void)
{
	char SBX_CLEANUP(free) *big = sbx_xcalloc(1, SBX_CONF_FILE_MAX + 2);
	struct sbx_conf c;
	struct sbx_err err;

	memset(big, '\n', SBX_CONF_FILE_MAX + 1);
	ok(parse(&c, big, SBX_CONF_FILE_MAX, &err) == 0, "largest file");
	ok(parse(&c, big, SBX_CONF_FILE_MAX + 1, &err) == SBX_E_LIMIT,
	    "a larger file is refused");
	memset(big, ' ', SBX_CONF_LINE_MAX);
	ok(parse(&c, big, SBX_CONF_LINE_MAX + 1, &err) == 0, "longest line");
	memset(big, ' ', SBX_CONF_LINE_MAX + 1);
	ok(parse(&c, big, SBX_CONF_LINE_MAX + 2, &err) == SBX_E_LIMIT &&
	    strstr(err.msg, "x.conf:1: ") != NULL,
	    "a longer line is refused");
	memset(big, 'a', SBX_CONF_LINE_MAX);
	ok(parse(&c, big, SBX_CONF_LINE_MAX, &err) == SBX_E_NOENT,
	    "a keyword as long as a line");
	memcpy(big, "copy_root /", 11);
	ok(parse(&c, big, 10 + 4095, &err) == 0 &&
	    strlen(c.copy_root) == 4095, "longest path");
	ok(parse(&c, big, 10 + 4096, &err) == SBX_E_RANGE,
	    "a longer path is refused");
}

static void
test_values(void)
{
	static const char text[] = "exec_timeout 2m\njournal_rotate_bytes 2M\n"
	    "journal_stdout on\ncopy_root \"/a b/\\\"#\\\\\"\n"
	    "profile review # mine\n";
	struct sbx_conf c;
	struct sbx_err err;

	(void)parse(&c, text, strlen(text), &err);
	ok(c.exec_timeout == 120, "minutes");
	ok(c.journal_rotate_bytes == 2u << 20, "mebibytes");
	ok(c.journal_stdout, "on");
	ok(strcmp(c.copy_root, "/a b/\"#\\") == 0, "escapes");
	ok(strcmp(c.profile, "review") == 0, "word before a comment");
	ok(c.port == 8750 && strcmp(c.transport, "unix") == 0, "defaults");
}

static void
test_sources(void)
{
	struct sbx_conf c;
	struct sbx_err err;

	(void)parse(&c, "port 1\nprofile issue", 20, &err);
	ok(sbx_conf_env(&c, fake_env, &err) == 0 && c.port == 7000,
	    "a variable beats the file");
	ok(strcmp(c.profile, "issue") == 0, "an empty variable is unset");
	ok(sbx_conf_set(&c, "--port", "port", "9", SBX_CONF_FROM_ARGS,
	    &err) == 0 && c.port == 9, "the command line beats both");
	ok(sbx_conf_env(&c, fake_env, &err) == 0 && c.port == 9,
	    "whatever the order");
	ok(sbx_conf_set(&c, "--port", "port", "x", SBX_CONF_FROM_FILE,
	    &err) == SBX_E_SYNTAX, "a hidden value is checked all the same");
	ok(sbx_conf_env(&c, bad_env, &err) == SBX_E_SYNTAX &&
	    strncmp(err.msg, "SBX_EXEC_TIMEOUT: ", 18) == 0,
	    "a message names the variable");
	ok(sbx_conf_set(&c, "SBX_ALLOW_HOST", "allow_host", " a.b , c.d ,,",
	    SBX_CONF_FROM_ENV, &err) == 0 && c.allow_host.count == 2 &&
	    memcmp(c.allow_host.data, "a.b\0c.d", 8) == 0,
	    "a list in a variable, with blanks around its commas");
}

static void
test_check(void)
{
	struct sbx_conf c;
	struct sbx_err err;

	(void)parse(&c, "", 0, &err);
	ok(sbx_conf_check(&c, &err) == 0, "defaults are fine");
	(void)parse(&c, "transport http", 14, &err);
	ok(sbx_conf_check(&c, &err) == 0, "http is a transport");
	(void)parse(&c, "run_cap_bytes 1G\nrun_total_bytes 16M", 36, &err);
	ok(sbx_conf_check(&c, &err) == SBX_E_RANGE, "a cap above the total");
}

static void
test_dump(void)
{
	static const char text[] = "exec_timeout 2m\ncopy_root \"/a b/\\\"#\\\\\"\n"
	    "default_image \"\"\ntransport stdio\nrun_cap_bytes 1M";
	struct sbx_buf SBX_CLEANUP_BUF a = { 0 }, SBX_CLEANUP_BUF b = { 0 };
	struct sbx_conf c, again;
	struct sbx_err err;

	sbx_buf_init(&a, 1u << 20);
	sbx_buf_init(&b, 1u << 20);
	(void)parse(&c, text, strlen(text), &err);
	ok(sbx_conf_dump(&c, &a) == 0, "dump");
	ok(parse(&again, a.data, a.len, &err) == 0, "its own dump parses: %s",
	    err.msg);
	ok(sbx_conf_dump(&again, &b) == 0 && a.len == b.len &&
	    memcmp(a.data, b.data, a.len) == 0, "to the same dump");
	sbx_buf_clear(&b);
	sbx_buf_init(&b, 20);
	ok(sbx_conf_dump(&c, &b) == SBX_E_LIMIT, "a small buffer is an error");
}

static void
test_rows(void)
{
	size_t i;

	for (i = 0; i < SBX_CONF_K_MAX; i++) {
		const struct sbx_conf_row *r = &sbx_conf_rows[i];

		ok(r->name != NULL && strncmp(r->env, "SBX_", 4) == 0 &&
		    r->doc[0] != '\0' && strlen(r->def) <= 255,
		    "row %s is whole", r->name);
	}
}

int
main(void)
{
	tap_plan(0);
	test_cases();
	test_limits();
	test_values();
	test_sources();
	test_check();
	test_dump();
	test_rows();
	return (tap_done());
}
