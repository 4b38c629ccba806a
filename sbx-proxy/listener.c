/* The sandboxes' egress sockets: what is taken, held and closed. */

#include "sbx-proxy/ca.h"
#include "sbx-proxy/grant.h"
#include "sbx-proxy/record.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71	/* Linux 5.14 */
#endif

/* The kernel's number of the socket's network namespace: never reused while
 * the system runs, and the same for all who ask. */
static uint64_t
netns_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	/* 0: a kernel that cannot say; nothing is compared then. */
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) < 0)
		return (0);
	return (cookie);
}

void
listener_init(struct proxy *x)
{
	SBX_CLEANUP(fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC,
	    0);

	x->own_netns = fd < 0 ? 0 : netns_of(fd);
}

static bool
option_is(int fd, int option, int want)
{
	int value;
	socklen_t len = sizeof(value);

	return (getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 &&
	    value == want);
}

/*
 * NULL, or what is wrong with it.  The sandbox may keep a duplicate and go on
 * using it after this: so whoever is to listen or accept must not rely on
 * more than the address and the namespace, which cannot change any more.
 */
static const char *
check_socket(int fd, bool may_listen)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&ss;
	socklen_t len = sizeof(ss);

	if (!option_is(fd, SO_DOMAIN, AF_INET))
		return ("not an IPv4 socket");
	if (!option_is(fd, SO_TYPE, SOCK_STREAM) ||
	    !option_is(fd, SO_PROTOCOL, IPPROTO_TCP))
		return ("not a TCP socket");
	if (!may_listen && !option_is(fd, SO_ACCEPTCONN, 0))
		return ("it listens already");
	if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0 ||
	    len != sizeof(*in) || in->sin_family != AF_INET ||
	    in->sin_addr.s_addr != htonl(INADDR_LOOPBACK) ||
	    in->sin_port != htons(SBX_EGRESS_PORT))
		return ("not bound to 127.0.0.1:3128");
	len = sizeof(ss);
	/* a bound socket may be connected all the same: it then leads to a peer
	 * of the sandbox's choice */
	if (getpeername(fd, (struct sockaddr *)&ss, &len) == 0 ||
	    errno != ENOTCONN)
		return ("it is connected");
	return (NULL);
}

struct listener *
listener_find(struct proxy *x, const char *container)
{
	struct listener *l;

	LIST_FOREACH(l, &x->listeners, link)
		if (strcmp(l->container, container) == 0)
			return (l);
	return (NULL);
}

static bool
was_closed(const struct proxy *x, const char *container)
{
	for (size_t i = 0; i < SBX_PROXY_CLOSED; i++)
		if (strcmp(x->closed[i], container) == 0)
			return (true);
	return (false);
}

/* The socket names the sandbox, so no two may share a namespace, and none
 * may be in ours, where it would serve the host's own programs. */
static const char *
check_netns(const struct proxy *x, uint64_t netns)
{
	const struct listener *l;

	if (netns == 0)
		return (NULL);
	if (netns == x->own_netns)
		return ("it is in the proxy's own network namespace");
	LIST_FOREACH(l, &x->listeners, link)
		if (l->netns == netns)
			return ("another sandbox's is in its network namespace");
	return (NULL);
}

static void
end_conns(struct listener *l, const char *why)
{
	struct conn *c;

	while ((c = LIST_FIRST(&l->conns)) != NULL)
		c->end(c, why);
}

static void
listener_remove(struct listener *l, const char *why)
{
	struct proxy *x = l->x;

	accept_stop(l);
	end_conns(l, why);
	listener_not_opened(l);
	grant_sandbox_ended(x, l);
	record_flush(l);
	denials_free(l->denials);
	ca_free(l->ca);
	sbx_close(&l->fd);
	LIST_REMOVE(l, link);
	x->nlisteners--;
	free(l);
}

struct listener *
listener_get(struct proxy *x, const char *container, int *ret_errno,
    const char **ret_reason)
{
	struct listener *l = listener_find(x, container);

	if (l != NULL)
		return (l);
	/* each reason stands before the check that may return with it */
	*ret_errno = EINVAL;
	*ret_reason = "not a container id";
	if (!sbx_is_hex(container, SBX_CONTAINER_HEX))
		return (NULL);
	*ret_errno = EEXIST;
	*ret_reason = "this sandbox ended already";
	if (was_closed(x, container))
		return (NULL);
	*ret_errno = ENFILE;
	*ret_reason = "no more sockets can be held";
	if (x->nlisteners == SBX_MAX_SANDBOXES)
		return (NULL);
	l = sbx_xcalloc(1, sizeof(*l));
	l->x = x;
	l->fd = -1;
	LIST_INIT(&l->conns);
	LIST_INIT(&l->grants);
	LIST_INSERT_HEAD(&x->listeners, l, link);
	x->nlisteners++;
	/* Its length was checked above. */
	(void)sbx_strlcpy(l->container, container, sizeof(l->container));
	return (l);
}

int
listener_add(struct proxy *x, const char *container, int fd,
    const char **ret_reason)
{
	SBX_CLEANUP(fd) int owned = fd;
	struct listener *l;
	uint64_t netns;
	int error;

	*ret_reason = "not a container id";
	if (!sbx_is_hex(container, SBX_CONTAINER_HEX))
		return (EINVAL);
	*ret_reason = "this sandbox ended already";
	if (was_closed(x, container))
		return (EEXIST);
	l = listener_find(x, container);
	/* a proxy before this one made it listen, and its authority was kept */
	if ((*ret_reason = check_socket(owned, l != NULL && l->fd == -1 &&
	    l->ca != NULL)) != NULL)
		return (EINVAL);
	netns = netns_of(owned);
	/* A sandbox that was built anew has another namespace; the one before
	 * has nobody in it any more. */
	*ret_reason = "this sandbox has one already";
	if (l != NULL && l->fd >= 0 && (l->netns == 0 || l->netns == netns))
		return (EEXIST);
	if ((*ret_reason = check_netns(x, netns)) != NULL)
		return (EINVAL);
	if ((l = listener_get(x, container, &error, ret_reason)) == NULL)
		return (error);
	*ret_reason = "";
	accept_stop(l);
	end_conns(l, "the sandbox was built anew");
	grant_sandbox_ended(x, l); /* they were for what was in there */
	sbx_close(&l->fd);
	l->fd = sbx_steal_fd(&owned);
	l->netns = netns;
	listener_came(l);
	return (0);
}

void
listener_close(struct proxy *x, const char *container)
{
	struct listener *l = listener_find(x, container);

	if (!sbx_is_hex(container, SBX_CONTAINER_HEX))
		return;
	(void)sbx_strlcpy(x->closed[x->closed_next], container,
	    sizeof(x->closed[0])); /* its length was checked above */
	x->closed_next = (x->closed_next + 1) % SBX_PROXY_CLOSED;
	if (l != NULL)
		listener_remove(l, "the sandbox ended");
}

void
listener_close_all(struct proxy *x)
{
	struct listener *l;

	while ((l = LIST_FIRST(&x->listeners)) != NULL)
		listener_remove(l, "the sandboxes ended");
}

/* Does the policy lead it where the one before did? */
static bool
led_alike(const struct conn *c, const struct policy *was,
    const struct policy *is)
{
	const struct policy_pin *a = policy_pin(was, &c->host, c->port),
	    *b = policy_pin(is, &c->host, c->port);

	return (a == NULL || b == NULL ? a == b : a->len == b->len &&
	    memcmp(&a->addr, &b->addr, a->len) == 0);
}

void
listener_recheck(struct proxy *x, const struct policy *old)
{
	struct listener *l;
	struct conn *c, *next;
	struct verdict v;

	LIST_FOREACH(l, &x->listeners, link)
		for (c = LIST_FIRST(&l->conns); c != NULL; c = next) {
			next = LIST_NEXT(c, link);
			if (!c->led)
				continue;
			policy_decide(&x->policy, c->scheme, &c->host, c->port,
			    &v);
			if (!v.allowed || v.how != c->how)
				c->end(c, "the policy does not allow it any "
				    "more");
			else if (!led_alike(c, old, &x->policy))
				c->end(c, "the policy leads it elsewhere");
		}
}
