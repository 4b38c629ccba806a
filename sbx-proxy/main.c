/*
 * sbx-proxy: the only way out of a sandbox.
 *
 * It alone holds the sandboxes' egress sockets, and it alone may open an IP
 * connection.  The monitor talks to it, and the engine over a channel that
 * the monitor brings; the engine may only hand in a sandbox's socket, which is
 * checked and then held, not listening (a connection to it is refused until
 * the monitor opens it), and the authorities that it kept for it.  It must
 * never be able to see a credential, read a file, execute anything, or enter
 * another network namespace.
 *
 * Calls beyond those of a caged loop: socket of IP families, connect, bind,
 * listen, accept4, getsockname, getpeername, setsockopt, splice, pipe2,
 * setitimer, memfd_create, socketpair of AF_UNIX.
 */

#include "common/base/log.h"
#include "common/privs/privs.h"
#include "common/privs/start.h"
#include "common/proto/hello.h"
#include "common/proto/loop.h"
#include "config.h"
#include "sbx-proxy/ca.h"
#include "sbx-proxy/courier.h"
#include "sbx-proxy/dial.h"
#include "sbx-proxy/proxy.h"
#include "sbx-proxy/tunnel.h"

#include <event2/event.h>
#include <malloc.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <time.h>

#define HEAP_KEPT (4 << 20)	/* bytes, free and not given back */

static const uint16_t start_types[] = { SBX_MSG_PROXY_START, 0 };
static const struct sbx_accepts start_list = {
	SBX_PROC_PROXY, SBX_PROC_MONITOR, start_types,
};

static struct proxy proxy;

static void
on_monitor_end(struct sbx_peer *p, int error)
{
	struct proxy *x = sbx_peer_ctx(p);

	x->monitor = NULL;
	sbx_log_to(NULL, NULL);
	if (error != SBX_E_CLOSED) {
		log_err("channel of monitor ended: %s", sbx_error_name(error));
		x->exit_code = 3;
	}
	(void)event_base_loopbreak(x->base); /* fails without a base only */
}

/* The sandboxes end with the engine: their sockets lead nowhere now. */
static void
on_engine_end(struct sbx_peer *p, int error)
{
	struct proxy *x = sbx_peer_ctx(p);

	if (error != SBX_E_CLOSED)
		log_err("channel of engine ended: %s", sbx_error_name(error));
	x->engine = NULL;
	listener_close_all(x);
}

int
proxy_add_engine(struct proxy *x, int fd)
{
	struct sbx_peer *p = sbx_peer_new(x->base, fd, &proxy_from_engine, x,
	    on_engine_end);

	/* An engine sends the sockets of all its sandboxes over a new channel.
	 * Those of the old one would stand in their way, or, if it was another
	 * engine's life, be held for sandboxes that are gone. */
	if (x->engine != NULL) {
		sbx_peer_free(x->engine);
		listener_close_all(x);
	}
	x->engine = p;
	return (0);
}

static void
on_journald_end(struct sbx_peer *p, int error)
{
	struct proxy *x = sbx_peer_ctx(p);

	if (error != SBX_E_CLOSED)
		log_err("channel of journald ended: %s", sbx_error_name(error));
	x->journald = NULL;
}

int
proxy_add_journald(struct proxy *x, int fd)
{
	sbx_peer_free(x->journald);
	x->journald = sbx_peer_new(x->base, fd, &proxy_from_journald, x,
	    on_journald_end);
	return (0);
}

/*
 * What libraries read from files when first used: the time zone, of which
 * gmtime_r(3) wants to know, and OpenSSL's configuration, which shall not be.
 * And a write to who has gone must not end us: splice(2) has no flag for that.
 */
static int
prepare_libraries(struct sbx_err *err)
{
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return (sbx_err_sys(err, "signal"));
	if (setenv("TZ", "UTC0", 1) < 0)
		return (sbx_err_sys(err, "setenv"));
	tzset();
	if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG |
	    OPENSSL_INIT_LOAD_SSL_STRINGS | OPENSSL_INIT_LOAD_CRYPTO_STRINGS,
	    NULL) != 1 || RAND_status() != 1)
		return (sbx_err_set(err, SBX_E_SYS, "OpenSSL cannot begin"));
	/* What a buffer had the next one gets: given back to the kernel for
	 * each of them, it would have to be cleared for each, too.  Another
	 * allocator (a sanitizer's) knows none of it, and is slower. */
	(void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
	(void)mallopt(M_TRIM_THRESHOLD, HEAP_KEPT);
	return (0);
}

/* The loop's objects, and the cage around them.  fd: owned. */
static int
prepare(struct proxy *x, int fd, bool trap, struct sbx_err *err)
{
	struct sbx_privs_args args = { .trap = trap };
	uint32_t features;
	int r;

	if ((x->base = sbx_loop_new()) == NULL)
		return (sbx_err_set(err, SBX_E_SYS, "no event loop"));
	LIST_INIT(&x->listeners);
	LIST_INIT(&x->exchanges);
	LIST_INIT(&x->orders);
	listener_init(x);
	accept_init();
	r = prepare_libraries(err);
	if (r < 0)
		return (r);
	r = sbx_privs_enter(SBX_PROC_PROXY, &args, &features, err);
	if (r < 0)
		return (r);
	x->monitor = sbx_peer_new(x->base, fd, &proxy_from_monitor, x,
	    on_monitor_end);
	r = sbx_peer_hello(x->monitor, PACKAGE_VERSION, features);
	return (r < 0 ? sbx_err_set(err, r, "HELLO: %s", sbx_error_name(r)) : 0);
}

static int
finish(struct proxy *x)
{
	sbx_log_to(NULL, NULL);
	listener_close_all(x);
	courier_dials_end(x);
	dial_resolver(x, "");
	tunnel_pipes_free(x);
	if (x->journald != NULL)
		(void)sbx_peer_flush(x->journald, 200); /* or it is gone */
	if (x->monitor != NULL)
		(void)sbx_peer_flush(x->monitor, 200);
	sbx_peer_free(x->engine);
	sbx_peer_free(x->journald);
	sbx_peer_free(x->monitor);
	policy_clear(&x->policy);
	roots_free(x->roots);
	event_base_free(x->base);
	return (x->exit_code);
}

int
main(int argc, char **argv)
{
	static const struct sbx_dispatch_table *const tables[] = {
		&proxy_from_monitor, &proxy_from_engine,
		&proxy_from_journald, NULL,
	};
	static const struct sbx_program how = {
		.name = "sbx-proxy", .list = &start_list, .tables = tables,
	};
	struct proxy *x = &proxy;
	struct sbx_err err = { 0 };
	struct sbx_chan c;
	bool debug = sbx_program_start(argc, argv, &how, &c);

	if (prepare(x, sbx_steal_fd(&c.fd), debug, &err) < 0)
		sbx_fatal("%s", err.msg);
	sbx_chan_clear(&c);
	if (event_base_dispatch(x->base) < 0)
		sbx_fatal("the event loop failed");
	return (finish(x));
}
