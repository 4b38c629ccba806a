#ifndef SBX_PROXY_DNS_H
#define SBX_PROXY_DNS_H

/*
 * Messages of the DNS: a question for the addresses of a name, and what is
 * taken from its answer.  No I/O.  Source: RFC 1035 section 4, RFC 3596.
 */

#include "common/base/base.h"

#include <sys/socket.h>

#define DNS_QUESTION_MAX 272u	/* bytes: 12, a name of 255, 4 */
#define DNS_ANSWER_MAX 4096u	/* more is never asked for */
#define DNS_ADDRS 16u		/* taken of one answer */

enum dns_type { DNS_A = 1, DNS_AAAA = 28 };

struct dns_question {
	uint8_t bytes[DNS_QUESTION_MAX];
	size_t n;
	enum dns_type type;
};
struct dns_addrs {
	struct sockaddr_storage addr[DNS_ADDRS]; /* port 0 */
	unsigned n;
};

/* name: canonical (host.h).  With a random id and, if mixed, letters of random
 * case, which an answer must repeat.  0, SBX_E_LENGTH. */
int dns_ask(const char *name, enum dns_type type, bool mixed,
    struct dns_question *ret_q);
/*
 * The n bytes at p came from where q was sent.  0: they answer it, with
 * *ret_rcode (RFC 1035 section 4.1.1), and addresses of its type are added to
 * *addrs; of a truncated answer, those that are whole.  SBX_E_SYNTAX: they
 * do not.
 */
int dns_answer(const uint8_t *p, size_t n, const struct dns_question *q,
    struct dns_addrs *addrs, unsigned *ret_rcode);

#define DNS_NOERROR 0u
#define DNS_NXDOMAIN 3u

#endif
