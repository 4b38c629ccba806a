#include "sbxd/monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/*
 * Copies from a client's root into its sandbox.  sbxd-copyin reads, sbx-init
 * writes, a pipe between them; the monitor sees no byte of it.  It is a
 * crossing: the start record is durable before anything is opened.
 */

#define COPY_NS (120 * S_NS)
#define ASK_S 130

/* A worker waits for one copy at most. */
static struct copy *
copy_of_worker(struct monitor *m, uint32_t worker_id)
{
	size_t i;

	for (i = 0; i < MAX_COPIES; i++)
		if (m->copies[i].used && m->copies[i].worker_id == worker_id)
			return (&m->copies[i]);
	return (NULL);
}

/*
 * Also ends what still runs of it: the reader is killed, the writer sees a
 * stream without its end and refuses it.
 */
static void
copy_free(struct copy *c)
{
	struct monitor *m = c->m;
	struct sbx_peer *peer = c->peer;

	if (c->started && !c->exited && m->starter != NULL)
		(void)sbx_send_start_kill(m->starter, 0,
		    &(struct sbx_start_kill){ .proc = SBX_PROC_COPYIN,
		    .instance = c->instance }, NULL);
	sbx_close(&c->root_fd);
	sbx_close(&c->list_fd);
	sbx_close(&c->report_fd);
	free(c->source);
	free(c->dest);
	free(c->final_path);
	memset(c, 0, sizeof(*c));
	c->root_fd = c->list_fd = c->report_fd = -1;
	/* its end is handled without the copy (copyin_ended) */
	if (peer != NULL)
		sbx_peer_end_later(peer, SBX_E_CLOSED);
}

static void
copy_fail(struct copy *c, int32_t error, const char *reason)
{
	if (c->error != 0)
		return;		/* the first failure is the cause */
	c->error = error != 0 ? error : EIO;
	(void)sbx_strlcpy(c->reason, reason, sizeof(c->reason));
}

/* It may use the journal's reserve: what was begun must be seen to end. */
static void
copy_journal_end(struct copy *c)
{
	char files[16], bytes[24], refused[16];

	(void)snprintf(files, sizeof(files), "%u", c->files);
	(void)snprintf(bytes, sizeof(bytes), "%llu",
	    (unsigned long long)c->bytes);
	(void)snprintf(refused, sizeof(refused), "%u", c->refused);
	journal_add(c->m, &(struct record){ .flags = SBX_JOURNAL_RESERVED,
	    .op = "copy_in", .phase = "end", .who = c->who,
	    .container = c->container, .run = c->run, .code = c->error },
	    "files", files, "bytes", bytes, "refused", refused, "reason",
	    c->reason, NULL);
}

/* Both ends reported, or one failed and the other is of no interest. */
static void
copy_finish(struct copy *c)
{
	struct monitor *m = c->m;
	struct worker *w = worker_find(m, c->worker_id);
	struct sandbox *sb = sandbox_find(m, c->container);

	if (c->error == 0 && !(c->read_done && c->unpack_done))
		return;
	copy_journal_end(c);
	if (sb != NULL) {
		sb->used_ns = sbx_mono_ns();
		if (c->mode == SBX_COPY_LIST && c->error == 0)
			guard_copied(m, sb, c->final_path != NULL ?
			    c->final_path : c->dest, c->from_wall_ns,
			    sbx_wall_ns() - SBX_COPY_MARGIN_MS * MS_NS);
	}
	if (w != NULL && w->ask.type == SBX_MSG_COPY_IN) {
		(void)sbx_send_copy_done(w->peer, w->ask.id,
		    &(struct sbx_copy_done){ .error = c->error,
		    .files = c->files, .bytes = c->bytes,
		    .refused = c->refused, .reason = c->reason,
		    .final_path = c->final_path != NULL ? c->final_path : "" },
		    &c->report_fd);
		c->worker_id = 0;	/* so that ask_done leaves us alone */
		ask_done(w);
	}
	copy_free(c);
}

/* Whatever it still had to say was handled before this. */
static void
copyin_ended(struct sbx_peer *p, int error)
{
	struct monitor *m = sbx_peer_ctx(p);
	struct copy *c = copy_of_peer(m, p);

	if (c == NULL)
		return;
	c->peer = NULL;
	if (error != SBX_E_CLOSED)
		log_warn("copyin %u: channel closed: %s", c->instance,
		    sbx_error_name(error));
	if (!c->read_done) {
		copy_fail(c, EIO, "the reading process ended early");
		copy_finish(c);
	}
}

/* Change times of files are taken from the coarse clock: what the copy writes
 * is never older than this. */
static uint64_t
file_clock_ns(void)
{
	struct timespec ts = { 0 };

	(void)clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	return ((uint64_t)ts.tv_sec * S_NS + (uint64_t)ts.tv_nsec);
}

/*
 * Safe for a hostile worker: the root is the session's own, the mode is
 * checked, the paths are resolved by sbxd-copyin below that root only, with
 * the rights of the client and not ours, and by sbx-init inside.
 */
static int
copy_run(struct copy *c, struct sbx_peer *engine)
{
	struct monitor *m = c->m;
	const struct sbx_start s = { .proc = SBX_PROC_COPYIN,
		.instance = c->instance };
	const struct sbx_copyin_start cs = { .mode = c->mode,
		.source = c->source, .uid = c->who->uid, .gid = c->who->gid };
	const struct sbx_engine_unpack u = { .container = c->container,
		.mode = c->mode, .dest = c->dest };
	int SBX_CLEANUP(fd) rd = -1, SBX_CLEANUP(fd) wr = -1;
	int pair[2], pipes[2], r;

	c->report_fd = memfd_create("sbx-copy-report",
	    MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (c->report_fd == -1 || pipe2(pipes, O_CLOEXEC) == -1)
		return (SBX_E_SYS);
	rd = pipes[0];
	wr = pipes[1];
	if ((r = sbx_wire_pair(pair)) != 0)
		return (r);
	r = sbx_send_start(m->starter, 0, &s, &pair[1]);
	sbx_close(&pair[1]);
	c->started = r == 0;
	c->from_wall_ns = file_clock_ns();
	c->peer = sbx_peer_new(m->base, pair[0], &monitor_from_copyin, m,
	    copyin_ended);
	c->unpack_id = ++m->next_id;
	if (r != 0 || (r = sbx_send_copyin_start(c->peer, 0, &cs,
	    (int[]){ c->root_fd, c->list_fd, wr, c->report_fd })) != 0)
		return (r);
	return (sbx_send_engine_unpack(engine, c->unpack_id, &u, &rd));
}

/* From here on it is permitted: the record is on the disk. */
static void
copy_recorded(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	struct copy *c = copy_of_worker(m, w->id);
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);

	why = journal_why(in, why);
	if (c == NULL || why != NULL) {
		if (c != NULL) {
			c->worker_id = 0;
			copy_free(c);
		}
		ask_refuse(w, "journal_unavailable", "Try again later.",
		    "nothing is copied while it cannot be recorded: %s",
		    why != NULL ? why : "");
		return;
	}
	w->ask.deadline_ns = sbx_mono_ns() + ASK_S * S_NS;
	if (engine == NULL || copy_run(c, engine) != 0) {
		copy_fail(c, EIO, "the copy could not be started");
		copy_finish(c);
	}
}

/* All strings are copied: the message goes away before the journal answers. */
static struct copy *
copy_new(struct monitor *m, struct worker *w, const struct sbx_copy_in *q)
{
	struct copy *c = NULL;
	size_t i;

	for (i = 0; i < MAX_COPIES && c == NULL; i++)
		if (!m->copies[i].used)
			c = &m->copies[i];
	if (c == NULL)
		return (NULL);
	memset(c, 0, sizeof(*c));
	c->used = true;
	c->m = m;
	c->instance = ++m->next_copy;
	c->worker_id = w->id;
	c->who = w->who;
	c->mode = q->mode;
	c->source = sbx_xstrdup(q->source);
	c->dest = sbx_xstrdup(q->dest);
	c->root_fd = c->list_fd = c->report_fd = -1;
	c->by_ns = sbx_mono_ns() + COPY_NS;
	sbx_random_hex(c->run, SBX_RUN_HEX / 2);
	return (c);
}

/* NULL, or why not, with the stable word for it. */
static const char *
copy_barred(const struct worker *w, const struct sbx_copy_in *q,
    const struct sandbox *sb, const char **ret_code)
{
	const struct session *s = w->call->session;

	*ret_code = "not_found";
	if (sb == NULL)
		return ("there is no such sandbox");
	*ret_code = "sandbox_busy";
	if (sb->state == SBX_SANDBOX_FROZEN)
		return ("a snapshot or a restore of the sandbox is under way; "
		    "retry in a moment");
	*ret_code = "sandbox_gone";
	if (sb->state != SBX_SANDBOX_READY)
		return ("the sandbox is not ready");
	*ret_code = "bad_argument";
	if (q->mode >= SBX_COPY_MARKERS)
		return ("there is no such mode");
	if (!policy_path_inside(q->dest))
		return ("the destination must be an absolute path");
	*ret_code = "no_copy_root";
	if (s->root_fd == -1 && s->token)
		return ("this client's token opened no directory to copy from");
	if (s->root_fd == -1)
		return (s->fd == -1 && w->m->root_reason[0] != '\0' ?
		    w->m->root_reason : "this client opened no directory to "
		    "copy from");
	return (NULL);
}

/* Who has no copy root, by what gives one.  A token's is opened before the
 * cage only. */
static void
refuse_rootless(struct worker *w, const char *why)
{
	const char *who = w->who->name;
	char next[512];

	if (!w->call->session->token)
		(void)snprintf(next, sizeof(next), "Start sbx mcp in the "
		    "project, or with --copy-root DIRECTORY.");
	else if (strncmp(who, "token:", 6) != 0)
		(void)snprintf(next, sizeof(next), "Set http_auth token in "
		    "sbx.conf, sbx token add --copy-root DIRECTORY NAME, and "
		    "start sbxd again.");
	else
		(void)snprintf(next, sizeof(next), "sbx token rm %s, sbx "
		    "token add --copy-root DIRECTORY %s, and start sbxd again: "
		    "it opens the directory at its start.", who + 6, who + 6);
	ask_refuse(w, "no_copy_root", next, "%s", why);
}

/* Ask the journal; copy_recorded() does the rest. */
void
copy_start(struct monitor *m, struct worker *w, const struct sbx_copy_in *q,
    int list_fd)
{
	struct sandbox *sb = policy_sandbox(m, w->who, q->container);
	static const char *const modes[] = { "names", "list",
		"file" };
	const char *code, *why = copy_barred(w, q, sb, &code);
	struct copy *c = NULL;

	if (sb == NULL && reap_find(m, w->who, q->container) != NULL) {
		reap_refuse(w, q->container);
		sbx_close(&list_fd);
		return;
	}
	if (why == NULL && (c = copy_new(m, w, q)) == NULL) {
		code = "busy";
		why = "too many copies are under way";
	}
	if (why != NULL) {
		if (strcmp(code, "no_copy_root") == 0)
			refuse_rootless(w, why);
		else
			ask_refuse(w, code, "", "%s", why);
		sbx_close(&list_fd);
		return;
	}
	(void)sbx_strlcpy(c->container, sb->id, sizeof(c->container));
	c->list_fd = list_fd;
	c->root_fd = fcntl(w->call->session->root_fd, F_DUPFD_CLOEXEC, 3);
	memcpy(w->ask.container, sb->id, sizeof(sb->id));
	tick_arm(m);
	journal_cross(m, w, copy_recorded, &(struct record){ .op = "copy_in",
	    .phase = "start", .who = c->who, .container = c->container,
	    .run = c->run }, "tool", w->call->tool, "mode", modes[c->mode],
	    "source", c->source, "dest", c->dest, NULL);
}

struct copy *
copy_of_peer(struct monitor *m, const struct sbx_peer *p)
{
	size_t i;

	for (i = 0; i < MAX_COPIES; i++)
		if (m->copies[i].used && m->copies[i].peer == p)
			return (&m->copies[i]);
	return (NULL);
}

/*
 * The reader's count is of what it sent; what arrived is the writer's to say.
 */
void
copy_read_done(struct copy *c, const struct sbx_copyin_done *q)
{
	c->read_done = true;
	c->refused = q->refused;
	if (q->error != 0)
		copy_fail(c, q->error, q->reason);
	copy_finish(c);
}

void
copy_unpacked(struct monitor *m, const struct sbx_engine_unpacked *q,
    uint32_t id)
{
	struct copy *c = NULL;
	size_t i;

	for (i = 0; i < MAX_COPIES && c == NULL; i++)
		if (m->copies[i].used && m->copies[i].started &&
		    m->copies[i].unpack_id == id)
			c = &m->copies[i];
	if (c == NULL || c->unpack_done)
		return;
	c->unpack_done = true;
	c->files = q->files;
	c->bytes = q->bytes;
	c->final_path = sbx_xstrdup(q->final_path);
	/* the reader's reason says more than "the stream was cut" */
	if (q->error != 0 && !c->read_done && c->peer != NULL) {
		c->unpack_error = q->error;
		(void)sbx_strlcpy(c->unpack_reason, q->reason,
		    sizeof(c->unpack_reason));
		c->by_ns = sbx_mono_ns() + S_NS;
		return;
	}
	if (q->error != 0)
		copy_fail(c, q->error, q->reason);
	copy_finish(c);
}

void
copy_exited(struct monitor *m, uint32_t instance, int status)
{
	struct copy *c;
	size_t i;

	(void)status;
	for (i = 0; i < MAX_COPIES; i++) {
		c = &m->copies[i];
		if (c->used && c->instance == instance)
			c->exited = true;
	}
	/* what it still said is read first; copyin_ended() does the rest */
}

/* Nobody waits for it any more: what is half copied stays half copied. */
void
copy_worker_gone(struct monitor *m, uint32_t worker_id)
{
	struct copy *c = copy_of_worker(m, worker_id);

	if (c == NULL || worker_id == 0)
		return;
	c->worker_id = 0;
	copy_fail(c, ECANCELED, "its call ended first");
	copy_finish(c);
}

/* The writer went with its sandbox. */
void
copy_sandbox_ended(struct monitor *m, const char *container)
{
	struct copy *c;
	size_t i;

	for (i = 0; i < MAX_COPIES; i++) {
		c = &m->copies[i];
		if (!c->used || strcmp(c->container, container) != 0)
			continue;
		copy_fail(c, ENOENT, "the sandbox ended");
		copy_finish(c);
	}
}

void
copy_tick(struct monitor *m, uint64_t now_ns)
{
	struct copy *c;
	size_t i;

	for (i = 0; i < MAX_COPIES; i++) {
		c = &m->copies[i];
		if (!c->used)
			continue;
		tick_arm(m);
		if (now_ns <= c->by_ns)
			continue;
		copy_fail(c, c->unpack_error != 0 ? c->unpack_error :
		    ETIMEDOUT, c->unpack_error != 0 ? c->unpack_reason :
		    "the copy took longer than two minutes");
		copy_finish(c);
	}
}
