/* A clone by git in a sandbox (clone.h). */

#include "sbxd/worker/clone.h"

#include "common/base/limits.h"
#include "sbxd/worker/run.h"
#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clone_script.h"

#define OUT_MAX (256u << 10)
#define GRACE_MS 15000u		/* for the end of what is killed */
#define PIECES_MAX 1024u
#define LFS_SHOWN 5u
#define PATH_SHOWN 200u

enum { EXIT_EXISTS = 10, EXIT_CLONE, EXIT_FETCH, EXIT_CHECKOUT };

void
clone_init(struct call *call, struct clone *c)
{
	memset(c, 0, sizeof(*c));
	c->timeout_ms = call->exec_timeout_ms;
	c->got_branch = c->got_head = c->got_default = c->got_base = "";
	sbx_buf_init(&c->out, OUT_MAX);
	sbx_buf_init(&c->warnings, 32768);
}

void
clone_clear(struct clone *c)
{
	sbx_buf_clear(&c->out);
	sbx_buf_clear(&c->warnings);
}

static void SBX_PRINTF(2, 3)
warn(struct clone *c, const char *fmt, ...)
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

/* A script of clone.sh.  1, or as tool_fn. */
static int
start(struct call *call, const struct clone *c, const char *const *argv,
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

/* Its grant, and for how long: not longer than the run may last. */
static int
grant_open(struct call *call, const struct clone *c, const struct gh_repo *r,
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
	const char *const argv[] = { "sh", "-c", clone_script, "sbx", "clone",
		c->repo.host, url, c->dest, c->branch != NULL ? c->branch : "",
		depth, c->partial ? "blob:none" : "", pr,
		c->head != NULL ? c->head : "", c->base != NULL ? c->base :
		"", NULL };
	int r;

	(void)snprintf(url, sizeof(url), "https://%s/%s.git", c->repo.host,
	    c->repo.repo);
	(void)snprintf(depth, sizeof(depth), "%" PRIu64, c->depth);
	(void)snprintf(pr, sizeof(pr), "%" PRIu64, c->pr);
	r = grant_open(call, c, &c->repo, &c->grant);
	if (r != 0)
		return (call_refused(call, r));
	r = start(call, c, argv, "/", c->run);
	if (r == 1) {
		r = repo_run(call->ask, c->run, c->grant.grant, c->dest);
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
		if (n++ < LFS_SHOWN && len < sizeof(text) - 130)
			len += (size_t)snprintf(text + len, sizeof(text) - len,
			    "%s%s", n > 1 ? ", " : "", sbx_vis(vis,
			    sizeof(vis), value + (strncmp(value, "./", 2) == 0
			    ? 2 : 0), strlen(value)));
	}
	if (n > 0)
		warn(c, "%zu%s files are Git LFS pointers, not their "
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
		warn(c, "The repository is empty: it has no commit.");
	return (end);
}

/* What stderr means; what of it is not known stands as it is. */
static const struct {
	const char *said, *code, *next;
} failures[] = {
	{ "Remote branch", "branch_not_found", "Name a branch that the "
	    "repository has, or leave branch out." },
	{ "couldn't find remote ref", "not_found", "Check the number of the "
	    "pull request." },
	{ "rate limit", "rate_limited", "Try again later." },
	{ "could not read Username", "not_found", "Check the name. A private "
	    "repository must be listed in allowed_repo or allow_read of "
	    "sbx.conf." },
	{ "Authentication failed", "not_found", "Check the name. A private "
	    "repository must be listed in allowed_repo or allow_read of "
	    "sbx.conf." },
	{ "not found", "not_found", "Check the name. A private repository "
	    "must be listed in allowed_repo or allow_read of sbx.conf." },
	{ "Could not resolve", "no_network", "The sandbox needs a way out: "
	    "sandbox_initialize with allow_network: true." },
	{ "Failed to connect", "no_network", "The sandbox needs a way out: "
	    "sandbox_initialize with allow_network: true." },
	{ "Could not connect", "no_network", "The sandbox needs a way out: "
	    "sandbox_initialize with allow_network: true." },
	{ "No space left", "disk_full", "Clone with depth: 1, or make a "
	    "sandbox with a larger disk_limit." },
	{ "", "clone_failed", "Read the message; sandbox_exec can look "
	    "closer." },
};

static int
failed(struct call *call, const struct ask_run *st, const char *what)
{
	char text[SCRIPT_ERR_MAX];
	size_t i;
	int error;

	error = script_errors(call, st, text);
	if (error != 0)
		return (call_refused(call, error));
	for (i = 0; strstr(text, failures[i].said) == NULL; i++)
		;
	return (script_failed(call, st, failures[i].code, failures[i].next,
	    what));
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
	case EXIT_FETCH:
		return (failed(call, st, "The pull request could not be "
		    "fetched"));
	case EXIT_CHECKOUT:
		return (script_failed(call, st, "checkout_failed", "",
		    "The pull request could not be checked out"));
	case SCRIPT_MISSING:
		result_error(call->res, "no_git", "Make a sandbox of an image "
		    "that has it.", "There is no git in this sandbox.");
		script_ids(call, st);
		return (0);
	default:
		return (failed(call, st, "The repository could not be "
		    "cloned"));
	}
}

/* --- submodules --------------------------------------------------------------------- */

struct module {
	const char *path;	/* borrowed from c->out */
	char grant[17];
};

/* "submodule.NAME.url" and its path stand side by side in no certain order. */
static const char *
module_url(const struct clone *c, const char *key, size_t len)
{
	struct pieces in = { c->out.data, c->out.data + c->out.len };
	const char *name, *value;

	while (pair(&in, &name, &value))
		if (strcmp(name, "module") == 0 &&
		    strncmp(value, key, len) == 0 &&
		    strncmp(value + len, "url\n", 4) == 0)
			return (value + len + 4);
	return ("");
}

/* Which repository a URL of .gitmodules means, as git will: false: none that
 * could be granted. */
static bool
module_repo(const struct clone *c, const char *url, struct gh_repo *ret_r)
{
	char text[512];
	const char *slash = strchr(c->repo.repo, '/');

	if (strncmp(url, "https://", 8) == 0)
		return (gh_repo_parse(url, ret_r));
	if (strncmp(url, "ssh://git@", 10) == 0)
		(void)snprintf(text, sizeof(text), "https://%s", url + 10);
	else if (strncmp(url, "git@", 4) == 0) {
		(void)snprintf(text, sizeof(text), "https://%s", url + 4);
		if (strchr(text + 8, ':') == NULL)
			return (false);
		*strchr(text + 8, ':') = '/';
	} else if (strncmp(url, "../../", 6) == 0)
		(void)snprintf(text, sizeof(text), "https://%s/%s",
		    c->repo.host, url + 6);
	else if (strncmp(url, "../", 3) == 0)
		(void)snprintf(text, sizeof(text), "https://%s/%.*s/%s",
		    c->repo.host, (int)(slash - c->repo.repo), c->repo.repo,
		    url + 3);
	else
		return (false);
	return (gh_repo_parse(text, ret_r));
}

/* The paths of .gitmodules, at most CLONE_MODULES; how many there are. */
static size_t
modules_of(struct clone *c, struct module *m)
{
	struct pieces in = { c->out.data, c->out.data + c->out.len };
	const char *name, *value, *nl;
	size_t n = 0;

	while (pair(&in, &name, &value)) {
		nl = strchr(value, '\n');
		if (strcmp(name, "module") != 0 || nl == NULL ||
		    nl - value < 5 || strncmp(nl - 5, ".path", 5) != 0 ||
		    nl[1] == '\0')
			continue;
		if (n < CLONE_MODULES)
			m[n] = (struct module){ .path = nl + 1 };
		n++;
	}
	return (n);
}

/*
 * What the client named was read with a grant, and this is the same account's:
 * else whoever wrote the repository would choose which private ones of the
 * operator's go into a sandbox that runs its code.
 */
static bool
module_is_kin(const struct clone *c, const struct gh_repo *r)
{
	size_t owner = strcspn(r->key, "/") + 1;

	return (*c->grant.grant != '\0' &&
	    strcmp(r->host, c->repo.host) == 0 &&
	    strncmp(r->key, c->repo.key, owner) == 0);
}

/* Its kin that are listed get a grant, others are read without.  0, or the
 * channel's end. */
static int
modules_grant(struct call *call, struct clone *c, struct module *m, size_t n)
{
	struct pieces in = { c->out.data, c->out.data + c->out.len };
	const char *name, *value, *nl;
	struct ask_repo g;
	struct gh_repo r;
	char vis[PATH_SHOWN];
	int error;

	for (size_t i = 0; i < n && pair(&in, &name, &value);) {
		nl = strchr(value, '\n');
		if (strcmp(name, "module") != 0 || nl == NULL ||
		    nl + 1 != m[i].path)
			continue;
		if (module_repo(c, module_url(c, value, (size_t)(nl - value) -
		    4), &r) && module_is_kin(c, &r)) {
			error = grant_open(call, c, &r, &g);
			if (error == 0)
				memcpy(m[i].grant, g.grant,
				    sizeof(m[i].grant));
			else if (error == SBX_E_POLICY)
				warn(c, "submodule %s: %s", sbx_vis(vis,
				    sizeof(vis), m[i].path,
				    strlen(m[i].path)),
				    call->ask->refused.reason);
			else
				return (error);
		}
		i++;
	}
	return (0);
}

/* What became of each: pieces again. */
static void
modules_read(struct clone *c, const struct sbx_buf *out)
{
	struct pieces in = { out->data, out->data + out->len };
	const char *name, *value, *path = NULL;
	char vis[PATH_SHOWN], said[500];

	while (pair(&in, &name, &value)) {
		if (strcmp(name, "failed") == 0)
			path = value;
		else if (strcmp(name, "nested") == 0)
			warn(c, "submodule %s has submodules itself, which "
			    "are not fetched.", sbx_vis(vis, sizeof(vis),
			    value, strlen(value)));
		else if (strcmp(name, "said") == 0 && path != NULL) {
			warn(c, "submodule %s could not be fetched: %s",
			    sbx_vis(vis, sizeof(vis), path, strlen(path)),
			    sbx_vis(said, sizeof(said), value,
			    strlen(value)));
			path = NULL;
		}
	}
}

/* Start, bind the grants to the run, wait.  0, or the channel's end. */
static int
modules_run(struct call *call, struct clone *c, struct module *m, size_t n)
{
	const char *argv[8 + CLONE_MODULES + 1] = { "sh", "-c", clone_script,
		"sbx", "modules", c->repo.host, c->dest };
	SBX_CLEANUP_BUF struct sbx_buf out = { 0 };
	char depth[24], run[17];
	struct ask_run st;
	bool whole;
	int r;

	(void)snprintf(depth, sizeof(depth), "%" PRIu64, c->depth);
	argv[7] = depth;
	for (size_t i = 0; i < n; i++)
		argv[8 + i] = m[i].path;
	r = start(call, c, argv, "/", run);
	if (r != 1)
		return (r);
	for (size_t i = 0; i < n; i++) {
		if (*m[i].grant == '\0')
			continue;
		r = repo_run(call->ask, run, m[i].grant, "");
		if (r != 0)
			return (call_refused(call, r));
		*m[i].grant = '\0';	/* ends with the run */
	}
	r = run_wait(call, run, script_wait_ms(call, c->timeout_ms),
	    c->timeout_ms, &st);
	if (r != 0)
		return (call_refused(call, r));
	if (st.state != SBX_RUN_ENDED) {
		warn(c, "The submodules are still being fetched, by job %s: "
		    "wait for it with sandbox_exec_check.", run);
		return (0);
	}
	/* nobody else worked there meanwhile */
	r = repo_run(call->ask, run, "", c->dest);
	if (r == 0)
		r = script_output(call, &st, OUT_MAX, &out, &whole);
	if (r != 0)
		return (call_refused(call, r));
	modules_read(c, &out);
	if (st.why != SBX_EXIT_EXITED || script_exit(&st) != 0)
		warn(c, "Not all submodules were fetched: read_output of run "
		    "%s says why.", run);
	return (0);
}

/* 0, or the channel's end.  A refusal is a warning. */
static int
modules(struct call *call, struct clone *c)
{
	struct module m[CLONE_MODULES];
	size_t n = modules_of(c, m), i;
	int r;

	if (n == 0)
		return (0);
	if (!c->modules) {
		warn(c, "It has %zu submodules, which were not fetched: "
		    "clone_repo has the argument submodules.", n);
		return (0);
	}
	if (n > CLONE_MODULES) {
		warn(c, "Only the first %u of %zu submodules were fetched.",
		    CLONE_MODULES, n);
		n = CLONE_MODULES;
	}
	r = modules_grant(call, c, m, n);
	if (r == 0)
		r = modules_run(call, c, m, n);
	if (call->res->kind == SBX_RESULT_ERROR) {
		warn(c, "The submodules were not fetched.");
		result_reset(call->res);
	}
	/* what no run took over */
	for (i = 0; i < n && r == 0; i++)
		if (*m[i].grant != '\0' && repo_close(call->ask,
		    m[i].grant) != 0 && call->ask->broken)
			r = SBX_E_STATE;
	return (r);
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
	r = modules(call, c);
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
	struct result *r = call->res;
	char repo[400];

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
