/* The things a process of the suite might try, as seen from inside a cage. */

#include "tests/privs/attempts.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef SIOCGSKNS
#define SIOCGSKNS 0x894C
#endif

#define RESULT(call) ((call) < 0 ? errno : 0)
#define TRY(name, call) \
	static int \
	name(const struct stage *st) \
	{ \
		(void)st; \
		return RESULT(call); \
	}

/* --- files ------------------------------------------------------------------ */
TRY(open_passwd, open("/etc/passwd", O_RDONLY))
TRY(stat_passwd, fstatat(AT_FDCWD, "/etc/passwd", &(struct stat){ 0 }, 0))
TRY(dir_create, openat(st->dir, "made", O_CREAT | O_WRONLY, 0600))
TRY(dir_read, openat(st->dir, "there", O_RDONLY))
TRY(dir_list, openat(st->dir, ".", O_RDONLY | O_DIRECTORY))
TRY(dir_escape, openat(st->dir, "../outside/there", O_RDONLY))
TRY(dir_mkdir, mkdirat(st->dir, "sub", 0700))
TRY(dir_unlink, unlinkat(st->dir, "there", 0))
TRY(dir_rename, syscall(SYS_renameat2, st->dir, "there", st->dir, "then", 0))
TRY(dir_symlink, symlinkat("/etc", st->dir, "link"))
TRY(dir_chmod, fchmodat(st->dir, "there", 0777, 0))

static int
dir_truncate(const struct stage *st)
{
	int fd = openat(st->dir, "there", O_RDWR);

	return fd < 0 ? errno : RESULT(ftruncate(fd, 0));
}

TRY(dir_open_trunc, openat(st->dir, "there", O_WRONLY | O_TRUNC))

static int
dir_sync(const struct stage *st)
{
	int fd = openat(st->dir, "there", O_WRONLY | O_APPEND);

	if (fd < 0)
		return errno;
	return write(fd, "x", 1) == 1 ? RESULT(fdatasync(fd)) : errno;
}

static int
write_outside(const struct stage *st)
{
	char path[200];

	(void)snprintf(path, sizeof(path), "%s/made-%d", st->outside,
	    (int)getpid());
	return RESULT(open(path, O_CREAT | O_WRONLY, 0600));
}

/* --- sockets ---------------------------------------------------------------- */
TRY(sock_unix, socket(AF_UNIX, SOCK_STREAM, 0))
TRY(sock_inet, socket(AF_INET, SOCK_STREAM, 0))
TRY(sock_inet_udp, socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0))
TRY(sock_inet6, socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0))
TRY(sock_raw, socket(AF_INET, SOCK_RAW, IPPROTO_ICMP))
TRY(sock_mptcp, socket(AF_INET, SOCK_STREAM, 262 /* IPPROTO_MPTCP */))
TRY(sock_sctp, socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP))
TRY(sock_ping, socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP))
TRY(sock_netlink, socket(AF_NETLINK, SOCK_RAW, 0))
TRY(sock_packet, socket(AF_PACKET, SOCK_DGRAM, 0))
TRY(sock_vsock, socket(AF_VSOCK, SOCK_STREAM, 0))
TRY(sock_alg, socket(AF_ALG, SOCK_SEQPACKET, 0))
TRY(sock_bluetooth, socket(AF_BLUETOOTH, SOCK_RAW, 0))
/* which connects what is not connected yet */
TRY(dial_sendto, sendto(-1, "x", 1, MSG_FASTOPEN, NULL, 0))
TRY(dial_sendmsg, sendmsg(-1, &(struct msghdr){ .msg_iovlen = 0 },
    MSG_FASTOPEN))
TRY(opt_nodelay, setsockopt(-1, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, 4))
TRY(opt_other, setsockopt(-1, IPPROTO_TCP, TCP_CORK, &(int){ 1 }, 4))
TRY(opt_level, setsockopt(-1, SOL_SOCKET, SO_DEBUG, &(int){ 1 }, 4))
TRY(set_timer, setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL))
TRY(pair_unix, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, (int[2]){ 0 }))
TRY(sock_netns, ioctl(st->chan[0], SIOCGSKNS))
TRY(fd_owner, fcntl(st->chan[0], F_SETOWN, st->sibling))

static int
tcp_connect(const struct stage *st)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)st->tcp_port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	return RESULT(connect(st->tcp, (struct sockaddr *)&in, sizeof(in)));
}

static int
tcp_bind(const struct stage *st)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	return RESULT(bind(st->tcp, (struct sockaddr *)&in, sizeof(in)));
}

static int
abstract_connect(const struct stage *st)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	size_t n = strlen(st->abstract);

	memcpy(un.sun_path + 1, st->abstract, n);
	return RESULT(connect(st->unix_fd, (struct sockaddr *)&un,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)));
}

/* --- programs and other processes ------------------------------------------- */
static int
exec_true(const struct stage *st)
{
	static char name[] = "true";
	char *argv[] = { name, NULL }, *env[] = { NULL };

	(void)st;
	(void)execve("/bin/true", argv, env);
	return errno;
}

static int
fork_child(const struct stage *st)
{
	pid_t pid = fork();
	int status;

	(void)st;
	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return errno;
	return waitpid(pid, &status, 0) == pid ? 0 : errno;
}

TRY(vfork_thread, syscall(SYS_clone, CLONE_VM | CLONE_FS | SIGCHLD, 0, 0, 0,
    0))
TRY(clone_user, syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0))
TRY(unshare_user, unshare(CLONE_NEWUSER))
TRY(set_ns, setns(-1, CLONE_NEWNET))
TRY(kill_term, kill(st->sibling, SIGTERM))
TRY(kill_kill, kill(st->sibling, SIGKILL))
TRY(tgkill_other, syscall(SYS_tgkill, st->sibling, st->sibling, SIGTERM))
TRY(attach, ptrace(PTRACE_ATTACH, st->sibling, 0, 0))
TRY(limit_other, prlimit(st->sibling, RLIMIT_CPU, NULL,
    &(struct rlimit){ 0 }))
TRY(limit_self, prlimit(0, RLIMIT_NOFILE, NULL, &(struct rlimit){ 0 }))
TRY(nice_other, setpriority(PRIO_PROCESS, (id_t)st->sibling, 5))
TRY(affinity_other, sched_setaffinity(st->sibling, sizeof(cpu_set_t),
    &(cpu_set_t){ .__bits = { 1 } }))
TRY(open_pidfd, syscall(SYS_pidfd_open, st->sibling, 0))
TRY(get_fd, syscall(SYS_pidfd_getfd, -1, 0, 0))
TRY(compare, syscall(SYS_kcmp, getpid(), st->sibling, 0, 0, 0))

static int
read_other(const struct stage *st)
{
	char buf[8];
	struct iovec mine = { buf, sizeof(buf) };
	struct iovec theirs = { (void *)(uintptr_t)st, sizeof(buf) };

	return RESULT(process_vm_readv(st->sibling, &mine, 1, &theirs, 1, 0));
}

static int
open_mem(const struct stage *st)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)st->sibling);
	return RESULT(open(path, O_RDWR));
}

/* --- ids, kernel ------------------------------------------------------------ */
TRY(become_root, setuid(0))
TRY(become_root_res, syscall(SYS_setresuid, 0, 0, 0))
TRY(mount_tmpfs, mount("tmpfs", "/mnt", "tmpfs", 0, NULL))
TRY(call_bpf, syscall(SYS_bpf, 0, NULL, 0))
TRY(call_userfaultfd, syscall(SYS_userfaultfd, O_CLOEXEC))
TRY(call_io_uring, syscall(SYS_io_uring_setup, 1, NULL))
TRY(call_perf, syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0))
TRY(call_keyctl, syscall(SYS_keyctl, 0, -3, 0))
TRY(call_add_key, syscall(SYS_add_key, "user", "x", "y", 1, -3))
TRY(call_handle, syscall(SYS_open_by_handle_at, -1, NULL, 0))
TRY(call_module, syscall(SYS_init_module, NULL, 0, ""))
TRY(call_kexec, syscall(SYS_kexec_load, 0, 0, NULL, 0))
TRY(call_swapon, syscall(SYS_swapon, "/nowhere", 0))
TRY(call_reboot, syscall(SYS_reboot, 0, 0, 0, NULL))
TRY(call_personality, syscall(SYS_personality, 0x0400000UL)) /* exec on read */
TRY(call_personality_odd, syscall(SYS_personality, 0x80400000UL))

/* --- memory ----------------------------------------------------------------- */
static int
map_exec(const struct stage *st)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)st;
	return p == MAP_FAILED ? errno : 0;
}

static int
protect_exec(const struct stage *st)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)st;
	return p == MAP_FAILED ? errno :
	    RESULT(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}

static int
memory(const struct stage *st)
{
	(void)st;
	for (size_t n = 16; n < (16u << 20); n *= 3) {
		char *p = malloc(n);

		if (p == NULL)
			return ENOMEM;
		memset(p, 1, n);
		p = realloc(p, 2 * n);
		if (p == NULL)
			return ENOMEM;
		free(p);
	}
	return 0;
}

/* --- what every process must be able to ------------------------------------- */
static int
channel(const struct stage *st)
{
	char c[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 1;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c,
		.msg_controllen = sizeof(c) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &st->chan[0], sizeof(int));
	if (sendmsg(st->chan[0], &m, MSG_NOSIGNAL) < 0)
		return errno;
	return RESULT(recvmsg(st->chan[1], &m, MSG_CMSG_CLOEXEC));
}

static int
clocks(const struct stage *st)
{
	char text[64];
	time_t now = time(NULL);
	struct tm tm;

	(void)st;
	if (localtime_r(&now, &tm) == NULL ||
	    strftime(text, sizeof(text), "%FT%T%z", &tm) == 0)
		return EINVAL;
	return nanosleep(&(struct timespec){ .tv_nsec = 1000 }, NULL) < 0 ?
	    errno : 0;
}

static int
signals(const struct stage *st)
{
	sigset_t set;

	(void)st;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGUSR1);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 ||
	    signal(SIGUSR1, SIG_IGN) == SIG_ERR)
		return errno;
	return RESULT(raise(SIGUSR1));
}

/* Ends by SIGABRT, which the driver takes for success. */
static int
aborts(const struct stage *st)
{
	(void)st;
	(void)signal(SIGABRT, SIG_DFL);
	abort();
}

static int
text_out(const struct stage *st)
{
	(void)st;
	/* stdio asks the descriptor what it is. */
	return fprintf(stderr, "%s", "") < 0 || printf("%s", "") < 0 ||
	    fflush(stdout) != 0 ? EIO : 0;
}

TRY(loop, poll(NULL, 0, 0))
TRY(watches, epoll_create1(EPOLL_CLOEXEC))
TRY(sealed, memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING))

/*
 * The verdicts.  Rows, in the order of enum sbx_proc:
 *   monitor starter engine recorder journald broker proxy zygote
 *   front worker copyin init courier judge engine-docker cli
 *   image command
 * Written from the design, not from rows.c: a difference is a finding.
 */
#define ALL_KILL "KAAKKKKKKKKAKKKAKA"	/* caged ones die, the others may */
#define ALL_FAIL "KEEKKKKKKKKEKKKEKE"	/* caged ones die, others get errno */
#define EVERYONE "AAAAAAAAAAAAAAAAAA"

const struct attempt attempts[] = {
	{ "open /etc/passwd", open_passwd,
	    "EAAEEKKKKKEAKKKAEA", NULL, { EACCES } },
	{ "stat /etc/passwd", stat_passwd,
	    "KAAAAKKKKKAAKKKAAA", NULL },
	{ "create a file in its directory", dir_create,
	    "EAAAAKKKKKEAKKKAAA", NULL, { EACCES } },
	{ "read a file in its directory", dir_read,
	    "AAAAAKKKKKAAKKKAAA", NULL, { EACCES } },
	{ "list its directory", dir_list,
	    "AAAAAKKKKKAAKKKAAA", NULL, { EACCES } },
	{ "leave its directory by ..", dir_escape,
	    "EAAEEKKKKKEAKKKAEA", NULL, { EACCES } },
	{ "make a directory in its directory", dir_mkdir,
	    "KAAAKKKKKKKAKKKAAA", NULL, { EACCES } },
	{ "unlink in its directory", dir_unlink,
	    "KAAAKKKKKKKAKKKAAA", NULL, { EACCES } },
	{ "rename in its directory", dir_rename,
	    "KAAAKKKKKKKAKKKAKA", NULL, { EACCES } },
	{ "truncate in its directory", dir_truncate,
	    "EAAAKKKKKKEAKKKAAA", NULL, { EACCES } },
	{ "open with truncation in its directory", dir_open_trunc,
	    "EAAAKKKKKKEAKKKAAA", NULL, { EACCES } },
	{ "append and commit in its directory", dir_sync,
	    "EAAAAKKKKKEAKKKAKA", NULL, { EACCES } },
	{ "make a symbolic link", dir_symlink,
	    "KAAKKKKKKKKAKKKAAA", NULL },
	{ "chmod a file", dir_chmod, "KAAKKKKKKKKAKKKAAA", NULL },
	{ "write outside its directories", write_outside,
	    "EAAEEKKKKKEAKKKAEA", NULL, { EACCES } },

	{ "socket AF_UNIX", sock_unix, "KAAKKKKKKKKAKKAAKA", NULL },
	{ "socket AF_INET", sock_inet, "KAAKKKAKKKKAKKKAKA", NULL },
	{ "socket AF_INET, UDP", sock_inet_udp, "KAAKKKAKKKKAKKKAKA", NULL },
	{ "socket AF_INET6", sock_inet6, "KAAKKKAKKKKAKKKAKA", NULL },
	{ "raw socket", sock_raw, "KEAKKKKKKKKEKKKEKE", "KEAKKKKKKKKEKKKAKE",
	    { EPERM, EACCES } },
	/* what an uncaged row gets depends on the kernel's modules */
	{ "MPTCP socket", sock_mptcp, "K--KKKKKKKK-KKK-K-", NULL },
	{ "SCTP socket", sock_sctp, "K--KKKKKKKK-KKK-K-", NULL },
	{ "ping socket", sock_ping, "K--KKKKKKKK-KKK-K-", NULL },
	{ "socket AF_NETLINK", sock_netlink, ALL_KILL, NULL },
	{ "socket AF_PACKET", sock_packet, ALL_FAIL, NULL, { EAFNOSUPPORT } },
	{ "socket AF_VSOCK", sock_vsock, ALL_FAIL, NULL, { EAFNOSUPPORT } },
	{ "socket AF_ALG", sock_alg, ALL_FAIL, NULL, { EAFNOSUPPORT } },
	{ "socket AF_BLUETOOTH", sock_bluetooth, ALL_FAIL, NULL,
	    { EAFNOSUPPORT } },
	{ "socketpair AF_UNIX", pair_unix, "AAAKKKAKKKKAKKKAKA", NULL },
	{ "setsockopt TCP_NODELAY", opt_nodelay, "EEEKKKEKEKKEEKKEKE", NULL,
	    { EBADF } },
	{ "setsockopt TCP_CORK", opt_other, "EEEKKKEKEKKEKKKEKE", NULL,
	    { EBADF } },
	{ "setsockopt of number 1, another level", opt_level,
	    "EEEKKKEKEKKEKKKEKE", NULL, { EBADF } },
	{ "setitimer", set_timer, "KAAKKKAKKKKAAKKAKA", NULL },
	{ "namespace of a socket", sock_netns, "K--KKKKKKKK-KKK-K-", NULL },
	{ "owner of a descriptor", fd_owner, "K--KKKKKKKK-KKK-K-", NULL },
	{ "connect TCP", tcp_connect, "KAAKKKAKKKKAKKEAKA", NULL, { EACCES },
	    4 },
	{ "bind TCP", tcp_bind, "KAAKKKEKKKKAKKKAKA", NULL, { EACCES }, 4 },
	{ "connect to an abstract socket", abstract_connect,
	    "KAAKKKEKKKKAKKEAKA", NULL, { EPERM }, 6 },

	{ "execve", exec_true, ALL_KILL, NULL },
	{ "fork", fork_child, "KAAKKKKAKKKAKKKAKA", NULL },
	{ "clone with shared memory", vfork_thread, "K--KKKKKKKK-KKK-K-",
	    NULL },
	{ "clone CLONE_NEWUSER", clone_user, ALL_KILL, NULL },
	{ "unshare CLONE_NEWUSER", unshare_user, ALL_KILL, NULL },
	{ "sendto MSG_FASTOPEN", dial_sendto, ALL_FAIL, NULL, { EBADF } },
	{ "sendmsg MSG_FASTOPEN", dial_sendmsg, ALL_FAIL, NULL, { EBADF } },
	{ "setns", set_ns, ALL_FAIL, NULL, { EBADF } },
	{ "SIGTERM to a sibling", kill_term, ALL_KILL, NULL },
	{ "SIGKILL to a sibling", kill_kill, "KAAKKKKEKKKAKKKAKA", NULL,
	    { EPERM }, 6 },
	{ "tgkill of a sibling", tgkill_other, ALL_KILL, NULL },
	{ "ptrace of a sibling", attach, ALL_FAIL, "KEEKKKKKKKKEKKKAKE",
	    { EPERM } },
	{ "prlimit of a sibling", limit_other, ALL_KILL, NULL },
	{ "own limits", limit_self, EVERYONE, NULL },
	/* root's sibling has capabilities that the starter dropped */
	{ "setpriority of a sibling", nice_other, ALL_KILL,
	    "KEAKKKKKKKKEKKKAKA", { EPERM } },
	{ "sched_setaffinity of a sibling", affinity_other, ALL_KILL,
	    "KEAKKKKKKKKEKKKAKA", { EPERM } },
	{ "pidfd_open of a sibling", open_pidfd, ALL_KILL, NULL },
	{ "pidfd_getfd", get_fd, ALL_FAIL, NULL, { EBADF } },
	{ "kcmp with a sibling", compare, ALL_FAIL, "KEEKKKKKKKKEKKKAKE",
	    { EPERM } },
	{ "process_vm_readv of a sibling", read_other, ALL_FAIL,
	    "KEEKKKKKKKKEKKKAKE", { EPERM } },
	{ "/proc/SIBLING/mem", open_mem, "EEEEEKKKKKEEKKKEEE",
	    "EEEEEKKKKKEEKKKAEE", { EACCES } },

	{ "setuid 0", become_root, ALL_FAIL, "KAEKKKKKKKKAKKKAKE",
	    { EPERM, EINVAL } },
	{ "setresuid 0", become_root_res, "KEEKKKKEKKKEKKKEKE",
	    "KAEKKKKEKKKAKKKAKE", { EPERM, EINVAL } },
	{ "mount", mount_tmpfs, ALL_FAIL, "KEEKKKKKKKKEKKKAKE", { EPERM } },
	{ "bpf", call_bpf, ALL_FAIL, NULL, { EPERM } },
	{ "userfaultfd", call_userfaultfd, ALL_FAIL, NULL, { EPERM } },
	{ "io_uring_setup", call_io_uring, ALL_FAIL, NULL, { ENOSYS } },
	{ "perf_event_open", call_perf, ALL_FAIL, NULL, { EPERM } },
	{ "keyctl", call_keyctl, "KAEKKKKKKKKEKKKEKA", NULL, { EPERM } },
	{ "add_key", call_add_key, "K-EKKKKKKKKEKKKEK-", NULL, { EPERM } },
	{ "open_by_handle_at", call_handle, ALL_FAIL, NULL, { EPERM } },
	{ "init_module", call_module, ALL_FAIL, NULL, { EPERM } },
	{ "kexec_load", call_kexec, ALL_FAIL, NULL, { EPERM } },
	{ "swapon", call_swapon, ALL_FAIL, NULL, { EPERM } },
	{ "reboot", call_reboot, ALL_FAIL, NULL, { EPERM } },
	{ "personality READ_IMPLIES_EXEC", call_personality, ALL_FAIL, NULL,
	    { EPERM } },
	{ "the same with the top bit", call_personality_odd, ALL_FAIL, NULL,
	    { EPERM } },

	{ "mmap PROT_EXEC", map_exec, ALL_KILL, NULL },
	{ "mprotect PROT_EXEC", protect_exec, ALL_KILL, NULL },
	{ "malloc", memory, EVERYONE, NULL },
	{ "a message with a descriptor", channel, EVERYONE, NULL },
	{ "clocks and time zones", clocks, EVERYONE, NULL },
	{ "its own signals", signals, "AAAAAAAKAAAAAAAAAA", NULL,
	    .own_signals = true },
	{ "abort", aborts, EVERYONE, NULL },
	{ "stdio", text_out, EVERYONE, NULL },
	{ "poll", loop, EVERYONE, NULL },
	/* its watches are counted by user: see sbx_loop_new() */
	{ "epoll", watches, "KAAKKKKKKKKAKKKAKA", NULL },
	{ "memfd_create", sealed, "AAAKKKAAAAKAKAAAKA", NULL },
	{ NULL }
};
