#ifndef SBX_WORKER_GATE_H
#define SBX_WORKER_GATE_H

/* Fresh verifications: their part of verify_in_container. */

#include <stdbool.h>
#include <stdint.h>

struct ask_gate;
struct call;
struct gh_repo;
struct result;

/* Start one of the files at dir (inside), with the arguments files, branch and
 * timeout, and wait for it; or wait for one that was started.  As tool_fn. */
int gate_fresh(struct call *call, const char *dir);
int gate_again(struct call *call, const char *job);
/*
 * The same, for who waits otherwise.  base: the commit on which the files are,
 * or "": what GATE_BASE says; target: its $target, or ""; repo: where files of the
 * base that a clone without blobs lacks are fetched from, with a grant where there
 * may be one, NULL: the client named none; timeout_ms: of each runner, 0: as of
 * commands.  As tool_fn; *ret_begun false: the result says why not.
 */
int gate_begin(struct call *call, const char *dir, const char *base,
    const char *target, const struct gh_repo *repo, uint64_t timeout_ms,
    struct ask_gate *ret_gate, bool *ret_begun);
/* What its dependency layer is made of: "dependencies".  0, or as the asks of
 * ask.h. */
int gate_put_deps(struct call *call, const char *gate);
/* Its tests, as verify_in_container tells them. */
void gate_put_tests(struct result *r, const struct ask_gate *g);

/*
 * Of a script in a work tree: b is the commit that what is declared is published
 * on, by what git says here.  That is the tip of $branch as the remote had it,
 * else where HEAD left $target, or the branch that was cloned; "" when there is
 * none.  History as it is, not as somebody has it look here.
 */
#define GATE_BASE \
    "export GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/dev/null/none\n" \
    "id() { git rev-parse -q --verify \"$1^{commit}\"; }\n" \
    "b=; [ -z \"$branch\" ] || b=$(id \"refs/remotes/origin/$branch\") || " \
    "b=\n" \
    "if [ -z \"$b\" ]; then\n" \
    "[ -n \"$target\" ] || target=$(git config sbx.base) || target=\n" \
    "b=$(id \"refs/remotes/origin/$target\" || id \"$target\" || " \
    "id refs/remotes/origin/HEAD) || b=\n" \
    "[ -z \"$b\" ] || b=$(git merge-base HEAD \"$b\") || b=\n" \
    "fi\n"
/*
 * After it, once b is what the commit is made on: p2 is a commit of the remote's
 * branch pb that HEAD has and b has not, else "".  $target before the branches
 * that merge_base took in.  brought: names, each with its NUL and sorted, that
 * p2's side alone changed and that are here as it has them; both: the others of
 * what it changed that are not here as b has them.
 */
#define GATE_MERGE \
    "p2= pb=; r=$(git symbolic-ref -q --short refs/remotes/origin/HEAD || :)\n" \
    "[ -n \"$target\" ] || target=$(git config sbx.base) || target=\n" \
    "for pb in $target $(git for-each-ref --count=20 --sort=-committerdate " \
    "--format='%(refname:lstrip=3)' refs/sbx/merged) ${r#origin/}; do\n" \
    "p2=$(id \"refs/remotes/origin/$pb\" || id \"refs/sbx/merged/$pb\") && " \
    "p2=$(git merge-base HEAD \"$p2\") || p2=\n" \
    "[ -z \"$p2\" ] || ! git merge-base --is-ancestor \"$p2\" \"$b\" || p2=\n" \
    "[ -z \"$p2\" ] || break; done\n" \
    "differs() { git diff --no-ext-diff --no-textconv --no-renames " \
    "--name-only -z \"$@\" | sort -zu; }\n" \
    "m0=; [ -z \"$p2\" ] || m0=$(git merge-base \"$b\" \"$p2\") || m0=$b\n" \
    "theirs() { [ -z \"$p2\" ] || comm -z -12 <(differs \"$m0\" \"$p2\") " \
    "<(differs \"$b\" \"$p2\"); }\n" \
    "brought() { [ -z \"$p2\" ] || comm -z -23 <(theirs) <({ " \
    "differs \"$p2\"; differs \"$m0\" \"$b\"; } | sort -zu); }\n" \
    "both() { [ -z \"$p2\" ] || comm -z -23 <(theirs) <(brought) | " \
    "comm -z -12 - <(differs \"$b\"); }\n"

#endif
