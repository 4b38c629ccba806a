/*
 * How many durable records a second the journal daemon commits: the real
 * program over a real channel, WINDOW records in flight, each answered after
 * its fdatasync.  And how long `sbx journal show -r RUN -n 100` takes on a
 * journal of so many MB that it wrote: for a run in the middle, and for one
 * whose few records are the first, so that all is looked at; from the page
 * cache, and from the disk; and (anew) when nothing is remembered of it yet.
 * Rival: grep.  Prints one JSON line a figure.
 *
 * usage: bench_journal [RECORDS [RUNS [MB]]]	(100000, 7, 200)
 * The journal is made below $TMPDIR (/tmp) and removed.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/proto/wire.h"

#define WINDOW 2048

static void
die(const char *what)
{
	fprintf(stderr, "bench_journal: %s: %s\n", what, strerror(errno));
	exit(2);
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

#define NOBODY 65534

/*
 * Started by root the daemon drops to its user, or ends when there is none:
 * then it is started as nobody.
 */
static bool
as_nobody(const char *dir)
{
	const struct passwd *pw;

	if (geteuid() != 0)
		return false;
	pw = getpwnam("sbx-journal");
	if (chown(dir, pw == NULL ? NOBODY : pw->pw_uid,
	    pw == NULL ? NOBODY : pw->pw_gid) < 0)
		die("chown");
	return pw == NULL;
}

/* Start the daemon; its channel is *ret_fd. */
static pid_t
start_daemon(const char *program, const char *dir, int *ret_fd)
{
	struct sbx_journald_start m = {
		.rotate_bytes = 64 << 20, .reserve_bytes = 1 << 20,
	};
	bool nobody = as_nobody(dir);
	int pair[2], dir_fd;
	pid_t pid;

	if (sbx_wire_pair(pair) < 0)
		die("socketpair");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		if (nobody && (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 ||
		    setuid(NOBODY) < 0))
			_exit(127);
		if (dup2(pair[1], 3) < 0 || fcntl(3, F_SETFD, 0) < 0)
			_exit(127);
		execl(program, "sbx-journald", (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0 || sbx_wire_send(pair[0], SBX_PROC_MONITOR,
	    SBX_MSG_JOURNALD_START, 0, &m, &dir_fd, 0) < 0)
		die("JOURNALD_START");
	close(dir_fd);
	*ret_fd = pair[0];
	return pid;
}

/* Take what is there; returns how many answers came. */
static unsigned
take_answers(int fd, struct sbx_in *in)
{
	unsigned n = 0;
	int r;

	while ((r = sbx_wire_recv(fd, SBX_PROC_MONITOR, SBX_PROC_JOURNALD, in,
	    MSG_DONTWAIT)) == 0) {
		if (in->hdr.type != SBX_MSG_JOURNAL_DONE)
			continue;
		if (in->m.journal_done.seq == 0) {
			fprintf(stderr, "bench_journal: refused: %s\n",
			    in->m.journal_done.reason);
			exit(2);
		}
		n++;
	}
	if (r != SBX_E_AGAIN)
		die("the daemon is gone");
	return n;
}

#define RUN_FIRST "aaaaaaaaaaaaaaaa"
#define RUN_MIDDLE "bbbbbbbbbbbbbbbb"
#define FEW 50
#define MANY 200

/* Of `records`: the first FEW, MANY in the middle, and runs of three. */
static void
name_run(char ret_run[SBX_RUN_HEX + 1], unsigned i, unsigned records)
{
	unsigned middle = records / 2;

	if (i < FEW)
		(void)sbx_strlcpy(ret_run, RUN_FIRST, SBX_RUN_HEX + 1);
	else if (i >= middle && i < middle + MANY)
		(void)sbx_strlcpy(ret_run, RUN_MIDDLE, SBX_RUN_HEX + 1);
	else
		(void)snprintf(ret_run, SBX_RUN_HEX + 1, "%016x", i / 3);
}

/* Append and have answered `records` records; returns records a second. */
static double
run(int fd, struct sbx_in *in, unsigned records)
{
	char name[SBX_RUN_HEX + 1];
	static const char fields[] =
	    "argv\0git push origin main\0tool\0sandbox_exec";
	struct sbx_journal_append a = {
		.flags = SBX_JOURNAL_DURABLE, .op = "exec", .phase = "start",
		.principal = "uid:1000", .container = "0123456789ab",
		.run = name,
		.fields = { fields, 4, sizeof(fields) },
	};
	struct pollfd pfd = { .fd = fd };
	unsigned sent = 0, answered = 0;
	uint64_t began = sbx_mono_ns();
	int r;

	while (answered < records) {
		for (r = 0; sent < records && sent - answered < WINDOW;
		    sent++) {
			name_run(name, sent, records);
			r = sbx_wire_send(fd, SBX_PROC_MONITOR,
			    SBX_MSG_JOURNAL_APPEND, sent + 1, &a, NULL,
			    MSG_DONTWAIT);
			if (r < 0)
				break;
		}
		if (r < 0 && r != SBX_E_AGAIN)
			die("JOURNAL_APPEND");
		pfd.events = r == SBX_E_AGAIN ? POLLIN | POLLOUT : POLLIN;
		if (poll(&pfd, 1, 10000) != 1)
			die("no answer");
		answered += take_answers(fd, in);
	}
	return records / ((double)(sbx_mono_ns() - began) / 1e9);
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static uint64_t
size_of(const char *dir)
{
	struct dirent *de;
	uint64_t sum = 0;
	struct stat st;
	DIR *d = opendir(dir);

	if (d == NULL)
		die("opendir");
	while ((de = readdir(d)) != NULL)
		if (de->d_name[0] == 'j' && fstatat(dirfd(d), de->d_name, &st,
		    AT_SYMLINK_NOFOLLOW) == 0)
			sum += (uint64_t)st.st_size;
	closedir(d);
	return sum;
}

/* Have the next read of the journal come from the disk. */
static void
forget(const char *dir)
{
	struct dirent *de;
	DIR *d = opendir(dir);
	int fd;

	if (d == NULL)
		die("opendir");
	while ((de = readdir(d)) != NULL) {
		fd = openat(dirfd(d), de->d_name, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && fsync(fd) == 0)
			(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		if (fd >= 0)
			close(fd);
	}
	closedir(d);
}

/* Milliseconds of a command whose output is thrown away. */
static double
command_ms(const char *shell)
{
	uint64_t began = sbx_mono_ns();
	int status;
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		if (freopen("/dev/null", "w", stdout) == NULL)
			_exit(127);
		execl("/bin/sh", "sh", "-c", shell, (char *)NULL);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0)
		die(shell);
	return (double)(sbx_mono_ns() - began) / 1e6;
}

struct question {
	const char *name, *run;
	bool cold, anew;
};

static void
ask(const char *build, const char *root, const char *dir, unsigned runs,
    const struct question *q)
{
	char *ours = sbx_xasprintf("SBX_ROOT=%s exec %s/sbx -s 0 journal show "
	    "-r %s -n 100 --json", root, build, q->run);
	char *theirs = sbx_xasprintf("cat %s/journal.*.jsonl | LC_ALL=C grep "
	    "-F '\"run_id\":\"%s\"' | tail -n 100", dir, q->run);
	char *cache = sbx_xasprintf("%s/cache", root);
	double *ms = sbx_xcalloc(2 * runs, sizeof(*ms));

	for (unsigned i = 0; i < runs; i++) {
		if (q->cold) {
			forget(dir);
			forget(cache);
		}
		/* nothing is remembered from the last time */
		if (q->anew)
			(void)nftw(cache, remove_one, 8, FTW_DEPTH | FTW_PHYS);
		ms[i] = command_ms(ours);
		if (q->cold)
			forget(dir);
		ms[runs + i] = command_ms(theirs);
	}
	qsort(ms, runs, sizeof(*ms), by_value);
	qsort(ms + runs, runs, sizeof(*ms), by_value);
	printf("{\"name\":\"%s\",\"unit\":\"ms\",\"median\":%.1f,\"runs\":%u,"
	    "\"min\":%.1f,\"max\":%.1f,\"journal_mb\":%.0f,"
	    "\"rival\":\"grep -F | tail\",\"rival_median\":%.1f}\n", q->name,
	    ms[runs / 2], runs, ms[0], ms[runs - 1],
	    (double)size_of(dir) / 1e6, ms[runs + runs / 2]);
	free(ms);
	free(cache);
	free(ours);
	free(theirs);
}

static void
ask_all(const char *build, const char *root, const char *dir, unsigned runs)
{
	static const struct question questions[] = {
		{ "journal_show_anew", RUN_FIRST, .anew = true },
		{ "journal_show_middle", RUN_MIDDLE },
		{ "journal_show_first", RUN_FIRST },
		{ "journal_show_first_cold", RUN_FIRST, .cold = true },
		{ "journal_show_cold_anew", RUN_FIRST, .cold = true,
		    .anew = true },
	};

	for (size_t i = 0; i < SBX_NELEM(questions); i++)
		ask(build, root, dir, runs, &questions[i]);
}

/* The journal of suite 0 below a root of its own, as the command line has it. */
static char *
make_journal(const char *root)
{
	static const char *const parts[] = { "state", "state/suite-0",
		"state/suite-0/journal" };
	char *path = NULL;

	if (chmod(root, 0755) < 0)
		die("chmod");
	for (size_t i = 0; i < SBX_NELEM(parts); i++) {
		free(path);
		path = sbx_xasprintf("%s/%s", root, parts[i]);
		if (mkdir(path, 0755) < 0)
			die(path);
	}
	return path;
}

int
main(int argc, char **argv)
{
	const char *build = getenv("SBX_BUILD"), *tmp = getenv("TMPDIR");
	char *program, *root, *dir;
	uint64_t records = 100000, runs = 7, mb = 200, i;
	struct sbx_in *in;
	double *rates;
	pid_t pid;
	int fd;

	if ((argc > 1 && sbx_parse_u64(argv[1], 1, 10000000, &records) < 0) ||
	    (argc > 2 && sbx_parse_u64(argv[2], 1, 1000, &runs) < 0) ||
	    (argc > 3 && sbx_parse_u64(argv[3], 1, 10000, &mb) < 0))
		return 1;
	build = build ? build : ".";
	program = sbx_xasprintf("%s/sbx-journald", build);
	root = sbx_xasprintf("%s/bench_journal.XXXXXX", tmp ? tmp : "/tmp");
	if (mkdtemp(root) == NULL)
		die("mkdtemp");
	dir = make_journal(root);
	in = sbx_xcalloc(1, sizeof(*in));
	rates = sbx_xcalloc(runs, sizeof(*rates));
	pid = start_daemon(program, dir, &fd);
	(void)run(fd, in, (unsigned)records / 10 + 1);	/* warm up */
	for (i = 0; i < runs; i++)
		rates[i] = run(fd, in, (unsigned)records);
	close(fd);
	(void)waitpid(pid, NULL, 0);
	qsort(rates, runs, sizeof(*rates), by_value);
	printf("{\"name\":\"journal_durable_grouped\",\"unit\":\"records/s\","
	    "\"median\":%.0f,\"runs\":%u,\"min\":%.0f,\"max\":%.0f}\n",
	    rates[runs / 2], (unsigned)runs, rates[0], rates[runs - 1]);
	(void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	if (mkdir(dir, 0755) < 0)
		die(dir);
	pid = start_daemon(program, dir, &fd);
	/* 356 bytes is what one of these records takes */
	(void)run(fd, in, (unsigned)(mb * 1000000 / 356));
	close(fd);
	(void)waitpid(pid, NULL, 0);
	ask_all(build, root, dir, (unsigned)runs);
	(void)nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(program);
	free(root);
	free(dir);
	free(rates);
	free(in);
	return 0;
}
