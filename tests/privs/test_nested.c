/*
 * The engine's row and the starter's above it leave enough for a sandbox: a
 * nested user namespace with a one-id map, all other namespaces, an overlay,
 * a bind of /usr, /proc, pivot_root; and not more than that.
 */

#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <grp.h>
#include <signal.h>

#include "common/privs/privs.h"
#include "tests/privs/users.h"
#include "tests/tap.h"

#define NOBODY 65534
#define SANDBOX_UID 1000

/* Reported by the processes inside, in the order of the steps. */
static int report[2];

static void
step(const char *what, bool good)
{
	SBX_CLEANUP(free) char *line = sbx_xasprintf("%c%s%s%s\n",
	    good ? '+' : '-', what, good ? "" : ": ",
	    good ? "" : strerror(errno));

	(void)!write(report[1], line, strlen(line));
	if (!good)
		_exit(1);
}

static bool
put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) > 0;

	if (fd >= 0)
		(void)close(fd);
	return good;
}

static bool
make_tree(void)
{
	static const char *const dirs[] = { "l", "u", "w", "m", "l/usr",
		"l/proc", "l/old" };
	char path[40];

	for (size_t i = 0; i < SBX_NELEM(dirs); i++) {
		(void)snprintf(path, sizeof(path), "/tmp/%s", dirs[i]);
		if (mkdir(path, 0755) < 0)
			return false;
	}
	return true;
}

_Noreturn static void
inside(int go)
{
	char c;

	step("the map is written", read(go, &c, 1) == 1 &&
	    getuid() == SANDBOX_UID && getpid() == 1);
	step("mount: / private", mount(NULL, "/", NULL, MS_REC | MS_PRIVATE,
	    NULL) == 0);
	step("mount: tmpfs", mount("tmpfs", "/tmp", "tmpfs", 0, NULL) == 0);
	step("mkdir", make_tree());
	step("mount: overlay", mount("overlay", "/tmp/m", "overlay", 0,
	    "lowerdir=/tmp/l,upperdir=/tmp/u,workdir=/tmp/w,userxattr") == 0);
	step("mount: bind of /usr", mount("/usr", "/tmp/m/usr", NULL,
	    MS_BIND | MS_REC, NULL) == 0);
	step("mount: proc", mount("proc", "/tmp/m/proc", "proc", 0,
	    NULL) == 0);
	step("pivot_root", chdir("/tmp/m") == 0 &&
	    syscall(SYS_pivot_root, ".", "old") == 0 && chdir("/") == 0 &&
	    umount2("/old", MNT_DETACH) == 0);
	step("sethostname", sethostname("x", 1) == 0);
	step("loopback socket", socket(AF_INET, SOCK_STREAM, 0) >= 0);
	step("no vsock", socket(AF_VSOCK, SOCK_STREAM, 0) < 0);
	step("no keyring", syscall(SYS_keyctl, 0, -3, 0) < 0);
	step("personality can be asked",
	    syscall(SYS_personality, 0xffffffffUL) >= 0);
	_exit(0);
}

_Noreturn static void
engine(void)
{
	struct sbx_err err = { 0 };
	uint32_t features;
	char path[64], map[64];
	int go[2], status;
	pid_t pid;

	if (sbx_privs_enter(SBX_PROC_ENGINE, NULL, &features, &err) < 0) {
		step(err.msg, false);
		_exit(1);
	}
	step("namespaces of its own", (features & (SBX_PRIVS_USERNS |
	    SBX_PRIVS_NETNS)) == (SBX_PRIVS_USERNS | SBX_PRIVS_NETNS));
	/* A copy of a process that is not dumpable has a /proc of root's. */
	step("pipe", pipe(go) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS |
	    CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
	    CLONE_NEWCGROUP | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		inside(go[0]);
	step("clone", pid > 0 && prctl(PR_SET_DUMPABLE, 0) == 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
	(void)snprintf(map, sizeof(map), "%d %u 1", SANDBOX_UID, getegid());
	step("gid_map", put(path, map));
	(void)snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	(void)snprintf(map, sizeof(map), "%d %u 1", SANDBOX_UID, geteuid());
	step("uid_map", put(path, map));
	(void)!write(go[1], "x", 1);
	step("it ends well", waitpid(pid, &status, 0) == pid && status == 0);
	step("the host is not written", open("/etc/sbx-made", O_CREAT |
	    O_WRONLY, 0600) < 0);
	step("the host is not mounted on", mount("tmpfs", "/mnt", "tmpfs", 0,
	    NULL) < 0);
	step("the host's network is not seen", socket(AF_PACKET, SOCK_RAW,
	    0) < 0);
	_exit(0);
}

/* The starter, and below it the engine, as in a suite. */
static void
suite(bool root)
{
	struct sbx_err err = { 0 };
	uint32_t features;
	int status;
	pid_t pid;

	if (!root && geteuid() == 0 && (setgroups(0, NULL) < 0 ||
	    setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
	    setresuid(NOBODY, NOBODY, NOBODY) < 0))
		_exit(1);
	if (sbx_privs_enter(SBX_PROC_STARTER, NULL, &features, &err) < 0)
		step(err.msg, false);
	if ((pid = fork()) == 0)
		engine();
	(void)waitpid(pid, &status, 0);
	_exit(0);
}

static void
run(bool root)
{
	char line[300];
	unsigned good = 0;
	FILE *f;
	pid_t pid;

	if (pipe(report) < 0)
		return;
	if ((pid = fork()) == 0)
		suite(root);
	(void)close(report[1]);
	f = fdopen(report[0], "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		good += ok(line[0] == '+', "started by %s: %s",
		    root ? "root" : "a user", line + 1);
	}
	(void)fclose(f);
	(void)waitpid(pid, NULL, 0);
	ok(good == 22, "started by %s: all steps were made",
	    root ? "root" : "a user");
}

int
main(void)
{
	tap_plan(0);
	if (!users_prepare()) {
		ok(false, "prepare: %s", strerror(errno));
		return tap_done();
	}
	run(false);
	if (geteuid() == 0)
		run(true);
	return tap_done();
}
