/*
 * Sandboxes without an id.  All that takes long is the same for every sandbox
 * of an image, so one is kept built, of the image that was asked for last, up
 * to what its id is needed for; no guest was ever in it.
 *
 * It does not hold the image: one that nobody uses can be removed.  Whoever
 * takes a blank holds the image, and the blank fits when it was made of the
 * same directory.
 */
#include "sbxd/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_FAILED 3		/* in a row; then each says itself why */

static int
spawn(struct engine *e, struct build *b, struct blank *ret_b,
    struct sbx_err *err)
{
	int pair[2], go[2], r;

	if (pipe2(go, O_CLOEXEC) == -1)
		return (sbx_err_sys(err, "pipe"));
	if (sbx_wire_pair(pair) != 0) {
		r = sbx_err_sys(err, "socketpair");
		sbx_close(&go[0]);
		sbx_close(&go[1]);
		return (r);
	}
	if (pair[1] >= FD_SANDBOXES(e)) {
		errno = EMFILE;
		r = sbx_err_sys(err, "the suite has too many runs and "
		    "sandboxes");
		for (int i = 0; i < 2; i++) {
			sbx_close(&go[i]);
			sbx_close(&pair[i]);
		}
		return (r);
	}
	b->init_fd = e->init_fd;
	b->null_fd = e->null_fd;
	b->channel_fd = pair[1];
	b->go_fd = go[0];
	r = build_start(b, &ret_b->pid, &ret_b->pidfd, err);
	sbx_close(&pair[1]);
	sbx_close(&go[0]);
	ret_b->channel = pair[0];
	ret_b->go = go[1];
	if (r < 0) {
		sbx_close(&ret_b->channel);
		sbx_close(&ret_b->go);
	}
	return (r);
}

/*
 * Its scratch, and whose it is.  Whoever stands on another's layers is the
 * same user, or their files would be nobody's inside.
 */
static int
scratch_for(struct engine *e, const struct stack *stack, const char *dir,
    uid_t *ret_uid, struct sbx_err *err)
{
	if (stack == NULL || stack->n == 0) {
		*ret_uid = ids_take(&e->ids);
		return (scratch_make(&e->scratch, dir, *ret_uid, err));
	}
	*ret_uid = stack->layers[0]->uid;
	ids_hold(&e->ids, *ret_uid);
	return (scratch_make_over(&e->scratch, dir, *ret_uid,
	    stack->layers[0]->upper, err));
}

/* Its scratch is dir.  After a failure, too, that is there to be dropped. */
static int
blank_make(struct engine *e, const struct mould *mould, const char *dir,
    struct blank *ret_b, struct sbx_err *err)
{
	const struct image *im = mould->image;
	const struct stack *stack = mould->stack;
	struct build b = { .dir = dir, .binds = im->binds };
	struct stat st;
	int r;

	*ret_b = (struct blank){ .pidfd = -1, .channel = -1, .go = -1 };
	if (fstatat(e->scratch_fd, im->layers[0], &st,
	    AT_SYMLINK_NOFOLLOW) == -1)
		return (sbx_err_sys(err, "a layer of the image"));
	(void)sbx_strlcpy(ret_b->dir, dir, sizeof(ret_b->dir));
	ret_b->dev = st.st_dev;
	ret_b->ino = st.st_ino;
	for (size_t i = 0; stack != NULL && i < stack->n; i++)
		b.lower[b.nlower++] = stack->layers[i]->path;
	for (size_t i = 0; i < im->nlayers; i++)
		b.lower[b.nlower++] = im->layers[i];
	r = scratch_for(e, stack, dir, &ret_b->uid, err);
	b.uid = ret_b->uid;
	b.gid = b.uid == geteuid() ? getegid() : (gid_t)b.uid;
	group_make(&e->groups, &ret_b->group, b.join);
	if (r == 0)
		r = spawn(e, &b, ret_b, err);
	for (int h = 0; h < SBX_CGROUP_MAX; h++)
		sbx_close(&b.join[h]);
	if (r < 0) {
		ids_put(&e->ids, ret_b->uid);
		group_drop(&e->groups, &ret_b->group);
	}
	return (r);
}

static bool
fits(const struct engine *e, const struct mould *mould)
{
	struct stat st;

	return (e->ahead.pid != 0 && fstatat(e->scratch_fd,
	    mould->image->layers[0], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_dev == e->ahead.dev && st.st_ino == e->ahead.ino);
}

int
blank_take(struct engine *e, const struct mould *mould, const char *id,
    struct blank *ret_b, struct sbx_err *err)
{
	bool plain = mould->stack == NULL || mould->stack->n == 0;
	int r;

	if (plain && e->ahead.pid != 0 && !fits(e, mould))
		blank_drop(e);
	if (plain)
		e->recent = mould->image;
	if (plain && e->ahead.pid != 0) {
		*ret_b = e->ahead;
		e->ahead = (struct blank){ 0 };
	} else if ((r = blank_make(e, mould, mould->dir != NULL ?
	    mould->dir : id, ret_b, err)) < 0)
		return (r);
	/* fits an empty pipe; when nobody reads it, the channel says why */
	(void)!write(ret_b->go, id, strlen(id));
	sbx_close(&ret_b->go);
	return (0);
}

void
blank_ahead(struct engine *e)
{
	const struct mould mould = { .image = e->recent };
	struct sbx_err err = { 0 };
	char dir[LAYER_NAME];
	int r;

	if (e->ahead.pid != 0 || e->recent == NULL ||
	    e->ahead_failed >= MAX_FAILED)
		return;
	/* the last one's may still have its name */
	(void)snprintf(dir, sizeof(dir), SCRATCH_AHEAD "%u",
	    e->ahead_serial++);
	r = blank_make(e, &mould, dir, &e->ahead, &err);
	if (r < 0) {
		e->ahead_failed++;
		log_debug("no sandbox ahead: %s, ignoring", err.msg);
		scratch_drop(&e->scratch, dir);
	}
}

static void
forget(struct engine *e)
{
	sbx_close(&e->ahead.pidfd);
	sbx_close(&e->ahead.channel);
	sbx_close(&e->ahead.go);
	ids_put(&e->ids, e->ahead.uid);
	group_drop(&e->groups, &e->ahead.group);
	e->ahead.pid = 0;
	scratch_drop(&e->scratch, e->ahead.dir);
}

bool
blank_reaped(struct engine *e, pid_t pid)
{
	if (pid != e->ahead.pid)
		return (false);
	log_debug("the sandbox made ahead ended, ignoring");
	e->ahead_failed++;
	forget(e);
	return (true);
}

void
blank_drop(struct engine *e)
{
	int status;

	if (e->ahead.pid == 0)
		return;
	(void)kill(e->ahead.pid, SIGKILL);
	(void)waitpid(e->ahead.pid, &status, 0);
	forget(e);
}
