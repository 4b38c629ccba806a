#ifndef SBX_COPYIN_COPYIN_H
#define SBX_COPYIN_COPYIN_H

/* One copy: a directory in, a stream out, a report beside it. */

#include <limits.h>
#include <sys/stat.h>

#include "common/base/limits.h"
#include "common/proto/copystream.h"
#include "common/proto/proto.h"

#define SCAN_MAX (1u << 20)	/* files up to this are looked into */
#define REPORT_MAX (1u << 20)	/* then paths are only counted */

struct copyin {
	int root;		/* the caller's directory */
	int src;		/* the source below it; FILE: as root */
	int out, report;
	char *buf;		/* of SCAN_MAX + 1, one file's content */
	uint32_t files, refused;
	uint64_t bytes;
	size_t report_len;
	/* why the whole copy failed: errno and a sentence */
	int32_t error;
	char reason[256];
};

/* The whole copy fails; returns -1. */
int copy_fail(struct copyin *c, int error, const char *fmt, ...)
    SBX_PRINTF(3, 4);
/* One path stays behind, and the report says why. */
void copy_report(struct copyin *c, const char *why, const char *path);

/* --- out.c: the stream.  0, or -1: the copy failed. ---------------------------- */
int out_record(struct copyin *c, unsigned type, unsigned mode,
    const char *path, const void *data, uint64_t size);
/* The open file fd of exactly size bytes; what reads short fails the copy. */
int out_file(struct copyin *c, int fd, unsigned mode, const char *path,
    uint64_t size);

/* --- walk.c ----------------------------------------------------------------------- */
int walk_names(struct copyin *c);
int walk_list(struct copyin *c, int list_fd);
int walk_one(struct copyin *c, const char *source);
/* Below dir, without leaving it and without following a link. */
int open_below(int dir, const char *path, uint64_t flags);

/* --- clean.c -------------------------------------------------------------------------- */
/* A .git/config without credentials and without what makes git execute or
 * read something: only what is known to be harmless is kept. */
void clean_git_config(const char *text, size_t len, struct sbx_buf *b);

/* --- refuse.c --------------------------------------------------------------------------- */
/* A sentence when the file is a secret by its name, or NULL. */
const char *refuse_name(const char *path);
/* The same by its content. */
const char *refuse_content(const char *text, size_t len);

#endif
