#ifndef SBX_FRONT_FORWARD_H
#define SBX_FRONT_FORWARD_H

/*
 * Methods whose answer is a worker's work, as a call of a tool that no list
 * shows: the front passes on the params that it knows, and of the result only
 * the members that the protocol has.
 */

#include "sbxd/front/revs.h"
#include "sbxd/front/rpc.h"

struct call;

struct forward {
	enum method_id method;
	/* kind: 's' a string of at most 1,024 bytes, 'o' an object, in
	 * capitals: must be given */
	struct { const char *name; char kind; } params[3];
	/* of the result: "[name" an array, "{name" an object, which must be
	 * there, " name" a string that may be */
	const char *members[3];
	unsigned ttl_ms;	/* of a cache */
	const char *scope;	/* cacheScope; NULL: nothing to cache */
	bool resource;		/* what is missing is a resource */
	bool titled;		/* items of its lists can have a title */
	/* More that is done when it was granted, with the worker's object;
	 * NULL: nothing.  0, or SBX_E_LIMIT: refused for that. */
	int (*granted)(struct call *call, const char *text, size_t len);
};

/* The row of a method, which must have one. */
const struct forward *forward_row(enum method_id method);
/* A method's function (methods.h): hand r to a worker. */
void on_forward(struct request *r);
/* Its result, and its error object, for the client. */
void forward_result(struct call *call, const char *text, size_t len);
/* The result of a tool that has `content` of its own. */
void forward_content(const struct call *call, const char *text, size_t len);
void forward_error(const struct call *call, const char *text, size_t len);

#endif
