/*
 * JUnit XML of pytest and ctest: suites that hold cases, a case with failure,
 * error or skipped.  Counted are the cases; a suite's own numbers must agree
 * with them where nothing failed.
 */

#include "sbxd/report/work.h"

#include "sbxd/report/xml.h"

#include <string.h>

#define BODY_BYTES (256u << 10)

struct suites {
	struct report_work *w;
	struct xml x;
	bool in_suite, in_case;
	uint64_t tests, bad;	/* as the suites say */
	/* the case that is open */
	struct sbx_buf name, file, message, body, out;
	uint64_t line;
	bool has_line, failure, error, skipped;
	struct sbx_buf *to;	/* where text goes, or NULL */
};

static uint64_t
number(struct suites *s, const char *name)
{
	struct text t = xml_attr(&s->x, name);
	uint64_t v = 0;

	if (t.p != NULL && text_number(t, &v) != t.n)
		work_broken(s->w, "%s is not a number", name);
	return (v);
}

static void
value(struct suites *s, const char *name, struct sbx_buf *b)
{
	struct text t = xml_attr(&s->x, name);

	if (t.p != NULL)
		(void)xml_decode(t, b);
}

static struct text
of(const struct sbx_buf *b)
{
	return ((struct text){ b->len > 0 ? b->data : "", b->len });
}

static void
drop(struct sbx_buf *b)
{
	sbx_buf_consume(b, b->len);
	b->overflow = false;
}

static bool
open_suite(struct suites *s)
{
	if (s->in_suite || s->in_case) {
		work_broken(s->w, "suites inside suites");
		return (false);
	}
	s->in_suite = true;
	if (xml_attr(&s->x, "tests").p == NULL)
		work_broken(s->w, "a suite does not say how many tests");
	s->tests += number(s, "tests");
	s->bad += number(s, "failures") + number(s, "errors");
	return (true);
}

static bool
open_case(struct suites *s)
{
	struct text status = xml_attr(&s->x, "status");
	struct text class = xml_attr(&s->x, "classname");

	if (!s->in_suite || s->in_case)
		return (false);
	s->in_case = true;
	s->failure = s->error = s->skipped = s->has_line = false;
	drop(&s->name);
	drop(&s->file);
	drop(&s->message);
	drop(&s->body);
	drop(&s->out);
	/* ctest gives the name as the class, too */
	if (class.n > 0 && s->w->in->format == SBX_REPORT_PYTEST) {
		value(s, "classname", &s->name);
		(void)sbx_buf_str(&s->name, "::");
	}
	value(s, "name", &s->name);
	value(s, "file", &s->file);
	s->line = number(s, "line") + 1;	/* it counts from 0 */
	s->has_line = xml_attr(&s->x, "line").p != NULL;
	if (text_is(status, "fail"))
		s->failure = true;
	else if (text_is(status, "disabled"))
		s->skipped = true;
	else if (text_is(status, "notrun"))
		s->error = true;	/* unless it says that it was skipped */
	return (true);
}

static bool
open_inner(struct suites *s)
{
	struct text message = xml_attr(&s->x, "message");

	if (!s->in_case)
		return (true);
	if (text_is(s->x.name, "system-out")) {
		s->to = &s->out;
		return (true);
	}
	if (text_is(s->x.name, "skipped")) {
		if (s->error && !text_starts(message, TEXT("SKIP_"))) {
			value(s, "message", &s->message);
			return (true);
		}
		s->error = false;
		s->skipped = true;
		return (true);
	}
	if (text_is(s->x.name, "failure"))
		s->failure = true;
	else if (text_is(s->x.name, "error"))
		s->error = true;
	else
		return (true);
	drop(&s->message);
	value(s, "message", &s->message);
	s->to = &s->body;
	return (true);
}

static bool
on_open(struct suites *s)
{
	s->to = NULL;
	if (text_is(s->x.name, "testsuites"))
		return (s->x.depth == 1);
	if (text_is(s->x.name, "testsuite"))
		return (open_suite(s));
	if (text_is(s->x.name, "testcase"))
		return (open_case(s));
	return (s->x.depth > 1 && open_inner(s));
}

/* pytest: the last place of the traceback; ctest: the first of the output. */
static void
add_failure(struct suites *s)
{
	bool ctest = s->w->in->format == SBX_REPORT_CTEST;
	struct text error;
	struct place place;
	bool found;

	/* newer ones say in a word how it ended; what it wrote says why */
	if (ctest && s->out.len > 0) {
		if (s->message.len > 0 && sbx_buf_str(&s->message, "\n") == 0)
			(void)sbx_buf_add(&s->message, s->out.data,
			    s->out.len);
		error = s->message.len > 0 ? of(&s->message) : of(&s->out);
	} else {
		error = s->body.len > 0 ? of(&s->body) : s->message.len > 0 ?
		    of(&s->message) : of(&s->out);
	}
	found = ctest ? build_place(error, &place) :
	    text_place(error, true, &place);
	if (error.n == 0)
		error = TEXT("It failed, and wrote nothing.");
	if (!found && s->file.len > 0) {
		place = (struct place){ of(&s->file), s->has_line ? s->line :
		    0 };
		found = true;
	}
	work_failure(s->w, of(&s->name), error, found ? &place : NULL);
}

static void
close_case(struct suites *s)
{
	struct sbx_report *r = s->w->r;

	s->in_case = false;
	r->collected++;
	if (s->failure)
		r->failed++;
	else if (s->error)
		r->errors++;
	else if (s->skipped)
		r->skipped++;
	else
		r->passed++;
	if (text_is(of(&s->message), "collection failure")) {
		s->w->collect = true;
		if (text_find(of(&s->body), TEXT("SyntaxError")) != NULL)
			s->w->compile = true;
	}
	if (s->failure || s->error)
		add_failure(s);
}

static void
on_close(struct suites *s)
{
	s->to = NULL;
	if (text_is(s->x.name, "testcase"))
		close_case(s);
	else if (text_is(s->x.name, "testsuite"))
		s->in_suite = false;
}

/* To its end, or to what is wrong. */
static bool
walk(struct suites *s)
{
	for (;;)
		switch (xml_next(&s->x)) {
		case XML_OPEN:
			if (s->w->r->collected >= SBX_REPORT_TESTS ||
			    !on_open(s))
				return (false);
			break;
		case XML_CLOSE:
			on_close(s);
			break;
		case XML_TEXT:
			if (s->to == NULL)
				break;
			if (s->x.cdata)
				(void)sbx_buf_add(s->to, s->x.text.p,
				    s->x.text.n);
			else
				(void)xml_decode(s->x.text, s->to);
			break;
		case XML_END:
			return (true);
		case XML_BAD:
			return (false);
		}
}

void
report_junit(struct report_work *w)
{
	struct sbx_report *r = w->r;
	struct suites s = { .w = w };

	if (w->in->report == NULL)
		return;
	xml_init(&s.x, (struct text){ w->in->report, w->in->report_len });
	sbx_buf_init(&s.name, SBX_REPORT_NAME_BYTES * 2);
	sbx_buf_init(&s.file, SBX_REPORT_NAME_BYTES);
	sbx_buf_init(&s.message, BODY_BYTES);
	sbx_buf_init(&s.body, BODY_BYTES);
	sbx_buf_init(&s.out, BODY_BYTES);
	w->parsed = walk(&s);
	if (!w->parsed)
		work_broken(w, "The report is not the XML that it should be.");
	else if (s.tests != r->collected && r->failed + r->errors == 0)
		work_broken(w, "it says %llu tests and has %llu",
		    (unsigned long long)s.tests,
		    (unsigned long long)r->collected);
	else if (s.bad > 0 && r->failed + r->errors == 0)
		work_broken(w, "it says that %llu failed and has none",
		    (unsigned long long)s.bad);
	sbx_buf_clear(&s.name);
	sbx_buf_clear(&s.file);
	sbx_buf_clear(&s.message);
	sbx_buf_clear(&s.body);
	sbx_buf_clear(&s.out);
}
