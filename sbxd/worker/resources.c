/*
 * Outputs as MCP resources: sbx://run/<run_id>/<stdout|stderr>, with
 * ?offset=LINE for a later page.
 * Source: MCP revision 2025-06-18, server/resources.
 */

#include "common/base/limits.h"
#include "sbxd/front/tools/tools.h"
#include "sbxd/worker/output.h"
#include "sbxd/worker/worker.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#define PREFIX "sbx://run/"
#define PREFIX_LEN (sizeof(PREFIX) - 1)
#define LIST_PAGE 100u

struct uri {
	char run[SBX_RUN_HEX + 1];
	enum sbx_stream stream;
	uint64_t offset;
};

static bool
parse_uri(const char *s, struct uri *ret_uri)
{
	static const char *const names[SBX_STREAM_MAX] = { "stdout",
		"stderr" };
	size_t i, n;

	if (strncmp(s, PREFIX, PREFIX_LEN) != 0 ||
	    strlen(s) < PREFIX_LEN + SBX_RUN_HEX + 1)
		return (false);
	memcpy(ret_uri->run, s + PREFIX_LEN, SBX_RUN_HEX);
	ret_uri->run[SBX_RUN_HEX] = '\0';
	ret_uri->offset = 0;
	s += PREFIX_LEN + SBX_RUN_HEX;
	if (!sbx_is_hex(ret_uri->run, SBX_RUN_HEX) || *s++ != '/')
		return (false);
	for (i = 0; i < SBX_STREAM_MAX; i++) {
		n = strlen(names[i]);
		if (strncmp(s, names[i], n) != 0)
			continue;
		ret_uri->stream = (enum sbx_stream)i;
		s += n;
		return (*s == '\0' || (strncmp(s, "?offset=", 8) == 0 &&
		    sbx_parse_u64(s + 8, 0, 1000000000, &ret_uri->offset) ==
		    0));
	}
	return (false);
}

static void
put_contents(struct call *call, const char *uri, struct output_page *p)
{
	struct result *r = call->res;
	uint64_t next = p->first + p->shown;

	/* A client that reads a resource has no other place to see it. */
	p->text.max += 200;
	if (next < p->total_lines)
		(void)sbx_buf_printf(&p->text, "[%" PRIu64 " more lines: read "
		    "this URI with ?offset=%" PRIu64 "]\n",
		    p->total_lines - next, next);
	result_open(r, "contents", '[');
	result_open(r, NULL, '{');
	result_str(r, "uri", uri);
	result_str(r, "mimeType", "text/plain");
	result_strn(r, "text", p->text.len > 0 ? p->text.data : "",
	    p->text.len);
	result_close(r, '}');
	result_close(r, ']');
}

static int
no_resource(struct call *call, const char *uri, const char *why)
{
	result_error(call->res, "not_found", NULL, "%s", why);
	result_str(call->res, "uri", uri);
	return (0);
}

int
resources_read(struct call *call)
{
	const char *text = args_str(&call->args, "uri", NULL);
	struct output_page p;
	struct uri uri;
	int error;

	if (!parse_uri(text, &uri))
		return (no_resource(call, text, "No such resource: the URI "
		    "must be sbx://run/RUN_ID/stdout or .../stderr."));
	error = output_page(call, uri.run, uri.stream, uri.offset, 1000000, 0,
	    &p);
	if (error == 0 && !p.known)
		(void)no_resource(call, text,
		    "The output of that run is not stored (any more).");
	else if (error == 0)
		put_contents(call, text, &p);
	output_page_clear(&p);
	return (call_refused(call, error));
}

/* --- changes ---------------------------------------------------------------- */

/*
 * An item of `granted`: the URI, and what it is told by when it changes.  Not
 * a resource of this principal, or one that nothing tells of: none.
 * *ret_granted says which.  As tool_fn.
 */
static int
put_watched(struct call *call, const char *text, bool *ret_granted)
{
	struct ask_run run;
	struct uri uri;
	int error;

	*ret_granted = false;
	if (!parse_uri(text, &uri))
		return (0);
	error = run_watch(call->ask, uri.run, &run);
	if (error != 0)
		return (error == SBX_E_POLICY ? 0 : error);
	*ret_granted = true;
	result_open(call->res, NULL, '{');
	result_str(call->res, "uri", text);
	result_str(call->res, "watch", uri.run);
	result_close(call->res, '}');
	return (0);
}

int
resources_subscribe(struct call *call)
{
	const char *text = args_str(&call->args, "uri", NULL);
	bool granted;
	int error;

	result_open(call->res, "granted", '[');
	error = put_watched(call, text, &granted);
	result_close(call->res, ']');
	if (error == 0 && !granted)
		result_error(call->res, "not_found", NULL,
		    "No such resource, or it does not change.");
	return (error);
}

/* What cannot be granted is left out: the client sees which. */
int
resources_listen(struct call *call)
{
	struct json_object *uris = args_json(&call->args, "uris");
	size_t i, n = json_object_array_length(uris);
	bool granted;
	int error = 0;

	result_open(call->res, "granted", '[');
	for (i = 0; i < n && error == 0; i++)
		error = put_watched(call, json_object_get_string(
		    json_object_array_get_idx(uris, i)), &granted);
	result_close(call->res, ']');
	return (error);
}

/* --- lists ------------------------------------------------------------------ */

static void
put_resource(struct result *r, const struct ask_run *run, bool err)
{
	const char *stream = err ? "stderr" : "stdout";

	result_open(r, NULL, '{');
	result_printf(r, "uri", PREFIX "%s/%s", run->run, stream);
	result_printf(r, "name", "%s %s", run->run, stream);
	result_printf(r, "description", "%s of a %s run in sandbox %s",
	    stream, run->tool, run->container);
	result_str(r, "mimeType", "text/plain");
	result_u64(r, "size", err ? run->err_bytes : run->out_bytes);
	result_close(r, '}');
}

int
resources_list(struct call *call)
{
	SBX_CLEANUP(free) struct ask_run *runs =
	    sbx_xcalloc(LIST_PAGE + 1, sizeof(*runs));
	const char *cursor = args_str(&call->args, "cursor", NULL);
	uint64_t skip = 0;
	size_t i, n;
	int error;

	if (cursor != NULL &&
	    sbx_parse_u64(cursor, 0, SBX_MAX_RUNS, &skip) != 0) {
		result_error(call->res, "bad_cursor", NULL,
		    "\"cursor\" is not one that this server gave.");
		return (0);
	}
	/* One more than a page tells whether there is another. */
	error = run_list(call->ask, (uint32_t)skip, LIST_PAGE + 1, runs, &n);
	if (error != 0)
		return (call_refused(call, error));
	result_open(call->res, "resources", '[');
	for (i = 0; i < n && i < LIST_PAGE; i++) {
		put_resource(call->res, &runs[i], false);
		if (runs[i].err_bytes > 0)
			put_resource(call->res, &runs[i], true);
	}
	result_close(call->res, ']');
	if (n > LIST_PAGE)
		result_printf(call->res, "nextCursor", "%" PRIu64,
		    skip + LIST_PAGE);
	return (0);
}

bool
cursor_refused(struct call *call)
{
	if (!args_has(&call->args, "cursor"))
		return (false);
	result_error(call->res, "bad_cursor", NULL,
	    "\"cursor\" is not one that this server gave.");
	return (true);
}

int
resources_templates(struct call *call)
{
	struct result *r = call->res;

	if (cursor_refused(call))
		return (0);
	result_open(r, "resourceTemplates", '[');
	result_open(r, NULL, '{');
	result_str(r, "uriTemplate", RESOURCE_TEMPLATE);
	result_str(r, "name", "run-output");
	result_str(r, "title", "Output of a run");
	result_str(r, "description", "What a run wrote; stream is stdout or "
	    "stderr. A long one is paged: its last line says how to go on.");
	result_str(r, "mimeType", "text/plain");
	result_close(r, '}');
	result_close(r, ']');
	return (0);
}
