#ifndef SBX_FRONT_CALLS_H
#define SBX_FRONT_CALLS_H

/*
 * Requests that wait for the monitor: which client's request is which call
 * number.  A number is not used again while it is in the table, and what the
 * monitor says about one that is not in it is ignored: it was cancelled.
 */

#include "sbxd/front/inputs.h"
#include "sbxd/front/rpc.h"

enum call_kind {
	CALL_TOOL,
	CALL_FORWARD,	/* another method (forward.h) */
	CALL_LISTEN,	/* subscriptions/listen: unknown to the monitor */
};

struct call {
	uint32_t number;
	enum call_kind kind;
	enum method_id method;
	bool content;		/* the result has members of its own */
	uint8_t log_level;	/* the least that is wanted; 0: nothing */
	struct task *task;	/* it is, or may become; NULL: none */
	struct sink *to;	/* borrowed; it is told when the call goes */
	const struct rev *rev;
	char *id, *token;	/* JSON text, owned; token NULL: no progress */
	uint64_t done;		/* last progress sent */
	uint64_t sent_ns;	/* when, monotonic; 0: none yet */
	/* what is handed to the monitor, once a round (inputs.h) */
	char tool[65], container[65];
	uint32_t can;		/* enum sbx_client_can */
	int args;		/* sealed memfd, owned */
	struct round round;
};

/* Is a request with this id of that client waiting?  NULL: no. */
struct call *calls_find_id(const struct front *f, const struct client *who,
    const char *id);
struct call *calls_find(const struct front *f, uint32_t number);
/* Drops the entry; says nothing to anybody. */
void calls_free(struct front *f, struct call *call);
/* The same, and the monitor ends the work. */
void calls_cancel(struct front *f, struct call *call);
void calls_cancel_client(struct front *f, const struct client *who);
void calls_cancel_sink(struct front *f, const struct sink *to);
/* A subscription, which no answer ends, goes with its connection, granted or
 * not. */
void calls_end_listen(struct front *f, const struct sink *to);
/* One that a worker was asked about is a subscription from now on.  0, or
 * SBX_E_LIMIT: there are too many. */
int calls_listen(struct front *f, struct call *call);
void calls_drop_client(struct front *f, const struct client *who);
/* What it says goes to another from now on, and nothing but its answer.  The
 * sink that it had may go. */
void calls_move(struct call *call, struct sink *to);

/*
 * Enter r and hand it to the monitor (not CALL_LISTEN).  arguments: one JSON
 * object.  Answers r itself when that is not possible.  NULL then.
 */
struct call *calls_start(const struct request *r, enum call_kind kind,
    const char *tool, const char *container, struct span arguments);

/* Hand it to the monitor, with its answers so far.  0; else it was refused, and
 * answered, and is to be freed. */
int calls_hand(struct front *f, struct call *call);
/* Answer it with a refusal in the shape that fits it.  next: "" or a sentence. */
void calls_refuse(const struct call *call, const char *code, const char *next,
    const char *text);

/* What the monitor says (from_monitor.c).  fd: borrowed. */
void calls_result(struct front *f, uint32_t number, int fd, uint8_t kind);
void calls_refused(struct front *f, const struct sbx_call_refused *m);
void calls_progress(struct front *f, const struct sbx_call_progress *m);
void calls_log(struct front *f, const struct sbx_call_log *m);

#endif
