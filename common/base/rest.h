#ifndef SBX_BASE_REST_H
#define SBX_BASE_REST_H

/*
 * The requests of GitHub's REST API that the suite makes, and no other: one
 * row each, from which the monitor decides, the broker chooses the token and
 * the courier builds the request line.
 * Source: GitHub REST API, version 2022-11-28.
 */

#include <stdbool.h>
#include <stdint.h>

enum sbx_rest_op {
	SBX_REST_REPO, SBX_REST_ISSUE, SBX_REST_ISSUE_COMMENTS, SBX_REST_PULL,
	SBX_REST_REVIEWS, SBX_REST_REVIEW_COMMENTS, SBX_REST_CHECK_RUNS,
	SBX_REST_STATUS, SBX_REST_PULLS_OF,
	/* what follows writes */
	SBX_REST_ISSUE_CREATE, SBX_REST_ISSUE_COMMENT, SBX_REST_REVIEW_CREATE,
	SBX_REST_PULL_CREATE,
	SBX_REST_OP_MAX
};

/* A page: its number, from 1 on; and with this added, one of pages of ten, which
 * are for what has more text than an answer takes. */
#define SBX_REST_SMALL 65536u
#define SBX_REST_PAGE_MAX 10000u
#define SBX_REST_ITEMS 100u	/* of a page, */
#define SBX_REST_ITEMS_SMALL 10u /* and of a small one */
bool sbx_rest_page_ok(uint32_t page);

struct sbx_rest {
	const char *name;	/* for records: "issue_view" */
	const char *method;
	/* Below /repos/OWNER/NAME: ":n" is the number, ":o" OWNER, ":t" the
	 * text, which must be an object id (40 or 64 hexadecimal digits), ":b"
	 * the text, which must be a branch's name, percent-encoded. */
	const char *path;
	bool paged;		/* a page of its list goes with it */
	bool write;
	unsigned answer;	/* the status of a success */
	/* What a token needs for it: a JSON object for GitHub's
	 * "create an installation access token". */
	const char *permissions;
};
/* As git-check-ref-format(1) wants the name of a branch, at most 244 bytes of
 * it, and none that looks like an option. */
bool sbx_rest_branch_ok(const char *name);
/* NULL: there is no such op. */
const struct sbx_rest *sbx_rest_row(unsigned op);

/* The same of git itself. */
#define SBX_PERM_FETCH "{\"contents\":\"read\",\"metadata\":\"read\"}"
#define SBX_PERM_PUSH "{\"contents\":\"write\",\"metadata\":\"read\"}"

#endif
