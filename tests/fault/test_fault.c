/*
 * Every system call of wire.c, peer.c and base.c fails in turn, in each way
 * that it can.  The scenario must then end in success or with an error that
 * is documented, in time, and leave no descriptor open; an interruption must
 * not be seen at all.  The linker puts our versions before the C library's
 * (--wrap); memory that is out ends a process by design, so malloc is not
 * among them.
 */

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/proto/peer.h"
#include "tests/proto/raw.h"
#include "tests/proto/sample.h"
#include "tests/tap.h"

enum call {
	CALL_SOCKETPAIR, CALL_GETSOCKOPT, CALL_SENDMSG, CALL_RECVMSG,
	CALL_POLL, CALL_FCNTL, CALL_MEMFD_CREATE, CALL_WRITE, CALL_LSEEK,
	CALL_FSTAT, CALL_PREAD, CALL_MAX
};
static const char *const call_names[CALL_MAX] = {
	"socketpair", "getsockopt", "sendmsg", "recvmsg", "poll", "fcntl",
	"memfd_create", "write", "lseek", "fstat", "pread"
};

static struct {
	bool armed;
	enum call call;
	int nth, error;		/* the nth call fails so */
	int seen;
	bool hit;
} fault;

static bool
fails(enum call call)
{
	if (!fault.armed || call != fault.call || ++fault.seen != fault.nth)
		return (false);
	fault.hit = true;
	errno = fault.error;
	return (true);
}

#define WRAP(ret, name, call, params, args)                                   \
	ret __real_##name params;                                             \
	ret __wrap_##name params;                                             \
	ret __wrap_##name params                                              \
	{                                                                     \
		return (fails(call) ? -1 : __real_##name args);               \
	}
WRAP(int, socketpair, CALL_SOCKETPAIR, (int d, int t, int p, int *sv),
    (d, t, p, sv))
WRAP(int, getsockopt, CALL_GETSOCKOPT, (int fd, int l, int o, void *v,
    socklen_t *n), (fd, l, o, v, n))
WRAP(ssize_t, sendmsg, CALL_SENDMSG, (int fd, const struct msghdr *m, int f),
    (fd, m, f))
WRAP(ssize_t, recvmsg, CALL_RECVMSG, (int fd, struct msghdr *m, int f),
    (fd, m, f))
WRAP(int, poll, CALL_POLL, (struct pollfd *p, nfds_t n, int ms), (p, n, ms))
WRAP(int, memfd_create, CALL_MEMFD_CREATE, (const char *n, unsigned f), (n, f))
WRAP(ssize_t, write, CALL_WRITE, (int fd, const void *p, size_t n), (fd, p, n))
WRAP(off_t, lseek, CALL_LSEEK, (int fd, off_t o, int w), (fd, o, w))
WRAP(int, fstat, CALL_FSTAT, (int fd, struct stat *st), (fd, st))
WRAP(ssize_t, pread, CALL_PREAD, (int fd, void *p, size_t n, off_t o),
    (fd, p, n, o))

int __real_fcntl(int fd, int cmd, ...);
int __wrap_fcntl(int fd, int cmd, ...);
int
__wrap_fcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	return (fails(CALL_FCNTL) ? -1 : __real_fcntl(fd, cmd, arg));
}

/* --- scenarios: 0 or an error, nothing left open --------------------------- */

static const int zeros[SBX_MSG_FDS_MAX];
static struct sbx_in in;

static int
run_wire(void)
{
	union sbx_any_msg m;
	int ch[2], r;

	if ((r = sbx_wire_pair(ch)) < 0)
		return (r);
	sample_fill(SBX_MSG_INIT_EXEC, SAMPLE_FULL, &m);
	r = sbx_wire_send(ch[0], SBX_PROC_ENGINE, SBX_MSG_INIT_EXEC, 1, &m,
	    zeros, 0);
	if (r == 0)
		r = sbx_wire_recv(ch[1], SBX_PROC_INIT, SBX_PROC_ENGINE, &in,
		    0);
	if (r == 0 && (in.nfds != 3 ||
	    !sample_equal(SBX_MSG_INIT_EXEC, &m, &in.m)))
		r = 1;
	sbx_in_clear(&in);
	sbx_close(&ch[0]);
	sbx_close(&ch[1]);
	return (r);
}

/* A call whose answer waits, then a send into a full socket. */
static int
run_chan(void)
{
	struct sbx_chan w, m;
	struct sbx_exec_wait ask = { .run = "r" };
	struct sbx_sb_end end = { .count = 1 };
	int ch[2], r;

	if ((r = sbx_wire_pair(ch)) < 0)
		return (r);
	sbx_chan_init(&w, ch[0], SBX_PROC_WORKER, SBX_PROC_MONITOR);
	sbx_chan_init(&m, ch[1], SBX_PROC_MONITOR, SBX_PROC_WORKER);
	r = sbx_chan_send(&m, SBX_MSG_SB_END, 1, &end, NULL, 100);
	if (r == 0)
		r = sbx_chan_call(&w, SBX_MSG_EXEC_WAIT, &ask, NULL, 100);
	if (r == 0 && w.in->m.sb_end.count != 1)
		r = 1;
	/* nothing comes any more: the deadline */
	if (r == 0) {
		r = sbx_chan_recv(&w, 2);
		r = r == SBX_E_TIMEOUT ? 0 : r < 0 ? r : 1;
	}
	sbx_chan_clear(&w);
	sbx_chan_clear(&m);
	return (r);
}

static int
on_exited(struct sbx_peer *p, struct sbx_in *msg)
{
	++*(int *)sbx_peer_ctx(p);
	return (msg->m.init_exited.status == SAMPLE_MAX ? SBX_E_RANGE : 0);
}

static int ended, end_error;

static void
on_end(struct sbx_peer *p, int error)
{
	(void)p;
	ended++;
	end_error = error;
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_INIT_EXITED] = { SBX_ST_ANY, 0, on_exited },
};
static const struct sbx_dispatch_table table = { SBX_PROC_ENGINE,
	SBX_PROC_INIT, rows };

/* Twelve large records with descriptors: some go, most are queued. */
static int
peer_flow(struct event_base *base, struct sbx_peer *p, int raw, int *handled)
{
	union sbx_any_msg m;
	int got = 0, i, r;

	sample_fill(SBX_MSG_INIT_EXEC, SAMPLE_FULL, &m);
	for (i = 0; i < 12; i++) {
		r = sbx_send_init_exec(p, 1, &m.init_exec, zeros);
		if (r < 0)
			return (r);
	}
	for (i = 0; i < 60 && got < 12 && ended == 0; i++) {
		r = sbx_wire_recv(raw, SBX_PROC_INIT, SBX_PROC_ENGINE, &in,
		    MSG_DONTWAIT);
		if (r == 0)
			got++;
		else if (r != SBX_E_AGAIN)
			return (r);
		sbx_in_clear(&in);
		(void)event_base_loop(base, EVLOOP_NONBLOCK);
	}
	if (ended > 0)
		return (end_error);
	sample_fill(SBX_MSG_INIT_EXITED, SAMPLE_SOME, &m);
	r = sbx_wire_send(raw, SBX_PROC_INIT, SBX_MSG_INIT_EXITED, 0, &m, NULL,
	    MSG_DONTWAIT);
	for (i = 0; r == 0 && i < 4; i++)
		(void)event_base_loop(base, EVLOOP_NONBLOCK);
	if (r == 0 && ended > 0)
		return (end_error);
	return (r < 0 ? r : got == 12 && *handled == 1 ? 0 : 1);
}

static int
run_peer(void)
{
	static struct event_base *base;
	struct sbx_peer *p;
	int ch[2], r, handled = 0;

	fault.armed = false;
	if (base == NULL && (base = event_base_new()) == NULL)
		abort();
	fault.armed = true;
	ended = end_error = 0;
	if ((r = sbx_wire_pair(ch)) < 0)
		return (r);
	p = sbx_peer_new(base, ch[0], &table, &handled, on_end);
	r = peer_flow(base, p, ch[1], &handled);
	if (r < 0 && ended == 0)
		sbx_peer_end_later(p, r);
	if (r < 0) {
		(void)event_base_loop(base, EVLOOP_NONBLOCK);
		if (ended != 1)
			r = 2;
	} else
		sbx_peer_free(p);
	sbx_close(&ch[1]);
	return (r);
}

static int
run_memfd(void)
{
	SBX_CLEANUP(fd) int fd = -1;
	SBX_CLEANUP(free) char *p = NULL;
	size_t n;
	int r;

	r = sbx_memfd_sealed("t", "hello", 5, &fd);
	if (r == 0)
		r = sbx_memfd_read(fd, 5, &p, &n);
	if (r == 0 && (n != 5 || strcmp(p, "hello") != 0))
		r = 1;
	return (r);
}

static const struct {
	const char *name;
	int (*run)(void);
} scenarios[] = {
	{ "wire", run_wire },
	{ "chan", run_chan },
	{ "peer", run_peer },
	{ "memfd", run_memfd },
};

/* --- the turns ------------------------------------------------------------- */

/* What may not be seen: EINTR anywhere, EAGAIN where it means "later", and
 * one reset, after which the peer's last words are read. */
static bool
must_succeed(enum call call, int error)
{
	if (error == EINTR)
		return (call == CALL_SENDMSG || call == CALL_RECVMSG ||
		    call == CALL_POLL || call == CALL_WRITE ||
		    call == CALL_PREAD);
	return (error == ECONNRESET && call == CALL_RECVMSG);
}

static void
fail_in_turn(size_t s, enum call call, int error)
{
	int before = open_fds(), bad = 0, n = 0, r;

	for (;;) {
		n++;
		fault.call = call;
		fault.nth = n;
		fault.error = error;
		fault.seen = 0;
		fault.hit = false;
		fault.armed = true;
		r = scenarios[s].run();
		fault.armed = false;
		if (!fault.hit)
			break;
		if (r > 0 || (r < 0 && must_succeed(call, error)) ||
		    open_fds() != before) {
			bad = n;
			break;
		}
	}
	if (bad == 0 && n == 1)
		return;		/* this scenario never calls it */
	ok(bad == 0 && r == 0, "%s: each of %d %s() may fail with %s",
	    scenarios[s].name, n - 1, call_names[call], strerrorname_np(error));
	if (bad > 0)
		printf("# call %d: result %d, %d descriptors, were %d\n", bad,
		    r, open_fds(), before);
}

int
main(void)
{
	static const int errors[] = { EINTR, EAGAIN, EPIPE, ECONNRESET, ENOBUFS,
	    EMFILE, ETOOMANYREFS, EIO, EINVAL, EMSGSIZE };
	enum call call;
	size_t s, e;

	tap_plan(0);
	for (s = 0; s < SBX_NELEM(scenarios); s++) {
		/* once without a fault, which also opens what stays open */
		ok(scenarios[s].run() == 0, "%s: runs", scenarios[s].name);
		fault.armed = false;
		for (call = 0; call < CALL_MAX; call++)
			for (e = 0; e < SBX_NELEM(errors); e++)
				fail_in_turn(s, call, errors[e]);
	}
	return (tap_done());
}
