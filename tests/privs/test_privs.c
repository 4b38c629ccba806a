/*
 * Every row of the privilege table, tried: for each row and each attempt a
 * child enters the row and tries; how it ends is compared with attempts.c.
 * Started by root, all is done twice, as root and as an ordinary user.
 */

#include "tests/privs/attempts.h"

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <ftw.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>

#include "common/base/limits.h"
#include "common/privs/row.h"
#include "config.h"
#include "tests/privs/users.h"
#include "tests/tap.h"

#define NOBODY 65534
#define EXIT_ENTER 250	/* the row could not be entered */
#define EXIT_SIGSYS 251	/* the zygote's worker was killed */

/* Whose uid a row has when root starts it: an index of users_names, -1 for
 * root itself, -2 for the caller it works for. */
static const int row_user[SBX_PROC_MAX] = {
	[SBX_PROC_MONITOR] = 0, [SBX_PROC_STARTER] = -1,
	[SBX_PROC_ENGINE] = 0, [SBX_PROC_RECORDER] = 0,
	[SBX_PROC_JOURNALD] = 4, [SBX_PROC_BROKER] = 2,
	[SBX_PROC_PROXY] = 3, [SBX_PROC_ZYGOTE] = 1, [SBX_PROC_FRONT] = 1,
	[SBX_PROC_WORKER] = 1, [SBX_PROC_COPYIN] = -2, [SBX_PROC_INIT] = -1,
	[SBX_PROC_COURIER] = 2, [SBX_PROC_JUDGE] = 0,
	[SBX_PROC_ENGINE_DOCKER] = 0, [SBX_PROC_CLI] = -1,
	[SBX_PROC_IMAGE] = 0, [SBX_PROC_COMMAND] = 5,
};

static char top[] = "/tmp/sbx-privs.XXXXXX";
static char outside[64];
static int landlock_abi;

static uid_t
uid_of(enum sbx_proc proc, bool root)
{
	if (!root)
		return geteuid() == 0 ? NOBODY : geteuid();
	if (row_user[proc] == -2)
		return NOBODY;
	return row_user[proc] < 0 ? 0 :
	    (uid_t)(USERS_FIRST + row_user[proc]);
}

static void
become(uid_t uid)
{
	if (geteuid() == 0 && uid != 0 && (setgroups(0, NULL) < 0 ||
	    setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0))
		_exit(EXIT_ENTER);
}

/* One that does nothing, under uid, not dumpable like all of the suite. */
static pid_t
start_sibling(uid_t uid)
{
	int p[2];
	char c;
	pid_t pid;

	if (pipe(p) < 0)
		return -1;
	if ((pid = fork()) == 0) {
		become(uid);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)prctl(PR_SET_DUMPABLE, 0);
		(void)!write(p[1], "x", 1);
		for (;;)
			(void)pause();
	}
	(void)close(p[1]);
	(void)!read(p[0], &c, 1);
	(void)close(p[0]);
	return pid;
}

static void
stop_sibling(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

/* The row's directory: fresh for each attempt, owned by the row's uid. */
static int
make_dir(uid_t uid)
{
	static unsigned n;
	char path[100];
	int dir, fd;

	(void)snprintf(path, sizeof(path), "%s/d%u", top, n++);
	if (mkdir(path, 0700) < 0 ||
	    (dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return -1;
	fd = openat(dir, "there", O_CREAT | O_WRONLY, 0600);
	if (fd < 0 || write(fd, "text", 4) != 4 ||
	    (geteuid() == 0 && (fchown(fd, uid, uid) < 0 ||
	    fchown(dir, uid, uid) < 0)))
		return -1;
	(void)close(fd);
	return dir;
}

static int
listen_tcp(int *ret_port)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&in, len) < 0 ||
	    listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)&in, &len) < 0)
		return -1;
	*ret_port = ntohs(in.sin_port);
	return fd;
}

static int
listen_abstract(const char *name)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	memcpy(un.sun_path + 1, name, strlen(name));
	if (fd < 0 || bind(fd, (struct sockaddr *)&un,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
	    strlen(name))) < 0 || listen(fd, 64) < 0)
		return -1;
	return fd;
}

static int
enter(enum sbx_proc proc, bool root, int dir, bool trap)
{
	const struct sbx_privs_row *row = sbx_privs_row(proc);
	/* a row with two directories: twice the same one */
	const int dirs[SBX_PRIVS_DIRS_MAX] = { dir, dir };
	struct sbx_privs_args args = { .dir_fds = dirs, .trap = trap };
	struct sbx_err err = { 0 };
	uint32_t features;
	int r;

	if (!root && geteuid() == 0)
		become(uid_of(proc, false));
	while (args.ndir_fds < SBX_PRIVS_DIRS_MAX &&
	    row->dirs[args.ndir_fds].what != NULL)
		args.ndir_fds++;
	args.uid = uid_of(proc, root);
	args.gid = root ? args.uid : getegid();
	if ((r = sbx_privs_enter(proc, &args, &features, &err)) < 0)
		printf("# %s: %s\n", sbx_proc_name(proc), err.msg);
	return r;
}

/* In a zygote: fork a worker, end as it ends. */
static void
fork_worker(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		return;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		_exit(EXIT_ENTER);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) :
	    WTERMSIG(status) == SIGSYS ? EXIT_SIGSYS :
	    WTERMSIG(status) == SIGABRT ? 0 : EXIT_ENTER);
}

/* The wait status of an attempt.  nested: as the zygote's fork. */
static int
run(enum sbx_proc proc, bool root, bool nested, const struct attempt *a,
    struct stage *st)
{
	int status, r;
	pid_t pid;

	if ((pid = fork()) == 0) {
		if (nested) {
			if (enter(SBX_PROC_ZYGOTE, root, -1, false) < 0)
				_exit(EXIT_ENTER);
			fork_worker();
		}
		if (enter(proc, root && !nested, st->dir, false) < 0)
			_exit(EXIT_ENTER);
		r = a->fn(st);
		_exit(r < EXIT_ENTER ? r : EXIT_ENTER - 1);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static char
verdict(const struct attempt *a, int status)
{
	int code;

	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGSYS ? 'K' :
		    WTERMSIG(status) == SIGABRT ? 'A' : '?';
	code = WEXITSTATUS(status);
	if (code == EXIT_SIGSYS)
		return 'K';
	if (code == 0)
		return 'A';
	return code == a->errors[0] || (a->errors[1] != 0 &&
	    code == a->errors[1]) ? 'E' : '?';
}

static bool
as_expected(char want, char got)
{
#ifdef SBX_SANITIZERS
	/* openat is let through for reports, and then refused by Landlock */
	if (want == 'K' && (got == '?' || got == 'E'))
		return true;
#endif
	return want == got;
}

static void
try_row(enum sbx_proc proc, bool root, bool nested, struct stage *st)
{
	const struct attempt *a;

	for (a = attempts; a->name != NULL; a++) {
		char want = root && a->root ? a->root[proc] : a->user[proc];
		char got;
		int status;

		if (want == '-')
			continue;
		/* refused by the zygote's filter, which is the outer one */
		if (nested && a->own_signals)
			want = 'K';
		if (want == 'E' && landlock_abi < a->abi)
			want = 'A';
		st->sibling = start_sibling(uid_of(proc, root));
		st->dir = make_dir(uid_of(proc, root));
		st->tcp = socket(AF_INET, SOCK_STREAM, 0);
		st->unix_fd = socket(AF_UNIX, SOCK_STREAM, 0);
		status = run(proc, root, nested, a, st);
		got = verdict(a, status);
		if (!ok(as_expected(want, got), "%s%s, started by %s: %s: %s",
		    nested ? "zygote's " : "", sbx_proc_name(proc),
		    root ? "root" : "a user", a->name,
		    want == 'K' ? "killed" : want == 'E' ? "refused" :
		    "allowed"))
			printf("# got %c, status 0x%x (%s)\n", got, status,
			    WIFEXITED(status) ? strerror(WEXITSTATUS(status)) :
			    "signal");
		stop_sibling(st->sibling);
		(void)close(st->dir);
		(void)close(st->tcp);
		(void)close(st->unix_fd);
	}
}

/* --- more than one attempt each --------------------------------------------- */

/* A child in its row, whose parent is killed: it must end at once. */
static void
try_parent_death(enum sbx_proc proc, bool root)
{
	int p[2], dir = make_dir(uid_of(proc, root));
	struct pollfd pfd = { .events = POLLIN };
	char c = 0;
	pid_t pid;

	if (pipe(p) < 0 || (pid = fork()) < 0)
		return;
	if (pid == 0) {
		(void)close(p[0]);
		if (fork() == 0) {
			if (enter(proc, root, dir, false) == 0)
				(void)!write(p[1], "x", 1);
			for (;;)
				(void)poll(NULL, 0, -1);
		}
		for (;;)
			(void)pause();
	}
	(void)close(p[1]);
	(void)close(dir);
	ok(read(p[0], &c, 1) == 1 && c == 'x', "%s enters below a parent",
	    sbx_proc_name(proc));
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	pfd.fd = p[0];
	ok(poll(&pfd, 1, 3000) == 1 && read(p[0], &c, 1) == 0,
	    "%s dies with its parent", sbx_proc_name(proc));
	(void)close(p[0]);
}

static void
try_limits(enum sbx_proc proc, bool root)
{
	struct rlimit before, lim[2];
	int p[2], dir = make_dir(uid_of(proc, root));
	rlim_t want;
	pid_t pid;

	if (getrlimit(RLIMIT_NOFILE, &before) < 0 || pipe(p) < 0)
		return;
	if ((pid = fork()) == 0) {
		if (enter(proc, root, dir, false) < 0 ||
		    getrlimit(RLIMIT_NOFILE, &lim[0]) < 0 ||
		    getrlimit(RLIMIT_CORE, &lim[1]) < 0)
			_exit(1);
		(void)!write(p[1], lim, sizeof(lim));
		_exit(0);
	}
	(void)close(p[1]);
	memset(lim, 0xff, sizeof(lim));
	(void)!read(p[0], lim, sizeof(lim));
	(void)close(p[0]);
	(void)close(dir);
	(void)waitpid(pid, NULL, 0);
	want = proc == SBX_PROC_ENGINE || proc == SBX_PROC_RECORDER ||
	    proc == SBX_PROC_PROXY || proc == SBX_PROC_INIT || before.rlim_max < 4096 ?
	    before.rlim_max : 4096;
	ok(lim[0].rlim_cur == want, "%s: %llu descriptors",
	    sbx_proc_name(proc), (unsigned long long)want);
	ok(lim[1].rlim_max <= SBX_CORE_NEVER, "%s: no core",
	    sbx_proc_name(proc));
}

/* The one kill that the zygote may do: of its own workers. */
static void
try_zygote_kill(bool root)
{
	int status = 0, st;
	pid_t pid;

	if ((pid = fork()) == 0) {
		pid_t worker;

		if (enter(SBX_PROC_ZYGOTE, root, -1, false) < 0)
			_exit(1);
		if ((worker = fork()) == 0) {
			if (enter(SBX_PROC_WORKER, false, -1, false) < 0)
				_exit(1);
			for (;;)
				(void)poll(NULL, 0, -1);
		}
		(void)poll(NULL, 0, 20);
		_exit(kill(worker, SIGKILL) == 0 &&
		    waitpid(worker, &st, 0) == worker && WIFSIGNALED(st) &&
		    WTERMSIG(st) == SIGKILL ? 0 : 2);
	}
	(void)waitpid(pid, &status, 0);
	ok(status == 0, "the zygote can kill its worker");
}

static void
try_trap(bool root)
{
	char text[200] = "";
	int p[2], status = 0;
	ssize_t n;
	pid_t pid;

	if (pipe(p) < 0)
		return;
	if ((pid = fork()) == 0) {
		(void)dup2(p[1], STDERR_FILENO);
		if (enter(SBX_PROC_WORKER, root, -1, true) < 0)
			_exit(EXIT_ENTER);
		(void)syscall(SYS_mkdir, "/tmp/x", 0700);
		_exit(0);
	}
	(void)close(p[1]);
	(void)waitpid(pid, &status, 0);
	n = read(p[0], text, sizeof(text) - 1);
	(void)close(p[0]);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 2 && n > 0 &&
	    strstr(text, "mkdir\n") != NULL,
	    "with -d, the refused call is named");
}

/* enter() in a child that then ends: the error it got, as exit status. */
static int
enter_error(enum sbx_proc proc, const struct sbx_privs_args *args,
    const char *sentence)
{
	struct sbx_err err = { 0 };
	uint32_t features;
	int status = 0, r;
	pid_t pid = fork();

	if (pid == 0) {
		r = sbx_privs_enter(proc, args, &features, &err);
		_exit(r < 0 && strstr(err.msg, sentence) != NULL ? -r : 0);
	}
	(void)waitpid(pid, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : 1;
}

/* The caller may be root itself: it reads what root owns, and overrides
 * nothing. */
static bool
copy_as_root(void)
{
	int to[2], from[2], dir = open("/usr", O_PATH | O_DIRECTORY);
	struct sbx_privs_args args = { .dir_fds = &dir, .ndir_fds = 1 };
	char path[64], text[4096] = "", c;
	struct sbx_err err;
	uint32_t features;
	FILE *f;
	pid_t pid;

	if (pipe(to) < 0 || pipe(from) < 0 || (pid = fork()) < 0)
		return false;
	if (pid == 0) {
		(void)close(to[1]);
		if (sbx_privs_enter(SBX_PROC_COPYIN, &args, &features,
		    &err) == 0 && write(from[1], "i", 1) == 1)
			(void)!read(to[0], &c, 1); /* until it was looked at */
		_exit(0);
	}
	(void)close(from[1]);
	if (read(from[0], &c, 1) == 1) {
		(void)snprintf(path, sizeof(path), "/proc/%d/status",
		    (int)pid);
		if ((f = fopen(path, "r")) != NULL) {
			text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
			(void)fclose(f);
		}
	}
	(void)close(to[0]);
	(void)close(to[1]);
	(void)close(from[0]);
	(void)close(dir);
	(void)waitpid(pid, NULL, 0);
	return strstr(text, "Uid:\t0\t0\t0\t0\n") != NULL &&
	    strstr(text, "CapPrm:\t0000000000000000\n") != NULL &&
	    strstr(text, "CapEff:\t0000000000000000\n") != NULL;
}

static void
try_errors(void)
{
	struct sbx_privs_args args = { 0 };

	ok(enter_error(SBX_PROC_RECORDER, &args, "directories") == SBX_E_SYS,
	    "a missing directory is an error");
	ok(enter_error(SBX_PROC_MAX, &args, "row") == SBX_E_RANGE,
	    "a process without a row is an error");
	if (geteuid() != 0) {
		args.uid = args.gid = geteuid() + 1;
		ok(enter_error(SBX_PROC_COPYIN, &args, "root") ==
		    SBX_E_POLICY, "only root can read for another uid");
		return;
	}
	ok(copy_as_root(), "copying for root is done as uid 0 without any "
	    "capability");
	/* a user database that has root only */
	if (unshare(CLONE_NEWNS) == 0 &&
	    mount("/dev/null", "/etc/passwd", NULL, MS_BIND, NULL) == 0)
		ok(enter_error(SBX_PROC_PROXY, &args, "useradd") == SBX_E_SYS,
		    "a missing user is an error, with the mend");
}

static int
remove_one(const char *path, const struct stat *sb, int flag, struct FTW *ftw)
{
	(void)sb;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static bool
prepare(struct stage *st)
{
	static char name[100];

	if (!users_prepare() || mkdtemp(top) == NULL || chmod(top, 0755) < 0)
		return false;
	(void)snprintf(outside, sizeof(outside), "%s/outside", top);
	if (mkdir(outside, 0700) < 0 || chmod(outside, 0777) < 0)
		return false;
	(void)snprintf(name, sizeof(name), "sbx-privs-%d", (int)getpid());
	st->outside = outside;
	st->abstract = name;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, st->chan) < 0 ||
	    listen_tcp(&st->tcp_port) < 0 || listen_abstract(name) < 0)
		return false;
	(void)snprintf(name, sizeof(name), "%s/there", outside);
	(void)close(open(name, O_CREAT | O_WRONLY, 0644));
	(void)chmod(name, 0644);
	(void)snprintf(name, sizeof(name), "sbx-privs-%d", (int)getpid());
	return true;
}

int
main(void)
{
	struct stage st = { .dir = -1 };
	bool privileged = geteuid() == 0;
	int why;

	(void)alarm(240); /* nothing here may wait for ever */
	tap_plan(0);
	landlock_abi = sbx_privs_landlock_abi(&why);
	if (!prepare(&st)) {
		ok(false, "prepare: %s", strerror(errno));
		return tap_done();
	}
	for (int root = 0; root <= privileged; root++) {
		for (int p = 0; p < SBX_PROC_MAX; p++) {
			try_row((enum sbx_proc)p, root, false, &st);
			try_limits((enum sbx_proc)p, root);
			if (sbx_privs_row((enum sbx_proc)p)->flags &
			    SBX_ROW_DIES)
				try_parent_death((enum sbx_proc)p, root);
		}
		try_row(SBX_PROC_WORKER, root, true, &st);
		try_zygote_kill(root);
		try_trap(root);
	}
	(void)nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	try_errors();
	return tap_done();
}
