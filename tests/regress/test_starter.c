/*
 * The starter, alone: a copy of it lies beside names that all lead to this
 * program, which tells over its channel what it was started with.
 */

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "common/proto/wire.h"
#include "tests/privs/users.h"
#include "tests/tap.h"

static char dir[] = "/tmp/sbx-starter.XXXXXX";
static const char *const names[] = { "sbxd-engine", "sbxd-recorder",
	"sbx-journald", "sbx-broker", "sbx-proxy", "sbxd-worker", "sbxd-front",
	"sbx-broker-command" };

struct run {
	struct sbx_chan c;
	pid_t pid;
	uint32_t child_pid;	/* of the last STARTED */
};

/* --- as a child ------------------------------------------------------------- */

static int
open_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 100; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

extern char **environ;

/* In a session of its own, two processes that nobody waits for; their ids. */
static void
leave(void)
{
	pid_t pid[2] = { 0, 0 };

	if (fork() == 0) {
		(void)setsid();
		pid[0] = getpid();
		if ((pid[1] = fork()) > 0)
			(void)send(3, pid, sizeof(pid), 0);
		(void)close(3);
		(void)alarm(60);
		for (;;)
			(void)pause();
	}
}

/* Tell what we were given, then obey: 'x' exit 7, 'h' ignore the end, 'l' leave
 * something and ignore it. */
static int
child(int argc, char **argv)
{
	char text[200], c = 0;
	int env = 0;
	ssize_t n;
	struct stat in, null, out, err;

	while (environ[env] != NULL)
		env++;
	(void)stat("/dev/null", &null);
	(void)fstat(0, &in);
	(void)fstat(1, &out);
	(void)fstat(2, &err);
	(void)snprintf(text, sizeof(text), "%s argc=%d fds=%d env=%d null=%d "
	    "same=%d uid=%u", argv[0], argc, open_descriptors(), env,
	    in.st_rdev == null.st_rdev, out.st_ino == err.st_ino &&
	    out.st_dev == err.st_dev,
	    getuid());
	if (send(3, text, strlen(text), 0) < 0)
		return 1;
	n = recv(3, &c, 1, 0);
	if (n > 0 && c == 'l')
		leave();
	while (n > 0 && (c == 'h' || c == 'l'))
		(void)pause();
	return n > 0 && c == 'x' ? 7 : 0;
}

/* --- as the monitor --------------------------------------------------------- */

static bool
copy_file(const char *from, const char *to)
{
	char buf[65536];
	int in = open(from, O_RDONLY), out = open(to, O_CREAT | O_WRONLY, 0755);
	ssize_t n = -1;

	while (in >= 0 && out >= 0 && (n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			return false;
	(void)close(in);
	(void)close(out);
	return n == 0;
}

static bool
make_programs(const char *build)
{
	char self[200] = "", path[300], from[300];

	if (mkdtemp(dir) == NULL || chmod(dir, 0755) < 0 ||
	    readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return false;
	for (size_t i = 0; i < SBX_NELEM(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		if (symlink(self, path) < 0)
			return false;
	}
	(void)snprintf(from, sizeof(from), "%s/sbxd-starter", build);
	(void)snprintf(path, sizeof(path), "%s/sbxd-starter", dir);
	return copy_file(from, path);
}

static void
remove_programs(void)
{
	char path[300];

	for (size_t i = 0; i < SBX_NELEM(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		(void)unlink(path);
	}
	(void)snprintf(path, sizeof(path), "%s/sbxd-starter", dir);
	(void)unlink(path);
	(void)rmdir(dir);
}

static bool
run_start(struct run *r, const char *arg)
{
	char path[300];
	int pair[2];

	(void)snprintf(path, sizeof(path), "%s/sbxd-starter", dir);
	if (sbx_wire_pair(pair) < 0 || (r->pid = fork()) < 0)
		return false;
	if (r->pid == 0) {
		(void)setenv("SECRET", "1", 1);
		(void)dup2(pair[1], 3);
		(void)fcntl(pair[0], F_SETFD, 0); /* inherited by mistake */
		(void)execl(path, "sbxd-starter", arg, NULL);
		_exit(127);
	}
	(void)close(pair[1]);
	sbx_chan_init(&r->c, pair[0], SBX_PROC_MONITOR, SBX_PROC_STARTER);
	return sbx_chan_recv(&r->c, 5000) == 0 &&
	    r->c.in->hdr.type == SBX_MSG_HELLO;
}

/* The next message that is not LOG; its type, or negative. */
static int
next(struct run *r, int timeout_ms)
{
	int e;

	do {
		if ((e = sbx_chan_recv(&r->c, timeout_ms)) < 0)
			return e;
	} while (r->c.in->hdr.type == SBX_MSG_LOG);
	return r->c.in->hdr.type;
}

/* START; returns our end of the child's channel, or -1 and EXITED's status. */
static int
start(struct run *r, uint32_t proc, uint32_t instance, int *ret_status)
{
	struct sbx_start m = { .proc = (uint8_t)proc, .instance = instance };
	int pair[2] = { -1, -1 }, type;

	*ret_status = 0;
	if (sbx_wire_pair(pair) < 0 || sbx_chan_send(&r->c, SBX_MSG_START, 0,
	    &m, &pair[1], 1000) < 0)
		return -1;
	(void)close(pair[1]);
	type = next(r, 5000);
	if (type == SBX_MSG_STARTED) {
		r->child_pid = r->c.in->m.started.pid;
		return pair[0];
	}
	if (type == SBX_MSG_EXITED)
		*ret_status = r->c.in->m.exited.status;
	(void)close(pair[0]);
	return -1;
}

static bool
exited(struct run *r, uint32_t proc, uint32_t instance, int *ret_status)
{
	const struct sbx_exited *m = &r->c.in->m.exited;

	if (next(r, 3000) != SBX_MSG_EXITED)
		return false;
	*ret_status = m->status;
	return m->proc == proc && m->instance == instance && m->pid != 0;
}

/* Everything ended: channel closed and starter reaped, within ms. */
static bool
ended(struct run *r, int ms, int *ret_status)
{
	uint64_t until = sbx_mono_ns() + (uint64_t)ms * 1000000;

	while (sbx_mono_ns() < until) {
		if (waitpid(r->pid, ret_status, WNOHANG) == r->pid)
			return true;
		(void)poll(NULL, 0, 5);
	}
	return false;
}

static bool
closed(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c[300];

	while (poll(&p, 1, ms) == 1) {
		ssize_t n = recv(fd, c, sizeof(c), 0);

		if (n <= 0)
			return n == 0 || errno == ECONNRESET;
	}
	return false;
}

static void
test_child(struct run *r)
{
	char text[300] = "", want[300];
	struct sbx_start_kill k = { .proc = SBX_PROC_BROKER, .instance = 1 };
	int status, fd = start(r, SBX_PROC_BROKER, 1, &status);

	ok(fd >= 0 && recv(fd, text, sizeof(text) - 1, 0) > 0,
	    "a program is started and has its channel");
	(void)snprintf(want, sizeof(want), "sbx-broker argc=1 fds=4 env=3 "
	    "null=1 same=1 uid=%u", geteuid() == 0 ? USERS_FIRST + 2 :
	    geteuid());
	ok(strcmp(text, want) == 0, "it has its name, four descriptors, a "
	    "clean environment, its user: %s", text);
	(void)send(fd, "x", 1, 0);
	ok(exited(r, SBX_PROC_BROKER, 1, &status) && WIFEXITED(status) &&
	    WEXITSTATUS(status) == 7, "its exit is reported");
	(void)close(fd);
	ok(start(r, SBX_PROC_BROKER, 1, &status) == -1 && status == -EEXIST,
	    "an instance number is used once");
	fd = start(r, SBX_PROC_BROKER, 2, &status);
	ok(fd >= 0, "the next instance starts");
	ok(sbx_chan_send(&r->c, SBX_MSG_START_KILL, 0, &k, NULL, 1000) == 0 &&
	    !closed(fd, 100), "a kill of the old instance does nothing");
	k.instance = 2;
	ok(sbx_chan_send(&r->c, SBX_MSG_START_KILL, 0, &k, NULL, 1000) == 0 &&
	    exited(r, SBX_PROC_BROKER, 2, &status) && WIFSIGNALED(status) &&
	    WTERMSIG(status) == SIGKILL, "a kill of this one kills it");
	(void)close(fd);
}

/* Gone within a second, and not only dead. */
static bool
gone(pid_t pid)
{
	for (int i = 0; i < 100 && kill(pid, 0) == 0; i++)
		(void)poll(NULL, 0, 10);
	return kill(pid, 0) == -1 && errno == ESRCH;
}

/* What a program left that is killed, and at the end of all. */
static void
test_left(void)
{
	struct sbx_start_kill k = { .proc = SBX_PROC_COMMAND, .instance = 1 };
	struct run r = { 0 };
	pid_t left[2] = { 0, 0 };
	int status, fd = -1;
	char text[300];

	for (uint32_t n = 1; n <= 2; n++) {
		if (n == 1)
			(void)run_start(&r, NULL);
		fd = start(&r, SBX_PROC_COMMAND, n, &status);
		(void)recv(fd, text, sizeof(text), 0);
		(void)send(fd, "l", 1, 0);
		if (!ok(recv(fd, left, sizeof(left), 0) == sizeof(left) &&
		    left[0] > 1 && left[1] > 1, "a program leaves two in a "
		    "session of their own"))
			break;
		if (n == 1)
			(void)sbx_chan_send(&r.c, SBX_MSG_START_KILL, 0, &k,
			    NULL, 1000);
		else
			sbx_chan_clear(&r.c);
		ok(n == 1 ? exited(&r, SBX_PROC_COMMAND, 1, &status) :
		    ended(&r, 2000, &status), "it ends");
		ok(gone(left[0]) && gone(left[1]), "%s",
		    n == 1 ? "killed, it leaves nothing" :
		    "nor does the end of all");
		(void)close(fd);
	}
	sbx_chan_clear(&r.c);
}

static void
test_replace(struct run *r)
{
	char text[300];
	uint32_t old;
	int status, a, b = -1, pair[2];
	struct sbx_start m = { .proc = SBX_PROC_ENGINE, .instance = 5 };

	a = start(r, SBX_PROC_ENGINE, 4, &status);
	(void)recv(a, text, sizeof(text), 0);
	(void)send(a, "h", 1, 0);
	old = r->child_pid;
	if (sbx_wire_pair(pair) == 0) {
		(void)sbx_chan_send(&r->c, SBX_MSG_START, 0, &m, &pair[1],
		    1000);
		(void)close(pair[1]);
		b = pair[0];
	}
	ok(exited(r, SBX_PROC_ENGINE, 4, &status) && WIFSIGNALED(status) &&
	    r->c.in->m.exited.pid == old,
	    "an engine that hangs is killed before the next one");
	ok(next(r, 3000) == SBX_MSG_STARTED && recv(b, text, sizeof(text),
	    0) > 0, "then the next one runs");
	(void)close(a);
	(void)send(b, "x", 1, 0);
	(void)exited(r, SBX_PROC_ENGINE, 5, &status);
	(void)close(b);
}

static void
test_refused(struct run *r)
{
	static const uint32_t no[] = { SBX_PROC_MONITOR, SBX_PROC_STARTER,
		SBX_PROC_WORKER, SBX_PROC_INIT, SBX_PROC_IMAGE,
		SBX_PROC_ENGINE_DOCKER, SBX_PROC_CLI, SBX_PROC_MAX, 255 };
	struct sbx_start m = { .proc = SBX_PROC_FRONT, .instance = 1 };
	int status, p[2];

	for (size_t i = 0; i < SBX_NELEM(no); i++)
		ok(start(r, no[i], 1, &status) == -1 && status == -EPERM,
		    "process %u is not started", no[i]);
	ok(start(r, SBX_PROC_COPYIN, 1, &status) == -1 && status == -ENOENT,
	    "a program that is missing is reported");
	if (pipe(p) < 0)
		return;
	(void)sbx_chan_send(&r->c, SBX_MSG_START, 0, &m, &p[0], 1000);
	ok(next(r, 3000) == SBX_MSG_EXITED &&
	    r->c.in->m.exited.status == -EINVAL, "a pipe is not a channel");
	(void)close(p[0]);
	(void)close(p[1]);
}

static void
test_end(struct run *r)
{
	struct sbx_ping ping = { 0 };
	uint64_t t;
	int status, a, b;
	char text[300];

	ok(sbx_chan_call(&r->c, SBX_MSG_PING, &ping, NULL, 1000) == 0 &&
	    r->c.in->hdr.type == SBX_MSG_PONG, "PING is answered");
	a = start(r, SBX_PROC_FRONT, 2, &status);
	b = start(r, SBX_PROC_PROXY, 2, &status);
	(void)recv(a, text, sizeof(text), 0);
	(void)recv(b, text, sizeof(text), 0);
	(void)send(b, "h", 1, 0);
	sbx_chan_clear(&r->c);
	t = sbx_mono_ns();
	(void)shutdown(a, SHUT_RDWR);
	ok(closed(b, 3000), "a child that ignores the end is killed");
	t = (sbx_mono_ns() - t) / 1000000;
	ok(t >= 500 && t < 1500, "after 700 ms (%u)", (unsigned)t);
	ok(ended(r, 2000, &status) && status == 0, "the starter ends");
	(void)close(a);
	(void)close(b);
}

static void
test_starter_death(void)
{
	struct run r = { 0 };
	int status, fd;
	char text[300];

	(void)run_start(&r, NULL);
	fd = start(&r, SBX_PROC_RECORDER, 1, &status);
	(void)recv(fd, text, sizeof(text), 0);
	sbx_chan_clear(&r.c);
	(void)close(fd);
	ok(ended(&r, 600, &status), "with obedient children it ends early");
	(void)run_start(&r, "-d");
	fd = start(&r, SBX_PROC_RECORDER, 1, &status);
	ok(recv(fd, text, sizeof(text), 0) > 0 &&
	    strstr(text, "argc=2") != NULL, "-d is handed on");
	(void)sbx_chan_send(&r.c, SBX_MSG_SHUTDOWN, 0, &(struct sbx_shutdown){
	    0 }, NULL, 1000);
	(void)send(fd, "x", 1, 0);
	ok(ended(&r, 600, &status) && status == 0, "SHUTDOWN ends it");
	sbx_chan_clear(&r.c);
	(void)close(fd);
}

/* A message that is not for it ends the suite. */
static void
test_bad(void)
{
	struct run r = { 0 };
	uint8_t junk[SBX_HDR_BYTES] = { 0, 0, 0, 0, 0, 99 };
	int status;

	(void)run_start(&r, NULL);
	(void)send(r.c.fd, junk, sizeof(junk), 0);
	ok(ended(&r, 1500, &status), "an unknown message ends it");
	sbx_chan_clear(&r.c);
}

int
main(int argc, char **argv)
{
	const char *build = getenv("SBX_BUILD");
	struct run r = { 0 };

	if (strchr(argv[0], '/') == NULL && strncmp(argv[0], "sbx", 3) == 0)
		return child(argc, argv);
	tap_plan(0);
	(void)signal(SIGPIPE, SIG_IGN);
	if (!users_prepare() || !make_programs(build ? build : ".")) {
		ok(false, "prepare: %s", strerror(errno));
		return tap_done();
	}
	if (ok(run_start(&r, NULL), "the starter says HELLO")) {
		test_child(&r);
		test_replace(&r);
		test_refused(&r);
		test_end(&r);
		test_left();
		test_starter_death();
		test_bad();
	}
	remove_programs();
	return tap_done();
}
