#include "common/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U	/* Linux 6.3 */
#endif

#define BUF_FIRST 128		/* bytes a buffer starts with */

/* --- errors ---------------------------------------------------------------- */

const char *
sbx_error_name(int error)
{
	switch ((enum sbx_error)error) {
	case SBX_E_OK: return ("SBX_E_OK");
	case SBX_E_AGAIN: return ("SBX_E_AGAIN");
	case SBX_E_CLOSED: return ("SBX_E_CLOSED");
	case SBX_E_SYS: return ("SBX_E_SYS");
	case SBX_E_TYPE: return ("SBX_E_TYPE");
	case SBX_E_SENDER: return ("SBX_E_SENDER");
	case SBX_E_RECEIVER: return ("SBX_E_RECEIVER");
	case SBX_E_LENGTH: return ("SBX_E_LENGTH");
	case SBX_E_FDS: return ("SBX_E_FDS");
	case SBX_E_STATE: return ("SBX_E_STATE");
	case SBX_E_AGAINST_ONCE: return ("SBX_E_AGAINST_ONCE");
	case SBX_E_DECODE: return ("SBX_E_DECODE");
	case SBX_E_VERSION: return ("SBX_E_VERSION");
	case SBX_E_RANGE: return ("SBX_E_RANGE");
	case SBX_E_SYNTAX: return ("SBX_E_SYNTAX");
	case SBX_E_NOENT: return ("SBX_E_NOENT");
	case SBX_E_EXISTS: return ("SBX_E_EXISTS");
	case SBX_E_LIMIT: return ("SBX_E_LIMIT");
	case SBX_E_TIMEOUT: return ("SBX_E_TIMEOUT");
	case SBX_E_POLICY: return ("SBX_E_POLICY");
	case SBX_E_UNSUPPORTED: return ("SBX_E_UNSUPPORTED");
	}
	return ("not an sbx_error");
}

int
sbx_err_set(struct sbx_err *err, int code, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (err != NULL) {
		err->code = code;
		err->sys_errno = saved;
		va_start(ap, fmt);
		(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
		va_end(ap);
		errno = saved;
	}
	return (code);
}

int
sbx_err_sys(struct sbx_err *err, const char *fmt, ...)
{
	int saved = errno;
	size_t n;
	va_list ap;

	if (err != NULL) {
		err->code = SBX_E_SYS;
		err->sys_errno = saved;
		va_start(ap, fmt);
		(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
		va_end(ap);
		n = strlen(err->msg);
		(void)snprintf(err->msg + n, sizeof(err->msg) - n, ": %s",
		    strerror(saved));
		errno = saved;
	}
	return (SBX_E_SYS);
}

/* --- memory ---------------------------------------------------------------- */

/* By write(2) alone: stdio may want memory, which is what there is none of. */
static _Noreturn void
base_die(const char *why)
{
	static const char head[] = "sbx: fatal: ";

	if (write(STDERR_FILENO, head, sizeof(head) - 1) < 0 ||
	    write(STDERR_FILENO, why, strlen(why)) < 0) {
		/* There is nobody left to tell. */
	}
	_exit(2);
}

void *
sbx_xcalloc(size_t n, size_t size)
{
	/* calloc(0) may give NULL, which here means exhaustion */
	void *p = calloc(n == 0 ? 1 : n, size == 0 ? 1 : size);

	if (p == NULL)
		base_die("out of memory\n");
	return (p);
}

void *
sbx_xreallocarray(void *p, size_t n, size_t size)
{
	if (n == 0 || size == 0)
		n = size = 1;
	p = reallocarray(p, n, size);
	if (p == NULL)
		base_die("out of memory\n");
	return (p);
}

char *
sbx_xstrdup(const char *s)
{
	char *p = strdup(s);

	if (p == NULL)
		base_die("out of memory\n");
	return (p);
}

char *
sbx_xasprintf(const char *fmt, ...)
{
	char *p;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&p, fmt, ap);
	va_end(ap);
	if (n < 0)
		base_die("out of memory\n");
	return (p);
}

void
sbx_cleanup_free(void *pp)
{
	free(*(void **)pp);
}

void
sbx_cleanup_fd(int *fd)
{
	sbx_close(fd);
}

void
sbx_close(int *fd)
{
	int saved = errno;

	/* Never retried: Linux frees the number even when close fails. */
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
	errno = saved;
}

/* --- strings and numbers --------------------------------------------------- */

int
sbx_strlcpy(char *dst, const char *src, size_t size)
{
	size_t n = strnlen(src, size);

	if (size == 0)
		return (SBX_E_LIMIT);
	if (n >= size) {
		dst[0] = '\0';
		return (SBX_E_LIMIT);
	}
	memcpy(dst, src, n + 1);
	return (0);
}

int
sbx_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret_v)
{
	uint64_t v = 0;
	bool over = false;

	if (*s == '\0')
		return (SBX_E_SYNTAX);
	/* The whole text first: "99999999999999999999x" is not a number. */
	for (; *s != '\0'; s++) {
		if (*s < '0' || *s > '9')
			return (SBX_E_SYNTAX);
		over = over || __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v);
	}
	if (over || v < min || v > max)
		return (SBX_E_RANGE);
	*ret_v = v;
	return (0);
}

void
sbx_random(void *buf, size_t n)
{
	uint8_t *p = buf;
	ssize_t got;

	while (n > 0) {
		got = getrandom(p, n, 0);
		if (got < 0) {
			if (errno == EINTR)
				continue;
			/* An identifier that can be guessed is worse. */
			base_die("getrandom failed\n");
		}
		p += got;
		n -= (size_t)got;
	}
}

void
sbx_random_hex(char *dst, size_t nbytes)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t raw[64];
	size_t i, n;

	for (; nbytes > 0; nbytes -= n) {
		n = nbytes < sizeof(raw) ? nbytes : sizeof(raw);
		sbx_random(raw, n);
		for (i = 0; i < n; i++) {
			*dst++ = digits[raw[i] >> 4];
			*dst++ = digits[raw[i] & 15];
		}
	}
	*dst = '\0';
}

bool
sbx_is_hex(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!((s[i] >= '0' && s[i] <= '9') ||
		    (s[i] >= 'a' && s[i] <= 'f')))
			return (false);
	return (s[n] == '\0');
}

const char *
sbx_vis(char *dst, size_t size, const char *src, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	size_t at = 0, cut = 0, i, need;
	unsigned char c;

	if (size == 0)
		return ("");
	/* `cut` trails behind: the last place where "..." still fits */
	for (i = 0; i < len; i++) {
		c = (unsigned char)src[i];
		need = c >= 0x20 && c < 0x7f ? 1 : 4;
		if (at + 3 < size)
			cut = at;
		if (need >= size - at)
			break;
		if (need == 1) {
			dst[at++] = (char)c;
			continue;
		}
		dst[at++] = '\\';
		dst[at++] = 'x';
		dst[at++] = digits[c >> 4];
		dst[at++] = digits[c & 15];
	}
	if (i < len) {
		at = cut;
		for (i = 0; i < 3 && at + 1 < size; i++)
			dst[at++] = '.';
	}
	dst[at] = '\0';
	return (dst);
}

/* --- clocks ---------------------------------------------------------------- */

static uint64_t
clock_ns(clockid_t id)
{
	struct timespec ts;

	/* These two clocks exist on every Linux: it cannot fail. */
	(void)clock_gettime(id, &ts);
	return ((uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec);
}

uint64_t
sbx_mono_ns(void)
{
	return (clock_ns(CLOCK_MONOTONIC));
}

uint64_t
sbx_wall_ns(void)
{
	return (clock_ns(CLOCK_REALTIME));
}

bool
sbx_same_secret(const char *a, const char *b, size_t n)
{
	volatile unsigned char diff = 0;
	size_t i;

	for (i = 0; i < n; i++)
		diff |= (unsigned char)(a[i] ^ b[i]);
	return (diff == 0);
}

/* Days to a date: every 400 years have 146097 days; years are counted from
 * March, so that the leap day is last. */
void
sbx_wall_text(uint64_t wall_ns, char ret_text[SBX_WALL_SIZE])
{
	uint64_t sec = wall_ns / 1000000000, day = sec / 86400 + 719468;
	uint64_t era = day / 146097, doe = day % 146097;
	uint64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	uint64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	uint64_t mp = (5 * doy + 2) / 153;
	unsigned month = (unsigned)(mp < 10 ? mp + 3 : mp - 9);
	unsigned year = (unsigned)(yoe + era * 400 + (month <= 2));

	sec %= 86400;
	(void)snprintf(ret_text, SBX_WALL_SIZE,
	    "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", year, month,
	    (unsigned)(doy - (153 * mp + 2) / 5 + 1), (unsigned)(sec / 3600),
	    (unsigned)(sec / 60 % 60), (unsigned)(sec % 60),
	    (unsigned)(wall_ns / 1000000 % 1000));
}

/* --- descriptors ----------------------------------------------------------- */

int
sbx_write_all(int fd, const void *buf, size_t n)
{
	const uint8_t *p = buf;
	ssize_t done;

	while (n > 0) {
		done = write(fd, p, n);
		if (done < 0) {
			if (errno == EINTR)
				continue;
			return (SBX_E_SYS);
		}
		if (done == 0) {
			errno = EIO;
			return (SBX_E_SYS);
		}
		p += done;
		n -= (size_t)done;
	}
	return (0);
}

int
sbx_memfd_sealed(const char *name, const void *buf, size_t n, int *ret_fd)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	SBX_CLEANUP(fd) int fd = -1;

	fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)	/* before Linux 6.3 */
		fd = memfd_create(name, flags);
	if (fd < 0 || sbx_write_all(fd, buf, n) < 0 ||
	    lseek(fd, 0, SEEK_SET) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW |
	    F_SEAL_WRITE) < 0)
		return (SBX_E_SYS);
	*ret_fd = sbx_steal_fd(&fd);
	return (0);
}

int
sbx_memfd_read(int fd, size_t max, char **ret_p, size_t *ret_n)
{
	const int need = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	SBX_CLEANUP(free) char *p = NULL;
	struct stat st;
	size_t at = 0, n;
	ssize_t got;
	int seals;

	/* EINVAL: no memfd at all, so nothing that could be sealed */
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0)
		return (errno == EINVAL ? SBX_E_POLICY : SBX_E_SYS);
	if ((seals & need) != need)
		return (SBX_E_POLICY);
	/* Only now: before the seals the size could still change. */
	if (fstat(fd, &st) < 0)
		return (SBX_E_SYS);
	if ((uint64_t)st.st_size > max)
		return (SBX_E_LIMIT);
	n = (size_t)st.st_size;
	p = sbx_xreallocarray(NULL, n + 1, 1);
	while (at < n) {
		got = pread(fd, p + at, n - at, (off_t)at);
		if (got < 0) {
			if (errno == EINTR)
				continue;
			return (SBX_E_SYS);
		}
		if (got == 0) {
			errno = EIO;
			return (SBX_E_SYS);
		}
		at += (size_t)got;
	}
	p[n] = '\0';
	*ret_p = p;
	p = NULL;
	*ret_n = n;
	return (0);
}

/* --- growing buffers ------------------------------------------------------- */

void
sbx_buf_init(struct sbx_buf *b, size_t max)
{
	/* Never NULL, so that an empty buffer may be printed too. */
	*b = (struct sbx_buf){ .max = max, .size = 1 };
	b->data = sbx_xcalloc(1, 1);
}

void
sbx_buf_clear(struct sbx_buf *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->size = 0;
	b->overflow = false;
}

/* Room for n more bytes and the NUL. */
static int
buf_reserve(struct sbx_buf *b, size_t n)
{
	size_t size;

	if (n > b->max - b->len) {
		b->overflow = true;
		return (SBX_E_LIMIT);
	}
	if (b->len + n < b->size)
		return (0);
	size = b->size < BUF_FIRST ? BUF_FIRST : b->size;
	while (size <= b->len + n)
		if (__builtin_mul_overflow(size, 2, &size))
			size = b->len + n + 1;
	if (b->max < SIZE_MAX && size > b->max + 1)
		size = b->max + 1;
	b->data = sbx_xreallocarray(b->data, size, 1);
	b->size = size;
	return (0);
}

int
sbx_buf_add(struct sbx_buf *b, const void *p, size_t n)
{
	int r = buf_reserve(b, n);

	if (r < 0)
		return (r);
	if (n > 0)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	b->data[b->len] = '\0';
	return (0);
}

int
sbx_buf_str(struct sbx_buf *b, const char *s)
{
	return (sbx_buf_add(b, s, strlen(s)));
}

int
sbx_buf_printf(struct sbx_buf *b, const char *fmt, ...)
{
	va_list ap;
	int n, r;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0) {
		b->overflow = true;
		return (SBX_E_LIMIT);
	}
	if ((r = buf_reserve(b, (size_t)n)) < 0)
		return (r);
	va_start(ap, fmt);
	(void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
	return (0);
}

void
sbx_buf_consume(struct sbx_buf *b, size_t n)
{
	if (n > b->len)
		n = b->len;
	if (n == 0)
		return;
	memmove(b->data, b->data + n, b->len - n);
	b->len -= n;
	b->data[b->len] = '\0';
}
