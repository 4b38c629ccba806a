/* A client's connection of HTTP: its life, its deadlines, its TLS. */

#include "sbx-proxy/http.h"

#include "common/base/log.h"
#include "sbx-proxy/ca.h"
#include "sbx-proxy/dial.h"
#include "sbx-proxy/exchange.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>

#define SIDE_READS 64		/* two a record; then others' turn */

/* --- one side ------------------------------------------------------------ */

struct evbuffer *
side_in(const struct side *s)
{
	return (bufferevent_get_input(s->bev));
}

struct evbuffer *
side_out(const struct side *s)
{
	return (bufferevent_get_output(s->bev));
}

size_t
side_room(const struct side *s)
{
	size_t n = evbuffer_get_length(side_out(s));

	return (n < HTTP_SIDE ? HTTP_SIDE - n : 0);
}

/* libevent stops to read at the watermark, too, but then calls back without end
 * for what is not taken. */
void
side_pace(struct side *s)
{
	bool full;

	if (s->bev == NULL || s->ended)
		return;
	full = evbuffer_get_length(side_in(s)) >= HTTP_SIDE;
	if (full == s->paused)
		return;
	s->paused = full;
	/* each fails without an event base only */
	if (s->reader != NULL)
		(void)(full ? event_del(s->reader) : event_add(s->reader, NULL));
	else if (full)
		(void)bufferevent_disable(s->bev, EV_READ);
	else
		(void)bufferevent_enable(s->bev, EV_READ);
}

bool
side_has_line(struct side *s)
{
	struct evbuffer *in = side_in(s);
	size_t len = evbuffer_get_length(in);
	struct evbuffer_ptr at;
	bool found = false;

	if (s->seen < len &&
	    evbuffer_ptr_set(in, &at, s->seen, EVBUFFER_PTR_SET) == 0)
		found = evbuffer_search(in, "\n", 1, &at).pos >= 0;
	s->seen = len;
	return (found || len >= SBX_HTTP_HEAD_BYTES);
}

/*
 * What a peer sends beside data, such as new keys, OpenSSL takes until there
 * is nothing to read, and answers none of it to us: a peer that sends enough
 * of it would have this process for itself.  So a read now and then says that
 * there is nothing; the socket is still readable in the next turn.
 */
static long
on_read(BIO *bio, int oper, const char *p, size_t n, int i, long l, int ret,
    size_t *done)
{
	uintptr_t reads;

	(void)p;
	(void)n;
	(void)i;
	(void)l;
	(void)done;
	if (oper != BIO_CB_READ)
		return (ret);
	reads = (uintptr_t)BIO_get_callback_arg(bio) + 1;
	BIO_set_callback_arg(bio, (char *)(reads % SIDE_READS));
	if (reads < SIDE_READS)
		return (ret);
	BIO_clear_retry_flags(bio);
	BIO_set_retry_read(bio);
	return (-1);
}

/*
 * libevent takes 4 KiB of a plain socket at a time, each with three calls of the
 * system.  This takes all that has room with one, and keeps it in one piece: of
 * pieces TLS makes records.
 */
static void
on_plain(evutil_socket_t fd, short what, void *ctx)
{
	static char bytes[HTTP_SIDE];
	struct side *s = ctx;
	size_t had = evbuffer_get_length(side_in(s));
	bufferevent_data_cb read;
	bufferevent_event_cb event;
	void *arg;
	ssize_t n;

	(void)what;
	if (had >= sizeof(bytes))
		return;		/* side_pace() has not been there yet */
	n = recv(fd, bytes, sizeof(bytes) - had, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	bufferevent_getcb(s->bev, &read, NULL, &event, &arg);
	if (n > 0) {
		if (evbuffer_add(side_in(s), bytes, (size_t)n) != 0)
			sbx_fatal("no memory for what is read");
		read(s->bev, arg);
		return;
	}
	(void)event_del(s->reader); /* fails without an event base only */
	event(s->bev, (short)(BEV_EVENT_READING | (n == 0 ? BEV_EVENT_EOF :
	    BEV_EVENT_ERROR)), arg);
}

/* False: no memory. */
static bool
open_reader(struct side *s)
{
	if (s->ssl != NULL) {
		BIO_set_callback_ex(SSL_get_rbio(s->ssl), on_read);
		bufferevent_setwatermark(s->bev, EV_READ, 0, HTTP_SIDE);
		return (bufferevent_enable(s->bev, EV_READ) == 0);
	}
	s->reader = event_new(bufferevent_get_base(s->bev),
	    bufferevent_getfd(s->bev), EV_READ | EV_PERSIST, on_plain, s);
	/* what comes by another way than bev's own is let in so */
	return (s->reader != NULL && event_add(s->reader, NULL) == 0 &&
	    bufferevent_disable(s->bev, EV_READ) == 0 &&
	    evbuffer_unfreeze(side_in(s), 0) == 0);
}

bool
side_open(struct side *s, struct bufferevent *bev, SSL *ssl,
    void (*read)(struct bufferevent *, void *),
    void (*written)(struct bufferevent *, void *),
    void (*event)(struct bufferevent *, short, void *), struct http *h)
{
	int one = 1;

	*s = (struct side){ .bev = bev, .ssl = ssl };
	/* Heads and bodies are written apart: without this the second would
	 * wait for the first.  It fails on a socket that is no TCP only. */
	(void)setsockopt(bufferevent_getfd(bev), IPPROTO_TCP, TCP_NODELAY, &one,
	    sizeof(one));
	bufferevent_setcb(bev, read, written, event, h);
	bufferevent_setwatermark(bev, EV_WRITE, HTTP_SIDE / 4, 0);
	return (bufferevent_enable(bev, EV_WRITE) == 0 && open_reader(s));
}

void
side_close(struct side *s)
{
	if (s->bev == NULL)
		return;
	if (s->ssl != NULL && !s->failed && !SSL_in_init(s->ssl)) {
		/* the other's answer to it is not waited for */
		SSL_set_shutdown(s->ssl, SSL_RECEIVED_SHUTDOWN);
		(void)SSL_shutdown(s->ssl);
	}
	ERR_clear_error();
	if (s->reader != NULL)
		event_free(s->reader);
	bufferevent_free(s->bev);
	*s = (struct side){ .bev = NULL };
}

/* --- the machine --------------------------------------------------------- */

static enum step
step_wait(struct http *h)
{
	(void)h;
	return (STEP_WAIT);
}

void
http_hurry(struct http *h, unsigned seconds)
{
	struct timeval tv = { .tv_sec = seconds };

	if (event_add(h->timer, &tv) < 0)
		sbx_fatal("a connection cannot be timed");
}

enum step
http_enter(struct http *h, enum http_state state)
{
	static const unsigned seconds[ST_MAX] = {
		[ST_TLS] = HTTP_HEAD_S, [ST_HEAD] = HTTP_IDLE_S,
		[ST_PUSH] = HTTP_HEAD_S, [ST_REPORT] = HTTP_IDLE_S,
		/* it has its own, and ours stands behind it */
		[ST_DIAL] = DIAL_S + 5,
		[ST_UPTLS] = HTTP_HEAD_S, [ST_RELAY] = HTTP_IDLE_S,
		[ST_DRAIN] = HTTP_IDLE_S,
	};

	h->state = state;
	h->moved_ns = sbx_mono_ns();
	http_hurry(h, seconds[state]);
	return (STEP_AGAIN);
}

/* The answer goes out, then the end of it; what comes meanwhile is dropped, up
 * to a limit, since closing on unread bytes would take the answer back. */
static enum step
step_drain(struct http *h)
{
	size_t n = evbuffer_get_length(side_in(&h->down));

	(void)evbuffer_drain(side_in(&h->down), n); /* fails if frozen only */
	h->dropped += n;
	if (h->dropped > HTTP_DRAIN)
		return (STEP_END);
	if (evbuffer_get_length(side_out(&h->down)) > 0)
		return (STEP_WAIT);
	if (h->down.ended)
		return (STEP_END);
	if (h->shut)
		return (STEP_WAIT);
	h->shut = true;
	if (h->down.ssl != NULL)
		(void)SSL_shutdown(h->down.ssl); /* or it is gone already */
	ERR_clear_error();
	(void)shutdown(bufferevent_getfd(h->down.bev), SHUT_WR);
	http_hurry(h, HTTP_LINGER_S);
	return (STEP_WAIT);
}

static void
http_free(struct http *h)
{
	request_over(h, "");
	upstream_close(h);
	side_close(&h->down);
	event_free(h->timer);
	conn_remove(&h->c);
	free(h);
}

/* On with it until there is nothing to do, or it has ended: then h is gone. */
void
http_go(struct http *h, enum step step)
{
	static enum step (*const steps[ST_MAX])(struct http *) = {
		[ST_TLS] = step_wait, [ST_HEAD] = step_head,
		[ST_PUSH] = step_push, [ST_REPORT] = step_report,
		[ST_DIAL] = step_wait,
		[ST_UPTLS] = step_wait, [ST_RELAY] = step_relay,
		[ST_DRAIN] = step_drain,
	};

	/* without a client nobody hears an answer */
	while (step == STEP_AGAIN)
		step = h->down.failed ? STEP_END : steps[h->state](h);
	if (step == STEP_WAIT) {
		side_pace(&h->down);
		side_pace(&h->up.side);
		return;
	}
	request_over(h, h->down.ended ? "client_closed" : "cut");
	http_free(h);
}

void
http_run(struct http *h)
{
	http_go(h, STEP_AGAIN);
}

/* The listener closes, or the policy has changed. */
static void
http_end(struct conn *c, const char *why)
{
	struct http *h = (struct http *)(void *)c;

	request_over(h, why);
	http_free(h);
}

static void
tls_failed(struct http *h, const char *why)
{
	char target[320];

	if (h->told)
		return;
	h->told = true;
	request_target(h, target, sizeof(target));
	record_denied(h->c.l, LAYER_TLS, "tls_failed", target, why);
}

/* --- deadlines ----------------------------------------------------------- */

static enum step
late(struct http *h, unsigned status, const char *why)
{
	struct refusal r = { .layer = status == 504 ? LAYER_DIAL : LAYER_LIMIT,
		.status = status, .code = "timeout", .why = why };

	if (h->req.answered) {
		request_over(h, "timeout");
		return (STEP_END);
	}
	return (http_refuse(h, &r));
}

static enum step
deadline(struct http *h)
{
	switch (h->state) {
	case ST_TLS:
		tls_failed(h, "the client did not finish its TLS handshake");
		return (STEP_END);
	case ST_HEAD:
		if (evbuffer_get_length(side_in(&h->down)) == 0)
			return (STEP_END);
		return (late(h, 408, "the request did not come to its end"));
	case ST_PUSH:
		return (late(h, 408, "the commands of the push did not come "
		    "to their end"));
	case ST_REPORT:
		return (late(h, 408, "the pack of the push did not come to its "
		    "end"));
	case ST_DIAL:
	case ST_UPTLS:
		return (late(h, 504, "the host did not answer in time"));
	case ST_RELAY:
		/* nobody said why its courier went */
		if (h->up.told_by_ns != 0)
			return (STEP_AGAIN);
		return (late(h, 504, "no byte came or went for too long"));
	case ST_DRAIN:
	case ST_MAX:
		break;
	}
	return (STEP_END);
}

/* Written callbacks come when little is left: until then, what went is seen in
 * what is left. */
static void
note_unsent(struct http *h)
{
	size_t n = evbuffer_get_length(side_out(&h->down));

	if (h->up.side.bev != NULL)
		n += evbuffer_get_length(side_out(&h->up.side));
	if (n != h->unsent)
		h->moved_ns = sbx_mono_ns();
	h->unsent = n;
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
	struct http *h = ctx;
	uint64_t quiet_s;

	(void)fd;
	(void)what;
	note_unsent(h);
	quiet_s = (sbx_mono_ns() - h->moved_ns) / 1000000000u;
	/* what moves is not late */
	if (h->up.told_by_ns == 0 && (h->state == ST_RELAY ||
	    h->state == ST_REPORT || (h->state == ST_DRAIN && !h->shut)) &&
	    quiet_s < HTTP_IDLE_S) {
		http_hurry(h, HTTP_IDLE_S - (unsigned)quiet_s);
		return;
	}
	http_go(h, deadline(h));
}

/* --- the client's side --------------------------------------------------- */

static void
on_bytes(struct bufferevent *bev, void *ctx)
{
	struct http *h = ctx;

	(void)bev;
	h->moved_ns = sbx_mono_ns();
	http_run(h);
}

static void
on_event(struct bufferevent *bev, short what, void *ctx)
{
	struct http *h = ctx;
	unsigned long e;

	if (what & BEV_EVENT_CONNECTED) {
		if (h->state == ST_TLS)
			http_go(h, http_enter(h, ST_HEAD));
		return;
	}
	h->down.ended = true;
	h->down.failed = (what & BEV_EVENT_ERROR) != 0;
	if (h->state == ST_TLS) {
		h->down.failed = true;
		e = bufferevent_get_openssl_error(bev);
		tls_failed(h, e != 0 && ERR_reason_error_string(e) != NULL ?
		    ERR_reason_error_string(e) : "the client left amid its "
		    "TLS handshake: it may not trust the certificate");
	}
	http_run(h);
}

/* A client's connection; NULL: there are too many (fd: closed then). */
static struct http *
http_new(struct listener *l, int fd, SSL *ssl)
{
	struct http *h = sbx_xcalloc(1, sizeof(*h));
	int options = BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;
	struct event_base *base = l->x->base;
	struct bufferevent *bev;

	if (!conn_add(&h->c, l, http_end)) {
		SSL_free(ssl);
		sbx_close(&fd);
		free(h);
		return (NULL);
	}
	bev = ssl == NULL ? bufferevent_socket_new(base, fd, options) :
	    bufferevent_openssl_socket_new(base, fd, ssl,
	    BUFFEREVENT_SSL_ACCEPTING, options);
	h->timer = evtimer_new(base, on_timer, h);
	if (bev == NULL || h->timer == NULL || !side_open(&h->down, bev, ssl,
	    on_bytes, on_bytes, on_event, h))
		sbx_fatal("no memory for a connection");
	return (h);
}

void
http_start(struct listener *l, int fd, struct evbuffer *in)
{
	struct http *h = http_new(l, fd, NULL);

	if (h != NULL && evbuffer_add_buffer(side_in(&h->down), in) != 0)
		sbx_fatal("no memory for a request");
	evbuffer_free(in);
	if (h != NULL)
		http_go(h, http_enter(h, ST_HEAD));
}

/* --- TLS with the client ------------------------------------------------- */

/* CONNECT = SNI: here, and before a byte of a request. */
static int
on_name(SSL *ssl, int *ret_alert, void *arg)
{
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	struct http *h = SSL_get_app_data(ssl);
	char target[320];
	struct host host;

	(void)arg;
	if (name == NULL && h->c.host.kind != HOST_NAME)
		return (SSL_TLSEXT_ERR_OK);
	if (name != NULL && host_read((struct sbx_text){ name, strlen(name) },
	    &host) == 0 && host.kind == HOST_NAME &&
	    strcmp(host.text, h->c.host.text) == 0)
		return (SSL_TLSEXT_ERR_OK);
	h->told = true;
	request_target(h, target, sizeof(target));
	record_denied(h->c.l, LAYER_SNI, name == NULL ? "sni_missing" :
	    "sni_mismatch", target, name == NULL ? "the TLS client asks for no "
	    "name" : "the TLS client asks for another name than its CONNECT");
	*ret_alert = SSL_AD_UNRECOGNIZED_NAME;
	return (SSL_TLSEXT_ERR_ALERT_FATAL);
}

/* NULL: err says why. */
static SSL *
client_tls(struct listener *l, const struct host *host, struct sbx_err *err)
{
	SSL_CTX *ctx;
	SSL *ssl;

	if (ca_context(l->ca, host, &ctx, err) != 0)
		return (NULL);
	/* the same for all of them; which connection it is stands in its SSL */
	(void)SSL_CTX_set_tlsext_servername_callback(ctx, on_name);
	ssl = SSL_new(ctx);
	if (ssl == NULL) {
		ERR_clear_error();
		(void)sbx_err_set(err, SBX_E_SYS, "there is no memory for TLS");
	}
	return (ssl);
}

static void
led_to(struct http *h, const struct host *host, uint16_t port,
    enum policy_how how)
{
	h->c.led = true;
	h->c.scheme = POLICY_HTTPS;
	h->c.how = how;
	h->c.host = *host;
	h->c.port = port;
}

void
http_start_tls(struct listener *l, int fd, const struct host *host,
    uint16_t port, enum policy_how how)
{
	static const char ready[] = "HTTP/1.1 200 Connection established"
	    "\r\n\r\n";
	struct sbx_err err = { 0 };
	const struct refusal none = { LAYER_TLS, 503, "no_certificate",
		err.msg, "" };
	SSL *ssl = client_tls(l, host, &err);
	struct http *h;

	/* the socket has taken nothing yet, so it takes this */
	if (ssl != NULL && send(fd, ready, sizeof(ready) - 1, MSG_NOSIGNAL |
	    MSG_DONTWAIT) != (ssize_t)sizeof(ready) - 1) {
		SSL_free(ssl);
		sbx_close(&fd);
		return;
	}
	h = http_new(l, fd, ssl);
	if (h == NULL)
		return;
	led_to(h, host, port, how);
	if (ssl == NULL) {
		http_go(h, http_refuse(h, &none));
		return;
	}
	(void)SSL_set_app_data(ssl, h);
	(void)http_enter(h, ST_TLS);
}
