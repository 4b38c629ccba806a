#ifndef SBX_WORKER_EDIT_H
#define SBX_WORKER_EDIT_H

/*
 * Editing of bytes, without a file or a sandbox: what is replaced by what, and
 * how that is shown.  A text is any bytes; a line ends with a newline or with
 * the text.  All of it is of a guest's or a client's making, so that nothing
 * here takes more than about linear time.
 */

#include "common/base/base.h"

#define EDIT_MAX_BYTES (16u << 20)	/* of a file that is edited */
#define EDIT_MAX_SPANS 20000u		/* replaced at once */
#define EDIT_LINES_TOLD 10
#define EDIT_FLEXIBLE_LINES 20000u /* more are only matched exactly */
#define EDIT_NOTE_BYTES 8	/* shorter text may be there by chance */

struct bytes {
	const char *p;		/* borrowed */
	size_t n;
};

/* Bytes [at, at + len) become text. */
struct edit_span {
	size_t at, len;
	struct bytes text;
};
struct edit {
	struct bytes old;	/* the text as it is; borrowed */
	struct edit_span *spans; /* owned */
	size_t n, size;
	char **own;		/* owned: texts that were made for spans */
	size_t owned;
	bool flexible;		/* a match was by lines without their blanks */
	bool parsed;		/* what becomes of it was parsed as Python */
	bool crlf;		/* line ends of a given text were made the file's */
};
void edit_init(struct edit *e, struct bytes old);
void edit_clear(struct edit *e);
/* 0, SBX_E_LIMIT: too many. */
int edit_add(struct edit *e, size_t at, size_t len, struct bytes text);
/*
 * Sort the spans and write what becomes of the text.  0; SBX_E_POLICY: two
 * overlap, the second begins at *ret_at; SBX_E_LIMIT: it outgrows ret_text.
 */
int edit_apply(struct edit *e, struct sbx_buf *ret_text, size_t *ret_at);

/* Where there are non-overlapping matches of `what`; the first `max` into
 * ret_at.  Returns how many there are. */
size_t edit_find(struct bytes in, struct bytes what, size_t *ret_at,
    size_t max);
uint64_t edit_line_of(struct bytes in, size_t at);	/* from 1 */
uint64_t edit_lines(struct bytes in);
/* Where line n (from 1) begins; in.n when there is none. */
size_t edit_line_at(struct bytes in, uint64_t n);
/* Is every line end of it CR LF, and is there one? */
bool edit_is_crlf(struct bytes in);
/* Is it (most likely) text of two or four bytes a character? */
bool edit_is_wide(struct bytes in);
/* A text that goes into the file, with CR LF where the file has nothing else
 * and the text has no CR.  Owned by e. */
struct bytes edit_endings(struct edit *e, struct bytes text);

/* Both in one, owned by e. */
struct bytes edit_join(struct edit *e, struct bytes a, struct bytes b);

enum edit_match {
	EDIT_MATCHED, EDIT_NONE, EDIT_MANY,
	EDIT_COUNT,		/* not as many as expected */
	EDIT_LIMIT,
};
struct edit_where {
	size_t count;
	bool more;	/* or more than count: it was not counted on */
	uint64_t lines[EDIT_LINES_TOLD];	/* of the first ones */
	size_t told;
};
/*
 * Add the replacement of `what` by `with`: expected 0: it must be there once,
 * exactly or, with no exact match, by lines without the blanks around them,
 * when `with` is indented as the file is.  expected > 0: exactly so often, all
 * are replaced.
 */
enum edit_match edit_replace(struct edit *e, struct bytes what,
    struct bytes with, uint64_t expected, struct edit_where *ret_where);

/* --- edit_near.c: what is most like a text that is not there ----------------- */

struct edit_near {
	uint64_t line, lines;	/* the window: first line from 1, how many */
	uint64_t differs;	/* the first line that differs, from 1 */
	struct bytes found, wanted; /* that line, there and in `what`; borrowed */
};
/* false: nothing is like it. */
bool edit_near(struct bytes in, struct bytes what, struct edit_near *ret_near);

/* --- edit_diff.c ----------------------------------------------------------- */

struct diff {
	struct sbx_buf text;	/* owned: sbx_buf_clear() */
	uint64_t added, removed; /* lines */
	uint64_t rows;		/* of the whole diff */
	bool cut;		/* rows of the middle are left out, and said so */
};
/* Unified, `context` lines around, at most max_rows rows. */
void diff_make(struct bytes a, struct bytes b, unsigned context,
    unsigned max_rows, struct diff *ret_diff);
/* Append one line without its end, cut after `max` bytes with a mark.
 * Returns: it was cut. */
bool edit_put_line(struct sbx_buf *b, struct bytes line, size_t max);

#endif
