#ifndef SBX_WORKER_RESULT_H
#define SBX_WORKER_RESULT_H

/*
 * A tool's result, written as JSON text as it comes: one object, UTF-8 clean
 * whatever bytes go in (each bad one becomes U+FFFD and is counted).
 *
 * Writers never fail one by one: a text that outgrows SBX_MAX_RESULT sets a
 * flag, and result_finish() says so.  key: our own constant, NULL inside an
 * array.
 */

#include "common/base/base.h"
#include "common/proto/proto.h"

#include <stdarg.h>

struct result {
	struct sbx_buf text;
	size_t replaced;	/* bytes that were not UTF-8 */
	unsigned depth;
	bool comma;		/* the next member needs one */
	enum sbx_result_kind kind;
};

/* An empty object, open.  Owned by the caller: result_clear(). */
void result_init(struct result *r);
void result_clear(struct result *r);
/* Forget what was written: back to the open empty object. */
void result_reset(struct result *r);

void result_str(struct result *r, const char *key, const char *s);
/* len bytes, NUL and bad UTF-8 included */
void result_strn(struct result *r, const char *key, const char *s,
    size_t len);
/* At most 512 bytes of it, secrets masked. */
void result_masked(struct result *r, const char *key, const char *s,
    size_t len);
/* null when s is "" */
void result_str_or_null(struct result *r, const char *key, const char *s);
void result_printf(struct result *r, const char *key, const char *fmt, ...)
    SBX_PRINTF(3, 4);
void result_u64(struct result *r, const char *key, uint64_t v);
void result_i64(struct result *r, const char *key, int64_t v);
void result_bool(struct result *r, const char *key, bool v);
void result_null(struct result *r, const char *key);
/* milliseconds as seconds with three digits */
void result_seconds(struct result *r, const char *key, uint64_t ms);
/* RFC 3339, UTC, milliseconds */
void result_time(struct result *r, const char *key, uint64_t wall_ns);
void result_open(struct result *r, const char *key, char bracket);
void result_close(struct result *r, char bracket);

/*
 * Throw away what was written and make this the error object, with secrets
 * masked.  next: what to do about it, NULL or "" for nothing.  More members
 * may follow.
 */
void result_error(struct result *r, const char *code, const char *next,
    const char *fmt, ...) SBX_PRINTF(4, 5);
void result_verror(struct result *r, const char *code, const char *next,
    const char *fmt, va_list ap) SBX_PRINTF(4, 0);

/*
 * Close the object.  Too large a result is replaced by an error object.
 * r->text is the text then; `replaced_bytes` was added when any were and the
 * tool has it in its schema (with_replaced).
 */
void result_finish(struct result *r, bool with_replaced);

#endif
