/*
 * Accepting from sockets that a sandbox may hold a duplicate of.  Whatever is
 * a property of the socket (its file flags, its options, whether it listens)
 * the sandbox can change at any moment, so none of it is relied on:
 * accept4(2) may be made to block, and what is accepted inherits options.
 */

#include "sbx-proxy/record.h"

#include "common/base/log.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#define BACKLOG 128
#define TURN 16			/* taken from one sandbox, then others' turn */
#define CONNS_OWN 4		/* that each can have, whatever others hold */
#define BLOCKED_MS 100		/* an accept4(2) that lasts so long is ended */
#define SHORT_MS 100		/* without descriptors, then again */

static void
on_alarm(int sig)
{
	(void)sig;
}

void
accept_init(void)
{
	struct sigaction sa = { .sa_handler = on_alarm }; /* no SA_RESTART */

	(void)sigemptyset(&sa.sa_mask); /* never fails */
	if (sigaction(SIGALRM, &sa, NULL) < 0)
		sbx_fatal("sigaction: %s", strerror(errno));
}

/* Repeated, since the first may come before the call that it is for. */
static void
watch(unsigned ms)
{
	struct timeval t = { .tv_usec = (suseconds_t)ms * 1000 };
	struct itimerval it = { .it_interval = t, .it_value = t };

	if (setitimer(ITIMER_REAL, &it, NULL) < 0)
		sbx_fatal("setitimer: %s", strerror(errno));
}

/*
 * What an accepted socket inherits is the sandbox's choice.  A lingering close
 * would make close(2) wait; time stamps lie in a queue of errors, which makes
 * the socket ready for ever; peeking from an offset sees other bytes than are
 * read next, or none where there are some.
 */
static void
disinherit(int fd)
{
	static const struct { int option, value; } clean[] = {
		{ SO_TIMESTAMPING, 0 }, { SO_PEEK_OFF, -1 },
	};
	const struct linger none = { 0 };
	const int on = 1, off = 0;

	/* each is known to TCP, or cannot have been set before either */
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	for (size_t i = 0; i < SBX_NELEM(clean); i++)
		(void)setsockopt(fd, SOL_SOCKET, clean[i].option,
		    &clean[i].value, sizeof(clean[i].value));
	(void)setsockopt(fd, IPPROTO_IP, IP_RECVERR, &off, sizeof(off));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* A descriptor or -errno. */
static int
take(struct listener *l)
{
	int flags = fcntl(l->fd, F_GETFL), fd;

	if (flags < 0 || (flags & O_NONBLOCK) == 0)
		return (-EINTR);
	if ((fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK |
	    SOCK_CLOEXEC)) < 0)
		return (-errno);
	disinherit(fd);
	return (fd);
}

static void
pause_accept(struct listener *l)
{
	l->paused = true;
	(void)event_del(l->accept); /* fails without a base only */
}

/* Connections that others may still come to have, however many there are. */
static unsigned
kept(const struct proxy *x)
{
	const struct listener *l;
	unsigned n = 0;

	if (x->nconns + SBX_MAX_SANDBOXES * CONNS_OWN <
	    SBX_PROXY_CONNS_ALL)
		return (0);	/* no matter */
	LIST_FOREACH(l, &x->listeners, link)
		if (l->accept != NULL && l->nconns < CONNS_OWN)
			n += CONNS_OWN - l->nconns;
	return (n);
}

/* A few sandboxes that hold all they may must not keep another out. */
static bool
room(const struct listener *l)
{
	if (l->nconns >= SBX_PROXY_CONNS)
		return (false);
	return (l->nconns < CONNS_OWN ||
	    l->x->nconns + kept(l->x) < SBX_PROXY_CONNS_ALL);
}

static void
resume(struct listener *l)
{
	if (!l->paused || l->accept == NULL || !room(l))
		return;
	l->paused = false;
	if (event_add(l->accept, NULL) < 0)
		sbx_fatal("a listener cannot be watched");
}

static void
on_later(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd;
	(void)what;
	resume(ctx);
}

static bool
has_room(struct listener *l)
{
	if (room(l))
		return (true);
	pause_accept(l);
	l->x->full = l->x->full || l->nconns < SBX_PROXY_CONNS;
	record_denied(l, LAYER_LIMIT, "too_many_connections", "",
	    "there are as many connections as can be; more wait");
	return (false);
}

/* What accept4(2) said; true: go on. */
static bool
survives(struct listener *l, int error)
{
	const struct timeval soon = { .tv_usec = SHORT_MS * 1000 };

	switch (error) {
	case EAGAIN:
		return (false);
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		pause_accept(l);
		if (evtimer_add(l->later, &soon) < 0)
			sbx_fatal("a listener cannot wait");
		return (false);
	case EINTR:
	case EINVAL:
	case EBADF:
		/* its file flags were changed, or it was shut down */
		log_warn("a sandbox tampered with its listener, which is "
		    "closed container=%s", l->container);
		record_denied(l, LAYER_LIMIT, "listener_tampered", "",
		    "the sandbox changed the listening socket, which was "
		    "closed");
		accept_stop(l);
		sbx_close(&l->fd);
		l->netns = 0;
		return (false);
	default:
		return (true); /* of that one connection; accept(2) */
	}
}

static void
on_accept(evutil_socket_t unused, short what, void *ctx)
{
	struct listener *l = ctx;
	int i, fd;

	(void)unused;
	(void)what;
	watch(BLOCKED_MS);
	for (i = 0; i < TURN && has_room(l); i++) {
		if ((fd = take(l)) >= 0)
			client_start(l, fd);
		else if (!survives(l, -fd))
			break;
	}
	watch(0);
}

int
accept_start(struct listener *l)
{
	int flags;

	if (l->accept != NULL)
		return (0);
	if ((flags = fcntl(l->fd, F_GETFL)) < 0 ||
	    fcntl(l->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    listen(l->fd, BACKLOG) < 0)
		return (errno);
	l->accept = event_new(l->x->base, l->fd, EV_READ | EV_PERSIST,
	    on_accept, l);
	l->later = evtimer_new(l->x->base, on_later, l);
	if (l->accept == NULL || l->later == NULL ||
	    event_add(l->accept, NULL) < 0)
		sbx_fatal("a listener cannot be watched");
	l->paused = false;
	return (0);
}

void
accept_stop(struct listener *l)
{
	if (l->accept == NULL)
		return;
	event_free(l->accept);
	event_free(l->later);
	l->accept = l->later = NULL;
}

bool
conn_add(struct conn *c, struct listener *l,
    void (*end)(struct conn *c, const char *why))
{
	/* the others' share was looked at when it was accepted */
	if (l->nconns >= SBX_PROXY_CONNS)
		return (false);
	c->l = l;
	c->end = end;
	LIST_INSERT_HEAD(&l->conns, c, link);
	l->nconns++;
	l->x->nconns++;
	return (true);
}

void
conn_remove(struct conn *c)
{
	struct proxy *x = c->l->x;
	struct listener *l;

	LIST_REMOVE(c, link);
	c->l->nconns--;
	x->nconns--;
	resume(c->l);
	if (!x->full)
		return;
	x->full = false;
	LIST_FOREACH(l, &x->listeners, link) {
		resume(l);
		x->full = x->full || (l->paused &&
		    l->nconns < SBX_PROXY_CONNS);
	}
}
