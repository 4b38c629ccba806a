/*
 * Unpacking a copy stream, in a helper without exec, as the sandbox user: a
 * hostile stream reaches what a guest reaches anyway.  Still, nothing is
 * written through a link, so that a copy lands where it was asked to.
 */
#include "common/proto/copystream.h"
#include "sbxd/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct result {
	int32_t error;
	uint32_t files;
	uint64_t bytes;
	char reason[256];
	char final_path[4096];
};
struct record {
	unsigned type, mode;
	uint64_t size;
	char path[SBX_COPY_MAX_PATH + 1];
};
struct unpacking {
	int in, dir;		/* stream; destination, O_PATH */
	bool one;		/* mode FILE: the name is ours to give */
	char name[NAME_MAX + 1]; /* for mode FILE */
	struct result r;
};

static int
failed(struct unpacking *u, int error, const char *what)
{
	char text[160];

	u->r.error = error;
	(void)snprintf(u->r.reason, sizeof(u->r.reason), "%s%s%s",
	    sbx_vis(text, sizeof(text), what, strlen(what)),
	    error > 0 ? ": " : "", error > 0 ? strerror(error) : "");
	return (-1);
}

/* Exactly n bytes, or the stream is cut or stalls. */
static int
take(struct unpacking *u, void *p, size_t n)
{
	while (n > 0) {
		struct pollfd pfd = { .fd = u->in, .events = POLLIN };
		ssize_t got;

		if (poll(&pfd, 1, UNPACK_STALL_MS) == 0)
			return (failed(u, ETIMEDOUT, "the copy stalled"));
		got = read(u->in, p, n);
		if (got == -1 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got <= 0)
			return (failed(u, EPIPE, "the copy was cut off"));
		p = (char *)p + got;
		n -= (size_t)got;
	}
	return (0);
}

static uint64_t
be(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | *p++;
	return (v);
}

/* Relative, no empty, "." or ".." component. */
static bool
path_good(const char *path)
{
	for (const char *p = path, *end; *p != '\0'; p = end + (*end == '/')) {
		size_t n;

		end = strchrnul(p, '/');
		n = (size_t)(end - p);
		if (n == 0 || n > NAME_MAX || (n == 1 && p[0] == '.') ||
		    (n == 2 && p[0] == '.' && p[1] == '.'))
			return (false);
		if (end[0] == '/' && end[1] == '\0')
			return (false);
	}
	return (path[0] != '\0');
}

/* The next record's header and path; SBX_COPY_T_END has neither path nor data
 * behind it. */
static int
take_record(struct unpacking *u, struct record *rec)
{
	uint8_t h[SBX_COPY_HDR_BYTES];
	size_t n;

	if (take(u, h, sizeof(h)) != 0)
		return (-1);
	rec->type = h[0];
	rec->mode = (unsigned)be(h + 1, 2);
	n = (size_t)be(h + 3, 2);
	rec->size = be(h + 5, 8);
	if (rec->type >= SBX_COPY_T_MAX || n > SBX_COPY_MAX_PATH)
		return (failed(u, EPROTO, "the copy stream is malformed"));
	if (take(u, rec->path, n) != 0)
		return (-1);
	rec->path[n] = '\0';
	if (rec->type == SBX_COPY_T_END)
		return (n == 0 && rec->size == 0 ? 0 :
		    failed(u, EPROTO, "the copy stream is malformed"));
	if (strlen(rec->path) != n || !path_good(rec->path))
		return (failed(u, EPROTO, "the copy stream has a bad path"));
	if (++u->r.files > SBX_COPY_MAX_FILES)
		return (failed(u, EFBIG, "more files than a copy may have"));
	if (rec->size > SBX_COPY_MAX_BYTES - u->r.bytes)
		return (failed(u, EFBIG, "more bytes than a copy may have"));
	u->r.bytes += rec->type == SBX_COPY_T_FILE ? rec->size : 0;
	return (0);
}

static int
open_beneath(int dir, const char *path, uint64_t flags, uint64_t mode)
{
	struct open_how how = { .flags = flags | O_CLOEXEC, .mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
		    RESOLVE_NO_MAGICLINKS };

	return ((int)syscall(SYS_openat2, dir, path, &how, sizeof(how)));
}

/* The directory name in dir, made when there is nothing.  Closes dir; -1 with
 * errno: it is something else, a link for instance. */
static int
enter_dir(int dir, const char *name)
{
	int sub = -1, error;

	if (mkdirat(dir, name, 0755) == 0 || errno == EEXIST)
		sub = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW |
		    O_CLOEXEC);
	error = errno;
	sbx_close(&dir);
	errno = error;
	return (sub);
}

/* The directory that path's last component goes into, made as needed. */
static int
open_parent(struct unpacking *u, char *path, const char **ret_name)
{
	char *p = path, *slash = strrchr(path, '/');
	int dir;

	*ret_name = slash == NULL ? path : slash + 1;
	if (slash != NULL) {
		/* mostly it is there already: one call then */
		*slash = '\0';
		dir = open_beneath(u->dir, path, O_PATH | O_DIRECTORY, 0);
		*slash = '/';
		if (dir != -1 || errno != ENOENT)
			return (dir);
	}
	dir = fcntl(u->dir, F_DUPFD_CLOEXEC, 3);
	for (; dir != -1 && (slash = strchr(p, '/')) != NULL; p = slash + 1) {
		*slash = '\0';
		dir = enter_dir(dir, p);
		*slash = '/';
	}
	return (dir);
}

static int
put_data(struct unpacking *u, int fd, uint64_t size, const char *path)
{
	static char buf[128 << 10];

	while (size > 0) {
		size_t n = size < sizeof(buf) ? (size_t)size : sizeof(buf);

		if (take(u, buf, n) != 0)
			return (-1);
		if (fd != -1 && sbx_write_all(fd, buf, n) != 0)
			return (failed(u, errno, path));
		size -= n;
	}
	return (0);
}

static int
put_file(struct unpacking *u, int dir, const char *name,
    const struct record *rec)
{
	int fd, r;

	/* a new inode: never into what a link or another name leads to */
	if (unlinkat(dir, name, 0) == -1 && errno != ENOENT)
		return (failed(u, errno, rec->path));
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
	    O_CLOEXEC, (rec->mode & 0111) != 0 ? 0755 : 0644);
	if (fd == -1)
		return (failed(u, errno, rec->path));
	r = put_data(u, fd, rec->size, rec->path);
	sbx_close(&fd);
	return (r);
}

static int
put_link(struct unpacking *u, int dir, const char *name,
    const struct record *rec)
{
	char target[SBX_COPY_MAX_PATH + 1];

	if (rec->size == 0 || rec->size > SBX_COPY_MAX_PATH)
		return (failed(u, EPROTO, "the copy stream has a bad link"));
	if (take(u, target, (size_t)rec->size) != 0)
		return (-1);
	target[rec->size] = '\0';
	if (strlen(target) != rec->size)
		return (failed(u, EPROTO, "the copy stream has a bad link"));
	if (unlinkat(dir, name, 0) == -1 && errno != ENOENT)
		return (failed(u, errno, rec->path));
	if (symlinkat(target, dir, name) == -1)
		return (failed(u, errno, rec->path));
	return (0);
}

/* One that exists is fine; something else in its place is not. */
static int
put_dir(struct unpacking *u, int dir, const char *name,
    const struct record *rec)
{
	struct stat st;

	if (rec->size != 0)
		return (failed(u, EPROTO, "the copy stream is malformed"));
	if (mkdirat(dir, name, 0755) == 0)
		return (0);
	if (errno != EEXIST ||
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return (failed(u, errno, rec->path));
	return (S_ISDIR(st.st_mode) ? 0 :
	    failed(u, ENOTDIR, rec->path));
}

static int
put_record(struct unpacking *u, struct record *rec)
{
	const char *name = u->name;
	int dir, r = 0;

	if (u->one && (rec->type != SBX_COPY_T_FILE || u->r.files > 1 ||
	    strchr(rec->path, '/') != NULL))
		return (failed(u, EPROTO, "not one file"));
	if (u->one)
		dir = fcntl(u->dir, F_DUPFD_CLOEXEC, 3);
	else
		dir = open_parent(u, rec->path, &name);
	if (dir == -1)
		return (failed(u, errno, rec->path));
	if (u->one && u->name[0] == '\0')
		name = rec->path;
	if (rec->type == SBX_COPY_T_FILE)
		r = put_file(u, dir, name, rec);
	else if (rec->type == SBX_COPY_T_LINK)
		r = put_link(u, dir, name, rec);
	else
		r = put_dir(u, dir, name, rec);
	if (u->one && r == 0) {
		size_t n = strlen(u->r.final_path);

		(void)snprintf(u->r.final_path + n,
		    sizeof(u->r.final_path) - n, "/%s", name);
	}
	sbx_close(&dir);
	return (r);
}

/* mkdir -p; the destination may lead through links: it is the caller's word,
 * and reaches what the sandbox reaches. */
static void
make_dirs(const char *path)
{
	char part[PATH_MAX];

	for (const char *p = path; (p = strchrnul(p + 1, '/')) != NULL;) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(p - path),
		    path);
		(void)mkdir(part, 0755);
		if (*p == '\0')
			return;
	}
}

/*
 * FILE: an existing directory keeps the source's name, everything else is the
 * full target path, whose parent must exist.
 */
static int
open_dest(struct unpacking *u, const char *dest)
{
	char path[4096], *slash;
	struct stat st;

	(void)sbx_strlcpy(path, dest, sizeof(path));
	if (u->one && (stat(path, &st) == -1 || !S_ISDIR(st.st_mode))) {
		if ((slash = strrchr(path, '/')) == NULL || slash[1] == '\0' ||
		    sbx_strlcpy(u->name, slash + 1, sizeof(u->name)) != 0 ||
		    !path_good(u->name))
			return (failed(u, ENOENT, dest));
		*slash = '\0';
	} else if (!u->one)
		make_dirs(path);
	u->dir = open(path[0] == '\0' ? "/" : path,
	    O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (u->dir == -1)
		return (failed(u, errno, path));
	while ((slash = strrchr(path, '/')) != NULL && slash[1] == '\0')
		*slash = '\0';
	(void)sbx_strlcpy(u->r.final_path, path, sizeof(u->r.final_path));
	return (0);
}

static _Noreturn void
unpack(int in, int result_fd, bool one, const char *dest)
{
	static struct unpacking u;
	static struct record rec;
	int r;

	u.in = in;
	u.one = one;
	r = open_dest(&u, dest);
	while (r == 0 && (r = take_record(&u, &rec)) == 0 &&
	    rec.type != SBX_COPY_T_END)
		r = put_record(&u, &rec);
	(void)usleep(SBX_COPY_SETTLE_MS * 1000);
	(void)sbx_write_all(result_fd, &u.r, sizeof(u.r));
	_exit(0);
}

static void
send_result(uint32_t id, const struct result *r)
{
	struct sbx_init_unpacked m = { .error = r->error, .files = r->files,
		.bytes = r->bytes, .reason = r->reason,
		.final_path = r->final_path };

	init_send(SBX_MSG_INIT_UNPACKED, id, &m, NULL);
}

static void
answer(uint32_t id, int fd)
{
	static struct result r;

	if (!helper_read(fd, &r, sizeof(r)))
		r = (struct result){ .error = EIO,
			.reason = "the unpacking was killed" };
	r.reason[sizeof(r.reason) - 1] = '\0';
	r.final_path[sizeof(r.final_path) - 1] = '\0';
	send_result(id, &r);
}

void
unpack_start(struct init *in, const struct sbx_init_unpack *q, int fd,
    uint32_t id)
{
	int result_fd;
	pid_t pid = q->dest[0] == '/' ? helper_fork(in, id, "sbx-unpack",
	    answer, &result_fd) : -EINVAL;

	if (pid == 0)
		unpack(fd, result_fd, q->mode == SBX_COPY_FILE, q->dest);
	if (pid == -EINVAL)
		send_result(id, &(struct result){ .error = EINVAL,
		    .reason = "the destination must be absolute" });
	else if (pid < 0)
		send_result(id, &(struct result){ .error = EBUSY,
		    .reason = "too many copies into this sandbox at once" });
}
