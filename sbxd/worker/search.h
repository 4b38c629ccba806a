#ifndef SBX_WORKER_SEARCH_H
#define SBX_WORKER_SEARCH_H

/*
 * What a search printed, in the order of its files, and pages of that.  The
 * search itself works in parallel, so its order is that of this moment; what
 * is stored of a run is sorted whenever a page of it is made.
 */

#include "common/base/base.h"

struct result;

enum search_tool { SEARCH_RG, SEARCH_GREP, SEARCH_AST, SEARCH_TOOL_MAX };
enum search_mode { SEARCH_LINES, SEARCH_FILES, SEARCH_COUNT, SEARCH_MODE_MAX };

#define SEARCH_OUT_MAX (48u << 20)	/* of an output that is read */
#define SEARCH_ITEMS_MAX 500000u	/* files, or places of a structure */
#define SEARCH_PAGE_BYTES (1u << 20)	/* of text in one page */
#define SEARCH_TEXT_MAX 500u		/* of one line that is shown */

/* A file with its matches, or one match of a structure. */
struct search_item {
	char *path;		/* owned */
	size_t path_len;
	uint64_t n;		/* how many matches */
	uint64_t line, column;	/* of a match of a structure */
	size_t from, to;	/* where in the text */
};
struct search {
	enum search_tool tool;
	enum search_mode mode;
	uint64_t context;
	char *text;		/* borrowed */
	size_t len;
	struct search_item *items;
	size_t n, size;
	uint64_t total;
	bool cut;		/* there is more than was read */
};

/* tool, mode, context, text and len are set.  search_clear() it. */
void search_read(struct search *s);
void search_clear(struct search *s);
/* The members matches, shown, total ... next_offset. */
void search_put(struct search *s, struct result *r, uint64_t offset,
    uint64_t max);

#endif
