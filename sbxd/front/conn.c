#include "sbxd/front/conn.h"

#include "common/base/log.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/http.h"
#include "sbxd/front/inputs.h"
#include "sbxd/front/reply.h"
#include "sbxd/front/subs.h"
#include "sbxd/front/tasks.h"

#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 *	accept ---> AUTH ---> OPEN <---> PAUSED		stdio begins in OPEN
 *	              \        |         /
 *	               +---> DEAD <----+		freed from the loop
 *
 * Anybody may end a connection at any place, also while it is used: DEAD only
 * stops it, and its memory goes when nothing above uses it any more.
 */

#define MS_NS UINT64_C(1000000)
#define AUTH_MS 5000		/* for the monitor's answer */
#define LINE_MS 60000		/* from a message's first byte to its last */
#define STALL_MS 120000		/* a client that takes none of its output */
#define IDLE_MS 600000		/* an HTTP connection between requests */
#define RESUME_MS 5

static const char *const state_names[CONN_STATE_MAX] = {
	"auth", "open", "paused", "dead"
};

/* Which states may follow which: a mask of 1 << state. */
static const uint8_t follows[CONN_STATE_MAX] = {
	[CONN_AUTH] = 1 << CONN_OPEN | 1 << CONN_DEAD,
	[CONN_OPEN] = 1 << CONN_PAUSED | 1 << CONN_DEAD,
	[CONN_PAUSED] = 1 << CONN_OPEN | 1 << CONN_DEAD,
};

static void
read_on(struct conn *c)
{
	c->line_ns = sbx_mono_ns();
	/* a file is never "ready": its event fires at once instead */
	if (c->io_in == CONN_IO_FILE)
		event_active(c->ev_in, EV_TIMEOUT, 0);
	else if (event_add(c->ev_in, NULL) != 0)
		conn_end(c, "its input cannot be watched");
}

static void
read_off(struct conn *c)
{
	(void)event_del(c->ev_in);	/* fails only where it was not added */
}

/* Its own output wakes a paused connection; nothing tells that the monitor
 * has caught up, so that is looked at. */
static void
enter_paused(struct conn *c)
{
	static const struct timeval soon = { 0, RESUME_MS * 1000 };

	read_off(c);
	if (monitor_lags(c->f) && !evtimer_pending(c->f->resume, NULL) &&
	    evtimer_add(c->f->resume, &soon) != 0)
		sbx_fatal("no timer for paused connections");
}

void
conn_on_resume(int fd, short what, void *arg)
{
	struct front *f = arg;
	struct conn *c, *next;

	(void)fd;
	(void)what;
	for (c = f->conns; c != NULL; c = next) {
		next = c->next;	/* they are freed from the loop only */
		conn_resume(c);
		if (c->state == CONN_PAUSED)
			enter_paused(c);
	}
}

static void
enter_dead(struct conn *c)
{
	read_off(c);
	(void)event_del(c->ev_out);
	(void)event_del(c->ev_next);
	(void)event_del(c->deadline);
	event_active(c->reap, EV_TIMEOUT, 0);
}

static void (*const on_enter[CONN_STATE_MAX])(struct conn *) = {
	[CONN_OPEN] = read_on,
	[CONN_PAUSED] = enter_paused,
	[CONN_DEAD] = enter_dead,
};

void
conn_set_state(struct conn *c, enum conn_state state)
{
	if (c->state == state)
		return;
	if ((follows[c->state] & 1 << state) == 0)
		sbx_fatal("connection %u: %s cannot follow %s", c->number,
		    state_names[state], state_names[c->state]);
	log_debug("connection %u: %s -> %s", c->number,
	    state_names[c->state], state_names[state]);
	c->state = state;
	if (on_enter[state] != NULL)
		on_enter[state](c);
}

void
conn_end(struct conn *c, const char *why)
{
	if (c->state == CONN_DEAD)
		return;
	log_debug("connection ended: %s connection=%u", why, c->number);
	conn_set_state(c, CONN_DEAD);
}

static void
on_reap(int fd, short what, void *arg)
{
	struct conn *c = arg;
	struct front *f = c->f;
	uint64_t principal = c->client.principal; /* HTTP: 0 */
	bool stdio = c->number == 0;

	(void)fd;
	(void)what;
	conn_free(c);
	if (principal != 0)
		tasks_gone(f, principal);
	/* GONE and EOF cancel its calls over there: nothing else is needed.
	 * No channel, no monitor: this process ends by itself. */
	if (stdio)
		(void)monitor_eof(f);
	else if (principal != 0) {
		inputs_forget(f, principal);
		(void)monitor_gone(f, principal);
	}
}

static uint64_t
http_time_ms(const struct conn *c, const char **ret_why)
{
	switch (c->http->state) {
	case HTTP_HEAD:
		*ret_why = "no request came";
		return (c->in.len > c->in_off ? LINE_MS : IDLE_MS);
	case HTTP_ASK:
		*ret_why = "the monitor did not say who it is";
		return (AUTH_MS);
	case HTTP_BODY:
		*ret_why = "a request did not end";
		return (LINE_MS);
	case HTTP_ANSWER:
	case HTTP_STATE_MAX:
		break;
	}
	return (0);
}

/* What of its times is running, and how long it still may; 0: nothing. */
static uint64_t
time_left(const struct conn *c, const char **ret_why)
{
	uint64_t now = sbx_mono_ns(), since, limit;

	if (c->state == CONN_AUTH) {
		since = c->line_ns;
		limit = AUTH_MS * MS_NS;
		*ret_why = "the monitor did not say who it is";
	} else if (c->number == 0 || c->state == CONN_DEAD) {
		return (0);	/* a suspended stdio client keeps its suite */
	} else if (conn_unsent(c) > 0) {
		since = c->sent_ns;
		limit = STALL_MS * MS_NS;
		*ret_why = "it does not read";
	} else if (c->http != NULL) {
		since = c->line_ns;
		limit = http_time_ms(c, ret_why) * MS_NS;
		if (limit == 0)
			return (0);
	} else if (c->in.len > c->in_off || c->discard) {
		since = c->line_ns;
		limit = LINE_MS * MS_NS;
		*ret_why = "a message did not end";
	} else
		return (0);
	return (now - since >= limit ? 1 : limit - (now - since));
}

static void
on_deadline(int fd, short what, void *arg)
{
	struct conn *c = arg;
	const char *why = "";

	(void)fd;
	(void)what;
	if (time_left(c, &why) == 1)
		conn_end(c, why);
	else
		conn_arm(c);
}

void
conn_arm(struct conn *c)
{
	const char *why;
	struct timeval tv;
	uint64_t left;

	if (c->state == CONN_DEAD || evtimer_pending(c->deadline, NULL) ||
	    (left = time_left(c, &why)) == 0)
		return;
	/* rounded up: it must not fire before the time is over */
	left += MS_NS;
	tv.tv_sec = (time_t)(left / 1000 / MS_NS);
	tv.tv_usec = (suseconds_t)(left / 1000 % 1000000);
	if (evtimer_add(c->deadline, &tv) != 0)
		conn_end(c, "no timer for it");
}

static void
on_next(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	conn_take(arg);
}

/* Find out how not to block on fd. */
static enum conn_io
prepare_fd(int fd)
{
	struct stat st;
	int flags;

	if (fstat(fd, &st) != 0)
		return (CONN_IO_FILE);
	if (S_ISCHR(st.st_mode) && isatty(fd))
		return (CONN_IO_TTY);
	if (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode))
		return (CONN_IO_FILE);
	/* The flag is of the open file, which a pipe's user rarely shares with
	 * anybody; a terminal is shared with the shell and is left alone. */
	flags = fcntl(fd, F_GETFL);
	if (flags == -1 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return (CONN_IO_TTY);
	return (CONN_IO_READY);
}

static struct sink *
conn_events(struct client *who)
{
	return (&((struct conn *)((char *)who -
	    offsetof(struct conn, client)))->sink);
}

static struct conn *
conn_new(struct front *f, int fd_in, int fd_out)
{
	struct conn *c = sbx_xcalloc(1, sizeof(*c));

	c->f = f;
	c->sink = (struct sink){ .f = f, .client = &c->client,
		.send = conn_send };
	c->client.events = conn_events;
	c->fd_in = fd_in;
	c->fd_out = fd_out;
	c->first = true;
	c->io_in = prepare_fd(fd_in);
	c->io_out = fd_in == fd_out ? c->io_in : prepare_fd(fd_out);
	c->line_ns = sbx_mono_ns();
	/* the partial message, its newline and one chunk more */
	sbx_buf_init(&c->in, SBX_MAX_JSON + 1 + sizeof(f->chunk));
	sbx_buf_init(&c->sink.out, SBX_FRONT_OUT_MAX);
	c->ev_in = event_new(f->base, c->io_in == CONN_IO_FILE ? -1 : fd_in,
	    EV_READ | EV_PERSIST, conn_on_in, c);
	c->ev_out = event_new(f->base, c->io_out == CONN_IO_FILE ? -1 : fd_out,
	    EV_WRITE, conn_on_out, c);
	c->ev_next = evtimer_new(f->base, on_next, c);
	c->deadline = evtimer_new(f->base, on_deadline, c);
	c->reap = evtimer_new(f->base, on_reap, c);
	if (c->ev_in == NULL || c->ev_out == NULL || c->deadline == NULL ||
	    c->reap == NULL || c->ev_next == NULL)
		sbx_fatal("no memory for a connection");
	c->next = f->conns;
	f->conns = c;
	return (c);
}

static struct conn *
conn_accepted(struct listener *l, int fd)
{
	struct front *f = l->f;
	struct conn *c = conn_new(f, fd, fd);

	c->from = l;
	do {
		c->number = ++f->last_conn;
	} while (c->number == 0);
	return (c);
}

/* The client is not known yet, so nothing of it is read: the monitor looks
 * at the socket's credentials itself. */
void
conn_new_unix(struct listener *l, int fd)
{
	struct conn *c = conn_accepted(l, fd);

	c->state = CONN_AUTH;
	conn_arm(c);
	if (monitor_auth(l->f, c->number, fd) != 0)
		conn_end(c, "the monitor cannot be asked who it is");
}

void
conn_new_http(struct listener *l, int fd)
{
	struct conn *c = conn_accepted(l, fd);

	c->http = http_conn_new();
	c->state = CONN_AUTH;
	conn_set_state(c, CONN_OPEN);
	conn_arm(c);
}

/* HTTP only, where a client that finds its connection closed makes another.
 * Nobody keeps others out by connections that ask for nothing. */
void
conn_make_room(struct listener *l)
{
	struct conn *c, *oldest = NULL;

	for (c = l->f->conns; c != NULL; c = c->next)
		if (c->from == l && c->http != NULL && c->state == CONN_OPEN &&
		    c->http->state == HTTP_HEAD && conn_unsent(c) == 0 &&
		    (oldest == NULL || c->line_ns < oldest->line_ns))
			oldest = c;
	if (oldest != NULL)
		conn_end(oldest, "others wait for a connection");
}

struct conn *
conn_new_stdio(struct front *f, int fd_in, int fd_out, uint64_t principal)
{
	struct conn *c = conn_new(f, fd_in, fd_out);

	c->client.principal = principal;
	conn_set_state(c, CONN_OPEN);
	return (c);
}

void
conn_authenticated(struct front *f, uint32_t number, uint64_t principal,
    const char *reason)
{
	struct conn *c;

	for (c = f->conns; c != NULL; c = c->next)
		if (c->number == number && number != 0)
			break;
	if (c == NULL || c->state != CONN_AUTH) {
		/* it went before the answer came: its handle must go too */
		if (principal != 0 && (c == NULL || c->client.principal == 0))
			(void)monitor_gone(f, principal);
		return;
	}
	if (principal == 0) {
		reply_error(&c->sink, &revs[REV_LATEST_LEGACY], NULL,
		    RPC_INTERNAL_ERROR, NULL, "connection refused: %s",
		    reason);
		conn_end(c, "it was refused");
		return;
	}
	c->client.principal = principal;
	(void)evtimer_del(c->deadline);
	conn_set_state(c, CONN_OPEN);
}

void
conn_free(struct conn *c)
{
	struct front *f = c->f;
	struct conn **p = &f->conns;

	if (c->http != NULL)
		http_conn_free(c);
	calls_drop_client(f, &c->client);
	subs_drop(f, &c->client, NULL);
	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	event_free(c->ev_in);
	event_free(c->ev_out);
	event_free(c->deadline);
	event_free(c->reap);
	event_free(c->ev_next);
	if (c->fd_out != c->fd_in)
		(void)close(c->fd_out);
	(void)close(c->fd_in);
	sbx_buf_clear(&c->in);
	sbx_buf_clear(&c->sink.out);
	if (c->from != NULL)
		listen_freed(c->from);
	free(c);
}
