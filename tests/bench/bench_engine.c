/*
 * How long a sandbox takes to make, against `bwrap --unshare-all`; and a
 * command in one, against fork and exec.  One JSON line a figure, in
 * microseconds; never a verdict.
 *
 *	bench_engine [rounds]
 *
 * Programs are looked up in $SBX_BUILD.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/proto/wire.h"

#define WAIT_MS 20000
#define MAX_ROUNDS 1000

static struct sbx_chan monitor;
static int recorder = -1;
static uint64_t times[MAX_ROUNDS];
static char scratch[] = "/tmp/sbx-bench.XXXXXX";
static pid_t engine_pid;

static _Noreturn void
give_up(const char *what)
{
	fprintf(stderr, "bench_engine: %s: %s\n", what, strerror(errno));
	if (engine_pid > 0)
		(void)kill(engine_pid, SIGKILL);
	exit(1);
}

static int
by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x < *y ? -1 : *x > *y);
}

static void
print(const char *name, unsigned n)
{
	qsort(times, n, sizeof(times[0]), by_size);
	printf("{\"bench\":\"%s\",\"rounds\":%u,\"median_us\":%llu,"
	    "\"p95_us\":%llu,\"min_us\":%llu}\n", name, n,
	    (unsigned long long)times[n / 2] / 1000,
	    (unsigned long long)times[n * 95 / 100] / 1000,
	    (unsigned long long)times[0] / 1000);
	(void)fflush(stdout);
}

/* The next message of that type; others pass by. */
static void
want(uint16_t type)
{
	do
		if (sbx_chan_recv(&monitor, WAIT_MS) != 0)
			give_up(sbx_msg_specs[type].name);
	while (monitor.in->hdr.type != type);
}

static void
start_engine(const char *build)
{
	struct sbx_engine_start m = { .nofile_hard = 512, .nproc = 200 };
	struct sbx_introduce in = { .peer = SBX_PROC_RECORDER };
	char program[512], init[512];
	int ch[2], rec[2], fds[4];

	(void)snprintf(program, sizeof(program), "%s/sbxd-engine", build);
	(void)snprintf(init, sizeof(init), "%s/sbx-init", build);
	if (sbx_wire_pair(ch) != 0 || sbx_wire_pair(rec) != 0)
		give_up("socketpair");
	if ((engine_pid = fork()) == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)dup2(ch[1], 3);
		(void)execl(program, program, (char *)NULL);
		_exit(127);
	}
	(void)close(ch[1]);
	sbx_chan_init(&monitor, ch[0], SBX_PROC_MONITOR, SBX_PROC_ENGINE);
	fds[0] = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fds[1] = open(init, O_PATH | O_CLOEXEC);
	fds[2] = fds[0];
	fds[3] = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	if (fds[0] == -1 || fds[1] == -1 || fds[3] == -1)
		give_up(init);
	if (sbx_chan_send(&monitor, SBX_MSG_ENGINE_START, 0, &m, fds,
	    WAIT_MS) != 0)
		give_up("ENGINE_START");
	want(SBX_MSG_HELLO);
	if (sbx_chan_send(&monitor, SBX_MSG_INTRODUCE, 0, &in, &rec[1],
	    WAIT_MS) != 0)
		give_up("INTRODUCE");
	recorder = rec[0];
	(void)close(rec[1]);
	(void)close(fds[0]);
	(void)close(fds[1]);
	(void)close(fds[3]);
}

static void
create(const char *id)
{
	struct sbx_sandbox_create m = { .container = id, .image = "host" };

	if (sbx_chan_send(&monitor, SBX_MSG_SANDBOX_CREATE, 1, &m, NULL,
	    WAIT_MS) != 0)
		give_up("SANDBOX_CREATE");
	do
		if (sbx_chan_recv(&monitor, WAIT_MS) != 0)
			give_up("SANDBOX_READY");
	while (monitor.in->hdr.type != SBX_MSG_SANDBOX_READY &&
	    monitor.in->hdr.type != SBX_MSG_SANDBOX_ENDED);
	if (monitor.in->hdr.type == SBX_MSG_SANDBOX_ENDED) {
		fprintf(stderr, "%s\n", monitor.in->m.sandbox_ended.reason);
		give_up("create");
	}
}

static void
stop(const char *id)
{
	struct sbx_sandbox_stop m = { .container = id };

	if (sbx_chan_send(&monitor, SBX_MSG_SANDBOX_STOP, 2, &m, NULL,
	    WAIT_MS) != 0)
		give_up("SANDBOX_STOP");
	want(SBX_MSG_SANDBOX_ENDED);
}

/* Throw away what the recorder would get. */
static void
drop_recorder(void)
{
	static struct sbx_in in;

	while (sbx_wire_recv(recorder, SBX_PROC_RECORDER, SBX_PROC_ENGINE, &in,
	    MSG_DONTWAIT) == 0)
		sbx_in_clear(&in);
}

static void
exec_true(const char *id, unsigned n)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char run[17];
	struct sbx_engine_exec m = { .container = id, .run = run,
		.cwd = "/workspace" };
	int SBX_CLEANUP(fd) null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)snprintf(run, sizeof(run), "%016x", n);
	sbx_buf_init(&b, 256);
	if (sbx_strs_add(&m.argv, &b, "/bin/true") != 0 ||
	    sbx_chan_send(&monitor, SBX_MSG_ENGINE_EXEC, 3, &m, &null_fd,
	    WAIT_MS) != 0)
		give_up("ENGINE_EXEC");
	want(SBX_MSG_ENGINE_EXITED);
	drop_recorder();
}

/* pause_us: between two of them, as callers have it; 0: what can be made ahead
 * is not. */
static void
bench_create(const char *name, unsigned n, unsigned pause_us)
{
	char id[13];

	for (unsigned i = 0; i < n; i++) {
		uint64_t t;

		(void)usleep(pause_us);
		t = sbx_mono_ns();
		(void)snprintf(id, sizeof(id), "%012x", i);
		create(id);
		times[i] = sbx_mono_ns() - t;
		stop(id);
	}
	print(name, n);
}

static void
spawn(char *const argv[])
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		(void)execvp(argv[0], argv);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0) {
		errno = ENOENT;
		give_up(argv[0]);
	}
}

static void
bench_spawn(const char *name, unsigned n, char *const argv[])
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t t = sbx_mono_ns();

		spawn(argv);
		times[i] = sbx_mono_ns() - t;
	}
	print(name, n);
}

int
main(int argc, char **argv)
{
	char *bwrap[] = { (char[]){ "bwrap" }, (char[]){ "--unshare-all" },
		(char[]){ "--ro-bind" }, (char[]){ "/" }, (char[]){ "/" },
		(char[]){ "true" }, NULL };
	char *plain[] = { (char[]){ "/bin/true" }, NULL };
	const char *build = getenv("SBX_BUILD");
	char id[13];
	uint64_t rounds = 50;
	unsigned n;

	if (argc > 1 && sbx_parse_u64(argv[1], 1, MAX_ROUNDS, &rounds) != 0)
		return (1);
	n = (unsigned)rounds;
	if (mkdtemp(scratch) == NULL)
		give_up("mkdtemp");
	if (geteuid() == 0)	/* the engine drops to a user of its own */
		(void)chmod(scratch, 01777);
	start_engine(build != NULL ? build : ".");
	bench_create("create", n, 100000);
	bench_create("create_burst", n, 0);
	create("aaaaaaaaaaaa");
	for (unsigned i = 0; i < n; i++) {
		uint64_t t = sbx_mono_ns();

		exec_true("aaaaaaaaaaaa", i);
		times[i] = sbx_mono_ns() - t;
	}
	print("exec_true", n);
	for (unsigned i = 0; i < n; i++) {
		uint64_t t;

		(void)snprintf(id, sizeof(id), "b%011x", i);
		create(id);
		t = sbx_mono_ns();
		stop(id);
		times[i] = sbx_mono_ns() - t;
	}
	print("stop", n);
	sbx_chan_clear(&monitor);
	(void)waitpid(engine_pid, NULL, 0);
	engine_pid = 0;
	bench_spawn("fork_exec_true", n, plain);
	if (access("/usr/bin/bwrap", X_OK) == 0)
		bench_spawn("bwrap_true", n, bwrap);
	spawn((char *[]){ (char[]){ "rm" }, (char[]){ "-rf" }, scratch, NULL });
	return (0);
}
