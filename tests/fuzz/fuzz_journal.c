/*
 * One line of a journal that somebody else may have written: parsed, matched
 * and rendered; the rendering is one line that steers no terminal.
 */

#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "sbx-journald/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* C0, DEL, C1, separators and bidirectional controls as UTF-8. */
static bool
steers(const char *s, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f ||
		    sbx_utf8_len(s + i, len - i) == 0)
			return true;
		if (len - i >= 2 && s[i] == '\xc2' &&
		    (unsigned char)s[i + 1] < 0xa0)
			return true;
		if (len - i >= 3 && memcmp(s + i, "\xe2\x80", 2) == 0 &&
		    (unsigned char)s[i + 2] >= 0xa8 &&
		    (unsigned char)s[i + 2] <= 0xae)
			return true;
		i += sbx_utf8_len(s + i, len - i) - 1;
	}
	return false;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct journal_filter f = {
		.container = "0", .run = "0", .op = "exec", .since = "2026",
	};
	struct journal_record rec;
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };

	sbx_buf_init(&b, 16 * size + 256);
	if (journal_parse((const char *)data, size, &rec) != 0)
		return 0;
	(void)journal_matches(&f, &rec);
	(void)journal_field(&rec, "sha256");
	if (journal_render(&rec, &b) != 0 || steers(b.data, b.len))
		abort();
	journal_record_clear(&rec);
	return 0;
}
