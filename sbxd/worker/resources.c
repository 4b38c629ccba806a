/*
 * Runs as MCP resources: sbx://run/<run_id>/<stdout|stderr>, with
 * ?offset=LINE for a later page, and sbx://run/<run_id>/journal.
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

#define JOURNAL SBX_STREAM_MAX	/* beside the streams */

static const char *const parts[] = { "stdout", "stderr", "journal" };

struct uri {
	char run[SBX_RUN_HEX + 1];
	enum sbx_stream part;
	uint64_t offset;
};

static bool
parse_uri(const char *s, struct uri *ret_uri)
{
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
	for (i = 0; i < SBX_NELEM(parts); i++) {
		n = strlen(parts[i]);
		if (strncmp(s, parts[i], n) != 0)
			continue;
		ret_uri->part = (enum sbx_stream)i;
		s += n;
		return (*s == '\0' || (i != JOURNAL && strncmp(s, "?offset=",
		    8) == 0 && sbx_parse_u64(s + 8, 0, 1000000000,
		    &ret_uri->offset) == 0));
	}
	return (false);
}

static void
put_contents(struct result *r, const char *uri, const char *type,
    const struct sbx_buf *text)
{
	result_open(r, "contents", '[');
	result_open(r, NULL, '{');
	result_str(r, "uri", uri);
	result_str(r, "mimeType", type);
	result_strn(r, "text", text->len > 0 ? text->data : "", text->len);
	result_close(r, '}');
	result_close(r, ']');
}

static void
put_page(struct call *call, const char *uri, struct output_page *p)
{
	uint64_t next = p->first + p->shown;

	/* A client that reads a resource has no other place to see it. */
	p->text.max += 200;
	if (next < p->total_lines)
		(void)sbx_buf_printf(&p->text, "[%" PRIu64 " more lines: read "
		    "this URI with ?offset=%" PRIu64 "]\n",
		    p->total_lines - next, next);
	put_contents(call->res, uri, "text/plain", &p->text);
}

/* The lines as they are: one JSON object each. */
static int
put_journal(struct call *call, const char *uri, const char *run)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	const char *text, *sep = "";
	uint32_t dropped;
	size_t n;
	int error;

	error = run_journal(call->ask, run, &text, &dropped);
	if (error != 0)
		return (call_refused(call, error));
	sbx_buf_init(&b, SBX_RUN_RECORDS_BYTES + 256);
	(void)sbx_buf_str(&b, "{\"records\":[");
	for (; (n = strcspn(text, "\n")) > 0; text += n + (text[n] != '\0')) {
		(void)sbx_buf_str(&b, sep);
		(void)sbx_buf_add(&b, text, n);
		sep = ",\n";
	}
	(void)sbx_buf_printf(&b, "],\"dropped\":%" PRIu32 "}\n", dropped);
	put_contents(call->res, uri, "application/json", &b);
	return (0);
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
		    "must be sbx://run/RUN_ID/stdout, .../stderr or "
		    ".../journal."));
	if (uri.part == JOURNAL)
		return (put_journal(call, text, uri.run));
	error = output_page(call, uri.run, uri.part, uri.offset, 1000000, 0,
	    &p);
	if (error == 0 && !p.known)
		(void)no_resource(call, text,
		    "The output of that run is not stored (any more).");
	else if (error == 0)
		put_page(call, text, &p);
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
put_resource(struct result *r, const struct ask_run *run, size_t part)
{
	result_open(r, NULL, '{');
	result_printf(r, "uri", PREFIX "%s/%s", run->run, parts[part]);
	result_printf(r, "name", "%s %s", run->run, parts[part]);
	result_printf(r, "description", "%s of a %s run in sandbox %s",
	    parts[part], run->tool, run->container);
	result_str(r, "mimeType", part == JOURNAL ? "application/json" :
	    "text/plain");
	if (part != JOURNAL)
		result_u64(r, "size", part == SBX_STREAM_ERR ?
		    run->err_bytes : run->out_bytes);
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
		put_resource(call->res, &runs[i], SBX_STREAM_OUT);
		if (runs[i].err_bytes > 0)
			put_resource(call->res, &runs[i], SBX_STREAM_ERR);
		put_resource(call->res, &runs[i], JOURNAL);
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

static const struct {
	const char *uri, *name, *title, *about, *type;
} templates[] = {
	{ RESOURCE_TEMPLATE, "run-output", "Output of a run", "What a run "
	    "wrote; stream is stdout or stderr. A long one is paged: its last "
	    "line says how to go on.", "text/plain" },
	{ JOURNAL_TEMPLATE, "run-journal", "Journal of a run", "What the "
	    "audit journal was sent of a run, secrets masked, oldest first; "
	    "dropped counts what was too much to keep here.",
	    "application/json" },
};

int
resources_templates(struct call *call)
{
	struct result *r = call->res;
	size_t i;

	if (cursor_refused(call))
		return (0);
	result_open(r, "resourceTemplates", '[');
	for (i = 0; i < SBX_NELEM(templates); i++) {
		result_open(r, NULL, '{');
		result_str(r, "uriTemplate", templates[i].uri);
		result_str(r, "name", templates[i].name);
		result_str(r, "title", templates[i].title);
		result_str(r, "description", templates[i].about);
		result_str(r, "mimeType", templates[i].type);
		result_close(r, '}');
	}
	result_close(r, ']');
	return (0);
}
