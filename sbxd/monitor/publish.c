#include "sbxd/monitor/publish.h"

#include "common/base/publish.h"
#include "common/proto/filework.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Publications.  A sandbox that nobody can name fetches the base; the declared
 * files go there through sbxd-judge, which says what commit they make on it;
 * the sandbox makes it too, and both must have come to the same.  Only then is
 * there a grant, for that commit, that branch and that sandbox, once.  Whatever
 * ends meanwhile, the publication ends: refused as long as its push had not
 * begun, else unknown until somebody looks at the branch.
 */

#define MAKE_NS (60 * S_NS)		/* for its sandbox */
#define GRANT_NS (60 * S_NS)		/* for a grant */
#define READ_NS (30 * S_NS)		/* for the line of a script */
#define BASE_NS (60 * S_NS)		/* for the base to be read */
/* for the files to cross and be judged: longer than that takes who packs them */
#define FILES_NS (SBX_FILE_PACK_MS * MS_NS + 30 * S_NS)
#define FINDINGS_BYTES 28672		/* as in JUDGED */
#define SLACK_NS (30 * S_NS)		/* for a script's end to be known */

static struct publish *
publish_of(struct monitor *m, const struct sandbox *sb)
{
	for (size_t i = 0; i < MAX_PUBLISHES; i++)
		if (m->publishes[i].used &&
		    strcmp(m->publishes[i].box, sb->id) == 0)
			return (&m->publishes[i]);
	return (NULL);
}

/* The one that waits for the answer to our request `id`, which this is. */
struct publish *
publish_answered(struct monitor *m, enum publish_ask what, uint32_t id)
{
	for (size_t i = 0; id != 0 && i < MAX_PUBLISHES; i++)
		if (m->publishes[i].used && m->publishes[i].asked[what] == id) {
			m->publishes[i].asked[what] = 0;
			return (&m->publishes[i]);
		}
	return (NULL);
}

/* By one of its grants that is not over. */
static struct publish *
publish_of_grant(struct monitor *m, const char *id)
{
	for (size_t i = 0; id[0] != '\0' && i < MAX_PUBLISHES; i++)
		if (m->publishes[i].used &&
		    (strcmp(m->publishes[i].fetch, id) == 0 ||
		    strcmp(m->publishes[i].push, id) == 0))
			return (&m->publishes[i]);
	return (NULL);
}

void
publish_within(struct publish *p, uint64_t ns)
{
	p->by_ns = sbx_mono_ns() + ns;
	tick_arm(p->m);
}

/* --- ends --------------------------------------------------------------------- */

/* Its grants first: each tells of its end, and must find nobody. */
static void
publish_close(struct publish *p)
{
	struct sandbox *sb = sandbox_find(p->m, p->box);
	char fetch[sizeof(p->fetch)], push[sizeof(p->push)];

	memcpy(fetch, p->fetch, sizeof(fetch));
	memcpy(push, p->push, sizeof(push));
	p->fetch[0] = p->push[0] = p->box[0] = '\0';
	memset(p->asked, 0, sizeof(p->asked));
	sbx_close(&p->base_fd);
	free(p->dir);
	free(p->names);
	free(p->message);
	p->dir = p->names = p->message = NULL;
	p->by_ns = 0;
	publish_unanswered(p);
	judge_kill(p->m, &p->judge);
	grant_drop(p->m, push, "its publication ended");
	grant_drop(p->m, fetch, "its publication ended");
	if (sb != NULL)
		sandbox_stop(p->m, sb, "its publication ended");
}

void
publish_free(struct publish *p)
{
	publish_close(p);
	sbx_buf_clear(&p->findings);
	sbx_buf_clear(&p->waived);
	memset(p, 0, sizeof(*p));
	p->base_fd = -1;
}

const char *
publish_outcome(const struct publish *p)
{
	static const char *const outcomes[SBX_PUBLISH_OUTCOME_MAX] = {
		[SBX_PUBLISH_NONE] = "none", [SBX_PUBLISH_PUSHED] = "pushed",
		[SBX_PUBLISH_LANDED] = "landed",
		[SBX_PUBLISH_WOULD] = "would",
		[SBX_PUBLISH_REFUSED] = "refused",
		[SBX_PUBLISH_UNKNOWN] = "unknown" };

	return (outcomes[p->outcome]);
}

/* May use the journal's reserve: what was begun must be seen to end. */
static void
publish_record(struct publish *p)
{
	journal_add(p->m, &(struct record){ .flags = SBX_JOURNAL_RESERVED,
	    .op = "publish", .phase = "end", .who = p->who,
	    .container = p->work, .run = p->id,
	    .code = p->outcome >= SBX_PUBLISH_REFUSED }, "outcome",
	    publish_outcome(p), "step", p->step, "reason", p->reason,
	    "host", p->host, "repo", p->repo, "branch", p->branch, "tip",
	    p->tip, "base", p->base, "tree", p->tree, "commit", p->commit,
	    "image", p->digest, NULL);
}

void
publish_end(struct publish *p, enum sbx_publish_outcome outcome)
{
	p->phase = SBX_PUBLISH_ENDED;
	p->outcome = outcome;
	if (outcome == SBX_PUBLISH_PUSHED)
		override_end(p);
	p->ended_ns = sbx_mono_ns();
	if (p->look)
		publish_reconciled(p);
	else
		publish_record(p);
	if (!p->look && outcome != SBX_PUBLISH_UNKNOWN)
		publish_known(p);
	publish_close(p);
	publish_tell(p);
}

/* fmt NULL: as its table says. */
void
publish_refuse(struct publish *p, const char *step, const char *fmt, ...)
{
	const struct sbx_publish_step *row = sbx_publish_step(step);
	char text[sizeof(p->reason)];
	va_list ap;

	if (p->phase == SBX_PUBLISH_ENDED)
		return;
	if (fmt == NULL)
		(void)sbx_strlcpy(text, row->cause, sizeof(text));
	else {
		va_start(ap, fmt);
		(void)vsnprintf(text, sizeof(text), fmt, ap);
		va_end(ap);
	}
	memcpy(p->reason, text, sizeof(text));
	(void)sbx_strlcpy(p->step, p->push_ran ? "unknown" : step,
	    sizeof(p->step));
	publish_end(p, p->look ? publish_look_outcome(step) : p->push_ran ?
	    SBX_PUBLISH_UNKNOWN : SBX_PUBLISH_REFUSED);
}

/* --- scripts -------------------------------------------------------------------- */

static unsigned
script_of(const struct publish *p)
{
	return (p->look ? SBX_PUBLISH_LOOK :
	    p->phase == SBX_PUBLISH_FETCHING ? SBX_PUBLISH_FETCH :
	    p->phase != SBX_PUBLISH_BUILDING ? SBX_PUBLISH_PUSH :
	    p->built ? SBX_PUBLISH_SHOW : SBX_PUBLISH_BUILD);
}

static void
run_script(struct publish *p, const char *const *args, size_t nargs)
{
	const struct sbx_publish_row *row = &sbx_publish_scripts[script_of(p)];
	struct script q = { .tool = "publish", .text = row->script,
		.shown = row->name, .args = args, .nargs = nargs,
		.input = p->names, .ninput = p->nnames,
		.timeout_ms = row->seconds * UINT64_C(1000) };
	const char *why;

	why = hidden_run(p->m, sandbox_find(p->m, p->box), &q, p->run);
	if (why != NULL) {
		publish_refuse(p, "suite", "%s", why);
		return;
	}
	if (p->phase == SBX_PUBLISH_PUSHING)
		p->push_ran = true;
	publish_within(p, row->seconds * S_NS + SLACK_NS);
}

static const char *
or_none(const char *id)
{
	return (id[0] != '\0' ? id : "-");
}

static void
url_of(const struct publish *p, char *dst, size_t size)
{
	(void)snprintf(dst, size, "https://%s/%s.git", p->host, p->repo);
}

static void
fetch(struct publish *p)
{
	char url[512], count[12];
	const char *const args[] = { "publish", url, p->base, p->branch,
		or_none(p->parent2), or_none(p->merge_branch), count };
	const char *const look[] = { "publish", url, p->branch, p->commit };

	url_of(p, url, sizeof(url));
	(void)snprintf(count, sizeof(count), "%u", p->declared);
	if (p->look)
		run_script(p, look, SBX_NELEM(look));
	else
		run_script(p, args, SBX_NELEM(args));
}

static void
build(struct publish *p)
{
	char count[12];
	const char *const args[] = { "publish", p->base,
		or_none(p->parent2), count };

	p->phase = SBX_PUBLISH_BUILDING;
	(void)snprintf(count, sizeof(count), "%u", p->declared);
	run_script(p, args, SBX_NELEM(args));
}

static void
show(struct publish *p)
{
	const char *const args[] = { "publish", p->base, p->commit };

	p->built = true;
	run_script(p, args, SBX_NELEM(args));
}

static void
push(struct publish *p)
{
	char url[512];
	const char *const args[] = { "publish", url, p->commit, p->branch,
		or_none(p->tip), (p->flags & SBX_PUBLISH_FORCE) ? "1" : "0" };

	url_of(p, url, sizeof(url));
	run_script(p, args, SBX_NELEM(args));
}

/* A grant for its next script, which runs when that is open. */
static void
want_grant(struct publish *p, const struct sbx_ctl_grant *q, char ret_id[17])
{
	struct sandbox *sb = sandbox_find(p->m, p->box);

	publish_within(p, GRANT_NS);
	if (sb == NULL || !grant_publish(p->m, sb, p->host, p->repo, q,
	    ret_id))
		publish_refuse(p, "suite", "there is no room for a grant, or "
		    "it cannot be recorded");
}

/* --- fetch ---------------------------------------------------------------------- */

bool
publish_sandbox_ready(struct monitor *m, struct sandbox *sb)
{
	struct publish *p = publish_of(m, sb);

	if (p == NULL)
		return (false);
	if (p->phase != SBX_PUBLISH_MAKING)
		return (true);
	p->phase = SBX_PUBLISH_FETCHING;
	(void)sbx_strlcpy(p->digest, sb->digest[0] != '\0' ? sb->digest :
	    sb->image, sizeof(p->digest));
	if (repos_source(m, p->host))
		want_grant(p, NULL, p->fetch);
	else
		fetch(p);
	return (true);
}

static bool
is_protected(const struct publish *p)
{
	return (strcmp(p->branch, "main") == 0 ||
	    strcmp(p->branch, "master") == 0 ||
	    strcmp(p->branch, p->default_branch) == 0);
}

/* A file that it was told of: the monitor sees no byte of it. */
static void
read_base(struct publish *p)
{
	struct sbx_peer *engine = component_peer(p->m, SBX_PROC_ENGINE);
	const struct sbx_engine_file q = { .container = p->box,
		.op = SBX_FILE_READ, .path = SBX_PUBLISH_BASE, .pattern = "",
		.max_bytes = SBX_PUBLISH_MAX_BASE, .flags = SBX_FILE_WHOLE };
	int SBX_CLEANUP(fd) none = -1;

	p->base_fd = memfd_create("base", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (engine == NULL || p->base_fd == -1 ||
	    sbx_memfd_sealed("none", "", 0, &none) != 0) {
		publish_refuse(p, "suite", "the base cannot be read");
		return;
	}
	p->asked[PUBLISH_BASE] = ++p->m->next_id;
	publish_within(p, BASE_NS);
	(void)sbx_send_engine_file(engine, p->asked[PUBLISH_BASE], &q,
	    (int[]){ none, p->base_fd });
}

/* What the remote has, by the publisher's word: on what it builds, the judge
 * holds it to. */
static void
fetched(struct publish *p)
{
	const bool force = (p->flags & SBX_PUBLISH_FORCE) != 0;

	if (is_protected(p) && !p->m->conf.allow_protected_ref)
		publish_refuse(p, "protected_ref", NULL);
	else if (p->tip[0] != '\0' && strcmp(p->tip, p->base) != 0 &&
	    p->like[0] == '\0' && !force)
		publish_refuse(p, "upstream_moved", "the branch is at %s by "
		    "now, not at the base", p->tip);
	else
		read_base(p);
}

/* --- judge ---------------------------------------------------------------------- */

/* What others run is decided where the repository's default branch is changed:
 * from another one, it would get onto this one unseen. */
static bool
takes_default(const struct publish *p)
{
	return (p->parent2[0] != '\0' &&
	    strcmp(p->merge_branch, p->default_branch) == 0);
}

static int
send_publish(struct publish *p, uint64_t length)
{
	struct sbx_judge_publish q = { .base = p->base,
		.parent2 = p->parent2, .fork = p->fork, .merged = p->merged,
		.base_length = length,
		.author = p->m->conf.publish_author,
		.time = sbx_wall_ns() / S_NS,
		.allow = (p->m->conf.allow_sensitive_paths ?
		SBX_PUBLISH_SENSITIVE : 0u) | (p->sign ? SBX_PUBLISH_SIGN :
		0u) | (takes_default(p) ? SBX_PUBLISH_UPSTREAM : 0u) };
	int SBX_CLEANUP(fd) names = -1, SBX_CLEANUP(fd) message = -1;
	int SBX_CLEANUP(fd) rules = -1;
	struct sbx_buf SBX_CLEANUP_BUF waived = { 0 };

	override_list(p, &q.waived, &waived);
	if (sbx_memfd_sealed("names", p->names, p->nnames, &names) != 0 ||
	    sbx_memfd_sealed("message", p->message, p->nmessage,
	    &message) != 0 ||
	    sbx_memfd_sealed("rules", p->m->secret_rules != NULL ?
	    p->m->secret_rules : "", p->m->nsecret_rules, &rules) != 0)
		return (SBX_E_SYS);
	return (sbx_send_judge_publish(p->judge.peer, 0, &q,
	    (int[]){ names, p->base_fd, message, rules }));
}

static int
send_files(struct publish *p)
{
	const struct sbx_engine_file pack = { .container = p->work,
		.op = SBX_FILE_PACK, .path = p->dir, .pattern = "",
		.flags = SBX_FILE_PRESENT };
	struct crossing c = { .judge = &p->judge, .publish = true,
		.pack = &pack, .to = p->box, .dest = SBX_PUBLISH_IN };
	int SBX_CLEANUP(fd) list = -1;

	/* what a merge brings is at the repository already: no byte of it
	 * comes from where somebody works */
	if (sbx_memfd_sealed("names", p->names, p->ndeclared, &list) != 0)
		return (SBX_E_SYS);
	c.list_fd = list;
	return (hidden_cross(p->m, &c, &p->asked[PUBLISH_PACK],
	    &p->asked[PUBLISH_UNPACK]));
}

/* Sealed: the sandbox has no hand in what the judge reads of it from now on. */
static void
judge_it(struct publish *p)
{
	struct sandbox *work = sandbox_find(p->m, p->work);
	struct stat st;

	if (fcntl(p->base_fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK |
	    F_SEAL_GROW | F_SEAL_WRITE) == -1 ||
	    fstat(p->base_fd, &st) == -1) {
		publish_refuse(p, "base", "the publisher holds on to what it "
		    "said of the base");
		return;
	}
	p->phase = SBX_PUBLISH_JUDGING;
	publish_within(p, FILES_NS);
	if (work == NULL || work->who != p->who ||
	    work->state != SBX_SANDBOX_READY)
		publish_refuse(p, "suite", "the sandbox of the files is gone");
	else if (!publish_announce(p))
		;	/* refused */
	else if (judge_begin(p->m, &p->judge) != 0 ||
	    send_publish(p, (uint64_t)st.st_size) != 0 ||
	    send_files(p) != 0)
		publish_refuse(p, "suite", "the files could not be sent");
	sbx_close(&p->base_fd);
}

/* Both sandboxes and the judge have said that all of it crossed. */
static void
crossed(struct publish *p)
{
	if (!p->packed || !p->unpacked || !p->judged)
		return;
	judge_kill(p->m, &p->judge);
	build(p);
}

/* Where one fails all do; what the reader says is the cause, if anything. */
static void
file_fail(struct publish *p, const char *step, const char *reason)
{
	if (p->held_step[0] == '\0') {
		(void)sbx_strlcpy(p->held_step, step, sizeof(p->held_step));
		(void)sbx_strlcpy(p->held, reason, sizeof(p->held));
	}
	if (p->packed)
		publish_refuse(p, p->held_step, "%s", p->held);
}

static void
packed(struct publish *p, const struct sbx_engine_filed *q)
{
	p->packed = true;
	if (q->error != 0 && q->error != EPIPE)
		publish_refuse(p, "mode", "%s", q->reason);
	else if (p->held_step[0] != '\0')
		publish_refuse(p, p->held_step, "%s", p->held);
	else
		crossed(p);
}

bool
publish_filed(struct monitor *m, const struct sbx_engine_filed *q, uint32_t id)
{
	struct publish *p = publish_answered(m, PUBLISH_PACK, id);

	if (p != NULL) {
		packed(p, q);
		return (true);
	}
	if ((p = publish_answered(m, PUBLISH_BASE, id)) == NULL)
		return (false);
	if (q->error != 0)
		publish_refuse(p, "fetch", "the base cannot be read: %s",
		    q->reason);
	else
		judge_it(p);
	return (true);
}

bool
publish_unpacked(struct monitor *m, const struct sbx_engine_unpacked *q,
    uint32_t id)
{
	struct publish *p = publish_answered(m, PUBLISH_UNPACK, id);

	if (p == NULL)
		return (false);
	p->unpacked = true;
	if (q->error != 0)
		file_fail(p, "suite", q->reason);
	else
		crossed(p);
	return (true);
}

static void
keep_strs(struct sbx_buf *b, uint32_t *ret_n, const struct sbx_strs *from)
{
	struct sbx_strs s = { 0 };
	const char *f = NULL;

	sbx_buf_init(b, FINDINGS_BYTES);
	while ((f = sbx_strs_next(from, f)) != NULL)
		if (sbx_strs_add(&s, b, f) != 0)
			break;
	*ret_n = s.count;
}

static void
keep_findings(struct publish *p, const struct sbx_judged *q)
{
	keep_strs(&p->findings, &p->nfindings, &q->findings);
	keep_strs(&p->waived, &p->nwaived, &q->waived);
	p->total = q->total;
	p->waived_total = q->nwaived;
	p->added = q->added;
	p->modified = q->modified;
	p->deleted = q->deleted;
	p->unchanged = q->unchanged;
	p->bytes = q->bytes;
}

/*
 * The same paths went to that branch before, and it is where they made it: as
 * nothing has changed since, not even what was deleted then, they landed.
 */
static const struct publish *
made_before(const struct publish *p, const struct sbx_judged *q)
{
	const struct publish *o;

	if ((strcmp(q->step, "unchanged") != 0 &&
	    strcmp(q->step, "missing") != 0) ||
	    q->added + q->modified + q->deleted != 0)
		return (NULL);
	for (o = p->m->publishes; o < p->m->publishes + MAX_PUBLISHES; o++)
		if (o->used && o != p && (o->who == p->who || (o->look &&
		    strcmp(o->whose, p->who->name) == 0)) &&
		    (o->outcome == SBX_PUBLISH_PUSHED ||
		    o->outcome == SBX_PUBLISH_LANDED) &&
		    strcmp(o->commit, p->base) == 0 &&
		    strcmp(o->commit, p->tip) == 0 &&
		    strcmp(o->host, p->host) == 0 &&
		    strcmp(o->repo, p->repo) == 0 &&
		    strcmp(o->branch, p->branch) == 0 &&
		    strcmp(o->names_hash, p->names_hash) == 0)
			return (o);
	return (NULL);
}

static void
judge_refused(struct publish *p, const struct sbx_judged *q)
{
	const struct publish *o = made_before(p, q);

	if (o == NULL) {
		file_fail(p, q->step, q->reason);
		return;
	}
	memcpy(p->tree, o->tree, sizeof(p->tree));
	memcpy(p->commit, o->commit, sizeof(p->commit));
	memcpy(p->signed_id, o->signed_id, sizeof(p->signed_id));
	publish_end(p, SBX_PUBLISH_LANDED);
}

/*
 * Safe for a hostile judge, who speaks once: what it says goes out only where
 * the publisher made the same of other bytes' ids, and it cannot say where to.
 */
int
publish_judged(struct publish *p, const struct sbx_judged *q)
{
	const size_t n = strlen(p->base);
	char total[12], waived[12];

	if (p->phase != SBX_PUBLISH_JUDGING)
		return (SBX_E_STATE);
	if (q->step[0] != '\0' ? sbx_publish_step(q->step) == NULL :
	    !sbx_is_hex(q->tree, n) || !sbx_is_hex(q->commit, n))
		return (SBX_E_SYNTAX);
	keep_findings(p, q);
	(void)snprintf(total, sizeof(total), "%u", q->total);
	(void)snprintf(waived, sizeof(waived), "%u", q->nwaived);
	journal_add(p->m, &(struct record){ .op = "publish",
	    .phase = "verdict", .who = p->who, .container = p->work,
	    .run = p->id, .code = q->step[0] != '\0' }, "step", q->step,
	    "reason", q->reason, "tree", q->tree, "commit", q->commit,
	    "findings", total, "rule", q->findings.count > 0 ?
	    q->findings.data : "", "waived", waived, NULL);
	if (q->step[0] != '\0') {
		judge_refused(p, q);
		return (0);
	}
	if (p->sign && strcmp(q->commit, p->signed_id) != 0) {
		publish_refuse(p, "sign", "the judge says commit %s, and %s "
		    "was signed", q->commit, or_none(p->signed_id));
		return (0);
	}
	p->judged = true;
	memcpy(p->tree, q->tree, n + 1);
	memcpy(p->commit, q->commit, n + 1);
	crossed(p);
	return (0);
}

struct publish *
publish_of_peer(struct monitor *m, const struct sbx_peer *p)
{
	for (size_t i = 0; i < MAX_PUBLISHES; i++)
		if (m->publishes[i].used && m->publishes[i].judge.peer == p)
			return (&m->publishes[i]);
	return (NULL);
}

void
publish_judge_ended(struct publish *p)
{
	p->judge.peer = NULL;
	publish_refuse(p, "suite", "the process that judges it ended");
}

/* --- what is left when both agree ------------------------------------------------ */

/* Whose record, and what it is for, is durable before it opens (grant.c). */
void
publish_push(struct publish *p)
{
	static const char zeros[65] = "00000000000000000000000000000000"
	    "00000000000000000000000000000000";
	char ref[256], old[65];
	const struct sbx_ctl_grant q = { .container = p->box,
		.host = p->host, .repo = p->repo, .ref = ref, .old_id = old,
		.new_id = p->commit, .uses = 1,
		.force = (p->flags & SBX_PUBLISH_FORCE) != 0,
		.lifetime_ms = 3600000 };

	(void)snprintf(ref, sizeof(ref), "refs/heads/%s", p->branch);
	(void)snprintf(old, sizeof(old), "%.*s", (int)strlen(p->base),
	    p->tip[0] != '\0' ? p->tip : zeros);
	if (p->phase != SBX_PUBLISH_PUSHING && p->fetch[0] == '\0' &&
	    repos_source(p->m, p->host)) {
		/* it waited, and the grant to read is over */
		p->phase = SBX_PUBLISH_PUSHING;
		want_grant(p, NULL, p->fetch);
		return;
	}
	p->phase = SBX_PUBLISH_PUSHING;
	journal_add(p->m, &(struct record){ .op = "publish", .phase = "push",
	    .who = p->who, .container = p->work, .run = p->id }, "host",
	    p->host, "repo", p->repo, "ref", ref, "old_id", old, "new_id",
	    p->commit, "sandbox", p->box, NULL);
	publish_note(p);
	want_grant(p, &q, p->push);
	memcpy(p->granted, p->push, sizeof(p->granted));
}

/* It waits for others, with no credential meanwhile. */
void
publish_rest(struct publish *p)
{
	char fetch[sizeof(p->fetch)];

	memcpy(fetch, p->fetch, sizeof(fetch));
	p->fetch[0] = '\0';
	grant_drop(p->m, fetch, "its publication waits");
}

/* Until an operator says so (publish_view.c). */
static void
hold(struct publish *p)
{
	publish_rest(p);
	p->phase = SBX_PUBLISH_APPROVAL;
	publish_within(p, PUBLISH_APPROVAL_NS);
	journal_add(p->m, &(struct record){ .op = "publish", .phase = "held",
	    .who = p->who, .container = p->work, .run = p->id }, "host",
	    p->host, "repo", p->repo, "branch", p->branch, "commit",
	    p->commit, NULL);
	log_notice("publication %s waits: `sbx publish show %s`, then `sbx "
	    "approve %s`", p->id, p->id, p->id);
	publish_tell(p);
}

static void
agreed(struct publish *p)
{
	const bool moved = p->tip[0] != '\0' && strcmp(p->tip, p->base) != 0;

	p->phase = SBX_PUBLISH_GATE;
	if (moved && strcmp(p->like, p->tree) == 0) {
		memcpy(p->commit, p->tip, sizeof(p->commit));
		publish_end(p, SBX_PUBLISH_LANDED);
	} else if (moved && (p->flags & SBX_PUBLISH_FORCE) == 0)
		publish_refuse(p, "upstream_moved", "the branch is at %s by "
		    "now, not at the base", p->tip);
	else
		publish_gate_begin(p);
}

void
publish_verified(struct publish *p)
{
	const struct pass *pass = gate_pass(p->who, p->tree);

	if (pass != NULL)
		p->pass = *pass;	/* as it was, for who looks at it */
	if (!override_holds(p))
		publish_refuse(p, "secret", "what was to let findings of "
		    "secrets out is over or used up by now");
	else if (p->flags & SBX_PUBLISH_DRY_RUN)
		publish_end(p, SBX_PUBLISH_WOULD);
	else if (strcmp(p->m->conf.confirm_publish, "no") != 0)
		hold(p);
	else
		publish_push(p);
}

static void
built(struct publish *p, const char *tree, const char *commit)
{
	if (strcmp(tree, p->tree) == 0 && strcmp(commit, p->commit) == 0) {
		show(p);
		return;
	}
	log_err("publication %s: the judge says tree %s commit %s, the "
	    "publisher tree %s commit %s", p->id, p->tree, p->commit, tree,
	    commit);
	publish_refuse(p, "disagree", NULL);
}

/* What did not go out by our grant did not go out: the publisher's word alone
 * is not taken for what the remote has. */
static void
pushed(struct publish *p, const char *at, const char *said, const char *text)
{
	const bool there = strcmp(at, p->commit) == 0;
	const bool stayed = strcmp(at, p->tip) == 0;
	const bool ok = strcmp(said, "ok") == 0, no = strcmp(said, "no") == 0;

	if (!p->push_used && (there || ok)) {
		log_err("publication %s: the publisher says that it pushed, "
		    "and did not", p->id);
		p->push_ran = false;
		publish_refuse(p, "disagree", "the publisher says that it "
		    "pushed, and its grant was not used");
	} else if (there || (ok && !stayed && at[0] != '?'))
		publish_end(p, SBX_PUBLISH_PUSHED);
	else if (at[0] == '?' && p->push_used)
		publish_refuse(p, "unknown", "the branch cannot be looked at "
		    "after the push: %s", text);
	else if (!p->push_used || no) {
		p->push_ran = false;
		publish_refuse(p, stayed || at[0] == '?' ? "push" :
		    "upstream_moved", "the repository did not take it: %s",
		    text);
	} else
		publish_refuse(p, "unknown", "the push broke off, and the "
		    "branch is at %s: %s", or_none(at), text);
}

/* --- what scripts say -------------------------------------------------------------- */

/* What of the run is not known before its end must not be taken for it, whatever
 * else ended in that sandbox. */
bool
publish_run_ended(struct monitor *m, struct sandbox *sb)
{
	struct publish *p = publish_of(m, sb);
	const struct run *r;

	if (p == NULL)
		return (false);
	if (p->run[0] == '\0' || p->asked[PUBLISH_LINE] != 0)
		return (true);
	if ((r = run_find(m, p->run)) == NULL) {
		p->push_ran = false;
		publish_refuse(p, "suite", "its script could not be started");
	} else if (r->state != SBX_RUN_ENDED)
		return (true);
	else if (r->why != SBX_EXIT_EXITED)
		publish_refuse(p, p->phase == SBX_PUBLISH_FETCHING ? "fetch" :
		    "suite", "its script `%s` took too long, or was ended",
		    sbx_publish_scripts[script_of(p)].name);
	else if ((p->asked[PUBLISH_LINE] = hidden_read(m, p->run)) == 0)
		publish_refuse(p, "suite", "what its script said cannot be "
		    "read");
	else
		publish_within(p, READ_NS);
	return (true);
}

static void
line_came(struct publish *p, char *line)
{
	struct publish_said q;

	if (!publish_line(p, script_of(p), line, &q))
		return;
	switch (script_of(p)) {
	case SBX_PUBLISH_FETCH:
		(void)sbx_strlcpy(p->tip, q.value[0], sizeof(p->tip));
		(void)sbx_strlcpy(p->default_branch, q.value[1],
		    sizeof(p->default_branch));
		(void)sbx_strlcpy(p->like, q.value[3], sizeof(p->like));
		(void)sbx_strlcpy(p->fork, q.value[4], sizeof(p->fork));
		fetched(p);
		break;
	case SBX_PUBLISH_BUILD:
		built(p, q.value[0], q.value[1]);
		break;
	case SBX_PUBLISH_LOOK:
		publish_found(p, q.value[0], q.value[1]);
		break;
	case SBX_PUBLISH_SHOW:
		p->files = q.number[0];
		p->plus = q.number[1];
		p->minus = q.number[2];
		p->cut = q.number[3] != 0;
		agreed(p);
		break;
	default:
		pushed(p, q.value[0], q.value[1], q.text);
		break;
	}
}

/* All of it, or of SHOW, whose other lines no process of the suite looks at, the
 * first.  As pread(2). */
static ssize_t
first_line(struct publish *p, const struct sbx_in *in,
    char line[SBX_PUBLISH_LINE + 1])
{
	const struct sbx_run_data *d = &in->m.run_data;
	const bool more = script_of(p) == SBX_PUBLISH_SHOW;
	size_t n = d->length <= SBX_PUBLISH_LINE ? (size_t)d->length :
	    SBX_PUBLISH_LINE;
	const char *end;
	ssize_t got;

	if (!more && (d->length != d->total || d->length > n))
		return (0);
	got = pread(in->fds[0], line, n, (off_t)d->file_offset);
	if (!more || got <= 0)
		return (got);
	memcpy(p->shown, p->run, sizeof(p->shown));
	end = memchr(line, '\n', (size_t)got);
	return (end != NULL ? end + 1 - line : 0);
}

/* RUN_DATA or RUN_NODATA. */
bool
publish_read(struct monitor *m, struct sbx_in *in)
{
	struct publish *p = publish_answered(m, PUBLISH_LINE, in->hdr.id);
	const struct sbx_run_data *d = &in->m.run_data;
	char line[SBX_PUBLISH_LINE + 1];
	ssize_t n = 0;

	if (p == NULL)
		return (false);
	if (in->hdr.type == SBX_MSG_RUN_DATA && d->start == 0)
		n = first_line(p, in, line);
	p->run[0] = '\0';
	if (n <= 0 || line[n - 1] != '\n' || memchr(line, '\0',
	    (size_t)n) != NULL) {
		publish_refuse(p, "suite", "its script did not say what it "
		    "came to");
		return (true);
	}
	line[n - 1] = '\0';
	line_came(p, line);
	return (true);
}

/* --- what others tell of ------------------------------------------------------------ */

void
publish_sandbox_gone(struct monitor *m, struct sandbox *sb, const char *reason)
{
	struct publish *p = publish_of(m, sb);

	if (p == NULL)
		return;
	p->box[0] = '\0';
	publish_refuse(p, "suite", "its sandbox ended%s%.200s",
	    reason[0] != '\0' ? ": " : "", reason);
}

bool
publish_wants(struct monitor *m, const char *grant)
{
	return (publish_of_grant(m, grant) != NULL);
}

void
publish_granted(struct monitor *m, const char *grant)
{
	struct publish *p = publish_of_grant(m, grant);

	if (p == NULL || p->run[0] != '\0')
		return;
	if (p->phase == SBX_PUBLISH_FETCHING && strcmp(p->fetch, grant) == 0)
		fetch(p);
	else if (p->phase == SBX_PUBLISH_PUSHING &&
	    strcmp(p->fetch, grant) == 0)
		publish_push(p);
	else if (p->phase == SBX_PUBLISH_PUSHING &&
	    strcmp(p->push, grant) == 0)
		push(p);
}

void
publish_grant_used(struct monitor *m, const char *grant)
{
	struct publish *p = publish_of_grant(m, grant);

	if (p != NULL && strcmp(p->push, grant) == 0)
		p->push_used = true;
}

/* Its script finds out what that means once it runs, and says so. */
void
publish_grant_over(struct monitor *m, const char *grant, const char *code,
    const char *why)
{
	struct publish *p = publish_of_grant(m, grant);
	const bool locked = strcmp(code, "locked") == 0;

	if (p == NULL)
		return;
	if (strcmp(p->push, grant) == 0)
		p->push[0] = '\0';
	else
		p->fetch[0] = '\0';
	if (p->push_ran && !locked)
		return;
	publish_refuse(p, locked ? "locked" : "suite", "the repository cannot "
	    "be reached with a credential any more: %s", why);
}

/* undo: whoever began it does not want it any more.  What goes out already is
 * seen to its end. */
void
publish_call_ended(struct monitor *m, const struct call *c, bool undo)
{
	for (size_t i = 0; i < MAX_PUBLISHES; i++) {
		struct publish *p = &m->publishes[i];

		if (!p->used || p->maker != c)
			continue;
		p->maker = NULL;
		if (undo && !p->push_ran)
			publish_refuse(p, "cancelled", NULL);
	}
}

void
publish_drop_principal(struct monitor *m, const struct principal *who)
{
	for (size_t i = 0; i < MAX_PUBLISHES; i++)
		if (m->publishes[i].used && m->publishes[i].who == who)
			publish_free(&m->publishes[i]);
}

void
publish_lockdown(struct monitor *m)
{
	for (size_t i = 0; i < MAX_PUBLISHES; i++)
		if (m->publishes[i].used)
			publish_refuse(&m->publishes[i], "locked", NULL);
}

void
publish_tick(struct monitor *m, uint64_t now_ns)
{
	static const char *const late[SBX_PUBLISH_PHASE_MAX] = {
		[SBX_PUBLISH_MAKING] = "its sandbox was not made in time",
		[SBX_PUBLISH_FETCHING] = "the base was not read in time",
		[SBX_PUBLISH_JUDGING] = "its files took too long",
		[SBX_PUBLISH_BUILDING] = "its commit was not made in time",
		[SBX_PUBLISH_GATE] = "no verification of its tree was begun, "
		"or it took too long",
		[SBX_PUBLISH_PUSHING] = "the push took too long" };

	publish_reconcile_tick(m, now_ns);
	for (size_t i = 0; i < MAX_PUBLISHES; i++) {
		struct publish *p = &m->publishes[i];

		if (!p->used || p->by_ns == 0 ||
		    p->phase == SBX_PUBLISH_ENDED)
			continue;
		tick_arm(m);
		if (now_ns <= p->by_ns)
			continue;
		if (p->phase == SBX_PUBLISH_APPROVAL)
			publish_refuse(p, "confirm", "nobody approved it in "
			    "an hour");
		else
			publish_refuse(p, "suite", "%s", late[p->phase] !=
			    NULL ? late[p->phase] : "it took too long");
	}
}

/* Nobody waits any more, and the engine ends the sandboxes. */
void
publish_shutdown(struct monitor *m)
{
	for (size_t i = 0; i < MAX_PUBLISHES; i++) {
		struct publish *p = &m->publishes[i];

		if (!p->used || p->phase == SBX_PUBLISH_ENDED || p->look)
			continue;
		if (!p->push_ran)
			publish_known(p);
		(void)sbx_strlcpy(p->reason, "the suite ends",
		    sizeof(p->reason));
		(void)sbx_strlcpy(p->step, p->push_ran ? "unknown" : "suite",
		    sizeof(p->step));
		p->outcome = p->push_ran ? SBX_PUBLISH_UNKNOWN :
		    SBX_PUBLISH_REFUSED;
		p->phase = SBX_PUBLISH_ENDED;
		publish_record(p);
		judge_kill(m, &p->judge);
	}
}
