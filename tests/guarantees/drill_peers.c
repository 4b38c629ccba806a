/* Drills: PID 1 and siblings, other sandboxes, what is counted by user. */
#include "drill.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static int
result(long r)
{
	return (r == -1 ? -errno : 0);
}

/* The letter of a process's state, '?' when it is gone. */
static char
state(pid_t pid)
{
	char path[32], text[512], *p;
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY);
	n = fd == -1 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd != -1)
		(void)close(fd);
	if (n <= 0)
		return ('?');
	text[n] = '\0';
	p = strrchr(text, ')');
	return (p != NULL && p[1] != '\0' ? p[2] : '?');
}

/* --- PID 1 --------------- */

static int
try_limit(void *arg)
{
	struct rlimit r = { 1, 1 };

	(void)arg;
	return (result(prlimit(1, RLIMIT_CPU, &r, NULL)));
}

static int
try_attach(void *arg)
{
	return (result(ptrace(arg != NULL ? PTRACE_SEIZE : PTRACE_ATTACH, 1,
	    NULL, NULL)));
}

static int
try_vm(void *arg)
{
	char c;
	struct iovec mine = { &c, 1 };
	struct iovec theirs = { (void *)(uintptr_t)0x400000, 1 };

	return (result(arg == NULL ?
	    process_vm_readv(1, &mine, 1, &theirs, 1, 0) :
	    process_vm_writev(1, &mine, 1, &theirs, 1, 0)));
}

static int
try_getfd(void *arg)
{
	long fd = syscall(SYS_pidfd_open, 1, 0);

	(void)arg;
	return (fd == -1 ? -errno : result(syscall(SYS_pidfd_getfd, fd, 0,
	    0)));
}

static int
try_kcmp(void *arg)
{
	(void)arg;
	return (result(syscall(SYS_kcmp, 1, getpid(), 0, 0, 0)));
}

static int
try_pages(void *arg)
{
	(void)arg;
	return (result(syscall(SYS_move_pages, 1, 0, NULL, NULL, NULL, 0)));
}

static int
try_robust(void *arg)
{
	void *head;
	size_t len;

	(void)arg;
	return (result(syscall(SYS_get_robust_list, 1, &head, &len)));
}

static int
try_pidfd_kill(void *arg)
{
	long fd = syscall(SYS_pidfd_open, 1, 0);

	(void)arg;
	if (fd == -1)
		return (-errno);
	(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	(void)usleep(100000);
	return (state(1) == '?' ? 0 : -EPERM);
}

static int
try_signals(void *arg)
{
	(void)arg;
	for (int s = 1; s <= 64; s++) {
		(void)kill(1, s);
		(void)usleep(2000);
		if (state(1) == '?' || state(1) == 'T')
			return (0);
	}
	return (-EPERM);
}

static int
try_affinity(void *arg)
{
	cpu_set_t set;

	(void)arg;
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	return (result(sched_setaffinity(1, sizeof(set), &set)));
}

static int
try_priority(void *arg)
{
	(void)arg;
	return (result(setpriority(PRIO_PROCESS, 1, 0)));
}

static void
peer_one(const char *drill)
{
	static const struct {
		const char *what;
		int (*fn)(void *);
		const char *arg;
		enum verdict good;
	} all[] = {
		{ "prlimit of PID 1", try_limit, NULL, HOLE },
		{ "PTRACE_ATTACH to PID 1", try_attach, NULL, HOLE },
		{ "PTRACE_SEIZE of PID 1", try_attach, "x", HOLE },
		{ "process_vm_readv of PID 1", try_vm, NULL, HOLE },
		{ "process_vm_writev of PID 1", try_vm, "x", HOLE },
		{ "pidfd_getfd of PID 1", try_getfd, NULL, HOLE },
		{ "kcmp with PID 1", try_kcmp, NULL, HOLE },
		{ "move_pages of PID 1", try_pages, NULL, HOLE },
		{ "get_robust_list of PID 1", try_robust, NULL, HOLE },
		{ "SIGKILL to PID 1 by pidfd", try_pidfd_kill, NULL, HOLE },
		{ "each signal to PID 1", try_signals, NULL, HOLE },
		{ "affinity of PID 1", try_affinity, NULL, HARMLESS },
		{ "priority of PID 1", try_priority, NULL, HARMLESS },
	};

	for (size_t i = 0; i < N(all); i++)
		judge(drill, all[i].what, in_child(all[i].fn,
		    (void *)(uintptr_t)all[i].arg), all[i].good);
}

/* --- supervisors of runs, which are not dumpable --------------- */

static void
supervisor(const char *drill)
{
	pid_t pid = getppid();
	struct rlimit r = { 1, 1 };
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	judge(drill, "memory of one's supervisor",
	    result(open(path, O_RDONLY)), HOLE);
	(void)snprintf(path, sizeof(path), "/proc/%d/fd/3", (int)pid);
	judge(drill, "descriptor 3 of one's supervisor",
	    result(open(path, O_WRONLY)), HOLE);
	judge(drill, "ptrace of one's supervisor", result(ptrace(PTRACE_SEIZE,
	    pid, NULL, NULL)), HOLE);
	judge(drill, "prlimit of one's supervisor",
	    result(prlimit(pid, RLIMIT_CPU, &r, NULL)), HOLE);
}

/* --- what goes --------------- */

static int
try_memfd(void *arg)
{
	char *argv[] = { (char *)(uintptr_t)"true", NULL }, buf[65536];
	int from = open("/usr/bin/true", O_RDONLY);
	int fd = memfd_create("drill", MFD_CLOEXEC);
	ssize_t n;

	(void)arg;
	while ((n = read(from, buf, sizeof(buf))) > 0)
		(void)!write(fd, buf, (size_t)n);
	(void)syscall(SYS_execveat, fd, "", argv, NULL, 0x1000);
	return (-errno);
}

static int
try_uring(void *arg)
{
	char params[120] = "";

	(void)arg;
	return (result(syscall(SYS_io_uring_setup, 1, params)));
}

static int
try_fanotify(void *arg)
{
	(void)arg;
	return (result(syscall(SYS_fanotify_init, 0x200, 0)));
}

static int
try_uffd(void *arg)
{
	(void)arg;
	return (result(syscall(SYS_userfaultfd, 1)));
}

static int
try_keyring(void *arg)
{
	(void)arg;
	return (result(syscall(SYS_keyctl, 0, -3, 1)));
}

static int
try_add_key(void *arg)
{
	(void)arg;
	return (result(syscall(SYS_add_key, "user", "k", "v", 1, -4)));
}

static int
try_clock(void *arg)
{
	struct timespec ts;

	(void)arg;
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (result(clock_settime(CLOCK_REALTIME, &ts)));
}

static void
objects(const char *drill)
{
	judge(drill, "io_uring_setup", in_child(try_uring, NULL), HOLE);
	judge(drill, "fanotify_init", in_child(try_fanotify, NULL), HOLE);
	judge(drill, "userfaultfd", in_child(try_uffd, NULL), HOLE);
	judge(drill, "keyctl: session keyring", in_child(try_keyring, NULL),
	    HOLE);
	judge(drill, "add_key: user keyring", in_child(try_add_key, NULL),
	    HOLE);
	judge(drill, "clock_settime", in_child(try_clock, NULL), HOLE);
	judge(drill, "a program from a memfd", in_child(try_memfd, NULL),
	    HARMLESS);
}

const struct drill drills_peers[] = {
	{ "PID 1", peer_one }, { "supervisor", supervisor },
	{ "objects", objects }, { NULL, NULL }
};

/* --- arranged by the test --------------- */

/* Which are open, and what they are. */
int
drill_fds(void)
{
	char path[32], to[128];
	ssize_t n;

	for (int fd = 0; fd < 4096; fd++) {
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, to, sizeof(to) - 1);
		if (n <= 0)
			continue;
		to[n] = '\0';
		say("descriptors", path, fd > 2 ? HOLE : HARMLESS, "%s", to);
	}
	return (0);
}

/* As many descriptors as go into messages that nobody takes. */
int
drill_inflight(unsigned seconds)
{
	struct {
		_Alignas(struct cmsghdr) char b[CMSG_SPACE(253 * sizeof(int))];
	} c;
	int fds[253], pair[2], error = 0;
	unsigned total = 0, pairs = 0;

	for (size_t i = 0; i < N(fds); i++)
		fds[i] = 0;
	while (error == 0 && pairs++ < 1500) {
		if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == -1) {
			error = errno;
			break;
		}
		for (;;) {
			char x = 'x';
			struct iovec iov = { &x, 1 };
			struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
				.msg_control = &c,
				.msg_controllen = sizeof(c.b) };
			struct cmsghdr *h = CMSG_FIRSTHDR(&m);

			h->cmsg_level = SOL_SOCKET;
			h->cmsg_type = SCM_RIGHTS;
			h->cmsg_len = CMSG_LEN(sizeof(fds));
			memcpy(CMSG_DATA(h), fds, sizeof(fds));
			if (sendmsg(pair[0], &m, MSG_DONTWAIT) == -1) {
				error = errno == EAGAIN || errno == ENOBUFS ?
				    0 : errno;
				break;
			}
			total += 253;
		}
	}
	say("in flight", "descriptors until the kernel refuses", HARMLESS,
	    "%u, then %s", total, errno_text(error));
	(void)sleep(seconds);
	return (0);
}

int
drill_inotify(unsigned seconds)
{
	unsigned n = 0;
	int r;

	while ((r = inotify_init1(0)) != -1)
		n++;
	say("inotify", "instances until the kernel refuses", n > 0 ? HARMLESS :
	    HOLE, "%u, then %s", n, errno_text(errno));
	(void)sleep(seconds);
	return (n > 0 ? 0 : 1);
}

/* Each of many instances watches each of many descriptors, in several
 * processes: the kernel counts the watches by user. */
int
drill_epoll(unsigned seconds)
{
	enum { HALF = 1750, PROCESSES = 4 };
	static int ep[HALF], fds[HALF];
	struct epoll_event ev = { .events = EPOLLIN };
	unsigned n = 0;
	int error = 0;
	pid_t pid;

	for (int p = 1; p < PROCESSES; p++)
		if ((pid = fork()) == 0)
			break;
	for (int i = 0; i < HALF && error == 0; i++) {
		ep[i] = epoll_create1(0);
		fds[i] = eventfd(0, 0);
		error = ep[i] == -1 || fds[i] == -1 ? errno : 0;
	}
	for (int i = 0; i < HALF && error == 0; i++)
		for (int j = 0; j < HALF && error == 0; j++, n++)
			if (epoll_ctl(ep[i], EPOLL_CTL_ADD, fds[j], &ev) == -1)
				error = errno;
	say("epoll", "watches of one process", HARMLESS, "%u, then %s", n,
	    errno_text(error));
	(void)sleep(seconds);
	return (0);
}

/* All that can be seen but PID 1, oneself and one's parent. */
int
drill_stop_helpers(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	unsigned n = 0;
	pid_t pid;

	while (d != NULL && (e = readdir(d)) != NULL) {
		pid = (pid_t)atoi(e->d_name);
		if (pid > 1 && pid != getpid() && kill(pid, SIGSTOP) == 0)
			n++;
	}
	say("stop", "SIGSTOP to all but PID 1", HARMLESS, "%u stopped", n);
	return (0);
}

static socklen_t
abstract(struct sockaddr_un *sun, const char *name)
{
	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	(void)snprintf(sun->sun_path + 1, sizeof(sun->sun_path) - 1, "%s",
	    name);
	return ((socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
	    strlen(name)));
}

int
drill_listen(unsigned port, unsigned seconds)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct sockaddr_un sun;
	socklen_t len = abstract(&sun, "drill");
	int t = socket(AF_INET, SOCK_STREAM, 0);
	int u = socket(AF_UNIX, SOCK_STREAM, 0);

	if (bind(t, (struct sockaddr *)&sin, sizeof(sin)) == -1 ||
	    listen(t, 5) == -1 || bind(u, (struct sockaddr *)&sun, len) == -1
	    || listen(u, 5) == -1) {
		perror("listen");
		return (1);
	}
	(void)printf("listening\n");
	(void)fflush(stdout);
	(void)sleep(seconds);
	return (0);
}

int
drill_connect(unsigned port, const char *name)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct sockaddr_un sun;
	socklen_t len = abstract(&sun, name);

	judge("reach", "TCP on the loopback", result(connect(socket(AF_INET,
	    SOCK_STREAM, 0), (struct sockaddr *)&sin, sizeof(sin))), HOLE);
	judge("reach", "abstract socket", result(connect(socket(AF_UNIX,
	    SOCK_STREAM, 0), (struct sockaddr *)&sun, len)), HOLE);
	return (0);
}
