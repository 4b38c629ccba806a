#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sbxd/init/init.h"

/* linux/landlock.h of Linux 6.1 ends at ABI 2.  Source: landlock(7). */
#define SCOPE_ABSTRACT_UNIX (1ull << 0)
#define SCOPE_SIGNAL (1ull << 1)
struct ruleset_attr {
	uint64_t handled_access_fs, handled_access_net, scoped;
};
#define ABI_REFER 2
#define ABI_SCOPE 6

int
init_listener(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_port = htons(SBX_EGRESS_PORT),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);

	if (fd == -1 ||
	    bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == -1) {
		int e = errno;

		sbx_close(&fd);
		return (-e);
	}
	return (fd);
}

/*
 * Everything below the sandbox's root may be executed, and where the kernel
 * knows it (ABI 2) renamed and linked between directories, which every domain
 * refuses that does not grant it.
 */
static int
allow_root(int ruleset, uint64_t access)
{
	struct landlock_path_beneath_attr a = {
		.allowed_access = access,
		.parent_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
	};
	long r = -1;

	if (a.parent_fd != -1)
		r = syscall(SYS_landlock_add_rule, ruleset,
		    LANDLOCK_RULE_PATH_BENEATH, &a, 0);
	r = r == -1 ? -errno : 0;
	if (a.parent_fd != -1)
		(void)close(a.parent_fd);
	return ((int)r);
}

/*
 * One domain for PID 1 and all guests: device nodes nowhere, and a Landlock
 * domain forbids every change of mounts, which the filter forbids too.
 * Programs only from below the root: sbx-init is the host's file, and a
 * command starts out as sbx-init, so /proc/self/exe would execute it as a
 * guest whose /proc/PID/exe is a way to that file.  Not one domain a command:
 * commands of a sandbox may signal each other.
 */
static int
cage_landlock(void)
{
	struct ruleset_attr a = {
		.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_CHAR |
		    LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_EXECUTE,
	};
	uint64_t granted = LANDLOCK_ACCESS_FS_EXECUTE;
	size_t size = sizeof(a.handled_access_fs);
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
	    LANDLOCK_CREATE_RULESET_VERSION);
	int fd, r = 0;

	if (abi < 1)
		return (abi == 0 ? -ENOSYS : -errno);
	if (abi >= ABI_REFER) {
		a.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
		granted |= LANDLOCK_ACCESS_FS_REFER;
	}
	if (abi >= ABI_SCOPE) {
		a.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
		size = sizeof(a);
	}
	fd = (int)syscall(SYS_landlock_create_ruleset, &a, size, 0);
	if (fd == -1)
		return (-errno);
	r = allow_root(fd, granted);
	if (r == 0 && syscall(SYS_landlock_restrict_self, fd, 0) == -1)
		r = -errno;
	(void)close(fd);
	return (r);
}

/* The engine made the program with libseccomp; here it is only loaded. */
static int
cage_filter(int bpf_fd)
{
	static struct sock_filter code[BPF_MAXINSNS];
	struct sock_fprog prog = { .filter = code };
	struct stat st;
	ssize_t n;

	if (fstat(bpf_fd, &st) == -1)
		return (-errno);
	n = pread(bpf_fd, code, sizeof(code), 0);
	if (n <= 0 || n != st.st_size || (size_t)n % sizeof(code[0]) != 0)
		return (-EINVAL);
	prog.len = (unsigned short)((size_t)n / sizeof(code[0]));
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == -1)
		return (-errno);
	return (0);
}

int
init_cage(int bpf_fd, const char **ret_where)
{
	int r;

	*ret_where = "landlock_create_ruleset: the kernel needs Landlock "
	    "(lsm=landlock,... at boot)";
	if ((r = cage_landlock()) < 0)
		return (r);
	*ret_where = "seccomp: the kernel needs CONFIG_SECCOMP_FILTER";
	return (cage_filter(bpf_fd));
}
