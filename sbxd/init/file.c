/*
 * Work on files (filework.h): reading here, lists and writing beside it.
 * Everything is of the guest's making: names, kinds, sizes that change while
 * they are read.
 */
#include "sbxd/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define WORK_DIR "/workspace"

static char block[256 << 10];

int
file_failed_as(struct file_work *w, int error, const char *what,
    const char *why)
{
	char text[120];

	w->r.error = error;
	(void)snprintf(w->reason, sizeof(w->reason), "%s: %s",
	    sbx_vis(text, sizeof(text), what, strlen(what)), why);
	return (-1);
}

int
file_failed(struct file_work *w, int error, const char *what)
{
	return (file_failed_as(w, error, what, strerror(error)));
}

/* There is no such file, or a link that leads nowhere. */
int
file_missing(struct file_work *w, int error, const char *path)
{
	char to[256], text[80], why[128];
	ssize_t n = readlink(path, to, sizeof(to));

	if (n <= 0)
		return (file_failed(w, error, path));
	(void)snprintf(why, sizeof(why), "it is a link to %s, which is not "
	    "there", sbx_vis(text, sizeof(text), to, (size_t)n));
	return (file_failed_as(w, error, path, why));
}

void
file_stamp(struct file_work *w, const struct stat *st)
{
	w->r.mode = st->st_mode & 07777;
	w->r.size = (uint64_t)st->st_size;
	w->r.ino = st->st_ino;
	w->r.mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000 +
	    (uint64_t)st->st_mtim.tv_nsec;
	w->r.ctime_ns = (uint64_t)st->st_ctim.tv_sec * 1000000000 +
	    (uint64_t)st->st_ctim.tv_nsec;
}

int
file_resolve(struct file_work *w, const char *path, struct stat *ret_st)
{
	if (realpath(path, w->path) == NULL || lstat(w->path, ret_st) == -1) {
		int e = errno;

		(void)sbx_strlcpy(w->path, path, sizeof(w->path));
		return (e == ENOENT ? file_missing(w, e, path) :
		    file_failed(w, e, path));
	}
	file_stamp(w, ret_st);
	return (0);
}

/* What the kernel makes up has no size, may never end, and shows the helper
 * itself: that is for programs of the sandbox. */
static bool
is_made_up(int fd)
{
	struct statfs fs;

	return (fstatfs(fd, &fs) == -1 || fs.f_type == PROC_SUPER_MAGIC ||
	    fs.f_type == SYSFS_MAGIC);
}

const char *
file_kind(const struct stat *st)
{
	return (S_ISDIR(st->st_mode) ? "it is a directory" :
	    S_ISFIFO(st->st_mode) ? "it is a FIFO (named pipe), no regular "
	    "file" : S_ISSOCK(st->st_mode) ? "it is a socket, no regular file" :
	    S_ISREG(st->st_mode) ? "the kernel makes it up: read it by "
	    "sandbox_exec" : "it is a device, no regular file");
}

/* A regular file, open for reading; nothing waits for a FIFO's other end. */
static int
open_regular(struct file_work *w)
{
	struct stat st;
	int fd;

	if (file_resolve(w, w->q->path, &st) != 0)
		return (-1);
	fd = S_ISREG(st.st_mode) ? open(w->path, O_RDONLY | O_NONBLOCK |
	    O_NOCTTY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (S_ISREG(st.st_mode) && (fd == -1 || fstat(fd, &st) == -1))
		return (file_failed(w, errno == EAGAIN ? EBUSY : errno,
		    w->q->path));
	if (!S_ISREG(st.st_mode) || is_made_up(fd)) {
		sbx_close(&fd);
		return (file_failed_as(w, S_ISDIR(st.st_mode) ? EISDIR :
		    EINVAL, w->q->path, file_kind(&st)));
	}
	file_stamp(w, &st);
	return (fd);
}

static ssize_t
read_block(struct file_work *w, int fd)
{
	ssize_t n;

	do
		n = read(fd, block, sizeof(block));
	while (n == -1 && errno == EINTR);
	if (n == -1)
		(void)file_failed(w, errno, w->q->path);
	return (n);
}

static int
put(struct file_work *w, const char *p, size_t n)
{
	if (n > 0 && sbx_write_all(w->out, p, n) != 0)
		return (file_failed(w, errno, "the answer"));
	w->r.bytes += n;
	return (0);
}

static void
read_whole(struct file_work *w, int fd)
{
	ssize_t n;

	w->r.total = UINT64_MAX;
	if (w->r.size > w->max) {
		(void)file_failed(w, EFBIG, w->q->path);
		return;
	}
	while ((n = read_block(w, fd)) > 0) {
		if ((uint64_t)n > w->max - w->r.bytes) {
			(void)file_failed(w, EFBIG, w->q->path);
			return;
		}
		if (put(w, block, (size_t)n) != 0)
			return;
	}
}

typedef uint8_t lanes __attribute__((vector_size(16)));

/* 16 bytes at a time: a lane counts to 255 before it is added up. */
static uint64_t
count_newlines(const char *p, const char *end)
{
	uint64_t n = 0;
	lanes sum, v;

	while (end - p >= 16) {
		sum = (lanes){ 0 };
		for (int i = 0; i < 255 && end - p >= 16; i++, p += 16) {
			memcpy(&v, p, sizeof(v));
			sum -= (lanes)(v == '\n');	/* true is -1 */
		}
		for (int i = 0; i < 16; i++)
			n += sum[i];
	}
	for (; p < end; p++)
		n += *p == '\n';
	return (n);
}

/* Of one pass over a file. */
struct pass {
	uint64_t line;		/* that the next byte is in */
	uint64_t end;		/* lines [first, end) are wanted */
	uint64_t whole;		/* bytes written, up to the last end of a line */
	uint64_t len;		/* of the wanted line that is open */
	char last;		/* byte of the file */
	bool full;		/* nothing more is written */
};

/* Past `n` ends of lines, or to the end of the block. */
static const char *
skip_lines(struct pass *p, const char *s, const char *stop, uint64_t n)
{
	const char *nl;

	for (; n > 0 && s < stop; n--) {
		if ((nl = memchr(s, '\n', (size_t)(stop - s))) == NULL)
			return (stop);
		s = nl + 1;
		p->line++;
	}
	return (s);
}

/* What is to be written, many lines at a time. */
static struct {
	char p[128 << 10];
	size_t n;
} ready;

static int
flush(struct file_work *w)
{
	size_t n = ready.n;

	ready.n = 0;
	if (n > 0 && sbx_write_all(w->out, ready.p, n) != 0)
		return (file_failed(w, errno, "the answer"));
	return (0);
}

static int
put_ready(struct file_work *w, const char *p, size_t n)
{
	if (n > sizeof(ready.p) - ready.n && flush(w) != 0)
		return (-1);
	memcpy(ready.p + ready.n, p, n);
	ready.n += n;
	w->r.bytes += n;
	return (0);
}

/* The wanted line ends, with its newline or with the file. */
static int
end_line(struct file_work *w, struct pass *p, const char *end)
{
	char text[32];
	int n = 0;

	if (p->len > SBX_FILE_LINE)
		n = snprintf(text, sizeof(text), "%" PRIu64,
		    p->len - SBX_FILE_LINE);
	if (put_ready(w, text, (size_t)n) != 0 ||
	    put_ready(w, end, strlen(end)) != 0)
		return (-1);
	p->whole = w->r.bytes;
	p->len = 0;
	w->r.count++;
	return (0);
}

/* There is no room for this line: the answer ends with the one before. */
static int
cut_here(struct file_work *w, struct pass *p)
{
	p->full = true;
	w->r.bytes = p->whole;
	if (flush(w) == 0 && ftruncate(w->out, (off_t)p->whole) == -1)
		return (file_failed(w, errno, "the answer"));
	return (w->r.error != 0 ? -1 : 0);
}

/* The wanted bytes [s, stop) of one block. */
static int
pass_put(struct file_work *w, struct pass *p, const char *s, const char *stop)
{
	const char *nl;
	uint64_t n, keep;

	for (; s < stop && !p->full; s += n + (nl != NULL)) {
		nl = memchr(s, '\n', (size_t)(stop - s));
		n = (uint64_t)((nl != NULL ? nl : stop) - s);
		keep = p->len < SBX_FILE_LINE ? SBX_FILE_LINE - p->len : 0;
		keep = n < keep ? n : keep;
		if (keep + SBX_FILE_LINE_MARK > w->max - w->r.bytes)
			return (cut_here(w, p));
		if (put_ready(w, s, (size_t)keep) != 0)
			return (-1);
		p->len += n;
		if (nl != NULL && end_line(w, p, "\n") != 0)
			return (-1);
	}
	return (0);
}

static int
pass_block(struct file_work *w, struct pass *p, const char *s,
    const char *stop)
{
	const char *from;

	if (p->line < w->q->first)
		s = skip_lines(p, s, stop, w->q->first - p->line);
	if (p->line >= w->q->first && p->line < p->end && !p->full) {
		from = s;
		s = skip_lines(p, s, stop, p->end - p->line);
		if (pass_put(w, p, from, s) != 0)
			return (-1);
	}
	p->line += count_newlines(s, stop);
	return (0);
}

/* Lines [first, first + count), and how many there are. */
static void
read_lines(struct file_work *w, int fd)
{
	struct pass p = { .last = '\n', .end = w->q->count == 0 ||
	    w->q->count > UINT64_MAX - w->q->first ? UINT64_MAX :
	    w->q->first + w->q->count };
	ssize_t n;

	while ((n = read_block(w, fd)) > 0) {
		if (pass_block(w, &p, block, block + n) != 0)
			return;
		p.last = block[n - 1];
	}
	if (p.len > 0 && !p.full && end_line(w, &p, "") != 0)
		return;
	if (flush(w) != 0)
		return;
	w->r.total = p.line + (p.last != '\n');
	w->r.first = w->q->first < w->r.total ? w->q->first : w->r.total;
}

/* Going backwards over lines, as many as are wanted and have room. */
struct back {
	off_t begin;		/* of the first line that is taken */
	off_t end;		/* of the line before it */
	uint64_t lines, bytes;
};

/* A line begins at `from`; false: there is no room for it, or it is the last
 * one that is wanted. */
static bool
take_back(const struct file_work *w, struct back *b, off_t from)
{
	uint64_t len = (uint64_t)(b->end - from);

	len = (len < SBX_FILE_LINE ? len : SBX_FILE_LINE) + SBX_FILE_LINE_MARK;
	if (len > w->max - b->bytes)
		return (false);
	b->bytes += len;
	b->begin = from;
	b->end = from - 1;
	return (++b->lines < w->q->count);
}

/* Where the last `count` lines begin, or those there is room for. */
static off_t
tail_offset(struct file_work *w, int fd, off_t end)
{
	struct back b = { .begin = end, .end = end };
	off_t at = end, from;
	const char *nl;
	ssize_t n;

	while (at > 0) {
		from = at > (off_t)sizeof(block) ? at - (off_t)sizeof(block) : 0;
		n = pread(fd, block, (size_t)(at - from), from);
		if (n != at - from)
			return (b.begin);	/* it shrank */
		while ((nl = memrchr(block, '\n', (size_t)n)) != NULL) {
			n = nl - block;
			if (from + n + 1 == end)
				b.end = end - 1;
			else if (!take_back(w, &b, from + n + 1))
				return (b.begin);
		}
		at = from;
	}
	if (end > 0)
		(void)take_back(w, &b, 0);
	return (b.begin);
}

static uint64_t
count_lines(struct file_work *w, int fd, off_t *ret_end)
{
	uint64_t lines = 0;
	char last = '\n';
	ssize_t n;

	for (*ret_end = 0; (n = read_block(w, fd)) > 0; *ret_end += n) {
		lines += count_newlines(block, block + n);
		last = block[n - 1];
	}
	return (lines + (last != '\n'));
}

static void
read_tail(struct file_work *w, int fd)
{
	struct pass p = { .end = UINT64_MAX };
	off_t end, at;
	ssize_t n;

	w->r.total = count_lines(w, fd, &end);
	if (w->r.error != 0)
		return;
	for (at = tail_offset(w, fd, end); at < end; at += n) {
		n = pread(fd, block, end - at < (off_t)sizeof(block) ?
		    (size_t)(end - at) : sizeof(block), at);
		if (n <= 0)
			break;		/* it shrank */
		if (pass_put(w, &p, block, block + n) != 0)
			return;
	}
	if ((p.len > 0 && !p.full && end_line(w, &p, "") != 0) ||
	    flush(w) != 0)
		return;
	w->r.first = w->r.total > w->r.count ? w->r.total - w->r.count : 0;
}

void
file_read(struct file_work *w)
{
	int fd = open_regular(w);

	if (fd == -1)
		return;
	if ((w->q->flags & SBX_FILE_WHOLE) != 0)
		read_whole(w, fd);
	else if ((w->q->flags & SBX_FILE_TAIL) != 0)
		read_tail(w, fd);
	else
		read_lines(w, fd);
	sbx_close(&fd);
}

/* --- the helper --------------------------------------------------------------- */

/* As it goes through the pipe. */
struct said {
	struct sbx_init_filed r;
	char reason[256], path[4096];
};

static _Noreturn void
work(const struct sbx_init_file *q, const int fds[2], int result_fd)
{
	static void (*const ops[SBX_FILE_OP_MAX])(struct file_work *) = {
		[SBX_FILE_READ] = file_read, [SBX_FILE_WRITE] = file_write,
		[SBX_FILE_LIST] = file_list, [SBX_FILE_PACK] = file_pack,
	};
	static struct file_work w;
	static struct said said;
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGALRM);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	(void)alarm(SBX_FILE_MS / 1000);
	w.q = q;
	w.in = fds[0];
	w.out = fds[1];
	w.max = q->max_bytes < SBX_FILE_MAX_READ ? q->max_bytes :
	    SBX_FILE_MAX_READ;
	if (q->op >= SBX_FILE_OP_MAX)
		(void)file_failed(&w, EINVAL, "the request");
	else if (chdir(WORK_DIR) == -1 && (q->path[0] != '/' ||
	    q->op == SBX_FILE_WRITE))
		(void)file_failed(&w, errno, WORK_DIR);
	else
		ops[q->op](&w);
	said.r = w.r;
	memcpy(said.reason, w.reason, sizeof(said.reason));
	memcpy(said.path, w.path, sizeof(said.path));
	(void)sbx_write_all(result_fd, &said, sizeof(said));
	_exit(0);
}

static void
answer(uint32_t id, int fd)
{
	static struct said said;

	if (!helper_read(fd, &said, sizeof(said)))
		said = (struct said){ .r.error = ETIMEDOUT, .reason =
			"the work on files was killed or took too long" };
	said.reason[sizeof(said.reason) - 1] = '\0';
	said.path[sizeof(said.path) - 1] = '\0';
	said.r.reason = said.reason;
	said.r.path = said.path;
	init_send(SBX_MSG_INIT_FILED, id, &said.r, NULL);
}

void
file_start(struct init *in, const struct sbx_init_file *q, const int fds[2],
    uint32_t id)
{
	int result_fd;
	pid_t pid = helper_fork(in, id, "sbx-file", answer, &result_fd);
	struct sbx_init_filed m = { .error = -pid, .path = "",
		.reason = "too much work on files of this sandbox at once, or "
		"too many processes in it" };

	if (pid == 0)
		work(q, fds, result_fd);
	if (pid < 0)
		init_send(SBX_MSG_INIT_FILED, id, &m, NULL);
}
