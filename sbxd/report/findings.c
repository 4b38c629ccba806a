/* What linters and type checkers found. */

#include "sbxd/report/work.h"

#include <json-c/json.h>
#include <string.h>

static void
add(struct sbx_findings *f, struct text file, uint64_t line, uint64_t column,
    struct text rule, struct text message, const char *severity)
{
	struct sbx_finding *one;

	f->total++;
	if (strcmp(severity, "error") == 0)
		f->errors++;
	if (f->n == SBX_FINDINGS_MAX)
		return;
	if (f->list == NULL)
		f->list = sbx_xcalloc(SBX_FINDINGS_MAX, sizeof(*f->list));
	one = &f->list[f->n++];
	one->file = text_copy(file, SBX_REPORT_NAME_BYTES);
	one->rule = text_copy(rule, 128);
	one->message = text_copy(text_trim(message), SBX_FINDING_BYTES);
	one->line = line;
	one->column = column;
	one->severity = severity;
}

static const char *
severity_of(struct text s)
{
	if (text_is(s, "error") || text_is(s, "fatal") ||
	    text_starts(s, TEXT("error:")))
		return ("error");
	if (text_is(s, "info") || text_is(s, "information") ||
	    text_is(s, "style") || text_is(s, "note") || text_is(s, "help") ||
	    text_is(s, "convention") || text_is(s, "refactor") ||
	    text_is(s, "hint"))
		return ("info");
	return ("warning");
}

/* --- JSON ----------------------------------------------------------------- */

typedef bool (*one_fn)(struct sbx_findings *f, struct json_object *o);

/* Each of an array; false: it is none, or one is not as it should be. */
static bool
each(struct sbx_findings *f, struct json_object *list, one_fn fn)
{
	size_t i;

	if (!json_object_is_type(list, json_type_array))
		return (false);
	for (i = 0; i < json_object_array_length(list); i++)
		if (!fn(f, json_object_array_get_idx(list, i)))
			return (false);
	return (true);
}

/* By ruff's own levels: what is not code that breaks is a warning. */
static bool
ruff_one(struct sbx_findings *f, struct json_object *o)
{
	struct json_object *at = json_member(o, "location", json_type_object);
	struct text code = json_text(o, "code");
	bool error = code.n == 0 || text_starts(code, TEXT("E9")) ||
	    text_starts(code, TEXT("F")) || text_starts(code,
	    TEXT("invalid-syntax"));

	if (json_text(o, "filename").n == 0)
		return (false);
	add(f, json_text(o, "filename"), json_number(at, "row"),
	    json_number(at, "column"), code.n > 0 ? code :
	    TEXT("syntax-error"), json_text(o, "message"), error ? "error" :
	    "warning");
	return (true);
}

static bool
pylint_one(struct sbx_findings *f, struct json_object *o)
{
	if (json_text(o, "path").n == 0)
		return (false);
	add(f, json_text(o, "path"), json_number(o, "line"),
	    json_number(o, "column") + 1, json_text(o, "symbol"),
	    json_text(o, "message"), severity_of(json_text(o, "type")));
	return (true);
}

static bool
eslint_one(struct sbx_findings *f, struct json_object *o)
{
	struct json_object *list = json_member(o, "messages",
	    json_type_array), *m;
	struct text rule;

	if (list == NULL)
		return (false);
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		m = json_object_array_get_idx(list, i);
		rule = json_text(m, "ruleId");
		add(f, json_text(o, "filePath"), json_number(m, "line"),
		    json_number(m, "column"), rule.n > 0 ? rule :
		    TEXT("parse-error"), json_text(m, "message"),
		    json_number(m, "severity") == 2 ? "error" : "warning");
	}
	return (true);
}

static bool
pyright_one(struct sbx_findings *f, struct json_object *o)
{
	struct json_object *start = json_member(json_member(o, "range",
	    json_type_object), "start", json_type_object);

	if (!json_object_is_type(o, json_type_object))
		return (false);
	add(f, json_text(o, "file"), start == NULL ? 0 :
	    json_number(start, "line") + 1, start == NULL ? 0 :
	    json_number(start, "character") + 1, json_text(o, "rule"),
	    json_text(o, "message"), severity_of(json_text(o, "severity")));
	return (true);
}

static bool
golangci_one(struct sbx_findings *f, struct json_object *o)
{
	struct json_object *at = json_member(o, "Pos", json_type_object);
	struct text severity = json_text(o, "Severity");

	if (at == NULL)
		return (false);
	add(f, json_text(at, "Filename"), json_number(at, "Line"),
	    json_number(at, "Column"), json_text(o, "FromLinter"),
	    json_text(o, "Text"), severity.n > 0 ? severity_of(severity) :
	    "warning");
	return (true);
}

static bool
shellcheck_one(struct sbx_findings *f, struct json_object *o)
{
	struct sbx_buf rule;

	if (json_text(o, "file").n == 0)
		return (false);
	sbx_buf_init(&rule, 32);
	(void)sbx_buf_printf(&rule, "SC%llu",
	    (unsigned long long)json_number(o, "code"));
	add(f, json_text(o, "file"), json_number(o, "line"),
	    json_number(o, "column"), (struct text){ rule.len > 0 ?
	    rule.data : "", rule.len }, json_text(o, "message"),
	    severity_of(json_text(o, "level")));
	sbx_buf_clear(&rule);
	return (true);
}

static bool
json_findings(struct sbx_findings *f, enum sbx_finding_format format,
    struct json_object *o)
{
	struct json_object *issues;

	if (format == SBX_FINDINGS_RUFF)
		return (each(f, o, ruff_one));
	if (format == SBX_FINDINGS_PYLINT)
		return (each(f, o, pylint_one));
	if (format == SBX_FINDINGS_ESLINT)
		return (each(f, o, eslint_one));
	if (format == SBX_FINDINGS_PYRIGHT)
		return (each(f, json_member(o, "generalDiagnostics",
		    json_type_array), pyright_one));
	if (format == SBX_FINDINGS_SHELLCHECK)
		return (each(f, json_member(o, "comments", json_type_array),
		    shellcheck_one));
	/* golangci-lint: no issue is null */
	if (!json_object_is_type(o, json_type_object) ||
	    !json_object_object_get_ex(o, "Issues", &issues))
		return (false);
	return (issues == NULL || each(f, issues, golangci_one));
}

/* golangci-lint follows its JSON by words of its own. */
static struct text
json_part(enum sbx_finding_format format, struct text t)
{
	struct text line;

	t = text_trim(t);
	if (format == SBX_FINDINGS_GOLANGCI && text_line(&t, &line))
		return (line);
	return (t);
}

/* --- clippy: JSON, a line a message ---------------------------------------- */

static void
clippy_one(struct sbx_findings *f, struct json_object *o)
{
	struct json_object *m = json_member(o, "message", json_type_object),
	    *spans = json_member(m, "spans", json_type_array), *at = NULL, *s;
	struct text level = json_text(m, "level");
	size_t i, n = spans == NULL ? 0 : json_object_array_length(spans);

	if (!text_is(json_text(o, "reason"), "compiler-message") || m == NULL)
		return;
	for (i = 0; i < n; i++) {
		s = json_object_array_get_idx(spans, i);
		if (json_object_get_boolean(json_member(s, "is_primary",
		    json_type_boolean)))
			at = s;
	}
	/* "2 warnings emitted" is about the others */
	if (at == NULL && !text_is(level, "error"))
		return;
	if (at == NULL && text_starts(json_text(m, "message"),
	    TEXT("aborting due to")))
		return;
	add(f, json_text(at, "file_name"), json_number(at, "line_start"),
	    json_number(at, "column_start"), json_text(json_member(m, "code",
	    json_type_object), "code"), json_text(m, "message"),
	    severity_of(level));
}

static int
clippy(struct sbx_findings *f, struct text t)
{
	struct text line;
	struct json_object *o;

	while (text_line(&t, &line)) {
		if (line.n == 0 || line.p[0] != '{')
			continue;
		o = work_json(line);
		if (o == NULL)
			return (SBX_E_SYNTAX);
		clippy_one(f, o);
		json_object_put(o);
	}
	return (0);
}

/* --- text: a finding a line ------------------------------------------------ */

/* FILE:LINE[:COL]: at the begin; *ret_rest is what follows. */
static bool
head(struct text line, struct place *ret_at, uint64_t *ret_col,
    struct text *ret_rest)
{
	size_t i, used;
	struct text rest;

	*ret_col = 0;
	for (i = 1; i + 1 < line.n && i < SBX_REPORT_NAME_BYTES; i++) {
		if (line.p[i] != ':')
			continue;
		rest = text_skip(line, i + 1);
		used = text_number(rest, &ret_at->line);
		if (used == 0 || used == rest.n || rest.p[used] != ':')
			continue;
		ret_at->file = (struct text){ line.p, i };
		rest = text_skip(rest, used + 1);
		used = text_number(rest, ret_col);
		if (used > 0 && used < rest.n && rest.p[used] == ':')
			rest = text_skip(rest, used + 1);
		*ret_rest = text_trim(rest);
		return (true);
	}
	return (false);
}

static void
flake8_line(struct sbx_findings *f, struct text line)
{
	struct place at;
	struct text rest, code;
	uint64_t col;
	size_t n = 0;

	if (!head(line, &at, &col, &rest))
		return;
	while (n < rest.n && rest.p[n] != ' ')
		n++;
	code = (struct text){ rest.p, n };
	add(f, at.file, at.line, col, code, text_skip(rest, n),
	    text_starts(code, TEXT("E9")) || text_starts(code, TEXT("F")) ?
	    "error" : "warning");
}

/* `severity: text [rule]`, both of them optional. */
static void
gcc_line(struct sbx_findings *f, struct text line)
{
	static const struct text levels[] = { TEXT("fatal error: "),
	    TEXT("error: "), TEXT("warning: "), TEXT("style: "),
	    TEXT("performance: "), TEXT("portability: "),
	    TEXT("information: "), TEXT("note: ") };
	const char *severity = "warning", *open;
	struct place at;
	struct text rest, rule = TEXT("");
	uint64_t col;

	if (text_starts(line, TEXT("vet: ")))
		line = text_skip(line, 5);
	if (!head(line, &at, &col, &rest))
		return;
	for (size_t i = 0; i < SBX_NELEM(levels); i++)
		if (text_starts(rest, levels[i])) {
			if (i == 7)
				return;	/* belongs to the one before */
			severity = i < 2 ? "error" : i == 3 || i == 6 ?
			    "info" : "warning";
			rest = text_skip(rest, levels[i].n);
			break;
		}
	open = rest.n == 0 ? NULL : memrchr(rest.p, '[', rest.n);
	if (open != NULL && rest.p[rest.n - 1] == ']') {
		rule = (struct text){ open + 1, (size_t)(rest.p + rest.n - 2 -
		    open) };
		rest.n = (size_t)(open - rest.p);
	}
	add(f, at.file, at.line, col, rule, rest, severity);
}

/* file(line,col): error TS1234: text */
static void
tsc_line(struct sbx_findings *f, struct text line)
{
	const char *p = text_find(line, TEXT("): "));
	struct text file = TEXT(""), rest = line, rule, at;
	uint64_t row = 0, col = 0;
	size_t open, used;

	if (p != NULL) {
		open = (size_t)(p - line.p);
		while (open > 0 && line.p[open] != '(')
			open--;
		at = text_skip(line, open + 1);
		used = text_number(at, &row);
		if (line.p[open] != '(' || used == 0)
			return;
		(void)text_number(text_skip(at, used + 1), &col);
		file = (struct text){ line.p, open };
		rest = text_skip(line, (size_t)(p - line.p) + 3);
	}
	if (!text_starts(rest, TEXT("error TS")) &&
	    !text_starts(rest, TEXT("warning TS")))
		return;
	used = rest.p[0] == 'e' ? 6 : 8;
	rule = text_skip(rest, used);
	p = text_find(rule, TEXT(": "));
	if (p == NULL)
		return;
	rule.n = (size_t)(p - rule.p);
	add(f, file, row, col, rule, text_skip(rest, used + rule.n + 2),
	    used == 6 ? "error" : "warning");
}

int
sbx_findings_parse(enum sbx_finding_format format, const char *text,
    size_t len, struct sbx_findings *ret_findings)
{
	struct sbx_findings *f = ret_findings;
	struct text t = { text, len }, line;
	struct json_object *o;
	bool ok;

	memset(f, 0, sizeof(*f));
	if (len >= SBX_REPORT_BYTES)
		return (SBX_E_SYNTAX);
	if (format == SBX_FINDINGS_CLIPPY)
		return (clippy(f, t));
	if (format == SBX_FINDINGS_FLAKE8 || format == SBX_FINDINGS_TSC ||
	    format == SBX_FINDINGS_GCC) {
		while (text_line(&t, &line))
			if (format == SBX_FINDINGS_FLAKE8)
				flake8_line(f, line);
			else if (format == SBX_FINDINGS_TSC)
				tsc_line(f, line);
			else
				gcc_line(f, line);
		return (0);
	}
	o = work_json(json_part(format, t));
	if (o == NULL)
		return (SBX_E_SYNTAX);
	ok = json_findings(f, format, o);
	json_object_put(o);
	return (ok ? 0 : SBX_E_SYNTAX);
}

void
sbx_findings_clear(struct sbx_findings *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->list[i].file);
		free(f->list[i].rule);
		free(f->list[i].message);
	}
	free(f->list);
	memset(f, 0, sizeof(*f));
}
