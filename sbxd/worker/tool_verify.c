/*
 * verify_in_container, lint_in_container, type_check_in_container: one run of
 * verify.sh in the sandbox, its records read, and what they come to.
 *
 * This is the work sandbox: whatever ran there can forge all of it, so `gate`
 * is false in every result.
 */

#include "sbxd/worker/verify.h"

#include "common/base/mask.h"
#include "common/base/sha256.h"
#include "sbxd/front/tools/tools.h"
#include "sbxd/worker/output.h"
#include "sbxd/worker/gate.h"
#include "sbxd/worker/run.h"
#include "sbxd/worker/view.h"
#include "sbxd/worker/worker.h"
#include "verify_script.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define RECORD_BYTES (32u << 20)
#define SHOWN_FAILURES 50u
#define SHOWN_FINDINGS 200u
#define SHOWN_FILES 100u
#define TAIL_LINES 400u
#define VIEW_LINES 60u
#define MAX_PYTEST_ARGS 64u
#define DIFF_HASH_HEX 16u
#define WORK_DIR "/workspace"

/* --- what is asked -------------------------------------------------------- */

static bool
bad_argument(struct call *call, const char *text)
{
	result_error(call->res, "bad_argument",
	    "Mend the argument and call again.", "%s", text);
	return (false);
}

static const char *
text_arg(struct call *call, const char *name)
{
	const char *s = args_str(&call->args, name, NULL);

	return (s != NULL ? s : "");
}

/* working_dir and the path below it.  false: the result says what is wrong. */
static bool
place_ok(struct call *call, const char *cwd, const char *path)
{
	if (*cwd != '/')
		return (bad_argument(call, "\"working_dir\" must be an "
		    "absolute path, such as " WORK_DIR "."));
	if (*path == '-')
		return (bad_argument(call, "The path must not begin with "
		    "\"-\": write ./ before it."));
	return (true);
}

struct ask_verify {
	const char *mode, *cwd, *path, *language, *filter, *scope, *skip;
	struct json_object *extra;	/* array of strings, or NULL */
};

/* An absolute path below cwd is one relative to it. */
static const char *
relative(const char *cwd, const char *path)
{
	size_t n = strlen(cwd);

	while (n > 1 && cwd[n - 1] == '/')
		n--;
	if (strncmp(path, cwd, n) != 0 || path[n] != '/')
		return (path);
	for (path += n; *path == '/'; path++)
		;
	return (path);
}

static int
spec_of(struct call *call, const struct ask_verify *a, struct run_spec *s)
{
	const char *argv[14 + MAX_PYTEST_ARGS] = { "bash", "-c",
	    verify_script, "sbx-verify", a->mode, a->cwd,
	    relative(a->cwd, a->path), a->language, a->filter, a->scope,
	    a->skip, strcmp(a->scope, "affected") == 0 ? affected_script :
	    "" };
	size_t n = 12, i;
	int error;

	for (i = 0; a->extra != NULL && i < MAX_PYTEST_ARGS &&
	    i < json_object_array_length(a->extra); i++)
		argv[n++] = json_object_get_string(
		    json_object_array_get_idx(a->extra, i));
	argv[n] = NULL;
	error = run_spec_make(args_str(&call->args, "container_id", NULL), "/",
	    argv, s);
	s->timeout_ms = (uint64_t)args_int(&call->args, "timeout") * 1000;
	if (s->timeout_ms == 0)
		s->timeout_ms = call->exec_timeout_ms;
	return (error);
}

/* --- writing it ----------------------------------------------------------- */

static void
put_masked(struct result *r, const char *key, const char *p, size_t len)
{
	SBX_CLEANUP(free) char *copy = sbx_xcalloc(1, len + 1);

	memcpy(copy, p, len);
	(void)sbx_mask(copy, &len);
	result_strn(r, key, copy, len);
}

static void
put_text(struct result *r, const char *key, const char *s)
{
	put_masked(r, key, s, strlen(s));
}

static void
put_span(struct result *r, const char *key, struct span s)
{
	put_masked(r, key, s.n > 0 ? s.p : "", s.n);
}

/* Relative to the directory of the run, where it is below it. */
static void
put_file(struct result *r, const struct verify *v, const char *file)
{
	size_t n = v->wd.n;

	if (n > 1 && strncmp(file, v->wd.p, n) == 0 && file[n] == '/')
		file += n + 1;
	while (strncmp(file, "./", 2) == 0)
		file += 2;
	put_text(r, "file", file);
}

static void
put_findings(struct result *r, const struct verify *v, const struct step *s,
    size_t *left, bool name_tool)
{
	for (size_t i = 0; i < s->findings.n && *left > 0; i++, (*left)--) {
		const struct sbx_finding *f = &s->findings.list[i];

		result_open(r, NULL, '{');
		put_file(r, v, f->file);
		result_u64(r, "line", f->line);
		result_u64(r, "column", f->column);
		put_text(r, "rule", f->rule);
		put_text(r, "message", f->message);
		result_str(r, "severity", f->severity);
		if (name_tool)
			put_span(r, "tool", s->tool);
		result_close(r, '}');
	}
}

static void
put_tool(struct result *r, const struct step *s)
{
	put_span(r, "tool", s->tool);
	if (s->version.n > 0)
		put_span(r, "tool_version", s->version);
	if (s->config.n > 0)
		put_span(r, "config", s->config);
	result_bool(r, "ran", s->ran);
	if (s->ran)
		return;
	if (*s->why != '\0')
		result_str(r, "reason", s->why);
	else
		put_span(r, "reason", s->reason);
}

/* What makes a gate red: any lint finding, errors of types. */
static uint64_t
against(const struct step *s)
{
	return (s->kind == STEP_TYPES ? s->findings.errors :
	    s->findings.total);
}

static void
put_gates(struct result *r, const struct verify *v, enum step_kind kind)
{
	size_t left = SHOWN_FINDINGS;

	result_open(r, kind == STEP_LINT ? "lint" : "types", '[');
	for (size_t i = 0; i < v->nsteps; i++) {
		const struct step *s = &v->steps[i];

		if (s->kind != kind)
			continue;
		result_open(r, NULL, '{');
		put_span(r, "language", s->language);
		put_tool(r, s);
		result_u64(r, "total", s->findings.total);
		result_open(r, "findings", '[');
		put_findings(r, v, s, &left, false);
		result_close(r, ']');
		result_close(r, '}');
	}
	result_close(r, ']');
}

static void
put_failures(struct result *r, const struct verify *v, const struct step *s,
    size_t *left)
{
	const struct sbx_report *t = &s->tests;
	size_t i;

	result_open(r, "failures", '[');
	for (i = 0; i < t->nfailures && *left > 0; i++, (*left)--) {
		const struct sbx_report_failure *f = &t->failures[i];

		result_open(r, NULL, '{');
		put_text(r, "test", f->test);
		put_text(r, "error", f->error);
		put_file(r, v, f->file);
		result_u64(r, "line", f->line);
		result_close(r, '}');
	}
	result_close(r, ']');
	if (t->omitted + t->nfailures - i > 0)
		result_u64(r, "failures_omitted", t->omitted + t->nfailures -
		    i);
}

static void
put_tests(struct result *r, const struct verify *v)
{
	size_t left = SHOWN_FAILURES;

	result_open(r, "tests", '[');
	for (size_t i = 0; i < v->nsteps; i++) {
		const struct step *s = &v->steps[i];

		if (s->kind != STEP_TEST)
			continue;
		result_open(r, NULL, '{');
		put_span(r, "language", s->language);
		put_span(r, "runner", s->tool);
		result_str(r, "verdict", s->verdict);
		if (*s->why != '\0')
			put_text(r, "why", s->why);
		if (s->filtered)
			result_bool(r, "filtered", true);
		if (s->ran) {
			put_span(r, "command", s->command);
			result_i64(r, "exit_code", s->status);
			result_seconds(r, "seconds", s->ms);
		}
		result_u64(r, "passed", s->tests.passed);
		result_u64(r, "failed", s->tests.failed);
		result_u64(r, "errors", s->tests.errors);
		result_u64(r, "skipped", s->tests.skipped);
		result_u64(r, "total", s->tests.total);
		result_u64(r, "collected", s->tests.collected);
		put_failures(r, v, s, &left);
		result_close(r, '}');
	}
	result_close(r, ']');
}

/* --- the difference ------------------------------------------------------- */

static bool
take(struct span *rest, char end, struct span *ret_part)
{
	const char *p = rest->n == 0 ? NULL : memchr(rest->p, end, rest->n);

	if (p == NULL)
		return (false);
	*ret_part = (struct span){ rest->p, (size_t)(p - rest->p) };
	rest->n -= ret_part->n + 1;
	rest->p = p + 1;
	return (true);
}

static uint64_t
count_of(struct span s)
{
	char text[16];
	uint64_t n = 0;

	if (s.n == 0 || s.n >= sizeof(text))
		return (0);
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	return (sbx_parse_u64(text, 0, UINT32_MAX, &n) == 0 ? n : 0);
}

/* git diff --numstat -z: added, removed ("-" of a binary), name; of a rename
 * the name is empty, and the old and the new one follow. */
static void
put_section(struct result *r, const char *key, struct span text)
{
	struct span add, del, name, old;
	uint64_t files = 0, adds = 0, dels = 0;

	result_open(r, key, '{');
	result_open(r, "files", '[');
	while (take(&text, '\t', &add) && take(&text, '\t', &del) &&
	    take(&text, '\0', &name)) {
		if (name.n == 0 && (!take(&text, '\0', &old) ||
		    !take(&text, '\0', &name)))
			break;
		adds += count_of(add);
		dels += count_of(del);
		if (files++ >= SHOWN_FILES)
			continue;
		result_open(r, NULL, '{');
		put_span(r, "path", name);
		result_u64(r, "additions", count_of(add));
		result_u64(r, "deletions", count_of(del));
		if (span_is(add, "-"))
			result_bool(r, "binary", true);
		result_close(r, '}');
	}
	result_close(r, ']');
	result_u64(r, "total_files", files);
	result_u64(r, "total_additions", adds);
	result_u64(r, "total_deletions", dels);
	result_close(r, '}');
}

/* Of the hashes that the sandbox made of what changed, and of new names. */
static void
put_diff_hash(struct result *r, const struct verify *v)
{
	char hex[SBX_SHA256_HEX + 1];
	struct sbx_sha256 s;

	sbx_sha256_init(&s);
	sbx_sha256_add(&s, v->content.p, v->content.n);
	if (v->untracked.n > 0)
		sbx_sha256_add(&s, v->untracked.p, v->untracked.n);
	sbx_sha256_end(&s, hex);
	result_strn(r, "diff_hash", hex, DIFF_HASH_HEX);
}

static void
put_diff(struct result *r, const struct verify *v)
{
	struct span rest = v->untracked, name;
	size_t n = 0;

	if (v->unstaged.p == NULL || v->staged.p == NULL)
		return;
	result_open(r, "diff_summary", '{');
	put_section(r, "unstaged", v->unstaged);
	put_section(r, "staged", v->staged);
	result_open(r, "untracked", '[');
	while (take(&rest, '\0', &name))
		if (n++ < SHOWN_FILES)
			put_span(r, NULL, name);
	result_close(r, ']');
	result_u64(r, "total_untracked", n);
	result_close(r, '}');
	if (v->content.p != NULL)
		put_diff_hash(r, v);
}

static void
put_selection(struct result *r, const struct verify *v)
{
	struct span rest = v->selection, name;
	size_t changed = 0, selected = 0;

	if (rest.p == NULL && v->widened.n == 0)
		return;
	result_open(r, "test_selection", '{');
	result_str(r, "mode", v->widened.n > 0 ? "widened" : "affected");
	result_open(r, "changed_files", '[');
	while (take(&rest, '\0', &name)) {
		if (name.n > 0 && name.p[0] == '+' && changed++ < SHOWN_FILES)
			put_masked(r, NULL, name.p + 1, name.n - 1);
		else if (name.n > 0 && name.p[0] == '=')
			selected++;
	}
	result_close(r, ']');
	result_u64(r, "selected_count", selected);
	if (v->widened.n > 0)
		put_span(r, "widened_to_full_reason", v->widened);
	else
		result_null(r, "widened_to_full_reason");
	result_close(r, '}');
}

/* --- the verdict ---------------------------------------------------------- */

struct outcome {
	const char *status, *verdict;
	char why[320];
	bool partial;
};

static void
decide(struct outcome *o, const char *verdict, const char *why)
{
	if (o->verdict != NULL)
		return;
	o->verdict = verdict;
	o->status = "failed";
	(void)snprintf(o->why, sizeof(o->why), "%s", why);
}

/* A language whose tests are not even configured counts when it is alone. */
static bool
is_beside(const struct verify *v, const struct step *s)
{
	return (span_is(s->tool, "none") && v->nlanguages > 1);
}

static void
decide_gates(const struct verify *v, struct outcome *o)
{
	char why[160];

	for (size_t i = 0; i < v->nsteps; i++) {
		const struct step *s = &v->steps[i];

		if (s->kind == STEP_TEST || !s->ran || against(s) == 0)
			continue;
		(void)snprintf(why, sizeof(why), "%.*s has %" PRIu64
		    " findings: the tests did not run.", (int)s->tool.n,
		    s->tool.p, against(s));
		decide(o, s->kind == STEP_LINT ? "lint_failed" :
		    "types_failed", why);
	}
	if (v->gate_red)
		decide(o, "lint_failed", "A linter or type checker failed: "
		    "the tests did not run.");
}

static void
decide_tests(const struct verify *v, struct outcome *o)
{
	char why[320];
	size_t green = 0;

	for (size_t i = 0; i < v->nsteps; i++) {
		const struct step *s = &v->steps[i];

		if (s->kind != STEP_TEST || is_beside(v, s))
			continue;
		if (strcmp(s->verdict, "green") == 0) {
			green += !s->filtered;
			continue;
		}
		(void)snprintf(why, sizeof(why), "%.*s%s: %s",
		    (int)s->language.n, s->language.p, s->filtered ?
		    ", what the filter selects" : "", s->why);
		decide(o, s->verdict, why);
		o->partial = s->filtered;
	}
	if (green == 0)
		decide(o, "no_tests", "No tests ran.");
}

static void
decide_all(const struct verify *v, const struct ask_run *st,
    struct outcome *o)
{
	if (st->why == SBX_EXIT_TIMEOUT) {
		decide(o, "timeout", "It was killed at its time limit.");
		o->status = "timeout";
	} else if (st->why == SBX_EXIT_MEMORY) {
		decide(o, "crash", "The memory of the sandbox was used up, "
		    "and the kernel killed a process of this run.");
	} else if (!WIFEXITED(st->status) || WEXITSTATUS(st->status) != 0 ||
	    !v->whole) {
		decide(o, "crash", "The run ended before its end: something "
		    "in the sandbox killed it.");
	} else if (v->nlanguages == 0) {
		decide(o, "no_language", "There is no marker of a language "
		    "that is known (pyproject.toml, package.json, go.mod, "
		    "Cargo.toml, CMakeLists.txt, Makefile ...): name it with "
		    "language, or the directory with working_dir.");
	}
	decide_gates(v, o);
	if (v->nothing_affected)
		decide(o, "no_tests", "No test file imports what changed.");
	decide_tests(v, o);
	if (v->selection.p != NULL || v->widened.n > 0) {
		o->partial = true;
		if (o->verdict == NULL) {
			decide(o, "partial", "What the change can affect "
			    "passed; that is not all: call without "
			    "test_scope.");
			o->status = "ok";
		}
	}
	if (o->verdict == NULL) {
		o->verdict = "green";
		o->status = "ok";
	}
}

/* --- results -------------------------------------------------------------- */

static void
put_next(struct result *r, const char *verdict)
{
	static const struct {
		const char *verdict, *next;
	} nexts[] = {
		{ "timeout", "Give a longer timeout, or find the test that "
		    "hangs with test_filter." },
		{ "missing_runner", "Make the sandbox with what its tests "
		    "need (setup of sandbox_initialize), or another image." },
		{ "lint_failed", "Mend what lint names, or run the tests "
		    "all the same with skip_lint_gate." },
		{ "types_failed", "Mend what types names, or run the tests "
		    "all the same with skip_type_gate." },
		{ "no_language", "Call again with language or working_dir." },
		{ "partial", "Call verify_in_container without test_scope." },
	};

	for (size_t i = 0; i < SBX_NELEM(nexts); i++)
		if (strcmp(verdict, nexts[i].verdict) == 0)
			result_str(r, "recommended_next_action",
			    nexts[i].next);
}

/* The end of what the tools printed. */
static int
put_output(struct call *call, const struct ask_run *st)
{
	const struct view_want want = { .mode = VIEW_SUMMARY, .failed = true,
		.max_lines = VIEW_LINES };
	struct output_page p;
	struct view_in in = { 0 };
	struct view v;
	int error;

	error = output_page(call, st->run, SBX_STREAM_ERR, 0, 0, TAIL_LINES,
	    &p);
	if (error == 0) {
		in.head = p.text.len > 0 ? p.text.data : "";
		in.tail = "";
		in.head_len = p.text.len;
		view_make(&want, &in, &v);
		result_strn(call->res, "output", v.text.len > 0 ?
		    v.text.data : "", v.text.len);
		result_u64(call->res, "output_lines", p.total_lines);
		result_bool(call->res, "output_truncated", v.truncated ||
		    p.first > 0);
		if (p.masked + v.masked > 0)
			result_u64(call->res, "masked", p.masked + v.masked);
		view_clear(&v);
	}
	output_page_clear(&p);
	return (error);
}

static void
put_run(struct call *call, const struct ask_run *st)
{
	result_str(call->res, "run_id", st->run);
	if (sbx_is_hex(st->container, SBX_CONTAINER_HEX))
		result_str(call->res, "container_id", st->container);
	result_seconds(call->res, "elapsed_seconds", st->elapsed_ms);
}

static void
put_languages(struct result *r, const struct verify *v)
{
	result_open(r, "languages", '[');
	for (size_t i = 0; i < v->nlanguages; i++)
		put_span(r, NULL, v->languages[i]);
	result_close(r, ']');
}

/* Do the lint and type gates say less than they could? */
static void
put_incomplete(struct result *r, const struct verify *v)
{
	bool any = v->skipped;

	for (size_t i = 0; i < v->nsteps; i++)
		any |= v->steps[i].kind != STEP_TEST && !v->steps[i].ran;
	result_bool(r, "gate_incomplete", any);
}

static int
put_verify(struct call *call, const struct ask_run *st,
    const struct verify *v)
{
	struct result *r = call->res;
	struct outcome o = { 0 };
	uint64_t n[6] = { 0 };

	decide_all(v, st, &o);
	result_str(r, "status", o.status);
	result_str(r, "verdict", o.verdict);
	if (*o.why != '\0')
		put_text(r, "why", o.why);
	result_bool(r, "gate", false);
	result_bool(r, "partial", o.partial);
	put_incomplete(r, v);
	put_run(call, st);
	put_languages(r, v);
	for (size_t i = 0; i < v->nsteps; i++) {
		const struct sbx_report *t = &v->steps[i].tests;

		if (v->steps[i].filtered && !o.partial)
			continue;
		n[0] += t->passed;
		n[1] += t->failed;
		n[2] += t->errors;
		n[3] += t->skipped;
		n[4] += t->total;
		n[5] += t->collected;
	}
	result_u64(r, "passed", n[0]);
	result_u64(r, "failed", n[1]);
	result_u64(r, "errors", n[2]);
	result_u64(r, "skipped", n[3]);
	result_u64(r, "total", n[4]);
	result_u64(r, "collected", n[5]);
	put_tests(r, v);
	put_gates(r, v, STEP_LINT);
	put_gates(r, v, STEP_TYPES);
	put_diff(r, v);
	put_selection(r, v);
	put_next(r, o.verdict);
	return (strcmp(o.status, "ok") == 0 ? 0 : put_output(call, st));
}

static int
put_check(struct call *call, const struct ask_run *st,
    const struct verify *v)
{
	struct result *r = call->res;
	size_t left = SHOWN_FINDINGS, total = 0, bad = 0;
	const struct step *first = v->nsteps > 0 ? &v->steps[0] : NULL;
	bool ran = first != NULL && v->whole;

	for (size_t i = 0; i < v->nsteps; i++) {
		total += v->steps[i].findings.total;
		bad += against(&v->steps[i]);
		if (!v->steps[i].ran) {
			ran = false;
			first = &v->steps[i];
		}
	}
	result_str(r, "status", st->why == SBX_EXIT_TIMEOUT ? "timeout" :
	    ran && bad == 0 ? "ok" : "failed");
	if (first != NULL && (first->ran || ran == first->ran)) {
		struct step shown = *first;

		shown.ran = ran;
		put_tool(r, &shown);
	} else {
		result_str(r, "tool", "");
		result_bool(r, "ran", false);
		result_str(r, "reason", st->why == SBX_EXIT_TIMEOUT ?
		    "It was killed at its time limit." : v->nlanguages == 0 ?
		    "There is no tool for this: its language is not known. "
		    "Name it with language." : "It was ended before its end.");
	}
	put_run(call, st);
	put_languages(r, v);
	result_u64(r, "total", total);
	result_open(r, "findings", '[');
	for (size_t i = 0; i < v->nsteps; i++)
		put_findings(r, v, &v->steps[i], &left, v->nsteps > 1);
	result_close(r, ']');
	return (0);
}

static void
put_running(struct call *call, const struct ask_run *st)
{
	result_str(call->res, "status", "running");
	if (strcmp(call->tool->name, "verify_in_container") == 0)
		result_bool(call->res, "gate", false);
	result_str(call->res, "job_id", st->run);
	put_run(call, st);
	result_str(call->res, "recommended_next_action", "It goes on as a "
	    "job: call this tool again with run_id, which waits for the "
	    "verdict. sandbox_exec_kill ends it.");
}

/* What is left of a run that was killed: the next one would remove it, too. */
static int
sweep(struct call *call)
{
	const char *const argv[] = { "bash", "-c", verify_script,
	    "sbx-verify", "sweep", "", "", "", "", "", "", "", NULL };
	struct run_spec spec;
	struct ask_run st;
	char run[SBX_RUN_HEX + 1];
	int error;

	error = run_spec_make(args_str(&call->args, "container_id", NULL), "/",
	    argv, &spec);
	spec.timeout_ms = 5000;
	if (error == 0)
		error = run_start(call, &spec, run);
	if (error == 0)
		error = run_wait(call, run, 5000, 5000, &st);
	run_spec_clear(&spec);
	/* refused: the sandbox is gone, and so are its files */
	return (error == SBX_E_POLICY ? 0 : error);
}

static int
finish(struct call *call, const struct ask_run *st)
{
	SBX_CLEANUP_BUF struct sbx_buf records = { 0 };
	SBX_CLEANUP_BUF struct sbx_buf output = { 0 };
	SBX_CLEANUP(free) struct verify *v = sbx_xcalloc(1, sizeof(*v));
	int error, bad;

	error = output_all(call, st->run, SBX_STREAM_OUT, RECORD_BYTES,
	    &records);
	bad = error == SBX_E_LIMIT ? error : 0;
	if (error == 0 || error == SBX_E_LIMIT) {
		bad |= verify_read(v, records.len > 0 ? records.data : "",
		    records.len);
		error = output_all(call, st->run, SBX_STREAM_ERR,
		    SBX_REPORT_BYTES - 1, &output);
	}
	if (error == 0)
		verify_outputs(v, output.len > 0 ? output.data : "",
		    output.len);
	if (error != 0 && error != SBX_E_LIMIT)
		return (call_refused(call, error));
	/* records that are cut or garbled are no run that ended */
	if (bad != 0)
		v->whole = false;
	verify_judge(v);
	if (v->problem.n > 0) {
		char text[320];

		result_error(call->res, "bad_argument",
		    "Mend the argument and call again.", "%s",
		    sbx_vis(text, sizeof(text), v->problem.p, v->problem.n));
		result_str(call->res, "run_id", st->run);
		error = 0;
	} else if (strcmp(call->tool->name, "verify_in_container") == 0) {
		error = put_verify(call, st, v);
	} else {
		error = put_check(call, st, v);
	}
	verify_clear(v);
	return (call_refused(call, error));
}

static int
shown(struct call *call, const struct ask_run *st)
{
	int error = 0;

	if (st->state != SBX_RUN_ENDED) {
		put_running(call, st);
		return (0);
	}
	if (st->why == SBX_EXIT_SANDBOX) {
		result_error(call->res, "sandbox_gone",
		    "sandbox_list_containers says whether the sandbox is "
		    "there.", "The sandbox ended, or was restored, while this "
		    "ran in it.");
		result_str(call->res, "run_id", st->run);
		return (0);
	}
	if (st->why == SBX_EXIT_TIMEOUT)
		error = sweep(call);
	return (error != 0 ? error : finish(call, st));
}

/* The verdict of an earlier run of this tool. */
static int
again(struct call *call, const char *run)
{
	struct ask_run st;
	int error;

	error = exec_wait(call->ask, run, 0, &st);
	if (error == 0 && st.state != SBX_RUN_ENDED)
		error = run_wait(call, run, call_left_ms(call), 0, &st);
	if (error != 0)
		return (call_refused(call, error));
	if (strcmp(st.tool, call->tool->name) != 0 ||
	    strcmp(st.container, args_str(&call->args, "container_id",
	    NULL)) != 0) {
		result_error(call->res, "unknown_run",
		    "Give the run_id of such a run in this sandbox.",
		    "Run %s is none of %s in this sandbox.", run,
		    call->tool->name);
		return (0);
	}
	return (shown(call, &st));
}

static int
run_script(struct call *call, const struct ask_verify *a)
{
	struct run_spec spec;
	struct ask_run st;
	int error;

	error = spec_of(call, a, &spec);
	if (error == SBX_E_LIMIT) {
		result_error(call->res, "too_large",
		    "Mend the argument and call again.",
		    "The arguments are too large in all.");
		error = 0;
	} else if (error == 0) {
		error = run_await(call, &spec, &st);
		if (error == 1)
			error = shown(call, &st);
	}
	run_spec_clear(&spec);
	return (error);
}

/* What is run there is fixed by the tree. */
static int
verify_fresh(struct call *call, const struct ask_verify *a)
{
	static const char *const others[] = { "path", "test_filter",
		"pytest_args", "language", "skip_lint_gate",
		"skip_type_gate" };

	for (size_t i = 0; i < SBX_NELEM(others); i++)
		if (args_has(&call->args, others[i])) {
			result_error(call->res, "bad_argument", "Leave it "
			    "out.", "\"%s\" does not go with fresh: true, "
			    "which runs all tests of the tree.", others[i]);
			return (0);
		}
	return (gate_fresh(call, a->cwd));
}

int
tool_verify_in_container(struct call *call)
{
	const char *run = args_str(&call->args, "run_id", NULL);
	bool no_lint = args_bool(&call->args, "skip_lint_gate"),
	    no_types = args_bool(&call->args, "skip_type_gate");
	struct ask_verify a = {
		.mode = "verify",
		.cwd = text_arg(call, "working_dir"),
		.path = text_arg(call, "path"),
		.language = text_arg(call, "language"),
		.filter = text_arg(call, "test_filter"),
		.scope = text_arg(call, "test_scope"),
		.skip = no_lint ? no_types ? "lt" : "l" : no_types ? "t" : "",
		.extra = args_json(&call->args, "pytest_args"),
	};

	if (args_bool(&call->args, "fresh"))
		return (run != NULL ? gate_again(call, run) :
		    verify_fresh(call, &a));
	if (run != NULL)
		return (again(call, run));
	if (!place_ok(call, a.cwd, a.path))
		return (0);
	if (args_has(&call->args, "files")) {
		(void)bad_argument(call, "\"files\" is for fresh: true.");
		return (0);
	}
	if (strcmp(a.scope, "affected") == 0 && (*a.filter != '\0' ||
	    a.extra != NULL)) {
		(void)bad_argument(call, "\"test_scope\": affected selects "
		    "the tests itself: leave test_filter and pytest_args "
		    "out.");
		return (0);
	}
	return (run_script(call, &a));
}

static int
check_tool(struct call *call, const char *mode)
{
	const char *run = args_str(&call->args, "run_id", NULL);
	const struct ask_verify a = {
		.mode = mode,
		.cwd = text_arg(call, "working_dir"),
		.path = text_arg(call, "file_path"),
		.language = text_arg(call, "language"),
		.filter = "", .scope = "full", .skip = "",
	};

	if (run != NULL)
		return (again(call, run));
	if (!place_ok(call, a.cwd, a.path))
		return (0);
	return (run_script(call, &a));
}

int
tool_lint_in_container(struct call *call)
{
	return (check_tool(call, args_bool(&call->args, "fix") ? "fix" :
	    "lint"));
}

int
tool_type_check_in_container(struct call *call)
{
	return (check_tool(call, "types"));
}
