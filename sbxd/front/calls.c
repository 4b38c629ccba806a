#include "sbxd/front/calls.h"

#include "common/base/json.h"
#include "common/base/log.h"
#include "sbxd/front/client.h"
#include "sbxd/front/forward.h"
#include "sbxd/front/reply.h"
#include "sbxd/front/subs.h"
#include "sbxd/front/tasks.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#define PROGRESS_NS UINT64_C(250000000)	/* at most four a second */

/* --- the table ------------------------------------------------------------ */

struct call *
calls_find(const struct front *f, uint32_t number)
{
	size_t i;

	for (i = 0; i < SBX_FRONT_CALLS; i++)
		if (f->calls[i] != NULL && f->calls[i]->number == number)
			return (f->calls[i]);
	return (NULL);
}

struct call *
calls_find_id(const struct front *f, const struct client *who, const char *id)
{
	struct call *const *calls = f->calls;
	size_t i;

	for (i = 0; who->ncalls > 0 && i < SBX_FRONT_CALLS; i++)
		if (calls[i] != NULL && calls[i]->to->client == who &&
		    strcmp(calls[i]->id, id) == 0)
			return (calls[i]);
	return (NULL);
}

void
calls_free(struct front *f, struct call *call)
{
	size_t i;

	if (call->method == METHOD_LISTEN)
		subs_drop(f, NULL, call);
	for (i = 0; i < SBX_FRONT_CALLS; i++)
		if (f->calls[i] == call)
			f->calls[i] = NULL;
	f->ncalls--;
	f->nlistens -= call->kind == CALL_LISTEN;
	call->to->client->ncalls--;
	sink_release(call->to);		/* may be its end */
	if (call->task != NULL)
		task_call_gone(call->task);
	free(call->id);
	free(call->token);
	round_clear(&call->round);
	sbx_close(&call->args);
	free(call);
}

void
calls_cancel(struct front *f, struct call *call)
{
	if (call->round.since_ns != 0)
		legacy_withdraw(call, "the request was cancelled");
	else if (call->kind != CALL_LISTEN &&
	    monitor_cancel(f, call->number) != 0)
		log_warn("a cancel could not be handed to the monitor");
	calls_free(f, call);
}

void
calls_cancel_client(struct front *f, const struct client *who)
{
	size_t i;

	for (i = 0; i < SBX_FRONT_CALLS; i++)
		if (f->calls[i] != NULL && f->calls[i]->to->client == who)
			calls_cancel(f, f->calls[i]);
}

void
calls_cancel_sink(struct front *f, const struct sink *to)
{
	size_t i;

	for (i = 0; i < SBX_FRONT_CALLS; i++)
		if (f->calls[i] != NULL && f->calls[i]->to == to)
			calls_cancel(f, f->calls[i]);
}

void
calls_end_listen(struct front *f, const struct sink *to)
{
	size_t i;

	for (i = 0; i < SBX_FRONT_CALLS; i++)
		if (f->calls[i] != NULL && f->calls[i]->to == to &&
		    f->calls[i]->method == METHOD_LISTEN) {
			calls_cancel(f, f->calls[i]);
			return;	/* the one request of the stream */
		}
}

int
calls_listen(struct front *f, struct call *call)
{
	if (f->nlistens >= SBX_MAX_FRONT_LISTENS)
		return (SBX_E_LIMIT);
	call->kind = CALL_LISTEN;
	f->nlistens++;
	return (0);
}

void
calls_drop_client(struct front *f, const struct client *who)
{
	size_t i;

	for (i = 0; i < SBX_FRONT_CALLS; i++)
		if (f->calls[i] != NULL && f->calls[i]->to->client == who)
			calls_free(f, f->calls[i]);
}

void
calls_move(struct call *call, struct sink *to)
{
	struct sink *from = call->to;

	free(call->token);
	call->token = NULL;
	call->log_level = SBX_MCP_NONE;
	call->to = to;
	to->client->ncalls++;
	sink_hold(to);
	from->client->ncalls--;
	sink_release(from);
}

/* *ret_token: owned, NULL when no progress is wanted.  0, SBX_E_RANGE. */
static int
progress_token(const struct request *r, char **ret_token)
{
	struct json_object *v;

	*ret_token = NULL;
	if (r->meta == NULL ||
	    !json_object_object_get_ex(r->meta, "progressToken", &v))
		return (0);
	return (rpc_token(v, ret_token));
}

/* token: consumed. */
static struct call *
call_new(const struct request *r, enum call_kind kind, char *token)
{
	struct front *f = r->f;
	struct call *call = sbx_xcalloc(1, sizeof(*call));
	size_t i;

	do {
		f->last_call++;
	} while (f->last_call == 0 || calls_find(f, f->last_call) != NULL);
	*call = (struct call){ .number = f->last_call, .kind = kind,
		.method = r->method, .log_level = r->log_level,
		.to = r->to, .rev = r->rev, .id = sbx_xstrdup(r->id),
		.token = token, .can = r->can, .args = -1 };
	for (i = 0; f->calls[i] != NULL; i++)
		;	/* the caller saw that there is room */
	f->calls[i] = call;
	f->ncalls++;
	f->nlistens += kind == CALL_LISTEN;
	r->to->client->ncalls++;
	sink_hold(r->to);
	return (call);
}

/* A refusal in the shape that fits the kind of request. */
static void
refuse(struct sink *to, const struct rev *rev, const char *id,
    enum call_kind kind, const char *code, const char *next, const char *text)
{
	bool busy = strcmp(code, "busy") == 0;

	if (kind == CALL_TOOL)
		reply_tool_error(to, rev, id, busy ? "busy" : "error", code,
		    next, text);
	else
		reply_error(to, rev, id, RPC_INTERNAL_ERROR, NULL, "%s: %s",
		    code, text);
}

/* Of all its conversations; those that wait for it the monitor does not see. */
static unsigned
count_of(const struct front *f, uint64_t principal)
{
	unsigned n = 0;
	size_t i;

	for (i = 0; i < SBX_FRONT_CALLS; i++)
		n += f->calls[i] != NULL && f->calls[i]->kind != CALL_LISTEN &&
		    f->calls[i]->to->client->principal == principal;
	return (n);
}

static bool
is_full(const struct request *r, enum call_kind kind)
{
	const struct front *f = r->f;

	if (r->to->client->ncalls >= SBX_MAX_CONN_CALLS)
		return (true);
	if (kind == CALL_LISTEN)
		return (f->nlistens >= SBX_MAX_FRONT_LISTENS);
	return (f->ncalls - f->nlistens >= SBX_MAX_FRONT_CALLS ||
	    count_of(f, r->to->client->principal) >=
	    SBX_MAX_FRONT_CALLS_PRINCIPAL);
}

void
calls_refuse(const struct call *call, const char *code, const char *next,
    const char *text)
{
	refuse(call->to, call->rev, call->id, call->kind, code, next, text);
}

int
calls_hand(struct front *f, struct call *call)
{
	SBX_CLEANUP_BUF struct sbx_buf inputs = { 0 };

	sbx_buf_init(&inputs, SBX_MAX_INPUTS_BYTES);
	if (round_put(&call->round, &inputs) != 0) {
		calls_refuse(call, "too_large", "", "The client's answers are "
		    "too long.");
		return (SBX_E_LIMIT);
	}
	if (monitor_call(f, &(struct sbx_call){
	    .principal = call->to->client->principal, .call = call->number,
	    .tool = call->tool, .container = call->container,
	    .want_progress = call->token != NULL || call->task != NULL,
	    .patient = call->task != NULL,
	    .log_level = call->log_level, .client_can = call->can,
	    .inputs = inputs.len > 0 ? inputs.data : "" }, call->args) == 0)
		return (0);
	log_warn("a call could not be handed to the monitor tool=%s",
	    call->tool);
	calls_refuse(call, "shutting_down", "",
	    "The call could not be started.");
	return (SBX_E_CLOSED);
}

struct call *
calls_start(const struct request *r, enum call_kind kind, const char *tool,
    const char *container, struct span arguments)
{
	struct call *call;
	char *token;

	if (is_full(r, kind)) {
		refuse(r->to, r->rev, r->id, kind, "busy", "Wait for the calls "
		    "in flight to end.", "Too many requests are in flight.");
		return (NULL);
	}
	if (progress_token(r, &token) != 0) {
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: progressToken must be a string or an "
		    "integer");
		return (NULL);
	}
	call = call_new(r, kind, token);
	if (kind == CALL_LISTEN)
		return (call);
	if (kind == CALL_TOOL)
		call->task = task_reserve(r, call);
	/* both are checked names, of at most 64 bytes */
	(void)sbx_strlcpy(call->tool, tool, sizeof(call->tool));
	(void)sbx_strlcpy(call->container, container,
	    sizeof(call->container));
	if (sbx_memfd_sealed("arguments", arguments.p, arguments.len,
	    &call->args) != 0)
		calls_refuse(call, "internal", "", "No memory for the "
		    "arguments.");
	else if (inputs_begin(r, call, arguments) && calls_hand(r->f, call) == 0)
		return (call);
	calls_free(r->f, call);
	return (NULL);
}

/* --- what the monitor says ------------------------------------------------ */

void
calls_progress(struct front *f, const struct sbx_call_progress *m)
{
	struct call *call = calls_find(f, m->call);
	uint64_t now = sbx_mono_ns();
	struct sbx_buf *b;

	/* Source: MCP revision 2026-07-28, basic/patterns/progress: the value
	 * must rise, and none may follow the answer. */
	if (call != NULL && call->task != NULL)
		task_progress(call->task, m->message);
	if (call == NULL || call->token == NULL ||
	    (call->sent_ns != 0 && (m->done <= call->done ||
	    now - call->sent_ns < PROGRESS_NS)))
		return;
	call->done = m->done;
	call->sent_ns = now;
	b = &call->to->out;
	/* an overflow is seen by the sink */
	(void)sbx_buf_printf(b, "{\"jsonrpc\":\"2.0\",\"method\":"
	    "\"notifications/progress\",\"params\":{\"progressToken\":%s,"
	    "\"progress\":%" PRIu64, call->token, m->done);
	if (m->total != 0)
		(void)sbx_buf_printf(b, ",\"total\":%" PRIu64, m->total);
	if (*m->message != '\0' && (call->rev->fields & REV_F_MESSAGE)) {
		reply_name(b, "message");
		(void)sbx_json_str(b, m->message, strlen(m->message), NULL);
	}
	(void)sbx_buf_str(b, "}}");
	call->to->send(call->to, false);
}

void
calls_log(struct front *f, const struct sbx_call_log *m)
{
	struct call *call = calls_find(f, m->call);
	struct sbx_buf *b;

	if (call == NULL || call->log_level == SBX_MCP_NONE ||
	    m->level < call->log_level || m->level >= SBX_MCP_MAX)
		return;
	b = &call->to->out;
	(void)sbx_buf_printf(b, "{\"jsonrpc\":\"2.0\",\"method\":"
	    "\"notifications/message\",\"params\":{\"level\":\"%s\","
	    "\"logger\":\"sbx\",\"data\":", level_name(m->level));
	(void)sbx_json_str(b, m->text, strlen(m->text), NULL);
	(void)sbx_buf_str(b, "}}");
	call->to->send(call->to, false);
}

void
calls_refused(struct front *f, const struct sbx_call_refused *m)
{
	struct call *call = calls_find(f, m->call);

	if (call == NULL || call->round.since_ns != 0)
		return;
	calls_refuse(call, m->code, m->next, m->reason);
	calls_free(f, call);
}

/*
 * Read a result.  Safe for a hostile worker: it is copied out of a sealed
 * memfd, must be one clean JSON object, and loses its newlines, which would
 * end the message on the client's line.
 */
static bool
read_result(int fd, char **ret_text, size_t *ret_len)
{
	struct sbx_json_where where;
	char *text, *p;
	size_t len;
	int r;

	r = sbx_memfd_read(fd, SBX_MAX_RESULT, &text, &len);
	if (r != 0) {
		log_warn("a worker's result cannot be read: %s",
		    sbx_error_name(r));
		return (false);
	}
	*ret_text = text;
	*ret_len = len;
	/* three levels for what is put around it */
	if (sbx_json_scan(text, len, SBX_MAX_RESULT, SBX_MAX_JSON_DEPTH - 3,
	    &where) != 0) {
		log_warn("a worker's result is not clean: %s (byte %zu)",
		    sbx_json_fault_text(where.fault), where.offset);
		return (false);
	}
	/* raw ones stand between tokens only: in strings they are escaped */
	for (p = text; (p = memchr(p, '\n', len - (size_t)(p - text))) != NULL;)
		*p = ' ';
	for (p = text; (p = memchr(p, '\r', len - (size_t)(p - text))) != NULL;)
		*p = ' ';
	if (text[strspn(text, " \t")] != '{') {
		log_warn("a worker's result is not an object");
		return (false);
	}
	return (true);
}

void
calls_result(struct front *f, uint32_t number, int fd, uint8_t kind)
{
	SBX_CLEANUP(free) char *text = NULL;
	struct call *call = calls_find(f, number);
	size_t len = 0;

	if (call == NULL || call->kind == CALL_LISTEN ||
	    call->round.since_ns != 0)
		return;
	if (!read_result(fd, &text, &len))
		calls_refuse(call, "bad_result", "",
		    "The worker's result was not usable.");
	else if (call->method == METHOD_LISTEN && kind == SBX_RESULT_OK) {
		if (subs_listen(call, text, len))
			return;		/* its answer is its end */
	} else if (kind == SBX_RESULT_INPUT) {
		if (!inputs_result(f, call, text, len))
			return;
	} else if (kind == SBX_RESULT_FAULT)
		forward_error(call, text, len);
	else if (call->content && kind == SBX_RESULT_OK)
		forward_content(call, text, len);
	else if (call->kind == CALL_TOOL)
		reply_tool(call->to, call->rev, call->id, text, len,
		    kind == SBX_RESULT_ERROR);
	else if (kind == SBX_RESULT_ERROR)
		forward_error(call, text, len);
	else
		forward_result(call, text, len);
	calls_free(f, call);
}
