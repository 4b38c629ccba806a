/* Questions and answers of the DNS, as the proxy writes and reads them. */

#include "sbx-proxy/dns.h"

#include <netinet/in.h>
#include <string.h>

#include "tests/tap.h"

static uint8_t msg[DNS_ANSWER_MAX];
static size_t len;

static void
put(const void *p, size_t n)
{
	memcpy(msg + len, p, n);
	len += n;
}

/* The header and question of q, as its answer. */
static void
begin(const struct dns_question *q, uint16_t flags, uint8_t records)
{
	const uint8_t head[] = { (uint8_t)(flags >> 8), (uint8_t)flags, 0, 1,
		0, records };

	len = 0;
	put(q->bytes, q->n);
	memcpy(msg + 2, head, sizeof(head));
}

static void
record(uint8_t type, uint8_t class, uint8_t size, const void *data)
{
	const uint8_t head[] = { 0xc0, 12, 0, type, 0, class, 0, 0, 0, 9, 0,
		size };

	put(head, sizeof(head));
	put(data, size);
}

static int
answer(const struct dns_question *q, struct dns_addrs *a, unsigned *rcode)
{
	memset(a, 0, sizeof(*a));
	return (dns_answer(msg, len, q, a, rcode));
}

static void
test_questions(void)
{
	static const uint8_t want[] = { 1, 'a', 7, 'e', 'x', 'a', 'm', 'p', 'l',
		'e', 0, 0, 28, 0, 1 };
	struct dns_question q, other;
	char name[300];
	bool upper = false;

	ok(dns_ask("a.example", DNS_AAAA, false, &q) == 0 &&
	    q.n == 12 + sizeof(want) && memcmp(q.bytes + 12, want,
	    sizeof(want)) == 0, "a question as RFC 1035 has it");
	(void)dns_ask("a.example", DNS_AAAA, false, &other);
	for (int i = 0; i < 4 && memcmp(q.bytes, other.bytes, 2) == 0; i++)
		(void)dns_ask("a.example", DNS_AAAA, false, &other);
	ok(memcmp(q.bytes, other.bytes, 2) != 0, "ids are random");
	for (int i = 0; i < 40; i++) {
		(void)dns_ask("a.example", DNS_A, true, &q);
		upper = upper || q.bytes[13] == 'A';
	}
	ok(upper, "and so is the case of letters, when asked for");
	memset(name, 'a', sizeof(name));
	name[64] = '\0';
	ok(dns_ask(name, DNS_A, false, &q) == SBX_E_LENGTH,
	    "a label of 64 bytes is refused");
	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = i % 50 == 49 ? '.' : 'a';
	name[sizeof(name) - 1] = '\0';
	ok(dns_ask(name, DNS_A, false, &q) == SBX_E_LENGTH,
	    "so is a name that is too long");
	ok(dns_ask("a..b", DNS_A, false, &q) == SBX_E_LENGTH,
	    "and an empty label");
}

static void
test_answers(void)
{
	static const uint8_t addr[16] = { 93, 184, 216, 34 };
	struct dns_question q;
	struct dns_addrs a;
	unsigned rcode = 99;
	bool good = true;

	(void)dns_ask("a.example", DNS_A, true, &q);
	begin(&q, 0x8180, 4);
	record(5, 1, 3, "\1b\0");
	record(1, 1, 4, addr);
	record(28, 1, 16, addr);
	record(1, 3, 4, addr);
	ok(answer(&q, &a, &rcode) == 0 && rcode == DNS_NOERROR && a.n == 1 &&
	    memcmp(&((struct sockaddr_in *)&a.addr[0])->sin_addr, addr, 4) == 0,
	    "addresses of the asked type and class are taken");
	for (size_t n = len; n > 0; n--) {
		len = n - 1;
		good = good && answer(&q, &a, &rcode) == SBX_E_SYNTAX &&
		    a.n == 0;
	}
	ok(good, "cut anywhere it is no answer");
	begin(&q, 0x8380, 2);
	record(1, 1, 4, addr);
	ok(answer(&q, &a, &rcode) == 0 && a.n == 1,
	    "of a truncated one what is whole is taken");
	begin(&q, 0x8183, 0);
	ok(answer(&q, &a, &rcode) == 0 && rcode == DNS_NXDOMAIN,
	    "no such name");
	begin(&q, 0x0180, 0);
	ok(answer(&q, &a, &rcode) == SBX_E_SYNTAX, "a question is no answer");
	begin(&q, 0x8180, 0);
	msg[0] ^= 1;
	ok(answer(&q, &a, &rcode) == SBX_E_SYNTAX, "nor is one of another id");
	begin(&q, 0x8180, 0);
	msg[14] ^= 0x20;
	ok(answer(&q, &a, &rcode) == SBX_E_SYNTAX,
	    "nor one that does not repeat the case");
	begin(&q, 0x8180, 200);
	for (int i = 0; i < 200; i++)
		record(1, 1, 4, addr);
	ok(answer(&q, &a, &rcode) == 0 && a.n == DNS_ADDRS,
	    "no more addresses are taken than there is room for");
}

/* Whatever comes, nothing is read behind it. */
static void
test_noise(void)
{
	struct dns_question q;
	struct dns_addrs a;
	unsigned rcode;
	uint8_t *exact;

	(void)dns_ask("a.example", DNS_AAAA, false, &q);
	for (int i = 0; i < 200000; i++) {
		uint8_t n;

		begin(&q, 0x8180, 9);
		sbx_random(&n, 1);
		sbx_random(msg + len, n);
		len += n;
		exact = malloc(len);
		if (exact == NULL)
			break;
		memcpy(exact, msg, len);
		memset(&a, 0, sizeof(a));
		(void)dns_answer(exact, len, &q, &a, &rcode);
		free(exact);
	}
	ok(true, "noise does no harm");
}

int
main(void)
{
	tap_plan(0);
	test_questions();
	test_answers();
	test_noise();
	return tap_done();
}
