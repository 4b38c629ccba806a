/* common/proto/peer.c: dispatch, the queue and its limits, and every end. */

#include "common/proto/peer.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <unistd.h>

#include "tests/proto/raw.h"
#include "tests/proto/sample.h"
#include "tests/tap.h"

/* One peer under test, and the raw other end of its channel. */
struct side {
	struct sbx_peer *p;
	int raw;
	int handled;		/* messages that reached a handler */
	uint32_t last_id;
	int ends, end_error;
	uint16_t end_type;
	struct sbx_peer **victim; /* freed by the next handler */
	int ret;		/* what the next handler returns */
	bool echo;		/* answer each message */
	int kept_fd;		/* stolen from the last message */
};

static struct event_base *base;
static struct sbx_in in;

static int
on_any(struct sbx_peer *p, struct sbx_in *msg)
{
	struct side *s = sbx_peer_ctx(p);
	struct sbx_pong pong = { .healthy = 1, .state = "ok" };

	s->handled++;
	s->last_id = msg->hdr.id;
	if (s->echo)
		(void)sbx_send_pong(p, msg->hdr.id, &pong, NULL);
	if (s->victim != NULL) {
		sbx_peer_free(*s->victim);
		*s->victim = NULL;
		s->victim = NULL;
	}
	return (s->ret);
}

static int
on_introduce(struct sbx_peer *p, struct sbx_in *msg)
{
	struct side *s = sbx_peer_ctx(p);

	s->handled++;
	s->kept_fd = sbx_steal_fd(&msg->fds[0]);
	return (0);
}

static int
on_shutdown(struct sbx_peer *p, struct sbx_in *msg)
{
	(void)msg;
	sbx_peer_set_state(p, 1);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_PING] = { SBX_ST_ANY, 0, on_any },
	[SBX_MSG_SHUTDOWN] = { SBX_ST(0), 0, on_shutdown },
	[SBX_MSG_SANDBOX_STOP] = { SBX_ST(1), 0, on_any },
	[SBX_MSG_ENGINE_START] = { SBX_ST_ANY, SBX_D_ONCE, on_any },
	[SBX_MSG_INTRODUCE] = { SBX_ST_ANY, 0, on_introduce },
};
static const struct sbx_dispatch_table table = { SBX_PROC_ENGINE,
	SBX_PROC_MONITOR, rows };

static void
on_end(struct sbx_peer *p, int error)
{
	struct side *s = sbx_peer_ctx(p);
	struct sbx_pong pong = { .healthy = 0 };

	s->ends++;
	s->end_error = error;
	s->end_type = sbx_peer_last_type(p);
	/* neither of these may hurt here */
	if (sbx_send_pong(p, 0, &pong, NULL) != SBX_E_CLOSED)
		s->ends += 100;
	sbx_peer_end_later(p, SBX_E_LIMIT);
	s->p = NULL;
}

static void
side_new(struct side *s)
{
	int fd[2];

	if (sbx_wire_pair(fd) < 0)
		abort();
	*s = (struct side){ .raw = fd[1], .kept_fd = -1 };
	s->p = sbx_peer_new(base, fd[0], &table, s, on_end);
}

static void
side_clear(struct side *s)
{
	sbx_peer_free(s->p);
	sbx_close(&s->raw);
	sbx_close(&s->kept_fd);
}

/* Give the loop n turns. */
static void
turns(int n)
{
	while (n-- > 0)
		(void)event_base_loop(base, EVLOOP_NONBLOCK);
}

static bool
tell(struct side *s, uint16_t type, uint32_t id)
{
	static const int fds[SBX_MSG_FDS_MAX];
	union sbx_any_msg m;

	sample_fill(type, SAMPLE_SOME, &m);
	return (sbx_wire_send(s->raw, SBX_PROC_MONITOR, type, id, &m, fds,
	    MSG_DONTWAIT) == 0);
}

/* The next message that the peer sent. */
static int
hear(struct side *s)
{
	return (sbx_wire_recv(s->raw, SBX_PROC_MONITOR, SBX_PROC_ENGINE, &in,
	    MSG_DONTWAIT));
}

/* One message that must end the peer with this error. */
static void
ends_with(uint16_t type, int times, int ret, int error, const char *what)
{
	struct side s;
	int i;

	side_new(&s);
	s.ret = ret;
	for (i = 0; i < times; i++)
		(void)tell(&s, type, 1);
	turns(3);
	ok(s.ends == 1 && s.end_error == error && s.end_type == type &&
	    hear(&s) == SBX_E_CLOSED, "%s: %s", what,
	    sbx_error_name(s.end_error));
	side_clear(&s);
}

static void
test_dispatch(void)
{
	struct side s;
	uint8_t junk[40] = { 0 };

	side_new(&s);
	ok(sbx_peer_state(s.p) == 0 && sbx_peer_remote(s.p) ==
	    SBX_PROC_MONITOR && sbx_peer_fd(s.p) >= 0 &&
	    sbx_peer_last_type(s.p) == 0, "a new peer");
	s.echo = true;
	(void)tell(&s, SBX_MSG_PING, 41);
	(void)tell(&s, SBX_MSG_PING, 42);
	turns(1);
	ok(s.handled == 2 && s.last_id == 42 && hear(&s) == 0 &&
	    in.hdr.type == SBX_MSG_PONG && in.hdr.id == 41 &&
	    hear(&s) == 0 && in.hdr.id == 42, "messages reach their handler");
	(void)tell(&s, SBX_MSG_SHUTDOWN, 0);
	(void)tell(&s, SBX_MSG_SANDBOX_STOP, 9);
	turns(1);
	ok(s.handled == 3 && s.last_id == 9 && sbx_peer_state(s.p) == 1,
	    "a handler sets the state that permits the next");
	(void)tell(&s, SBX_MSG_INTRODUCE, 0);
	turns(1);
	ok(s.kept_fd > 2 && fcntl(s.kept_fd, F_GETFD) == FD_CLOEXEC,
	    "a handler takes a descriptor");
	side_clear(&s);

	ends_with(SBX_MSG_SANDBOX_STOP, 1, 0, SBX_E_STATE,
	    "not permitted in this state");
	ends_with(SBX_MSG_ENGINE_EXEC, 1, 0, SBX_E_STATE, "no row");
	ends_with(SBX_MSG_ENGINE_START, 2, 0, SBX_E_AGAINST_ONCE, "once only");
	ends_with(SBX_MSG_CALL_RESULT, 1, 0, SBX_E_RECEIVER,
	    "not for this process");
	ends_with(SBX_MSG_PING, 1, SBX_E_POLICY, SBX_E_POLICY,
	    "the handler refuses");

	side_new(&s);
	(void)tell(&s, SBX_MSG_ENGINE_START, 1);
	turns(2);
	ok(s.handled == 1 && s.ends == 0, "once is once");
	(void)raw_send(s.raw, junk, sizeof(junk), 1);
	(void)tell(&s, SBX_MSG_PING, 1);
	turns(3);
	ok(s.ends == 1 && s.end_error == SBX_E_VERSION && s.handled == 1,
	    "nothing is handled after a violation");
	side_clear(&s);
}

/* State and once come before the fields are looked at. */
static void
test_order(void)
{
	uint8_t rec[SBX_HDR_BYTES + 4] = { 0, 0, 0, 4, 0, SBX_MSG_SANDBOX_STOP,
	    0, 1 };
	struct side s;

	side_new(&s);
	(void)raw_send(s.raw, rec, sizeof(rec), 0);
	turns(3);
	ok(s.end_error == SBX_E_STATE, "the state is checked before fields");
	side_clear(&s);
	side_new(&s);
	sbx_peer_set_state(s.p, 1);
	(void)raw_send(s.raw, rec, sizeof(rec), 0);
	turns(3);
	ok(s.end_error == SBX_E_DECODE, "then they are");
	side_clear(&s);
}

/* --- the queue ------------------------------------------------------------- */

static int
pong(struct side *s, uint32_t id)
{
	struct sbx_pong m = { .healthy = 1, .state = "fine" };

	return (sbx_send_pong(s->p, id, &m, NULL));
}

/* Send until the socket is full and n more are queued. */
static uint32_t
fill(struct side *s, uint32_t n)
{
	struct pollfd pfd = { .fd = sbx_peer_fd(s->p), .events = POLLOUT };
	struct sbx_pong m = { .healthy = 1, .state = "fine" };
	uint32_t id = 0, i;

	while (sbx_wire_send(pfd.fd, SBX_PROC_ENGINE, SBX_MSG_PONG, id + 1,
	    &m, NULL, MSG_DONTWAIT) == 0)
		id++;
	for (i = 0; i < n; i++)
		if (pong(s, ++id) != 0)
			return (0);
	return (id);
}

/* How many of the ids first.. come in order? */
static uint32_t
drain(struct side *s, uint32_t first)
{
	while (hear(s) == 0) {
		if (in.hdr.id != first++)
			return (0);
		sbx_in_clear(&in);
		turns(1);
	}
	return (first - 1);
}

static void
test_queue(void)
{
	struct side s;
	struct sbx_run_open ro = { .run = "r" };
	static char text[300];
	struct sbx_pong bad = { .state = text };
	uint32_t sent, next;

	side_new(&s);
	sent = fill(&s, 100);
	ok(sent > 100 && pong(&s, ++sent) == 0, "a full socket queues");
	ok(sbx_peer_send(s.p, SBX_MSG_PING, 0, NULL, NULL) == SBX_E_SENDER &&
	    sbx_send_run_open(s.p, 0, &ro, NULL) == SBX_E_RECEIVER &&
	    sbx_peer_send(s.p, 255, 0, NULL, NULL) == SBX_E_TYPE,
	    "what may not be sent is not queued");
	memset(text, 'x', sizeof(text) - 1);
	ok(sbx_send_pong(s.p, 0, &bad, NULL) == SBX_E_LIMIT && s.p != NULL,
	    "nor what does not fit its message");
	ok(drain(&s, 1) == sent, "all arrive in order");
	ok(pong(&s, 1) == 0 && drain(&s, 1) == 1 && s.ends == 0,
	    "and the peer goes on");

	sent = fill(&s, 300);
	(void)tell(&s, SBX_MSG_PING, 5);
	turns(5);
	ok(s.handled == 0, "past the mark nothing is read from it");
	ok(drain(&s, 1) == sent && s.handled == 1,
	    "below it reading goes on");

	sent = fill(&s, 300);
	ok(sbx_peer_flush(s.p, 30) == SBX_E_TIMEOUT, "flush has a deadline");
	(void)tell(&s, SBX_MSG_PING, 6);
	for (next = 1; hear(&s) == 0; next++)
		;
	ok(sbx_peer_flush(s.p, 30) == 0, "flush sends what is queued");
	turns(2);
	ok(s.handled == 2 && drain(&s, next) == sent,
	    "and reading goes on after it");
	side_clear(&s);

	side_new(&s);
	sent = fill(&s, 1024);
	ok(sent > 1024, "1,024 records wait");
	ok(pong(&s, 0) == SBX_E_LIMIT && pong(&s, 0) == SBX_E_CLOSED &&
	    s.ends == 0, "no more: and not ended in the middle of a send");
	turns(2);
	ok(s.ends == 1 && s.end_error == SBX_E_LIMIT, "it is ended");
	side_clear(&s);
}

static const struct sbx_dispatch_table init_table = { SBX_PROC_ENGINE,
	SBX_PROC_INIT, rows };

/* Large records with descriptors, which stay the caller's. */
static void
test_queue_bytes(void)
{
	struct side s = { .kept_fd = -1 };
	union sbx_any_msg m;
	int before = open_fds(), fd[2], fds[3], i, n = 0, r;

	if (sbx_wire_pair(fd) < 0)
		abort();
	s.raw = fd[1];
	s.p = sbx_peer_new(base, fd[0], &init_table, &s, on_end);
	sample_fill(SBX_MSG_INIT_EXEC, SAMPLE_FULL, &m);
	for (i = 0; i < 3; i++)
		fds[i] = fcntl(0, F_DUPFD_CLOEXEC, 3);
	for (i = 0; i < 20; i++)
		if (sbx_send_init_exec(s.p, 1, &m.init_exec, fds) == 0)
			n++;
	for (i = 0; i < 3; i++)
		sbx_close(&fds[i]);
	ok(n == 20, "large records are queued, %d", n);
	for (i = 0; i < 20; i++) {
		turns(1);
		r = sbx_wire_recv(s.raw, SBX_PROC_INIT, SBX_PROC_ENGINE, &in,
		    MSG_DONTWAIT);
		if (r != 0 || in.nfds != 3 || fcntl(in.fds[2], F_GETFD) < 0 ||
		    !sample_equal(SBX_MSG_INIT_EXEC, &m, &in.m))
			break;
		sbx_in_clear(&in);
	}
	ok(i == 20, "and arrive with their descriptors, %d", i);
	for (n = 0; n < 100; n++) {
		r = sbx_send_init_exec(s.p, 1, &m.init_exec,
		    (int[3]){ 0, 0, 0 });
		if (r != 0)
			break;
	}
	ok(r == SBX_E_LIMIT && n > 25 && n < 40, "4 MiB are the limit, %d", n);
	turns(2);
	ok(s.ends == 1 && s.end_error == SBX_E_LIMIT, "it is ended");
	side_clear(&s);
	ok(open_fds() == before, "with all that was queued");

	side_new(&s);
	(void)fill(&s, 1);
	ok(sbx_peer_send(s.p, SBX_MSG_INIT_EXEC, 1, &m.init_exec, NULL) ==
	    SBX_E_RECEIVER, "(not to that one)");
	side_clear(&s);
}

/* --- ends ------------------------------------------------------------------ */

static void
test_ends(void)
{
	struct side s;

	side_new(&s);
	(void)tell(&s, SBX_MSG_PING, 1);
	(void)tell(&s, SBX_MSG_PING, 2);
	sbx_close(&s.raw);
	turns(3);
	ok(s.handled == 2 && s.ends == 1 && s.end_error == SBX_E_CLOSED,
	    "what came before the end is handled");
	side_clear(&s);

	/* it left ours unread: the kernel reports a reset before its last */
	side_new(&s);
	(void)pong(&s, 1);
	(void)tell(&s, SBX_MSG_PING, 1);
	sbx_close(&s.raw);
	ok(pong(&s, 2) == SBX_E_CLOSED, "sending to a dead peer");
	turns(4);
	ok(s.handled == 1 && s.ends == 1 && s.end_error == SBX_E_CLOSED,
	    "its last words still count");
	side_clear(&s);

	side_new(&s);
	(void)fill(&s, 300);
	(void)tell(&s, SBX_MSG_PING, 1);
	sbx_close(&s.raw);
	turns(6);
	ok(s.handled == 1 && s.ends == 1, "also when it was not being read");
	side_clear(&s);

	side_new(&s);
	(void)shutdown(s.raw, SHUT_RD);
	(void)tell(&s, SBX_MSG_PING, 1);
	ok(pong(&s, 1) == SBX_E_CLOSED && s.ends == 0, "a deaf peer");
	turns(4);
	ok(s.handled == 1 && s.ends == 1 && s.end_error == SBX_E_CLOSED,
	    "is heard out and ended");
	side_clear(&s);

	side_new(&s);
	sbx_peer_end_later(s.p, SBX_E_TIMEOUT);
	sbx_peer_end_later(s.p, SBX_E_POLICY);
	(void)tell(&s, SBX_MSG_PING, 1);
	ok(pong(&s, 1) == SBX_E_CLOSED && sbx_peer_flush(s.p, 0) ==
	    SBX_E_CLOSED && s.ends == 0, "ending is not ended");
	turns(4);
	ok(s.ends == 1 && s.end_error == SBX_E_TIMEOUT && s.handled == 0,
	    "on_end comes once, with the first error");
	side_clear(&s);

	side_new(&s);
	sbx_peer_end_later(s.p, SBX_E_TIMEOUT);
	sbx_peer_free(s.p);
	s.p = NULL;
	turns(2);
	ok(s.ends == 0, "freed before: no on_end");
	side_clear(&s);
	sbx_peer_free(NULL);
}

static void
test_free_inside(void)
{
	struct side a, b;
	int i, before = open_fds();

	/* both are readable in the same turn; whoever is first frees the other */
	for (i = 0; i < 2; i++) {
		side_new(&a);
		side_new(&b);
		a.victim = &b.p;
		b.victim = &a.p;
		(void)tell(i == 0 ? &a : &b, SBX_MSG_PING, 1);
		(void)tell(i == 0 ? &b : &a, SBX_MSG_PING, 1);
		turns(4);
		ok(a.handled + b.handled == 1 && a.ends + b.ends == 0,
		    "a handler frees another peer");
		side_clear(&a);
		side_clear(&b);
	}
	/* the other one has just been told to end, too */
	side_new(&a);
	side_new(&b);
	a.victim = &b.p;
	(void)tell(&a, SBX_MSG_PING, 1);
	sbx_close(&b.raw);
	turns(4);
	ok(a.handled == 1, "or one that ends");
	side_clear(&a);
	side_clear(&b);

	side_new(&a);
	a.victim = &a.p;
	(void)tell(&a, SBX_MSG_PING, 1);
	(void)tell(&a, SBX_MSG_PING, 2);
	turns(4);
	ok(a.handled == 1 && a.ends == 0 && hear(&a) == SBX_E_CLOSED,
	    "even its own: nothing is handled after that");
	side_clear(&a);
	ok(open_fds() == before, "no descriptor leaked");
}

static void
test_stall(void)
{
	struct side s;
	uint64_t began = sbx_mono_ns();

	side_new(&s);
	(void)fill(&s, 2);
	while (s.ends == 0 && sbx_mono_ns() - began < 5000000000u)
		(void)event_base_loop(base, EVLOOP_ONCE);
	began = (sbx_mono_ns() - began) / 1000000;
	ok(s.ends == 1 && s.end_error == SBX_E_TIMEOUT && began >= 900,
	    "a peer that takes nothing is ended (%d ms)", (int)began);
	side_clear(&s);
}

/* Which of two readable peers is served first. */
static void
test_priority(void)
{
	struct side a, b;
	uint32_t id = 0;
	int i;

	for (i = 0; i < 2; i++) {
		side_new(&a);
		side_new(&b);
		sbx_peer_set_priority(i == 0 ? a.p : b.p, 0);
		sbx_peer_set_priority(i == 0 ? b.p : a.p, 1);
		a.victim = &b.p;	/* the first one ends the other */
		b.victim = &a.p;
		(void)tell(&a, SBX_MSG_PING, 1);
		(void)tell(&b, SBX_MSG_PING, 1);
		turns(2);
		id += (i == 0 ? a.handled : b.handled) == 1;
		side_clear(&a);
		side_clear(&b);
	}
	ok(id == 2, "the smaller priority is served first");
}

static void
test_ids(void)
{
	struct side s;

	side_new(&s);
	ok(sbx_peer_next_id(s.p) == 1 && sbx_peer_next_id(s.p) == 2,
	    "request ids count from 1");
	side_clear(&s);
}

int
main(void)
{
	int before;

	tap_plan(0);
	base = event_base_new();
	if (base == NULL || event_base_priority_init(base, 2) != 0)
		abort();
	before = open_fds();
	test_dispatch();
	test_order();
	test_queue();
	test_queue_bytes();
	test_ends();
	test_free_inside();
	test_stall();
	test_priority();
	test_ids();
	ok(open_fds() == before, "no descriptor leaked in all");
	event_base_free(base);
	return (tap_done());
}
