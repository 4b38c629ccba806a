#include "common/base/secret.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The head is in the same pages: in a forked child it is zero with them, and
 * what is left there is an empty secret without room. */
struct sbx_secret {
	size_t map_bytes;
	size_t max;
	size_t len;
	char text[];		/* max bytes and a NUL */
};

static int
protect(void *p, size_t bytes, struct sbx_err *err)
{
	if (madvise(p, bytes, MADV_DONTDUMP) < 0 ||
	    madvise(p, bytes, MADV_WIPEONFORK) < 0)
		return (sbx_err_sys(err, "madvise"));
	if (mlock(p, bytes) < 0)
		return (sbx_err_sys(err, "memory for a credential cannot be "
		    "locked (RLIMIT_MEMLOCK of the suite; LimitMEMLOCK= of its "
		    "unit)"));
	return (0);
}

struct sbx_secret *
sbx_secret_new(size_t max, struct sbx_err *err)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct sbx_secret *s;
	size_t bytes;
	void *p;

	if (max == 0 || max > SBX_SECRET_MAX) {
		(void)sbx_err_set(err, SBX_E_RANGE, "a credential of %zu bytes",
		    max);
		return (NULL);
	}
	bytes = (sizeof(*s) + max + 1 + page - 1) / page * page;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		(void)sbx_err_sys(err, "mmap");
		return (NULL);
	}
	if (protect(p, bytes, err) < 0) {
		(void)munmap(p, bytes); /* it was just made */
		return (NULL);
	}
	s = p;
	s->map_bytes = bytes;
	s->max = max;
	return (s);
}

void
sbx_secret_free(struct sbx_secret *s)
{
	size_t bytes;

	/* a forked child's copy says 0: its zeroed pages end with it */
	if (s == NULL || (bytes = s->map_bytes) == 0)
		return;
	explicit_bzero(s, bytes);
	(void)munmap(s, bytes); /* with the lock; the address was mmap's */
}

void
sbx_cleanup_secret(struct sbx_secret **s)
{
	sbx_secret_free(*s);
	*s = NULL;
}

void
sbx_secret_clear(struct sbx_secret *s)
{
	explicit_bzero(s->text, s->len);
	s->len = 0;
}

int
sbx_secret_add(struct sbx_secret *s, const void *p, size_t n)
{
	if (n > s->max - s->len)
		return (SBX_E_LIMIT);
	if (n > 0)
		memcpy(s->text + s->len, p, n);
	s->len += n;
	return (0);
}

int
sbx_secret_read(struct sbx_secret *s, int fd)
{
	ssize_t n;

	if (s->len == s->max)
		return (SBX_E_LIMIT);
	n = read(fd, s->text + s->len, s->max - s->len);
	if (n < 0)
		return (errno == EAGAIN || errno == EINTR ? SBX_E_AGAIN :
		    SBX_E_SYS);
	s->len += (size_t)n;
	return ((int)n);
}

static bool
is_blank(char c)
{
	return (c == ' ' || c == '\t' || c == '\r' || c == '\n');
}

void
sbx_secret_trim(struct sbx_secret *s)
{
	size_t from = 0, to = s->len;

	while (to > 0 && is_blank(s->text[to - 1]))
		to--;
	while (from < to && is_blank(s->text[from]))
		from++;
	if (from > 0)
		memmove(s->text, s->text + from, to - from);
	explicit_bzero(s->text + to - from, s->len - (to - from));
	s->len = to - from;
}

size_t
sbx_secret_len(const struct sbx_secret *s)
{
	return (s->len);
}

const char *
sbx_secret_text(const struct sbx_secret *s)
{
	return (s->text); /* what was never written is zero, so is its end */
}

bool
sbx_secret_same(const struct sbx_secret *s, const void *p, size_t n)
{
	return (n == s->len && sbx_same_secret(s->text, p, n));
}
