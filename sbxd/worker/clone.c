/* A clone by git in a sandbox (clone.h). */

#include "sbxd/worker/clone.h"

#include "common/base/limits.h"
#include "sbxd/worker/run.h"
#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "clone_script.h"

#define OUT_MAX (256u << 10)
#define GRACE_MS 15000u		/* for the end of what is killed */
#define PIECES_MAX 1024u
#define LFS_SHOWN 5u

enum { EXIT_EXISTS = 10, EXIT_CLONE, EXIT_FETCH, EXIT_CHECKOUT,
    EXIT_NO_CLONE };

const char *const clone_sh = clone_script;

void
clone_init(struct call *call, struct clone *c)
{
	memset(c, 0, sizeof(*c));
	c->timeout_ms = call->exec_timeout_ms;
	c->got_branch = c->got_head = c->got_default = c->got_base = "";
	sbx_buf_init(&c->out, OUT_MAX);
	sbx_buf_init(&c->warnings, 32768);
	sbx_buf_init(&c->granted, 32768);
}

void
clone_clear(struct clone *c)
{
	sbx_buf_clear(&c->out);
	sbx_buf_clear(&c->warnings);
	sbx_buf_clear(&c->granted);
}

void
clone_say(struct clone *c, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n >= 0)
		(void)sbx_buf_add(&c->warnings, text, strlen(text) + 1);
}

/* --- the run -------------------------------------------------------------------- */

int
clone_start(struct call *call, const struct clone *c, const char *const *argv,
    const char *dir, char *ret_run)
{
	struct run_spec spec;
	int error;

	error = run_spec_make(c->container, dir, argv, &spec);
	spec.timeout_ms = c->timeout_ms;
	if (error == 0)
		error = run_start(call, &spec, ret_run);
	run_spec_clear(&spec);
	return (error == 0 ? 1 : call_refused(call, error));
}

int
clone_grant(struct call *call, const struct clone *c, const struct gh_repo *r,
    struct ask_repo *ret_grant)
{
	uint64_t ms = c->timeout_ms + GRACE_MS;

	return (repo_open(call->ask, &(struct sbx_repo_open){
	    .container = c->container, .host = r->host, .repo = r->key,
	    .lifetime_ms = ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms },
	    ret_grant));
}

/* The run of a clone, started, with its grant bound to it.  The grant does not
 * outlive what failed here.  1, or as tool_fn. */
static int
begin(struct call *call, struct clone *c)
{
	char url[512], depth[24], pr[24];
	const char *const argv[] = { "sh", "-c", clone_script, "sbx",
		c->fetch ? "fetch" : "clone", c->repo.host, url, c->dest,
		c->branch != NULL ? c->branch : "", depth,
		c->partial ? "blob:none" : "", pr,
		c->head != NULL ? c->head : "",
		c->base != NULL ? c->base : "", NULL };
	int r;

	(void)snprintf(url, sizeof(url), "https://%s/%s.git", c->repo.host,
	    c->repo.repo);
	(void)snprintf(depth, sizeof(depth), "%" PRIu64, c->depth);
	(void)snprintf(pr, sizeof(pr), "%" PRIu64, c->pr);
	r = clone_grant(call, c, &c->repo, &c->grant);
	if (r != 0)
		return (call_refused(call, r));
	r = clone_start(call, c, argv, "/", c->run);
	if (r == 1) {
		/* what is fetched is no work; what is there may be */
		if (!c->fetch || *c->grant.grant != '\0')
			r = repo_run(call->ask, c->run, c->grant.grant,
			    c->fetch ? "" : c->dest);
		else
			r = 0;
		if (r == 0)
			return (1);
		r = call_refused(call, r);
		*c->run = '\0';
	}
	if (*c->grant.grant != '\0' && !call->ask->broken)
		(void)repo_close(call->ask, c->grant.grant);
	return (r);
}

/* --- what it said ------------------------------------------------------------------ */

static bool
pair(struct pieces *in, const char **ret_name, const char **ret_value)
{
	size_t n;

	return (piece_next(in, ret_name, &n) && piece_next(in, ret_value, &n));
}

static void
lfs_warn(struct clone *c, struct pieces in)
{
	char text[600] = "", vis[120];
	const char *name, *value;
	size_t n = 0, len = 0;

	while (pair(&in, &name, &value)) {
		if (strcmp(name, "lfs") != 0)
			continue;
		value += strncmp(value, "./", 2) == 0 ? 2 : 0; /* of find(1) */
		if (n++ < LFS_SHOWN && len < sizeof(text) - 130)
			len += (size_t)snprintf(text + len, sizeof(text) - len,
			    "%s%s", n > 1 ? ", " : "", sbx_vis(vis,
			    sizeof(vis), value, strlen(value)));
	}
	if (n > 0)
		clone_say(c, "%zu%s files are Git LFS pointers, not their "
		    "content: %s%s. LFS is not fetched here; bring what is "
		    "needed in with copy_file.", n, n >= 20 ? " or more" : "",
		    text, n > LFS_SHOWN ? ", ..." : "");
}

/* A commit id, else "". */
static const char *
id_of(const char *s)
{
	return (sbx_is_hex(s, 40) || sbx_is_hex(s, 64) ? s : "");
}

/* true: all of it is there. */
static bool
read_said(struct clone *c)
{
	struct pieces in = { c->out.data, c->out.data + c->out.len };
	const char *name, *value;
	bool end = false;
	unsigned n = 0;

	while (n++ < PIECES_MAX && pair(&in, &name, &value)) {
		if (strcmp(name, "branch") == 0)
			c->got_branch = value;
		else if (strcmp(name, "head") == 0)
			c->got_head = id_of(value);
		else if (strcmp(name, "default") == 0)
			c->got_default = value;
		else if (strcmp(name, "base") == 0)
			c->got_base = value;
		else if (strcmp(name, "shallow") == 0)
			c->shallow = strcmp(value, "true") == 0;
		else if (strcmp(name, "end") == 0)
			end = true;
	}
	lfs_warn(c, (struct pieces){ c->out.data, c->out.data + c->out.len });
	if (*c->got_head == '\0')
		clone_say(c, "The repository is empty: it has no commit.");
	return (end);
}

#define CHECK "Check the name. "
#define STATUS "`sbx broker status` tells the operator about its sources."
#define WAY_OUT "The sandbox needs a way out: sandbox_initialize with "       \
	"allow_network: true."

/* The host shows it to nobody, or not to us: by what it was asked with. */
static const char private[] = "";
static const struct {
	const char *word, *code, *next;	/* word: of REPO_OPENED */
} unseen[] = {
	{ "granted", "not_found", CHECK "The operator's GitHub App must be "
	    "installed for the repository, or his token cover it." },
	{ "no_source", "no_source", CHECK "The repository is listed, but no "
	    "source of a credential is configured for that host: the operator "
	    "adds one (`sbx register`)." },
	{ "anonymous", "not_found", CHECK "A private repository needs a "
	    "client with a token (`sbx token add`)." },
	{ "", "not_found", CHECK "A private repository must be listed in "
	    "allowed_repo or allow_read of sbx.conf, and the operator's "
	    "credential cover it." },
};

/* What stderr means; what of it is not known stands as it is. */
static const struct {
	const char *said, *code, *next;
} failures[] = {
	/* of the proxy and of couriers */
	{ "does not take the credential", "unauthorized", "The operator's "
	    "credential is wrong, ended or was revoked: " STATUS },
	{ "sbx: github_", "source_failed", STATUS },
	{ "TLS with ", "tls", "The operator names a CA of his own in "
	    "upstream_ca of sbx.conf, and looks at the machine's clock." },
	{ "403 from proxy", "host_not_allowed", "The operator allows a host "
	    "of git with `grant_host HOST` in sbx.conf." },
	{ "CONNECT tunnel failed, response 403", "host_not_allowed", "The "
	    "operator allows a host of git with `grant_host HOST` in "
	    "sbx.conf." },
	{ "shows it to nobody", private, "" },
	/* of git */
	{ "Remote branch", "branch_not_found", "Name a branch that the "
	    "repository has, or leave branch out." },
	{ "couldn't find remote ref", "not_found", "Check the number of the "
	    "pull request." },
	{ "rate limit", "rate_limited", "Try again later." },
	{ "could not read Username", private, "" },
	{ "Authentication failed", private, "" },
	{ "not found", private, "" },
	{ "Could not resolve", "no_network", WAY_OUT },
	{ "Failed to connect", "no_network", WAY_OUT },
	{ "Could not connect", "no_network", WAY_OUT },
	{ "No space left", "disk_full", "Clone with depth: 1, or make a "
	    "sandbox with a larger disk_limit." },
	{ "", "clone_failed", "Read the message." },
};

static int
failed(struct call *call, const struct clone *c, const struct ask_run *st,
    const char *what)
{
	const char *word = *c->grant.grant != '\0' ? "granted" :
	    c->grant.code;
	char text[SCRIPT_ERR_MAX];
	size_t i, k;
	int error;

	error = script_errors(call, st, text);
	if (error != 0)
		return (call_refused(call, error));
	for (i = 0; strstr(text, failures[i].said) == NULL; i++)
		;
	if (failures[i].code != private)
		return (script_failed(call, st, failures[i].code,
		    failures[i].next, what));
	for (k = 0; *unseen[k].word != '\0' &&
	    strcmp(unseen[k].word, word) != 0; k++)
		;
	return (script_failed(call, st, unseen[k].code, unseen[k].next, what));
}

/* It ended by itself and not well. */
static int
unwell(struct call *call, const struct clone *c, const struct ask_run *st)
{
	char vis[512];

	switch (script_exit(st)) {
	case EXIT_EXISTS:
		result_error(call->res, "exists", "Clone to another place, or "
		    "remove what is there.", "%s is there already, and not "
		    "an empty directory.", sbx_vis(vis, sizeof(vis), c->dest,
		    strlen(c->dest)));
		script_ids(call, st);
		return (0);
	case EXIT_NO_CLONE:
		result_error(call->res, "no_clone", "Clone it there first, "
		    "without fetch.", "%s is no clone to fetch into.",
		    sbx_vis(vis, sizeof(vis), c->dest, strlen(c->dest)));
		script_ids(call, st);
		return (0);
	case EXIT_FETCH:
		return (failed(call, c, st, c->fetch ? "Nothing could be "
		    "fetched" : "The pull request could not be fetched"));
	case EXIT_CHECKOUT:
		return (script_failed(call, st, "checkout_failed", "",
		    "The pull request could not be checked out"));
	case SCRIPT_MISSING:
		result_error(call->res, "no_git", "Make a sandbox of an image "
		    "that has it.", "There is no git in this sandbox.");
		script_ids(call, st);
		return (0);
	default:
		return (failed(call, c, st, "The repository could not be "
		    "cloned"));
	}
}

bool
clone_module_is_named(const struct clone *c, const struct gh_repo *r)
{
	struct gh_repo named;

	for (size_t i = 0; i < gh_len(c->named); i++)
		if (gh_repo_parse(json_object_get_string(
		    json_object_array_get_idx(c->named, i)), &named) &&
		    strcmp(named.host, r->host) == 0 &&
		    strcmp(named.key, r->key) == 0)
			return (true);
	return (false);
}

void
clone_module_granted(struct clone *c, const struct gh_repo *r)
{
	char repo[400];

	gh_repo_text(r, repo, sizeof(repo));
	(void)sbx_buf_add(&c->granted, repo, strlen(repo) + 1); /* fits */
}

/* --- all of it ------------------------------------------------------------------------ */

/* The run is over, or goes on. */
static int
finish(struct call *call, struct clone *c, const struct ask_run *st)
{
	bool whole;
	int r;

	if (st->state != SBX_RUN_ENDED) {
		c->running = true;
		return (1);
	}
	if (st->why == SBX_EXIT_TIMEOUT) {
		result_error(call->res, "clone_timeout", "Give a longer "
		    "timeout, depth: 1, or filter: blob:none. Remove what is "
		    "left of it first.", "The clone was not done in %" PRIu64
		    " s.", c->timeout_ms / 1000);
		script_ids(call, st);
		return (0);
	}
	if (st->why != SBX_EXIT_EXITED && st->why != SBX_EXIT_MEMORY) {
		result_error(call->res, "sandbox_gone", "sandbox_initialize "
		    "makes another.", "The sandbox ended, or the clone was "
		    "killed.");
		script_ids(call, st);
		return (0);
	}
	if (script_exit(st) != 0)
		return (unwell(call, c, st));
	r = script_output(call, st, OUT_MAX, &c->out, &whole);
	if (r != 0)
		return (call_refused(call, r));
	if (!whole || !read_said(c))
		return (script_failed(call, st, "clone_failed", "", "What "
		    "the clone left could not be read"));
	if (c->partial && *c->grant.grant != '\0')
		clone_say(c, "Files of other commits are not there, and git "
		    "alone cannot read them now: the grant to read this "
		    "repository ended with this call. clone_repo with fetch: "
		    "true and without filter brings all of them.");
	r = c->fetch && !c->modules ? 0 : clone_modules(call, c);
	return (r == 0 ? 1 : r);
}

int
clone_run(struct call *call, struct clone *c)
{
	struct ask_run st;
	int r;

	r = begin(call, c);
	if (r != 1)
		return (r);
	r = run_wait(call, c->run, script_wait_ms(call, c->timeout_ms),
	    c->timeout_ms, &st);
	if (r == 0)
		r = finish(call, c, &st);
	else {
		r = call_refused(call, r);
		*c->run = '\0';
	}
	/* its end closes it, too: what is not there is no error */
	if (*c->grant.grant != '\0' && !c->running && !call->ask->broken)
		(void)repo_close(call->ask, c->grant.grant);
	return (call->ask->broken && r >= 0 ? SBX_E_STATE : r);
}

int
clone_again(struct call *call, struct clone *c)
{
	struct ask_run st;
	int r;

	r = exec_wait(call->ask, c->run, 0, &st);
	if (r == 0 && (strcmp(st.tool, "clone_repo") != 0 ||
	    strcmp(st.container, c->container) != 0)) {
		result_error(call->res, "unknown_run", "Give the job_id that "
		    "clone_repo returned.", "Run %s is no clone in that "
		    "sandbox.", c->run);
		return (0);
	}
	if (r == 0)
		r = run_wait(call, c->run, script_wait_ms(call,
		    c->timeout_ms), c->timeout_ms, &st);
	return (r == 0 ? finish(call, c, &st) : call_refused(call, r));
}

void
clone_put(struct call *call, const struct clone *c)
{
	struct pieces granted = { c->granted.data, c->granted.data +
	    c->granted.len };
	struct result *r = call->res;
	char repo[400];
	const char *p;
	size_t n;

	result_str(r, "repo", gh_repo_text(&c->repo, repo, sizeof(repo)));
	result_masked(r, "clone_path", c->dest, strlen(c->dest));
	result_str(r, "run_id", c->run);
	if (c->running)
		result_str(r, "job_id", c->run);
	result_masked(r, "branch", c->got_branch, strlen(c->got_branch));
	result_str(r, "head", c->got_head);
	result_masked(r, "default_branch", c->got_default,
	    strlen(c->got_default));
	result_masked(r, "base", c->got_base, strlen(c->got_base));
	result_bool(r, "shallow", c->shallow);
	if (c->pr != 0)
		result_u64(r, "pr", c->pr);
	result_str(r, "credential", *c->grant.grant != '\0' ? "grant" :
	    "none");
	if (*c->grant.grant != '\0')
		result_str(r, "grant", c->grant.grant);
	else if (*c->grant.why != '\0')
		result_masked(r, "credential_reason", c->grant.why,
		    strlen(c->grant.why));
	if (c->granted.len == 0)
		return;
	result_open(r, "submodules_granted", '[');
	while (piece_next(&granted, &p, &n))
		result_strn(r, NULL, p, n);
	result_close(r, ']');
}

void
clone_warn(struct call *call, const struct clone *c)
{
	struct pieces in = { c->warnings.data, c->warnings.data +
	    c->warnings.len };
	const char *p;
	size_t n;

	while (piece_next(&in, &p, &n))
		result_masked(call->res, NULL, p, n);
}
