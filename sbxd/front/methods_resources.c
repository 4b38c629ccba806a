#include "sbxd/front/methods.h"

#include "common/base/json.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/reply.h"

#include <json-c/json.h>
#include <string.h>

/*
 * The outputs of runs as resources.  Reading and listing is a worker's work,
 * under the names of two tools that tools/list does not have.
 */

#define TEMPLATES_TTL_MS 3600000u
#define TEXT_MAX 1024	/* of a URI or cursor */

static const char templates[] =
    "[{\"uriTemplate\":\"sbx://run/{run_id}/{stream}\","
    "\"name\":\"run-output\",\"title\":\"Output of a run\","
    "\"description\":\"What a run wrote; stream is stdout or stderr. A long "
    "one is paged: its last line says how to go on.\","
    "\"mimeType\":\"text/plain\"}]";

/* Hand {"key": text} (or {}) to a worker. */
static void
ask(struct request *r, enum call_kind kind, const char *tool, const char *key,
    const char *text, size_t len)
{
	SBX_CLEANUP_BUF struct sbx_buf b;

	sbx_buf_init(&b, 6 * TEXT_MAX + 64);	/* all escaped */
	(void)sbx_buf_str(&b, "{");
	if (text != NULL) {
		reply_name(&b, key);
		(void)sbx_json_str(&b, text, len, NULL);
	}
	(void)sbx_buf_str(&b, "}");
	(void)calls_start(r, kind, tool, "", (struct span){ b.data, b.len });
}

void
on_resources_list(struct request *r)
{
	const char *cursor;
	size_t len = 0;
	bool bad;

	cursor = rpc_string(r, "cursor", &len, &bad);
	if (bad || len > TEXT_MAX)
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid cursor");
	else
		ask(r, CALL_LIST, "resources/list", "cursor", cursor, len);
}

void
on_resources_read(struct request *r)
{
	const char *uri;
	size_t len = 0;

	uri = rpc_string(r, "uri", &len, NULL);
	if (uri == NULL || len > TEXT_MAX)
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: uri must be a string of at most %d bytes",
		    TEXT_MAX);
	else
		ask(r, CALL_READ, "resources/read", "uri", uri, len);
}

void
on_resources_templates(struct request *r)
{
	struct sbx_buf *b;

	if (r->params != NULL &&
	    json_object_object_get_ex(r->params, "cursor", NULL)) {
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid cursor");
		return;
	}
	b = reply_begin(r->to, r->rev, r->id);
	reply_name(b, "resourceTemplates");
	(void)sbx_buf_str(b, templates);
	reply_cache(b, r->rev, TEMPLATES_TTL_MS, "public");
	reply_end(r->to);
}
