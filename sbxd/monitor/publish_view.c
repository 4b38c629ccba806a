#include "sbxd/monitor/publish.h"

#include "common/base/publish.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * What an operator sees of publications, from outside of any sandbox, and the
 * word that lets one go where confirm_publish is on.  That word comes by the
 * control socket alone (ctl.c: root, or who started the suite), names the commit
 * and the branch, and is durable before the grant for them is asked for; no
 * worker and no front has a message for it.
 */

#define LOOK_NS (10 * S_NS)	/* for the recorder, and for a record */
#define ROWS_BYTES 30720u	/* CTL_PUBLISHES.rows */
#define MEMBERS_BYTES 20480u	/* CTL_PUBLICATION.members */

static const char *const states[SBX_PUBLISH_PHASE_MAX] = {
	[SBX_PUBLISH_MAKING] = "making", [SBX_PUBLISH_FETCHING] = "fetching",
	[SBX_PUBLISH_JUDGING] = "judging",
	[SBX_PUBLISH_BUILDING] = "building", [SBX_PUBLISH_GATE] = "gate",
	[SBX_PUBLISH_APPROVAL] = "waiting", [SBX_PUBLISH_PUSHING] = "pushing",
	[SBX_PUBLISH_ENDED] = "ended" };

static struct publish *
find(struct monitor *m, const char *id)
{
	struct publish *p, *look = NULL;

	for (p = m->publishes; p < m->publishes + MAX_PUBLISHES; p++)
		if (p->used && strcmp(p->id, id) == 0) {
			if (!p->look)
				return (p);
			look = p;	/* of one that is not kept */
		}
	return (look);
}

static void
refuse_unknown(struct ctl *c, const char *id)
{
	ctl_refuse(c, "unknown_run", "`sbx publish list` lists those that are "
	    "kept.", "there is no publication %s in this suite (any more)",
	    id);
}

static uint64_t
age_s(const struct publish *p)
{
	return ((sbx_mono_ns() - p->began_ns) / S_NS);
}

/* --- list ------------------------------------------------------------------------- */

static void
add_row(struct sbx_strs *rows, struct sbx_buf *b, const struct publish *p)
{
	char repo[sizeof(p->host) + sizeof(p->repo)], age[24];
	const char *const cells[] = { p->id, states[p->phase],
		publish_outcome(p), p->step, p->look ? p->whose :
		p->who->name, p->work, repo,
		p->branch, p->commit, age };

	(void)snprintf(repo, sizeof(repo), "%s/%s", p->host, p->repo);
	(void)snprintf(age, sizeof(age), "%" PRIu64, age_s(p));
	for (size_t i = 0; i < SBX_NELEM(cells); i++)
		(void)sbx_strs_add(rows, b, cells[i]);
}

void
publish_list(struct ctl *c)
{
	struct sbx_ctl_publishes s = { .rows = { 0 } };
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	const struct publish *p, *next, *last = NULL;

	sbx_buf_init(&b, ROWS_BYTES);
	for (;; last = next) {
		next = NULL;
		for (p = c->m->publishes; p < c->m->publishes + MAX_PUBLISHES;
		    p++)
			if (p->used && find(c->m, p->id) == p && (last == NULL ||
			    p->began_ns < last->began_ns) && (next == NULL ||
			    p->began_ns > next->began_ns))
				next = p;
		if (next == NULL)
			break;
		add_row(&s.rows, &b, next);
	}
	(void)sbx_send_ctl_publishes(c->peer, c->id, &s, NULL);
	ctl_over(c);
}

/* --- show ------------------------------------------------------------------------- */

struct members {
	struct sbx_strs v;
	struct sbx_buf b;
};

/* "": it is left out. */
static void
add(struct members *m, const char *name, const char *value)
{
	if (value[0] == '\0')
		return;
	(void)sbx_strs_add(&m->v, &m->b, name);
	(void)sbx_strs_add(&m->v, &m->b, value);
}

static void
add_number(struct members *m, const char *name, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, n);
	add(m, name, text);
}

static void
add_what(struct members *m, const struct publish *p)
{
	const struct sbx_publish_step *row = sbx_publish_step(p->step);

	add(m, "run_id", p->id);
	add(m, "state", states[p->phase]);
	add(m, "outcome", publish_outcome(p));
	if (p->phase == SBX_PUBLISH_APPROVAL)
		add(m, "waiting_for", "approval");
	add(m, "step", p->step);
	add(m, "reason", p->reason);
	add(m, "next", row != NULL ? row->mend : "");
	add(m, "principal", p->look ? p->whose : p->who->name);
	add(m, "reconciled", p->look ? "from the branch as it is" : "");
	add(m, "container_id", p->work);
	add(m, "publisher", p->box);
	add(m, "publisher_image", p->digest);
	add(m, "host", p->host);
	add(m, "repo", p->repo);
	add(m, "branch", p->branch);
	add(m, "default_branch", p->default_branch);
	add(m, "base", p->base);
	add(m, "second_parent", p->parent2);
	add(m, "merge_branch", p->merge_branch);
	/* the diff is without them */
	if (p->parent2[0] != '\0')
		add_number(m, "merged_files", p->merged);
	add(m, "from", p->tip);
	add_number(m, "age_seconds", age_s(p));
}

static void
add_verdicts(struct members *m, const struct publish *p)
{
	char when[SBX_WALL_SIZE] = "";

	if (p->judged)
		add(m, "judge", "lets it go");
	if (p->built)
		add(m, "publisher_made", "the same tree and commit");
	add(m, "tree_id", p->tree);
	add(m, "commit", p->commit);
	add_number(m, "added", p->added);
	add_number(m, "modified", p->modified);
	add_number(m, "deleted", p->deleted);
	add_number(m, "unchanged", p->unchanged);
	add_number(m, "bytes", p->bytes);
	add_number(m, "findings_total", p->total);
	if (p->pass.when_wall_ns != 0) {
		sbx_wall_text(p->pass.when_wall_ns, when);
		add(m, "verified_by", p->pass.gate);
		add(m, "verified_at", when);
		add(m, "verified_with", p->pass.ran);
		add(m, "verified_image", p->pass.image);
		add(m, "verified_layer", p->pass.layer);
	} else if (p->granted[0] != '\0' ||
	    p->phase == SBX_PUBLISH_APPROVAL)
		add(m, "verified_by", "nothing: verify_gate is off");
}

static void
add_grant(struct members *m, const struct publish *p)
{
	char ref[256];

	add(m, "shown", p->shown);
	if (p->shown[0] != '\0') {
		add_number(m, "files", p->files);
		add_number(m, "lines_added", p->plus);
		add_number(m, "lines_deleted", p->minus);
		add_number(m, "diff_cut", p->cut);
	}
	if (p->granted[0] == '\0')
		return;
	(void)snprintf(ref, sizeof(ref), "refs/heads/%s", p->branch);
	add(m, "grant", p->granted);
	add(m, "grant_ref", ref);
	add(m, "grant_old", p->tip);
	add(m, "grant_new", p->commit);
	add_number(m, "grant_uses", 1);
	add_number(m, "grant_used", p->push_used);
}

/* fd -1: nothing of what SHOW printed. */
static void
tell(struct ctl *c, const struct publish *p, const struct sbx_run_data *d,
    int fd)
{
	int SBX_CLEANUP(fd) none = -1;
	struct members m = { 0 };
	struct sbx_ctl_publication s = { .findings = { p->findings.data,
		p->nfindings, (uint32_t)p->findings.len } };

	sbx_buf_init(&m.b, MEMBERS_BYTES);
	add_what(&m, p);
	add_verdicts(&m, p);
	add_grant(&m, p);
	s.members = m.v;
	if (fd != -1) {
		s.length = d->length;
		s.file_offset = d->file_offset;
		s.total = d->total;
	} else if (sbx_memfd_sealed("none", "", 0, &none) != 0) {
		ctl_refuse(c, "suite_degraded", "", "there is no memory");
		sbx_buf_clear(&m.b);
		return;
	}
	(void)sbx_send_ctl_publication(c->peer, c->id, &s,
	    (int[]){ fd != -1 ? fd : none });
	sbx_buf_clear(&m.b);
	ctl_over(c);
}

void
publish_show(struct ctl *c, const struct sbx_ctl_publish_show *q)
{
	struct sbx_peer *rec = component_peer(c->m, SBX_PROC_RECORDER);
	const struct publish *p = find(c->m, q->publish);

	if (p == NULL) {
		refuse_unknown(c, q->publish);
		return;
	}
	if (p->shown[0] == '\0' || rec == NULL) {
		tell(c, p, NULL, -1);
		return;
	}
	memcpy(c->publish, p->id, sizeof(c->publish));
	c->look_id = ++c->m->next_id;
	c->by_ns = sbx_mono_ns() + LOOK_NS;
	sbx_peer_set_state(c->peer, CTL_ASKED);
	tick_arm(c->m);
	(void)sbx_send_run_read(rec, c->look_id, &(struct sbx_run_read){
	    .run = p->shown, .stream = SBX_STREAM_OUT,
	    .offset = q->offset }, NULL);
}

static struct ctl *
looking(struct monitor *m, uint32_t id)
{
	for (size_t i = 0; i < SBX_NELEM(m->ctls); i++)
		if (m->ctls[i].used && id != 0 && m->ctls[i].look_id == id)
			return (&m->ctls[i]);
	return (NULL);
}

/* Where the recorder has evicted it, the rest is told all the same. */
bool
publish_looked(struct monitor *m, struct sbx_in *in)
{
	struct ctl *c = looking(m, in->hdr.id);
	const struct publish *p;

	if (c == NULL)
		return (false);
	if ((p = find(m, c->publish)) == NULL)
		refuse_unknown(c, c->publish);
	else if (in->hdr.type == SBX_MSG_RUN_DATA)
		tell(c, p, &in->m.run_data, in->fds[0]);
	else
		tell(c, p, NULL, -1);
	return (true);
}

/* --- approval --------------------------------------------------------------------- */

static void
approve(struct ctl *c, struct publish *p)
{
	struct monitor *m = c->m;
	const char *why = "it cannot be recorded";
	char uid[12];

	(void)snprintf(uid, sizeof(uid), "%u", c->uid);
	if (journal_up(m, &why))
		p->approve_id = journal_own(m, &(struct record){
		    .op = "publish", .phase = "approved", .who = p->who,
		    .container = p->work, .run = p->id }, "operator", uid,
		    "host", p->host, "repo", p->repo, "branch", p->branch,
		    "commit", p->commit, NULL);
	if (p->approve_id == 0) {
		ctl_refuse(c, "journal_unavailable", "Try again later.", "it "
		    "waits on: %s", why);
		return;
	}
	memcpy(c->publish, p->id, sizeof(c->publish));
	c->look_id = p->approve_id;
	c->by_ns = sbx_mono_ns() + LOOK_NS;
	sbx_peer_set_state(c->peer, CTL_ASKED);
	tick_arm(m);
}

static void
answered(struct ctl *c)
{
	(void)sbx_send_ctl_publish_answered(c->peer, c->id,
	    &(struct sbx_ctl_publish_answered){ 0 }, NULL);
	ctl_over(c);
}

static void
decline(struct ctl *c, struct publish *p, const char *reason)
{
	char text[256];

	(void)sbx_vis(text, sizeof(text), reason, strlen(reason));
	publish_refuse(p, "confirm", "the operator refused it%s%.200s",
	    text[0] != '\0' ? ": " : "", text);
	answered(c);
}

/* Safe: what is meant is said whole; an answer to something else does nothing. */
void
publish_answer(struct ctl *c, const struct sbx_ctl_publish_answer *q)
{
	struct publish *p = find(c->m, q->publish);

	if (p == NULL)
		refuse_unknown(c, q->publish);
	else if (p->phase != SBX_PUBLISH_APPROVAL || p->approve_id != 0)
		ctl_refuse(c, "not_waiting", "See `sbx publish show`.",
		    "publication %s does not wait for an approval%s%.200s",
		    p->id, p->reason[0] != '\0' ? ": " : "", p->reason);
	else if (strcmp(p->commit, q->commit) != 0 ||
	    strcmp(p->branch, q->branch) != 0)
		ctl_refuse(c, "another", "See `sbx publish show`.",
		    "publication %s is of %s to %s, not of that", p->id,
		    p->commit, p->branch);
	else if (q->approve)
		approve(c, p);
	else
		decline(c, p, q->reason);
}

/* Only from its record on, and only what may be pushed at this time still. */
bool
publish_recorded(struct monitor *m, const struct sbx_in *in)
{
	struct ctl *c = looking(m, in->hdr.id);
	struct publish *p = NULL;
	const char *why;

	for (size_t i = 0; p == NULL && i < MAX_PUBLISHES; i++)
		if (m->publishes[i].used && in->hdr.id != 0 &&
		    m->publishes[i].approve_id == in->hdr.id)
			p = &m->publishes[i];
	if (p == NULL)
		return (false);
	p->approve_id = 0;
	if ((why = journal_why(in, "")) != NULL) {
		if (c != NULL)
			ctl_refuse(c, "journal_unavailable", "Try again "
			    "later.", "it waits on: %s", why);
		return (true);
	}
	if (c != NULL)
		answered(c);
	if (!repos_may_write(m, p->host, p->repo))
		publish_refuse(p, "not_allowed", "the repository is not in "
		    "allowed_repo any more");
	else if (!override_holds(p))
		publish_refuse(p, "secret", "what was to let findings of "
		    "secrets out is over by now");
	else
		publish_push(p);
	return (true);
}

void
publish_unanswered(struct publish *p)
{
	struct ctl *c = looking(p->m, p->approve_id);

	p->approve_id = 0;
	if (c != NULL)
		ctl_refuse(c, "not_waiting", "See `sbx publish show`.",
		    "publication %s ended meanwhile", p->id);
}
