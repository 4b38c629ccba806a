/*
 * What a courier reads: the head of a request of git, where a host sends it
 * instead, an answer of the REST API and the body of a request to it.  The first
 * byte says which, the second one op and grant.  Beside crashes: what is
 * written anew must be what it is when it is read again, and nothing of what is
 * taken may lead anywhere but to the granted repository.
 */
#include "common/base/json.h"
#include "sbx-broker/courier/courier.h"
#include "sbx-broker/courier/fields.h"
#include "sbx-broker/courier/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
must(bool good)
{
	if (!good)
		abort();
}

static const struct request_grant *
grant(unsigned which)
{
	static const struct request_grant grants[] = {
		{ .op = SBX_GRANT_FETCH, .host = "github.com",
		    .repo = "acme/secret", .port = 443 },
		{ .op = SBX_GRANT_PUSH, .host = "ghe.test",
		    .repo = "acme/secret", .port = 8443 },
	};

	return (&grants[which % SBX_NELEM(grants)]);
}

static void
on_request(unsigned which, const char *p, size_t n)
{
	const struct request_grant *g = grant(which);
	struct sbx_http_head head;
	struct request r;
	const char *why;
	char *path;
	size_t used;

	if (sbx_http_head(p, n, &head, &used, &why) != 0 ||
	    request_judge(g, &head, &r) != NULL)
		return;
	path = request_path(g, &r);
	/* but for the case of its letters, what was asked for */
	must(head.path.len <= strlen(path) &&
	    strncasecmp(path, head.path.p, head.path.len) == 0);
	must(strncmp(path, "/acme/secret", 12) == 0 &&
	    strstr(path, request_service(g)) != NULL);
	must(r.rpc ? path[head.path.len] == '\0' && strchr(path, '?') == NULL :
	    path[head.path.len] == '?' && !head.chunked && head.length == 0);
	must(r.protocol == 0 || r.protocol == '1' || r.protocol == '2');
	must(!r.gzip || g->op == SBX_GRANT_FETCH);
	free(path);
}

static void
on_location(unsigned which, const char *p, size_t n)
{
	const struct request_grant *g = grant(which);
	const struct request r = { .rpc = which & 2 };
	char want[64];

	if (!request_location_is_good(g, &r, (struct sbx_text){ p, n }))
		return;
	(void)snprintf(want, sizeof(want), "https://%s/", g->host);
	must(n > strlen(want) && strncasecmp(p, want, strlen(want)) == 0);
	p += strlen(want);
	n -= strlen(want);
	must(memmem(p, n, "//", 2) == NULL && memmem(p, n, "/../", 4) == NULL);
	for (size_t i = 0; i < n; i++)
		must(p[i] > ' ' && p[i] <= '~' && p[i] != '@' && p[i] != '#');
}

/* The same bytes, twice. */
static void
same(const struct sbx_buf *a, const struct sbx_buf *b)
{
	must(a->len == b->len && memcmp(a->data, b->data, a->len) == 0);
}

static void
on_answer(unsigned which, const char *p, size_t n)
{
	enum sbx_rest_op op = (enum sbx_rest_op)(which % SBX_REST_OP_MAX);
	SBX_CLEANUP_BUF struct sbx_buf out = { 0 };
	SBX_CLEANUP_BUF struct sbx_buf again = { 0 };
	char text[200];

	fields_message(p, n, text, sizeof(text));
	must(memchr(text, '\0', sizeof(text)) != NULL);
	sbx_buf_init(&out, FIELDS_ANSWER_MAX);
	sbx_buf_init(&again, FIELDS_ANSWER_MAX);
	if (fields_answer(op, p, n, &out) != 0)
		return;
	must(fields_answer(op, out.data, out.len, &again) == 0);
	same(&out, &again);
}

static void
on_body(unsigned which, const char *p, size_t n)
{
	enum sbx_rest_op op = (enum sbx_rest_op)(which % SBX_REST_OP_MAX);
	SBX_CLEANUP_BUF struct sbx_buf out = { 0 };
	SBX_CLEANUP_BUF struct sbx_buf again = { 0 };
	const char *code;

	sbx_buf_init(&out, 2 * FIELDS_BODY_MAX);
	sbx_buf_init(&again, 2 * FIELDS_BODY_MAX);
	if (fields_body(op, false, p, n, &out, &code) != NULL) {
		must(strcmp(code, "bad_request") == 0 ||
		    strcmp(code, "bot_command") == 0);
		return;
	}
	/* escapes may have made it longer than what is taken */
	if (out.len > FIELDS_BODY_MAX)
		return;
	must(fields_body(op, true, out.data, out.len, &again, &code) == NULL);
	same(&out, &again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const readers[])(unsigned, const char *, size_t) = {
		on_request, on_location, on_answer, on_body };

	if (size >= 2)
		readers[data[0] % SBX_NELEM(readers)](data[1],
		    (const char *)data + 2, size - 2);
	return (0);
}
