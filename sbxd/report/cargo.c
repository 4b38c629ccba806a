/*
 * cargo test: what libtest prints, one block a binary, and the doc tests.
 * Each `running N tests` needs its `test result:` with the same N.
 * Source: library/test/src/formatters/pretty.rs.
 */

#include "sbxd/report/work.h"

#include <string.h>

struct cargo {
	struct report_work *w;
	uint64_t begun, running, results;	/* blocks, tests in them */
	bool in_block;
	uint64_t planned;	/* of the block that is open */
	/* the captured output of one failed test */
	bool in_failure;
	struct text name, said;
	struct text first_error;
};

/* The number before ` word` in a result line. */
static bool
number_of(struct text line, struct text word, uint64_t *ret_v)
{
	const char *p = text_find(line, word);
	size_t at, from;

	if (p == NULL)
		return (false);
	at = from = (size_t)(p - line.p);
	while (from > 0 && line.p[from - 1] >= '0' && line.p[from - 1] <= '9')
		from--;
	return (text_number((struct text){ line.p + from, at - from },
	    ret_v) > 0);
}

static void
on_result(struct cargo *c, struct text line)
{
	uint64_t passed = 0, failed = 0, ignored = 0, measured = 0;
	struct sbx_report *r = c->w->r;

	if (!number_of(line, TEXT(" passed"), &passed) ||
	    !number_of(line, TEXT(" failed"), &failed) ||
	    !number_of(line, TEXT(" ignored"), &ignored)) {
		work_broken(c->w, "a result without numbers");
		return;
	}
	(void)number_of(line, TEXT(" measured"), &measured);
	if (!c->in_block)
		work_broken(c->w, "a result without a run");
	else if (passed + failed + ignored + measured != c->planned)
		work_broken(c->w, "%llu tests were to run, %llu have a result",
		    (unsigned long long)c->planned, (unsigned long long)
		    (passed + failed + ignored + measured));
	if (text_starts(line, TEXT("test result: ok")) != (failed == 0))
		work_broken(c->w, "a result contradicts its numbers");
	c->in_block = false;
	c->results++;
	r->passed += passed + measured;
	r->failed += failed;
	r->skipped += ignored;
	r->collected += passed + failed + ignored + measured;
}

static void
end_failure(struct cargo *c)
{
	struct place place;
	bool found;
	const char *p;
	struct text from = c->said;

	if (!c->in_failure)
		return;
	c->in_failure = false;
	/* the panic's own place, not what its text speaks of */
	p = text_find(from, TEXT("panicked at "));
	if (p != NULL)
		from = text_skip(from, (size_t)(p - from.p));
	p = text_find(from, TEXT("stack backtrace:"));
	if (p != NULL)
		from.n = (size_t)(p - from.p);
	found = text_place(from, text_starts(from, TEXT("panicked at '")),
	    &place);
	work_failure(c->w, c->name, text_trim(c->said).n > 0 ?
	    text_trim(c->said) : TEXT("It failed, and wrote nothing."),
	    found ? &place : NULL);
}

/* `---- NAME stdout ----` */
static bool
begin_failure(struct cargo *c, struct text line, struct text rest)
{
	static const struct text head = TEXT("---- "),
	    tail = TEXT(" stdout ----");

	if (!text_starts(line, head) || line.n < head.n + tail.n ||
	    memcmp(line.p + line.n - tail.n, tail.p, tail.n) != 0)
		return (false);
	end_failure(c);
	c->in_failure = true;
	c->name = (struct text){ line.p + head.n, line.n - head.n - tail.n };
	c->said = (struct text){ rest.p, 0 };
	return (true);
}

static void
on_running(struct cargo *c, struct text line)
{
	struct text rest = text_skip(line, 8);
	uint64_t n;
	size_t used = text_number(rest, &n);

	rest = text_skip(rest, used);
	if (used == 0 || (!text_is(rest, " tests") && !text_is(rest, " test")))
		return;
	if (c->in_block) {
		c->w->crash = true;
		work_note(c->w, "A test binary ended without a result.");
	}
	c->in_block = true;
	c->planned = n;
	c->begun++;
}

static void
on_error(struct cargo *c, struct text line)
{
	if (c->first_error.n == 0)
		c->first_error = line;
	if (text_starts(line, TEXT("error: could not compile")) ||
	    text_starts(line, TEXT("error[E"))) {
		if (!c->w->compile)
			work_note(c->w, "It does not compile.");
		c->w->compile = true;
	}
}

static void
on_line(struct cargo *c, struct text line, struct text rest)
{
	if (begin_failure(c, line, rest))
		return;
	if (c->in_failure && !text_is(line, "failures:") &&
	    !text_starts(line, TEXT("test result: "))) {
		c->said.n = (size_t)(line.p + line.n - c->said.p);
		return;
	}
	end_failure(c);
	if (text_starts(line, TEXT("running ")))
		on_running(c, line);
	else if (text_starts(line, TEXT("test result: ")))
		on_result(c, line);
	else if (text_starts(line, TEXT("error")))
		on_error(c, line);
	else if (text_find(line, TEXT("process didn't exit successfully")) !=
	    NULL && text_find(line, TEXT("(signal: ")) != NULL) {
		c->w->crash = true;
		work_note(c->w, "A test binary was ended by a signal.");
	}
}

void
report_cargo(struct report_work *w)
{
	const struct sbx_report_in *in = w->in;
	struct text all = in->report != NULL ? (struct text){ in->report,
	    in->report_len } : (struct text){ in->output != NULL ?
	    in->output : "", in->output != NULL ? in->output_len : 0 };
	struct text rest = all, line;
	struct cargo c = { .w = w };

	while (text_line(&rest, &line))
		on_line(&c, line, rest);
	end_failure(&c);
	if (c.in_block) {
		w->crash = true;
		work_note(w, "A test binary ended without a result.");
	}
	w->parsed = c.results > 0;
	if (w->compile || (c.begun == 0 && c.first_error.n > 0)) {
		bool compile = w->compile;

		work_compile(w, c.first_error.n == 0 ? all : text_skip(all,
		    (size_t)(c.first_error.p - all.p)));
		w->compile = compile;
		w->collect = !compile;
		work_note(w, "cargo could not begin.");
	} else if (c.results == 0) {
		work_broken(w, "There is no result of a test in what cargo "
		    "wrote.");
	}
}
