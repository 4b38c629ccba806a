/*
 * What the suite needs, in the order in which it needs it: a row that needs
 * another stands behind it.
 */
#include "sbxd/cli/doctor.h"

#include "common/base/cgroup.h"

#include <linux/sched.h>

#define NO_SUITE "no suite starts"
#define NO_SANDBOX "no sandbox can be made"
#define KERNEL(version) "# boot Linux " version " or newer\n"
#define PASS(call) "# in a container: let its seccomp profile pass " call "\n"
#define SYSCTL(key) "sysctl -w " key "=10000\n" \
    "echo '" key " = 10000' >>/etc/sysctl.d/60-sbx.conf\n"

/* A call that nothing starts without. */
#define CALL(n, w, fn, m) { .name = n, .what = w, .probe = fn, \
    .user = DOCTOR_ENGINE, .needs = "setuid", .lost = NO_SUITE, .mend = m }
/* A kind of namespace, tried below the engine's own user namespace. */
#define NAMESPACE(kind, w, flag, key) { .name = "ns_" kind, .what = w, \
    .probe = doctor_namespace, .user = DOCTOR_ENGINE, .arg = flag, \
    .text = "CLONE_NEWUSER | " #flag, .needs = "ns_user", \
    .lost = NO_SANDBOX, .mend = SYSCTL(key) }
/* A step of the engine in all of them. */
#define STEP(n, w, fn, need, m) { .name = n, .what = w, .probe = fn, \
    .user = DOCTOR_ENGINE, .needs = need, .lost = NO_SANDBOX, .mend = m }
#define LIMIT(n, w, row, l) { .name = "limit_" n, .what = w, \
    .weight = DOCTOR_OPTIONAL, .probe = doctor_limit, .arg = row, .lost = l, \
    .mend = "" }
#define USER(n) { .name = "user_" n, .what = "user " n, .probe = doctor_user, \
    .text = n, .root_only = true, .lost = NO_SUITE, .mend = "" }

const struct doctor_check doctor_checks[] = {
	{ .name = "config", .what = "configuration", .probe = doctor_config,
	    .lost = NO_SUITE, .mend = "sbxd -n\n" },
	{ .name = "programs", .what = "programs of the suite",
	    .probe = doctor_suite_programs, .lost = NO_SUITE,
	    .mend = "# install the suite again: make install\n" },
	USER("sbxd"), USER("sbx-front"), USER("sbx-broker"),
	USER("sbx-proxy"), USER("sbx-command"), USER("sbx-journal"),
	{ .name = "setuid", .what = "to become the suite's user",
	    .probe = doctor_become, .user = DOCTOR_ENGINE, .root_only = true,
	    .lost = NO_SUITE,
	    .mend = "# root without CAP_SETUID and CAP_SETGID, or in a user "
	    "namespace without that id:\n"
	    "# docker run --cap-add SETUID --cap-add SETGID, or start the "
	    "suite as an ordinary user\n" },
	{ .name = "state", .what = "state directory", .probe = doctor_state,
	    .lost = NO_SUITE, .mend = "" },
	{ .name = "state_owner", .what = "owner of the state directory",
	    .weight = DOCTOR_OPTIONAL, .probe = doctor_owner,
	    .needs = "state",
	    .lost = "whoever else may write there can replace what suites "
	    "trust", .mend = "" },
	{ .name = "space", .what = "room in the state directory",
	    .probe = doctor_space, .needs = "state",
	    .lost = "the journal stops, and with it every sandbox, when it is "
	    "full",
	    .mend = "sbx clean\n# or have the state directory elsewhere: "
	    "SBX_ROOT=/another/directory\n" },
	{ .name = "run", .what = "directory of the control socket",
	    .probe = doctor_run, .lost = NO_SUITE,
	    .mend = "# choose a shorter one: SBX_ROOT or XDG_RUNTIME_DIR\n" },
	{ .name = "lockdown", .what = "no lockdown",
	    .weight = DOCTOR_OPTIONAL, .probe = doctor_lockdown,
	    .lost = "no sandbox has a way out, and nothing is done with a "
	    "credential", .mend = "sbx lockdown off\n" },
	{ .name = "credentials", .what = "files of credentials",
	    .weight = DOCTOR_OPTIONAL, .probe = doctor_credentials,
	    .lost = "that source gives no token: what it is for is read as "
	    "anybody may, and not written; without its key nothing is "
	    "published", .mend = "" },
	{ .name = "secret_rules", .what = "rules of secret_rules",
	    .probe = doctor_rules, .needs = "programs", .lost = NO_SUITE,
	    .mend = "# sbxd-judge(8) says what rules may have; built in are "
	    "those of\n# " SBX_PKGDATADIR "/rules.toml\n" },
	{ .name = "nofile", .what = "open files", .probe = doctor_nofile,
	    .lost = "fewer sandboxes at once, with fewer open files each; "
	    "below 640 no suite starts",
	    .mend = "ulimit -Hn 4096\n# systemd: LimitNOFILE=4096 in the unit;"
	    " docker run --ulimit nofile=4096\n" },

	CALL("kernel", "kernel", doctor_kernel, KERNEL("5.13")),
	CALL("clone3", "clone3", doctor_clone3,
	    KERNEL("5.3") PASS("clone3")),
	CALL("close_range", "close_range", doctor_close_range,
	    KERNEL("5.9") PASS("close_range")),
	CALL("openat2", "openat2", doctor_openat2,
	    KERNEL("5.6") PASS("openat2")),
	CALL("pidfd", "pidfds", doctor_pidfd,
	    KERNEL("5.3") PASS("pidfd_open and pidfd_send_signal")),
	CALL("execveat", "execveat", doctor_execveat,
	    KERNEL("3.19") PASS("execveat")),
	CALL("memfd", "sealed memfds", doctor_memfd,
	    "sysctl -w vm.memfd_noexec=1\n" PASS("memfd_create")),
	{ .name = "memfd_noexec", .what = "memfds without execution",
	    .weight = DOCTOR_OPTIONAL, .probe = doctor_memfd_exec,
	    .user = DOCTOR_ENGINE, .needs = "memfd",
	    .lost = "seccomp alone refuses to execute what is in a memfd",
	    .mend = KERNEL("6.3") },
	CALL("seccomp", "seccomp filters", doctor_seccomp,
	    "# build the kernel with CONFIG_SECCOMP_FILTER (Linux 4.14)\n"
	    PASS("seccomp and prctl")),
	CALL("landlock", "Landlock", doctor_landlock,
	    "# boot Linux 5.13 or newer, and with landlock in the list:\n"
	    "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&lsm=landlock,lockdown,yama,"
	    "integrity,apparmor,bpf /' /etc/default/grub\nupdate-grub\n"
	    PASS("landlock_create_ruleset, landlock_add_rule and "
	    "landlock_restrict_self")),
	{ .name = "landlock_net", .what = "Landlock for ports",
	    .weight = DOCTOR_OPTIONAL, .probe = doctor_landlock_abi, .arg = 4,
	    .user = DOCTOR_ENGINE, .needs = "landlock",
	    .lost = "seccomp alone keeps processes from TCP",
	    .mend = KERNEL("6.7") },
	{ .name = "landlock_scope", .what = "Landlock for signals and "
	    "abstract sockets", .weight = DOCTOR_OPTIONAL,
	    .probe = doctor_landlock_abi, .arg = 6, .user = DOCTOR_ENGINE,
	    .needs = "landlock",
	    .lost = "seccomp alone keeps processes of one user from signals "
	    "to each other",
	    .mend = KERNEL("6.12") },

	{ .name = "ns_user", .what = "user namespaces",
	    .probe = doctor_namespace, .user = DOCTOR_ENGINE,
	    .text = "CLONE_NEWUSER", .needs = "clone3", .lost = NO_SUITE,
	    .mend = "" },
	NAMESPACE("mount", "mount namespaces", CLONE_NEWNS,
	    "user.max_mnt_namespaces"),
	NAMESPACE("pid", "pid namespaces", CLONE_NEWPID,
	    "user.max_pid_namespaces"),
	NAMESPACE("net", "network namespaces", CLONE_NEWNET,
	    "user.max_net_namespaces"),
	NAMESPACE("ipc", "ipc namespaces", CLONE_NEWIPC,
	    "user.max_ipc_namespaces"),
	NAMESPACE("uts", "uts namespaces", CLONE_NEWUTS,
	    "user.max_uts_namespaces"),
	NAMESPACE("cgroup", "cgroup namespaces", CLONE_NEWCGROUP,
	    "user.max_cgroup_namespaces"),
	STEP("maps", "a uid and a gid of its own in a sandbox", doctor_maps,
	    "ns_mount ns_pid ns_net ns_ipc ns_uts ns_cgroup", ""),
	STEP("mounts", "mounts of a sandbox's own", doctor_private,
	    "maps state", PASS("mount")),
	STEP("tmpfs", "tmpfs in a user namespace", doctor_tmpfs, "mounts",
	    PASS("mount")),
	STEP("overlay", "overlay in a user namespace, on the state directory",
	    doctor_overlay, "mounts",
	    "modprobe overlay\n"
	    "# Linux 5.11 or newer; and the state directory on a filesystem "
	    "that can be an\n"
	    "# overlay's upper layer: ext4, xfs, btrfs or tmpfs, not NFS, not "
	    "another overlay:\n"
	    "# SBX_ROOT=/another/directory, in a container a volume\n"),
	STEP("mount_setattr", "read-only mounts, recursively", doctor_setattr,
	    "tmpfs", KERNEL("5.12") PASS("mount_setattr")),
	STEP("devices", "devices of a sandbox: null, zero, full, random, "
	    "urandom, tty", doctor_devices, "tmpfs",
	    "# make those that are missing, as in: mknod -m 666 /dev/full c 1 "
	    "7\n"),
	STEP("pivot_root", "pivot_root", doctor_pivot, "tmpfs",
	    PASS("pivot_root")),
	STEP("proc", "proc in a user namespace", doctor_proc, "tmpfs",
	    "# leave /proc without other mounts on it; docker run "
	    "--security-opt systempaths=unconfined\n"),
	STEP("devpts", "terminals of a sandbox's own", doctor_devpts, "tmpfs",
	    "# build the kernel with CONFIG_UNIX98_PTYS\n"),
	STEP("hostname", "a host name of its own", doctor_hostname, "maps",
	    PASS("sethostname")),
	STEP("loopback", "a loopback device of its own", doctor_loopback,
	    "maps", PASS("ioctl(SIOCSIFFLAGS)")),

	{ .name = "uid_range", .what = "a user of its own for each sandbox",
	    .weight = DOCTOR_OPTIONAL, .probe = doctor_ids, .needs = "ns_user",
	    .lost = "all sandboxes share one user id: their namespaces alone "
	    "keep them apart",
	    .mend = "# a user with a name, and a line of it in /etc/subuid and "
	    "/etc/subgid\n" },

	LIMIT("memory", "limit of memory", SBX_ROW_MEMORY,
	    "a sandbox may use up the machine's memory"),
	LIMIT("swap", "limit of swap", SBX_ROW_SWAP,
	    "a sandbox may use up the machine's swap"),
	LIMIT("pids", "limit of processes", SBX_ROW_PIDS,
	    "RLIMIT_NPROC alone bounds the processes of a sandbox"),
	LIMIT("cpus", "limit of processors", SBX_ROW_CPUS,
	    "a sandbox may use all processors"),
	LIMIT("disk", "limit of the disk", SBX_ROW_DISK,
	    "a sandbox may fill the state directory's filesystem"),

	{ .name = "images", .what = "images", .probe = doctor_images,
	    .lost = "no sandbox can be made without naming an image",
	    .mend = "sbx image list\n# and name one of them, or host, as "
	    "default_image in sbx.conf\n" },
	{ .name = "bash", .what = "bash, for commands in image host",
	    .probe = doctor_program, .text = "bash",
	    .lost = "commands do not run in image host", .mend = "" },
	{ .name = "git", .what = "git, in image host",
	    .weight = DOCTOR_OPTIONAL, .probe = doctor_program, .text = "git",
	    .lost = "copies of git repositories are taken as plain files",
	    .mend = "" },
	{ .name = "append_only", .what = "append-only journal files",
	    .weight = DOCTOR_OPTIONAL, .probe = doctor_append_only,
	    .root_only = true, .needs = "state",
	    .lost = "chattr +a cannot guard the journal; its chain of hashes "
	    "still shows what was changed",
	    .mend = "# the state directory on ext4, xfs or btrfs, and root "
	    "with CAP_LINUX_IMMUTABLE\n" },
	{ .name = "protected_symlinks", .what = "fs.protected_symlinks",
	    .weight = DOCTOR_OPTIONAL, .probe = doctor_links,
	    .text = "/proc/sys/fs/protected_symlinks",
	    .lost = "other programs of this machine may be led astray by "
	    "links in /tmp; the suite follows none",
	    .mend = "sysctl -w fs.protected_symlinks=1\n"
	    "echo 'fs.protected_symlinks = 1' >>/etc/sysctl.d/60-sbx.conf\n" },
	{ .name = "clock", .what = "clock", .weight = DOCTOR_OPTIONAL,
	    .probe = doctor_clock,
	    .lost = "times in the journal are wrong",
	    .mend = "timedatectl set-ntp true\n" },
	{ .name = "leftovers", .what = "nothing left of dead suites",
	    .weight = DOCTOR_OPTIONAL, .probe = doctor_leftovers,
	    .lost = "their scratch and outputs take room until the next start",
	    .mend = "sbx clean\n" },
};
const size_t doctor_nchecks = SBX_NELEM(doctor_checks);
