#include "sbx-journald/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct journal_reader {
	int dir_fd, fd;		/* owned */
	unsigned number;	/* of fd */
	unsigned first;		/* lowest number in the directory */
	char *map;
	size_t mapped;
	size_t at;		/* of the next line in map */
};

/* The lowest and the highest number there is; 0 when there is no file. */
static int
find_range(int dir_fd, unsigned *ret_first, unsigned *ret_last)
{
	struct dirent *de;
	unsigned n;
	DIR *dir;
	int fd;

	*ret_first = *ret_last = 0;
	fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return (SBX_E_SYS);
	dir = fdopendir(fd);
	if (dir == NULL) {
		sbx_close(&fd);
		return (SBX_E_SYS);
	}
	while ((de = readdir(dir)) != NULL) {
		n = journal_name_number(de->d_name);
		if (n > *ret_last)
			*ret_last = n;
		if (n != 0 && (*ret_first == 0 || n < *ret_first))
			*ret_first = n;
	}
	(void)closedir(dir);
	return (0);
}

static void
unmap(struct journal_reader *r)
{
	if (r->map != NULL)
		(void)munmap(r->map, r->mapped);
	r->map = NULL;
	r->mapped = 0;
}

/* Map what the current file holds now. */
static int
map_again(struct journal_reader *r, struct sbx_err *err)
{
	struct stat st;
	void *p;

	if (fstat(r->fd, &st) < 0)
		return (sbx_err_sys(err, "fstat of journal file %u", r->number));
	if ((size_t)st.st_size == r->mapped)
		return (0);
	unmap(r);
	if (st.st_size == 0)
		return (0);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, r->fd, 0);
	if (p == MAP_FAILED)
		return (sbx_err_sys(err, "mmap of journal file %u", r->number));
	r->map = p;
	r->mapped = (size_t)st.st_size;
	/* it was cut while we read: what comes next is not known to us */
	if (r->at > r->mapped)
		r->at = r->mapped;
	return (0);
}

static int
use_number(struct journal_reader *r, unsigned number, struct sbx_err *err)
{
	char name[JOURNAL_NAME_SIZE];
	struct stat st;
	int fd;

	(void)snprintf(name, sizeof(name), JOURNAL_NAME_FMT, number);
	/* a link or a FIFO in its place must not lead or hold us elsewhere */
	fd = openat(r->dir_fd, name,
	    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return (sbx_err_set(err, SBX_E_NOENT, "%s is missing", name));
	if (fd < 0)
		return (sbx_err_sys(err, "opening %s", name));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		sbx_close(&fd);
		return (sbx_err_set(err, SBX_E_SYS, "%s is no file", name));
	}
	unmap(r);
	sbx_close(&r->fd);
	r->fd = fd;
	r->number = number;
	r->at = 0;
	return (map_again(r, err));
}

/*
 * Is it time to leave the current file?  The newest one may have been made
 * and be empty because the disk filled up: then this one still grows.
 */
static bool
go_on(const struct journal_reader *r, unsigned last)
{
	char name[JOURNAL_NAME_SIZE];
	struct stat st;

	if (r->number + 1 != last)
		return (r->number < last);
	(void)snprintf(name, sizeof(name), JOURNAL_NAME_FMT, last);
	return (fstatat(r->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_size > 0);
}

int
journal_open(const char *dir, struct journal_reader **ret_reader,
    struct sbx_err *err)
{
	struct journal_reader *r;
	unsigned last;
	int res;

	r = sbx_xcalloc(1, sizeof(*r));
	r->fd = -1;
	r->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->dir_fd < 0 || find_range(r->dir_fd, &r->first, &last) < 0)
		res = sbx_err_sys(err, "reading the journal in %s", dir);
	else if (r->first == 0)
		res = sbx_err_set(err, SBX_E_NOENT,
		    "there is no journal in %s yet", dir);
	else
		res = use_number(r, r->first, err);
	if (res < 0) {
		journal_close(r);
		return (res);
	}
	*ret_reader = r;
	return (0);
}

void
journal_close(struct journal_reader *r)
{
	if (r == NULL)
		return;
	unmap(r);
	sbx_close(&r->fd);
	sbx_close(&r->dir_fd);
	free(r);
}

int
journal_next(struct journal_reader *r, struct journal_line *ret_line,
    struct sbx_err *err)
{
	unsigned first, last;
	const char *nl;
	size_t left;
	int res;

	if (r->at >= r->mapped) {
		res = find_range(r->dir_fd, &first, &last);
		if (res < 0)
			return (sbx_err_sys(err, "reading the journal"));
		/* the file first: a newer one is made after its last line */
		res = map_again(r, err);
		if (res < 0)
			return (res);
		if (r->at >= r->mapped) {
			if (!go_on(r, last))
				return (SBX_E_AGAIN);
			res = use_number(r, r->number + 1, err);
			return (res < 0 ? res : journal_next(r, ret_line, err));
		}
	}
	left = r->mapped - r->at;
	/* a last line without end is shown, too: a crash may have left it */
	nl = memchr(r->map + r->at, '\n', left);
	*ret_line = (struct journal_line){
		.file = r->number, .offset = r->at, .text = r->map + r->at,
		.len = nl == NULL ? left : (size_t)(nl - (r->map + r->at)),
		.ended = nl != NULL,
	};
	r->at += ret_line->len + ret_line->ended;
	return (0);
}

/* Step back over at most n lines of the current file; returns how many. */
static uint64_t
back_lines(struct journal_reader *r, uint64_t n)
{
	const char *nl;
	uint64_t done = 0;
	size_t end;

	r->at = r->mapped;
	while (done < n && r->at > 0) {
		end = r->at - (r->map[r->at - 1] == '\n');
		nl = end == 0 ? NULL : memrchr(r->map, '\n', end);
		r->at = nl == NULL ? 0 : (size_t)(nl - r->map) + 1;
		done++;
	}
	return (done);
}

int
journal_seek_last(struct journal_reader *r, uint64_t n, struct sbx_err *err)
{
	unsigned last;
	int res;

	if (find_range(r->dir_fd, &r->first, &last) < 0)
		return (sbx_err_sys(err, "reading the journal"));
	for (;;) {
		res = use_number(r, last, err);
		if (res < 0)
			return (res);
		n -= back_lines(r, n);
		if (n == 0 || last <= r->first)
			return (0);
		last--;
	}
}
