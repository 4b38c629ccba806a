#include "sbxd/monitor/monitor.h"

#include <stdio.h>
#include <string.h>

/*
 * The dependency layer of a fresh verification, where package_install put
 * something into the work sandbox: it is made, or found, before the sandbox of
 * the verification.
 */

#define LAYER_NS ((SBX_SETUP_S + 60) * S_NS)

struct gate *
gate_of_layer(struct monitor *m, const char *container)
{
	for (size_t i = 0; i < MAX_GATES; i++)
		if (m->gates[i].used && container[0] != '\0' &&
		    strcmp(m->gates[i].prep, container) == 0)
			return (&m->gates[i]);
	return (NULL);
}

/* With that its sandbox, which the record of its start stands for. */
void
gate_layer_made(struct gate *g, const struct deps *d, bool cached)
{
	struct monitor *m = g->m;
	struct sandbox *sb;

	g->prep[0] = '\0';
	g->prepared = true;
	g->cached = cached;
	memcpy(g->prep_run, d->run, sizeof(g->prep_run));
	memcpy(g->layer, d->layer, sizeof(g->layer));
	memcpy(g->layer_snap, d->snapshot, sizeof(g->layer_snap));
	if (m->nsandboxes >= SBX_MAX_SANDBOXES) {
		gate_fail(g, "there are as many sandboxes as there may be");
		return;
	}
	sb = sandbox_hidden(m, g->who, g->from);
	sb->limits = g->limits;
	memcpy(g->fresh, sb->id, sizeof(g->fresh));
	g->by_ns = sbx_mono_ns() + GATE_MAKE_NS;
	tick_arm(m);
	journal_add(m, &(struct record){ .op = "sandbox_create",
	    .phase = "start", .who = g->who, .container = sb->id,
	    .run = g->id }, "tool", "verify_in_container", "image", sb->image,
	    "layer", g->layer, NULL);
	if (!sandbox_send_create(m, sb, g->layer_snap))
		sandbox_free(m, sb);	/* and so ends it */
}

void
gate_layer_failed(struct gate *g, const struct deps *d, int32_t error,
    const char *reason)
{
	char text[256];

	g->prep[0] = '\0';
	memcpy(g->prep_run, d->run, sizeof(g->prep_run));
	g->prep_error = error;
	(void)snprintf(text, sizeof(text), "the dependency layer could not be "
	    "made: %.200s", error != 0 ? "what package_install installed "
	    "cannot be installed again" : reason);
	gate_fail(g, text);
}

static void
layer_recorded(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	struct gate *g = gate_find(m, w->who, w->ask.run);

	why = journal_why(in, why);
	if (g == NULL || g->phase == SBX_GATE_ENDED) {
		ask_refuse(w, "sandbox_failed", "", "its call ended");
		return;
	}
	if (why != NULL) {
		ask_refuse(w, "journal_unavailable", "Try again later.",
		    "nothing is verified while it cannot be recorded: %s",
		    why);
		gate_free(g);
		return;
	}
	g->by_ns = sbx_mono_ns() + LAYER_NS;
	tick_arm(m);
	if ((why = deps_for_gate(m, g)) != NULL)
		gate_layer_failed(g, &(struct deps){ 0 }, 0, why);
	gate_state_send(w, g);
}

/* Packages were installed in the work sandbox. */
void
gate_layer_start(struct gate *g, struct worker *w)
{
	const struct sbx_strs lines = { g->installs.lines, g->installs.count,
		g->installs.len };
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };

	sbx_buf_init(&b, 4000);
	run_show_argv(&b, &lines);
	memcpy(w->ask.run, g->id, sizeof(g->id));
	g->by_ns = sbx_mono_ns() + GATE_MAKE_NS;
	tick_arm(g->m);
	journal_cross(g->m, w, layer_recorded, &(struct record){
	    .op = "verify_fresh", .phase = "start", .who = g->who,
	    .container = g->work, .run = g->id }, "image", g->from, "layer",
	    g->layer, "packages", b.data, NULL);
}

/* Safe: own ones only. */
void
gate_deps(struct monitor *m, struct worker *w, const struct sbx_gate_deps *q)
{
	const struct gate *g = gate_find(m, w->who, q->gate);

	if (g == NULL) {
		ask_refuse(w, "unknown_run", "", "there is no verification %s",
		    q->gate);
		return;
	}
	(void)sbx_send_gate_deps_state(w->peer, w->ask.id,
	    &(struct sbx_gate_deps_state){ .layer = g->prepared ||
	    g->installs.count == 0 ? g->layer : "", .setup = g->setup,
	    .prepared = g->prepared, .cached = g->cached, .run = g->prep_run,
	    .error = g->prep_error, .left_out = g->installs.left_out,
	    .packages = { g->installs.lines, g->installs.count,
	    g->installs.len } }, NULL);
	ask_done(w);
}
