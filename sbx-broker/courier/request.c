#include "sbx-broker/courier/request.h"

#include "sbx-broker/courier/courier.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *
request_service(const struct request_grant *g)
{
	return (g->op == SBX_GRANT_PUSH ? "git-receive-pack" :
	    "git-upload-pack");
}

/* Take s from the front of t, whatever its case. */
static bool
skip(struct sbx_text *t, const char *s)
{
	size_t n = strlen(s);

	if (t->len < n || strncasecmp(t->p, s, n) != 0)
		return (false);
	t->p += n;
	t->len -= n;
	return (true);
}

static bool
host_fits(const struct request_grant *g, struct sbx_text host)
{
	char port[8];

	if (!skip(&host, g->host))
		return (false);
	if (host.len == 0)
		return (true);
	(void)snprintf(port, sizeof(port), ":%u", g->port);
	return (sbx_text_is(host, port));
}

/* Of the granted repository, in any case of its letters: the path that goes
 * on is written anew. */
static bool
path_fits(const struct request_grant *g, struct sbx_text path, bool rpc,
    bool *ret_dot_git)
{
	if (!skip(&path, "/") || !skip(&path, g->repo))
		return (false);
	*ret_dot_git = skip(&path, ".git");
	if (path.len == 0 || *path.p != '/')
		return (false);
	path.p++;
	path.len--;
	return (sbx_text_is(path, rpc ? request_service(g) : "info/refs"));
}

static bool
query_fits(const struct request_grant *g, struct sbx_text query, bool rpc)
{
	if (rpc)
		return (query.p == NULL);
	return (skip(&query, "service=") &&
	    sbx_text_is(query, request_service(g)));
}

static const char *
judge_target(const struct request_grant *g, const struct sbx_http_head *h,
    struct request *r)
{
	r->rpc = sbx_text_is(h->method, "POST");
	if (!r->rpc && !sbx_text_is(h->method, "GET"))
		return ("its method is neither GET nor POST");
	if (h->form != SBX_HTTP_ORIGIN || !host_fits(g, h->host))
		return ("it is for another host than the granted one");
	if (!path_fits(g, h->path, r->rpc, &r->dot_git))
		return ("its path is not of the granted repository and "
		    "service");
	if (!query_fits(g, h->query, r->rpc))
		return ("its query is not of the granted service");
	return (NULL);
}

static const char *
judge_body(const struct request_grant *g, const struct sbx_http_head *h,
    struct request *r)
{
	unsigned n;
	struct sbx_text type = sbx_http_header(h, "content-type", NULL);
	struct sbx_text coding = sbx_http_header(h, "content-encoding", &n);
	char want[64];

	if (!r->rpc)
		return (h->chunked || h->length > 0 ? "it has a body" : NULL);
	if (!h->chunked && !h->has_length)
		return ("it has no body");
	(void)snprintf(want, sizeof(want), "application/x-%s-request",
	    request_service(g));
	if (!sbx_text_is(type, want))
		return ("its Content-Type is not of the granted service");
	if (n > 1)
		return ("it has more than one Content-Encoding");
	r->gzip = sbx_text_is_nocase(coding, "gzip");
	if (n == 1 && !r->gzip && !sbx_text_is_nocase(coding, "identity"))
		return ("its Content-Encoding is neither gzip nor identity");
	if (r->gzip && g->op == SBX_GRANT_PUSH)
		return ("it is a push that is compressed");
	return (NULL);
}

const char *
request_judge(const struct request_grant *g, const struct sbx_http_head *h,
    struct request *ret)
{
	unsigned n;
	struct sbx_text protocol = sbx_http_header(h, "git-protocol", &n);
	const char *why;

	*ret = (struct request){ 0 };
	if ((why = judge_target(g, h, ret)) != NULL ||
	    (why = judge_body(g, h, ret)) != NULL)
		return (why);
	if (n > 1)
		return ("it has more than one Git-Protocol");
	if (sbx_text_is(protocol, "version=1") ||
	    sbx_text_is(protocol, "version=2"))
		ret->protocol = protocol.p[protocol.len - 1];
	return (NULL);
}

char *
request_path(const struct request_grant *g, const struct request *r)
{
	const char *dot_git = r->dot_git ? ".git" : "";

	if (r->rpc)
		return (sbx_xasprintf("/%s%s/%s", g->repo, dot_git,
		    request_service(g)));
	return (sbx_xasprintf("/%s%s/info/refs?service=%s", g->repo, dot_git,
	    request_service(g)));
}

bool
request_location_is_good(const struct request_grant *g,
    const struct request *r, struct sbx_text location)
{
	char repo[160], tail[80];
	const char *end;
	size_t n = 0;

	(void)snprintf(tail, sizeof(tail), r->rpc ? "/%s" :
	    "/info/refs?service=%s", request_service(g));
	if (!skip(&location, "https://") || !skip(&location, g->host) ||
	    !skip(&location, "/"))
		return (false);
	if (location.len <= strlen(tail) || location.len >= sizeof(repo))
		return (false);
	end = location.p + location.len - strlen(tail);
	if (memcmp(end, tail, strlen(tail)) != 0)
		return (false);
	n = (size_t)(end - location.p);
	memcpy(repo, location.p, n);
	repo[n] = '\0';
	return (strlen(repo) == n && courier_repo_is_good(repo));
}
