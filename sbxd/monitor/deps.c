#include "sbxd/monitor/monitor.h"

#include "common/base/image.h"
#include "common/base/install.h"
#include "common/base/sha256.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/*
 * Dependency layers: what a list of commands makes of an image.  They run here,
 * not by a worker's hand, in a fresh sandbox that no principal can name, so
 * that nothing else is in the layer; its name is a digest over image, commands
 * and what came of them.  A layer is kept for its principal: nobody learns by
 * its age what somebody else installs, or shares files with him.
 *
 * Fresh verifications have another one made on that, or on the image, of what
 * package_install put into their work sandbox (packages.c).
 */

_Static_assert(SBX_SETUP_S == 15 * 60, "the minutes of a sentence below");
#define LISTING_NAME "sbx-deps 1"

/*
 * As a worker runs commands, in one shell; what went wrong is said at the end
 * of stderr, whichever way the shell ends.
 */
static const char script[] =
    "sbx_n=0; trap 'sbx_s=$?; [ $sbx_s = 0 ] || printf \"setup: command %d "
    "of %d ended with status %d: %s\\n\" $sbx_n $# $sbx_s \"${!sbx_n}\" >&2' "
    "EXIT; for sbx_c in \"$@\"; do sbx_n=$((sbx_n + 1)); eval \"$sbx_c\"; "
    "case $? in 0) ;; *) exit ;; esac; done";

static void
deps_free(struct monitor *m, struct deps *d)
{
	struct snapshot *s = snapshot_find(m, d->snapshot);

	if (s != NULL)
		snapshot_drop(m, s);
	TAILQ_REMOVE(&m->deps, d, link);
	free(d->commands);
	free(d);
}

static struct deps *
deps_of(struct monitor *m, const struct sandbox *sb)
{
	struct deps *d;

	TAILQ_FOREACH(d, &m->deps, link)
		if (strcmp(d->container, sb->id) == 0)
			return (d);
	return (NULL);
}

/* Another one of the same, whose image is `image`. */
static struct deps *
deps_find(struct monitor *m, const struct deps *q, const char *image)
{
	struct deps *d;

	TAILQ_FOREACH(d, &m->deps, link)
		if (d->who == q->who && d->asker == 0 && d != q &&
		    d->network == q->network && d->packages == q->packages &&
		    strcmp(d->base, q->base) == 0 &&
		    strcmp(d->image, image) == 0 && d->len == q->len &&
		    memcmp(d->commands, q->commands, d->len) == 0)
			return (d);
	return (NULL);
}

void
deps_drop_principal(struct monitor *m, const struct principal *p)
{
	struct deps *d, *next;

	for (d = TAILQ_FIRST(&m->deps); d != NULL; d = next) {
		next = TAILQ_NEXT(d, link);
		if (d->who == p)
			deps_free(m, d);
	}
}

/* --- answers ------------------------------------------------------------- */

static void
answer(struct worker *w, const struct deps *d, bool cached, int32_t error)
{
	(void)sbx_send_deps_ready(w->peer, w->ask.id,
	    &(struct sbx_deps_ready){ .run = d->run, .error = error,
	    .snapshot = d->ready ? d->snapshot : "", .layer = d->layer,
	    .cached = cached, .ms = d->ms, .files = d->files,
	    .bytes = d->bytes }, NULL);
	ask_done(w);
}

/* Those who wait for this one, until there is none. */
static struct worker *
waiting(struct monitor *m, const struct deps *d)
{
	return (ask_of_sandbox(m, SBX_MSG_DEPS_MAKE, d->container));
}

/* error: of the commands, 0: something else, by reason.  Nothing is kept. */
static void
fail(struct monitor *m, struct deps *d, int32_t error, const char *reason)
{
	struct sandbox *sb = sandbox_find(m, d->container);
	struct worker *w;
	struct gate *g;

	d->failed = true;
	if (sb != NULL && sb->sent)
		sandbox_stop(m, sb, "its setup failed");
	while ((w = waiting(m, d)) != NULL) {
		w->ask.container[0] = '\0';
		if (error != 0)
			answer(w, d, false, error);
		else
			ask_refuse(w, "setup_failed", "", "the dependency "
			    "layer could not be made: %s", reason);
	}
	while ((g = gate_of_layer(m, d->container)) != NULL)
		gate_layer_failed(g, d, error, reason);
	deps_free(m, d);
}

/* --- making one ------------------------------------------------------------ */

/* Does d go before `old`, which is newer?  What is made anew for whoever needs
 * it, before what sandboxes began with. */
static bool
goes(const struct deps *d, const struct deps *old)
{
	return (old == NULL || d->packages || !old->packages);
}

/* Room for one more: the oldest that is whole goes, but `keep`. */
static bool
make_room(struct monitor *m, const struct principal *who,
    const struct deps *keep)
{
	struct deps *d, *old = NULL, *own_old = NULL;
	unsigned all = 0, own = 0;

	TAILQ_FOREACH(d, &m->deps, link) {	/* newest first */
		all++;
		own += d->who == who;
		if (!d->ready || d == keep)
			continue;
		if (goes(d, old))
			old = d;
		if (d->who == who && goes(d, own_old))
			own_old = d;
	}
	if (own >= SBX_MAX_SETUPS_PRINCIPAL)
		old = own_old;
	else if (all < SBX_MAX_SETUPS)
		return (true);
	if (old != NULL)
		deps_free(m, old);
	return (old != NULL);
}

/* For the journal, cut. */
static const char *
shown(const struct deps *d, struct sbx_buf *b)
{
	const struct sbx_strs commands = { d->commands, d->count, d->len };

	run_show_argv(b, &commands);
	return (b->data != NULL ? b->data : "");
}

static void
recorded(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	struct sandbox *sb = sandbox_find(m, w->ask.container);
	struct deps *d = sb != NULL ? deps_of(m, sb) : NULL;

	why = journal_why(in, why);
	if (d == NULL) {
		ask_refuse(w, "setup_failed", "", "its sandbox ended");
		return;
	}
	if (why == NULL && !sandbox_send_create(m, sb, ""))
		why = "the engine is not there";
	if (why != NULL) {
		sandbox_free(m, sb);	/* fails what waits for it */
		return;
	}
	sb->maker = NULL;	/* it goes on when its call does not wait */
	w->ask.deadline_ns = sbx_mono_ns() + DEPS_WAIT_S * S_NS;
}

/* In its fresh sandbox; refuses w's ask when there can be none. */
static void
begin(struct monitor *m, struct worker *w, struct deps *d)
{
	const struct sbx_sb_create none = { .image = d->image };
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	struct limits limits;
	struct sandbox *sb;
	const char *code;
	char text[256];

	sbx_buf_init(&b, 1024);
	if (m->nsandboxes >= SBX_MAX_SANDBOXES || !make_room(m, w->who, NULL)) {
		deps_free(m, d);
		ask_refuse(w, "busy", "Retry when one has ended.", "there are "
		    "as many sandboxes or setups under way as there may be");
		return;
	}
	if (d->network && component_peer(m, SBX_PROC_PROXY) == NULL) {
		deps_free(m, d);
		ask_refuse(w, "suite_degraded", "Try again.", "the egress "
		    "proxy is not there");
		return;
	}
	if (limits_resolve(m, &none, &limits, &code, text,
	    sizeof(text)) != NULL) {
		deps_free(m, d);
		ask_refuse(w, code, "", "%s", text);
		return;
	}
	sb = sandbox_new(m, w, d->image, "", "");
	sb->hidden = true;
	sb->network = d->network;
	sb->limits = limits;
	memcpy(d->container, sb->id, sizeof(d->container));
	memcpy(w->ask.container, sb->id, sizeof(sb->id));
	journal_cross(m, w, recorded, &(struct record){
	    .op = "sandbox_create", .phase = "start", .who = sb->who,
	    .container = sb->id }, "tool", w->call->tool, "image", sb->image,
	    "setup", shown(d, &b), NULL);
}

/* The image is known now, and so whether the layer is. */
void
deps_image(struct monitor *m, struct worker *w, const char *image,
    const char *why)
{
	struct deps *d, *old;

	TAILQ_FOREACH(d, &m->deps, link)
		if (d->asker == w->id)
			break;
	if (d == NULL || !sbx_image_is_wanted(image)) {
		if (d != NULL)
			deps_free(m, d);
		ask_refuse(w, "unknown_image", "", "an image is 'host', a "
		    "name of 'sbx image list', or 12 and more digits of a "
		    "digest");
		return;
	}
	old = deps_find(m, d, image);
	d->asker = 0;
	(void)sbx_strlcpy(d->image, image, sizeof(d->image));
	(void)sbx_strlcpy(d->why, why, sizeof(d->why));
	if (old == NULL) {
		begin(m, w, d);
		return;
	}
	deps_free(m, d);
	if (old->ready)
		answer(w, old, true, 0);
	else	/* with whoever waits for it */
		memcpy(w->ask.container, old->container,
		    sizeof(old->container));
}

/*
 * Safe for a hostile worker: the commands are data for a program in a sandbox
 * that holds nothing, with a way out that any sandbox of its may have, and what
 * comes of them is its principal's alone.
 */
void
deps_make(struct monitor *m, struct worker *w, const struct sbx_deps_make *q)
{
	struct deps *d;

	if (q->network && m->locked) {
		ask_refuse(w, "locked", LOCKED_NEXT, LOCKED_WHY);
		return;
	}
	if (q->commands.count == 0) {
		ask_refuse(w, "bad_argument", "", "there is no command");
		return;
	}
	d = sbx_xcalloc(1, sizeof(*d));
	d->who = w->who;
	d->maker = w->call;
	d->asker = w->id;
	d->network = q->network != 0;
	d->count = q->commands.count;
	d->len = q->commands.len;
	d->commands = sbx_xcalloc(1, d->len);
	memcpy(d->commands, q->commands.data, d->len);
	d->began_ns = sbx_mono_ns();
	TAILQ_INSERT_HEAD(&m->deps, d, link);
	detect_create(m, w, &(struct sbx_sb_create){ .image = q->image,
	    .name = "", .label = "", .snapshot = "" });
}

static int
send_exec(struct monitor *m, const struct deps *d, const struct sandbox *sb)
{
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);
	struct sbx_engine_exec msg = { .container = d->container,
		.run = d->run, .cwd = "/workspace" };
	const struct sbx_strs commands = { d->commands, d->count, d->len };
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 }, SBX_CLEANUP_BUF env = { 0 };
	int SBX_CLEANUP(fd) in = -1;
	const char *s = NULL;
	int r;

	sbx_buf_init(&b, SBX_MAX_COMMANDS + sizeof(script) + 8192);
	r = sbx_memfd_sealed("stdin", "", 0, &in);
	if (r == 0)
		r = egress_env(sb, NULL, &msg.env, &env);
	if (r == 0)
		r = sbx_strs_add(&msg.argv, &b, "bash");
	if (r == 0)
		r = sbx_strs_add(&msg.argv, &b, "-c");
	if (r == 0)
		r = sbx_strs_add(&msg.argv, &b, d->packages ?
		    sbx_install_again : script);
	if (r == 0)
		r = sbx_strs_add(&msg.argv, &b, "bash");
	if (r == 0 && d->packages)
		r = sbx_strs_add(&msg.argv, &b, sbx_install_script);
	while (r == 0 && (s = sbx_strs_next(&commands, s)) != NULL)
		r = sbx_strs_add(&msg.argv, &b, s);
	msg.argv.data = b.data;
	if (r == 0 && engine != NULL)
		return (sbx_send_engine_exec(engine, ++m->next_id, &msg, &in));
	return (r != 0 ? r : SBX_E_CLOSED);
}

/* Its sandbox stands: the commands, by ourselves. */
void
deps_sandbox_ready(struct monitor *m, struct sandbox *sb)
{
	struct deps *d = deps_of(m, sb);
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	struct run *r;

	sbx_buf_init(&b, 1024);
	if (d == NULL || (r = run_new(m, sb->who, sb->id, d->packages ?
	    "verify_in_container" : "sandbox_initialize")) == NULL) {
		sandbox_stop(m, sb, "nobody waits for it");
		return;
	}
	r->background = true;
	r->timeout_ms = SBX_SETUP_S * 1000;
	memcpy(d->run, r->id, sizeof(d->run));
	(void)sbx_strlcpy(d->digest, sb->digest, sizeof(d->digest));
	journal_add(m, &(struct record){ .op = "exec", .phase = "start",
	    .who = r->who, .container = r->container, .run = r->id }, "tool",
	    r->tool, "argv", shown(d, &b), NULL);
	sb->live_runs++;
	if (send_exec(m, d, sb) != 0) {
		run_free(m, r);
		sb->live_runs--;
		fail(m, d, 0, "the engine did not take the commands");
	}
}

/* The commands have ended. */
void
deps_run_ended(struct monitor *m, struct sandbox *sb)
{
	struct deps *d = deps_of(m, sb);
	const struct run *r = d != NULL ? run_find(m, d->run) : NULL;
	struct snapshot *s;

	/* whatever else ended in it: of a run that goes on nothing is known */
	if (d == NULL || d->take_id != 0 || d->failed ||
	    (r != NULL && r->state != SBX_RUN_ENDED))
		return;
	if (r == NULL)
		fail(m, d, 0, "the commands could not be started");
	else if (r->why == SBX_EXIT_TIMEOUT)
		fail(m, d, 0, "the commands took longer than 15 minutes");
	else if (r->why != SBX_EXIT_EXITED || r->status != 0)
		fail(m, d, r->status != 0 ? r->status : SIGKILL, "");
	else if ((s = snapshot_begin(m, sb, true, true, &d->take_id)) == NULL)
		fail(m, d, 0, "the engine is not there");
	else {
		memcpy(d->snapshot, s->id, sizeof(d->snapshot));
		memcpy(s->why_image, d->why, sizeof(s->why_image));
		memcpy(s->layer, s->id, sizeof(s->layer));
		sb->asked_stop = true;
	}
}

/* Before its layer was asked for that is the end of it. */
void
deps_sandbox_gone(struct monitor *m, struct sandbox *sb, const char *reason)
{
	struct deps *d = deps_of(m, sb);
	char text[256];

	if (d == NULL || d->take_id != 0 || d->failed)
		return;
	(void)snprintf(text, sizeof(text), "its sandbox ended%s%.200s",
	    reason[0] != '\0' ? ": " : "", reason);
	fail(m, d, 0, text);
}

/* What the layer is called. */
static void
name_layer(struct deps *d, const char *listing)
{
	char hex[SBX_SHA256_HEX + 1];
	struct sbx_sha256 sha;
	const char *image = d->digest[0] != '\0' ? d->digest : d->image;

	sbx_sha256_init(&sha);
	sbx_sha256_add(&sha, LISTING_NAME, sizeof(LISTING_NAME));
	sbx_sha256_add(&sha, image, strlen(image) + 1);
	if (d->packages)
		sbx_sha256_add(&sha, d->base_layer, sizeof(d->base_layer));
	sbx_sha256_add(&sha, d->commands, d->len);
	sbx_sha256_add(&sha, listing, strlen(listing) + 1);
	sbx_sha256_end(&sha, hex);
	(void)snprintf(d->layer, sizeof(d->layer), "sha256:%s", hex);
}

/* true: it was for one of these. */
bool
deps_taken(struct monitor *m, struct sbx_in *in)
{
	const struct sbx_snap_taken *q = &in->m.snap_taken;
	struct worker *w;
	struct deps *d;
	struct gate *g;

	TAILQ_FOREACH(d, &m->deps, link)
		if (d->take_id != 0 && d->take_id == in->hdr.id)
			break;
	if (d == NULL)
		return (false);
	if (q->error != 0) {
		fail(m, d, 0, q->reason);
		return (true);
	}
	name_layer(d, q->digest);
	d->ready = true;
	d->take_id = 0;
	d->files = q->files;
	d->bytes = q->bytes;
	d->ms = (sbx_mono_ns() - d->began_ns) / MS_NS;
	while ((w = waiting(m, d)) != NULL)
		answer(w, d, false, 0);
	while ((g = gate_of_layer(m, d->container)) != NULL)
		gate_layer_made(g, d, false);
	d->container[0] = '\0';
	return (true);
}

/* undo: whoever began it does not want it any more. */
void
deps_call_ended(struct monitor *m, const struct call *c, bool undo)
{
	struct deps *d, *next;

	for (d = TAILQ_FIRST(&m->deps); d != NULL; d = next) {
		next = TAILQ_NEXT(d, link);
		if (d->maker != c)
			continue;
		d->maker = NULL;
		if (d->asker != 0)	/* its image was still looked for */
			deps_free(m, d);
		else if (undo && !d->ready && waiting(m, d) == NULL)
			fail(m, d, 0, "its call did not complete");
	}
}

/* --- for verifications ------------------------------------------------------ */

/* What it stands on, in use by that; NULL: an image. */
static struct deps *
base_of(struct monitor *m, const struct deps *q)
{
	struct deps *d;

	TAILQ_FOREACH(d, &m->deps, link)
		if (d != q && d->ready && strcmp(d->snapshot, q->base) == 0) {
			TAILQ_REMOVE(&m->deps, d, link);
			TAILQ_INSERT_HEAD(&m->deps, d, link);
			return (d);
		}
	return (NULL);
}

static const char *
barred(struct monitor *m, const struct deps *d, const struct deps *base)
{
	if (m->locked)
		return (LOCKED_WHY);
	if (m->nsandboxes >= SBX_MAX_SANDBOXES || !make_room(m, d->who, base))
		return ("there are as many sandboxes or setups under way as "
		    "there may be");
	if (component_peer(m, SBX_PROC_PROXY) == NULL)
		return ("the egress proxy is not there");
	return (NULL);
}

/* In a fresh sandbox.  Who wants it is on record, durably, with what it is made
 * of. */
static const char *
begin_packages(struct monitor *m, struct deps *d, struct gate *g)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	const char *why = barred(m, d, base_of(m, d));
	struct sandbox *sb;

	if (why != NULL) {
		deps_free(m, d);
		return (why);
	}
	sbx_buf_init(&b, 1024);
	sb = sandbox_hidden(m, d->who, d->image);
	sb->network = true;
	sb->limits = g->limits;
	memcpy(d->container, sb->id, sizeof(d->container));
	memcpy(g->prep, sb->id, sizeof(g->prep));
	journal_add(m, &(struct record){ .op = "sandbox_create",
	    .phase = "start", .who = sb->who, .container = sb->id }, "tool",
	    "verify_in_container", "image", sb->image, "layer",
	    d->base_layer, "packages", shown(d, &b), NULL);
	if (!sandbox_send_create(m, sb, d->base))
		sandbox_free(m, sb);	/* fails what waits for it */
	return (NULL);
}

const char *
deps_for_gate(struct monitor *m, struct gate *g)
{
	struct deps *d = sbx_xcalloc(1, sizeof(*d)), *old;

	d->who = g->who;
	d->network = d->packages = true;
	(void)sbx_strlcpy(d->image, g->from, sizeof(d->image));
	memcpy(d->base, g->layer_snap, sizeof(d->base));
	memcpy(d->base_layer, g->layer, sizeof(d->base_layer));
	d->count = g->installs.count;
	d->len = g->installs.len;
	d->commands = sbx_xcalloc(1, d->len);
	memcpy(d->commands, g->installs.lines, d->len);
	d->began_ns = sbx_mono_ns();
	TAILQ_INSERT_HEAD(&m->deps, d, link);
	if ((old = deps_find(m, d, d->image)) == NULL)
		return (begin_packages(m, d, g));
	deps_free(m, d);
	if (old->ready)
		gate_layer_made(g, old, true);
	else	/* with whoever waits for it */
		memcpy(g->prep, old->container, sizeof(g->prep));
	return (NULL);
}

/* One that becomes a layer already, does. */
void
deps_left(struct monitor *m, const char *container)
{
	struct deps *d;

	TAILQ_FOREACH(d, &m->deps, link)
		if (!d->ready && strcmp(d->container, container) == 0)
			break;
	if (d != NULL && !d->failed && d->take_id == 0 &&
	    gate_of_layer(m, container) == NULL)
		fail(m, d, 0, "nobody waits for it");
}
