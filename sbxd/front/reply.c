#include "common/base/json.h"
#include "config.h"
#include "sbxd/front/reply.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The appends below cannot be checked one by one: the buffer remembers that
 * one did not fit, and the sink ends its client then. */

static void
put(struct sbx_buf *b, const char *s)
{
	(void)sbx_buf_str(b, s);
}

static void
put_string(struct sbx_buf *b, const char *s)
{
	(void)sbx_json_str(b, s, strlen(s), NULL);
}

void
reply_name(struct sbx_buf *b, const char *name)
{
	if (b->len > 0 && b->data[b->len - 1] != '{')
		put(b, ",");
	(void)sbx_buf_printf(b, "\"%s\":", name);
}

/* A box, drawn: viewBox 16 by 16. */
#define ICON \
    "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdC" \
    "b3g9IjAgMCAxNiAxNiI+PHBhdGggZD0iTTIgNWw2LTMgNiAzdjZsLTYgMy02" \
    "LTN6IiBmaWxsPSIjYzkzIi8+PHBhdGggZD0iTTIgNWw2IDMgNi0zTTggOHY2" \
    "IiBmaWxsPSJub25lIiBzdHJva2U9IiNmZmYiLz48L3N2Zz4="

void
reply_server_info(struct sbx_buf *b, uint32_t fields)
{
	put(b, "{\"name\":\"sbx\",\"version\":\"" PACKAGE_VERSION "\"");
	if (fields & REV_F_STRUCTURED)
		put(b, ",\"title\":\"sbx sandboxes\"");
	if (fields & REV_F_ABOUT)
		put(b, ",\"description\":\"Disposable Linux sandboxes, "
		    "without a network unless asked for\",\"icons\":[{\"src\":"
		    "\"data:image/svg+xml;base64," ICON "\",\"mimeType\":"
		    "\"image/svg+xml\",\"sizes\":[\"any\"]}]");
	put(b, "}");
}

void
reply_versions(struct sbx_buf *b)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(revs_newest_first); i++)
		(void)sbx_buf_printf(b, "%s\"%s\"", i == 0 ? "[" : ",",
		    revs[revs_newest_first[i]].name);
	put(b, "]");
}

struct sbx_buf *
reply_begin(struct sink *to, const struct rev *rev, const char *id)
{
	return (reply_begin_as(to, rev, id, "complete"));
}

struct sbx_buf *
reply_begin_as(struct sink *to, const struct rev *rev, const char *id,
    const char *type)
{
	struct sbx_buf *b = &to->out;

	to->error = 0;
	put(b, "{\"jsonrpc\":\"2.0\",\"id\":");
	put(b, id);
	put(b, ",\"result\":{");
	if (rev->fields & REV_F_RESULT_TYPE) {
		reply_name(b, "resultType");
		put_string(b, type);
	}
	if (rev->fields & REV_F_SERVER_META) {
		reply_name(b, "_meta");
		put(b, "{\"io.modelcontextprotocol/serverInfo\":");
		reply_server_info(b, 0);
		put(b, "}");
	}
	return (b);
}

void
reply_cache(struct sbx_buf *b, const struct rev *rev, unsigned ttl_ms,
    const char *scope)
{
	if ((rev->fields & REV_F_CACHE) == 0)
		return;
	reply_name(b, "ttlMs");
	(void)sbx_buf_printf(b, "%u", ttl_ms);
	reply_name(b, "cacheScope");
	put_string(b, scope);
}

void
reply_end(struct sink *to)
{
	put(&to->out, "}}");
	to->send(to, true);
}

void
reply_error_text(struct sbx_buf *b, int code, const char *text)
{
	(void)sbx_buf_printf(b, "{\"jsonrpc\":\"2.0\",\"error\":"
	    "{\"code\":%d,\"message\":", code);
	put_string(b, text);
	put(b, "}}");
}

void
reply_error(struct sink *to, const struct rev *rev, const char *id, int code,
    const char *data, const char *fmt, ...)
{
	struct sbx_buf *b = &to->out;
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut is good enough */
	va_end(ap);
	to->error = code;
	put(b, "{\"jsonrpc\":\"2.0\"");
	if (id != NULL || (rev->fields & REV_F_NULL_ID)) {
		reply_name(b, "id");
		put(b, id != NULL ? id : "null");
	}
	reply_name(b, "error");
	(void)sbx_buf_printf(b, "{\"code\":%d,\"message\":", code);
	put_string(b, text);
	if (data != NULL) {
		reply_name(b, "data");
		put(b, data);
	}
	put(b, "}}");
	to->send(to, true);
}

/* The text is the same JSON, for clients that show or pass on text only.
 * Source: MCP revision 2025-06-18, server/tools, structured content. */
void
reply_tool(struct sink *to, const struct rev *rev, const char *id,
    const char *json, size_t len, bool is_error)
{
	struct sbx_buf *b = reply_begin(to, rev, id);

	reply_name(b, "content");
	put(b, "[{\"type\":\"text\",\"text\":");
	(void)sbx_json_str(b, json, len, NULL);
	put(b, "}]");
	if (rev->fields & REV_F_STRUCTURED) {
		reply_name(b, "structuredContent");
		(void)sbx_buf_add(b, json, len);
	}
	reply_name(b, "isError");
	put(b, is_error ? "true" : "false");
	reply_end(to);
}

void
reply_tool_error(struct sink *to, const struct rev *rev, const char *id,
    const char *status, const char *code, const char *next, const char *text)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

	sbx_buf_init(&b, 16384);	/* its parts are below 1 KiB, escaped */
	put(&b, "{");
	reply_name(&b, "status");
	put_string(&b, status);
	reply_name(&b, "error");
	put_string(&b, text);
	reply_name(&b, "code");
	put_string(&b, code);
	if (*next != '\0') {
		reply_name(&b, "recommended_next_action");
		put_string(&b, next);
	}
	put(&b, "}");
	reply_tool(to, rev, id, b.data, b.len, true);
}
