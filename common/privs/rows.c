/*
 * The privilege table: what each process of the suite may do, and nothing
 * else.  The units of contrib/systemd repeat it and a test compares.
 */

#include "common/privs/row.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <string.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* linux/landlock.h of Linux 6.1 has no truncate right (ABI 3). */
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

#define CAP_BIT(cap) (1ULL << (cap))
/* Descriptors in flight are counted per uid against the sender's own limit, so
 * whoever passes one stays above what a sandbox may have (SBX_NOFILE_GAP). */
#define NOFILE_SUITE 4096
/* Of zstd and xz, which may ask for as much as the archive says. */
#define DATA_IMAGE (1024ULL << 20)
#define DATA_COURIER (256ULL << 20) /* libcurl, one answer and its tree */
#define DATA_WORKER (512ULL << 20) /* arguments, JSON tree, result, slack */

/* Every caged process: memory, clocks, its channel, its end. */
static const struct sbx_privs_call calls_base[] = {
	{ "brk", NULL },
	{ "clock_gettime", "where the vDSO cannot serve the clock" },
	{ "clock_nanosleep", NULL },
	{ "close", NULL },
	{ "exit", NULL },
	{ "exit_group", NULL },
	{ "fcntl", "CLOEXEC, non-blocking, duplicates, seals",
	    SBX_RULE_FCNTL },
	{ "fstat", NULL },
	{ "futex", "libc's own locks" },
	{ "getegid", NULL },
	{ "geteuid", NULL },
	{ "getgid", NULL },
	{ "getpid", NULL },
	{ "getppid", NULL },
	{ "getrandom", NULL },
	{ "gettid", "abort(3)" },
	{ "gettimeofday", NULL },
	{ "getuid", NULL },
	{ "ioctl", "stdio asks whether it writes to a terminal",
	    SBX_RULE_IOCTL },
	{ "kill", "raise(3)", SBX_RULE_SELF },
	{ "lseek", NULL },
	{ "madvise", "malloc(3)" },
	{ "mmap", "malloc(3), sealed memfds", SBX_RULE_NOEXEC },
	{ "mprotect", "malloc(3)", SBX_RULE_NOEXEC },
	{ "mremap", "realloc(3)" },
	{ "munmap", NULL },
	{ "nanosleep", NULL },
	{ "newfstatat", "fstat(3) of glibc", SBX_RULE_STAT_FD },
	{ "poll", NULL },
	{ "ppoll", NULL },
	{ "prlimit64", "getrlimit(3)", SBX_RULE_PID0 },
	{ "read", NULL },
	{ "recvfrom", NULL },
	{ "recvmsg", "the channel, with descriptors" },
	{ "restart_syscall", "the kernel's own, after a stop" },
	{ "rt_sigaction", NULL },
	{ "rt_sigprocmask", NULL },
	{ "rt_sigreturn", NULL },
	{ "sendmsg", "the channel, with descriptors", SBX_RULE_SENDMSG },
	{ "sendto", NULL, SBX_RULE_SENDTO },
	{ "shutdown", NULL },
	{ "tgkill", "abort(3)", SBX_RULE_SELF },
	{ "write", NULL },
	{ "writev", "stdio, assert messages of libc" },
#ifdef SBX_SANITIZERS
	{ "getrusage", "sanitizer" },
	{ "openat", "sanitizer: reads its maps when it reports" },
	{ "pipe2", "sanitizer: probes addresses" },
	{ "readlink", "sanitizer: names itself when it reports" },
	{ "sched_getaffinity", "sanitizer" },
	{ "sched_yield", "sanitizer: its spin locks" },
	{ "sigaltstack", "sanitizer" },
	{ "uname", "sanitizer" },
#endif
	{ NULL }
};

/* A libevent loop. */
static const struct sbx_privs_call calls_event[] = {
	{ "eventfd2", NULL },
	{ "getsockopt", "errors of a descriptor" },
	{ "pipe2", "how the loop hears of its own signals" },
	{ "timerfd_create", NULL },
	{ "timerfd_settime", NULL },
	{ NULL }
};

/* Text that crosses in a sealed memfd. */
static const struct sbx_privs_call calls_memfd[] = {
	{ "ftruncate", NULL },
	{ "memfd_create", NULL },
	{ "pread64", NULL },
	{ "pwrite64", NULL },
	{ NULL }
};

/* Reading names and files below a directory that was handed in. */
static const struct sbx_privs_call calls_dir_read[] = {
	{ "fadvise64", NULL },
	{ "getdents64", NULL },
	{ "newfstatat", NULL },
	{ "openat", "below its directory only: Landlock" },
	{ "openat2", "below its directory only: Landlock, RESOLVE_BENEATH" },
	{ "pread64", NULL },
	{ "readlinkat", NULL },
	{ "statx", NULL },
	{ NULL }
};

static const struct sbx_privs_call calls_monitor[] = {
	{ "accept4", "operators, on the one listener made before the cage" },
	{ "getsockname", "a connection is one of the control socket" },
	{ "openat", "sbx.conf again; Landlock, nothing else" },
	{ "setsockopt", "send buffers of the channels it makes" },
	{ "socketpair", "channels to introduce with", SBX_RULE_UNIX },
	{ "wait4", "the end of the starter" },
	{ "waitid", "the end of the starter" },
	{ NULL }
};

static const struct sbx_privs_call calls_recorder[] = {
	{ "fallocate", "punches the middle out of an over-long stream" },
	{ "fdatasync", NULL },
	{ "fstatfs", "space left in the store" },
	{ "ftruncate", NULL },
	{ "mkdirat", NULL },
	{ "pwrite64", NULL },
	{ "renameat2", "names what a file was when it is whole" },
	{ "splice", "from a pipe to a file, so that a kill loses nothing" },
	{ "sysinfo", "qsort(3) asks how much memory there is" },
	{ "unlinkat", "evicts old segments and runs" },
	{ NULL }
};

/* What an image is made of; Landlock keeps it to its two directories. */
static const struct sbx_privs_call calls_image[] = {
	{ "faccessat2", NULL },
	{ "fchmod", NULL },
	{ "fchmodat", NULL },
	{ "flistxattr", "counts what is dropped" },
	{ "ftruncate", NULL },
	{ "linkat", "a hard link within the image" },
	{ "mkdirat", NULL },
	{ "pwrite64", NULL },
	{ "symlinkat", NULL },
	{ "sysinfo", "qsort(3) asks how much memory there is" },
	{ "unlinkat", "what a later layer hides" },
	{ "utimensat", NULL },
	{ NULL }
};

/*
 * No ftruncate, no rename, no unlink: the journal only ever grows.  Landlock
 * refuses truncation from ABI 3 on; these rules do so before it.
 */
static const struct sbx_privs_call calls_journald[] = {
	{ "fallocate", "the reserve for crossings" },
	{ "fdatasync", "the commit" },
	{ "fstatfs", "space left for the reserve" },
	{ "fsync", "the directory, after a rotation" },
	{ "openat", "the next file; Landlock", SBX_RULE_NO_TRUNC },
	{ "openat2", "its flags are in memory, where no filter sees them",
	    SBX_RULE_NOSYS },
	{ NULL }
};

static const struct sbx_privs_call calls_broker[] = {
	{ "mlock", "secrets are never swapped" },
	{ "mlock2", "secrets are never swapped" },
	{ "munlock", NULL },
	{ NULL }
};

static const struct sbx_privs_call calls_proxy[] = {
	{ "accept4", NULL },
	{ "bind", "a UDP source port for the resolver; Landlock denies TCP" },
	{ "connect", "the one process that dials" },
	{ "getpeername", NULL },
	{ "getsockname", "checks the listener it was handed" },
	{ "listen", "starts a sandbox's listener on a grant" },
	{ "readv", NULL },
	{ "setitimer", "ends an accept4 that a sandbox made block" },
	{ "setsockopt", NULL },
	{ "socket", NULL, SBX_RULE_FAMILY },
	{ "socketpair", "a stream for a courier", SBX_RULE_UNIX },
	{ "splice", "tunnelled bytes" },
	{ NULL }
};

/*
 * A worker is a fork of the zygote that enters its own row on top, so this
 * must hold all that the worker's row holds and what entering needs.
 */
static const struct sbx_privs_call calls_zygote[] = {
	{ "capget", "a worker enters its row" },
	{ "capset", "a worker enters its row" },
	{ "clone", "fork(2) of a worker", SBX_RULE_FORK },
	{ "clone3", "libc then uses clone", SBX_RULE_NOSYS },
	{ "close_range", "a worker keeps its channel only" },
	{ "dup2", "a worker's channel becomes descriptor 3" },
	{ "dup3", "a worker's channel becomes descriptor 3" },
	{ "getresgid", "a worker enters its row" },
	{ "getresuid", "a worker enters its row" },
	{ "kill", "WORKER_KILL; Landlock keeps it to its workers (ABI 6)",
	    SBX_RULE_SIGKILL },
	{ "landlock_add_rule", "a worker enters its row" },
	{ "landlock_create_ruleset", "a worker enters its row" },
	{ "landlock_restrict_self", "a worker enters its row" },
	{ "prctl", "a worker enters its row", SBX_RULE_PRCTL },
	{ "rseq", "fork(2)" },
	{ "rt_sigtimedwait", "waits for SIGCHLD" },
	{ "seccomp", "a worker enters its row" },
	{ "set_robust_list", "fork(2)" },
	{ "setresgid", "a worker tries to regain, and must fail" },
	{ "setresuid", "a worker tries to regain, and must fail" },
	{ "signalfd4", "waits for SIGCHLD" },
	{ "tgkill", "abort(3) of a worker, whose pid is not known here",
	    SBX_RULE_ABORT },
	{ "wait4", NULL },
	{ "waitid", NULL },
	{ NULL }
};

static const struct sbx_privs_call calls_front[] = {
	{ "accept4", NULL },
	{ "getpeername", NULL },
	{ "getsockname", NULL },
	{ "readv", NULL },
	{ "setsockopt", NULL },
	{ NULL }
};

/* Source: libcurl's own calls on a socket that was passed in; no connect, which
 * the courier answers itself. */
static const struct sbx_privs_call calls_courier[] = {
	{ "getpeername", "libcurl notes whom it speaks to" },
	{ "getsockname", "libcurl notes its own address" },
	{ "getsockopt", "errors of the dialled socket" },
	{ "pread64", "the body of a request, a sealed memfd" },
	{ "setitimer", "ends a read or write that its peers made block" },
	{ "setsockopt", "libcurl, on the dialled socket", SBX_RULE_NODELAY },
	{ NULL }
};

/* What sorts more than a few things; the judge needs no more than that. */
static const struct sbx_privs_call calls_sort[] = {
	{ "sysinfo", "qsort(3) asks how much memory there is" },
	{ NULL }
};

static const struct sbx_privs_call calls_docker[] = {
	{ "connect", "the engine's socket; Landlock denies TCP" },
	{ "readv", NULL },
	{ "socket", NULL, SBX_RULE_FAMILY },
	{ NULL }
};

/* Left out of a denylist: for the operator's own command, and who starts it.
 * Nobody else inherits that, each program has a filter of its own. */
static const struct sbx_privs_call calls_keys[] = {
	{ "add_key", NULL },
	{ "keyctl", "a token may be in the kernel's keyring" },
	{ "request_key", NULL },
	{ NULL }
};

/*
 * What neither a component nor a guest has a use for.  Inherited by every
 * guest, whose own filter adds to it; so these fail instead of killing, with
 * the errno that makes well-behaved programs fall back.
 */
const struct sbx_privs_call sbx_privs_denied[] = {
	{ "acct", NULL, SBX_RULE_ANY, EPERM },
	{ "add_key", "keyrings are not in any namespace", SBX_RULE_ANY, EPERM },
	{ "bpf", NULL, SBX_RULE_ANY, EPERM },
	{ "clock_settime", NULL, SBX_RULE_ANY, EPERM },
	{ "delete_module", NULL, SBX_RULE_ANY, EPERM },
	{ "fanotify_init", NULL, SBX_RULE_ANY, EPERM },
	{ "finit_module", NULL, SBX_RULE_ANY, EPERM },
	{ "init_module", NULL, SBX_RULE_ANY, EPERM },
	{ "io_uring_enter", "goes round this filter", SBX_RULE_ANY, ENOSYS },
	{ "io_uring_register", NULL, SBX_RULE_ANY, ENOSYS },
	{ "io_uring_setup", "goes round this filter", SBX_RULE_ANY, ENOSYS },
	{ "ioperm", NULL, SBX_RULE_ANY, EPERM },
	{ "iopl", NULL, SBX_RULE_ANY, EPERM },
	{ "kexec_file_load", NULL, SBX_RULE_ANY, EPERM },
	{ "kexec_load", NULL, SBX_RULE_ANY, EPERM },
	{ "keyctl", "keyrings are not in any namespace", SBX_RULE_ANY, EPERM },
	{ "lookup_dcookie", NULL, SBX_RULE_ANY, EPERM },
	{ "modify_ldt", NULL, SBX_RULE_ANY, ENOSYS },
	{ "nfsservctl", NULL, SBX_RULE_ANY, EPERM },
	{ "open_by_handle_at", "goes round every path check", SBX_RULE_ANY,
	    EPERM },
	{ "perf_event_open", NULL, SBX_RULE_ANY, EPERM },
	{ "personality", "weakens the mapping rules of what it executes",
	    SBX_RULE_PERSONALITY, EPERM },
	{ "quotactl", NULL, SBX_RULE_ANY, EPERM },
	{ "quotactl_fd", NULL, SBX_RULE_ANY, EPERM },
	{ "reboot", NULL, SBX_RULE_ANY, EPERM },
	{ "request_key", "keyrings are not in any namespace", SBX_RULE_ANY,
	    EPERM },
	{ "settimeofday", NULL, SBX_RULE_ANY, EPERM },
	{ "socket", "vsock and others are not in the network namespace",
	    SBX_RULE_FAMILIES_DENY, EAFNOSUPPORT },
	{ "swapoff", NULL, SBX_RULE_ANY, EPERM },
	{ "swapon", NULL, SBX_RULE_ANY, EPERM },
	{ "sysfs", NULL, SBX_RULE_ANY, ENOSYS },
	{ "syslog", NULL, SBX_RULE_ANY, EPERM },
	{ "uselib", NULL, SBX_RULE_ANY, ENOSYS },
	{ "userfaultfd", NULL, SBX_RULE_ANY, EPERM },
	{ "vhangup", NULL, SBX_RULE_ANY, EPERM },
	{ NULL }
};

#define RIGHTS_READ \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RIGHTS_GROW \
	(RIGHTS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | \
	    LANDLOCK_ACCESS_FS_MAKE_REG)
#define RIGHTS_STORE \
	(RIGHTS_GROW | LANDLOCK_ACCESS_FS_MAKE_DIR | \
	    LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | \
	    LANDLOCK_ACCESS_FS_TRUNCATE)

#define RIGHTS_IMAGE \
	(RIGHTS_STORE | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)

#define CAGED (SBX_ROW_ALLOW | SBX_ROW_LANDLOCK)

static const struct sbx_privs_row rows[SBX_PROC_MAX] = {
	[SBX_PROC_MONITOR] = {
		.why = "decides and introduces; relays no payload",
		.user = "sbxd", .flags = CAGED,
		.dirs = { { "configuration directory", RIGHTS_READ } },
		.calls = { calls_monitor, calls_memfd, calls_event,
		    calls_base },
		.nofile = NOFILE_SUITE, .nproc = 0,
		.data = RLIM_INFINITY,
	},
	[SBX_PROC_STARTER] = {
		.why = "executes the other programs on the monitor's word; "
		    "their needs together rule out a narrower cage",
		.ids = SBX_IDS_KEEP,
		.flags = SBX_ROW_DENY | SBX_ROW_EXEC | SBX_ROW_HARD,
		/* To make each child its own user, and to kill it then. */
		.caps = CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) |
		    CAP_BIT(CAP_SETPCAP) | CAP_BIT(CAP_KILL),
		.calls = { calls_keys },
		.nofile = NOFILE_SUITE, .nproc = RLIM_INFINITY,
		.data = RLIM_INFINITY,
	},
	[SBX_PROC_ENGINE] = {
		.why = "makes the sandboxes and is their parent; Landlock "
		    "would forbid mount, and guests inherit its filter",
		.user = "sbxd",
		/* The user namespace may map a range of ids, one a sandbox:
		 * such a map the monitor writes, before its cage. */
		.flags = SBX_ROW_DENY | SBX_ROW_EXEC | SBX_ROW_NAMESPACES |
		    SBX_ROW_DIES,
		.nofile = RLIM_INFINITY, .nproc = RLIM_INFINITY,
		.data = RLIM_INFINITY,
	},
	[SBX_PROC_RECORDER] = {
		.why = "moves the output of runs from pipes to files",
		.user = "sbxd", .flags = CAGED | SBX_ROW_DIES,
		.dirs = { { "run store", RIGHTS_STORE } },
		.calls = { calls_recorder, calls_dir_read, calls_event,
		    calls_base },
		.nofile = RLIM_INFINITY, .nproc = 0,
		.data = RLIM_INFINITY,
	},
	[SBX_PROC_JOURNALD] = {
		.why = "appends the audit records and commits them",
		.user = "sbx-journal", .flags = CAGED | SBX_ROW_DIES,
		.dirs = { { "journal", RIGHTS_GROW } },
		.calls = { calls_journald, calls_dir_read, calls_event,
		    calls_base },
		.nofile = NOFILE_SUITE, .nproc = 0,
		.data = RLIM_INFINITY,
	},
	[SBX_PROC_BROKER] = {
		.why = "holds the keys; computes, never dials",
		.user = "sbx-broker", .flags = CAGED | SBX_ROW_DIES,
		.calls = { calls_broker, calls_event, calls_base },
		.nofile = NOFILE_SUITE, .nproc = 0,
		.data = RLIM_INFINITY,
	},
	[SBX_PROC_PROXY] = {
		.why = "the only way out of a sandbox",
		.user = "sbx-proxy",
		.flags = CAGED | SBX_ROW_DIES | SBX_ROW_CONNECT,
		.families = SBX_FAM_INET | SBX_FAM_INET6,
		.calls = { calls_proxy, calls_memfd, calls_event,
		    calls_base },
		/* Up to six a connection, SBX_PROXY_CONNS_ALL of them. */
		.nofile = RLIM_INFINITY, .nproc = 0,
		.data = RLIM_INFINITY,
	},
	[SBX_PROC_ZYGOTE] = {
		.why = "forks the workers; takes nothing but that order",
		.user = "sbx-front", .flags = CAGED | SBX_ROW_DIES,
		.calls = { calls_zygote, calls_sort, calls_memfd, calls_event,
		    calls_base },
		.nofile = NOFILE_SUITE, .nproc = RLIM_INFINITY,
		.data = RLIM_INFINITY,
	},
	[SBX_PROC_FRONT] = {
		.why = "speaks MCP with clients on descriptors it was handed",
		.user = "sbx-front", .flags = CAGED | SBX_ROW_DIES,
		.calls = { calls_front, calls_memfd, calls_event,
		    calls_base },
		.nofile = NOFILE_SUITE, .nproc = 0,
		.data = RLIM_INFINITY,
	},
	[SBX_PROC_WORKER] = {
		.why = "runs one tool call at a time for one principal",
		.user = "sbx-front", .flags = CAGED | SBX_ROW_DIES,
		.calls = { calls_sort, calls_memfd, calls_base },
		.nofile = NOFILE_SUITE, .nproc = 0, .data = DATA_WORKER,
	},
	[SBX_PROC_COPYIN] = {
		.why = "reads below one directory, with the caller's rights",
		.ids = SBX_IDS_ARGS, .flags = CAGED | SBX_ROW_DIES,
		.dirs = { { "copy root", RIGHTS_READ } },
		.calls = { calls_dir_read, calls_base },
		.nofile = NOFILE_SUITE, .nproc = 0, .data = DATA_WORKER,
	},
	[SBX_PROC_INIT] = {
		.why = "PID 1 of a sandbox; the guest filter comes on top",
		.ids = SBX_IDS_KEEP, .flags = SBX_ROW_DENY | SBX_ROW_EXEC,
		.nofile = RLIM_INFINITY, .nproc = RLIM_INFINITY,
		.data = RLIM_INFINITY,
	},
	[SBX_PROC_COURIER] = {
		.why = "adds one short-lived token to one exchange",
		.user = "sbx-broker", .flags = CAGED | SBX_ROW_DIES,
		.calls = { calls_courier, calls_base },
		.nofile = NOFILE_SUITE, .nproc = 0, .data = DATA_COURIER,
	},
	[SBX_PROC_JUDGE] = {
		.why = "computes ids and verdicts over one proposed push",
		.user = "sbxd", .flags = CAGED | SBX_ROW_DIES,
		.calls = { calls_sort, calls_memfd, calls_base },
		.nofile = NOFILE_SUITE, .nproc = 0, .data = DATA_WORKER,
	},
	[SBX_PROC_ENGINE_DOCKER] = {
		.why = "speaks to a container engine, so it is root on the "
		    "host in all but name",
		.user = "sbxd", .flags = CAGED | SBX_ROW_DIES,
		.families = SBX_FAM_UNIX,
		.calls = { calls_docker, calls_memfd, calls_event,
		    calls_base },
		.nofile = NOFILE_SUITE, .nproc = 0,
		.data = RLIM_INFINITY,
	},
	[SBX_PROC_CLI] = {
		.why = "the operator's own command line",
		.ids = SBX_IDS_KEEP,
		.flags = SBX_ROW_DENY | SBX_ROW_EXEC | SBX_ROW_HARD |
		    SBX_ROW_CAPS,
		.nofile = NOFILE_SUITE, .nproc = RLIM_INFINITY,
		.data = RLIM_INFINITY,
	},
	[SBX_PROC_COMMAND] = {
		.why = "runs the operator's own command that prints a token; "
		    "the one exception to the rule that only the proxy dials",
		.user = "sbx-command",
		.flags = SBX_ROW_DENY | SBX_ROW_EXEC | SBX_ROW_DIES,
		.calls = { calls_keys },
		.nofile = NOFILE_SUITE, .nproc = RLIM_INFINITY,
		.data = RLIM_INFINITY,
	},
	[SBX_PROC_IMAGE] = {
		.why = "unpacks what somebody else packed, into one directory",
		.user = "sbxd", .flags = CAGED | SBX_ROW_DIES,
		/* A tree of a root file system has files that its own users
		 * alone may read.  What is read is still below the two
		 * directories, and open_by_handle_at is no call of this row. */
		.caps = CAP_BIT(CAP_DAC_READ_SEARCH),
		.dirs = { { "staging", RIGHTS_IMAGE },
		    { "source", RIGHTS_READ } },
		.calls = { calls_image, calls_dir_read, calls_base },
		.nofile = NOFILE_SUITE, .nproc = 0, .data = DATA_IMAGE,
	},
};

const struct sbx_privs_row *
sbx_privs_row(enum sbx_proc proc)
{
	return (&rows[proc]);
}

const char *
sbx_privs_rule_text(enum sbx_privs_rule rule)
{
	static const char *const text[SBX_RULE_MAX] = {
		[SBX_RULE_ANY] = NULL,
		[SBX_RULE_NOEXEC] = "not PROT_EXEC",
		[SBX_RULE_SELF] = "itself",
		[SBX_RULE_PID0] = "pid 0",
		[SBX_RULE_SIGKILL] = "SIGKILL",
		[SBX_RULE_ABORT] = "SIGABRT",
		[SBX_RULE_FAMILY] = "families, TCP and UDP",
		[SBX_RULE_UNIX] = "AF_UNIX",
		[SBX_RULE_FCNTL] = "no owner",
		[SBX_RULE_IOCTL] = "FIONREAD, FIONBIO, TCGETS",
		[SBX_RULE_STAT_FD] = "AT_EMPTY_PATH",
		[SBX_RULE_NO_TRUNC] = "not O_TRUNC",
		[SBX_RULE_SENDTO] = "not MSG_FASTOPEN",
		[SBX_RULE_SENDMSG] = "not MSG_FASTOPEN",
		[SBX_RULE_FORK] = "no namespaces",
		[SBX_RULE_PRCTL] = "to enter a row",
		[SBX_RULE_NOSYS] = "ENOSYS",
		[SBX_RULE_NODELAY] = "TCP_NODELAY",
		[SBX_RULE_FAMILIES_DENY] = "not unix, IP or netlink",
		[SBX_RULE_PERSONALITY] = "not the default",
	};

	return (rule < SBX_RULE_MAX ? text[rule] : NULL);
}

bool
sbx_privs_mentioned(const struct sbx_privs_row *row, unsigned upto, const char *name)
{
	for (unsigned i = 0; i < upto && row->calls[i] != NULL; i++)
		for (const struct sbx_privs_call *c = row->calls[i]; c->name;
		    c++)
			if (strcmp(c->name, name) == 0)
				return (true);
	return (false);
}
