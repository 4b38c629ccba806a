#ifndef SBX_JOURNALD_LINE_H
#define SBX_JOURNALD_LINE_H

/*
 * What writer and reader of the journal must agree on.
 */

#include "common/base/base.h"

#define JOURNAL_VERSION 1	/* of the record, said by each `open` */
#define JOURNAL_HASH 32		/* bytes of SHA-256 */
#define JOURNAL_HASH_HEX (2 * JOURNAL_HASH)
/* Longest line: JOURNAL_APPEND's texts, each byte as \u00XX, and the rest. */
#define JOURNAL_LINE_MAX (256u << 10)
#define JOURNAL_NAME_FMT "journal.%06u.jsonl"
#define JOURNAL_NAME_SIZE 32
#define JOURNAL_NUMBER_MAX 999999u

void journal_hex(const uint8_t hash[JOURNAL_HASH],
    char ret_hex[JOURNAL_HASH_HEX + 1]);
/* The number in the name of a journal file, or 0 when it is none. */
unsigned journal_name_number(const char *name);
/*
 * Is this line (without newline) a record?  Its first two members are taken
 * from their fixed places; the whole must be valid JSON.
 * 0, SBX_E_SYNTAX.
 */
int journal_line_head(const char *line, size_t len, uint64_t *ret_seq,
    char ret_prev[JOURNAL_HASH_HEX + 1]);

#endif
