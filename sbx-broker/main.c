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

#include "config.h"
#include "sbx-broker/broker.h"

#include <event2/event.h>

#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/privs/privs.h"
#include "common/proto/accepts.h"

#define CHANNEL_FD 3
#define START_TIMEOUT_MS 10000

static const uint16_t start_types[] = { SBX_MSG_BROKER_START, 0 };
static const struct sbx_accepts start_list = {
	SBX_PROC_BROKER, SBX_PROC_MONITOR, start_types,
};

static struct broker broker;

static void
to_monitor(void *arg, enum sbx_log_level level, const char *text)
{
	struct broker *k = arg;

	if (k->monitor != NULL)
		(void)sbx_send_log(k->monitor, 0, &(struct sbx_log){
		    .level = (uint8_t)level, .text = text },
		    NULL); /* a failure to log cannot be logged */
}

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
	struct sbx_hello hello = { .version = PACKAGE_VERSION,
		.pid = (uint32_t)getpid() };
	int r;

	if ((k->base = event_base_new()) == NULL)
		return (sbx_err_set(err, SBX_E_SYS, "no event loop"));
	r = sbx_privs_enter(SBX_PROC_BROKER, &args, &hello.features, err);
	if (r < 0)
		return (r);
	k->monitor = sbx_peer_new(k->base, fd, &broker_from_monitor, k,
	    on_monitor_end);
	if (k->monitor == NULL)
		return (sbx_err_set(err, SBX_E_SYS, "no channel to the monitor"));
	sbx_log_to(to_monitor, k);
	r = sbx_send_hello(k->monitor, 0, &hello, NULL);
	return (r < 0 ? sbx_err_set(err, r, "HELLO: %s", sbx_error_name(r)) : 0);
}

int
main(int argc, char **argv)
{
	static const struct sbx_dispatch_table *const tables[] = {
		&broker_from_monitor, NULL,
	};
	static const struct sbx_accepts *const lists[] = { &start_list, NULL };
	struct broker *k = &broker;
	struct sbx_err err = { 0 };
	struct sbx_chan c;
	bool debug = argc > 1 && strncmp(argv[1], "-d", 2) == 0;
	int r;

	sbx_accepts_print(argc, argv, tables, lists);
	if (argc > 1 && !debug)
		return (1);
	sbx_privs_early();
	sbx_log_init("sbx-broker", debug ? SBX_LOG_DEBUG : SBX_LOG_INFO);
	sbx_chan_init(&c, CHANNEL_FD, SBX_PROC_BROKER, SBX_PROC_MONITOR);
	r = sbx_chan_recv(&c, START_TIMEOUT_MS);
	if (r < 0 || !sbx_accepts(&start_list, c.in->hdr.type))
		sbx_fatal("no BROKER_START: %s", sbx_error_name(r));
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
