#ifndef SBX_BASE_JSON_H
#define SBX_BASE_JSON_H

/*
 * JSON at the boundary, without a library: the scan that every foreign text
 * passes before json-c sees it, and a writer for what we emit.
 * Source: RFC 8259, RFC 7493 (I-JSON).
 */

#include "common/base/base.h"

enum sbx_json_fault {
	SBX_JSON_OK,
	SBX_JSON_SYNTAX,	/* not RFC 8259; also NaN, bad UTF-8, raw control
				 * characters, lone surrogate escapes, trailing text,
				 * \u0000 in a member name */
	SBX_JSON_DEPTH,		/* deeper than max_depth */
	SBX_JSON_DUPLICATE,	/* a member name twice in one object */
	SBX_JSON_NUMBER,	/* an integer outside int64, or a double overflow */
	SBX_JSON_SIZE,
	SBX_JSON_MAX
};
struct sbx_json_where {
	enum sbx_json_fault fault;
	size_t offset;		/* of the first byte that is wrong */
	char name[64];		/* the duplicate member, sbx_vis()-ed */
	bool well_formed;	/* refused or not, all of it is JSON: the fault is
				 * DEPTH, DUPLICATE or NUMBER, if there is one */
};
/* Scan exactly len bytes, one value with white space around it.  Linear but
 * for duplicate detection (hashed).  0 or SBX_E_SYNTAX with *ret_where set
 * (NULL ok).  No recursion. */
int sbx_json_scan(const char *text, size_t len, size_t max_bytes,
    unsigned max_depth, struct sbx_json_where *ret_where);
/* How many values a text that passed the scan has at most: a tree of them takes
 * some hundred bytes for each. */
size_t sbx_json_values(const char *text, size_t len);
const char *sbx_json_fault_text(enum sbx_json_fault fault); /* a sentence */

/* Append a quoted string: C0, DEL, C1, U+2028, U+2029, bidirectional and
 * zero-width controls, quote and backslash escaped; each byte that is not
 * valid UTF-8 becomes U+FFFD.  *ret_replaced (NULL ok) counts those bytes.
 * 0, SBX_E_LIMIT. */
int sbx_json_str(struct sbx_buf *b, const char *s, size_t len,
    size_t *ret_replaced);
/* Length of the valid UTF-8 sequence at s (1..4), 0 if invalid or cut. */
unsigned sbx_utf8_len(const char *s, size_t len);
/* Its code point, of a sequence of n bytes that is valid. */
uint32_t sbx_utf8_point(const char *s, unsigned n);
/* Does it show nothing, or steer what is around it?  Controls, too; blanks that
 * people write do not. */
bool sbx_is_invisible(uint32_t point);

#endif
