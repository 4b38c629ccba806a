#ifndef SBX_JUDGE_JUDGE_H
#define SBX_JUDGE_JUDGE_H

/* Private to sbxd-judge. */

#include "common/base/base.h"
#include "common/base/limits.h"
#include "common/proto/proto.h"

#include <stdarg.h>
#include <stdbool.h>

#define JUDGE_MAX_NAMES (64u << 20)	/* bytes of all paths */
#define JUDGE_MAX_DEPTH 128
#define JUDGE_STALL_MS 120000	/* a stream without a byte for so long ends */

/* git's two object formats (gitformat-pack(5), hash-function-transition). */
enum { ID_SHA1, ID_SHA256, ID_MAX };
struct id {
	uint8_t sha1[20], sha256[32];
};
/* One object being hashed in both formats. */
struct hasher;
struct hasher *hasher_new(void);		/* fatal without memory */
void hasher_free(struct hasher *h);
/* In that format alone from now on; ids of the other are zeros. */
void hasher_only(struct hasher *h, int format);
/* type: "blob", "tree"; size: of all that hasher_add() will get. */
void hasher_begin(struct hasher *h, const char *type, uint64_t size);
void hasher_add(struct hasher *h, const void *p, size_t n);
void hasher_end(struct hasher *h, struct id *ret_id);

struct entry {
	char *path;		/* owned by tree.names */
	uint32_t mode;		/* git's: 0100644, 0100755, 0120000 */
	struct id id;
};
/* A work tree by what crossed, and nothing else. */
struct tree {
	struct entry *v;	/* owned */
	size_t n, size;
	size_t names;		/* bytes of all paths */
	uint64_t bytes;
	int error;		/* errno of the first failure, or 0 */
	char reason[256];
};
int tree_fail(struct tree *t, int error, const char *fmt, ...) SBX_PRINTF(3, 4);
void tree_clear(struct tree *t);
/* The entry for path, its id not set; NULL: refused (t->reason). */
struct entry *tree_add(struct tree *t, const char *path, uint32_t mode);
/*
 * The id of the whole as git write-tree would say, when all entries are there.
 * A path twice, or a file where another path needs a directory, is refused.
 */
int tree_id(struct tree *t, struct id *ret_id);

/*
 * Read a copy stream (copystream.h) to its end, hash what is in it and write
 * what was read to out, record by record.  The end is written by stream_end(),
 * when all is well: without it what went on is refused there.
 */
int stream_pass(struct tree *t, int in, int out);
int stream_end(struct tree *t, int out);

/* --- report.c ------------------------------------------------------------- */
/* JUDGE_TREED.found of a tree. */
uint32_t report_found(const struct tree *t);
/* Strings of *ret are constants or live until the next one. */
void report_judge(const struct sbx_judge_report *q, int fd,
    struct sbx_judge_verdict *ret);

#endif
