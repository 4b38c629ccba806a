#include "sbxd/front/rpc.h"

#include "common/base/json.h"
#include "sbxd/front/batch.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/client.h"
#include "sbxd/front/http.h"
#include "sbxd/front/inputs.h"
#include "sbxd/front/reply.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_LOG_LEVEL "io.modelcontextprotocol/logLevel"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define INTEGER_MAX INT64_C(9007199254740991)	/* 2^53 - 1, RFC 7493 2.2 */

int
rpc_token(struct json_object *value, char **ret_text)
{
	struct sbx_buf b;
	int64_t n;
	int len;

	if (json_object_is_type(value, json_type_int)) {
		n = json_object_get_int64(value);
		if (n > INTEGER_MAX || n < -INTEGER_MAX)
			return (SBX_E_RANGE);
		*ret_text = sbx_xasprintf("%" PRId64, n);
		return (0);
	}
	if (!json_object_is_type(value, json_type_string))
		return (SBX_E_RANGE);
	len = json_object_get_string_len(value);
	if (len < 0 || len > SBX_MAX_REQUEST_ID)
		return (SBX_E_RANGE);
	sbx_buf_init(&b, 6 * SBX_MAX_REQUEST_ID + 2); /* all escaped, quoted */
	if (sbx_json_str(&b, json_object_get_string(value), (size_t)len,
	    NULL) != 0) {
		sbx_buf_clear(&b);
		return (SBX_E_RANGE);
	}
	*ret_text = b.data;
	return (0);
}

const char *
rpc_string(const struct request *r, const char *name, size_t *ret_len,
    bool *ret_bad)
{
	struct json_object *v = NULL;
	bool present;

	present = r->params != NULL &&
	    json_object_object_get_ex(r->params, name, &v) && v != NULL;
	if (ret_bad != NULL)
		*ret_bad = present &&
		    !json_object_is_type(v, json_type_string);
	if (!present || !json_object_is_type(v, json_type_string))
		return (NULL);
	*ret_len = (size_t)json_object_get_string_len(v);
	return (json_object_get_string(v));
}

/*
 * Refuse r.  A notification is never answered (JSON-RPC 4.1), but over HTTP it
 * has a status, here one of an error in each revision, and a body of it (MCP
 * revision 2025-11-25, basic/transports, sending messages); in a batch neither.
 */
static void SBX_PRINTF(4, 5)
refuse(const struct request *r, int code, const char *data, const char *fmt,
    ...)
{
	char text[512];
	va_list ap;

	if (r->id == NULL && (r->to->http == NULL || r->to->batched))
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut is good enough */
	va_end(ap);
	if (r->id == NULL && code == RPC_INVALID_PARAMS)
		code = RPC_INVALID_REQUEST;	/* 200 to a legacy client */
	reply_error(r->to, r->rev, r->id, code, data, "%s", text);
}

/* --- which revision ------------------------------------------------------- */

static void
unsupported_version(const struct request *r, const char *asked, size_t len)
{
	SBX_CLEANUP_BUF struct sbx_buf data = { 0 };
	enum rev_id known = rev_find(asked, len);

	sbx_buf_init(&data, 4096);
	(void)sbx_buf_str(&data, "{\"supported\":"); /* far below the limit */
	reply_versions(&data);
	(void)sbx_buf_str(&data, ",\"requested\":");
	(void)sbx_json_str(&data, asked, len < 64 ? len : 64, NULL);
	(void)sbx_buf_str(&data, "}");
	refuse(r, RPC_UNSUPPORTED_VERSION, data.data, known == REV_NONE ?
	    "Unsupported protocol version" :
	    "Unsupported protocol version in _meta: %s is selected with "
	    "initialize", known == REV_NONE ? "" : revs[known].name);
}

/* r->rev, of what _meta names.  false: refused. */
static bool
version_of(struct request *r, struct json_object *version)
{
	const char *name;
	enum rev_id id;
	size_t len;

	r->rev = &revs[revs_newest_first[0]];
	if (!json_object_is_type(version, json_type_string)) {
		refuse(r, RPC_INVALID_PARAMS, NULL,
		    "_meta: %s must be a string", META_VERSION);
		return (false);
	}
	name = json_object_get_string(version);
	len = (size_t)json_object_get_string_len(version);
	id = rev_find(name, len);
	if (id != REV_NONE && revs[id].modern) {
		r->rev = &revs[id];
		return (true);
	}
	/* what others on the way went by is said before what is here */
	if (r->to->http != NULL && http_version_differs(r->to->http, name))
		refuse(r, RPC_HEADER_MISMATCH, NULL, "Header mismatch: "
		    "MCP-Protocol-Version differs from _meta");
	else
		unsupported_version(r, name, len);
	return (false);
}

/*
 * A request that names its version in _meta is served by that alone, whatever
 * the connection is; any other by what initialize selected for it.
 * false: refused.
 */
static bool
choose_revision(struct request *r)
{
	struct json_object *version, *caps = NULL, *level;

	r->rev = &revs[r->to->client->rev];
	r->can = r->to->client->can & r->rev->can;
	r->log_level = r->to->client->log_level;
	if (r->meta == NULL ||
	    !json_object_object_get_ex(r->meta, META_VERSION, &version))
		return (true);
	if (!version_of(r, version))
		return (false);
	r->can = 0;
	r->log_level = SBX_MCP_NONE;
	if (r->id == NULL)
		return (true);	/* nothing answers it: the rest is of that */
	(void)json_object_object_get_ex(r->meta, META_CAPABILITIES, &caps);
	if (r->to->batched)
		refuse(r, RPC_INVALID_REQUEST, NULL,
		    "Invalid request: %s has no batches", r->rev->name);
	else if (!json_object_is_type(caps, json_type_object))
		refuse(r, RPC_INVALID_PARAMS, NULL,
		    "_meta: %s must be given, an object", META_CAPABILITIES);
	else if (json_object_object_get_ex(r->meta, META_LOG_LEVEL, &level) &&
	    (r->log_level = level_find(level)) == SBX_MCP_NONE)
		refuse(r, RPC_INVALID_PARAMS, NULL,
		    "_meta: %s must be debug, info, notice, warning, error, "
		    "critical, alert or emergency", META_LOG_LEVEL);
	else {
		r->can = client_can(caps) & r->rev->can;
		return (true);
	}
	return (false);
}

/* By the method's row in the revision that was chosen. */
static void
dispatch(struct request *r, const char *name, size_t len)
{
	enum method_id m = method_find(name, len);
	char shown[64];

	r->method = m;
	if (r->id == NULL) {
		/* JSON-RPC 4.1: a notification is never answered */
		if (rev_has(r->rev, m) && methods[m].notification &&
		    methods[m].fn != NULL)
			methods[m].fn(r);
		return;
	}
	if (calls_find_id(r->f, r->to->client, r->id) != NULL)
		reply_error(r->to, r->rev, r->id, RPC_INVALID_REQUEST, NULL,
		    "Invalid request: a request with this id is in flight");
	else if (rev_has(r->rev, m) && (r->can & methods[m].needs) !=
	    methods[m].needs)
		reply_error(r->to, r->rev, r->id, RPC_MISSING_CAPABILITY,
		    methods[m].missing, "Missing required client capability");
	else if (rev_has(r->rev, m) && !methods[m].notification)
		methods[m].fn(r);
	else if (m < METHOD_MAX && !methods[m].notification &&
	    r->rev == &revs[REV_NONE])
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "params._meta lacks %s (and the connection is not "
		    "initialized)", META_VERSION);
	else
		reply_error(r->to, r->rev, r->id, RPC_METHOD_NOT_FOUND, NULL,
		    "Method not found: %s",
		    sbx_vis(shown, sizeof(shown), name, len));
}

/* --- the envelope --------------------------------------------------------- */

/*
 * Fill r from the envelope; *ret_id is owned by the caller.
 * NULL when all is well, else what is wrong with it.
 */
static const char *
read_envelope(struct request *r, struct json_object *msg, char **ret_id)
{
	struct json_object *v;

	if (json_object_object_get_ex(msg, "id", &v)) {
		if (rpc_token(v, ret_id) != 0)
			return ("id must be a string of at most 256 bytes, or "
			    "an integer within 2^53 - 1");
		r->id = *ret_id;
	}
	if (!json_object_object_get_ex(msg, "jsonrpc", &v) ||
	    !json_object_is_type(v, json_type_string) ||
	    strcmp(json_object_get_string(v), "2.0") != 0)
		return ("jsonrpc must be \"2.0\"");
	if (!json_object_object_get_ex(msg, "method", &v) ||
	    !json_object_is_type(v, json_type_string))
		return ("method must be a string");
	return (NULL);
}

/* To a request of ours (inputs_legacy.c). */
static bool
is_answer(struct json_object *msg)
{
	return (!json_object_object_get_ex(msg, "method", NULL) &&
	    (json_object_object_get_ex(msg, "result", NULL) ||
	    json_object_object_get_ex(msg, "error", NULL)));
}

/* HTTP's headers must repeat what the body says, where the revision has them;
 * some decide by them on the way.  true: refused. */
static bool
headers_refused(struct request *r, struct json_object *method)
{
	const char *name = json_object_get_string(method), *why;
	size_t len = (size_t)json_object_get_string_len(method);
	enum method_id m = method_find(name, len);
	const char *named = NULL;

	if (r->to->http == NULL || (r->rev->fields & REV_F_HEADERS) == 0)
		return (false);
	if (m < METHOD_MAX && methods[m].named != NULL)
		named = rpc_string(r, methods[m].named, &len, NULL);
	why = http_mismatch(r->to->http, r->rev->name, name, named);
	if (why == NULL)
		return (false);
	refuse(r, RPC_HEADER_MISMATCH, NULL, "Header mismatch: %s", why);
	return (true);
}

/* From the parsed envelope to its method; params and _meta are objects or
 * absent behind this. */
static void
handle(struct request *r, struct json_object *msg)
{
	SBX_CLEANUP(free) char *id = NULL;
	struct json_object *method = NULL;
	const char *wrong;

	if (is_answer(msg)) {
		legacy_answer(r->to, msg);
		return;
	}
	wrong = read_envelope(r, msg, &id);
	if (wrong != NULL) {
		reply_error(r->to, r->rev, r->id, RPC_INVALID_REQUEST, NULL,
		    "Invalid request: %s", wrong);
		return;
	}
	/* some clients write null for what they leave out */
	if (json_object_object_get_ex(msg, "params", &r->params) &&
	    r->params != NULL &&
	    !json_object_is_type(r->params, json_type_object)) {
		refuse(r, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: params must be an object");
		return;
	}
	if (r->params != NULL &&
	    json_object_object_get_ex(r->params, "_meta", &r->meta) &&
	    !json_object_is_type(r->meta, json_type_object)) {
		refuse(r, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: _meta must be an object");
		return;
	}
	(void)json_object_object_get_ex(msg, "method", &method);
	if (!choose_revision(r) || headers_refused(r, method))
		return;
	dispatch(r, json_object_get_string(method),
	    (size_t)json_object_get_string_len(method));
}

/*
 * The message with null in place of params.arguments: those are not ours to
 * read, may be megabytes, and a tree of them would be many times that.
 */
static int
cut_arguments(const char *text, size_t len, struct span *ret_arguments,
    struct sbx_buf *b)
{
	struct span params;
	size_t tail;

	if (!member_find(text, len, "params", &params) ||
	    !member_find(params.p, params.len, "arguments", ret_arguments)) {
		ret_arguments->p = NULL;
		return (sbx_buf_add(b, text, len));
	}
	tail = (size_t)(ret_arguments->p - text) + ret_arguments->len;
	(void)sbx_buf_add(b, text, (size_t)(ret_arguments->p - text));
	(void)sbx_buf_add(b, "null", 4); /* the last one tells */
	(void)sbx_buf_add(b, text + tail, len - tail);
	return (b->overflow ? SBX_E_LIMIT : 0);
}

/*
 * The id of a request that is not served, as rpc_token() has it, or NULL where
 * that is in doubt: JSON-RPC 2.0, 5, has null then.  text: well formed.  What has
 * no method may be an answer, whose id is one of ours.
 */
static char *
refused_id(struct sink *to, const char *text, size_t len)
{
	SBX_CLEANUP_BUF struct sbx_buf list = { 0 };
	struct json_object *ids;
	struct span id, method;
	char *token = NULL;

	sbx_buf_init(&list, 6 * SBX_MAX_REQUEST_ID + 4); /* all escaped */
	if (!member_find_only(text, len, "method", &method) ||
	    !member_find_only(text, len, "id", &id) ||
	    sbx_buf_str(&list, "[") != 0 ||
	    sbx_buf_add(&list, id.p, id.len) != 0 ||
	    sbx_buf_str(&list, "]") != 0)
		return (NULL);
	json_tokener_reset(to->f->tokener);
	ids = json_tokener_parse_ex(to->f->tokener, list.data, (int)list.len);
	if (json_object_is_type(ids, json_type_array) &&
	    json_object_array_length(ids) == 1)
		(void)rpc_token(json_object_array_get_idx(ids, 0), &token);
	json_object_put(ids);
	return (token);
}

/* text: a clean object. */
void
rpc_object(struct sink *to, const char *text, size_t len)
{
	struct request r = { .f = to->f, .to = to, .rev = &revs[to->client->rev] };
	SBX_CLEANUP_BUF struct sbx_buf envelope = { 0 };
	SBX_CLEANUP(free) char *id = NULL;
	struct json_object *msg;

	sbx_buf_init(&envelope, SBX_MAX_ENVELOPE);
	if (cut_arguments(text, len, &r.arguments, &envelope) != 0) {
		id = refused_id(to, text, len);
		reply_error(to, r.rev, id, RPC_INVALID_REQUEST, NULL,
		    "Invalid request: more than %u bytes beside the arguments",
		    SBX_MAX_ENVELOPE);
		return;
	}
	json_tokener_reset(to->f->tokener);
	msg = json_tokener_parse_ex(to->f->tokener, envelope.data,
	    (int)envelope.len);
	/* what the scan let through must parse; if not, trust neither */
	if (json_tokener_get_error(to->f->tokener) != json_tokener_success ||
	    !json_object_is_type(msg, json_type_object))
		reply_error(to, r.rev, NULL, RPC_PARSE_ERROR, NULL,
		    "Parse error");
	else
		handle(&r, msg);
	json_object_put(msg);
}

static void
refuse_text(struct sink *to, const char *text, size_t len,
    const struct sbx_json_where *where)
{
	const struct rev *rev = &revs[to->client->rev];
	SBX_CLEANUP(free) char *id = NULL;

	if (!where->well_formed) {
		reply_error(to, rev, NULL, RPC_PARSE_ERROR, NULL,
		    "Parse error: %s (byte %zu)",
		    sbx_json_fault_text(where->fault), where->offset);
		return;
	}
	id = refused_id(to, text, len);
	if (where->fault == SBX_JSON_DUPLICATE)
		reply_error(to, rev, id, RPC_INVALID_REQUEST, NULL,
		    "Invalid request: %s: \"%s\"",
		    sbx_json_fault_text(where->fault), where->name);
	else
		reply_error(to, rev, id, RPC_INVALID_REQUEST, NULL,
		    "Invalid request: %s (byte %zu)",
		    sbx_json_fault_text(where->fault), where->offset);
}

void
rpc_checked(struct sink *to, const char *text, size_t len)
{
	struct sbx_json_where where;

	if (sbx_json_scan(text, len, SBX_MAX_JSON, SBX_MAX_JSON_DEPTH,
	    &where) == 0)
		rpc_object(to, text, len);
	else
		refuse_text(to, text, len, &where);
}

void
rpc_line(struct sink *to, const char *text, size_t len)
{
	const struct rev *rev = &revs[to->client->rev];
	struct sbx_json_where where;
	bool clean, batch;
	size_t i = 0;

	while (len > 0 && strchr(" \t\r", text[len - 1]) != NULL &&
	    text[len - 1] != '\0')
		len--;
	while (i < len && (text[i] == ' ' || text[i] == '\t'))
		i++;
	if (i == len)
		return;		/* an empty line is no message */
	clean = sbx_json_scan(text, len, SBX_MAX_JSON, SBX_MAX_JSON_DEPTH,
	    &where) == 0;
	batch = text[i] == '[' && (rev->fields & REV_F_BATCH) != 0;
	if (batch && where.well_formed)
		batch_run(to, text + i, len - i, clean);
	else if (!clean)
		refuse_text(to, text, len, &where);
	else if (text[i] == '[')
		reply_error(to, rev, NULL, RPC_INVALID_REQUEST, NULL,
		    "Invalid request: this revision has no batches");
	else if (text[i] != '{')
		reply_error(to, rev, NULL, RPC_INVALID_REQUEST, NULL,
		    "Invalid request: not an object");
	else
		rpc_object(to, text, len);
}
