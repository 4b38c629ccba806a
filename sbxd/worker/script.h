#ifndef SBX_WORKER_SCRIPT_H
#define SBX_WORKER_SCRIPT_H

/*
 * Tools that ask something of a sandbox by a small script: run it, take what
 * it printed, write parts of that into the result.  All of it is what a
 * sandbox says: bytes, in any form.
 */

#include "common/base/base.h"
#include "sbxd/worker/ask.h"

struct call;
struct json_object;
struct result;

#define SCRIPT_WORK_DIR "/workspace"
#define SCRIPT_ERR_MAX 4096u
#define SCRIPT_ARGS 64		/* of one command, with its NULL */
#define SCRIPT_MISSING 127	/* exit code: the program is not there */

struct script {
	const char *cwd;		/* NULL: the work directory */
	const char *const *argv;	/* up to NULL */
	const char *head;		/* EXEC_START.head; NULL: "" */
	const char *in;			/* standard input, NULL: empty */
	size_t in_len;
	uint64_t timeout_ms;		/* 0: of the argument `timeout` */
	uint64_t max_out;		/* it is ended past that; 0: never */
};
/*
 * In the sandbox of the argument container_id, to its end.  1: it exited or
 * was ended past max_out, see *ret_state; else as tool_fn: the result says why it did not.
 */
int script_run(struct call *call, const struct script *s,
    struct ask_run *ret_state);
/* How long a call waits for a run of that time limit. */
uint32_t script_wait_ms(const struct call *call, uint64_t timeout_ms);
/* The same for a run that was started: waits for it. */
int script_wait(struct call *call, const char *run, uint64_t timeout_ms,
    uint64_t max_out, struct ask_run *ret_state);
/*
 * The run of the argument run_id, if `tool` and this sandbox made it.  As
 * script_run().
 */
int script_again(struct call *call, const char *tool, uint64_t max_out,
    struct ask_run *ret_state);
int script_exit(const struct ask_run *st);	/* as a shell says it */
void script_ids(struct call *call, const struct ask_run *st);

/*
 * What it printed on stdout, at most max bytes.  *ret_whole: all of it, with
 * nothing missing in the middle.  0, or as the asks of ask.h.
 */
int script_output(struct call *call, const struct ask_run *st, size_t max,
    struct sbx_buf *ret_text, bool *ret_whole);
/* The begin of stderr, of at most SCRIPT_ERR_MAX - 1 bytes, without the last
 * newlines; "" when it cannot be had.  0, or as the asks of ask.h. */
int script_errors(struct call *call, const struct ask_run *st,
    char ret_text[SCRIPT_ERR_MAX]);
/* The error object, with the begin of stderr as its sentence.  As tool_fn. */
int script_failed(struct call *call, const struct ask_run *st,
    const char *code, const char *next, const char *what);

/*
 * Begins a script that asks git: in the root of the repository, which the
 * variable t has.  Nothing of the repository may make it wait or page, and
 * what only reads takes no lock.
 */
#define SCRIPT_GIT_ENV \
	"export LC_ALL=C GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0\n" \
	"export GIT_PAGER=cat GIT_EDITOR=true\n" \
	"unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_EXTERNAL_DIFF\n" \
	"command -v git >/dev/null || exit 127\n"
#define SCRIPT_GIT SCRIPT_GIT_ENV \
	"t=$(git rev-parse --show-toplevel) && cd -- \"$t\" || exit 3\n"
enum { SCRIPT_NO_REPOSITORY = 3 };
/* A script that began so and ended before it printed anything: is it for want
 * of git or of a repository?  Then *ret_r is as tool_fn. */
bool script_no_git(struct call *call, const struct ask_run *st, int *ret_r);

/* Any bytes, secrets masked and counted. */
void script_put(struct result *r, const char *key, const char *s, size_t len,
    size_t *masked);
/* An absolute directory, or the error object and false. */
bool script_dir(struct call *call, const char **ret_dir);

/* Pieces that end with NUL; false: there is none (any more). */
struct pieces {
	const char *p, *end;
};
bool piece_next(struct pieces *s, const char **ret_p, size_t *ret_len);
/* One JSON value of a sandbox, NULL: it is none.  Owned by the caller. */
struct json_object *script_json(const char *text, size_t len);
/* A decimal number at p, up to `until`; UINT64_MAX: it is none. */
uint64_t piece_number(const char *p, const char *until);

#endif
