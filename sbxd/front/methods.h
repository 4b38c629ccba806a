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
void on_cancelled(struct request *r);
void on_subscribe(struct request *r);
/* methods_tools.c */
void on_tools_list(struct request *r);
void on_tools_call(struct request *r);
/* methods_resources.c */
void on_resources_list(struct request *r);
void on_resources_templates(struct request *r);
void on_resources_read(struct request *r);

#endif
