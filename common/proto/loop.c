#include "common/proto/loop.h"

#include <event2/event.h>
#include <stddef.h>

struct event_base *
sbx_loop_new(void)
{
	static const char *const others[] = { "epoll", "select", "devpoll",
		"kqueue", "evport", "win32" };
	struct event_config *cfg = event_config_new();
	struct event_base *base = NULL;
	size_t i;

	for (i = 0; cfg != NULL && i < sizeof(others) / sizeof(others[0]); i++)
		if (event_config_avoid_method(cfg, others[i]) != 0)
			break;
	/* timers of runs and waits are to the millisecond */
	if (cfg != NULL && i == sizeof(others) / sizeof(others[0]) &&
	    event_config_set_flag(cfg, EVENT_BASE_FLAG_PRECISE_TIMER |
	    EVENT_BASE_FLAG_IGNORE_ENV) == 0)
		base = event_base_new_with_config(cfg);
	if (cfg != NULL)
		event_config_free(cfg);
	return (base);
}
