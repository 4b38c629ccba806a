#include "common/base/token.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

bool
sbx_token_name(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return (n > 0 && n <= SBX_MAX_TOKEN_NAME && s[n] == '\0' &&
	    strchr("._-", s[0]) == NULL);
}

/* The next word; false: it is longer than dst. */
static bool
take(const char **p, const char *end, char stop, char *dst, size_t size)
{
	const char *e = memchr(*p, stop, (size_t)(end - *p));
	size_t n = (size_t)((e != NULL ? e : end) - *p);

	if (n >= size)
		return (false);
	memcpy(dst, *p, n);
	dst[n] = '\0';
	*p += n + (e != NULL);
	return (true);
}

static bool
parse_line(const char *p, const char *end, struct sbx_token *ret)
{
	return (memchr(p, '\0', (size_t)(end - p)) == NULL &&
	    take(&p, end, ' ', ret->name, sizeof(ret->name)) &&
	    take(&p, end, ' ', ret->sha256, sizeof(ret->sha256)) &&
	    take(&p, end, '\n', ret->root, sizeof(ret->root)) &&
	    sbx_token_name(ret->name) &&
	    sbx_is_hex(ret->sha256, SBX_SHA256_HEX));
}

int
sbx_token_next(struct sbx_token_reader *r, struct sbx_token *ret)
{
	const char *p, *end;

	while (r->p < r->end) {
		p = r->p;
		end = memchr(p, '\n', (size_t)(r->end - p));
		r->p = end == NULL ? r->end : end + 1;
		r->line++;
		if (end == NULL)
			end = r->end;
		if (p < end && *p != '#')
			return (parse_line(p, end, ret) ? 1 : SBX_E_SYNTAX);
	}
	return (0);
}

unsigned
sbx_tokens_check(const char *text, size_t len)
{
	struct sbx_token_reader r = { text, text + len, 0 };
	struct sbx_token t;
	unsigned n = 0;
	int got;

	while ((got = sbx_token_next(&r, &t)) == 1)
		if (++n > SBX_MAX_TOKENS)
			return (r.line);
	return (got == 0 ? 0 : r.line);
}

void
sbx_token_new(char token[SBX_TOKEN_SIZE], char sha256[SBX_SHA256_HEX + 1])
{
	struct sbx_sha256 sum;

	memcpy(token, "sbx_", 5);
	sbx_random_hex(token + 4, 32);
	sbx_sha256_init(&sum);
	sbx_sha256_add(&sum, token, strlen(token));
	sbx_sha256_end(&sum, sha256);
}

int
sbx_token_save(const char *path, const char *token, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) fd = open(path, O_WRONLY | O_CREAT | O_TRUNC |
	    O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd == -1 || fchmod(fd, 0600) == -1 ||
	    sbx_write_all(fd, token, strlen(token)) != 0 ||
	    sbx_write_all(fd, "\n", 1) != 0)
		return (sbx_err_sys(err, "%.160s", path));
	return (0);
}
