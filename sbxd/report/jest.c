/* JSON of jest and vitest: files ("suites"), each with its tests. */

#include "sbxd/report/work.h"

#include <json-c/json.h>
#include <string.h>

/* What a file that did not load says, if it is about its text. */
static bool
is_compile(struct text message)
{
	static const struct text marks[] = {
		TEXT("SyntaxError"), TEXT("Failed to parse source"),
		TEXT("Transform failed"), TEXT("TransformError"),
		TEXT("Unexpected token"), TEXT("error TS"),
	};

	for (size_t i = 0; i < SBX_NELEM(marks); i++)
		if (text_find(message, marks[i]) != NULL)
			return (true);
	return (false);
}

static void
failed_test(struct report_work *w, struct json_object *test,
    struct text file)
{
	struct json_object *list = json_member(test, "failureMessages",
	    json_type_array), *m;
	uint64_t line = json_number(json_member(test, "location",
	    json_type_object), "line");
	struct sbx_buf b;
	struct place place;
	struct text name = json_text(test, "fullName"), error;
	size_t i, n = list == NULL ? 0 : json_object_array_length(list);

	sbx_buf_init(&b, SBX_REPORT_BYTES);
	for (i = 0; i < n; i++) {
		m = json_object_array_get_idx(list, i);
		if (!json_object_is_type(m, json_type_string))
			continue;
		if (b.len > 0)
			(void)sbx_buf_str(&b, "\n");
		(void)sbx_buf_add(&b, json_object_get_string(m),
		    (size_t)json_object_get_string_len(m));
	}
	error = b.len > 0 ? (struct text){ b.data, b.len } :
	    TEXT("It failed, and said nothing.");
	if (!text_place(error, false, &place))
		place = (struct place){ file, line };
	work_failure(w, name.n > 0 ? name : json_text(test, "title"), error,
	    &place);
	sbx_buf_clear(&b);
}

/* Returns whether it failed. */
static bool
one_test(struct report_work *w, struct json_object *test, struct text file)
{
	struct text status = json_text(test, "status");
	struct sbx_report *r = w->r;

	r->collected++;
	if (text_is(status, "passed")) {
		r->passed++;
	} else if (text_is(status, "pending") || text_is(status, "skipped") ||
	    text_is(status, "todo") || text_is(status, "disabled")) {
		r->skipped++;
	} else if (text_is(status, "failed")) {
		r->failed++;
		failed_test(w, test, file);
		return (true);
	} else {
		work_broken(w, "a test is neither passed nor failed nor "
		    "skipped");
	}
	return (false);
}

/* A file that failed by itself: it did not load, or has no tests. */
static void
failed_file(struct report_work *w, struct json_object *suite,
    struct text file)
{
	struct text message = json_text(suite, "message");
	struct place place;

	w->r->errors++;
	if (is_compile(message))
		w->compile = true;
	else
		w->collect = true;
	work_note(w, "A test file did not load, or a hook of it failed.");
	if (!text_place(message, false, &place))
		place = (struct place){ file, 0 };
	work_failure(w, file, message.n > 0 ? message :
	    TEXT("The file failed, and said nothing."), &place);
}

static void
one_file(struct report_work *w, struct json_object *suite)
{
	struct json_object *tests = json_member(suite, "assertionResults",
	    json_type_array);
	struct text file = json_text(suite, "name");
	bool failed = false;
	size_t i, n;

	if (tests == NULL) {
		work_broken(w, "a file has no list of tests");
		return;
	}
	n = json_object_array_length(tests);
	for (i = 0; i < n && w->r->collected < SBX_REPORT_TESTS; i++)
		if (one_test(w, json_object_array_get_idx(tests, i), file))
			failed = true;
	if (!text_is(json_text(suite, "status"), "passed") && !failed) {
		/* jest says of a file without a test that ran: pending */
		if (text_is(json_text(suite, "status"), "failed"))
			failed_file(w, suite, file);
	}
}

static void
whole(struct report_work *w, struct json_object *o)
{
	struct json_object *files = json_member(o, "testResults",
	    json_type_array), *success = json_member(o, "success",
	    json_type_boolean);
	uint64_t bad = json_number(o, "numFailedTests") +
	    json_number(o, "numFailedTestSuites") +
	    json_number(o, "numRuntimeErrorTestSuites");
	size_t i;

	if (files == NULL || success == NULL)
		return;
	w->parsed = true;
	for (i = 0; i < json_object_array_length(files); i++)
		one_file(w, json_object_array_get_idx(files, i));
	if (w->r->failed + w->r->errors > 0)
		return;
	w->said_failed = !json_object_get_boolean(success);
	if (json_number(o, "numTotalTests") != w->r->collected)
		work_broken(w, "it says %llu tests and has %llu",
		    (unsigned long long)json_number(o, "numTotalTests"),
		    (unsigned long long)w->r->collected);
	else if (bad > 0)
		work_broken(w, "it says that %llu failed and has none",
		    (unsigned long long)bad);
}

void
report_jest(struct report_work *w)
{
	struct text out = { w->in->output != NULL ? w->in->output : "",
	    w->in->output != NULL ? w->in->output_len : 0 };
	struct json_object *o;

	if (w->in->report == NULL) {
		/* vitest writes none then */
		if (text_find(out, TEXT("No test files found")) != NULL) {
			w->parsed = true;
			return;
		}
		if (w->in->status != 0)
			work_broken(w, "The runner ended (exit code %d) "
			    "without a report.", w->in->status);
		return;
	}
	o = work_json((struct text){ w->in->report, w->in->report_len });
	if (o != NULL) {
		whole(w, o);
		json_object_put(o);
	}
	if (!w->parsed)
		work_broken(w, "The report is not the JSON that it should "
		    "be.");
}
