/*
 * Checkpoints: commits on the branch that is checked out, with an identity of
 * their own for the call, and without hooks or signatures.
 */

#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <stdio.h>
#include <string.h>

#define OUT_MAX (16u << 20)
#define NAMES_SHOWN 500u
#define NAME "sbx checkpoint"
#define EMAIL "checkpoint@sbx.invalid"

enum { EXIT_UNMERGED = 4, EXIT_NO_COMMIT = 5, EXIT_GIT = 6 };

/* With git as a function: nothing that the repository configures runs. */
#define GIT                                                              \
	SCRIPT_GIT                                                       \
	"export GIT_AUTHOR_NAME='" NAME "' GIT_AUTHOR_EMAIL=" EMAIL "\n" \
	"export GIT_COMMITTER_NAME='" NAME "'\n"                         \
	"export GIT_COMMITTER_EMAIL=" EMAIL "\n"                         \
	"g() { git -c core.hooksPath=/dev/null -c commit.gpgSign=false " \
	"-c core.fsmonitor=false -c gc.auto=0 -c log.showSignature=false " \
	"-c maintenance.auto=false \"$@\"; }\n"

/*
 * The message is standard input.  Prints pieces: names that no commit had,
 * an empty one, the commit.  What is not merged stays that: `add` would take
 * its conflict marks for the solution.
 */
static const char save_script[] =
    GIT
    "unset GIT_OPTIONAL_LOCKS\n"
    "d=$(git rev-parse --git-dir) || exit 6\n"
    "for f in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge "
    "rebase-apply; do\n"
    "[ ! -e \"$d/$f\" ] || exit 4\n"
    "done\n"
    "[ -z \"$(g ls-files -u)\" ] || exit 4\n"
    "g ls-files -o --exclude-standard -z || exit 6\n"
    "printf '\\0'\n"
    "g add -A && g commit -q --allow-empty --no-verify "
    "--cleanup=verbatim -F - || exit 6\n"
    "printf '%s\\0' \"$(g rev-parse HEAD)\"\n";

/* $1 how many.  Prints pieces: "unpushed" or "all", and four of each commit. */
static const char list_script[] =
    GIT
    "n=$1\n"
    "git rev-parse -q --verify HEAD >/dev/null || { printf 'all\\0'; "
    "exit 0; }\n"
    "set --\n"
    "w=all\n"
    "if [ -n \"$(g for-each-ref --count=1 refs/remotes)\" ]; then\n"
    "set -- --not --remotes\n"
    "w=unpushed\n"
    "fi\n"
    "printf '%s\\0' \"$w\"\n"
    "g log -n \"$n\" --no-color --encoding=UTF-8 --no-notes "
    "--format='tformat:%H%x00%cI%x00%ce%x00%s%x00' HEAD \"$@\" -- "
    "|| exit 6\n";

/* $1 the commit.  Prints pieces: what HEAD was, paths whose changes go, an
 * empty one, what it is. */
static const char restore_script[] =
    GIT
    "unset GIT_OPTIONAL_LOCKS\n"
    "c=$(g rev-parse -q --verify \"$1^{commit}\") || exit 5\n"
    "printf '%s\\0' \"$(g rev-parse -q --verify HEAD)\"\n"
    "g diff --name-only -z --no-ext-diff --no-textconv --no-relative "
    "--no-renames HEAD -- 2>/dev/null\n"
    "printf '\\0'\n"
    "g reset -q --hard \"$c\" -- || exit 6\n"
    "printf '%s\\0' \"$(g rev-parse HEAD)\"\n";

/* Why it is not what it should be.  As tool_fn. */
static int
not_done(struct call *call, const struct ask_run *st)
{
	int r;

	if (script_no_git(call, st, &r))
		return (r);
	if (st->out_bytes == 0 && script_exit(st) == EXIT_UNMERGED) {
		result_error(call->res, "merge_in_progress",
		    "End the merge or rebase, or give it up (git merge "
		    "--abort), and call again.", "A merge, rebase or pick is "
		    "under way: a checkpoint would take what it has so far "
		    "for its end.");
		script_ids(call, st);
		return (0);
	}
	if (st->out_bytes == 0 && script_exit(st) == EXIT_NO_COMMIT) {
		result_error(call->res, "no_such_checkpoint",
		    "checkpoint_list has those that there are.",
		    "\"sha\" %s is no commit of this repository.",
		    args_str(&call->args, "sha", NULL));
		script_ids(call, st);
		return (0);
	}
	return (script_failed(call, st, "git_failed", NULL, "git"));
}

/* Names up to an empty one, at most NAMES_SHOWN of them, and how many. */
static bool
put_names(struct call *call, struct pieces *in, const char *key,
    const char *count, size_t *masked)
{
	const char *p;
	size_t len;
	uint64_t n = 0;
	bool end = false;

	result_open(call->res, key, '[');
	while (!end && piece_next(in, &p, &len)) {
		end = len == 0;
		if (end || n++ >= NAMES_SHOWN)
			continue;
		script_put(call->res, NULL, p, len, masked);
	}
	result_close(call->res, ']');
	result_u64(call->res, count, n);
	return (end);
}

/* The last piece of all, an object id. */
static bool
put_id(struct call *call, struct pieces *in, const char *key)
{
	const char *p;
	size_t len;

	if (!piece_next(in, &p, &len) || len < 40 || len > 64)
		return (false);
	result_strn(call->res, key, p, len);
	return (true);
}

/* As script_run(), with the output in *ret_out, when it exited with 0. */
static int
run(struct call *call, const char *script, const char *argument,
    const char *in, struct ask_run *ret_state, struct sbx_buf *ret_out)
{
	const char *argv[] = { "sh", "-c", script, "sbx", argument, NULL };
	struct script s = { .argv = argv, .in = in,
		.in_len = in != NULL ? strlen(in) : 0 };
	bool whole;
	int r;

	if (!script_dir(call, &s.cwd))
		return (0);
	r = script_run(call, &s, ret_state);
	if (r != 1)
		return (r);
	if (script_exit(ret_state) != 0)
		return (not_done(call, ret_state));
	r = script_output(call, ret_state, OUT_MAX, ret_out, &whole);
	return (r == 0 ? 1 : call_refused(call, r));
}

static int
odd(struct call *call, const struct ask_run *st)
{
	return (script_failed(call, st, "git_failed", NULL,
	    "git printed something else than was asked"));
}

static void
put_masked(struct call *call, size_t masked)
{
	if (masked > 0)
		result_u64(call->res, "masked", masked);
}

int
tool_checkpoint(struct call *call)
{
	const char *message = args_str(&call->args, "message", NULL);
	SBX_CLEANUP_BUF struct sbx_buf out = { 0 };
	struct ask_run st;
	struct pieces in;
	size_t masked = 0;
	int r;

	r = run(call, save_script, NULL, message, &st, &out);
	if (r != 1)
		return (r);
	in = (struct pieces){ out.data, out.data + out.len };
	result_str(call->res, "status", "ok");
	script_ids(call, &st);
	script_put(call->res, "message", message, strlen(message), &masked);
	if (!put_names(call, &in, "swept_untracked", "swept_total",
	    &masked) || !put_id(call, &in, "sha"))
		return (odd(call, &st));
	put_masked(call, masked);
	return (0);
}

/* Four pieces; between two commits git has a newline. */
static bool
put_commit(struct call *call, struct pieces *in, size_t *masked)
{
	struct result *r = call->res;
	const char *p[4];
	size_t len[4], i;

	if (in->p < in->end && *in->p == '\n')
		in->p++;
	for (i = 0; i < SBX_NELEM(p); i++)
		if (!piece_next(in, &p[i], &len[i]))
			return (false);
	result_open(r, NULL, '{');
	result_strn(r, "sha", p[0], len[0]);
	result_strn(r, "date", p[1], len[1]);
	script_put(r, "message", p[3], len[3], masked);
	result_bool(r, "by_checkpoint", len[2] == sizeof(EMAIL) - 1 &&
	    memcmp(p[2], EMAIL, len[2]) == 0);
	result_close(r, '}');
	return (true);
}

int
tool_checkpoint_list(struct call *call)
{
	int64_t limit = args_int(&call->args, "limit"), n = 0;
	SBX_CLEANUP_BUF struct sbx_buf out = { 0 };
	struct ask_run st;
	struct pieces in;
	const char *scope;
	char number[24];
	size_t masked = 0, len;
	int r;

	(void)snprintf(number, sizeof(number), "%d", (int)limit + 1);
	r = run(call, list_script, number, NULL, &st, &out);
	if (r != 1)
		return (r);
	in = (struct pieces){ out.data, out.data + out.len };
	if (!piece_next(&in, &scope, &len))
		return (odd(call, &st));
	result_str(call->res, "status", "ok");
	script_ids(call, &st);
	result_str(call->res, "scope", len == 3 ? "all" : "unpushed");
	result_open(call->res, "checkpoints", '[');
	while (n < limit && put_commit(call, &in, &masked))
		n++;
	result_close(call->res, ']');
	result_bool(call->res, "truncated", n == limit &&
	    in.end - in.p > 1);
	put_masked(call, masked);
	return (0);
}

int
tool_checkpoint_restore(struct call *call)
{
	SBX_CLEANUP_BUF struct sbx_buf out = { 0 };
	struct ask_run st;
	struct pieces in;
	const char *was;
	size_t masked = 0, len;
	int r;

	r = run(call, restore_script, args_str(&call->args, "sha", NULL), NULL,
	    &st, &out);
	if (r != 1)
		return (r);
	in = (struct pieces){ out.data, out.data + out.len };
	result_str(call->res, "status", "ok");
	script_ids(call, &st);
	if (!piece_next(&in, &was, &len))
		return (odd(call, &st));
	result_strn(call->res, "previous", was, len);
	if (!put_names(call, &in, "discarded", "discarded_total", &masked) ||
	    !put_id(call, &in, "restored_to"))
		return (odd(call, &st));
	result_str(call->res, "warning", "Changes that were not committed are "
	    "gone (discarded); untracked files were kept. previous is the "
	    "commit that was left: checkpoint_restore returns to it.");
	put_masked(call, masked);
	return (0);
}
