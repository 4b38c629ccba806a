/*
 * The escape drills' main program; test_drills.py says which are tried how.
 *
 *	drill all			everything that needs no help
 *	drill syscalls NAME NUMBER...	calls by number
 *	drill fds			which descriptors are open
 *	drill inflight|inotify|epoll SECONDS	exhaust what is counted by user
 *	drill stop-helpers		SIGSTOP to all that it can see
 *	drill listen PORT SECONDS	TCP, and an abstract socket
 *	drill connect PORT NAME		is somebody else's to be reached?
 */
#include "drill.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILLED (-1000)
#define HUNG (-2000)

void
say(const char *drill, const char *tried, enum verdict v, const char *fmt, ...)
{
	static const char *const names[] = { "refused", "harmless", "absent",
		"HOLE" };
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *p = text; *p != '\0'; p++)
		if ((unsigned char)*p < ' ')
			*p = ' ';
	(void)printf("%s\t%s\t%s\t%s\n", drill, tried, text, names[v]);
	(void)fflush(stdout);
}

const char *
errno_text(int error)
{
	static char text[96];
	const char *name = strerrorname_np(error);

	(void)snprintf(text, sizeof(text), "%s (%s)",
	    name != NULL ? name : "?", strerror(error));
	return (text);
}

int
in_child(int (*fn)(void *arg), void *arg)
{
	int value = -EIO, status, p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) == -1 || (pid = fork()) == -1)
		return (-errno);
	if (pid == 0) {
		(void)close(p[0]);
		(void)alarm(10);
		value = fn(arg);
		(void)!write(p[1], &value, sizeof(value));
		_exit(0);
	}
	(void)close(p[1]);
	/* a fork of the child may hold the pipe: the child's end counts */
	while (waitpid(pid, &status, 0) == -1 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		value = WTERMSIG(status) == SIGALRM ? HUNG :
		    KILLED - WTERMSIG(status);
	else if (read(p[0], &value, sizeof(value)) != sizeof(value))
		/* it became another program */
		value = WEXITSTATUS(status) == 0 ? 0 : -EIO;
	(void)close(p[0]);
	return (value);
}

void
judge(const char *drill, const char *tried, int value, enum verdict good)
{
	if (value == HUNG)
		say(drill, tried, good, "hung, killed after 10 s");
	else if (value <= KILLED)
		say(drill, tried, REFUSED, "killed by signal %d",
		    KILLED - value);
	else if (value < 0)
		say(drill, tried, REFUSED, "%s", errno_text(-value));
	else
		say(drill, tried, good, "succeeded");
}

static void
all(const struct drill *d)
{
	for (; d->name != NULL; d++)
		d->run(d->name);
}

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 0;

	if (strcmp(what, "all") == 0) {
		all(drills_calls);
		all(drills_files);
		all(drills_peers);
		return (0);
	}
	if (strcmp(what, "syscalls") == 0) {
		for (int i = 2; i + 1 < argc; i += 2)
			(void)drill_syscall(argv[i], atol(argv[i + 1]));
		return (0);
	}
	if (strcmp(what, "fds") == 0)
		return (drill_fds());
	if (strcmp(what, "inflight") == 0)
		return (drill_inflight(n));
	if (strcmp(what, "inotify") == 0)
		return (drill_inotify(n));
	if (strcmp(what, "epoll") == 0)
		return (drill_epoll(n));
	if (strcmp(what, "stop-helpers") == 0)
		return (drill_stop_helpers());
	if (strcmp(what, "listen") == 0 && argc > 3)
		return (drill_listen(n, (unsigned)atoi(argv[3])));
	if (strcmp(what, "connect") == 0 && argc > 3)
		return (drill_connect(n, argv[3]));
	(void)fprintf(stderr, "drill: what?\n");
	return (1);
}
