#ifndef SBX_TESTS_DRILL_H
#define SBX_TESTS_DRILL_H

/*
 * Escape drills: a static program that is put into a sandbox, tries things
 * there and prints one line for each: drill, what was tried, what came of it,
 * verdict, with tabs between.
 */

#include <stdbool.h>
#include <stddef.h>

/* What an attempt is worth; HOLE is the only bad one. */
enum verdict {
	REFUSED,	/* an errno, or killed */
	HARMLESS,	/* goes, and touches only what is the guest's anyway */
	ABSENT,		/* this kernel has nothing of the kind */
	HOLE
};

/* Print a line.  fmt: what came of it. */
void say(const char *drill, const char *tried, enum verdict v,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The name of an errno: "EPERM (Operation not permitted)"; static text. */
const char *errno_text(int error);

/*
 * fn(arg) in a process of its own, for 10 s.  *ret_value: what it returned
 * (-errno by custom), -1000 - signal: it was killed, -2000: it hung.
 */
int in_child(int (*fn)(void *arg), void *arg);
/* say() by an in_child() value: refused by errno or death; what is >= 0 gets
 * `good`. */
void judge(const char *drill, const char *tried, int value, enum verdict good);

struct drill {
	const char *name;
	void (*run)(const char *drill);
};
extern const struct drill drills_calls[], drills_files[], drills_peers[];

/* drill_calls.c: one call by number, with arguments that no call takes. */
int drill_syscall(const char *name, long nr);
/* drill_peers.c: what the test arranges with two sandboxes. */
int drill_inflight(unsigned seconds);
int drill_inotify(unsigned seconds);
int drill_epoll(unsigned seconds);
int drill_stop_helpers(void);
int drill_listen(unsigned port, unsigned seconds);
int drill_connect(unsigned port, const char *abstract);
int drill_fds(void);

#endif
