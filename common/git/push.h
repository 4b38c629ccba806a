#ifndef SBX_GIT_PUSH_H
#define SBX_GIT_PUSH_H

/*
 * The head of a git-receive-pack request: what it wants to change, before a
 * byte of it goes upstream.  Judged against the one change that was granted.
 * Source: gitprotocol-common(5), gitprotocol-pack(5) (reference update
 * request, report status), git-check-ref-format(1).
 */

#include <stdbool.h>
#include <stddef.h>

struct sbx_buf;

#define PUSH_OID_MAX 64u	/* hexadecimal digits: SHA-1 40, SHA-256 64 */
#define PUSH_REF_MAX 255u	/* bytes of a ref's name */
#define PUSH_HEAD_MAX 131072u	/* bytes of all that stands before the pack */

struct push_grant {
	char ref[PUSH_REF_MAX + 1];	/* "refs/heads/NAME" */
	char new_id[PUSH_OID_MAX + 1];
	char old_id[PUSH_OID_MAX + 1];	/* of the ref as the judge saw it; all
					 * zeros: it is new */
	bool force;			/* any old id will do */
};

/*
 * The n bytes at p are the beginning of the request's body.  *ret_used: the
 * bytes of commands; a pack, or nothing, follows.  Push options and signed pushes
 * are never what was granted.
 * 0: exactly the one granted change; SBX_E_AGAIN: more bytes are needed;
 * SBX_E_POLICY: it reads well but is not what was granted; SBX_E_SYNTAX.
 * *ret_why says what, for a human, and is valid in both cases.
 */
int push_judge(const char *p, size_t n, const struct push_grant *grant,
    size_t *ret_used, const char **ret_why);

/*
 * An answer to a push that push_judge() refused with SBX_E_POLICY, n bytes at p
 * being what it read: for git's user, who sees no other text of ours (why,
 * beside each ref, and on standard error with mend; both without full stop).
 * false: the client did not ask for one that we can write, or it would be
 * longer than PUSH_REPORT_MAX; what is in out is nothing then.
 */
bool push_report(const char *p, size_t n, const char *why, const char *mend,
    struct sbx_buf *out);

#define PUSH_REPORT_MAX 65000u	/* bytes, which one packet takes; more refs
				 * are refused by status */
#define PUSH_BLOCKED "BLOCKED by sbx: "

/* Is it a ref that git takes, below refs/heads/ or refs/tags/, in full? */
bool push_ref_is_good(const char *ref);
/* NULL: a ref may be changed like that; else why not, static, without full stop.
 * Ids of one kind, old_id of zeros alone where the ref is new; no deletion. */
const char *push_change_fault(const char *ref, const char *old_id,
    const char *new_id);

#endif
