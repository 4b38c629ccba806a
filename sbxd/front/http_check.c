#include "sbxd/front/http.h"

#include <string.h>
#include <strings.h>

#define BASE64_BEGIN "=?base64?"
#define BASE64_END "?="

/* --- what the headers say of the body --------------------------------------- */

/* RFC 4648 section 4, padded; -1: it is not that. */
static int
sextet(char ch)
{
	static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *p = ch == '\0' ? NULL : strchr(set, ch);

	return (p == NULL ? -1 : (int)(p - set));
}

/* Do the n characters at p stand for exactly the text s? */
static bool
base64_says(const char *p, size_t n, const char *s)
{
	size_t len = strlen(s), pad = 0, i;
	uint32_t bits = 0;
	int v;

	if (n % 4 != 0)
		return (false);
	while (pad < 2 && pad < n && p[n - 1 - pad] == '=')
		pad++;
	if (n / 4 * 3 - pad != len)
		return (false);
	for (i = 0; i < n; i++) {
		v = i < n - pad ? sextet(p[i]) : 0;
		if (v < 0)
			return (false);
		bits = bits << 6 | (uint32_t)v;
		if (i % 4 != 3)
			continue;
		for (int k = 2; k >= 0; k--) {
			uint8_t byte = (uint8_t)(bits >> 8 * k);

			if (len > 0 ? byte != (uint8_t)*s : byte != 0)
				return (false);
			s += len > 0;
			len -= len > 0;
		}
	}
	return (true);
}

bool
http_says(struct sbx_text v, const char *s)
{
	size_t n = sizeof(BASE64_BEGIN) - 1, m = sizeof(BASE64_END) - 1, i;

	for (i = 0; i < v.len; i++)
		if (v.p[i] < ' ' || v.p[i] > '~')
			return (false);	/* base64 is for these */
	if (v.len < n + m || memcmp(v.p, BASE64_BEGIN, n) != 0 ||
	    memcmp(v.p + v.len - m, BASE64_END, m) != 0)
		return (sbx_text_is(v, s));
	return (base64_says(v.p + n, v.len - n - m, s));
}

bool
http_version_differs(const struct sbx_http_head *h, const char *version)
{
	struct sbx_text v = sbx_http_header(h, "mcp-protocol-version", NULL);

	return (v.p != NULL && !sbx_text_is(v, version));
}

const char *
http_mismatch(const struct sbx_http_head *h, const char *version,
    const char *method, const char *name)
{
	struct sbx_text v;

	v = sbx_http_header(h, "mcp-protocol-version", NULL);
	if (v.p == NULL)
		return ("MCP-Protocol-Version is missing");
	if (!sbx_text_is(v, version))
		return ("MCP-Protocol-Version differs from _meta");
	v = sbx_http_header(h, "mcp-method", NULL);
	if (v.p == NULL)
		return ("Mcp-Method is missing");
	if (!sbx_text_is(v, method))
		return ("Mcp-Method differs from method");
	v = sbx_http_header(h, "mcp-name", NULL);
	if (name != NULL && v.p == NULL)
		return ("Mcp-Name is missing");
	if (name != NULL && !http_says(v, name))
		return ("Mcp-Name differs from what the params name");
	return (NULL);
}

/* --- from where ---------------------------------------------------------------- */

/* Without its port: "host", "host:port", "[v6]", "[v6]:port". */
static struct sbx_text
host_of(struct sbx_text t)
{
	const char *end;

	if (t.len > 0 && t.p[0] == '[')
		end = memchr(t.p, ']', t.len);
	else if ((end = memchr(t.p, ':', t.len)) != NULL)
		end--;
	else
		end = t.p + t.len - 1;
	if (t.len == 0 || end == NULL)
		return ((struct sbx_text){ t.p, 0 });
	return ((struct sbx_text){ t.p, (size_t)(end + 1 - t.p) });
}

/* The rest of t behind what host_of() found is ":digits" or nothing. */
static bool
port_is_good(struct sbx_text t, size_t used)
{
	if (used == t.len)
		return (true);
	if (t.p[used] != ':' || t.len - used > 6)
		return (false);
	for (size_t i = used + 1; i < t.len; i++)
		if (t.p[i] < '0' || t.p[i] > '9')
			return (false);
	return (t.len - used > 1);
}

static bool
is_ours(struct sbx_text host, const char *also)
{
	static const char *const loopback[] = { "127.0.0.1", "localhost",
		"[::1]" };
	struct sbx_text name = host_of(host);
	size_t n;

	if (!port_is_good(host, name.len))
		return (false);
	for (size_t i = 0; i < SBX_NELEM(loopback); i++)
		if (sbx_text_is_nocase(name, loopback[i]))
			return (true);
	for (; *also != '\0'; also += n + (also[n] == ' ')) {
		n = strcspn(also, " ");
		if (n > 0 && n == name.len &&
		    strncasecmp(also, name.p, n) == 0)
			return (true);
	}
	return (false);
}

const char *
http_foreign(const struct sbx_http_head *h, const char *also)
{
	struct sbx_text origin = sbx_http_header(h, "origin", NULL);
	static const char *const schemes[] = { "http://", "https://" };

	if (!is_ours(h->host, also))
		return ("Host is not this server; http_hosts of sbx.conf "
		    "has its other names");
	if (origin.p == NULL)
		return (NULL);
	for (size_t i = 0; i < SBX_NELEM(schemes); i++) {
		size_t n = strlen(schemes[i]);

		if (origin.len > n && memcmp(origin.p, schemes[i], n) == 0 &&
		    is_ours((struct sbx_text){ origin.p + n, origin.len - n },
		    also))
			return (NULL);
	}
	return ("Origin is not this server; http_hosts of sbx.conf has its "
	    "other names");
}
