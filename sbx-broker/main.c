/*
 * sbx-broker: the key process.
 *
 * It alone holds credentials: the keys of GitHub Apps, the operator's tokens,
 * and the short-lived ones that are minted with them, in locked memory.  The
 * monitor talks to it; so do couriers and the operator's command, over channels
 * that the monitor brings, each of which may say one or two things about its
 * one job.  What came from a sandbox or from the network passes through it as
 * descriptors, which it never reads.  It must never be able to open a socket,
 * read a file, execute anything, or give a courier more than one job needs.
 *
 * Calls beyond those of a caged loop: mlock, munlock.
 */

#include "common/base/log.h"
#include "common/privs/privs.h"
#include "common/privs/start.h"
#include "common/proto/hello.h"
#include "common/proto/loop.h"
#include "config.h"
#include "sbx-broker/broker.h"

#include <event2/event.h>
#include <sys/resource.h>

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

static void
on_journald_end(struct sbx_peer *p, int error)
{
	struct broker *k = sbx_peer_ctx(p);

	if (error != SBX_E_CLOSED)
		log_err("channel of journald ended: %s", sbx_error_name(error));
	k->journald = NULL;
}

void
broker_add_journald(struct broker *k, int fd)
{
	sbx_peer_free(k->journald);
	k->journald = sbx_peer_new(k->base, fd, &broker_from_journald, k,
	    on_journald_end);
}

/* Locked memory, as much as there may be: what is not enough is told when it is
 * needed. */
static void
lift_memlock(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_MEMLOCK, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_MEMLOCK, &r); /* see above */
	}
}

/* What the monitor named, read while files can be. */
static int
begin(struct broker *k, struct sbx_in *in, struct sbx_err *err)
{
	unsigned i;
	int r;

	lift_memlock();
	k->roots = sbx_steal_fd(&in->fds[0]);
	k->bot_commands = in->m.broker_start.bot_commands != 0;
	(void)sbx_strlcpy(k->author, in->m.broker_start.author,
	    sizeof(k->author));	/* the field is no longer */
	r = sources_read(&k->sources, &in->m.broker_start.sources, err);
	if (r < 0)
		return (r);
	if (k->sources.signer.bad[0] != '\0')
		log_warn("publish_signing_key cannot be used: %s",
		    k->sources.signer.bad);
	for (i = 0; i < k->sources.n; i++)
		if (k->sources.s[i].bad[0] != '\0')
			log_warn("a source of credentials for %s cannot be "
			    "used: %s", k->sources.s[i].host,
			    k->sources.s[i].bad);
	/* loading one takes a while: who has credentials will want some */
	if (k->sources.n > 0)
		k->keep_idle = BROKER_KEEP_IDLE;
	return (0);
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
	TAILQ_INIT(&k->jobs);
	pool_init(k);
	lock_init(k);
	revoke_init(k);
	r = sbx_privs_enter(SBX_PROC_BROKER, &args, &features, err);
	if (r < 0)
		return (r);
	k->monitor = sbx_peer_new(k->base, fd, &broker_from_monitor, k,
	    on_monitor_end);
	r = sbx_peer_hello(k->monitor, PACKAGE_VERSION, features);
	if (r < 0)
		return (sbx_err_set(err, r, "HELLO: %s", sbx_error_name(r)));
	pool_run(k);
	return (0);
}

/* Couriers end with their channels, whatever they are doing. */
static int
finish(struct broker *k)
{
	sbx_log_to(NULL, NULL);
	if (k->journald != NULL)
		(void)sbx_peer_flush(k->journald, 200); /* or it is gone */
	if (k->monitor != NULL)
		(void)sbx_peer_flush(k->monitor, 200);
	sbx_peer_free(k->monitor);
	k->monitor = NULL;
	mint_free_all(k);	/* a command's process is in the pool */
	pool_free(k);
	job_free_all(k);
	ask_free_all(k);
	grant_free_all(k);
	while (!LIST_EMPTY(&k->tokens.list))
		tokens_drop(&k->tokens, LIST_FIRST(&k->tokens.list));
	sources_clear(&k->sources);
	lock_free(k);
	revoke_free(k);
	sbx_peer_free(k->journald);
	sbx_close(&k->roots);
	event_base_free(k->base);
	return (k->exit_code);
}

int
main(int argc, char **argv)
{
	static const struct sbx_dispatch_table *const tables[] = {
		&broker_from_monitor, &broker_from_journald,
		&broker_from_courier, &broker_from_command, NULL,
	};
	static const struct sbx_program how = {
		.name = "sbx-broker", .list = &start_list, .tables = tables,
	};
	struct broker *k = &broker;
	struct sbx_err err = { 0 };
	struct sbx_chan c;
	bool debug = sbx_program_start(argc, argv, &how, &c);

	if (begin(k, c.in, &err) < 0 ||
	    prepare(k, sbx_steal_fd(&c.fd), debug, &err) < 0)
		sbx_fatal("%s", err.msg);
	sbx_chan_clear(&c);
	if (event_base_dispatch(k->base) < 0)
		sbx_fatal("the event loop failed");
	return (finish(k));
}
