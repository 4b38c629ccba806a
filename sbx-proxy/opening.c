/* From PROXY_OPEN to PROXY_OPENED: a sandbox gets its way out when it has in
 * it what its clients need to trust us. */

#include "sbx-proxy/ca.h"
#include "sbx-proxy/proxy.h"

#include "common/base/log.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>

static void
answer(struct proxy *x, uint32_t id, const char *container, int error,
    const char *reason)
{
	struct sbx_proxy_opened m = { .container = container, .error = error,
		.reason = reason };

	if (x->monitor != NULL)
		(void)sbx_send_proxy_opened(x->monitor, id, &m,
		    NULL); /* or its channel ends */
}

/* The one answer that is owed. */
static void
opened(struct listener *l, int error, const char *reason)
{
	if (l->deadline == NULL)
		return;
	event_free(l->deadline);
	l->deadline = NULL;
	answer(l->x, l->open_id, l->container, error, reason);
	if (error == 0)
		return;
	l->open = l->trusted = false;
	log_warn("a sandbox's egress was not opened: %s container=%s", reason,
	    l->container);
}

void
listener_not_opened(struct listener *l)
{
	opened(l, ECANCELED, "the sandbox ended");
}

static void
on_deadline(evutil_socket_t fd, short what, void *ctx)
{
	struct listener *l = ctx;

	(void)fd;
	(void)what;
	opened(l, ETIMEDOUT, l->fd < 0 ? "its socket did not come in time" :
	    "what its clients need was not there in time");
}

/* Hand what its clients need to the engine.  0, errno with err set. */
static int
send_trust(struct listener *l, struct sbx_err *err)
{
	struct proxy *x = l->x;
	struct sbx_proxy_trust m = { .container = l->container };
	int fds[4] = { -1, -1, -1, -1 }, r;

	if (x->engine == NULL)
		return (sbx_err_set(err, ENOTCONN, "there is no engine"));
	if (x->roots == NULL)
		return (sbx_err_set(err, ENOENT, "no system roots were found: "
		    "install ca-certificates or set upstream_ca"));
	if (l->ca == NULL && ca_make(l->container, &x->policy, &l->ca,
	    err) < 0)
		return (EIO);
	if (ca_trust(l->ca, x->roots, fds, err) < 0)
		return (EIO);
	r = sbx_send_proxy_trust(x->engine, sbx_peer_next_id(x->engine), &m,
	    fds);
	for (size_t i = 0; i < SBX_NELEM(fds); i++)
		sbx_close(&fds[i]);
	return (r < 0 ? sbx_err_set(err, EPIPE, "the engine: %s",
	    sbx_error_name(r)) : 0);
}

void
listener_came(struct listener *l)
{
	struct sbx_err err = { 0 };
	int r;

	if (!l->open)
		return;
	/* built anew, it goes on: its clients trust us a moment later */
	if (l->trusted && (r = accept_start(l)) != 0)
		log_warn("a sandbox's egress is not open any more: %s "
		    "container=%s", strerror(r), l->container);
	if ((r = send_trust(l, &err)) == 0)
		return;
	if (l->deadline != NULL)
		opened(l, r, err.msg);
	else
		log_warn("a sandbox's clients will not trust us: %s "
		    "container=%s", err.msg, l->container);
}

void
listener_open(struct proxy *x, uint32_t id, const char *container,
    const char *principal)
{
	const struct timeval wait = { .tv_sec = OPENING_S };
	const char *reason;
	int error;
	struct listener *l = listener_get(x, container, &error, &reason);

	if (l == NULL) {
		answer(x, id, container, error, reason);
		return;
	}
	if (l->deadline != NULL) {
		answer(x, id, container, EBUSY, "it is being opened");
		return;
	}
	if (l->open && l->accept != NULL) {
		answer(x, id, container, 0, "");
		return;
	}
	(void)sbx_strlcpy(l->principal, principal,
	    sizeof(l->principal)); /* longer ones do not come through */
	l->open = true;
	l->trusted = false;
	l->open_id = id;
	l->deadline = evtimer_new(x->base, on_deadline, l);
	if (l->deadline == NULL || evtimer_add(l->deadline, &wait) < 0)
		sbx_fatal("an opening cannot be timed");
	if (l->fd >= 0)
		listener_came(l);
}

void
listener_kept(struct proxy *x, const char *container, int fd)
{
	SBX_CLEANUP(fd) int owned = fd;
	struct sbx_err err = { 0 };
	const char *reason = "it has one";
	int error;
	struct listener *l = listener_get(x, container, &error, &reason);

	if (l == NULL || l->ca != NULL)
		log_warn("a kept authority was not taken: %s container=%s",
		    reason, l == NULL ? "-" : l->container);
	else if (ca_load(owned, container, &l->ca, &err) < 0)
		log_warn("a kept authority was not taken: %s container=%s",
		    err.msg, l->container);
}

void
listener_trusted(struct proxy *x, const char *container, int error,
    const char *reason)
{
	struct listener *l = listener_find(x, container);
	int r;

	if (l == NULL || !l->open)
		return;
	if (error != 0) {
		if (l->deadline == NULL)
			log_warn("a sandbox's clients do not trust us: %s "
			    "container=%s", reason, l->container);
		opened(l, error > 0 ? error : EIO, reason);
		return;
	}
	l->trusted = true;
	r = accept_start(l);
	opened(l, r, r == 0 ? "" : strerror(r));
}
