#ifndef SBX_TESTS_PROTO_RAW_H
#define SBX_TESTS_PROTO_RAW_H

/* A peer that follows no rule, and a count of what it makes us leak. */

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* SCM_MAX_FD of the kernel: the most descriptors in one record */
#define RAW_FDS_MAX 253

/* Send these bytes as one record with nfds copies of descriptor 0. */
static inline bool
raw_send(int fd, const void *p, size_t len, int nfds)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)p,
	    .iov_len = len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(RAW_FDS_MAX * sizeof(int))];
	} cm;
	struct cmsghdr *c;

	if (nfds > 0) {
		memset(&cm, 0, sizeof(cm));
		mh.msg_control = cm.buf;
		mh.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
		/* all zero: descriptor 0 */
	}
	return (sendmsg(fd, &mh, MSG_NOSIGNAL) == (ssize_t)len);
}

static inline int
open_fds(void)
{
	int fd, n = 0;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return (n);
}

#endif
