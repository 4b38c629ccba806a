/*
 * A worker's life: one call at a time, until the monitor's channel ends.
 */

#include "sbxd/worker/worker.h"

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/mask.h"
#include "config.h"
#include "sbxd/front/tools/tools.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct served {
	const struct serve_row *row;
	const struct sbx_tool *tool;
	struct args_schema *schema;
	bool has_replaced;
} served[SBX_MAX_TOOLS];
static size_t served_n;

/* A few dozen names: a linear search is as good as any. */
static struct served *
find_served(const char *name)
{
	size_t i;

	for (i = 0; i < served_n; i++)
		if (strcmp(served[i].row->name, name) == 0)
			return (&served[i]);
	return (NULL);
}

static void
serve_row(const struct serve_row *row)
{
	struct served *s = &served[served_n];
	struct sbx_err err;

	if (find_served(row->name) != NULL)
		return;	/* an earlier table has taken it over */
	if (served_n == SBX_NELEM(served))
		sbx_fatal("more than %zu tools", served_n);
	s->row = row;
	s->tool = row->tool != NULL ? row->tool :
	    sbx_tool_find(row->name, strlen(row->name));
	if (s->tool == NULL)
		sbx_fatal("tool %s has no schema", row->name);
	s->schema = args_compile(s->tool, &err);
	if (s->schema == NULL)
		sbx_fatal("schema of %s: %s", row->name, err.msg);
	s->has_replaced = s->tool->output_schema != NULL &&
	    strstr(s->tool->output_schema, "\"replaced_bytes\"") != NULL;
	served_n++;
}

void
serve_init(void)
{
	const struct serve_table *table;
	const struct sbx_tool *t;
	size_t i;

	for (table = serve_tables; table->rows != NULL; table++)
		for (i = 0; i < *table->n; i++)
			serve_row(&table->rows[i]);
	for (i = 0; (t = sbx_tool_at(i)) != NULL; i++)
		if (find_served(t->name) == NULL)
			sbx_fatal("tool %s is listed but not served", t->name);
}

/* --- what tools use ------------------------------------------------------- */

uint32_t
call_elapsed_ms(const struct call *call)
{
	uint64_t ms = (sbx_mono_ns() - call->started_ns) / 1000000;

	return (ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms);
}

uint32_t
call_left_ms(const struct call *call)
{
	uint32_t ms = call_elapsed_ms(call);
	uint64_t limit = WORKER_CALL_MS;

	if (call->patient && call->exec_timeout_ms > limit)
		limit = call->exec_timeout_ms < UINT32_MAX ?
		    call->exec_timeout_ms : UINT32_MAX;
	return (ms < limit ? (uint32_t)limit - ms : 0);
}

int
call_progress(struct call *call, uint64_t total, const char *message)
{
	uint64_t done = call_elapsed_ms(call);

	if (!call->want_progress)
		return (0);
	/* MCP: progress must increase with each notification. */
	if (done <= call->progress)
		done = call->progress + 1;
	call->progress = done;
	return (work_progress(call->ask, done, total > done ? total : 0,
	    message));
}

int
call_log(struct call *call, enum sbx_mcp_level level, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	size_t len;

	if (call->log_level == SBX_MCP_NONE || level < call->log_level)
		return (0);
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut is good enough */
	va_end(ap);
	len = strlen(text);
	(void)sbx_mask(text, &len);
	text[len] = '\0';
	return (work_log(call->ask, level, text));
}

int
call_refused(struct call *call, int error)
{
	const struct ask_refused *r = &call->ask->refused;

	if (error != SBX_E_POLICY)
		return (error);
	result_error(call->res, r->code[0] != '\0' ? r->code : "refused",
	    r->next, "%s", r->reason[0] != '\0' ? r->reason :
	    "The monitor refused this.");
	return (0);
}

/* --- one call ------------------------------------------------------------- */

/*
 * The monitor counts a call against the sandbox that the front named; what
 * the arguments say must be that one.  (Whose it is, it checks itself, at
 * each request.)
 */
static bool
bound(struct call *call)
{
	const char *arg = call->tool->container_arg, *named;

	if (arg == NULL)
		return (true);
	named = args_str(&call->args, arg, NULL);
	if (strcmp(named == NULL ? "" : named, call->container) == 0)
		return (true);
	result_error(call->res, "bad_call", NULL,
	    "The call was bound to another sandbox than its \"%s\".", arg);
	return (false);
}

static int
run(struct call *call, const struct served *s, int fd)
{
	SBX_CLEANUP(free) char *text = NULL;
	size_t len;
	int error;

	if (sbx_memfd_read(fd, SBX_MAX_JSON, &text, &len) != 0) {
		result_error(call->res, "bad_argument", NULL,
		    "The arguments could not be read.");
		return (0);
	}
	error = args_check(s->schema, text, len, &call->args, call->res);
	if (error == 0 && bound(call))
		error = s->row->fn(call);
	else
		error = 0;
	args_clear(&call->args);
	return (error);
}

/* The channel failed under the call: nobody may hear this, but say it. */
static void
channel_error(struct result *res, int error)
{
	result_error(res, error == SBX_E_TIMEOUT ? "timeout" : "internal",
	    "Call again; sandbox_list_containers shows what there is.",
	    error == SBX_E_TIMEOUT ?
	    "The server did not answer in time (%s)." :
	    "The server's parts are out of step (%s).",
	    sbx_error_name(error));
}

static int
send_result(struct ask *ask, uint32_t id, const struct result *res)
{
	SBX_CLEANUP(fd) int fd = -1;
	struct sbx_work_result m = { .kind = (uint8_t)res->kind };
	int error;

	error = sbx_memfd_sealed("result", res->text.data, res->text.len,
	    &fd);
	if (error != 0)
		return (error);
	return (sbx_chan_send(&ask->chan, SBX_MSG_WORK_RESULT, id, &m, &fd,
	    ASK_MS));
}

/* chan.in holds WORK_CALL.  0, or the channel's end. */
static int
on_work_call(struct ask *ask)
{
	const struct sbx_work_call *m = &ask->chan.in->m.work_call;
	SBX_CLEANUP(fd) int fd = sbx_steal_fd(&ask->chan.in->fds[0]);
	uint32_t id = ask->chan.in->hdr.id;
	const struct served *s = find_served(m->tool);
	struct result res;
	struct call call = {
		.ask = ask, .res = &res, .started_ns = sbx_mono_ns(),
		.exec_timeout_ms = m->exec_timeout_ms,
		.want_progress = m->want_progress != 0,
		.patient = m->patient != 0, .log_level = m->log_level,
		.client_can = m->client_can,
	};
	int error = 0;

	if (sbx_strlcpy(call.container, m->container,
	    sizeof(call.container)) != 0)
		return (SBX_E_DECODE);
	call.inputs = call_inputs(m->inputs);
	result_init(&res);
	if (s == NULL) {
		result_error(&res, "unknown_tool", NULL,
		    "There is no such tool.");
	} else {
		call.tool = s->tool;
		error = run(&call, s, fd);
	}
	if (error != 0)
		channel_error(&res, error);
	call_inputs_finish(&call);
	result_finish(&res, s != NULL && s->has_replaced);
	if (error != SBX_E_CLOSED && send_result(ask, id, &res) != 0)
		error = SBX_E_CLOSED;
	result_clear(&res);
	json_object_put(call.inputs);
	return (error);
}

static void
on_log(void *arg, enum sbx_log_level level, const char *text)
{
	struct ask *ask = arg;
	struct sbx_log m = { .level = (uint8_t)level, .text = text };

	/* A log line that cannot be sent has nowhere else to go. */
	(void)sbx_chan_send(&ask->chan, SBX_MSG_LOG, 0, &m, NULL, 1000);
}

int
serve(int fd, uint32_t features)
{
	struct sbx_hello hello = { .version = PACKAGE_VERSION,
		.pid = (uint32_t)getpid(), .features = features };
	struct ask ask;
	unsigned calls;
	int error;

	ask_init(&ask, fd);
	sbx_log_to(on_log, &ask);
	error = sbx_chan_send(&ask.chan, SBX_MSG_HELLO, 0, &hello, NULL,
	    ASK_MS);
	for (calls = 0; error == 0 && calls < SBX_WORKER_CALLS; calls++) {
		error = sbx_chan_recv(&ask.chan, -1);
		if (error != 0)
			break;
		if (ask.chan.in->hdr.type != SBX_MSG_WORK_CALL) {
			log_err("message is no call, ending type=%u",
			    ask.chan.in->hdr.type);
			error = SBX_E_STATE;
			break;
		}
		error = on_work_call(&ask);
	}
	sbx_log_to(NULL, NULL);
	ask_clear(&ask);
	return (error == 0 || error == SBX_E_CLOSED ? 0 : 3);
}
