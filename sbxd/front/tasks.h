#ifndef SBX_FRONT_TASKS_H
#define SBX_FRONT_TASKS_H

/*
 * Calls that go on after their request was answered: the extension
 * io.modelcontextprotocol/tasks of revision 2026-07-28.  A task is of the
 * principal's handle under which it was begun, and of no connection; to others
 * it does not exist.
 *
 *	RESERVED --> WORKING <--> INPUT
 *	                |           |
 *	                +-----------+--> COMPLETED, FAILED, CANCELLED
 *
 * Source: SEP-2663; ext-tasks.
 */

#include "sbxd/front/rpc.h"

struct asks;

#define TASKS_EXTENSION "io.modelcontextprotocol/tasks"
/* data of RPC_MISSING_CAPABILITY */
#define TASKS_REQUIRED "{\"requiredCapabilities\":{\"extensions\":{" \
    "\"" TASKS_EXTENSION "\":{}}}}"
#define TASK_HEX 32u		/* digits of an id: 128 bits */

enum task_state {
	TASK_RESERVED,	/* a call that may become one: nobody knows it */
	TASK_WORKING,
	TASK_INPUT,	/* its client is asked (inputs.h) */
	TASK_COMPLETED,	/* the last three are the ends */
	TASK_FAILED,	/* by a JSON-RPC error */
	TASK_CANCELLED,
	TASK_STATE_MAX
};

struct task {
	struct task *next;
	struct front *f;
	char id[TASK_HEX + 1];
	enum task_state state;
	struct client client;	/* of its call: outlives the connection */
	struct sink sink;	/* takes the answer of its call */
	struct call *call;	/* borrowed; NULL: it ended */
	struct event *timer;	/* until it becomes a task */
	const struct rev *rev;
	char *request;		/* id of the request; owned, until answered */
	struct json_object *requests;	/* InputRequests that wait for an
					 * answer; owned, NULL: none */
	char *message;		/* statusMessage; owned, or NULL */
	char *end;		/* the result, or the error; owned */
	size_t end_len;
	bool taken;		/* its end was told */
	uint64_t made_ns, changed_ns;	/* wall clock */
	uint64_t made_mono_ns, ended_mono_ns;
};

/* Is there one of that id that the principal may know? */
bool tasks_has(const struct front *f, uint64_t principal, const char *id);
/* A subscriptions/listen begins: how its tasks stand. */
void tasks_listened(const struct call *listen);
/* May this request's call become one?  The client declared it, and its
 * revision has it. */
bool tasks_wanted(const struct request *r);
/* Is there no room for another one of the principal? */
bool tasks_full(const struct front *f, uint64_t principal);
bool tasks_any(const struct front *f, uint64_t principal);
/* For a new call of r, when it is wanted and there is room, else NULL.  It is
 * told what becomes of the call. */
struct task *task_reserve(const struct request *r, struct call *call);
/* Answer the request of its call with the task, now.  r->to may go. */
void task_show(struct task *t);
/* Does its client know it? */
bool task_shown(const struct task *t);
/* Its call asks the client.  true: that is its end, and it is to be freed. */
bool task_ask(struct task *t, const struct asks *a);
/* Its call leaves the table. */
void task_call_gone(struct task *t);
/* What the call says of its progress. */
void task_progress(struct task *t, const char *message);
/* The principal's handle is void: its tasks end. */
void tasks_gone(struct front *f, uint64_t principal);
void tasks_sweep(struct front *f, uint64_t now_ns);
void tasks_clear(struct front *f);

#endif
