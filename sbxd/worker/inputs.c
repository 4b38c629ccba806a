/*
 * What a tool asks of its client.  Nobody waits here: the tool is called anew,
 * from the beginning, when the answers are there (sbxd/front/inputs.h).
 */

#include "sbxd/worker/worker.h"

#include "common/base/json.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "sbxd/front/asks.h"

#include <json-c/json.h>
#include <string.h>

struct json_object *
call_inputs(const char *text)
{
	struct json_tokener *tok;
	struct json_object *o;

	if (*text == '\0')
		return (NULL);
	tok = json_tokener_new_ex(SBX_MAX_JSON_DEPTH + 1);
	if (tok == NULL)
		sbx_fatal("no memory for the parser");
	/* the front composed it of clean JSON */
	o = json_tokener_parse_ex(tok, text, (int)strlen(text));
	json_tokener_free(tok);
	return (o);
}

struct json_object *
call_answer(const struct call *call, const char *key, const char *method)
{
	struct json_object *o;

	if (!json_object_object_get_ex(call->inputs, "inputResponses", &o) ||
	    !json_object_object_get_ex(o, key, &o) ||
	    !ask_answers(method, o))
		return (NULL);
	return (o);
}

struct json_object *
call_state_get(const struct call *call)
{
	return (json_object_object_get(call->inputs, "state"));
}

void
call_state(struct call *call, const char *json)
{
	free(call->state);
	call->state = sbx_xstrdup(json);
}

void
call_ask_again(struct call *call, const char *key, const char *method,
    const char *params)
{
	struct result *r = call->res;

	if (r->kind != SBX_RESULT_INPUT) {
		result_reset(r);
		r->kind = SBX_RESULT_INPUT;
		result_open(r, "inputRequests", '{');
	}
	result_open(r, key, '{');
	result_str(r, "method", method);
	if (*params != '\0') {
		(void)sbx_buf_str(&r->text, ",\"params\":");
		(void)sbx_buf_str(&r->text, params);
	}
	result_close(r, '}');
}

struct json_object *
call_ask(struct call *call, const char *key, const char *method,
    const char *params)
{
	struct json_object *o = call_answer(call, key, method);

	if (o == NULL)
		call_ask_again(call, key, method, params);
	return (o);
}

void
call_inputs_finish(struct call *call)
{
	struct result *r = call->res;

	if (r->kind == SBX_RESULT_INPUT) {
		result_close(r, '}');
		if (call->state != NULL) {
			(void)sbx_buf_str(&r->text, ",\"state\":");
			(void)sbx_buf_str(&r->text, call->state);
		}
	}
	free(call->state);
	call->state = NULL;
}
