#include "sbx-proxy/dns.h"

#include <netinet/in.h>
#include <string.h>

#define HEADER 12u
#define LABEL_MAX 63u
#define CLASS_IN 1u

/* The second 16 bits of a header. */
#define FLAG_QR 0x8000u
#define FLAG_OPCODE 0x7800u
#define FLAG_TC 0x0200u
#define FLAG_RD 0x0100u

static void
put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static unsigned
get16(const uint8_t *p)
{
	return ((unsigned)p[0] << 8 | p[1]);
}

/* RFC 4343: names are equal whatever their case, and answers repeat it, which
 * one who did not see the question cannot. */
static uint8_t
mix(char c, uint8_t random)
{
	bool letter = c >= 'a' && c <= 'z';

	return ((uint8_t)(letter && (random & 1) != 0 ? c - 'a' + 'A' : c));
}

int
dns_ask(const char *name, enum dns_type type, bool mixed,
    struct dns_question *ret_q)
{
	struct dns_question *q = ret_q;
	uint8_t random[DNS_QUESTION_MAX] = { 0 };
	size_t len;

	memset(q, 0, sizeof(*q));
	if (mixed)
		sbx_random(random, sizeof(random));
	sbx_random(q->bytes, 2);
	q->type = type;
	q->n = HEADER;
	put16(q->bytes + 2, FLAG_RD);
	put16(q->bytes + 4, 1);
	while (*name != '\0') {
		len = strcspn(name, ".");
		if (len == 0 || len > LABEL_MAX ||
		    q->n + 1 + len + 5 > sizeof(q->bytes))
			return (SBX_E_LENGTH);
		q->bytes[q->n++] = (uint8_t)len;
		for (; len > 0; len--, q->n++)
			q->bytes[q->n] = mix(*name++, random[q->n]);
		name += *name == '.';
	}
	q->n++;			/* the root's label */
	put16(q->bytes + q->n, (unsigned)type);
	put16(q->bytes + q->n + 2, CLASS_IN);
	q->n += 4;
	return (0);
}

/* Behind the name at *pos; where a pointer leads is of no interest. */
static bool
skip_name(const uint8_t *p, size_t n, size_t *pos)
{
	uint8_t len;

	while (*pos < n) {
		len = p[(*pos)++];
		if (len == 0)
			return (true);
		if (len >= 0xc0) {
			(*pos)++;
			return (*pos <= n);
		}
		if (len > LABEL_MAX)
			return (false);
		*pos += len;
	}
	return (false);
}

static void
add(struct dns_addrs *addrs, enum dns_type type, const uint8_t *data)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ss;

	if (addrs->n == DNS_ADDRS)
		return;
	if (type == DNS_A) {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, data, sizeof(v4->sin_addr));
	} else {
		v6->sin6_family = AF_INET6;
		memcpy(&v6->sin6_addr, data, sizeof(v6->sin6_addr));
	}
	addrs->addr[addrs->n++] = ss;
}

/* One record at *pos, which moves behind it; of the wanted type or not. */
static bool
read_record(const uint8_t *p, size_t n, size_t *pos, enum dns_type type,
    struct dns_addrs *addrs)
{
	const size_t size = type == DNS_A ? 4 : 16;
	const uint8_t *fixed;
	size_t len;

	if (!skip_name(p, n, pos) || n - *pos < 10)
		return (false);
	fixed = p + *pos;
	*pos += 10;
	len = get16(fixed + 8);
	if (n - *pos < len)
		return (false);
	/* The owner is not compared: the chain of aliases is the resolver's
	 * word as much as the address is. */
	if (get16(fixed) == (unsigned)type && get16(fixed + 2) == CLASS_IN &&
	    len == size)
		add(addrs, type, p + *pos);
	*pos += len;
	return (true);
}

int
dns_answer(const uint8_t *p, size_t n, const struct dns_question *q,
    struct dns_addrs *addrs, unsigned *ret_rcode)
{
	struct dns_addrs found = *addrs;
	unsigned flags, records, i;
	size_t pos = q->n;

	if (n < q->n || memcmp(p, q->bytes, 2) != 0 || get16(p + 4) != 1 ||
	    memcmp(p + HEADER, q->bytes + HEADER, q->n - HEADER) != 0)
		return (SBX_E_SYNTAX);
	flags = get16(p + 2);
	if ((flags & FLAG_QR) == 0 || (flags & FLAG_OPCODE) != 0)
		return (SBX_E_SYNTAX);
	records = get16(p + 6);
	for (i = 0; i < records; i++)
		if (!read_record(p, n, &pos, q->type, &found)) {
			if ((flags & FLAG_TC) == 0)
				return (SBX_E_SYNTAX);
			break;
		}
	*addrs = found;
	*ret_rcode = flags & 0xf;
	return (0);
}
