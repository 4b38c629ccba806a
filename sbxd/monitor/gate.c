#include "sbxd/monitor/monitor.h"

#include "common/base/fresh.h"
#include "common/proto/filework.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

/*
 * Fresh verifications.  The files of a work sandbox go through sbxd-judge,
 * which says what tree they are, to a sandbox that nobody can name and in which
 * nothing ran before, of the same image and dependency layer; where packages were
 * installed, one with these is made first.  The tests that
 * the tree asks for run there; what they reported goes to the judge.  The pass
 * of a tree is stored here, and opens a gate later: so no worker has a hand in
 * any of it after the names of the files.
 */

/* for all of them to cross: longer than that takes who packs them */
#define FILES_NS (SBX_FILE_PACK_MS * MS_NS + 30 * S_NS)
#define READ_NS (30 * S_NS)		/* for a report and its verdict */
#define RUN_MAX_MS (3600u * 1000)	/* for one row of tests */
#define WAIT_MAX_MS (3600u * 1000)
#define ASK_S 15

static struct gate *
gate_of(struct monitor *m, const struct sandbox *sb)
{
	for (size_t i = 0; i < MAX_GATES; i++)
		if (m->gates[i].used && strcmp(m->gates[i].fresh, sb->id) == 0)
			return (&m->gates[i]);
	return (NULL);
}

/* The one that waits for the answer to our request `id`, which this is. */
static struct gate *
gate_answered(struct monitor *m, enum gate_ask what, uint32_t id)
{
	for (size_t i = 0; id != 0 && i < MAX_GATES; i++)
		if (m->gates[i].used && m->gates[i].asked[what] == id) {
			m->gates[i].asked[what] = 0;
			return (&m->gates[i]);
		}
	return (NULL);
}

void
gate_state_send(struct worker *w, const struct gate *g)
{
	const struct sbx_gate_state s = { .gate = g->id,
		.container = g->work, .phase = g->phase, .reason = g->reason,
		.sha1 = g->sha1, .sha256 = g->sha256, .files = g->files,
		.bytes = g->bytes, .image = g->image, .digest = g->digest,
		.layer = g->layer, .passed = g->passed,
		.results = { g->results.data, g->nresults,
		(uint32_t)g->results.len },
		.elapsed_ms = ((g->ended_ns != 0 ? g->ended_ns :
		sbx_mono_ns()) - g->began_ns) / MS_NS };

	(void)sbx_send_gate_state(w->peer, w->ask.id, &s, NULL);
	ask_done(w);
}

static void
gate_close(struct gate *g)
{
	struct sandbox *sb = sandbox_find(g->m, g->fresh);
	char prep[sizeof(g->prep)];

	memcpy(prep, g->prep, sizeof(prep));
	g->prep[0] = '\0';
	if (prep[0] != '\0')
		deps_left(g->m, prep);
	sbx_close(&g->list_fd);
	free(g->dir);
	g->dir = NULL;
	g->judging = false;
	g->fresh[0] = '\0';
	judge_kill(g->m, &g->judge);
	if (sb != NULL)
		sandbox_stop(g->m, sb, "its verification ended");
}

void
gate_free(struct gate *g)
{
	gate_close(g);
	sbx_buf_clear(&g->results);
	installs_clear(&g->installs);
	memset(g, 0, sizeof(*g));
	g->list_fd = -1;
}

/* May use the journal's reserve: what was begun must be seen to end. */
static void
gate_record(struct gate *g)
{
	journal_add(g->m, &(struct record){ .flags = SBX_JOURNAL_RESERVED,
	    .op = "verify_fresh", .phase = "end", .who = g->who,
	    .container = g->work, .run = g->id, .code = g->passed ? 0 : 1 },
	    "tree", g->sha1, "tree_sha256", g->sha256, "image",
	    g->digest[0] != '\0' ? g->digest : g->image, "layer", g->layer,
	    "ran", g->ran, "reason", g->reason, NULL);
}

/* What was found, for the record and for whoever waits. */
static void
gate_end(struct gate *g)
{
	struct monitor *m = g->m;
	struct worker *w;

	g->phase = SBX_GATE_ENDED;
	g->ended_ns = sbx_mono_ns();
	gate_record(g);
	gate_close(g);
	for (size_t i = 0; i < SBX_NELEM(m->workers); i++) {
		w = &m->workers[i];
		if (w->ask.type == SBX_MSG_GATE_WAIT &&
		    strcmp(w->ask.run, g->id) == 0)
			gate_state_send(w, g);
	}
	publish_gate_ended(m, g);
}

void
gate_fail(struct gate *g, const char *reason)
{
	if (g->phase == SBX_GATE_ENDED)
		return;
	if (g->reason[0] == '\0')
		(void)sbx_strlcpy(g->reason, reason, sizeof(g->reason));
	gate_end(g);
}

/* --- passes ------------------------------------------------------------------- */

static bool
pass_same(const struct pass *a, const struct pass *b)
{
	return (strcmp(a->sha1, b->sha1) == 0 &&
	    strcmp(a->sha256, b->sha256) == 0 &&
	    strcmp(a->image, b->image) == 0 &&
	    strcmp(a->layer, b->layer) == 0 && strcmp(a->ran, b->ran) == 0);
}

/* Its principal's own: nobody's passes make room for somebody else's.  The same
 * again is the same pass, made anew. */
static void
pass_store(struct gate *g)
{
	struct principal *who = g->who;
	struct pass *slot = NULL, p = { .when_wall_ns = sbx_wall_ns() };

	memcpy(p.sha1, g->sha1, sizeof(p.sha1));
	memcpy(p.sha256, g->sha256, sizeof(p.sha256));
	(void)sbx_strlcpy(p.image, g->digest[0] != '\0' ? g->digest :
	    g->image, sizeof(p.image));
	memcpy(p.layer, g->layer, sizeof(p.layer));
	memcpy(p.ran, g->ran, sizeof(p.ran));
	memcpy(p.gate, g->id, sizeof(p.gate));
	for (size_t i = 0; i < MAX_PASSES && slot == NULL; i++)
		if (pass_same(&who->passes[i], &p))
			slot = &who->passes[i];
	if (slot == NULL)
		slot = &who->passes[who->next_pass++ % MAX_PASSES];
	*slot = p;
	g->passed = true;
}

const struct pass *
gate_pass(const struct principal *who, const char *tree)
{
	const struct pass *p;

	for (size_t i = 0; i < MAX_PASSES; i++) {
		p = &who->passes[i];
		if (p->when_wall_ns != 0 && strcmp(strlen(tree) == 40 ?
		    p->sha1 : p->sha256, tree) == 0)
			return (p);
	}
	return (NULL);
}

/* --- tests --------------------------------------------------------------------- */

/* One row of sbx_fresh after the other; nothing else runs beside it. */
static void
gate_next(struct gate *g)
{
	struct monitor *m = g->m;
	struct script q = { .tool = "verify_in_container",
		.timeout_ms = g->timeout_ms };
	const char *why;

	if (g->todo == 0) {
		if (!g->red)
			pass_store(g);
		gate_end(g);
		return;
	}
	g->row = (unsigned)__builtin_ctz(g->todo);
	g->todo &= g->todo - 1;
	(void)snprintf(g->ran + strlen(g->ran), sizeof(g->ran) -
	    strlen(g->ran), "%s%s", g->ran[0] != '\0' ? " " : "",
	    sbx_fresh[g->row].name);
	q.text = q.shown = sbx_fresh[g->row].script;
	if ((why = hidden_run(m, sandbox_find(m, g->fresh), &q,
	    g->run)) != NULL)
		gate_fail(g, why);
}

/* The report is what they wrote to stdout.  What of the run is not known before
 * its end must not be taken for it, whatever else ended in that sandbox. */
bool
gate_run_ended(struct monitor *m, struct sandbox *sb)
{
	struct gate *g = gate_of(m, sb);
	const struct run *r;

	if (g == NULL)
		return (false);
	if (g->phase != SBX_GATE_TESTS || g->asked[GATE_READ] != 0 ||
	    g->judging)
		return (true);
	if ((r = run_find(m, g->run)) == NULL)
		gate_fail(g, "its tests could not be started");
	else if (r->state != SBX_RUN_ENDED)
		return (true);
	else if ((g->asked[GATE_READ] = hidden_read(m, g->run)) == 0)
		gate_fail(g, "what its tests reported cannot be read");
	else {
		g->by_ns = sbx_mono_ns() + READ_NS;
		tick_arm(m);
	}
	return (true);
}

/* RUN_DATA or RUN_NODATA.  What is not all in one piece is more than is read,
 * and the judge says so. */
bool
gate_read(struct monitor *m, struct sbx_in *in)
{
	struct gate *g = gate_answered(m, GATE_READ, in->hdr.id);
	bool is_data = in->hdr.type == SBX_MSG_RUN_DATA;
	const struct sbx_run_data *d = &in->m.run_data;
	struct sbx_judge_report q = { 0 };
	const struct run *r;
	int SBX_CLEANUP(fd) none = -1;

	if (g == NULL || g->phase != SBX_GATE_TESTS)
		return (g != NULL);
	r = run_find(m, g->run);
	if (r == NULL || g->judge.peer == NULL ||
	    sbx_memfd_sealed("none", "", 0, &none) != 0) {
		gate_fail(g, "what its tests reported cannot be read");
		return (true);
	}
	q = (struct sbx_judge_report){ .runner = (uint8_t)g->row,
		.status = r->status, .why = r->why };
	if (is_data && d->start == 0 && d->length == d->total) {
		q.offset = d->file_offset;
		q.length = d->length;
	} else if (is_data)
		q.length = UINT64_MAX;
	g->judging = true;
	(void)sbx_send_judge_report(g->judge.peer, 0, &q, q.length > 0 &&
	    q.length < UINT64_MAX ? in->fds : &none);
	return (true);
}

static void
add_result(struct gate *g, const struct sbx_judge_verdict *v)
{
	const uint32_t counts[] = { v->total, v->passed, v->failed, v->errors,
		v->skipped };
	struct sbx_strs s = { g->results.data, g->nresults,
		(uint32_t)g->results.len };
	char text[16];
	int r;

	r = sbx_strs_add(&s, &g->results, sbx_fresh[g->row].name);
	r |= sbx_strs_add(&s, &g->results, v->verdict);
	r |= sbx_strs_add(&s, &g->results, g->run);
	for (size_t i = 0; i < SBX_NELEM(counts); i++) {
		(void)snprintf(text, sizeof(text), "%u", counts[i]);
		r |= sbx_strs_add(&s, &g->results, text);
	}
	r |= sbx_strs_add(&s, &g->results, v->reason);
	if (r != 0)
		log_warn("verification %s: no room for a result", g->id);
	g->nresults = s.count;
}

/* Safe for a hostile judge: it can speak of the tree that it was given, once,
 * and of the run that it was asked about. */
int
gate_verdict(struct gate *g, const struct sbx_judge_verdict *v)
{
	if (g->phase != SBX_GATE_TESTS || !g->judging)
		return (SBX_E_STATE);
	g->judging = false;
	add_result(g, v);
	g->red |= !v->green;
	gate_next(g);
	return (0);
}

/* --- files ---------------------------------------------------------------------- */

/* Both sandboxes and the judge have said that all of it crossed. */
static void
crossed(struct gate *g)
{
	if (!g->packed || !g->unpacked || !g->treed ||
	    g->phase != SBX_GATE_FILES)
		return;
	g->phase = SBX_GATE_TESTS;
	if (g->todo == 0)
		gate_fail(g, "nothing at the top of the tree says how it is "
		    "tested");
	else
		gate_next(g);
}

/* Where one fails all do; what the reader says is the cause, if anything. */
static void
file_fail(struct gate *g, const char *reason)
{
	if (g->held[0] == '\0')
		(void)sbx_strlcpy(g->held, reason, sizeof(g->held));
	if (g->packed)
		gate_fail(g, g->held);
}

bool
gate_packed(struct monitor *m, const struct sbx_engine_filed *q, uint32_t id)
{
	struct gate *g = gate_answered(m, GATE_PACK, id);

	if (g == NULL || g->phase != SBX_GATE_FILES)
		return (g != NULL);
	g->packed = true;
	if (q->error != 0 && q->error != EPIPE)
		gate_fail(g, q->reason);
	else if (g->held[0] != '\0')
		gate_fail(g, g->held);
	else
		crossed(g);
	return (true);
}

bool
gate_unpacked(struct monitor *m, const struct sbx_engine_unpacked *q,
    uint32_t id)
{
	struct gate *g = gate_answered(m, GATE_UNPACK, id);

	if (g == NULL || g->phase != SBX_GATE_FILES)
		return (g != NULL);
	g->unpacked = true;
	if (q->error != 0)
		file_fail(g, q->reason);
	else
		crossed(g);
	return (true);
}

int
gate_treed(struct gate *g, const struct sbx_judge_treed *q)
{
	if (g->treed || g->phase != SBX_GATE_FILES)
		return (g->phase == SBX_GATE_FILES ? SBX_E_STATE : 0);
	if (q->error != 0) {
		file_fail(g, q->reason);
		return (0);
	}
	if (!sbx_is_hex(q->sha1, 40) || !sbx_is_hex(q->sha256, 64))
		return (SBX_E_SYNTAX);
	g->treed = true;
	memcpy(g->sha1, q->sha1, sizeof(g->sha1));
	memcpy(g->sha256, q->sha256, sizeof(g->sha256));
	g->files = q->files;
	g->bytes = q->bytes;
	g->todo = q->found & ((1u << sbx_fresh_n) - 1);
	crossed(g);
	return (0);
}

struct gate *
gate_of_peer(struct monitor *m, const struct sbx_peer *p)
{
	for (size_t i = 0; i < MAX_GATES; i++)
		if (m->gates[i].used && m->gates[i].judge.peer == p)
			return (&m->gates[i]);
	return (NULL);
}

void
gate_judge_ended(struct gate *g)
{
	g->judge.peer = NULL;
	gate_fail(g, "the process that judges it ended");
}

/* From the work sandbox to the judge to the fresh one; the monitor sees no
 * byte of it. */
static int
send_files(struct gate *g)
{
	const struct sbx_engine_file pack = { .container = g->work,
		.op = SBX_FILE_PACK, .path = g->dir, .pattern = "" };
	const struct crossing c = { .judge = &g->judge, .pack = &pack,
		.list_fd = g->list_fd, .to = g->fresh, .dest = "/workspace" };
	int r = judge_begin(g->m, &g->judge);

	return (r != 0 ? r : hidden_cross(g->m, &c, &g->asked[GATE_PACK],
	    &g->asked[GATE_UNPACK]));
}

bool
gate_sandbox_ready(struct monitor *m, struct sandbox *sb)
{
	struct gate *g = gate_of(m, sb);
	struct sandbox *work = g != NULL ? sandbox_find(m, g->work) : NULL;

	if (g == NULL)
		return (false);
	g->phase = SBX_GATE_FILES;
	g->by_ns = sbx_mono_ns() + FILES_NS;
	tick_arm(m);
	(void)sbx_strlcpy(g->digest, sb->digest, sizeof(g->digest));
	if (work == NULL || work->who != g->who ||
	    work->state != SBX_SANDBOX_READY)
		gate_fail(g, "the sandbox of the files is gone");
	else if (send_files(g) != 0)
		gate_fail(g, "the files could not be sent");
	return (true);
}

void
gate_sandbox_gone(struct monitor *m, struct sandbox *sb, const char *reason)
{
	struct gate *g = gate_of(m, sb);
	char text[256];

	if (g == NULL)
		return;
	g->fresh[0] = '\0';
	(void)snprintf(text, sizeof(text), "its sandbox ended%s%.200s",
	    reason[0] != '\0' ? ": " : "", reason);
	gate_fail(g, text);
}

/* --- asks ----------------------------------------------------------------------- */

static void
recorded(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	struct sandbox *sb = sandbox_find(m, w->ask.container);
	struct gate *g = sb != NULL ? gate_of(m, sb) : NULL;

	why = journal_why(in, why);
	if (g == NULL) {
		ask_refuse(w, "sandbox_failed", "", "its sandbox ended");
		return;
	}
	if (why == NULL && !sandbox_send_create(m, sb, g->layer_snap))
		why = "the engine is not there";
	if (why != NULL) {
		ask_refuse(w, "journal_unavailable", "Try again later.",
		    "nothing is verified while it cannot be recorded: %s",
		    why);
		g->fresh[0] = '\0';
		sandbox_free(m, sb);
		gate_free(g);
		return;
	}
	sb->maker = NULL;	/* it goes on when its call does not wait */
	g->by_ns = sbx_mono_ns() + GATE_MAKE_NS;
	tick_arm(m);
	gate_state_send(w, g);
}

static struct gate *
gate_new(struct monitor *m, const struct principal *who)
{
	struct hidden_place v[MAX_GATES] = { 0 };
	struct gate *g;
	size_t i;

	for (i = 0; i < MAX_GATES; i++)
		if ((g = &m->gates[i])->used)
			v[i] = (struct hidden_place){ g->who, g->ended_ns };
	if ((i = hidden_place(v, MAX_GATES, who)) == MAX_GATES)
		return (NULL);
	if (m->gates[i].used)
		gate_free(&m->gates[i]);
	return (&m->gates[i]);
}
_Static_assert(MAX_GATES > HIDDEN_RUNNING, "one is unused or has ended");

/* Its dependency layer, by what the work sandbox began from.  false: refused. */
static bool
take_layer(struct gate *g, struct worker *w, const struct sandbox *sb)
{
	const struct deps *d;

	if (sb->layer[0] == '\0')
		return (true);
	TAILQ_FOREACH(d, &g->m->deps, link)
		if (d->ready && strcmp(d->snapshot, sb->layer) == 0)
			break;
	if (d == NULL) {
		ask_refuse(w, "layer_gone", "Make the sandbox anew, with the "
		    "same setup.", "the dependency layer of this sandbox is "
		    "not kept any more");
		return (false);
	}
	memcpy(g->layer, d->layer, sizeof(g->layer));
	memcpy(g->setup, d->layer, sizeof(g->setup));
	memcpy(g->layer_snap, d->snapshot, sizeof(g->layer_snap));
	return (true);
}

/*
 * Safe for a hostile worker: names and directory reach what its principal's
 * sandbox reaches, and everything after them is done by others.  Time it can
 * only ask for.
 */
void
gate_start(struct monitor *m, struct worker *w, const struct sbx_gate_start *q,
    int list_fd)
{
	struct sandbox *work = sandbox_own(m, w, q->container), *sb;
	bool room = m->nsandboxes < SBX_MAX_SANDBOXES;
	struct gate *g = work != NULL && room ? gate_new(m, w->who) : NULL;

	if (g == NULL) {
		if (work != NULL)
			ask_refuse(w, "busy", "Retry when one has ended.",
			    "as many verifications are under way as may be");
		sbx_close(&list_fd);
		return;
	}
	*g = (struct gate){ .m = m, .who = w->who, .list_fd = list_fd,
		.dir = sbx_xstrdup(q->dir), .timeout_ms = q->timeout_ms == 0 ||
		q->timeout_ms > RUN_MAX_MS ? RUN_MAX_MS : q->timeout_ms,
		.maker = w->call, .began_ns = sbx_mono_ns() };
	sbx_buf_init(&g->results, 4000);
	if (!take_layer(g, w, work)) {
		gate_free(g);
		return;
	}
	g->used = true;
	sbx_random_hex(g->id, SBX_RUN_HEX / 2);
	memcpy(g->work, work->id, sizeof(g->work));
	memcpy(g->image, work->image, sizeof(g->image));
	(void)sbx_strlcpy(g->from, work->digest[0] != '\0' ? work->digest :
	    work->image, sizeof(g->from));
	g->limits = work->limits;
	installs_copy(&g->installs, &work->installs);
	if (g->installs.count > 0) {
		gate_layer_start(g, w);
		return;
	}
	sb = sandbox_new(m, w, g->from, "", "");
	sb->hidden = true;
	sb->limits = g->limits;
	memcpy(g->fresh, sb->id, sizeof(g->fresh));
	memcpy(w->ask.container, sb->id, sizeof(sb->id));
	journal_cross(m, w, recorded, &(struct record){
	    .op = "verify_fresh", .phase = "start", .who = g->who,
	    .container = g->work, .run = g->id }, "sandbox", g->fresh,
	    "image", sb->image, "layer", g->layer, NULL);
}

struct gate *
gate_find(struct monitor *m, const struct principal *who, const char *id)
{
	for (size_t i = 0; i < MAX_GATES; i++)
		if (m->gates[i].used && m->gates[i].who == who &&
		    strcmp(m->gates[i].id, id) == 0)
			return (&m->gates[i]);
	return (NULL);
}

/* Safe: own ones only; the wait has a limit. */
void
gate_wait(struct monitor *m, struct worker *w, const struct sbx_gate_wait *q)
{
	struct timeval tv = { .tv_sec = q->wait_ms / 1000,
		.tv_usec = (suseconds_t)(q->wait_ms % 1000) * 1000 };
	struct gate *g = gate_find(m, w->who, q->gate);

	if (q->wait_ms > WAIT_MAX_MS) {
		ask_refuse(w, "bad_argument", "", "the wait is longer than an "
		    "hour");
		return;
	}
	if (g == NULL) {
		ask_refuse(w, "unknown_run", "Start one anew.", "there is no "
		    "verification %s", q->gate);
		return;
	}
	if (g->phase == SBX_GATE_ENDED || q->wait_ms == 0) {
		gate_state_send(w, g);
		return;
	}
	memcpy(w->ask.run, g->id, sizeof(g->id));
	w->ask.deadline_ns = sbx_mono_ns() + q->wait_ms * MS_NS + ASK_S * S_NS;
	(void)evtimer_add(w->timer, &tv);
}

void
gate_wait_over(struct monitor *m, struct worker *w)
{
	for (size_t i = 0; i < MAX_GATES; i++)
		if (m->gates[i].used && strcmp(m->gates[i].id, w->ask.run) == 0)
			gate_state_send(w, &m->gates[i]);
}

/* undo: whoever began it does not want it any more. */
void
gate_call_ended(struct monitor *m, const struct call *c, bool undo)
{
	for (size_t i = 0; i < MAX_GATES; i++) {
		struct gate *g = &m->gates[i];

		if (!g->used || g->maker != c)
			continue;
		g->maker = NULL;
		if (undo)
			gate_fail(g, "its call did not complete");
	}
}

void
gate_drop_principal(struct monitor *m, const struct principal *p)
{
	for (size_t i = 0; i < MAX_GATES; i++)
		if (m->gates[i].used && m->gates[i].who == p)
			gate_free(&m->gates[i]);
}

/* What it waits for when its time is over; NULL: its tests have their own. */
static const char *
late(const struct gate *g)
{
	if (g->prep[0] != '\0')
		return ("its dependency layer was not made in time");
	if (g->phase == SBX_GATE_MAKING)
		return ("its sandbox was not made in time");
	if (g->phase == SBX_GATE_FILES)
		return ("its files took too long");
	if (g->asked[GATE_READ] != 0 || g->judging)
		return ("what its tests reported was not judged in time");
	return (NULL);
}

void
gate_tick(struct monitor *m, uint64_t now_ns)
{
	for (size_t i = 0; i < MAX_GATES; i++) {
		struct gate *g = &m->gates[i];
		const char *why;

		if (!g->used || g->by_ns == 0 || g->phase == SBX_GATE_ENDED ||
		    (why = late(g)) == NULL)
			continue;
		tick_arm(m);
		if (now_ns > g->by_ns)
			gate_fail(g, why);
	}
}

/* Nobody waits any more, and the engine ends the sandboxes. */
void
gate_shutdown(struct monitor *m)
{
	for (size_t i = 0; i < MAX_GATES; i++) {
		struct gate *g = &m->gates[i];

		if (!g->used || g->phase == SBX_GATE_ENDED)
			continue;
		(void)sbx_strlcpy(g->reason, "the suite ends",
		    sizeof(g->reason));
		g->phase = SBX_GATE_ENDED;
		gate_record(g);
		judge_kill(m, &g->judge);
	}
}
