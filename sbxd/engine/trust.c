/*
 * What a sandbox's clients trust: files that the proxy made, in a directory
 * beside the sandbox's upper one, which it sees read-only at SBX_TRUST_DIR.
 * They are copied and never looked into: a proxy that lies, lies to that one
 * sandbox's clients.  The key of the authority is in none of them; its memory
 * is held for the next proxy.
 */
#include "common/base/egress_env.h"
#include "sbxd/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (3u << 20)	/* of the proxy's, each */
#define KEPT_MAX 65536u		/* of the authority */
#define TEXT_MAX 8192u		/* of ours */
#define BURST 16		/* a proxy that comes again does so once */
#define BURST_NS 60000000000ull

static const char *const files[] = { SBX_TRUST_BUNDLE, SBX_TRUST_OWN,
	SBX_TRUST_JKS };
#define KEPT SBX_NELEM(files)	/* index of the authority's descriptor */

/* It cannot change any more, and reading it waits for nobody. */
static bool
is_sealed(int fd, off_t max)
{
	const int need = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return (seals != -1 && (seals & need) == need &&
	    fstat(fd, &st) == 0 && st.st_size <= max);
}

static int
open_dir(const struct sandbox *sb)
{
	char path[LAYER_NAME + 8];

	(void)snprintf(path, sizeof(path), "%s/" TRUST, sb->dir);
	return (openat(sb->e->scratch_fd, path, O_RDONLY | O_DIRECTORY |
	    O_NOFOLLOW | O_CLOEXEC));
}

/* All of it or as it was before.  0, or errno. */
static int
put(int dir, const char *name, const void *p, size_t n)
{
	int SBX_CLEANUP(fd) fd = -1;
	char tmp[32];
	int error;

	(void)snprintf(tmp, sizeof(tmp), ".%s", name);
	(void)unlinkat(dir, tmp, 0);	/* of a time without space */
	fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd != -1 && sbx_write_all(fd, p, n) == 0 &&
	    fchmod(fd, 0444) == 0 && renameat(dir, tmp, dir, name) == 0)
		return (0);
	error = errno;
	(void)unlinkat(dir, tmp, 0);
	return (error);
}

/* In the end: a shell that finds it finds the others. */
static int
put_ours(int dir)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	int error;

	sbx_buf_init(&b, TEXT_MAX);
	if ((error = put(dir, SBX_TRUST_WGETRC, sbx_egress_wgetrc,
	    strlen(sbx_egress_wgetrc))) != 0)
		return (error);
	if (sbx_egress_env_sh(&b) != 0)
		return (E2BIG);
	return (put(dir, SBX_TRUST_ENV, b.data, b.len));
}

static int
put_all(int dir, const int fds[])
{
	int error = 0;

	for (size_t i = 0; error == 0 && i < SBX_NELEM(files); i++) {
		SBX_CLEANUP(free) char *p = NULL;
		size_t n = 0;

		if (sbx_memfd_read(fds[i], FILE_MAX, &p, &n) != 0)
			return (EINVAL);
		error = put(dir, files[i], p, n);
	}
	return (error != 0 ? error : put_ours(dir));
}

/* A proxy could keep us writing, and all other sandboxes waiting. */
static bool
too_often(struct sandbox *sb)
{
	uint64_t now = sbx_mono_ns();

	if (now - sb->trust_ns > BURST_NS) {
		sb->trust_ns = now;
		sb->trusts = 0;
	}
	return (sb->trusts++ >= BURST);
}

int
trust_take(struct sandbox *sb, int fds[], const char **ret_reason)
{
	int SBX_CLEANUP(fd) dir = -1;
	int error;

	*ret_reason = "its clients' files were written too often";
	if (too_often(sb))
		return (EAGAIN);
	*ret_reason = "no sealed memory of the right size";
	for (size_t i = 0; i <= KEPT; i++)
		if (!is_sealed(fds[i], i == KEPT ? KEPT_MAX : FILE_MAX))
			return (EINVAL);
	*ret_reason = "the suite has too many runs and sandboxes";
	if (fds[KEPT] >= FD_SANDBOXES(sb->e))
		return (EMFILE);
	*ret_reason = "writing the files of its clients";
	if ((dir = open_dir(sb)) == -1)
		return (errno);
	if ((error = put_all(dir, fds)) != 0)
		return (error);
	*ret_reason = "";
	sbx_close(&sb->authority);
	sb->authority = sbx_steal_fd(&fds[KEPT]);
	return (0);
}

/* What stands there is of put(), and no guest can write it. */
static int
copy(int from, int to, const char *name)
{
	int SBX_CLEANUP(fd) fd = openat(from, name, O_RDONLY | O_NOFOLLOW |
	    O_CLOEXEC);
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char chunk[16384];
	ssize_t n = -1;

	sbx_buf_init(&b, FILE_MAX);
	if (fd == -1)
		return (errno);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		if (sbx_buf_add(&b, chunk, (size_t)n) != 0)
			return (EFBIG);
	return (n == -1 ? errno : put(to, name, b.data, b.len));
}

int
trust_inherit(struct sandbox *sb, struct sandbox *old)
{
	int SBX_CLEANUP(fd) from = -1, SBX_CLEANUP(fd) to = -1;
	int error = 0;

	if (old->authority == -1)
		return (0);
	if ((from = open_dir(old)) == -1 || (to = open_dir(sb)) == -1)
		return (errno);
	for (size_t i = 0; error == 0 && i < SBX_NELEM(files); i++)
		error = copy(from, to, files[i]);
	if (error == 0 && (error = put_ours(to)) == 0)
		sb->authority = sbx_steal_fd(&old->authority);
	return (error);
}

void
trust_tell_proxy(const struct sandbox *sb)
{
	struct sbx_proxy_kept m = { .container = sb->id };

	if (sb->authority != -1 && (sb->state == SB_READY ||
	    sb->state == SB_FROZEN))
		(void)sbx_send_proxy_kept(sb->e->proxy, 0, &m, &sb->authority);
}
