#include "sbxd/front/methods.h"

#include "common/base/json.h"
#include "common/base/log.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/client.h"
#include "sbxd/front/http.h"
#include "sbxd/front/reply.h"
#include "sbxd/front/tasks.h"

#include <json-c/json.h>
#include <string.h>

static void
put_capabilities(struct sbx_buf *b, const struct rev *rev)
{
	reply_name(b, "capabilities");
	(void)sbx_buf_printf(b, "{\"tools\":{},"
	    "\"resources\":{\"subscribe\":true},\"prompts\":{},\"logging\":{}%s%s}",
	    rev->fields & REV_F_COMPLETIONS ? ",\"completions\":{}" : "",
	    rev->fields & REV_F_TASKS ? ",\"extensions\":{\""
	    TASKS_EXTENSION "\":{}}" : "");
}

static void
put_instructions(struct sbx_buf *b)
{
	reply_name(b, "instructions");
	(void)sbx_json_str(b, front_instructions, strlen(front_instructions),
	    NULL);
}

/*
 * Selects a legacy revision for the connection.  One that is not served, older
 * or newer, is answered with the newest that initialize can select.
 * Source: MCP revisions 2025-03-26 and 2025-11-25, basic/lifecycle.
 */
void
on_initialize(struct request *r)
{
	struct json_object *caps = NULL;
	const char *asked;
	struct sbx_buf *b;
	enum rev_id id;
	size_t len = 0;

	/* a session begins with the answer that carries its id */
	if (r->to->batched) {
		reply_error(r->to, r->rev, r->id, RPC_INVALID_REQUEST, NULL,
		    "Invalid request: initialize must not be in a batch");
		return;
	}
	asked = rpc_string(r, "protocolVersion", &len, NULL);
	if (asked == NULL) {
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: protocolVersion must be a string");
		return;
	}
	id = rev_find(asked, len);
	if (id == REV_NONE || revs[id].modern)
		id = REV_LATEST_LEGACY;
	r->to->client->rev = id;
	(void)json_object_object_get_ex(r->params, "capabilities", &caps);
	r->to->client->can = client_can(caps);
	r->to->client->log_level = SBX_MCP_INFO; /* until it sets one */
	if (http_session_begin(r->to) != 0) {
		reply_error(r->to, r->rev, r->id, RPC_INTERNAL_ERROR, NULL,
		    "Too many sessions; end one with DELETE");
		return;
	}
	b = reply_begin(r->to, &revs[id], r->id);
	reply_name(b, "protocolVersion");
	(void)sbx_buf_printf(b, "\"%s\"", revs[id].name);
	put_capabilities(b, &revs[id]);
	reply_name(b, "serverInfo");
	reply_server_info(b, revs[id].fields);
	put_instructions(b);
	reply_end(r->to);
}

/* Source: MCP revision 2026-07-28, server/discover. */
void
on_discover(struct request *r)
{
	struct sbx_buf *b = reply_begin(r->to, r->rev, r->id);

	reply_name(b, "supportedVersions");
	reply_versions(b);
	put_capabilities(b, r->rev);
	put_instructions(b);
	reply_cache(b, r->rev, REPLY_TTL_MS, "public");
	reply_end(r->to);
}

void
on_ping_request(struct request *r)
{
	(void)reply_begin(r->to, r->rev, r->id);
	reply_end(r->to);
}

/* Source: MCP revision 2025-11-25, server/utilities/logging. */
void
on_set_level(struct request *r)
{
	struct json_object *v = NULL;
	uint8_t level;

	(void)json_object_object_get_ex(r->params, "level", &v);
	level = level_find(v);
	if (level == SBX_MCP_NONE) {
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: level must be debug, info, notice, "
		    "warning, error, critical, alert or emergency");
		return;
	}
	r->to->client->log_level = level;
	on_ping_request(r);	/* an empty result as well */
}

/*
 * The work is killed and nothing is sent for the request any more.  One that
 * is not in flight has been answered, or the answer crossed this: ignored.
 */
void
on_cancelled(struct request *r)
{
	SBX_CLEANUP(free) char *id = NULL;
	struct json_object *v;
	struct call *call;

	if (r->params == NULL ||
	    !json_object_object_get_ex(r->params, "requestId", &v) ||
	    rpc_token(v, &id) != 0 ||
	    (call = calls_find_id(r->f, r->to->client, id)) == NULL)
		return;
	calls_cancel(r->f, call);
}
