/*
 * make check of automake's parallel harness: a line a test, and a summary a
 * directory.  What a test wrote is in the test-suite.log files.
 * Source: the automake manual, section "Parallel Test Harness".
 */

#include "sbxd/report/work.h"

#include <string.h>

enum kind { PASS, SKIP, XFAIL, FAIL, XPASS, ERROR, TOTAL, KINDS };
static const char *const names[KINDS] = { "PASS", "SKIP", "XFAIL", "FAIL",
    "XPASS", "ERROR", "TOTAL" };

struct harness {
	struct report_work *w;
	struct text log;
	uint64_t lines[KINDS], sums[KINDS];
	uint64_t summaries;
	struct build_dirs dirs;
};

static bool
is_bad(enum kind k)
{
	return (k == FAIL || k == XPASS || k == ERROR);
}

/* `PASS: rest`; KINDS: it is none. */
static enum kind
kind_of(struct text line, struct text *ret_rest)
{
	for (unsigned k = 0; k < TOTAL; k++) {
		size_t n = strlen(names[k]);

		if (line.n > n + 2 && memcmp(line.p, names[k], n) == 0 &&
		    line.p[n] == ':' && line.p[n + 1] == ' ') {
			*ret_rest = text_skip(line, n + 2);
			return ((enum kind)k);
		}
	}
	return (KINDS);
}

static bool
is_rule(struct text line)
{
	size_t n = 0;

	while (n < line.n && line.p[n] == '=')
		n++;
	return (n == line.n && n > 0);
}

/* After a test's line in the log: its section, or up to the next result. */
static struct text
said_of(struct harness *h, struct text line)
{
	struct text rest = h->log, l, ignored, out;
	bool section;

	for (;;) {
		if (!text_line(&rest, &l))
			return (TEXT(""));
		if (l.n == line.n && memcmp(l.p, line.p, l.n) == 0)
			break;
	}
	out = (struct text){ rest.p, 0 };
	section = text_line(&rest, &l) && is_rule(l);
	if (section)
		out = (struct text){ rest.p, 0 };
	else
		rest = (struct text){ out.p, (size_t)(h->log.p + h->log.n -
		    out.p) };
	while (text_line(&rest, &l) && out.n < SBX_REPORT_ERROR_BYTES * 2) {
		struct text ahead = rest, next;

		if (kind_of(l, &ignored) != KINDS && (!section ||
		    (text_line(&ahead, &next) && is_rule(next))))
			break;
		if (!section && (text_starts(l, TEXT("ok ")) ||
		    text_starts(l, TEXT("not ok "))))
			break;
		out.n = (size_t)(l.p + l.n - out.p);
	}
	return (text_trim(out));
}

/* What the test of this line wrote before it: from the begin of its section. */
static struct text
said_before(struct harness *h, struct text line)
{
	struct text rest = h->log, l, from = rest;

	while (text_line(&rest, &l)) {
		if (is_rule(l))
			from = rest;
		if (l.n != line.n || memcmp(l.p, line.p, l.n) != 0)
			continue;
		from.n = (size_t)(l.p - from.p);
		if (from.n > SBX_REPORT_ERROR_BYTES * 2)
			from = text_skip(from, from.n -
			    SBX_REPORT_ERROR_BYTES * 2);
		return (text_trim(from));
	}
	return (TEXT(""));
}

static void
on_bad(struct harness *h, enum kind k, struct text line, struct text test)
{
	struct text said = TEXT("");
	struct place place;
	bool found;

	if (h->w->r->nfailures < SBX_REPORT_FAILURES)
		said = said_of(h, line);
	if (said.n == 0 && k == ERROR &&
	    h->w->r->nfailures < SBX_REPORT_FAILURES)
		said = said_before(h, line);
	if (said.n == 0)
		said = k == XPASS ? TEXT("It passed, and was expected to "
		    "fail.") : line;
	found = build_place(said, &place);
	work_failure_in(h->w, test, said, found ? &place : NULL, &h->dirs);
}

/* `# FAIL:  2` */
static void
on_sum(struct harness *h, struct text line)
{
	uint64_t v;

	line = text_skip(line, 2);
	for (unsigned k = 0; k < KINDS; k++) {
		size_t n = strlen(names[k]);

		if (line.n <= n || memcmp(line.p, names[k], n) != 0 ||
		    line.p[n] != ':' || text_number(text_trim(text_skip(line,
		    n + 1)), &v) == 0)
			continue;
		h->sums[k] += v;
		if (k == TOTAL)
			h->summaries++;
	}
}

static void
count(struct harness *h)
{
	struct sbx_report *r = h->w->r;
	uint64_t sum = 0;

	r->passed = h->sums[PASS];
	r->skipped = h->sums[SKIP] + h->sums[XFAIL];
	r->failed = h->sums[FAIL] + h->sums[XPASS];
	r->errors = h->sums[ERROR];
	r->collected = h->sums[TOTAL];
	for (unsigned k = 0; k < TOTAL; k++) {
		sum += h->sums[k];
		/* a failure that is in no summary is one all the same */
		if (is_bad((enum kind)k) && h->lines[k] > h->sums[k])
			r->failed += h->lines[k] - h->sums[k];
		if (h->lines[k] != h->sums[k])
			work_broken(h->w, "it says %llu %s and shows %llu",
			    (unsigned long long)h->sums[k], names[k],
			    (unsigned long long)h->lines[k]);
	}
	if (sum != h->sums[TOTAL])
		work_broken(h->w, "its numbers do not make up its total");
}

/* A program that ended with words of its own, and with a place in them. */
static bool
on_words(struct report_work *w, struct text out)
{
	struct build_dirs dirs = { .n = 0 };
	struct text rest = out, line;
	struct place place;

	if (!build_place(out, &place))
		return (false);
	while (text_line(&rest, &line) && line.p + line.n < place.file.p)
		build_dirs_line(&dirs, line);
	w->r->errors++;
	work_failure_in(w, TEXT("(make)"), text_skip(out, (size_t)(line.p -
	    out.p)), &place, &dirs);
	work_note(w, "It told of no test in a way that is known.");
	return (true);
}

/* No summary: it did not come so far, or it is not automake's. */
static void
no_summary(struct report_work *w, struct text out)
{
	if (w->in->status != 0 && build_failed(out)) {
		work_compile(w, out);
		return;
	}
	if (text_find(out, TEXT("1..")) != NULL) {
		report_tap(w);
		return;
	}
	if (w->in->status != 0 && on_words(w, out))
		return;
	work_broken(w, "make check told of no test in a way that is known "
	    "(automake's summary, TAP).");
}

void
report_automake(struct report_work *w)
{
	const struct sbx_report_in *in = w->in;
	struct text out = { in->output != NULL ? in->output : "",
	    in->output != NULL ? in->output_len : 0 };
	struct text rest = out, line, test;
	struct harness h = { .w = w, .log = { in->report != NULL ?
	    in->report : "", in->report_len } };
	enum kind k;

	while (text_line(&rest, &line)) {
		k = kind_of(line, &test);
		if (k != KINDS) {
			h.lines[k]++;
			if (is_bad(k))
				on_bad(&h, k, line, test);
		} else if (text_starts(line, TEXT("# "))) {
			on_sum(&h, line);
		} else {
			build_dirs_line(&h.dirs, line);
		}
	}
	w->parsed = h.summaries > 0;
	if (!w->parsed && h.lines[FAIL] + h.lines[ERROR] == 0)
		no_summary(w, out);
	else
		count(&h);
	/* with -k some directories' tests ran, and others were not built */
	if (w->parsed && in->status != 0 && h.lines[FAIL] + h.lines[ERROR] +
	    h.lines[XPASS] == 0 && build_failed(out))
		work_compile(w, out);
}
