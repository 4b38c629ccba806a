/* Single calls of the kernel, and what its settings say. */
#include "sbxd/cli/doctor.h"

#include "common/base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif
#define SUITE_NOFILE 4096	/* common/privs: soft limit of most rows */
#define GUEST_NOFILE_MIN 128	/* what the monitor wants left for a sandbox */
#define CLOCK_EARLIEST 1767225600 /* 2026: this was written later */

int64_t
doctor_sysctl(const char *path, int64_t absent)
{
	char text[32] = "";
	FILE *f = fopen(path, "re");
	uint64_t v;

	if (f == NULL)
		return (absent);
	if (fgets(text, sizeof(text), f) == NULL)
		text[0] = '\0';
	(void)fclose(f);
	text[strcspn(text, "\n")] = '\0';
	return (sbx_parse_u64(text, 0, INT64_MAX, &v) == 0 ? (int64_t)v :
	    absent);
}

int
doctor_kernel(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	struct utsname u;
	char digits[8];
	uint64_t part[2] = { 0, 0 };
	const char *s = u.release;
	size_t n;

	(void)d, (void)c;
	doctor_step(r, "uname");
	if (doctor_need(r, uname(&u) == 0) != 0)
		return (-1);
	doctor_detail(r, "Linux %.64s %.32s", u.release, u.machine);
	for (size_t i = 0; i < SBX_NELEM(part); i++, s += *s == '.') {
		n = strspn(s, "0123456789");
		(void)snprintf(digits, sizeof(digits), "%.*s", (int)n, s);
		(void)sbx_parse_u64(digits, 0, 999999, &part[i]);
		s += n;
	}
	return (doctor_fact(r, part[0] > 5 || (part[0] == 5 &&
	    part[1] >= 13)));
}

/* Its arguments are in memory, so a filter refuses it whole, or not. */
int
doctor_clone3(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	int pidfd = -1, status;
	struct clone_args a = { .flags = CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&pidfd, .exit_signal = SIGCHLD };
	long pid;

	(void)d, (void)c;
	doctor_step(r, "clone3(CLONE_PIDFD)");
	pid = syscall(SYS_clone3, &a, sizeof(a));
	if (pid == 0)
		_exit(0);
	if (pid == -1)
		return (doctor_failed(r));
	doctor_step(r, "waitpid");
	return (doctor_need(r, waitpid((pid_t)pid, &status, 0) == pid));
}

int
doctor_close_range(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)d, (void)c;
	doctor_step(r, "close_range");
	return (doctor_need(r, syscall(SYS_close_range, 1000u, ~0u, 0) == 0));
}

/* Some containers' seccomp profiles do not know the call, and say ENOSYS. */
int
doctor_openat2(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };

	(void)d, (void)c;
	doctor_step(r, "openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)");
	return (doctor_need(r, syscall(SYS_openat2, AT_FDCWD, ".", &how,
	    sizeof(how)) != -1));
}

int
doctor_pidfd(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	int fd;

	(void)d, (void)c;
	doctor_step(r, "pidfd_open");
	fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (fd == -1)
		return (doctor_failed(r));
	doctor_step(r, "pidfd_send_signal");
	return (doctor_need(r, syscall(SYS_pidfd_send_signal, fd, 0, NULL,
	    0) == 0));
}

/* A directory cannot be executed: that answer comes from the call itself. */
int
doctor_execveat(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	char *none[] = { NULL };
	int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)d, (void)c;
	doctor_step(r, "execveat(AT_EMPTY_PATH)");
	(void)syscall(SYS_execveat, fd, "", none, none, AT_EMPTY_PATH);
	return (doctor_need(r, errno == EACCES));
}

int
doctor_memfd(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	int fd;

	(void)d, (void)c;
	doctor_step(r, "memfd_create(MFD_ALLOW_SEALING)");
	fd = memfd_create("doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING |
	    MFD_NOEXEC_SEAL);
	if (fd == -1 && errno == EINVAL)
		fd = memfd_create("doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd == -1)
		return (doctor_failed(r));
	doctor_step(r, "fcntl(F_ADD_SEALS)");
	return (doctor_need(r, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE |
	    F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0));
}

int
doctor_memfd_exec(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)d, (void)c;
	doctor_step(r, "memfd_create(MFD_NOEXEC_SEAL)");
	return (doctor_need(r, memfd_create("doctor", MFD_CLOEXEC |
	    MFD_NOEXEC_SEAL) != -1));
}

/* The action that every allowlist ends with, and a filter that is loaded. */
int
doctor_seccomp(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	struct sock_filter all[] = {
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { SBX_NELEM(all), all };
	uint32_t action = SECCOMP_RET_KILL_PROCESS;

	(void)d, (void)c;
	doctor_step(r, "seccomp(SECCOMP_GET_ACTION_AVAIL, KILL_PROCESS)");
	if (doctor_need(r, syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0,
	    &action) == 0) != 0)
		return (-1);
	doctor_step(r, "prctl(PR_SET_NO_NEW_PRIVS)");
	if (doctor_need(r, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) != 0)
		return (-1);
	doctor_step(r, "seccomp(SECCOMP_SET_MODE_FILTER)");
	return (doctor_need(r, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0,
	    &prog) == 0));
}

static long
landlock_abi(struct doctor_result *r)
{
	doctor_step(r, "landlock_create_ruleset(VERSION)");
	return (syscall(SYS_landlock_create_ruleset, NULL, 0,
	    LANDLOCK_CREATE_RULESET_VERSION));
}

int
doctor_landlock(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	struct landlock_ruleset_attr attr = {
		.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE };
	long abi = landlock_abi(r);
	int fd;

	(void)d, (void)c;
	if (abi == -1)
		return (doctor_failed(r));
	doctor_detail(r, "ABI %ld", abi);
	doctor_step(r, "landlock_create_ruleset");
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (fd == -1)
		return (doctor_failed(r));
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	doctor_step(r, "landlock_restrict_self");
	return (doctor_need(r, syscall(SYS_landlock_restrict_self, fd, 0) ==
	    0));
}

/* Is it `arg` or newer? */
int
doctor_landlock_abi(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	long abi = landlock_abi(r);

	(void)d;
	if (abi >= (long)c->arg)
		return (0);
	doctor_detail(r, "ABI %ld, and %" PRIu64 " would have it", abi, c->arg);
	return (doctor_fact(r, false));
}

int
doctor_nofile(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	struct rlimit rl;

	(void)d, (void)c;
	doctor_step(r, "getrlimit(RLIMIT_NOFILE)");
	if (doctor_need(r, getrlimit(RLIMIT_NOFILE, &rl) == 0) != 0)
		return (-1);
	doctor_detail(r, "hard limit %llu, %u is what the suite uses",
	    (unsigned long long)rl.rlim_max, SUITE_NOFILE);
	r->minor = rl.rlim_max >= SBX_NOFILE_GAP + GUEST_NOFILE_MIN;
	return (doctor_fact(r, rl.rlim_max >= SUITE_NOFILE));
}

int
doctor_clock(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	struct timespec now, mono;

	(void)d, (void)c;
	doctor_step(r, "clock_gettime(CLOCK_REALTIME)");
	if (doctor_need(r, clock_gettime(CLOCK_REALTIME, &now) == 0 &&
	    clock_gettime(CLOCK_MONOTONIC, &mono) == 0) != 0)
		return (-1);
	return (doctor_fact(r, now.tv_sec >= CLOCK_EARLIEST));
}

/* A setting of the kernel that should not be 0. */
int
doctor_links(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	int64_t value;

	(void)d;
	doctor_step(r, "read(%s)", c->text);
	value = doctor_sysctl(c->text, -1);
	doctor_detail(r, value == -1 ? "not there" : value == 0 ? "off" :
	    "on");
	return (doctor_fact(r, value > 0));
}
