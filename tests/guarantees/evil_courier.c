/*
 * Takes the place of a courier, in the same cage: does nothing for its job but
 * one thing that it may not, another each time, and writes into the file `said`
 * beside it what came of it.  A line before each, so that a death shows.  The
 * file `key` beside it names one that only the broker may read.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/privs/row.h"
#include "common/proto/wire.h"

#define WAIT_MS 20000

struct evil {
	struct sbx_chan chan;
	int said, turn, dialled, stream;
	uint32_t id;		/* of the job */
	char key[PATH_MAX];
};

static void SBX_PRINTF(2, 3)
say(const struct evil *e, const char *fmt, ...)
{
	char text[4096];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	if (n < 0 || n > (int)sizeof(text) - 2)
		_exit(4);
	text[n] = '\n';
	if (write(e->said, text, (size_t)n + 1) != n + 1)
		_exit(4);
}

static int
result(long r)
{
	return (r < 0 ? errno : 0);
}

static int
try_key(struct evil *e)
{
	return (result(open(e->key, O_RDONLY)));
}

static int
try_file(struct evil *e)
{
	(void)e;
	return (result(open("/etc/passwd", O_RDONLY)));
}

static int
try_inet(struct evil *e)
{
	(void)e;
	return (result(socket(AF_INET, SOCK_STREAM, 0)));
}

static int
try_unix(struct evil *e)
{
	(void)e;
	return (result(socket(AF_UNIX, SOCK_STREAM, 0)));
}

/* The socket that it was given, to another place. */
static int
try_connect(struct evil *e)
{
	struct sockaddr_in to = { .sin_family = AF_UNSPEC };

	if (connect(e->dialled, (struct sockaddr *)&to, sizeof(to)) == -1)
		return (errno);
	to.sin_family = AF_INET;
	to.sin_port = htons(9);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return (result(connect(e->dialled, (struct sockaddr *)&to,
	    sizeof(to))));
}

static int
try_send(struct evil *e)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	/* TCP Fast Open connects what is not connected any more */
	return (result(sendto(e->dialled, "x", 1, MSG_FASTOPEN,
	    (struct sockaddr *)&to, sizeof(to))));
}

static int
try_exec(struct evil *e)
{
	char *const argv[] = { (char[]){ "true" }, NULL };

	(void)e;
	return (result(execve("/bin/true", argv, NULL)));
}

static int
try_kill(struct evil *e)
{
	(void)e;
	return (result(kill(getppid(), SIGTERM)));
}

/* What another process may say; the broker's answer is the channel's end. */
static int
say_as(struct evil *e, enum sbx_proc self, uint16_t type, const void *m)
{
	int error = sbx_wire_send(e->chan.fd, self, type, e->id, m, NULL, 0);

	if (error == 0)
		do {
			error = sbx_chan_recv(&e->chan, WAIT_MS);
		} while (error == 0);
	return (error == SBX_E_CLOSED ? ECONNRESET : 0);
}

static int
try_journal(struct evil *e)
{
	const char text[] = "repo\0acme/forged";
	const struct sbx_journal_append m = { .op = "forged", .phase = "end",
		.principal = "root", .container = "", .run = "",
		.fields = { .data = text, .count = 2, .len = sizeof(text) } };

	return (say_as(e, SBX_PROC_BROKER, SBX_MSG_JOURNAL_APPEND, &m));
}

static int
try_grant(struct evil *e)
{
	const struct sbx_broker_grant m = { .grant = "0123456789abcdef",
		.op = 1, .host = "github.com", .repo = "acme/other",
		.ref = "refs/heads/main", .old_id = "", .new_id = "",
		.force = 1, .uses = 9, .lifetime_ms = 60000 };

	return (say_as(e, SBX_PROC_MONITOR, SBX_MSG_BROKER_GRANT, &m));
}

static int
try_minted(struct evil *e)
{
	const struct sbx_courier_minted m = { .token = "ghs_forged" "forged"
		"forgedforgedforgedforgedforged", .status = 201,
		.expires_wall_s = 4102444800, .reason = "" };

	return (say_as(e, SBX_PROC_COURIER, SBX_MSG_COURIER_MINTED, &m));
}

static int
try_twice(struct evil *e)
{
	const struct sbx_courier_over m = { .code = "", .reason = "",
		.status = 200 };

	(void)sbx_wire_send(e->chan.fd, SBX_PROC_COURIER, SBX_MSG_COURIER_OVER,
	    e->id, &m, NULL, 0);
	return (say_as(e, SBX_PROC_COURIER, SBX_MSG_COURIER_OVER, &m));
}

static int
try_ready(struct evil *e)
{
	const struct sbx_courier_ready m = { .features = 0 };

	return (say_as(e, SBX_PROC_COURIER, SBX_MSG_COURIER_READY, &m));
}

static const struct {
	const char *name;
	int (*fn)(struct evil *e);
} attempts[] = {
	{ "key", try_key }, { "file", try_file }, { "inet", try_inet },
	{ "unix", try_unix }, { "connect", try_connect },
	{ "fastopen", try_send }, { "exec", try_exec }, { "kill", try_kill },
	{ "journal", try_journal }, { "grant", try_grant },
	{ "minted", try_minted }, { "twice", try_twice },
	{ "ready", try_ready },
};

static int
beside(const char *dir, const char *name, int flags)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return (open(path, flags));
}

/* What the cage takes away later, so it was there. */
static void
prepare(struct evil *e)
{
	char exe[PATH_MAX] = "", *dir, *nl;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	int fd;

	if (n <= 0)
		_exit(5);
	dir = dirname(exe);
	e->said = beside(dir, "said", O_WRONLY | O_APPEND);
	e->turn = beside(dir, "turn", O_RDWR | O_APPEND);
	fd = beside(dir, "key", O_RDONLY);
	if (e->said == -1 || e->turn == -1 || fd == -1 ||
	    read(fd, e->key, sizeof(e->key) - 1) <= 0)
		_exit(5);
	(void)close(fd);
	if ((nl = strchr(e->key, '\n')) != NULL)
		*nl = '\0';
	fd = open(e->key, O_RDONLY);
	say(e, "uncaged key %d", fd == -1 ? errno : 0);
	if (fd != -1)
		(void)close(fd);
}

static void
cage(struct evil *e)
{
	struct sbx_privs_args args = { .uid = getuid(), .gid = getgid() };
	struct sbx_courier_ready ready = { .features = 0 };
	struct sbx_err err = { 0 };

	if (sbx_privs_enter(SBX_PROC_COURIER, &args, &ready.features,
	    &err) != 0) {
		say(e, "no cage: %s", err.msg);
		_exit(6);
	}
	if (sbx_chan_send(&e->chan, SBX_MSG_COURIER_READY, 0, &ready, NULL,
	    WAIT_MS) != 0)
		_exit(6);
}

/* One job: what it was given, then the one thing. */
static void
job(struct evil *e)
{
	static const char answer[] = "HTTP/1.1 403 Forbidden\r\n"
	    "Content-Length: 0\r\nConnection: close\r\n\r\n";
	const struct sbx_courier_git *m = &e->chan.in->m.courier_git;
	off_t n = lseek(e->turn, 0, SEEK_END);
	int error;

	if (e->chan.in->hdr.type != SBX_MSG_COURIER_GIT) {
		say(e, "another job %u", e->chan.in->hdr.type);
		return;
	}
	e->id = e->chan.in->hdr.id;
	e->dialled = sbx_steal_fd(&e->chan.in->fds[0]);
	e->stream = sbx_steal_fd(&e->chan.in->fds[1]);
	say(e, "pid %d", (int)getpid());
	say(e, "job %s %s %s", m->host, m->repo, m->token);
	if (n < 0 || write(e->turn, "x", 1) != 1 ||
	    (size_t)n >= SBX_NELEM(attempts))
		return;
	say(e, "try %s", attempts[n].name);
	if (write(e->stream, answer, sizeof(answer) - 1) < 0)
		say(e, "the stream is closed");
	error = attempts[n].fn(e);
	say(e, "got %s %d", attempts[n].name, error);
}

int
main(void)
{
	static struct evil e;

	sbx_privs_early();
	prepare(&e);
	sbx_chan_init(&e.chan, 3, SBX_PROC_COURIER, SBX_PROC_BROKER);
	if (sbx_chan_recv(&e.chan, WAIT_MS) != 0 ||
	    e.chan.in->hdr.type != SBX_MSG_COURIER_START)
		return (3);
	cage(&e);
	if (sbx_chan_recv(&e.chan, -1) == 0)
		job(&e);
	return (0);
}
