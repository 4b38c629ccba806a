/*
 * The one receiving routine of the suite.  Input: our process, the peer's,
 * then records, each with a count of descriptors (u8) and a length (u16).
 * Whatever comes in: no descriptor is leaked, what is refused leaves none
 * behind, and what is taken encodes to the very bytes that came.
 */

#include "common/proto/wire.h"

#include <stdlib.h>
#include <string.h>

#include "tests/proto/raw.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sbx_in in;
static uint8_t again[SBX_MSG_BYTES_MAX];

static void
check_taken(enum sbx_proc self, enum sbx_proc remote, const uint8_t *rec,
    size_t len)
{
	const struct sbx_msg_spec *s = &sbx_msg_specs[in.hdr.type];
	size_t n;
	int i;

	if (in.hdr.type >= SBX_MSG_MAX || s->name == NULL ||
	    (s->from & (1u << remote)) == 0 || (s->to & (1u << self)) == 0 ||
	    in.nfds != s->fds || in.hdr.length > s->max_bytes ||
	    in.hdr.length + SBX_HDR_BYTES != len)
		abort();
	if (s->put(&in.m, again, s->max_bytes, &n) != 0 ||
	    n != in.hdr.length || memcmp(again, rec + SBX_HDR_BYTES, n) != 0)
		abort();
	for (i = 0; i < in.nfds; i++)
		if (fcntl(in.fds[i], F_GETFD) != FD_CLOEXEC)
			abort();
}

static int
lowest_free(void)
{
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

	(void)close(fd);
	return (fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int ch[2] = { -1, -1 };
	enum sbx_proc self, remote;
	int first_free, nfds, r;
	size_t len;

	if (ch[0] < 0 && sbx_wire_pair(ch) != 0)
		abort();
	if (size < 2)
		return (0);
	first_free = lowest_free();
	self = data[0] % SBX_PROC_MAX;
	remote = data[1] % SBX_PROC_MAX;
	data += 2;
	size -= 2;
	while (size >= 3) {
		nfds = data[0] % 8;
		len = (size_t)data[1] << 8 | data[2];
		data += 3;
		size -= 3;
		if (len > size)
			len = size;
		if (!raw_send(ch[0], data, len, nfds))
			abort();
		r = sbx_wire_recv(ch[1], self, remote, &in, MSG_DONTWAIT);
		if (r == 0)
			check_taken(self, remote, data, len);
		else if (in.nfds != 0 || (r == SBX_E_CLOSED) != (len == 0))
			abort();
		sbx_in_clear(&in);
		data += len;
		size -= len;
	}
	if (lowest_free() != first_free)
		abort();
	return (0);
}
