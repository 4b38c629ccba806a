/* explain: what the egress proxy would say, by the same code */
#include "sbxd/cli/cli.h"

#include "common/base/conf.h"
#include "sbx-proxy/gate.h"
#include "sbx-proxy/policy.h"
#include "sbxd/monitor/repos.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int
cli_conf(const struct cli *cli, struct sbx_conf *c, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *path =
	    sbx_xasprintf("%s/sbx.conf", cli->paths.etc);
	char SBX_CLEANUP(free) *text = sbx_xcalloc(1, SBX_CONF_FILE_MAX + 1);
	FILE *f = fopen(path, "re");
	size_t n = 0;
	int r = 0;

	sbx_conf_init(c);
	if (f == NULL && errno != ENOENT)
		return (sbx_err_sys(err, "open %.160s", path));
	if (f != NULL) {
		n = fread(text, 1, SBX_CONF_FILE_MAX + 1, f);
		if (ferror(f))
			r = sbx_err_sys(err, "read %.160s", path);
		(void)fclose(f);
	}
	if (r != 0)
		return (r);
	if (n > SBX_CONF_FILE_MAX)
		return (sbx_err_set(err, SBX_E_LIMIT, "%.160s is too long",
		    path));
	if ((r = sbx_conf_parse(c, path, text, n, err)) != 0 ||
	    (r = sbx_conf_env(c, getenv, err)) != 0)
		return (r);
	return (sbx_conf_check(c, err));
}

/* One request, and what is found out about it. */
struct question {
	enum policy_scheme scheme;
	struct host host;
	uint16_t port;
	struct sbx_buf head;		/* as a client would send it */
	struct sbx_http_head h;
	struct verdict v;
	struct gate g;
	bool push;
};

static const struct {
	const char *text;
	uint16_t port;
} schemes[] = {
	[POLICY_HTTP] = { "http://", 80 }, [POLICY_HTTPS] = { "https://", 443 },
};

/* "https://host[:port][/path]" as a request in origin form. */
static int
read_url(struct question *q, const char *method, const char *url,
    struct sbx_err *err)
{
	const char *p = url, *why = "";
	struct sbx_text authority;
	size_t used;

	for (q->scheme = POLICY_HTTP; q->scheme <= POLICY_HTTPS; q->scheme++)
		if (strncasecmp(url, schemes[q->scheme].text,
		    strlen(schemes[q->scheme].text)) == 0)
			break;
	if (q->scheme > POLICY_HTTPS)
		return (sbx_err_set(err, SBX_E_SYNTAX, "write the URL with "
		    "http:// or https://"));
	p += strlen(schemes[q->scheme].text);
	authority = (struct sbx_text){ p, strcspn(p, "/?#") };
	p += authority.len;
	if (host_port_read(authority, schemes[q->scheme].port, &q->host,
	    &q->port) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX, "\"%.*s\" is not a host "
		    "that the proxy takes", (int)authority.len, authority.p));
	sbx_buf_init(&q->head, SBX_HTTP_HEAD_BYTES);
	if (sbx_buf_printf(&q->head, "%s %s%.*s HTTP/1.1\r\nHost: %s\r\n\r\n",
	    method, *p == '/' ? "" : "/", (int)strcspn(p, "#"), p,
	    q->host.text) != 0 || sbx_http_head(q->head.data, q->head.len,
	    &q->h, &used, &why) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX, "the proxy refuses it "
		    "with 400: %s", why));
	return (0);
}

static void
line(const char *key, const char *value)
{
	if (value[0] != '\0')
		(void)printf("%-8s %s\n", key, value);
}

/* How a host is led, for a human. */
static const char *const led[POLICY_HOW_MAX] = {
	[POLICY_TUNNEL] = "as it is; TLS is the client's, to this name only",
	[POLICY_INTERCEPT] = "TLS ends in the proxy, which removes credentials",
	[POLICY_REGISTRY] = "TLS ends in the proxy; GET and HEAD only",
	[POLICY_GIT] = "TLS ends in the proxy; git only, pushes by a grant",
	[POLICY_GITHUB] = "TLS ends in the proxy; judged request by request",
};

/* Without a grant. */
#define GRANTED "it changes something there, which needs a grant"
#define PUBLIC "anonymous: what is public"
static const struct {
	bool passes;
	const char *why, *mend;
} classes[GATE_CLASS_MAX] = {
	[GATE_DENIED] = { false, NULL, "git, the API's reads and downloads are "
	    "passed: `git clone` and clone_repo take the URL of a repository" },
	[GATE_GIT_READ] = { true, PUBLIC, "" },
	[GATE_GIT_WRITE] = { false, GRANTED, "an operator opens one for a "
	    "push, with `sbx grant`" },
	[GATE_API_READ] = { true, PUBLIC, "" },
	[GATE_API_WRITE] = { false, GRANTED ", and there is none for the API",
	    "" },
	[GATE_GRAPHQL] = { false, "it may change something there, which needs "
	    "a grant, and there is none for it", "read with the REST API" },
	[GATE_ASSET] = { true, PUBLIC, "" },
};

/* --- repositories ----------------------------------------------------------------- */

enum kept { KEPT_NOT, KEPT_READ, KEPT_UNSOURCED, KEPT_WRITTEN };

/* What the operator's credentials do for a repository. */
static enum kept
kept(const struct sbx_conf *c, const char *host, const char *repo)
{
	if (!repos_reads(c, host, repo))
		return (KEPT_NOT);
	if (!repos_sourced(c, host))
		return (KEPT_UNSOURCED);
	return (repos_writes(c, host, repo) ? KEPT_WRITTEN : KEPT_READ);
}

static const char *const kept_text[] = {
	[KEPT_NOT] = "in no list: nothing is done there with a credential",
	[KEPT_READ] = "in allow_read: read with a credential by clone_repo, "
	    "issue_view and pr_view",
	[KEPT_UNSOURCED] = "listed, but there is no source of a credential for "
	    "its host (`sbx register`)",
	[KEPT_WRITTEN] = "in allowed_repo: read and written with a credential "
	    "by tools, pushed to by a grant",
};

/* Of a push: what is to be done before a grant is of use. */
static const char *
push_mend(const char *host, enum kept k)
{
	bool github = strcmp(host, SBX_GITHUB) == 0;

	if (k == KEPT_WRITTEN)
		return ("the tool publish pushes; for git in a sandbox an "
		    "operator opens a grant, with `sbx grant`");
	if (!github && k != KEPT_UNSOURCED)
		return (classes[GATE_GIT_WRITE].mend);
	if (k == KEPT_UNSOURCED)
		return ("name a source of a credential (`sbx register`); then "
		    "the tool publish pushes, or an operator opens a grant, "
		    "with `sbx grant`");
	return (SBX_GITHUB " takes no push without a credential: write "
	    "`allowed_repo OWNER/NAME` into sbx.conf, with a source (`sbx "
	    "register`); then the tool publish pushes, or an operator opens a "
	    "grant, with `sbx grant`");
}

/* mend: of the class; replaced where there is a better one. */
static void
repository(const struct question *q, const struct sbx_conf *c,
    const char **mend)
{
	const char *host = q->host.text;
	char repo[sizeof(q->g.owner) + sizeof(q->g.repo)];
	enum kept k;

	if (q->v.how < POLICY_GIT || q->g.owner[0] == '\0' ||
	    q->g.repo[0] == '\0')
		return;
	if (q->v.how == POLICY_GITHUB)
		host = SBX_GITHUB;
	(void)snprintf(repo, sizeof(repo), "%s/%s", q->g.owner, q->g.repo);
	k = kept(c, host, repo);
	line("lists", kept_text[k]);
	if (q->g.class == GATE_GIT_WRITE)
		*mend = push_mend(host, k);
}

/* What there is to be said of the request itself. */
static bool
judge(struct question *q, const char **ret_why, const char **ret_mend)
{
	*ret_mend = *ret_why = "";
	if (q->v.how == POLICY_REGISTRY && !sbx_text_is(q->h.method, "GET") &&
	    !sbx_text_is(q->h.method, "HEAD")) {
		*ret_why = "nothing is published from a sandbox: GET and HEAD "
		    "only";
		return (false);
	}
	if (q->v.how < POLICY_GIT)
		return (true);
	if (q->v.how == POLICY_GIT)
		gate_classify_git(&q->h, &q->g);
	else
		gate_classify(&q->host, &q->h, &q->g);
	*ret_why = q->g.class == GATE_DENIED ? q->g.why :
	    classes[q->g.class].why;
	*ret_mend = classes[q->g.class].mend;
	return (classes[q->g.class].passes);
}

static int
answer(struct question *q, const struct policy *p, const struct sbx_conf *c)
{
	const char *why = "", *mend = "";
	char rule[HOST_MAX + 32] = "", narrow[HOST_MAX + 80];
	bool good;

	policy_decide(p, q->scheme, &q->host, q->port, &q->v);
	good = q->v.allowed && judge(q, &why, &mend);
	(void)printf("%s\n", good ? "allowed" : "refused");
	if (q->v.allowed) {
		policy_text(q->v.rule, rule, sizeof(rule));
		(void)printf("%-8s %s%s\n", "rule", rule,
		    q->v.rule->builtin ? " (built in)" : "");
		line("led", q->scheme == POLICY_HTTP ? "in the clear, without "
		    "the client's credentials" : led[q->v.how]);
		line("class", q->v.how >= POLICY_GIT ?
		    gate_name(q->g.class) : "");
		line("why", why);
		repository(q, c, &mend);
		line("mend", mend);
	} else {
		line("code", q->v.code);
		line("why", q->v.reason);
		/* what a push wants of a host is git, and no tunnel */
		(void)snprintf(narrow, sizeof(narrow), "write `grant_host %s` "
		    "into sbx.conf", q->host.text);
		line("mend", q->push && !p->locked ? narrow : q->v.mend);
	}
	return (good ? CLI_OK : CLI_PEER);
}

/* What `publish` refuses by the name alone; which branch is the default one it
 * sees when it looks. */
static void
protected_ref(const char *ref)
{
	if (strcmp(ref, "refs/heads/main") == 0 ||
	    strcmp(ref, "refs/heads/master") == 0)
		line("note", "the tool publish refuses main, master and the "
		    "default branch unless `allow_protected_ref yes` is in "
		    "sbx.conf");
}

/* A push is the request that git makes for it. */
static int
push_url(char *text, const char *ref, char **ret_url, struct sbx_err *err)
{
	const char *host, *repo, *slash;

	cli_repo(text, &host, &repo);
	slash = strchr(repo, '/');
	if (slash == NULL || slash == repo || slash[1] == '\0' ||
	    strchr(slash + 1, '/') != NULL)
		return (sbx_err_set(err, SBX_E_SYNTAX, "write the repository "
		    "as OWNER/NAME or HOST/OWNER/NAME"));
	if (!cli_is_ref(ref))
		return (sbx_err_set(err, SBX_E_SYNTAX, "write the whole name "
		    "of the ref: refs/heads/%.100s, or refs/tags/...", ref));
	(void)printf("push of %s to %s/%s: ", ref, host, repo);
	*ret_url = sbx_xasprintf("https://%s/%s/git-receive-pack", host, repo);
	return (0);
}

int
cmd_explain(struct cli *cli, int argc, char **argv)
{
	struct sbx_conf SBX_CLEANUP(free) *c = sbx_xcalloc(1, sizeof(*c));
	char SBX_CLEANUP(free) *url = NULL;
	const char *method = "GET", *ref = NULL;
	struct question q = { 0 };
	struct sbx_err err = { 0 };
	struct policy p = { 0 };
	int opt, r;

	while ((opt = getopt(argc, argv, "X:")) != -1) {
		if (opt != 'X')
			return (CLI_SYNTAX);
		method = optarg;
	}
	argc -= optind;
	argv += optind;
	if (argc == 3 && strcmp(argv[0], "push") == 0) {
		method = "POST";
		q.push = true;
		ref = argv[2];
		r = push_url(argv[1], argv[2], &url, &err);
	} else if (argc == 1) {
		url = sbx_xstrdup(argv[0]);
		r = 0;
	} else
		return (CLI_SYNTAX);
	if (r != 0 || (r = read_url(&q, method, url, &err)) != 0 ||
	    (r = cli_conf(cli, c, &err)) != 0 ||
	    (r = policy_conf(&p, c, &err)) != 0)
		r = cli_fail(r == SBX_E_SYS ? CLI_FATAL : CLI_USAGE, &err);
	else {
		p.locked = cli_locked(cli);
		r = answer(&q, &p, c);
		if (ref != NULL && !c->allow_protected_ref)
			protected_ref(ref);
	}
	policy_clear(&p);
	sbx_buf_clear(&q.head);
	return (r);
}
