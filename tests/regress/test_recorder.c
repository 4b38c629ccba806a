/* The recorder, with the test as its monitor and its engine. */

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/proto/wire.h"
#include "tests/privs/users.h"
#include "tests/tap.h"

#define K 1024ull
#define M (1024 * K)
#define G (1024 * M)
#define ANSWER_MS 5000

struct rec {
	struct sbx_chan mon, eng;
	pid_t pid;
	int dir;		/* borrowed */
	uint64_t run_cap, total_cap;
	int logs;		/* LOG records seen */
};

static char dir_path[] = "/tmp/sbx-recorder.XXXXXX";

/* --- the recorder -------------------------------------------------------------- */

/* The next record that is no LOG.  0 or an error. */
static int
next_in(struct rec *r, int ms)
{
	int error;

	while ((error = sbx_chan_recv(&r->mon, ms)) == 0 &&
	    r->mon.in->hdr.type == SBX_MSG_LOG) {
		r->logs++;
		printf("# %s\n", r->mon.in->m.log.text);
	}
	return error;
}

static struct sbx_in *
ask(struct rec *r, uint16_t type, const void *msg, uint16_t want)
{
	static uint32_t id;
	int error;

	if (sbx_chan_send(&r->mon, type, ++id, msg, NULL, 1000) != 0)
		return NULL;
	error = next_in(r, ANSWER_MS);
	if (error != 0 || r->mon.in->hdr.id != id ||
	    (r->mon.in->hdr.type != want && want != 0))
		return NULL;
	return r->mon.in;
}

static bool
rec_start(struct rec *r, bool fresh)
{
	const char *build = getenv("SBX_BUILD");
	SBX_CLEANUP(free) char *path = sbx_xasprintf("%s/sbxd-recorder",
	    build != NULL ? build : ".");
	struct sbx_recorder_start s = { .fresh = fresh,
		.run_cap_bytes = r->run_cap, .total_cap_bytes = r->total_cap };
	struct sbx_introduce intro = { .peer = SBX_PROC_ENGINE };
	int pair[2];

	if (sbx_wire_pair(pair) < 0 || (r->pid = fork()) < 0)
		return false;
	if (r->pid == 0) {
		(void)dup2(pair[1], 3);
		(void)execl(path, "sbxd-recorder", NULL);
		_exit(127);
	}
	(void)close(pair[1]);
	sbx_chan_init(&r->mon, pair[0], SBX_PROC_MONITOR, SBX_PROC_RECORDER);
	if (sbx_chan_send(&r->mon, SBX_MSG_RECORDER_START, 0, &s, &r->dir,
	    1000) != 0 || next_in(r, ANSWER_MS) != 0 ||
	    r->mon.in->hdr.type != SBX_MSG_HELLO || sbx_wire_pair(pair) < 0)
		return false;
	if (sbx_chan_send(&r->mon, SBX_MSG_INTRODUCE, 0, &intro, &pair[1],
	    1000) != 0)
		return false;
	(void)close(pair[1]);
	sbx_chan_init(&r->eng, pair[0], SBX_PROC_ENGINE, SBX_PROC_RECORDER);
	return true;
}

/* The wait status within 2 s, or -1. */
static int
rec_wait(struct rec *r)
{
	int status = -1, i;

	for (i = 0; i < 400; i++) {
		if (waitpid(r->pid, &status, WNOHANG) == r->pid)
			break;
		(void)poll(NULL, 0, 5);
		status = -1;
	}
	if (i == 400) {
		(void)kill(r->pid, SIGKILL);
		(void)waitpid(r->pid, &status, 0);
		status = -1;
	}
	sbx_chan_clear(&r->mon);
	sbx_chan_clear(&r->eng);
	return status;
}

static void
rec_kill(struct rec *r)
{
	(void)kill(r->pid, SIGKILL);
	(void)rec_wait(r);
}

static bool
rec_stop(struct rec *r)
{
	struct sbx_shutdown s = { 0 };

	(void)sbx_chan_send(&r->mon, SBX_MSG_SHUTDOWN, 0, &s, NULL, 1000);
	return rec_wait(r) == 0;
}

/* --- runs ---------------------------------------------------------------------- */

struct pipes {
	int out[2], err[2];
	char id[SBX_RUN_HEX + 1];
};

static void
pipes_make(struct pipes *p)
{
	if (pipe2(p->out, O_CLOEXEC) < 0 || pipe2(p->err, O_CLOEXEC) < 0)
		abort();
	sbx_random_hex(p->id, SBX_RUN_HEX / 2);
}

static bool
pipes_open(struct rec *r, struct pipes *p)
{
	struct sbx_run_open m = { .run = p->id };
	int fds[2] = { p->out[0], p->err[0] };

	return sbx_chan_send(&r->eng, SBX_MSG_RUN_OPEN, 0, &m, fds,
	    1000) == 0;
}

static void
pipes_close_writers(struct pipes *p)
{
	sbx_close(&p->out[1]);
	sbx_close(&p->err[1]);
}

static void
pipes_close(struct pipes *p)
{
	pipes_close_writers(p);
	sbx_close(&p->out[0]);
	sbx_close(&p->err[0]);
}

/* As the monitor does it: again while the run is not known. */
static struct sbx_run_finished *
finish(struct rec *r, const char *id)
{
	struct sbx_run_finish m = { .run = id };
	struct sbx_in *in;
	int i;

	for (i = 0; i < 200; i++) {
		in = ask(r, SBX_MSG_RUN_FINISH, &m, SBX_MSG_RUN_FINISHED);
		if (in == NULL || in->m.run_finished.known)
			return in == NULL ? NULL : &in->m.run_finished;
		(void)poll(NULL, 0, 10);
	}
	return NULL;
}

static struct sbx_run_stats *
stats(struct rec *r, const char *id)
{
	struct sbx_run_stat m = { .run = id };
	struct sbx_in *in = ask(r, SBX_MSG_RUN_STAT, &m, SBX_MSG_RUN_STATS);

	return in == NULL ? NULL : &in->m.run_stats;
}

/* Wait until so much of stdout is stored. */
static bool
stored(struct rec *r, const char *id, uint64_t bytes)
{
	struct sbx_run_stats *st;
	int i;

	for (i = 0; i < 500; i++) {
		st = stats(r, id);
		if (st == NULL)
			return false;
		if (st->out_bytes >= bytes)
			return true;
		(void)poll(NULL, 0, 4);
	}
	return false;
}

/* Byte `at` of every stream that a test writes. */
static unsigned char
byte_at(uint64_t at)
{
	return (unsigned char)((at * 2654435761u) >> 13 ^ at);
}

static void
fill(unsigned char *buf, size_t n, uint64_t at)
{
	size_t i;

	for (i = 0; i < n; i++)
		buf[i] = byte_at(at + i);
}

struct check {
	uint64_t total, kept, gap_at, gap;
	int parts;
	bool good;
};

/* One part of a stream, as a worker reads it. */
static bool
check_part(const struct sbx_in *in, uint64_t at)
{
	const struct sbx_run_data *d = &in->m.run_data;
	static unsigned char buf[64 * 1024], want[64 * 1024];
	uint64_t i = 0;
	ssize_t n;

	if ((fcntl(in->fds[0], F_GETFL) & O_ACCMODE) != O_RDONLY)
		return false;
	while (i < d->length) {
		n = pread(in->fds[0], buf, d->length - i < sizeof(buf) ?
		    d->length - i : sizeof(buf),
		    (off_t)(d->file_offset + i));
		if (n <= 0)
			return false;
		fill(want, (size_t)n, at + i);
		if (memcmp(buf, want, (size_t)n) != 0)
			return false;
		i += (uint64_t)n;
	}
	return true;
}

/* Read a whole stream and compare each byte. */
static struct check
check_stream(struct rec *r, const char *id, enum sbx_stream stream)
{
	struct check c = { .good = true };
	struct sbx_run_read q = { .run = id, .stream = stream };
	struct sbx_in *in;

	for (;;) {
		in = ask(r, SBX_MSG_RUN_READ, &q, 0);
		if (in == NULL || in->hdr.type != SBX_MSG_RUN_DATA)
			break;
		if (in->m.run_data.start > q.offset) {
			c.gap_at = q.offset;
			c.gap += in->m.run_data.start - q.offset;
		}
		c.good = c.good && in->m.run_data.length > 0 &&
		    check_part(in, in->m.run_data.start);
		c.kept += in->m.run_data.length;
		c.parts++;
		q.offset = in->m.run_data.start + in->m.run_data.length;
		if (!c.good)
			return c;
	}
	c.good = c.good && in != NULL &&
	    in->hdr.type == SBX_MSG_RUN_NODATA && in->m.run_nodata.known &&
	    in->m.run_nodata.total == q.offset;
	c.total = q.offset;
	return c;
}

/* What a writer and the test share. */
struct shared {
	volatile int stop;
	volatile uint64_t out, err; /* bytes written */
};

static struct shared *
shared_new(void)
{
	void *p = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

/* Writes both streams in random pieces until told, or `max` bytes of each. */
static pid_t
writer(struct pipes *p, struct shared *sh, uint64_t max, bool errs)
{
	static unsigned char buf[100000];
	volatile uint64_t *done;
	pid_t pid = fork();
	uint64_t n;
	ssize_t w;

	if (pid != 0)
		return pid;
	(void)signal(SIGPIPE, SIG_DFL);
	srandom((unsigned)getpid());
	while (!sh->stop && (sh->out < max || (errs && sh->err < max))) {
		done = errs && random() % 3 == 0 ? &sh->err : &sh->out;
		n = 1 + (uint64_t)random() % (random() % 2 ? sizeof(buf) : 99);
		if (n > max - *done)
			n = max - *done;
		fill(buf, n, *done);
		w = n == 0 ? 0 : write(done == &sh->out ? p->out[1] :
		    p->err[1], buf, n);
		if (w < 0)
			_exit(1);
		*done += (uint64_t)w;
	}
	_exit(0);
}

/* Run a writer of `bytes` to its end and finish the run. */
static bool
whole_run(struct rec *r, struct pipes *p, uint64_t bytes, bool errs)
{
	struct shared *sh = shared_new();
	struct sbx_run_closed closed = { .run = p->id };
	struct sbx_run_finished *f;
	int status = -1;
	bool good;
	pid_t pid;

	if (!pipes_open(r, p))
		return false;
	pid = writer(p, sh, bytes, errs);
	(void)waitpid(pid, &status, 0);
	pipes_close_writers(p);
	f = finish(r, p->id);
	good = status == 0 && f != NULL && sh->out == bytes &&
	    sbx_chan_send(&r->eng, SBX_MSG_RUN_CLOSED, 0, &closed, NULL,
	    1000) == 0;
	(void)munmap(sh, sizeof(*sh));
	return good;
}

/* --- the tests ------------------------------------------------------------------ */

static void
test_exact(int dir)
{
	struct rec r = { .dir = dir, .run_cap = 64 * M, .total_cap = G };
	struct sbx_run_stats *st;
	struct pipes p;
	struct check o, e;

	pipes_make(&p);
	ok(rec_start(&r, true) && whole_run(&r, &p, 20 * M + 7, true),
	    "a run is recorded");
	st = stats(&r, p.id);
	ok(st != NULL && st->known && st->out_bytes == 20 * M + 7 &&
	    st->err_bytes == 20 * M + 7 && st->dropped == 0 &&
	    st->idle_ms < 60000, "its numbers are right");
	o = check_stream(&r, p.id, SBX_STREAM_OUT);
	e = check_stream(&r, p.id, SBX_STREAM_ERR);
	ok(o.good && o.total == 20 * M + 7 && o.gap == 0 && e.good &&
	    e.total == 20 * M + 7, "each byte of both streams, in %d parts",
	    o.parts);
	st = stats(&r, "0123456789abcdef");
	ok(st != NULL && !st->known, "an unknown run is not known");
	ok(rec_stop(&r), "it ends on SHUTDOWN");
	pipes_close(&p);
}

/* Twenty kills while a fast writer goes on. */
static void
test_kill(int dir)
{
	struct rec r = { .dir = dir, .run_cap = 8 * G, .total_cap = 16 * G };
	struct shared *sh = shared_new();
	struct sbx_run_finished *f;
	struct pipes p;
	struct check o, e;
	int i, moving = 0, status = -1;
	uint64_t before;
	bool good;
	pid_t pid;

	pipes_make(&p);
	good = rec_start(&r, true) && pipes_open(&r, &p);
	pid = writer(&p, sh, 512 * M, true);
	for (i = 0; i < 20 && good; i++) {
		before = sh->out;
		(void)usleep((useconds_t)(random() % 4000));
		rec_kill(&r);
		moving += sh->out != before;
		good = rec_start(&r, false) && pipes_open(&r, &p);
	}
	ok(good && moving > 5, "killed 20 times, %d while bytes moved",
	    moving);
	sh->stop = 1;
	pipes_close_writers(&p);
	(void)waitpid(pid, &status, 0);
	f = finish(&r, p.id);
	ok(status == 0 && f != NULL && f->out_bytes == sh->out &&
	    f->err_bytes == sh->err, "no byte lost or repeated: %" PRIu64
	    " and %" PRIu64, sh->out, sh->err);
	o = check_stream(&r, p.id, SBX_STREAM_OUT);
	e = check_stream(&r, p.id, SBX_STREAM_ERR);
	ok(o.good && e.good && o.total == sh->out && e.total == sh->err,
	    "and each is what was written");
	ok(rec_stop(&r), "it ends in order");
	pipes_close(&p);
	(void)munmap(sh, sizeof(*sh));
}

static void
test_cap(int dir)
{
	struct rec r = { .dir = dir, .run_cap = 64 * K, .total_cap = 64 * M };
	const uint64_t seg = 8 * K, n = 1000003;
	struct sbx_run_stats *st;
	struct pipes p;
	struct check o;

	pipes_make(&p);
	ok(rec_start(&r, true) && whole_run(&r, &p, n, false),
	    "a run longer than its cap");
	o = check_stream(&r, p.id, SBX_STREAM_OUT);
	ok(o.good && o.total == n && o.gap_at == 2 * seg &&
	    o.kept <= 64 * K && o.kept > 7 * seg - 1 &&
	    n - o.gap_at - o.gap >= seg, "head and tail kept: %" PRIu64
	    " of %" PRIu64, o.kept, n);
	st = stats(&r, p.id);
	ok(st != NULL && st->dropped == o.gap && st->out_bytes == n,
	    "the gap is counted");
	rec_kill(&r);
	ok(rec_start(&r, false), "started again");
	o = check_stream(&r, p.id, SBX_STREAM_OUT);
	st = stats(&r, p.id);
	ok(o.good && o.total == n && o.gap_at == 2 * seg && st != NULL &&
	    st->dropped == o.gap, "the next one says the same");
	ok(rec_stop(&r) && rec_start(&r, true) &&
	    (st = stats(&r, p.id)) != NULL && !st->known,
	    "a fresh start forgets it");
	(void)rec_stop(&r);
	pipes_close(&p);
}

static uint64_t
store_bytes(int dir)
{
	uint64_t sum = 0;
	struct dirent *de, *fe;
	struct stat st;
	DIR *d, *f;
	int fd;

	d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY));
	while (d != NULL && (de = readdir(d)) != NULL) {
		fd = openat(dirfd(d), de->d_name, O_RDONLY | O_DIRECTORY);
		f = de->d_name[0] == '.' ? NULL : fdopendir(fd);
		while (f != NULL && (fe = readdir(f)) != NULL)
			if (fstatat(fd, fe->d_name, &st, 0) == 0 &&
			    S_ISREG(st.st_mode))
				sum += (uint64_t)st.st_size;
		if (f != NULL)
			(void)closedir(f);
		else
			sbx_close(&fd);
	}
	if (d != NULL)
		(void)closedir(d);
	return sum;
}

static void
test_total(int dir)
{
	struct rec r = { .dir = dir, .run_cap = 64 * K, .total_cap = 256 * K };
	struct sbx_run_stats *st;
	struct pipes p[12];
	bool good, known[12];
	int i;

	good = rec_start(&r, true);
	for (i = 0; i < 12 && good; i++) {
		pipes_make(&p[i]);
		good = whole_run(&r, &p[i], 60 * K, false);
	}
	ok(good, "twelve runs");
	for (i = 0; i < 12; i++) {
		st = stats(&r, p[i].id);
		known[i] = st != NULL && st->known;
		pipes_close(&p[i]);
	}
	ok(!known[0] && !known[6] && known[9] && known[10] && known[11],
	    "the oldest went");
	ok(store_bytes(dir) <= 256 * K + 60 * K, "the store keeps its size");
	rec_kill(&r);
	good = rec_start(&r, false);
	st = stats(&r, p[11].id);
	ok(good && st != NULL && st->known && st->out_bytes == 60 * K,
	    "the newest is there after a kill");
	(void)rec_stop(&r);
}

static void
test_fair(int dir)
{
	struct rec r = { .dir = dir, .run_cap = 1 * M, .total_cap = 64 * M };
	struct shared *sh = shared_new();
	struct pipes flood, small;
	struct sbx_run_finished *f;
	uint64_t start, worst = 0, ns;
	pid_t pid;
	int i;
	bool good;

	pipes_make(&flood);
	pipes_make(&small);
	good = rec_start(&r, true) && pipes_open(&r, &flood) &&
	    pipes_open(&r, &small);
	pid = writer(&flood, sh, G, true);
	for (i = 0; i < 50 && good; i++) {
		start = sbx_mono_ns();
		good = write(small.out[1], "x", 1) == 1 &&
		    stored(&r, small.id, (uint64_t)i + 1);
		ns = sbx_mono_ns() - start;
		worst = ns > worst ? ns : worst;
	}
	ok(good && worst < 500000000u, "beside a flood a byte is stored "
	    "within %" PRIu64 " ms", worst / 1000000);
	start = sbx_mono_ns();
	f = finish(&r, flood.id);
	ns = sbx_mono_ns() - start;
	ok(f != NULL && f->out_bytes > 0 && ns < 1000000000u &&
	    waitpid(pid, NULL, WNOHANG) == 0,
	    "a flood that goes on does not keep RUN_FINISH");
	good = sh->out > 0;
	start = sh->out;
	(void)poll(NULL, 0, 50);
	ok(good && sh->out > start, "and is recorded on");
	sh->stop = 1;
	(void)waitpid(pid, NULL, 0);
	(void)rec_stop(&r);
	pipes_close(&flood);
	pipes_close(&small);
	(void)munmap(sh, sizeof(*sh));
}

static void
test_closed(int dir)
{
	struct rec r = { .dir = dir, .run_cap = 1 * M, .total_cap = 64 * M };
	struct sbx_run_closed closed;
	struct sbx_run_drop drop;
	struct sbx_run_stats *st;
	struct pipes p;
	struct stat s;
	bool good;

	pipes_make(&p);
	closed.run = drop.run = p.id;
	good = rec_start(&r, true) && pipes_open(&r, &p) &&
	    write(p.out[1], "\0", 1) == 1 && finish(&r, p.id) != NULL;
	good = good && write(p.out[1], "12345", 5) == 5 &&
	    stored(&r, p.id, 6);
	ok(good, "what comes after RUN_FINISH is stored");
	good = write(p.out[1], "6", 1) == 1 && sbx_chan_send(&r.eng,
	    SBX_MSG_RUN_CLOSED, 0, &closed, NULL, 1000) == 0;
	sbx_close(&p.out[0]);
	sbx_close(&p.err[0]);
	ok(good && stored(&r, p.id, 7) && write(p.out[1], "x", 1) < 0 &&
	    errno == EPIPE, "RUN_CLOSED stores the rest and closes");
	(void)sbx_chan_send(&r.mon, SBX_MSG_RUN_DROP, 0, &drop, NULL, 1000);
	st = stats(&r, p.id);
	ok(st != NULL && !st->known && fstatat(dir, p.id, &s, 0) < 0,
	    "RUN_DROP removes it");
	pipes_close(&p);
	pipes_make(&p);
	drop.run = p.id;
	good = pipes_open(&r, &p) && write(p.out[1], "a", 1) == 1 &&
	    stored(&r, p.id, 1) && sbx_chan_send(&r.mon, SBX_MSG_RUN_DROP, 0,
	    &drop, NULL, 1000) == 0;
	st = stats(&r, p.id);
	good = good && st != NULL && !st->known;
	{
		struct shared *sh = shared_new();
		pid_t pid = writer(&p, sh, M, false);
		int status = -1;

		(void)waitpid(pid, &status, 0);
		ok(good && status == 0, "a live run that is dropped is "
		    "emptied");
	}
	pipes_close(&p);
	(void)shutdown(r.mon.fd, SHUT_RDWR);
	ok(rec_wait(&r) == 0, "it ends with the monitor");
}

static bool
mount_small(const char *path)
{
	return mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV,
	    "size=1m,mode=777") == 0;
}

static void
test_full(void)
{
	char path[] = "/tmp/sbx-recorder-full.XXXXXX";
	struct rec r = { .run_cap = 64 * M, .total_cap = G };
	struct sbx_run_stats *st;
	struct sbx_ping ping = { 0 };
	struct pipes p[3];
	struct sbx_in *in;
	struct check o;
	bool good;
	int i;

	if (mkdtemp(path) == NULL || !mount_small(path)) {
		skip("no tmpfs can be mounted");
		(void)rmdir(path);
		return;
	}
	r.dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (i = 0; i < 3; i++)
		pipes_make(&p[i]);
	good = rec_start(&r, true) && whole_run(&r, &p[0], 300 * K, false) &&
	    whole_run(&r, &p[1], 300 * K, false);
	ok(good && whole_run(&r, &p[2], 16 * M, false),
	    "a full disk does not stop the writer");
	st = stats(&r, p[0].id);
	ok(st != NULL && !st->known, "the oldest run made room");
	st = stats(&r, p[2].id);
	ok(st != NULL && st->out_bytes > 300 * K && st->dropped > 0 &&
	    st->out_bytes + st->dropped == 16 * M,
	    "what was not stored is counted");
	o = check_stream(&r, p[2].id, SBX_STREAM_OUT);
	ok(o.good && o.total < M, "what was stored is right");
	ok(r.logs == 1, "it is said once");
	in = ask(&r, SBX_MSG_PING, &ping, SBX_MSG_PONG);
	ok(in != NULL && in->m.pong.healthy == 0, "and in PONG");
	(void)rec_stop(&r);
	for (i = 0; i < 3; i++)
		pipes_close(&p[i]);
	sbx_close(&r.dir);
	(void)umount2(path, MNT_DETACH);
	(void)rmdir(path);
}

static void
test_bad(int dir)
{
	static const char *const ids[] = { "", "0123456789abcde",
		"0123456789ABCDEF", "../../../../../a", "..", "a/0123456789abc",
		"0123456789abcde\n" };
	static const uint16_t types[] = { SBX_MSG_RUN_FINISH,
		SBX_MSG_RUN_STAT, SBX_MSG_RUN_DROP, SBX_MSG_RUN_READ };
	struct rec r = { .dir = dir, .run_cap = M, .total_cap = 64 * M };
	struct sbx_run_read q = { 0 };	/* the others begin with run, too */
	struct pipes p;
	size_t i, bad = 0;
	int status, null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	pipes_make(&p);
	for (i = 0; i < SBX_NELEM(ids) * SBX_NELEM(types); i++) {
		q.run = ids[i / SBX_NELEM(types)];
		if (!rec_start(&r, true) || sbx_chan_send(&r.mon,
		    types[i % SBX_NELEM(types)], 1, &q, NULL, 1000) != 0)
			bad++;
		status = rec_wait(&r);
		bad += !WIFEXITED(status) || WEXITSTATUS(status) != 3;
	}
	ok(bad == 0, "the monitor's bad run ids are refused (%zu)", bad);
	bad = !rec_start(&r, true);
	for (i = 0; i < SBX_NELEM(ids) + 3 && bad == 0; i++) {
		struct sbx_introduce intro = { .peer = SBX_PROC_ENGINE };
		struct sbx_run_open m = { .run = i < SBX_NELEM(ids) ? ids[i] :
			p.id };
		int pair[2], fds[2] = { p.out[0], p.err[0] };

		if (i == SBX_NELEM(ids))
			fds[0] = null;
		else if (i == SBX_NELEM(ids) + 1)
			fds[1] = p.err[1];	/* the wrong end */
		else if (i == SBX_NELEM(ids) + 2)
			fds[0] = dir;
		bad += sbx_chan_send(&r.eng, SBX_MSG_RUN_OPEN, 0, &m, fds,
		    1000) != 0 || sbx_chan_recv(&r.eng, ANSWER_MS) !=
		    SBX_E_CLOSED || sbx_wire_pair(pair) < 0;
		sbx_chan_clear(&r.eng);
		bad += sbx_chan_send(&r.mon, SBX_MSG_INTRODUCE, 0, &intro,
		    &pair[1], 1000) != 0;
		sbx_close(&pair[1]);
		sbx_chan_init(&r.eng, pair[0], SBX_PROC_ENGINE,
		    SBX_PROC_RECORDER);
	}
	ok(bad == 0, "so are the engine's, and what is no pipe");
	ok(stats(&r, p.id) != NULL && rec_stop(&r), "the recorder goes on");
	pipes_close(&p);
	sbx_close(&null);
}

/* The store holds only what the recorder put there. */
static void
test_fresh(int dir)
{
	struct rec r = { .dir = dir, .run_cap = M, .total_cap = 64 * M };
	struct stat st;
	bool good;
	int fd;

	good = mkdirat(dir, "0123456789abcdef", 0700) == 0 &&
	    mkdirat(dir, "other", 0700) == 0 &&
	    (fd = openat(dir, "other/x", O_CREAT | O_WRONLY, 0600)) >= 0 &&
	    symlinkat("/etc", dir, "link") == 0;
	sbx_close(&fd);
	if (geteuid() == 0)
		good = good && fchownat(dir, "other", USERS_FIRST,
		    USERS_FIRST, 0) == 0;
	ok(good && rec_start(&r, true) && rec_stop(&r) &&
	    fstatat(dir, "0123456789abcdef", &st, 0) < 0 &&
	    fstatat(dir, "other", &st, 0) < 0 &&
	    fstatat(dir, "link", &st, AT_SYMLINK_NOFOLLOW) < 0,
	    "a fresh start empties the store");
}

/* Non-root: a user namespace in which a tmpfs can be mounted. */
static void
own_mounts(void)
{
	char map[64];
	unsigned uid = getuid(), gid = getgid();
	int fd;

	if (uid == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return;
	(void)snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	(void)!write(fd, map, strlen(map));
	(void)close(fd);
	fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
	(void)!write(fd, "deny", 4);
	(void)close(fd);
	(void)snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	fd = open("/proc/self/gid_map", O_WRONLY | O_CLOEXEC);
	(void)!write(fd, map, strlen(map));
	(void)close(fd);
}

int
main(void)
{
	int dir;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)alarm(240);
	own_mounts();
	if (!users_prepare() || mkdtemp(dir_path) == NULL) {
		ok(false, "a directory and users to test with");
		return tap_done();
	}
	if (geteuid() == 0 && chown(dir_path, USERS_FIRST, USERS_FIRST) < 0)
		return 1;
	dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_exact(dir);
	test_kill(dir);
	test_cap(dir);
	test_total(dir);
	test_fair(dir);
	test_closed(dir);
	test_full();
	test_bad(dir);
	test_fresh(dir);
	sbx_close(&dir);
	(void)rmdir(dir_path);
	return tap_done();
}
