/* The proxy, alone: what it takes as a sandbox's socket, and what not. */

#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <net/if.h>

#include "common/base/limits.h"
#include "tests/regress/daemon.h"

enum kind {
	GOOD, OWN_NETNS, LISTENS, CONNECTED, OTHER_PORT, ANY_ADDRESS, UDP,
	INET6, UNIX_SOCKET, A_FILE, UNBOUND, KIND_MAX
};
static const struct {
	const char *what;
	int error;
} kinds[KIND_MAX] = {
	[GOOD] = { "bound to 127.0.0.1:3128, not listening", 0 },
	[OWN_NETNS] = { "in the proxy's own network namespace", EINVAL },
	[LISTENS] = { "listening already", EINVAL },
	[CONNECTED] = { "connected", EINVAL },
	[OTHER_PORT] = { "bound to another port", EINVAL },
	[ANY_ADDRESS] = { "bound to any address", EINVAL },
	[UDP] = { "of UDP", EINVAL },
	[INET6] = { "of IPv6", EINVAL },
	[UNIX_SOCKET] = { "of a Unix socket", EINVAL },
	[A_FILE] = { "of a file", EINVAL },
	[UNBOUND] = { "not bound", EINVAL },
};

static bool
up_loopback(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	bool good = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &ifr) == 0;

	(void)close(fd);
	return good;
}

static int
bound(int domain, int type, uint32_t address, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_port = htons(port), .sin_addr.s_addr = htonl(address) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
		.sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT };
	int fd = socket(domain, type, 0), r;

	if (domain == AF_INET)
		r = bind(fd, (struct sockaddr *)&in, sizeof(in));
	else
		r = bind(fd, (struct sockaddr *)&in6, sizeof(in6));
	return r < 0 ? -1 : fd;
}

static int
connected(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(99),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int server = bound(AF_INET, SOCK_STREAM, INADDR_LOOPBACK, 99);
	int fd = bound(AF_INET, SOCK_STREAM, INADDR_LOOPBACK,
	    SBX_EGRESS_PORT);

	if (server < 0 || listen(server, 1) < 0 ||
	    connect(fd, (struct sockaddr *)&in, sizeof(in)) < 0)
		return -1;
	return fd;	/* the server's end stays open with this process */
}

static int
make_here(enum kind kind)
{
	const uint32_t lo = INADDR_LOOPBACK;
	const uint16_t port = SBX_EGRESS_PORT;
	int fd;

	switch (kind) {
	case GOOD:
	case OWN_NETNS:
		return bound(AF_INET, SOCK_STREAM, lo, port);
	case LISTENS:
		fd = bound(AF_INET, SOCK_STREAM, lo, port);
		return listen(fd, 1) < 0 ? -1 : fd;
	case CONNECTED:
		return connected();
	case OTHER_PORT:
		return bound(AF_INET, SOCK_STREAM, lo, port + 1);
	case ANY_ADDRESS:
		return bound(AF_INET, SOCK_STREAM, INADDR_ANY, port);
	case UDP:
		return bound(AF_INET, SOCK_DGRAM, lo, port);
	case INET6:
		return bound(AF_INET6, SOCK_STREAM, 0, port);
	case UNIX_SOCKET:
		return socket(AF_UNIX, SOCK_STREAM, 0);
	case A_FILE:
		return open("/dev/null", O_RDWR);
	case UNBOUND:
		return socket(AF_INET, SOCK_STREAM, 0);
	case KIND_MAX:
		break;
	}
	return -1;
}

/* Made in a network namespace of its own, by a child that holds the other
 * end of what is connected until the next one is made. */
static int
make(enum kind kind)
{
	static int holder = -1;
	struct sbx_init_ready m = { 0 };
	SBX_CLEANUP(free) struct sbx_in *in = sbx_xcalloc(1, sizeof(*in));
	int pair[2], fd = -1;
	pid_t pid;

	sbx_close(&holder);
	if (kind == OWN_NETNS)
		return make_here(kind);
	if (sbx_wire_pair(pair) < 0)
		return -1;
	if ((pid = fork()) == 0) {
		(void)close(pair[0]);
		if (unshare(geteuid() == 0 ? CLONE_NEWNET :
		    CLONE_NEWUSER | CLONE_NEWNET) < 0 || !up_loopback() ||
		    (fd = make_here(kind)) < 0)
			_exit(1);
		(void)sbx_wire_send(pair[1], SBX_PROC_INIT,
		    SBX_MSG_INIT_READY, 0, &m, &fd, 0);
		/* The parent does not wait for it; its own end closes this. */
		if (kind == CONNECTED && fork() == 0)
			(void)recv(pair[1], in, 1, 0);
		_exit(0);
	}
	(void)close(pair[1]);
	if (sbx_wire_recv(pair[0], SBX_PROC_ENGINE, SBX_PROC_INIT, in, 0) == 0)
		fd = sbx_steal_fd(&in->fds[0]);
	holder = pair[0];
	(void)waitpid(pid, NULL, 0);
	return fd;
}

/* PROXY_LISTENER as the engine (fd consumed); the error answered, or -1. */
static int
hand_in(struct sbx_chan *engine, const char *container, int fd)
{
	struct sbx_proxy_listener m = { .container = container };
	int r = sbx_chan_call(engine, SBX_MSG_PROXY_LISTENER, &m, &fd, 2000);

	(void)close(fd);
	if (r < 0 || engine->in->hdr.type != SBX_MSG_PROXY_LISTENER_STATE ||
	    strcmp(engine->in->m.proxy_listener_state.container,
	    container) != 0)
		return -1;
	return engine->in->m.proxy_listener_state.error;
}

/* The engine's end of a new channel, which the monitor introduces. */
static bool
add_engine(struct daemon_run *r, struct sbx_chan *engine)
{
	struct sbx_introduce m = { .peer = SBX_PROC_ENGINE };
	int pair[2];

	if (sbx_wire_pair(pair) < 0 || sbx_chan_send(&r->c, SBX_MSG_INTRODUCE,
	    0, &m, &pair[1], 1000) < 0)
		return false;
	(void)close(pair[1]);
	sbx_chan_init(engine, pair[0], SBX_PROC_ENGINE, SBX_PROC_PROXY);
	return true;
}

static int
listeners(struct daemon_run *r)
{
	struct sbx_ping ping = { 0 };
	char text[64];

	/* what it logs comes between */
	if (sbx_chan_send(&r->c, SBX_MSG_PING, 7, &ping, NULL, 1000) < 0)
		return -1;
	do {
		if (sbx_chan_recv(&r->c, 2000) < 0)
			return -1;
	} while (r->c.in->hdr.type == SBX_MSG_LOG);
	for (int n = 0; n <= SBX_MAX_SANDBOXES; n++) {
		(void)snprintf(text, sizeof(text), "listeners=%d ", n);
		if (strncmp(r->c.in->m.pong.state, text, strlen(text)) == 0)
			return n;
	}
	return -1;
}

static void
close_one(struct daemon_run *r, const char *container)
{
	struct sbx_proxy_close m = { .container = container };

	(void)sbx_chan_send(&r->c, SBX_MSG_PROXY_CLOSE, 0, &m, NULL, 1000);
}

static void
test_kinds(struct daemon_run *r, struct sbx_chan *engine)
{
	char id[] = "0000000000aa";

	for (int k = KIND_MAX - 1; k >= 0; k--) {
		int fd = make((enum kind)k);

		if (fd < 0) {
			ok(false, "made: %s", kinds[k].what);
			continue;
		}
		ok(hand_in(engine, id, fd) == kinds[k].error,
		    "%s: a socket %s", kinds[k].error ? "refused" : "taken",
		    kinds[k].what);
	}
	ok(listeners(r) == 1, "the good one is held");
	ok(hand_in(engine, id, make(GOOD)) == 0 && listeners(r) == 1,
	    "one of a new namespace takes its place");
	ok(hand_in(engine, "xyz", make(GOOD)) == EINVAL,
	    "what is not a container id is refused");
	close_one(r, id);
	ok(listeners(r) == 0, "PROXY_CLOSE closes it");
	ok(hand_in(engine, id, make(GOOD)) == EEXIST,
	    "an ended sandbox has none any more");
}

/* A held socket refuses, and one that was closed is gone. */
static void
test_states(struct daemon_run *r, struct sbx_chan *engine)
{
	int fd = make(GOOD), kept = dup(fd), on = 0;
	socklen_t len = sizeof(on);

	ok(hand_in(engine, "0000000000ab", fd) == 0 &&
	    getsockopt(kept, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 &&
	    on == 0, "a held socket does not listen");
	ok(hand_in(engine, "0000000000ab", dup(kept)) == EEXIST,
	    "the same one again is refused");
	fd = dup(kept);
	ok(hand_in(engine, "0000000000ac", fd) == EINVAL,
	    "two sandboxes cannot share a network namespace");
	(void)close(kept);
	close_one(r, "0000000000ab");
	ok(listeners(r) == 0, "none is left");
}

static void
test_limit(struct daemon_run *r, struct sbx_chan *engine)
{
	char id[SBX_CONTAINER_HEX + 1];
	int good = 0;

	for (int i = 0; i < SBX_MAX_SANDBOXES; i++) {
		(void)snprintf(id, sizeof(id), "%012x", 0x1000 + i);
		good += hand_in(engine, id, make(GOOD)) == 0;
	}
	ok(good == SBX_MAX_SANDBOXES && listeners(r) == good,
	    "%d sandboxes are held", SBX_MAX_SANDBOXES);
	ok(hand_in(engine, "ffffffffffff", make(GOOD)) == ENFILE,
	    "one more is refused");
	sbx_chan_clear(engine);
	for (int i = 0; i < 200 && listeners(r) != 0; i++)
		(void)poll(NULL, 0, 5);
	ok(listeners(r) == 0, "all are closed when the engine ends");
}

int
main(void)
{
	struct daemon_run r = { 0 };
	struct sbx_chan engine, newer;

	tap_plan(0);
	if (!users_prepare())
		ok(false, "prepare: %s", strerror(errno));
	daemon_common("sbx-proxy", SBX_PROC_PROXY, SBX_MSG_PROXY_START);
	if (!daemon_start(&r, "sbx-proxy", SBX_PROC_PROXY,
	    SBX_MSG_PROXY_START) || !add_engine(&r, &engine)) {
		ok(false, "sbx-proxy starts");
		return tap_done();
	}
	test_kinds(&r, &engine);
	test_states(&r, &engine);
	ok(hand_in(&engine, "0000000000ae", make(GOOD)) == 0,
	    "one more is held for the older channel");
	ok(add_engine(&r, &newer) && hand_in(&newer, "0000000000ad",
	    make(GOOD)) == 0, "a newer channel replaces the engine's");
	ok(sbx_chan_recv(&engine, 1000) == SBX_E_CLOSED,
	    "the older one is closed");
	ok(listeners(&r) == 1 && hand_in(&newer, "0000000000ae",
	    make(GOOD)) == 0, "with its sockets, which may come again");
	close_one(&r, "0000000000ae");
	sbx_chan_clear(&engine);
	close_one(&r, "0000000000ad");
	test_limit(&r, &newer);
	if (add_engine(&r, &engine)) {
		uint8_t rec[SBX_HDR_BYTES] = { 0, 0, 0, 0, 0, SBX_MSG_PONG, 0,
			SBX_PROTO_VERSION };

		(void)send(engine.fd, rec, sizeof(rec), MSG_NOSIGNAL);
		ok(sbx_chan_recv(&engine, 1000) == SBX_E_CLOSED &&
		    listeners(&r) == 0,
		    "a violation ends the engine's channel only");
		sbx_chan_clear(&engine);
	}
	(void)shutdown(r.c.fd, SHUT_RDWR);
	ok(daemon_wait(&r, 1000) == 0, "it ends with the monitor");
	return tap_done();
}
