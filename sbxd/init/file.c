/*
 * Work on files (filework.h): reading here, lists and writing beside it.
 * Everything is of the guest's making: names, kinds, sizes that change while
 * they are read.
 */
#include "sbxd/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORK_DIR "/workspace"

static char block[256 << 10];

int
file_failed(struct file_work *w, int error, const char *what)
{
	char text[160];

	w->r.error = error;
	(void)snprintf(w->reason, sizeof(w->reason), "%s: %s",
	    sbx_vis(text, sizeof(text), what, strlen(what)), strerror(error));
	return (-1);
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
		(void)sbx_strlcpy(w->path, path, sizeof(w->path));
		return (file_failed(w, errno, path));
	}
	file_stamp(w, ret_st);
	return (0);
}

/* A regular file, open for reading; nothing waits for a FIFO's other end. */
static int
open_regular(struct file_work *w)
{
	struct stat st;
	int fd;

	if (file_resolve(w, w->q->path, &st) != 0)
		return (-1);
	fd = open(w->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW |
	    O_CLOEXEC);
	if (fd == -1 || fstat(fd, &st) == -1)
		return (file_failed(w, errno, w->q->path));
	if (!S_ISREG(st.st_mode)) {
		sbx_close(&fd);
		return (file_failed(w, S_ISDIR(st.st_mode) ? EISDIR : EINVAL,
		    w->q->path));
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
	if (sbx_write_all(w->out, p, n) != 0)
		return (file_failed(w, errno, "the answer"));
	w->r.bytes += n;
	return (0);
}

static void
read_whole(struct file_work *w, int fd)
{
	ssize_t n;

	w->r.total = UINT64_MAX;
	while ((n = read_block(w, fd)) > 0) {
		if ((uint64_t)n > w->q->max_bytes - w->r.bytes) {
			(void)file_failed(w, EFBIG, w->q->path);
			return;
		}
		if (put(w, block, (size_t)n) != 0)
			return;
	}
}

/* Of one pass over a file: which line the next byte is in, and what is kept. */
struct pass {
	uint64_t line, end;	/* lines [first, end) are wanted */
	bool within;		/* the last byte did not end a line */
	bool full;		/* max_bytes is reached */
	uint64_t cut;		/* bytes of the last line that is not whole */
};

/* n bytes of one line, its end included if `ended`. */
static int
pass_piece(struct file_work *w, struct pass *p, const char *s, size_t n,
    bool ended)
{
	bool wanted = p->line >= w->q->first && p->line < p->end && !p->full;

	if (wanted && n > w->q->max_bytes - w->r.bytes) {
		p->full = true;
		/* the line does not fit: without it, unless it is the only */
		if (w->r.count == 0) {
			n = (size_t)(w->q->max_bytes - w->r.bytes);
			w->r.count = 1;
			if (put(w, s, n) != 0)
				return (-1);
		} else if (p->cut > 0) {
			w->r.bytes -= p->cut;
			(void)!ftruncate(w->out, (off_t)w->r.bytes);
		}
	} else if (wanted) {
		if (put(w, s, n) != 0)
			return (-1);
		p->cut = ended ? 0 : p->cut + n;
		w->r.count += ended;
	}
	p->within = !ended;
	p->line += ended;
	return (0);
}

/* Lines [first, first + count), and how many there are. */
static void
read_lines(struct file_work *w, int fd)
{
	struct pass p = { .end = w->q->count == 0 ||
	    w->q->count > UINT64_MAX - w->q->first ? UINT64_MAX :
	    w->q->first + w->q->count };
	const char *s, *nl;
	ssize_t n;

	while ((n = read_block(w, fd)) > 0)
		for (s = block; s < block + n; s = nl + 1) {
			nl = memchr(s, '\n', (size_t)(block + n - s));
			if (pass_piece(w, &p, s, (size_t)((nl != NULL ? nl + 1 :
			    block + n) - s), nl != NULL) != 0)
				return;
			if (nl == NULL)
				break;
		}
	if (p.cut > 0 && !p.full)
		w->r.count++;		/* it ends with the file */
	w->r.total = p.line + p.within;
	w->r.first = w->q->first < w->r.total ? w->q->first : w->r.total;
}

/* Where the last `count` lines begin, at most max_bytes before the end. */
static off_t
tail_offset(struct file_work *w, int fd, off_t end)
{
	off_t at = end, best = end, from;
	uint64_t lines = 0;
	ssize_t n, i;

	while (at > 0 && (uint64_t)(end - at) < w->q->max_bytes) {
		from = at > (off_t)sizeof(block) ? at - (off_t)sizeof(block) :
		    0;
		n = pread(fd, block, (size_t)(at - from), from);
		if (n != at - from)
			break;		/* it shrank */
		for (i = n - 1; i >= 0; i--) {
			if ((uint64_t)(end - from - i) > w->q->max_bytes)
				return (best);
			if (block[i] != '\n' || from + i == end - 1)
				continue;
			best = from + i + 1;
			if (++lines == w->q->count)
				return (best);
		}
		at = from;
	}
	return (at == 0 ? 0 : best);
}

static uint64_t
count_lines(struct file_work *w, int fd, off_t *ret_end)
{
	uint64_t lines = 0;
	char last = '\n';
	const char *s;
	ssize_t n;

	for (*ret_end = 0; (n = read_block(w, fd)) > 0; *ret_end += n) {
		for (s = block; (s = memchr(s, '\n', (size_t)(block + n - s)))
		    != NULL; s++)
			lines++;
		last = block[n - 1];
	}
	return (lines + (last != '\n'));
}

static void
read_tail(struct file_work *w, int fd)
{
	off_t end, at;
	ssize_t n;

	w->r.total = count_lines(w, fd, &end);
	at = tail_offset(w, fd, end);
	while (at < end && w->r.error == 0) {
		n = pread(fd, block, end - at < (off_t)sizeof(block) ?
		    (size_t)(end - at) : sizeof(block), at);
		if (n <= 0 || put(w, block, (size_t)n) != 0)
			break;
		for (const char *s = block; (s = memchr(s, '\n',
		    (size_t)(block + n - s))) != NULL; s++)
			w->r.count++;
		at += n;
		w->r.count += at == end && block[n - 1] != '\n';
	}
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
	if (q->path[0] != '/' && chdir(WORK_DIR) == -1)
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
	pid_t pid = q->op < SBX_FILE_OP_MAX ? helper_fork(in, id, "sbx-file",
	    answer, &result_fd) : -EINVAL;
	struct sbx_init_filed m = { .error = -pid, .path = "",
		.reason = "too much work on files of this sandbox at once, or "
		"too many processes in it" };

	if (pid == 0)
		work(q, fds, result_fd);
	if (pid < 0)
		init_send(SBX_MSG_INIT_FILED, id, &m, NULL);
}
