/*
 * sbx-broker: the key process.
 *
 * It alone may hold credentials, in locked memory; it holds none yet.  Only
 * the monitor talks to it, and nothing that came from a sandbox or from the
 * network is ever parsed in it.  It must never be able to open a socket, read
 * a file, execute anything, or take a message from anybody else.
 *
 * Calls beyond those of a caged loop: mlock, mlock2, munlock.
 */

#include "common/base/log.h"
#include "common/privs/privs.h"
#include "common/privs/start.h"
#include "common/proto/hello.h"
#include "common/proto/loop.h"
#include "config.h"
#include "sbx-broker/broker.h"

#include <event2/event.h>

static const uint16_t start_types[] = { SBX_MSG_BROKER_START, 0 };
static const struct sbx_accepts start_list = {
	SBX_PROC_BROKER, SBX_PROC_MONITOR, start_types,
};

static struct broker broker;

static void
on_monitor_end(struct sbx_peer *p, int error)
{
	struct broker *k = sbx_peer_ctx(p);

	k->monitor = NULL;
	sbx_log_to(NULL, NULL);
	if (error != SBX_E_CLOSED) {
		log_err("channel of monitor ended: %s", sbx_error_name(error));
		k->exit_code = 3;
	}
	(void)event_base_loopbreak(k->base); /* fails without a base only */
}

/* The loop's objects, and the cage around them.  fd: owned. */
static int
prepare(struct broker *k, int fd, bool trap, struct sbx_err *err)
{
	struct sbx_privs_args args = { .trap = trap };
	uint32_t features;
	int r;

	if ((k->base = sbx_loop_new()) == NULL)
		return (sbx_err_set(err, SBX_E_SYS, "no event loop"));
	r = sbx_privs_enter(SBX_PROC_BROKER, &args, &features, err);
	if (r < 0)
		return (r);
	k->monitor = sbx_peer_new(k->base, fd, &broker_from_monitor, k,
	    on_monitor_end);
	r = sbx_peer_hello(k->monitor, PACKAGE_VERSION, features);
	return (r < 0 ? sbx_err_set(err, r, "HELLO: %s", sbx_error_name(r)) : 0);
}

int
main(int argc, char **argv)
{
	static const struct sbx_dispatch_table *const tables[] = {
		&broker_from_monitor, NULL,
	};
	static const struct sbx_program how = {
		.name = "sbx-broker", .list = &start_list, .tables = tables,
	};
	struct broker *k = &broker;
	struct sbx_err err = { 0 };
	struct sbx_chan c;
	bool debug = sbx_program_start(argc, argv, &how, &c);

	if (prepare(k, sbx_steal_fd(&c.fd), debug, &err) < 0)
		sbx_fatal("%s", err.msg);
	sbx_chan_clear(&c);
	if (event_base_dispatch(k->base) < 0)
		sbx_fatal("the event loop failed");
	sbx_log_to(NULL, NULL);
	if (k->monitor != NULL)
		(void)sbx_peer_flush(k->monitor, 200); /* or it is gone */
	sbx_peer_free(k->monitor);
	event_base_free(k->base);
	return (k->exit_code);
}
