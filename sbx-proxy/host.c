#include "sbx-proxy/host.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

#define LABEL_MAX 63u

/* Is it what inet_aton(3) or a browser may take for an address?  Then its last
 * label is a number: all digits, or 0x and hexadecimal digits (WHATWG URL,
 * "ends in a number"). */
static bool
ends_in_number(const char *name)
{
	const char *last = strrchr(name, '.');

	last = last == NULL ? name : last + 1;
	if (last[0] == '0' && last[1] == 'x')
		return (last[2 + strspn(last + 2, "0123456789abcdef")] ==
		    '\0');
	return (last[strspn(last, "0123456789")] == '\0');
}

static bool
labels_are_good(const char *name)
{
	const char *p, *end;

	for (p = name;; p = end + 1) {
		end = p + strcspn(p, ".");
		if (end == p || end - p > (ptrdiff_t)LABEL_MAX ||
		    *p == '-' || end[-1] == '-')
			return (false);
		if (*end == '\0')
			return (true);
	}
}

static int
read_v6(struct sbx_text t, struct host *h)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr a;

	if (t.len < 2 || t.p[t.len - 1] != ']' || t.len - 2 >= sizeof(text))
		return (SBX_E_SYNTAX);
	memcpy(text, t.p + 1, t.len - 2);
	text[t.len - 2] = '\0';
	if (strlen(text) != t.len - 2 || inet_pton(AF_INET6, text, &a) != 1)
		return (SBX_E_SYNTAX);
	h->kind = HOST_V6;
	(void)inet_ntop(AF_INET6, &a, h->text, sizeof(h->text));
	return (0);
}

int
host_read(struct sbx_text t, struct host *ret_host)
{
	struct host *h = ret_host;
	struct in_addr a;
	size_t i;

	memset(h, 0, sizeof(*h));
	if (t.len > 0 && t.p[0] == '[')
		return (read_v6(t, h));
	if (t.len > 0 && t.p[t.len - 1] == '.')
		t.len--;
	if (t.len == 0 || t.len > HOST_MAX)
		return (SBX_E_SYNTAX);
	for (i = 0; i < t.len; i++) {
		unsigned char ch = (unsigned char)t.p[i];

		if (ch >= 'A' && ch <= 'Z')
			ch += 'a' - 'A';
		if (!((ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') ||
		    ch == '-' || ch == '.'))
			return (SBX_E_SYNTAX);
		h->text[i] = (char)ch;
	}
	if (!labels_are_good(h->text))
		return (SBX_E_SYNTAX);
	if (!ends_in_number(h->text))
		return (0);
	/* this one takes four decimal numbers without leading zeros only */
	h->kind = HOST_V4;
	return (inet_pton(AF_INET, h->text, &a) == 1 ? 0 : SBX_E_SYNTAX);
}

static int
read_port(struct sbx_text t, uint16_t *ret_port)
{
	uint32_t n = 0;
	size_t i;

	if (t.len == 0 || t.len > 5 || t.p[0] == '0')
		return (SBX_E_SYNTAX);
	for (i = 0; i < t.len; i++) {
		if (t.p[i] < '0' || t.p[i] > '9')
			return (SBX_E_SYNTAX);
		n = n * 10 + (uint32_t)(t.p[i] - '0');
	}
	*ret_port = (uint16_t)n;
	return (n <= UINT16_MAX ? 0 : SBX_E_SYNTAX);
}

int
host_port_read(struct sbx_text t, uint16_t port_default,
    struct host *ret_host, uint16_t *ret_port)
{
	const char *colon = NULL;
	struct sbx_text name = t;

	/* not one inside of the brackets of an address */
	if (t.len > 0)
		colon = memrchr(t.p, ':', t.len);
	if (colon != NULL && memchr(colon, ']', (size_t)(t.p + t.len - colon)))
		colon = NULL;
	*ret_port = port_default;
	if (colon != NULL) {
		name.len = (size_t)(colon - t.p);
		if (read_port((struct sbx_text){ colon + 1,
		    t.len - name.len - 1 }, ret_port) != 0)
			return (SBX_E_SYNTAX);
	}
	if (*ret_port == 0)
		return (SBX_E_SYNTAX);
	return (host_read(name, ret_host));
}
