/*
 * Images of any bytes, imported without a cage into a directory that holds
 * nothing else: whatever comes, nothing outside of it may change, and what is
 * taken must be as a sandbox needs it, and be the same image when its tree is
 * imported again.
 *
 * The first byte says what the others are:
 *	0	an archive, as it is
 *	1	a tar, whose checksums are made right first
 *	2	layers: tars as in 1, apart by "LAYER"
 *	3	files of an OCI layout apart by "\xff": index, manifest,
 *		configuration, layer; 64 '@' in one stand for the digest of
 *		the next, 64 '#' for the layer's
 *	4	the same as docker-save(1) writes them: manifest, configuration,
 *		layer
 */

#include "sbxd/image/importer.h"

#include "common/base/paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CANARY "canary"
#define TAR_BLOCK 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char top_path[] = "/dev/shm/sbx-fuzz-XXXXXX";
static int top = -1;

static void
must(bool good)
{
	if (!good)
		abort();
}

/* --- where it happens --------------------------------------------------------- */

static void
clean_up(void)
{
	(void)sbx_remove_at(AT_FDCWD, top_path);
}

static void
put(int dir, const char *name, const void *p, size_t n)
{
	int SBX_CLEANUP(fd) fd = openat(dir, name, O_WRONLY | O_CREAT |
	    O_TRUNC | O_CLOEXEC, 0600);

	must(fd != -1 && sbx_write_all(fd, p, n) == 0);
}

static void
start(void)
{
	if (top != -1)
		return;
	must(mkdtemp(top_path) != NULL);
	top = open(top_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(top != -1);
	put(top, CANARY, "whole", 5);
	(void)umask(077);
	(void)atexit(clean_up);
}

/* Beside the staging directory and the source nothing came or changed. */
static void
look_around(void)
{
	DIR *d = fdopendir(openat(top, ".", O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC));
	char text[8] = "";
	struct dirent *e;
	int SBX_CLEANUP(fd) fd = openat(top, CANARY, O_RDONLY | O_CLOEXEC);

	must(d != NULL && read(fd, text, sizeof(text)) == 5 &&
	    memcmp(text, "whole", 5) == 0);
	while ((e = readdir(d)) != NULL)
		must(e->d_name[0] == '.' || strcmp(e->d_name, CANARY) == 0 ||
		    strcmp(e->d_name, "staging") == 0 ||
		    strcmp(e->d_name, "again") == 0 ||
		    strcmp(e->d_name, "source") == 0);
	(void)closedir(d);
}

static void
new_importer(struct importer *im, const char *name)
{
	*im = (struct importer){ .staging = -1, .source = -1, .parent = -1,
		.parts_dir = -1, .machine = "amd64" };
	must(mkdirat(top, name, 0700) == 0);
	im->staging = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(mkdirat(im->staging, "rootfs", 0755) == 0);
	im->rootfs = openat(im->staging, "rootfs", O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC);
	must(im->rootfs != -1);
}

static void
end_importer(struct importer *im, const char *name)
{
	sbx_close(&im->staging);
	sbx_close(&im->source);
	sbx_close(&im->rootfs);
	sbx_close(&im->parent);
	sbx_close(&im->parts_dir);
	seen_clear(&im->seen);
	for (unsigned i = 0; i < im->nparts; i++) {
		free(im->parts[i].path);
		free(im->parts[i].link);
	}
	free(im->parts);
	sbx_image_config_clear(&im->config);
	must(sbx_remove_at(top, name) == 0);
}

/* --- what was made ---------------------------------------------------------------- */

/* dir: consumed. */
static void
look_at_tree(int dir)
{
	DIR *d = fdopendir(dir);
	struct dirent *e;
	struct stat st;

	must(d != NULL);
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		must(fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ==
		    0);
		must(S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) ||
		    S_ISDIR(st.st_mode));
		if (S_ISLNK(st.st_mode))
			continue;
		must((st.st_mode & (S_ISUID | S_ISGID)) == 0 &&
		    (st.st_mode & 0400) != 0);
		if (S_ISDIR(st.st_mode))
			look_at_tree(openat(dirfd(d), e->d_name, O_RDONLY |
			    O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	}
	(void)closedir(d);
}

/* The tree itself is an image, too, and this one. */
static void
import_again(const struct importer *im, const char *hex)
{
	struct importer again;
	char other[SBX_IMAGE_HEX + 1] = "";

	new_importer(&again, "again");
	again.source = openat(im->staging, "rootfs", O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC);
	memcpy(again.config.user, im->config.user, sizeof(im->config.user));
	memcpy(again.config.workdir, im->config.workdir,
	    sizeof(im->config.workdir));
	memcpy(again.config.architecture, im->config.architecture,
	    sizeof(im->config.architecture));
	for (size_t i = 0; i < im->config.env.n; i++)
		must(sbx_image_list_add(&again.config.env,
		    im->config.env.v[i], SBX_IMAGE_ENV_MAX) == 0);
	for (size_t i = 0; i < im->config.entrypoint.n; i++)
		must(sbx_image_list_add(&again.config.entrypoint,
		    im->config.entrypoint.v[i], SBX_IMAGE_ENTRYPOINT_MAX) ==
		    0);
	/* a path that is longer behind directories made on the way is not */
	if (source_tree(&again, again.source) == 0 &&
	    finish(&again, other) == 0)
		must(strcmp(hex, other) == 0);
	else
		must(again.err.code == SBX_E_LIMIT);
	end_importer(&again, "again");
}

static void
judge(struct importer *im, int r)
{
	struct sbx_image_config c;
	struct sbx_err err;
	char hex[SBX_IMAGE_HEX + 1] = "";

	must((r == 0) == (im->err.code == 0));
	if (r == 0)
		r = finish(im, hex);
	if (r == 0) {
		must(sbx_is_hex(hex, SBX_IMAGE_HEX));
		must(sbx_image_config_read(im->staging, &c, &err) == 0);
		sbx_image_config_clear(&c);
		look_at_tree(openat(im->staging, "rootfs", O_RDONLY |
		    O_DIRECTORY | O_CLOEXEC));
		import_again(im, hex);
	} else
		must(im->err.msg[0] != '\0');
	look_around();
}

/* --- what goes in ------------------------------------------------------------------- */

static void
fix_checksums(uint8_t *p, size_t n)
{
	unsigned sum;
	char text[8];

	for (; n >= TAR_BLOCK; p += TAR_BLOCK, n -= TAR_BLOCK) {
		if (memcmp(p + 257, "ustar", 5) != 0)
			continue;
		memset(p + 148, ' ', 8);
		sum = 0;
		for (size_t i = 0; i < TAR_BLOCK; i++)
			sum += p[i];
		(void)snprintf(text, sizeof(text), "%06o", sum & 0777777);
		memcpy(p + 148, text, 7);
	}
}

static int
file_of(const uint8_t *p, size_t n)
{
	put(top, "source", p, n);
	return (openat(top, "source", O_RDONLY | O_CLOEXEC));
}

static int
layers_of(struct importer *im, uint8_t *p, size_t n)
{
	uint8_t *next;
	size_t part;
	char hex[65];
	int fd, r = 0;

	im->layered = true;
	for (bool more = true; r == 0 && more; ) {
		next = memmem(p, n, "LAYER", 5);
		more = next != NULL;
		part = more ? (size_t)(next - p) : n;
		fix_checksums(p, part);
		fd = file_of(p, part);
		seen_clear(&im->seen);
		r = source_tar(im, fd, hex);
		(void)close(fd);
		p += part + 5;
		n -= more ? part + 5 : n;
	}
	return (r);
}

static void
sum_of(const uint8_t *p, size_t n, char hex[65])
{
	unsigned char sum[EVP_MAX_MD_SIZE];

	must(EVP_Digest(p, n, sum, NULL, EVP_sha256(), NULL) == 1);
	for (int i = 0; i < 32; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", sum[i]);
}

static void
stand_in(uint8_t *p, size_t n, char mark, const char *hex)
{
	char marks[64];
	uint8_t *at;

	memset(marks, mark, sizeof(marks));
	while ((at = memmem(p, n, marks, sizeof(marks))) != NULL)
		memcpy(at, hex, 64);
}

/* parts: the last is the layer, each names the next. */
static int
files_of(uint8_t *p, size_t n, size_t parts, bool docker)
{
	static const char *const docker_names[] = { "manifest.json", "c", "l" };
	char next[65] = "", layer[65], name[80] = "index.json";
	struct { uint8_t *p; size_t n; } part[4] = { 0 };
	uint8_t *end;
	int dir;

	must(mkdirat(top, "source", 0700) == 0);
	dir = openat(top, "source", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!docker)
		must(mkdirat(dir, "blobs", 0700) == 0 &&
		    mkdirat(dir, "blobs/sha256", 0700) == 0);
	for (size_t i = 0; i < parts; i++) {
		end = i + 1 < parts ? memchr(p, 0xff, n) : NULL;
		part[i].p = p;
		part[i].n = end != NULL ? (size_t)(end - p) : n;
		p += part[i].n + (end != NULL);
		n -= part[i].n + (end != NULL);
	}
	fix_checksums(part[parts - 1].p, part[parts - 1].n);
	sum_of(part[parts - 1].p, part[parts - 1].n, layer);
	for (size_t i = parts; i-- > 0; ) {
		stand_in(part[i].p, part[i].n, '#', layer);
		if (i + 1 < parts)
			stand_in(part[i].p, part[i].n, '@', next);
		sum_of(part[i].p, part[i].n, next);
		(void)snprintf(name, sizeof(name), "blobs/sha256/%s", next);
		put(dir, docker ? docker_names[i] : i == 0 ? "index.json" :
		    name, part[i].p, part[i].n);
	}
	if (!docker)
		put(dir, "oci-layout", "{}", 2);
	return (dir);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct importer im;
	uint8_t *p;
	int r;

	if (size < 2 || data[0] > 4)
		return (0);
	start();
	p = sbx_xcalloc(1, size);
	memcpy(p, data + 1, --size);
	new_importer(&im, "staging");
	if (data[0] == 1)
		fix_checksums(p, size);
	if (data[0] == 2)
		r = layers_of(&im, p, size);
	else {
		im.source = data[0] < 2 ? file_of(p, size) :
		    files_of(p, size, data[0] == 3 ? 4 : 3, data[0] == 4);
		r = source_import(&im);
	}
	judge(&im, r);
	end_importer(&im, "staging");
	must(sbx_remove_at(top, "source") == 0);
	free(p);
	return (0);
}
