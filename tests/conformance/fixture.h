#ifndef SBX_TESTS_FIXTURE_H
#define SBX_TESTS_FIXTURE_H

/*
 * The tools, prompts and resources that the official conformance suites call
 * by name.  They exist in two programs of the build tree, sbxd-front and
 * sbxd-worker of tests/conformance, and in nothing that is installed.
 *
 * One more family: its file exports fixture_X_tools, fixture_X_tools_n and
 * fixture_NAME() for each; a line in tables.c, one in rows.c for each tool.
 */

#include "sbxd/front/tools/schema.h"
#include "sbxd/front/tools/tools.h"
#include "sbxd/worker/worker.h"

#define FIXTURE_ANY_IN "{\"type\":\"object\",\"properties\":{}," \
	"\"required\":[],\"additionalProperties\":false}"

extern const struct serve_row fixture_rows[];
extern const size_t fixture_rows_n;
extern const struct sbx_tool fixture_basic_tools[];
extern const size_t fixture_basic_tools_n;
extern const struct sbx_tool fixture_input_tools[];
extern const size_t fixture_input_tools_n;

/* Members of the result as they are: "\"content\":[...]".  Returns 0. */
int fixture_raw(struct call *call, const char *members);
/* `messages` of one text, which the user says. */
void fixture_user_text(struct call *call, const char *fmt, ...)
    SBX_PRINTF(2, 3);
/* `content` of one text. */
int fixture_text(struct call *call, const char *fmt, ...) SBX_PRINTF(2, 3);
void fixture_sleep(unsigned ms);

/* fixture.c */
int fixture_constant(struct call *call);
int fixture_tool_with_logging(struct call *call);
int fixture_tool_with_progress(struct call *call);
int fixture_error_handling(struct call *call);
int fixture_reconnection(struct call *call);
int fixture_prompts_list(struct call *call);
int fixture_prompts_get(struct call *call);
int fixture_complete(struct call *call);
int fixture_resources_list(struct call *call);
int fixture_resources_templates(struct call *call);
int fixture_resources_read(struct call *call);
int fixture_resources_subscribe(struct call *call);
/* fixture_input.c */
int fixture_ask_once(struct call *call);
int fixture_ask_name(struct call *call);
int fixture_ask_state(struct call *call);
int fixture_ask_many(struct call *call);
int fixture_ask_twice(struct call *call);
int fixture_ask_able(struct call *call);
int fixture_ask_prompt(struct call *call);
int fixture_elicitation(struct call *call);
int fixture_sampling(struct call *call);

/* fixture_tasks.c */
extern const struct sbx_tool fixture_tasks_tools[];
extern const size_t fixture_tasks_tools_n;
int fixture_greet(struct call *call);
int fixture_slow_compute(struct call *call);
int fixture_failing_job(struct call *call);
int fixture_protocol_error_job(struct call *call);
int fixture_confirm_delete(struct call *call);
int fixture_multi_input(struct call *call);
int fixture_asks_again(struct call *call);
int fixture_tool_with_task(struct call *call);

#endif
