#ifndef SBX_BASE_TOKEN_H
#define SBX_BASE_TOKEN_H

/*
 * Bearer tokens of MCP over HTTP.  ETC/tokens has their digests, a line each:
 * NAME SHA256 [DIRECTORY]; empty lines and those that begin with # are
 * comments.  ETC/token-local has the one that is called local, itself.
 */

#include "common/base/base.h"
#include "common/base/limits.h"
#include "common/base/sha256.h"

#include <limits.h>

#define SBX_TOKENS_FILE (64u << 10)	/* bytes of it, at most */
#define SBX_TOKEN_LOCAL "local"
#define SBX_TOKEN_SIZE 80		/* of one, with NUL */

struct sbx_token {
	char name[SBX_MAX_TOKEN_NAME + 1];
	char sha256[SBX_SHA256_HEX + 1];
	char root[PATH_MAX];			/* "": no directory */
};

struct sbx_token_reader {
	const char *p, *end;
	unsigned line;		/* of what was read last; begins at 0 */
};

/* Of path, line, SBX_MAX_TOKENS. */
#define SBX_TOKEN_BAD_LINE "%.128s:%u: each line must be NAME SHA256 " \
	"[DIRECTORY], %u at most"

/* A letter or digit, then those and '.', '_', '-'. */
bool sbx_token_name(const char *s);
/* The next that is no comment.  1, 0 at the end, SBX_E_SYNTAX. */
int sbx_token_next(struct sbx_token_reader *r, struct sbx_token *ret);
/* The line that is none, or one too many; 0: all are good. */
unsigned sbx_tokens_check(const char *text, size_t len);
/* A new one, and its digest. */
void sbx_token_new(char token[SBX_TOKEN_SIZE],
    char sha256[SBX_SHA256_HEX + 1]);
/* Into path, which its user alone can read.  0, SBX_E_SYS. */
int sbx_token_save(const char *path, const char *token, struct sbx_err *err);

#endif
