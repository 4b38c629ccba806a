#ifndef SBX_JOURNALD_READER_H
#define SBX_JOURNALD_READER_H

/*
 * Reading the journal, for the command line.  Nothing here trusts a line:
 * whoever could write the files could have written anything.
 */

#include "common/base/base.h"
#include "sbx-journald/line.h"

struct journal_reader;

/* One line of one file, borrowed until the next call on the reader. */
struct journal_line {
	unsigned file;
	uint64_t offset;
	const char *text;
	size_t len;		/* without the newline */
	bool ended;		/* there is a newline */
};

/*
 * Open the journal in the directory `dir` at its first line.
 * 0, SBX_E_NOENT (no journal file in it), SBX_E_SYS.
 */
int journal_open(const char *dir, struct journal_reader **ret_reader,
    struct sbx_err *err);
void journal_close(struct journal_reader *r);	/* NULL ok */
/* NULL: any. */
struct journal_filter {
	const char *container;	/* its first digits are enough; hex only */
	const char *run;	/* hex only */
	const char *op;
	const char *since;	/* RFC 3339, UTC, compared as text */
};
/*
 * From now on journal_next() may pass over lines that cannot match f; the
 * others it gives as before, so each must still be tried.  f: borrowed during
 * the call.
 */
void journal_want(struct journal_reader *r, const struct journal_filter *f);
/*
 * The next line.  What was appended since, and files made since, are found.
 * 0, SBX_E_AGAIN (none now), SBX_E_NOENT (a file is missing between two),
 * SBX_E_SYS.
 */
int journal_next(struct journal_reader *r, struct journal_line *ret_line,
    struct sbx_err *err);
/* Have journal_next() give l again: the last one that it gave, behind those
 * that journal_seek_last() found. */
void journal_unread(struct journal_reader *r, const struct journal_line *l);
/*
 * Remember in the directory at path (index.h) where which ids are, and use
 * what was remembered.  Without a word it works without.
 */
void journal_cache(struct journal_reader *r, const char *path);
/*
 * Go back so that the next *ret_found lines that match f are the last ones
 * that do, at most n, and journal_want() f.  Reads from the end and no further
 * than needed; where fewer than n match, that is all of it.
 * 0, SBX_E_NOENT (a file is missing), SBX_E_SYS.
 */
int journal_seek_last(struct journal_reader *r, const struct journal_filter *f,
    uint64_t n, uint64_t *ret_found, struct sbx_err *err);

/* A line as a record.  Texts are decoded and owned by it. */
struct journal_record {
	uint64_t seq, mono_ns;
	char prev[JOURNAL_HASH_HEX + 1];
	const char *wall, *component, *op, *phase, *principal, *container,
	    *run;
	int64_t code;
	struct json_object *fields, *all;
};
/*
 * 0 or SBX_E_SYNTAX: the members are not exactly those of a record in their
 * order, or an operation or id that needs no escapes is written with some.
 * Clear it when 0 was returned.
 */
int journal_parse(const char *text, size_t len, struct journal_record *ret_rec);
void journal_record_clear(struct journal_record *rec);
/* The text of a field, or NULL. */
const char *journal_field(const struct journal_record *rec, const char *key);

/* Only characters of names, which no writer of JSON has to escape. */
bool journal_is_plain(const char *s);
bool journal_matches(const struct journal_filter *f,
    const struct journal_record *rec);
/* The line is a record that matches, or the filter is empty. */
bool journal_line_matches(const struct journal_filter *f,
    const struct journal_line *l);

/*
 * Append rec as one line for a human, without newline: every foreign text is
 * quoted and escaped, so that none can end the line, steer the terminal or
 * look like another field.  0, SBX_E_LIMIT.
 */
int journal_render(const struct journal_record *rec, struct sbx_buf *b);

/* What verify found. */
struct journal_verdict {
	uint64_t records, torn_lines, torn_bytes;
	uint64_t last_seq;
	char last_hash[JOURNAL_HASH_HEX + 1];
	uint64_t unfinished;	/* bytes of a last line without its end */
	bool anchored;		/* the checkpoint was there */
};
/*
 * Read all and check: each line is a record with exactly its members; numbers
 * and hashes follow each other without gap over all files; each file begins
 * with `open`; what is no record is accounted for by a `torn` record.
 * checkpoint_seq 0: none; else that record must be there with that hash.
 * 0, SBX_E_POLICY (not a true journal: err says where and why), SBX_E_NOENT,
 * SBX_E_SYS.
 */
int journal_verify(const char *dir, uint64_t checkpoint_seq,
    const char *checkpoint_hash, struct journal_verdict *ret_verdict,
    struct sbx_err *err);

#endif
