/*
 * The proxy's HTTP, from a client's first byte to the end of an answer, with a
 * host, a journal and grants that are played here.  All in one loop: each side
 * is the other end of a socket pair.
 */
#include "common/base/log.h"
#include "common/proto/loop.h"
#include "sbx-proxy/ca.h"
#include "sbx-proxy/dial.h"
#include "sbx-proxy/grant.h"
#include "sbx-proxy/http.h"
#include "sbx-proxy/record.h"
#include "sbx-proxy/tunnel.h"
#include "tests/tap.h"

#include <errno.h>
#include <event2/event.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TEXT 65536

static struct proxy x;
static struct listener l;
static struct roots roots;
static SSL_CTX *server, *client, *host_context;

/* What happened in one case. */
static struct {
	int client, host;	/* our ends; host: of the last one dialled */
	SSL *ssl;		/* with the client, or NULL */
	SSL *host_ssl;
	unsigned dials, denied, passed, used;
	bool dial_fails, tunnelled;
	char code[64], layer[16], target[512], end[64], what[32];
	unsigned status;
	uint64_t out, in;
	char got[TEXT], sent[TEXT];	/* by the client; to the host */
	size_t ngot, nsent;
	bool got_end;
} t;

/* --- those who are played ------------------------------------------------ */

struct dial {
	struct event *ev;
	dial_done done;
	void *ctx;
	int fd;
};

static void
on_dial(evutil_socket_t fd, short what, void *ctx)
{
	struct dial d = *(struct dial *)ctx;

	(void)fd;
	(void)what;
	event_free(d.ev);
	free(ctx);
	if (d.fd < 0)
		d.done(d.ctx, -1, "address_refused", "it leads to a loopback "
		    "address");
	else
		d.done(d.ctx, d.fd, NULL, NULL);
}

struct dial *
dial_start(struct proxy *p, const struct host *h, uint16_t port,
    dial_done done, void *ctx)
{
	struct dial *d = sbx_xcalloc(1, sizeof(*d));
	struct timeval now = { 0, 0 };
	int fds[2] = { -1, -1 };

	(void)p;
	(void)h;
	(void)port;
	t.dials++;
	if (!t.dial_fails && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK,
	    0, fds) == 0) {
		sbx_close(&t.host);
		t.host = fds[1];
		t.nsent = 0;
	}
	*d = (struct dial){ .done = done, .ctx = ctx, .fd = fds[0] };
	d->ev = evtimer_new(x.base, on_dial, d);
	(void)evtimer_add(d->ev, &now);
	return (d);
}

void
dial_cancel(struct dial *d)
{
	if (d == NULL)
		return;
	sbx_close(&d->fd);
	event_free(d->ev);
	free(d);
}

void
tunnel_start(struct listener *at, int fd, const struct host *h, uint16_t port)
{
	ssize_t n = recv(fd, t.sent, sizeof(t.sent) - 1, MSG_DONTWAIT);

	(void)at;
	(void)h;
	(void)port;
	t.tunnelled = true;
	t.nsent = n > 0 ? (size_t)n : 0;
	sbx_close(&fd);
}

void
record_denied(struct listener *at, enum layer layer, const char *code,
    const char *target, const char *why)
{
	static const char *const names[LAYER_MAX] = { "parse", "limit",
		"policy", "dns", "address", "dial", "sni", "tls", "host",
		"gate", "grant", "push", "budget", "courier" };

	(void)at;
	(void)why;
	t.denied++;
	(void)snprintf(t.code, sizeof(t.code), "%s", code);
	(void)snprintf(t.layer, sizeof(t.layer), "%s", names[layer]);
	(void)snprintf(t.target, sizeof(t.target), "%s", target);
}

void
record_passed(const struct record_passed *r)
{
	t.passed++;
	t.status = r->status;
	t.out = r->out;
	t.in = r->in;
	(void)snprintf(t.end, sizeof(t.end), "%s", r->end);
	(void)snprintf(t.what, sizeof(t.what), "%s", r->what);
}

/* The last opened comes first, as in grant.c. */
static struct grant grants[2];

struct grant *
grant_find(struct listener *at, enum sbx_grant_op op, const struct host *h,
    const char *repo, const struct grant *after)
{
	struct grant *g = grants + (after == NULL ? 0 : after - grants + 1);

	(void)at;
	(void)h;
	for (; g < grants + SBX_NELEM(grants); g++)
		if (g->uses > 0 && op == g->op && strcmp(repo, g->repo) == 0)
			return (g);
	return (NULL);
}

void
grant_use(struct grant *g)
{
	g->uses--;
	t.used++;
}

bool
conn_add(struct conn *c, struct listener *at,
    void (*end)(struct conn *c, const char *why))
{
	c->l = at;
	c->end = end;
	LIST_INSERT_HEAD(&at->conns, c, link);
	at->nconns++;
	return (true);
}

void
conn_remove(struct conn *c)
{
	LIST_REMOVE(c, link);
	c->l->nconns--;
}

int
ca_context(struct ca *ca, const struct host *h, SSL_CTX **ret,
    struct sbx_err *err)
{
	(void)ca;
	(void)h;
	*ret = server;
	return (h->text[0] == 'z' ? sbx_err_set(err, SBX_E_POLICY, "no") : 0);
}

SSL_CTX *
ca_upstream(const struct roots *r)
{
	(void)r;
	return (SSL_CTX_up_ref(client) == 1 ? client : NULL);
}

/* --- our two ends -------------------------------------------------------- */

static bool
take(int fd, SSL *ssl, char *buf, size_t *n)
{
	ssize_t r;

	if (fd < 0 || *n >= TEXT - 1)
		return (false);
	r = ssl != NULL ? SSL_read(ssl, buf + *n, (int)(TEXT - 1 - *n)) :
	    recv(fd, buf + *n, TEXT - 1 - *n, MSG_DONTWAIT);
	if (r <= 0)
		return (false);
	*n += (size_t)r;
	buf[*n] = '\0';
	return (true);
}

/* Until nothing happens any more. */
static void
turn(void)
{
	char byte;

	for (int quiet = 0; quiet < 6;) {
		bool moved;

		(void)event_base_loop(x.base, EVLOOP_NONBLOCK);
		moved = take(t.client, t.ssl, t.got, &t.ngot);
		/* a handshake is for host_shake() */
		if (t.ssl == NULL || t.host_ssl != NULL)
			moved |= take(t.host, t.host_ssl, t.sent, &t.nsent);
		quiet = moved ? 0 : quiet + 1;
		if (!moved)
			(void)usleep(300);
	}
	if (t.client >= 0 && recv(t.client, &byte, 1, MSG_DONTWAIT |
	    MSG_PEEK) == 0)
		t.got_end = true;
}

static void
begin(void)
{
	int fds[2];

	memset(&t, 0, sizeof(t));
	t.host = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0)
		abort();
	t.client = fds[0];
	client_start(&l, fds[1]);
}

static void
finish(const char *name)
{
	SSL_free(t.ssl);
	SSL_free(t.host_ssl);
	t.ssl = t.host_ssl = NULL;
	sbx_close(&t.client);
	sbx_close(&t.host);
	turn();
	while (!LIST_EMPTY(&l.conns))
		LIST_FIRST(&l.conns)->end(LIST_FIRST(&l.conns), "closed");
	if (l.nconns != 0)
		ok(false, "%s: nothing is left", name);
}

static void
say(const char *text)
{
	if (t.ssl != NULL)
		(void)SSL_write(t.ssl, text, (int)strlen(text));
	else
		(void)send(t.client, text, strlen(text), MSG_NOSIGNAL);
	turn();
}

static void
answer(const char *text)
{
	if (t.host_ssl != NULL)
		(void)SSL_write(t.host_ssl, text, (int)strlen(text));
	else
		(void)send(t.host, text, strlen(text), MSG_NOSIGNAL);
	turn();
}

static bool
got(const char *text)
{
	return (t.ngot > 0 && strstr(t.got, text) != NULL);
}

static bool
sent(const char *text)
{
	return (t.nsent > 0 && strstr(t.sent, text) != NULL);
}

/* --- what is refused, in one line ---------------------------------------- */

#define PT "http://plain.test"
#define HP "Host: plain.test\r\n"

static const struct {
	const char *text;	/* the whole of what the client sends */
	unsigned status;
	const char *layer, *code;
} refused[] = {
	{ "GET / HTTP/1.1\r\n" HP "\r\n", 400, "parse", "bad_request" },
	{ "GET https://plain.test/ HTTP/1.1\r\n" HP "\r\n", 400, "parse",
	    "bad_request" },
	{ "GET " PT "/ HTTP/1.0\r\n" HP "\r\n", 400, "parse", "bad_request" },
	{ "GET " PT "/ HTTP/1.1\n" HP "\n", 400, "parse", "bad_request" },
	{ "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "parse", "bad_request" },
	{ "connect plain.test:80 HTTP/1.1\r\n" HP "\r\n", 400, "parse",
	    "bad_request" },
	{ "CONNECT plain.test HTTP/1.1\r\n" HP "\r\n", 400, "parse",
	    "bad_host" },
	{ "CONNECT a@t.test:443 HTTP/1.1\r\nHost: t.test:443\r\n\r\n", 400,
	    "parse", "bad_host" },
	{ "CONNECT t.test:443 HTTP/1.1\r\nHost: t.test:443\r\n"
	    "Content-Length: 1\r\n\r\nx", 400, "parse", "bad_request" },
	{ "CONNECT t.test:443 HTTP/1.1\r\nHost: u.test:443\r\n\r\n", 421,
	    "host", "host_mismatch" },
	{ "CONNECT t.test:443 HTTP/1.1\r\nHost: t.test:80\r\n\r\n", 421,
	    "host", "host_mismatch" },
	{ "CONNECT u.test:443 HTTP/1.1\r\nHost: u.test:443\r\n\r\n", 403,
	    "policy", "host_not_allowed" },
	{ "CONNECT t.test:22 HTTP/1.1\r\nHost: t.test:22\r\n\r\n", 403,
	    "policy", "port_not_allowed" },
	{ "CONNECT z.test:443 HTTP/1.1\r\nHost: z.test:443\r\n\r\n", 503,
	    "tls", "no_certificate" },
	{ "GET http://u.test/ HTTP/1.1\r\nHost: u.test\r\n\r\n", 403,
	    "policy", "host_not_allowed" },
	{ "GET http://u.test/ HTTP/1.1\r\n" HP "\r\n", 421, "host",
	    "host_mismatch" },
	{ "GET " PT "/ HTTP/1.1\r\nHost: u.test\r\n\r\n", 421, "host",
	    "host_mismatch" },
	{ "GET " PT ":80/ HTTP/1.1\r\nHost: plain.test:81\r\n\r\n", 421, "host",
	    "host_mismatch" },
	{ "GET http://a@plain.test/ HTTP/1.1\r\n" HP "\r\n", 400, "parse",
	    "bad_host" },
	{ "GET http://plain%2etest/ HTTP/1.1\r\n" HP "\r\n", 400, "parse",
	    "bad_host" },
	{ "GET " PT "/ HTTP/1.1\r\n" HP "Upgrade: websocket\r\n\r\n", 403,
	    "gate", "upgrade" },
	{ "GET " PT "/ HTTP/1.1\r\n" HP "Connection: x, Upgrade\r\n\r\n", 403,
	    "gate", "upgrade" },
};

static void
test_refused(void)
{
	char status[16];

	for (size_t i = 0; i < SBX_NELEM(refused); i++) {
		begin();
		say(refused[i].text);
		(void)snprintf(status, sizeof(status), "HTTP/1.1 %u ",
		    refused[i].status);
		ok(strncmp(t.got, status, 13) == 0 && t.dials == 0 &&
		    t.denied == 1 && strcmp(t.layer, refused[i].layer) == 0 &&
		    strcmp(t.code, refused[i].code) == 0 &&
		    got("sbx: ") && t.passed == 0,
		    "%.*s: %u %s %s (%.12s %s %s)",
		    (int)strcspn(refused[i].text, "\r\n"), refused[i].text,
		    refused[i].status, refused[i].layer, refused[i].code,
		    t.got, t.layer, t.code);
		finish("refused");
	}
}

/* --- plain requests ------------------------------------------------------ */

#define OK2 "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void
test_plain(void)
{
	begin();
	say("GET " PT "/a?b=c&token=d HTTP/1.1\r\n" HP "Cookie: x\r\n\r\n"
	    "GET " PT "/2 HTTP/1.1\r\n" HP "\r\n");
	ok(sent("GET /a?b=c HTTP/1.1\r\nHost: plain.test\r\n") &&
	    !sent("Cookie") && !sent("GET /2"), "one request goes on");
	answer(OK2);
	ok(got("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n") && t.passed == 1 &&
	    t.in == 2 && t.dials == 1 && sent("GET /2 HTTP/1.1"),
	    "after its answer the next, on the same connection");
	t.ngot = 0;
	answer("HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "3\r\nabc\r\n0\r\n\r\n");
	ok(got("3\r\nabc\r\n0\r\n\r\n") && t.passed == 2 && t.status == 404,
	    "chunks come through");
	answer(OK2);	/* of no request */
	t.ngot = 0;
	say("GET " PT "/3 HTTP/1.1\r\n" HP "\r\n");
	ok(t.dials == 2 && t.ngot == 0 && sent("GET /3"),
	    "an answer that nobody asked for goes to nobody");
	answer(OK2);
	say("GET http://u.test/ HTTP/1.1\r\nHost: u.test\r\n\r\n"
	    "GET " PT "/4 HTTP/1.1\r\n" HP "\r\n");
	ok(got("403 Forbidden") && sent("GET /4") && t.dials == 2,
	    "a refusal leaves the connection");
	finish("plain");
}

static void
test_retry(void)
{
	begin();
	say("GET " PT "/1 HTTP/1.1\r\n" HP "\r\n");
	answer(OK2);
	(void)shutdown(t.host, SHUT_RDWR);
	say("GET " PT "/2 HTTP/1.1\r\n" HP "\r\n");
	ok(t.dials == 2 && sent("GET /2"), "a connection that ended meanwhile "
	    "is not used");
	answer(OK2);
	say("GET " PT "/3 HTTP/1.1\r\n" HP "\r\n");
	(void)shutdown(t.host, SHUT_RDWR);
	turn();
	ok(t.dials == 3 && sent("GET /3"), "one that ends before an answer is "
	    "tried once more");
	(void)shutdown(t.host, SHUT_RDWR);
	turn();
	ok(t.dials == 3 && got("502 Bad Gateway"), "and not again");
	finish("retry");
	begin();
	say("GET " PT "/1 HTTP/1.1\r\n" HP "\r\n");
	answer(OK2);
	say("POST " PT "/2 HTTP/1.1\r\n" HP "Content-Length: 1\r\n\r\nx");
	(void)shutdown(t.host, SHUT_RDWR);
	turn();
	ok(t.dials == 1 && got("502 Bad Gateway"), "a request that may change "
	    "something is not sent twice");
	finish("retry");
}

static const struct {
	const char *name, *text;
	const char *got;	/* by the client */
	const char *end;	/* on record; NULL: any */
} hosts_answers[] = {
	{ "until the end", "HTTP/1.0 200 OK\r\n\r\nabc",
	    "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
	    "3\r\nabc\r\n0\r\n\r\n", "" },
	{ "cut", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "\r\n\r\nab",
	    "upstream_closed" },
	{ "chunks that are cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"
	    "\r\n\r\n3\r\nabc\r\n", "3\r\nabc\r\n", "upstream_closed" },
	{ "bad chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"
	    "\r\n\r\n3\r\nabcd", "3\r\nabc\r\n", "bad_answer" },
	{ "not HTTP", "SSH-2.0-x\r\n", "502 Bad Gateway", NULL },
	{ "two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
	    "Content-Length: 2\r\n\r\nab", "502 Bad Gateway", NULL },
	{ "another protocol", "HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n",
	    "502 Bad Gateway", NULL },
	{ "interim ones", "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
	    "HTTP/1.1 100 Continue\r\n\r\n" OK2, "HTTP/1.1 200 OK\r\n", "" },
	{ "nothing", "", "502 Bad Gateway", NULL },
	{ "half a head", "HTTP/1.1 200 OK\r\n", "502 Bad Gateway", NULL },
};

static void
test_answers(void)
{
	for (size_t i = 0; i < SBX_NELEM(hosts_answers); i++) {
		begin();
		say("GET " PT "/ HTTP/1.1\r\n" HP "\r\n");
		answer(hosts_answers[i].text);
		(void)shutdown(t.host, SHUT_WR);
		turn();
		ok(got(hosts_answers[i].got) && t.passed == 1 &&
		    strncmp(t.got, "HTTP/1.1 10", 11) != 0 &&
		    (hosts_answers[i].end == NULL || strcmp(t.end,
		    hosts_answers[i].end) == 0), "an answer: %s (%s)",
		    hosts_answers[i].name, t.end);
		ok((hosts_answers[i].end != NULL && *hosts_answers[i].end ==
		    '\0') || !got("0\r\n\r\n"), "and nobody takes a part of "
		    "it for the whole");
		finish("answers");
	}
}

static void
test_bodies(void)
{
	begin();
	say("POST " PT "/ HTTP/1.1\r\n" HP "Transfer-Encoding: chunked\r\n"
	    "Expect: 100-continue\r\n\r\n");
	ok(got("100 Continue") && !sent("Expect"), "the client may go on");
	say("3\r\nabc\r\n");
	ok(sent("\r\n\r\n3\r\nabc\r\n"), "its body goes on at once");
	say("0\r\n\r\nGET");
	answer(OK2);
	ok(sent("0\r\n\r\n") && !sent("GET") && t.out == 3 && t.passed == 1,
	    "to its end");
	finish("bodies");

	begin();
	say("POST " PT "/ HTTP/1.1\r\n" HP "Transfer-Encoding: chunked\r\n\r\n"
	    "3\r\nabcd");
	ok(got("400 Bad Request") && !sent("0\r\n\r\n"), "bad chunks are "
	    "no whole request");
	finish("bodies");

	begin();
	say("POST " PT "/ HTTP/1.1\r\n" HP "Content-Length: 9\r\n\r\nabc");
	answer("HTTP/1.1 413 Large\r\nContent-Length: 2\r\n\r\nno");
	ok(got("413 Large") && got("Connection: close") && t.got_end,
	    "an early answer ends the connection");
	finish("bodies");

	begin();
	say("POST " PT "/ HTTP/1.1\r\n" HP "Content-Length: 9\r\n\r\nabc");
	sbx_close(&t.client);
	turn();
	ok(t.passed == 1 && strcmp(t.end, "client_closed") == 0 &&
	    l.nconns == 0, "a client that leaves amid its body");
	finish("bodies");

	begin();
	say("GET " PT "/ HTTP/1.1\r\n" HP "\r\n");
	(void)shutdown(t.client, SHUT_WR);
	turn();
	answer(OK2);
	ok(got("\r\n\r\nok") && t.got_end, "one that has said all gets its "
	    "answer");
	finish("bodies");
}

/* Much of it, with who is slow to read. */
static void
test_flow(void)
{
	static char block[32768];
	size_t in = 0, taken = 0, total = 16u << 20;
	ssize_t n;

	begin();
	say("POST " PT "/ HTTP/1.1\r\n" HP "Content-Length: 16777216\r\n\r\n");
	t.nsent = 0;
	memset(block, 'x', sizeof(block));
	for (int idle = 0; idle < 50;) {
		n = send(t.client, block, sizeof(block), MSG_DONTWAIT |
		    MSG_NOSIGNAL);
		in += n > 0 ? (size_t)n : 0;
		idle = n > 0 ? 0 : idle + 1;
		(void)event_base_loop(x.base, EVLOOP_NONBLOCK);
	}
	ok(in < 2 * HTTP_BUFFER + (2u << 20), "a host that does not read "
	    "stops the client (%zu bytes)", in);
	for (int idle = 0; idle < 1000 && taken < total;) {
		if (in < total) {
			size_t want = total - in;

			n = send(t.client, block, want < sizeof(block) ? want :
			    sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL);
			in += n > 0 ? (size_t)n : 0;
		}
		(void)event_base_loop(x.base, EVLOOP_NONBLOCK);
		n = recv(t.host, block, 10000, MSG_DONTWAIT);
		taken += n > 0 ? (size_t)n : 0;
		idle = n > 0 ? 0 : idle + 1;
	}
	ok(taken == total, "and when it reads, all comes (%zu)", taken);
	answer(OK2);
	ok(t.passed == 1 && t.out == total, "counted");
	finish("flow");
}

static void
test_download(void)
{
	static char block[32768];
	size_t in = 0, taken = 0, total = 16u << 20;
	ssize_t n;

	begin();
	say("GET " PT "/ HTTP/1.1\r\n" HP "\r\n");
	answer("HTTP/1.1 200 OK\r\nContent-Length: 16777216\r\n\r\n");
	for (int idle = 0; idle < 50;) {
		n = send(t.host, block, sizeof(block), MSG_DONTWAIT |
		    MSG_NOSIGNAL);
		in += n > 0 ? (size_t)n : 0;
		idle = n > 0 ? 0 : idle + 1;
		(void)event_base_loop(x.base, EVLOOP_NONBLOCK);
	}
	ok(in < 2 * HTTP_BUFFER + (2u << 20), "a client that does not read "
	    "stops the host (%zu bytes)", in);
	for (int idle = 0; idle < 1000 && taken < total;) {
		if (in < total) {
			size_t want = total - in;

			n = send(t.host, block, want < sizeof(block) ? want :
			    sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL);
			in += n > 0 ? (size_t)n : 0;
		}
		(void)event_base_loop(x.base, EVLOOP_NONBLOCK);
		n = recv(t.client, block, 9000, MSG_DONTWAIT);
		taken += n > 0 ? (size_t)n : 0;
		idle = n > 0 ? 0 : idle + 1;
	}
	ok(taken == total && t.passed == 1 && t.in == total,
	    "and when it reads, all comes (%zu)", taken);
	finish("download");
}

/* In pieces of one byte, and ended at each of them. */
static void
test_pieces(void)
{
	static const char text[] = "POST " PT "/ HTTP/1.1\r\n" HP
	    "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
	size_t i, n;

	begin();
	for (i = 0; i < sizeof(text) - 1; i++) {
		(void)send(t.client, text + i, 1, MSG_NOSIGNAL);
		for (n = 0; n < 3; n++)
			(void)event_base_loop(x.base, EVLOOP_NONBLOCK);
	}
	turn();
	answer(OK2);
	ok(sent("1\r\nx\r\n0\r\n\r\n") && got("\r\n\r\nok") && t.passed == 1,
	    "a request byte by byte");
	finish("pieces");
	for (n = 0; n < sizeof(text) - 1; n += 3) {
		begin();
		(void)send(t.client, text, n, MSG_NOSIGNAL);
		for (i = 0; i < 1 + n % 4; i++)
			(void)event_base_loop(x.base, EVLOOP_NONBLOCK);
		while (!LIST_EMPTY(&l.conns))
			LIST_FIRST(&l.conns)->end(LIST_FIRST(&l.conns), "x");
		finish("pieces");
	}
	ok(l.nconns == 0, "it can be ended at any byte");
}

static void
test_connect(void)
{
	begin();
	say("CONNECT t.test:443 HTTP/1.1\r\nHost: t.test:443\r\n\r\nhello");
	ok(t.tunnelled && sent("hello"), "what follows a CONNECT is still in "
	    "the socket");
	finish("connect");
	begin();
	t.dial_fails = true;
	say("GET " PT "/ HTTP/1.1\r\n" HP "\r\n");
	ok(got("403 Forbidden") && strcmp(t.layer, "address") == 0,
	    "an address that is refused");
	finish("connect");
}

/* --- inside TLS ---------------------------------------------------------- */

static bool
shake(SSL *ssl)
{
	int r = 0;

	for (int i = 0; i < 200 && r != 1; i++) {
		r = SSL_do_handshake(ssl);
		(void)event_base_loop(x.base, EVLOOP_NONBLOCK);
		if (r != 1 && SSL_get_error(ssl, r) != SSL_ERROR_WANT_READ)
			break;
		(void)usleep(200);
	}
	return (r == 1);
}

/* CONNECT to host, and a handshake for name (NULL: none). */
static bool
enter(const char *host, const char *name)
{
	char text[256];

	begin();
	(void)snprintf(text, sizeof(text), "CONNECT %s:443 HTTP/1.1\r\n"
	    "Host: %s:443\r\n\r\n", host, host);
	say(text);
	if (!got("HTTP/1.1 200 "))
		return (false);
	t.ngot = 0;
	t.ssl = SSL_new(client);
	(void)SSL_set_fd(t.ssl, t.client);
	if (name != NULL)
		(void)SSL_set_tlsext_host_name(t.ssl, name);
	SSL_set_connect_state(t.ssl);
	return (shake(t.ssl));
}

/* The host's handshake, after a request went to it. */
static bool
host_shake(void)
{
	t.host_ssl = SSL_new(host_context);
	(void)SSL_set_fd(t.host_ssl, t.host);
	SSL_set_accept_state(t.host_ssl);
	return (shake(t.host_ssl));
}

static void
test_names(void)
{
	ok(enter("i.test", "i.test"), "the name of the CONNECT");
	finish("names");
	ok(enter("i.test", "I.TEST"), "in another case");
	finish("names");
	ok(!enter("i.test", "git.test") && strcmp(t.layer, "sni") == 0 &&
	    strcmp(t.code, "sni_mismatch") == 0, "another name");
	finish("names");
	ok(!enter("i.test", NULL) && strcmp(t.code, "sni_missing") == 0,
	    "no name");
	finish("names");
}

static const struct {
	const char *host, *text;
	unsigned status;
	const char *layer, *code;
} inside[] = {
	{ "i.test", "GET / HTTP/1.1\r\nHost: git.test\r\n\r\n", 421, "host",
	    "host_mismatch" },
	{ "i.test", "GET / HTTP/1.1\r\nHost: i.test:80\r\n\r\n", 421, "host",
	    "host_mismatch" },
	{ "i.test", "GET http://i.test/ HTTP/1.1\r\nHost: i.test\r\n\r\n", 400,
	    "parse", "bad_request" },
	{ "i.test", "CONNECT i.test:443 HTTP/1.1\r\nHost: i.test:443\r\n\r\n",
	    400, "parse", "bad_request" },
	{ "pypi.org", "POST / HTTP/1.1\r\nHost: pypi.org\r\n"
	    "Content-Length: 1\r\n\r\nx", 403, "gate", "method_not_allowed" },
	{ "pypi.org", "get / HTTP/1.1\r\nHost: pypi.org\r\n\r\n", 403, "gate",
	    "method_not_allowed" },
	{ "pypi.org", "GET / HTTP/1.1\r\nHost: pypi.org\r\n"
	    "Content-Length: 1\r\n\r\nx", 403, "gate", "body_not_allowed" },
	{ "github.com", "GET /o/r HTTP/1.1\r\nHost: github.com\r\n\r\n", 403,
	    "gate", "not_recognised" },
	{ "github.com", "POST /o/r/git-receive-pack HTTP/1.1\r\n"
	    "Host: github.com\r\nContent-Length: 4\r\n\r\n0000", 403, "grant",
	    "no_grant" },
	{ "github.com", "GET /o/r/info/refs?service=git-receive-pack HTTP/1.1"
	    "\r\nHost: github.com\r\n\r\n", 403, "grant", "no_grant" },
	{ "api.github.com", "POST /graphql HTTP/1.1\r\nHost: api.github.com"
	    "\r\n\r\n", 403, "grant", "no_grant" },
	{ "api.github.com", "POST /repos/o/r/issues HTTP/1.1\r\n"
	    "Host: api.github.com\r\nContent-Length: 2\r\n\r\n{}", 403,
	    "grant", "no_grant" },
	{ "git.test", "GET /o/r HTTP/1.1\r\nHost: git.test\r\n\r\n", 403,
	    "gate", "not_recognised" },
};

static void
test_inside(void)
{
	char status[16];

	for (size_t i = 0; i < SBX_NELEM(inside); i++) {
		bool in = enter(inside[i].host, inside[i].host);

		say(inside[i].text);
		(void)snprintf(status, sizeof(status), "HTTP/1.1 %u ",
		    inside[i].status);
		ok(in && strncmp(t.got, status, 13) == 0 && t.dials == 0 &&
		    strcmp(t.layer, inside[i].layer) == 0 &&
		    strcmp(t.code, inside[i].code) == 0, "%s: %.*s: %u %s "
		    "(%.12s %s)", inside[i].host,
		    (int)strcspn(inside[i].text, "\r\n"), inside[i].text,
		    inside[i].status, inside[i].code, t.got, t.code);
		finish("inside");
	}
}

static void
test_tls(void)
{
	ok(enter("i.test", "i.test"), "TLS with the client");
	say("GET /a HTTP/1.1\r\nHost: i.test\r\nAuthorization: x\r\n\r\n");
	ok(t.dials == 1 && host_shake(), "and with the host");
	turn();
	ok(sent("GET /a HTTP/1.1\r\nHost: i.test\r\n") &&
	    !sent("Authorization"), "the request goes on");
	answer(OK2);
	say("GET /b HTTP/1.1\r\nHost: i.test\r\n\r\n");
	answer(OK2);
	ok(t.passed == 2 && t.dials == 1, "two of them on one connection");
	finish("tls");
	/* a certificate for other names */
	ok(enter("n.test", "n.test"), "a client that does not look");
	say("GET /a HTTP/1.1\r\nHost: n.test\r\n\r\n");
	(void)host_shake();
	turn();
	ok(got("502 Bad Gateway") && strcmp(t.code, "upstream_certificate") ==
	    0 && t.nsent == 0, "a host that is not who it should be");
	finish("tls");
}

/* What a host shows to nobody ends in a sentence, and in no prompt. */
static void
test_needs_credential(void)
{
	(void)enter("git.test", "git.test");
	say("GET /o/r.git/info/refs?service=git-upload-pack HTTP/1.1\r\n"
	    "Host: git.test\r\n\r\n");
	ok(t.dials == 1 && host_shake(), "a repository is asked for");
	turn();
	answer("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\n"
	    "Content-Length: 2\r\n\r\nno");
	ok(got("HTTP/1.1 403 ") && got("BLOCKED by sbx") && got("clone_repo") &&
	    !got("WWW-Auth") && strcmp(t.code, "needs_credential") == 0,
	    "401: no client is asked for a password (%s)", t.code);
	finish("needs a credential");
}

/* --- pushes -------------------------------------------------------------- */

#define ZERO "0000000000000000000000000000000000000000"
#define NEW "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define REF(name) "0067" ZERO " " NEW " refs/heads/" name "\0 a"
#define PUSH "POST /o/r.git/git-receive-pack HTTP/1.1\r\nHost: git.test\r\n" \
	"Content-Type: application/x-git-receive-pack-request\r\n"

static void
open_grant(void)
{
	memset(grants, 0, sizeof(grants));
	grants[1].uses = 1;
	grants[1].reads = SBX_GRANT_READS;
	grants[1].op = SBX_GRANT_PUSH;
	(void)snprintf(grants[1].id, sizeof(grants[1].id), "0123456789abcdef");
	(void)snprintf(grants[1].repo, sizeof(grants[1].repo), "o/r");
	(void)snprintf(grants[1].push.ref, sizeof(grants[1].push.ref), "refs/heads/x");
	(void)snprintf(grants[1].push.new_id, sizeof(grants[1].push.new_id), NEW);
	(void)snprintf(grants[1].push.old_id, sizeof(grants[1].push.old_id), ZERO);
}

static void
say_push(const char *ref)
{
	char text[512], command[256];
	int n = snprintf(command, sizeof(command), ZERO " " NEW " %s%c a", ref,
	    '\0'), len;

	len = snprintf(text, sizeof(text), PUSH "Content-Length: %d\r\n"
	    "Expect: 100-continue\r\n\r\n", n + 4 + 8);
	(void)SSL_write(t.ssl, text, len);
	turn();
	len = snprintf(text, sizeof(text), "%04x", (unsigned)n + 4);
	memcpy(text + len, command, (size_t)n);
	memcpy(text + len + n, "0000PACK", 8);
	(void)SSL_write(t.ssl, text, len + n);
	turn();
	ok(t.dials == 0, "nothing goes out before its commands are whole");
	(void)SSL_write(t.ssl, text + len + n, 8);
	turn();
}

/* A push of another ref, from a client that reads reports, with `pack` bytes
 * behind it of which not all come at once. */
static void
test_reported_push(void)
{
	static char pack[40000];
	char text[512], command[256];
	int n = snprintf(command, sizeof(command), ZERO " " NEW " refs/heads/y%c"
	    "report-status side-band-64k", '\0'), len, i, tries;

	open_grant();
	(void)enter("git.test", "git.test");
	len = snprintf(text, sizeof(text), PUSH "Content-Length: %zu\r\n\r\n"
	    "%04x", (size_t)n + 8 + 20 * sizeof(pack), (unsigned)n + 4);
	memcpy(text + len, command, (size_t)n);
	memcpy(text + len + n, "0000", 4);
	(void)SSL_write(t.ssl, text, len + n + 4);
	for (i = 0, tries = 0; i < 20 && tries < 1000; tries++) {
		turn();
		i += SSL_write(t.ssl, pack, sizeof(pack)) > 0;
	}
	ok(i == 20, "a pack of 800 KB is heard to its end (%d)", i);
	turn();
	ok(got("200 OK") && got("git-receive-pack-result") && got("unpack "
	    "BLOCKED by sbx: it changes another ref") && got("ng refs/heads/y "
	    "BLOCKED by sbx: ") && got("Connection: keep-alive"),
	    "and answered with a report");
	ok(strcmp(t.code, "push_not_granted") == 0 && t.dials == 0 &&
	    t.used == 0 && t.passed == 0, "on record as refused");
	grants[1].uses = 0;
	finish("push");
}

/* Asking for the refs that a push would change, and whether it would be heard. */
static void
test_push_reads(void)
{
	static const char *const asks[] = {
		"GET /o/r.git/info/refs?service=git-receive-pack HTTP/1.1\r\n"
		    "Host: git.test\r\n\r\n",
		PUSH "Content-Length: 4\r\n\r\n0000" };
	static const char *const codes[] = { "grant_read_out", "grant_ended" };

	for (size_t i = 0; i < SBX_NELEM(asks); i++) {
		open_grant();
		for (unsigned n = 0; n < SBX_GRANT_READS; n++) {
			(void)enter("git.test", "git.test");
			say(asks[i]);
			(void)host_shake();
			turn();
			answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
			if (!got("200 OK"))
				ok(false, "it is read %u times", n);
			finish("push");
		}
		ok(grants[1].reads == 0 && grants[1].uses == 1,
		    "a grant to push is read %u times, which uses nothing up",
		    SBX_GRANT_READS);
		(void)enter("git.test", "git.test");
		say(asks[i]);
		(void)host_shake();
		turn();
		ok(got("403 Forbidden") && strcmp(t.code, codes[i]) == 0 &&
		    t.nsent == 0, "and then no more (%s)", t.code);
		finish("push");
		(void)enter("git.test", "git.test");
		say_push("refs/heads/x");
		(void)host_shake();
		turn();
		ok(t.used == 1, "while the push itself goes on");
		answer(OK2);
		finish("push");
	}
}

static void
test_push(void)
{
	open_grant();
	ok(enter("git.test", "git.test"), "a host of git alone");
	say(PUSH "Content-Length: 4\r\n\r\n0000");
	(void)host_shake();
	turn();
	answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	ok(sent("\r\n\r\n0000") && got("200 OK") && t.used == 0,
	    "the probe before a push passes, and uses nothing up");
	finish("push");
	(void)enter("git.test", "git.test");
	say_push("refs/heads/x");
	ok(got("100 Continue") && t.used == 0 && host_shake(),
	    "nothing is used up before there is a connection");
	turn();
	ok(t.used == 1, "then the granted push is");
	ok(t.nsent > 200 && memmem(t.sent, t.nsent, "0000PACK", 8) != NULL,
	    "and goes on whole");
	answer(OK2);
	ok(t.passed == 1 && strcmp(t.what, "git write") == 0 && t.out == 109,
	    "on record (%llu)", (unsigned long long)t.out);
	finish("push");
	(void)enter("git.test", "git.test");
	say(PUSH "Content-Length: 4\r\n\r\n0000");
	ok(got("403 Forbidden") && strcmp(t.code, "no_grant") == 0,
	    "not twice");
	finish("push");
	open_grant();
	(void)enter("git.test", "git.test");
	say_push("refs/heads/y");
	ok(got("403 Forbidden") && strcmp(t.code, "push_not_granted") == 0 &&
	    t.dials == 0 && t.used == 0, "not to another ref");
	finish("push");
	(void)enter("git.test", "git.test");
	grants[0] = grants[1];
	grants[0].id[0] = 'f';
	(void)snprintf(grants[0].push.ref, sizeof(grants[0].push.ref),
	    "refs/heads/z");
	say_push("refs/heads/x");
	ok(t.dials == 1 && host_shake(), "another grant does not hide it");
	turn();
	ok(t.used == 1 && grants[1].uses == 0 && grants[0].uses == 1,
	    "and the one that it rests on is used up");
	grants[0].uses = 0;
	finish("push");
	open_grant();
	(void)enter("git.test", "git.test");
	say(PUSH "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n0000");
	ok(strcmp(t.code, "push_encoded") == 0, "not compressed");
	finish("push");
	(void)enter("git.test", "git.test");
	say(PUSH "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"
	    "Content-Length: 4\r\n\r\n0000");
	ok(strcmp(t.code, "push_encoded") == 0, "nor beside another word");
	finish("push");
	(void)enter("git.test", "git.test");
	say(PUSH "Transfer-Encoding: chunked\r\n\r\n4\r\n0000\r\n0\r\n\r\n");
	ok(strcmp(t.code, "push_not_granted") == 0 && t.dials == 0,
	    "an empty one that is no probe");
	grants[1].uses = 0;
	finish("push");
}

/* --- the budget ---------------------------------------------------------- */

static void
test_budget(void)
{
	x.policy.out_bytes = 10;
	begin();
	say("GET " PT "/ HTTP/1.1\r\n" HP "\r\n");
	ok(t.nsent == 0 && got("403 Forbidden") &&
	    strcmp(t.code, "budget_used_up") == 0,
	    "in the clear, too, no more goes out than may");
	x.policy.out_bytes = UINT64_MAX;
	finish("budget");
}

/* --- the start ----------------------------------------------------------- */

/* One certificate for all that is played here, and its own root. */
static void
make_tls(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	X509_NAME *name = X509_NAME_new();
	X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL,
	    NID_subject_alt_name, "DNS:i.test,DNS:git.test");

	(void)X509_set_version(cert, 2);
	(void)ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	(void)X509_gmtime_adj(X509_getm_notBefore(cert), -60);
	(void)X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	(void)X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
	    (const unsigned char *)"t", -1, -1, 0);
	(void)X509_set_subject_name(cert, name);
	(void)X509_set_issuer_name(cert, name);
	(void)X509_set_pubkey(cert, key);
	(void)X509_add_ext(cert, names, -1);
	(void)X509_sign(cert, key, EVP_sha256());
	server = SSL_CTX_new(TLS_server_method());
	client = SSL_CTX_new(TLS_client_method());
	host_context = SSL_CTX_new(TLS_server_method());
	if (server == NULL || client == NULL || host_context == NULL ||
	    SSL_CTX_use_certificate(server, cert) != 1 ||
	    SSL_CTX_use_PrivateKey(server, key) != 1 ||
	    SSL_CTX_use_certificate(host_context, cert) != 1 ||
	    SSL_CTX_use_PrivateKey(host_context, key) != 1)
		abort();
	(void)X509_STORE_add_cert(SSL_CTX_get_cert_store(client), cert);
	X509_EXTENSION_free(names);
	X509_NAME_free(name);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static void
make_policy(void)
{
	static const struct { const char *text; enum policy_how how; } rules[] =
	    { { "http://plain.test", POLICY_TUNNEL },
	    { "https://t.test", POLICY_TUNNEL },
	    { "https://i.test", POLICY_INTERCEPT },
	    { "https://n.test", POLICY_INTERCEPT },
	    { "https://z.test", POLICY_INTERCEPT },
	    { "https://git.test", POLICY_GIT } };

	policy_init(&x.policy);
	x.policy.out_bytes = UINT64_MAX;
	for (size_t i = 0; i < SBX_NELEM(rules); i++)
		if (policy_add(&x.policy, rules[i].text, rules[i].how, false,
		    NULL) != 0)
			abort();
}

int
main(void)
{
	tap_plan(0);
	(void)signal(SIGPIPE, SIG_IGN);
	sbx_log_init("test", SBX_LOG_ERR);
	make_tls();
	make_policy();
	x.base = sbx_loop_new();
	x.roots = &roots;
	LIST_INIT(&l.conns);
	l.x = &x;
	l.ca = (struct ca *)(void *)&roots;	/* never looked into */
	test_refused();
	test_plain();
	test_retry();
	test_answers();
	test_bodies();
	test_flow();
	test_download();
	test_pieces();
	test_connect();
	test_names();
	test_inside();
	test_tls();
	test_needs_credential();
	test_push_reads();
	test_push();
	test_reported_push();
	test_budget();
	policy_clear(&x.policy);
	SSL_CTX_free(server);
	SSL_CTX_free(host_context);
	SSL_CTX_free(client);
	event_base_free(x.base);
	return (tap_done());
}
