#ifndef SBX_PROTO_LOOP_H
#define SBX_PROTO_LOOP_H

struct event_base;

/*
 * A libevent loop by poll(2).  Not by epoll(7): its watches are counted by
 * user (/proc/sys/fs/epoll/max_user_watches), and where sandboxes share the
 * suite's uid one of them can take them all.  The environment is not looked
 * at.  NULL: no memory, or this libevent has no poll.  Owned by the caller.
 */
struct event_base *sbx_loop_new(void);

#endif
