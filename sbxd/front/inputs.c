#include "sbxd/front/inputs.h"

#include "common/base/json.h"
#include "common/base/log.h"
#include "sbxd/front/asks.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/reply.h"
#include "sbxd/front/tasks.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define HANDLE_BYTES 16		/* 128 bits: not to be guessed */
#define S_NS UINT64_C(1000000000)
#define AGAIN "Call again without requestState"

/*
 * What waits for its client to call again.  requestState is a handle into this
 * table and nothing else, so the client holds nothing that it could change:
 * the state is authenticated, bound and expiring by where it is kept.  It is
 * taken out when it is shown, so it cannot be replayed, which a state that the
 * client carries, sealed, would need such a table for as well.
 */
struct input {
	struct input *next;		/* the newest first */
	char handle[2 * HANDLE_BYTES + 1];
	char digest[SBX_SHA256_HEX + 1]; /* method, tool and arguments */
	uint64_t principal;
	uint64_t since_ns;
	struct round round;
};

/* --- what one call has ---------------------------------------------------- */

void
round_clear(struct round *r)
{
	json_object_put(r->answers);
	json_object_put(r->state);
	memset(r, 0, sizeof(*r));
}

static const struct asked *
find_asked(const struct round *r, const char *key)
{
	unsigned i;

	for (i = 0; i < r->nasked; i++)
		if (strcmp(r->asked[i].key, key) == 0)
			return (&r->asked[i]);
	return (NULL);
}

const char *
round_take(struct round *r, struct json_object *responses)
{
	const struct asked *a;

	if (responses == NULL)
		return (NULL);
	if (!json_object_is_type(responses, json_type_object))
		return ("inputResponses must be an object");
	json_object_object_foreach(responses, key, v) {
		a = find_asked(r, key);
		if (a != NULL ? !ask_answered(a->kind, v) :
		    !json_object_is_type(v, json_type_object))
			return ("an answer in inputResponses is none to what "
			    "was asked");
	}
	if (r->answers == NULL)
		r->answers = json_object_new_object();
	json_object_object_foreach(responses, name, value) {
		if (strlen(name) > ASK_KEY_MAX ||
		    (r->nasked > 0 ? find_asked(r, name) == NULL :
		    !ask_answered(NULL, value)))
			continue;
		(void)json_object_object_add(r->answers, name,
		    json_object_get(value));
	}
	return (NULL);
}

bool
round_begin(struct call *c, const struct asks *a)
{
	struct round *r = &c->round;
	unsigned i;

	if (++r->count > SBX_MAX_ROUNDS) {
		calls_refuse(c, "too_many_rounds", "", "The tool asked the "
		    "client again and again.");
		return (false);
	}
	json_object_put(r->state);
	r->state = json_object_get(a->state);
	memcpy(r->asked, a->asked, sizeof(r->asked));
	r->nasked = a->n;
	r->since_ns = sbx_mono_ns();
	if (r->answers == NULL)
		r->answers = json_object_new_object();
	for (i = 0; i < a->n; i++)
		json_object_object_del(r->answers, a->asked[i].key);
	return (true);
}

int
round_put(const struct round *r, struct sbx_buf *b)
{
	if (r->answers == NULL && r->state == NULL)
		return (0);
	(void)sbx_buf_str(b, "{");	/* the flag tells */
	reply_name(b, "inputResponses");
	(void)sbx_buf_str(b, r->answers == NULL ? "{}" :
	    json_object_to_json_string_ext(r->answers,
	    JSON_C_TO_STRING_PLAIN));
	if (r->state != NULL) {
		reply_name(b, "state");
		(void)sbx_buf_str(b, json_object_to_json_string_ext(r->state,
		    JSON_C_TO_STRING_PLAIN));
	}
	(void)sbx_buf_str(b, "}");
	return (b->overflow ? SBX_E_LIMIT : 0);
}

/* --- what a worker asks ------------------------------------------------------ */

/* Keys go into messages, unescaped, and into the table. */
static bool
plain_key(const char *key)
{
	size_t n = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU"
	    "VWXYZ0123456789_.-");

	return (n > 0 && n <= ASK_KEY_MAX && key[n] == '\0');
}

static int
read_one(struct asks *a, const char *key, struct json_object *request)
{
	struct asked *one = &a->asked[a->n];
	struct json_object *method, *params = NULL;

	if (a->n >= SBX_MAX_ASKS || !plain_key(key) ||
	    !json_object_object_get_ex(request, "method", &method) ||
	    !json_object_is_type(method, json_type_string))
		return (SBX_E_DECODE);
	if (json_object_object_get_ex(request, "params", &params) &&
	    params == NULL)
		return (SBX_E_DECODE);
	one->kind = ask_find(json_object_get_string(method), params);
	if (one->kind == NULL ||
	    sbx_strlcpy(one->key, key, sizeof(one->key)) != 0)
		return (SBX_E_DECODE);
	a->needs |= ask_needs(one->kind);
	a->n++;
	return (0);
}

static int
read_all(struct asks *a, size_t len)
{
	if (len > SBX_MAX_ASK_BYTES ||
	    !json_object_object_get_ex(a->result, "inputRequests",
	    &a->requests) ||
	    !json_object_is_type(a->requests, json_type_object) ||
	    json_object_object_length(a->requests) == 0)
		return (SBX_E_DECODE);
	(void)json_object_object_get_ex(a->result, "state", &a->state);
	json_object_object_foreach(a->requests, key, request)
		if (read_one(a, key, request) != 0)
			return (SBX_E_DECODE);
	return (0);
}

int
asks_read(struct front *f, const char *text, size_t len, struct asks *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (len <= SBX_MAX_ASK_BYTES) {
		json_tokener_reset(f->tokener);
		ret->result = json_tokener_parse_ex(f->tokener, text,
		    (int)len);
	}
	if (read_all(ret, len) == 0)
		return (0);
	asks_clear(ret);
	return (SBX_E_DECODE);
}

void
asks_clear(struct asks *a)
{
	json_object_put(a->result);
	memset(a, 0, sizeof(*a));
}

/* Only what a request has: its method, and its params where there are any. */
void
asks_put(struct sbx_buf *b, const struct asks *a)
{
	struct json_object *params;

	(void)sbx_buf_str(b, "{");	/* the sink tells */
	json_object_object_foreach(a->requests, key, request) {
		reply_name(b, key);
		(void)sbx_buf_str(b, "{\"method\":");
		(void)sbx_buf_str(b, json_object_to_json_string(
		    json_object_object_get(request, "method")));
		if (json_object_object_get_ex(request, "params", &params)) {
			reply_name(b, "params");
			(void)sbx_buf_str(b, json_object_to_json_string_ext(
			    params, JSON_C_TO_STRING_PLAIN));
		}
		(void)sbx_buf_str(b, "}");
	}
	(void)sbx_buf_str(b, "}");
}

/* --- the table ---------------------------------------------------------------- */

static void
unlink_input(struct front *f, struct input **p)
{
	struct input *in = *p;

	*p = in->next;
	f->ninputs--;
	round_clear(&in->round);
	free(in);
}

static unsigned
count_of(const struct front *f, uint64_t principal)
{
	const struct input *in;
	unsigned n = 0;

	for (in = f->inputs; in != NULL; in = in->next)
		n += in->principal == principal;
	return (n);
}

/* Who has most must give, so that nobody's fill the table. */
static uint64_t
greediest(const struct front *f)
{
	const struct input *in;
	uint64_t who = 0;
	unsigned n, most = 0;

	for (in = f->inputs; in != NULL; in = in->next)
		if ((n = count_of(f, in->principal)) >= most) {
			most = n;
			who = in->principal;
		}
	return (who);
}

static void
drop_oldest(struct front *f, uint64_t principal)
{
	struct input **p, **oldest = NULL;

	for (p = &f->inputs; *p != NULL; p = &(*p)->next)
		if ((*p)->principal == principal)
			oldest = p;
	if (oldest != NULL)
		unlink_input(f, oldest);
}

static void
make_room(struct front *f, uint64_t principal)
{
	if (count_of(f, principal) >= SBX_MAX_INPUTS_PRINCIPAL)
		drop_oldest(f, principal);
	else if (f->ninputs >= SBX_MAX_INPUTS)
		drop_oldest(f, greediest(f));
}

void
inputs_forget(struct front *f, uint64_t principal)
{
	struct input **p = &f->inputs;

	while (*p != NULL)
		if ((*p)->principal == principal)
			unlink_input(f, p);
		else
			p = &(*p)->next;
}

void
inputs_clear(struct front *f)
{
	while (f->inputs != NULL)
		unlink_input(f, &f->inputs);
}

void
inputs_sweep(struct front *f, uint64_t now_ns)
{
	struct input **p = &f->inputs;

	while (*p != NULL)
		if (now_ns - (*p)->since_ns > SBX_INPUT_S * S_NS)
			unlink_input(f, p);
		else
			p = &(*p)->next;
	legacy_sweep(f, now_ns);
}

/* --- a client that calls again -------------------------------------------------- */

/* The lengths are not needed: no method's and no tool's name has a NUL. */
static void
digest(const struct call *c, struct span arguments,
    char ret_hex[SBX_SHA256_HEX + 1])
{
	const char *method = methods[c->method].name;
	struct sbx_sha256 s;

	sbx_sha256_init(&s);
	sbx_sha256_add(&s, method, strlen(method) + 1);
	sbx_sha256_add(&s, c->tool, strlen(c->tool) + 1);
	sbx_sha256_add(&s, arguments.p, arguments.len);
	sbx_sha256_end(&s, ret_hex);
}

/* Take out what the handle names.  NULL: nothing that is this call's.  Any
 * other use of a right handle ends it as well. */
static const char *
take_state(struct front *f, struct call *c, struct json_object *handle,
    struct span arguments)
{
	char hex[SBX_SHA256_HEX + 1];
	uint64_t principal = c->to->client->principal;
	const char *text = json_object_get_string(handle);
	struct input **p;
	bool good;

	if (!json_object_is_type(handle, json_type_string) ||
	    json_object_get_string_len(handle) != (int)strlen(text))
		return ("requestState must be a string");
	for (p = &f->inputs; *p != NULL; p = &(*p)->next)
		if ((*p)->principal == principal &&
		    strlen(text) == 2 * HANDLE_BYTES &&
		    sbx_same_secret((*p)->handle, text, 2 * HANDLE_BYTES))
			break;
	if (*p == NULL)
		return ("requestState is not known, was used, or is too old");
	digest(c, arguments, hex);
	good = strcmp((*p)->digest, hex) == 0 &&
	    sbx_mono_ns() - (*p)->since_ns <= SBX_INPUT_S * S_NS;
	if (good) {
		c->round = (*p)->round;
		memset(&(*p)->round, 0, sizeof((*p)->round));
	}
	unlink_input(f, p);
	return (good ? NULL : "requestState is of another request, or is too "
	    "old");
}

bool
inputs_begin(const struct request *r, struct call *c, struct span arguments)
{
	struct json_object *handle = NULL, *responses = NULL;
	const char *wrong = NULL;

	if (!r->rev->modern || !methods[r->method].asks || r->params == NULL)
		return (true);
	(void)json_object_object_get_ex(r->params, "requestState", &handle);
	(void)json_object_object_get_ex(r->params, "inputResponses",
	    &responses);
	if (handle != NULL)
		wrong = take_state(r->f, c, handle, arguments);
	if (wrong == NULL)
		wrong = round_take(&c->round, responses);
	c->round.nasked = 0;
	if (wrong == NULL)
		return (true);
	reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
	    "Invalid params: %s. " AGAIN, wrong);
	return (false);
}

static int
digest_of(const struct call *c, char ret_hex[SBX_SHA256_HEX + 1])
{
	SBX_CLEANUP(free) char *text = NULL;
	size_t len;
	int r;

	r = sbx_memfd_read(c->args, SBX_MAX_JSON, &text, &len);
	if (r == 0)
		digest(c, (struct span){ text, len }, ret_hex);
	return (r);
}

/* The call's answers that are not asked for again go with it. */
static struct input *
keep(struct front *f, struct call *c, const struct asks *a)
{
	struct input *in = sbx_xcalloc(1, sizeof(*in));
	unsigned i;

	if (digest_of(c, in->digest) != 0) {
		free(in);
		return (NULL);
	}
	make_room(f, c->to->client->principal);
	sbx_random_hex(in->handle, HANDLE_BYTES);
	in->principal = c->to->client->principal;
	in->since_ns = sbx_mono_ns();
	in->round.answers = json_object_get(c->round.answers);
	in->round.state = json_object_get(a->state);
	in->round.nasked = a->n;
	memcpy(in->round.asked, a->asked, sizeof(in->round.asked));
	for (i = 0; i < a->n && in->round.answers != NULL; i++)
		json_object_object_del(in->round.answers, a->asked[i].key);
	in->next = f->inputs;
	f->inputs = in;
	f->ninputs++;
	return (in);
}

static void
answer_asks(struct front *f, struct call *c, const struct asks *a)
{
	const struct input *in = keep(f, c, a);
	struct sbx_buf *b;

	if (in == NULL) {
		calls_refuse(c, "internal", "", "The arguments are gone.");
		return;
	}
	b = reply_begin_as(c->to, c->rev, c->id, "input_required");
	reply_name(b, "inputRequests");
	asks_put(b, a);
	reply_name(b, "requestState");
	(void)sbx_buf_printf(b, "\"%s\"", in->handle);
	reply_end(c->to);
}

/* Source: MissingRequiredClientCapabilityError of revision 2026-07-28. */
static void
refuse_missing(struct call *c, uint32_t missing)
{
	SBX_CLEANUP_BUF struct sbx_buf data = { 0 };
	char text[512];

	sbx_buf_init(&data, 1024);
	if (!c->rev->modern) {
		ask_put_capabilities(&data, missing);
		(void)snprintf(text, sizeof(text), "The client did not "
		    "declare what this needs: %s.", data.data);
		calls_refuse(c, "client_cannot", "Use a client that declares "
		    "the capability.", text);
		return;
	}
	(void)sbx_buf_str(&data, "{\"requiredCapabilities\":");
	ask_put_capabilities(&data, missing);
	(void)sbx_buf_str(&data, "}");
	reply_error(c->to, c->rev, c->id, RPC_MISSING_CAPABILITY, data.data,
	    "Missing required client capability");
}

bool
inputs_result(struct front *f, struct call *c, const char *text, size_t len)
{
	struct asks a;
	bool end = true;

	if (!methods[c->method].asks || asks_read(f, text, len, &a) != 0) {
		log_warn("a worker asks for what cannot be asked");
		calls_refuse(c, "bad_result", "",
		    "The worker's result was not usable.");
		return (true);
	}
	if ((a.needs & ~c->can) != 0)
		refuse_missing(c, a.needs & ~c->can);
	else if (c->task != NULL && task_shown(c->task))
		end = task_ask(c->task, &a);
	else if (c->rev->modern)
		answer_asks(f, c, &a);
	else
		end = legacy_ask(f, c, &a);
	asks_clear(&a);
	return (end);
}
