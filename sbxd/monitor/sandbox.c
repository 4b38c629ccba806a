#include "sbxd/monitor/monitor.h"

#include "common/base/image.h"

#include <stdio.h>
#include <string.h>

/*
 * Sandboxes as the monitor knows them: whose, since when, and what they hold
 * that is newer than what was copied in.  The engine has the real thing; the
 * record is made before the engine is asked and goes when it said ENDED.
 */

#define CREATE_S 30
#define STOP_S 15
#define STOP_LATE_S 120		/* after that */

/* By whole id, whoever's: policy_sandbox() is for what a worker names. */
struct sandbox *
sandbox_find(struct monitor *m, const char *id)
{
	struct sandbox *sb;

	TAILQ_FOREACH(sb, &m->sandboxes, link)
		if (strcmp(sb->id, id) == 0)
			return (sb);
	return (NULL);
}

/* Whoever made one that nobody may name. */
static void
hidden_gone(struct monitor *m, struct sandbox *sb, const char *reason)
{
	if (!sb->hidden)
		return;
	gate_sandbox_gone(m, sb, reason);
	publish_sandbox_gone(m, sb, reason);
	deps_sandbox_gone(m, sb, reason);
}

/* Nothing of it lives, or it was never asked for. */
void
sandbox_free(struct monitor *m, struct sandbox *sb)
{
	size_t i;

	hidden_gone(m, sb, "");
	for (i = 0; i < MAX_BASELINES; i++)
		free(sb->baselines[i].dest);
	installs_clear(&sb->installs);
	TAILQ_REMOVE(&m->sandboxes, sb, link);
	m->nsandboxes--;
	made_free(sb->made);
	free(sb);
}

/* Within one principal: others must not learn of it by a clash. */
bool
sandbox_name_taken(struct monitor *m, const struct principal *who,
    const char *name)
{
	struct sandbox *sb;

	TAILQ_FOREACH(sb, &m->sandboxes, link)
		if (sb->who == who && strcmp(sb->name, name) == 0)
			return (true);
	return (false);
}

/* An exact id or name first; a prefix only when it is one sandbox's. */
struct sandbox *
sandbox_resolve(struct monitor *m, const struct principal *p, const char *ref)
{
	struct sandbox *sb, *found = NULL;
	size_t len = strlen(ref);

	TAILQ_FOREACH(sb, &m->sandboxes, link)
		if (sb->who == p && !sb->hidden && (strcmp(sb->id, ref) == 0 ||
		    strcmp(sb->name, ref) == 0))
			return (sb);
	if (len < 4 || len >= SBX_CONTAINER_HEX)
		return (NULL);
	TAILQ_FOREACH(sb, &m->sandboxes, link) {
		if (sb->who != p || sb->hidden ||
		    strncmp(sb->id, ref, len) != 0)
			continue;
		if (found != NULL)
			return (NULL);	/* not one, so none */
		found = sb;
	}
	return (found);
}

bool
sandbox_barred(struct worker *w, const struct sandbox *sb)
{
	if (sb->state == SBX_SANDBOX_READY)
		return (false);
	if (sb->state == SBX_SANDBOX_FROZEN)
		ask_refuse(w, "sandbox_busy", "Retry in a moment.", "a "
		    "snapshot or a restore of sandbox %s is under way",
		    sb->id);
	else
		ask_refuse(w, "sandbox_gone", "Call sandbox_initialize for a "
		    "new one.", "sandbox %s is being stopped", sb->id);
	return (true);
}

struct sandbox *
sandbox_own(struct monitor *m, struct worker *w, const char *id)
{
	struct sandbox *sb = policy_sandbox(m, w->who, id);

	if (sb == NULL)
		reap_refuse(w, id);
	else if (sandbox_barred(w, sb))
		sb = NULL;
	return (sb);
}

/* --- create -------------------------------------------------------------- */

bool
sandbox_send_create(struct monitor *m, struct sandbox *sb,
    const char *snapshot)
{
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);
	struct sbx_sandbox_create msg = { .container = sb->id,
		.image = sb->image, .snapshot = snapshot,
		.throwaway = sb->throwaway,
		.mem_bytes = sb->limits.mem_bytes,
		.cpu_milli = sb->limits.cpu_milli,
		.disk_bytes = sb->limits.disk_bytes,
		.require = m->conf.require_limits };

	if (engine == NULL || sbx_send_sandbox_create(engine, ++m->next_id,
	    &msg, NULL) != 0)
		return (false);
	sb->sent = true;
	return (true);
}

/* From here on it is permitted: the record is on the disk. */
static void
create_recorded(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	struct sandbox *sb = sandbox_find(m, w->ask.container);

	why = journal_why(in, why);
	if (sb == NULL || why != NULL) {
		if (sb != NULL)
			sandbox_free(m, sb);
		ask_refuse(w, "journal_unavailable", "Try again later; what "
		    "is running already goes on.", "no sandbox is made while "
		    "it cannot be recorded: %s", why != NULL ? why : "");
		return;
	}
	if (!sandbox_send_create(m, sb, sb->snapshot)) {
		sandbox_free(m, sb);
		ask_refuse(w, "suite_degraded", "", "the engine is not there");
		return;
	}
	w->ask.deadline_ns = sbx_mono_ns() + CREATE_S * S_NS;
}

/* Its maker does not wait any longer. */
void
sandbox_unwanted(struct monitor *m, const char *id)
{
	struct sandbox *sb = sandbox_find(m, id);

	if (sb != NULL)
		sandbox_stop(m, sb, "it came too late");
}

/* NULL, or why not, with the stable word for it. */
static const char *
create_barred(struct monitor *m, const struct worker *w,
    const struct sbx_sb_create *q, const char **ret_code)
{
	/* which there are is the engine's to say: it has the store */
	*ret_code = "unknown_image";
	if (q->snapshot[0] == '\0' && !sbx_image_is_wanted(q->image))
		return ("an image is 'host', a name of 'sbx image list', or "
		    "12 and more digits of a digest");
	*ret_code = "bad_name";
	if (q->name[0] != '\0' && !policy_sandbox_name(q->name))
		return ("a sandbox's name is a letter or digit and up to 63 "
		    "of letters, digits, '.', '_' and '-'");
	*ret_code = "suite_degraded";
	if (q->want_network && component_peer(m, SBX_PROC_PROXY) == NULL)
		return ("the egress proxy is not there");
	*ret_code = "name_in_use";
	if (q->name[0] != '\0' && sandbox_name_taken(m, w->who, q->name))
		return ("one of your sandboxes has that name already");
	*ret_code = "too_many_sandboxes";
	if (m->nsandboxes >= SBX_MAX_SANDBOXES)
		return ("the suite has as many sandboxes as it may; stop one");
	return (NULL);
}

/* Id and name are ours to give. */
static struct sandbox *
sandbox_add(struct monitor *m, struct principal *who, const char *image,
    const char *name)
{
	struct sandbox *sb = sbx_xcalloc(1, sizeof(*sb));

	do
		sbx_random_hex(sb->id, SBX_CONTAINER_HEX / 2);
	while (sandbox_find(m, sb->id) != NULL);
	if (name[0] != '\0')
		(void)sbx_strlcpy(sb->name, name, sizeof(sb->name));
	else
		(void)snprintf(sb->name, sizeof(sb->name), "sbx-%s", sb->id);
	(void)sbx_strlcpy(sb->image, image, sizeof(sb->image));
	sb->who = who;
	sb->state = SBX_SANDBOX_CREATING;
	sb->created_ns = sb->used_ns = sbx_mono_ns();
	sb->created_wall_ns = sbx_wall_ns();
	TAILQ_INSERT_HEAD(&m->sandboxes, sb, link);
	m->nsandboxes++;
	return (sb);
}

struct sandbox *
sandbox_new(struct monitor *m, struct worker *w, const char *image,
    const char *name, const char *label)
{
	struct sandbox *sb = sandbox_add(m, w->who, image, name);

	(void)sbx_strlcpy(sb->label, label, sizeof(sb->label));
	sb->maker = w->call;
	return (sb);
}

struct sandbox *
sandbox_hidden(struct monitor *m, struct principal *who, const char *image)
{
	struct sandbox *sb = sandbox_add(m, who, image, "");

	sb->hidden = true;
	return (sb);
}

/* The journal is asked before the engine. */
void
sandbox_create(struct monitor *m, struct worker *w,
    const struct sbx_sb_create *q, const char *why_image)
{
	const char *code, *why = create_barred(m, w, q, &code);
	struct limits limits;
	const struct snapshot *s = NULL;
	struct sandbox *sb;
	char text[256];

	if (why == NULL)
		why = limits_resolve(m, q, &limits, &code, text, sizeof(text));
	if (why != NULL) {
		ask_refuse(w, code, strcmp(code, "limits_unavailable") == 0 ?
		    "Run `sbx doctor` on the host: it prints the mend." : "",
		    "%s", why);
		return;
	}
	/* an own one, or the dependency layer of this call */
	if (q->snapshot[0] != '\0' &&
	    (s = snapshot_own(m, w, q->snapshot)) == NULL)
		return;
	sb = sandbox_new(m, w, s != NULL ? s->image : q->image, q->name,
	    q->label);
	(void)sbx_strlcpy(sb->why_image, s != NULL ? s->why_image : why_image,
	    sizeof(sb->why_image));
	sb->throwaway = q->throwaway;
	sb->network = q->want_network;
	sb->limits = limits;
	if (s != NULL) {
		snapshot_give(s, sb);
		memcpy(sb->snapshot, s->id, sizeof(s->id));
	}
	memcpy(w->ask.container, sb->id, sizeof(sb->id));
	journal_cross(m, w, create_recorded, &(struct record){
	    .op = "sandbox_create", .phase = "start", .who = sb->who,
	    .container = sb->id }, "tool", w->call->tool, "image", sb->image,
	    "image_reason", sb->why_image, "name", sb->name,
	    "throwaway", sb->throwaway ? "1" : "0", "network",
	    sb->network ? "1" : "0", NULL);
}

/* It stands; if its maker is gone meanwhile, so must it. */
void
sandbox_ready(struct monitor *m, const struct sbx_sandbox_ready *q)
{
	struct sandbox *sb = sandbox_find(m, q->container);

	if (sb == NULL || sb->state != SBX_SANDBOX_CREATING)
		return;
	sb->limits.mem_bytes = q->mem_bytes;
	sb->limits.cpu_milli = q->cpu_milli;
	sb->limits.disk_bytes = q->disk_bytes;
	sb->limits.enforced = q->enforced;
	sb->used_ns = sbx_mono_ns();
	(void)sbx_strlcpy(sb->digest, q->digest, sizeof(sb->digest));
	if (sb->network && !sb->doomed)
		egress_open(m, sb, q);
	else
		sandbox_made(m, sb, q);
}

/* With its way out, where it is to have one. */
void
sandbox_made(struct monitor *m, struct sandbox *sb,
    const struct sbx_sandbox_ready *q)
{
	struct worker *w;
	struct run *r;

	sb->state = SBX_SANDBOX_READY;
	if (sb->hidden && !sb->doomed) {
		if (!gate_sandbox_ready(m, sb) &&
		    !publish_sandbox_ready(m, sb))
			deps_sandbox_ready(m, sb);
		return;
	}
	if (!sb->doomed && (w = fork_worker(m, sb)) != NULL) {
		fork_ready(m, w);
		return;
	}
	w = ask_of_sandbox(m, SBX_MSG_SB_CREATE, sb->id);
	if (sb->doomed || w == NULL) {
		sandbox_stop(m, sb, "its call ended first");
		return;
	}
	r = run_mark(m, sb->who, sb->id, w->call->tool);
	journal_add(m, &(struct record){ .op = "sandbox_create",
	    .phase = "end", .who = sb->who, .container = sb->id,
	    .run = r->id }, "digest", sb->digest, NULL);
	(void)sbx_send_sb_created(w->peer, w->ask.id,
	    &(struct sbx_sb_created){ .container = sb->id, .run = r->id,
	    .image = sb->image, .digest = sb->digest, .name = sb->name,
	    .why_image = sb->why_image, .user = q->user, .workdir = q->workdir, .env = q->env,
	    .entrypoint = q->entrypoint, .own_user = q->own_user,
	    .nproc = SBX_SANDBOX_NPROC, .nofile = m->nofile_hard,
	    .network = sb->network, .enforced = sb->limits.enforced,
	    .mem_bytes = sb->limits.mem_bytes,
	    .cpu_milli = sb->limits.cpu_milli,
	    .disk_bytes = sb->limits.disk_bytes,
	    .ttl_s = sb->limits.ttl_s }, NULL);
	ask_done(w);
}

/* --- end ----------------------------------------------------------------- */

/* Without asking anybody: that was done, or there is nobody to ask. */
void
sandbox_stop(struct monitor *m, struct sandbox *sb, const char *reason)
{
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);

	/* what waits for its way out stands already: that may never come */
	if (sb->state == SBX_SANDBOX_CREATING && sb->made == NULL) {
		sb->doomed = true;
		return;
	}
	made_free(sb->made);
	sb->made = NULL;
	if (sb->state == SBX_SANDBOX_STOPPING || engine == NULL)
		return;		/* with no engine it is ended already */
	sb->state = SBX_SANDBOX_STOPPING;
	sb->asked_stop = true;
	sb->stop_by_ns = sbx_mono_ns() + STOP_S * S_NS;
	journal_add(m, &(struct record){ .op = "sandbox_stop",
	    .phase = "start", .who = sb->who, .container = sb->id },
	    "reason", reason, NULL);
	(void)sbx_send_sandbox_stop(engine, ++m->next_id,
	    &(struct sbx_sandbox_stop){ .container = sb->id }, NULL);
	tick_arm(m);
}

/* To whoever waited for its making or its end. */
static void
ended_answer(struct monitor *m, struct sandbox *sb,
    const struct sbx_sandbox_ended *q)
{
	struct worker *w;
	struct run *r;

	if ((w = fork_worker(m, sb)) != NULL)
		fork_ended(m, w, sb, q->reason);
	w = ask_of_sandbox(m, SBX_MSG_SB_CREATE, sb->id);
	if (w != NULL && q->why == SBX_END_IMAGE)
		ask_refuse(w, "unknown_image", "", "%s", q->reason);
	else if (w != NULL)
		ask_refuse(w, "sandbox_failed", "Run `sbx doctor` on the "
		    "host: it names the failing call and the mend.",
		    "the sandbox could not be made: %s", q->reason);
	while ((w = ask_of_sandbox(m, SBX_MSG_SB_STOP, sb->id)) != NULL) {
		r = run_mark(m, w->who, sb->id, w->call->tool);
		(void)sbx_send_sb_stopped(w->peer, w->ask.id,
		    &(struct sbx_sb_stopped){ .container = sb->id,
		    .run = r->id }, NULL);
		ask_done(w);
	}
}

/*
 * The end, whoever wanted it: the record, the listener, the runs, the answer.
 */
void
sandbox_ended(struct monitor *m, const struct sbx_sandbox_ended *q)
{
	struct sandbox *sb = sandbox_find(m, q->container);
	struct sbx_peer *proxy = component_peer(m, SBX_PROC_PROXY);
	bool created;

	if (sb == NULL)
		return;
	created = sb->state != SBX_SANDBOX_CREATING;
	journal_add(m, &(struct record){ .op = !created ? "sandbox_create" :
	    sb->asked_stop ? "sandbox_stop" : "sandbox_end", .phase = "end",
	    .who = sb->who, .container = sb->id,
	    .code = created && sb->asked_stop ? 0 : q->why + 1 },
	    "reason", q->reason, NULL);
	if (created && !sb->asked_stop)
		log_warn("sandbox %s ended by itself: %s", sb->id, q->reason);
	if (proxy != NULL)
		(void)sbx_send_proxy_close(proxy, 0,
		    &(struct sbx_proxy_close){ .container = sb->id }, NULL);
	grant_ended(m, sb->id, "its sandbox ended");
	run_sandbox_ended(m, sb->id);
	copy_sandbox_ended(m, sb->id);
	undo_forget(m, sb->id);
	ended_answer(m, sb, q);
	hidden_gone(m, sb, q->reason);
	sandbox_free(m, sb);
}

/* --- list ---------------------------------------------------------------- */

static enum sbx_match
match_of(const struct sandbox *sb, const char *ref)
{
	if (ref[0] == '\0')
		return (SBX_MATCH_ALL);
	return (strcmp(sb->name, ref) == 0 ? SBX_MATCH_NAME : SBX_MATCH_ID);
}

/* Idle is counted from the last end of anything in it. */
static int
send_item(struct worker *w, const struct sandbox *sb, const char *ref)
{
	uint64_t now = sbx_mono_ns();
	struct sbx_sb_item it = { .container = sb->id, .name = sb->name,
		.label = sb->label, .image = sb->image,
		.digest = sb->digest,
		.principal = sb->who->name, .state = sb->state,
		.match = match_of(sb, ref), .jobs = sb->live_runs,
		.created_wall_ns = sb->created_wall_ns,
		.age_ms = (now - sb->created_ns) / MS_NS,
		.idle_ms = sb->live_runs > 0 ? 0 :
		    (now - sb->used_ns) / MS_NS,
		.has_baseline = sb->baselines[0].when_wall_ns != 0,
		.reap_held = reap_held(sb), .network = sb->network,
		.nproc = SBX_SANDBOX_NPROC, .nofile = w->m->nofile_hard,
		.enforced = sb->limits.enforced,
		.mem_bytes = sb->limits.mem_bytes,
		.cpu_milli = sb->limits.cpu_milli,
		.disk_bytes = sb->limits.disk_bytes,
		.ttl_s = sb->limits.ttl_s };

	return (sbx_send_sb_item(w->peer, w->ask.id, &it, NULL));
}

/* Only what is the principal's; an operator sees all, with whose it is. */
void
sandbox_list(struct monitor *m, struct worker *w, const char *ref)
{
	bool all = policy_is_operator(m, w->who);
	struct sbx_sb_end end = { 0 };
	struct sandbox *sb;
	int r = 0;

	if (ref[0] != '\0') {
		if ((sb = sandbox_resolve(m, w->who, ref)) == NULL && all)
			sb = sandbox_find(m, ref);
		if (sb == NULL && reap_find(m, w->who, ref) != NULL) {
			reap_refuse(w, ref);
			return;
		}
		if (sb != NULL && (r = send_item(w, sb, ref)) == 0)
			end.count = 1;
	} else
		TAILQ_FOREACH(sb, &m->sandboxes, link) {
			if ((sb->who != w->who && !all) || sb->hidden)
				continue;
			if ((r = send_item(w, sb, ref)) != 0)
				break;
			end.count++;
		}
	if (r == 0 && ref[0] == '\0')
		r = reap_tell(m, w);
	if (r == 0)
		(void)sbx_send_sb_end(w->peer, w->ask.id, &end, NULL);
	ask_done(w);
}

/* --- with their call and their runs -------------------------------------- */

/*
 * undo: the client never learnt of what this call made, so it is unmade.
 * Otherwise a throwaway sandbox ends with the last run that is left in it.
 */
void
sandbox_call_ended(struct monitor *m, struct call *c, bool undo)
{
	struct sandbox *sb, *next;

	for (sb = TAILQ_FIRST(&m->sandboxes); sb != NULL; sb = next) {
		next = TAILQ_NEXT(sb, link);
		if (sb->maker != c)
			continue;
		sb->maker = NULL;
		if (sb->state == SBX_SANDBOX_CREATING && !sb->sent) {
			journal_add(m, &(struct record){
			    .op = "sandbox_create", .phase = "end",
			    .who = sb->who, .container = sb->id, .code = 1 },
			    "reason", "its call ended first", NULL);
			sandbox_free(m, sb);
		} else if (undo || (sb->throwaway && sb->live_runs == 0))
			sandbox_stop(m, sb, undo ? "its call did not complete" :
			    "throwaway");
	}
	reap_call_ended(m, c);
}

void
sandbox_run_ended(struct monitor *m, struct sandbox *sb)
{
	sb->live_runs--;
	sb->used_ns = sbx_mono_ns();
	if (sb->hidden) {
		if (!gate_run_ended(m, sb) && !publish_run_ended(m, sb))
			deps_run_ended(m, sb);
		return;
	}
	if (sb->throwaway && sb->maker == NULL && sb->live_runs == 0)
		sandbox_stop(m, sb, "throwaway");
	reap_arm(m);
}

/* An end that does not come. */
void
sandbox_tick(struct monitor *m, uint64_t now_ns)
{
	struct sandbox *sb;

	TAILQ_FOREACH(sb, &m->sandboxes, link) {
		if (sb->state == SBX_SANDBOX_READY)
			continue;
		tick_arm(m);
		if (sb->stop_by_ns == 0 || now_ns < sb->stop_by_ns)
			continue;
		/* a guest can hold so much that the kernel takes long to clear
		 * it away, and that must not be the others' end */
		if (!sb->stop_late) {
			sb->stop_late = true;
			sb->stop_by_ns = now_ns + STOP_LATE_S * S_NS;
			log_warn("sandbox %s is not gone after %d s", sb->id,
			    STOP_S);
			continue;
		}
		/* an engine that cannot end one any more is not one */
		sb->stop_by_ns = 0;
		component_fail(&m->comps[SBX_PROC_ENGINE],
		    "a sandbox could not be stopped in time");
	}
}
