/*
 * Host files into a sandbox.
 *
 * Which files of a project git tracks is asked of git in a throwaway sandbox
 * that holds the names only: git reads a foreign repository there, and not
 * the host.  What comes back is a list of names, below the caller's root in
 * any case: sbxd-copyin sees to that, whatever the list says.
 */

#include "common/base/limits.h"
#include "sbxd/worker/output.h"
#include "sbxd/worker/run.h"
#include "sbxd/worker/worker.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_DIR "/workspace"
#define NAMES_MAX_BYTES (64u << 20)
#define REPORT_MAX_BYTES (1u << 20)
#define REPORT_MAX_ITEMS 200u

enum { EXIT_NO_GIT = 10, EXIT_GIT_FILE = 11, EXIT_NO_TOOL = 12 };

/*
 * Only the index, and the names that this clone ignores, are the project's;
 * the repository around it is new, so no
 * configuration, hook or attribute of the project is looked at.  Which hash
 * the index is made with is seen from its checksum (or that it has none), as
 * git takes one for the other without a word.  One record a name: "tag mode
 * path" of a tracked one (tag R: deleted), "? path".
 */
static const char git_script[] =
    "[ -f .git ] && exit 11\n"
    "[ -d .git ] || exit 10\n"
    "command -v git >/dev/null || exit 12\n"
    "set -o pipefail\n"
    "export LC_ALL=C i=.git/index f=sha1\n"
    "t=$(mktemp -d) || exit\n"
    "if [ -s $i ]; then\n"
    "a=$(tail -c 32 $i | od -An -vtx1 | tr -d ' \\n')\n"
    "b=$(head -c -32 $i | sha256sum)\n"
    "case $a in ${b%% *} | *[!0]*) ;; *) b=$a ;; esac\n"
    "[ $a != ${b%% *} ] || f=sha256\n"
    "fi\n"
    "git init -q --object-format=$f $t/r || exit 1\n"
    "[ ! -f $i ] || cp $i $t/r/.git/index || exit 1\n"
    "[ ! -f .git/info/exclude ] || cp .git/info/exclude $t/r/.git/info/ || "
    "exit 1\n"
    "export GIT_WORK_TREE=$PWD GIT_DIR=$t/r/.git\n"
    "git ls-files -z -t -s -c -d -o --exclude-standard |\n"
    "sed -zE 's/^(. [0-7]{6}) [0-9a-f]+ [0-3]\\t/\\1 /' >$t/list || exit 1\n"
    "exec cat $t/list\n";
static const char find_script[] =
    "exec find . -mindepth 1 -name .git -prune -o "
    "'(' -type f -o -type l ')' -printf '? %P\\0'\n";

/* What git, or find, says about a project. */
struct names {
	struct sbx_buf list;	/* paths to copy, each with its NUL */
	bool git;
	uint32_t tracked, untracked, deleted, submodules;
	char run[SBX_RUN_HEX + 1];
};

/* --- the list ------------------------------------------------------------- */

static int
add_path(struct names *n, const char *path)
{
	return (sbx_buf_add(&n->list, path, strlen(path) + 1));
}

/* "H 100644 path"; the record after it may say that it is deleted. */
static int
add_tracked(struct names *n, const char *record, bool deleted)
{
	/* A submodule is another repository, of which nothing is here. */
	if (strncmp(record + 2, "160000", 6) == 0) {
		n->submodules++;
		return (0);
	}
	if (deleted) {
		n->deleted++;
		return (0);
	}
	n->tracked++;
	return (add_path(n, record + 9));
}

/*
 * text: records, each with its NUL.  The guest made it: anything else than
 * such records is SBX_E_SYNTAX.
 */
static int
parse_names(struct names *n, const char *text, size_t len, bool untracked)
{
	const char *p, *end = text + len, *held = NULL, *path;
	int error = 0;

	for (p = text; error == 0 && p < end; p += strlen(p) + 1) {
		if (memchr(p, 0, (size_t)(end - p)) == NULL)
			return (SBX_E_SYNTAX);
		if (p[0] == '?' && p[1] == ' ' && p[2] != '\0') {
			n->untracked++;
			if (untracked)
				error = add_path(n, p + 2);
			continue;
		}
		if (strlen(p) < 10 || p[1] != ' ' || p[8] != ' ')
			return (SBX_E_SYNTAX);
		path = p + 9;
		/* Another stage of it, or the word that it is deleted. */
		if (held != NULL && strcmp(held + 9, path) == 0) {
			if (p[0] != 'R')
				continue;
			error = add_tracked(n, held, true);
			held = NULL;
			continue;
		}
		if (held != NULL)
			error = add_tracked(n, held, false);
		held = p;
	}
	if (error == 0 && held != NULL)
		error = add_tracked(n, held, false);
	return (error);
}

/* --- asking git ----------------------------------------------------------- */

/* Why the listing failed, as the error object. */
static void
names_failed(struct call *call, const char *source, const struct ask_run *st,
    const struct sbx_buf *err)
{
	int code = st->why == SBX_EXIT_EXITED ? (st->status >> 8) & 0xff : -1;

	if (code == EXIT_NO_GIT)
		result_error(call->res, "not_git",
		    "Give the directory that holds .git, or "
		    "include_untracked: true to copy all files.",
		    "%s is not the top of a git work tree.", source);
	else if (code == EXIT_GIT_FILE)
		result_error(call->res, "not_git",
		    "Copy the main work tree instead.",
		    "%s is a linked work tree or a submodule: its .git is a "
		    "file.", source);
	else if (code == EXIT_NO_TOOL)
		result_error(call->res, "no_git",
		    "Install git on this machine.",
		    "There is no git in the image \"host\".");
	else
		result_error(call->res, "git_failed", NULL,
		    "git could not list the files of %s: %.*s", source,
		    (int)(err->len < 500 ? err->len : 500),
		    err->len > 0 ? err->data : "");
}

/* Run a script over the names in the throwaway sandbox. */
static int
names_run(struct call *call, const char *container, const char *cwd,
    const char *script, struct ask_run *ret_st)
{
	const char *argv[] = { "bash", "-c", script, NULL };
	struct run_spec spec;
	char run[SBX_RUN_HEX + 1];
	int error;

	error = run_spec_make(container, cwd, argv, &spec);
	spec.timeout_ms = WORKER_CALL_MS;
	if (error == 0)
		error = run_start(call, &spec, run);
	run_spec_clear(&spec);
	if (error == 0)
		error = run_wait(call, run, call_left_ms(call), 0, ret_st);
	return (error);
}

/* In the throwaway sandbox: SBX_E_NOENT when the error object is made. */
static int
names_ask(struct call *call, const char *container, const char *cwd,
    const char *source, bool untracked, struct names *n)
{
	SBX_CLEANUP_BUF struct sbx_buf out = { 0 }, err = { 0 };
	struct ask_run st;
	int error;

	n->git = true;
	error = names_run(call, container, cwd, git_script, &st);
	if (error == 0 && untracked && st.state == SBX_RUN_ENDED &&
	    st.why == SBX_EXIT_EXITED && st.status == EXIT_NO_GIT << 8) {
		n->git = false;
		error = names_run(call, container, cwd, find_script, &st);
	}
	if (error != 0)
		return (error);
	(void)sbx_strlcpy(n->run, st.run, sizeof(n->run));
	if (st.state != SBX_RUN_ENDED || st.why != SBX_EXIT_EXITED ||
	    st.status != 0) {
		error = output_all(call, st.run, SBX_STREAM_ERR, 65536, &err);
		if (error != 0 && error != SBX_E_LIMIT)
			return (error);
		names_failed(call, source, &st, &err);
		return (SBX_E_NOENT);
	}
	error = output_all(call, st.run, SBX_STREAM_OUT, NAMES_MAX_BYTES,
	    &out);
	if (error == 0)
		error = parse_names(n, out.len > 0 ? out.data : "", out.len,
		    untracked);
	if (error == SBX_E_LIMIT || error == SBX_E_SYNTAX) {
		result_error(call->res, "too_large", "Copy a part of it.",
		    "The list of the files of %s is too long.", source);
		return (SBX_E_NOENT);
	}
	return (error);
}

static int
copy_names(struct call *call, const char *container, const char *source,
    struct ask_copied *ret_copied)
{
	SBX_CLEANUP(fd) int empty = -1;
	struct sbx_copy_in m = { .container = container,
		.mode = SBX_COPY_NAMES, .source = source, .dest = NAMES_DIR };
	int error;

	error = sbx_memfd_sealed("names", "", 0, &empty);
	if (error == 0)
		error = copy_in(call->ask, &m, empty,
		    (int)call_left_ms(call), ret_copied);
	sbx_close(&ret_copied->fd);
	return (error);
}

/*
 * Which files of source to copy.  The throwaway sandbox is gone afterwards;
 * where the channel broke, the monitor ends it with this worker.
 * As names_ask().
 */
static int
names_get(struct call *call, const char *source, bool untracked,
    struct names *n)
{
	struct sbx_sb_create m = { .image = "host", .name = "", .label = "",
		.throwaway = 1 };
	struct ask_created c;
	struct ask_copied copied = { .fd = -1 };
	char stopped[SBX_RUN_HEX + 1];
	int error, stop_error;

	error = sb_create(call->ask, &m, &c);
	if (error == 0) {
		error = copy_names(call, c.container, source, &copied);
		if (error == 0 && copied.error != 0) {
			result_error(call->res, "copy_failed", NULL,
			    "%s could not be read: %s", source,
			    copied.reason);
			error = SBX_E_NOENT;
		}
		if (error == 0)
			error = names_ask(call, c.container,
			    copied.final_path[0] != '\0' ? copied.final_path :
			    NAMES_DIR, source, untracked, n);
		/* Kept: stopping must not overwrite why it failed. */
		if (error == SBX_E_POLICY) {
			(void)call_refused(call, error);
			error = SBX_E_NOENT;
		}
		if (!call->ask->broken) {
			stop_error = sb_stop(call->ask, c.container, true,
			    stopped);
			if (stop_error != 0 && stop_error != SBX_E_POLICY)
				return (stop_error);
		}
	} else if (error == SBX_E_POLICY) {
		(void)call_refused(call, error);
		error = SBX_E_NOENT;
	}
	return (error);
}

/* --- the report ----------------------------------------------------------- */

/* Read what the report holds, capped; it may be longer than what is shown. */
static void
report_read(int fd, struct sbx_buf *b)
{
	char chunk[16384];
	off_t at = 0;
	ssize_t n;

	sbx_buf_init(b, REPORT_MAX_BYTES);
	while ((n = pread(fd, chunk, sizeof(chunk), at)) > 0) {
		if (sbx_buf_add(b, chunk, (size_t)n) != 0)
			break;
		at += n;
	}
}

static void
put_refused(struct result *r, const struct ask_copied *c)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	const char *p, *end, *tab, *nul;
	unsigned n = 0;

	report_read(c->fd, &b);
	result_open(r, "refused", '[');
	end = b.data + b.len;
	for (p = b.data; p < end && n < REPORT_MAX_ITEMS; p = nul + 1, n++) {
		nul = memchr(p, 0, (size_t)(end - p));
		tab = nul == NULL ? NULL : memchr(p, '\t', (size_t)(nul - p));
		if (tab == NULL)
			break;
		result_open(r, NULL, '{');
		result_strn(r, "path", tab + 1, (size_t)(nul - tab - 1));
		result_strn(r, "reason", p, (size_t)(tab - p));
		result_close(r, '}');
	}
	result_close(r, ']');
	result_u64(r, "refused_total", c->refused > n ? c->refused : n);
}

static void
put_copied(struct call *call, const char *source, const char *dest,
    const struct ask_copied *c)
{
	struct result *r = call->res;

	result_str(r, "container_id", args_str(&call->args, "container_id",
	    NULL));
	result_str(r, "source", source);
	result_str(r, "dest", c->final_path[0] != '\0' ? c->final_path : dest);
	result_u64(r, "files", c->files);
	result_u64(r, "bytes", c->bytes);
	put_refused(r, c);
}

/* A copy that failed as a whole: the error object, with what was refused. */
static void
copy_failed(struct call *call, const char *source, const struct ask_copied *c)
{
	result_error(call->res, "copy_failed", NULL, "%s was not copied: %s",
	    source, c->reason[0] != '\0' ? c->reason : "it was refused");
	if (c->refused > 0)
		put_refused(call->res, c);
}

/* dest must be absolute: there is no directory it could be relative to. */
static bool
absolute(struct call *call, const char *name, const char *path)
{
	if (*path == '/')
		return (true);
	result_error(call->res, "bad_argument",
	    "Mend the argument and call again.",
	    "\"%s\" must be an absolute path in the sandbox, such as "
	    "/workspace.", name);
	return (false);
}

/* --- the tools ------------------------------------------------------------ */

static void
put_project(struct call *call, const struct names *n, bool untracked,
    const struct ask_copied *c)
{
	struct result *r = call->res;
	uint32_t skipped = untracked ? 0 : n->untracked;

	result_str(r, "run_id", n->run);
	result_bool(r, "git", n->git);
	result_u64(r, "tracked", n->tracked);
	result_u64(r, "untracked_copied", n->untracked - skipped);
	result_u64(r, "untracked_skipped", skipped);
	result_u64(r, "deleted_skipped", n->deleted);
	result_u64(r, "submodules_skipped", n->submodules);
	result_open(r, "warnings", '[');
	if (n->submodules > 0)
		result_str(r, NULL, "Submodules were not copied: copy each "
		    "by itself.");
	if (skipped > 0)
		result_printf(r, NULL, "%" PRIu32 " untracked files were not "
		    "copied: include_untracked copies them.", skipped);
	if (c->refused > 0)
		result_printf(r, NULL, "%" PRIu32 " paths were refused or "
		    "skipped: see refused.", c->refused);
	result_close(r, ']');
}

static int
project_copy(struct call *call, const char *source, const char *dest,
    struct names *n, struct ask_copied *ret_copied)
{
	SBX_CLEANUP(fd) int list = -1;
	struct sbx_copy_in m = {
		.container = args_str(&call->args, "container_id", NULL),
		.mode = SBX_COPY_LIST, .source = source, .dest = dest };
	int error = 0;

	if (n->git)
		error = add_path(n, ".git");
	if (error == 0)
		error = sbx_memfd_sealed("list", n->list.len > 0 ?
		    n->list.data : "", n->list.len, &list);
	if (error != 0)
		return (error);
	return (copy_in(call->ask, &m, list, (int)call_left_ms(call),
	    ret_copied));
}

int
tool_copy_project(struct call *call)
{
	const char *source = args_str(&call->args, "local_src_dir", NULL);
	const char *dest = args_str(&call->args, "dest_dir", NULL);
	bool untracked = args_bool(&call->args, "include_untracked");
	struct names n = { 0 };
	struct ask_copied c = { .fd = -1 };
	int error;

	if (!absolute(call, "dest_dir", dest))
		return (0);
	sbx_buf_init(&n.list, NAMES_MAX_BYTES);
	error = names_get(call, source, untracked, &n);
	if (error == 0)
		error = call_progress(call, 0, "copying");
	if (error == 0)
		error = project_copy(call, source, dest, &n, &c);
	if (error == 0 && c.error != 0) {
		copy_failed(call, source, &c);
	} else if (error == 0) {
		result_str(call->res, "status", "ok");
		put_copied(call, source, dest, &c);
		put_project(call, &n, untracked, &c);
	}
	sbx_close(&c.fd);
	sbx_buf_clear(&n.list);
	return (error == SBX_E_NOENT ? 0 : call_refused(call, error));
}

int
tool_copy_file(struct call *call)
{
	SBX_CLEANUP(fd) int empty = -1;
	const char *source = args_str(&call->args, "local_src_file", NULL);
	const char *dest = args_str(&call->args, "dest_path", NULL);
	struct sbx_copy_in m = {
		.container = args_str(&call->args, "container_id", NULL),
		.mode = SBX_COPY_FILE, .source = source, .dest = dest };
	struct ask_copied c = { .fd = -1 };
	int error;

	if (!absolute(call, "dest_path", dest))
		return (0);
	error = sbx_memfd_sealed("list", "", 0, &empty);
	if (error == 0)
		error = copy_in(call->ask, &m, empty,
		    (int)call_left_ms(call), &c);
	if (error != 0)
		return (call_refused(call, error));
	if (c.error != 0 || c.files == 0) {
		copy_failed(call, source, &c);
	} else {
		result_str(call->res, "status", "ok");
		put_copied(call, source, dest, &c);
		result_open(call->res, "warnings", '[');
		result_close(call->res, ']');
	}
	sbx_close(&c.fd);
	return (0);
}
