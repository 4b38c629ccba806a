#ifndef SBX_BASE_BASE_H
#define SBX_BASE_BASE_H

/*
 * What every process of the suite may use: errors, memory, descriptors,
 * strings, numbers, clocks.  Nothing here logs above debug or exits, except
 * the sbx_x* allocators, which end the process when memory is out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define SBX_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define SBX_CLEANUP(how) __attribute__((cleanup(sbx_cleanup_##how)))
#define SBX_NELEM(a) (sizeof(a) / sizeof((a)[0]))

/* Functions return 0 or one of these, negative.  Names: sbx_error_name(). */
enum sbx_error {
	SBX_E_OK = 0,
	SBX_E_AGAIN = -1,	/* would block, or not complete yet */
	SBX_E_CLOSED = -2,	/* the peer is gone */
	SBX_E_SYS = -3,		/* a system call failed: see sys_errno */
	SBX_E_TYPE = -4,	/* unknown message type */
	SBX_E_SENDER = -5,	/* this peer may not send it */
	SBX_E_RECEIVER = -6,	/* this process may not receive it */
	SBX_E_LENGTH = -7,	/* too long, or header and record disagree */
	SBX_E_FDS = -8,		/* wrong number of descriptors */
	SBX_E_STATE = -9,	/* not permitted now, or no handler */
	SBX_E_AGAINST_ONCE = -10, /* permitted once only */
	SBX_E_DECODE = -11,	/* truncated, trailing bytes, embedded NUL */
	SBX_E_VERSION = -12,	/* header of another protocol version */
	SBX_E_RANGE = -13,	/* a number out of range */
	SBX_E_SYNTAX = -14,	/* text that does not parse */
	SBX_E_NOENT = -15,	/* no such thing */
	SBX_E_EXISTS = -16,	/* there is one already */
	SBX_E_LIMIT = -17,	/* a table or buffer is full */
	SBX_E_TIMEOUT = -18,	/* the deadline passed */
	SBX_E_POLICY = -19,	/* not permitted */
	SBX_E_UNSUPPORTED = -20, /* this kernel or image lacks it */
};
const char *sbx_error_name(int error);

/* Filled where the failure happens, when a human will read it. */
struct sbx_err {
	int code;		/* enum sbx_error */
	int sys_errno;		/* errno at the failure, or 0 */
	char msg[256];		/* a sentence, NUL-terminated */
};
/* Fill err (NULL ok) from a format; saves errno; returns code. */
int sbx_err_set(struct sbx_err *err, int code, const char *fmt, ...)
    SBX_PRINTF(3, 4);
/* The same, appending ": strerror(errno)"; returns SBX_E_SYS. */
int sbx_err_sys(struct sbx_err *err, const char *fmt, ...) SBX_PRINTF(2, 3);

/* Allocation: never NULL; on exhaustion or overflow exit(2) with a line. */
void *sbx_xcalloc(size_t n, size_t size);
void *sbx_xreallocarray(void *p, size_t n, size_t size);
char *sbx_xstrdup(const char *s);
char *sbx_xasprintf(const char *fmt, ...) SBX_PRINTF(1, 2);

void sbx_cleanup_free(void *pp);	/* void ** */
void sbx_cleanup_fd(int *fd);		/* closes when >= 0 */
void sbx_close(int *fd);		/* closes when >= 0, sets -1, keeps errno */
static inline int
sbx_steal_fd(int *fd)
{
	int r = *fd;

	*fd = -1;
	return (r);
}

/*
 * Copy src to dst of `size` bytes, always terminated.
 * Returns 0, or SBX_E_LIMIT when it did not fit (dst is then "").
 */
int sbx_strlcpy(char *dst, const char *src, size_t size);
/* Whole decimal number, no sign, no blanks. 0, SBX_E_SYNTAX, SBX_E_RANGE. */
int sbx_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret_v);
/* n random bytes (getrandom); as 2n lower-case hex digits + NUL. */
void sbx_random(void *buf, size_t n);
void sbx_random_hex(char *dst, size_t nbytes);
/* true when s is exactly n lower-case hex digits. */
bool sbx_is_hex(const char *s, size_t n);
/*
 * vis(3)-like: printable ASCII kept, every other byte as \xNN, at most
 * size - 1 bytes, "..." when cut.  For foreign text in logs.  Returns dst.
 */
const char *sbx_vis(char *dst, size_t size, const char *src, size_t len);

/* Are the n bytes of both equal?  How long it takes says nothing of how many
 * were: for tokens, handles and ids that are as good as one. */
bool sbx_same_secret(const char *a, const char *b, size_t n);

uint64_t sbx_mono_ns(void);	/* CLOCK_MONOTONIC */
uint64_t sbx_wall_ns(void);	/* CLOCK_REALTIME */
/* As RFC 3339 in UTC, to the millisecond; asks for no file, unlike the first
 * gmtime_r(3). */
#define SBX_WALL_SIZE 48	/* 25, if the clock is right */
void sbx_wall_text(uint64_t wall_ns, char ret_text[SBX_WALL_SIZE]);

/* Write all n bytes to a blocking descriptor (EINTR retried). 0, SBX_E_SYS. */
int sbx_write_all(int fd, const void *buf, size_t n);
/*
 * A sealed memfd (MFD_CLOEXEC|MFD_NOEXEC_SEAL where known, all F_SEAL_*)
 * holding buf.  *ret_fd owned by the caller.  0, SBX_E_SYS.
 */
int sbx_memfd_sealed(const char *name, const void *buf, size_t n, int *ret_fd);
/*
 * Map what a peer sent as "sealed memfd": checks F_SEAL_WRITE|SHRINK|GROW and
 * size <= max first, so that the sender cannot change it under the reader.
 * *ret_p is malloc'ed, size+1 bytes, NUL-terminated; *ret_n its length.
 * 0, SBX_E_LIMIT, SBX_E_POLICY (not sealed), SBX_E_SYS.
 */
int sbx_memfd_read(int fd, size_t max, char **ret_p, size_t *ret_n);

/*
 * A byte buffer that knows its maximum.  Appends fail with SBX_E_LIMIT and
 * set `overflow` instead of growing past it; b.data is NUL-terminated.
 */
struct sbx_buf {
	char *data;
	size_t len, size, max;
	bool overflow;
};
void sbx_buf_init(struct sbx_buf *b, size_t max);
void sbx_buf_clear(struct sbx_buf *b);	/* frees */
int sbx_buf_add(struct sbx_buf *b, const void *p, size_t n);
int sbx_buf_str(struct sbx_buf *b, const char *s);
int sbx_buf_printf(struct sbx_buf *b, const char *fmt, ...) SBX_PRINTF(2, 3);
void sbx_buf_consume(struct sbx_buf *b, size_t n); /* drop n from the front */
#define SBX_CLEANUP_BUF __attribute__((cleanup(sbx_buf_clear)))

#endif
