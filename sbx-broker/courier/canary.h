#ifndef SBX_COURIER_CANARY_H
#define SBX_COURIER_CANARY_H

/*
 * One credential, looked for in what leaves: as it is, and in each encoding
 * that an upstream or a log is likely to give it.  Base64 in its three phases
 * finds it inside of anything, "user:token" of Basic too.  No I/O.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CANARY_MIN 8u		/* bytes; a shorter one is in any text */
#define CANARY_MAX 2048u
#define CANARY_PATTERNS 20u
#define CANARY_BYTES 98304u	/* of all patterns of the longest one */

/* Has the credential in it: in locked memory, canary_clear() at the end.  All
 * zeros: looks for nothing. */
struct canary {
	size_t n, used, window, longest;
	struct {
		size_t at, len;		/* in bytes[] */
	} pattern[CANARY_PATTERNS];
	char bytes[CANARY_BYTES];
	/* of the two bytes at the window's end: how far it may move on */
	uint8_t shift[65536];
};

/* secret: of len bytes, CANARY_MIN..CANARY_MAX.  0, SBX_E_RANGE. */
int canary_set(struct canary *c, const char *secret, size_t len);
void canary_clear(struct canary *c);

/* Is it, in one of its shapes, in the n bytes at p? */
bool canary_find(const struct canary *c, const char *p, size_t n);
/* How many of the last bytes may be the beginning of one: what follows must
 * be looked at together with them. */
size_t canary_tail(const struct canary *c, const char *p, size_t n);

#endif
