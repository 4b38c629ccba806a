/*
 * sbxd-copyin: reads what one copy takes from the host.
 *
 * It alone, and only while one copy lasts, holds a directory of the caller,
 * and reads below it with the caller's rights.  The monitor starts it for one
 * copy and tells it what; its stream goes to a sandbox, whose end it never
 * hears from.  It must never be able to follow a link out of that directory,
 * write anywhere, open a socket or execute anything.  A source tree may be
 * hostile, and may change under it.
 */
#include "common/base/log.h"
#include "common/privs/privs.h"
#include "common/proto/accepts.h"
#include "config.h"
#include "sbxd/copyin/copyin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHANNEL_FD 3
#define START_TIMEOUT_MS 10000
#define SEND_TIMEOUT_MS 10000

static const uint16_t start_types[] = { SBX_MSG_COPYIN_START, 0 };
static const struct sbx_accepts start_list = { SBX_PROC_COPYIN,
	SBX_PROC_MONITOR, start_types };

static struct copyin copy;

int
copy_fail(struct copyin *c, int error, const char *fmt, ...)
{
	va_list ap;

	if (c->error != 0)
		return (-1);	/* the first one is the cause */
	c->error = error != 0 ? error : EIO;
	va_start(ap, fmt);
	(void)vsnprintf(c->reason, sizeof(c->reason), fmt, ap);
	va_end(ap);
	return (-1);
}

void
copy_report(struct copyin *c, const char *why, const char *path)
{
	size_t need = strlen(why) + 1 + strlen(path) + 1;

	c->refused++;
	if (c->report_len + need > REPORT_MAX)
		return;
	c->report_len += need;
	if (dprintf(c->report, "%s\t%s", why, path) < 0 ||
	    write(c->report, "", 1) != 1)
		(void)copy_fail(c, errno, "the report cannot be written");
}

/*
 * The source relative to the root, or NULL: it is outside.  A model names
 * what it sees on the host, so the root's own path may stand before it.
 */
static const char *
below_root(const struct copyin *c, const char *source)
{
	size_t n = strlen(c->root_path);

	if (source[0] != '/')
		return (source[0] != '\0' ? source : ".");
	if (n == 0 || strncmp(source, c->root_path, n) != 0 ||
	    (source[n] != '/' && source[n] != '\0'))
		return (NULL);
	source += n;
	source += strspn(source, "/");
	return (*source != '\0' ? source : ".");
}

static int
run(struct copyin *c, const struct sbx_copyin_start *q, int list_fd)
{
	const char *source = below_root(c, q->source);
	char root[160];
	int r;

	if (source == NULL)
		return (copy_fail(c, EXDEV, "it is not below %s, the only "
		    "directory that this client may copy from",
		    sbx_vis(root, sizeof(root), c->root_path,
		    strlen(c->root_path))));
	if (in_git(source))
		return (copy_fail(c, EACCES, "it is a part of a repository, "
		    "which is only copied with its project"));
	if (q->mode == SBX_COPY_FILE) {
		r = walk_one(c, source);
	} else {
		c->src = open_below(c->root, source, O_RDONLY | O_DIRECTORY);
		if (c->src == -1)
			return (copy_fail(c, errno, "%s", open_why(errno)));
		c->src_path = source;
		r = q->mode == SBX_COPY_NAMES ? walk_names(c) :
		    walk_list(c, list_fd);
	}
	if (r == 0)
		r = out_record(c, SBX_COPY_T_END, 0, "", NULL, 0);
	return (r);
}

/* For messages and for below_root() only; nothing is opened by it. */
static void
name_root(struct copyin *c)
{
	char link[40];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", c->root);
	n = readlink(link, c->root_path, sizeof(c->root_path) - 1);
	c->root_path[n > 0 && c->root_path[0] == '/' ? n : 0] = '\0';
}

/* Nothing of it is copied: the stream and the list are the root again. */
static int
look(struct copyin *c, struct sbx_chan *chan)
{
	struct sbx_copyin_markers m;

	if (markers_find(c, &m.found) != 0)
		return (0);	/* COPYIN_DONE says why */
	return (sbx_chan_send(chan, SBX_MSG_COPYIN_MARKERS, 0, &m, NULL,
	    SEND_TIMEOUT_MS));
}

static void
enter(const struct sbx_copyin_start *q, struct sbx_chan *chan, int root,
    bool trap)
{
	struct sbx_privs_args args = { .dir_fds = &root, .ndir_fds = 1,
		.uid = q->uid, .gid = q->gid, .trap = trap };
	struct sbx_hello hello = { .version = PACKAGE_VERSION,
		.pid = (uint32_t)getpid() };
	struct sbx_err err = { 0 };

	if (sbx_privs_enter(SBX_PROC_COPYIN, &args, &hello.features, &err) < 0)
		sbx_fatal("%s", err.msg);
	if (sbx_chan_send(chan, SBX_MSG_HELLO, 0, &hello, NULL,
	    SEND_TIMEOUT_MS) < 0)
		_exit(3);
}

int
main(int argc, char **argv)
{
	static const struct sbx_accepts *const lists[] = { &start_list, NULL };
	bool debug = argc > 1 && strncmp(argv[1], "-d", 2) == 0;
	struct copyin *c = &copy;
	struct sbx_copyin_done done;
	struct sbx_chan chan;
	int list_fd;

	sbx_accepts_print(argc, argv, NULL, lists);
	if (argc > 1 && !debug)
		return (1);
	sbx_privs_early();
	sbx_log_init("sbxd-copyin", debug ? SBX_LOG_DEBUG : SBX_LOG_INFO);
	sbx_chan_init(&chan, CHANNEL_FD, SBX_PROC_COPYIN, SBX_PROC_MONITOR);
	if (sbx_chan_recv(&chan, START_TIMEOUT_MS) < 0 ||
	    !sbx_accepts(&start_list, chan.in->hdr.type) ||
	    chan.in->m.copyin_start.mode >= SBX_COPY_MAX)
		sbx_fatal("no COPYIN_START");
	c->root = sbx_steal_fd(&chan.in->fds[0]);
	list_fd = sbx_steal_fd(&chan.in->fds[1]);
	c->out = sbx_steal_fd(&chan.in->fds[2]);
	c->report = sbx_steal_fd(&chan.in->fds[3]);
	c->src = c->root;
	c->src_path = "";
	c->buf = sbx_xcalloc(1, SCAN_MAX + 1);
	name_root(c);
	enter(&chan.in->m.copyin_start, &chan, c->root, debug);
	if (chan.in->m.copyin_start.mode != SBX_COPY_MARKERS)
		(void)run(c, &chan.in->m.copyin_start, list_fd);
	else if (look(c, &chan) != 0)
		return (3);
	sbx_close(&c->out);	/* a stream without its END is refused there */
	done = (struct sbx_copyin_done){ .error = c->error, .files = c->files,
		.bytes = c->bytes, .refused = c->refused,
		.reason = c->reason };
	return (sbx_chan_send(&chan, SBX_MSG_COPYIN_DONE, 0, &done, NULL,
	    SEND_TIMEOUT_MS) < 0 ? 3 : 0);
}
