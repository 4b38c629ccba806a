/* common/base/base.c */

#include "common/base/base.h"
#include "common/base/sha256.h"
#include "common/proto/filework.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

/* A sanitizer would end the process itself, before base.c can. */
const char *__asan_default_options(void);

const char *
__asan_default_options(void)
{
	return ("allocator_may_return_null=1");
}

static void
test_errors(void)
{
	struct sbx_err err = { 0 };
	int e, named = 0;

	for (e = SBX_E_UNSUPPORTED; e <= 0; e++)
		named += strncmp(sbx_error_name(e), "SBX_E_", 6) == 0;
	ok(named == 1 - SBX_E_UNSUPPORTED, "every error has a name");
	ok(strcmp(sbx_error_name(SBX_E_DECODE), "SBX_E_DECODE") == 0 &&
	    strcmp(sbx_error_name(-99), "not an sbx_error") == 0 &&
	    strcmp(sbx_error_name(1), "not an sbx_error") == 0,
	    "other numbers have none");

	errno = EACCES;
	ok(sbx_err_sys(&err, "open %s", "x") == SBX_E_SYS &&
	    err.code == SBX_E_SYS && err.sys_errno == EACCES &&
	    errno == EACCES && strcmp(err.msg, "open x: Permission denied") == 0,
	    "sbx_err_sys says why and keeps errno");
	ok(sbx_err_set(&err, SBX_E_POLICY, "no %d", 7) == SBX_E_POLICY &&
	    err.code == SBX_E_POLICY && strcmp(err.msg, "no 7") == 0,
	    "sbx_err_set");
	ok(sbx_err_set(NULL, SBX_E_RANGE, "x") == SBX_E_RANGE &&
	    sbx_err_sys(NULL, "x") == SBX_E_SYS, "NULL err is permitted");
	errno = EIO;
	(void)sbx_err_sys(&err, "%0300d", 1);
	ok(strlen(err.msg) == sizeof(err.msg) - 1, "a long sentence is cut");
}

static void
test_parse(void)
{
	static const struct {
		const char *s;
		uint64_t min, max;
		int r;
		uint64_t v;
	} cases[] = {
		{ "0", 0, 10, 0, 0 },
		{ "10", 0, 10, 0, 10 },
		{ "007", 0, 10, 0, 7 },
		{ "11", 0, 10, SBX_E_RANGE, 0 },
		{ "1", 2, 10, SBX_E_RANGE, 0 },
		{ "18446744073709551615", 0, UINT64_MAX, 0, UINT64_MAX },
		{ "18446744073709551616", 0, UINT64_MAX, SBX_E_RANGE, 0 },
		{ "99999999999999999999999999", 0, UINT64_MAX, SBX_E_RANGE, 0 },
		{ "99999999999999999999999999x", 0, UINT64_MAX, SBX_E_SYNTAX,
		    0 },
		{ "", 0, 10, SBX_E_SYNTAX, 0 },
		{ " 1", 0, 10, SBX_E_SYNTAX, 0 },
		{ "1 ", 0, 10, SBX_E_SYNTAX, 0 },
		{ "+1", 0, 10, SBX_E_SYNTAX, 0 },
		{ "-1", 0, 10, SBX_E_SYNTAX, 0 },
		{ "0x1", 0, 10, SBX_E_SYNTAX, 0 },
		{ "1\n", 0, 10, SBX_E_SYNTAX, 0 },
	};
	uint64_t v;
	size_t i;
	int r;

	for (i = 0; i < SBX_NELEM(cases); i++) {
		v = 4711;
		r = sbx_parse_u64(cases[i].s, cases[i].min, cases[i].max, &v);
		ok(r == cases[i].r && v == (r == 0 ? cases[i].v : 4711),
		    "parse case %zu gives %s", i, sbx_error_name(r));
	}
}

static void
test_strings(void)
{
	SBX_CLEANUP(free) char *s = sbx_xasprintf("%s-%d", "a", 5);
	char d[8] = "xxxxxxx", h[17], h2[17];

	ok(strcmp(s, "a-5") == 0, "sbx_xasprintf");
	ok(sbx_strlcpy(d, "1234567", sizeof(d)) == 0 &&
	    strcmp(d, "1234567") == 0, "strlcpy fits exactly");
	ok(sbx_strlcpy(d, "12345678", sizeof(d)) == SBX_E_LIMIT &&
	    d[0] == '\0', "strlcpy: too long leaves nothing");
	ok(sbx_strlcpy(d, "", 1) == 0 && sbx_strlcpy(d, "", 0) == SBX_E_LIMIT,
	    "strlcpy: smallest sizes");

	sbx_random_hex(h, 8);
	sbx_random_hex(h2, 8);
	ok(sbx_is_hex(h, 16) && sbx_is_hex(h2, 16) && strcmp(h, h2) != 0,
	    "random hex digits differ");
	ok(!sbx_is_hex(h, 15) && !sbx_is_hex("abc", 4) &&
	    !sbx_is_hex("ABCD", 4) && !sbx_is_hex("abcg", 4) &&
	    sbx_is_hex("", 0), "sbx_is_hex is exact");
}

static void
test_vis(void)
{
	static const struct {
		const char *src;
		size_t len, size;
		const char *want;
	} cases[] = {
		{ "plain", 5, 64, "plain" },
		{ "a\nb\033[", 5, 64, "a\\x0ab\\x1b[" },
		{ "\0\377", 2, 64, "\\x00\\xff" },
		{ "abcdefgh", 8, 9, "abcdefgh" },
		{ "abcdefgh", 8, 8, "abcd..." },
		{ "abc\n", 4, 7, "abc..." },
		{ "abc\n", 4, 8, "abc\\x0a" },
		{ "\n\n", 2, 8, "\\x0a..." },
		{ "abcdef", 6, 4, "..." },
		{ "abcdef", 6, 2, "." },
		{ "abcdef", 6, 1, "" },
		{ "", 0, 1, "" },
	};
	char d[64];
	size_t i;

	for (i = 0; i < SBX_NELEM(cases); i++) {
		memset(d, '#', sizeof(d));
		(void)sbx_vis(d, cases[i].size, cases[i].src, cases[i].len);
		ok(strcmp(d, cases[i].want) == 0, "vis case %zu: %s", i, d);
	}
}

static void
test_memfd(void)
{
	SBX_CLEANUP(fd) int fd = -1;
	SBX_CLEANUP(fd) int open_fd = -1;
	SBX_CLEANUP(fd) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	SBX_CLEANUP(free) char *p = NULL;
	size_t n = 0;

	ok(sbx_memfd_sealed("t", "hello\0x", 7, &fd) == 0, "a sealed memfd");
	ok((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0, "is close-on-exec");
	ok(write(fd, "x", 1) < 0 && errno == EPERM && ftruncate(fd, 0) < 0 &&
	    errno == EPERM && ftruncate(fd, 100) < 0 && errno == EPERM &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0,
	    "cannot be changed any more");
	ok(sbx_memfd_read(fd, 7, &p, &n) == 0 && n == 7 &&
	    memcmp(p, "hello\0x", 8) == 0, "and reads back, terminated");
	ok(sbx_memfd_read(fd, 6, &p, &n) == SBX_E_LIMIT, "max is kept");

	open_fd = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ok(sbx_memfd_read(open_fd, 9, &p, &n) == SBX_E_POLICY,
	    "an unsealed one is refused");
	(void)fcntl(open_fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW);
	ok(sbx_memfd_read(open_fd, 9, &p, &n) == SBX_E_POLICY,
	    "so is one that can shrink");
	ok(sbx_memfd_read(null, 9, &p, &n) == SBX_E_POLICY,
	    "so is what is no memfd");
	ok(sbx_memfd_read(-1, 9, &p, &n) == SBX_E_SYS, "so is no descriptor");
}

static void
test_buf(void)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char many[1000];

	sbx_buf_init(&b, 10);
	ok(strcmp(b.data, "") == 0 && b.len == 0, "an empty buffer is \"\"");
	ok(sbx_buf_str(&b, "12345") == 0 && sbx_buf_printf(&b, "%d", 678) == 0
	    && strcmp(b.data, "12345678") == 0 && b.len == 8, "appends");
	ok(sbx_buf_str(&b, "9ab") == SBX_E_LIMIT && b.overflow &&
	    strcmp(b.data, "12345678") == 0, "refuses past max, whole");
	ok(sbx_buf_printf(&b, "%s", "9ab") == SBX_E_LIMIT &&
	    sbx_buf_add(&b, "9a", 2) == 0 && b.len == 10,
	    "takes exactly max");
	ok(sbx_buf_add(&b, "", 0) == 0 && sbx_buf_add(&b, "x", SIZE_MAX) ==
	    SBX_E_LIMIT, "no overflow of the sum");
	sbx_buf_consume(&b, 9);
	ok(b.len == 1 && strcmp(b.data, "a") == 0, "consumes from the front");
	sbx_buf_consume(&b, 100);
	ok(b.len == 0 && strcmp(b.data, "") == 0, "consumes no more than all");
	sbx_buf_clear(&b);
	ok(b.data == NULL && !b.overflow && sbx_buf_str(&b, "again") == 0 &&
	    strcmp(b.data, "again") == 0, "can be used again when cleared");

	sbx_buf_clear(&b);
	sbx_buf_init(&b, SIZE_MAX);
	memset(many, 'm', sizeof(many));
	for (int i = 0; i < 1000; i++)
		(void)sbx_buf_add(&b, many, sizeof(many));
	ok(b.len == 1000000 && b.data[999999] == 'm' && !b.overflow,
	    "grows to a megabyte");
}

static void
test_files(void)
{
	int p[2], fd, status;
	char got[6] = "";
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		abort();
	ok(sbx_write_all(p[1], "hello", 5) == 0 && read(p[0], got, 5) == 5 &&
	    strcmp(got, "hello") == 0, "sbx_write_all");
	fd = p[1];
	ok(sbx_steal_fd(&fd) == p[1] && fd == -1, "sbx_steal_fd");
	errno = ENOENT;
	sbx_close(&fd);
	sbx_close(&p[1]);
	ok(p[1] == -1 && errno == ENOENT && read(p[0], got, 1) == 0,
	    "sbx_close closes once and keeps errno");
	ok(sbx_write_all(-1, "x", 1) == SBX_E_SYS && errno == EBADF,
	    "sbx_write_all to nothing");
	sbx_close(&p[0]);

	ok(sbx_mono_ns() <= sbx_mono_ns() && sbx_wall_ns() >
	    1600000000ull * 1000000000ull, "clocks count nanoseconds");

	pid = fork();
	if (pid == 0) {
		/* its line is expected: keep it out of the log */
		(void)dup2(open("/dev/null", O_WRONLY), 2);
		(void)sbx_xreallocarray(NULL, SIZE_MAX / 2, 4);
		_exit(0);
	}
	ok(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	    WEXITSTATUS(status) == 2, "an overflowing allocation exits 2");
}

/* FIPS 180-4's own examples, and lengths about the end of a block. */
static void
test_sha256(void)
{
	static const struct { size_t n; const char *text, *hex; } t[] = {
		{ 0, "", "e3b0c44298fc1c149afbf4c8996fb924"
		    "27ae41e4649b934ca495991b7852b855" },
		{ 3, "abc", "ba7816bf8f01cfea414140de5dae2223"
		    "b00361a396177a9cb410ff61f20015ad" },
		{ 56, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnop"
		    "nopq", "248d6a61d20638b8e5c026930c3e6039"
		    "a33ce45964ff2167f6ecedd419db06c1" },
		{ 1000000, NULL, "cdc76e5c9914fb9281a1c7e284d73e67"
		    "f1809a48a497200e046d39ccc7112cd0" },
	};
	char hex[SBX_SHA256_HEX + 1], part[1000];
	struct sbx_sha256 s;

	memset(part, 'a', sizeof(part));
	for (size_t i = 0; i < SBX_NELEM(t); i++) {
		sbx_sha256_init(&s);
		if (t[i].text != NULL)
			sbx_sha256_add(&s, t[i].text, t[i].n);
		/* in parts that meet no border of a block */
		for (size_t n = 0; t[i].text == NULL && n < t[i].n; n += 1000)
			sbx_sha256_add(&s, part, sizeof(part));
		sbx_sha256_end(&s, hex);
		ok(strcmp(hex, t[i].hex) == 0, "sha256 of %zu bytes", t[i].n);
	}
}

static void
test_same_secret(void)
{
	char a[] = "0123456789abcdef", b[] = "0123456789abcdef";
	size_t i, wrong = 0;

	ok(sbx_same_secret(a, b, 16), "equal secrets are equal");
	for (i = 0; i < 16; i++) {
		b[i] ^= 0x40;
		wrong += sbx_same_secret(a, b, 16);
		b[i] ^= 0x40;
	}
	ok(wrong == 0, "a difference is seen wherever it is");
	b[15] = 'x';
	ok(sbx_same_secret(a, b, 15), "but for what is not compared");
}

static void
test_pack_left(void)
{
	const uint64_t all = SBX_FILE_PACK_MS, idle = SBX_FILE_MS;

	ok(sbx_file_pack_left_s(0) == idle / 1000 &&
	    sbx_file_pack_left_s(2 * idle) == idle / 1000,
	    "what packs may go on as long as it moves");
	ok(sbx_file_pack_left_s(all - 5000) == 5 &&
	    sbx_file_pack_left_s(all) == 0 &&
	    sbx_file_pack_left_s(UINT64_MAX) == 0, "up to a limit");
}

int
main(void)
{
	tap_plan(0);
	test_errors();
	test_parse();
	test_strings();
	test_vis();
	test_memfd();
	test_buf();
	test_files();
	test_sha256();
	test_same_secret();
	test_pack_left();
	return (tap_done());
}
