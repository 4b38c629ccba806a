#include "sbx-proxy/resolver.h"

#include "common/base/log.h"
#include "sbx-proxy/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <string.h>

#define PORT_DOMAIN 53
#define BATCH 8			/* datagrams in one turn */

struct server {
	struct sockaddr_storage addr;
	socklen_t len;
};

struct resolver {
	struct event_base *base;	/* borrowed */
	struct server servers[RESOLVER_SERVERS];
	unsigned n;
};

struct ask {
	struct resolver r;	/* as it was at the start */
	char name[HOST_MAX + 1];
	ask_done done;
	void *ctx;
	unsigned tries;		/* begun */
	int fd;			/* owned; of this try */
	struct event *readable;	/* owned; of this try, NULL: none */
	struct event *timer;	/* owned */
	struct dns_question questions[2];
	bool answered[2];
	bool failed[2];		/* in this try */
	bool absent;		/* some server says that there is no such name */
	struct dns_addrs addrs;
};

/* --- resolv.conf(5) ---------------------------------------------------------- */

static bool
read_server(const char *word, size_t n, struct server *s)
{
	char text[INET6_ADDRSTRLEN];
	struct sockaddr_in *v4 = (struct sockaddr_in *)&s->addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&s->addr;

	if (n >= sizeof(text))
		return (false);
	memcpy(text, word, n);
	text[n] = '\0';
	memset(s, 0, sizeof(*s));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(PORT_DOMAIN);
		s->len = sizeof(*v4);
		return (true);
	}
	/* "fe80::1%eth0" is not read: it would need a look at interfaces */
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
		return (false);
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(PORT_DOMAIN);
	s->len = sizeof(*v6);
	return (true);
}

static void
read_line(struct resolver *r, const char *line, size_t n)
{
	static const char keyword[] = "nameserver";
	const size_t k = sizeof(keyword) - 1;
	const char *word = line + k;
	char shown[64];
	size_t len = 0;

	if (n <= k || strncmp(line, keyword, k) != 0 ||
	    (*word != ' ' && *word != '\t'))
		return;
	while (word < line + n && (*word == ' ' || *word == '\t'))
		word++;
	while (word + len < line + n && strchr(" \t\r#;", word[len]) == NULL)
		len++;
	if (r->n == RESOLVER_SERVERS)
		return;
	if (read_server(word, len, &r->servers[r->n]))
		r->n++;
	else
		log_warn("a name server is no address: %s, ignoring",
		    sbx_vis(shown, sizeof(shown), word, len));
}

struct resolver *
resolver_new(struct event_base *base, const char *text)
{
	struct resolver *r = sbx_xcalloc(1, sizeof(*r));
	size_t n;

	r->base = base;
	for (; *text != '\0'; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		read_line(r, text, n);
	}
	if (r->n == 0) {
		free(r);
		return (NULL);
	}
	return (r);
}

void
resolver_free(struct resolver *r)
{
	free(r);
}

/* --- one name ------------------------------------------------------------------ */

static void try_next(struct ask *a);

static void
set_timer(struct ask *a, unsigned ms)
{
	const struct timeval t = { ms / 1000, ms % 1000 * 1000 };

	if (evtimer_add(a->timer, &t) < 0)
		sbx_fatal("a question cannot be timed");
}

static void
end_try(struct ask *a)
{
	if (a->readable != NULL)
		event_free(a->readable);
	a->readable = NULL;
	sbx_close(&a->fd);
}

void
ask_cancel(struct ask *a)
{
	if (a == NULL)
		return;
	end_try(a);
	event_free(a->timer);
	free(a);
}

static void
finish(struct ask *a)
{
	const char *why = a->absent ? "does not exist" :
	    a->answered[0] && a->answered[1] ? "has no address" :
	    "cannot be looked up: no name server gave an answer";

	end_try(a);
	if (a->addrs.n > 0)
		a->done(a->ctx, &a->addrs, NULL);
	else
		a->done(a->ctx, NULL, why);
	ask_cancel(a);
}

/* What one datagram says; of another question or none at all, nothing. */
static void
on_datagram(struct ask *a, const uint8_t *p, size_t n)
{
	unsigned rcode, i;

	for (i = 0; i < SBX_NELEM(a->questions); i++) {
		if (a->answered[i] || dns_answer(p, n, &a->questions[i],
		    &a->addrs, &rcode) != 0)
			continue;
		a->failed[i] = rcode != DNS_NOERROR && rcode != DNS_NXDOMAIN;
		a->answered[i] = !a->failed[i];
		a->absent = a->absent || rcode == DNS_NXDOMAIN;
	}
}

static void
on_readable(evutil_socket_t fd, short what, void *ctx)
{
	struct ask *a = ctx;
	uint8_t buf[DNS_ANSWER_MAX];
	ssize_t n = 0;
	unsigned i;

	(void)what;
	for (i = 0; i < BATCH && n >= 0; i++)
		if ((n = recv((int)fd, buf, sizeof(buf), 0)) >= 0)
			on_datagram(a, buf, (size_t)n);
	if (a->answered[0] && a->answered[1])
		finish(a);
	else if ((a->answered[0] || a->failed[0]) &&
	    (a->answered[1] || a->failed[1]))
		try_next(a);
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		try_next(a);	/* ICMP says that nobody is there */
	else if (a->addrs.n > 0)
		set_timer(a, RESOLVER_SECOND_MS);
}

/* Connected, so that no other address is heard.  0, -1. */
static int
send_questions(struct ask *a, const struct server *s)
{
	static const enum dns_type types[] = { DNS_A, DNS_AAAA };
	unsigned i;

	a->fd = socket(s->addr.ss_family, SOCK_DGRAM | SOCK_NONBLOCK |
	    SOCK_CLOEXEC, 0);
	if (a->fd < 0 || connect(a->fd, (const struct sockaddr *)&s->addr,
	    s->len) < 0)
		return (-1);
	for (i = 0; i < SBX_NELEM(types); i++) {
		a->failed[i] = false;
		if (a->answered[i])
			continue;
		/* some servers do not repeat the case; they are met the second
		 * time */
		if (dns_ask(a->name, types[i], a->tries <= a->r.n,
		    &a->questions[i]) < 0 || send(a->fd,
		    a->questions[i].bytes, a->questions[i].n,
		    MSG_NOSIGNAL) < 0)
			return (-1);
	}
	return (0);
}

static void
try_next(struct ask *a)
{
	const struct server *s;

	end_try(a);
	if (a->tries == a->r.n * RESOLVER_ROUNDS || a->addrs.n > 0) {
		finish(a);
		return;
	}
	s = &a->r.servers[a->tries++ % a->r.n];
	if (send_questions(a, s) < 0) {
		end_try(a);
		set_timer(a, 0);
		return;
	}
	a->readable = event_new(a->r.base, a->fd, EV_READ | EV_PERSIST,
	    on_readable, a);
	if (a->readable == NULL || event_add(a->readable, NULL) < 0)
		sbx_fatal("a question cannot be watched");
	set_timer(a, RESOLVER_TRY_MS);
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd;
	(void)what;
	try_next(ctx);
}

struct ask *
ask_start(const struct resolver *r, const char *name, ask_done done, void *ctx)
{
	struct ask *a = sbx_xcalloc(1, sizeof(*a));

	a->r = *r;
	a->done = done;
	a->ctx = ctx;
	a->fd = -1;
	a->timer = evtimer_new(r->base, on_timer, a);
	if (a->timer == NULL || sbx_strlcpy(a->name, name,
	    sizeof(a->name)) < 0)
		sbx_fatal("a name cannot be asked for");
	set_timer(a, 0);
	return (a);
}
