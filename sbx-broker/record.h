#ifndef SBX_BROKER_RECORD_H
#define SBX_BROKER_RECORD_H

/*
 * The broker's records in the journal: what was minted, revoked and exchanged,
 * and what was refused.  Nothing of a token but the number of its mint.  At
 * most RECORD_RATE a second; the next one says how many more there were.
 */

#include "sbx-broker/broker.h"

#define RECORD_RATE 20

void record_mint(struct broker *k, const struct token *t,
    uint64_t expires_wall_s);
void record_no_mint(struct broker *k, const struct source *s,
    const char *repo, const char *permissions, const char *why);
/* why: it was to be.  tries: this one included.  f NULL: it is revoked; else
 * again_ns (monotonic) is when it is tried again, 0: it is not. */
void record_revoke(struct broker *k, const struct token *t, const char *why,
    unsigned tries, uint64_t again_ns, const struct fault *f);
/* A commit of that publication is signed; why: it is not.  a NULL: it is unknown. */
void record_sign(struct broker *k, const struct announced *a,
    const char *publish, const char *commit, const char *why);
/* Of git or REST, when it is over. */
void record_exchange(const struct job *j, const struct outcome *out);

#endif
