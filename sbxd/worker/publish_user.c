#include "sbxd/worker/publish_user.h"

#include "common/base/json.h"
#include "common/base/limits.h"
#include "sbxd/worker/github.h"
#include "sbxd/worker/worker.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define QUESTION_MAX 16384u	/* with each byte of the paths escaped */

/* What he is asked: where it goes, what it is, and how much. */
static void
question_text(const struct ask_question *q, struct sbx_buf *b)
{
	const uint32_t all = q->declared + q->merged;
	const char *s = NULL;

	(void)sbx_buf_printf(b, "Publish to %s/%s, branch %s?\n\nCommit %s\n"
	    "on %s\n%u files, %u lines added, %u deleted\n", q->host,
	    q->repo, q->branch, q->commit, q->base, q->files, q->plus,
	    q->minus);
	if (q->merged > 0)
		(void)sbx_buf_printf(b, "and %u files as a merge brings them\n",
		    q->merged);
	(void)sbx_buf_str(b, "\n");
	while ((s = sbx_strs_next(&q->paths, s)) != NULL) {
		(void)gh_text(b, s, strlen(s), &(struct gh_text){
		    .line = true, .max = 4096 });
		(void)sbx_buf_str(b, "\n");
	}
	if (all > q->paths.count)
		(void)sbx_buf_printf(b, "and %u more\n", all -
		    q->paths.count);
}

/* NULL: he is asked now, by the result. */
static struct json_object *
answer(struct call *call, const struct ask_publish *st,
    const struct ask_question *q)
{
	SBX_CLEANUP_BUF struct sbx_buf text = { 0 }, b = { 0 };
	char state[128];
	struct json_object *o;

	sbx_buf_init(&text, QUESTION_MAX);
	sbx_buf_init(&b, 6 * QUESTION_MAX);
	question_text(q, &text);
	(void)sbx_buf_str(&b, "{\"message\":");
	(void)sbx_json_str(&b, text.data, text.len, NULL);
	(void)sbx_buf_str(&b, ",\"requestedSchema\":{\"type\":\"object\","
	    "\"properties\":{}}}");
	o = user_asked_of(call) != NULL ? call_answer(call, "confirm",
	    "elicitation/create") : NULL;
	if (o != NULL)
		return (o);
	call_ask_again(call, "confirm", "elicitation/create", b.data);
	(void)snprintf(state, sizeof(state), "{\"run_id\":\"%s\","
	    "\"commit\":\"%s\"}", st->id, q->commit);
	call_state(call, state);
	return (NULL);
}

const char *
user_asked_of(const struct call *call)
{
	struct json_object *o = call_state_get(call), *id;

	return (json_object_object_get_ex(o, "run_id", &id) ?
	    json_object_get_string(id) : NULL);
}

int
user_confirm(struct call *call, struct ask_publish *st,
    enum user_word *ret_word)
{
	struct json_object *o;
	struct ask_question q;
	char id[sizeof(st->id)];
	int r;

	*ret_word = USER_NONE;
	if ((call->client_can & SBX_CAN_ELICIT) == 0)
		return (0);
	memcpy(id, st->id, sizeof(id));
	r = publish_question(call->ask, id, &q);
	if (r != 0)
		return (r == SBX_E_POLICY ? 0 : r);
	if ((o = answer(call, st, &q)) == NULL) {
		*ret_word = USER_ASKED;
		return (0);
	}
	if (strcmp(gh_str(o, "action"), "accept") == 0)
		*ret_word = USER_SAID;
	r = publish_said(call->ask, id, st);
	if (r == SBX_E_POLICY) {	/* an operator was faster, or it ended */
		*ret_word = USER_NONE;
		r = publish_wait(call->ask, id, 0, st);
	}
	return (r);
}
