/* common/base/log.c */

#include "common/base/log.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

static char seen[1024];
static int calls;

static void
sink(void *arg, enum sbx_log_level level, const char *text)
{
	calls++;
	(void)snprintf(seen, sizeof(seen), "%s %d %s", (const char *)arg,
	    (int)level, text);
	/* a sink that fails may say so: on stderr, not here again */
	if (calls == 1)
		log_err("from the sink");
}

/* What fn writes to stderr, and its exit status. */
static int
stderr_of(void (*fn)(void), char *dst, size_t size)
{
	size_t at = 0;
	ssize_t n;
	int p[2], status;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		abort();
	if (pid == 0) {
		(void)dup2(p[1], 2);
		fn();
		_exit(0);
	}
	close(p[1]);
	while (at + 1 < size && (n = read(p[0], dst + at, size - 1 - at)) > 0)
		at += (size_t)n;
	dst[at] = '\0';
	close(p[0]);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return (-1);
	return (WEXITSTATUS(status));
}

static void
some_lines(void)
{
	sbx_log_init("tag", SBX_LOG_INFO);
	log_info("one %d", 1);
	log_debug("hidden");
	log_warn("two\nthree\033[0m");
}

static void
long_line(void)
{
	log_err("%02000d", 1);
}

static void
fatal(void)
{
	sbx_fatal("broken %s", "x");
}

static void
sinking(void)
{
	sbx_log_to(sink, "arg");
	log_notice("hello");
}

int
main(void)
{
	char out[4096];

	tap_plan(0);
	ok(stderr_of(some_lines, out, sizeof(out)) == 0 && strcmp(out,
	    "tag: info: one 1\ntag: warning: two?three?[0m\n") == 0,
	    "one line a message, at its level, without control characters");
	ok(stderr_of(long_line, out, sizeof(out)) == 0 &&
	    strlen(out) == strlen("sbx: error: \n") + 512 &&
	    out[strlen(out) - 1] == '\n', "a long line is cut to 512 bytes");
	ok(stderr_of(fatal, out, sizeof(out)) == 2 &&
	    strcmp(out, "sbx: error: broken x\n") == 0, "sbx_fatal exits 2");
	ok(stderr_of(sinking, out, sizeof(out)) == 0 &&
	    strcmp(out, "sbx: error: from the sink\n") == 0,
	    "a sink does not call itself");
	calls = 1;
	sbx_log_to(sink, "arg");
	log_notice("hello %d", 5);
	ok(strcmp(seen, "arg 2 hello 5") == 0, "a sink gets level and text");
	log_info("not at this level");
	ok(calls == 2 && sbx_log_level_get() == SBX_LOG_NOTICE,
	    "and nothing below the level");
	return (tap_done());
}
