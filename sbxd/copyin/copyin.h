#ifndef SBX_COPYIN_COPYIN_H
#define SBX_COPYIN_COPYIN_H

/* One copy: a directory in, a stream out, a report beside it. */

#include "common/base/limits.h"
#include "common/proto/copystream.h"
#include "common/proto/proto.h"

#include <limits.h>
#include <sys/stat.h>

#define SCAN_MAX (1u << 20)	/* files up to this are looked into */
#define REPORT_MAX (1u << 20)	/* then paths are only counted */

struct copyin {
	int root;		/* the caller's directory */
	char root_path[PATH_MAX]; /* where that is on the host, or "" */
	int src;		/* the source below it; FILE: as root */
	const char *src_path;	/* where that is below root; FILE: "" */
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
/* source: relative to the root. */
int walk_one(struct copyin *c, const char *source);
/* Below dir, without leaving it and without following a link. */
int open_below(int dir, const char *path, uint64_t flags);
/* Is one of the path's components .git? */
bool in_git(const char *path);
/* Why that failed, for a reader who wants to mend it. */
const char *open_why(int error);

/* --- look.c ----------------------------------------------------------------------- */
/* *ret_found: a bit for each row of sbx_markers.  0, or -1: it failed. */
int markers_find(struct copyin *c, uint32_t *ret_found);

/* --- clean.c -------------------------------------------------------------------------- */
/* A .git/config without credentials and without what makes git execute or
 * read something: only what is known to be harmless is kept.  0, or
 * SBX_E_SYNTAX: git would not read on either; what came before is in b. */
int clean_git_config(const char *text, size_t len, struct sbx_buf *b);

/* --- refuse.c --------------------------------------------------------------------------- */
/* Why a file is refused as a secret, or NULL.  path: below the root.  text:
 * its content; NULL when it is too large to look into. */
const char *refuse_file(const char *path, const char *text, size_t len);
/* The same for a file of .git that git wrote itself. */
const char *refuse_git_file(const char *text, size_t len);

#endif
