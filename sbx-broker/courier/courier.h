#ifndef SBX_COURIER_COURIER_H
#define SBX_COURIER_COURIER_H

/* What the parts of a courier share: its one job, and what became of it. */

#include "common/proto/wire.h"
#include "sbx-broker/courier/canary.h"

#define COURIER_SECRET_MAX 2048u
#define COURIER_REASON_MAX 255u

/* All that is secret, in memory that is locked. */
struct courier_secret {
	char token[COURIER_SECRET_MAX + 1];	/* or the JWT of a mint */
	char user[64];				/* "": Bearer, not Basic */
	size_t len;				/* of token; 0: there is none */
	char header[4096];			/* "Authorization: ..." or "" */
	struct canary canary;
};

/* What COURIER_OVER says, and COURIER_MINTED. */
struct courier_end {
	const char *code;		/* NULL: it went well */
	char reason[COURIER_REASON_MAX + 1];
	unsigned status;
	uint64_t out_bytes, in_bytes;
	uint32_t next_page;
	uint64_t retry_s;
	bool minted;			/* the token of the secret is new */
};

struct courier {
	struct courier_secret *secret;
	int channel;			/* borrowed: its end is ours */
	uint64_t by_ns;			/* the end of all; 0: the job's own */
	struct courier_end end;
};

/* The first cause counts.  Returns false. */
bool courier_fail(struct courier *c, const char *code, const char *fmt, ...)
    SBX_PRINTF(3, 4);
/* What goes to the host now may change something there: the broker is told.
 * False: it cannot be, and nothing may go. */
bool courier_begun(struct courier *c);
/* enum sbx_error of a code word; NULL: 0. */
int courier_error(const char *code);
/* The word of a status of HTTP that is no success, and what it means. */
const char *courier_status_code(unsigned status, const char **ret_why);

/* Names that can stand in a URL as they are. */
bool courier_host_is_good(const char *host);
bool courier_repo_is_good(const char *repo);	/* "OWNER/NAME" */
bool courier_prefix_is_good(const char *prefix);	/* "" or "/a/b" */

/* The jobs.  in: the message, its descriptors owned by it.  What became of it
 * is in c->end. */
void courier_git(struct courier *c, struct sbx_in *in);
void courier_rest(struct courier *c, struct sbx_in *in);
void courier_revoke(struct courier *c, struct sbx_in *in);
/* *ret_expires: wall clock, seconds.  The new token takes the place of what
 * was in c->secret. */
void courier_mint(struct courier *c, struct sbx_in *in, uint64_t *ret_expires);

#endif
