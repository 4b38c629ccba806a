/*
 * merge_base, merge_complete, merge_abort: a branch of the remote merged into a
 * work tree, by git in its sandbox.  Nothing of it reaches the remote; what
 * publish makes of it is resolved against the remote again.
 */

#include "sbxd/worker/github.h"
#include "sbxd/worker/run.h"
#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <stdio.h>
#include <string.h>

#include "merge_script.h"

#define OUT_MAX (4u << 20)
#define SHOWN 200u		/* paths of a list */
#define GRACE_MS 15000u		/* for the end of what is killed */

struct merge {
	struct sbx_buf out;	/* owned: what it printed, */
	bool whole;		/* to its end */
	struct ask_run st;
	const char *no;		/* why nothing was done, NULL: it was */
	size_t masked;
};

/* Why nothing was done.  said: with the begin of what git said. */
static const struct {
	const char *word, *next, *why;
	bool said;
} refusals[] = {
	{ "no_commit", "Clone the repository with clone_repo.",
	    "This repository has no commit.", false },
	{ "no_base", "Name base_branch.", "Which branch is to be merged cannot "
	    "be told from this clone.", false },
	{ "no_remote", "Name repo.", "This repository has no remote \"origin\" "
	    "to fetch from.", false },
	{ "dirty", "Keep them with checkpoint first; it loses nothing.",
	    "Files have changes that are not committed.", false },
	{ "merge_in_progress", "Resolve what is left and call merge_complete, "
	    "or give it up with merge_abort.", "A merge is under way.", false },
	{ "other_in_progress", "End it, or give it up, with sandbox_exec (git "
	    "rebase --abort, git cherry-pick --abort).", "A rebase, a pick or "
	    "a revert is under way.", false },
	{ "fetch", "Name base_branch as the repository has it, and repo: a "
	    "private one is read with the operator's credential then.",
	    "The branch could not be fetched", true },
	{ "unrelated", "Merge a branch of the repository that was cloned.",
	    "The histories have no commit in common.", false },
	{ "shallow", "Call clone_repo with fetch: true and a larger depth, "
	    "then merge_base again.", "The clone has too little history to "
	    "find where both sides parted.", false },
	{ "merge_failed", "Nothing has changed. Mend what it says, and call "
	    "again.", "git could not merge", true },
	{ "no_merge", "merge_base begins one.", "No merge is under way.",
	    false },
	{ "unresolved", "Edit what has marks. Of undecided ones say what shall "
	    "stay: git add keeps the file that is there, git rm takes it "
	    "away. Lines that have to look like marks: git commit --no-edit.",
	    "Conflicts are left.", false },
	{ "stage", "See what it says.", "What was resolved could not be "
	    "staged", true },
	{ "commit", "See what it says.", "git could not commit", true },
	{ "keep", "See what it says.", "The work on the merge could not be "
	    "kept, so it was not given up", true },
	{ "abort", "See what it says; the work is kept in refs/sbx/aborted.",
	    "git could not give the merge up", true },
};

static bool
next_pair(struct pieces *in, const char **ret_name, const char **ret_value,
    size_t *ret_len)
{
	size_t n;

	return (piece_next(in, ret_name, &n) && piece_next(in, ret_value,
	    ret_len));
}

static struct pieces
said(const struct merge *m)
{
	return ((struct pieces){ m->out.data, m->out.data + m->out.len });
}

static const char *
value_of(const struct merge *m, const char *key)
{
	struct pieces in = said(m);
	const char *name, *value;
	size_t n;

	while (m->out.len > 0 && next_pair(&in, &name, &value, &n))
		if (strcmp(name, key) == 0)
			return (value);
	return (NULL);
}

/* --- the result ---------------------------------------------------------------- */

static void
put_id(struct call *call, const struct merge *m, const char *key)
{
	const char *v = value_of(m, key);

	if (v != NULL && (sbx_is_hex(v, 40) || sbx_is_hex(v, 64)))
		result_str(call->res, key, v);
}

static void
put_list(struct call *call, struct merge *m, const char *name,
    const char *key)
{
	struct pieces in = said(m);
	const char *k, *v;
	uint64_t count = 0;
	size_t n;

	if (value_of(m, name) == NULL)
		return;
	result_open(call->res, key, '[');
	while (next_pair(&in, &k, &v, &n))
		if (strcmp(k, name) == 0 && count++ < SHOWN)
			script_put(call->res, NULL, v, n, &m->masked);
	result_close(call->res, ']');
}

/* Which stages an unmerged path has: bits 1 to 3. */
static const char *
kind_of(unsigned stages)
{
	static const char *const kinds[] = {
		[1u << 1] = "both_deleted", [1u << 2] = "added_by_us",
		[1u << 3] = "added_by_them",
		[1u << 1 | 1u << 2] = "deleted_by_them",
		[1u << 1 | 1u << 3] = "deleted_by_us",
		[1u << 2 | 1u << 3] = "both_added",
		[1u << 1 | 1u << 2 | 1u << 3] = "both_modified" };

	return (stages < SBX_NELEM(kinds) && kinds[stages] != NULL ?
	    kinds[stages] : "conflict");
}

static void
put_conflict(struct call *call, struct merge *m, const char *path, size_t n,
    unsigned stages)
{
	result_open(call->res, NULL, '{');
	script_put(call->res, "path", path, n, &m->masked);
	result_str(call->res, "kind", kind_of(stages));
	result_close(call->res, '}');
}

/* "MODE ID STAGE\tPATH", those of a path side by side. */
static void
put_conflicts(struct call *call, struct merge *m)
{
	struct pieces in = said(m);
	const char *k, *v, *tab, *path = NULL;
	unsigned stages = 0;
	uint64_t count = 0;
	size_t n;

	if (value_of(m, "stage") == NULL)
		return;
	result_open(call->res, "conflicts", '[');
	while (next_pair(&in, &k, &v, &n)) {
		tab = strcmp(k, "stage") == 0 ? strchr(v, '\t') : NULL;
		if (tab == NULL || tab == v || tab[-1] < '1' || tab[-1] > '3')
			continue;
		if (path != NULL && strcmp(path, tab + 1) != 0) {
			if (count++ < SHOWN)
				put_conflict(call, m, path, strlen(path),
				    stages);
			stages = 0;
		}
		path = tab + 1;
		stages |= 1u << (tab[-1] - '0');
	}
	if (path != NULL && count++ < SHOWN)
		put_conflict(call, m, path, strlen(path), stages);
	result_close(call->res, ']');
	result_u64(call->res, "conflicts_total", count);
}

/* "LINE,LINE, PATH" of each file. */
static void
put_marks(struct call *call, struct merge *m)
{
	struct pieces in = said(m);
	const char *k, *v, *path, *end;
	uint64_t count = 0, line;
	size_t n;

	if (value_of(m, "marks") == NULL)
		return;
	result_open(call->res, "marks", '[');
	while (next_pair(&in, &k, &v, &n)) {
		path = strcmp(k, "marks") == 0 ? strchr(v, ' ') : NULL;
		if (path == NULL || count++ >= SHOWN)
			continue;
		result_open(call->res, NULL, '{');
		script_put(call->res, "path", path + 1, strlen(path + 1),
		    &m->masked);
		result_open(call->res, "lines", '[');
		for (; (end = strchr(v, ',')) != NULL && end < path; v = end +
		    1)
			if ((line = piece_number(v, end)) != UINT64_MAX)
				result_u64(call->res, NULL, line);
		result_close(call->res, ']');
		result_close(call->res, '}');
	}
	result_close(call->res, ']');
}

static int
put_refused(struct call *call, struct merge *m)
{
	size_t i;
	int r = 0;

	for (i = 0; i < SBX_NELEM(refusals) &&
	    strcmp(refusals[i].word, m->no) != 0; i++)
		;
	if (i == SBX_NELEM(refusals))
		return (script_failed(call, &m->st, "git_failed", NULL,
		    "git printed something else than was asked"));
	if (refusals[i].said)
		r = script_failed(call, &m->st, refusals[i].word,
		    refusals[i].next, refusals[i].why);
	else {
		result_error(call->res, refusals[i].word, refusals[i].next,
		    "%s", refusals[i].why);
		script_ids(call, &m->st);
	}
	if (r != 0)
		return (r);
	put_list(call, m, "dirty", "dirty");
	put_conflicts(call, m);
	put_marks(call, m);
	put_list(call, m, "undecided", "undecided");
	return (0);
}

static const struct {
	const char *outcome, *next;
} nexts[] = {
	{ "conflicts", "Resolve them with edit_file, then merge_complete; "
	    "merge_abort gives it up." },
	{ "aborted", "kept is a commit of what it had come to: "
	    "checkpoint_restore returns to it." },
};

static void
put_done(struct call *call, struct merge *m, const char *outcome)
{
	static const char *const ids[] = { "before", "head", "tip", "parent2",
		"kept" };
	static const char *const counts[] = { "changed", "resolved" };
	struct result *r = call->res;
	const char *v;
	uint64_t n;

	result_str(r, "status", strcmp(outcome, "conflicts") == 0 ? "failed" :
	    "ok");
	result_str(r, "outcome", outcome);
	script_ids(call, &m->st);
	if ((v = value_of(m, "branch")) != NULL)
		script_put(r, "base_branch", v, strlen(v), &m->masked);
	for (size_t i = 0; i < SBX_NELEM(ids); i++)
		put_id(call, m, ids[i]);
	for (size_t i = 0; i < SBX_NELEM(counts); i++)
		if ((v = value_of(m, counts[i])) != NULL &&
		    sbx_parse_u64(v, 0, UINT32_MAX, &n) == 0)
			result_u64(r, counts[i], n);
	put_conflicts(call, m);
	for (size_t i = 0; i < SBX_NELEM(nexts); i++)
		if (strcmp(nexts[i].outcome, outcome) == 0)
			result_str(r, "recommended_next_action",
			    nexts[i].next);
	if (m->masked > 0)
		result_u64(r, "masked", m->masked);
}

/* It exited; what it said is the result.  As tool_fn. */
static int
ended(struct call *call, struct merge *m)
{
	static const char *const outcomes[] = { "up_to_date", "merged",
		"fast_forward", "conflicts", "completed", "aborted" };
	const char *outcome;
	bool known = false;
	int r;

	if (script_no_git(call, &m->st, &r))
		return (r);
	if (script_exit(&m->st) != 0)
		return (script_failed(call, &m->st, "git_failed", NULL,
		    "git"));
	r = script_output(call, &m->st, OUT_MAX, &m->out, &m->whole);
	if (r != 0)
		return (call_refused(call, r));
	outcome = value_of(m, "outcome");
	m->no = value_of(m, "no");
	for (size_t i = 0; i < SBX_NELEM(outcomes) && outcome != NULL; i++)
		known |= strcmp(outcomes[i], outcome) == 0;
	if (m->whole && value_of(m, "end") != NULL && m->no == NULL && known) {
		put_done(call, m, outcome);
		return (0);
	}
	if (m->no == NULL)
		m->no = "";
	return (put_refused(call, m));
}

/* --- the tools -------------------------------------------------------------------- */

static void
merge_init(struct merge *m)
{
	*m = (struct merge){ 0 };
	sbx_buf_init(&m->out, OUT_MAX + 1);
}

static uint64_t
timeout_of(const struct call *call)
{
	uint64_t ms = (uint64_t)args_int(&call->args, "timeout") * 1000;

	return (ms != 0 ? ms : call->exec_timeout_ms);
}

/*
 * The run, with its grant, which ends with it.  Only a repository that the
 * client names is read with a credential: what the clone has as its remote is
 * the sandbox's word.  As script_run().
 */
static int
run_granted(struct call *call, const struct gh_repo *repo,
    const char *const *argv, struct merge *m)
{
	const char *box = args_str(&call->args, "container_id", NULL);
	uint64_t ms = timeout_of(call), lifetime = ms + GRACE_MS;
	struct ask_repo grant = { 0 };
	struct run_spec spec;
	char run[SBX_RUN_HEX + 1];
	int r = 0;

	if (repo != NULL)
		r = repo_open(call->ask, &(struct sbx_repo_open){
		    .container = box, .host = repo->host, .repo = repo->key,
		    .lifetime_ms = lifetime > UINT32_MAX ? UINT32_MAX :
		    (uint32_t)lifetime }, &grant);
	if (r != 0)
		return (call_refused(call, r));
	r = run_spec_make(box, SCRIPT_WORK_DIR, argv, &spec);
	spec.timeout_ms = ms;
	if (r == 0)
		r = run_start(call, &spec, run);
	run_spec_clear(&spec);
	if (r == 0 && *grant.grant != '\0' &&
	    (r = repo_run(call->ask, run, grant.grant, "")) == 0)
		*grant.grant = '\0';	/* its end ends it */
	if (*grant.grant != '\0' && !call->ask->broken)
		(void)repo_close(call->ask, grant.grant);
	return (r != 0 ? call_refused(call, r) : script_wait(call, run, ms, 0,
	    &m->st));
}

int
tool_merge_base(struct call *call)
{
	const struct args *a = &call->args;
	const char *base = args_str(a, "base_branch", NULL), *dir;
	bool named = args_has(a, "repo");
	struct gh_repo repo = { 0 };
	char url[512] = "";
	const char *argv[] = { "bash", "-c", merge_script, "sbx", "base", "",
		"github.com", url, base != NULL ? base : "", NULL };
	struct merge m;
	int r;

	if (!gh_branch(call, "base_branch", base) ||
	    (named && !gh_repo_arg(call, "repo", &repo)) ||
	    !script_dir(call, &dir))
		return (0);
	if (named) {
		(void)snprintf(url, sizeof(url), "https://%s/%s.git",
		    repo.host, repo.repo);
		argv[6] = repo.host;
	}
	argv[5] = dir;
	merge_init(&m);
	r = run_granted(call, named ? &repo : NULL, argv, &m);
	if (r == 1)
		r = ended(call, &m);
	sbx_buf_clear(&m.out);
	return (r);
}

static int
local(struct call *call, const char *mode)
{
	const char *dir;
	const char *argv[] = { "bash", "-c", merge_script, "sbx", mode, "",
		NULL };
	const struct script s = { .argv = argv };
	struct merge m;
	int r;

	if (!script_dir(call, &dir))
		return (0);
	argv[5] = dir;
	merge_init(&m);
	r = script_run(call, &s, &m.st);
	if (r == 1)
		r = ended(call, &m);
	sbx_buf_clear(&m.out);
	return (r);
}

int
tool_merge_complete(struct call *call)
{
	return (local(call, "complete"));
}

int
tool_merge_abort(struct call *call)
{
	return (local(call, "abort"));
}
