/*
 * What becomes of tasks that ended: how long they are kept, how many there may
 * be and how much of them.  The clock is the test's own.
 */

#include "common/base/json.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/tasks.h"
#include "tests/tap.h"

#include <event2/event.h>
#include <string.h>

#define META "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":" \
	"\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{" \
	"\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}}"

static uint64_t ahead_ns;
static struct front front;
static struct client clients[2];
static struct sink sinks[2];
static char answer[65536];	/* the beginning of the last one */

uint64_t __real_sbx_mono_ns(void);
uint64_t __wrap_sbx_mono_ns(void);

uint64_t
__wrap_sbx_mono_ns(void)
{
	return (__real_sbx_mono_ns() + ahead_ns);
}

static void
take(struct sink *s, bool last)
{
	size_t n = s->out.len < sizeof(answer) ? s->out.len :
	    sizeof(answer) - 1;

	(void)last;
	memcpy(answer, s->out.data, n);
	answer[n] = '\0';
	sbx_buf_clear(&s->out);
	sbx_buf_init(&s->out, SBX_FRONT_OUT_MAX);
}

/* A line of that client; its answer. */
static const char *
say(unsigned who, const char *method, const char *params)
{
	SBX_CLEANUP(free) char *line = sbx_xasprintf("{\"jsonrpc\":\"2.0\","
	    "\"id\":1,\"method\":\"%s\",\"params\":{%s," META "}}", method,
	    params);

	*answer = '\0';
	rpc_line(&sinks[who], line, strlen(line));
	return (answer);
}

/* A call that has become a task.  NULL: it did not. */
static struct task *
begin(unsigned who)
{
	struct task *before = front.tasks;

	(void)say(who, "tools/call", "\"name\":\"sandbox_list_containers\","
	    "\"arguments\":{}");
	if (front.tasks == before)
		return (NULL);
	task_show(front.tasks);
	return (front.tasks);
}

/* Its result has len bytes. */
static void
finish(struct task *t, size_t len)
{
	SBX_CLEANUP(fd) int fd = -1;
	SBX_CLEANUP(free) char *text = sbx_xcalloc(1, len + 1);

	memset(text, 'x', len);
	memcpy(text, "{\"a\":\"", 6);
	memcpy(text + len - 2, "\"}", 2);
	if (sbx_memfd_sealed("result", text, len, &fd) == 0)
		calls_result(&front, t->call->number, fd, SBX_RESULT_OK);
}

static const char *
get(unsigned who, const struct task *t)
{
	SBX_CLEANUP(free) char *id = sbx_xasprintf("\"taskId\":\"%s\"", t->id);

	return (say(who, "tasks/get", id));
}

static void
test_kept(void)
{
	struct task *t = begin(0);
	char id[64];

	(void)snprintf(id, sizeof(id), "\"taskId\":\"%s\"", t->id);
	ahead_ns += UINT64_C(7200000000000);
	tasks_sweep(&front, sbx_mono_ns());
	ok(strstr(get(0, t), "\"working\"") != NULL,
	    "one that works is kept for hours");
	finish(t, 64);
	ahead_ns += (SBX_TASK_KEEP_MS - 5000) * UINT64_C(1000000);
	tasks_sweep(&front, sbx_mono_ns());
	ok(strstr(say(0, "tasks/get", id), "\"completed\"") != NULL,
	    "after its end, until its ttlMs is over");
	ahead_ns += UINT64_C(6000000000);
	ok(strstr(say(0, "tasks/get", id), "-32602") != NULL,
	    "then it is not known");
	tasks_sweep(&front, sbx_mono_ns());
	ok(front.ntasks == 0 && front.task_bytes == 0, "and forgotten");
}

static void
test_many(void)
{
	struct task *t = NULL;
	unsigned n;

	for (n = 0; n <= SBX_MAX_TASKS_PRINCIPAL; n++)
		if ((t = begin(0)) == NULL)
			break;
	ok(n == SBX_MAX_TASKS_PRINCIPAL, "a principal has %u", n);
	ok(front.ncalls == n + 1, "the next call is just a call");
	calls_cancel_client(&front, &clients[0]);
	ok(begin(1) != NULL, "another's has room");
	tasks_gone(&front, 1);
	ok(front.ntasks == 1 && front.ncalls == 1,
	    "a principal's end ends its tasks, and no others");
	tasks_gone(&front, 2);
	ok(front.ntasks == 0 && front.ncalls == 0, "nothing is left");
}

static void
test_bytes(void)
{
	struct task *t[16], *more;
	unsigned n;

	for (n = 0; n < 16; n++) {
		t[n] = begin(0);
		finish(t[n], SBX_MAX_RESULT);
		if (t[n]->state != TASK_COMPLETED)
			break;
	}
	ok(n >= 3 && n < 16 &&
	    front.task_bytes <= SBX_MAX_TASK_BYTES_PRINCIPAL,
	    "%u of the largest results are kept", n);
	ok(t[n]->state == TASK_FAILED &&
	    strstr(get(0, t[n]), "could not be kept") != NULL,
	    "the next fails, and says why");
	(void)get(0, t[1]);
	ok(t[1]->taken && !t[2]->taken, "one is fetched");
	more = begin(1);
	finish(more, SBX_MAX_RESULT);
	ok(more->state == TASK_COMPLETED, "another's has room of its own");
	more = begin(0);
	n = front.ntasks;
	finish(more, SBX_MAX_RESULT);
	ok(more->state == TASK_COMPLETED && front.ntasks == n - 1 &&
	    front.task_bytes <= SBX_MAX_TASK_BYTES,
	    "but for its owner's next");
	tasks_gone(&front, 1);
	tasks_gone(&front, 2);
	ok(front.task_bytes == 0, "nothing is left");
}

int
main(void)
{
	struct event_base *base = event_base_new();
	unsigned i;

	tap_plan(0);
	if (base == NULL || front_init(&front, base, "") != 0)
		return (1);
	for (i = 0; i < 2; i++) {
		clients[i].principal = i + 1;
		sinks[i] = (struct sink){ .f = &front, .client = &clients[i],
			.send = take };
		sbx_buf_init(&sinks[i].out, SBX_FRONT_OUT_MAX);
	}
	test_kept();
	test_many();
	test_bytes();
	front_clear(&front);
	for (i = 0; i < 2; i++)
		sbx_buf_clear(&sinks[i].out);
	event_base_free(base);
	return (tap_done());
}
