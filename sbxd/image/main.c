/*
 * sbxd-image makes one image out of what it is handed, and ends.
 *
 * It holds a staging directory and the source, both opened by who started it
 * (`sbx image import`), who moves the result to its place.  Every byte of the
 * source is somebody else's.  Nobody else talks to it.  It must never be able
 * to open a socket, to execute anything, to write outside of the staging
 * directory or to read outside of it and the source.
 */
#include "sbxd/image/importer.h"

#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/privs/privs.h"
#include "common/privs/start.h"
#include "common/proto/accepts.h"
#include "common/proto/wire.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <locale.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define SEND_MS 10000

static const uint16_t start_types[] = { SBX_MSG_IMAGE_START, 0 };
static const struct sbx_accepts start_list = { SBX_PROC_IMAGE, SBX_PROC_CLI,
	start_types };

/* This machine's architecture as images name it. */
static const char *
machine(void)
{
	static const struct { const char *uname, *name; } names[] = {
		{ "x86_64", "amd64" }, { "aarch64", "arm64" },
		{ "i686", "386" }, { "armv7l", "arm" },
	};
	static struct utsname u;

	if (uname(&u) == -1)
		return ("unknown");
	for (size_t i = 0; i < SBX_NELEM(names); i++)
		if (strcmp(u.machine, names[i].uname) == 0)
			return (names[i].name);
	return (u.machine);
}

/* What libraries open or make at first use: before the cage. */
static void
warm(void)
{
	unsigned char sum[EVP_MAX_MD_SIZE];

	/* names in archives are UTF-8; others stay bytes */
	if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
		(void)setlocale(LC_CTYPE, "C");
	(void)EVP_Digest("", 0, sum, NULL, EVP_sha256(), NULL);
	json_object_put(json_tokener_parse("{\"a\":1}"));
}

static void
enter(struct importer *im)
{
	struct stat st;
	/* a rule for a directory does not fit a file, which needs none */
	const int dirs[] = { im->staging, fstat(im->source, &st) == 0 &&
		S_ISDIR(st.st_mode) ? im->source : im->staging };
	struct sbx_privs_args args = { .dir_fds = dirs, .ndir_fds = 2 };
	struct sbx_err err = { 0 };
	uint32_t features;

	if (sbx_privs_enter(SBX_PROC_IMAGE, &args, &features, &err) < 0)
		sbx_fatal("%s", err.msg);
}

static int
import(struct importer *im, char ret_hex[SBX_IMAGE_HEX + 1])
{
	int r;

	if (mkdirat(im->staging, "rootfs", 0755) == -1 ||
	    fchmodat(im->staging, "rootfs", 0755, 0) == -1 ||
	    (im->rootfs = openat(im->staging, "rootfs", O_RDONLY |
	    O_DIRECTORY | O_CLOEXEC)) == -1)
		return (import_fail_sys(im, "the staging directory"));
	if ((r = source_import(im)) != 0 || (r = finish(im, ret_hex)) != 0)
		return (r);
	if (im->parts_dir != -1 && sbx_remove_at(im->staging, "parts") == -1)
		return (import_fail_sys(im, "the staging directory"));
	return (0);
}

int
main(int argc, char **argv)
{
	static const struct sbx_program how = { .name = "sbxd-image",
		.list = &start_list };
	static struct importer im;
	struct sbx_image_done done = { 0 };
	char hex[SBX_IMAGE_HEX + 1] = "";
	char digest[SBX_IMAGE_DIGEST_SIZE] = "";
	struct sbx_chan c;

	(void)sbx_program_start(argc, argv, &how, &c);
	im.parent = im.rootfs = im.parts_dir = -1;
	im.staging = sbx_steal_fd(&c.in->fds[0]);
	im.source = sbx_steal_fd(&c.in->fds[1]);
	/* cut is good enough: it is shown only */
	(void)snprintf(im.config.source, sizeof(im.config.source), "%s",
	    c.in->m.image_start.source);
	im.machine = machine();
	warm();
	enter(&im);
	if (import(&im, hex) == 0)
		(void)snprintf(digest, sizeof(digest), SBX_IMAGE_ALGORITHM
		    "%s", hex);
	done = (struct sbx_image_done){ .error = im.err.code,
		.reason = im.err.msg, .digest = digest,
		.files = im.config.files, .bytes = im.config.bytes,
		.setuid = im.config.dropped_setuid,
		.devices = im.config.dropped_devices,
		.other = im.config.dropped_other + im.config.dropped_xattrs +
		    im.config.dropped_config };
	return (sbx_chan_send(&c, SBX_MSG_IMAGE_DONE, 0, &done, NULL,
	    SEND_MS) < 0 ? 3 : im.err.code == 0 ? 0 : 1);
}
