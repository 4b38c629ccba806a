#include "common/base/log.h"
#include "sbxd/front/conn.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_BATCH 16
#define FULL_NS UINT64_C(60000000000) /* then it is said again */
#define AGAIN_MS 200	/* after an error such as no descriptors left */

/* The client is not known yet, so nothing of it is read: the monitor looks
 * at the socket's credentials itself. */
static void
accepted(struct front *f, int fd)
{
	struct conn *c = conn_new_unix(f, fd);

	if (monitor_auth(f, c->number, fd) != 0)
		conn_end(c, "the monitor cannot be asked who it is");
}

static void
tell_full(struct front *f)
{
	uint64_t now = sbx_mono_ns();

	if (f->full_ns != 0 && now - f->full_ns < FULL_NS)
		return;
	f->full_ns = now;
	log_warn("all %d connections are taken, waiting",
	    SBX_MAX_CONNECTIONS);
}

static void
on_accept(int fd, short what, void *arg)
{
	static const struct timeval again = { 0, AGAIN_MS * 1000 };
	struct front *f = arg;
	int i, client;

	(void)what;
	for (i = 0; i < ACCEPT_BATCH; i++) {
		if (f->nconns >= SBX_MAX_CONNECTIONS) {
			/* the others wait; conn_free() goes on */
			tell_full(f);
			(void)event_del(f->listener);
			return;
		}
		client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (client >= 0) {
			accepted(f, client);
			continue;
		}
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		log_warn("accept: %s, trying again", strerror(errno));
		(void)event_del(f->listener);
		(void)evtimer_add(f->listen_again, &again);
		return;
	}
}

static void
on_again(int fd, short what, void *arg)
{
	struct front *f = arg;

	(void)fd;
	(void)what;
	if (f->nconns < SBX_MAX_CONNECTIONS)
		(void)event_add(f->listener, NULL);
}

int
front_listen(struct front *f, int fd)
{
	if (f->listener != NULL) {
		(void)close(fd);
		return (SBX_E_EXISTS);
	}
	if (evutil_make_socket_nonblocking(fd) != 0)
		log_warn("listener stays blocking: %s, ignoring",
		    strerror(errno));
	f->listener = event_new(f->base, fd, EV_READ | EV_PERSIST, on_accept,
	    f);
	f->listen_again = evtimer_new(f->base, on_again, f);
	if (f->listener == NULL || f->listen_again == NULL ||
	    event_add(f->listener, NULL) != 0)
		sbx_fatal("the listener cannot be watched");
	return (0);
}
