#ifndef SBX_BASE_SECRET_H
#define SBX_BASE_SECRET_H

/*
 * A credential in memory of its own: locked (never swapped), in no core file,
 * all zeros in a forked child, zeroed before it is given back.  There is no
 * way to print one; its bytes are asked for by name, and only those who hold
 * credentials may include this (tests/lint/banned.py).
 * Source: mlock(2), madvise(2), explicit_bzero(3).
 */

#include "common/base/base.h"

struct sbx_secret;

/*
 * An empty one with room for max bytes (1..SBX_SECRET_MAX), owned by the
 * caller.  NULL with err set: out of range, or the memory cannot be locked;
 * the sentence names the mend.
 */
#define SBX_SECRET_MAX 65536u
struct sbx_secret *sbx_secret_new(size_t max, struct sbx_err *err);
void sbx_secret_free(struct sbx_secret *s);	/* NULL ok; zeroes it */
void sbx_cleanup_secret(struct sbx_secret **s);
void sbx_secret_clear(struct sbx_secret *s);	/* zeroes it in place */

/* Append, all or nothing.  0, SBX_E_LIMIT.  What is at p stays the caller's to
 * wipe. */
int sbx_secret_add(struct sbx_secret *s, const void *p, size_t n);
/*
 * Append what one read(2) of fd gives.  Returns its bytes, 0 at the end of the
 * file, SBX_E_LIMIT: there is no room for another byte, SBX_E_AGAIN (an
 * interrupted call, too), SBX_E_SYS (errno).
 */
int sbx_secret_read(struct sbx_secret *s, int fd);
/* Without the blanks and newlines around it. */
void sbx_secret_trim(struct sbx_secret *s);

size_t sbx_secret_len(const struct sbx_secret *s);
/* Its bytes and a NUL behind them, borrowed until s changes: for a message to
 * who may have it, or a library that works with it, and nothing else. */
const char *sbx_secret_text(const struct sbx_secret *s);
/* Are these its bytes?  How long it takes says nothing but of lengths. */
bool sbx_secret_same(const struct sbx_secret *s, const void *p, size_t n);

#endif
