/* What the proxy does on the monitor's word. */

#include "sbx-proxy/ca.h"
#include "sbx-proxy/courier.h"
#include "sbx-proxy/dial.h"
#include "sbx-proxy/grant.h"
#include "sbx-proxy/proxy.h"

#include "common/base/log.h"

#include <event2/event.h>
#include <stdio.h>
#include <unistd.h>

#define RESOLV_MAX 65536u	/* bytes of resolv.conf(5) */

/* The counts are for a human who asks why a sandbox has no way out. */
static int
on_ping(struct sbx_peer *p, struct sbx_in *in)
{
	struct proxy *x = sbx_peer_ctx(p);
	char state[64];

	(void)snprintf(state, sizeof(state), "listeners=%zu engine=%d",
	    x->nlisteners, x->engine != NULL);
	return (sbx_send_pong(p, in->hdr.id, &(struct sbx_pong){
	    .healthy = 1, .state = state }, NULL));
}

/* Listeners close with the process, so no connection is taken after it. */
static int
on_shutdown(struct sbx_peer *p, struct sbx_in *in)
{
	struct proxy *x = sbx_peer_ctx(p);

	(void)in;
	if (event_base_loopbreak(x->base) < 0)
		sbx_fatal("the event loop cannot be left");
	return (0);
}

/* Only the monitor introduces, so the engine's channel is the engine's. */
static int
on_introduce(struct sbx_peer *p, struct sbx_in *in)
{
	struct proxy *x = sbx_peer_ctx(p);

	if (in->m.introduce.peer == SBX_PROC_JOURNALD)
		return (proxy_add_journald(x, sbx_steal_fd(&in->fds[0])));
	if (in->m.introduce.peer != SBX_PROC_ENGINE)
		return (SBX_E_POLICY);
	return (proxy_add_engine(x, sbx_steal_fd(&in->fds[0])));
}

/*
 * It may come before the socket that it is for, which then must be refused:
 * the engine's channel and this one have no common order.
 */
static int
on_proxy_close(struct sbx_peer *p, struct sbx_in *in)
{
	struct proxy *x = sbx_peer_ctx(p);

	if (!sbx_is_hex(in->m.proxy_close.container, SBX_CONTAINER_HEX))
		return (SBX_E_SYNTAX);
	listener_close(x, in->m.proxy_close.container);
	return (0);
}

/* All of a file, at most max bytes, NUL-terminated.  Never waits: what has no
 * offsets (a pipe) is refused by pread(2).  0, SBX_E_SYS, SBX_E_LIMIT. */
static int
read_file(int fd, size_t max, struct sbx_buf *b, struct sbx_err *err)
{
	char chunk[16384];
	ssize_t n;

	sbx_buf_init(b, max);
	while ((n = pread(fd, chunk, sizeof(chunk), (off_t)b->len)) > 0)
		if (sbx_buf_add(b, chunk, (size_t)n) < 0)
			return (sbx_err_set(err, SBX_E_LIMIT,
			    "more than %zu bytes", max));
	if (n < 0)
		return (sbx_err_sys(err, "read"));
	return (sbx_buf_str(b, ""));
}

/* *ret: NULL when there is none. */
static int
read_roots(int fd, struct roots **ret, struct sbx_err *err)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	int r = read_file(fd, CA_ROOTS_MAX, &b, err);

	*ret = NULL;
	if (r < 0 || b.len == 0)
		return (r);
	return (roots_read(b.data, b.len, ret, err));
}

/* All of it, or what was before stays: before the first nothing is allowed.
 * *ret_old: what was before, owned by the caller. */
static int
load_policy(struct proxy *x, const struct sbx_in *in, struct policy *ret_old,
    struct sbx_err *err)
{
	const struct sbx_proxy_policy *q = &in->m.proxy_policy;
	SBX_CLEANUP_BUF struct sbx_buf resolv = { 0 };
	struct policy policy;
	struct roots *roots;
	int r;

	if ((r = read_file(in->fds[1], RESOLV_MAX, &resolv, err)) < 0 ||
	    (r = policy_load(&policy, &q->entries, q->any_host != 0,
	    q->out_bytes, err)) < 0)
		return (r);
	if ((r = read_roots(in->fds[0], &roots, err)) < 0) {
		policy_clear(&policy);
		return (r);
	}
	policy.locked = q->locked != 0;
	*ret_old = x->policy;
	x->policy = policy;
	roots_free(x->roots);
	x->roots = roots;
	dial_resolver(x, resolv.data);
	return (0);
}

/* Safe, since it is the monitor's word; what it does not allow any more ends
 * before anything else is read. */
static int
on_proxy_policy(struct sbx_peer *p, struct sbx_in *in)
{
	struct proxy *x = sbx_peer_ctx(p);
	struct sbx_err err = { 0 };
	struct policy old;

	if (load_policy(x, in, &old, &err) < 0) {
		log_err("a policy was not taken, the one before stays: %s",
		    err.msg);
		return (0);
	}
	listener_recheck(x, &old);
	policy_clear(&old);
	return (0);
}

/* Safe, since it is the monitor's word, who has recorded it. */
static int
on_proxy_open(struct sbx_peer *p, struct sbx_in *in)
{
	struct proxy *x = sbx_peer_ctx(p);

	if (!sbx_is_hex(in->m.proxy_open.container, SBX_CONTAINER_HEX))
		return (SBX_E_SYNTAX);
	listener_open(x, in->hdr.id, in->m.proxy_open.container,
	    in->m.proxy_open.principal);
	return (0);
}

/* Read strictly by grant_open(), which answers. */
static int
on_grant_open(struct sbx_peer *p, struct sbx_in *in)
{
	(void)grant_open(sbx_peer_ctx(p), &in->m.grant_open);
	return (0);
}

static int
on_grant_revoke(struct sbx_peer *p, struct sbx_in *in)
{
	grant_revoke(sbx_peer_ctx(p), in->m.grant_revoke.grant);
	return (0);
}

static int
on_proxy_dial(struct sbx_peer *p, struct sbx_in *in)
{
	courier_dial(sbx_peer_ctx(p), in->hdr.id, &in->m.proxy_dial);
	return (0);
}

static int
on_proxy_no_exchange(struct sbx_peer *p, struct sbx_in *in)
{
	courier_none(sbx_peer_ctx(p), in->hdr.id, &in->m.proxy_no_exchange);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_PING] = { SBX_ST_ANY, 0, on_ping },
	[SBX_MSG_SHUTDOWN] = { SBX_ST_ANY, SBX_D_ONCE, on_shutdown },
	[SBX_MSG_INTRODUCE] = { SBX_ST_ANY, 0, on_introduce },
	[SBX_MSG_PROXY_POLICY] = { SBX_ST_ANY, 0, on_proxy_policy },
	[SBX_MSG_PROXY_OPEN] = { SBX_ST_ANY, 0, on_proxy_open },
	[SBX_MSG_GRANT_OPEN] = { SBX_ST_ANY, 0, on_grant_open },
	[SBX_MSG_GRANT_REVOKE] = { SBX_ST_ANY, 0, on_grant_revoke },
	[SBX_MSG_PROXY_DIAL] = { SBX_ST_ANY, 0, on_proxy_dial },
	[SBX_MSG_PROXY_NO_EXCHANGE] = { SBX_ST_ANY, 0, on_proxy_no_exchange },
	[SBX_MSG_PROXY_CLOSE] = { SBX_ST_ANY, 0, on_proxy_close },
};
const struct sbx_dispatch_table proxy_from_monitor = {
	SBX_PROC_PROXY, SBX_PROC_MONITOR, rows,
};
