#ifndef SBX_TESTS_REGRESS_DAEMON_H
#define SBX_TESTS_REGRESS_DAEMON_H

/* A daemon of the suite, alone, with the test as its monitor. */

#include <sys/socket.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "common/proto/wire.h"
#include "tests/privs/users.h"
#include "tests/tap.h"

struct daemon_run {
	struct sbx_chan c;
	pid_t pid;
	enum sbx_proc proc;
};

/* Start PROGRAM of $SBX_BUILD, send its *_START (type), wait for HELLO. */
static inline bool
daemon_start(struct daemon_run *r, const char *program, enum sbx_proc proc,
    uint16_t type)
{
	const char *build = getenv("SBX_BUILD");
	SBX_CLEANUP(free) char *path = sbx_xasprintf("%s/%s",
	    build ? build : ".", program);
	union sbx_any_msg none = { 0 };
	/* it has nothing to say to a daemon that is only asked how it is */
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const int fds[SBX_MSG_FDS_MAX] = { null, null, null, null };
	bool good;
	int pair[2];

	r->proc = proc;
	if (sbx_wire_pair(pair) < 0 || (r->pid = fork()) < 0)
		return false;
	if (r->pid == 0) {
		(void)dup2(pair[1], 3);
		(void)execl(path, program, NULL);
		_exit(127);
	}
	(void)close(pair[1]);
	sbx_chan_init(&r->c, pair[0], SBX_PROC_MONITOR, proc);
	good = sbx_chan_send(&r->c, type, 0, &none, fds, 1000) == 0 &&
	    sbx_chan_recv(&r->c, 5000) == 0 &&
	    r->c.in->hdr.type == SBX_MSG_HELLO;
	(void)close(null);
	return good;
}

/* The wait status, once it ended within ms; else -1, and it is killed. */
static inline int
daemon_wait(struct daemon_run *r, int ms)
{
	int status = -1;

	for (int i = 0; i < ms / 5; i++) {
		if (waitpid(r->pid, &status, WNOHANG) == r->pid) {
			sbx_chan_clear(&r->c);
			return status;
		}
		(void)poll(NULL, 0, 5);
	}
	(void)kill(r->pid, SIGKILL);
	(void)waitpid(r->pid, &status, 0);
	sbx_chan_clear(&r->c);
	return -1;
}

/* A record that the daemon must not take: it ends with "peer died". */
static inline void
daemon_bad(const char *program, enum sbx_proc proc, uint16_t start,
    uint16_t bad, const char *what)
{
	struct daemon_run r = { 0 };
	uint8_t rec[SBX_HDR_BYTES] = { 0 };
	int status;

	rec[5] = (uint8_t)bad;
	rec[7] = SBX_PROTO_VERSION;
	if (!daemon_start(&r, program, proc, start)) {
		ok(false, "%s starts", program);
		return;
	}
	(void)send(r.c.fd, rec, sizeof(rec), MSG_NOSIGNAL);
	status = daemon_wait(&r, 2000);
	ok(status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 3,
	    "%s ends on %s", program, what);
}

/* HELLO, PING, SHUTDOWN, the monitor's end, and records it must not take. */
static inline void
daemon_common(const char *program, enum sbx_proc proc, uint16_t start)
{
	struct daemon_run r = { 0 };
	struct sbx_ping ping = { 0 };
	struct sbx_shutdown down = { 0 };

	ok(daemon_start(&r, program, proc, start) &&
	    (pid_t)r.c.in->m.hello.pid == r.pid, "%s says HELLO", program);
	ok(sbx_chan_call(&r.c, SBX_MSG_PING, &ping, NULL, 1000) == 0 &&
	    r.c.in->hdr.type == SBX_MSG_PONG && r.c.in->m.pong.healthy == 1,
	    "%s answers PING", program);
	ok(sbx_chan_send(&r.c, SBX_MSG_SHUTDOWN, 0, &down, NULL, 1000) == 0 &&
	    daemon_wait(&r, 1000) == 0, "%s ends on SHUTDOWN", program);
	if (daemon_start(&r, program, proc, start)) {
		(void)shutdown(r.c.fd, SHUT_RDWR);
		ok(daemon_wait(&r, 1000) == 0, "%s ends with the monitor",
		    program);
	}
	daemon_bad(program, proc, start, start, "a second start");
	daemon_bad(program, proc, start, SBX_MSG_SANDBOX_CREATE,
	    "a message that is for another");
	daemon_bad(program, proc, start, 200, "an unknown message");
	daemon_bad(program, proc, start, SBX_MSG_PONG,
	    "a message that the monitor may not send");
}

#endif
