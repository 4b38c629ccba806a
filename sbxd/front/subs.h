#ifndef SBX_FRONT_SUBS_H
#define SBX_FRONT_SUBS_H

/*
 * What clients want to be told of when it changes.  A worker grants a URI, as
 * it grants to read it, and says by which word the monitor will speak of it;
 * the monitor names a principal's handle with that word, so a client is told
 * of what is its own only.  A client's go with it, those of a listening
 * request with that request.
 * Source: MCP revision 2025-11-25, server/resources; 2026-07-28,
 * basic/patterns/subscriptions.
 */

#include "sbxd/front/rpc.h"

struct call;

#define SUB_WATCH_MAX 64u	/* bytes of that word */

enum sub_kind {
	SUB_RESOURCE,
	SUB_TASK,	/* tasks.h */
	SUB_MAX
};

struct sub {
	struct sub *next;
	enum sub_kind kind;
	struct client *client;	/* borrowed; it is told when that goes */
	struct call *listen;	/* likewise; NULL: it just subscribed */
	bool due, ended;	/* to be told; it changes no more */
	char watch[SUB_WATCH_MAX + 1];
	char name[];		/* URI, id of a task */
};

/* 0 (also: it was there already), SBX_E_LIMIT, SBX_E_RANGE (watch). */
int subs_add(struct front *f, struct client *client, struct call *listen,
    enum sub_kind kind, const char *name, const char *watch);
/* All of that client, or of that listening request; the other is NULL. */
void subs_drop(struct front *f, const struct client *client,
    const struct call *listen);
/*
 * Begin a notification to s on the place that is its own, up to the first
 * member of params.  NULL: there is none now, nothing is sent.  Else append
 * members with reply_name() and end it with subs_end().
 */
struct sink *subs_begin(struct sub *s, const char *method);
void subs_end(struct sink *to);

/* What the monitor says of a run (from_monitor.c). */
void subs_run_changed(struct front *f, uint64_t principal, const char *run,
    bool ended);
/* A client's events() goes somewhere again: what was due is told. */
void subs_reopened(struct front *f, const struct client *client);
/* forward.h: a worker granted it. */
int subs_granted(struct call *call, const char *text, size_t len);
/* A worker granted what call asks for: from now on it listens.  false: it was
 * answered that it cannot. */
bool subs_listen(struct call *call, const char *text, size_t len);
/* The front ends: so do all that listen, and they are told. */
void subs_close(struct front *f);

#endif
