/*
 * How many durable records a second the journal daemon commits: the real
 * program over a real channel, WINDOW records in flight, each answered after
 * its fdatasync.  Prints one JSON line.
 *
 * usage: bench_journal [RECORDS [RUNS]]	(100000, 7)
 * The journal is made below $TMPDIR (/tmp) and removed.
 */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Append and have answered `records` records; returns records a second. */
static double
run(int fd, struct sbx_in *in, unsigned records)
{
	static const char fields[] =
	    "argv\0git push origin main\0tool\0sandbox_exec";
	struct sbx_journal_append a = {
		.flags = SBX_JOURNAL_DURABLE, .op = "exec", .phase = "start",
		.principal = "uid:1000", .container = "0123456789ab",
		.run = "0123456789abcdef",
		.fields = { fields, 4, sizeof(fields) },
	};
	struct pollfd pfd = { .fd = fd };
	unsigned sent = 0, answered = 0;
	uint64_t began = sbx_mono_ns();
	int r;

	while (answered < records) {
		r = 0;
		while (sent < records && sent - answered < WINDOW &&
		    (r = sbx_wire_send(fd, SBX_PROC_MONITOR,
		    SBX_MSG_JOURNAL_APPEND, sent + 1, &a, NULL,
		    MSG_DONTWAIT)) == 0)
			sent++;
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

int
main(int argc, char **argv)
{
	const char *build = getenv("SBX_BUILD"), *tmp = getenv("TMPDIR");
	char *program, *dir;
	uint64_t records = 100000, runs = 7, i;
	struct sbx_in *in;
	double *rates;
	pid_t pid;
	int fd;

	if ((argc > 1 && sbx_parse_u64(argv[1], 1, 10000000, &records) < 0) ||
	    (argc > 2 && sbx_parse_u64(argv[2], 1, 1000, &runs) < 0))
		return 1;
	program = sbx_xasprintf("%s/sbx-journald", build ? build : ".");
	dir = sbx_xasprintf("%s/bench_journal.XXXXXX", tmp ? tmp : "/tmp");
	if (mkdtemp(dir) == NULL)
		die("mkdtemp");
	in = sbx_xcalloc(1, sizeof(*in));
	rates = sbx_xcalloc(runs, sizeof(*rates));
	pid = start_daemon(program, dir, &fd);
	(void)run(fd, in, (unsigned)records / 10 + 1);	/* warm up */
	for (i = 0; i < runs; i++)
		rates[i] = run(fd, in, (unsigned)records);
	close(fd);
	(void)waitpid(pid, NULL, 0);
	(void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	qsort(rates, runs, sizeof(*rates), by_value);
	printf("{\"name\":\"journal_durable_grouped\",\"unit\":\"records/s\","
	    "\"median\":%.0f,\"runs\":%u,\"min\":%.0f,\"max\":%.0f}\n",
	    rates[runs / 2], (unsigned)runs, rates[0], rates[runs - 1]);
	free(program);
	free(dir);
	free(rates);
	free(in);
	return 0;
}
