/*
 * verify_in_container with fresh: true.  Which files go is asked of git in the
 * sandbox, where it may lie: what they are is then computed from their bytes,
 * by another process, and another list is another tree.
 */

#include "sbxd/worker/gate.h"

#include "common/base/limits.h"
#include "sbxd/worker/github.h"
#include "sbxd/worker/output.h"
#include "sbxd/worker/run.h"
#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define NAMES_MAX_BYTES (64u << 20)
#define LIST_MS 30000u
#define FETCH_MS 120000u
enum { HAS_SUBMODULE = 4, NOT_HERE = 5 };	/* the script's exit codes */

/*
 * $1: the work tree, $2: the branch that it is for or "", $3: the commit of its
 * base or "": by $2, $4: what it is merged into or ""; on stdin the declared
 * files, if any, each with its NUL.  One line, where they are; then their names.
 * With declared files or $3 the tree is that which publish would push: of its
 * base (HEAD where that is no clone) with these as the base's attributes take
 * them in, and with what a merge brings, made beside it; what is declared and not
 * there is deleted.  All come out without attributes and filters: as they will be
 * pushed.  They are read when this has ended, so what is removed here is of
 * earlier ones.  Without git: everything but .git.  A submodule is a commit of
 * another repository: its files are not the tree's, which could never be what is
 * judged.
 *
 * A clone without blobs may lack some of the base, which g below promises nobody:
 * then their ids are all that is printed, each in a line.
 *
 * In $t: g a repository that takes the objects of the real one, a what is
 * declared, c the base's attributes for a declared .gitattributes, w the tree.
 */
static const char script[] =
    "set -e; cd -- \"$1\"; branch=$2 base=$3 target=$4\n"
    "export LC_ALL=C GIT_OPTIONAL_LOCKS=0\n"
    "mapfile -d '' -t f; set -- \"${f[@]}\"; all=; [ $# != 0 ] || "
    "[ -n \"$base\" ] || all=1\n"
    "g='git -c core.fsmonitor= -c core.quotePath=false'\n"
    "if ! top=$($g rev-parse --show-toplevel 2>/dev/null); then\n"
    "[ -n \"$all\" ] || { echo 'this is no git repository, so files cannot be "
    "declared' >&2; exit 3; }\n"
    "pwd; find . -name .git -prune -o '(' -type f -o -type l ')' "
    "-printf '%P\\0'; exit; fi\n"
    "cd -- \"$top\"\n"
    GATE_BASE "b=${base:-${b:-HEAD}}\n"
    "m=$(if [ -n \"$all\" ]; then $g ls-files -s; else $g ls-tree -r \"$b\"; fi | "
    "sed -n '/^160000 /{s/^[^\t]*\t//p;q}')\n"
    "[ -z \"$m\" ] || { echo \"$m\" >&2; exit 4; }\n"
    "if [ -n \"$all\" ]; then\n"
    "pwd; $g ls-files -z -c -o --exclude-standard | sort -zu | "
    "while IFS= read -rd '' f; do if [ -f \"$f\" ] || [ -L \"$f\" ]; then "
    "printf '%s\\0' \"$f\"; fi; done; exit; fi\n"
    "find /tmp -maxdepth 1 -name 'sbx-tree-*' -mmin +10 -exec rm -rf {} + "
    "|| :\n"
    "t=$(mktemp -d /tmp/sbx-tree-XXXXXX); trap '[ $? = 0 ] || rm -rf $t' "
    "EXIT\n"
    "o=$($g rev-parse --git-path objects); o=$(cd -- \"$o\" && pwd)\n"
    "h=$($g rev-parse --verify \"$b^{tree}\")\n"
    GATE_MERGE "brought >$t/theirs\n"
    "git init -q --bare --template= --object-format=$($g rev-parse "
    "--show-object-format) $t/g; mkdir $t/a $t/c $t/w $t/g/info\n"
    "printf '%s\\n' \"$o\" >$t/g/objects/info/alternates\n"
    "export GIT_DIR=$t/g GIT_WORK_TREE=$t/a GIT_INDEX_FILE=$t/index "
    "GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1\n"
    "g=\"$g -c core.protectNTFS=false -c core.protectHFS=false "
    "-c core.attributesFile=/dev/null -c core.looseCompression=0 "
    "-c core.safecrlf=false\"\n"
    "as_is() { echo '* -text !eol -ident !filter !working-tree-encoding' "
    ">$t/g/info/attributes; }\n"
    "$g read-tree $h; if [ -s $t/theirs ]; then "
    "xargs -0 printf \"0 ${p2//?/0}\\t%s\\0\" <$t/theirs | "
    "$g update-index -z --index-info; "
    "xargs -0 $g --literal-pathspecs ls-tree -z --full-tree $p2 -- <$t/theirs | "
    "$g update-index -z --index-info; fi; rm -f $t/theirs\n"
    "if compgen -G \"$o/pack/*.promisor\" >/dev/null; then "
    "$g ls-files -s | cut -d' ' -f2 | sort -u | "
    "$g cat-file --batch-check='%(objectname)' | sed -n 's/ missing$//p' "
    ">$t/none; [ ! -s $t/none ] || { cat $t/none; exit 5; }; fi\n"
    "top=$PWD new=() attr=() gone=(); declare -A has seen\n"
    "while IFS= read -rd '' f; do has[\"$f\"]=1; done "
    "< <(cd $t/a; $g ls-files -z)\n"
    "for f; do case /$f/ in */../* | */.git/* | *//*) echo \"not a path of "
    "the tree: $f\" >&2; exit 3;; esac\n"
    "while [ \"${f#./}\" != \"$f\" ]; do f=${f#./}; done\n"
    "[ -z \"${seen[\"$f\"]-}\" ] || continue; seen[\"$f\"]=1\n"
    "if [ -f \"$f\" ] && [ ! -L \"$f\" ] && "
    "[ \"${f##*/}\" = .gitattributes ]; then attr+=(\"$f\"); "
    "elif [ -f \"$f\" ] || [ -L \"$f\" ]; then new+=(\"$f\"); "
    "elif [ -n \"${has[\"$f\"]-}\" ]; then gone+=(\"$f\"); "
    "elif [ -d \"$f\" ]; then "
    "echo \"a directory, declare its files: $f\" >&2; exit 3; "
    "else echo \"neither in the work tree nor in its base: $f\" >&2; exit 3; "
    "fi; done\n"
    "z() { [ $# = 0 ] || printf '%s\\0' \"$@\"; }\n"
    "z \"${new[@]}\" >$t/new; z \"${gone[@]}\" >$t/gone\n"
    "xargs -0r cp -P -p --parents -t $t/a -- <$t/new\n"
    "cd $t/a; as_is; [ ${#attr[@]} = 0 ] || $g ls-files -z -- "
    "'*.gitattributes' | $g checkout-index -z --stdin --prefix=$t/c/\n"
    "echo '* !filter !working-tree-encoding' >$t/g/info/attributes\n"
    "$g update-index -z --add --replace --stdin <$t/new\n"
    "for f in \"${attr[@]}\"; do m=100644; [ ! -x \"$top/$f\" ] || m=100755\n"
    "i=$(cd $t/c; GIT_WORK_TREE=$t/c $g hash-object -w --path=\"$f\" -- "
    "\"$top/$f\"); $g update-index --add --replace --cacheinfo "
    "$m,$i,\"$f\"; done\n"
    "$g update-index -z --force-remove --stdin <$t/gone\n"
    "z \"${new[@]}\" \"${attr[@]}\" | sort -z | comm -z -13 <($g ls-files -z | "
    "sort -z) - >$t/left; [ ! -s $t/left ] || { "
    "echo 'git takes no file of this name:' >&2; cat $t/left >&2; exit 3; }\n"
    "as_is; $g checkout-index -a --prefix=$t/w/; rm -rf $t/a $t/c\n"
    "echo $t/w; cd $t/w; find . '(' -type f -o -type l ')' -printf '%P\\0'\n";

/* $1: the work tree, $2 a URL, or "" for where it was cloned from; on stdin ids. */
static const char fetch_script[] =
    "set -e; cd -- \"$1\"\n" SCRIPT_GIT_ENV
    "export GIT_ASKPASS=true; url=${2:-$(git config remote.origin.url)}\n"
    "git -c protocol.allow=never -c protocol.https.allow=always "
    "-c credential.helper= -c fetch.negotiationAlgorithm=noop "
    "-c fetch.unpackLimit=1 fetch -q --no-tags --no-write-fetch-head "
    "--recurse-submodules=no --stdin -- \"$url\" >&2\n";

/* --- the list ------------------------------------------------------------------ */

static int
spec_make(struct call *call, const char *dir, const char *base,
    const char *target, struct run_spec *ret_spec)
{
	struct json_object *files = args_json(&call->args, "files");
	size_t i, n = files != NULL ? json_object_array_length(files) : 0;
	const char *branch = args_str(&call->args, "branch", NULL), *s;
	const char *const argv[] = { "bash", "-c", script, "sbx", dir,
		branch != NULL ? branch : "", base,
		target, NULL };
	SBX_CLEANUP_BUF struct sbx_buf names = { 0 };
	int error;

	sbx_buf_init(&names, NAMES_MAX_BYTES);
	for (i = 0; i < n; i++) {
		s = json_object_get_string(json_object_array_get_idx(files,
		    i));
		(void)sbx_buf_add(&names, s, strlen(s) + 1);
	}
	error = run_spec_make(args_str(&call->args, "container_id", NULL),
	    "/workspace", argv, ret_spec);
	if (error != 0 || n == 0)
		return (error);
	sbx_close(&ret_spec->stdin_fd);
	return (names.overflow ? SBX_E_LIMIT : sbx_memfd_sealed("stdin",
	    names.data, names.len, &ret_spec->stdin_fd));
}

static bool
exited(const struct ask_run *st, int code)
{
	return (st->state == SBX_RUN_ENDED && st->why == SBX_EXIT_EXITED &&
	    WIFEXITED(st->status) && WEXITSTATUS(st->status) == code);
}

/*
 * What that run did not find is fetched to the sandbox's own repository: with a
 * grant where the client named the repository, and else as the sandbox itself
 * could, for what the clone says of its origin is the sandbox's word.  1: it is
 * there; 0: it is not; else the channel's end.
 */
static int
fetch_missing(struct call *call, const char *dir, const char *run,
    const struct gh_repo *repo)
{
	SBX_CLEANUP_BUF struct sbx_buf ids = { 0 };
	char url[512] = "";
	const char *argv[] = { "bash", "-c", fetch_script, "sbx", dir, url,
		NULL };
	struct script s = { .argv = argv, .timeout_ms = FETCH_MS };
	struct ask_repo grant = { .grant = "" };
	struct ask_run st;
	int r = output_all(call, run, SBX_STREAM_OUT, NAMES_MAX_BYTES, &ids);

	if (r != 0)
		return (r == SBX_E_LIMIT || r == SBX_E_POLICY ? 0 : r);
	if (repo != NULL) {
		(void)snprintf(url, sizeof(url), "https://%s/%s.git",
		    repo->host, repo->repo);
		r = repo_open(call->ask, &(struct sbx_repo_open){
		    .container = args_str(&call->args, "container_id", NULL),
		    .host = repo->host, .repo = repo->key,
		    .lifetime_ms = FETCH_MS + LIST_MS }, &grant);
	}
	s.in = ids.data;
	s.in_len = ids.len;
	if (r == 0 || r == SBX_E_POLICY)
		r = script_run(call, &s, &st);
	if (*grant.grant != '\0' && !call->ask->broken)
		(void)repo_close(call->ask, grant.grant);
	if (r == 0)
		result_reset(call->res);
	return (r == 1 ? exited(&st, 0) : r);
}

/* The listing failed: its last words are the reason. */
static int
list_failed(struct call *call, const char *run, const struct ask_run *st)
{
	struct output_page p;
	int error = output_page(call, run, SBX_STREAM_ERR, 0, 0, 5, &p);

	if (error == 0 && exited(st, NOT_HERE)) {
		result_error(call->res, "objects_missing", "clone_repo with "
		    "fetch: true and without filter brings all of them; then "
		    "call again.", "The clone has no blobs of its own, and "
		    "files of the base could not be fetched.");
		result_str(call->res, "run_id", run);
	} else if (error == 0 && exited(st, HAS_SUBMODULE)) {
		result_error(call->res, "submodule", "Without fresh the tests "
		    "run; the gate opens for trees without submodules: keep "
		    "its files in the repository itself.", "The tree has a "
		    "submodule, of which it holds a commit and no files, so "
		    "no verification is one of exactly this tree: %s",
		    p.text.len > 0 ? p.text.data : "");
		result_str(call->res, "run_id", run);
	} else if (error == 0) {
		result_error(call->res, "bad_argument", "Mend the argument "
		    "and call again.", "The files could not be listed: %s",
		    p.text.len > 0 ? p.text.data : "no reason was given");
		result_str(call->res, "run_id", run);
	}
	output_page_clear(&p);
	return (call_refused(call, error));
}

static int
list_run(struct call *call, const char *dir, const char *base,
    const char *target, char run[SBX_RUN_HEX + 1], struct ask_run *ret_state)
{
	struct run_spec spec;
	int error = spec_make(call, dir, base, target, &spec);

	if (error == 0)
		error = run_start(call, &spec, run);
	run_spec_clear(&spec);
	return (error == 0 ? run_wait(call, run, LIST_MS, 0, ret_state) :
	    error);
}

/* *ret_names: the directory's line, then the names.  *ret_go false: the
 * result says why. */
static int
names_list(struct call *call, const char *dir, const char *base,
    const char *target, const struct gh_repo *repo, struct sbx_buf *ret_names,
    bool *ret_go)
{
	char run[SBX_RUN_HEX + 1];
	struct ask_run st;
	int error, r;

	*ret_go = false;
	error = list_run(call, dir, base, target, run, &st);
	if (error == 0 && exited(&st, NOT_HERE)) {
		r = fetch_missing(call, dir, run, repo);
		if (r < 0)
			return (r);
		if (r == 1)
			error = list_run(call, dir, base, target, run, &st);
	}
	if (error == SBX_E_LIMIT) {
		result_error(call->res, "too_large", "Declare fewer files.",
		    "\"files\" is too long.");
		return (0);
	}
	if (error != 0)
		return (call_refused(call, error));
	if (!exited(&st, 0))
		return (list_failed(call, run, &st));
	error = output_all(call, run, SBX_STREAM_OUT, NAMES_MAX_BYTES,
	    ret_names);
	if (error == SBX_E_LIMIT) {
		result_error(call->res, "too_large", "Declare files.", "The "
		    "tree has more names than can be taken.");
		return (0);
	}
	*ret_go = error == 0;
	return (error == 0 ? 0 : call_refused(call, error));
}

/* --- the result ---------------------------------------------------------------- */

/* One runner's nine strings, from s on; NULL: there are no nine. */
static const char *
put_result(struct result *r, const struct sbx_strs *all, const char *s)
{
	static const char *const counts[] = { "total", "passed", "failed",
		"errors", "skipped" };
	uint64_t n;

	result_open(r, NULL, '{');
	result_str(r, "language", s);
	result_str(r, "runner", s);
	if ((s = sbx_strs_next(all, s)) != NULL)
		result_str(r, "verdict", s);
	if (s != NULL && (s = sbx_strs_next(all, s)) != NULL)
		result_str(r, "run_id", s);
	for (size_t i = 0; s != NULL && i < SBX_NELEM(counts); i++)
		if ((s = sbx_strs_next(all, s)) != NULL &&
		    sbx_parse_u64(s, 0, UINT32_MAX, &n) == 0)
			result_u64(r, counts[i], n);
	if (s != NULL && (s = sbx_strs_next(all, s)) != NULL &&
	    s[0] != '\0')
		result_masked(r, "why", s, strlen(s));
	result_close(r, '}');
	return (s);
}

void
gate_put_tests(struct result *r, const struct ask_gate *g)
{
	const char *s = NULL;

	result_open(r, "tests", '[');
	while ((s = sbx_strs_next(&g->results, s)) != NULL &&
	    (s = put_result(r, &g->results, s)) != NULL)
		;
	result_close(r, ']');
}

static void
put_gate(struct call *call, const struct ask_gate *g)
{
	struct result *r = call->res;
	bool over = g->phase == SBX_GATE_ENDED;

	result_str(r, "status", !over ? "running" : g->passed ? "ok" :
	    "failed");
	result_str(r, "job_id", g->id);
	result_str(r, "run_id", g->id);
	result_str(r, "container_id", g->container);
	result_bool(r, "fresh", true);
	result_bool(r, "gate", g->passed);
	result_str_or_null(r, "tree_id", g->sha1);
	result_str_or_null(r, "tree_sha256", g->sha256);
	result_str(r, "image", g->image);
	result_str_or_null(r, "image_digest", g->digest);
	result_str_or_null(r, "layer", g->layer);
	result_u64(r, "files", g->files);
	result_u64(r, "bytes", g->bytes);
	result_seconds(r, "elapsed_seconds", g->elapsed_ms);
	gate_put_tests(r, g);
	if (g->reason[0] != '\0')
		result_masked(r, "why", g->reason, strlen(g->reason));
	if (!over)
		result_str(r, "recommended_next_action", "Call again with "
		    "fresh: true and this run_id, and no files.");
	else if (!g->passed && g->results.count > 0)
		result_str(r, "recommended_next_action", "read_output with the "
		    "run_id in tests shows what they printed; without fresh "
		    "each failure is told with its file and line.");
}

/* As long as this call may wait, telling the client meanwhile. */
static int
gate_follow(struct call *call, struct ask_gate *g)
{
	uint32_t left, ms;
	int error = 0;

	while (error == 0 && g->phase != SBX_GATE_ENDED &&
	    (left = call_left_ms(call)) > 0) {
		ms = left < WORKER_PROGRESS_MS ? left : WORKER_PROGRESS_MS;
		error = gate_wait(call->ask, g->id, ms, g);
		if (error == 0 && g->phase != SBX_GATE_ENDED)
			error = call_progress(call, 0, g->phase ==
			    SBX_GATE_TESTS ? "its tests run" :
			    "its sandbox is made");
	}
	if (error == 0) {
		put_gate(call, g);
		error = gate_put_deps(call, g->id);
	}
	return (call_refused(call, error));
}

int
gate_again(struct call *call, const char *job)
{
	struct ask_gate g;
	int error = gate_wait(call->ask, job, 0, &g);

	return (error != 0 ? call_refused(call, error) :
	    gate_follow(call, &g));
}

int
gate_begin(struct call *call, const char *dir, const char *base,
    const char *target, const struct gh_repo *repo, uint64_t timeout_ms,
    struct ask_gate *ret_gate, bool *ret_begun)
{
	SBX_CLEANUP_BUF struct sbx_buf names = { 0 };
	int SBX_CLEANUP(fd) list = -1;
	struct sbx_gate_start m = {
		.container = args_str(&call->args, "container_id", NULL),
		.timeout_ms = timeout_ms != 0 ? timeout_ms :
		call->exec_timeout_ms };
	char *end;
	bool go;
	int error = names_list(call, dir, base, target, repo, &names,
	    &go);

	*ret_begun = false;
	if (error != 0 || !go)
		return (error);
	end = names.len > 0 ? memchr(names.data, '\n', names.len) : NULL;
	if (end == NULL || end - names.data > 4095 || (names.len > 0 &&
	    end + 1 < names.data + names.len &&
	    names.data[names.len - 1] != '\0')) {
		result_error(call->res, "empty_tree", "Add files first.",
		    "There is no file to verify.");
		return (0);
	}
	*end = '\0';
	m.dir = names.data;
	if (sbx_memfd_sealed("names", end + 1, names.len - (size_t)(end + 1 -
	    names.data), &list) != 0)
		return (SBX_E_SYS);
	error = gate_start(call->ask, &m, list, ret_gate);
	*ret_begun = error == 0;
	return (call_refused(call, error));
}

int
gate_fresh(struct call *call, const char *dir)
{
	struct ask_gate g;
	bool begun;
	int error = gate_begin(call, dir, "", "", NULL,
	    (uint64_t)args_int(&call->args, "timeout") * 1000, &g, &begun);

	return (error == 0 && begun ? gate_follow(call, &g) : error);
}
