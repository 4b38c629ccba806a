#include "sbx-proxy/addr.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct block {
	uint8_t prefix[16];
	unsigned bits;
	const char *what;
};

/* The first that fits says what it is. */
static const struct block v4[] = {
	{ { 127 }, 8, "loopback" },
	{ { 10 }, 8, "private (RFC 1918)" },
	{ { 172, 16 }, 12, "private (RFC 1918)" },
	{ { 192, 168 }, 16, "private (RFC 1918)" },
	{ { 169, 254 }, 16, "link-local" },
	{ { 100, 64 }, 10, "shared by a carrier (RFC 6598)" },
	{ { 0 }, 8, "this network" },
	{ { 192, 0, 0 }, 24, "of the IETF's protocols" },
	{ { 192, 0, 2 }, 24, "for documentation" },
	{ { 198, 51, 100 }, 24, "for documentation" },
	{ { 203, 0, 113 }, 24, "for documentation" },
	{ { 198, 18 }, 15, "for benchmarks" },
	{ { 192, 88, 99 }, 24, "a 6to4 relay" },
	{ { 224 }, 4, "multicast" },
	{ { 240 }, 4, "reserved" },
};
static const struct block v6[] = {
	{ { [15] = 1 }, 128, "loopback" },
	{ { 0 }, 128, "unspecified" },
	{ { [10] = 0xff, 0xff }, 96, "an IPv4 address (mapped)" },
	{ { 0 }, 96, "an IPv4 address (compatible)" },
	{ { 0x00, 0x64, 0xff, 0x9b }, 96, "an IPv4 address (NAT64)" },
	{ { 0x00, 0x64, 0xff, 0x9b, 0, 1 }, 48, "an IPv4 address (NAT64)" },
	{ { 0xfe, 0x80 }, 10, "link-local" },
	{ { 0xfe, 0xc0 }, 10, "site-local" },
	{ { 0xfc }, 7, "unique local" },
	{ { 0xff }, 8, "multicast" },
	{ { 0x20, 0x02 }, 16, "an IPv4 address (6to4)" },
	{ { 0x20, 0x01, 0, 0 }, 32, "an IPv4 address (Teredo)" },
	{ { 0x20, 0x01 }, 23, "of the IETF's protocols" },
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32, "for documentation" },
	{ { 0x3f, 0xff }, 20, "for documentation" },
};

static int
fits(const struct block *b, const uint8_t *addr)
{
	unsigned whole = b->bits / 8, rest = b->bits % 8;

	return (memcmp(b->prefix, addr, whole) == 0 && (rest == 0 ||
	    ((b->prefix[whole] ^ addr[whole]) >> (8 - rest)) == 0));
}

static const char *
find(const struct block *blocks, size_t n, const uint8_t *addr)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (fits(&blocks[i], addr))
			return (blocks[i].what);
	return (NULL);
}

const char *
addr_special(const struct sockaddr *sa)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	const char *what;

	if (sa->sa_family == AF_INET) {
		memcpy(&in, sa, sizeof(in));
		return (find(v4, sizeof(v4) / sizeof(v4[0]),
		    (const uint8_t *)&in.sin_addr));
	}
	if (sa->sa_family != AF_INET6)
		return ("no IP address");
	memcpy(&in6, sa, sizeof(in6));
	what = find(v6, sizeof(v6) / sizeof(v6[0]), in6.sin6_addr.s6_addr);
	/* nothing but 2000::/3 was ever given out (RFC 4291 section 2.4) */
	if (what == NULL && in6.sin6_addr.s6_addr[0] >> 5 != 1)
		what = "reserved";
	if (what == NULL && in6.sin6_scope_id != 0)
		what = "bound to an interface";
	return (what);
}
