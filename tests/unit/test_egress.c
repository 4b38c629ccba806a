/* What the egress proxy decides by: addresses, names, the TLS client's name,
 * and what a push changes. */
#include "common/git/push.h"
#include "sbx-proxy/addr.h"
#include "sbx-proxy/gate.h"
#include "sbx-proxy/hello.h"
#include "sbx-proxy/host.h"
#include "sbx-proxy/policy.h"
#include "tests/tap.h"

#include <arpa/inet.h>
#include <string.h>

/* --- addresses ---------------------------------------------------------------- */

static const struct {
	const char *text, *what;	/* what NULL: ordinary */
} addresses[] = {
	{ "8.8.8.8", NULL }, { "1.1.1.1", NULL }, { "140.82.121.4", NULL },
	{ "11.0.0.0", NULL }, { "9.255.255.255", NULL },
	{ "172.15.255.255", NULL }, { "172.32.0.0", NULL },
	{ "100.63.255.255", NULL }, { "100.128.0.0", NULL },
	{ "198.17.255.255", NULL }, { "198.20.0.0", NULL },
	{ "223.255.255.255", NULL }, { "192.0.1.0", NULL },
	{ "0.0.0.0", "this network" }, { "0.1.2.3", "this network" },
	{ "127.0.0.1", "loopback" }, { "127.255.255.255", "loopback" },
	{ "10.0.0.1", "private" }, { "172.16.0.1", "private" },
	{ "172.31.255.255", "private" }, { "192.168.1.1", "private" },
	{ "169.254.169.254", "link-local" }, { "100.64.0.1", "carrier" },
	{ "100.127.255.255", "carrier" }, { "192.0.0.170", "IETF" },
	{ "192.0.2.1", "documentation" }, { "198.18.0.1", "benchmarks" },
	{ "198.19.255.255", "benchmarks" }, { "192.88.99.1", "6to4" },
	{ "224.0.0.1", "multicast" }, { "239.1.1.1", "multicast" },
	{ "240.0.0.1", "reserved" }, { "255.255.255.255", "reserved" },
	{ "2606:4700::1111", NULL }, { "2a00:1450::1", NULL },
	{ "2001:200::1", NULL }, { "2001:4860:4860::8888", NULL },
	{ "3ffe::1", NULL },
	{ "::", "unspecified" }, { "::1", "loopback" },
	{ "::ffff:8.8.8.8", "mapped" }, { "::ffff:127.0.0.1", "mapped" },
	{ "::127.0.0.1", "compatible" }, { "64:ff9b::8.8.8.8", "NAT64" },
	{ "64:ff9b:1::1", "NAT64" }, { "fe80::1", "link-local" },
	{ "febf::1", "link-local" }, { "fec0::1", "site-local" },
	{ "fc00::1", "unique local" }, { "fd12::1", "unique local" },
	{ "ff02::1", "multicast" }, { "2002:7f00:1::", "6to4" },
	{ "2001::1", "Teredo" }, { "2001:10::1", "IETF" },
	{ "2001:1ff::1", "IETF" }, { "2001:db8::1", "documentation" },
	{ "3fff::1", "documentation" }, { "100::1", "reserved" },
	{ "5f00::1", "reserved" }, { "4000::1", "reserved" },
	{ "1fff::1", "reserved" },
};

static const char *
special(const char *text)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
		return (addr_special((struct sockaddr *)&in));
	if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1)
		return (addr_special((struct sockaddr *)&in6));
	return ("not an address in this test");
}

static void
test_addresses(void)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
		.sin6_scope_id = 2 };
	struct sockaddr sa = { .sa_family = AF_UNIX };
	size_t i;

	for (i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		const char *got = special(addresses[i].text);
		const char *want = addresses[i].what;

		ok(want == NULL ? got == NULL : got != NULL &&
		    strstr(got, want) != NULL, "%s is %s (%s)",
		    addresses[i].text, want == NULL ? "ordinary" : want,
		    got == NULL ? "ordinary" : got);
	}
	(void)inet_pton(AF_INET6, "2606:4700::1", &in6.sin6_addr);
	ok(addr_special((struct sockaddr *)&in6) != NULL, "a scope is special");
	ok(addr_special(&sa) != NULL, "AF_UNIX is no IP address");
}

/* --- names ---------------------------------------------------------------------- */

#define L63 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"

static const struct {
	const char *text, *host;	/* NULL: refused */
	int port;
} hosts[] = {
	{ "github.com:443", "github.com", 443 },
	{ "GitHub.COM:443", "github.com", 443 },
	{ "github.com.:443", "github.com", 443 },
	{ "github.com", "github.com", 80 },
	{ "xn--bcher-kva.example:1", "xn--bcher-kva.example", 1 },
	{ "a:65535", "a", 65535 }, { "1a.b:80", "1a.b", 80 },
	{ L63 ":80", L63, 80 }, { L63 "x:80", NULL, 0 },
	{ L63 "." L63 "." L63 "." L63 ":80", NULL, 0 },
	{ "8.8.8.8:53", "8.8.8.8", 53 }, { "[::1]:80", "::1", 80 },
	{ "[2001:DB8:0:0::1]", "2001:db8::1", 80 },
	{ "", NULL, 0 }, { ".", NULL, 0 }, { "..", NULL, 0 },
	{ ":80", NULL, 0 }, { "a..b:80", NULL, 0 }, { ".a:80", NULL, 0 },
	{ "a:", NULL, 0 }, { "a:0", NULL, 0 }, { "a:080", NULL, 0 },
	{ "a:65536", NULL, 0 }, { "a:80x", NULL, 0 }, { "a:+80", NULL, 0 },
	{ "a:80:80", NULL, 0 }, { "a b:80", NULL, 0 }, { "a@b:80", NULL, 0 },
	{ "a_b:80", NULL, 0 }, { "-a:80", NULL, 0 }, { "a-:80", NULL, 0 },
	{ "a/b:80", NULL, 0 }, { "a%2eb:80", NULL, 0 }, { "*:80", NULL, 0 },
	{ "b\xc3\xbc" "cher:80", NULL, 0 }, { "a\\b:80", NULL, 0 },
	{ "127.1:80", NULL, 0 }, { "2130706433:80", NULL, 0 },
	{ "0x7f000001:80", NULL, 0 }, { "0x7f.0.0.1:80", NULL, 0 },
	{ "a.0x1:80", NULL, 0 }, { "0x:80", NULL, 0 },
	{ "0177.0.0.1:80", NULL, 0 }, { "127.0.0.01:80", NULL, 0 },
	{ "127.0.0.1.:80", "127.0.0.1", 80 }, { "1.2.3.256:80", NULL, 0 },
	{ "1.2.3.4.5:80", NULL, 0 }, { "a.5:80", NULL, 0 },
	{ "[::1:80", NULL, 0 }, { "::1:80", NULL, 0 }, { "[]:80", NULL, 0 },
	{ "[fe80::1%eth0]:80", NULL, 0 }, { "[::1]x:80", NULL, 0 },
	{ "[v1.x]:80", NULL, 0 }, { "[127.0.0.1]:80", NULL, 0 },
	{ "[::ffff:127.0.0.1]:80", "::ffff:127.0.0.1", 80 },
};

static void
test_hosts(void)
{
	struct host h;
	uint16_t port;
	size_t i;

	for (i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		struct sbx_text t = { hosts[i].text, strlen(hosts[i].text) };
		int r = host_port_read(t, 80, &h, &port);

		if (hosts[i].host == NULL)
			ok(r == SBX_E_SYNTAX, "\"%s\" is refused (%d)",
			    hosts[i].text, r);
		else
			ok(r == 0 && strcmp(h.text, hosts[i].host) == 0 &&
			    port == hosts[i].port, "\"%s\" is %s, %u",
			    hosts[i].text, h.text, port);
	}
	ok(host_port_read((struct sbx_text){ "a", 1 }, 0, &h, &port) ==
	    SBX_E_SYNTAX, "CONNECT must have a port");
	ok(host_read((struct sbx_text){ "a\0b", 3 }, &h) == SBX_E_SYNTAX,
	    "a NUL is refused");
}

/* --- ClientHello ------------------------------------------------------------------ */

struct hello {
	uint8_t raw[HELLO_RAW_MAX + 4096], body[HELLO_MAX + 4096];
	size_t n, len;
};
static struct hello hello;

static void
put(const void *p, size_t n)
{
	memcpy(hello.body + hello.len, p, n);
	hello.len += n;
}

static void
put_number(size_t v, unsigned bytes)
{
	while (bytes-- > 0)
		hello.body[hello.len++] = (uint8_t)(v >> 8 * bytes);
}

/* The beginning of a hello, with extensions of that many bytes to follow. */
static void
begin(size_t extensions)
{
	hello.len = 4;
	put_number(0x0303, 2);
	memset(hello.body + hello.len, 7, 32);
	hello.len += 32;
	put_number(0, 1);		/* session */
	put_number(2, 2);
	put_number(0x1301, 2);
	put_number(1, 1);
	put_number(0, 1);
	put_number(extensions, 2);
}

static void
put_name(const char *name, size_t n)
{
	put_number(0, 2);
	put_number(n + 5, 2);
	put_number(n + 3, 2);
	put_number(0, 1);
	put_number(n, 2);
	put(name, n);
}

/* Into records of that many bytes each. */
static void
records(size_t size)
{
	size_t i, n;

	hello.body[0] = 1;
	hello.body[1] = 0;
	hello.body[2] = (uint8_t)((hello.len - 4) >> 8);
	hello.body[3] = (uint8_t)(hello.len - 4);
	hello.n = 0;
	for (i = 0; i < hello.len; i += n) {
		n = hello.len - i < size ? hello.len - i : size;
		memcpy(hello.raw + hello.n, "\x16\x03\x01", 3);
		hello.raw[hello.n + 3] = (uint8_t)(n >> 8);
		hello.raw[hello.n + 4] = (uint8_t)n;
		memcpy(hello.raw + hello.n + 5, hello.body + i, n);
		hello.n += n + 5;
	}
}

static int
name_of(char name[256], const char **why)
{
	return (hello_name(hello.raw, hello.n, name, why));
}

/* A hello with that name, whole, in records of that size. */
static void
good(const char *name, size_t size)
{
	begin(strlen(name) + 9 + 4);
	put_number(0x0a0a, 2);		/* GREASE */
	put_number(0, 2);
	put_name(name, strlen(name));
	records(size);
}

static void
test_pieces(void)
{
	static const size_t sizes[] = { 16384, 100, 5, 4, 3, 1 };
	char name[256];
	const char *why;
	size_t i, n, whole;
	int r = 0;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		good("github.com", sizes[i]);
		whole = hello.n;
		for (n = 0; n < whole; n++)
			if ((r = hello_name(hello.raw, n, name, &why)) !=
			    SBX_E_AGAIN)
				break;
		ok(n == whole, "records of %zu: no part of it is enough (%zu "
		    "of %zu: %d)", sizes[i], n, whole, r);
		r = name_of(name, &why);
		ok(r == 0 && strcmp(name, "github.com") == 0,
		    "records of %zu: the whole names it", sizes[i]);
	}
}

static void
expect(int want, const char *text, const char *label)
{
	char name[256];
	const char *why = "";
	int r = name_of(name, &why);

	ok(r == want && (r == 0 || strstr(why, text) != NULL),
	    "%s (%d: %s)", label, r, r == 0 ? name : why);
}

static void
test_hello(void)
{
	char name[256];
	const char *why;
	size_t i;

	test_pieces();
	good("a", 100);
	hello.raw[0] = 23;
	expect(SBX_E_SYNTAX, "begin", "application data first");
	(void)memcpy(hello.raw, "GET / HTTP/1.1\r\n", 16);
	expect(SBX_E_SYNTAX, "begin", "HTTP in the clear");
	good("a", 100);
	hello.raw[5] = 2;
	expect(SBX_E_SYNTAX, "begin", "another handshake message");
	good("a", 100);
	hello.raw[3] = hello.raw[4] = 0;
	expect(SBX_E_SYNTAX, "begin", "an empty record");
	begin(0);
	records(100);
	expect(SBX_E_NOENT, "names no server", "no extension");
	begin(4);
	put_number(0xff01, 2);
	put_number(0, 2);
	records(100);
	expect(SBX_E_NOENT, "names no server", "no SNI");
	begin(20);
	put_name("a", 1);
	put_name("b", 1);
	records(100);
	expect(SBX_E_SYNTAX, "twice", "SNI twice");
	begin(9 + 4 + 3);
	put_number(0, 2);
	put_number(12, 2);
	put_number(10, 2);
	for (i = 0; i < 2; i++) {
		put_number(0, 1);
		put_number(2, 2);
		put("ab", 2);
	}
	records(100);
	expect(SBX_E_SYNTAX, "not one", "two names in one list");
	begin(9);
	put_name("", 0);
	records(100);
	expect(SBX_E_SYNTAX, "no host name", "an empty name");
	begin(12);
	put_name("a\0b", 3);
	records(100);
	expect(SBX_E_SYNTAX, "no host name", "a NUL in the name");
	begin(10 + 4);
	put_name("a", 1);
	put_number(0xfe0d, 2);
	put_number(0, 2);
	records(100);
	expect(SBX_E_SYNTAX, "encrypted", "ECH beside an SNI");
	begin(11);
	put_name("a", 1);
	put_number(0, 1);
	records(100);
	expect(SBX_E_SYNTAX, "broken", "a byte behind the last extension");
	begin(10);
	put_name("a", 1);
	put_number(0, 1);
	records(100);
	expect(SBX_E_SYNTAX, "broken", "a byte behind the extensions");
	good("github.com", 16384);
	hello.raw[hello.n] = 22;
	hello.raw[4]++;			/* one byte more in the record */
	hello.n++;
	expect(SBX_E_SYNTAX, "begin", "a byte behind the hello, in its record");
	good("github.com", 16384);
	memcpy(hello.raw + hello.n, "\x14\x03\x03\x00\x01\x01", 6);
	hello.n += 6;
	expect(0, "", "another record behind it is the server's");
	hello.len = HELLO_MAX + 8;
	records(16384);
	expect(SBX_E_SYNTAX, "begin", "a hello that is too long");
	good("github.com", 16384);
	for (i = 9; i < hello.n; i++) {	/* no byte of it crashes this */
		uint8_t was = hello.raw[i];

		for (unsigned v = 0; v < 256; v++) {
			hello.raw[i] = (uint8_t)v;
			(void)name_of(name, &why);
		}
		hello.raw[i] = was;
	}
	expect(0, "", "each byte was changed, and put back");
}

/* --- pushes ------------------------------------------------------------------------- */

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define Z "0000000000000000000000000000000000000000"
#define REF "refs/heads/topic"
#define CAPS "\0 report-status-v2 side-band-64k object-format=sha1"

static char push[PUSH_HEAD_MAX + 70000];
static size_t push_n;

static void
pkt(const char *p, size_t n)
{
	char head[5];

	(void)snprintf(head, sizeof(head), "%04zx", n + 4);
	memcpy(push + push_n, head, 4);
	memcpy(push + push_n + 4, p, n);
	push_n += n + 4;
}

static void
flush(void)
{
	memcpy(push + push_n, "0000", 4);
	push_n += 4;
}

#define PKT(s) pkt(s, sizeof(s) - 1)
/* as git push --signed has it */
#define CERT(command) \
	(PKT("push-cert\0report-status side-band-64k\n"), \
	PKT("certificate version 0.1\n"), PKT("pusher A <a@b.c> 1 +0000\n"), \
	PKT("\n"), PKT(command), PKT("-----BEGIN PGP SIGNATURE-----\n"), \
	PKT("push-cert-end\n"))

static void
judged(int want, const char *text, const char *label)
{
	struct push_grant g = { .ref = REF, .new_id = B, .old_id = A };
	const char *why = "";
	size_t used = 0;
	int r;

	flush();
	memcpy(push + push_n, "PACK", 4);
	r = push_judge(push, push_n + 4, &g, &used, &why);
	ok(r == want && (r == 0 ? used == push_n : strstr(why, text) != NULL),
	    "%s (%d: %s)", label, r, r == 0 ? "" : why);
	push_n = 0;
}

static void
test_push(void)
{
	struct push_grant g = { .ref = REF, .new_id = B, .old_id = A };
	const char *why = "";
	size_t used, n;
	int r = 0;

	PKT(A " " B " " REF CAPS "\n");
	judged(0, "", "the granted change");
	(void)snprintf(g.old_id, sizeof(g.old_id), "%s", Z);
	PKT(A " " B " " REF CAPS);
	flush();
	r = push_judge(push, push_n, &g, &used, &why);
	ok(r == SBX_E_POLICY && strstr(why, "sbx grant -o") != NULL,
	    "a ref that is there, granted as a new one (%s)", why);
	push_n = 0;
	(void)snprintf(g.old_id, sizeof(g.old_id), "%s", A);
	PKT("shallow " B);
	PKT(A " " B " " REF CAPS);
	judged(0, "", "from a shallow clone");
	PKT(A " " B " refs/heads/main" CAPS);
	judged(SBX_E_POLICY, "another ref", "another ref");
	PKT(A " " B " refs/heads/topic2" CAPS);
	judged(SBX_E_POLICY, "another ref", "a longer ref");
	PKT(A " " A " " REF CAPS);
	judged(SBX_E_POLICY, "another commit", "another commit");
	PKT(A " " Z " " REF CAPS);
	judged(SBX_E_POLICY, "deletes", "a deletion");
	PKT(B " " B " " REF CAPS);
	judged(SBX_E_POLICY, "not where", "the ref has moved");
	PKT(A " " B " " REF CAPS);
	PKT(A " " B " refs/heads/other");
	judged(SBX_E_POLICY, "more than one", "one more ref");
	PKT(A " " B " refs/heads/other" CAPS);
	PKT(A " " B " " REF);
	judged(SBX_E_POLICY, "another ref", "the granted one second");
	judged(SBX_E_POLICY, "nothing", "no command");
	CERT(A " " B " " REF);
	judged(SBX_E_POLICY, "signed", "a push certificate");
	PKT(A " " B " " REF CAPS);
	PKT(A " " B " " REF CAPS);
	judged(SBX_E_SYNTAX, "parse", "capabilities twice");
	PKT(A " " B " " REF CAPS "\0x");
	judged(SBX_E_SYNTAX, "parse", "a second NUL behind the capabilities");
	PKT(A " " B);
	judged(SBX_E_SYNTAX, "parse", "no ref");
	PKT(A "  " B " " REF);
	judged(SBX_E_SYNTAX, "parse", "two blanks");
	PKT("AAAA" " " B " " REF);
	judged(SBX_E_SYNTAX, "parse", "a short id");
	PKT(A " " B B " " REF);
	judged(SBX_E_SYNTAX, "parse", "ids of two lengths");
	memcpy(push, "0003", 4);
	push_n = 4;
	judged(SBX_E_SYNTAX, "parse", "a length below its own");
	memcpy(push, "00g0", 4);
	push_n = 4;
	judged(SBX_E_SYNTAX, "parse", "a length that is no number");
	memcpy(push, "fff1", 4);
	push_n = 4;
	judged(SBX_E_SYNTAX, "parse", "a length above git's");

	PKT(A " " B " " REF "\0 quiet push-options");
	flush();
	PKT("ci.skip");
	judged(SBX_E_POLICY, "push options", "push options are not granted");
	PKT(A " " B " " REF "\0push-options=1 quiet");
	judged(SBX_E_POLICY, "push options", "nor with a value");
	PKT(A " " B " " REF "\0 agent=push-options no-push-options");
	judged(0, "", "what only looks alike passes");
	PKT(A " " B " " REF "\0 quiet\tpush-options");
	judged(SBX_E_SYNTAX, "parse", "capabilities split by what git splits at");
	PKT(A " " B " " REF "\0 quiet\npush-options");
	judged(SBX_E_SYNTAX, "parse", "or by a newline");
	PKT(A " " B " " REF "\0 quiet");
	PKT("push-cert\0 quiet");
	judged(SBX_E_SYNTAX, "parse", "nor begins one behind a command");
	PKT("push-cert");
	judged(SBX_E_SYNTAX, "parse", "or without capabilities");
	PKT(A " " B " " REF "\0 quiet");
	n = push_n;
	r = push_judge(push, n, &g, &used, &why);
	ok(r == SBX_E_AGAIN, "without their end more is needed (%d)", r);
	for (n = 0, r = SBX_E_AGAIN; n < push_n && r == SBX_E_AGAIN; n++)
		r = push_judge(push, n, &g, &used, &why);
	ok(r == SBX_E_AGAIN, "no part is enough (%zu)", n);
	push_n = 0;
	for (n = 0; push_n < PUSH_HEAD_MAX + 4; n++)
		PKT("shallow " B);
	r = push_judge(push, push_n, &g, &used, &why);
	ok(r == SBX_E_SYNTAX && strstr(why, "too long") != NULL,
	    "a head without end is refused (%d)", r);
	push_n = 0;
}

#define SIDE "\0 report-status side-band-64k agent=x"

/* Is text the n bytes that are said of the push? */
static void
reported(const char *want, const char *label)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	bool r;

	flush();
	sbx_buf_init(&b, 2 * PUSH_REPORT_MAX);
	r = push_report(push, push_n, "why", "Mend", &b);
	ok(want == NULL ? !r : r && b.len == strlen(want) &&
	    memcmp(b.data, want, b.len) == 0, "%s (%d: %.*s)", label, r,
	    r ? (int)b.len : 0, b.data);
	push_n = 0;
}

static void
test_report(void)
{
	static const char one[] = "0020\2BLOCKED by sbx: why. Mend.\n"
	    "0055\1" "001funpack BLOCKED by sbx: why\n"
	    "002dng refs/heads/topic2 BLOCKED by sbx: why\n00000000";
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char line[400];
	int i;

	sbx_buf_init(&b, 2 * PUSH_REPORT_MAX);
	PKT(A " " B " refs/heads/topic2" SIDE "\n");
	reported(one, "a refused push is reported as git wants it");
	PKT("shallow " B);
	PKT(A " " B " refs/heads/topic2\0report-status-v2 side-band-64k");
	reported(one, "from a shallow clone, in the newer form");
	CERT(A " " B " refs/heads/topic2\n");
	reported(one, "a signed one, too");
	CERT(A " " B " refs/heads/\033[2J");
	reported(NULL, "but with such a ref");
	PKT("push-cert\0 report-status");
	reported(NULL, "or to who takes no side band");
	PKT(A " " B " refs/heads/topic2\0 side-band-64k");
	reported(NULL, "not to who asks for no report");
	PKT(A " " B " refs/heads/topic2\0 report-status");
	reported(NULL, "nor to who takes no side band");
	PKT(A " " B " refs/heads/\033[2J" SIDE);
	reported(NULL, "nor with a ref that a terminal obeys");
	PKT(A " " B " refs/heads/a b" SIDE);
	reported(NULL, "or that has a blank");
	i = snprintf(line, sizeof(line), A " " B " refs/heads/%0300d", 0);
	PKT(A " " B " refs/heads/topic2" SIDE);
	pkt(line, (size_t)i);
	reported(NULL, "or that is too long");
	reported(NULL, "of no command there is none");
	PKT(A " " B " refs/heads/topic2" SIDE);
	for (i = 0; i < 1200; i++)
		PKT(A " " B " refs/heads/of-a-longer-name");
	reported(NULL, "nor of more than is written");
	PKT(A " " B " refs/heads/topic2" SIDE);
	for (i = 0; i < 1000; i++)
		PKT(A " " B " x");
	flush();
	ok(push_report(push, push_n, "w", "M", &b) && b.len > 25000 &&
	    memcmp(b.data + b.len - 8, "00000000", 8) == 0,
	    "of many there is");
	push_n = 0;
}

static void
test_refs(void)
{
	static const struct {
		const char *ref;
		bool good;
	} refs[] = {
		{ "refs/heads/a", true }, { "refs/heads/a/b.c", true },
		{ "refs/tags/v1.0", true }, { "refs/heads/\xc3\xa4", true },
		{ "refs/heads/a@b", true }, { "refs/heads/-a", true },
		{ "HEAD", false }, { "refs/heads", false },
		{ "refs/heads/", false }, { "refs/pull/1/head", false },
		{ "refs/heads/a/", false }, { "refs/heads//a", false },
		{ "refs/heads/.a", false }, { "refs/heads/a.", false },
		{ "refs/heads/a/.b", false }, { "refs/heads/a..b", false },
		{ "refs/heads/a.lock", false }, { "refs/heads/a.lock/b", false },
		{ "refs/heads/a b", false }, { "refs/heads/a~b", false },
		{ "refs/heads/a^b", false }, { "refs/heads/a:b", false },
		{ "refs/heads/a?b", false }, { "refs/heads/a*b", false },
		{ "refs/heads/a[b", false }, { "refs/heads/a\\b", false },
		{ "refs/heads/a@{b", false }, { "refs/heads/a\tb", false },
		{ "refs/heads/a\x7f", false }, { "refs/heads/../a", false },
	};
	size_t i;

	for (i = 0; i < sizeof(refs) / sizeof(refs[0]); i++)
		ok(push_ref_is_good(refs[i].ref) == refs[i].good,
		    "\"%s\" is %s", refs[i].ref, refs[i].good ? "a ref" :
		    "no ref");
}

/* --- policy ------------------------------------------------------------------------- */

static const struct {
	const char *url;	/* scheme://host:port */
	int how;		/* enum policy_how, or one of the codes */
} urls[] = {
#define HOST_NO (-1)
#define PORT_NO (-2)
	{ "https://github.com:443", POLICY_GITHUB },
	{ "https://api.github.com:443", POLICY_GITHUB },
	{ "https://raw.githubusercontent.com:443", POLICY_GITHUB },
	{ "https://any.npmjs.org:443", POLICY_REGISTRY },
	{ "https://npmjs.org:443", POLICY_REGISTRY },
	{ "https://pypi.org:443", POLICY_REGISTRY },
	{ "https://test.pypi.org:443", HOST_NO },
	{ "http://github.com:80", PORT_NO },
	{ "https://github.com:22", PORT_NO },
	{ "https://github.com:80", PORT_NO },
	{ "https://evil-github.com:443", HOST_NO },
	{ "https://github.com.evil.example:443", HOST_NO },
	{ "https://githubxcom:443", HOST_NO },
	{ "https://com:443", HOST_NO },
	/* the operator's, below */
	{ "https://mirror.example:443", POLICY_TUNNEL },
	{ "http://mirror.example:80", POLICY_TUNNEL },
	{ "https://a.mirror.example:443", HOST_NO },
	{ "https://x.wide.example:8443", POLICY_INTERCEPT },
	{ "https://x.wide.example:443", PORT_NO },
	{ "http://x.wide.example:8443", POLICY_INTERCEPT },
	{ "https://inner.wide.example:8443", POLICY_INTERCEPT },
	{ "https://inner.wide.example:443", POLICY_INTERCEPT },
	{ "https://uploads.github.com:8443", POLICY_GITHUB },
	{ "https://192.0.2.7:443", POLICY_TUNNEL },
	{ "https://192.0.2.8:443", HOST_NO },
	{ "https://[2001:db8::7]:443", POLICY_TUNNEL },
	{ "http://plain.example:80", POLICY_TUNNEL },
	{ "https://plain.example:443", PORT_NO },
};
static const struct {
	const char *entry;
	enum policy_how how;
} entries[] = {
	{ "mirror.example", POLICY_TUNNEL },
	{ ".wide.example:8443", POLICY_INTERCEPT },
	{ "inner.wide.example", POLICY_TUNNEL },
	/* cannot lead what is built in past its gate */
	{ "uploads.github.com:8443", POLICY_TUNNEL },
	{ "any.npmjs.org", POLICY_TUNNEL },
	{ "192.0.2.7", POLICY_TUNNEL }, { "[2001:db8::7]", POLICY_TUNNEL },
	{ "http://Plain.Example.", POLICY_TUNNEL },
};

/* what policy_decide() says of it, as in `urls` */
static int
decide(const struct policy *p, const char *url, struct verdict *v)
{
	const char *text = strstr(url, "://") + 3;
	struct host h;
	uint16_t port;

	if (host_port_read((struct sbx_text){ text, strlen(text) }, 0, &h,
	    &port) != 0)
		return (-100);
	policy_decide(p, url[4] == 's' ? POLICY_HTTPS : POLICY_HTTP, &h, port,
	    v);
	if (v->allowed)
		return ((int)v->how);
	return (strcmp(v->code, "host_not_allowed") == 0 ? HOST_NO : PORT_NO);
}

static void
test_policy(void)
{
	static const char *const bad[] = { "", ".", "*.example", "a b",
		"ftp://a", "a:0", "a:x", ".1.2.3.4", "https://", "a/b",
		".[::1]", "127.1", "a..b", "*:80", "http://*." };
	struct sbx_err err;
	struct verdict v;
	struct policy p;
	size_t i;
	int r;

	policy_init(&p);
	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		ok(policy_add(&p, entries[i].entry, entries[i].how, false,
		    &err) == 0, "\"%s\" is an entry", entries[i].entry);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(policy_add(&p, bad[i], POLICY_TUNNEL, true, &err) ==
		    SBX_E_SYNTAX, "\"%s\" is none", bad[i]);
	ok(policy_add(&p, "*", POLICY_TUNNEL, false, &err) == SBX_E_SYNTAX,
	    "* needs its own word: %s", err.msg);
	for (i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
		r = decide(&p, urls[i].url, &v);
		ok(r == urls[i].how, "%s is %d (%d: %s)", urls[i].url,
		    urls[i].how, r, v.reason);
		if (v.allowed)
			continue;
		/* the mend does what it says */
		struct policy q;

		policy_init(&q);
		const char *mend = strstr(v.mend, "`allow_host ");
		char entry[HOST_MAX + 32] = "";

		if (mend != NULL)
			(void)sscanf(mend, "`allow_host %280[^`]", entry);
		ok(policy_add(&q, entry, POLICY_TUNNEL, false, &err) == 0 &&
		    decide(&q, urls[i].url, &v) >= 0,
		    "%s mends it", v.mend);
		policy_clear(&q);
	}
	ok(policy_add(&p, "*", POLICY_TUNNEL, true, &err) == 0, "* with it");
	ok(decide(&p, "https://any.example:443", &v) == POLICY_TUNNEL,
	    "then any name goes");
	ok(decide(&p, "https://any.example:22", &v) == HOST_NO,
	    "on the usual ports");
	ok(decide(&p, "https://8.8.8.8:443", &v) == HOST_NO, "no address");
	ok(decide(&p, "https://api.github.com:443", &v) == POLICY_GITHUB,
	    "and GitHub is led as before");
	policy_clear(&p);
	ok(decide(&p, "https://github.com:443", &v) == HOST_NO,
	    "an empty policy allows nothing");
}

/* --- GitHub's gate -------------------------------------------------------------------- */

static const struct {
	const char *host, *line;
	enum gate_class class;
} requests[] = {
#define GH "github.com"
#define API "api.github.com"
	{ GH, "GET /o/r.git/info/refs?service=git-upload-pack",
	    GATE_GIT_READ },
	{ GH, "GET /O/R/info/refs?service=git-upload-pack", GATE_GIT_READ },
	{ GH, "POST /o/r/git-upload-pack", GATE_GIT_READ },
	{ GH, "GET /o/r/info/refs?service=git-receive-pack", GATE_GIT_WRITE },
	{ GH, "POST /o/r.git/git-receive-pack", GATE_GIT_WRITE },
	{ GH, "GET /o/r/info/refs", GATE_DENIED },
	{ GH, "GET /o/r/info/refs?service=x", GATE_DENIED },
	{ GH, "GET /o/r/info/refs?service=git-upload-pack&service="
	    "git-receive-pack", GATE_DENIED },
	{ GH, "GET /o/r/info/refs?Service=git-upload-pack", GATE_DENIED },
	{ GH, "GET /o/r/info/refs?service=git-upload-pack&a=b", GATE_DENIED },
	{ GH, "GET /o/r/info/refs?service=git%2dupload-pack", GATE_DENIED },
	{ GH, "POST /o/r/git-receive-pack?service=git-upload-pack",
	    GATE_DENIED },
	{ GH, "POST /o/r/git-receive-pack?", GATE_DENIED },
	{ GH, "POST /o/r/git-receive-pack/", GATE_DENIED },
	{ GH, "POST /o/r/git-receive%2dpack", GATE_DENIED },
	{ GH, "POST /o//r/git-receive-pack", GATE_DENIED },
	{ GH, "POST //o/r/git-receive-pack", GATE_DENIED },
	{ GH, "POST /o/r/./git-receive-pack", GATE_DENIED },
	{ GH, "POST /o/r/../r/git-receive-pack", GATE_DENIED },
	{ GH, "POST /o/r/GIT-RECEIVE-PACK", GATE_DENIED },
	{ GH, "POST /x/o/r/git-receive-pack", GATE_DENIED },
	{ GH, "POST /o/r/git-upload-pack;x", GATE_DENIED },
	{ GH, "PUT /o/r/git-upload-pack", GATE_DENIED },
	{ GH, "GET /o/r/git-upload-pack", GATE_DENIED },
	{ GH, "get /o/r/archive/v1.tar.gz", GATE_DENIED },
	{ GH, "POST /o_x/r/git-upload-pack", GATE_GIT_READ },
	{ GH, "POST /o.x/r/git-upload-pack", GATE_DENIED },
	{ GH, "POST /o/r.git/info/lfs/objects/batch", GATE_DENIED },
	{ GH, "POST /login/oauth/access_token", GATE_DENIED },
	{ GH, "GET /", GATE_DENIED }, { GH, "GET /o/r", GATE_DENIED },
	{ GH, "GET /o/r/releases/download/v1.0/x.tar.gz", GATE_ASSET },
	{ GH, "HEAD /o/r/archive/refs/heads/main.zip", GATE_ASSET },
	{ GH, "GET /o/r/archive", GATE_DENIED },
	{ GH, "GET /o/r/archive/", GATE_DENIED },
	{ GH, "POST /o/r/archive/x", GATE_DENIED },
	{ "codeload.github.com", "GET /o/r/zip/refs/heads/x", GATE_ASSET },
	{ "raw.githubusercontent.com", "GET /o/r/main/a.py?token=x",
	    GATE_ASSET },
	{ "objects.githubusercontent.com", "GET /x/1/2?X-Amz=1", GATE_ASSET },
	{ "gist.githubusercontent.com", "GET /o/1/raw", GATE_DENIED },
	{ "gist.github.com", "GET /o/1", GATE_DENIED },
	{ "uploads.github.com", "POST /repos/o/r/releases/1/assets",
	    GATE_DENIED },
	{ API, "GET /repos/o/r", GATE_API_READ },
	{ API, "GET /repos/o/r/issues?state=open", GATE_API_READ },
	{ API, "POST /repos/o/r/issues", GATE_API_WRITE },
	{ API, "DELETE /repos/o/r/git/refs/heads/x", GATE_API_WRITE },
	{ API, "DELETE /repos/o/r", GATE_DENIED },
	{ API, "POST /graphql", GATE_GRAPHQL },
	{ API, "GET /graphql?query=x", GATE_DENIED },
	{ API, "GET /user", GATE_DENIED }, { API, "POST /gists", GATE_DENIED },
	{ API, "GET /repos/o/..", GATE_DENIED },
	{ API, "POST /repos/o/r%2f../x/issues", GATE_DENIED },
};

static void
test_gate(void)
{
	struct sbx_http_head h;
	struct host host;
	char text[512];
	struct gate g;
	const char *why;
	size_t i, used;

	for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		(void)snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: %s"
		    "\r\n\r\n", requests[i].line, requests[i].host);
		(void)host_read((struct sbx_text){ requests[i].host,
		    strlen(requests[i].host) }, &host);
		if (sbx_http_head(text, strlen(text), &h, &used, &why) != 0) {
			ok(requests[i].class == GATE_DENIED, "%s: %s",
			    requests[i].line, why);
			continue;
		}
		gate_classify(&host, &h, &g);
		ok(g.class == requests[i].class && (g.class == GATE_DENIED) ==
		    (g.why != NULL), "%s %s is %s (%s)", requests[i].host,
		    requests[i].line, gate_name(requests[i].class),
		    gate_name(g.class));
		if (g.class == GATE_GIT_WRITE || g.class == GATE_API_WRITE)
			ok(strcmp(g.owner, "o") == 0 && strcmp(g.repo, "r") ==
			    0, "of o/r (%s/%s)", g.owner, g.repo);
	}
}

/* --- hosts of git alone ---------------------------------------------------------------- */

static const struct {
	const char *line;
	enum gate_class class;
} git_requests[] = {
	{ "GET /o/r.git/info/refs?service=git-upload-pack", GATE_GIT_READ },
	{ "GET /O/R/info/refs?service=git-upload-pack", GATE_GIT_READ },
	{ "POST /o/r/git-upload-pack", GATE_GIT_READ },
	{ "GET /o/r/info/refs?service=git-receive-pack", GATE_GIT_WRITE },
	{ "POST /o/r.git/git-receive-pack", GATE_GIT_WRITE },
	{ "POST /O/r.git/git-receive-pack", GATE_DENIED },
	{ "POST /o/R/git-receive-pack", GATE_DENIED },
	{ "GET /o/R/info/refs?service=git-receive-pack", GATE_DENIED },
	{ "GET /", GATE_DENIED }, { "GET /o/r", GATE_DENIED },
	{ "GET /o/r/raw/main/x", GATE_DENIED },
	{ "GET /o/r/archive/main.tar.gz", GATE_DENIED },
	{ "GET /repos/o/r", GATE_DENIED }, { "POST /graphql", GATE_DENIED },
	{ "POST /o/r.git/info/lfs/objects/batch", GATE_DENIED },
	{ "GET /o/r.git/HEAD", GATE_DENIED },
	{ "GET /o/r.git/objects/info/packs", GATE_DENIED },
	{ "GET /o/r/info/refs", GATE_DENIED },
	{ "POST /o/r/git-upload-archive", GATE_DENIED },
	{ "POST /o/r/git-receive-pack?x", GATE_DENIED },
	{ "POST /g/o/r/git-upload-pack", GATE_DENIED },
	{ "PUT /o/r/git-receive-pack", GATE_DENIED },
};

static void
test_git_gate(void)
{
	struct sbx_http_head h;
	char text[512];
	struct gate g;
	const char *why;
	size_t i, used;
	int r;

	for (i = 0; i < sizeof(git_requests) / sizeof(git_requests[0]); i++) {
		(void)snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: a"
		    "\r\n\r\n", git_requests[i].line);
		r = sbx_http_head(text, strlen(text), &h, &used, &why);
		gate_classify_git(&h, &g);
		ok(r == 0 && g.class == git_requests[i].class &&
		    (g.class == GATE_DENIED) == (g.why != NULL),
		    "git alone: %s is %s (%s)", git_requests[i].line,
		    gate_name(git_requests[i].class), gate_name(g.class));
	}
	(void)snprintf(text, sizeof(text), "POST /o/r/info/lfs/objects/batch "
	    "HTTP/1.1\r\nHost: github.com\r\n\r\n");
	r = sbx_http_head(text, strlen(text), &h, &used, &why);
	gate_classify_git(&h, &g);
	ok(r == 0 && strstr(g.why, "LFS") != NULL, "LFS is told apart");
}

int
main(void)
{
	tap_plan(0);
	test_addresses();
	test_hosts();
	test_hello();
	test_push();
	test_report();
	test_refs();
	test_policy();
	test_gate();
	test_git_gate();
	return (tap_done());
}
