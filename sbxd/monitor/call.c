#include "sbxd/monitor/monitor.h"

#include <stdio.h>
#include <string.h>

/*
 * Calls: from CALL to CALL_RESULT or CALL_REFUSED.  A call waits for a worker
 * of its principal, lives as long as that worker's work, and takes down what
 * it left half done when it is cancelled or its worker dies.
 */

#define WAIT_NS (10 * S_NS)	/* for a worker */

/* The front's number is looked up, never used as an index. */
struct call *
call_find(struct monitor *m, uint32_t number)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(m->calls); i++)
		if (m->calls[i].used && m->calls[i].number == number)
			return (&m->calls[i]);
	return (NULL);
}

/* No front, no answer: its clients are gone with it. */
void
call_refuse(struct monitor *m, uint32_t number, const char *code,
    const char *reason, const char *next)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_FRONT);
	const struct sbx_call_refused r = { .call = number, .code = code,
		.reason = reason, .next = next };

	if (p != NULL)
		(void)sbx_send_call_refused(p, 0, &r, NULL);
}

/* Past a cap: at once, and journalled at most once a second. */
static void
call_busy(struct monitor *m, const struct call *c, const char *limit)
{
	static const struct {
		const char *limit, *reason;
	} texts[] = {
		{ "global", "24 calls are in flight, the most that this suite "
		    "runs at once (pool work, limit global, cap 24)" },
		{ "sandbox", "6 calls are in flight in this sandbox, the most "
		    "that one may have (pool work, limit sandbox, cap 6)" },
		{ "recovery", "4 calls to stop or list are in flight already "
		    "(pool recovery, limit recovery, cap 4)" },
	};
	uint64_t now = sbx_mono_ns();
	size_t i;

	for (i = 0; i < SBX_NELEM(texts) - 1; i++)
		if (strcmp(texts[i].limit, limit) == 0)
			break;
	call_refuse(m, c->number, "busy", texts[i].reason,
	    "Wait for a running call to end, then retry; sandbox_stop and "
	    "sandbox_list_containers have a pool of their own.");
	if (now - m->busy_ns < S_NS)
		return;
	m->busy_ns = now;
	journal_add(m, &(struct record){ .op = "busy_refusal", .who = c->who },
	    "tool", c->tool, "limit", limit, NULL);
}

/* What a call counts against: the sandbox it resolves to, however named. */
static void
call_set_capped(struct monitor *m, struct call *c)
{
	const struct sandbox *sb = sandbox_resolve(m, c->who, c->container);

	(void)sbx_strlcpy(c->capped, sb != NULL ? sb->id : c->container,
	    sizeof(c->capped));
}

/* NULL, or the code of a refusal that does not depend on the caps. */
static const char *
call_barred(struct monitor *m, const struct sbx_call *msg, struct session *s,
    const char **ret_reason)
{
	if (m->stopping) {
		*ret_reason = "the suite is shutting down";
		return ("shutting_down");
	}
	if (s == NULL || !policy_connected(s)) {
		*ret_reason = "this client is not connected";
		return ("unknown_principal");
	}
	if (!policy_tool_name(msg->tool)) {
		*ret_reason = "there is no such tool";
		return ("unknown_tool");
	}
	if (!policy_container_ref(msg->container)) {
		*ret_reason = "there is no such sandbox";
		return ("not_found");
	}
	if (m->comps[SBX_PROC_ZYGOTE].state == COMP_DOWN) {
		*ret_reason = component_why(m, SBX_PROC_ZYGOTE);
		return ("suite_degraded");
	}
	return (NULL);
}

/*
 * Safe for a hostile front: the handle must be one that we gave out and whose
 * client is still connected; tool and container are only names, of a bounded
 * alphabet, that the worker and the tables resolve; the arguments are not read
 * here.  Past a cap the answer comes at once, nothing queues.
 */
void
call_new(struct monitor *m, const struct sbx_call *msg, int args_fd)
{
	struct session *s = session_find(m, msg->principal);
	const char *code, *reason, *limit;
	struct call *c = NULL, probe;
	char text[512];
	size_t i;

	if ((code = call_barred(m, msg, s, &reason)) != NULL) {
		(void)snprintf(text, sizeof(text), "this call is not served: "
		    "%s", reason);
		call_refuse(m, msg->call, code, text, "");
		sbx_close(&args_fd);
		return;
	}
	memset(&probe, 0, sizeof(probe));
	probe = (struct call){ .used = true, .number = msg->call,
		.session = s, .who = s->who, .args_fd = args_fd,
		.recovery = policy_is_recovery(msg->tool),
		.want_progress = msg->want_progress,
		.log_level = msg->log_level,
		.client_can = msg->client_can,
		.since_ns = sbx_mono_ns() };
	(void)sbx_strlcpy(probe.tool, msg->tool, sizeof(probe.tool));
	(void)sbx_strlcpy(probe.container, msg->container,
	    sizeof(probe.container));
	call_set_capped(m, &probe);
	probe.patient = msg->patient && !probe.recovery &&
	    policy_patient_fits(m, &probe);
	for (i = 0; i < SBX_NELEM(m->calls) && c == NULL; i++)
		if (!m->calls[i].used)
			c = &m->calls[i];
	limit = "global";
	if (!policy_call_fits(m, &probe, &limit) || c == NULL) {
		call_busy(m, &probe, limit);
		sbx_close(&args_fd);
		return;
	}
	*c = probe;
	c->inputs = sbx_xstrdup(msg->inputs);
	call_dispatch(m);
}

/* The one place where a call leaves the table, whatever ended it. */
void
call_end(struct monitor *m, struct call *c, bool undo)
{
	run_call_ended(m, c, undo);
	sandbox_call_ended(m, c, undo);
	snapshot_call_ended(m, c);
	deps_call_ended(m, c, undo);
	publish_call_ended(m, c, undo);	/* before what it waits for */
	gate_call_ended(m, c, undo);
	grant_call_ended(m, c);
	sbx_close(&c->args_fd);
	free(c->inputs);
	memset(c, 0, sizeof(*c));
	c->args_fd = -1;
}

/* Its worker dies with it: what a tool was in the middle of must not go on,
 * and a worker that was interrupted is not trusted with another call. */
void
call_cancel(struct monitor *m, struct call *c)
{
	struct worker *w = c->worker;

	if (w != NULL) {
		w->call = NULL;
		worker_kill(w);
	}
	call_end(m, c, true);
}

void
call_cancel_all(struct monitor *m, const struct session *s)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(m->calls); i++)
		if (m->calls[i].used && (s == NULL || m->calls[i].session == s))
			call_cancel(m, &m->calls[i]);
}

/* The oldest waiting call first. */
static struct call *
call_waiting(struct monitor *m, uint64_t after_ns)
{
	struct call *best = NULL, *c;
	size_t i;

	for (i = 0; i < SBX_NELEM(m->calls); i++) {
		c = &m->calls[i];
		if (c->used && c->worker == NULL && c->since_ns > after_ns &&
		    (best == NULL || c->since_ns < best->since_ns))
			best = c;
	}
	return (best);
}

/* After anything that may have freed a worker or brought a call. */
void
call_dispatch(struct monitor *m)
{
	struct worker *w;
	struct call *c;
	uint64_t after = 0;

	while ((c = call_waiting(m, after)) != NULL) {
		after = c->since_ns;
		if (m->comps[SBX_PROC_ZYGOTE].state == COMP_DOWN) {
			call_refuse(m, c->number, "suite_degraded",
			    "there are no workers: the program that makes "
			    "them died too often", "");
			call_end(m, c, false);
		} else if ((w = worker_for(m, c->who)) != NULL)
			worker_give(w, c);
	}
	worker_fill(m);
	tick_arm(m);
}

/*
 * A call that found no worker in time is told so; one that has a worker is
 * watched by worker_tick().
 */
void
call_tick(struct monitor *m, uint64_t now_ns)
{
	struct call *c;
	size_t i;

	for (i = 0; i < SBX_NELEM(m->calls); i++) {
		c = &m->calls[i];
		if (!c->used)
			continue;
		tick_arm(m);
		if (c->worker == NULL && now_ns - c->since_ns > WAIT_NS) {
			call_refuse(m, c->number, "busy",
			    "no worker became free in time", "Retry.");
			call_end(m, c, false);
		}
	}
}
