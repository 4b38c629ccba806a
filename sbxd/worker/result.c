/*
 * JSON as it comes, without a tree: results are up to megabytes of output, and
 * most calls have small ones that should cost little.
 */

#include "sbxd/worker/result.h"

#include "common/base/json.h"
#include "common/base/limits.h"
#include "common/base/mask.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 8	/* of our own objects; the deepest has 4 */

void
result_init(struct result *r)
{
	memset(r, 0, sizeof(*r));
	sbx_buf_init(&r->text, SBX_MAX_RESULT);
	(void)sbx_buf_str(&r->text, "{"); /* the flag in the buffer tells */
	r->depth = 1;
}

void
result_clear(struct result *r)
{
	sbx_buf_clear(&r->text);
}

void
result_reset(struct result *r)
{
	result_clear(r);
	result_init(r);
}

/* A comma where one is due, and the name. */
static void
member(struct result *r, const char *key)
{
	if (r->comma)
		(void)sbx_buf_add(&r->text, ",", 1);
	r->comma = true;
	if (key == NULL)
		return;
	(void)sbx_buf_add(&r->text, "\"", 1);
	(void)sbx_buf_str(&r->text, key);
	(void)sbx_buf_add(&r->text, "\":", 2);
}

void
result_strn(struct result *r, const char *key, const char *s, size_t len)
{
	size_t replaced = 0;

	member(r, key);
	(void)sbx_json_str(&r->text, s, len, &replaced);
	r->replaced += replaced;
}

void
result_str(struct result *r, const char *key, const char *s)
{
	result_strn(r, key, s, strlen(s));
}

void
result_masked(struct result *r, const char *key, const char *s, size_t len)
{
	char text[512];

	if (len > sizeof(text))
		len = sizeof(text);
	memcpy(text, s, len);
	(void)sbx_mask(text, &len);
	result_strn(r, key, text, len);
}

void
result_str_or_null(struct result *r, const char *key, const char *s)
{
	if (*s == '\0')
		result_null(r, key);
	else
		result_str(r, key, s);
}

void
result_printf(struct result *r, const char *key, const char *fmt, ...)
{
	char text[8192];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		n = 0;
	if ((size_t)n >= sizeof(text))
		n = sizeof(text) - 1;
	result_strn(r, key, text, (size_t)n);
}

void
result_u64(struct result *r, const char *key, uint64_t v)
{
	member(r, key);
	/* JSON readers have doubles or int64; nothing of ours comes near. */
	if (v > INT64_MAX)
		v = INT64_MAX;
	(void)sbx_buf_printf(&r->text, "%" PRIu64, v);
}

void
result_i64(struct result *r, const char *key, int64_t v)
{
	member(r, key);
	(void)sbx_buf_printf(&r->text, "%" PRId64, v);
}

void
result_bool(struct result *r, const char *key, bool v)
{
	member(r, key);
	(void)sbx_buf_str(&r->text, v ? "true" : "false");
}

void
result_null(struct result *r, const char *key)
{
	member(r, key);
	(void)sbx_buf_str(&r->text, "null");
}

void
result_seconds(struct result *r, const char *key, uint64_t ms)
{
	member(r, key);
	(void)sbx_buf_printf(&r->text, "%" PRIu64 ".%03u", ms / 1000,
	    (unsigned)(ms % 1000));
}

void
result_time(struct result *r, const char *key, uint64_t wall_ns)
{
	char text[SBX_WALL_SIZE];

	sbx_wall_text(wall_ns, text);
	result_str(r, key, text);
}

void
result_open(struct result *r, const char *key, char bracket)
{
	if (r->depth >= MAX_DEPTH)
		abort(); /* our own nesting */
	member(r, key);
	(void)sbx_buf_add(&r->text, &bracket, 1);
	r->depth++;
	r->comma = false;
}

void
result_close(struct result *r, char bracket)
{
	(void)sbx_buf_add(&r->text, &bracket, 1);
	r->depth--;
	r->comma = true;
}

void
result_verror(struct result *r, const char *code, const char *next,
    const char *fmt, va_list ap)
{
	char text[8192];
	size_t len;

	/* The text is cut, never the reason dropped. */
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		text[0] = '\0';
	len = strlen(text);
	(void)sbx_mask(text, &len);
	result_reset(r);
	r->kind = SBX_RESULT_ERROR;
	result_str(r, "status", "error");
	result_strn(r, "error", text, len);
	result_str(r, "code", code);
	if (next != NULL && *next != '\0')
		result_str(r, "recommended_next_action", next);
	/* What foreign bytes an error quotes is no member of its shape. */
	r->replaced = 0;
}

void
result_error(struct result *r, const char *code, const char *next,
    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	result_verror(r, code, next, fmt, ap);
	va_end(ap);
}

void
result_finish(struct result *r, bool with_replaced)
{
	if (with_replaced && r->replaced > 0)
		result_u64(r, "replaced_bytes", r->replaced);
	result_close(r, '}');
	if (!r->text.overflow)
		return;
	result_error(r, "result_too_large",
	    "Ask for less at once: a smaller limit or max_lines.",
	    "The result is larger than %u bytes.", SBX_MAX_RESULT);
	result_close(r, '}');
}
