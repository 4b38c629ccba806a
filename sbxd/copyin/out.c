#include "sbxd/copyin/copyin.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void
be(uint8_t *p, uint64_t v, size_t n)
{
	while (n-- > 0) {
		p[n] = (uint8_t)v;
		v >>= 8;
	}
}

static int
put(struct copyin *c, const void *p, size_t n)
{
	if (sbx_write_all(c->out, p, n) == 0)
		return (0);
	return (copy_fail(c, errno, errno == EPIPE ?
	    "the sandbox took no more" : "writing to the sandbox"));
}

static int
header(struct copyin *c, unsigned type, unsigned mode, const char *path,
    uint64_t size)
{
	uint8_t h[SBX_COPY_HDR_BYTES + SBX_COPY_MAX_PATH];
	size_t n = strlen(path);

	if (n > SBX_COPY_MAX_PATH)
		return (copy_fail(c, ENAMETOOLONG, "a path is too long"));
	if (type != SBX_COPY_T_END && ++c->files > SBX_COPY_MAX_FILES)
		return (copy_fail(c, EFBIG, "more than %u files: copy a part",
		    SBX_COPY_MAX_FILES));
	if (type == SBX_COPY_T_FILE && size > SBX_COPY_MAX_BYTES - c->bytes)
		return (copy_fail(c, EFBIG, "more than %llu bytes: copy a "
		    "part", (unsigned long long)SBX_COPY_MAX_BYTES));
	c->bytes += type == SBX_COPY_T_FILE ? size : 0;
	h[0] = (uint8_t)type;
	be(h + 1, mode, 2);
	be(h + 3, n, 2);
	be(h + 5, size, 8);
	memcpy(h + SBX_COPY_HDR_BYTES, path, n);
	return (put(c, h, SBX_COPY_HDR_BYTES + n));
}

int
out_record(struct copyin *c, unsigned type, unsigned mode, const char *path,
    const void *data, uint64_t size)
{
	int r = header(c, type, mode, path, size);

	return (r == 0 && size > 0 ? put(c, data, (size_t)size) : r);
}

int
out_file(struct copyin *c, int fd, unsigned mode, const char *path,
    uint64_t size)
{
	char text[160];
	ssize_t n;
	size_t want;

	if (header(c, SBX_COPY_T_FILE, mode, path, size) != 0)
		return (-1);
	while (size > 0) {
		want = size < SCAN_MAX ? (size_t)size : SCAN_MAX;
		n = read(fd, c->buf, want);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return (copy_fail(c, n == 0 ? EAGAIN : errno,
			    "%s changed while it was read: try again",
			    sbx_vis(text, sizeof(text), path, strlen(path))));
		if (put(c, c->buf, (size_t)n) != 0)
			return (-1);
		size -= (uint64_t)n;
	}
	return (0);
}
