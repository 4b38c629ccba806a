#include "sbx-broker/token.h"

#include "sbx-broker/sources.h"

#include <string.h>

/* Source: GitHub, "About authentication to GitHub", token formats. */
static bool
is_githubs(const char *text)
{
	static const char *const begins[] = { "ghs_", "ghp_", "github_pat_",
		"gho_", "ghu_" };
	size_t i;

	for (i = 0; i < SBX_NELEM(begins); i++)
		if (strncmp(text, begins[i], strlen(begins[i])) == 0)
			return (true);
	return (false);
}

/* Which byte is wrong is not told: it is somebody's secret. */
const char *
token_check(const char *host, const char *text, size_t len)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~+/=-";

	if (len == 0)
		return ("it is empty");
	if (len < TOKEN_MIN || len > TOKEN_MAX)
		return ("it has not the length of a token (20 to 2048 bytes)");
	if (strspn(text, letters) != len)
		return ("it has characters that no token has");
	if (strcmp(host, SOURCE_GITHUB) == 0 && !is_githubs(text))
		return ("it does not begin as GitHub's do (ghs_, ghp_, "
		    "github_pat_, gho_, ghu_)");
	return (NULL);
}

struct token *
token_new(struct sbx_secret *secret, const struct source *s)
{
	struct token *t = sbx_xcalloc(1, sizeof(*t));

	t->refs = 1;
	t->secret = secret;
	t->source = s;
	t->permissions = "";
	return (t);
}

struct token *
token_ref(struct token *t)
{
	t->refs++;
	return (t);
}

void
token_unref(struct token *t)
{
	if (t == NULL || --t->refs > 0)
		return;
	sbx_secret_free(t->secret);
	free(t);
}

void
tokens_drop(struct tokens *c, struct token *t)
{
	if (t == NULL || !t->cached)
		return;
	LIST_REMOVE(t, link);
	t->cached = false;
	c->n--;
	token_unref(t);
}

struct token *
tokens_oldest(const struct tokens *c)
{
	struct token *t, *oldest = NULL;

	LIST_FOREACH(t, &c->list, link)
		oldest = t;
	return (oldest);
}

void
tokens_keep(struct tokens *c, struct token *t)
{
	t->cached = true;
	(void)token_ref(t);	/* not in the macro, which would take several */
	LIST_INSERT_HEAD(&c->list, t, link);
	c->n++;
}

struct token *
tokens_find(struct tokens *c, const char *host, const char *repo,
    const char *permissions, uint64_t now_ns)
{
	struct token *t;

	LIST_FOREACH(t, &c->list, link)
		if (now_ns < t->until_ns && strcmp(t->source->host, host) == 0 &&
		    strcmp(t->repo, repo) == 0 &&
		    strcmp(t->permissions, permissions) == 0)
			return (t);
	return (NULL);
}
