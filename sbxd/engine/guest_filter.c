/*
 * What no guest may call.  The engine's own filter, which guests inherit,
 * refuses what nobody needs; this adds what the engine itself needs to build a
 * sandbox.  Refused calls fail, they do not kill: programs probe and fall
 * back.  ptrace stays: debuggers work among guests, and neither PID 1 nor the
 * supervisors of runs are dumpable.
 */
#include "sbxd/engine/engine.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | \
    CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)
#ifndef TIOCLINUX
#define TIOCLINUX 0x541C
#endif

static const struct {
	const char *name;
	int error;
} refused[] = {
	{ "unshare", EPERM }, { "setns", EPERM },
	{ "mount", EPERM }, { "umount2", EPERM }, { "pivot_root", EPERM },
	{ "chroot", EPERM }, { "move_mount", EPERM }, { "open_tree", EPERM },
	{ "fsopen", EPERM }, { "fsconfig", EPERM }, { "fsmount", EPERM },
	{ "fspick", EPERM }, { "mount_setattr", EPERM },
	/* its flags are behind a pointer, which a filter cannot read; libc
	 * falls back to clone */
	{ "clone3", ENOSYS },
	{ "kcmp", EPERM }, { "pidfd_getfd", EPERM },
	/* debuggers then read word by word, with ptrace */
	{ "process_vm_readv", ENOSYS }, { "process_vm_writev", ENOSYS },
	{ "process_madvise", EPERM }, { "process_mrelease", EPERM },
	{ "move_pages", EPERM }, { "migrate_pages", EPERM },
	{ "mbind", EPERM }, { "set_mempolicy", EPERM },
	{ "memfd_secret", ENOSYS },
	{ "sethostname", EPERM }, { "setdomainname", EPERM },
};

static const int protocols[] = { IPPROTO_SCTP, IPPROTO_DCCP, 115 /* L2TP */,
	IPPROTO_UDPLITE };

static int
add_refused(scmp_filter_ctx ctx)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < SBX_NELEM(refused); i++) {
		int nr = seccomp_syscall_resolve_name(refused[i].name);

		/* not a call of this machine */
		if (nr == __NR_SCMP_ERROR)
			continue;
		r = seccomp_rule_add(ctx,
		    SCMP_ACT_ERRNO((uint16_t)refused[i].error), nr, 0);
	}
	return (r);
}

/* Calls that are refused for some arguments only. */
static int
add_conditional(scmp_filter_ctx ctx)
{
	const uint32_t eperm = SCMP_ACT_ERRNO(EPERM);
	int r = 0;

	for (unsigned bit = 0; r == 0 && bit < 32; bit++)
		if ((NAMESPACES & (1u << bit)) != 0)
			r = seccomp_rule_add(ctx, eperm, SCMP_SYS(clone), 1,
			    SCMP_A0(SCMP_CMP_MASKED_EQ, 1u << bit,
			    1u << bit));
	/* limits of PID 1, which has the same uid: CPU 0 would kill it */
	if (r == 0)
		r = seccomp_rule_add(ctx, eperm, SCMP_SYS(prlimit64), 1,
		    SCMP_A0(SCMP_CMP_NE, 0));
	/* typing into somebody else's terminal */
	if (r == 0)
		r = seccomp_rule_add(ctx, eperm, SCMP_SYS(ioctl), 1,
		    SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, TIOCSTI));
	if (r == 0)
		r = seccomp_rule_add(ctx, eperm, SCMP_SYS(ioctl), 1,
		    SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, TIOCLINUX));
	/* line disciplines come as modules, for the asking */
	if (r == 0)
		r = seccomp_rule_add(ctx, eperm, SCMP_SYS(ioctl), 1,
		    SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, TIOCSETD));
	/* netlink: routes and addresses only, which programs list */
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT),
		    SCMP_SYS(socket), 2,
		    SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
		    SCMP_A2(SCMP_CMP_NE, NETLINK_ROUTE));
	/* protocols that come as modules, and that nobody uses by loopback */
	for (size_t i = 0; r == 0 && i < SBX_NELEM(protocols); i++)
		for (int v6 = 0; r == 0 && v6 < 2; v6++)
			r = seccomp_rule_add(ctx,
			    SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket),
			    2, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)(v6 ?
			    AF_INET6 : AF_INET)), SCMP_A2(SCMP_CMP_EQ,
			    (scmp_datum_t)protocols[i]));
	return (r);
}

/*
 * Its core limit stays what it is, SBX_CORE_NEVER: with 0, which programs set
 * that fear dumps, a dying command would be handed to the host's handler of
 * core_pattern.  Setting it succeeds and does nothing.
 */
static int
add_core_limit(scmp_filter_ctx ctx)
{
	int r;

	r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(0), SCMP_SYS(setrlimit), 1,
	    SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffffu, RLIMIT_CORE));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(0),
		    SCMP_SYS(prlimit64), 3, SCMP_A0(SCMP_CMP_EQ, 0),
		    SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, RLIMIT_CORE),
		    SCMP_A2(SCMP_CMP_NE, 0));
	return (r);
}

int
guest_filter(int *ret_fd, struct sbx_err *err)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	int SBX_CLEANUP(fd) fd = -1;
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	char chunk[16384];
	ssize_t n;
	int r;

	sbx_buf_init(&b, 1u << 19);
	if (ctx == NULL)
		return (sbx_err_set(err, SBX_E_SYS, "seccomp_init"));
	/* other architectures' call numbers mean other things */
	r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH,
	    SCMP_ACT_KILL_PROCESS);
	if (r == 0)
		r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (r == 0)
		r = add_refused(ctx);
	if (r == 0)
		r = add_conditional(ctx);
	if (r == 0)
		r = add_core_limit(ctx);
	fd = memfd_create("guest-filter", MFD_CLOEXEC);
	if (r == 0 && fd != -1)
		r = seccomp_export_bpf(ctx, fd);
	seccomp_release(ctx);
	if (r < 0 || fd == -1 || lseek(fd, 0, SEEK_SET) == -1)
		return (sbx_err_set(err, SBX_E_SYS,
		    "the guests' filter cannot be made: %s", strerror(-r)));
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		if (sbx_buf_add(&b, chunk, (size_t)n) != 0)
			return (sbx_err_set(err, SBX_E_LIMIT,
			    "the guests' filter is too long"));
	if (sbx_memfd_sealed("guest-filter", b.data, b.len, ret_fd) != 0)
		return (sbx_err_sys(err, "memfd_create"));
	return (0);
}
