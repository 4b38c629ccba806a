#include "sbxd/monitor/repos.h"

#include "common/base/limits.h"
#include "sbx-proxy/policy.h"

#include <stdio.h>
#include <string.h>

/* Names of hosts and repositories are in lower case here, as everywhere behind
 * the command line. */

#define OWNER_MAX 39
#define REPO_MAX 100
#define GIVEN "%d/"		/* systemd.exec(5), CREDENTIALS_DIRECTORY */
#define GIVEN_LEN (sizeof(GIVEN) - 1)

/* --- names ----------------------------------------------------------------- */

static bool
part_is_good(const char *s, size_t n, size_t max)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";

	return (n <= max && strspn(s, ".") < n && s[0] != '-' &&
	    strspn(s, set) >= n);
}

static bool
ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return (n > k && strcmp(s + n - k, end) == 0);
}

/* "owner/name", which is never written with git's ".git" */
static bool
repo_is_good(const char *s)
{
	size_t n = strcspn(s, "/");

	return (s[n] == '/' && part_is_good(s, n, OWNER_MAX) &&
	    !ends_with(s, ".git") && strcspn(s + n + 1, "/") == strlen(s + n + 1) &&
	    part_is_good(s + n + 1, strlen(s + n + 1), REPO_MAX));
}

static bool
host_is_good(const char *s)
{
	struct host h;

	return (host_read((struct sbx_text){ s, strlen(s) }, &h) == 0 &&
	    h.kind == HOST_NAME && strcmp(h.text, s) == 0);
}

bool
repos_is_one(const char *host, const char *repo)
{
	return (host_is_good(host) && repo_is_good(repo));
}

const char *
repos_api_host(const char *host)
{
	return (strcmp(host, SBX_GITHUB) == 0 ? SBX_GITHUB_API : host);
}

/* --- the lists -------------------------------------------------------------- */

struct entry {
	char text[SBX_CONF_STR_MAX + 160];
	const char *host, *repo;	/* in text; repo may be "owner/" + "*" */
};

/* "[HOST/]OWNER/NAME", as it may stand in a URL of git's; false: it is none. */
static bool
entry_read(const char *value, struct entry *e)
{
	char *first, *second;

	if (sbx_strlcpy(e->text, value, sizeof(e->text)) != 0)
		return (false);
	for (char *p = e->text; *p != '\0'; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p += 'a' - 'A';
	if ((first = strchr(e->text, '/')) == NULL)
		return (false);
	if (ends_with(e->text, ".git"))
		e->text[strlen(e->text) - 4] = '\0';
	second = strchr(first + 1, '/');
	e->host = second != NULL ? e->text : SBX_GITHUB;
	e->repo = second != NULL ? first + 1 : e->text;
	if (second != NULL)
		*first = '\0';
	return (true);
}

/* OWNER and a slash and a star */
static bool
is_account(const char *repo)
{
	size_t n = strcspn(repo, "/");

	return (strcmp(repo + n, "/*") == 0 &&
	    part_is_good(repo, n, OWNER_MAX));
}

static bool
listed(const struct sbx_conf_list *l, const char *host, const char *repo)
{
	const struct sbx_strs s = { l->data, l->count, l->len };
	const char *v = NULL;
	struct entry e;
	size_t n;

	while ((v = sbx_strs_next(&s, v)) != NULL) {
		if (!entry_read(v, &e) || strcmp(e.host, host) != 0)
			continue;
		n = strlen(e.repo);
		if (is_account(e.repo) ? strncmp(e.repo, repo, n - 1) == 0 :
		    strcmp(e.repo, repo) == 0)
			return (true);
	}
	return (false);
}

bool
repos_writes(const struct sbx_conf *c, const char *host, const char *repo)
{
	return (listed(&c->allowed_repo, host, repo));
}

bool
repos_reads(const struct sbx_conf *c, const char *host, const char *repo)
{
	return (repos_writes(c, host, repo) ||
	    listed(&c->allow_read, host, repo));
}

/* --- the sources ------------------------------------------------------------- */

/* A whole path, or one below where systemd puts a unit's credentials. */
static bool
is_file(const char *s)
{
	return (s[0] == '/' || (strncmp(s, GIVEN, GIVEN_LEN) == 0 &&
	    s[GIVEN_LEN] != '\0' && strchr(s + GIVEN_LEN, '/') == NULL));
}

/* "[HOST] ID INSTALLATION KEYFILE" and "[HOST] FILE": the host, into dst.
 * *ret_rest: what follows.  false: it is too long. */
static bool
source_host(const char *value, char dst[254], const char **ret_rest)
{
	size_t n = strcspn(value, " ");

	*ret_rest = value;
	if (is_file(value) || (value[0] >= '0' && value[0] <= '9' &&
	    strspn(value, "0123456789") == n))
		return (sbx_strlcpy(dst, SBX_GITHUB, 254) == 0);
	if (n == 0 || n >= 254)
		return (false);
	memcpy(dst, value, n);
	dst[n] = '\0';
	for (char *p = dst; *p != '\0'; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p += 'a' - 'A';
	*ret_rest = value + n + strspn(value + n, " ");
	return (true);
}

static bool
any_for(const struct sbx_conf_list *l, const char *host)
{
	const struct sbx_strs s = { l->data, l->count, l->len };
	const char *v = NULL, *rest;
	char have[254];

	while ((v = sbx_strs_next(&s, v)) != NULL)
		if (source_host(v, have, &rest) &&
		    (host == NULL || strcmp(have, host) == 0))
			return (true);
	return (false);
}

bool
repos_sourced(const struct sbx_conf *c, const char *host)
{
	if (c->github_token_command[0] != '\0' &&
	    (host == NULL || strcmp(host, SBX_GITHUB) == 0))
		return (true);
	return (any_for(&c->github_app, host) ||
	    any_for(&c->github_token_file, host));
}

/* A source as the broker takes it, the caller's then.  dir: what %d is, NULL:
 * nothing. */
static char *
source_line(const char *keyword, const char *value, const char *dir)
{
	const char *file = strrchr(value, ' ');

	file = file == NULL ? value : file + 1;
	if (dir == NULL || strncmp(file, GIVEN, GIVEN_LEN) != 0)
		return (sbx_xasprintf("%s %s", keyword, value));
	return (sbx_xasprintf("%s %.*s%s/%s", keyword, (int)(file - value),
	    value, dir, file + GIVEN_LEN));
}

static int
add_line(struct sbx_strs *ret, struct sbx_buf *b, const char *keyword,
    const char *value, const char *dir)
{
	SBX_CLEANUP(free) char *line = source_line(keyword, value, dir);

	return (sbx_strs_add(ret, b, line));
}

static int
add_all(struct sbx_strs *ret, struct sbx_buf *b, const char *keyword,
    const struct sbx_conf_list *l, const char *dir)
{
	const struct sbx_strs s = { l->data, l->count, l->len };
	const char *v = NULL;
	int r = 0;

	while (r == 0 && (v = sbx_strs_next(&s, v)) != NULL)
		r = add_line(ret, b, keyword, v, dir);
	return (r);
}

int
repos_sources(const struct sbx_conf *c, const char *dir,
    struct sbx_strs *ret, struct sbx_buf *b)
{
	char line[64];
	int r = 0;

	memset(ret, 0, sizeof(*ret));
	sbx_buf_init(b, SBX_SOURCES_BYTES);
	/* what is run is not the broker's to know */
	(void)snprintf(line, sizeof(line), "github_token_command %u",
	    (unsigned)c->github_token_timeout);
	if (c->github_token_command[0] != '\0')
		r = sbx_strs_add(ret, b, line);
	if (r == 0)
		r = add_all(ret, b, "github_app", &c->github_app, dir);
	if (r == 0)
		r = add_all(ret, b, "github_token_file",
		    &c->github_token_file, dir);
	if (r == 0 && c->publish_signing_key[0] != '\0')
		r = add_line(ret, b, "publish_signing_key",
		    c->publish_signing_key, dir);
	return (r != 0 || ret->count > SBX_MAX_SOURCES ? SBX_E_LIMIT : 0);
}

bool
repos_same_sources(const struct sbx_conf *a, const struct sbx_conf *b)
{
	return (strcmp(a->github_token_command, b->github_token_command) == 0 &&
	    a->github_token_timeout == b->github_token_timeout &&
	    a->allow_bot_commands == b->allow_bot_commands &&
	    strcmp(a->publish_signing_key, b->publish_signing_key) == 0 &&
	    a->github_app.len == b->github_app.len &&
	    memcmp(a->github_app.data, b->github_app.data,
	    a->github_app.len) == 0 &&
	    a->github_token_file.len == b->github_token_file.len &&
	    memcmp(a->github_token_file.data, b->github_token_file.data,
	    a->github_token_file.len) == 0);
}

/* --- are they well-formed? ----------------------------------------------------- */

/* May git be spoken with it, with what is looked into? */
static int
check_host(const struct policy *p, const char *keyword, const char *value,
    const char *host, struct sbx_err *err)
{
	struct verdict v = { 0 };
	struct host h;

	if (!host_is_good(host))
		return (sbx_err_set(err, SBX_E_SYNTAX, "%s %.100s: there is "
		    "no host of that name", keyword, value));
	if (strcmp(host, SBX_GITHUB) == 0)
		return (0);
	(void)host_read((struct sbx_text){ host, strlen(host) }, &h);
	policy_decide(p, POLICY_HTTPS, &h, 443, &v);
	if (v.allowed && v.how == POLICY_GIT)
		return (0);
	return (sbx_err_set(err, SBX_E_POLICY, "%s %.80s: write `grant_host "
	    "%.60s` too, or leave the host out, which is " SBX_GITHUB " then",
	    keyword, value, host));
}

static int
check_list(const struct policy *p, const char *keyword,
    const struct sbx_conf_list *l, struct sbx_err *err)
{
	const struct sbx_strs s = { l->data, l->count, l->len };
	const char *v = NULL;
	struct entry e;
	int r;

	while ((v = sbx_strs_next(&s, v)) != NULL) {
		if (!entry_read(v, &e) ||
		    (!is_account(e.repo) && !repo_is_good(e.repo)))
			return (sbx_err_set(err, SBX_E_SYNTAX, "%s %.100s: "
			    "write OWNER/NAME, OWNER/* or HOST/OWNER/NAME",
			    keyword, v));
		if ((r = check_host(p, keyword, v, e.host, err)) != 0)
			return (r);
	}
	return (0);
}

/* "ID INSTALLATION KEYFILE", the first two numbers from 1 on */
static bool
app_is_good(const char *s)
{
	for (int i = 0; i < 2; i++) {
		size_t n = strspn(s, "0123456789");

		if (n == 0 || n > 18 || s[n] != ' ' || strspn(s, "0") == n)
			return (false);
		s += n + strspn(s + n, " ");
	}
	return (is_file(s));
}

static int
check_sources(const struct policy *p, const char *keyword, bool app,
    const struct sbx_conf_list *l, struct sbx_err *err)
{
	const struct sbx_strs s = { l->data, l->count, l->len };
	const char *v = NULL, *rest;
	char host[254];
	int r;

	while ((v = sbx_strs_next(&s, v)) != NULL) {
		if (!source_host(v, host, &rest) ||
		    !(app ? app_is_good(rest) : is_file(rest)))
			return (sbx_err_set(err, SBX_E_SYNTAX, "%s %.100s: "
			    "write [HOST] %s, the file with its whole path, or "
			    "%%d/NAME, a credential of systemd",
			    keyword, v, app ? "ID INSTALLATION KEYFILE" :
			    "FILE"));
		if ((r = check_host(p, keyword, v, host, err)) != 0)
			return (r);
	}
	return (0);
}

int
repos_check(const struct sbx_conf *c, const struct policy *p,
    struct sbx_err *err)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	struct sbx_strs sources;
	int r;

	if ((r = check_list(p, "allowed_repo", &c->allowed_repo, err)) != 0 ||
	    (r = check_list(p, "allow_read", &c->allow_read, err)) != 0 ||
	    (r = check_sources(p, "github_app", true, &c->github_app,
	    err)) != 0 ||
	    (r = check_sources(p, "github_token_file", false,
	    &c->github_token_file, err)) != 0)
		return (r);
	if (c->publish_signing_key[0] != '\0' &&
	    !is_file(c->publish_signing_key))
		return (sbx_err_set(err, SBX_E_SYNTAX, "publish_signing_key "
		    "%.100s: write the file with its whole path, or %%d/NAME, "
		    "a credential of systemd", c->publish_signing_key));
	if (repos_sources(c, NULL, &sources, &b) != 0)
		return (sbx_err_set(err, SBX_E_LIMIT, "there are more than %d "
		    "of github_app and github_token_file, or they are too "
		    "long", SBX_MAX_SOURCES - 1));
	return (0);
}
