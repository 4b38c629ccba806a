#include "sbxd/engine/engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENV_MAX 16384	/* an image's and ours */

struct sandbox *
sandbox_find(struct engine *e, const char *id)
{
	struct sandbox *sb;

	LIST_FOREACH(sb, &e->sandboxes, link)
		if (strcmp(sb->id, id) == 0)
			return (sb);
	return (NULL);
}

static void
refuse(struct engine *e, const char *id, uint32_t ask_id, enum sbx_end_why why,
    const char *reason)
{
	struct sbx_sandbox_ended m = { .container = id, .why = why,
		.reason = reason };

	(void)sbx_send_sandbox_ended(e->monitor, ask_id, &m, NULL);
}

static void
sandbox_free(struct sandbox *sb)
{
	LIST_REMOVE(sb, link);
	sb->e->nsandboxes--;
	sbx_peer_free(sb->init);
	if (sb->timer != NULL)
		event_free(sb->timer);
	sbx_close(&sb->pidfd);
	sbx_close(&sb->listener);
	sbx_close(&sb->authority);
	stack_clear(&sb->stack);
	group_drop(&sb->e->groups, &sb->group);
	image_put(sb->image);
	free(sb);
}

static void
on_create_timeout(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	sandbox_end(arg, SBX_END_CREATE, "not ready within %d s", CREATE_S);
}

static void
on_init_end(struct sbx_peer *p, int error)
{
	struct sandbox *sb = sbx_peer_ctx(p);

	sb->init = NULL;
	if (error == SBX_E_CLOSED)
		sandbox_end(sb, sb->state == SB_CREATING ? SBX_END_CREATE :
		    SBX_END_DIED, "its init ended");
	else
		sandbox_end(sb, SBX_END_VIOLATION,
		    "its init broke the protocol: %s", sbx_error_name(error));
}

static int
send_start(struct sandbox *sb)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct sbx_init_start m = { .nofile_hard = sb->e->nofile,
		.nproc = sb->e->nproc };

	sbx_buf_init(&b, ENV_MAX);
	if (image_env(sb->image, &m.env, &b) != 0)
		return (SBX_E_LIMIT);
	return (sbx_send_init_start(sb->init, 0, &m, &sb->e->filter_fd));
}

/*
 * What is not enforced is reported, and with `require` refused: no guest has
 * run yet.  The monitor refuses what it can know before.
 */
static void
set_limits(struct sandbox *sb, bool require)
{
	static const struct { uint32_t bit; const char *name; } all[] = {
		{ SBX_LIMIT_MEMORY, " mem_limit" }, { SBX_LIMIT_SWAP, " swap" },
		{ SBX_LIMIT_CPU, " cpus" }, { SBX_LIMIT_PIDS, " pids" },
		{ SBX_LIMIT_DISK, " disk_limit" },
	};
	char which[64] = "";
	size_t n = 0;

	sb->enforced = group_limit(&sb->e->groups, &sb->group, sb->mem_bytes,
	    sb->cpu_milli, sb->e->nproc);
	if (sb->disk_bytes != 0)
		sb->enforced |= scratch_limit(&sb->e->scratch, sb->dir,
		    sb->disk_bytes);
	for (size_t i = 0; i < SBX_NELEM(all); i++)
		if (!(sb->enforced & all[i].bit) && (all[i].bit !=
		    SBX_LIMIT_DISK || sb->disk_bytes != 0))
			n += (size_t)snprintf(which + n, sizeof(which) - n,
			    "%s", all[i].name);
	if (require && n > 0)
		sandbox_end(sb, SBX_END_CREATE, "require_limits is set, and "
		    "this machine did not enforce:%s", which);
}

/* id: what it calls itself; that of whose place it is to take, if any. */
static int
start(struct sandbox *sb, const char *id, bool require, struct sbx_err *err)
{
	struct engine *e = sb->e;
	struct timeval limit = { CREATE_S, 0 };
	struct mould mould = { .image = sb->image, .stack = &sb->stack,
		.dir = sb->dir };
	struct blank b;
	int r;

	if ((r = blank_take(e, &mould, id, &b, err)) < 0)
		return (r);
	(void)sbx_strlcpy(sb->dir, b.dir, sizeof(sb->dir));
	sb->uid = b.uid;
	sb->group = b.group;
	sb->pid = b.pid;
	sb->pidfd = b.pidfd;
	sb->init = sbx_peer_new(e->base, b.channel, &engine_from_init, sb,
	    on_init_end);
	sb->timer = evtimer_new(e->base, on_create_timeout, sb);
	if (sb->timer == NULL || event_add(sb->timer, &limit) == -1)
		sbx_fatal("out of memory");
	set_limits(sb, require);
	/* one that is gone says itself what for, or its end does */
	if ((r = send_start(sb)) < 0 && r != SBX_E_CLOSED)
		sandbox_end(sb, SBX_END_CREATE, "INIT_START: %s",
		    sbx_error_name(r));
	return (0);
}

/* image: held for it already. */
static struct sandbox *
sandbox_new(struct engine *e, const char *id, const char *dir,
    struct image *image, const char *wanted)
{
	struct sandbox *sb = sbx_xcalloc(1, sizeof(*sb));

	sb->e = e;
	sb->image = image;
	(void)sbx_strlcpy(sb->wanted, wanted, sizeof(sb->wanted));
	sb->pidfd = sb->listener = sb->authority = sb->group.kills = -1;
	(void)sbx_strlcpy(sb->id, id, sizeof(sb->id));
	(void)sbx_strlcpy(sb->dir, dir, sizeof(sb->dir));
	LIST_INIT(&sb->jobs);
	LIST_INSERT_HEAD(&e->sandboxes, sb, link);
	e->nsandboxes++;
	return (sb);
}

int
sandbox_build_next(struct sandbox *sb, const char *dir,
    struct image *image, const char *wanted, const struct stack *stack,
    struct snap_op *op, struct sandbox **ret_next, struct sbx_err *err)
{
	struct sandbox *next = sandbox_new(sb->e, "", dir, image_hold(image),
	    wanted);
	int r;

	stack_add(&next->stack, stack);
	next->op = op;
	next->mem_bytes = sb->mem_bytes;
	next->cpu_milli = sb->cpu_milli;
	next->disk_bytes = sb->disk_bytes;
	r = start(next, sb->id, false, err);
	if (r < 0) {
		scratch_drop(&sb->e->scratch, dir);
		sandbox_free(next);
		return (r);
	}
	/* whoever was told that it has its limits is not told otherwise */
	if ((sb->enforced & ~next->enforced) != 0)
		sandbox_end(next, SBX_END_CREATE, "this machine did not "
		    "enforce all of the sandbox's limits again");
	*ret_next = next;
	return (0);
}

void
sandbox_create(struct engine *e, const struct sbx_sandbox_create *q,
    uint32_t id)
{
	const struct snapshot *s = NULL;
	struct sandbox *sb;
	struct image *im;
	struct sbx_err err = { 0 };

	if (sandbox_find(e, q->container) != NULL) {
		refuse(e, q->container, id, SBX_END_CREATE,
		    "there is a sandbox of this id");
		return;
	}
	if (e->nsandboxes >= SBX_MAX_SANDBOXES) {
		refuse(e, q->container, id, SBX_END_CREATE,
		    "there are too many sandboxes");
		return;
	}
	if (q->snapshot[0] != '\0' &&
	    (s = snapshot_find(e, q->snapshot)) == NULL) {
		refuse(e, q->container, id, SBX_END_IMAGE,
		    "there is no such snapshot");
		return;
	}
	if (s != NULL)
		im = image_hold(s->image);
	else if (image_get(e, q->image, &im, &err) < 0) {
		refuse(e, q->container, id, SBX_END_IMAGE, err.msg);
		return;
	}
	sb = sandbox_new(e, q->container, q->container, im,
	    s != NULL ? s->wanted : q->image);
	if (s != NULL)
		stack_add(&sb->stack, &s->stack);
	sb->create_id = id;
	sb->mem_bytes = q->mem_bytes;
	sb->cpu_milli = q->cpu_milli;
	sb->disk_bytes = q->disk_bytes;
	if (start(sb, sb->id, q->require, &err) < 0) {
		refuse(e, sb->id, id, SBX_END_CREATE, err.msg);
		scratch_drop(&e->scratch, sb->dir);
		sandbox_free(sb);
	}
}

void
sandbox_tell_proxy(struct sandbox *sb)
{
	struct sbx_proxy_listener m = { .container = sb->id };

	if (sb->e->proxy != NULL && sb->listener != -1 && sb->id[0] != '\0' &&
	    (sb->state == SB_READY || sb->state == SB_FROZEN))
		(void)sbx_send_proxy_listener(sb->e->proxy, 0, &m,
		    &sb->listener);	/* a new proxy gets it again */
}

/*
 * The proxy will listen and accept on it.  No guest has run yet, so a wrong
 * one means a broken init; what it connects to is checked by the proxy again.
 */
static bool
is_egress_socket(int fd)
{
	struct sockaddr_in sin = { 0 };
	socklen_t len = sizeof(sin), n = sizeof(int);
	int type = 0, listens = 1;

	return (getsockname(fd, (struct sockaddr *)&sin, &len) == 0 &&
	    len == sizeof(sin) && sin.sin_family == AF_INET &&
	    sin.sin_port == htons(SBX_EGRESS_PORT) &&
	    sin.sin_addr.s_addr == htonl(INADDR_LOOPBACK) &&
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 &&
	    type == SOCK_STREAM && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN,
	    &listens, &n) == 0 && listens == 0);
}

/* With the image's configuration, as it stands in the store. */
static void
send_ready(struct sandbox *sb)
{
	SBX_CLEANUP_BUF struct sbx_buf env = { 0 };
	SBX_CLEANUP_BUF struct sbx_buf entry = { 0 };
	const struct sbx_image_config *c = &sb->image->config;
	char digest[SBX_IMAGE_DIGEST_SIZE] = "";
	struct sbx_sandbox_ready m = { .container = sb->id,
		.pid = (uint32_t)sb->pid, .image = sb->wanted,
		.digest = digest, .user = c->user, .workdir = c->workdir,
		.enforced = sb->enforced, .mem_bytes = sb->mem_bytes,
		.cpu_milli = sb->cpu_milli, .disk_bytes = sb->disk_bytes,
		.own_user = sb->uid != geteuid() };

	sbx_buf_init(&env, SBX_IMAGE_ENV_MAX);
	sbx_buf_init(&entry, SBX_IMAGE_ENTRYPOINT_MAX);
	if (sb->image->hex[0] != '\0')
		(void)snprintf(digest, sizeof(digest), "%s%s",
		    SBX_IMAGE_ALGORITHM, sb->image->hex);
	/* the limits are those of the file that they were read from */
	(void)image_strs(&c->env, &m.env, &env);
	(void)image_strs(&c->entrypoint, &m.entrypoint, &entry);
	(void)sbx_send_sandbox_ready(sb->e->monitor, sb->create_id, &m, NULL);
}

int
sandbox_is_ready(struct sandbox *sb, int listener)
{
	if (sb->state != SB_CREATING || !is_egress_socket(listener)) {
		sbx_close(&listener);
		return (sb->state != SB_CREATING ? 0 : SBX_E_POLICY);
	}
	sb->listener = listener;
	sb->state = SB_READY;
	(void)event_del(sb->timer);
	if (sb->id[0] == '\0') {
		snap_next_ready(sb);
		return (0);
	}
	/* its mounts stand; under its id a next start finds what was whose */
	if (strcmp(sb->dir, sb->id) != 0 &&
	    scratch_rename(&sb->e->scratch, sb->dir, sb->id) == 0)
		(void)sbx_strlcpy(sb->dir, sb->id, sizeof(sb->dir));
	send_ready(sb);
	sb->create_id = 0;
	sb->e->ahead_failed = 0;
	engine_quiet(sb->e);
	sandbox_tell_proxy(sb);
	return (0);
}

int
sandbox_stop(struct sandbox *sb, uint32_t id)
{
	if (sb->nstops == MAX_WAITING)
		return (SBX_E_LIMIT);
	sb->stop_ids[sb->nstops++] = id;
	sandbox_end(sb, SBX_END_STOP, "stopped");
	return (0);
}

void
sandbox_end(struct sandbox *sb, enum sbx_end_why why, const char *fmt, ...)
{
	va_list ap;

	if (sb->state == SB_ENDING)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(sb->reason, sizeof(sb->reason), fmt, ap);
	va_end(ap);
	sb->state = SB_ENDING;
	sb->why = why;
	if (sb->pid == 0)
		return;
	/* PID 1's death ends every process of its namespace (pid_namespaces(7)) */
	(void)syscall(SYS_pidfd_send_signal, sb->pidfd, SIGKILL, NULL, 0);
	group_hurry(&sb->e->groups, &sb->group);
}

/* --- helpers of init ------------------------------------------------------- */

struct help *
help_new(struct sandbox *sb, uint32_t id)
{
	for (size_t i = 0; i < SBX_NELEM(sb->helps); i++)
		if (!sb->helps[i].used) {
			sb->helps[i] = (struct help){ .id = id, .used = true };
			return (&sb->helps[i]);
		}
	return (NULL);
}

bool
help_over(struct sandbox *sb, uint32_t id, bool file)
{
	for (size_t i = 0; i < SBX_NELEM(sb->helps); i++)
		if (sb->helps[i].used && sb->helps[i].id == id &&
		    sb->helps[i].file == file) {
			sb->helps[i].used = false;
			return (true);
		}
	return (false);
}

int
help_failed(struct sbx_peer *monitor, uint32_t id, int32_t error,
    const char *reason)
{
	return (sbx_send_engine_filed(monitor, id, &(struct sbx_engine_filed){
	    .error = error, .reason = reason, .path = "" }, NULL));
}

/* Everything that waited for something of this sandbox is answered. */
static void
answer_all(struct sandbox *sb)
{
	struct sbx_engine_unpacked m = { .container = sb->id, .error = ESRCH,
		.reason = "the sandbox has ended", .final_path = "" };
	struct job *j;

	while ((j = LIST_FIRST(&sb->jobs)) != NULL) {
		if (!j->started)
			job_started(j, ESRCH, "the sandbox has ended");
		else if (!j->exited)
			job_exited(j, SIGKILL, SBX_EXIT_SANDBOX);
		job_gone(j);
	}
	for (size_t i = 0; i < SBX_NELEM(sb->helps); i++)
		if (sb->helps[i].used && sb->helps[i].file)
			(void)help_failed(sb->e->monitor, sb->helps[i].id,
			    ESRCH, m.reason);
		else if (sb->helps[i].used)
			(void)sbx_send_engine_unpacked(sb->e->monitor,
			    sb->helps[i].id, &m, NULL);
}

/* To whoever waited for it, or for nobody asked. */
static void
tell_end(struct sandbox *sb, int status)
{
	struct sbx_sandbox_ended m = { .container = sb->id, .why = sb->why,
		.status = status, .reason = sb->reason };
	struct engine *e = sb->e;

	if (sb->create_id != 0)
		refuse(e, sb->id, sb->create_id, SBX_END_CREATE,
		    sb->reason);
	for (unsigned i = 0; i < sb->nstops; i++)
		(void)sbx_send_sandbox_ended(e->monitor, sb->stop_ids[i], &m,
		    NULL);
	if (sb->create_id == 0 && sb->nstops == 0)
		(void)sbx_send_sandbox_ended(e->monitor, 0, &m, NULL);
}

void
sandbox_reaped(struct engine *e, pid_t pid, int status)
{
	struct sandbox *sb;

	LIST_FOREACH(sb, &e->sandboxes, link)
		if (sb->pid == pid)
			break;
	if (sb == NULL)
		return;		/* a child that deletes scratch */
	sb->pid = 0;
	/* what init still said, such as why it could not start, comes first */
	if (sb->init != NULL && sb->state == SB_CREATING) {
		struct sbx_in *in = sbx_xcalloc(1, sizeof(*in));

		if (sbx_wire_recv(sbx_peer_fd(sb->init), SBX_PROC_ENGINE,
		    SBX_PROC_INIT, in, MSG_DONTWAIT) == 0 &&
		    in->hdr.type == SBX_MSG_INIT_FAILED)
			sandbox_end(sb, SBX_END_CREATE, "%s: %s",
			    in->m.init_failed.reason,
			    strerror(in->m.init_failed.error));
		sbx_in_clear(in);
		free(in);
	}
	sandbox_end(sb, sb->state == SB_CREATING ? SBX_END_CREATE :
	    SBX_END_DIED, group_kills(&sb->group) > 0 ? "its init ended; the "
	    "sandbox had used up its memory" : "its init ended");
	answer_all(sb);
	if (sb->id[0] == '\0')
		snap_next_ended(sb);
	else if (snap_old_reaped(sb))
		sb->dir[0] = '\0';	/* another's by now */
	else {
		/* who hears of its end may remove its image at once */
		image_put(sb->image);
		sb->image = NULL;
		tell_end(sb, status);
	}
	if (sb->dir[0] != '\0')
		scratch_drop(&e->scratch, sb->dir);
	ids_put(&e->ids, sb->uid);
	sandbox_free(sb);
}
