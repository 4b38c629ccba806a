/* Output: masked and cleaned for a view; any bytes, never longer. */

#include <stdlib.h>
#include <string.h>

#include "common/base/mask.h"
#include "sbxd/worker/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
try_view(const char *p, size_t n, struct view_want want)
{
	struct view_in in = { .head = p, .head_len = n / 2,
		.tail = p + n / 2, .tail_len = n - n / 2,
		.skipped_lines = n % 3 };
	struct view v;

	view_make(&want, &in, &v);
	if (v.text.overflow)
		abort();
	view_clear(&v);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	SBX_CLEANUP(free) char *p = sbx_xcalloc(1, size + 1);
	const char *name;
	size_t len = size;

	memcpy(p, data, size);
	try_view(p, size, (struct view_want){ VIEW_SUMMARY, true, 7, 0 });
	try_view(p, size, (struct view_want){ VIEW_ERROR_ONLY, true, 1, 0 });
	try_view(p, size, (struct view_want){ VIEW_FULL, false, 9, 30 });
	name = sbx_mask_find(p, size);
	if ((name != NULL) != (sbx_mask(p, &len) > 0) || len > size)
		abort();
	return (0);
}
