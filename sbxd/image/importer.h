#ifndef SBX_IMAGE_IMPORTER_H
#define SBX_IMAGE_IMPORTER_H

/* What the importer holds while it makes one image. */

#include "common/base/image.h"

#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#define MAX_ENTRIES 1000000u	/* files and directories of one image */
#ifndef MAX_BYTES		/* a fuzzer has less time */
#define MAX_FILE (16ull << 30)	/* bytes of one file, holes counted */
#define MAX_BYTES (32ull << 30)	/* of all; also of what is unpacked */
#endif
#define MAX_DEPTH 128u
#define MAX_LAYERS 128u
#define MAX_PARTS 1024u		/* files of an archive of layers */
#define MAX_JSON (4u << 20)	/* index, manifest, configuration */
#define PATH_BYTES 4096u	/* of a path in an image, with the NUL */

/* What a layer made: a set of keyed hashes of paths. */
struct seen {
	uint64_t *slots, key;
	size_t n, size;
};

/* A file of an archive of layers, kept under a name of ours. */
struct part {
	char *path;		/* owned; as the archive has it, cleaned */
	char *link;		/* owned; another path, NULL: a file */
};

struct importer {
	int staging, rootfs;	/* owned directories */
	int source;		/* owned: a file or a directory */
	const char *machine;	/* of this machine, as images name it */
	bool layered;		/* whiteouts mean something */
	struct seen seen;
	unsigned entries;
	uint64_t bytes, unpacked;
	struct sbx_image_config config;
	struct part *parts;
	unsigned nparts;
	int parts_dir;		/* owned; -1: parts are below source */
	/* of the last entry: most have the same parent */
	int parent;		/* owned */
	char parent_path[PATH_BYTES];
	struct sbx_err err;	/* the first failure */
};

/* Set im->err from the format, with errno when `sys`.  Returns its code. */
int import_fail(struct importer *im, int code, const char *fmt, ...)
    SBX_PRINTF(3, 4);
int import_fail_sys(struct importer *im, const char *fmt, ...)
    SBX_PRINTF(2, 3);

/* --- entry.c ----------------------------------------------------------------- */

enum entry_kind { ENTRY_FILE, ENTRY_DIR, ENTRY_SYMLINK, ENTRY_HARDLINK,
	ENTRY_DEVICE, ENTRY_OTHER, ENTRY_KIND_MAX };

struct entry {
	const char *path;	/* as the source has it */
	enum entry_kind kind;
	mode_t mode;
	uint64_t size;		/* FILE */
	const char *target;	/* SYMLINK: text; HARDLINK: a path */
	struct timespec mtime;
	unsigned xattrs;
	/* FILE: fill fd.  0 or a failure, im->err set. */
	int (*fill)(struct importer *im, void *arg, int fd, uint64_t size);
	void *arg;
};
/*
 * Make it below rootfs.  Follows no link and leaves rootfs for nothing; what
 * an image may not have is an error, what it may have and a sandbox has not
 * (devices, set-id bits, attributes) is dropped and counted.
 */
int entry_make(struct importer *im, const struct entry *e);
/*
 * A path of the source, without "./", empty parts and a "/" at the end.
 * dst: PATH_BYTES.  "" is the root.  0, SBX_E_POLICY: absolute, "..", too
 * long, too deep.
 */
int entry_clean(char *dst, const char *path);
void seen_clear(struct seen *s);

/* --- source.c ----------------------------------------------------------------- */

/* Open part `path` of an archive of layers.  -1: there is none, err set. */
int source_part(struct importer *im, const char *path);
/* All of a part, at most MAX_JSON, clean JSON.  *ret: owned.  NULL and err. */
char *source_json(struct importer *im, const char *path, size_t *ret_len);
/*
 * Unpack the tar in fd (borrowed), compressed or not, into rootfs.
 * ret_hex: SHA-256 of the tar itself, NULL: not wanted.
 */
int source_tar(struct importer *im, int fd, char ret_hex[65]);
/* A tree of the host. */
int source_tree(struct importer *im, int dir);
/* Which of them it is, and all of it. */
int source_import(struct importer *im);

/* --- layers.c ------------------------------------------------------------------ */

int layers_oci(struct importer *im);	/* index.json */
int layers_docker(struct importer *im);	/* manifest.json */

/* --- finish.c -------------------------------------------------------------------- */

/* skel and config beside rootfs, and the digest of it all. */
int finish(struct importer *im, char ret_hex[SBX_IMAGE_HEX + 1]);
/* SHA-256 of a whole file from its start. */
int hash_file(struct importer *im, int fd, char ret_hex[65]);

#endif
