#ifndef SBX_BROKER_TOKEN_H
#define SBX_BROKER_TOKEN_H

/*
 * Tokens of hosts: what they look like, and the cache of those that were
 * minted.
 */

#include "common/base/secret.h"

#include <sys/queue.h>

#define TOKEN_MAX 2048u
#define TOKEN_MIN 20u
/* One is used no more so long before it expires. */
#define TOKEN_MARGIN_S 300u
/* And none for longer than this, whatever its host says: GitHub's are good for
 * an hour. */
#ifndef BROKER_HASTY
#define TOKEN_KEEP_S 3300u
#else
#define TOKEN_KEEP_S 2u		/* tests have less patience */
#endif

struct source;

struct token {
	LIST_ENTRY(token) link;		/* while it is in the cache */
	unsigned refs;
	bool cached;
	const char *retired;		/* static: why it is to be revoked by
					 * the last one who has it; or NULL */
	struct sbx_secret *secret;	/* owned */
	uint64_t number;		/* of its mint, 0: it was not minted */
	const struct source *source;	/* borrowed */
	char repo[141];
	const char *permissions;	/* static */
	uint64_t until_ns;		/* monotonic: then it is used no more, */
	uint64_t expires_ns;		/* and is worth nothing any more */
};
LIST_HEAD(token_list, token);
struct tokens {
	struct token_list list;		/* newest first; a reference each */
	unsigned n;
	uint64_t minted;		/* in all: the next one's number - 1 */
};

/* NULL, or what is wrong with it; of the host, whose own tokens are known by
 * their beginning. */
const char *token_check(const char *host, const char *text, size_t len);
/* secret: consumed.  One reference, the caller's. */
struct token *token_new(struct sbx_secret *secret, const struct source *s);
struct token *token_ref(struct token *t);
void token_unref(struct token *t);	/* NULL ok; the last one zeroes it */

/* A reference goes to the cache. */
void tokens_keep(struct tokens *c, struct token *t);
struct token *tokens_oldest(const struct tokens *c);	/* NULL: none */
/* The one that is good at `now`, borrowed; NULL. */
struct token *tokens_find(struct tokens *c, const char *host,
    const char *repo, const char *permissions, uint64_t now_ns);
/* It leaves the cache, with its reference.  NULL ok. */
void tokens_drop(struct tokens *c, struct token *t);

#endif
