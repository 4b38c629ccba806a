#include "sbxd/front/revs.h"

#include "common/proto/proto.h"
#include "sbxd/front/methods.h"
#include "sbxd/front/tasks.h"

#include <string.h>

#define HAS(method) (UINT32_C(1) << METHOD_##method)
#define SERVED (HAS(TOOLS_LIST) | HAS(TOOLS_CALL) | HAS(RESOURCES_LIST) | \
    HAS(RESOURCES_TEMPLATES) | HAS(RESOURCES_READ) | HAS(PROMPTS_LIST) | \
    HAS(PROMPTS_GET) | HAS(COMPLETE))
#define LEGACY (HAS(INITIALIZE) | HAS(INITIALIZED) | HAS(CANCELLED) | \
    HAS(PING) | HAS(SET_LEVEL) | HAS(ROOTS_CHANGED) | HAS(PROGRESS) | \
    HAS(SUBSCRIBE) | HAS(UNSUBSCRIBE) | SERVED)

#define CAN_2024 (SBX_CAN_SAMPLE | SBX_CAN_ROOTS)
#define CAN_2025 (CAN_2024 | SBX_CAN_ELICIT)
#define CAN_ALL (CAN_2025 | SBX_CAN_ELICIT_URL | SBX_CAN_SAMPLE_TOOLS | \
    SBX_CAN_TASKS)

enum {
	CODE_INVALID_PARAMS = -32602,
	CODE_RESOURCE_NOT_FOUND = -32002, /* until 2025-11-25 */
};

/* Source: the JSON schema and server/resources of each revision. */
const struct rev revs[REV_MAX] = {
	[REV_NONE] = { NULL, false,
	    HAS(INITIALIZE) | HAS(INITIALIZED) | HAS(CANCELLED) | HAS(PING),
	    0, CODE_INVALID_PARAMS },
	[REV_2024_11_05] = { "2024-11-05", false, LEGACY,
	    REV_F_NULL_ID, CODE_RESOURCE_NOT_FOUND, CAN_2024 },
	[REV_2025_03_26] = { "2025-03-26", false, LEGACY,
	    REV_F_NULL_ID | REV_F_MESSAGE | REV_F_BATCH |
	    REV_F_COMPLETIONS | REV_F_ANNOTATIONS,
	    CODE_RESOURCE_NOT_FOUND, CAN_2024 },
	[REV_2025_06_18] = { "2025-06-18", false, LEGACY,
	    REV_F_NULL_ID | REV_F_MESSAGE | REV_F_COMPLETIONS |
	    REV_F_ANNOTATIONS | REV_F_STRUCTURED,
	    CODE_RESOURCE_NOT_FOUND, CAN_2025 },
	[REV_2025_11_25] = { "2025-11-25", false, LEGACY,
	    REV_F_MESSAGE | REV_F_COMPLETIONS | REV_F_ANNOTATIONS |
	    REV_F_STRUCTURED | REV_F_PRIMING | REV_F_ABOUT,
	    CODE_RESOURCE_NOT_FOUND, CAN_ALL },
	[REV_2026_07_28] = { "2026-07-28", true,
	    HAS(CANCELLED) | HAS(DISCOVER) | HAS(LISTEN) | HAS(TASKS_GET) |
	    HAS(TASKS_UPDATE) | HAS(TASKS_CANCEL) | SERVED,
	    REV_F_RESULT_TYPE | REV_F_SERVER_META | REV_F_CACHE |
	    REV_F_MESSAGE | REV_F_COMPLETIONS | REV_F_ANNOTATIONS |
	    REV_F_STRUCTURED | REV_F_HEADERS | REV_F_TASKS,
	    CODE_INVALID_PARAMS, CAN_ALL },
};

_Static_assert(METHOD_MAX <= 32, "a method is a bit of struct rev");

const enum rev_id revs_newest_first[REV_MAX - 1] = {
	REV_2026_07_28, REV_2025_11_25, REV_2025_06_18, REV_2025_03_26,
	REV_2024_11_05
};

const struct method methods[METHOD_MAX] = {
	[METHOD_INITIALIZE] = { "initialize", .fn = on_initialize },
	[METHOD_INITIALIZED] = { "notifications/initialized",
	    .notification = true },
	[METHOD_CANCELLED] = { "notifications/cancelled",
	    .notification = true, .fn = on_cancelled },
	[METHOD_PING] = { "ping", .fn = on_ping_request },
	[METHOD_DISCOVER] = { "server/discover", .fn = on_discover },
	[METHOD_TOOLS_LIST] = { "tools/list", .fn = on_tools_list },
	[METHOD_TOOLS_CALL] = { "tools/call", "name", .asks = true,
	    .fn = on_tools_call },
	[METHOD_RESOURCES_LIST] = { "resources/list", .fn = on_forward },
	[METHOD_RESOURCES_TEMPLATES] = { "resources/templates/list",
	    .fn = on_forward },
	[METHOD_RESOURCES_READ] = { "resources/read", "uri",
	    .asks = true, .fn = on_forward },
	[METHOD_SUBSCRIBE] = { "resources/subscribe", .fn = on_forward },
	[METHOD_UNSUBSCRIBE] = { "resources/unsubscribe",
	    .fn = on_unsubscribe },
	[METHOD_LISTEN] = { "subscriptions/listen", .fn = on_listen },
	[METHOD_PROMPTS_LIST] = { "prompts/list", .fn = on_forward },
	[METHOD_PROMPTS_GET] = { "prompts/get", "name", .asks = true,
	    .fn = on_forward },
	[METHOD_COMPLETE] = { "completion/complete", .fn = on_forward },
	[METHOD_SET_LEVEL] = { "logging/setLevel", .fn = on_set_level },
	[METHOD_ROOTS_CHANGED] = { "notifications/roots/list_changed",
	    .notification = true },
	[METHOD_TASKS_GET] = { "tasks/get", "taskId",
	    .needs = SBX_CAN_TASKS, .missing = TASKS_REQUIRED,
	    .fn = on_tasks_get },
	[METHOD_TASKS_UPDATE] = { "tasks/update", "taskId",
	    .needs = SBX_CAN_TASKS, .missing = TASKS_REQUIRED,
	    .fn = on_tasks_update },
	[METHOD_TASKS_CANCEL] = { "tasks/cancel", "taskId",
	    .needs = SBX_CAN_TASKS, .missing = TASKS_REQUIRED,
	    .fn = on_tasks_cancel },
	[METHOD_PROGRESS] = { "notifications/progress",
	    .notification = true },
};

enum rev_id
rev_find(const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < REV_MAX; i++)
		if (revs[i].name != NULL && strlen(revs[i].name) == len &&
		    memcmp(revs[i].name, name, len) == 0)
			return ((enum rev_id)i);
	return (REV_NONE);
}

enum method_id
method_find(const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < METHOD_MAX; i++)
		if (strlen(methods[i].name) == len &&
		    memcmp(methods[i].name, name, len) == 0)
			break;
	return ((enum method_id)i);
}

bool
rev_has(const struct rev *rev, enum method_id method)
{
	return (method < METHOD_MAX && (rev->methods & UINT32_C(1) << method));
}
