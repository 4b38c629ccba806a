/*
 * What both sides of the journal agree on.  Only what this accepts is a record:
 * the writer checks its own tail by it after a crash, the reader every line.
 */

#include "sbx-journald/line.h"

#include "common/base/json.h"

#include <stdio.h>
#include <string.h>

void
journal_hex(const uint8_t hash[JOURNAL_HASH],
    char ret_hex[JOURNAL_HASH_HEX + 1])
{
	static const char digits[] = "0123456789abcdef";
	size_t i;

	for (i = 0; i < JOURNAL_HASH; i++) {
		ret_hex[2 * i] = digits[hash[i] >> 4];
		ret_hex[2 * i + 1] = digits[hash[i] & 15];
	}
	ret_hex[JOURNAL_HASH_HEX] = '\0';
}

unsigned
journal_name_number(const char *name)
{
	char digits[7], again[JOURNAL_NAME_SIZE];
	uint64_t n;

	/* fixed width, and made again to compare: "+00001" is no number, and
	 * a backup beside the files is not one of them */
	if (strlen(name) != strlen("journal.000000.jsonl"))
		return (0);
	memcpy(digits, name + strlen("journal."), 6);
	digits[6] = '\0';
	if (sbx_parse_u64(digits, 1, JOURNAL_NUMBER_MAX, &n) < 0)
		return (0);
	(void)snprintf(again, sizeof(again), JOURNAL_NAME_FMT, (unsigned)n);
	return (strcmp(again, name) == 0 ? (unsigned)n : 0);
}

int
journal_line_head(const char *line, size_t len, uint64_t *ret_seq,
    char ret_prev[JOURNAL_HASH_HEX + 1])
{
	static const char seq[] = "{\"seq\":", prev[] = ",\"prev\":\"";
	char digits[21];
	size_t at = sizeof(seq) - 1, n = 0;

	if (len < at || memcmp(line, seq, at) != 0)
		return (SBX_E_SYNTAX);
	/* by place, not by a parser: a member of this name further inside a
	 * text could otherwise pass for it */
	while (at + n < len && n < sizeof(digits) - 1 && line[at + n] >= '0' &&
	    line[at + n] <= '9')
		n++;
	memcpy(digits, line + at, n);
	digits[n] = '\0';
	at += n;
	if (sbx_parse_u64(digits, 1, INT64_MAX, ret_seq) < 0 ||
	    digits[0] == '0')
		return (SBX_E_SYNTAX);
	if (len - at < sizeof(prev) - 1 + JOURNAL_HASH_HEX ||
	    memcmp(line + at, prev, sizeof(prev) - 1) != 0)
		return (SBX_E_SYNTAX);
	at += sizeof(prev) - 1;
	memcpy(ret_prev, line + at, JOURNAL_HASH_HEX);
	ret_prev[JOURNAL_HASH_HEX] = '\0';
	if (!sbx_is_hex(ret_prev, JOURNAL_HASH_HEX))
		return (SBX_E_SYNTAX);
	/* a record holds one object, `fields', and nothing deeper */
	return (sbx_json_scan(line, len, JOURNAL_LINE_MAX, 2, NULL));
}
