#include "sbx-journald/journald.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Kept beyond the reserve in one go, so that it is not asked for each time. */
#define ROOM_STEP (1u << 20)
#define LOCK_TRIES 100
#define LOCK_PAUSE_NS 10000000

static int
failed(struct store *s)
{
	s->sys_errno = errno;
	return (SBX_E_SYS);
}

/*
 * Started by root the first file is made before the drop, later ones after
 * it: all belong to the directory's owner, which is whom the row drops to.
 */
static int
give_to_owner(struct store *s, int fd)
{
	struct stat dir;

	if (geteuid() != 0)
		return (0);
	return (fstat(s->dir_fd, &dir) == 0 &&
	    fchown(fd, dir.st_uid, dir.st_gid) == 0 ? 0 : SBX_E_SYS);
}

/* One journald a directory: two would fork the chain. */
static int
take_lock(struct store *s, struct sbx_err *err)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };
	unsigned i;

	s->lock_fd = openat(s->dir_fd, "lock",
	    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0 || give_to_owner(s, s->lock_fd) < 0)
		return (sbx_err_sys(err, "opening the journal's lock"));
	for (i = 0; i < LOCK_TRIES; i++) {
		if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0)
			return (0);
		if (errno != EWOULDBLOCK && errno != EINTR)
			return (sbx_err_sys(err, "locking the journal"));
		(void)nanosleep(&pause, NULL);
	}
	return (sbx_err_set(err, SBX_E_EXISTS,
	    "another sbx-journald has this journal"));
}

/*
 * The newest and the second newest number (0: none): the newest file may
 * have been made right before a crash and hold nothing.
 */
static int
find_numbers(struct store *s, unsigned *ret_newest, unsigned *ret_before,
    struct sbx_err *err)
{
	struct dirent *de;
	unsigned n;
	DIR *dir;
	int fd;

	*ret_newest = *ret_before = 0;
	fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (dir = fdopendir(fd)) == NULL) {
		sbx_close(&fd);
		return (sbx_err_sys(err, "reading the journal directory"));
	}
	while ((de = readdir(dir)) != NULL) {
		n = journal_name_number(de->d_name);
		if (n > *ret_newest) {
			*ret_before = *ret_newest;
			*ret_newest = n;
		} else if (n > *ret_before && n < *ret_newest)
			*ret_before = n;
	}
	(void)closedir(dir);
	return (0);
}

static int
open_number(struct store *s, unsigned number, int flags)
{
	char name[JOURNAL_NAME_SIZE];

	(void)snprintf(name, sizeof(name), JOURNAL_NAME_FMT, number);
	return (openat(s->dir_fd, name,
	    flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
}

/* Make fd (owned) the current file. */
static int
use_file(struct store *s, int fd, unsigned number)
{
	struct stat st;
	int r = 0;

	if (fstat(fd, &st) < 0)
		r = failed(s);
	else if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;	/* a FIFO or a link: not ours to append to */
		r = failed(s);
	}
	if (r < 0) {
		sbx_close(&fd);
		return (r);
	}
	sbx_close(&s->fd);
	s->fd = fd;
	s->number = number;
	s->size = (uint64_t)st.st_size;
	s->allocated = s->size;
	s->fresh = s->size == 0;
	return (0);
}

/* The chain's end from file `number`, which this process will not append to. */
static int
tail_of(struct store *s, unsigned number, struct chain_maker *m,
    struct tail *ret_tail, struct sbx_err *err)
{
	int fd, r;

	fd = open_number(s, number, O_RDONLY);
	if (fd < 0)
		return (sbx_err_sys(err, "opening journal file %u", number));
	r = scan_tail(fd, number, m, ret_tail, err);
	sbx_close(&fd);
	return (r);
}

/*
 * A newest file without a record continues the one before it, whose torn
 * bytes (a crash before they were accounted for) are then accounted for here.
 */
static int
tail_before(struct store *s, unsigned before, struct chain_maker *m,
    struct tail *tail, struct sbx_err *err)
{
	struct tail older;
	int r;

	r = tail_of(s, before, m, &older, err);
	if (r < 0)
		return (r);
	tail->chain.seq = older.chain.seq;
	if (tail->ntorn > 0) {
		/* no journald begins a file so */
		tail->mismatch = true;
		return (0);
	}
	older.open_line = false;	/* nothing follows in that file */
	*tail = older;
	return (0);
}

int
store_open(struct store *s, int dir_fd, uint64_t rotate_bytes,
    uint64_t reserve_bytes, struct chain_maker *m, struct tail *ret_tail,
    struct sbx_err *err)
{
	unsigned newest = 0, before = 0;
	int fd, r;

	*s = (struct store){
		.dir_fd = dir_fd, .fd = -1, .lock_fd = -1, .prealloc = true,
		.rotate_bytes = rotate_bytes, .reserve_bytes = reserve_bytes,
	};
	r = take_lock(s, err);
	if (r == 0)
		r = find_numbers(s, &newest, &before, err);
	if (r < 0)
		return (r);
	if (newest == 0)
		newest = 1;
	fd = open_number(s, newest, O_RDWR | O_APPEND | O_CREAT);
	if (fd < 0 || give_to_owner(s, fd) < 0) {
		sbx_close(&fd);
		return (sbx_err_sys(err, "opening journal file %u", newest));
	}
	r = use_file(s, fd, newest);
	if (r < 0) {
		errno = s->sys_errno;
		return (sbx_err_sys(err, "journal file %u", newest));
	}
	r = scan_tail(s->fd, newest, m, ret_tail, err);
	if (r == 0 && !ret_tail->any && before != 0)
		r = tail_before(s, before, m, ret_tail, err);
	/* the name of a new file must not be lost with its content safe */
	if (r == 0 && fsync(s->dir_fd) < 0)
		r = sbx_err_sys(err, "fsync of the journal directory");
	return (r);
}

void
store_clear(struct store *s)
{
	sbx_close(&s->fd);
	sbx_close(&s->lock_fd);
	sbx_close(&s->dir_fd);
}

/*
 * Space is kept as blocks behind the end of the file: appends use them in
 * order, so what is kept beyond n bytes is the reserve.  FALLOC_FL_KEEP_SIZE
 * is also the one mode that an append-only file permits (chattr(1) +a).
 */
int
store_room(struct store *s, size_t n)
{
	uint64_t need = s->size + n + s->reserve_bytes;

	if (!s->prealloc || need <= s->allocated)
		return (0);
	if (fallocate(s->fd, FALLOC_FL_KEEP_SIZE, (off_t)s->size,
	    (off_t)(need - s->size + ROOM_STEP)) == 0) {
		s->allocated = need + ROOM_STEP;
		return (0);
	}
	/* nearly full: without the step it may fit */
	if (errno == ENOSPC && fallocate(s->fd, FALLOC_FL_KEEP_SIZE,
	    (off_t)s->size, (off_t)(need - s->size)) == 0) {
		s->allocated = need;
		return (0);
	}
	if (errno == EOPNOTSUPP || errno == ENOSYS) {
		s->prealloc = false;
		return (0);
	}
	return (failed(s));
}

int
store_write(struct store *s, const char *p, size_t n, size_t *ret_done)
{
	ssize_t w;

	*ret_done = 0;
	while (*ret_done < n) {
		w = write(s->fd, p + *ret_done, n - *ret_done);
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0) {
			if (w == 0)
				errno = ENOSPC;
			return (failed(s));
		}
		*ret_done += (size_t)w;
		s->size += (uint64_t)w;
		s->fresh = false;
	}
	return (0);
}

int
store_sync(struct store *s)
{
	return (fdatasync(s->fd) == 0 ? 0 : failed(s));
}

int
store_rotate(struct store *s)
{
	struct store next = *s;
	int fd, r;

	if (s->number >= JOURNAL_NUMBER_MAX) {
		errno = EFBIG;
		return (failed(s));
	}
	/* an earlier try may have left it behind, empty */
	fd = open_number(s, s->number + 1, O_RDWR | O_APPEND | O_CREAT);
	if (fd < 0)
		return (failed(s));
	next.fd = -1;
	r = use_file(&next, fd, s->number + 1);
	if (r == 0 && next.size != 0) {
		errno = EEXIST;
		r = failed(&next);
	}
	if (r == 0)
		r = store_room(&next, 0);
	if (r == 0 && fsync(next.dir_fd) < 0)
		r = failed(&next);
	if (r < 0) {
		s->sys_errno = next.sys_errno;
		sbx_close(&next.fd);
		return (r);
	}
	sbx_close(&s->fd);
	*s = next;
	return (0);
}
