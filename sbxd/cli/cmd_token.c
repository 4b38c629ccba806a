/* token: who may use MCP over HTTP */
#include "sbxd/cli/cli.h"

#include "common/base/limits.h"
#include "common/base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (64u << 10)

/*
 * The file of digests.  It is changed in place, under a lock, since a suite
 * that runs reads it by the descriptor that it opened at its start.
 */
struct tokens {
	int fd;			/* owned, locked */
	struct sbx_buf text;
};

static int
tokens_open(const struct cli *cli, struct tokens *t, struct sbx_err *err)
{
	char path[PATH_MAX + 16], *buf;
	ssize_t n;

	sbx_buf_init(&t->text, FILE_MAX);
	(void)mkdir(cli->paths.etc, 0755);	/* open(2) tells */
	(void)snprintf(path, sizeof(path), "%s/tokens", cli->paths.etc);
	t->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (t->fd == -1 || flock(t->fd, LOCK_EX) == -1)
		return (sbx_err_sys(err, "%.160s", path));
	buf = sbx_xcalloc(1, FILE_MAX + 1);
	n = pread(t->fd, buf, FILE_MAX + 1, 0);
	if (n > 0 && n <= FILE_MAX)
		(void)sbx_buf_add(&t->text, buf, (size_t)n);
	free(buf);
	return (n < 0 || n > FILE_MAX ? sbx_err_set(err, SBX_E_LIMIT,
	    "%.160s cannot be read, or is longer than %u bytes", path,
	    FILE_MAX) : 0);
}

static void
tokens_close(struct tokens *t)
{
	sbx_close(&t->fd);
	sbx_buf_clear(&t->text);
}

static int
tokens_write(struct tokens *t, const struct sbx_buf *b, struct sbx_err *err)
{
	if (b->overflow)
		return (sbx_err_set(err, SBX_E_LIMIT, "there are too many "
		    "tokens"));
	if (pwrite(t->fd, b->data != NULL ? b->data : "", b->len, 0) !=
	    (ssize_t)b->len || ftruncate(t->fd, (off_t)b->len) == -1 ||
	    fsync(t->fd) == -1)
		return (sbx_err_sys(err, "writing the tokens"));
	return (0);
}

/* The line of that name; NULL: there is none.  *ret_len: with its end. */
static const char *
find(const struct tokens *t, const char *name, size_t *ret_len)
{
	const char *p = t->text.data, *end = p + t->text.len, *next;
	size_t n = strlen(name);

	for (; p != NULL && p < end; p = next) {
		next = memchr(p, '\n', (size_t)(end - p));
		next = next == NULL ? end : next + 1;
		*ret_len = (size_t)(next - p);
		if (*ret_len > n && memcmp(p, name, n) == 0 && p[n] == ' ')
			return (p);
	}
	return (NULL);
}

static bool
is_name(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return (n > 0 && n <= SBX_MAX_TOKEN_NAME && s[n] == '\0' &&
	    s[0] != '.' && s[0] != '-' && s[0] != '_');
}

/* --- verbs ---------------------------------------------------------------- */

/* Shown once, on standard output; what is kept is its digest. */
static int
token_add(struct tokens *t, int argc, char **argv, struct sbx_err *err)
{
	static const struct option longs[] = {
		{ "copy-root", required_argument, NULL, 'r' }, { 0 } };
	char token[80] = "sbx_", sha256[SBX_SHA256_HEX + 1];
	char root[PATH_MAX] = "";
	struct sbx_sha256 sum;
	size_t len;
	int ch, r;

	optind = 0;
	while ((ch = getopt_long(argc, argv, "", longs, NULL)) != -1)
		if (ch != 'r')
			return (CLI_SYNTAX);
		else if (realpath(optarg, root) == NULL)
			return (sbx_err_sys(err, "%.160s", optarg));
	if (argc - optind != 1)
		return (CLI_SYNTAX);
	if (!is_name(argv[optind]))
		return (sbx_err_set(err, SBX_E_SYNTAX, "a token's name is a "
		    "letter or digit and up to 57 of letters, digits, '.', "
		    "'_' and '-'"));
	if (strchr(root, '\n') != NULL)
		return (sbx_err_set(err, SBX_E_SYNTAX, "the directory's name "
		    "has a newline"));
	if (find(t, argv[optind], &len) != NULL)
		return (sbx_err_set(err, SBX_E_EXISTS, "there is a token %s "
		    "already: sbx token rm %s", argv[optind], argv[optind]));
	sbx_random_hex(token + strlen(token), 32);
	sbx_sha256_init(&sum);
	sbx_sha256_add(&sum, token, strlen(token));
	sbx_sha256_end(&sum, sha256);
	(void)sbx_buf_printf(&t->text, "%s %s%s%s\n", argv[optind], sha256,
	    root[0] != '\0' ? " " : "", root);
	if ((r = tokens_write(t, &t->text, err)) != 0)
		return (r);
	printf("%s\n", token);
	if (root[0] != '\0')
		fprintf(stderr, "a suite that runs lets it copy from there "
		    "after its next start\n");
	return (0);
}

static int
token_list(struct tokens *t, int argc, char **argv, struct sbx_err *err)
{
	const char *p = t->text.data, *end = p + t->text.len, *next;

	(void)argv, (void)err;
	if (argc != 1)
		return (CLI_SYNTAX);
	for (; p != NULL && p < end; p = next) {
		size_t name = strcspn(p, " \n"), root;

		next = memchr(p, '\n', (size_t)(end - p));
		next = next == NULL ? end : next + 1;
		root = name + 1 + SBX_SHA256_HEX;
		printf("%.*s%.*s\n", (int)name, p,
		    (size_t)(next - p) > root + 1 ?
		    (int)((size_t)(next - p) - root - 1) : 0, p + root);
	}
	return (0);
}

/* A suite that runs has asked for it before: it is good until nobody has used
 * it for ten minutes, or the suite's next start. */
static int
token_rm(struct tokens *t, int argc, char **argv, struct sbx_err *err)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	const char *line;
	size_t len = 0, at;

	if (argc != 2)
		return (CLI_SYNTAX);
	if ((line = find(t, argv[1], &len)) == NULL)
		return (sbx_err_set(err, SBX_E_NOENT, "there is no token "
		    "%.64s", argv[1]));
	at = (size_t)(line - t->text.data);
	sbx_buf_init(&b, FILE_MAX);
	(void)sbx_buf_add(&b, t->text.data, at);
	(void)sbx_buf_add(&b, line + len, t->text.len - at - len);
	return (tokens_write(t, &b, err));
}

int
cmd_token(struct cli *cli, int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(struct tokens *, int, char **, struct sbx_err *);
	} verbs[] = { { "add", token_add }, { "list", token_list },
		{ "rm", token_rm } };
	struct sbx_err err = { 0 };
	struct tokens t = { .fd = -1 };
	int r = CLI_SYNTAX;

	for (size_t i = 0; argc > 1 && i < SBX_NELEM(verbs); i++) {
		if (strcmp(argv[1], verbs[i].name) != 0)
			continue;
		argv[1] = argv[0];
		r = tokens_open(cli, &t, &err);
		if (r == 0)
			r = verbs[i].run(&t, argc - 1, argv + 1, &err);
		tokens_close(&t);
		break;
	}
	if (r == CLI_SYNTAX && err.code == 0)
		return (CLI_SYNTAX);
	return (r == 0 ? CLI_OK : cli_fail(CLI_USAGE, &err));
}
