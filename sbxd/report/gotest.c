/*
 * go test -json: a line is an event, of a test of a package or of a package,
 * or it is not JSON, which is what a build wrote.  A test is known by both
 * names; one that holds subtests counts only when it failed and none of them
 * did.
 * Source: cmd/test2json.
 */

#include "sbxd/report/work.h"

#include <json-c/json.h>
#include <string.h>

#define NAME_BYTES 2048u	/* of one key */
#define OUTPUT_BYTES 65536u	/* of one test; its first ones */

enum state { RUNNING, PASSED, FAILED, SKIPPED };

struct test {
	char *key;		/* package, NUL, test ("": the package) */
	size_t key_len, package_len;
	enum state state;
	bool ended, kids, kid_failed;
	struct sbx_buf output;
};

struct go {
	struct report_work *w;
	struct test *tests;	/* in the order they came */
	size_t n, room;
	uint32_t *slots;	/* index + 1; 0: free */
	size_t nslots;		/* a power of two */
	struct sbx_buf build;	/* lines that are not JSON */
};

static uint32_t
hash(const char *p, size_t n)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)p[i]) * 16777619u;
	return (h);
}

static size_t
slot_of(const struct go *g, const char *key, size_t len)
{
	size_t i = hash(key, len) & (g->nslots - 1);

	while (g->slots[i] != 0) {
		const struct test *t = &g->tests[g->slots[i] - 1];

		if (t->key_len == len && memcmp(t->key, key, len) == 0)
			break;
		i = (i + 1) & (g->nslots - 1);
	}
	return (i);
}

static void
grow(struct go *g)
{
	size_t i;

	g->room = g->room == 0 ? 256 : g->room * 2;
	g->tests = sbx_xreallocarray(g->tests, g->room, sizeof(*g->tests));
	free(g->slots);
	g->nslots = g->room * 2;
	g->slots = sbx_xcalloc(g->nslots, sizeof(*g->slots));
	for (i = 0; i < g->n; i++)
		g->slots[slot_of(g, g->tests[i].key, g->tests[i].key_len)] =
		    (uint32_t)i + 1;
}

/* The test, made when it is new; NULL: too many, or the name is too long. */
static struct test *
test_of(struct go *g, struct text package, struct text name)
{
	char key[NAME_BYTES];
	size_t len = package.n + 1 + name.n, slot;
	struct test *t;

	if (len > sizeof(key))
		return (NULL);
	memcpy(key, package.p, package.n);
	key[package.n] = '\0';
	memcpy(key + package.n + 1, name.p, name.n);
	if (g->n == g->room)
		grow(g);
	slot = slot_of(g, key, len);
	if (g->slots[slot] != 0)
		return (&g->tests[g->slots[slot] - 1]);
	if (g->n == SBX_REPORT_TESTS)
		return (NULL);
	t = &g->tests[g->n++];
	g->slots[slot] = (uint32_t)g->n;
	memset(t, 0, sizeof(*t));
	t->key = sbx_xcalloc(1, len);
	memcpy(t->key, key, len);
	t->key_len = len;
	t->package_len = package.n;
	sbx_buf_init(&t->output, OUTPUT_BYTES);
	return (t);
}

static struct text
name_of(const struct test *t)
{
	return ((struct text){ t->key + t->package_len + 1,
	    t->key_len - t->package_len - 1 });
}

/* What go says of the run of a test is not what the test says. */
static bool
is_frame(struct text out)
{
	out = text_trim(out);
	return (text_starts(out, TEXT("=== RUN")) ||
	    text_starts(out, TEXT("=== PAUSE")) ||
	    text_starts(out, TEXT("=== CONT")) ||
	    text_starts(out, TEXT("--- FAIL:")) ||
	    text_starts(out, TEXT("--- PASS:")) ||
	    text_starts(out, TEXT("--- SKIP:")));
}

static void
on_output(struct test *t, struct text out)
{
	/* A line that the test left open swallowed how it ended. */
	if (t->state == RUNNING && text_find(out, TEXT("--- PASS: ")) != NULL &&
	    name_of(t).n > 0)
		t->state = PASSED;
	if (!is_frame(out))
		(void)sbx_buf_add(&t->output, out.p, out.n);
}

static void
on_event(struct go *g, struct json_object *o)
{
	struct text package = json_text(o, "Package"),
	    action = json_text(o, "Action");
	struct test *t;

	if (action.n == 0) {
		work_broken(g->w, "an event without an action");
		return;
	}
	if (text_starts(action, TEXT("build-"))) {
		struct text out = json_text(o, "Output");

		(void)sbx_buf_add(&g->build, out.p, out.n);
		if (text_is(action, "build-fail"))
			g->w->compile = true;
		return;
	}
	t = test_of(g, package, json_text(o, "Test"));
	if (t == NULL) {
		work_broken(g->w, "too many tests, or too long names");
		return;
	}
	if (text_is(action, "output")) {
		on_output(t, json_text(o, "Output"));
		return;
	}
	if (text_is(action, "pass"))
		t->state = PASSED;
	else if (text_is(action, "fail"))
		t->state = FAILED;
	else if (text_is(action, "skip"))
		t->state = SKIPPED;
	else
		return;
	if (t->ended && name_of(t).n > 0)
		work_broken(g->w, "a test ended twice");
	t->ended = true;
}

/* `FAIL	package [build failed]` */
static void
on_plain(struct go *g, struct text line)
{
	if (text_starts(line, TEXT("FAIL")) &&
	    (text_find(line, TEXT("[build failed]")) != NULL ||
	    text_find(line, TEXT("[setup failed]")) != NULL))
		g->w->compile = true;
	(void)sbx_buf_add(&g->build, line.p, line.n);
	(void)sbx_buf_str(&g->build, "\n");
}

static void
on_line(struct go *g, struct text line)
{
	struct json_object *o = NULL;

	if (line.n == 0)
		return;
	if (line.p[0] == '{')
		o = work_json(line);
	if (json_object_is_type(o, json_type_object) &&
	    json_member(o, "Action", json_type_string) != NULL)
		on_event(g, o);
	else
		on_plain(g, line);
	json_object_put(o);
}

/* --- counting ------------------------------------------------------------- */

static struct test *
find(const struct go *g, const char *key, size_t len)
{
	size_t slot = slot_of(g, key, len);

	return (g->slots[slot] == 0 ? NULL : &g->tests[g->slots[slot] - 1]);
}

/* Tell those above it; names have at most NAME_BYTES. */
static void
tell_parents(struct go *g, const struct test *t)
{
	for (size_t i = t->key_len; i-- > t->package_len + 1; ) {
		struct test *parent;

		if (t->key[i] != '/')
			continue;
		parent = find(g, t->key, i);
		if (parent == NULL)
			continue;
		parent->kids = true;
		if (t->state == FAILED || t->state == RUNNING)
			parent->kid_failed = true;
	}
}

static void
add_failure(struct go *g, const struct test *t)
{
	struct text out = { t->output.len > 0 ? t->output.data : "",
	    t->output.len }, name = name_of(t);
	struct sbx_buf full;
	struct place place;
	bool found = text_place(out, false, &place);

	sbx_buf_init(&full, NAME_BYTES * 2);
	(void)sbx_buf_add(&full, t->key, t->package_len);
	if (name.n > 0) {
		(void)sbx_buf_str(&full, ".");
		(void)sbx_buf_add(&full, name.p, name.n);
	}
	work_failure(g->w, (struct text){ full.len > 0 ? full.data : "",
	    full.len }, out.n > 0 ? out : t->ended ?
	    TEXT("It failed, and wrote nothing.") :
	    TEXT("It did not end."), found ? &place : NULL);
	sbx_buf_clear(&full);
}

static void
count_test(struct go *g, struct test *t, bool package_passed)
{
	struct sbx_report *r = g->w->r;

	if (t->state == RUNNING && package_passed)
		t->state = PASSED;
	if (t->kids && (t->state == PASSED || t->state == SKIPPED ||
	    t->kid_failed))
		return;
	r->collected++;
	if (t->state == PASSED) {
		r->passed++;
	} else if (t->state == SKIPPED) {
		r->skipped++;
	} else {
		if (t->state == RUNNING) {
			g->w->crash = true;
			work_note(g->w, "A test did not end.");
			r->errors++;
		} else {
			r->failed++;
		}
		add_failure(g, t);
	}
}

/* A package that failed without a test that did: TestMain, or a crash. */
static void
count_packages(struct go *g)
{
	struct sbx_report *r = g->w->r;

	for (size_t i = 0; i < g->n; i++) {
		struct test *t = &g->tests[i];

		if (name_of(t).n > 0)
			continue;
		if (!t->ended) {
			work_broken(g->w, "a package did not end");
			continue;
		}
		if (t->state != FAILED || t->kid_failed || g->w->compile)
			continue;
		r->errors++;
		add_failure(g, t);
	}
}

static void
count(struct go *g)
{
	struct sbx_report *r = g->w->r;

	/* a package's kid_failed: a test of it failed */
	for (size_t i = 0; i < g->n; i++)
		if (name_of(&g->tests[i]).n > 0)
			tell_parents(g, &g->tests[i]);
	for (size_t i = 0; i < g->n; i++) {
		struct test *t = &g->tests[i], *package;
		uint64_t bad = r->failed + r->errors;

		if (name_of(t).n == 0)
			continue;
		package = find(g, t->key, t->package_len + 1);
		if (package == NULL)
			work_broken(g->w, "a package did not end");
		count_test(g, t, package != NULL && package->ended &&
		    package->state == PASSED);
		if (package != NULL && r->failed + r->errors > bad)
			package->kid_failed = true;
		if (package != NULL && package->state == PASSED &&
		    t->state == FAILED)
			work_broken(g->w, "a package passed and its test "
			    "failed");
	}
	count_packages(g);
}

static void
clear(struct go *g)
{
	for (size_t i = 0; i < g->n; i++) {
		free(g->tests[i].key);
		sbx_buf_clear(&g->tests[i].output);
	}
	free(g->tests);
	free(g->slots);
	sbx_buf_clear(&g->build);
}

void
report_go(struct report_work *w)
{
	struct text rest = { w->in->report != NULL ? w->in->report : "",
	    w->in->report_len }, line;
	struct go g = { .w = w };

	sbx_buf_init(&g.build, SBX_REPORT_BYTES * 2);
	grow(&g);
	while (text_line(&rest, &line))
		on_line(&g, line);
	w->parsed = g.n > 0;
	count(&g);
	/* what a build says goes to standard error */
	if (w->in->output != NULL)
		(void)sbx_buf_add(&g.build, w->in->output,
		    w->in->output_len);
	if (w->compile || (g.n == 0 && w->in->status != 0 &&
	    g.build.len > 0)) {
		work_compile(w, (struct text){ g.build.len > 0 ?
		    g.build.data : "", g.build.len });
		work_note(w, "A package does not build.");
	} else if (g.n == 0) {
		work_broken(w, "go test wrote no event.");
	}
	clear(&g);
}
