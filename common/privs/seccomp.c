/*
 * The seccomp filter of a row.  An allowlist kills the process on the first
 * other call; a denylist answers with an errno, since guests inherit it.
 */

#include "common/privs/row.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLONE_NEW_ANY 0x7e020000ull /* every CLONE_NEW* of clone(2) */

struct filter {
	scmp_filter_ctx ctx;
	const struct sbx_privs_row *row;
	int error;		/* the first failure, negative errno */
	const char *failed;	/* the call it was for */
};

/* Names by number, so that the handler of a trap needs no memory. */
#define TRAP_CALLS 512
#define TRAP_NAME 28
static char trap_names[TRAP_CALLS][TRAP_NAME];

static void
on_trap(int sig, siginfo_t *info, void *context)
{
	static const char head[] = "refused system call: ";
	const char *name = "unknown";
	int nr = info->si_syscall;

	(void)sig;
	(void)context;
	if (nr >= 0 && nr < TRAP_CALLS && trap_names[nr][0] != '\0')
		name = trap_names[nr];
	/* Nothing is left to report a failure to. */
	(void)!write(STDERR_FILENO, head, sizeof(head) - 1);
	(void)!write(STDERR_FILENO, name, strlen(name));
	(void)!write(STDERR_FILENO, "\n", 1);
	_exit(2);
}

static int
trap_prepare(struct sbx_err *err)
{
	struct sigaction act = { .sa_sigaction = on_trap,
		.sa_flags = SA_SIGINFO };

	for (int nr = 0; nr < TRAP_CALLS; nr++) {
		char *name = seccomp_syscall_resolve_num_arch(
		    SCMP_ARCH_NATIVE, nr);

		if (name != NULL && sbx_strlcpy(trap_names[nr], name,
		    sizeof(trap_names[nr])) < 0)
			(void)0; /* too long: reported as unknown */
		free(name);
	}
	if (sigaction(SIGSYS, &act, NULL) < 0)
		return (sbx_err_sys(err, "sigaction: SIGSYS"));
	return (0);
}

static void
rule(struct filter *f, uint32_t action, int nr, unsigned n,
    const struct scmp_arg_cmp *args)
{
	int r;

	if (f->error < 0)
		return;
	r = seccomp_rule_add_array(f->ctx, action, nr, n, args);
	if (r < 0)
		f->error = r;
}

/* Allow nr when argument `arg`, masked, has one of the values. */
static void
allow_values(struct filter *f, int nr, unsigned arg, uint64_t mask,
    const uint64_t *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rule(f, SCMP_ACT_ALLOW, nr, 1, &(struct scmp_arg_cmp)
		    { arg, SCMP_CMP_MASKED_EQ, mask, values[i] });
}

/* The low half: the kernel takes these arguments as int. */
#define INT 0xffffffffull

static void
allow_socket(struct filter *f, int nr)
{
	static const struct {
		uint32_t family;
		int domain;
	} map[] = {
		{ SBX_FAM_UNIX, AF_UNIX },
		{ SBX_FAM_INET, AF_INET },
		{ SBX_FAM_INET6, AF_INET6 },
	};
	/* The protocol as well: SOCK_STREAM is also MPTCP and SCTP, which
	 * Landlock's TCP rules do not see, and SOCK_DGRAM also ping. */
	static const struct {
		int type, protocol;
		bool ip;	/* has no meaning for AF_UNIX */
	} kinds[] = {
		{ SOCK_STREAM, 0, false }, { SOCK_DGRAM, 0, false },
		{ SOCK_STREAM, IPPROTO_TCP, true },
		{ SOCK_DGRAM, IPPROTO_UDP, true },
	};

	for (size_t i = 0; i < SBX_NELEM(map); i++)
		for (size_t k = 0; k < SBX_NELEM(kinds); k++) {
			struct scmp_arg_cmp args[] = {
				{ 0, SCMP_CMP_MASKED_EQ, INT,
				    (uint64_t)map[i].domain },
				{ 1, SCMP_CMP_MASKED_EQ, 0xf,
				    (uint64_t)kinds[k].type },
				{ 2, SCMP_CMP_MASKED_EQ, INT,
				    (uint64_t)kinds[k].protocol },
			};

			if ((f->row->families & map[i].family) &&
			    !(kinds[k].ip && map[i].domain == AF_UNIX))
				rule(f, SCMP_ACT_ALLOW, nr, 3, args);
		}
}

static const uint64_t fcntl_values[] = {
	F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL,
	F_GET_SEALS, F_ADD_SEALS, F_GETPIPE_SZ, F_SETPIPE_SZ,
};
static const uint64_t ioctl_values[] = { FIONREAD, FIONBIO, TCGETS };
static const uint64_t prctl_values[] = {
	PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_CAPBSET_READ,
	PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_SET_NO_NEW_PRIVS,
	PR_GET_NO_NEW_PRIVS, PR_GET_SECCOMP, PR_SET_NAME,
};

static const struct scmp_arg_cmp nodelay[] = {
	{ 1, SCMP_CMP_MASKED_EQ, INT, IPPROTO_TCP },
	{ 2, SCMP_CMP_MASKED_EQ, INT, TCP_NODELAY },
};

/* One listed call of an allowlist. */
static void
allow_call(struct filter *f, const struct sbx_privs_call *c, int nr)
{
	const uint64_t zero = 0, self = (uint64_t)getpid(), kill9 = SIGKILL,
	    abrt = SIGABRT, local = AF_UNIX, empty = AT_EMPTY_PATH;

	switch (c->rule) {
	case SBX_RULE_ANY:
		rule(f, SCMP_ACT_ALLOW, nr, 0, NULL);
		return;
	case SBX_RULE_NOEXEC:
		allow_values(f, nr, 2, PROT_EXEC, &zero, 1);
		return;
	case SBX_RULE_SELF:
		allow_values(f, nr, 0, INT, &self, 1);
		return;
	case SBX_RULE_PID0:
		allow_values(f, nr, 0, INT, &zero, 1);
		return;
	case SBX_RULE_SIGKILL:
		allow_values(f, nr, 1, INT, &kill9, 1);
		return;
	case SBX_RULE_ABORT:
		allow_values(f, nr, 2, INT, &abrt, 1);
		return;
	case SBX_RULE_FAMILY:
		allow_socket(f, nr);
		return;
	case SBX_RULE_UNIX:
		allow_values(f, nr, 0, INT, &local, 1);
		return;
	case SBX_RULE_FCNTL:
		allow_values(f, nr, 1, INT, fcntl_values,
		    SBX_NELEM(fcntl_values));
		return;
	case SBX_RULE_IOCTL:
		allow_values(f, nr, 1, INT, ioctl_values,
		    SBX_NELEM(ioctl_values));
		return;
	case SBX_RULE_STAT_FD:
		allow_values(f, nr, 3, AT_EMPTY_PATH, &empty, 1);
		return;
	case SBX_RULE_NO_TRUNC:
		allow_values(f, nr, 2, O_TRUNC, &zero, 1);
		return;
	case SBX_RULE_SENDTO:
		allow_values(f, nr, 3, MSG_FASTOPEN, &zero, 1);
		return;
	case SBX_RULE_SENDMSG:
		allow_values(f, nr, 2, MSG_FASTOPEN, &zero, 1);
		return;
	case SBX_RULE_FORK:
		allow_values(f, nr, 0, CLONE_NEW_ANY | CLONE_VM |
		    CLONE_THREAD | CLONE_PARENT, &zero, 1);
		return;
	case SBX_RULE_PRCTL:
		allow_values(f, nr, 0, INT, prctl_values,
		    SBX_NELEM(prctl_values));
		return;
	case SBX_RULE_NOSYS:
		rule(f, SCMP_ACT_ERRNO(ENOSYS), nr, 0, NULL);
		return;
	case SBX_RULE_NODELAY:
		rule(f, SCMP_ACT_ALLOW, nr, 2, nodelay);
		return;
	case SBX_RULE_FAMILIES_DENY:
	case SBX_RULE_PERSONALITY:
	case SBX_RULE_MAX:
		break;
	}
	f->error = -EINVAL; /* a denylist's rule in an allowlist */
}

static void
deny_families(struct filter *f, int nr, uint32_t action)
{
	/* Every number the kernel knows, and all above. */
	for (uint64_t family = 0; family <= AF_NETLINK; family++) {
		if (family == AF_UNIX || family == AF_INET ||
		    family == AF_INET6 || family == AF_NETLINK)
			continue;
		rule(f, action, nr, 1, &(struct scmp_arg_cmp)
		    { 0, SCMP_CMP_MASKED_EQ, INT, family });
	}
	rule(f, action, nr, 1, &(struct scmp_arg_cmp)
	    { 0, SCMP_CMP_GT, AF_NETLINK });
}

/*
 * Refuse what changes how programs are mapped.  Passing: 0, PER_LINUX32 (bit
 * 3), UNAME26 (bit 17) and the query, which is all ones.  A denylist cannot
 * say "none of these", so it is said bit by bit.
 */
static void
deny_personality(struct filter *f, int nr, uint32_t action)
{
	const uint64_t top = 1ull << 31;

	for (unsigned b = 0; b < 31; b++) {
		uint64_t bit = 1ull << b;

		if (b != 3 && b != 17)
			rule(f, action, nr, 1, &(struct scmp_arg_cmp)
			    { 0, SCMP_CMP_MASKED_EQ, bit | top, bit });
		rule(f, action, nr, 1, &(struct scmp_arg_cmp)
		    { 0, SCMP_CMP_MASKED_EQ, bit | top, top });
	}
}

static void
deny_call(struct filter *f, const struct sbx_privs_call *c, int nr)
{
	uint32_t action = SCMP_ACT_ERRNO((uint32_t)c->error);

	if (c->rule == SBX_RULE_FAMILIES_DENY)
		deny_families(f, nr, action);
	else if (c->rule == SBX_RULE_PERSONALITY)
		deny_personality(f, nr, action);
	else
		rule(f, action, nr, 0, NULL);
}

static void
add_calls(struct filter *f)
{
	const struct sbx_privs_row *row = f->row;
	const struct sbx_privs_call *c;
	int nr;

	if (row->flags & SBX_ROW_DENY) {
		for (c = sbx_privs_denied; c->name && f->error == 0; c++) {
			if (sbx_privs_mentioned(row, SBX_PRIVS_LISTS, c->name))
				continue;
			/* A call that this architecture lacks is < 0. */
			nr = seccomp_syscall_resolve_name(c->name);
			f->failed = c->name;
			if (nr >= 0)
				deny_call(f, c, nr);
		}
		return;
	}
	for (unsigned i = 0; i < SBX_NELEM(row->calls) && row->calls[i]; i++)
		for (c = row->calls[i]; c->name && f->error == 0; c++) {
			if (sbx_privs_mentioned(row, i, c->name))
				continue;
			nr = seccomp_syscall_resolve_name(c->name);
			f->failed = c->name;
			if (nr >= 0)
				allow_call(f, c, nr);
		}
}

int
sbx_privs_seccomp(const struct sbx_privs_row *row, bool trap,
    struct sbx_err *err)
{
	struct filter f = { .row = row };
	uint32_t other = trap ? SCMP_ACT_TRAP : SCMP_ACT_KILL_PROCESS;
	int r;

	if (trap && (r = trap_prepare(err)) < 0)
		return (r);
	f.ctx = seccomp_init(row->flags & SBX_ROW_DENY ? SCMP_ACT_ALLOW :
	    other);
	if (f.ctx == NULL)
		return (sbx_err_set(err, SBX_E_UNSUPPORTED, "seccomp_init: "
		    "the kernel needs CONFIG_SECCOMP_FILTER"));
	/* Other architectures' calls have other numbers: not filtered here,
	 * so refused.  no_new_privs is set already. */
	f.error = seccomp_attr_set(f.ctx, SCMP_FLTATR_ACT_BADARCH,
	    SCMP_ACT_KILL_PROCESS);
	if (f.error == 0)
		f.error = seccomp_attr_set(f.ctx, SCMP_FLTATR_CTL_NNP, 0);
	if (f.error == 0)
		f.error = seccomp_attr_set(f.ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	f.failed = "attributes";
	add_calls(&f);
	if (f.error == 0) {
		f.failed = "load";
		f.error = seccomp_load(f.ctx);
	}
	seccomp_release(f.ctx);
	if (f.error == 0)
		return (0);
	errno = -f.error;
	return (sbx_err_sys(err, "seccomp: %s (Linux 4.14 with "
	    "CONFIG_SECCOMP_FILTER is needed)", f.failed));
}
