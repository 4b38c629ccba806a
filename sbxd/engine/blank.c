/*
 * Sandboxes without an id.  All that takes long is the same for every sandbox
 * of image `host`, so one is kept built, up to what its id is needed for; no
 * guest was ever in it.
 */
#include "sbxd/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define AHEAD "ahead"		/* its scratch */
#define MAX_FAILED 3		/* in a row; then each says itself why */

static int
blank_make(struct engine *e, const char *dir, struct blank *ret_b,
    struct sbx_err *err)
{
	struct build b = { .dir = dir, .image = &e->image,
		.init_fd = e->init_fd, .null_fd = e->null_fd,
		.uid = geteuid(), .gid = getegid() };
	int pair[2], go[2], r;

	if (pipe2(go, O_CLOEXEC) == -1)
		return (sbx_err_sys(err, "pipe"));
	if (sbx_wire_pair(pair) != 0) {
		r = sbx_err_sys(err, "socketpair");
		sbx_close(&go[0]);
		sbx_close(&go[1]);
		return (r);
	}
	b.channel_fd = pair[1];
	b.go_fd = go[0];
	r = build_start(&b, &ret_b->pid, &ret_b->pidfd, err);
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

int
blank_take(struct engine *e, const char *id, struct blank *ret_b,
    struct sbx_err *err)
{
	int r;

	if (e->ahead.pid != 0 && renameat(e->scratch_fd, AHEAD, e->scratch_fd,
	    id) == 0) {
		*ret_b = e->ahead;
		e->ahead = (struct blank){ 0 };
	} else if ((r = scratch_make(&e->scratch, id, err)) < 0 ||
	    (r = blank_make(e, id, ret_b, err)) < 0)
		return (r);
	/* fits an empty pipe; when nobody reads it, the channel says why */
	(void)!write(ret_b->go, id, strlen(id));
	sbx_close(&ret_b->go);
	return (0);
}

void
blank_ahead(struct engine *e)
{
	struct sbx_err err = { 0 };
	int r;

	if (e->ahead.pid != 0 || e->ahead_failed >= MAX_FAILED)
		return;
	r = scratch_make(&e->scratch, AHEAD, &err);
	if (r == 0)
		r = blank_make(e, AHEAD, &e->ahead, &err);
	if (r < 0) {
		e->ahead_failed++;
		log_debug("no sandbox ahead: %s, ignoring", err.msg);
		scratch_drop(&e->scratch, AHEAD);
	}
}

static void
forget(struct engine *e)
{
	sbx_close(&e->ahead.pidfd);
	sbx_close(&e->ahead.channel);
	sbx_close(&e->ahead.go);
	e->ahead.pid = 0;
	scratch_drop(&e->scratch, AHEAD);
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
