#ifndef SBX_FRONT_RPC_H
#define SBX_FRONT_RPC_H

/*
 * JSON-RPC 2.0: from a line to a request of one revision.
 * Source: JSON-RPC 2.0 sections 4 and 5; MCP revision 2026-07-28, basic.
 */

#include "sbxd/front/front.h"
#include "sbxd/front/member.h"
#include "sbxd/front/sink.h"

struct json_object;

enum {
	RPC_PARSE_ERROR = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_METHOD_NOT_FOUND = -32601,
	RPC_INVALID_PARAMS = -32602,
	RPC_INTERNAL_ERROR = -32603,
	/* since 2026-07-28: */
	RPC_HEADER_MISMATCH = -32020,
	RPC_MISSING_CAPABILITY = -32021,
	RPC_UNSUPPORTED_VERSION = -32022,
};

/* All borrowed, valid until the method's function returns. */
struct request {
	struct front *f;
	struct sink *to;		/* for its answer */
	const struct rev *rev;
	enum method_id method;
	uint32_t can;			/* enum sbx_client_can of the client */
	uint8_t log_level;		/* enum sbx_mcp_level; 0: no messages */
	const char *id;			/* as JSON text; NULL: notification */
	struct json_object *params;	/* NULL: none */
	struct json_object *meta;	/* params._meta, NULL: none */
	/* params.arguments exactly as it came; p NULL: params has it, or not */
	struct span arguments;
};

/*
 * One message of a client, without its newline; white space only is none.
 * Answers what must be answered.  text is borrowed and not kept.
 */
void rpc_object(struct sink *to, const char *text, size_t len); /* clean */
/* An object that is well formed, and perhaps refused; with its id, if that can be
 * told. */
void rpc_checked(struct sink *to, const char *text, size_t len);
void rpc_line(struct sink *to, const char *text, size_t len);

/*
 * An id or progress token as JSON text: a string of at most
 * SBX_MAX_REQUEST_ID bytes, or an integer that a double holds exactly.
 * *ret_text: allocated, owned by the caller.  0, SBX_E_RANGE.
 */
int rpc_token(struct json_object *value, char **ret_text);

/* The named member of params if it is a string, else NULL (and then *ret_bad,
 * where it is not NULL, says whether there is one of another type). */
const char *rpc_string(const struct request *r, const char *name,
    size_t *ret_len, bool *ret_bad);

#endif
