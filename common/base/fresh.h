#ifndef SBX_BASE_FRESH_H
#define SBX_BASE_FRESH_H

/*
 * What a fresh verification runs, by what is at the top of a tree.  Fixed, so
 * that a pass says what was run; nobody who asks for one chooses it.
 */

#include <stddef.h>
#include <stdint.h>

struct sbx_fresh {
	const char *name;	/* of the language */
	const char *runs;	/* what, for who reads it */
	/* for bash, in the tree; progress to stderr, to stdout the report: a
	 * line with its format (report.h), then that */
	const char *script;
};
extern const struct sbx_fresh sbx_fresh[];
extern const size_t sbx_fresh_n;	/* at most 32 */

/* What these, names between blanks as far as they are known, run; into buf. */
const char *sbx_fresh_runs(const char *names, char *buf, size_t size);
/* Bits of the rows that a file of that name, at the top of a tree, asks for. */
uint32_t sbx_fresh_of(const char *name);

#endif
