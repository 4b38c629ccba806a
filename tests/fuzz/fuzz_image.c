/* names and config of the image store: any bytes; what is taken must survive
 * its own print, and keep the limits that messages rely on. */

#include <stdlib.h>
#include <string.h>

#include "common/base/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(bool good)
{
	if (!good)
		abort();
}

static void
config(const char *text, size_t size)
{
	SBX_CLEANUP_BUF struct sbx_buf a = { 0 };
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct sbx_image_config c, again;
	struct sbx_err err = { 0 };

	sbx_buf_init(&a, 2 * SBX_IMAGE_CONFIG_MAX);
	sbx_buf_init(&b, 2 * SBX_IMAGE_CONFIG_MAX);
	if (sbx_image_config_parse(text, size, &c, &err) == 0) {
		must(c.env.bytes <= SBX_IMAGE_ENV_MAX);
		must(c.entrypoint.bytes <= SBX_IMAGE_ENTRYPOINT_MAX);
		must(sbx_image_config_print(&c, &a) == 0);
		must(sbx_image_config_parse(a.data, a.len, &again,
		    &err) == 0);
		must(sbx_image_config_print(&again, &b) == 0);
		must(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
		sbx_image_config_clear(&again);
	} else
		must(err.msg[0] != '\0');
	sbx_image_config_clear(&c);
}

static void
names(const char *text, size_t size)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct sbx_image_names n;
	struct sbx_err err = { 0 };

	sbx_buf_init(&b, 2 * SBX_IMAGE_NAMES_MAX);
	if (sbx_image_names_parse(text, size, &n, &err) == 0) {
		must(sbx_image_names_print(&n, &b) == 0);
		must(b.len == size && (size == 0 ||
		    memcmp(b.data, text, size) == 0));
	} else
		must(err.msg[0] != '\0');
	sbx_image_names_clear(&n);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	config((const char *)data, size);
	names((const char *)data, size);
	return (0);
}
