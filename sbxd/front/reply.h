#ifndef SBX_FRONT_REPLY_H
#define SBX_FRONT_REPLY_H

/*
 * Writing what goes to a client, straight into its output buffer.  A result
 * is begun, members are added, and it is ended and sent; nothing in between
 * may fail, so everything is checked before it is begun.
 */

#include "sbxd/front/rpc.h"
#include "sbxd/front/sink.h"

/* Begin a result with what the revision wants in each; returns to->out. */
struct sbx_buf *reply_begin(struct sink *to, const struct rev *rev,
    const char *id);
/* The same with another resultType, in revisions that have it. */
struct sbx_buf *reply_begin_as(struct sink *to, const struct rev *rev,
    const char *id, const char *type);
/* A member's name, with a comma where one is due. */
void reply_name(struct sbx_buf *b, const char *name);
#define REPLY_TTL_MS 3600000u /* of what changes with the program only */
/* ttlMs and cacheScope, where the revision has them. */
void reply_cache(struct sbx_buf *b, const struct rev *rev, unsigned ttl_ms,
    const char *scope);
/* serverInfo's value.  fields: of the revision; 0: the least that is needed. */
void reply_server_info(struct sbx_buf *b, uint32_t fields);
/* The list of all versions, the newest first. */
void reply_versions(struct sbx_buf *b);
void reply_end(struct sink *to);

/* One without an id, into b: for what is no message yet. */
void reply_error_text(struct sbx_buf *b, int code, const char *text);

/*
 * A JSON-RPC error.  id: JSON text, or NULL when it could not be read (or the
 * error answers no request).  data: JSON text or NULL.
 */
void reply_error(struct sink *to, const struct rev *rev, const char *id,
    int code, const char *data, const char *fmt, ...) SBX_PRINTF(6, 7);

/*
 * A whole tools/call result.  json: the structured content, clean JSON of one
 * object without newlines.
 */
void reply_tool(struct sink *to, const struct rev *rev, const char *id,
    const char *json, size_t len, bool is_error);
/* The suite's error object as such a result.  next: "" or a sentence. */
void reply_tool_error(struct sink *to, const struct rev *rev, const char *id,
    const char *status, const char *code, const char *next, const char *text);

#endif
