/* token: who may use MCP over HTTP */
#include "sbxd/cli/cli.h"

#include "common/base/homes.h"
#include "common/base/token.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The file of digests.  It is changed in place, under a lock, since a suite
 * that runs reads it by the descriptor that it opened at its start.
 */
struct tokens {
	const struct cli *cli;	/* borrowed */
	int fd;			/* owned, locked */
	struct sbx_buf text;
};

static int
tokens_open(const struct cli *cli, struct tokens *t, struct sbx_err *err)
{
	char path[PATH_MAX + 16], *buf;
	unsigned line;
	ssize_t n;

	sbx_buf_init(&t->text, SBX_TOKENS_FILE);
	(void)mkdir(cli->paths.etc, 0755);	/* open(2) tells */
	(void)snprintf(path, sizeof(path), "%s/tokens", cli->paths.etc);
	t->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (t->fd == -1 || flock(t->fd, LOCK_EX) == -1)
		return (sbx_err_sys(err, "%.160s", path));
	buf = sbx_xcalloc(1, SBX_TOKENS_FILE + 1);
	n = pread(t->fd, buf, SBX_TOKENS_FILE + 1, 0);
	if (n > 0 && n <= SBX_TOKENS_FILE)
		(void)sbx_buf_add(&t->text, buf, (size_t)n);
	free(buf);
	if (n < 0 || n > SBX_TOKENS_FILE)
		return (sbx_err_set(err, SBX_E_LIMIT, "%.160s cannot be read, "
		    "or is longer than %u bytes", path, SBX_TOKENS_FILE));
	if (t->text.len > 0 &&
	    (line = sbx_tokens_check(t->text.data, t->text.len)) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX, SBX_TOKEN_BAD_LINE,
		    path, line, SBX_MAX_TOKENS));
	return (0);
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

/* --- verbs ---------------------------------------------------------------- */

/* The directory as an absolute path, if a suite will let copy from it. */
static int
take_root(const struct cli *cli, const char *dir, char root[PATH_MAX],
    struct sbx_err *err)
{
	struct sbx_homes homes = { 0 };
	int SBX_CLEANUP(fd) fd = -1;

	if (realpath(dir, root) == NULL)
		return (sbx_err_sys(err, "%.160s", dir));
	if (strchr(root, '\n') != NULL)
		return (sbx_err_set(err, SBX_E_SYNTAX, "the directory's name "
		    "has a newline"));
	sbx_homes_find(&homes, cli->home);
	return (sbx_homes_open_root(&homes, root, &fd, err));
}

/* Where the token called local is, itself. */
static void
local_path(const struct tokens *t, char path[PATH_MAX + 16])
{
	(void)snprintf(path, PATH_MAX + 16, "%s/token-local",
	    t->cli->paths.etc);
}

/* Shown once, on standard output; what is kept is its digest. */
static int
token_make(struct tokens *t, const char *name, const char *root,
    struct sbx_err *err)
{
	bool local = strcmp(name, SBX_TOKEN_LOCAL) == 0;
	char token[SBX_TOKEN_SIZE], sha256[SBX_SHA256_HEX + 1];
	char path[PATH_MAX + 16];
	size_t len;
	int r;

	if (!sbx_token_name(name))
		return (sbx_err_set(err, SBX_E_SYNTAX, "a token's name is a "
		    "letter or digit and up to 57 of letters, digits, '.', "
		    "'_' and '-'"));
	if (find(t, name, &len) != NULL)
		return (sbx_err_set(err, SBX_E_EXISTS, "there is a token %s "
		    "already: sbx token rm %s", name, name));
	sbx_token_new(token, sha256);
	(void)sbx_buf_printf(&t->text, "%s %s%s%s\n", name, sha256,
	    root[0] != '\0' ? " " : "", root);
	if (t->text.overflow || sbx_tokens_check(t->text.data,
	    t->text.len) != 0)
		return (sbx_err_set(err, SBX_E_LIMIT, "there are %u tokens at "
		    "most", SBX_MAX_TOKENS));
	local_path(t, path);
	if ((local && (r = sbx_token_save(path, token, err)) != 0) ||
	    (r = tokens_write(t, &t->text, err)) != 0)
		return (r);
	printf("%s\n", token);
	fprintf(stderr, "sbx: token %s was added%s%s%s\n", name, local ?
	    ", and is in " : "", local ? path : "", root[0] != '\0' ?
	    "; a suite that runs lets it copy after its next start" : "");
	return (0);
}

static int
token_add(struct tokens *t, int argc, char **argv, struct sbx_err *err)
{
	static const struct option longs[] = {
		{ "copy-root", required_argument, NULL, 'r' }, { 0 } };
	char root[PATH_MAX] = "";
	int ch, r;

	optind = 0;
	while ((ch = getopt_long(argc, argv, "", longs, NULL)) != -1)
		if (ch != 'r')
			return (CLI_SYNTAX);
		else if ((r = take_root(t->cli, optarg, root, err)) != 0)
			return (r);
	if (argc - optind != 1)
		return (CLI_SYNTAX);
	return (token_make(t, argv[optind], root, err));
}

static int
token_list(struct tokens *t, int argc, char **argv, struct sbx_err *err)
{
	const char *text = t->text.data != NULL ? t->text.data : "";
	struct sbx_token_reader r = { text, text + t->text.len, 0 };
	struct sbx_token one;

	(void)argv, (void)err;
	if (argc != 1)
		return (CLI_SYNTAX);
	while (sbx_token_next(&r, &one) == 1)
		printf("%s%s%s\n", one.name, one.root[0] != '\0' ? " " : "",
		    one.root);
	return (0);
}

static int
token_rm(struct tokens *t, int argc, char **argv, struct sbx_err *err)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	const char *line;
	char path[PATH_MAX + 16];
	size_t len = 0, at;
	int r;

	if (argc != 2)
		return (CLI_SYNTAX);
	if ((line = find(t, argv[1], &len)) == NULL)
		return (sbx_err_set(err, SBX_E_NOENT, "there is no token "
		    "%.64s", argv[1]));
	at = (size_t)(line - t->text.data);
	sbx_buf_init(&b, SBX_TOKENS_FILE);
	(void)sbx_buf_add(&b, t->text.data, at);
	(void)sbx_buf_add(&b, line + len, t->text.len - at - len);
	if ((r = tokens_write(t, &b, err)) != 0)
		return (r);
	local_path(t, path);
	if (strcmp(argv[1], SBX_TOKEN_LOCAL) == 0 && unlink(path) == -1 &&
	    errno != ENOENT)
		return (sbx_err_sys(err, "%.160s", path));
	fprintf(stderr, "sbx: token %s was removed\n", argv[1]);
	return (0);
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
	struct tokens t = { .cli = cli, .fd = -1 };
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
