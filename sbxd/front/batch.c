#include "sbxd/front/batch.h"

#include "common/base/json.h"
#include "sbxd/front/reply.h"

#include <string.h>

/* A sink of its own gathers the answers; notifications go past it. */
struct batch {
	struct sink sink;
	struct sink *to;	/* held until the end */
	struct sbx_buf answers;
};

static struct batch *
batch_of(struct sink *s)
{
	return ((struct batch *)((char *)s - offsetof(struct batch, sink)));
}

static void
batch_send(struct sink *s, bool last)
{
	struct batch *b = batch_of(s);

	if (last) {
		(void)sbx_buf_str(&b->answers, b->answers.len == 0 ? "[" : ",");
		(void)sbx_buf_add(&b->answers, s->out.data, s->out.len);
	} else {
		(void)sbx_buf_add(&b->to->out, s->out.data, s->out.len);
		b->to->send(b->to, false);
	}
	/* what did not fit is seen where the answers are sent */
	b->answers.overflow |= s->out.overflow;
	sbx_buf_clear(&s->out);
	sbx_buf_init(&s->out, SBX_FRONT_OUT_MAX);
}

/* All were answered, or cancelled; a batch of notifications has no answer. */
static void
batch_idle(struct sink *s)
{
	struct batch *b = batch_of(s);

	if (b->answers.len > 0) {
		(void)sbx_buf_str(&b->answers, "]");
		(void)sbx_buf_add(&b->to->out, b->answers.data,
		    b->answers.len);
		b->to->out.overflow |= b->answers.overflow;
		b->to->error = 0;
		b->to->send(b->to, true);
	}
	sink_release(b->to);
	sbx_buf_clear(&b->answers);
	sbx_buf_clear(&s->out);
	free(b);
}

/* The elements of a well-formed array, one after the other. */
static bool
next_element(const char **p, const char *end, const char **ret_text,
    size_t *ret_len)
{
	unsigned depth = 0;
	bool quoted = false;

	while (*p < end && strchr(" \t\r\n,", **p) != NULL)
		(*p)++;
	*ret_text = *p;
	for (; *p < end; (*p)++) {
		char ch = **p;

		if (quoted) {
			if (ch == '\\')
				(*p)++;
			quoted = ch != '"';
			continue;
		}
		quoted = ch == '"';
		if (ch == '{' || ch == '[')
			depth++;
		else if ((ch == '}' || ch == ']') && depth > 0)
			depth--;
		else if (ch == ',' || ch == ']')
			if (depth == 0)
				break;
	}
	*ret_len = (size_t)(*p - *ret_text);
	return (*ret_len > 0);
}

static void
element(struct sink *s, const char *text, size_t len, bool clean)
{
	const struct rev *rev = &revs[s->client->rev];

	if (*text == '{' && clean)
		rpc_object(s, text, len);
	else if (*text == '{')
		rpc_checked(s, text, len);
	else
		reply_error(s, rev, NULL, RPC_INVALID_REQUEST, NULL,
		    "Invalid request: not an object");
}

void
batch_run(struct sink *to, const char *text, size_t len, bool clean)
{
	struct batch *b = sbx_xcalloc(1, sizeof(*b));
	const char *p = text + 1, *end = text + len, *one;
	unsigned n = 0;
	size_t size;

	b->sink = (struct sink){ .f = to->f, .client = to->client,
		.http = to->http, .send = batch_send, .idle = batch_idle,
		.batched = true };
	b->to = to;
	sbx_buf_init(&b->sink.out, SBX_FRONT_OUT_MAX);
	sbx_buf_init(&b->answers, SBX_FRONT_OUT_MAX);
	sink_hold(to);
	sink_hold(&b->sink);
	while (n < SBX_MAX_BATCH && next_element(&p, end, &one, &size)) {
		element(&b->sink, one, size, clean);
		n++;
	}
	if (n == 0)
		reply_error(to, &revs[to->client->rev], NULL,
		    RPC_INVALID_REQUEST, NULL, "Invalid request: an empty "
		    "batch");
	else if (n == SBX_MAX_BATCH && next_element(&p, end, &one, &size))
		reply_error(&b->sink, &revs[to->client->rev], NULL,
		    RPC_INVALID_REQUEST, NULL, "Invalid request: more than "
		    "%u messages in one batch", SBX_MAX_BATCH);
	sink_release(&b->sink);
}
