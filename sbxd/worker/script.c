/*
 * Scripts in a sandbox, as tools use them.  What a script is and its
 * arguments are kept apart: nothing of a caller is ever part of its text.
 */

#include "sbxd/worker/script.h"

#include "common/base/json.h"
#include "common/base/limits.h"
#include "common/base/mask.h"
#include "sbxd/worker/output.h"
#include "sbxd/worker/run.h"
#include "sbxd/worker/worker.h"

#include <json-c/json.h>
#include <string.h>
#include <sys/wait.h>

#define ERR_LINES 40u
#define JSON_DEPTH 16u
#define KILL_MS 15000u

void
script_ids(struct call *call, const struct ask_run *st)
{
	result_str(call->res, "run_id", st->run);
	if (sbx_is_hex(st->container, SBX_CONTAINER_HEX))
		result_str(call->res, "container_id", st->container);
}

int
script_exit(const struct ask_run *st)
{
	return (WIFSIGNALED(st->status) ? 128 + WTERMSIG(st->status) :
	    WEXITSTATUS(st->status));
}

/* It did not exit by itself: what became of it. */
static void
unfinished(struct call *call, const struct ask_run *st)
{
	struct result *r = call->res;

	if (st->state != SBX_RUN_ENDED) {
		result_str(r, "status", "running");
		result_str(r, "job_id", st->run);
		result_str(r, "recommended_next_action",
		    "It goes on as a job: wait for it with "
		    "sandbox_exec_check, or end it with sandbox_exec_kill.");
	} else if (st->why == SBX_EXIT_TIMEOUT) {
		result_str(r, "status", "timeout");
		result_str(r, "recommended_next_action",
		    "Ask for less, or give a longer timeout.");
	} else
		result_error(r, "sandbox_gone",
		    "sandbox_list_containers says whether the sandbox is "
		    "there; sandbox_initialize makes another.",
		    "The sandbox ended, or was restored, while this ran in "
		    "it.");
	script_ids(call, st);
}

uint32_t
script_wait_ms(const struct call *call, uint64_t timeout_ms)
{
	uint64_t ms = timeout_ms + KILL_MS;

	if (!call->patient || ms < WORKER_CALL_MS)
		return (call_left_ms(call));
	return (ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms);
}

int
script_wait(struct call *call, const char *run, uint64_t timeout_ms,
    uint64_t max_out, struct ask_run *ret_state)
{
	int error;

	if (max_out == 0)
		max_out = UINT64_MAX;
	error = run_wait_most(call, run, script_wait_ms(call, timeout_ms),
	    timeout_ms, max_out, ret_state);
	if (error != 0)
		return (call_refused(call, error));
	if (ret_state->state == SBX_RUN_ENDED &&
	    (ret_state->why == SBX_EXIT_EXITED ||
	    ret_state->why == SBX_EXIT_MEMORY ||
	    (ret_state->why == SBX_EXIT_KILLED &&
	    ret_state->out_bytes > max_out)))
		return (1);
	unfinished(call, ret_state);
	return (0);
}

static int
start(struct call *call, const struct script *s, struct run_spec *spec,
    char *ret_run)
{
	int error;

	error = run_spec_make(args_str(&call->args, "container_id", NULL),
	    s->cwd != NULL ? s->cwd : SCRIPT_WORK_DIR, s->argv, spec);
	if (error == SBX_E_LIMIT) {
		result_error(call->res, "too_large", "Give less.",
		    "The arguments are larger than %u bytes in all.",
		    SBX_MAX_COMMANDS);
		return (SBX_E_SYNTAX);
	}
	if (error != 0)
		return (error);
	if (s->in != NULL) {
		sbx_close(&spec->stdin_fd);
		error = sbx_memfd_sealed("stdin", s->in, s->in_len,
		    &spec->stdin_fd);
		if (error != 0)
			return (error);
	}
	spec->head = s->head;
	spec->timeout_ms = s->timeout_ms;
	return (run_start(call, spec, ret_run));
}

int
script_run(struct call *call, const struct script *s,
    struct ask_run *ret_state)
{
	struct script own = *s;
	struct run_spec spec;
	char run[SBX_RUN_HEX + 1];
	int error;

	if (own.timeout_ms == 0)
		own.timeout_ms = (uint64_t)args_int(&call->args, "timeout") *
		    1000;
	if (own.timeout_ms == 0)
		own.timeout_ms = call->exec_timeout_ms;
	error = start(call, &own, &spec, run);
	run_spec_clear(&spec);
	if (error == SBX_E_SYNTAX)
		return (0);
	if (error != 0)
		return (call_refused(call, error));
	return (script_wait(call, run, own.timeout_ms, own.max_out,
	    ret_state));
}

int
script_again(struct call *call, const char *tool, uint64_t max_out,
    struct ask_run *ret_state)
{
	const char *run = args_str(&call->args, "run_id", NULL);
	const char *box = args_str(&call->args, "container_id", NULL);
	int error;

	error = exec_wait(call->ask, run, 0, ret_state);
	if (error != 0)
		return (call_refused(call, error));
	if (strcmp(ret_state->tool, tool) != 0 ||
	    strcmp(ret_state->container, box) != 0) {
		result_error(call->res, "unknown_run",
		    "Give the run_id of the first page, or leave it out.",
		    "Run %s is none of %s in sandbox %s.", run, tool, box);
		return (0);
	}
	return (script_wait(call, run, 0, max_out, ret_state));
}

/* --- what it printed -------------------------------------------------------- */

int
script_output(struct call *call, const struct ask_run *st, size_t max,
    struct sbx_buf *ret_text, bool *ret_whole)
{
	int error;

	error = output_all(call, st->run, SBX_STREAM_OUT, max, ret_text);
	*ret_whole = error == 0;
	return (error == SBX_E_LIMIT ? 0 : error);
}

int
script_errors(struct call *call, const struct ask_run *st,
    char ret_text[SCRIPT_ERR_MAX])
{
	struct output_page p;
	size_t len = 0;
	int error;

	error = output_page(call, st->run, SBX_STREAM_ERR, 0, ERR_LINES, 0,
	    &p);
	if (error == 0 && p.text.len > 0) {
		len = p.text.len < SCRIPT_ERR_MAX ? p.text.len :
		    SCRIPT_ERR_MAX - 1;
		memcpy(ret_text, p.text.data, len);
		while (len > 0 && ret_text[len - 1] == '\n')
			len--;
	}
	ret_text[len] = '\0';
	output_page_clear(&p);
	return (error);
}

int
script_failed(struct call *call, const struct ask_run *st, const char *code,
    const char *next, const char *what)
{
	char text[SCRIPT_ERR_MAX];
	int error;

	error = script_errors(call, st, text);
	if (error != 0)
		return (call_refused(call, error));
	if (*text != '\0')
		result_error(call->res, code, next, "%s: %s", what, text);
	else
		result_error(call->res, code, next, "%s (exit code %d).",
		    what, script_exit(st));
	script_ids(call, st);
	return (0);
}

bool
script_no_git(struct call *call, const struct ask_run *st, int *ret_r)
{
	int code = script_exit(st);

	*ret_r = 0;
	if (st->out_bytes > 0)
		return (false);
	if (code == SCRIPT_NO_REPOSITORY) {
		*ret_r = script_failed(call, st, "no_repository",
		    "Give working_dir, or make a repository there: git init, "
		    "by sandbox_exec.", "There is no git work tree");
		return (true);
	}
	if (code != SCRIPT_MISSING)
		return (false);
	result_error(call->res, "no_git",
	    "Make a sandbox of an image that has it.",
	    "There is no git in this sandbox.");
	script_ids(call, st);
	return (true);
}

void
script_put(struct result *r, const char *key, const char *s, size_t len,
    size_t *masked)
{
	char *copy;
	size_t n;

	if (len == 0 || sbx_mask_find(s, len) == NULL) {
		result_strn(r, key, s, len);
		return;
	}
	copy = sbx_xcalloc(1, len + 1);
	memcpy(copy, s, len);
	n = sbx_mask(copy, &len);
	if (masked != NULL)
		*masked += n;
	result_strn(r, key, copy, len);
	free(copy);
}

bool
script_dir(struct call *call, const char **ret_dir)
{
	const char *dir = args_str(&call->args, "working_dir", NULL);

	*ret_dir = dir == NULL || *dir == '\0' ? SCRIPT_WORK_DIR : dir;
	if (**ret_dir == '/')
		return (true);
	result_error(call->res, "bad_argument",
	    "Mend the argument and call again.",
	    "\"working_dir\" must be an absolute path, such as "
	    SCRIPT_WORK_DIR "/%s.", dir);
	return (false);
}

/* --- reading it --------------------------------------------------------------- */

bool
piece_next(struct pieces *s, const char **ret_p, size_t *ret_len)
{
	const char *nul;

	if (s->p == NULL || s->p >= s->end)
		return (false);
	nul = memchr(s->p, '\0', (size_t)(s->end - s->p));
	if (nul == NULL)
		return (false);
	*ret_p = s->p;
	*ret_len = (size_t)(nul - s->p);
	s->p = nul + 1;
	return (true);
}

struct json_object *
script_json(const char *text, size_t len)
{
	struct json_tokener *tok;
	struct json_object *o = NULL;

	if (sbx_json_scan(text, len, SBX_MAX_JSON, JSON_DEPTH, NULL) != 0)
		return (NULL);
	tok = json_tokener_new_ex(JSON_DEPTH + 1);
	if (tok != NULL)
		o = json_tokener_parse_ex(tok, text, (int)len);
	if (tok != NULL && json_tokener_get_error(tok) !=
	    json_tokener_success) {
		json_object_put(o);
		o = NULL;
	}
	if (tok != NULL)
		json_tokener_free(tok);
	return (o);
}

uint64_t
piece_number(const char *p, const char *until)
{
	char text[24];
	uint64_t n;

	if (until <= p || (size_t)(until - p) >= sizeof(text))
		return (UINT64_MAX);
	memcpy(text, p, (size_t)(until - p));
	text[until - p] = '\0';
	return (sbx_parse_u64(text, 0, INT64_MAX, &n) == 0 ? n : UINT64_MAX);
}
