#include "sbxd/monitor/publish.h"

#include <string.h>

/*
 * What a publication waits for before its push: a fresh verification of exactly
 * its tree.  Whoever publishes starts one where there is none (gate.c), and says
 * which; it is no more than where to look, since what opens the gate is a stored
 * pass of the tree that judge and publisher came to.
 */

#define START_NS (600 * S_NS)		/* for one to be told of */
#define RUN_NS (4 * 3600 * S_NS)	/* above all that its tests may take */

void
publish_gate_begin(struct publish *p)
{
	const struct pass *pass = gate_pass(p->who, p->tree);

	p->phase = SBX_PUBLISH_GATE;
	if (strcmp(p->m->conf.verify_gate, "off") == 0)
		p->gate_status = "off";
	else if (pass != NULL) {
		p->gate_status = "passed";
		memcpy(p->gate, pass->gate, sizeof(p->gate));
		memcpy(p->gate_ran, pass->ran, sizeof(p->gate_ran));
	} else {
		p->gate_status = "missing";
		if ((p->flags & SBX_PUBLISH_VERIFY) == 0) {
			publish_refuse(p, "verify_gate", NULL);
			return;
		}
		publish_rest(p);
		publish_within(p, START_NS);
		publish_tell(p);
		return;
	}
	publish_verified(p);
}

/* g has ended. */
static void
looked_at(struct publish *p, const struct gate *g)
{
	memcpy(p->gate_ran, g->ran, sizeof(p->gate_ran));
	p->gate_status = g->passed ? "passed" : "failed";
	if (gate_pass(p->who, p->tree) != NULL)
		publish_verified(p);
	else if (g->passed)
		publish_refuse(p, "verify_gate", "the fresh verification was of "
		    "tree %s: the files changed meanwhile",
		    strlen(p->tree) == 40 ? g->sha1 : g->sha256);
	else
		publish_refuse(p, "verify_gate", "the fresh verification of "
		    "this tree did not pass%s%s", g->reason[0] != '\0' ?
		    ": " : "", g->reason);
}

void
publish_gate_ended(struct monitor *m, const struct gate *g)
{
	for (size_t i = 0; i < MAX_PUBLISHES; i++) {
		struct publish *p = &m->publishes[i];

		if (p->used && p->phase == SBX_PUBLISH_GATE &&
		    p->who == g->who && strcmp(p->gate, g->id) == 0)
			looked_at(p, g);
	}
}

/* Safe: own ones; a verification is worth what it ends with. */
void
publish_gate(struct monitor *m, struct worker *w,
    const struct sbx_publish_gate *q)
{
	const struct gate *g = gate_find(m, w->who, q->gate);
	struct publish *p = publish_find(m, w->who, q->publish);

	if (p == NULL || g == NULL) {
		ask_refuse(w, "unknown_run", "Start one anew.", "there is no "
		    "publication %s, or no verification %s", q->publish,
		    q->gate);
		return;
	}
	if (p->phase != SBX_PUBLISH_GATE || p->gate[0] != '\0') {
		ask_refuse(w, "busy", "Call again with the same run_id.",
		    "publication %s does not wait for a verification", p->id);
		return;
	}
	memcpy(p->gate, g->id, sizeof(p->gate));
	p->gate_status = "running";
	publish_within(p, RUN_NS);
	if (g->phase == SBX_GATE_ENDED)
		looked_at(p, g);
	publish_state_send(w, p);
}
