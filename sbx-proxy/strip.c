#include "sbx-proxy/strip.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

/* A name that ends with '*' stands for all that begin so. */

/* For this connection only, or written anew. */
static const char *const hop[] = {
	"connection", "keep-alive", "proxy-*", "te", "trailer",
	"transfer-encoding", "upgrade", "http2-settings", "content-length",
};

/* Of requests: written anew, or answered here. */
static const char *const request_only[] = { "host", "expect", "via" };

/* Who the client says it is.  A sandbox has no credential of its own; one that
 * it has all the same is somebody's, and would lead out what it can read. */
static const char *const credentials[] = {
	"authorization", "cookie", "cookie2", "x-github-*", "private-token",
	"job-token", "deploy-token", "x-gitlab-token", "x-auth-*",
	"x-access-token", "x-token", "token", "x-api-key", "api-key",
	"apikey", "x-goog-api-key", "x-goog-iam-authorization-token",
	"x-amz-security-token", "x-ms-authorization*", "x-vault-token",
	"x-registry-auth", "x-registry-config", "x-jfrog-art-api",
	"x-nuget-apikey", "npm-otp", "npm-session", "x-csrf-token",
	"x-xsrf-token", "x-forwarded-access-token", "x-original-authorization",
	"x-authorization", "authentication", "x-session-token",
};
/* Of answers: a sandbox has none of its own, so it is handed none out. */
static const char *const handed_out[] = {
	"set-cookie", "set-cookie2", "authorization", "authentication-info",
	"private-token", "x-auth-*", "x-access-token", "x-api-key",
	"x-csrf-token", "x-session-token", "x-subject-token", "x-xsrf-token",
};
static const char *const harmless[] = { "x-github-api-version" };

/* What some servers read instead of method, path or host: it would not be the
 * request that was judged. */
static const char *const another[] = {
	"x-http-method", "x-http-method-override", "x-method-override",
	"x-original-url", "x-rewrite-url", "x-original-host", "x-host",
	"x-real-ip", "x-forwarded-*", "forwarded", "x-original-uri",
	"x-override-url", "x-http-host-override", "x-client-ip",
	"true-client-ip", "content-length-*",
};

/* The names of parameters, decoded and in lower case. */
static const char *const parameters[] = {
	"access_token", "accesstoken", "token", "auth_token", "authtoken",
	"oauth_token", "id_token", "refresh_token", "client_id",
	"client_secret", "api_key", "apikey", "api-key", "key", "private_token",
	"job_token", "secret", "password", "passwd", "auth", "authorization",
	"bearer", "jwt_token", "session_token",
};

static bool
fits(const char *name, struct sbx_text t)
{
	size_t len = strlen(name);

	if (name[len - 1] != '*')
		return (sbx_text_is_nocase(t, name));
	return (t.len >= len - 1 && strncasecmp(t.p, name, len - 1) == 0);
}

static bool
is_one_of(const char *const *names, size_t n, struct sbx_text t)
{
	for (size_t i = 0; i < n; i++)
		if (fits(names[i], t))
			return (true);
	return (false);
}
#define IS_ONE_OF(names, t) is_one_of((names), SBX_NELEM(names), (t))

static void
add_text(struct sbx_buf *out, struct sbx_text t)
{
	if (t.len > 0)
		(void)sbx_buf_add(out, t.p, t.len); /* out->overflow tells */
}

static void
add_header(struct sbx_buf *out, struct sbx_text name, struct sbx_text value)
{
	add_text(out, name);
	(void)sbx_buf_add(out, ": ", 2); /* out->overflow tells, here and on */
	add_text(out, value);
	(void)sbx_buf_add(out, "\r\n", 2);
}

/* --- the query ----------------------------------------------------------- */

static int
hex(char ch)
{
	if (ch >= '0' && ch <= '9')
		return (ch - '0');
	ch |= 0x20;
	return (ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1);
}

/* The name of "name=value", decoded as servers do. */
static struct sbx_text
decode_name(struct sbx_text t, char *buf, size_t size)
{
	size_t n = 0;
	char ch;

	for (size_t i = 0; i < t.len && t.p[i] != '=' && n < size; i++) {
		ch = t.p[i];
		if (ch == '%' && i + 2 < t.len && hex(t.p[i + 1]) >= 0 &&
		    hex(t.p[i + 2]) >= 0) {
			ch = (char)(hex(t.p[i + 1]) * 16 + hex(t.p[i + 2]));
			i += 2;
		} else if (ch == '+')
			ch = ' ';
		/* some trim it, some end it there */
		if (ch != ' ' && ch != '\0' && ch != '\t' && ch != '\r' &&
		    ch != '\n')
			buf[n++] = ch;
	}
	/* "token[]" and "token[x]" are the same to those who take them */
	for (size_t i = 1; i < n; i++)
		if (buf[i] == '[')
			n = i;
	return ((struct sbx_text){ buf, n });
}

static bool
is_credential(struct sbx_text pair)
{
	char buf[64];

	return (IS_ONE_OF(parameters, decode_name(pair, buf, sizeof(buf))));
}

void
strip_query(struct sbx_text query, struct sbx_buf *out)
{
	const char *p = query.p, *end, *next;
	char before = '?';
	bool first = true;

	if (p == NULL)
		return;
	end = p + query.len;
	for (;; before = *next, p = next + 1) {
		/* ';' is a separator to some */
		for (next = p; next < end && *next != '&' && *next != ';';)
			next++;
		if (!is_credential((struct sbx_text){ p,
		    (size_t)(next - p) })) {
			(void)sbx_buf_add(out, first ? "?" : &before, 1);
			(void)sbx_buf_add(out, p, (size_t)(next - p));
			first = false;
		}
		if (next == end)
			return;
	}
}

/* --- heads --------------------------------------------------------------- */

static bool
goes_on(const struct sbx_http_head *h, struct sbx_text name)
{
	if (IS_ONE_OF(harmless, name))
		return (true);
	return (!IS_ONE_OF(hop, name) && !IS_ONE_OF(request_only, name) &&
	    !IS_ONE_OF(credentials, name) && !IS_ONE_OF(another, name) &&
	    /* to some (CGI) '_' and '-' are the same letter */
	    memchr(name.p, '_', name.len) == NULL &&
	    !sbx_http_lists(h, "connection", name));
}

static void
add_host(struct sbx_buf *out, const struct host *host, uint16_t port,
    uint16_t port_default)
{
	(void)sbx_buf_printf(out, host->kind == HOST_V6 ? "Host: [%s]" :
	    "Host: %s", host->text);
	if (port != port_default)
		(void)sbx_buf_printf(out, ":%u", port);
	(void)sbx_buf_str(out, "\r\n");
}

bool
strip_request(const struct sbx_http_head *h, const struct host *host,
    uint16_t port, uint16_t port_default, struct sbx_buf *out)
{
	add_text(out, h->method);
	(void)sbx_buf_str(out, " ");
	add_text(out, h->path);
	strip_query(h->query, out);
	(void)sbx_buf_str(out, " HTTP/1.1\r\n");
	add_host(out, host, port, port_default);
	for (unsigned i = 0; i < h->nheaders; i++)
		if (goes_on(h, h->headers[i].name))
			add_header(out, h->headers[i].name,
			    h->headers[i].value);
	if (h->chunked)
		(void)sbx_buf_str(out, "Transfer-Encoding: chunked\r\n");
	if (h->has_length)
		(void)sbx_buf_printf(out, "Content-Length: %" PRIu64 "\r\n",
		    h->length);
	(void)sbx_buf_str(out, "Connection: keep-alive\r\n\r\n");
	return (!out->overflow);
}

bool
strip_answer(const struct sbx_http_answer *a, bool chunked, bool close,
    struct sbx_buf *out)
{
	const struct sbx_http_head *h = &a->h;

	(void)sbx_buf_printf(out, "HTTP/1.1 %u ", a->status);
	add_text(out, a->reason);
	(void)sbx_buf_str(out, "\r\n");
	for (unsigned i = 0; i < h->nheaders; i++)
		/* Alt-Svc names another way to the host, past the proxy */
		if (!IS_ONE_OF(hop, h->headers[i].name) &&
		    !IS_ONE_OF(handed_out, h->headers[i].name) &&
		    !sbx_text_is_nocase(h->headers[i].name, "alt-svc") &&
		    !sbx_http_lists(h, "connection", h->headers[i].name))
			add_header(out, h->headers[i].name,
			    h->headers[i].value);
	if (chunked)
		(void)sbx_buf_str(out, "Transfer-Encoding: chunked\r\n");
	else if (h->has_length)
		(void)sbx_buf_printf(out, "Content-Length: %" PRIu64 "\r\n",
		    h->length);
	(void)sbx_buf_str(out, close ? "Connection: close\r\n\r\n" :
	    "Connection: keep-alive\r\n\r\n");
	return (!out->overflow);
}
