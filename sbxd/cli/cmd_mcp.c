/* mcp: a bridge to the running daemon, or a private suite */
#include "sbxd/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * The client's first bytes, with the directory below which its copy tools may
 * read: only a descriptor that this very caller could open says so.
 */
static int
send_first(int fd, const void *p, size_t n, int root_fd)
{
	char space[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)p, .iov_len = n };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = space, .msg_controllen = sizeof(space) };
	struct cmsghdr *cm = CMSG_FIRSTHDR(&mh);
	ssize_t w;

	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cm), &root_fd, sizeof(int));
	do
		w = sendmsg(fd, &mh, MSG_NOSIGNAL);
	while (w == -1 && errno == EINTR);
	if (w <= 0)
		return (-1);
	return (sbx_write_all(fd, (const char *)p + w, n - (size_t)w));
}

/* Move what came from one descriptor to the other; 0 at the end of either. */
static int
pump(int from, int to, int *root_fd)
{
	char buf[65536];
	ssize_t n = read(from, buf, sizeof(buf));
	int r;

	if (n == -1 && (errno == EINTR || errno == EAGAIN))
		return (1);
	if (n <= 0)
		return (0);
	r = root_fd != NULL && *root_fd != -1 ?
	    send_first(to, buf, (size_t)n, *root_fd) :
	    sbx_write_all(to, buf, (size_t)n);
	if (root_fd != NULL)
		sbx_close(root_fd);
	return (r == 0);
}

static int
bridge(struct client *c, int root_fd)
{
	struct pollfd pfd[2] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = c->fd, .events = POLLIN },
	};

	for (;;) {
		if (poll(pfd, 2, -1) == -1 && errno != EINTR)
			return (CLI_FATAL);
		if (pfd[1].revents != 0 && !pump(c->fd, STDOUT_FILENO, NULL))
			return (CLI_PEER);
		/* the client is gone: closing cancels its calls */
		if (pfd[0].revents != 0 &&
		    !pump(STDIN_FILENO, c->fd, &root_fd))
			return (CLI_OK);
	}
}

static int
exec_private(const struct cli *cli, const char *copy_root, const char *profile)
{
	char path[PATH_MAX + 8];
	const char *argv[8] = { "sbxd", "--transport", "stdio" };
	int n = 3;

	(void)snprintf(path, sizeof(path), "%s/sbxd", cli->bindir);
	if (copy_root != NULL) {
		argv[n++] = "--copy-root";
		argv[n++] = copy_root;
	}
	if (profile != NULL) {
		argv[n++] = "--profile";
		argv[n++] = profile;
	}
	argv[n] = NULL;
	(void)execv(path, (char **)(uintptr_t)argv);
	fprintf(stderr, "sbx: %s: %s\n", path, strerror(errno));
	return (CLI_FATAL);
}

int
cmd_mcp(struct cli *cli, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "copy-root", required_argument, NULL, 'c' },
		{ "profile", required_argument, NULL, 'p' },
		{ "private", no_argument, NULL, 'x' }, { 0 } };
	const char *copy_root = NULL, *profile = NULL;
	bool private = false;
	struct sbx_err err;
	struct client c;
	int ch, root_fd = -1, status;

	while ((ch = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (ch == 'c')
			copy_root = optarg;
		else if (ch == 'p')
			profile = optarg;
		else if (ch == 'x')
			private = true;
		else
			return (CLI_SYNTAX);
	}
	if (optind != argc)
		return (CLI_SYNTAX);
	/* slot 0 is the daemon's; a private suite is nobody else's */
	if (private || client_open(cli, 0, &c, &err) != 0)
		return (exec_private(cli, copy_root, profile));
	if (profile != NULL) {
		fprintf(stderr, "sbx: the running suite has its own profile; "
		    "use --private to choose one\n");
		client_close(&c);
		return (CLI_USAGE);
	}
	if (sbx_copy_root_open(copy_root != NULL ? copy_root : ".", cli->home,
	    &root_fd, &err) != 0)
		fprintf(stderr, "sbx: copying from this machine is off: %s\n",
		    err.msg);
	status = bridge(&c, root_fd);
	client_close(&c);
	return (status);
}
