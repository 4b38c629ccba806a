/*
 * What builds of C and C++ say (make, ninja, cmake, gcc, clang, ld), and how
 * their tests say where they failed: the C libraries' assert(3), test
 * frameworks, sanitizers.
 */

#include "sbxd/report/work.h"

#include <ctype.h>
#include <string.h>

#define ODD_BYTES 4096u		/* of a line that are looked at */
#define NEAR_BYTES 1024u	/* behind an error's line its place is sought */

static bool
has_any(struct text t, const struct text *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text_find(t, words[i]) != NULL)
			return (true);
	return (false);
}

/* `make[1]: ...` and `ninja: ...`: their places are those of rules. */
static bool
is_make(struct text line)
{
	static const struct text names[] = { TEXT("make"), TEXT("gmake"),
	    TEXT("ninja") };

	for (size_t i = 0; i < SBX_NELEM(names); i++)
		if (text_starts(line, names[i]) && line.n > names[i].n &&
		    (line.p[names[i].n] == ':' || line.p[names[i].n] == '['))
			return (true);
	return (false);
}

/* --- where make is ------------------------------------------------------------ */

void
build_dirs_line(struct build_dirs *d, struct text line)
{
	static const struct text enters = TEXT(": Entering directory '"),
	    leaves = TEXT(": Leaving directory '");
	const char *p;

	if (!is_make(line))
		return;
	if (text_find(line, leaves) != NULL && d->n > 0)
		d->n--;
	p = text_find(line, enters);
	if (p == NULL || d->n == BUILD_DIRS)
		return;
	line = text_skip(line, (size_t)(p - line.p) + enters.n);
	if (line.n > 1 && line.p[0] == '/' && line.p[line.n - 1] == '\'')
		d->in[d->n++] = (struct text){ line.p, line.n - 1 };
}

char *
build_file(const struct build_dirs *d, struct text file)
{
	char path[SBX_REPORT_NAME_BYTES * 2];
	struct text dir;

	if (d->n == 0 || file.n == 0 || file.p[0] == '/')
		return (text_copy(file, SBX_REPORT_NAME_BYTES));
	dir = d->in[d->n - 1];
	/* ../x.c of a build directory */
	for (;; ) {
		if (text_starts(file, TEXT("./"))) {
			file = text_skip(file, 2);
		} else if (text_starts(file, TEXT("../"))) {
			while (dir.n > 0 && dir.p[dir.n - 1] != '/')
				dir.n--;
			dir.n -= dir.n > 0;
			file = text_skip(file, 3);
		} else {
			break;
		}
	}
	if (dir.n + file.n + 1 > SBX_REPORT_NAME_BYTES)
		return (text_copy(file, SBX_REPORT_NAME_BYTES));
	memcpy(path, dir.p, dir.n);
	path[dir.n] = '/';
	memcpy(path + dir.n + 1, file.p, file.n);
	return (text_copy((struct text){ path, dir.n + 1 + file.n },
	    SBX_REPORT_NAME_BYTES));
}

/* --- errors of a build ---------------------------------------------------------- */

/* `a.c:1:25: error: ...`, also without the column; `t.c(3): error` */
static bool
is_error_at(struct text line)
{
	static const struct text words[] = { TEXT(": error: "),
	    TEXT(": fatal error: "), TEXT(": error["), TEXT(": error C") };
	struct text head;
	const char *p = NULL;

	for (size_t i = 0; i < SBX_NELEM(words) && p == NULL; i++)
		p = text_find(line, words[i]);
	if (p == NULL)
		return (false);
	head = (struct text){ line.p, (size_t)(p - line.p) };
	/* one word before it: a test's line has more */
	return (head.n > 0 && memchr(head.p, ' ', head.n) == NULL);
}

/* Does the line say that a build failed, or why? */
static bool
is_error(struct text line)
{
	static const struct text words[] = { TEXT("CMake Error"),
	    TEXT("configure: error: "), TEXT(": undefined reference to "),
	    TEXT("undefined symbol: "), TEXT("multiple definition of "),
	    TEXT("ld returned "), TEXT("cannot find -l"),
	    TEXT("linker command failed"), TEXT(": fatal error: "),
	    TEXT("No rule to make target "), TEXT("*** missing separator"),
	    TEXT("*** No targets"), TEXT("ninja: error: "),
	    TEXT("error: linking with ") };

	return (is_error_at(line) || has_any(line, words, SBX_NELEM(words)));
}

bool
build_failed(struct text output)
{
	struct text line;

	while (text_line(&output, &line))
		if (is_error(line))
			return (true);
	return (false);
}

/* `Makefile:3: *** missing separator.  Stop.` has its place in front; `make:
 * *** [Makefile:3: all] Error 1` names the rule, not what is wrong. */
static bool
line_place(struct text line, struct place *ret_place)
{
	const char *p;

	if (is_make(line))
		return (false);
	if (text_place(line, false, ret_place))
		return (true);
	/* of ld, when it has no debug information: FILE:(.text+0x5) */
	p = text_find(line, TEXT(":(."));
	if (p == NULL)
		return (false);
	line.n = (size_t)(p - line.p);
	for (size_t i = line.n; i > 0; i--)
		if (line.p[i - 1] == ' ' || line.p[i - 1] == ':') {
			line = text_skip(line, i);
			break;
		}
	*ret_place = (struct place){ line, 0 };
	return (line.n > 0);
}

static bool
near_place(struct text from, struct place *ret_place)
{
	struct text line;

	if (from.n > NEAR_BYTES)
		from.n = NEAR_BYTES;
	while (text_line(&from, &line))
		if (line_place(line, ret_place))
			return (true);
	return (false);
}

/* The first line for which it holds; dirs: where make is there. */
static bool
first_line(struct text output, bool (*holds)(struct text),
    struct build_dirs *dirs, struct text *ret_from)
{
	struct text rest = output, line;

	dirs->n = 0;
	while (text_line(&rest, &line)) {
		build_dirs_line(dirs, line);
		if (!holds(line))
			continue;
		*ret_from = text_skip(output, (size_t)(line.p - output.p));
		return (true);
	}
	return (false);
}

static bool
says_error(struct text line)
{
	return (!is_make(line) && (text_find(line, TEXT("error")) != NULL ||
	    text_find(line, TEXT("undefined")) != NULL));
}

/* Its begin, as the reason. */
static void
note_line(struct report_work *w, struct text line)
{
	SBX_CLEANUP(free) char *shown = NULL;

	if (line.n > 120)
		for (line.n = 120; line.n > 0 &&
		    ((unsigned char)line.p[line.n] & 0xc0) == 0x80; line.n--)
			;
	shown = text_copy(text_trim(line), SBX_REPORT_NAME_BYTES);
	work_note(w, "It does not compile: %s", shown);
}

void
work_compile(struct report_work *w, struct text output)
{
	struct build_dirs dirs = { .n = 0 };
	struct text from = output, line, rest;
	struct place place;
	bool found, has_place;

	w->compile = true;
	found = first_line(output, is_error, &dirs, &from) ||
	    first_line(output, says_error, &dirs, &from);
	has_place = found && near_place(from, &place);
	if (!has_place)
		has_place = text_place(from.n > SBX_REPORT_ERROR_BYTES ?
		    (struct text){ from.p, SBX_REPORT_ERROR_BYTES } : from,
		    false, &place);
	if (from.n > SBX_REPORT_ERROR_BYTES)
		from.n = SBX_REPORT_ERROR_BYTES;
	w->r->errors++;
	work_failure_in(w, TEXT("(build)"), from, has_place ? &place : NULL,
	    &dirs);
	rest = from;
	if (found && text_line(&rest, &line))
		note_line(w, line);
}

/* --- tests that failed ------------------------------------------------------------ */

/* musl: `Assertion failed: x (t.c: main: 4)`; BSD: `function main, file t.c,
 * line 4.`; `t.cpp(4): error` of Boost and Qt. */
static bool
odd_place(struct text line, struct place *ret_place)
{
	static const struct text file = TEXT("file "), at = TEXT(", line ");
	struct text name, rest;
	const char *p;
	size_t used;

	if (line.n > ODD_BYTES)
		line.n = ODD_BYTES;
	p = text_find(line, at);
	if (p != NULL && text_number(text_skip(line, (size_t)(p - line.p) +
	    at.n), &ret_place->line) > 0) {
		name = (struct text){ line.p, (size_t)(p - line.p) };
		while ((p = text_find(name, file)) != NULL)
			name = text_skip(name, (size_t)(p - name.p) + file.n);
		ret_place->file = name;
		return (name.n > 0 && name.n < line.n - at.n);
	}
	for (size_t i = 1; i + 1 < line.n; i++) {
		size_t from = i;

		if (line.p[i] != '(' && line.p[i] != ':')
			continue;
		while (from > 0 && (isalnum((unsigned char)line.p[from - 1]) ||
		    strchr("_./+-", line.p[from - 1]) != NULL))
			from--;
		name = (struct text){ line.p + from, i - from };
		if (name.n < 3 || memchr(name.p, '.', name.n) == NULL)
			continue;
		rest = text_skip(line, i + 1);
		if (line.p[i] == ':') {
			/* the function, and then the line */
			p = rest.n == 0 || from == 0 || line.p[from - 1] != '('
			    ? NULL : memrchr(rest.p, ':', rest.n);
			if (p == NULL)
				continue;
			rest = text_trim(text_skip(rest, (size_t)(p - rest.p) +
			    1));
		}
		used = text_number(rest, &ret_place->line);
		if (used == 0 || used == rest.n || rest.p[used] != ')')
			continue;
		ret_place->file = name;
		return (true);
	}
	return (false);
}

bool
build_place(struct text t, struct place *ret_place)
{
	static const struct text words[] = { TEXT("ssert"), TEXT("rror"),
	    TEXT("FAIL"), TEXT("ailure"), TEXT("ailed"), TEXT(":F:"),
	    TEXT(":E:"), TEXT("Loc: [") };
	struct text rest = t, line;
	struct place any = { .line = 0 };

	while (text_line(&rest, &line))
		if (!is_make(line) && has_any(line, words, SBX_NELEM(words)) &&
		    (text_place(line, false, ret_place) ||
		    odd_place(line, ret_place)))
			return (true);
	rest = t;
	while (text_line(&rest, &line)) {
		if (is_make(line) || !text_place(line, false, ret_place))
			continue;
		if (!text_is_library(ret_place->file))
			return (true);
		if (any.line == 0)
			any = *ret_place;
	}
	*ret_place = any;
	return (any.line != 0);
}
