/*
 * Any bytes on an HTTP connection of the front: requests, sessions, event
 * streams, JSON-RPC in bodies.  What is behind a NUL answers the calls that
 * are in flight then.
 */
#include "common/base/log.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/http.h"

#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static struct front front;

/* Everybody is somebody: the token "" that http_auth none stands for. */
static void
make_front(struct front *f)
{
	sbx_log_init("fuzz", SBX_LOG_ERR);
	if (front_init(f, event_base_new(), "") != 0)
		abort();
	f->http_open = true;
	f->listeners[LISTENER_HTTP].f = f;
	f->listeners[LISTENER_HTTP].max = SBX_MAX_HTTP;
}

static void
know_users(struct front *f)
{
	for (struct http_user *u = f->users; u != NULL; u = u->next)
		if (!u->known)
			http_user_known(f, u->number, u->number);
}

/* All that was sent must be answers of HTTP/1.1. */
static void
check_output(int fd)
{
	static char buf[65536];
	ssize_t n, all = 0;

	while ((n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
		if (all == 0 && (n < 9 || memcmp(buf, "HTTP/1.1 ", 9) != 0))
			abort();
		all += n;
	}
}

static void
answer(struct front *f)
{
	struct sbx_call_refused m = { .code = "busy", .reason = "r",
		.next = "" };

	for (size_t i = 0; i < SBX_FRONT_CALLS; i++) {
		if (f->calls[i] == NULL)
			continue;
		m.call = f->calls[i]->number;
		calls_progress(f, &(struct sbx_call_progress){ .call = m.call,
		    .done = 1, .message = "m" });
		if (f->calls[i] != NULL && f->calls[i]->kind != CALL_LISTEN)
			calls_refused(f, &m);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct front *f = &front;
	const uint8_t *nul;
	int pair[2];
	size_t n;

	if (f->base == NULL)
		make_front(f);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == -1)
		abort();
	f->listeners[LISTENER_HTTP].count++;
	conn_new_http(&f->listeners[LISTENER_HTTP], pair[0]);
	nul = size > 0 ? memchr(data, 0, size) : NULL;
	n = nul == NULL ? size : (size_t)(nul - data);
	conn_feed(f->conns, data, n / 2);
	know_users(f);
	if (f->conns->state == CONN_OPEN)
		conn_feed(f->conns, data + n / 2, n - n / 2);
	know_users(f);
	answer(f);
	check_output(pair[1]);
	conn_free(f->conns);
	(void)close(pair[1]);
	while (f->sessions != NULL)
		http_session_end(f->sessions);
	while (f->streams != NULL)
		stream_free(f->streams);
	if (f->ncalls != 0 || f->conns != NULL || f->nstreams != 0 ||
	    f->listeners[LISTENER_HTTP].count != 0)
		abort();
	for (struct http_user *u = f->users; u != NULL; u = u->next)
		if (u->refs != 0)
			abort();
	return (0);
}
