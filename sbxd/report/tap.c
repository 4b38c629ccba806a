/*
 * TAP 13 and 14, subtests by four blanks, also node's.  Tests are the leaves;
 * one that holds others counts only when it failed and none of them did.
 * Each level must have a plan that agrees with what came.
 * Source: testanything.org, TAP 14 specification.
 */

#include "sbxd/report/work.h"

#include <string.h>
#include <strings.h>

#define LEVELS 16u
#define NOTE_BYTES 16384u
#define YAML_BYTES 65536u

struct level {
	uint64_t points, plan;
	bool planned, kid_failed;
};

struct tap {
	struct report_work *w;
	struct level levels[LEVELS];
	unsigned deepest;	/* levels above it are empty */
	bool any, bail;
	/* what was said since the last point */
	struct sbx_buf notes, yaml;
	bool in_yaml, had_yaml;
	size_t yaml_indent;
	/* the failed point that waits for what is said of it */
	bool open;
	bool of_file;
	char *name;
	struct sbx_buf before;
	uint64_t said_bad;	/* node's summary */
};

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

static void
add_line(struct sbx_buf *b, struct text line)
{
	if (b->len + line.n + 1 <= b->max) {
		(void)sbx_buf_add(b, line.p, line.n);
		(void)sbx_buf_str(b, "\n");
	}
}

static size_t
indent_of(struct text line)
{
	size_t n = 0;

	while (n < line.n && line.p[n] == ' ')
		n++;
	return (n);
}

/* --- what a failure says -------------------------------------------------- */

/* The value of a key in YAML: quoted, plain, or a block, without its indent. */
static bool
yaml_value(struct text yaml, struct text key, struct sbx_buf *ret_value)
{
	struct text line, v;
	size_t indent, block = 0;
	bool in = false;

	while (text_line(&yaml, &line)) {
		indent = indent_of(line);
		v = text_skip(line, indent);
		if (in && (indent > block || v.n == 0)) {
			add_line(ret_value, indent > block + 2 ?
			    text_skip(line, block + 2) : v);
			continue;
		}
		if (in)
			return (true);
		if (!text_starts(v, key))
			continue;
		v = text_trim(text_skip(v, key.n));
		if (text_starts(v, TEXT("|")) || text_starts(v, TEXT(">"))) {
			in = true;
			block = indent;
			continue;
		}
		if (v.n >= 2 && (v.p[0] == '\'' || v.p[0] == '"') &&
		    v.p[v.n - 1] == v.p[0])
			v = (struct text){ v.p + 1, v.n - 2 };
		add_line(ret_value, v);
		return (true);
	}
	return (in);
}

static bool
yaml_place(struct text yaml, struct place *ret_place)
{
	static const struct text keys[] = { TEXT("stack:"), TEXT("location:"),
	    TEXT("at:") };
	const char *p;
	struct text part;

	for (size_t i = 0; i < SBX_NELEM(keys); i++) {
		p = text_find(yaml, keys[i]);
		if (p == NULL)
			continue;
		part = text_skip(yaml, (size_t)(p - yaml.p) + keys[i].n);
		if (text_place(part, false, ret_place) &&
		    text_find(ret_place->file, TEXT("node:")) == NULL)
			return (true);
	}
	return (text_place(yaml, false, ret_place));
}

static void
finish_failure(struct tap *t)
{
	struct sbx_buf error;
	struct place place;
	struct text text, yaml = of(&t->yaml);
	bool found;

	if (!t->open)
		return;
	sbx_buf_init(&error, YAML_BYTES * 2);
	/* of a file that did not load, what it wrote tells why */
	if (t->of_file && t->before.len > 0)
		(void)sbx_buf_add(&error, t->before.data, t->before.len);
	else if (!yaml_value(yaml, TEXT("error:"), &error) &&
	    !yaml_value(yaml, TEXT("message:"), &error))
		(void)sbx_buf_add(&error, yaml.p, yaml.n);
	if (error.len == 0)
		(void)sbx_buf_add(&error, of(&t->notes).p, t->notes.len);
	text = of(&error);
	found = (t->of_file && text_place(text, false, &place)) ||
	    yaml_place(yaml, &place) || text_place(text, false, &place);
	if (t->of_file && text_find(text, TEXT("SyntaxError")) != NULL)
		t->w->compile = true;
	if (t->of_file && text_find(yaml, TEXT("signal: 'SIG")) != NULL) {
		t->w->crash = true;
		work_note(t->w, "A test file was ended by a signal.");
	}
	work_failure(t->w, (struct text){ t->name, strlen(t->name) },
	    text.n > 0 ? text : TEXT("not ok"), found ? &place : NULL);
	sbx_buf_clear(&error);
	free(t->name);
	t->name = NULL;
	t->open = false;
}

/* --- lines ---------------------------------------------------------------- */

/* `# SKIP` or `# TODO` after an unescaped number sign. */
static bool
directive(struct text rest, struct text *ret_name)
{
	struct text d;

	*ret_name = rest;
	for (size_t i = 0; i < rest.n; i++) {
		if (rest.p[i] != '#' || (i > 0 && rest.p[i - 1] == '\\'))
			continue;
		d = text_trim(text_skip(rest, i + 1));
		if (d.n >= 4 && (strncasecmp(d.p, "skip", 4) == 0 ||
		    strncasecmp(d.p, "todo", 4) == 0)) {
			ret_name->n = i;
			return (true);
		}
	}
	return (false);
}

/* node counts a file in which there is no test as one that passed. */
static bool
is_file(struct text name)
{
	static const struct text ends[] = { TEXT("js"), TEXT(".ts"),
	    TEXT(".tsx"), TEXT(".jsx") };

	name = text_trim(name);
	if (name.n < 4 || memchr(name.p, '.', name.n) == NULL ||
	    (name.p[0] != '/' && memchr(name.p, ' ', name.n) != NULL))
		return (false);
	for (size_t i = 0; i < SBX_NELEM(ends); i++)
		if (memcmp(name.p + name.n - ends[i].n, ends[i].p,
		    ends[i].n) == 0)
			return (true);
	return (false);
}

/*
 * A test's number is its place.  That of a file, which node reports where it
 * has no tests or did not load, is the file's place among files.
 */
static void
check_number(struct tap *t, unsigned d, uint64_t number, struct text name)
{
	uint64_t place = t->levels[d].points;

	if (number != place && (d > 0 || !is_file(name)))
		work_broken(t->w, "test number %llu comes as the %llu",
		    (unsigned long long)number, (unsigned long long)place);
}

/* Below level d all is over: do the numbers agree? */
static bool
close_below(struct tap *t, unsigned d, bool *ret_kid_failed)
{
	bool kids = false;

	*ret_kid_failed = false;
	for (unsigned i = d + 1; i <= t->deepest && i < LEVELS; i++) {
		struct level *l = &t->levels[i];

		if (l->points > 0 || l->planned)
			kids = true;
		if (l->kid_failed)
			*ret_kid_failed = true;
		if (l->points > 0 && !l->planned)
			work_broken(t->w, "subtests without a plan");
		else if (l->points != l->plan)
			work_broken(t->w, "%llu subtests were planned, %llu "
			    "came", (unsigned long long)l->plan,
			    (unsigned long long)l->points);
		memset(l, 0, sizeof(*l));
	}
	if (t->deepest > d)
		t->deepest = d;
	return (kids);
}

static void
open_failure(struct tap *t, unsigned d, struct text name, bool of_file)
{
	t->levels[d].kid_failed = true;
	t->open = true;
	t->of_file = of_file;
	t->name = text_copy(name, SBX_REPORT_NAME_BYTES);
	if (of_file)
		t->w->r->errors++;
	else
		t->w->r->failed++;
}

static void
count_point(struct tap *t, unsigned d, bool good, struct text rest)
{
	struct sbx_report *r = t->w->r;
	struct text name;
	bool set_aside = directive(rest, &name), kid_failed, kids, file;

	kids = close_below(t, d, &kid_failed);
	file = d == 0 && !kids && is_file(name);
	if (kids && (good || set_aside))
		return;
	if (kids && kid_failed) {
		t->levels[d].kid_failed = true;
		return;
	}
	if (file && good)
		return;		/* nothing ran in it */
	r->collected++;
	if (set_aside)
		r->skipped++;
	else if (good)
		r->passed++;
	else
		open_failure(t, d, name, file);
}

static bool
on_point(struct tap *t, unsigned d, struct text line)
{
	bool good = text_starts(line, TEXT("ok"));
	struct level *l = &t->levels[d];
	uint64_t number;
	size_t used;

	if (!good && !text_starts(line, TEXT("not ok")))
		return (false);
	line = text_skip(line, good ? 2 : 6);
	if (line.n > 0 && line.p[0] != ' ')
		return (false);
	line = text_trim(line);
	finish_failure(t);
	if (t->deepest < d)
		t->deepest = d;
	l->points++;
	used = text_number(line, &number);
	line = text_trim(text_skip(line, used));
	if (text_starts(line, TEXT("- ")))
		line = text_skip(line, 2);
	if (used > 0)
		check_number(t, d, number, line);
	drop(&t->before);
	(void)sbx_buf_add(&t->before, of(&t->notes).p, t->notes.len);
	drop(&t->notes);
	drop(&t->yaml);
	t->had_yaml = false;
	count_point(t, d, good, line);
	t->any = true;
	return (true);
}

static bool
on_plan(struct tap *t, unsigned d, struct text line)
{
	struct level *l = &t->levels[d];
	uint64_t n;
	size_t used;

	if (!text_starts(line, TEXT("1..")))
		return (false);
	line = text_skip(line, 3);
	used = text_number(line, &n);
	line = text_trim(text_skip(line, used));
	if (used == 0 || (line.n > 0 && line.p[0] != '#'))
		return (false);
	if (l->planned)
		work_broken(t->w, "two plans");
	l->planned = true;
	l->plan = n;
	if (t->deepest < d)
		t->deepest = d;
	t->any = true;
	return (true);
}

static void
on_comment(struct tap *t, unsigned d, struct text line)
{
	uint64_t n;
	struct text v;

	v = text_trim(text_skip(line, 1));
	/* node's summary, and that of others */
	if (d == 0 && t->levels[0].planned && (text_starts(v, TEXT("fail ")) ||
	    text_starts(v, TEXT("cancelled "))) && text_number(text_trim(
	    text_skip(v, v.p[0] == 'f' ? 5 : 10)), &n) > 0)
		t->said_bad += n;
	if (text_starts(v, TEXT("Subtest:")))
		return;
	add_line(&t->notes, text_skip(line, line.n > 1 && line.p[1] == ' ' ?
	    2 : 1));
}

/* true: the line belongs to a block of YAML. */
static bool
on_yaml(struct tap *t, size_t indent, struct text body)
{
	if (t->in_yaml) {
		if (indent == t->yaml_indent && text_is(body, "...")) {
			t->in_yaml = false;
			return (true);
		}
		if (body.n > 0 && indent < t->yaml_indent) {
			work_broken(t->w, "a block of YAML does not end");
			t->in_yaml = false;
			return (false);
		}
		return (true);
	}
	if (indent % 4 != 2 || !text_is(body, "---") || t->had_yaml ||
	    !t->any)
		return (false);
	t->in_yaml = t->had_yaml = true;
	t->yaml_indent = indent;
	drop(&t->yaml);
	return (true);
}

static void
on_line(struct tap *t, struct text line)
{
	size_t indent = indent_of(line);
	struct text body = text_skip(line, indent);
	unsigned d = (unsigned)(indent / 4);

	while (body.n > 0 && body.p[body.n - 1] == ' ')
		body.n--;
	if (on_yaml(t, indent, body)) {
		if (t->in_yaml && !text_is(body, "---"))
			add_line(&t->yaml, line);
		return;
	}
	if (indent % 4 != 0 || d >= LEVELS || body.n == 0)
		return;
	if (on_point(t, d, body) || on_plan(t, d, body))
		return;
	if (body.p[0] == '#')
		on_comment(t, d, body);
	else if (text_starts(body, TEXT("Bail out!"))) {
		t->bail = true;
		work_note(t->w, "The tests bailed out.");
		finish_failure(t);
		t->w->r->errors++;
		work_failure(t->w, TEXT("Bail out!"), text_trim(
		    text_skip(body, 9)), NULL);
	}
}

static void
check_top(struct tap *t)
{
	struct level *top = &t->levels[0];
	bool ignored;

	(void)close_below(t, 0, &ignored);
	if (t->in_yaml)
		work_broken(t->w, "a block of YAML does not end");
	if (!top->planned && top->points > 0)
		work_broken(t->w, "there is no plan");
	else if (top->points != top->plan)
		work_broken(t->w, "%llu tests were planned, %llu came",
		    (unsigned long long)top->plan,
		    (unsigned long long)top->points);
	if (t->said_bad > 0 && t->w->r->failed + t->w->r->errors == 0)
		work_broken(t->w, "it says that %llu failed and has none",
		    (unsigned long long)t->said_bad);
}

void
report_tap(struct report_work *w)
{
	const struct sbx_report_in *in = w->in;
	/* of make check the report is another thing */
	struct text rest = in->report != NULL &&
	    in->format == SBX_REPORT_TAP ? (struct text){ in->report,
	    in->report_len } : (struct text){ in->output != NULL ? in->output :
	    "", in->output != NULL ? in->output_len : 0 }, line;
	struct tap t = { .w = w };

	sbx_buf_init(&t.notes, NOTE_BYTES);
	sbx_buf_init(&t.before, NOTE_BYTES);
	sbx_buf_init(&t.yaml, YAML_BYTES);
	while (text_line(&rest, &line) &&
	    w->r->collected < SBX_REPORT_TESTS)
		on_line(&t, line);
	finish_failure(&t);
	if (t.bail)
		w->crash = true;
	if (t.any) {
		w->parsed = true;
		check_top(&t);
	} else {
		work_broken(w, "There is no TAP in what it wrote.");
	}
	if (rest.n > 0)
		work_broken(w, "more than %u tests", SBX_REPORT_TESTS);
	sbx_buf_clear(&t.notes);
	sbx_buf_clear(&t.before);
	sbx_buf_clear(&t.yaml);
}
