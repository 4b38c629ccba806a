#include "sbxd/front/front.h"

#include "common/base/log.h"
#include "sbxd/front/conn.h"
#include "sbxd/front/http.h"
#include "sbxd/front/inputs.h"
#include "sbxd/front/methods_tools.h"
#include "sbxd/front/subs.h"
#include "sbxd/front/tasks.h"

#include <event2/event.h>
#include <json-c/json.h>
#include <string.h>

int
front_init(struct front *f, struct event_base *base, const char *profile)
{
	uint8_t bit;
	int r;

	r = profile_find(profile, &bit);
	if (r != 0)
		return (r);
	memset(f, 0, sizeof(*f));
	f->base = base;
	f->tokener = json_tokener_new_ex(SBX_MAX_JSON_DEPTH + 1);
	if (f->tokener == NULL)
		sbx_fatal("no memory for the parser");
	json_tokener_set_flags(f->tokener, JSON_TOKENER_STRICT);
	f->resume = evtimer_new(base, conn_on_resume, f);
	if (f->resume == NULL)
		sbx_fatal("no memory for a timer");
	http_start(f);
	f->profile = bit;
	return (0);
}

void
front_clear(struct front *f)
{
	subs_close(f);
	while (f->conns != NULL) {
		conn_flush(f->conns);
		conn_free(f->conns);
	}
	http_clear(f);
	tasks_clear(f);
	inputs_clear(f);
	for (size_t i = 0; i < LISTENER_MAX; i++)
		listen_clear(&f->listeners[i]);
	event_free(f->resume);
	json_tokener_free(f->tokener);
}
