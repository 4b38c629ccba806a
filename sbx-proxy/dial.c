#include "sbx-proxy/dial.h"

#include "common/base/log.h"
#include "sbx-proxy/addr.h"
#include "sbx-proxy/resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#define TRY_S 6			/* for one address, when there are more */

struct dial {
	struct proxy *x;
	struct host host;
	uint16_t port;
	dial_done done;
	void *ctx;
	struct ask *ask;	/* owned; NULL: none under way */
	struct sockaddr_storage addrs[DIAL_ADDRS];
	unsigned n, next;
	int fd;			/* owned */
	struct event *connected; /* owned; NULL: none under way */
	struct event *timer;	/* owned; of one address */
	struct event *deadline;	/* owned; of all */
	bool begun;
	const char *code;	/* of what went wrong last */
	char why[512];
};

static socklen_t
addr_len(const struct sockaddr_storage *ss)
{
	return (ss->ss_family == AF_INET ? sizeof(struct sockaddr_in) :
	    sizeof(struct sockaddr_in6));
}

static const char *
addr_text(const struct sockaddr_storage *ss, char text[INET6_ADDRSTRLEN])
{
	const void *p = ss->ss_family == AF_INET ?
	    (const void *)&((const struct sockaddr_in *)ss)->sin_addr :
	    (const void *)&((const struct sockaddr_in6 *)ss)->sin6_addr;

	if (inet_ntop(ss->ss_family, p, text, INET6_ADDRSTRLEN) == NULL)
		return ("an address");
	return (text);
}

static bool
addr_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b,
    bool with_port)
{
	const struct sockaddr_in *a4 = (const struct sockaddr_in *)a,
	    *b4 = (const struct sockaddr_in *)b;
	const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a,
	    *b6 = (const struct sockaddr_in6 *)b;

	if (a->ss_family != b->ss_family)
		return (false);
	if (a->ss_family == AF_INET)
		return (a4->sin_addr.s_addr == b4->sin_addr.s_addr &&
		    (!with_port || a4->sin_port == b4->sin_port));
	return (memcmp(&a6->sin6_addr, &b6->sin6_addr,
	    sizeof(a6->sin6_addr)) == 0 &&
	    (!with_port || a6->sin6_port == b6->sin6_port));
}

/* --- classification ------------------------------------------------------------ */

/* Can a UDP socket have this address as its own? */
static bool
binds(const struct sockaddr_storage *ss)
{
	SBX_CLEANUP(fd) int fd = socket(ss->ss_family, SOCK_DGRAM |
	    SOCK_CLOEXEC, 0);
	struct sockaddr_storage any = *ss;

	((struct sockaddr_in *)&any)->sin_port = 0; /* same place in both */
	return (fd >= 0 && bind(fd, (struct sockaddr *)&any,
	    addr_len(&any)) == 0);
}

/* Would the kernel answer from the very address that is asked? */
static bool
answers_itself(const struct sockaddr_storage *ss)
{
	SBX_CLEANUP(fd) int fd = socket(ss->ss_family, SOCK_DGRAM |
	    SOCK_CLOEXEC, 0);
	struct sockaddr_storage own = { 0 };
	socklen_t len = sizeof(own);

	return (fd >= 0 && connect(fd, (const struct sockaddr *)ss,
	    addr_len(ss)) == 0 && getsockname(fd, (struct sockaddr *)&own,
	    &len) == 0 && addr_same(&own, ss, false));
}

/*
 * An address of this host leads to what listens on it, as loopback does.  Where
 * any address can be bound (net.ipv4.ip_nonlocal_bind), which those for
 * documentation tell, the weaker question is asked.
 */
static bool
is_own(const struct sockaddr_storage *ss)
{
	struct sockaddr_storage doc = { .ss_family = ss->ss_family };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&doc;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&doc;

	if (!binds(ss))
		return (false);
	if (ss->ss_family == AF_INET)
		v4->sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1 */
	else
		v6->sin6_addr = (struct in6_addr){ .s6_addr = { 0x20, 0x01,
		    0x0d, 0xb8, [15] = 1 } };
	return (!binds(&doc) || answers_itself(ss));
}

/* The port put in, the address kept if it is an ordinary one. */
static void
consider(struct dial *d, const struct sockaddr_storage *from)
{
	struct sockaddr_storage ss = *from;
	char text[INET6_ADDRSTRLEN];
	const char *what;

	if (d->n == DIAL_ADDRS)
		return;
	((struct sockaddr_in *)&ss)->sin_port =
	    htons(d->port); /* same place in both */
	what = addr_special((struct sockaddr *)&ss);
	if (what == NULL && is_own(&ss))
		what = "an address of this host";
	if (what == NULL) {
		d->addrs[d->n++] = ss;
		return;
	}
	d->code = "address_refused";
	(void)snprintf(d->why, sizeof(d->why), "%s%s%s is %s",
	    d->host.kind == HOST_NAME ? d->host.text : "",
	    d->host.kind == HOST_NAME ? " leads to an address that no sandbox "
	    "may reach: " : "", addr_text(&ss, text), what);
}

/* --- its end ---------------------------------------------------------------------- */

void
dial_cancel(struct dial *d)
{
	if (d == NULL)
		return;
	ask_cancel(d->ask);
	if (d->connected != NULL)
		event_free(d->connected);
	event_free(d->timer);
	event_free(d->deadline);
	sbx_close(&d->fd);
	free(d);
}

/* fd: consumed, or -1 */
static void
finish(struct dial *d, int fd)
{
	dial_done done = d->done;
	void *ctx = d->ctx;

	d->done = NULL;
	done(ctx, fd, fd < 0 ? d->code : NULL, fd < 0 ? d->why : NULL);
	dial_cancel(d);
}

static void
on_deadline(evutil_socket_t fd, short what, void *ctx)
{
	struct dial *d = ctx;

	(void)fd;
	(void)what;
	d->code = "timeout";
	(void)snprintf(d->why, sizeof(d->why), "%s did not answer in %d s",
	    d->host.text, DIAL_S);
	finish(d, -1);
}

/* --- connecting ------------------------------------------------------------------- */

static void connect_next(struct dial *d);

static void
failed(struct dial *d, int error)
{
	char text[INET6_ADDRSTRLEN];

	d->code = error == ETIMEDOUT ? "timeout" : "connect_failed";
	(void)snprintf(d->why, sizeof(d->why), "%s (%s) cannot be reached: %s",
	    d->host.text, addr_text(&d->addrs[d->next - 1], text),
	    strerror(error));
}

static void
end_try(struct dial *d)
{
	if (d->connected != NULL)
		event_free(d->connected);
	d->connected = NULL;
	(void)event_del(d->timer); /* fails without a base only */
	sbx_close(&d->fd);
}

static void
on_connected(evutil_socket_t fd, short what, void *ctx)
{
	struct dial *d = ctx;
	struct sockaddr_storage peer = { 0 };
	socklen_t len = sizeof(peer);
	int error = 0, on = 1;
	socklen_t n = sizeof(error);

	(void)what;
	if (getsockopt((int)fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
		error = errno;
	if (error == 0 && getpeername((int)fd, (struct sockaddr *)&peer,
	    &len) < 0)
		error = errno;
	if (error == 0 && !addr_same(&peer, &d->addrs[d->next - 1], true))
		error = EADDRNOTAVAIL;
	if (error != 0) {
		failed(d, error);
		connect_next(d);
		return;
	}
	(void)setsockopt((int)fd, IPPROTO_TCP, TCP_NODELAY, &on,
	    sizeof(on)); /* known to TCP */
	event_free(d->connected);
	d->connected = NULL;
	finish(d, sbx_steal_fd(&d->fd));
}

static void
on_slow(evutil_socket_t fd, short what, void *ctx)
{
	struct dial *d = ctx;

	(void)fd;
	(void)what;
	failed(d, ETIMEDOUT);
	connect_next(d);
}

/* False: at once it cannot be. */
static bool
connect_one(struct dial *d, const struct sockaddr_storage *ss)
{
	const struct timeval wait = { .tv_sec = TRY_S };

	d->fd = socket(ss->ss_family, SOCK_STREAM | SOCK_NONBLOCK |
	    SOCK_CLOEXEC, 0);
	if (d->fd < 0 || (connect(d->fd, (const struct sockaddr *)ss,
	    addr_len(ss)) < 0 && errno != EINPROGRESS)) {
		failed(d, errno);
		return (false);
	}
	d->connected = event_new(d->x->base, d->fd, EV_WRITE, on_connected, d);
	if (d->connected == NULL || event_add(d->connected, NULL) < 0 ||
	    (d->next < d->n && evtimer_add(d->timer, &wait) < 0))
		sbx_fatal("a connection cannot be watched");
	return (true);
}

static void
connect_next(struct dial *d)
{
	do {
		end_try(d);
		if (d->next == d->n) {
			finish(d, -1);
			return;
		}
	} while (!connect_one(d, &d->addrs[d->next++]));
}

/* --- from a name to addresses ----------------------------------------------------- */

/* One of each family in turn, so that a broken one costs one try. */
static void
consider_all(struct dial *d, const struct dns_addrs *addrs)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };
	unsigned at[2] = { 0, 0 }, k;
	bool more = true;

	while (more) {
		more = false;
		for (k = 0; k < 2; k++) {
			while (at[k] < addrs->n &&
			    addrs->addr[at[k]].ss_family != families[k])
				at[k]++;
			if (at[k] < addrs->n) {
				consider(d, &addrs->addr[at[k]++]);
				more = true;
			}
		}
	}
}

static void
on_addrs(void *ctx, const struct dns_addrs *addrs, const char *why)
{
	struct dial *d = ctx;

	d->ask = NULL;
	if (addrs != NULL)
		consider_all(d, addrs);
	else {
		d->code = "dns_failed";
		(void)snprintf(d->why, sizeof(d->why), "%s %s", d->host.text,
		    why);
	}
	connect_next(d);
}

static void
consider_literal(struct dial *d)
{
	struct sockaddr_storage ss = { 0 };

	if (d->host.kind == HOST_V4) {
		ss.ss_family = AF_INET;
		(void)inet_pton(AF_INET, d->host.text,
		    &((struct sockaddr_in *)&ss)->sin_addr);
	} else {
		ss.ss_family = AF_INET6;
		(void)inet_pton(AF_INET6, d->host.text,
		    &((struct sockaddr_in6 *)&ss)->sin6_addr);
	}
	consider(d, &ss);
}

static void
begin(struct dial *d)
{
	const struct policy_pin *pin = policy_pin(&d->x->policy, &d->host,
	    d->port);

	if (pin != NULL)
		d->addrs[d->n++] = pin->addr;
	else if (d->host.kind != HOST_NAME)
		consider_literal(d);
	else if (d->x->dns != NULL) {
		d->ask = ask_start(d->x->dns, d->host.text, on_addrs, d);
		return;
	} else {
		d->code = "dns_failed";
		(void)snprintf(d->why, sizeof(d->why), "%s cannot be looked "
		    "up: no name server is configured", d->host.text);
	}
	connect_next(d);
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
	struct dial *d = ctx;

	if (d->begun) {
		on_slow(fd, what, ctx);
		return;
	}
	d->begun = true;
	begin(d);
}

struct dial *
dial_start(struct proxy *x, const struct host *h, uint16_t port,
    dial_done done, void *ctx)
{
	const struct timeval all = { .tv_sec = DIAL_S }, now = { 0 };
	struct dial *d = sbx_xcalloc(1, sizeof(*d));

	d->x = x;
	d->host = *h;
	d->port = port;
	d->done = done;
	d->ctx = ctx;
	d->fd = -1;
	d->deadline = evtimer_new(x->base, on_deadline, d);
	d->timer = evtimer_new(x->base, on_timer, d);
	if (d->deadline == NULL || d->timer == NULL ||
	    evtimer_add(d->deadline, &all) < 0 ||
	    evtimer_add(d->timer, &now) < 0)
		sbx_fatal("a connection cannot be timed");
	return (d);
}

void
dial_resolver(struct proxy *x, const char *text)
{
	resolver_free(x->dns);
	x->dns = resolver_new(x->base, text);
}
