#ifndef SBX_REPORT_WORK_H
#define SBX_REPORT_WORK_H

/* What the parsers share. */

#include "sbxd/report/report.h"

struct json_object;

/* What a parser found out, beside the counts and failures in r. */
struct report_work {
	const struct sbx_report_in *in;
	struct sbx_report *r;
	bool parsed;		/* there is a report, and it was understood */
	bool compile, collect, crash;
	bool said_failed;	/* the runner says so, no test does */
	char broken[160];	/* why the numbers do not agree, or "" */
	char note[160];		/* said with the verdict, or "" */
};

struct text {
	const char *p;		/* borrowed, not terminated */
	size_t n;
};
#define TEXT(literal) ((struct text){ literal, sizeof(literal) - 1 })

/* The next line of *rest, without its end; false: there is none. */
bool text_line(struct text *rest, struct text *ret_line);
bool text_starts(struct text t, struct text prefix);
bool text_is(struct text t, const char *s);
/* Where `what` is in t, or NULL. */
const char *text_find(struct text t, struct text what);
struct text text_skip(struct text t, size_t n);
struct text text_trim(struct text t);
/* Decimal digits at the begin of t; how many, 0: none or too large. */
size_t text_number(struct text t, uint64_t *ret_v);
/* A copy of at most max bytes of text that can be shown: without terminal
 * sequences and NUL; what is longer loses its middle.  Owned. */
char *text_copy(struct text t, size_t max);

struct place {
	struct text file;
	uint64_t line;
};
/*
 * The first or last FILE:LINE in t that is not of a runtime or library, else
 * of any.  A file has a dot or a slash in its name.
 */
bool text_is_library(struct text file);
bool text_place(struct text t, bool last, struct place *ret_place);

/* One more failed test; place NULL: not known.  Counts nothing. */
void work_failure(struct report_work *w, struct text test, struct text error,
    const struct place *place);
/* The file is below the directory that make is in. */
struct build_dirs;
void work_failure_in(struct report_work *w, struct text test,
    struct text error, const struct place *place,
    const struct build_dirs *dirs);
/* The numbers do not agree; the first reason stays. */
void work_broken(struct report_work *w, const char *fmt, ...)
    SBX_PRINTF(2, 3);
void work_note(struct report_work *w, const char *fmt, ...)
    SBX_PRINTF(2, 3);

/* --- build.c ----------------------------------------------------------------- */

/* Is there what a compiler, a linker, cmake or make says when it fails? */
bool build_failed(struct text output);
/* Of a build's output: the first error is the failure. */
void work_compile(struct report_work *w, struct text output);
/*
 * Where a test of C or C++ says that it failed: by the line with an assertion
 * or an error, else the first place there is.
 */
bool build_place(struct text t, struct place *ret_place);

/* In which directory make is, as its lines come. */
#define BUILD_DIRS 16u
struct build_dirs {
	struct text in[BUILD_DIRS];
	size_t n;
};
void build_dirs_line(struct build_dirs *d, struct text line);
/* The place's file below the directory that make is in; owned. */
char *build_file(const struct build_dirs *d, struct text file);

/* JSON that passed the scan; NULL when it is none.  json_object_put() it. */
struct json_object *work_json(struct text t);
/* Members, of objects: NULL, 0 or empty when there is none of that type. */
struct json_object *json_member(struct json_object *o, const char *name,
    int type);
struct text json_text(struct json_object *o, const char *name);
uint64_t json_number(struct json_object *o, const char *name);

void report_junit(struct report_work *w);
void report_jest(struct report_work *w);
void report_tap(struct report_work *w);
void report_go(struct report_work *w);
void report_cargo(struct report_work *w);
void report_automake(struct report_work *w);

#endif
