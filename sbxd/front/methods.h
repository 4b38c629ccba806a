#ifndef SBX_FRONT_METHODS_H
#define SBX_FRONT_METHODS_H

/*
 * What a client may ask for: one function a method, named in revs.c.  Each
 * answers its request, now or through calls.h, exactly once; a notification
 * is never answered.
 */

struct request;

/* methods_base.c */
void on_initialize(struct request *r);
void on_ping_request(struct request *r);
void on_discover(struct request *r);
void on_set_level(struct request *r);
void on_cancelled(struct request *r);
/* methods_tools.c */
void on_tools_list(struct request *r);
void on_tools_call(struct request *r);
/* tasks.c */
void on_tasks_get(struct request *r);
void on_tasks_update(struct request *r);
void on_tasks_cancel(struct request *r);
/* subs.c */
void on_unsubscribe(struct request *r);
void on_listen(struct request *r);
/* forward.c */
void on_forward(struct request *r);

#endif
