#ifndef SBX_WORKER_OUTPUT_H
#define SBX_WORKER_OUTPUT_H

/*
 * Stored output, read through descriptors that the monitor hands out.
 *
 * A line, everywhere here, ends with a newline or after about
 * OUTPUT_LINE_BYTES, at a blank when there is one: so every byte can be
 * reached by lines, and a line's number is the same in each tool that says
 * one.  Where bytes were not kept, one line says so.
 */

#include "common/base/base.h"
#include "common/proto/proto.h"
#include "sbxd/worker/ask.h"

struct call;

#define OUTPUT_LINE_BYTES 16384u
#define OUTPUT_PAGE_BYTES (512u << 10)	/* then a page is full */

struct output_page {
	struct sbx_buf text;	/* owned; secrets masked */
	bool known;		/* false: there is no such output (any more) */
	uint64_t first;		/* number of the first line in text */
	uint64_t shown;		/* lines in text */
	uint64_t total_lines, total_bytes;
	uint64_t dropped;	/* bytes that were not kept */
	size_t masked;
};

/*
 * Lines [offset, offset + limit), or the last `tail` ones when that is not 0.
 * output_page_clear() in any case.  As the asks of ask.h.
 */
int output_page(struct call *call, const char *run, enum sbx_stream stream,
    uint64_t offset, uint64_t limit, uint64_t tail,
    struct output_page *ret_page);
void output_page_clear(struct output_page *p);

/*
 * Add the views of both streams that the call's arguments ask for: output,
 * its page members, stderr.  failed: show the end.  As tool_fn.
 */
int output_views(struct call *call, const struct ask_run *st, bool failed);

/*
 * All of a stream, when it is at most max bytes and complete.
 * 0, SBX_E_LIMIT (more, or some was dropped), as the asks of ask.h.
 */
int output_all(struct call *call, const char *run, enum sbx_stream stream,
    size_t max, struct sbx_buf *ret_text);

#endif
