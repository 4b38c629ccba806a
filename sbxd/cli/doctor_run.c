/* One check: a child, its deadline, and the words of a probe. */
#include "sbxd/cli/doctor.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLL_NS 500000
#define KILLED_MS 1000		/* to be gone after SIGKILL */

void
doctor_step(struct doctor_result *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(r->call, sizeof(r->call), fmt, ap);
	va_end(ap);
}

int
doctor_failed(struct doctor_result *r)
{
	r->error = errno;
	return (-1);
}

int
doctor_need(struct doctor_result *r, bool good)
{
	return (good ? 0 : doctor_failed(r));
}

int
doctor_fact(struct doctor_result *r, bool good)
{
	r->error = 0;
	return (good ? 0 : -1);
}

void
doctor_detail(struct doctor_result *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(r->detail, sizeof(r->detail), fmt, ap);
	va_end(ap);
}

void
doctor_mend(struct doctor_result *r, const char *fmt, ...)
{
	size_t at = strlen(r->mend);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(r->mend + at, sizeof(r->mend) - at, fmt, ap);
	va_end(ap);
}

/* Who would do it: what root may says nothing of what the suite's user may. */
static int
become(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	if (c->user != DOCTOR_ENGINE || geteuid() != 0)
		return (0);
	doctor_step(r, "setresuid(%u)", d->uid);
	return (doctor_need(r, setgroups(0, NULL) == 0 &&
	    setresgid(d->gid, d->gid, d->gid) == 0 &&
	    setresuid(d->uid, d->uid, d->uid) == 0));
}

static _Noreturn void
child(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	bool good;

	/* a group of its own, so that its own children can be ended with it */
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* entered before the ids change: its parents may be root's alone */
	doctor_step(r, "fchdir");
	good = doctor_need(r, d->state.fd == -1 || fchdir(d->state.fd) == 0) ==
	    0 && become(d, c, r) == 0 && c->probe(d, c, r) == 0;
	r->state = good ? DOCTOR_FOUND : DOCTOR_MISSING;
	_exit(0);
}

/* Until pid ended or the time is over.  true: it ended, *ret_status set. */
static bool
wait_for(pid_t pid, unsigned ms, int *ret_status)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	uint64_t end = sbx_mono_ns() + ms * 1000000ull;
	pid_t p;

	while ((p = waitpid(pid, ret_status, WNOHANG)) == 0 &&
	    sbx_mono_ns() < end)
		(void)nanosleep(&pause, NULL);
	return (p == pid);
}

static void
reap(pid_t pid, struct doctor_result *r)
{
	int status;

	if (!wait_for(pid, DOCTOR_DEADLINE_MS, &status)) {
		(void)kill(-pid, SIGKILL);
		(void)kill(pid, SIGKILL);
		r->state = DOCTOR_MISSING;
		r->error = ETIMEDOUT;
		doctor_detail(r, "no answer within %u s%s",
		    DOCTOR_DEADLINE_MS / 1000,
		    wait_for(pid, KILLED_MS, &status) ? "" :
		    ", and it cannot be killed");
	} else if (WIFSIGNALED(status)) {
		r->state = DOCTOR_MISSING;
		doctor_detail(r, "killed by signal %d (%s)", WTERMSIG(status),
		    strsignal(WTERMSIG(status)));
	}
	/* what it left: it had a group of its own */
	(void)kill(-pid, SIGKILL);
}

void
doctor_try(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *ret)
{
	struct doctor_result *r;
	uint64_t began = sbx_mono_ns();
	pid_t pid;

	*ret = (struct doctor_result){ .state = DOCTOR_MISSING };
	r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r == MAP_FAILED) {
		doctor_step(ret, "mmap");
		(void)doctor_failed(ret);
		return;
	}
	r->state = DOCTOR_MISSING;
	(void)fflush(NULL);
	doctor_step(r, "fork");
	if ((pid = fork()) == 0)
		child(d, c, r);
	if (pid == -1)
		(void)doctor_failed(r);
	else
		reap(pid, r);
	*ret = *r;
	/* its texts were the child's: see that they end */
	ret->call[sizeof(ret->call) - 1] = '\0';
	ret->detail[sizeof(ret->detail) - 1] = '\0';
	ret->mend[sizeof(ret->mend) - 1] = '\0';
	ret->ms = (unsigned)((sbx_mono_ns() - began) / 1000000);
	(void)munmap(r, sizeof(*r));
}
