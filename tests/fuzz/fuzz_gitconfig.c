/* .git/config: any bytes; what comes out is clean, and reads as itself. */

#include <stdlib.h>
#include <string.h>

#include "sbxd/copyin/copyin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	SBX_CLEANUP_BUF struct sbx_buf a = { 0 };
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

	sbx_buf_init(&a, 4u << 20);
	sbx_buf_init(&b, 4u << 20);
	(void)clean_git_config((const char *)data, size, &a);
	if (clean_git_config(a.len > 0 ? a.data : "", a.len, &b) != 0 ||
	    a.len != b.len || (a.len > 0 && memcmp(a.data, b.data,
	    a.len) != 0))
		abort();
	return (0);
}
