/* From a parser's findings to the verdict. */

#include "sbxd/report/report.h"

#include "common/base/json.h"
#include "sbxd/report/work.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define JSON_DEPTH 48u

const char *
sbx_verdict_name(enum sbx_verdict v)
{
	static const char *const names[SBX_VERDICT_MAX] = {
		[SBX_VERDICT_GREEN] = "green",
		[SBX_VERDICT_FAILED] = "failed",
		[SBX_VERDICT_COMPILE] = "compile_failure",
		[SBX_VERDICT_COLLECT] = "collection_error",
		[SBX_VERDICT_CRASH] = "crash",
		[SBX_VERDICT_NO_TESTS] = "no_tests",
		[SBX_VERDICT_UNPARSABLE] = "unparsable",
	};

	return (v < SBX_VERDICT_MAX ? names[v] : "unparsable");
}

void
work_failure(struct report_work *w, struct text test, struct text error,
    const struct place *place)
{
	static const struct build_dirs nowhere;

	work_failure_in(w, test, error, place, &nowhere);
}

void
work_failure_in(struct report_work *w, struct text test, struct text error,
    const struct place *place, const struct build_dirs *dirs)
{
	struct sbx_report *r = w->r;
	struct sbx_report_failure *f;

	if (r->nfailures == SBX_REPORT_FAILURES ||
	    r->error_bytes >= SBX_REPORT_ERRORS_BYTES) {
		r->omitted++;
		return;
	}
	if (r->failures == NULL)
		r->failures = sbx_xcalloc(SBX_REPORT_FAILURES, sizeof(*f));
	f = &r->failures[r->nfailures++];
	f->test = text_copy(text_trim(test), SBX_REPORT_NAME_BYTES);
	while (error.n > 0 && (error.p[error.n - 1] == '\n' ||
	    error.p[error.n - 1] == ' '))
		error.n--;
	f->error = text_copy(error, SBX_REPORT_ERROR_BYTES);
	f->file = place == NULL ? sbx_xstrdup("") :
	    build_file(dirs, place->file);
	f->line = place == NULL ? 0 : place->line;
	r->error_bytes += strlen(f->error);
}

static void SBX_PRINTF(3, 0)
set_text(char *to, size_t size, const char *fmt, va_list ap)
{
	if (*to == '\0')
		(void)vsnprintf(to, size, fmt, ap);
}

void
work_broken(struct report_work *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set_text(w->broken, sizeof(w->broken), fmt, ap);
	va_end(ap);
}

void
work_note(struct report_work *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set_text(w->note, sizeof(w->note), fmt, ap);
	va_end(ap);
}

/* --- JSON ----------------------------------------------------------------- */

struct json_object *
work_json(struct text t)
{
	struct json_tokener *tok;
	struct json_object *o;

	if (sbx_json_scan(t.p, t.n, SBX_REPORT_BYTES, JSON_DEPTH, NULL) != 0)
		return (NULL);
	tok = json_tokener_new_ex((int)JSON_DEPTH + 1);
	if (tok == NULL)
		return (NULL);
	o = json_tokener_parse_ex(tok, t.p, (int)t.n);
	/* a lone number is not over before what follows it */
	if (o == NULL && json_tokener_get_error(tok) == json_tokener_continue)
		o = json_tokener_parse_ex(tok, "\n", 1);
	json_tokener_free(tok);
	return (o);
}

struct json_object *
json_member(struct json_object *o, const char *name, int type)
{
	struct json_object *v;

	if (!json_object_is_type(o, json_type_object) ||
	    !json_object_object_get_ex(o, name, &v) ||
	    !json_object_is_type(v, (enum json_type)type))
		return (NULL);
	return (v);
}

struct text
json_text(struct json_object *o, const char *name)
{
	struct json_object *v = json_member(o, name, json_type_string);

	if (v == NULL)
		return (TEXT(""));
	return ((struct text){ json_object_get_string(v),
	    (size_t)json_object_get_string_len(v) });
}

uint64_t
json_number(struct json_object *o, const char *name)
{
	struct json_object *v = json_member(o, name, json_type_int);
	int64_t n = v == NULL ? 0 : json_object_get_int64(v);

	return (n > 0 ? (uint64_t)n : 0);
}

/* --- the verdict ---------------------------------------------------------- */

static void
verdict(struct sbx_report *r, enum sbx_verdict v, const char *fmt, ...)
    SBX_PRINTF(3, 4);

static void
verdict(struct sbx_report *r, enum sbx_verdict v, const char *fmt, ...)
{
	va_list ap;

	r->verdict = v;
	va_start(ap, fmt);
	(void)vsnprintf(r->why, sizeof(r->why), fmt, ap);
	va_end(ap);
}

static bool
by_signal(int status)
{
	return (status < 0 || (status > 128 && status <= 128 + 64));
}

/* pytest's exit codes, where there is no report or it has nothing. */
static bool
judge_pytest(struct report_work *w)
{
	int status = w->in->status;

	if (w->in->format != SBX_REPORT_PYTEST)
		return (false);
	if (status == 5)
		verdict(w->r, SBX_VERDICT_NO_TESTS,
		    "pytest collected no tests.");
	else if (status == 4)
		verdict(w->r, SBX_VERDICT_COLLECT, "pytest did not start: an "
		    "argument that it does not know, a path that is not "
		    "there, or a conftest.py that does not load.");
	else if (status == 3)
		verdict(w->r, SBX_VERDICT_CRASH,
		    "pytest failed by an error of its own.");
	else if (status == 2)
		verdict(w->r, SBX_VERDICT_COLLECT,
		    "Tests could not be collected.");
	else if (!w->parsed && w->in->report == NULL)
		verdict(w->r, SBX_VERDICT_CRASH, "pytest ended (exit code %d) "
		    "without a report: something ended it early.", status);
	else
		return (false);
	return (true);
}

/* Not green for a reason that is not a failed test. */
static bool
judge_early(struct report_work *w)
{
	struct sbx_report *r = w->r;
	const char *note = w->note;

	if (by_signal(w->in->status))
		verdict(r, SBX_VERDICT_CRASH, "The runner was ended by signal "
		    "%d.", w->in->status < 0 ? -w->in->status :
		    w->in->status - 128);
	else if (w->compile)
		verdict(r, SBX_VERDICT_COMPILE, "%s", *note != '\0' ? note :
		    "It does not compile.");
	else if (w->collect)
		verdict(r, SBX_VERDICT_COLLECT, "%s", *note != '\0' ? note :
		    "Tests could not be loaded.");
	else if (w->crash)
		verdict(r, SBX_VERDICT_CRASH, "%s", *note != '\0' ? note :
		    "Tests ended before their end.");
	else
		return (judge_pytest(w));
	return (true);
}

static void
judge(struct report_work *w)
{
	struct sbx_report *r = w->r;
	bool none = r->passed == 0 && r->failed == 0 && r->errors == 0;
	const char *note = w->note;

	r->total = r->passed + r->failed + r->errors + r->skipped;
	if (judge_early(w))
		return;
	if (r->failed + r->errors > 0)
		verdict(r, SBX_VERDICT_FAILED, "%llu of %llu tests did not "
		    "pass.%s%s", (unsigned long long)(r->failed + r->errors),
		    (unsigned long long)r->total, *note != '\0' ? " " : "",
		    note);
	else if (!w->parsed)
		verdict(r, SBX_VERDICT_UNPARSABLE, "%s", *w->broken != '\0' ?
		    w->broken : "There is no report that can be read.");
	else if (*w->broken != '\0')
		verdict(r, SBX_VERDICT_UNPARSABLE, "The report contradicts "
		    "itself: %s.", w->broken);
	else if (none)
		verdict(r, SBX_VERDICT_NO_TESTS, r->skipped > 0 ?
		    "All tests were skipped." : "No tests ran.");
	else if (w->in->status != 0 || w->said_failed)
		verdict(r, SBX_VERDICT_FAILED, "The runner failed (exit code "
		    "%d), though no test did.%s%s", w->in->status,
		    *note != '\0' ? " " : "", note);
	else
		verdict(r, SBX_VERDICT_GREEN, "%s", "");
}

void
sbx_report_parse(const struct sbx_report_in *in,
    struct sbx_report *ret_report)
{
	static void (*const parsers[SBX_REPORT_FORMAT_MAX])(
	    struct report_work *) = {
		[SBX_REPORT_PYTEST] = report_junit,
		[SBX_REPORT_JEST] = report_jest,
		[SBX_REPORT_TAP] = report_tap,
		[SBX_REPORT_GO] = report_go,
		[SBX_REPORT_CARGO] = report_cargo,
		[SBX_REPORT_AUTOMAKE] = report_automake,
		[SBX_REPORT_CTEST] = report_junit,
	};
	struct report_work w = { .in = in, .r = ret_report };

	memset(ret_report, 0, sizeof(*ret_report));
	if (in->report_len >= SBX_REPORT_BYTES ||
	    in->output_len >= SBX_REPORT_BYTES)
		work_broken(&w, "The report is larger than %u bytes.",
		    SBX_REPORT_BYTES);
	else if (in->build_failed)
		work_compile(&w, (struct text){ in->output != NULL ?
		    in->output : "", in->output != NULL ? in->output_len :
		    0 });
	else
		parsers[in->format](&w);
	judge(&w);
}

void
sbx_report_clear(struct sbx_report *r)
{
	for (size_t i = 0; i < r->nfailures; i++) {
		free(r->failures[i].test);
		free(r->failures[i].error);
		free(r->failures[i].file);
	}
	free(r->failures);
	memset(r, 0, sizeof(*r));
}
