#ifndef SBX_PROTO_RECORD_H
#define SBX_PROTO_RECORD_H

/*
 * Records for the journal of who does not wait for it: what a journal that is
 * absent, or does not keep up, misses is counted, and the next record says it.
 */

#include "common/proto/peer.h"

struct sbx_record {
	struct sbx_strs fields;
	struct sbx_buf buf;
};

void sbx_record_begin(struct sbx_record *r);
/* An empty value is left out, and a long one is cut. */
void sbx_record_add(struct sbx_record *r, const char *name, const char *fmt,
    ...) SBX_PRINTF(3, 4);
void sbx_record_number(struct sbx_record *r, const char *name, uint64_t n);
/* With what a has beside fields.  r is cleared.  journald NULL: there is none.
 * False: it is lost, and counted. */
bool sbx_record_send(struct sbx_record *r, struct sbx_peer *journald,
    const struct sbx_journal_append *a, uint64_t *lost);

/* How many there were in this second. */
struct sbx_record_rate {
	uint64_t second;
	unsigned n;
};
/* One more; now: of sbx_mono_ns(). */
bool sbx_record_rate(struct sbx_record_rate *r, uint64_t now, unsigned most);

/* What the journal says of them: nothing that is waited for. */
extern const struct sbx_dispatch sbx_record_rows[SBX_MSG_MAX];

#endif
