#ifndef SBX_FRONT_REVS_H
#define SBX_FRONT_REVS_H

/*
 * The revisions of MCP that are served, as one table: nothing else asks for a
 * date.  "Legacy" ones are selected by initialize for a connection, "modern"
 * ones by each request's _meta.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;

enum rev_id {
	REV_NONE,	/* a connection before initialize */
	REV_2024_11_05,
	REV_2025_03_26,
	REV_2025_06_18,
	REV_2025_11_25,
	REV_2026_07_28,
	REV_MAX
};

enum method_id {
	METHOD_INITIALIZE,
	METHOD_INITIALIZED,	/* notifications/initialized */
	METHOD_CANCELLED,	/* notifications/cancelled */
	METHOD_PING,
	METHOD_DISCOVER,
	METHOD_TOOLS_LIST,
	METHOD_TOOLS_CALL,
	METHOD_RESOURCES_LIST,
	METHOD_RESOURCES_TEMPLATES,
	METHOD_RESOURCES_READ,
	METHOD_SUBSCRIBE,
	METHOD_UNSUBSCRIBE,
	METHOD_LISTEN,		/* subscriptions/listen */
	METHOD_PROMPTS_LIST,
	METHOD_PROMPTS_GET,
	METHOD_COMPLETE,
	METHOD_SET_LEVEL,	/* logging/setLevel */
	METHOD_ROOTS_CHANGED,	/* notifications/roots/list_changed */
	METHOD_PROGRESS,	/* notifications/progress */
	METHOD_TASKS_GET,
	METHOD_TASKS_UPDATE,
	METHOD_TASKS_CANCEL,
	METHOD_MAX
};

/* Members of what is sent that not every revision has. */
enum rev_field {
	REV_F_RESULT_TYPE = 1,	/* resultType in every result */
	REV_F_SERVER_META = 2,	/* serverInfo in the _meta of every result */
	REV_F_CACHE = 4,	/* ttlMs, cacheScope where the schema says so */
	REV_F_NULL_ID = 8,	/* an error without a readable id says null */
	REV_F_PRIMING = 16,	/* an event stream begins with an empty event */
	REV_F_HEADERS = 32,	/* HTTP headers repeat what the body says */
	REV_F_BATCH = 64,	/* several messages in one array */
	REV_F_ANNOTATIONS = 128, /* hints of tools */
	REV_F_STRUCTURED = 256,	/* structuredContent, outputSchema, titles */
	REV_F_COMPLETIONS = 512, /* a capability of that name */
	REV_F_TASKS = 1024,	/* the extension of that name */
	REV_F_MESSAGE = 2048,	/* message in notifications of progress */
	REV_F_ABOUT = 4096,	/* description, icons of the server */
};

struct rev {
	const char *name;	/* NULL: not a revision (REV_NONE) */
	bool modern;
	uint32_t methods;	/* mask of 1 << enum method_id */
	uint32_t fields;	/* enum rev_field */
	int code_no_resource;	/* JSON-RPC error code */
	uint32_t can;		/* enum sbx_client_can: what its clients may */
};
extern const struct rev revs[REV_MAX];

struct method {
	const char *name;
	const char *named;	/* the param that Mcp-Name repeats; NULL */
	bool notification;
	bool asks;		/* may be answered by InputRequiredResult */
	/* enum sbx_client_can: the client must have declared it, else `missing`,
	 * data of the error */
	uint32_t needs;
	const char *missing;
	void (*fn)(struct request *r);
};
extern const struct method methods[METHOD_MAX];

/* The newest first, for lists of versions. */
extern const enum rev_id revs_newest_first[REV_MAX - 1];
#define REV_LATEST_LEGACY REV_2025_11_25

/* By name of len bytes; REV_NONE when it is not served. */
enum rev_id rev_find(const char *name, size_t len);
/* METHOD_MAX when no revision has it. */
enum method_id method_find(const char *name, size_t len);
bool rev_has(const struct rev *rev, enum method_id method);

#endif
