#ifndef SBX_TESTS_PROTO_SAMPLE_H
#define SBX_TESTS_PROTO_SAMPLE_H

/*
 * msgs.def once more, as data: the fields of each message, samples of each,
 * and a second encoder that shares no code with codec.c.
 */

#include "common/proto/proto.h"

enum field_kind {
	FIELD_END, FIELD_U8, FIELD_U32, FIELD_U64, FIELD_I32, FIELD_STR,
	FIELD_STRS
};
struct field {
	enum field_kind kind;
	const char *name;
	uint32_t count;		/* FIELD_STRS: strings at most */
	uint32_t max;		/* bytes at most, as in msgs.def */
};
/* Ends with FIELD_END; NULL for a number without a message. */
extern const struct field *const fields_of[SBX_MSG_MAX];

enum sample {
	SAMPLE_EMPTY,		/* 0, "" and no strings */
	SAMPLE_SOME,		/* something short everywhere */
	SAMPLE_FULL,		/* the largest of everything */
	SAMPLE_MAX
};
/* Strings in *m are static. */
void sample_fill(unsigned type, enum sample how, union sbx_any_msg *m);
bool sample_equal(unsigned type, const union sbx_any_msg *a,
    const union sbx_any_msg *b);

/*
 * The body of that sample, where field number `odd` (-1: none) has the raw
 * bytes instead.  Allocated to the exact length, so that a sanitizer sees
 * each read past it; owned by the caller.
 */
uint8_t *sample_body(unsigned type, enum sample how, int odd, const void *raw,
    size_t raw_len, size_t *ret_len);
/* A whole record: header and body. */
uint8_t *sample_record(unsigned type, uint32_t id, const uint8_t *body,
    size_t len, size_t *ret_len);

#endif
