#ifndef SBX_FRONT_FRONT_H
#define SBX_FRONT_FRONT_H

#include "common/base/limits.h"
#include "common/proto/peer.h"
#include "sbxd/front/revs.h"

struct call;
struct conn;
struct event;
struct event_base;
struct json_tokener;

struct front {
	struct event_base *base;
	struct sbx_peer *monitor;	/* NULL in tests of the input path */
	struct json_tokener *tokener;	/* reused for every envelope */
	/* connections; conn.c */
	struct conn *conns;
	unsigned nconns;		/* without stdio */
	uint32_t last_conn;
	struct event *listener, *listen_again;
	struct event *resume;		/* looks again at paused connections */
	uint64_t full_ns;		/* when it was last said that all are
					 * taken; monotonic */
	char chunk[65536];		/* of input, used up at once */
	/* calls in flight; calls.c */
	struct call *calls[SBX_MAX_FRONT_CALLS];
	unsigned ncalls;
	uint32_t last_call;
	/* the `tools` array of tools/list for the profile; methods_tools.c */
	struct sbx_buf tools;
	int exit_code;
};

extern const struct sbx_dispatch_table front_from_monitor;
extern const char front_instructions[];	/* at most 2,048 bytes */

/*
 * base: borrowed, must outlive f.  profile: "", "implement", "review" or
 * "issue", which tools are listed; all can be called under any.
 * 0, SBX_E_NOENT (another word; f is not initialised).
 */
int front_init(struct front *f, struct event_base *base, const char *profile);
/* Sends what goes without waiting, then ends all connections without a word
 * to the monitor. */
void front_clear(struct front *f);
/* Accept on fd (owned, listening), at most SBX_MAX_CONNECTIONS at once.
 * 0, SBX_E_EXISTS (there is a listener; fd is closed). */
int front_listen(struct front *f, int fd);

/*
 * What the front tells the monitor (to_monitor.c).  Borrowed descriptors.
 * Without a channel they do nothing and return 0; else what sbx_peer_send()
 * returns.  None of them waits.
 */
/* Does it lag behind?  Then no more requests are taken from clients, for a
 * channel that is not read in the end takes the front with it. */
bool monitor_lags(const struct front *f);
int monitor_auth(struct front *f, uint32_t conn, int fd);
int monitor_gone(struct front *f, uint64_t principal);
int monitor_root(struct front *f, uint64_t principal, int fd);
int monitor_eof(struct front *f);
int monitor_call(struct front *f, const struct sbx_call *call, int fd);
int monitor_cancel(struct front *f, uint32_t call);

#endif
