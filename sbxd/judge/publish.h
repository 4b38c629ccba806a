#ifndef SBX_JUDGE_PUBLISH_H
#define SBX_JUDGE_PUBLISH_H

/*
 * Private to sbxd-judge: one publication.  The base comes from a publisher, the
 * files from a sandbox; both are hostile, and nothing of either is used but what
 * hashes to the id of a commit that the monitor named: the base, and what was
 * merged into it ("theirs"), which the repository has as well.
 */

#include "sbxd/judge/judge.h"
#include "sbxd/judge/scan.h"

#define PUBLISH_NAMES_BYTES (16u << 20)	/* of all declared paths, */
#define PUBLISH_MAX_PATHS 50000u	/* and their number */
#define PUBLISH_MAX_PATH (SBX_COPY_MAX_PATH - 6) /* "files/" goes before it */
#define PUBLISH_MESSAGE_BYTES (64u << 10)
#define PUBLISH_CONVERT_BYTES (64u << 20) /* of a file whose line ends change */
#define PUBLISH_LOADED_BYTES (256u << 20) /* of trees held at once */
#define PUBLISH_FINDINGS 64		/* told; all are counted */
#define PUBLISH_FINDINGS_BYTES 28672	/* JUDGED.findings, .waived */
#define PUBLISH_WAIVED 256
#define BASE_MAX_BYTES (2ull << 30)	/* of what git printed, */
#define BASE_MAX_OBJECTS 262144u
#define BASE_MAX_OBJECT (64u << 20)	/* of one that is used */

/* An object's id; SHA-1 has 20 bytes and zeros. */
struct oid {
	uint8_t b[32];
};
enum object_type { OBJECT_COMMIT, OBJECT_TREE, OBJECT_BLOB, OBJECT_MAX };
extern const char *const object_words[OBJECT_MAX];

/* 40 or 64 lower-case digits: its format, or -1. */
int oid_parse(const char *hex, size_t n, struct oid *ret);
size_t oid_bytes(int format);
void oid_hex(int format, const struct oid *id, char ret[65]);
/* The running object's id. */
void oid_end(struct hasher *h, int format, struct oid *ret);
void oid_of(struct hasher *h, int format, enum object_type type,
    const void *p, size_t n, struct oid *ret);

/* --- base.c: what `git cat-file --batch` printed ------------------------------- */
struct object {
	struct oid id;
	uint8_t type;
	uint64_t offset;
	uint32_t size;
};
struct base {
	int fd;			/* borrowed */
	int format;
	struct hasher *h;
	struct object *v;	/* owned; sorted by id */
	size_t n, size;
	char reason[128];
};
/* 0, or -1: it is not what git prints, or an id is not that of its bytes. */
int base_read(struct base *b, int fd, uint64_t offset, uint64_t length,
    int format);
void base_clear(struct base *b);
const struct object *base_find(const struct base *b, const struct oid *id,
    enum object_type type);
/* Read again, and hashed again: the file is somebody else's.  *ret_p is
 * malloc'ed and ends with a NUL that does not count.  NULL object: -1. */
int base_load(struct base *b, const struct object *o, char **ret_p);

/* --- tree objects ----------------------------------------------------------------- */
struct ent {
	uint32_t mode;
	const char *name;	/* n bytes, in somebody's buffer */
	size_t n;
	struct oid id;
	bool fresh;		/* neither parent has such a name */
};
struct ents {
	struct ent *v;		/* owned */
	size_t n, size;
};
#define MODE_TREE 0040000u
#define MODE_FILE 0100644u
#define MODE_EXEC 0100755u
#define MODE_LINK 0120000u
#define MODE_GITLINK 0160000u
void ents_add(struct ents *t, const struct ent *e);
/* Strict: known modes, good order, no name twice.  0 or -1. */
int ents_parse(struct ents *t, int format, const char *p, size_t n);
/* The entry of that name, whatever it is; NULL: none. */
const struct ent *ents_find(const struct ents *t, const char *name, size_t n);
/* As git sorts, then the object's bytes. */
void ents_sort(struct ents *t);
int ents_write(const struct ents *t, int format, struct sbx_buf *b);

/* --- attr.c: .gitattributes -------------------------------------------------------- */
#define ATTR_FILE_BYTES (1u << 20)
#define ATTR_ALL_BYTES (4u << 20)
#define ATTR_NAMES 512
#define ATTR_STEPS 500000000ull /* of matching, for all paths together */
enum eol_rule { EOL_NONE, EOL_TEXT, EOL_AUTO };
/* What git would do to a file of that path on its way in. */
struct attrs {
	enum eol_rule eol;
	bool ident;
	char refused[48];	/* not "": what we do not do, by name */
};
struct attr_set;
struct attr_set *attr_new(void);
void attr_free(struct attr_set *s);
/* The file of the directory `dir` ("": the root, else with its slash), on top of
 * those that are there; attr_pop() takes the last.  -1: ret_reason. */
int attr_push(struct attr_set *s, const char *dir, size_t ndir,
    const char *text, size_t n, char ret_reason[128]);
void attr_pop(struct attr_set *s);
/* Of a path below the last directory pushed.  -1: too much to match. */
int attr_lookup(struct attr_set *s, const char *path, struct attrs *ret);

/* --- convert.c: git's clean direction ------------------------------------------------- */
/* In place; returns the new size.  old_crlf: the base's file of that path has
 * CRLF line ends, and is text. */
size_t convert_clean(const struct attrs *a, bool old_crlf, char *p, size_t n);
bool convert_has_crlf(const char *p, size_t n);
/* Does it take the old file to know what becomes of this one? */
bool convert_asks_old(const struct attrs *a, const char *p, size_t n);

/* --- paths.c, fold.c ------------------------------------------------------------------- */
/* What a file system that knows no case, or only normal forms, makes of a name:
 * malloc'ed.  Bytes that are no UTF-8 stand for themselves. */
char *fold_name(const char *name, size_t n);
bool utf8_valid(const char *p, size_t n);
/* NULL: good; else what is wrong with it. */
const char *path_refused(const char *path);
/* May only be changed where the configuration permits it. */
bool path_sensitive(const char *path);
/* A fresh name that is another's, but for case or normal form: its index in v
 * and the other's, or false. */
bool ents_collide(const struct ents *t, size_t *ret_a, size_t *ret_b);

/* --- baseline.c -------------------------------------------------------------------------- */
#define BASELINE ".secrets.baseline"	/* at the root */
#define BASELINE_MAX 16384u
struct baseline {
	uint8_t v[BASELINE_MAX][20];	/* SHA-1 of each, sorted */
	size_t n;
};
/* Once, text: n bytes of that file. */
void baseline_read(struct baseline *b, const char *text, size_t n);
bool baseline_has(const struct baseline *b, const char *secret, size_t n);

/* --- publish.c --------------------------------------------------------------------------- */
struct decl {			/* one declared path */
	char *path;		/* in pub.names */
	uint32_t base_mode;	/* 0: the base has none */
	struct oid base_id;
	uint32_t their_mode;	/* the same of parent2 */
	struct oid their_id;
	uint32_t fork_mode;	/* and of where both parted */
	struct oid fork_id;
	bool merged;		/* it becomes what parent2 has */
	bool came;
	uint32_t mode;		/* if it came */
	struct oid id;
	struct attrs attrs;
};
struct pub {
	char step[32];		/* "": well so far */
	char reason[256];
	int format;
	struct oid base_commit, base_tree, their_tree, fork_tree;
	char base[65], parent2[65], fork[65], author[256];
	uint64_t time;
	uint32_t allow;
	char *names;		/* owned */
	struct decl *v;		/* owned; sorted by path */
	const struct decl *gone; /* the first that nobody has */
	size_t n;
	char *message;		/* owned */
	size_t message_len;
	struct hasher *h;
	struct base objects;
	struct attr_set *attrs;
	size_t loaded;
	uint32_t depth;
	struct scan *scan;
	struct baseline baseline;
	const char *named;	/* the path that is looked through, itself */
	char waived[PUBLISH_WAIVED][65];
	size_t nwaived;
	struct told {
		struct sbx_buf text;	/* owned */
		uint32_t n, total;	/* told, all */
	} findings, passed;		/* that count; that are waived */
	uint32_t added, modified, deleted, unchanged;
	uint64_t bytes;
	struct oid tree, commit;
	struct sbx_buf text;	/* owned: the commit's bytes */
	int out;		/* owned: -1, or waits for the signature */
};
/* The first failure is the cause.  -1. */
int pub_fail(struct pub *p, const char *step, const char *fmt, ...)
    SBX_PRINTF(3, 4);
/* Steps, in this order; each does nothing after a failure. */
void pub_begin(struct pub *p, const struct sbx_judge_publish *q,
    const int fds[4]);
void pub_scout(struct pub *p);	/* the declared paths in the base */
void pub_cross(struct pub *p, int in, int out);	/* cross.c */
void pub_build(struct pub *p);	/* the new tree */
void pub_commit(struct pub *p);	/* commit.c: its bytes, */
void pub_sign(struct pub *p, const char *signature); /* with a signature, */
void pub_end(struct pub *p, int out);	/* written, with the end */
void pub_clear(struct pub *p);
struct decl *pub_find(struct pub *p, const char *path);
/* There is a second parent, and it has the same there as the result. */
bool pub_theirs(const struct pub *p, const struct decl *d);
/* commit.c */
int commit_check(struct pub *p);
/* cross.c: one text or file is looked through for secrets. */
void pub_scan_begin(struct pub *p, const char *path, const char *old,
    size_t nold);
void pub_scan_add(struct pub *p, const void *data, size_t n);
void pub_scan_end(struct pub *p);

#endif
