#include "common/base/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int
sbx_rules_open(const char *path, struct sbx_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd == -1 || fstat(fd, &st) == -1)
		(void)sbx_err_sys(err, "secret_rules: %.160s", path);
	else if (!S_ISREG(st.st_mode) || st.st_size == 0 ||
	    st.st_size > SBX_RULES_MAX)
		(void)sbx_err_set(err, SBX_E_LIMIT, "secret_rules: %.160s: it "
		    "must be a file of 1 byte to 1 MiB", path);
	else
		return (fd);
	sbx_close(&fd);
	return (-1);
}

/* Only async-signal-safe calls: the child of fork(2). */
static _Noreturn void
exec_judge(const char *program, int in, int out)
{
	char *argv[] = { "sbxd-judge", "-R", NULL };

	if (dup2(in, 0) == -1 || lseek(0, 0, SEEK_SET) == -1 ||
	    dup2(out, 1) == -1 || close_range(3, ~0U, 0) == -1)
		_exit(127);
	(void)execv(program, argv);
	_exit(127);
}

/* What it said, up to its end or until by_ns; false: the latter. */
static bool
listen_to(int fd, char *said, size_t size, uint64_t by_ns)
{
	size_t n = 0;
	ssize_t got = 1;

	while (got > 0 && n + 1 < size) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = sbx_mono_ns();

		if (now >= by_ns || poll(&p, 1, (int)((by_ns - now) /
		    1000000) + 1) <= 0)
			return (false);
		got = read(fd, said + n, size - 1 - n);
		n += got > 0 ? (size_t)got : 0;
	}
	said[n] = '\0';
	return (true);
}

/* Its status, also of one that says nothing more and stays; false: it was ended. */
static bool
ended(pid_t pid, uint64_t by_ns, int *ret_status)
{
	pid_t got;

	while ((got = waitpid(pid, ret_status, WNOHANG)) == 0 &&
	    sbx_mono_ns() < by_ns)
		(void)poll(NULL, 0, 2);
	if (got != 0)
		return (got == pid);
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, ret_status, 0) == -1 && errno == EINTR)
		;
	return (false);
}

int
sbx_rules_check(const char *dir, const char *path, int fd, struct sbx_err *err)
{
	char said[256] = "", text[512], program[PATH_MAX + 16];
	int SBX_CLEANUP(fd) r = -1, SBX_CLEANUP(fd) w = -1;
	const uint64_t by_ns = sbx_mono_ns() + SBX_RULES_MS *
	    UINT64_C(1000000);
	int p[2], status = 0;
	bool good;
	pid_t pid;

	(void)snprintf(program, sizeof(program), "%s/sbxd-judge", dir);
	if (pipe2(p, O_CLOEXEC) == -1)
		return (sbx_err_sys(err, "pipe"));
	r = p[0];
	w = p[1];
	if ((pid = fork()) == -1)
		return (sbx_err_sys(err, "fork"));
	if (pid == 0)
		exec_judge(program, fd, w);
	sbx_close(&w);
	good = listen_to(r, said, sizeof(said), by_ns);
	good = ended(pid, by_ns, &status) && good;
	if (good && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return (0);
	if (good && WIFEXITED(status) && WEXITSTATUS(status) == 1)
		return (sbx_err_set(err, SBX_E_SYNTAX, "secret_rules: %.160s: "
		    "%s", path, sbx_vis(text, sizeof(text), said,
		    strcspn(said, "\n"))));
	return (sbx_err_set(err, SBX_E_SYS, "secret_rules: %.160s: %s cannot "
	    "say whether they are good", path, program));
}
