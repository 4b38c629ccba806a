/*
 * The records of verify.sh, and what each of its steps comes to.  A sandbox
 * can write what it likes here; the verdict of this run opens nothing.
 */

#include "sbxd/worker/verify.h"

#include <stdio.h>
#include <string.h>

#define FIELDS 11u

bool
span_is(struct span s, const char *text)
{
	return (s.n == strlen(text) && memcmp(s.p, text, s.n) == 0);
}

static bool
take_line(struct span *rest, struct span *ret_line)
{
	const char *nl = rest->n == 0 ? NULL : memchr(rest->p, '\n', rest->n);

	if (nl == NULL)
		return (false);
	*ret_line = (struct span){ rest->p, (size_t)(nl - rest->p) };
	rest->n -= ret_line->n + 1;
	rest->p = nl + 1;
	return (true);
}

/* Fields between tabs; how many. */
static size_t
split(struct span line, struct span fields[FIELDS])
{
	const char *tab;
	size_t n = 0;

	for (;;) {
		tab = line.n == 0 ? NULL : memchr(line.p, '\t', line.n);
		fields[n++] = (struct span){ line.p, tab == NULL ? line.n :
		    (size_t)(tab - line.p) };
		if (tab == NULL || n == FIELDS)
			return (n);
		line.n -= fields[n - 1].n + 1;
		line.p = tab + 1;
	}
}

static bool
number(struct span s, uint64_t max, uint64_t *ret_v)
{
	char text[21];

	if (s.n == 0 || s.n >= sizeof(text))
		return (false);
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	return (sbx_parse_u64(text, 0, max, ret_v) == 0);
}

static bool
on_value(struct verify *v, struct span name, struct span value)
{
	static const struct {
		const char *name;
		size_t at;
	} texts[] = {
		{ "problem", offsetof(struct verify, problem) },
		{ "nonce", offsetof(struct verify, nonce) },
		{ "wd", offsetof(struct verify, wd) },
		{ "widened", offsetof(struct verify, widened) },
	};

	for (size_t i = 0; i < SBX_NELEM(texts); i++)
		if (span_is(name, texts[i].name))
			memcpy((char *)v + texts[i].at, &value, sizeof(value));
	if (span_is(name, "language")) {
		if (v->nlanguages == VERIFY_LANGUAGES)
			return (false);
		v->languages[v->nlanguages++] = value;
	}
	if (span_is(name, "gate"))
		v->gate_red = true;
	if (span_is(name, "config") && v->nsteps > 0)
		v->steps[v->nsteps - 1].config = value;
	if (span_is(name, "skip"))
		v->skipped = value.n > 0;
	if (span_is(name, "filtered"))
		v->filtered = span_is(value, "1");
	if (span_is(name, "nothing_affected"))
		v->nothing_affected = true;
	if (span_is(name, "end"))
		v->whole = true;
	return (true);
}

static bool
on_step(struct verify *v, const struct span f[FIELDS])
{
	struct step *s = &v->steps[v->nsteps];
	uint64_t status;

	if (v->nsteps == VERIFY_STEPS || !number(f[5], 255, &status) ||
	    !number(f[7], UINT64_MAX / 2, &s->ms))
		return (false);
	v->nsteps++;
	s->kind = span_is(f[1], "lint") ? STEP_LINT : span_is(f[1], "types") ?
	    STEP_TYPES : STEP_TEST;
	s->language = f[2];
	s->tool = f[3];
	s->ran = span_is(f[4], "1");
	s->status = (int)status;
	s->built = span_is(f[6], "1");
	s->version = f[8];
	s->command = f[9];
	s->reason = f[10];
	s->filtered = v->filtered;
	return (true);
}

static bool
on_blob(struct verify *v, struct span name, struct span size,
    struct span *rest)
{
	struct span blob;
	uint64_t n;

	if (!number(size, SBX_REPORT_BYTES, &n) || n + 1 > rest->n ||
	    rest->p[n] != '\n')
		return (false);
	blob = (struct span){ rest->p, (size_t)n };
	rest->p += n + 1;
	rest->n -= (size_t)n + 1;
	if (span_is(name, "unstaged"))
		v->unstaged = blob;
	else if (span_is(name, "staged"))
		v->staged = blob;
	else if (span_is(name, "untracked"))
		v->untracked = blob;
	else if (span_is(name, "content"))
		v->content = blob;
	else if (span_is(name, "selection"))
		v->selection = blob;
	else if (v->nsteps > 0)
		v->steps[v->nsteps - 1].report = blob;
	return (true);
}

int
verify_read(struct verify *v, const char *text, size_t len)
{
	struct span rest = { text, len }, line, f[FIELDS];
	size_t n;
	bool good = true;

	memset(v, 0, sizeof(*v));
	while (good && take_line(&rest, &line)) {
		n = split(line, f);
		if (n == 3 && span_is(f[0], "K"))
			good = on_value(v, f[1], f[2]);
		else if (n == 3 && span_is(f[0], "B"))
			good = on_blob(v, f[1], f[2], &rest);
		else if (n == FIELDS && span_is(f[0], "S"))
			good = on_step(v, f);
		else
			good = false;
	}
	return (good && rest.n == 0 ? 0 : SBX_E_SYNTAX);
}

void
verify_outputs(struct verify *v, const char *text, size_t len)
{
	struct span rest = { text, len }, line, *open = NULL;
	char mark[64];
	size_t i = 0, n;

	n = (size_t)snprintf(mark, sizeof(mark), "== %.*s ", v->nonce.n < 32 ?
	    (int)v->nonce.n : 32, v->nonce.n > 0 ? v->nonce.p : "");
	while (v->nonce.n > 0 && take_line(&rest, &line)) {
		if (line.n < n || memcmp(line.p, mark, n) != 0)
			continue;
		if (open != NULL)
			open->n = (size_t)(line.p - open->p);
		/* what was missing has no mark */
		while (i < v->nsteps && (!v->steps[i].ran &&
		    v->steps[i].status == 127))
			i++;
		open = NULL;
		if (i < v->nsteps) {
			open = &v->steps[i++].output;
			*open = rest;
		}
	}
}

/* --- steps ---------------------------------------------------------------- */

static const struct {
	const char *tool;
	enum sbx_report_format format;
} runners[] = {
	{ "pytest", SBX_REPORT_PYTEST }, { "jest", SBX_REPORT_JEST },
	{ "vitest", SBX_REPORT_JEST }, { "node", SBX_REPORT_TAP },
	{ "tap", SBX_REPORT_TAP }, { "go", SBX_REPORT_GO },
	{ "cargo", SBX_REPORT_CARGO }, { "make", SBX_REPORT_AUTOMAKE },
	{ "ctest", SBX_REPORT_CTEST },
};
static const struct {
	const char *tool;
	enum sbx_finding_format format;
} checkers[] = {
	{ "ruff", SBX_FINDINGS_RUFF }, { "flake8", SBX_FINDINGS_FLAKE8 },
	{ "pylint", SBX_FINDINGS_PYLINT }, { "eslint", SBX_FINDINGS_ESLINT },
	{ "pyright", SBX_FINDINGS_PYRIGHT }, { "tsc", SBX_FINDINGS_TSC },
	{ "golangci-lint", SBX_FINDINGS_GOLANGCI },
	{ "go vet", SBX_FINDINGS_GCC }, { "clippy", SBX_FINDINGS_CLIPPY },
	{ "clang-tidy", SBX_FINDINGS_GCC }, { "cppcheck", SBX_FINDINGS_GCC },
	{ "shellcheck", SBX_FINDINGS_SHELLCHECK },
};

static void
not_run(struct step *s, const char *why)
{
	s->ran = false;
	(void)snprintf(s->why, sizeof(s->why), "%s", why);
}

static void
judge_check(struct step *s)
{
	size_t i;

	if (!s->ran)
		return;
	for (i = 0; i < SBX_NELEM(checkers) &&
	    !span_is(s->tool, checkers[i].tool); i++)
		;
	if (i == SBX_NELEM(checkers) || s->report.p == NULL ||
	    sbx_findings_parse(checkers[i].format, s->report.p, s->report.n,
	    &s->findings) != 0)
		not_run(s, "Its output is not what this tool writes.");
	else if (s->status != 0 && s->findings.total == 0)
		not_run(s, "It failed and said nothing of why.");
}

static void
judge_test(struct step *s)
{
	struct sbx_report_in in = { .report = s->report.p,
		.report_len = s->report.n, .output = s->output.p,
		.output_len = s->output.n, .status = s->status,
		.build_failed = !s->built };
	size_t i;

	for (i = 0; i < SBX_NELEM(runners) &&
	    !span_is(s->tool, runners[i].tool); i++)
		;
	if (s->ran && span_is(s->tool, "pytest") && s->status == 1 &&
	    s->report.p == NULL && s->output.n > 0 && memmem(s->output.p,
	    s->output.n, "No module named pytest", 22) != NULL) {
		s->verdict = "missing_runner";
		(void)snprintf(s->why, sizeof(s->why), "pytest is not "
		    "installed for this python.");
		return;
	}
	if (!s->ran || ((s->status == 127 || s->status == 126) &&
	    s->report.p == NULL)) {
		s->verdict = "missing_runner";
		(void)snprintf(s->why, sizeof(s->why), "%.*s", s->reason.n > 0 ?
		    (int)s->reason.n : 0, s->reason.n > 0 ? s->reason.p : "");
		if (s->reason.n == 0)
			(void)snprintf(s->why, sizeof(s->why), "The test "
			    "command was not found (exit code %d).", s->status);
		return;
	}
	if (i == SBX_NELEM(runners)) {
		s->verdict = "no_tests";
		(void)snprintf(s->why, sizeof(s->why), "%.*s",
		    (int)s->reason.n, s->reason.p);
		return;
	}
	in.format = runners[i].format;
	/* an empty report is what a run that was cut short leaves */
	sbx_report_parse(&in, &s->tests);
	s->verdict = sbx_verdict_name(s->tests.verdict);
	(void)sbx_strlcpy(s->why, s->tests.why, sizeof(s->why));
}

void
verify_judge(struct verify *v)
{
	for (size_t i = 0; i < v->nsteps; i++)
		if (v->steps[i].kind == STEP_TEST)
			judge_test(&v->steps[i]);
		else
			judge_check(&v->steps[i]);
}

void
verify_clear(struct verify *v)
{
	for (size_t i = 0; i < v->nsteps; i++) {
		sbx_report_clear(&v->steps[i].tests);
		sbx_findings_clear(&v->steps[i].findings);
	}
}
