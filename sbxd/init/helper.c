/*
 * Children of PID 1 that work on files without exec (that would make them
 * dumpable), as the sandbox user: they reach what a guest reaches.
 */
#include "sbxd/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

pid_t
helper_fork(struct init *in, uint32_t id, const char *name,
    void (*answer)(uint32_t id, int fd), int *ret_result)
{
	struct helper *h = NULL;
	int rp[2];

	for (size_t i = 0; i < SBX_NELEM(in->helpers) && h == NULL; i++)
		if (in->helpers[i].pid == 0)
			h = &in->helpers[i];
	if (h == NULL)
		return (-EBUSY);
	if (pipe2(rp, O_CLOEXEC) == -1)
		return (-errno);
	/* PID 1 never waits for one that a guest stopped in mid-word */
	(void)fcntl(rp[0], F_SETFL, O_NONBLOCK);
	*h = (struct helper){ .id = id, .result_fd = rp[0],
		.answer = answer, .pid = fork() };
	if (h->pid == 0) {
		(void)prctl(PR_SET_NAME, name);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)umask(022);
		(void)close(INIT_FD);	/* it has no word with the engine */
		*ret_result = rp[1];
		return (0);
	}
	(void)close(rp[1]);
	if (h->pid == -1) {
		h->pid = 0;
		(void)close(rp[0]);
		return (-EAGAIN);
	}
	return (h->pid);
}

bool
helper_read(int fd, void *p, size_t n)
{
	size_t got = 0;
	ssize_t r = 0;

	while (got < n && (r = read(fd, (char *)p + got, n - got)) > 0)
		got += (size_t)r;
	return (got == n);
}

void
helper_result(struct helper *h)
{
	h->answer(h->id, h->result_fd);
	sbx_close(&h->result_fd);
	h->pid = 0;		/* reaped by PID 1's loop, whose it is */
}
