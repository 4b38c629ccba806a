/*
 * What a client sends to the front, and after the first NUL what a worker
 * answers to the calls that came of it.  There is no monitor.  Whatever comes
 * in, every line that goes out is clean JSON.
 */

#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/json.h"
#include "common/base/log.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct front front;

static void
check_output(int fd)
{
	SBX_CLEANUP(free) char *text = NULL;
	off_t size = lseek(fd, 0, SEEK_END);
	size_t len = (size_t)size, n;
	char *p, *end;

	text = sbx_xcalloc(1, len + 1);
	if (size < 0 || pread(fd, text, len, 0) != size)
		abort();
	for (p = text; len > 0; p = end + 1, len -= n + 1) {
		end = memchr(p, '\n', len);
		if (end == NULL)
			abort();
		n = (size_t)(end - p);
		if (sbx_json_scan(p, n, SBX_FRONT_OUT_MAX,
		    SBX_MAX_JSON_DEPTH, NULL) != 0 || *p != '{')
			abort();
	}
}

/* Answer every call with what the worker says, in some order. */
static void
answer(struct front *f, const uint8_t *data, size_t size)
{
	SBX_CLEANUP(fd) int fd = -1;
	uint32_t numbers[SBX_FRONT_CALLS];
	size_t i, n = 0;

	for (i = 0; i < SBX_FRONT_CALLS; i++)
		if (f->calls[i] != NULL)
			numbers[n++] = f->calls[i]->number;
	if (n == 0 || sbx_memfd_sealed("result", data, size, &fd) != 0)
		return;
	for (i = 0; i < n; i++) {
		calls_progress(f, &(struct sbx_call_progress){
		    .call = numbers[i], .done = i, .message = "m" });
		calls_result(f, numbers[i], fd, numbers[i] & 1);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	SBX_CLEANUP(fd) int out = -1;
	struct front *f = &front;
	const uint8_t *nul;
	struct conn *c;
	size_t n;

	if (f->base == NULL) {
		sbx_log_init("fuzz", SBX_LOG_ERR);
		if (front_init(f, event_base_new(), "") != 0)
			abort();
	}
	out = memfd_create("out", MFD_CLOEXEC);
	c = conn_new_stdio(f, open("/dev/null", O_RDONLY | O_CLOEXEC),
	    fcntl(out, F_DUPFD_CLOEXEC, 0), 1);
	nul = size > 0 ? memchr(data, 0, size) : NULL;
	n = nul == NULL ? size : (size_t)(nul - data);
	/* in two pieces: a message may come in any */
	conn_feed(c, data, n / 2);
	conn_feed(c, data + n / 2, n - n / 2);
	conn_feed(c, "\n", 1);
	if (nul != NULL)
		answer(f, nul + 1, size - n - 1);
	conn_flush(c);
	if (c->state != CONN_DEAD)
		check_output(out);
	conn_free(c);
	if (f->ncalls != 0 || f->conns != NULL)
		abort();
	return 0;
}
