#ifndef SBX_BROKER_TIMES_H
#define SBX_BROKER_TIMES_H

/*
 * What the key process decides by the time of day: a time in, a decision out, so
 * that an hour can be tested in no time.
 */

#include <stdbool.h>
#include <stdint.h>

#define TIMES_LIFE_S 3600u	/* of what GitHub mints */
#define TIMES_SKEW_S 60u	/* of two clocks, before it is told */
#define TIMES_TRIES 4u		/* to revoke one token */
#define TIMES_HURRY_NS UINT64_C(300000000) /* between two, amid a lock */

/* Seconds that a token is good for, of one that ends at expires_s, both wall
 * time; 0: it is over. */
uint64_t times_left_s(uint64_t now_s, uint64_t expires_s);
/* Is that no hour, so that one of the two clocks is wrong? */
bool times_odd(uint64_t now_s, uint64_t expires_s);
/* For how long it may be used, from now: not in its last five minutes, and not
 * for longer than GitHub's are good, whatever its host says. */
uint64_t times_keep_s(uint64_t now_s, uint64_t expires_s);
/* For how long revoking it is of use: an hour, where the clocks do not agree. */
uint64_t times_revoke_s(uint64_t now_s, uint64_t expires_s);

/*
 * When a revocation that failed is tried again, monotonic; 0: never.  tries: how
 * many there were, 1 or more; retry_s: what its host asked for; expires_ns: when
 * the token ends by itself.
 */
uint64_t times_again_ns(unsigned tries, uint64_t retry_s, uint64_t now_ns,
    uint64_t expires_ns);

#endif
