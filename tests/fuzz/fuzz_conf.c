/* sbx.conf: any bytes; what is taken must survive its own dump. */

#include <stdlib.h>
#include <string.h>

#include "common/base/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	SBX_CLEANUP_BUF struct sbx_buf a = { 0 };
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct sbx_conf c, again;
	struct sbx_err err = { 0 };

	sbx_conf_init(&c);
	if (sbx_conf_parse(&c, "fuzz.conf", (const char *)data, size,
	    &err) != 0) {
		if (err.msg[0] == '\0' ||
		    strncmp(err.msg, "fuzz.conf:", 10) != 0)
			abort();
		return (0);
	}
	(void)sbx_conf_check(&c, &err);
	sbx_buf_init(&a, 1u << 20);
	sbx_buf_init(&b, 1u << 20);
	sbx_conf_init(&again);
	if (sbx_conf_dump(&c, &a) != 0 ||
	    sbx_conf_parse(&again, "dump", a.data, a.len, &err) != 0 ||
	    sbx_conf_dump(&again, &b) != 0 || a.len != b.len ||
	    memcmp(a.data, b.data, a.len) != 0)
		abort();
	return (0);
}
