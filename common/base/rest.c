#include "common/base/rest.h"

#include <stddef.h>
#include <string.h>

#define ISSUES(way) "{\"issues\":\"" way "\",\"pull_requests\":\"" way "\"," \
	"\"metadata\":\"read\"}"
#define PULLS(way) "{\"pull_requests\":\"" way "\",\"metadata\":\"read\"}"

/* An issue may be a pull request, whose comments are read by the one path and
 * need the other's permission. */
static const struct sbx_rest rows[SBX_REST_OP_MAX] = {
	[SBX_REST_REPO] = { "repo_view", "GET", "", false, false, 200,
	    "{\"metadata\":\"read\"}" },
	[SBX_REST_ISSUE] = { "issue_view", "GET", "/issues/:n", false, false,
	    200, ISSUES("read") },
	[SBX_REST_ISSUE_COMMENTS] = { "issue_comments", "GET",
	    "/issues/:n/comments", true, false, 200, ISSUES("read") },
	[SBX_REST_PULL] = { "pr_view", "GET", "/pulls/:n", false, false, 200,
	    PULLS("read") },
	[SBX_REST_REVIEWS] = { "pr_reviews", "GET", "/pulls/:n/reviews", true,
	    false, 200, PULLS("read") },
	[SBX_REST_REVIEW_COMMENTS] = { "pr_comments", "GET",
	    "/pulls/:n/comments", true, false, 200, PULLS("read") },
	[SBX_REST_CHECK_RUNS] = { "check_runs", "GET",
	    "/commits/:t/check-runs", true, false, 200,
	    "{\"checks\":\"read\",\"metadata\":\"read\"}" },
	[SBX_REST_STATUS] = { "commit_status", "GET", "/commits/:t/status",
	    true, false, 200,
	    "{\"statuses\":\"read\",\"metadata\":\"read\"}" },
	[SBX_REST_PULLS_OF] = { "pulls_of", "GET",
	    "/pulls?state=open&head=:o%3A:b", false, false, 200,
	    PULLS("read") },
	[SBX_REST_ISSUE_CREATE] = { "issue_create", "POST", "/issues", false,
	    true, 201, "{\"issues\":\"write\",\"metadata\":\"read\"}" },
	[SBX_REST_ISSUE_COMMENT] = { "issue_comment", "POST",
	    "/issues/:n/comments", false, true, 201, ISSUES("write") },
	[SBX_REST_REVIEW_CREATE] = { "review_create", "POST",
	    "/pulls/:n/reviews", false, true, 200, PULLS("write") },
	[SBX_REST_PULL_CREATE] = { "pull_create", "POST", "/pulls", false,
	    true, 201, PULLS("write") },
};

bool
sbx_rest_branch_ok(const char *s)
{
	size_t len = strlen(s), i;

	if (len == 0 || len > 244 || *s == '-' || *s == '/' || *s == '.' ||
	    s[len - 1] == '/' || s[len - 1] == '.' ||
	    strcmp(s, "@") == 0)
		return (false);
	for (i = 0; i < len; i++)
		if ((unsigned char)s[i] <= ' ' || s[i] == 0x7f ||
		    strchr("~^:?*[\\", s[i]) != NULL ||
		    (s[i] == '.' && (s[i + 1] == '.' ||
		    (i > 0 && s[i - 1] == '/'))) ||
		    (strncmp(s + i, ".lock", 5) == 0 &&
		    (s[i + 5] == '\0' || s[i + 5] == '/')) ||
		    (s[i] == '/' && s[i + 1] == '/') ||
		    (s[i] == '@' && s[i + 1] == '{'))
			return (false);
	return (true);
}

bool
sbx_rest_page_ok(uint32_t page)
{
	const uint32_t n = page < SBX_REST_SMALL ? page : page - SBX_REST_SMALL;

	return (n > 0 && n <= SBX_REST_PAGE_MAX);
}

const struct sbx_rest *
sbx_rest_row(unsigned op)
{
	return (op < SBX_REST_OP_MAX ? &rows[op] : NULL);
}
