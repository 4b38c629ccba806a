#include "sbx-proxy/gate.h"

#include <string.h>

#define PARTS_MAX 32u		/* segments of a path that is looked at */

/*
 * path: segments of which ":o" is an account, ":r" a repository (with or
 * without ".git"), ":g" the same for git, "*" any one, "**" any that follow,
 * one at least.  query: exactly that, NULL: none, "*": any.
 */
struct shape {
	const char *host, *methods, *path, *query;
	enum gate_class class;
};

#define GIT "/:o/:r/"
#define GIT_SHAPES(host) \
	{ host, "GET", GIT "info/refs", "service=git-upload-pack", \
	    GATE_GIT_READ }, \
	{ host, "POST", GIT "git-upload-pack", NULL, GATE_GIT_READ }, \
	{ host, "GET", GIT "info/refs", "service=git-receive-pack", \
	    GATE_GIT_WRITE }, \
	{ host, "POST", GIT "git-receive-pack", NULL, GATE_GIT_WRITE }

static const struct shape git_shapes[] = { GIT_SHAPES("") };
static const struct shape shapes[] = {
	GIT_SHAPES("github.com"),
	{ "github.com", "GET HEAD", "/:o/:r/releases/download/*/*", NULL,
	    GATE_ASSET },
	{ "github.com", "GET HEAD", "/:o/:r/archive/**", NULL, GATE_ASSET },
	{ "github.com", "GET HEAD", "/:o/:r/raw/**", NULL, GATE_ASSET },
	{ "codeload.github.com", "GET HEAD", "/:o/:r/**", NULL, GATE_ASSET },
	{ "raw.githubusercontent.com", "GET HEAD", "/:o/:r/**", "*",
	    GATE_ASSET },
	{ "objects.githubusercontent.com", "GET HEAD", "/**", "*",
	    GATE_ASSET },
	{ "release-assets.githubusercontent.com", "GET HEAD", "/**", "*",
	    GATE_ASSET },
	{ "api.github.com", "GET HEAD", "/repos/:o/:r", "*", GATE_API_READ },
	{ "api.github.com", "GET HEAD", "/repos/:o/:r/**", "*",
	    GATE_API_READ },
	{ "api.github.com", "POST PUT PATCH DELETE", "/repos/:o/:r/**", "*",
	    GATE_API_WRITE },
	{ "api.github.com", "POST", "/graphql", NULL, GATE_GRAPHQL },
};

static const char *const names[GATE_CLASS_MAX] = {
	[GATE_DENIED] = "denied", [GATE_GIT_READ] = "git read",
	[GATE_GIT_WRITE] = "git write", [GATE_API_READ] = "API read",
	[GATE_API_WRITE] = "API write", [GATE_GRAPHQL] = "GraphQL",
	[GATE_ASSET] = "asset",
};

const char *
gate_name(enum gate_class class)
{
	return (class < GATE_CLASS_MAX ? names[class] : "unknown");
}

/* --- the path -------------------------------------------------------------------- */

static bool
part_is_good(struct sbx_text t)
{
	size_t i;

	if (t.len == 0 || sbx_text_is(t, ".") || sbx_text_is(t, ".."))
		return (false);
	for (i = 0; i < t.len; i++)
		if (!((t.p[i] >= 'a' && t.p[i] <= 'z') ||
		    (t.p[i] >= 'A' && t.p[i] <= 'Z') ||
		    (t.p[i] >= '0' && t.p[i] <= '9') ||
		    strchr("-._~+@,:", t.p[i]) != NULL) || t.p[i] == '\0')
			return (false);
	return (true);
}

/*
 * Into segments.  Nothing that two readers could take for two paths: no
 * encoding, no empty segment, no dots.  false: it is not such a path.
 */
static bool
split(struct sbx_text path, struct sbx_text parts[PARTS_MAX], size_t *ret_n)
{
	const char *p = path.p, *end = path.p + path.len, *slash;
	size_t n = 0;

	while (p < end && *p == '/' && n < PARTS_MAX) {
		p++;
		slash = memchr(p, '/', (size_t)(end - p));
		parts[n].p = p;
		parts[n].len = (size_t)((slash == NULL ? end : slash) - p);
		if (!part_is_good(parts[n]))
			return (false);
		p += parts[n++].len;
	}
	*ret_n = n;
	return (p == end && n > 0);
}

/* In lower case: GitHub's names are equal whatever their case. */
static bool
take_name(struct sbx_text t, const char *set, size_t max, char *ret_name)
{
	size_t i;

	if (t.len == 0 || t.len > max)
		return (false);
	for (i = 0; i < t.len; i++) {
		char ch = t.p[i];

		if (ch >= 'A' && ch <= 'Z')
			ch += 'a' - 'A';
		if (strchr(set, ch) == NULL || ch == '\0')
			return (false);
		ret_name[i] = ch;
	}
	ret_name[t.len] = '\0';
	return (true);
}

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789-"

static bool
take_repo(struct sbx_text t, char *ret_repo)
{
	if (t.len > 4 && memcmp(t.p + t.len - 4, ".git", 4) == 0)
		t.len -= 4;
	return (take_name(t, LOWER "._", GATE_REPO_MAX, ret_repo) &&
	    strcmp(ret_repo, ".") != 0 && strcmp(ret_repo, "..") != 0);
}

/* Does the segment fit the one of the shape? */
static bool
part_fits(const char *want, size_t len, struct sbx_text part, struct gate *g)
{
	if (len == 2 && memcmp(want, ":o", 2) == 0)
		/* "_": of accounts that an enterprise manages */
		return (take_name(part, LOWER "_", GATE_OWNER_MAX, g->owner));
	if (len == 2 && memcmp(want, ":r", 2) == 0)
		return (take_repo(part, g->repo));
	if (len == 1 && *want == '*')
		return (true);
	return (part.len == len && memcmp(part.p, want, len) == 0);
}

static bool
path_fits(const char *shape, const struct sbx_text *parts, size_t n,
    struct gate *g)
{
	const char *p = shape;
	size_t i, len;

	for (i = 0; *p == '/'; i++, p += len) {
		len = strcspn(++p, "/");
		if (i == n)
			return (false);
		if (len == 2 && memcmp(p, "**", 2) == 0)
			return (true);
		if (!part_fits(p, len, parts[i], g))
			return (false);
	}
	return (i == n);
}

/* --- the rest ---------------------------------------------------------------------- */

static bool
method_fits(const char *methods, struct sbx_text method)
{
	size_t len;

	for (; *methods != '\0'; methods += len + (methods[len] == ' ')) {
		len = strcspn(methods, " ");
		if (method.len == len && memcmp(methods, method.p, len) == 0)
			return (true);
	}
	return (false);
}

static bool
query_fits(const char *want, struct sbx_text query)
{
	if (want == NULL)
		return (query.p == NULL);
	return (strcmp(want, "*") == 0 ||
	    (query.p != NULL && sbx_text_is(query, want)));
}

static bool
is_lfs(const struct sbx_text *parts, size_t n)
{
	return (n > 3 && sbx_text_is(parts[2], "info") &&
	    sbx_text_is(parts[3], "lfs"));
}

/* The first of the n shapes for that host that fits; why: none does. */
static void
classify(const struct shape *s, size_t n, const char *host,
    const struct sbx_http_head *h, const char *why, struct gate *g)
{
	struct sbx_text parts[PARTS_MAX];
	size_t nparts;

	*g = (struct gate){ .why = "the path is not written in its plain "
	    "form" };
	if (!split(h->path, parts, &nparts))
		return;
	for (; n > 0; s++, n--) {
		*g = (struct gate){ .why = NULL };
		if (strcmp(s->host, host) != 0 ||
		    !method_fits(s->methods, h->method) ||
		    !query_fits(s->query, h->query) ||
		    !path_fits(s->path, parts, nparts, g))
			continue;
		g->class = s->class;
		return;
	}
	*g = (struct gate){ .why = is_lfs(parts, nparts) ? "Git LFS is not "
	    "passed: its answers carry credentials" : why };
}

void
gate_classify(const struct host *host, const struct sbx_http_head *h,
    struct gate *ret_gate)
{
	classify(shapes, SBX_NELEM(shapes), host->text, h, "it is none of the "
	    "requests that sandboxes may make of GitHub", ret_gate);
}

void
gate_classify_git(const struct sbx_http_head *h, struct gate *ret_gate)
{
	classify(git_shapes, SBX_NELEM(git_shapes), "", h, "it is none of "
	    "git's requests, and this host is for git alone", ret_gate);
	if (ret_gate->class != GATE_GIT_WRITE)
		return;
	for (size_t i = 0; i < h->path.len; i++)
		if (h->path.p[i] >= 'A' && h->path.p[i] <= 'Z') {
			*ret_gate = (struct gate){ .why = "the repository of a "
			    "push is not named in lower case" };
			return;
		}
}
