/*
 * publish: declared files of a work tree, as one commit on one branch of a
 * repository that the operator allows.
 *
 * What git says in the sandbox is a hint, by which the sandbox can only hurt
 * itself: the base is fetched from the remote, what the files are is computed
 * from their bytes, and what may be pushed is decided by others.
 */

#include "sbxd/worker/gate.h"

#include "common/base/fresh.h"
#include "common/base/json.h"
#include "common/base/limits.h"
#include "sbxd/worker/findings.h"
#include "sbxd/worker/github.h"
#include "sbxd/worker/output.h"
#include "sbxd/worker/publish_user.h"
#include "sbxd/worker/run.h"
#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_MAX 65536u
#define NAMES_MAX_BYTES (8u << 20)
#define SAID_MAX (8u << 20)	/* of the script */
#define FILES_MAX 20000u
#define LEFT_SHOWN 100u
#define SCRIPT_MS 30000u
#define TEXT_MAX (512u << 10)	/* of a pull request, as JSON */

enum { NO_COMMIT = 4, NO_BASE = 5, NOT_MERGED = 6, REWRITTEN = 7 };

/*
 * $1 a directory of the work tree, $2 the branch, $3 the one that it is to be
 * merged into or "".  Pieces on stdout, in pairs, the last is "end".  moved:
 * what the branch got since this work began, unless that was our own, or is here
 * as it is there (of the first 500 that is looked at: two processes each); left:
 * what differs from the base, declared or not; parent2, brought and both: of a
 * merge (gate.h); note: there is one that is none of the commit; ours: nobody
 * else's push was the last one.  What is not merged yet has conflict marks for
 * the solution: it ends before any of that.
 */
static const char list_script[] =
    "set -u; cd -- \"$1\" || exit 66; branch=$2 target=$3\n"
    SCRIPT_GIT
    "say() { printf '%s\\0%s\\0' \"$1\" \"$2\"; }\n"
    "all() { while IFS= read -rd '' f; do say \"$1\" \"$f\"; done; }\n"
    "n=0; there() { e=$(git --literal-pathspecs ls-tree --full-tree \"$b\" -- "
    "\"$1\"); e=${e%%$'\\t'*} f=$t/$1\n"
    "if [ -L \"$f\" ]; then false\n"
    "elif [ -f \"$f\" ]; then x=100644; [ -x \"$f\" ] && x=100755; "
    "[ \"$e\" = \"$x blob $(git hash-object -- \"$f\")\" ]\n"
    "else [ -z \"$e\" ] && [ ! -e \"$f\" ]; fi; }\n"
    "new() { while IFS= read -rd '' p; do [ $((n += 1)) -le 500 ] && "
    "there \"$p\" || say moved \"$p\"; done; }\n"
    "git rev-parse -q --verify 'HEAD^{commit}' >&2 || exit 4\n"
    "[ -z \"$(git ls-files -u)\" ] && "
    "[ ! -e \"$(git rev-parse --git-path MERGE_HEAD)\" ] || exit 6\n"
    GATE_BASE
    "[ -n \"$b\" ] || [ -f \"$(git rev-parse --git-path shallow)\" ] || "
    "exit 7\n"
    "[ -n \"$b\" ] || exit 5\n"
    GATE_MERGE
    "say top \"$t\"; say base \"$b\"\n"
    "if [ -n \"$p2\" ]; then say parent2 \"$p2\"; say merge_branch \"$pb\"\n"
    "brought | head -z -n 20001 | all brought; both | head -z -n 20001 | "
    "all both\n"
    "elif [ -n \"$(git rev-list --merges --max-count=1 HEAD \"^$b\")\" ]; "
    "then say note ''; fi\n"
    "[ \"$(id \"refs/sbx/published/$branch\")\" != \"$b\" ] || say ours ''\n"
    "m=$(git merge-base HEAD \"$b\" || :)\n"
    "[ \"$m\" = \"$b\" ] || [ \"$(id \"refs/sbx/published/$branch\")\" = "
    "\"$b\" ] ||\n"
    "git diff --no-ext-diff --no-renames --name-only -z \"${m:-HEAD}\" "
    "\"$b\" | head -z -n 20000 | new\n"
    "{ differs \"$b\"; git ls-files -z -o --exclude-standard; } | sort -zu | "
    "comm -z -23 - <(brought) | head -z -n 2000 | all left\n"
    "say end ''\n";

/* $1 the top, $2 host, $3 URL, $4 the branch, $5 its new commit: what was pushed
 * is known here, too. */
static const char know_script[] =
    "set -eu; cd -- \"$1\"\n" SCRIPT_GIT_ENV
    "export GIT_ASKPASS=true\n"
    "git -c protocol.allow=never -c protocol.https.allow=always "
    "-c credential.helper= fetch -q --no-tags --no-write-fetch-head "
    "\"$3\" \"+refs/heads/$4:refs/remotes/origin/$4\" >&2\n"
    "git update-ref \"refs/sbx/published/$4\" \"$5\"\n";

/* Sorted, each once. */
struct names {
	const char **v;		/* owned; the strings are not */
	size_t n;
};

struct pub {
	struct gh_repo repo;
	const char *container, *branch, *target, *title;
	bool create_pr, dry_run, force;
	/* of the script; borrowed from said */
	struct sbx_buf said;
	const char *top, *base;
	const char *parent2, *merge_branch;	/* "": no merge */
	struct names merged;		/* what that brings, not declared */
	bool whole;			/* its end was read */
	bool note, ours;
	struct ask_publish st;
	char pr_url[401], warning[600];
	uint64_t pr_number;
	bool pr_found;
};

/* --- arguments ---------------------------------------------------------------- */

static bool
check(struct call *call, struct pub *p)
{
	const struct args *a = &call->args;
	const char *message = args_str(a, "message", NULL);

	p->container = args_str(a, "container_id", NULL);
	p->branch = args_str(a, "branch", NULL);
	p->target = args_str(a, "base_branch", NULL);
	p->title = args_str(a, "pr_title", NULL);
	p->create_pr = args_bool(a, "create_pr");
	p->dry_run = args_bool(a, "dry_run");
	p->force = args_bool(a, "force");
	if (!gh_repo_arg(call, "repo", &p->repo))
		return (false);
	if (!gh_branch(call, "branch", p->branch) ||
	    !gh_branch(call, "base_branch", p->target))
		return (false);
	if (p->target != NULL && strcmp(p->target, p->branch) == 0)
		return (gh_bad(call, "\"base_branch\" is where the work is to be "
		    "merged into; it cannot be \"branch\" itself."));
	if (p->create_pr && gh_blank(p->title))
		return (gh_bad(call, "\"pr_title\" is missing: create_pr needs "
		    "it."));
	if (gh_blank(message) || strlen(message) > MESSAGE_MAX)
		return (gh_bad(call, "\"message\" must be the text of the "
		    "commit, of up to 64 KiB."));
	return (gh_clean_out(call, "branch", p->branch) &&
	    gh_clean_out(call, "message", message) &&
	    gh_clean_out(call, "pr_title", p->title) &&
	    gh_clean_out(call, "pr_body", args_str(a, "pr_body", NULL)));
}

static int
by_name(const void *a, const void *b)
{
	return (strcmp(*(const char *const *)a, *(const char *const *)b));
}

static bool
names_get(struct call *call, struct names *ret_n, struct sbx_buf *ret_text)
{
	struct json_object *files = args_json(&call->args, "files");
	size_t i, n = files != NULL ? json_object_array_length(files) : 0, k;
	const char *s;

	ret_n->v = sbx_xcalloc(n + 1, sizeof(*ret_n->v));
	for (i = 0; i < n; i++) {
		s = json_object_get_string(json_object_array_get_idx(files,
		    i));
		while (strncmp(s, "./", 2) == 0)
			s += 2;
		ret_n->v[i] = s;
	}
	qsort(ret_n->v, n, sizeof(*ret_n->v), by_name);
	for (i = k = 0; i < n; i++)
		if (k == 0 || strcmp(ret_n->v[k - 1], ret_n->v[i]) != 0)
			ret_n->v[k++] = ret_n->v[i];
	ret_n->n = k;
	for (i = 0; i < k; i++)
		(void)sbx_buf_add(ret_text, ret_n->v[i],
		    strlen(ret_n->v[i]) + 1);
	return (!ret_text->overflow || gh_bad(call, "\"files\" is too long."));
}

static bool
declared(const struct names *n, const char *path)
{
	return (n->n > 0 && bsearch(&path, n->v, n->n, sizeof(*n->v),
	    by_name) != NULL);
}

/* --- what git says in the sandbox ------------------------------------------------ */

static bool
next_pair(struct pieces *in, const char **ret_name, const char **ret_value)
{
	size_t n;

	return (piece_next(in, ret_name, &n) && piece_next(in, ret_value, &n));
}

static void
read_said(struct pub *p)
{
	struct pieces in = { p->said.data, p->said.data + p->said.len };
	const char *name, *value;

	p->top = p->base = p->parent2 = p->merge_branch = "";
	while (p->said.len > 0 && next_pair(&in, &name, &value)) {
		if (strcmp(name, "top") == 0)
			p->top = value;
		else if (strcmp(name, "base") == 0)
			p->base = value;
		else if (strcmp(name, "parent2") == 0)
			p->parent2 = value;
		else if (strcmp(name, "merge_branch") == 0)
			p->merge_branch = value;
		else if (strcmp(name, "end") == 0)
			p->whole = true;
		p->note |= strcmp(name, "note") == 0;
		p->ours |= strcmp(name, "ours") == 0;
	}
	if (strlen(p->parent2) != strlen(p->base) ||
	    !sbx_is_hex(p->parent2, strlen(p->parent2)))
		p->parent2 = p->merge_branch = "";
	if (!sbx_is_hex(p->base, 40) && !sbx_is_hex(p->base, 64))
		p->base = "";
}

static int
list_failed(struct call *call, const struct ask_run *st)
{
	int r;

	if (script_no_git(call, st, &r))
		return (r);
	if (script_exit(st) == NO_COMMIT)
		result_error(call->res, "no_commit", "Clone the repository "
		    "with clone_repo.", "This repository has no commit.");
	else if (script_exit(st) == NO_BASE)
		result_error(call->res, "no_base", "Clone with more depth, or "
		    "name base_branch.", "There is no commit of the remote "
		    "that this work began from.");
	else if (script_exit(st) == REWRITTEN)
		result_error(call->res, "no_base", "Bring the clone up to date "
		    "(clone_repo with fetch), or clone anew and bring the work "
		    "there; or name base_branch.", "This work has no commit "
		    "that a branch of the remote has: it was rewritten, or is "
		    "not fetched here.");
	else if (script_exit(st) == NOT_MERGED)
		result_error(call->res, "merge_in_progress", "Resolve what is "
		    "left and call merge_complete, or give it up with "
		    "merge_abort; then publish.", "A merge is under way, or "
		    "paths are unmerged: its conflict marks would go out.");
	else
		return (script_failed(call, st, "publish_failed", NULL,
		    "The work tree could not be read"));
	script_ids(call, st);
	return (0);
}

/* 1: p->top, p->base and the rest are there; else as tool_fn.  With force what
 * the branch has is not what it is made on. */
static int
list(struct call *call, struct pub *p)
{
	const char *dir = NULL;
	const char *argv[] = { "bash", "-c", list_script, "sbx", "",
		p->force ? "" : p->branch, p->target != NULL ? p->target : "",
		NULL };
	struct script s = { .argv = argv, .timeout_ms = SCRIPT_MS };
	struct ask_run st;
	bool whole;
	int r;

	if (!script_dir(call, &dir))
		return (0);
	argv[4] = dir;
	r = script_run(call, &s, &st);
	if (r != 1)
		return (r);
	if (script_exit(&st) != 0)
		return (list_failed(call, &st));
	r = script_output(call, &st, SAID_MAX, &p->said, &whole);
	if (r != 0)
		return (call_refused(call, r));
	read_said(p);
	if (*p->base == '\0' || *p->top != '/' || !whole || !p->whole)
		return (script_failed(call, &st, "publish_failed", NULL,
		    "The work tree could not be read"));
	return (1);
}

/* --- merges --------------------------------------------------------------------------- */

/* What the merge brings, and nobody declared: it becomes as the merged commit
 * has it, whatever is here.  false: the result says why not. */
static bool
merged_get(struct call *call, struct pub *p, const struct names *n,
    struct sbx_buf *text)
{
	struct names *m = &p->merged;
	struct pieces in = { p->said.data, p->said.data + p->said.len };
	const char *name, *value;

	m->v = sbx_xcalloc(FILES_MAX + 1, sizeof(*m->v));
	while (*p->parent2 != '\0' && next_pair(&in, &name, &value)) {
		if (strcmp(name, "brought") != 0 || declared(n, value))
			continue;
		if (n->n + m->n == FILES_MAX) {
			result_error(call->res, "too_large", "Have the branch "
			    "merged at the repository, and begin from there.",
			    "The merge brings more than %u files.", FILES_MAX);
			return (false);
		}
		m->v[m->n++] = value;
		(void)sbx_buf_add(text, value, strlen(value) + 1);
	}
	return (!text->overflow || gh_bad(call, "\"files\" is too long."));
}

/* Both sides changed them: without them the commit would say that the branch was
 * merged, and take back what it brought. */
static bool
undeclared(struct call *call, const struct pub *p, const struct names *n)
{
	struct pieces in = { p->said.data, p->said.data + p->said.len };
	const char *name, *value;
	struct result *r = call->res;
	unsigned count = 0;

	while (*p->parent2 != '\0' && next_pair(&in, &name, &value)) {
		if (strcmp(name, "both") != 0 || declared(n, value))
			continue;
		if (count++ == 0) {
			result_error(r, "merge_undeclared", "Add them to files "
			    "(and verify with the same), or publish without "
			    "the merge.", "Both sides of the merge changed "
			    "files that are not declared.");
			result_open(r, "undeclared", '[');
		}
		if (count <= LEFT_SHOWN)
			result_masked(r, NULL, value, strlen(value));
	}
	if (count > 0)
		result_close(r, ']');
	return (count > 0);
}

static void
put_merge(struct call *call, const struct pub *p)
{
	const struct names *m = &p->merged;
	struct result *r = call->res;

	if (p->note)
		result_str(r, "merge_note", "HEAD has a merge, but the base has "
		    "what it merged already: the commit has one parent.");
	if (p->merged.v == NULL || *p->parent2 == '\0')
		return;
	result_str(r, "parent2", p->parent2);
	result_masked(r, "merge_branch", p->merge_branch,
	    strlen(p->merge_branch));
	result_open(r, "merged_in", '[');
	for (size_t i = 0; i < m->n && i < LEFT_SHOWN; i++)
		result_masked(r, NULL, m->v[i], strlen(m->v[i]));
	result_close(r, ']');
	result_u64(r, "merged_in_total", m->n);
}

/* Is it one that has to be declared? */
static bool
of_both(const struct pub *p, const char *path)
{
	struct pieces in = { p->said.data, p->said.data + p->said.len };
	const char *name, *value;

	while (next_pair(&in, &name, &value))
		if (strcmp(name, "both") == 0 && strcmp(value, path) == 0)
			return (true);
	return (false);
}

/*
 * Somebody pushed to the branch since, and the work here does not know it: what
 * is declared of these files, or merged, would undo that.
 */
static bool
overwrites(struct call *call, const struct pub *p, const struct names *n)
{
	struct pieces in = { p->said.data, p->said.data + p->said.len };
	const char *name, *value;
	struct result *r = call->res;
	unsigned count = 0;

	while (next_pair(&in, &name, &value)) {
		if (strcmp(name, "moved") != 0 || (!declared(n, value) &&
		    !declared(&p->merged, value) && !of_both(p, value)))
			continue;
		if (count++ == 0) {
			result_error(r, "upstream_overwrite", "Take the other "
			    "work in first (merge_base with "
			    "base_branch: this branch), verify, and publish "
			    "that.", "Others changed "
			    "declared files on %s since this work began.",
			    p->branch);
			result_open(r, "conflicting_paths", '[');
		}
		if (count <= LEFT_SHOWN)
			result_masked(r, NULL, value, strlen(value));
	}
	if (count > 0)
		result_close(r, ']');
	return (count > 0);
}

/* --- the result ---------------------------------------------------------------------- */

static void
put_left(struct call *call, const struct pub *p, const struct names *n)
{
	struct pieces in = { p->said.data, p->said.data + p->said.len };
	const char *name, *value;
	uint64_t count = 0;

	if (p->top == NULL)
		return;
	result_open(call->res, "worktree_leftover", '[');
	while (next_pair(&in, &name, &value))
		if (strcmp(name, "left") == 0 && !declared(n, value) &&
		    count++ < LEFT_SHOWN)
			result_masked(call->res, NULL, value, strlen(value));
	result_close(call->res, ']');
	result_u64(call->res, "worktree_leftover_total", count);
}

static void
put_findings(struct call *call, const struct ask_publish *st)
{
	if (st->total > 0) {
		findings_put(call->res, "findings", &st->findings);
		result_u64(call->res, "findings_total", st->total);
	}
	if (st->nwaived > 0) {
		findings_put(call->res, "waived", &st->waived);
		result_u64(call->res, "waived_total", st->nwaived);
	}
}

/* Nothing was pushed for it: no commit is its own. */
static bool
request_alone(const struct ask_publish *st)
{
	return (st->outcome == SBX_PUBLISH_LANDED && *st->commit == '\0');
}

static void
put_ids(struct call *call, const struct pub *p)
{
	const struct ask_publish *st = &p->st;
	struct result *r = call->res;
	char text[400];

	result_str(r, "run_id", st->id);
	result_str(r, "container_id", p->container);
	result_str(r, "repo", gh_repo_text(&p->repo, text, sizeof(text)));
	result_str(r, "branch", p->branch);
	result_str_or_null(r, "base", st->base);
	result_str_or_null(r, "from", st->tip);
	result_str_or_null(r, "tree_id", st->tree);
	if (!request_alone(st))
		result_str_or_null(r, "commit", st->commit);
	result_u64(r, "added", st->added);
	result_u64(r, "modified", st->modified);
	result_u64(r, "deleted", st->deleted);
	result_u64(r, "unchanged", st->unchanged);
	result_u64(r, "bytes", st->bytes);
	result_seconds(r, "elapsed_seconds", st->elapsed_ms);
	if (*st->gate_status == '\0')
		return;
	result_open(r, "gate", '{');
	result_str_or_null(r, "run_id", st->gate);
	result_str(r, "status", st->gate_status);
	result_str_or_null(r, "command", sbx_fresh_runs(st->gate_ran, text,
	    sizeof(text)));
	result_close(r, '}');
}

/* What its verification found, as long as that is kept. */
static void
put_red(struct call *call, const struct ask_publish *st)
{
	struct ask_gate g;
	char id[sizeof(st->gate)];

	if (strcmp(st->gate_status, "failed") != 0)
		return;
	memcpy(id, st->gate, sizeof(id));
	if (gate_wait(call->ask, id, 0, &g) == 0)
		gate_put_tests(call->res, &g);
}

static void
put_refused(struct call *call, const struct pub *p)
{
	const struct ask_publish *st = &p->st;
	bool unknown = st->outcome == SBX_PUBLISH_UNKNOWN;

	result_error(call->res, unknown ? "unknown" : st->step, st->next,
	    "%s", st->reason);
	result_str(call->res, "step", st->step);
	result_bool(call->res, "pushed", false);
	put_ids(call, p);
	put_findings(call, st);
	put_red(call, st);
}

static void
put_done(struct call *call, const struct pub *p, const struct names *n)
{
	static const char *const words[SBX_PUBLISH_OUTCOME_MAX] = {
		[SBX_PUBLISH_PUSHED] = "pushed",
		[SBX_PUBLISH_LANDED] = "already_there",
		[SBX_PUBLISH_WOULD] = "dry_run" };
	struct result *r = call->res;

	result_str(r, "status", "ok");
	result_str(r, "outcome", words[p->st.outcome]);
	result_bool(r, "pushed", p->st.outcome == SBX_PUBLISH_PUSHED);
	put_ids(call, p);
	put_findings(call, &p->st);
	if (!request_alone(&p->st))
		result_bool(r, "signed", p->st.is_signed ==
		    SBX_PUBLISH_SIGNED);
	put_merge(call, p);
	put_left(call, p, n);
	if (*p->pr_url != '\0') {
		result_str(r, "pr_url", p->pr_url);
		result_u64(r, "pr_number", p->pr_number);
		result_bool(r, "pr_created", !p->pr_found);
	}
	result_open(r, "warnings", '[');
	if (p->st.is_signed == SBX_PUBLISH_TO_SIGN)
		result_str(r, NULL, "It will be signed, and be another commit "
		    "by that.");
	if (!p->create_pr && (p->title != NULL ||
	    args_str(&call->args, "pr_body", NULL) != NULL))
		result_str(r, NULL, "pr_title and pr_body were not used: "
		    "create_pr is not set.");
	if (*p->warning != '\0')
		result_masked(r, NULL, p->warning, strlen(p->warning));
	result_close(r, ']');
}

/* --- after the push -------------------------------------------------------------------- */

/* The work tree learns of its new commit: the next one is made on it.  It was
 * pushed all the same, so what fails here is a warning. */
static void
tell_worktree(struct call *call, struct pub *p)
{
	char url[512];
	const char *argv[] = { "sh", "-c", know_script, "sbx", "",
		p->repo.host, url, p->branch, p->st.commit, NULL };
	const struct script s = { .argv = argv, .timeout_ms = SCRIPT_MS };
	struct ask_repo grant;
	struct ask_run st;
	bool good = p->top != NULL;

	if (!good && list(call, p) == 1)
		good = true;
	(void)snprintf(url, sizeof(url), "https://%s/%s.git", p->repo.host,
	    p->repo.repo);
	argv[4] = p->top;
	memset(&grant, 0, sizeof(grant));
	good = good && repo_open(call->ask, &(struct sbx_repo_open){
	    .container = p->container, .host = p->repo.host,
	    .repo = p->repo.key, .lifetime_ms = 2 * SCRIPT_MS }, &grant) == 0;
	good = good && script_run(call, &s, &st) == 1 && script_exit(&st) == 0;
	if (*grant.grant != '\0' && !call->ask->broken)
		(void)repo_close(call->ask, grant.grant);
	if (good)
		return;
	result_reset(call->res);
	(void)snprintf(p->warning, sizeof(p->warning), "The sandbox could not "
	    "fetch what was pushed: before the next publish to this branch, "
	    "fetch it or clone anew.");
}

/* gh_ask() failed: its sentence is a warning, since the push stands.  0: go on;
 * else the channel's end. */
static int
pr_warn(struct call *call, struct pub *p, int r)
{
	SBX_CLEANUP_BUF struct sbx_buf copy = { 0 };
	struct json_object *o;

	if (r < 0)
		return (r);
	sbx_buf_init(&copy, call->res->text.len + 2);
	(void)sbx_buf_add(&copy, call->res->text.data, call->res->text.len);
	(void)sbx_buf_add(&copy, "}", 1);
	o = script_json(copy.data, copy.len);
	(void)snprintf(p->warning, sizeof(p->warning), "There is no pull "
	    "request: %.500s", gh_str(o, "error"));
	json_object_put(o);
	result_reset(call->res);
	return (0);
}

static void
pr_take(struct pub *p, struct json_object *o, bool found)
{
	(void)snprintf(p->pr_url, sizeof(p->pr_url), "%.400s", gh_str(o,
	    "html_url"));
	p->pr_number = gh_num(o, "number");
	p->pr_found = found;
}

/* One that is open from this branch already is it.  As gh_ask(), 1: it was
 * looked. */
static int
pr_find(struct call *call, struct pub *p)
{
	struct json_object *all, *o;
	int r = gh_ask(call, &p->repo, &(struct gh_ask){
	    .op = SBX_REST_PULLS_OF, .text = p->branch }, json_type_array,
	    NULL, &all);

	if (r != 1)
		return (r);
	for (size_t i = 0; i < gh_len(all); i++) {
		o = gh_at(all, i);
		if (*p->pr_url == '\0' && (p->target == NULL ||
		    strcmp(gh_str(o, "base.ref"), p->target) == 0))
			pr_take(p, o, true);
	}
	json_object_put(all);
	return (1);
}

static int
pr_make(struct call *call, struct pub *p)
{
	const char *target = p->target != NULL ? p->target :
	    p->st.default_branch;
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct json_object *o;
	int r;

	sbx_buf_init(&b, TEXT_MAX);
	gh_json_member(&b, "title", p->title);
	gh_json_member(&b, "body", args_str(&call->args, "pr_body", NULL));
	gh_json_member(&b, "head", p->branch);
	gh_json_member(&b, "base", target);
	if (sbx_buf_str(&b, "}") != 0 || b.overflow) {
		(void)snprintf(p->warning, sizeof(p->warning), "There is no "
		    "pull request: pr_body is too long.");
		return (0);
	}
	r = gh_ask(call, &p->repo, &(struct gh_ask){
	    .op = SBX_REST_PULL_CREATE, .body = b.data }, json_type_object,
	    NULL, &o);
	if (r != 1)
		return (pr_warn(call, p, r));
	pr_take(p, o, false);
	json_object_put(o);
	return (0);
}

/* 0, or the channel's end. */
static int
pull_request(struct call *call, struct pub *p)
{
	int r = pr_find(call, p);

	if (r != 1)
		return (pr_warn(call, p, r));
	return (*p->pr_url != '\0' ? 0 : pr_make(call, p));
}

/* --- the tool ---------------------------------------------------------------------------- */

static const char *
doing(uint8_t phase)
{
	static const char *const what[SBX_PUBLISH_PHASE_MAX] = {
		[SBX_PUBLISH_MAKING] = "its sandbox is made",
		[SBX_PUBLISH_FETCHING] = "the base is fetched",
		[SBX_PUBLISH_JUDGING] = "the files are judged",
		[SBX_PUBLISH_BUILDING] = "the commit is made",
		[SBX_PUBLISH_GATE] = "its fresh verification runs",
		[SBX_PUBLISH_APPROVAL] = "the operator is asked",
		[SBX_PUBLISH_PUSHING] = "it is pushed" };

	return (phase < SBX_PUBLISH_PHASE_MAX && what[phase] != NULL ?
	    what[phase] : "it goes on");
}

/* What is declared is what the branch has at its tip, whoever pushed it: there is
 * nothing to push, but a pull request to open that was not then. */
static bool
lacks_request(const struct pub *p)
{
	return (p->create_pr && !p->dry_run &&
	    p->st.outcome == SBX_PUBLISH_REFUSED &&
	    strcmp(p->st.step, "unchanged") == 0 && *p->st.tip != '\0' &&
	    strcmp(p->st.tip, p->st.base) == 0);
}

static int
ended(struct call *call, struct pub *p, const struct names *n)
{
	bool there = p->st.outcome == SBX_PUBLISH_PUSHED ||
	    p->st.outcome == SBX_PUBLISH_LANDED;
	int r = 0;

	if (lacks_request(p)) {
		p->st.outcome = SBX_PUBLISH_LANDED;
		if ((r = pull_request(call, p)) == 0 && !call->ask->broken)
			put_done(call, p, n);
		return (call->ask->broken ? SBX_E_CLOSED : r);
	}

	if (!there && p->st.outcome != SBX_PUBLISH_WOULD) {
		put_refused(call, p);
		return (0);
	}
	if (there)
		tell_worktree(call, p);
	if (there && p->create_pr && !call->ask->broken)
		r = pull_request(call, p);
	if (r != 0 || call->ask->broken)
		return (r != 0 ? r : SBX_E_CLOSED);
	put_done(call, p, n);
	return (0);
}

/* Nothing verified this tree: that is done now, of the same files.  As tool_fn;
 * *ret_begun false: the result says why not. */
static int
verify(struct call *call, struct pub *p, bool *ret_begun)
{
	char id[sizeof(p->st.id)], base[sizeof(p->st.base)];
	const char *dir = NULL;
	struct ask_gate g;
	int r;

	*ret_begun = false;
	if (!script_dir(call, &dir))
		return (0);
	memcpy(id, p->st.id, sizeof(id));
	memcpy(base, p->st.base, sizeof(base));
	r = gate_begin(call, dir, base, p->target != NULL ? p->target : "",
	    &p->repo, 0, &g, ret_begun);
	if (r != 0 || !*ret_begun)
		return (r);
	r = publish_gate(call->ask, id, g.id, &p->st);
	*ret_begun = r == 0;
	return (call_refused(call, r));
}

static bool
unverified(const struct ask_publish *st)
{
	return (st->phase == SBX_PUBLISH_GATE &&
	    strcmp(st->gate_status, "missing") == 0);
}

/* As long as this call may wait, telling the client meanwhile; that an operator
 * is waited for, which may be long, is told at once, unless it was. */
static int
follow(struct call *call, struct pub *p, const struct names *n, bool again)
{
	enum user_word word = USER_NONE;
	bool begun, ask = true;
	uint32_t left, ms;
	int error = 0;

	while (error == 0 && p->st.phase != SBX_PUBLISH_ENDED &&
	    (left = call_left_ms(call)) > 0) {
		if (p->st.phase == SBX_PUBLISH_APPROVAL && ask) {
			ask = false;
			error = user_confirm(call, &p->st, &word);
			if (error == 0 && word == USER_ASKED)
				return (0);
			again |= word == USER_SAID;
			continue;
		}
		if (p->st.phase == SBX_PUBLISH_APPROVAL && !again)
			break;
		if (unverified(&p->st)) {
			error = verify(call, p, &begun);
			if (error != 0 || !begun)
				return (error);
			continue;
		}
		ms = left < WORKER_PROGRESS_MS ? left : WORKER_PROGRESS_MS;
		error = publish_wait(call->ask, p->st.id, ms, &p->st);
		if (error == 0 && p->st.phase != SBX_PUBLISH_ENDED)
			error = call_progress(call, 0, doing(p->st.phase));
	}
	if (error != 0)
		return (call_refused(call, error));
	if (p->st.phase == SBX_PUBLISH_ENDED)
		return (ended(call, p, n));
	result_str(call->res, "status", "running");
	result_str(call->res, "job_id", p->st.id);
	if (p->st.phase == SBX_PUBLISH_APPROVAL)
		result_str(call->res, "waiting_for", "approval");
	put_ids(call, p);
	result_str(call->res, "recommended_next_action",
	    p->st.phase == SBX_PUBLISH_APPROVAL ? "Tell your user: the "
	    "operator looks at it with `sbx publish show` and this run_id and "
	    "lets it go with `sbx approve`, within an hour. Then call again "
	    "with the same arguments and this run_id." :
	    "Call again with the same arguments and this run_id.");
	return (0);
}

static int
start(struct call *call, struct pub *p, const struct sbx_buf *names)
{
	const char *message = args_str(&call->args, "message", NULL);
	const struct sbx_publish_start m = { .container = p->container,
		.dir = p->top, .host = p->repo.host, .repo = p->repo.key,
		.branch = p->branch, .base = p->base, .parent2 = p->parent2,
		.merge_branch = p->merge_branch,
		.merged = (uint32_t)p->merged.n,
		.flags = SBX_PUBLISH_VERIFY | (p->dry_run ?
		SBX_PUBLISH_DRY_RUN : 0) | (p->force ? SBX_PUBLISH_FORCE :
		0) };
	int SBX_CLEANUP(fd) list_fd = -1, SBX_CLEANUP(fd) text_fd = -1;

	if (sbx_memfd_sealed("names", names->data, names->len, &list_fd) !=
	    0 || sbx_memfd_sealed("message", message, strlen(message),
	    &text_fd) != 0)
		return (SBX_E_SYS);
	return (publish_start(call->ask, &m, (int[]){ list_fd, text_fd },
	    &p->st));
}

static int
publish(struct call *call, struct pub *p, struct names *n,
    struct sbx_buf *names)
{
	const char *again = args_str(&call->args, "run_id", NULL);
	int r;

	if (!names_get(call, n, names))
		return (0);
	if (again == NULL)
		again = user_asked_of(call);
	if (again != NULL) {
		r = publish_wait(call->ask, again, 0, &p->st);
		if (r == 0 && strcmp(p->st.branch, p->branch) != 0) {
			(void)gh_bad(call, "That run_id is of another branch: "
			    "give the same arguments.");
			return (0);
		}
		return (r != 0 ? call_refused(call, r) : follow(call, p, n,
		    args_str(&call->args, "run_id", NULL) != NULL));
	}
	r = list(call, p);
	if (r != 1)
		return (r);
	/* a merge may be all there is, also when it is published again */
	if (n->n == 0 && *p->parent2 == '\0' && !p->ours) {
		(void)gh_bad(call, "\"files\" must name what is published.");
		return (0);
	}
	if (!merged_get(call, p, n, names) || overwrites(call, p, n) ||
	    undeclared(call, p, n))
		return (0);
	r = start(call, p, names);
	return (r != 0 ? call_refused(call, r) : follow(call, p, n, false));
}

int
tool_publish(struct call *call)
{
	struct pub p = { 0 };
	struct names n = { 0 };
	SBX_CLEANUP_BUF struct sbx_buf names = { 0 };
	int r = 0;

	sbx_buf_init(&names, NAMES_MAX_BYTES);
	sbx_buf_init(&p.said, SAID_MAX + 1);
	if (check(call, &p))
		r = publish(call, &p, &n, &names);
	sbx_buf_clear(&p.said);
	free(p.merged.v);
	free(n.v);
	return (r);
}
