/*
 * A client that was accepted: its first head says what becomes of it.  No byte
 * behind that head is taken from the socket, so that whoever goes on reads all
 * that follows.
 */

#include "common/base/log.h"
#include "common/http/http.h"
#include "sbx-proxy/http.h"
#include "sbx-proxy/proxy.h"
#include "sbx-proxy/record.h"
#include "sbx-proxy/tunnel.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>

struct client {
	struct conn c;		/* the first member */
	int fd;			/* owned */
	struct event *ev;	/* owned */
	struct sbx_buf in;	/* the head, as far as it came */
	size_t tried;		/* bytes of it that were parsed in vain */
	bool refused;		/* what comes is dropped */
	size_t dropped;
	uint64_t by_ns;		/* monotonic */
};

static void
client_free(struct client *k)
{
	event_free(k->ev);
	sbx_close(&k->fd);
	sbx_buf_clear(&k->in);
	conn_remove(&k->c);
	free(k);
}

static void
client_end(struct conn *c, const char *why)
{
	(void)why;	/* nothing has passed */
	client_free((struct client *)(void *)c);
}

/* The socket goes on without us. */
static int
client_give(struct client *k)
{
	int fd = sbx_steal_fd(&k->fd);

	client_free(k);
	return (fd);
}

/* --- refusals ------------------------------------------------------------ */

static void
wait_until(struct client *k, unsigned seconds)
{
	k->by_ns = sbx_mono_ns() + seconds * 1000000000ull;
}

/*
 * Answered and on record; then the client has a moment to read it: closing on
 * unread bytes would take the answer back.
 */
static void
client_refuse(struct client *k, enum layer layer, unsigned status,
    const char *code, const char *target, const char *why, const char *mend)
{
	struct evbuffer *out = evbuffer_new();
	size_t n;

	record_denied(k->c.l, layer, code, target, why);
	if (out == NULL)
		sbx_fatal("no memory for an answer");
	http_refusal(out, status, why, mend, false);
	n = evbuffer_get_length(out);
	/* the first bytes that it is given: a socket takes them at once, or
	 * its client is none that waits for an answer */
	(void)send(k->fd, evbuffer_pullup(out, -1), n, MSG_NOSIGNAL |
	    MSG_DONTWAIT);
	evbuffer_free(out);
	(void)shutdown(k->fd, SHUT_WR);
	k->refused = true;
	wait_until(k, HTTP_LINGER_S);
}

/* --- the verdict --------------------------------------------------------- */

/* What is intercepted needs both; without them nothing passes. */
static bool
can_intercept(const struct listener *l)
{
	return (l->ca != NULL && l->x->roots != NULL);
}

/* An allowed CONNECT; k is gone after it unless it was refused. */
static void
client_connect(struct client *k, const struct host *h, uint16_t port,
    enum policy_how how, const char *target)
{
	struct listener *l = k->c.l;
	struct host host = *h;

	if (how == POLICY_TUNNEL)
		tunnel_start(l, client_give(k), &host, port);
	else if (can_intercept(l))
		http_start_tls(l, client_give(k), &host, port, how);
	else
		client_refuse(k, LAYER_TLS, 503, "no_authority", target,
		    "this host's traffic is looked into, and what that needs "
		    "is missing", "");
}

/* Does the Host of a CONNECT say what its target says? */
static bool
host_agrees(const struct sbx_http_head *head, const struct host *h,
    uint16_t port)
{
	struct host host;
	uint16_t host_port;

	/* some clients leave out a port; then it is the target's */
	return (host_port_read(head->host, port, &host, &host_port) == 0 &&
	    host_port == port && host.kind == h->kind &&
	    strcmp(host.text, h->text) == 0);
}

static void
on_connect(struct client *k, const struct sbx_http_head *head)
{
	char target[TARGET_SIZE];
	struct verdict v;
	struct host h;
	uint16_t port;

	(void)snprintf(target, sizeof(target), "CONNECT %.*s",
	    (int)(head->target.len < 512 ? head->target.len : 512),
	    head->target.p);
	if (host_port_read(head->target, 0, &h, &port) != 0) {
		client_refuse(k, LAYER_PARSE, 400, "bad_host", target,
		    "the target of CONNECT is not host:port", "");
		return;
	}
	if (head->chunked || head->has_length || head->expect) {
		client_refuse(k, LAYER_PARSE, 400, "bad_request", target,
		    "CONNECT has no body", "");
		return;
	}
	if (!host_agrees(head, &h, port)) {
		client_refuse(k, LAYER_HOST, 421, "host_mismatch", target,
		    "Host is not the target of CONNECT",
		    "Send the same host in both");
		return;
	}
	policy_decide(&k->c.l->x->policy, POLICY_HTTPS, &h, port, &v);
	if (!v.allowed)
		client_refuse(k, LAYER_POLICY, 403, v.code, target, v.reason,
		    v.mend);
	else
		client_connect(k, &h, port, v.how, target);
}

/* A plain request: http.c judges it, as it does all that follow. */
static void
on_plain(struct client *k)
{
	struct listener *l = k->c.l;
	struct evbuffer *in = evbuffer_new();

	if (in == NULL || evbuffer_add(in, k->in.data, k->in.len) != 0)
		sbx_fatal("no memory for a request");
	http_start(l, client_give(k), in);
}

/* Beside what the parser says: the commonest mistake has a mend. */
static const char *
explain(const struct client *k, const char *why)
{
	const char *sp = memchr(k->in.data, ' ', k->in.len);

	if (sp != NULL && (size_t)(k->in.data + k->in.len - sp) > 9 &&
	    memcmp(sp + 1, "https://", 8) == 0)
		return ("an https:// URL is asked for by CONNECT, so that its "
		    "TLS is the client's");
	return (why);
}

/* The head is there, or cannot be one; k may be gone then. */
static void
client_parse(struct client *k)
{
	struct sbx_http_head head;
	size_t used;
	const char *why;
	int r;

	r = sbx_http_head(k->in.data, k->in.len, &head, &used, &why);
	if (r == SBX_E_AGAIN)
		return;
	if (r != 0)
		client_refuse(k, r == SBX_E_LIMIT ? LAYER_LIMIT : LAYER_PARSE,
		    r == SBX_E_LIMIT ? 431 : 400, "bad_request", "",
		    explain(k, why), "");
	else if (head.form == SBX_HTTP_AUTHORITY)
		on_connect(k, &head);
	else if (head.form == SBX_HTTP_ABSOLUTE)
		on_plain(k);
	else
		client_refuse(k, LAYER_PARSE, 400, "bad_request", "",
		    "this is a proxy: the target must be a whole URL, or "
		    "host:port after CONNECT", "");
}

/* --- reading ------------------------------------------------------------- */

/*
 * How many of the n bytes at p, which follow what is there, are to be taken:
 * up to the head's end, or all of them.
 */
static size_t
head_part(const struct client *k, const char *p, size_t n)
{
	static const char end[] = "\r\n\r\n";
	size_t before = k->in.len < 3 ? k->in.len : 3, i;
	char joint[6];
	const char *found;

	/* it may lie across the joint */
	if (before > 0)
		memcpy(joint, k->in.data + k->in.len - before, before);
	for (i = 0; i < 3 && i < n; i++)
		joint[before + i] = p[i];
	found = memmem(joint, before + i, end, 4);
	if (found != NULL)
		return ((size_t)(found - joint) + 4 - before);
	found = memmem(p, n, end, 4);
	return (found != NULL ? (size_t)(found - p) + 4 : n);
}

/* More of the head.  false: nothing comes any more. */
static bool
client_read(struct client *k)
{
	char buf[16384];
	size_t max = SBX_HTTP_HEAD_BYTES - k->in.len, n;
	ssize_t r;

	max = max < sizeof(buf) ? max : sizeof(buf);
	r = recv(k->fd, buf, max, MSG_PEEK | MSG_DONTWAIT);
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return (true);
	if (r <= 0)
		return (false);
	n = head_part(k, buf, (size_t)r);
	r = recv(k->fd, buf, n, MSG_DONTWAIT);
	if (r != (ssize_t)n || sbx_buf_add(&k->in, buf, n) != 0)
		return (false);
	return (true);
}

/* What comes after a refusal.  false: that was all, or too much. */
static bool
client_drop(struct client *k)
{
	char buf[16384];
	ssize_t r = recv(k->fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return (true);
	if (r <= 0)
		return (false);
	k->dropped += (size_t)r;
	return (k->dropped <= HTTP_DRAIN);
}

/* Is it worth a try?  Not for each byte of a client that sends them one by
 * one. */
static bool
client_has_line(struct client *k)
{
	size_t from = k->tried;

	k->tried = k->in.len;
	return (k->in.len == SBX_HTTP_HEAD_BYTES ||
	    (k->in.len > from &&
	    memchr(k->in.data + from, '\n', k->in.len - from) != NULL));
}

static void
client_late(struct client *k)
{
	if (k->refused || k->in.len == 0) {
		client_free(k);
		return;
	}
	client_refuse(k, LAYER_LIMIT, 408, "timeout", "",
	    "the request did not come to its end", "");
}

static void
on_client(evutil_socket_t fd, short what, void *ctx)
{
	struct client *k = ctx;
	struct timeval tick = { .tv_sec = 1 };

	(void)fd;
	if (sbx_mono_ns() >= k->by_ns) {
		client_late(k);
		return;
	}
	if ((what & EV_READ) && !(k->refused ? client_drop(k) :
	    client_read(k))) {
		client_free(k);
		return;
	}
	/* the deadline is looked at now and then, however busy it is */
	if (event_add(k->ev, &tick) < 0)
		sbx_fatal("a connection cannot be timed");
	if ((what & EV_READ) && !k->refused && client_has_line(k))
		client_parse(k);	/* k may be gone */
}

void
client_start(struct listener *l, int fd)
{
	struct client *k = sbx_xcalloc(1, sizeof(*k));
	struct timeval tick = { .tv_sec = 1 };

	if (!conn_add(&k->c, l, client_end)) {
		record_denied(l, LAYER_LIMIT, "too_many_connections", "",
		    "there are too many connections");
		sbx_close(&fd);
		free(k);
		return;
	}
	k->fd = fd;
	sbx_buf_init(&k->in, SBX_HTTP_HEAD_BYTES);
	wait_until(k, HTTP_HEAD_S);
	k->ev = event_new(l->x->base, fd, EV_READ, on_client, k);
	if (k->ev == NULL || event_add(k->ev, &tick) != 0)
		sbx_fatal("no memory for a connection");
}
