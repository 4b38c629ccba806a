#ifndef SBX_BROKER_SOURCES_H
#define SBX_BROKER_SOURCES_H

/*
 * Where credentials come from, as sbx.conf(5) names them.  Their files are
 * opened once, before the cage.  One that cannot be used stays in the table
 * with the reason, and is told of when it would have been used.
 */

#include "common/base/base.h"
#include "common/proto/proto.h"

#include <openssl/types.h>
#include <sys/stat.h>

#define SOURCES_MAX 64u		/* BROKER_START.sources */
#define SOURCE_GITHUB "github.com"
#define SOURCE_KEY_MAX 16384u	/* bytes of a key's file */
#define SOURCE_TOKEN_MAX 4096u	/* of a token's, white space included */

struct token;

#define SOURCE_COMMAND_S 300u	/* github_token_timeout, at most */

/* In the order in which those of a host are asked. */
enum source_kind { SOURCE_COMMAND, SOURCE_APP, SOURCE_TOKEN, SOURCE_KIND_MAX };
const char *source_kind_name(enum source_kind kind);

struct source {
	enum source_kind kind;
	char host[254];		/* canonical; of git */
	char api_host[254];
	const char *prefix;	/* static: of all paths of its API */
	char app[65];		/* APP: what signs, an id or a client id */
	uint64_t installation;
	unsigned within_s;	/* COMMAND: one run of it */
	char file[256];		/* its name, for what a human reads */
	int fd;			/* O_PATH of that; -1: it was not there */
	struct stat was;	/* before it was read */
	EVP_PKEY *key;		/* APP; owned */
	char fingerprint[56];
	struct token *token;	/* TOKEN; a reference */
	char bad[256];		/* "": usable, else why not */
	uint64_t asked_wall_ns;	/* it was last, 0: never; why: it gave none, */
	char why[160];		/* or the host took none; "": all was well */
};
struct sources {
	struct source s[SOURCES_MAX];
	unsigned n;
	bool signs;		/* publish_signing_key is set: */
	struct source signer;	/* its file and key, or why it is bad, */
	char signer_line[96];	/* and the public half (sshsig.h) */
};

/* Lines "KEYWORD VALUE".  0, SBX_E_SYNTAX, SBX_E_LIMIT: the monitor said what
 * it cannot mean, SBX_E_SYS: libcrypto has no locked memory for keys; err
 * set. */
int sources_read(struct sources *all, const struct sbx_strs *lines,
    struct sbx_err *err);
void sources_clear(struct sources *all);
/* The next of that host behind `after` (NULL: the first), in the order of
 * kinds; usable or not.  NULL: no other. */
const struct source *sources_next(const struct sources *all, const char *host,
    const struct source *after);
/* Is its file another than was read, in place or by name? */
bool source_changed(const struct source *s);
/* How it went with one of them now; why NULL: well. */
void source_said(struct sources *all, const struct source *s,
    const char *why);
/* The API of a git host. */
const char *source_api_host(const char *host, char buf[254]);
const char *source_api_prefix(const char *host);

#endif
