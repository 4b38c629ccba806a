#ifndef SBX_WORKER_VIEW_H
#define SBX_WORKER_VIEW_H

/*
 * The view of a stream that a tool shows: cleaned, folded, cut; the stored
 * bytes stay as they are.
 */

#include "common/base/base.h"

enum view_mode { VIEW_SUMMARY, VIEW_ERROR_ONLY, VIEW_FULL, VIEW_MODE_MAX };

struct view_want {
	enum view_mode mode;
	bool failed;		/* the end matters more than the begin */
	uint64_t max_lines;	/* 1.. */
	uint64_t max_tokens;	/* 0: no budget */
};

/* Two pieces of a stream, whole lines, with what was skipped between them. */
struct view_in {
	const char *head, *tail;	/* borrowed; any bytes */
	size_t head_len, tail_len;
	uint64_t skipped_lines;		/* 0: tail follows head */
};

struct view {
	struct sbx_buf text;	/* owned: view_clear(); any bytes */
	uint64_t shown;		/* lines in text, notices not counted */
	bool truncated;		/* anything is missing */
	/* Raw lines of head shown before the first cut: where the missing
	 * part begins.  Equal to all raw lines when nothing was cut. */
	uint64_t raw_before_cut;
	uint64_t estimated_tokens; /* of text: its bytes / 4, rounded up */
	size_t masked;		/* secrets that only cleaning made whole */
};

/*
 * Clean (terminal sequences, overwritten progress lines), fold identical
 * neighbours to "[xN] line" (a multiplication sign), cut: of what failed the
 * end gets more room than the begin.  Hunks of a diff and JSON, also over
 * several lines, stay as they are.  Secrets are masked before, and once more
 * in what came out, as a colour may stand in the middle of one.
 * Never fails; text has at most 1 MiB.
 */
void view_make(const struct view_want *want, const struct view_in *in,
    struct view *ret_view);
void view_clear(struct view *v);

#endif
