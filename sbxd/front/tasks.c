#include "sbxd/front/tasks.h"

#include "common/base/json.h"
#include "common/base/log.h"
#include "sbxd/front/asks.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/methods.h"
#include "sbxd/front/reply.h"
#include "sbxd/front/subs.h"

#include <event2/event.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define MS_NS UINT64_C(1000000)
#define S_NS UINT64_C(1000000000)

static const char *const state_names[TASK_STATE_MAX] = {
	[TASK_WORKING] = "working", [TASK_INPUT] = "input_required",
	[TASK_COMPLETED] = "completed",
	[TASK_FAILED] = "failed", [TASK_CANCELLED] = "cancelled",
};

/* Which may follow which: a mask of 1 << state. */
#define ENDS (1 << TASK_COMPLETED | 1 << TASK_FAILED | 1 << TASK_CANCELLED)
static const uint8_t follows[TASK_STATE_MAX] = {
	[TASK_RESERVED] = 1 << TASK_WORKING,
	[TASK_WORKING] = 1 << TASK_INPUT | ENDS,
	[TASK_INPUT] = 1 << TASK_WORKING | ENDS,
};

static bool
ended(const struct task *t)
{
	return (t->state >= TASK_COMPLETED);
}

/* --- the table ------------------------------------------------------------ */

bool
tasks_wanted(const struct request *r)
{
	return ((r->rev->fields & REV_F_TASKS) && (r->can & SBX_CAN_TASKS));
}

bool
tasks_any(const struct front *f, uint64_t principal)
{
	const struct task *t;

	for (t = f->tasks; t != NULL; t = t->next)
		if (t->client.principal == principal)
			return (true);
	return (false);
}

bool
tasks_full(const struct front *f, uint64_t principal)
{
	const struct task *t;
	unsigned n = 0;

	for (t = f->tasks; t != NULL; t = t->next)
		n += t->client.principal == principal;
	return (f->ntasks >= SBX_MAX_TASKS || n >= SBX_MAX_TASKS_PRINCIPAL);
}

static void
task_free(struct task *t)
{
	struct front *f = t->f;
	struct task **p = &f->tasks;

	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	f->ntasks--;
	f->task_bytes -= t->end_len;
	if (t->timer != NULL)
		event_free(t->timer);
	sbx_buf_clear(&t->sink.out);
	json_object_put(t->requests);
	free(t->request);
	free(t->message);
	free(t->end);
	free(t);
}

static bool
expired(const struct task *t, uint64_t now_ns)
{
	return (ended(t) &&
	    now_ns - t->ended_mono_ns >= SBX_TASK_KEEP_MS * MS_NS);
}

void
tasks_sweep(struct front *f, uint64_t now_ns)
{
	struct task *t, *next;

	for (t = f->tasks; t != NULL; t = next) {
		next = t->next;
		if (expired(t, now_ns))
			task_free(t);
	}
}

/* NULL also for one that is another's, and for one that has expired: what is
 * not this principal's does not exist. */
static struct task *
task_find(const struct front *f, uint64_t principal, const char *id)
{
	bool fits = strlen(id) == TASK_HEX;
	struct task *t;

	for (t = f->tasks; fits && t != NULL; t = t->next)
		if (t->state != TASK_RESERVED &&
		    t->client.principal == principal &&
		    sbx_same_secret(t->id, id, TASK_HEX) &&
		    !expired(t, sbx_mono_ns()))
			return (t);
	return (NULL);
}

bool
tasks_has(const struct front *f, uint64_t principal, const char *id)
{
	return (task_find(f, principal, id) != NULL);
}

/* Its call ends with it. */
static void
task_end(struct task *t)
{
	if (t->call != NULL)
		calls_cancel(t->f, t->call);
	task_free(t);
}

void
tasks_gone(struct front *f, uint64_t principal)
{
	struct task *t, *next;

	for (t = f->tasks; t != NULL; t = next) {
		next = t->next;
		if (t->state != TASK_RESERVED &&
		    t->client.principal == principal)
			task_end(t);
	}
}

void
tasks_clear(struct front *f)
{
	struct task *t, *next;

	for (t = f->tasks; t != NULL; t = next) {
		next = t->next;
		if (t->call != NULL)
			calls_free(f, t->call);
		if (t->state != TASK_RESERVED)
			task_free(t);
	}
}

static void tell(struct task *t, const struct call *only);

/* --- states --------------------------------------------------------------- */

static void
set_state(struct task *t, enum task_state state)
{
	if ((follows[t->state] & 1 << state) == 0)
		sbx_fatal("a task's state %d cannot follow %d", state,
		    t->state);
	log_debug("task: state %d -> %d", t->state, state);
	t->state = state;
	t->changed_ns = sbx_wall_ns();
	free(t->message);
	t->message = NULL;
	if (!ended(t))
		return;
	t->ended_mono_ns = sbx_mono_ns();
	json_object_put(t->requests);
	t->requests = NULL;
}

static size_t
bytes_of(const struct front *f, uint64_t principal)
{
	const struct task *t;
	size_t n = 0;

	for (t = f->tasks; t != NULL; t = t->next)
		if (t->client.principal == principal)
			n += t->end_len;
	return (n);
}

/*
 * Keep what the call ended with.  Room is made of what its owner has taken
 * already; nobody's is taken for another's.
 */
static bool
keep(struct task *t, const char *text, size_t len)
{
	struct front *f = t->f;
	struct task *o, *oldest;

	while (f->task_bytes + len > SBX_MAX_TASK_BYTES ||
	    bytes_of(f, t->client.principal) + len >
	    SBX_MAX_TASK_BYTES_PRINCIPAL) {
		oldest = NULL;
		for (o = f->tasks; o != NULL; o = o->next)
			if (o->taken && o->end_len > 0 &&
			    o->client.principal == t->client.principal &&
			    (oldest == NULL ||
			    o->ended_mono_ns < oldest->ended_mono_ns))
				oldest = o;
		if (oldest == NULL)
			return (false);
		task_free(oldest);
	}
	t->end = sbx_xcalloc(1, len + 1);
	memcpy(t->end, text, len);
	t->end_len = len;
	f->task_bytes += len;
	return (true);
}

static void
failed(struct task *t, const char *text)
{
	char error[256];

	set_state(t, TASK_FAILED);
	t->message = sbx_xstrdup(text);
	(void)snprintf(error, sizeof(error), "{\"code\":%d,\"message\":\"%s\"}",
	    RPC_INTERNAL_ERROR, text);
	t->end = sbx_xstrdup(error);
	t->end_len = strlen(t->end);
	t->f->task_bytes += t->end_len;
}

/* The message of an error object, for people. */
static char *
error_message(const char *text)
{
	struct json_object *o = json_tokener_parse(text), *v;
	char *message = NULL;

	if (json_object_object_get_ex(o, "message", &v))
		message = sbx_xstrdup(json_object_get_string(v));
	json_object_put(o);
	return (message);
}

/*
 * The sink of a task's call: its answer is kept, as the value of what the
 * request would have been answered with.  The extension has no progress and no
 * messages for a task.
 */
static void
task_send(struct sink *s, bool last)
{
	struct task *t = (struct task *)((char *)s -
	    offsetof(struct task, sink));
	bool error = s->error != 0;
	struct span v = { NULL, 0 };

	if (last && (s->out.overflow || !member_find(s->out.data, s->out.len,
	    error ? "error" : "result", &v)))
		failed(t, "The result was not usable");
	else if (last && !keep(t, v.p, v.len))
		failed(t, "The result could not be kept: the results of "
		    "tasks take all that they may. sandbox_list_containers "
		    "and read_output still have what was run");
	else if (last) {
		set_state(t, error ? TASK_FAILED : TASK_COMPLETED);
		if (error)
			t->message = error_message(t->end);
	}
	if (last)
		tell(t, NULL);
	sbx_buf_clear(&s->out);
	sbx_buf_init(&s->out, SBX_FRONT_OUT_MAX);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	task_show(arg);
}

struct task *
task_reserve(const struct request *r, struct call *call)
{
	static const struct timeval after = { SBX_TASK_AFTER_MS / 1000,
		SBX_TASK_AFTER_MS % 1000 * 1000 };
	struct front *f = r->f;
	struct task *t;

	tasks_sweep(f, sbx_mono_ns());
	if (!tasks_wanted(r) || tasks_full(f, r->to->client->principal))
		return (NULL);
	t = sbx_xcalloc(1, sizeof(*t));
	t->f = f;
	sbx_random_hex(t->id, TASK_HEX / 2);
	t->client.principal = r->to->client->principal;
	t->sink = (struct sink){ .f = f, .client = &t->client,
		.send = task_send };
	sbx_buf_init(&t->sink.out, SBX_FRONT_OUT_MAX);
	t->call = call;
	t->rev = r->rev;
	t->request = sbx_xstrdup(r->id);
	t->timer = evtimer_new(f->base, on_timer, t);
	if (t->timer == NULL || evtimer_add(t->timer, &after) != 0)
		sbx_fatal("no timer for a task");
	t->next = f->tasks;
	f->tasks = t;
	f->ntasks++;
	return (t);
}

bool
task_shown(const struct task *t)
{
	return (t->state != TASK_RESERVED);
}

void
task_call_gone(struct task *t)
{
	t->call = NULL;
	if (t->state == TASK_RESERVED)
		task_free(t);
	else if (!ended(t)) {	/* nobody answered it */
		set_state(t, TASK_CANCELLED);
		tell(t, NULL);
	}
}

void
task_progress(struct task *t, const char *message)
{
	if (t->state == TASK_RESERVED || ended(t) || *message == '\0')
		return;
	free(t->message);
	t->message = sbx_xstrdup(message);
	t->changed_ns = sbx_wall_ns();
}

/* --- what is told of it --------------------------------------------------- */

static void
put_text(struct sbx_buf *b, const char *name, const char *text)
{
	reply_name(b, name);
	(void)sbx_json_str(b, text, strlen(text), NULL);
}

static void
put_time(struct sbx_buf *b, const char *name, uint64_t wall_ns)
{
	char text[SBX_WALL_SIZE];

	sbx_wall_text(wall_ns, text);
	put_text(b, name, text);
}

/*
 * The members of Task.  ttlMs counts from its creation: there is none before
 * its end, for it lasts as long as its work does, which has its own time-out.
 */
static void
put_task(struct sbx_buf *b, const struct task *t)
{
	put_text(b, "taskId", t->id);
	put_text(b, "status", state_names[t->state]);
	if (t->message != NULL)
		put_text(b, "statusMessage", t->message);
	put_time(b, "createdAt", t->made_ns);
	put_time(b, "lastUpdatedAt", t->changed_ns);
	reply_name(b, "ttlMs");
	if (ended(t))
		(void)sbx_buf_printf(b, "%" PRIu64, (t->ended_mono_ns -
		    t->made_mono_ns) / MS_NS + SBX_TASK_KEEP_MS);
	else
		(void)sbx_buf_str(b, "null");
	reply_name(b, "pollIntervalMs");
	(void)sbx_buf_printf(b, "%u", SBX_TASK_POLL_MS);
}

/* DetailedTask: with what the state brings along. */
static void
put_detailed(struct sbx_buf *b, struct task *t)
{
	put_task(b, t);
	if (t->state == TASK_INPUT) {
		reply_name(b, "inputRequests");
		asks_put(b, &(struct asks){ .requests = t->requests });
	}
	if (t->end == NULL)
		return;
	reply_name(b, t->state == TASK_FAILED ? "error" : "result");
	(void)sbx_buf_add(b, t->end, t->end_len); /* the sink tells */
	t->taken = true;
}

/* Those that listen for it; only: NULL, or the one that is to be told. */
static void
tell(struct task *t, const struct call *only)
{
	struct sub *s;
	struct sink *to;

	for (s = t->f->subs; s != NULL; s = s->next) {
		if (s->kind != SUB_TASK || strcmp(s->name, t->id) != 0 ||
		    s->client->principal != t->client.principal ||
		    s->listen->kind != CALL_LISTEN ||
		    (only != NULL && s->listen != only) ||
		    (to = subs_begin(s, "tasks")) == NULL)
			continue;
		put_detailed(&to->out, t);
		subs_end(to);
	}
}

void
tasks_listened(const struct call *listen)
{
	struct task *t;

	for (t = listen->to->f->tasks; t != NULL; t = t->next)
		if (t->state != TASK_RESERVED)
			tell(t, listen);
}

void
task_show(struct task *t)
{
	struct call *call = t->call;
	struct sbx_buf *b;

	if (t->state != TASK_RESERVED)
		return;
	event_free(t->timer);
	t->timer = NULL;
	set_state(t, TASK_WORKING);
	t->made_ns = t->changed_ns;
	t->made_mono_ns = sbx_mono_ns();
	b = reply_begin_as(call->to, t->rev, t->request, "task");
	free(t->request);
	t->request = NULL;
	put_task(b, t);
	reply_end(call->to);
	calls_move(call, &t->sink);
}

/* --- input ---------------------------------------------------------------- */

#define WIRE_KEY_MAX (ASK_KEY_MAX + 16)

/* A key is not used again in a task's life; the tool may use its own again. */
static void
wire_key(const struct round *r, const struct asked *one,
    char ret_key[WIRE_KEY_MAX])
{
	if (r->count < 2)
		(void)snprintf(ret_key, WIRE_KEY_MAX, "%s", one->key);
	else	/* "~" is in no key of a tool */
		(void)snprintf(ret_key, WIRE_KEY_MAX, "%s~%u", one->key,
		    r->count);
}

/* The call stays in the table meanwhile, unknown to the monitor. */
bool
task_ask(struct task *t, const struct asks *a)
{
	struct round *r = &t->call->round;
	char key[WIRE_KEY_MAX];
	unsigned i;

	if (!round_begin(t->call, a))
		return (true);
	t->requests = json_object_new_object();
	for (i = 0; i < a->n; i++) {
		wire_key(r, &a->asked[i], key);
		(void)json_object_object_add(t->requests, key,
		    json_object_get(json_object_object_get(a->requests,
		    a->asked[i].key)));
	}
	set_state(t, TASK_INPUT);
	tell(t, NULL);
	return (false);
}

/* What is asked under that key, and was not answered; NULL: nothing. */
static const struct asked *
find_asked(const struct task *t, const char *name)
{
	const struct round *r = &t->call->round;
	char key[WIRE_KEY_MAX];
	unsigned i;

	for (i = 0; i < r->nasked; i++) {
		wire_key(r, &r->asked[i], key);
		if (strcmp(key, name) == 0)
			return (json_object_object_get_ex(t->requests, key,
			    NULL) ? &r->asked[i] : NULL);
	}
	return (NULL);
}

/* All that is asked was answered: the call is made again. */
static void
go_on(struct task *t)
{
	struct call *c = t->call;

	json_object_put(t->requests);
	t->requests = NULL;
	c->round.since_ns = 0;
	c->round.nasked = 0;
	set_state(t, TASK_WORKING);
	tell(t, NULL);
	if (calls_hand(t->f, c) != 0)
		calls_free(t->f, c);
}

/* false: one of them is no answer to what was asked, and none was taken. */
static bool
take_answers(struct task *t, struct json_object *responses)
{
	const struct asked *a;

	if (t->state != TASK_INPUT)
		return (true);
	json_object_object_foreach(responses, key, v)
		if ((a = find_asked(t, key)) != NULL &&
		    !ask_answered(a->kind, v))
			return (false);
	json_object_object_foreach(responses, name, value) {
		if ((a = find_asked(t, name)) == NULL)
			continue;
		(void)json_object_object_add(t->call->round.answers, a->key,
		    json_object_get(value));
		json_object_object_del(t->requests, name);
		t->changed_ns = sbx_wall_ns();
	}
	if (json_object_object_length(t->requests) == 0)
		go_on(t);
	return (true);
}

/* --- its methods ---------------------------------------------------------- */

/* NULL: answered. */
static struct task *
named(const struct request *r)
{
	struct task *t = NULL;
	const char *id;
	size_t len;

	id = rpc_string(r, "taskId", &len, NULL);
	if (id == NULL)
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: taskId must be a string");
	else if ((t = task_find(r->f, r->to->client->principal, id)) == NULL)
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Task not found: there is none of this id, or it has "
		    "expired");
	return (t);
}

void
on_tasks_get(struct request *r)
{
	struct task *t = named(r);

	if (t == NULL)
		return;
	put_detailed(reply_begin(r->to, r->rev, r->id), t);
	reply_end(r->to);
}

/* Its work is killed; one that has ended stays as it is. */
void
on_tasks_cancel(struct request *r)
{
	struct task *t = named(r);

	if (t == NULL)
		return;
	if (t->call != NULL)
		calls_cancel(r->f, t->call);
	(void)reply_begin(r->to, r->rev, r->id);
	reply_end(r->to);
}

/* Answers to what was not asked are ignored. */
void
on_tasks_update(struct request *r)
{
	struct task *t = named(r);
	struct json_object *v = NULL;

	if (t == NULL)
		return;
	if (!json_object_object_get_ex(r->params, "inputResponses", &v) ||
	    !json_object_is_type(v, json_type_object)) {
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: inputResponses must be an object");
		return;
	}
	if (!take_answers(t, v)) {
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: an answer in inputResponses is none to "
		    "what was asked");
		return;
	}
	(void)reply_begin(r->to, r->rev, r->id);
	reply_end(r->to);
}
