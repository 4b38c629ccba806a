/* What a cloned project needs, installed (clone.h). */

#include "sbxd/worker/clone.h"

#include "sbxd/worker/run.h"
#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "deps_script.h"

#define WORDS 48u
#define OUT_MAX 16384u
#define DEPS_MS 900000u		/* as long as setup commands may take */

/* pip_args, split as a shell would: blanks, quotes and backslashes. */
struct words {
	char text[2048];
	const char *v[WORDS + 1];
	size_t n;
};

/* One word of *at, to *out; false: a quote is not closed. */
static bool
word(const char **at, char **out)
{
	char quote = '\0';
	const char *s = *at;

	for (; *s != '\0' && (quote != '\0' || !isspace((unsigned char)*s));
	    s++) {
		if (quote == '\0' && (*s == '\'' || *s == '"'))
			quote = *s;
		else if (*s == quote)
			quote = '\0';
		else if (*s == '\\' && quote != '\'' && s[1] != '\0')
			*(*out)++ = *++s;
		else
			*(*out)++ = *s;
	}
	*(*out)++ = '\0';
	*at = s;
	return (quote == '\0');
}

static bool
split(const char *s, struct words *w)
{
	char *out = w->text;

	w->n = 0;
	if (s == NULL)
		return (true);
	if (strlen(s) >= sizeof(w->text) / 2)
		return (false);
	for (;;) {
		while (isspace((unsigned char)*s))
			s++;
		if (*s == '\0')
			return (true);
		if (w->n == WORDS)
			return (false);
		w->v[w->n++] = out;
		if (!word(&s, &out))
			return (false);
	}
}

/* "dev" and "[dev]" are the same; "" is none. */
static bool
extras(struct call *call, char *dst, size_t size)
{
	const char *s = args_str(&call->args, "pip_extras", NULL), *p;
	size_t len = strlen(s);

	if (len > 1 && *s == '[' && s[len - 1] == ']') {
		s++;
		len -= 2;
	}
	for (p = s; p < s + len; p++)
		if (!isalnum((unsigned char)*p) && strchr("._-, ", *p) == NULL)
			return (false);
	(void)snprintf(dst, size, len > 0 ? "[%.*s]" : "%.*s", (int)len, s);
	return (len + 3 <= size);
}

bool
deps_check(struct call *call)
{
	struct words w;
	char text[256];

	if (!extras(call, text, sizeof(text)))
		result_error(call->res, "bad_argument",
		    "Mend the argument and call again.",
		    "\"pip_extras\" must be names of extras, such as [dev].");
	else if (!split(args_str(&call->args, "pip_args", NULL), &w))
		result_error(call->res, "bad_argument",
		    "Mend the argument and call again.",
		    "\"pip_args\" must be at most %u words with all quotes "
		    "closed.", WORDS);
	else
		return (true);
	return (false);
}

/* What it said of each manager.  false: one of them failed.  *ret_ran: one
 * installed something. */
static bool
put_managers(struct result *r, const struct sbx_buf *out, bool *ret_ran)
{
	struct pieces in = { out->data, out->data + out->len };
	const char *name, *status, *word_;
	size_t n[3], k;
	bool good = true;

	result_open(r, "managers", '[');
	for (k = 0; k < 8 && piece_next(&in, &name, &n[0]) &&
	    piece_next(&in, &status, &n[1]) &&
	    piece_next(&in, &word_, &n[2]); k++) {
		result_open(r, NULL, '{');
		result_masked(r, "manager", name, n[0]);
		result_masked(r, "status", status, n[1]);
		result_masked(r, "detail", word_, n[2]);
		result_close(r, '}');
		good &= strcmp(status, "failed") != 0;
		*ret_ran |= strcmp(status, "ok") == 0;
	}
	result_close(r, ']');
	return (good);
}

/* It needs the tree, without which dependency layers are made: fresh
 * verifications say that they have not got it. */
static int
left_out(struct call *call, const char *run)
{
	const struct sbx_package_note m = { .run = run, .manager = "" };
	bool kept;
	int error = package_note(call->ask, &m, &kept);

	return (error == SBX_E_POLICY ? 0 : error);
}

static int
put(struct call *call, const struct ask_run *st, const char *dir,
    bool *ret_running)
{
	SBX_CLEANUP_BUF struct sbx_buf out = { 0 };
	char said[SCRIPT_ERR_MAX] = "";
	struct result *r = call->res;
	bool whole, good, ran = false;
	int error = 0;

	result_str(r, "run_id", st->run);
	if (st->state != SBX_RUN_ENDED) {
		result_str(r, "job_id", st->run);
		result_str(r, "status", "running");
		*ret_running = true;
		return (left_out(call, st->run));
	}
	/* what it made is no work: nobody else was at it in this call */
	error = repo_run(call->ask, st->run, "", dir);
	if (error == 0 || error == SBX_E_POLICY)
		error = script_output(call, st, OUT_MAX, &out, &whole);
	if (error == 0)
		error = script_errors(call, st, said);
	if (error != 0 && error != SBX_E_POLICY)
		return (error);
	good = put_managers(r, &out, &ran) && error == 0 &&
	    st->why == SBX_EXIT_EXITED && script_exit(st) == 0;
	result_str(r, "status", good ? "ok" : "failed");
	if (!good)
		script_put(r, "stderr", said, strlen(said), NULL);
	return (ran ? left_out(call, st->run) : 0);
}

int
deps_install(struct call *call, const char *container, const char *dir,
    bool *ret_running)
{
	const char *argv[8 + WORDS + 1] = { "sh", "-c", deps_script, "sbx" };
	struct words w;
	char text[256];
	struct run_spec spec;
	struct ask_run st;
	char run[SBX_RUN_HEX + 1];
	int error;

	*ret_running = false;
	(void)extras(call, text, sizeof(text));
	(void)split(args_str(&call->args, "pip_args", NULL), &w);
	argv[4] = text;
	memcpy(argv + 5, w.v, w.n * sizeof(w.v[0]));
	error = run_spec_make(container, dir, argv, &spec);
	spec.timeout_ms = DEPS_MS;
	if (error == 0)
		error = run_start(call, &spec, run);
	run_spec_clear(&spec);
	if (error == 0)
		error = run_wait(call, run, script_wait_ms(call, DEPS_MS),
		    DEPS_MS, &st);
	if (error == SBX_E_POLICY) {
		result_str(call->res, "status", "failed");
		result_masked(call->res, "stderr", call->ask->refused.reason,
		    strlen(call->ask->refused.reason));
		return (0);
	}
	return (error != 0 ? error : put(call, &st, dir, ret_running));
}
