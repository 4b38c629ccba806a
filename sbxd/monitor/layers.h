#ifndef SBX_MONITOR_LAYERS_H
#define SBX_MONITOR_LAYERS_H

/* Dependency layers: who asks for them, and what is installed in them. */

#include "common/proto/proto.h"

struct call;
struct deps;
struct gate;
struct installs;
struct monitor;
struct principal;
struct run;
struct sandbox;
struct sbx_in;
struct worker;

/* --- deps.c: dependency layers ------------------------------------------- */
/* Answer w's ask with the layer of these commands on that image that its
 * principal has, made where there is none. */
void deps_make(struct monitor *m, struct worker *w,
    const struct sbx_deps_make *q);
/* What detect.c found for it. */
void deps_image(struct monitor *m, struct worker *w, const char *image,
    const char *why);
void deps_sandbox_ready(struct monitor *m, struct sandbox *sb);
void deps_sandbox_gone(struct monitor *m, struct sandbox *sb,
    const char *reason);
void deps_run_ended(struct monitor *m, struct sandbox *sb);
bool deps_taken(struct monitor *m, struct sbx_in *in);	/* true: its */
void deps_call_ended(struct monitor *m, const struct call *c, bool undo);
void deps_drop_principal(struct monitor *m, const struct principal *p);
/* The layer of g->installs on g's: g has it (gate_layer_made), or waits for it.
 * NULL, or why there can be none. */
const char *deps_for_gate(struct monitor *m, struct gate *g);
/* A gate does not wait any more for what is made in that sandbox. */
void deps_left(struct monitor *m, const char *container);

/* --- packages.c: what was installed by name --------------------------------- */
void packages_note(struct monitor *m, struct worker *w,
    const struct sbx_package_note *q);
void packages_run_ended(struct monitor *m, const struct run *r);
void installs_copy(struct installs *to, const struct installs *from);
void installs_clear(struct installs *i);

/* --- gate_layer.c: its dependency layer ---------------------------------------- */
/* Packages were installed in the work sandbox; answers w's ask. */
void gate_layer_start(struct gate *g, struct worker *w);
void gate_deps(struct monitor *m, struct worker *w,
    const struct sbx_gate_deps *q);
/* d is ready: g has its layer, and goes on. */
void gate_layer_made(struct gate *g, const struct deps *d, bool cached);
/* The next that waits for what is made there; NULL: nobody does. */
struct gate *gate_of_layer(struct monitor *m, const char *container);
/* It could not be made.  error: of the commands, 0: something else. */
void gate_layer_failed(struct gate *g, const struct deps *d, int32_t error,
    const char *reason);

#endif
