#include "sbx-proxy/tunnel.h"

#include "common/base/log.h"
#include "sbx-proxy/budget.h"
#include "sbx-proxy/dial.h"
#include "sbx-proxy/hello.h"
#include "sbx-proxy/http.h"
#include "sbx-proxy/record.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIPE_BYTES 262144	/* asked for; the kernel may give less, */
#define PIPE_MIN 4096		/* but no less than this */
#define TURN 4			/* pipefuls of one tunnel, then others' turn */
#define HELLO_TRIES 64		/* looks at a ClientHello, then slower */
#define HELLO_AGAIN_MS 100
#define DRAIN_BYTES 65536	/* read before a refusal's close */
#define NS_S 1000000000ull

enum state {
	DIALLING,	/* what the client sends is kept */
	HELLO,		/* 200 was answered, its ClientHello is not whole */
	PASSING,
};

/* One direction.  The pipe is lent while there is something in it. */
struct way {
	int from, to;		/* borrowed */
	int pipe[2];
	size_t in_pipe;
	bool eof, shut;		/* from has ended; and to was told */
	uint64_t bytes;		/* that went to `to` */
	struct event *readable, *writable; /* owned */
	bool reading, writing;	/* they are pending */
};

struct tunnel {
	struct conn c;
	enum state state;
	int client, up;		/* owned */
	struct dial *dial;	/* owned; of DIALLING */
	struct evbuffer *head;	/* owned; from the client, not yet sent */
	unsigned tries;		/* looks at the ClientHello */
	struct way out, in;	/* to the host, from it */
	struct event *client_reads; /* owned; until PASSING */
	struct event *again;	/* owned; of HELLO */
	struct event *timer;	/* owned; of HELLO and PASSING */
	uint64_t begun, active;	/* monotonic */
	unsigned slot;		/* of the listener's budgets */
};

/* --- pipes ------------------------------------------------------------------------- */

static bool
pipe_get(struct proxy *x, int fds[2])
{
	if (x->npipes > 0) {
		x->npipes--;
		memcpy(fds, x->pipes[x->npipes], sizeof(x->pipes[0]));
		return (true);
	}
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return (false);
	/* refused past the user's share of pipe memory: it is smaller then */
	(void)fcntl(fds[0], F_SETPIPE_SZ, PIPE_BYTES);
	return (true);
}

/* fds: empty again. */
static void
pipe_put(struct proxy *x, int fds[2])
{
	if (x->npipes < SBX_PROXY_PIPES) {
		memcpy(x->pipes[x->npipes++], fds, sizeof(x->pipes[0]));
		fds[0] = fds[1] = -1;
		return;
	}
	sbx_close(&fds[0]);
	sbx_close(&fds[1]);
}

void
tunnel_pipes_free(struct proxy *x)
{
	while (x->npipes > 0) {
		x->npipes--;
		sbx_close(&x->pipes[x->npipes][0]);
		sbx_close(&x->pipes[x->npipes][1]);
	}
}

/* --- its end ------------------------------------------------------------------------ */

static void
way_clear(struct way *w)
{
	if (w->readable != NULL)
		event_free(w->readable);
	if (w->writable != NULL)
		event_free(w->writable);
	sbx_close(&w->pipe[0]);
	sbx_close(&w->pipe[1]);
}

static void
tunnel_free(struct tunnel *t)
{
	dial_cancel(t->dial);
	way_clear(&t->out);
	way_clear(&t->in);
	event_free(t->client_reads);
	event_free(t->again);
	event_free(t->timer);
	evbuffer_free(t->head);
	sbx_close(&t->up);
	sbx_close(&t->client);
	conn_remove(&t->c);
	free(t);
}

/* Also of the listener's end and of a changed policy. */
static void
on_end(struct conn *c, const char *why)
{
	struct tunnel *t = (struct tunnel *)c;
	struct record_passed r = { .c = c, .what = "tunnel", .method = "",
		.path = "", .grant = "", .out = t->out.bytes,
		.in = t->in.bytes, .ms = (sbx_mono_ns() - t->begun) / 1000000,
		.end = why };

	if (t->state == PASSING)
		record_passed(&r);
	tunnel_free(t);
}

static void
end(struct tunnel *t, const char *why)
{
	on_end(&t->c, why);
}

static void
deny(struct tunnel *t, enum layer layer, const char *code, const char *why)
{
	char target[HOST_MAX + 32];
	bool v6 = t->c.host.kind == HOST_V6;

	(void)snprintf(target, sizeof(target), "CONNECT %s%s%s:%u",
	    v6 ? "[" : "", t->c.host.text, v6 ? "]" : "", t->c.port);
	record_denied(t->c.l, layer, code, target, why);
}

/* Instead of 200.  The client is not waited for; what it sent is taken off its
 * socket, so that the close does not take the answer back. */
static void
refuse(struct tunnel *t, unsigned status, const char *why, const char *mend)
{
	struct evbuffer *b = evbuffer_new();
	char rest[4096];
	size_t n = 0;
	ssize_t r;

	if (b != NULL) {
		http_refusal(b, status, why, mend, false);
		(void)evbuffer_write(b, t->client); /* or it has gone */
		evbuffer_free(b);
	}
	(void)shutdown(t->client, SHUT_WR);
	while (n < DRAIN_BYTES && (r = recv(t->client, rest, sizeof(rest),
	    0)) > 0)
		n += (size_t)r;
	end(t, why);
}

/* --- its budget ------------------------------------------------------------------------- */

static void
over_budget(struct tunnel *t)
{
	deny(t, LAYER_BUDGET, BUDGET_CODE, BUDGET_WHY);
	end(t, BUDGET_CODE);
}

/* --- passing ------------------------------------------------------------------------- */

static void
set(struct event *ev, bool *is, bool want)
{
	if (*is == want)
		return;
	*is = want;
	if (want && event_add(ev, NULL) < 0)
		sbx_fatal("a tunnel cannot be watched");
	if (!want)
		(void)event_del(ev); /* fails without a base only */
}

static void
watch(struct tunnel *t)
{
	bool head = evbuffer_get_length(t->head) > 0;

	set(t->out.readable, &t->out.reading, !t->out.eof && !head &&
	    t->out.in_pipe == 0);
	set(t->out.writable, &t->out.writing, head || t->out.in_pipe > 0);
	set(t->in.readable, &t->in.reading, !t->in.eof && t->in.in_pipe == 0);
	set(t->in.writable, &t->in.writing, t->in.in_pipe > 0);
}

enum moved { MOVED, WAITS, FAILED, OVER };

/*
 * splice(2) stops before urgent data and says that there is nothing, while
 * what follows makes the socket readable for ever.  An ordinary read goes past
 * it, without that byte, as it does in all other places.
 */
static ssize_t
take(struct way *w, size_t max)
{
	char buf[PIPE_MIN];
	ssize_t n = splice(w->from, NULL, w->pipe[1], NULL, max,
	    SPLICE_F_NONBLOCK);

	if (n >= 0 || errno != EAGAIN)
		return (n);
	n = recv(w->from, buf, max < sizeof(buf) ? max : sizeof(buf), 0);
	/* the pipe is empty, so all of it goes in */
	return (n > 0 ? write(w->pipe[1], buf, (size_t)n) : n);
}

/* Fill the pipe; of bytes to the host, with what its budget has left. */
static enum moved
fill(struct tunnel *t, struct way *w)
{
	uint64_t left = w == &t->out ? budget_left(t->c.l, t->slot) :
	    UINT64_MAX;
	size_t max = left < PIPE_BYTES ? (size_t)left : PIPE_BYTES;
	char byte;
	ssize_t n;

	if (w->pipe[0] < 0 && max > 0 && !pipe_get(t->c.l->x, w->pipe))
		return (FAILED);
	n = max == 0 ? recv(w->from, &byte, 1, MSG_PEEK) : take(w, max);
	if (n < 0)
		return (errno == EAGAIN || errno == EINTR ? WAITS : FAILED);
	if (n == 0) {
		w->eof = true;
		return (WAITS);
	}
	if (max == 0)
		return (OVER);
	if (w == &t->out)
		budget_take(t->c.l, t->slot, (uint64_t)n);
	w->in_pipe = (size_t)n;
	return (MOVED);
}

static enum moved
drain(struct way *w)
{
	ssize_t n = splice(w->pipe[0], NULL, w->to, NULL, w->in_pipe,
	    SPLICE_F_NONBLOCK);

	if (n < 0)
		return (errno == EAGAIN || errno == EINTR ? WAITS : FAILED);
	if (n == 0)
		return (FAILED);
	w->in_pipe -= (size_t)n;
	w->bytes += (uint64_t)n;
	return (w->in_pipe == 0 ? MOVED : WAITS);
}

/* The ClientHello, and what came with it. */
static enum moved
send_head(struct tunnel *t)
{
	int n = evbuffer_write(t->head, t->up);

	if (n < 0)
		return (errno == EAGAIN || errno == EINTR ? WAITS : FAILED);
	t->out.bytes += (uint64_t)n;
	return (evbuffer_get_length(t->head) == 0 ? MOVED : WAITS);
}

static enum moved
pump(struct tunnel *t, struct way *w)
{
	enum moved m = MOVED;
	int i;

	if (w == &t->out && evbuffer_get_length(t->head) > 0)
		m = send_head(t);
	for (i = 0; m == MOVED && i < TURN; i++) {
		if (w->in_pipe == 0 && !w->eof)
			m = fill(t, w);
		if (w->in_pipe > 0 && m == MOVED)
			m = drain(w);
		if (w->eof)
			break;
	}
	if (w->in_pipe == 0 && w->pipe[0] >= 0)
		pipe_put(t->c.l->x, w->pipe);
	if (w->eof && w->in_pipe == 0 && !w->shut) {
		w->shut = true;
		(void)shutdown(w->to, SHUT_WR); /* or it has gone */
	}
	return (m);
}

static void
run(struct tunnel *t, struct way *w)
{
	enum moved m = pump(t, w);

	t->active = sbx_mono_ns();
	if (m == OVER)
		over_budget(t);
	else if (m == FAILED)
		end(t, "connection_lost");
	else if (t->out.shut && t->in.shut)
		end(t, "");
	else
		watch(t);
}

static void
on_out(evutil_socket_t fd, short what, void *ctx)
{
	struct tunnel *t = ctx;

	(void)fd;
	(void)what;
	run(t, &t->out);
}

static void
on_in(evutil_socket_t fd, short what, void *ctx)
{
	struct tunnel *t = ctx;

	(void)fd;
	(void)what;
	run(t, &t->in);
}

static void
way_init(struct tunnel *t, struct way *w, int from, int to,
    event_callback_fn fn)
{
	struct event_base *base = t->c.l->x->base;

	w->from = from;
	w->to = to;
	w->readable = event_new(base, from, EV_READ | EV_PERSIST, fn, t);
	w->writable = event_new(base, to, EV_WRITE | EV_PERSIST, fn, t);
	if (w->readable == NULL || w->writable == NULL)
		sbx_fatal("a tunnel cannot be watched");
}

static void
set_timer(struct event *ev, uint64_t ms)
{
	const struct timeval wait = { (time_t)(ms / 1000),
		(suseconds_t)(ms % 1000 * 1000) };

	if (evtimer_add(ev, &wait) < 0)
		sbx_fatal("a tunnel cannot be timed");
}

static void
pass(struct tunnel *t)
{
	size_t n = evbuffer_get_length(t->head);

	(void)event_del(t->client_reads); /* fails without a base only */
	(void)event_del(t->again);
	if (n > budget_left(t->c.l, t->slot)) {
		over_budget(t);
		return;
	}
	budget_take(t->c.l, t->slot, n);
	t->state = PASSING;
	t->active = sbx_mono_ns();
	way_init(t, &t->out, t->client, t->up, on_out);
	way_init(t, &t->in, t->up, t->client, on_in);
	set_timer(t->timer, TUNNEL_IDLE_S * 1000);
	run(t, &t->out);
}

/* --- the ClientHello ----------------------------------------------------------------- */

/* NULL, or why what it asks for is not the CONNECT host. */
static const char *
check_name(const struct host *h, int r, const char *name, const char *why)
{
	struct host asked;

	if (h->kind != HOST_NAME) {
		if (r == SBX_E_NOENT)
			return (NULL);
		return (r == 0 ? "its ClientHello asks for a name where the "
		    "tunnel is to an address" : why);
	}
	if (r != 0)
		return (why);
	if (host_read((struct sbx_text){ name, strlen(name) }, &asked) != 0 ||
	    asked.kind != HOST_NAME || strcmp(asked.text, h->text) != 0)
		return ("its ClientHello asks for another name (SNI)");
	return (NULL);
}

static void
look(struct tunnel *t)
{
	size_t n = evbuffer_get_length(t->head);
	const uint8_t *p = n == 0 ? NULL : evbuffer_pullup(t->head, -1);
	const char *why = "";
	char name[256];
	int r;

	if (p == NULL)
		return;
	r = hello_name(p, n, name, &why);
	if (r == SBX_E_AGAIN) {
		/* in tiny pieces, each look of which would cost as much as all
		 * before, it is looked at less often */
		if (++t->tries < HELLO_TRIES)
			return;
		(void)event_del(t->client_reads);
		set_timer(t->again, HELLO_AGAIN_MS);
		return;
	}
	if ((why = check_name(&t->c.host, r, name, why)) == NULL) {
		pass(t);
		return;
	}
	deny(t, LAYER_SNI, r == 0 ? "sni_mismatch" : "sni_missing", why);
	end(t, why);
}

static void
on_client(evutil_socket_t fd, short what, void *ctx)
{
	struct tunnel *t = ctx;
	size_t have = evbuffer_get_length(t->head);
	int n;

	(void)what;
	if (have >= HELLO_RAW_MAX) {
		/* of DIALLING: the rest waits in its socket */
		(void)event_del(t->client_reads);
		return;
	}
	n = evbuffer_read(t->head, (int)fd, (int)(HELLO_RAW_MAX - have));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		end(t, "the client left");
	else if (t->state == HELLO)
		look(t);
}

static void
read_client(struct tunnel *t)
{
	if (event_add(t->client_reads, NULL) < 0)
		sbx_fatal("a tunnel cannot be watched");
}

static void
on_again(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd;
	(void)what;
	read_client(ctx);
}

/* --- deadlines ------------------------------------------------------------------------ */

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
	struct tunnel *t = ctx;
	uint64_t now = sbx_mono_ns(), idle = now - t->active;

	(void)fd;
	(void)what;
	if (t->state != PASSING) {
		deny(t, LAYER_SNI, "hello_timeout", "its ClientHello did not "
		    "come in time");
		end(t, "hello_timeout");
	} else if (now - t->begun >= TUNNEL_LIFE_S * NS_S)
		end(t, "too_old");
	else if (idle >= TUNNEL_IDLE_S * NS_S)
		end(t, "idle");
	else
		set_timer(t->timer, TUNNEL_IDLE_S * 1000 - idle / 1000000);
}

/* --- its beginning --------------------------------------------------------------------- */

static void
not_dialled(struct tunnel *t, const char *code, const char *why)
{
	char mend[384] = "";

	if (strcmp(code, "address_refused") == 0) {
		deny(t, LAYER_ADDRESS, code, why);
		(void)snprintf(mend, sizeof(mend), "resolve %s:%u ADDRESS:PORT "
		    "would lead it to an address of the operator's choice",
		    t->c.host.text, t->c.port);
		refuse(t, 403, why, mend);
		return;
	}
	deny(t, strcmp(code, "dns_failed") == 0 ? LAYER_DNS : LAYER_DIAL,
	    code, why);
	refuse(t, strcmp(code, "timeout") == 0 ? 504 : 502, why, mend);
}

static void
on_dialled(void *ctx, int fd, const char *code, const char *why)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	struct tunnel *t = ctx;
	int fds[2];

	t->dial = NULL;
	if (fd < 0) {
		not_dialled(t, code, why);
		return;
	}
	t->up = fd;
	if (!pipe_get(t->c.l->x, fds)) {
		deny(t, LAYER_LIMIT, "no_descriptors", "no descriptors are "
		    "left for a tunnel");
		refuse(t, 503, "no descriptors are left for a tunnel", "");
		return;
	}
	pipe_put(t->c.l->x, fds);
	/* its send buffer is empty, and has room for it however small */
	if (send(t->client, ok, sizeof(ok) - 1, MSG_NOSIGNAL) !=
	    (ssize_t)sizeof(ok) - 1) {
		end(t, "the client left");
		return;
	}
	t->state = HELLO;
	set_timer(t->timer, TUNNEL_HELLO_S * 1000);
	read_client(t);
	look(t);
}

static struct tunnel *
tunnel_new(struct listener *l, int fd)
{
	struct tunnel *t = sbx_xcalloc(1, sizeof(*t));
	struct event_base *base = l->x->base;

	t->client = fd;
	t->up = -1;
	t->out.pipe[0] = t->out.pipe[1] = -1;
	t->in.pipe[0] = t->in.pipe[1] = -1;
	t->begun = t->active = sbx_mono_ns();
	t->head = evbuffer_new();
	t->client_reads = event_new(base, fd, EV_READ | EV_PERSIST, on_client,
	    t);
	t->again = evtimer_new(base, on_again, t);
	t->timer = evtimer_new(base, on_timer, t);
	if (t->head == NULL || t->client_reads == NULL || t->again == NULL ||
	    t->timer == NULL)
		sbx_fatal("no memory for a tunnel");
	return (t);
}

void
tunnel_start(struct listener *l, int fd, const struct host *h, uint16_t port)
{
	struct tunnel *t = tunnel_new(l, fd);

	/* its client was counted until a moment ago, so there is room */
	if (!conn_add(&t->c, l, on_end))
		sbx_fatal("a connection is counted twice");
	t->c.led = true;
	t->c.scheme = POLICY_HTTPS;
	t->c.how = POLICY_TUNNEL;
	t->c.host = *h;
	t->c.port = port;
	t->slot = budget_slot(l, h);
	t->dial = dial_start(l->x, h, port, on_dialled, t);
	read_client(t);
}
