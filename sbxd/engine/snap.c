/*
 * Snapshots.  Where no process lives in a sandbox and none is started
 * meanwhile, what it wrote becomes a layer as it is: a new init is built over
 * it beside the old one, and takes its place when it is ready.  So a failure on
 * the way leaves the sandbox as it was.  Else the scratch is copied.
 *
 * A restore is the same move, onto the layers of a snapshot.
 */
#include "sbxd/engine/engine.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct snap_op {
	LIST_ENTRY(snap_op) link;
	struct engine *e;
	struct sandbox *sb;	/* NULL: it has ended */
	struct sandbox *next;	/* that takes its place, NULL: none */
	uint32_t id;		/* the monitor's request */
	char container[SBX_CONTAINER_HEX + 1];
	char snapshot[SBX_CONTAINER_HEX + 1];
	struct image *image;	/* held */
	char wanted[256];
	bool restore, end, stacked;
	bool move;		/* when the copy is done, onto it */
	bool may_move;		/* the monitor starts nothing in it */
	struct event *waiting;	/* owned: for the last processes */
	pid_t child;		/* 0: none */
	int result_fd;		/* owned */
	struct event *timer;	/* owned */
	char layer[LAYER_NAME];	/* directory of the layer to be */
	bool counted, moved;	/* what is waited for has come */
	struct stack stack;	/* what the snapshot is */
	struct snap_result res;
};

static void
op_answer(struct snap_op *op, int error, const char *reason)
{
	struct engine *e = op->e;
	struct sbx_snap_taken t = { .container = op->container,
		.snapshot = op->snapshot, .error = error, .reason = reason,
		.method = op->stacked ? SBX_SNAP_STACKED : op->res.cloned ?
		    SBX_SNAP_REFLINK : SBX_SNAP_COPY,
		.depth = op->stack.n, .files = op->res.files,
		.bytes = op->res.bytes, .digest = op->res.digest };
	struct sbx_snap_restored r = { .container = op->container,
		.snapshot = op->snapshot, .error = error, .reason = reason };

	if (e->monitor == NULL)
		return;		/* its end ends us */
	if (op->restore)
		(void)sbx_send_snap_restored(e->monitor, op->id, &r, NULL);
	else
		(void)sbx_send_snap_taken(e->monitor, op->id, &t, NULL);
}

/* The one way out: answered, nothing half-made left. */
static void
op_end(struct snap_op *op, int error, const char *reason)
{
	struct sandbox *sb = op->sb;

	op_answer(op, error, reason);
	if (error == 0 && !op->restore)
		snapshot_add(op->e, op->snapshot, op->image, op->wanted,
		    &op->stack);
	stack_clear(&op->stack);
	image_put(op->image);
	if (op->child != 0)
		(void)kill(op->child, SIGKILL);	/* reaped as nobody's */
	if (op->layer[0] != '\0')
		scratch_drop(&op->e->scratch, op->layer);
	if (op->next != NULL) {
		op->next->op = NULL;
		sandbox_end(op->next, SBX_END_CREATE, "it is not wanted");
	}
	if (sb != NULL) {
		sb->op = NULL;
		if (sb->state == SB_FROZEN)
			sb->state = SB_READY;
	}
	if (op->timer != NULL)
		event_free(op->timer);
	if (op->waiting != NULL)
		event_free(op->waiting);
	sbx_close(&op->result_fd);
	LIST_REMOVE(op, link);
	free(op);
}

static void
on_timeout(evutil_socket_t fd, short what, void *arg)
{
	struct snap_op *op = arg;

	(void)fd, (void)what;
	/* the other one stands, and the old one's end cannot be taken back */
	if (op->next != NULL && op->next->state == SB_READY)
		return;
	/* stacked, only the count is late: that is no failure */
	if (op->stacked && op->child != 0 && !op->end) {
		(void)kill(op->child, SIGKILL);
		return;
	}
	op_end(op, ETIMEDOUT, "it took longer than a call may take");
}

static struct snap_op *
op_new(struct engine *e, struct sandbox *sb, const char *snapshot,
    uint32_t id, unsigned seconds)
{
	struct snap_op *op = sbx_xcalloc(1, sizeof(*op));
	const struct timeval limit = { seconds, 0 };

	op->e = e;
	op->sb = sb;
	op->id = id;
	op->result_fd = -1;
	(void)sbx_strlcpy(op->container, sb->id, sizeof(op->container));
	(void)sbx_strlcpy(op->snapshot, snapshot, sizeof(op->snapshot));
	op->image = image_hold(sb->image);
	(void)sbx_strlcpy(op->wanted, sb->wanted, sizeof(op->wanted));
	op->timer = evtimer_new(e->base, on_timeout, op);
	if (op->timer == NULL || event_add(op->timer, &limit) == -1)
		sbx_fatal("out of memory");
	sb->op = op;
	LIST_INSERT_HEAD(&e->snap_ops, op, link);
	return (op);
}

/* --- the child that reads ------------------------------------------------------ */

static int
upper_of(struct engine *e, const char *dir)
{
	char path[LAYER_NAME + 8];

	(void)snprintf(path, sizeof(path), "%s/upper", dir);
	return (openat(e->scratch_fd, path, O_RDONLY | O_DIRECTORY |
	    O_NOFOLLOW | O_CLOEXEC));
}

/*
 * top: the upper directory to begin with.  Copied to op->layer if it has one,
 * then with all that the sandbox stands on if it stands on too much already.
 */
static int
read_layers(struct snap_op *op, int top, const struct stack *below,
    struct sbx_err *err)
{
	struct snap_copy c = { .to = -1, .digest = op->end };
	int r;

	for (unsigned i = below != NULL ? below->n : 0; i > 0; i--) {
		c.sources[c.n] = below->layers[i - 1]->upper;
		c.copied[c.n++] = below->layers[i - 1]->copied;
	}
	c.sources[c.n++] = top;
	if (op->layer[0] != '\0') {
		if (mkdirat(op->e->scratch_fd, op->layer, 0700) == -1 ||
		    (c.to = openat(op->e->scratch_fd, op->layer, O_RDONLY |
		    O_DIRECTORY | O_CLOEXEC)) == -1)
			return (sbx_err_sys(err, "a directory for the layer"));
	}
	r = snap_copy_start(&c, &op->child, &op->result_fd, err);
	sbx_close(&c.to);
	return (r);
}

/* It wrote all of it, or it was killed, or ran out of memory. */
static void
take_result(struct snap_op *op)
{
	ssize_t n = read(op->result_fd, &op->res, sizeof(op->res));

	sbx_close(&op->result_fd);
	if (n == (ssize_t)sizeof(op->res))
		return;
	memset(&op->res, 0, sizeof(op->res));
	op->res.files = op->res.bytes = UINT64_MAX;
	if (op->stacked && !op->end)
		return;
	op->res.error = ECANCELED;
	(void)sbx_strlcpy(op->res.reason, "what reads the files was killed",
	    sizeof(op->res.reason));
}

/* --- the sandbox that takes its place -------------------------------------------- */

static int
build_next(struct snap_op *op, struct sbx_err *err)
{
	struct sandbox *sb = op->sb;
	char dir[LAYER_NAME];

	(void)snprintf(dir, sizeof(dir), SCRATCH_NEXT "%s", sb->id);
	sb->state = SB_FROZEN;
	return (sandbox_build_next(sb, dir, op->image, op->wanted, &op->stack,
	    op, &op->next, err));
}

/* The new one stands: the old one's processes end, and it is reaped. */
void
snap_next_ready(struct sandbox *next)
{
	struct snap_op *op = next->op;

	if (op->sb == NULL || op->sb->state != SB_FROZEN) {
		sandbox_end(next, SBX_END_CREATE, "its sandbox has ended");
		return;
	}
	sandbox_end(op->sb, SBX_END_STOP, "another took its place");
}

void
snap_next_ended(struct sandbox *next)
{
	struct snap_op *op = next->op;
	char reason[256];

	if (op == NULL)
		return;
	next->op = NULL;
	op->next = NULL;
	(void)sbx_strlcpy(reason, next->reason, sizeof(reason));
	op_end(op, EAGAIN, reason);
}

/* All that is waited for is there. */
static void
op_maybe_end(struct snap_op *op)
{
	if (op->counted && (op->moved || (!op->stacked && !op->move)))
		op_end(op, 0, "");
}

/* The scratch of a sandbox that is no more gets the name of a layer. */
static bool
freeze(struct snap_op *op, struct sandbox *old)
{
	char name[LAYER_NAME];

	op->stack.layers[0]->lent = false;
	layer_name(op->e, name);
	if (scratch_rename(&op->e->scratch, old->dir, name) < 0)
		return (false);
	layer_renamed(op->stack.layers[0], name);
	return (true);
}

/* The next one is the sandbox from now on; the old one is freed by the
 * caller. */
static void
take_place(struct snap_op *op, struct sandbox *old)
{
	struct engine *e = op->e;
	struct sandbox *next = op->next;

	if (trust_inherit(next, old) != 0)
		sandbox_end(next, SBX_END_DIED, "what its clients trust");
	if (!op->stacked)
		scratch_drop(&e->scratch, old->dir);
	else if (!freeze(op, old))
		sandbox_end(next, SBX_END_DIED, "its scratch directory");
	if (scratch_rename(&e->scratch, next->dir, old->id) == 0)
		(void)sbx_strlcpy(next->dir, old->id, sizeof(next->dir));
	(void)sbx_strlcpy(next->id, old->id, sizeof(next->id));
	old->id[0] = '\0';
	next->op = NULL;
	op->next = NULL;
	op->sb = NULL;		/* the new one is not in the middle of it */
	op->moved = true;
	sandbox_tell_proxy(next);
}

bool
snap_old_reaped(struct sandbox *old)
{
	struct snap_op *op = old->op;

	if (op == NULL)
		return (false);
	if (op->next != NULL && op->next->state == SB_READY &&
	    old->nstops == 0) {
		take_place(op, old);
		op_maybe_end(op);
		return (true);
	}
	old->op = NULL;
	op->sb = NULL;
	if (!op->end || op->stack.n == 0) {
		op_end(op, ESRCH, "the sandbox has ended");
		return (false);
	}
	/* at its own end: what it wrote is the layer, and is read now */
	struct sbx_err err = { 0 };

	if (!freeze(op, old))
		op_end(op, errno, "renaming the scratch of the sandbox");
	else if (read_layers(op, op->stack.layers[0]->upper, NULL, &err) < 0)
		op_end(op, EAGAIN, err.msg);
	return (false);
}

/* --- taking ------------------------------------------------------------------------- */

static bool
is_idle(const struct sandbox *sb)
{
	for (size_t i = 0; i < SBX_NELEM(sb->helps); i++)
		if (sb->helps[i].used)
			return (false);
	return (sb->njobs == 0);
}

/* What it wrote becomes the top layer; nothing is there twice. */
static int
begin_stacked(struct snap_op *op, int upper, struct sbx_err *err)
{
	struct sandbox *sb = op->sb;
	int r;

	/* by the name that it still has; freeze() gives it its own */
	stack_add(&op->stack, &sb->stack);
	stack_push(&op->stack, layer_new(op->e, sb->dir, upper, sb->uid,
	    false));
	op->stack.layers[0]->lent = true;
	op->stacked = true;
	if (op->end) {
		sandbox_end(sb, SBX_END_STOP, "its files were kept");
		return (0);
	}
	if ((r = build_next(op, err)) < 0)
		return (r);
	return (read_layers(op, upper, NULL, err));
}

static int
begin_copy(struct snap_op *op, int upper, bool may_move, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) owned = upper;
	struct stack *all = op->sb->stack.n == SBX_MAX_LAYERS ?
	    &op->sb->stack : NULL;

	layer_name(op->e, op->layer);
	/* a sandbox that stands on too much gets the one layer itself */
	op->move = all != NULL && may_move && !op->end;
	if (op->move || op->end)
		op->sb->state = SB_FROZEN;
	return (read_layers(op, owned, all, err));
}

/* The copy is whole: a layer of its own. */
static void
copied(struct snap_op *op)
{
	struct sbx_err err = { 0 };
	int upper = upper_of(op->e, op->layer);

	if (upper == -1) {
		op_end(op, errno, "the layer that was made");
		return;
	}
	if (op->sb->stack.n < SBX_MAX_LAYERS)
		stack_add(&op->stack, &op->sb->stack);
	stack_push(&op->stack, layer_new(op->e, op->layer, upper, op->sb->uid,
	    true));
	op->layer[0] = '\0';
	if (op->end) {
		sandbox_end(op->sb, SBX_END_STOP, "its files were kept");
		op->sb->op = NULL;
		op->sb = NULL;
		op_end(op, 0, "");
	} else if (op->move && build_next(op, &err) < 0)
		op_end(op, EAGAIN, err.msg);
	else
		op_maybe_end(op);
}

bool
snap_reaped(struct engine *e, pid_t pid)
{
	struct snap_op *op;

	LIST_FOREACH(op, &e->snap_ops, link)
		if (op->child == pid)
			break;
	if (op == NULL)
		return (false);
	op->child = 0;
	op->counted = true;
	take_result(op);
	if (op->res.error != 0 && op->stacked && !op->end) {
		/* a layer that cannot be counted is one all the same */
		op->res.files = op->res.bytes = UINT64_MAX;
		op->res.error = 0;
	}
	if (op->res.error != 0) {
		struct sbx_err err = { 0 };

		errno = op->res.error;
		(void)sbx_err_sys(&err, "%s", op->res.reason);
		op_end(op, op->res.error, err.msg);
	} else if (op->end && op->stacked)
		op_end(op, 0, "");
	else if (op->stacked)
		op_maybe_end(op);
	else
		copied(op);
	return (true);
}

static void
refuse_take(struct engine *e, const struct sbx_snap_take *q, uint32_t id,
    int error, const char *reason)
{
	struct sbx_snap_taken m = { .container = q->container, .digest = "",
		.snapshot = q->snapshot, .error = error, .reason = reason };

	(void)sbx_send_snap_taken(e->monitor, id, &m, NULL);
}

/* Now, whatever lives in it. */
static void
begin(struct snap_op *op)
{
	struct sandbox *sb = op->sb;
	bool idle = op->may_move && is_idle(sb);
	struct sbx_err err = { 0 };
	int r, upper;

	if (sb->state != SB_READY) {
		op_end(op, ESRCH, "the sandbox has ended");
		return;
	}
	upper = upper_of(op->e, sb->dir);
	if (upper == -1)
		r = sbx_err_sys(&err, "the scratch of the sandbox");
	/* what a tmpfs of its own holds must not outlive its size */
	else if (!op->e->scratch.tmpfs && sb->stack.n < SBX_MAX_LAYERS &&
	    (op->end || idle))
		r = begin_stacked(op, upper, &err);
	else
		r = begin_copy(op, upper, idle, &err);
	if (r < 0)
		op_end(op, EAGAIN, err.msg);
}

static void
wait_over(struct snap_op *op)
{
	event_free(op->waiting);
	op->waiting = NULL;
	begin(op);
}

static void
on_wait_timeout(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	wait_over(arg);
}

void
snap_job_gone(struct sandbox *sb)
{
	if (sb->op != NULL && sb->op->waiting != NULL &&
	    sb->state == SB_READY && is_idle(sb))
		wait_over(sb->op);
}

/*
 * A command has ended a moment before its last process is known to be gone;
 * for want of that moment all would be copied.
 */
static bool
worth_waiting(const struct snap_op *op)
{
	const struct job *j;

	if (!op->may_move || op->end || op->e->scratch.tmpfs)
		return (false);
	LIST_FOREACH(j, &op->sb->jobs, link)
		if (!j->exited)
			return (false);
	return (!is_idle(op->sb));
}

void
snap_take(struct engine *e, const struct sbx_snap_take *q, uint32_t id)
{
	struct sandbox *sb = sandbox_find(e, q->container);
	const struct timeval moment = { 0, SNAP_WAIT_MS * 1000 };
	struct snap_op *op;

	if (sb == NULL || sb->state != SB_READY)
		refuse_take(e, q, id, ESRCH, "the sandbox has ended");
	else if (sb->op != NULL)
		refuse_take(e, q, id, EBUSY, "another snapshot or a restore "
		    "of this sandbox is under way");
	else if (snapshot_find(e, q->snapshot) != NULL)
		refuse_take(e, q, id, EEXIST, "there is one of this id");
	else if (e->nsnapshots >= SBX_MAX_SNAPSHOTS + SBX_MAX_SETUPS +
	    SBX_MAX_CALLS)
		refuse_take(e, q, id, ENOSPC, "there are too many snapshots");
	else {
		op = op_new(e, sb, q->snapshot, id, q->end ? SNAP_DIGEST_S :
		    SBX_SNAP_COPY_S);
		op->end = q->end;
		op->may_move = q->may_move;
		if (!worth_waiting(op)) {
			begin(op);
			return;
		}
		op->waiting = evtimer_new(e->base, on_wait_timeout, op);
		if (op->waiting == NULL || event_add(op->waiting, &moment) ==
		    -1)
			sbx_fatal("out of memory");
	}
}

void
snap_restore(struct engine *e, const struct sbx_snap_restore *q, uint32_t id)
{
	struct sandbox *sb = sandbox_find(e, q->container);
	struct snapshot *s = snapshot_find(e, q->snapshot);
	struct sbx_snap_restored m = { .container = q->container,
		.snapshot = q->snapshot, .reason = "" };
	struct sbx_err err = { 0 };
	struct snap_op *op;

	if (sb == NULL || sb->state != SB_READY) {
		m.error = ESRCH;
		m.reason = "the sandbox has ended";
	} else if (s == NULL) {
		m.error = ENOENT;
		m.reason = "there is no such snapshot";
	} else if (sb->op != NULL) {
		m.error = EBUSY;
		m.reason = "a snapshot or another restore of this sandbox is "
		    "under way";
	}
	if (m.error != 0) {
		(void)sbx_send_snap_restored(e->monitor, id, &m, NULL);
		return;
	}
	op = op_new(e, sb, q->snapshot, id, SBX_SNAP_COPY_S);
	op->restore = op->move = op->counted = true;
	image_put(op->image);
	op->image = image_hold(s->image);
	(void)sbx_strlcpy(op->wanted, s->wanted, sizeof(op->wanted));
	stack_add(&op->stack, &s->stack);
	if (build_next(op, &err) < 0)
		op_end(op, EAGAIN, err.msg);
}

void
snap_finish(struct engine *e)
{
	struct snap_op *op;

	LIST_FOREACH(op, &e->snap_ops, link) {
		if (op->child != 0)
			(void)kill(op->child, SIGKILL);
		if (op->layer[0] != '\0')
			scratch_drop(&e->scratch, op->layer);
	}
}
