/* The host's side of an exchange: dialled, verified, kept for the next. */

#include "common/base/log.h"
#include "sbx-proxy/ca.h"
#include "sbx-proxy/dial.h"
#include "sbx-proxy/exchange.h"
#include "sbx-proxy/strip.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <unistd.h>

void
upstream_close(struct http *h)
{
	dial_cancel(h->up.dial);
	h->up.dial = NULL;
	courier_end(h);
	side_close(&h->up.side);
	h->up.answers = 0;
}

/* --- what is sent -------------------------------------------------------- */

static uint16_t
default_port(const struct http *h)
{
	return (h->c.scheme == POLICY_HTTPS ? 443 : 80);
}

enum step
upstream_send(struct http *h)
{
	static const struct refusal too_long = { LAYER_LIMIT, 431, "too_long",
		"the request's head is too long", "" };
	static const struct refusal gone = { LAYER_GRANT, 403, "grant_ended",
		"the grant ended meanwhile", "Ask for another" };
	struct request *q = &h->req;
	struct evbuffer *out = side_out(&h->up.side);
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

	sbx_buf_init(&b, STRIP_HEAD_MAX);
	if (!strip_request(&q->head, &h->c.host, h->c.port, default_port(h),
	    &b))
		return (http_refuse(h, &too_long));
	if (b.len > request_budget(h))
		return (http_refuse(h, &budget_used_up));
	if (!request_use(h))
		return (http_refuse(h, &gone));
	q->begun = true;
	request_spend(h, b.len);
	if (evbuffer_add(out, b.data, b.len) != 0)
		sbx_fatal("no memory for a request");
	if (q->push != NULL)
		body_resume(&q->out, q->push, out);
	else if (q->head.expect && !q->out.done)
		http_continue(h);
	return (http_enter(h, ST_RELAY));
}

/* --- TLS with the host --------------------------------------------------- */

static enum step
verify_failed(struct http *h)
{
	long verified = SSL_get_verify_result(h->up.side.ssl);
	unsigned long e = bufferevent_get_openssl_error(h->up.side.bev);
	const char *text = NULL;
	char why[256];
	struct refusal r = { LAYER_TLS, 502, "upstream_tls", why, "" };

	if (verified != X509_V_OK) {
		r.code = "upstream_certificate";
		text = X509_verify_cert_error_string(verified);
	} else if (e != 0)
		text = ERR_reason_error_string(e);
	(void)snprintf(why, sizeof(why), "TLS with %.80s failed: %.80s%s",
	    h->c.host.text, text == NULL ? "it closed the connection" : text,
	    verified == X509_V_OK ? "" : " (a CA of one's own is named in "
	    "upstream_ca of sbx.conf)");
	return (http_refuse(h, &r));
}

/* By the roots of now: a new policy may have brought others.  NULL: there are
 * none, or no memory. */
static SSL *
new_tls(const struct roots *roots)
{
	SSL_CTX *c = roots != NULL ? ca_upstream(roots) : NULL;
	SSL *ssl = c != NULL ? SSL_new(c) : NULL;

	SSL_CTX_free(c);	/* it goes with the last of its connections */
	return (ssl);
}

/* Verified against the roots, and for exactly that name. */
static SSL *
host_tls(const struct http *h)
{
	const struct host *host = &h->up.host;
	SSL *ssl = new_tls(h->c.l->x->roots);

	if (ssl == NULL)
		return (NULL);
	SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (host->kind == HOST_NAME ? SSL_set1_host(ssl, host->text) == 1 &&
	    SSL_set_tlsext_host_name(ssl, host->text) == 1 :
	    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host->text) == 1)
		return (ssl);
	SSL_free(ssl);
	return (NULL);
}

/* --- what happens on it -------------------------------------------------- */

static void
on_bytes(struct bufferevent *bev, void *ctx)
{
	struct http *h = ctx;

	(void)bev;
	h->moved_ns = sbx_mono_ns();
	if (h->state == ST_RELAY)
		http_run(h);
	else if (evbuffer_get_length(side_in(&h->up.side)) > 0)
		/* nobody asked for it: it must not answer who asks next */
		upstream_close(h);
}

static void
on_event(struct bufferevent *bev, short what, void *ctx)
{
	struct http *h = ctx;
	struct side *s = &h->up.side;

	(void)bev;
	if (what & BEV_EVENT_CONNECTED) {
		if (h->state == ST_UPTLS)
			http_go(h, upstream_send(h));
		return;
	}
	/* it may have answered before it stopped to listen; what happened on
	 * both sides comes as one event */
	if ((what & BEV_EVENT_WRITING) && s->ssl == NULL) {
		s->deaf = true;
		if ((what & BEV_EVENT_READING) == 0)
			return;
	}
	s->ended = true;
	s->failed = (what & BEV_EVENT_ERROR) != 0;
	if (h->state == ST_UPTLS)
		http_go(h, verify_failed(h));
	else if (h->state == ST_RELAY)
		http_run(h);
	else
		upstream_close(h);
}

/* --- dialling ------------------------------------------------------------ */

static enum step
dial_failed(struct http *h, const char *code, const char *why)
{
	struct refusal r = { LAYER_DIAL, 502, code, why, "" };

	if (strcmp(code, "dns_failed") == 0)
		r.layer = LAYER_DNS;
	else if (strcmp(code, "timeout") == 0)
		r.status = 504;
	else if (strcmp(code, "address_refused") == 0) {
		r.layer = LAYER_ADDRESS;
		r.status = 403;
		r.mend = "An operator can pin the name to an address with "
		    "\"resolve\"";
	}
	return (http_refuse(h, &r));
}

/* A courier speaks for the host from here on; it takes one request. */
static enum step
to_courier(struct http *h, int fd)
{
	static const struct refusal none = { LAYER_COURIER, 502, "no_courier",
		"the request cannot be handed to a courier", "" };
	struct bufferevent *bev;

	if ((fd = courier_start(h, fd)) < 0)
		return (http_refuse(h, &none));
	bev = bufferevent_socket_new(h->c.l->x->base, fd,
	    BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
	if (bev == NULL || !side_open(&h->up.side, bev, NULL, on_bytes,
	    on_bytes, on_event, h))
		sbx_fatal("no memory for a connection");
	return (upstream_send(h));
}

static enum step
dialled(struct http *h, int fd)
{
	static const struct refusal no_tls = { LAYER_TLS, 503, "no_roots",
		"there are no roots to verify the host with", "" };
	int options = BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;
	struct event_base *base = h->c.l->x->base;
	struct bufferevent *bev;
	SSL *ssl = NULL;

	if (h->req.courier)
		return (to_courier(h, fd));
	if (h->up.scheme == POLICY_HTTPS && (ssl = host_tls(h)) == NULL) {
		(void)close(fd);
		return (http_refuse(h, &no_tls));
	}
	bev = ssl == NULL ? bufferevent_socket_new(base, fd, options) :
	    bufferevent_openssl_socket_new(base, fd, ssl,
	    BUFFEREVENT_SSL_CONNECTING, options);
	if (bev == NULL || !side_open(&h->up.side, bev, ssl, on_bytes, on_bytes,
	    on_event, h))
		sbx_fatal("no memory for a connection");
	return (ssl == NULL ? upstream_send(h) : http_enter(h, ST_UPTLS));
}

static void
on_dialled(void *ctx, int fd, const char *code, const char *why)
{
	struct http *h = ctx;

	h->up.dial = NULL;
	http_go(h, fd < 0 ? dial_failed(h, code, why) : dialled(h, fd));
}

/* Does the connection that is there lead to where the request goes, and is it
 * as an answered request left it? */
static bool
is_ready(const struct http *h)
{
	const struct upstream *u = &h->up;
	const struct side *s = &u->side;

	/* with a credential nothing goes where others were, and the other way
	 * round */
	return (!h->req.courier && u->exchange == 0 && s->bev != NULL &&
	    !s->ended && !s->failed && !s->deaf && evbuffer_get_length(side_in(s)) == 0 &&
	    u->scheme == h->c.scheme && u->port == h->c.port &&
	    u->host.kind == h->c.host.kind &&
	    strcmp(u->host.text, h->c.host.text) == 0);
}

enum step
upstream_go(struct http *h)
{
	if (is_ready(h))
		return (upstream_send(h));
	upstream_close(h);
	h->up.scheme = h->c.scheme;
	h->up.host = h->c.host;
	h->up.port = h->c.port;
	h->up.dial = dial_start(h->c.l->x, &h->up.host, h->up.port, on_dialled,
	    h);
	return (http_enter(h, ST_DIAL));
}
