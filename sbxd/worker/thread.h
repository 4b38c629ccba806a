#ifndef SBX_WORKER_THREAD_H
#define SBX_WORKER_THREAD_H

/*
 * What people wrote to an issue or a pull request, as a page of text.  Each of
 * them is quoted, so that no text can pass for a heading of ours.
 */

#include "sbxd/worker/github.h"

struct thread {
	struct sbx_buf text;	/* owned: thread_clear() */
	struct sbx_buf warnings;	/* each with its NUL; owned */
	uint64_t shown;		/* comments in text */
	bool more;		/* there are more than were fetched or fit */
};
void thread_init(struct thread *t);
void thread_clear(struct thread *t);

/* "# TITLE", a line of what it is, its URL, and the body.  what: "issue". */
int thread_head(struct thread *t, const struct gh_repo *r,
    struct json_object *o, const char *what);
/*
 * Fetch and add the comments, the reviews, the comments on lines.  A failure is
 * a warning when soft.  ret_list (NULL ok): what was fetched, owned by the
 * caller, NULL when it was not.  1, or as tool_fn.
 */
int thread_comments(struct call *call, struct thread *t,
    const struct gh_repo *r, uint64_t number);
int thread_reviews(struct call *call, struct thread *t,
    const struct gh_repo *r, uint64_t number,
    struct json_object **ret_list);
int thread_inline(struct call *call, struct thread *t,
    const struct gh_repo *r, uint64_t number);
/* gh_list() failed with r: a warning of it, and 1; not of the channel. */
int thread_soft(struct call *call, struct thread *t, int r);

/* Save it; the members file, size_bytes, comments, truncated, note, warnings. */
int thread_save(struct call *call, struct thread *t);

#endif
