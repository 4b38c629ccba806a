#include "sbxd/front/subs.h"

#include "common/base/json.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/methods.h"
#include "sbxd/front/reply.h"
#include "sbxd/front/tasks.h"

#include <json-c/json.h>
#include <string.h>

#define ID_KEY "io.modelcontextprotocol/subscriptionId"
/* What a listening client names, and in what shape it is repeated. */
static const char *const filters[SUB_MAX] = {
	[SUB_RESOURCE] = "resourceSubscriptions",
	[SUB_TASK] = "taskIds",
};

/* --- the table ------------------------------------------------------------ */

static bool
is(const struct sub *s, const struct client *client, const struct call *listen,
    enum sub_kind kind, const char *name)
{
	return (s->client == client && s->listen == listen &&
	    s->kind == kind && strcmp(s->name, name) == 0);
}

int
subs_add(struct front *f, struct client *client, struct call *listen,
    enum sub_kind kind, const char *name, const char *watch)
{
	size_t len = strlen(name);
	unsigned own = 0;
	struct sub *s;

	for (s = f->subs; s != NULL; s = s->next) {
		if (is(s, client, listen, kind, name))
			return (0);
		own += s->client->principal == client->principal;
	}
	if (f->nsubs >= SBX_MAX_SUBS || own >= SBX_MAX_SUBS_CLIENT)
		return (SBX_E_LIMIT);
	if (strlen(watch) > SUB_WATCH_MAX)
		return (SBX_E_RANGE);
	s = sbx_xcalloc(1, sizeof(*s) + len + 1);
	s->kind = kind;
	s->client = client;
	s->listen = listen;
	(void)sbx_strlcpy(s->watch, watch, sizeof(s->watch));
	memcpy(s->name, name, len + 1);
	s->next = f->subs;
	f->subs = s;
	f->nsubs++;
	return (0);
}

static void
drop(struct front *f, struct sub **p)
{
	struct sub *s = *p;

	*p = s->next;
	f->nsubs--;
	free(s);
}

void
subs_drop(struct front *f, const struct client *client,
    const struct call *listen)
{
	struct sub **p = &f->subs;

	while (*p != NULL)
		if ((*p)->client == client || (listen != NULL &&
		    (*p)->listen == listen))
			drop(f, p);
		else
			p = &(*p)->next;
}

/* --- telling --------------------------------------------------------------- */

static void
put_id(struct sbx_buf *b, const struct call *listen)
{
	reply_name(b, "_meta");
	(void)sbx_buf_printf(b, "{\"" ID_KEY "\":%s}", listen->id);
}

static struct sbx_buf *
begin(struct sink *to, const struct call *listen, const char *method)
{
	/* an overflow is seen by the sink */
	(void)sbx_buf_printf(&to->out, "{\"jsonrpc\":\"2.0\",\"method\":"
	    "\"notifications/%s\",\"params\":{", method);
	if (listen != NULL)
		put_id(&to->out, listen);
	return (&to->out);
}

struct sink *
subs_begin(struct sub *s, const char *method)
{
	struct sink *to = NULL;

	if (s->listen != NULL)
		to = s->listen->to;
	else if (s->client->events != NULL)
		to = s->client->events(s->client);
	if (to != NULL)
		(void)begin(to, s->listen, method);
	return (to);
}

void
subs_end(struct sink *to)
{
	(void)sbx_buf_str(&to->out, "}}");
	to->send(to, false);
}

static void
put_text(struct sbx_buf *b, const char *s)
{
	(void)sbx_json_str(b, s, strlen(s), NULL);
}

/* Is a request under way after which somebody may want to know? */
static bool
any_asking(const struct front *f)
{
	size_t i;

	for (i = 0; i < SBX_FRONT_CALLS; i++)
		if (f->calls[i] != NULL && f->calls[i]->kind == CALL_FORWARD &&
		    (f->calls[i]->method == METHOD_SUBSCRIBE ||
		    f->calls[i]->method == METHOD_LISTEN))
			return (true);
	return (false);
}

/*
 * Tell of *p, or keep it for when its client opens a place for it.  What has
 * ended changes no more: that one is dropped.  true: *p is the next one now.
 */
static bool
updated(struct front *f, struct sub **p, bool ended)
{
	struct sub *s = *p;
	struct sink *to = subs_begin(s, "resources/updated");

	ended |= s->ended;
	s->due = to == NULL;
	s->ended = ended;
	if (to == NULL)
		return (false);
	reply_name(&to->out, "uri");
	put_text(&to->out, s->name);
	subs_end(to);
	if (ended)
		drop(f, p);
	return (ended);
}

/*
 * That nobody wants to know is told to the monitor, unless a request for it is
 * on its way: what is asked later comes after this on the same channel.
 */
void
subs_run_changed(struct front *f, uint64_t principal, const char *run,
    bool ended)
{
	bool wanted = ended || any_asking(f);
	struct sub **p = &f->subs, *s;

	while ((s = *p) != NULL) {
		if (s->kind == SUB_RESOURCE && strcmp(s->watch, run) == 0) {
			wanted = true;
			if (s->client->principal == principal &&
			    updated(f, p, ended))
				continue;
		}
		p = &s->next;
	}
	if (!wanted)
		(void)monitor_unwatch(f, principal, run);
}

void
subs_reopened(struct front *f, const struct client *client)
{
	struct sub **p = &f->subs, *s;

	while ((s = *p) != NULL)
		if (s->client != client || !s->due || !updated(f, p, s->ended))
			p = &s->next;
}

/* --- granted ---------------------------------------------------------------- */

static const char *
string_of(struct json_object *o, const char *name)
{
	struct json_object *v;

	return (json_object_object_get_ex(o, name, &v) &&
	    json_object_is_type(v, json_type_string) ?
	    json_object_get_string(v) : NULL);
}

/* Enter the items of `granted`; listen NULL: without a listening request. */
static int
add_granted(struct call *call, struct call *listen, const char *text,
    size_t len)
{
	struct json_object *o, *list = NULL, *item;
	const char *uri, *watch;
	size_t i, n = 0;
	int r = 0;

	o = len <= SBX_MAX_ENVELOPE ? json_tokener_parse(text) : NULL;
	if (json_object_object_get_ex(o, "granted", &list) &&
	    json_object_is_type(list, json_type_array))
		n = json_object_array_length(list);
	for (i = 0; i < n && r == 0; i++) {
		item = json_object_array_get_idx(list, i);
		uri = string_of(item, "uri");
		watch = string_of(item, "watch");
		if (uri != NULL && watch != NULL)
			r = subs_add(call->to->f, call->to->client, listen,
			    SUB_RESOURCE, uri, watch);
	}
	json_object_put(o);
	return (r);
}

int
subs_granted(struct call *call, const char *text, size_t len)
{
	return (add_granted(call, NULL, text, len));
}

void
on_unsubscribe(struct request *r)
{
	struct sub **p;
	size_t len;
	const char *uri = rpc_string(r, "uri", &len, NULL);

	if (uri == NULL) {
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: uri must be a string");
		return;
	}
	for (p = &r->f->subs; *p != NULL; p = &(*p)->next)
		if (is(*p, r->to->client, NULL, SUB_RESOURCE, uri)) {
			drop(r->f, p);
			break;
		}
	(void)reply_begin(r->to, r->rev, r->id);
	reply_end(r->to);
}

/* --- listening -------------------------------------------------------------- */

/* The first message of it, which names all that will be told. */
static void
acknowledge(struct call *call)
{
	struct sbx_buf *b = begin(call->to, call, "subscriptions/acknowledged");
	const struct sub *s;
	bool any;
	size_t i;

	reply_name(b, "notifications");
	(void)sbx_buf_str(b, "{");
	for (i = 0; i < SUB_MAX; i++) {
		any = false;
		for (s = call->to->f->subs; s != NULL; s = s->next) {
			if (s->listen != call || s->kind != i)
				continue;
			if (!any)
				reply_name(b, filters[i]);
			(void)sbx_buf_str(b, any ? "," : "[");
			put_text(b, s->name);
			any = true;
		}
		if (any)
			(void)sbx_buf_str(b, "]");
	}
	(void)sbx_buf_str(b, "}");
	subs_end(call->to);
	tasks_listened(call);
}

bool
subs_listen(struct call *call, const char *text, size_t len)
{
	struct front *f = call->to->f;

	if (calls_listen(f, call) == 0 &&
	    add_granted(call, call, text, len) == 0) {
		acknowledge(call);
		return (true);
	}
	reply_error(call->to, call->rev, call->id, RPC_INTERNAL_ERROR, NULL,
	    "Too many subscriptions; at most %u are kept for one client",
	    SBX_MAX_SUBS_CLIENT);
	return (false);
}

/* What is wrong with a list of strings, or NULL. */
static const char *
wrong_list(struct json_object *v)
{
	size_t i, n;

	if (!json_object_is_type(v, json_type_array))
		return ("must be an array");
	n = json_object_array_length(v);
	if (n > SBX_MAX_SUBS_CLIENT)
		return ("has too many items");
	for (i = 0; i < n; i++)
		if (!json_object_is_type(json_object_array_get_idx(v, i),
		    json_type_string) || json_object_get_string_len(
		    json_object_array_get_idx(v, i)) > 1024)
			return ("must have strings of at most 1024 bytes");
	return (NULL);
}

/* Those of its own, which only a client that declared tasks may name. */
static void
add_tasks(struct call *call, struct json_object *ids)
{
	size_t i, n = ids == NULL ? 0 : json_object_array_length(ids);
	const char *id;

	for (i = 0; call != NULL && i < n; i++) {
		id = json_object_get_string(json_object_array_get_idx(ids, i));
		if (tasks_has(call->to->f, call->to->client->principal, id))
			(void)subs_add(call->to->f, call->to->client, call,
			    SUB_TASK, id, "");	/* too many: not named */
	}
}

/* true: refused, and answered. */
static bool
tasks_refused(struct request *r, struct json_object *ids)
{
	const char *wrong = NULL;

	if (ids == NULL)
		return (false);
	if (!tasks_wanted(r))
		reply_error(r->to, r->rev, r->id, RPC_MISSING_CAPABILITY,
		    TASKS_REQUIRED, "Missing required client capability");
	else if ((wrong = wrong_list(ids)) != NULL)
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: %s %s", filters[SUB_TASK], wrong);
	return (!tasks_wanted(r) || wrong != NULL);
}

/*
 * The stream stays open until the client ends it, also where nothing of what
 * it asks for ever changes: clients open an ended one again and again.
 */
void
on_listen(struct request *r)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct json_object *v, *uris = NULL, *ids = NULL;
	const char *wrong = NULL;
	struct call *call;

	if (r->params == NULL ||
	    !json_object_object_get_ex(r->params, "notifications", &v) ||
	    !json_object_is_type(v, json_type_object)) {
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: notifications must be an object");
		return;
	}
	if (json_object_object_get_ex(v, filters[SUB_RESOURCE], &uris))
		wrong = wrong_list(uris);
	if (wrong != NULL) {
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: %s %s", filters[SUB_RESOURCE], wrong);
		return;
	}
	(void)json_object_object_get_ex(v, filters[SUB_TASK], &ids);
	if (tasks_refused(r, ids))
		return;
	if (uris == NULL || json_object_array_length(uris) == 0) {
		call = calls_start(r, CALL_LISTEN, "", "",
		    (struct span){ 0 });
		add_tasks(call, ids);
		if (call != NULL)
			acknowledge(call);
		return;
	}
	sbx_buf_init(&b, SBX_MAX_ENVELOPE);
	(void)sbx_buf_printf(&b, "{\"uris\":%s}",
	    json_object_to_json_string_ext(uris, JSON_C_TO_STRING_PLAIN));
	if (b.overflow)
		reply_error(r->to, r->rev, r->id, RPC_INVALID_PARAMS, NULL,
		    "Invalid params: %s is too long", filters[SUB_RESOURCE]);
	else
		add_tasks(calls_start(r, CALL_FORWARD, methods[r->method].name,
		    "", (struct span){ b.data, b.len }), ids);
}

/* Source: MCP revision 2026-07-28, subscriptions, graceful closure. */
void
subs_close(struct front *f)
{
	struct call *call;
	struct sbx_buf *b;
	size_t i;

	for (i = 0; i < SBX_FRONT_CALLS; i++) {
		call = f->calls[i];
		if (call == NULL || call->kind != CALL_LISTEN)
			continue;
		b = &call->to->out;
		call->to->error = 0;
		(void)sbx_buf_printf(b, "{\"jsonrpc\":\"2.0\",\"id\":%s,"
		    "\"result\":{\"resultType\":\"complete\"", call->id);
		put_id(b, call);
		(void)sbx_buf_str(b, "}}");
		call->to->send(call->to, true);
		calls_free(f, call);
	}
}
