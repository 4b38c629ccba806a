#ifndef SBX_TESTS_TAP_H
#define SBX_TESTS_TAP_H

/*
 * Test Anything Protocol for the C tests.
 *
 *	tap_plan(3);			0: the plan follows at the end
 *	ok(x == 1, "x is one");		returns whether it held
 *	skip("no user namespaces");	counts as one test; fails where
 *					SBX_MUST_WORK=1 says it exists
 *	return (tap_done());		exit status of main()
 *
 * Output is flushed at each line, so that fork(2) in a test repeats nothing;
 * children end by _exit(2).
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tap {
	int planned, run, failed;
};
static struct tap tap_state;

static inline void
tap_plan(int n)
{
	tap_state.planned = n;
	if (n > 0)
		printf("1..%d\n", n);
	(void)fflush(stdout);
}

__attribute__((format(printf, 4, 5))) static inline bool
tap_ok(bool cond, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %d - ", cond ? "" : "not ", ++tap_state.run);
	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	(void)putchar('\n');
	if (!cond) {
		tap_state.failed++;
		printf("# at %s:%d\n", file, line);
	}
	(void)fflush(stdout);
	return (cond);
}
#define ok(cond, ...) tap_ok((cond), __FILE__, __LINE__, __VA_ARGS__)

static inline void
skip(const char *why)
{
	const char *must = getenv("SBX_MUST_WORK");

	if (must != NULL && strcmp(must, "1") == 0) {
		tap_state.failed++;
		printf("not ok %d - must work here: %s\n", ++tap_state.run,
		    why);
	} else
		printf("ok %d # SKIP %s\n", ++tap_state.run, why);
	(void)fflush(stdout);
}

static inline int
tap_done(void)
{
	if (tap_state.planned == 0)
		printf("1..%d\n", tap_state.run);
	else if (tap_state.planned != tap_state.run)
		printf("# planned %d, ran %d\n", tap_state.planned,
		    tap_state.run);
	(void)fflush(stdout);
	return (tap_state.failed > 0 || (tap_state.planned != 0 &&
	    tap_state.planned != tap_state.run));
}

#endif
