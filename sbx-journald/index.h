#ifndef SBX_JOURNALD_INDEX_H
#define SBX_JOURNALD_INDEX_H

/*
 * What a reader remembers of a journal file: which ids the lines of each step
 * of it have, so that the next reader need not look there for others.  It lies
 * in a directory of the reader's own, never beside the journal, and is a guess
 * to save time: a line is only shown after a look at the journal itself.
 *
 * What it cannot do: a file of the cache that lies, which takes its owner's
 * rights to write, can keep records from being found.  `verify` does not use
 * it, and without the file everything is found again.
 *
 * A file of the cache belongs to a journal file by the hash of that one's
 * first line, its inode and a size that has not shrunk; by the hash of the
 * last line of what is known, which is chained to all before it; and has a
 * hash of itself.  Where anything does not fit it is ignored and made anew.
 */

#include "common/base/base.h"

#include <sys/types.h>

#define JOURNAL_STEP ((size_t)1 << 20)	/* bytes; a line's is that of its
					 * first byte */

struct journal_index;
struct journal_filter;

/*
 * Open the cache directory, made (0700) when missing.  The descriptor is the
 * caller's; -1, without a word, when there is none, or it is another's or
 * writable for others: it works without.
 */
int journal_cache_open(const char *path);
/*
 * What is known of the journal file whose size bytes are at text; nothing yet,
 * when there is no file, or one that does not fit.  NULL when it will not be
 * known: cache is -1, or there is no first line.  cache: borrowed as long as
 * the index lives; text: during each call.
 */
struct journal_index *journal_index_open(int cache, ino_t inode,
    const char *text, size_t size);
/* Saves what was added, if it is worth it; NULL ok.  text as above. */
void journal_index_close(struct journal_index *ix, const char *text,
    size_t size);
/* May the step have a line that matches?  true for one that is not known. */
bool journal_index_may(const struct journal_index *ix, size_t step,
    const struct journal_filter *f);
/* Is it known?  true without an index: nothing is to be added. */
bool journal_index_knows(const struct journal_index *ix, size_t step);
/* These len bytes are the lines of the step, and will stay so. */
void journal_index_add(struct journal_index *ix, size_t step,
    const char *lines, size_t len);

#endif
