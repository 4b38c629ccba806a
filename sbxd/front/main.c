/*
 * sbxd-front speaks MCP with the clients.
 *
 * It alone holds the clients' connections: the stdio pair or accepted Unix
 * sockets, both handed in, and the requests that wait on them.  It checks what
 * they send (JSON, JSON-RPC, the envelope of each revision of MCP) and hands a
 * tool's arguments to the monitor unread; a result comes back as text and is
 * wrapped.  The monitor talks to it, and clients, who are not trusted; what a
 * worker's result says is not trusted either.
 *
 * It must never be able to open a file or a socket of its own, to execute
 * anything, or to act for anybody who is not connected: whose connection one
 * is is found by the monitor, and a handle is all that it has of it.
 */

#include "common/base/log.h"
#include "common/privs/privs.h"
#include "common/privs/start.h"
#include "common/proto/hello.h"
#include "common/proto/loop.h"
#include "config.h"
#include "sbxd/front/front.h"

#include <event2/event.h>
#include <json-c/json.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_MS 200

static const uint16_t start_types[] = { SBX_MSG_FRONT_START, 0 };
static const struct sbx_accepts start_list = {
	SBX_PROC_FRONT, SBX_PROC_MONITOR, start_types
};

static struct front front;

/* libevent would write to standard error. */
static void
log_of_libevent(int severity, const char *text)
{
	(void)severity;
	log_debug("libevent: %s", text);
}

static void
on_monitor_end(struct sbx_peer *p, int error)
{
	struct front *f = sbx_peer_ctx(p);

	f->monitor = NULL;
	sbx_log_to(NULL, NULL);
	if (error != SBX_E_CLOSED) {
		log_err("channel of monitor ended: %s", sbx_error_name(error));
		f->exit_code = 3;
	}
	(void)event_base_loopbreak(f->base);
}

/* json-c seeds its hash at first use, perhaps from a file: before the cage. */
static void
warm_json(struct front *f)
{
	static const char text[] = "{\"a\":1.5}";

	json_object_put(json_tokener_parse_ex(f->tokener, text,
	    sizeof(text) - 1));
}

/* Make what FRONT_START asks for. */
static int
start(struct front *f, struct sbx_chan *c, struct sbx_err *err)
{
	struct event_base *base;
	int r;

	base = sbx_loop_new();
	if (base == NULL)
		return (sbx_err_set(err, SBX_E_SYS, "no event loop"));
	r = front_init(f, base, c->in->m.front_start.profile);
	if (r < 0)
		return (sbx_err_set(err, r, "profile must be implement, review "
		    "or issue"));
	f->http_open = c->in->m.front_start.http_open;
	f->http_hold_s = c->in->m.front_start.http_hold_s;
	(void)sbx_strlcpy(f->http_hosts, c->in->m.front_start.http_hosts,
	    sizeof(f->http_hosts));	/* as long as its field */
	warm_json(f);
	return (0);
}

/* The cage, then the channel in the loop.  fd: owned. */
static int
enter(struct front *f, int fd, bool trap, struct sbx_err *err)
{
	struct sbx_privs_args args = { .trap = trap };
	uint32_t features;
	int r;

	r = sbx_privs_enter(SBX_PROC_FRONT, &args, &features, err);
	if (r < 0)
		return (r);
	f->monitor = sbx_peer_new(f->base, fd, &front_from_monitor, f,
	    on_monitor_end);
	r = sbx_peer_hello(f->monitor, PACKAGE_VERSION, features);
	return (r == 0 ? 0 : sbx_err_set(err, r, "no HELLO: %s",
	    sbx_error_name(r)));
}

int
main(int argc, char **argv)
{
	static const struct sbx_dispatch_table *const tables[] = {
		&front_from_monitor, NULL
	};
	static const struct sbx_program how = {
		.name = "sbxd-front", .list = &start_list, .tables = tables,
	};
	struct front *f = &front;
	struct sbx_err err = { 0 };
	struct sbx_chan c;
	bool trap = sbx_program_start(argc, argv, &how, &c);

	event_set_log_callback(log_of_libevent);
	if (start(f, &c, &err) < 0 ||
	    enter(f, sbx_steal_fd(&c.fd), trap, &err) < 0)
		sbx_fatal("%s", err.msg);
	sbx_chan_clear(&c);
	if (event_base_dispatch(f->base) < 0)
		sbx_fatal("the event loop failed");
	sbx_log_to(NULL, NULL);
	front_clear(f);
	if (f->monitor != NULL) {
		/* last words; a monitor that is gone does not matter */
		(void)sbx_peer_flush(f->monitor, FLUSH_MS);
		sbx_peer_free(f->monitor);
	}
	event_base_free(f->base);
	return (f->exit_code);
}
