#include "sbxd/front/inputs.h"

#include "common/base/log.h"
#include "sbxd/front/asks.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/reply.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

/*
 * Requests of ours to a client of a legacy revision, on the stream of its own
 * request (MCP revision 2025-11-25, basic/transports: those on it relate to
 * it).  The call stays in the table meanwhile, unknown to the monitor, and is
 * given to a worker again when all answers are there.
 */

#define S_NS UINT64_C(1000000000)
#define ID "sbx-"

/* A URL's elicitation has an id in 2025-11-25 alone; no tool must know. */
static void
put_params(struct sbx_buf *b, struct json_object *params, uint64_t id)
{
	struct json_object *mode;
	char text[32];

	if (json_object_object_get_ex(params, "mode", &mode) &&
	    json_object_is_type(mode, json_type_string) &&
	    strcmp(json_object_get_string(mode), "url") == 0) {
		(void)snprintf(text, sizeof(text), ID "%" PRIu64, id);
		(void)json_object_object_add(params, "elicitationId",
		    json_object_new_string(text));
	}
	reply_name(b, "params");
	(void)sbx_buf_str(b, json_object_to_json_string_ext(params,
	    JSON_C_TO_STRING_PLAIN));
}

static void
send_one(struct call *c, const struct asked *one, struct json_object *request)
{
	struct sbx_buf *b = &c->to->out;
	struct json_object *params;

	/* an overflow is seen by the sink */
	(void)sbx_buf_printf(b, "{\"jsonrpc\":\"2.0\",\"id\":\"" ID "%" PRIu64
	    "\",\"method\":\"%s\"", one->id, ask_method(one->kind));
	if (json_object_object_get_ex(request, "params", &params))
		put_params(b, params, one->id);
	(void)sbx_buf_str(b, "}");
	c->to->send(c->to, false);
}

bool
legacy_ask(struct front *f, struct call *c, const struct asks *a)
{
	struct round *r = &c->round;
	unsigned i;

	if (!round_begin(c, a))
		return (true);
	for (i = 0; i < a->n; i++) {
		r->asked[i].id = ++f->last_ask;
		send_one(c, &r->asked[i], json_object_object_get(a->requests,
		    r->asked[i].key));
	}
	return (false);
}

void
legacy_withdraw(struct call *c, const char *why)
{
	struct round *r = &c->round;
	unsigned i;

	for (i = 0; i < r->nasked; i++) {
		if (r->asked[i].id == 0)
			continue;
		(void)sbx_buf_printf(&c->to->out, "{\"jsonrpc\":\"2.0\","
		    "\"method\":\"notifications/cancelled\",\"params\":{"
		    "\"requestId\":\"" ID "%" PRIu64 "\",\"reason\":\"%s\"}}",
		    r->asked[i].id, why);
		r->asked[i].id = 0;
		c->to->send(c->to, false);
	}
	r->since_ns = 0;
}

/* Nothing comes of it: the tool's work ends here. */
static void
give_up(struct front *f, struct call *c, const char *code, const char *why,
    const char *text)
{
	legacy_withdraw(c, why);
	calls_refuse(c, code, "", text);
	calls_free(f, c);
}

static void
go_on(struct front *f, struct call *c)
{
	unsigned i;

	for (i = 0; i < c->round.nasked; i++)
		if (c->round.asked[i].id != 0)
			return;
	c->round.since_ns = 0;
	c->round.nasked = 0;
	if (calls_hand(f, c) != 0)
		calls_free(f, c);
}

/* The request of ours that this id names, and its call.  NULL: there is none
 * that this client was sent. */
static struct asked *
find(const struct front *f, const struct client *who, const char *id,
    struct call **ret_call)
{
	char text[32];
	size_t i, j;

	for (i = 0; i < SBX_FRONT_CALLS; i++) {
		struct call *c = f->calls[i];

		if (c == NULL || c->to->client != who ||
		    c->round.since_ns == 0)
			continue;
		for (j = 0; j < c->round.nasked; j++) {
			(void)snprintf(text, sizeof(text), ID "%" PRIu64,
			    c->round.asked[j].id);
			if (c->round.asked[j].id == 0 || strcmp(text, id) != 0)
				continue;
			*ret_call = c;
			return (&c->round.asked[j]);
		}
	}
	return (NULL);
}

/* An error as an answer, or one of another shape, is nothing that a tool can
 * use; who does not want to answer says so in a result. */
void
legacy_answer(struct sink *from, struct json_object *msg)
{
	struct json_object *id = NULL, *v = NULL;
	struct asked *one;
	struct call *c;
	char text[256];

	(void)json_object_object_get_ex(msg, "id", &id);
	if (!json_object_is_type(id, json_type_string) ||
	    (one = find(from->f, from->client, json_object_get_string(id),
	    &c)) == NULL)
		return;
	one->id = 0;
	if (json_object_object_get_ex(msg, "result", &v) &&
	    ask_answered(one->kind, v)) {
		(void)json_object_object_add(c->round.answers, one->key,
		    json_object_get(v));
		go_on(from->f, c);
		return;
	}
	(void)snprintf(text, sizeof(text), "The client answered %s with %s.",
	    ask_method(one->kind), v == NULL ? "an error" :
	    "what is no result of it");
	give_up(from->f, c, "client_failed", "another one failed", text);
}

void
legacy_sweep(struct front *f, uint64_t now_ns)
{
	size_t i;

	for (i = 0; i < SBX_FRONT_CALLS; i++) {
		struct call *c = f->calls[i];

		if (c != NULL && c->round.since_ns != 0 &&
		    now_ns - c->round.since_ns > SBX_INPUT_S * S_NS)
			give_up(f, c, "client_silent", "it took too long",
			    "The client did not answer in time.");
	}
}
