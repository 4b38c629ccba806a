#include "sbx-journald/journald.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Source: systemd, "Native Journal Protocol". */
#define SYSTEM_JOURNAL "/run/systemd/journal/socket"
/* What a pipe takes without blocking when poll(2) says that it has room. */
#define PIECE 4096

void
outlet_init(struct outlet *o, bool to_stdout)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd;

	*o = (struct outlet){ .system_fd = -1, .to_stdout = to_stdout };
	if (sbx_strlcpy(sun.sun_path, SYSTEM_JOURNAL, sizeof(sun.sun_path)) < 0)
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	/* connected here: no path can be reached from inside the cage */
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0) {
		sbx_close(&fd);
		return;
	}
	o->system_fd = fd;
}

void
outlet_clear(struct outlet *o)
{
	sbx_close(&o->system_fd);
}

/* Room for a piece, and no more than a piece, can be relied on. */
static bool
stdout_takes(const char *p, size_t n, size_t *ret_done)
{
	struct pollfd pfd = { .fd = STDOUT_FILENO, .events = POLLOUT };
	ssize_t w;

	if (poll(&pfd, 1, 0) != 1 || (pfd.revents & POLLOUT) == 0)
		return (false);
	w = write(STDOUT_FILENO, p, n < PIECE ? n : PIECE);
	*ret_done = w > 0 ? (size_t)w : 0;
	return (w > 0);
}

/*
 * stdout is a copy for whoever looks, so a reader that does not read must not
 * stop the journal.  The descriptor may be shared with other processes, so it
 * is not made non-blocking; poll(2) is asked before each piece.
 */
void
outlet_lines(struct outlet *o, const char *p, size_t n)
{
	size_t done;

	if (!o->to_stdout || (o->cut && !stdout_takes("\n", 1, &done)))
		return;
	o->cut = false;
	while (n > 0) {
		if (!stdout_takes(p, n, &done))
			return;
		o->cut = p[done - 1] != '\n';
		p += done;
		n -= done;
	}
}

void
outlet_checkpoint(struct outlet *o, const struct chain *c)
{
	char text[512], hex[JOURNAL_HASH_HEX + 1];
	int n;

	if (c->seq == o->last_seq)
		return;
	o->last_seq = c->seq;
	if (o->system_fd < 0)
		return;
	journal_hex(c->hash, hex);
	n = snprintf(text, sizeof(text), "MESSAGE=checkpoint %" PRIu64 ":%s\n"
	    "PRIORITY=5\nSYSLOG_IDENTIFIER=sbx-journald\n"
	    "SBX_CHECKPOINT_SEQ=%" PRIu64 "\nSBX_CHECKPOINT_SHA256=%s\n",
	    c->seq, hex, c->seq, hex);
	/* a full or restarted system journal misses one; the next follows */
	(void)send(o->system_fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
}
