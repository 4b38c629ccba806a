#include "sbx-broker/courier/https.h"

#include "common/base/log.h"

#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#define NS_S UINT64_C(1000000000)
#define WATCH_MS 1500u		/* beyond the deadline that poll() keeps */
#define WATCH_EVERY_MS 1000u
#define HTTPS_AHEAD 131072u	/* bytes that are read of a host at once */

static CURLM *multi;
static X509_STORE *store;

/*
 * libcurl connects what it is handed although it is connected already.  The
 * courier's only socket was dialled by another process: this is what libcurl
 * gets to see, and the cage kills the real call.
 */
int
connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	(void)fd;
	(void)addr;
	(void)len;
	return (0);
}

/* libcurl asks this before it waits for the socket, and what was read ahead is
 * not on the socket any more. */
int
SSL_pending(const SSL *ssl)
{
	return (SSL_has_pending(ssl));
}

/* --- memory: what a library had in its hands is not left behind -------------- */

static void
wipe_free(void *p)
{
	if (p == NULL)
		return;
	explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

static void *
wipe_realloc(void *p, size_t n)
{
	size_t had = p == NULL ? 0 : malloc_usable_size(p);
	void *new;

	if (n <= had && n > 0)
		return (p);
	if ((new = malloc(n)) == NULL)
		return (NULL);
	if (p != NULL)
		memcpy(new, p, had < n ? had : n);
	wipe_free(p);
	return (new);
}

static void *
tls_malloc(size_t n, const char *file, int line)
{
	(void)file;
	(void)line;
	return (n == 0 ? NULL : malloc(n));
}

static void *
tls_realloc(void *p, size_t n, const char *file, int line)
{
	(void)file;
	(void)line;
	if (n == 0) {
		wipe_free(p);
		return (NULL);
	}
	return (wipe_realloc(p, n));
}

static void
tls_free(void *p, const char *file, int line)
{
	(void)file;
	(void)line;
	wipe_free(p);
}

/* --- before the cage ------------------------------------------------------------ */

/* How many there are in it; -1: what follows them is none. */
static int
read_roots(BIO *in)
{
	X509 *x;
	int n = 0;

	/* a password of no bytes, or the terminal would be asked for one */
	while ((x = PEM_read_bio_X509(in, NULL, NULL, (char []){ "" })) !=
	    NULL) {
		n += X509_STORE_add_cert(store, x);
		X509_free(x);
	}
	if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		n = -1;
	ERR_clear_error();
	return (n);
}

static int
make_store(const char *pem, size_t n, struct sbx_err *err)
{
	BIO *in = BIO_new_mem_buf(pem, (int)n);
	int roots;

	store = X509_STORE_new();
	if (in == NULL || store == NULL)
		return (sbx_err_set(err, SBX_E_LIMIT, "OpenSSL has no memory "
		    "for the roots"));
	roots = read_roots(in);
	BIO_free(in);
	if (roots < 0)
		return (sbx_err_set(err, SBX_E_SYNTAX, "the roots that hosts "
		    "are verified with: a certificate in them does not "
		    "parse: mend upstream_ca"));
	if (roots == 0)
		return (sbx_err_set(err, SBX_E_SYNTAX, "there is no "
		    "certificate in the roots that hosts are verified with: "
		    "install ca-certificates, or set upstream_ca"));
	return (0);
}

int
https_init(const char *pem, size_t n, struct sbx_err *err)
{
	unsigned char byte;

	if (CRYPTO_set_mem_functions(tls_malloc, tls_realloc, tls_free) != 1 ||
	    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG |
	    OPENSSL_INIT_LOAD_SSL_STRINGS, NULL) != 1 ||
	    RAND_bytes(&byte, 1) != 1)
		return (sbx_err_set(err, SBX_E_SYS, "OpenSSL does not start"));
	if (curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, wipe_free,
	    wipe_realloc, strdup, calloc) != CURLE_OK ||
	    (multi = curl_multi_init()) == NULL)
		return (sbx_err_set(err, SBX_E_SYS, "libcurl does not start"));
	return (make_store(pem, n, err));
}

/* --- one exchange --------------------------------------------------------------- */

static curl_socket_t
on_open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *addr)
{
	struct https *h = ctx;

	(void)addr;
	if (purpose != CURLSOCKTYPE_IPCXN || h->begun)
		return (CURL_SOCKET_BAD);	/* there is one, once */
	h->begun = true;
	return (h->sock);
}

static int
on_socket_options(void *ctx, curl_socket_t sock, curlsocktype purpose)
{
	(void)ctx;
	(void)sock;
	(void)purpose;
	return (CURL_SOCKOPT_OK);
}

static int
on_close_socket(void *ctx, curl_socket_t sock)
{
	struct https *h = ctx;

	if (sock == h->sock)
		h->sock = -1;
	return (close(sock));
}

static CURLcode
on_tls(CURL *easy, void *ctx, void *arg)
{
	(void)easy;
	(void)arg;
	if (X509_STORE_up_ref(store) != 1)
		return (CURLE_OUT_OF_MEMORY);
	SSL_CTX_set_cert_store(ctx, store);
	/* A record with one call of the system, not two, and many with it;
	 * and no buffer that is made and wiped for each of them. */
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_default_read_buffer_len(ctx, HTTPS_AHEAD);
	(void)SSL_CTX_clear_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	return (CURLE_OK);
}

#define SET(h, option, value) \
	(curl_easy_setopt((h)->easy, CURLOPT_##option, (value)) == CURLE_OK)

static bool
set_socket(struct https *h)
{
	return (SET(h, OPENSOCKETFUNCTION, on_open_socket) &&
	    SET(h, OPENSOCKETDATA, h) &&
	    SET(h, SOCKOPTFUNCTION, on_socket_options) &&
	    SET(h, CLOSESOCKETFUNCTION, on_close_socket) &&
	    SET(h, CLOSESOCKETDATA, h) &&
	    SET(h, RESOLVE, h->resolve) &&
	    SET(h, IPRESOLVE, CURL_IPRESOLVE_V4) &&
	    SET(h, PROXY, "") && SET(h, NOPROXY, "*") &&
	    SET(h, FRESH_CONNECT, 1L) && SET(h, FORBID_REUSE, 1L) &&
	    SET(h, NOSIGNAL, 1L) && SET(h, CONNECTTIMEOUT, 30L));
}

static bool
set_tls(struct https *h)
{
	return (SET(h, SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) &&
	    SET(h, SSL_VERIFYPEER, 1L) && SET(h, SSL_VERIFYHOST, 2L) &&
	    SET(h, CAINFO, NULL) && SET(h, CAPATH, NULL) &&
	    SET(h, SSL_SESSIONID_CACHE, 0L) &&
	    SET(h, SSL_CTX_FUNCTION, on_tls));
}

static bool
set_http(struct https *h)
{
	return (SET(h, PROTOCOLS_STR, "https") && SET(h, PATH_AS_IS, 1L) &&
	    SET(h, HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
	    SET(h, FOLLOWLOCATION, 0L) && SET(h, HTTP_CONTENT_DECODING, 0L) &&
	    SET(h, BUFFERSIZE, 131072L) && SET(h, UPLOAD_BUFFERSIZE, 131072L) &&
	    SET(h, ERRORBUFFER, h->why));
}

bool
https_open(struct https *h, struct courier *c, const char *host,
    unsigned port, const char *path, int sock)
{
	SBX_CLEANUP(free) char *url = NULL;
	SBX_CLEANUP(free) char *pin = NULL;
	char colon[8] = "";

	*h = (struct https){ .courier = c, .sock = sock,
	    .limit_s = HTTPS_WHOLE_S };
	if (!courier_host_is_good(host) || port == 0 || port > 65535)
		return (courier_fail(c, "bad_request", "the job has no host"));
	if (port != 443)
		(void)snprintf(colon, sizeof(colon), ":%u", port);
	url = sbx_xasprintf("https://%s%s%s", host, colon, path);
	/* never dialled: a name that needs no look-up (RFC 5737) */
	pin = sbx_xasprintf("%s:%u:192.0.2.1", host, port);
	h->easy = curl_easy_init();
	h->resolve = curl_slist_append(NULL, pin);
	if (h->easy == NULL || h->resolve == NULL || !SET(h, URL, url) ||
	    !set_socket(h) || !set_tls(h) || !set_http(h))
		return (courier_fail(c, "upstream", "libcurl takes no "
		    "options"));
	https_header(h, "Expect:");
	if (c->secret->header[0] != '\0')
		https_header(h, "%s", c->secret->header);
	return (true);
}

void
https_header(struct https *h, const char *fmt, ...)
{
	struct curl_slist *more;
	char line[4096];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	more = n < (int)sizeof(line) ? curl_slist_append(h->headers, line) :
	    NULL;
	explicit_bzero(line, sizeof(line));
	if (more == NULL)
		sbx_fatal("a header does not fit");
	h->headers = more;
}

void
https_moved(struct https *h)
{
	h->moved_ns = sbx_mono_ns();
}

static void
collect(struct https *h)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(multi, &left)) != NULL)
		if (m->msg == CURLMSG_DONE) {
			h->over = true;
			h->result = m->data.result;
		}
}

static void
perform(struct https *h)
{
	int running;

	if (!h->over && curl_multi_perform(multi, &running) != CURLM_OK) {
		h->over = true;
		h->result = CURLE_FAILED_INIT;
	}
	collect(h);
}

/* Of what is waited for: a byte, or the end of all. */
static uint64_t
deadline(const struct https *h)
{
	const uint64_t idle = h->moved_ns + HTTPS_IDLE_S * NS_S;

	return (idle < h->until_ns ? idle : h->until_ns);
}

/*
 * Whoever shares the socket can clear its O_NONBLOCK, and a call of libcurl's
 * waits for ever then: SIGALRM ends this process, as its default is.
 */
static void
set_alarm(uint64_t ms)
{
	const struct itimerval t = { .it_value = { (time_t)(ms / 1000),
	    (suseconds_t)(ms % 1000 * 1000) } };

	if (setitimer(ITIMER_REAL, &t, NULL) < 0)
		sbx_fatal("setitimer: %s", strerror(errno));
}

static void
watch(struct https *h)
{
	const uint64_t now = sbx_mono_ns(), until = deadline(h);

	if (h->watched_ns != 0 && now - h->watched_ns <
	    WATCH_EVERY_MS * UINT64_C(1000000))
		return;
	h->watched_ns = now;
	set_alarm(WATCH_MS + (until > now ? (until - now) / 1000000 : 0));
}

void
https_last(void)
{
	set_alarm(HTTPS_LAST_MS);
}

bool
https_begin(struct https *h)
{
	const uint64_t by = h->courier->by_ns;

	https_moved(h);
	h->until_ns = h->moved_ns + h->limit_s * NS_S;
	if (by != 0 && by < h->until_ns)
		h->until_ns = by;
	watch(h);
	if (!SET(h, HTTPHEADER, h->headers) ||
	    curl_multi_add_handle(multi, h->easy) != CURLM_OK)
		return (courier_fail(h->courier, "upstream", "libcurl takes "
		    "no exchange"));
	perform(h);
	return (true);
}

/* What libcurl waits for; its socket is the only one that it has. */
static struct pollfd
waits_for(const struct https *h)
{
	struct pollfd p = { .fd = -1 };
	fd_set r, w, e;
	int max;

	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	if (h->over || h->sock < 0 || h->sock >= FD_SETSIZE ||
	    curl_multi_fdset(multi, &r, &w, &e, &max) != CURLM_OK)
		return (p);
	if (FD_ISSET(h->sock, &r))
		p.events |= POLLIN;
	if (FD_ISSET(h->sock, &w))
		p.events |= POLLOUT;
	if (p.events != 0)
		p.fd = h->sock;
	return (p);
}

/* Milliseconds until the next deadline; -1: it has passed. */
static int
patience(const struct https *h)
{
	uint64_t now = sbx_mono_ns(), until = deadline(h);
	long ms = -1;

	if (now >= until)
		return (-1);
	until = (until - now) / 1000000 + 1;
	if (!h->over && curl_multi_timeout(multi, &ms) == CURLM_OK && ms >= 0 &&
	    (uint64_t)ms < until)
		return ((int)ms);
	return ((int)until);
}

bool
https_step(struct https *h, struct pollfd *extra, size_t n)
{
	struct pollfd p[HTTPS_EXTRAS + 2] = { [0] = waits_for(h),
	    [1] = { .fd = h->courier->channel, .events = POLLIN } };
	int ms = patience(h);

	watch(h);
	if (ms < 0)
		return (courier_fail(h->courier, "timeout", "%s",
		    sbx_mono_ns() >= h->until_ns ? "it took too long" :
		    "nothing moved for too long"));
	for (size_t i = 0; i < n; i++)
		p[2 + i] = extra[i];
	if (poll(p, (nfds_t)(2 + n), ms) < 0 && errno != EINTR)
		sbx_fatal("poll: %s", strerror(errno));
	for (size_t i = 0; i < n; i++)
		extra[i].revents = p[2 + i].revents;
	/* One job was taken: what comes now is the end, or a second one. */
	if (p[1].revents != 0)
		_exit(3);
	perform(h);
	return (true);
}

void
https_failed(struct https *h)
{
	char why[200];

	(void)sbx_vis(why, sizeof(why), h->why[0] != '\0' ? h->why :
	    curl_easy_strerror(h->result), strlen(h->why[0] != '\0' ? h->why :
	    curl_easy_strerror(h->result)));
	if (h->result == CURLE_PEER_FAILED_VERIFICATION)
		(void)courier_fail(h->courier, "tls", "no TLS with the host: "
		    "%.150s (a CA of one's own is named in upstream_ca of "
		    "sbx.conf)", why);
	else if (h->result == CURLE_SSL_CONNECT_ERROR ||
	    h->result == CURLE_SSL_ISSUER_ERROR)
		(void)courier_fail(h->courier, "tls", "no TLS with the host: "
		    "%s", why);
	else if (h->result == CURLE_OPERATION_TIMEDOUT)
		(void)courier_fail(h->courier, "timeout", "no TLS with the "
		    "host in time: %s", why);
	else
		(void)courier_fail(h->courier, "upstream", "the exchange with "
		    "the host failed: %s", why);
}

void
https_close(struct https *h)
{
	if (h->easy != NULL) {
		(void)curl_multi_remove_handle(multi, h->easy); /* or it never
								 * was in it */
		curl_easy_cleanup(h->easy);
	}
	curl_slist_free_all(h->headers);
	curl_slist_free_all(h->resolve);
	h->easy = NULL;
	h->headers = h->resolve = NULL;
	sbx_close(&h->sock);
}

/* --- lines of an answer ------------------------------------------------------------ */

static bool
is_blank(char c)
{
	return (c == ' ' || c == '\t' || c == '\r' || c == '\n');
}

const char *
https_line_fault(const char *p, size_t n, size_t *bytes)
{
	static const struct { const char *name, *value; } coded[] = {
		{ "content-encoding", "identity" },
		{ "transfer-encoding", "chunked" },
	};
	size_t len, at;

	*bytes += n;
	if (*bytes > HTTPS_HEAD_MAX)
		return ("the host's headers are too long");
	while (n > 0 && is_blank(p[n - 1]))
		n--;
	for (size_t i = 0; i < SBX_NELEM(coded); i++) {
		len = strlen(coded[i].name);
		if (n < len || strncasecmp(p, coded[i].name, len) != 0)
			continue;
		for (at = len; at < n && (is_blank(p[at]) || p[at] == ':');)
			at++;
		if (n - at != strlen(coded[i].value) ||
		    strncasecmp(p + at, coded[i].value, n - at) != 0)
			return ("the host answered in an encoding that was "
			    "not asked for");
	}
	return (NULL);
}

/* --- whole texts ------------------------------------------------------------------- */

static void
keep(char *dst, size_t size, const char *p, size_t n)
{
	while (n > 0 && (*p == ' ' || *p == '\t')) {
		p++;
		n--;
	}
	while (n > 0 && (p[n - 1] == '\r' || p[n - 1] == '\n' ||
	    p[n - 1] == ' '))
		n--;
	if (n >= size || memchr(p, '\0', n) != NULL)
		n = 0;		/* one that long says nothing to us */
	memcpy(dst, p, n);
	dst[n] = '\0';
}

static size_t
on_header(char *p, size_t size, size_t n, void *ctx)
{
	struct https_whole *w = ctx;
	const struct { const char *name; char *dst; size_t size; } wanted[] = {
		{ "link", w->link, sizeof(w->link) },
		{ "location", w->location, sizeof(w->location) },
		{ "retry-after", w->retry_after, sizeof(w->retry_after) },
		{ "x-ratelimit-remaining", w->remaining,
		    sizeof(w->remaining) },
		{ "x-ratelimit-reset", w->reset, sizeof(w->reset) },
		{ "content-type", w->content_type, sizeof(w->content_type) },
	};
	const char *colon = memchr(p, ':', n);

	w->fault = https_line_fault(p, n, &w->head_bytes);
	if (w->fault != NULL)
		return (0);
	for (size_t i = 0; colon != NULL && i < SBX_NELEM(wanted); i++)
		if (strlen(wanted[i].name) == (size_t)(colon - p) &&
		    strncasecmp(p, wanted[i].name, (size_t)(colon - p)) == 0)
			keep(wanted[i].dst, wanted[i].size, colon + 1,
			    n - (size_t)(colon + 1 - p));
	return (size * n);
}

static size_t
on_body(char *p, size_t size, size_t n, void *ctx)
{
	struct https_whole *w = ctx;

	return (sbx_buf_add(&w->answer, p, n) == 0 ? size * n : 0);
}

static bool
set_whole(struct https *h, struct https_whole *w)
{
	if (w->body != NULL && (!SET(h, POSTFIELDSIZE, (long)w->body_len) ||
	    !SET(h, POSTFIELDS, w->body)))
		return (false);
	return (SET(h, CUSTOMREQUEST, w->method) &&
	    SET(h, HEADERFUNCTION, on_header) && SET(h, HEADERDATA, w) &&
	    SET(h, WRITEFUNCTION, on_body) && SET(h, WRITEDATA, w));
}

bool
https_whole(struct https *h, struct https_whole *w)
{
	curl_off_t had = 0, now;
	long status = 0;

	h->limit_s = HTTPS_TEXT_S;
	if (!set_whole(h, w) || !https_begin(h))
		return (courier_fail(h->courier, "upstream", "libcurl takes no "
		    "request"));
	while (!h->over) {
		if (!https_step(h, NULL, 0))
			return (false);
		now = (curl_off_t)w->answer.len;
		if (now != had)
			https_moved(h);
		had = now;
	}
	h->courier->end.out_bytes = w->body_len;
	h->courier->end.in_bytes = w->answer.len;
	if (w->answer.overflow)
		return (courier_fail(h->courier, "too_large", "the answer has "
		    "more than %zu bytes", w->answer.max));
	if (w->fault != NULL)
		return (courier_fail(h->courier, "upstream", "%s", w->fault));
	if (h->result != CURLE_OK) {
		https_failed(h);
		return (false);
	}
	(void)curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
	w->status = h->courier->end.status = (unsigned)status;
	return (true);
}
