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

static void
tell_full(struct listener *l)
{
	uint64_t now = sbx_mono_ns();

	if (l->full_ns != 0 && now - l->full_ns < FULL_NS)
		return;
	l->full_ns = now;
	log_warn("all %u connections are taken, waiting", l->max);
}

static void
on_accept(int fd, short what, void *arg)
{
	static const struct timeval again = { 0, AGAIN_MS * 1000 };
	struct listener *l = arg;
	int i, client;

	(void)what;
	for (i = 0; i < ACCEPT_BATCH; i++) {
		if (l->count >= l->max) {
			/* the others wait; listen_freed() goes on */
			tell_full(l);
			conn_make_room(l);
			(void)event_del(l->ev);
			return;
		}
		client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (client >= 0) {
			l->count++;
			l->accepted(l, client);
			continue;
		}
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		log_warn("accept: %s, trying again", strerror(errno));
		(void)event_del(l->ev);
		(void)evtimer_add(l->again, &again);
		return;
	}
}

void
listen_freed(struct listener *l)
{
	if (l->count-- == l->max && l->ev != NULL)
		(void)event_add(l->ev, NULL);
}

static void
on_again(int fd, short what, void *arg)
{
	struct listener *l = arg;

	(void)fd;
	(void)what;
	if (l->count < l->max)
		(void)event_add(l->ev, NULL);
}

int
front_listen(struct front *f, enum listener_kind kind, int fd)
{
	static const struct {
		unsigned max;
		void (*accepted)(struct listener *l, int fd);
	} kinds[LISTENER_MAX] = {
		[LISTENER_UNIX] = { SBX_MAX_CONNECTIONS, conn_new_unix },
		[LISTENER_HTTP] = { SBX_MAX_HTTP, conn_new_http },
	};
	struct listener *l = &f->listeners[kind];

	if (l->ev != NULL) {
		(void)close(fd);
		return (SBX_E_EXISTS);
	}
	if (evutil_make_socket_nonblocking(fd) != 0)
		log_warn("listener stays blocking: %s, ignoring",
		    strerror(errno));
	l->f = f;
	l->max = kinds[kind].max;
	l->accepted = kinds[kind].accepted;
	l->ev = event_new(f->base, fd, EV_READ | EV_PERSIST, on_accept, l);
	l->again = evtimer_new(f->base, on_again, l);
	if (l->ev == NULL || l->again == NULL || event_add(l->ev, NULL) != 0)
		sbx_fatal("the listener cannot be watched");
	return (0);
}

void
listen_clear(struct listener *l)
{
	if (l->ev != NULL)
		event_free(l->ev);
	if (l->again != NULL)
		event_free(l->again);
	l->ev = l->again = NULL;
}
