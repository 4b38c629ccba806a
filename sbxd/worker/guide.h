#ifndef SBX_WORKER_GUIDE_H
#define SBX_WORKER_GUIDE_H

/* What to do in which phase of the work, and with which tools: one table, for
 * the tool get_workflow_guide and the prompts. */

#include <stddef.h>

struct guide_phase {
	const char *name, *text;
	const char *tools[16];		/* up to NULL */
	const char *next;		/* the phase after it; NULL: none */
};
/* By i from 0, NULL at the end; by name, NULL when there is none. */
const struct guide_phase *guide_at(size_t i);
const struct guide_phase *guide_find(const char *name);

#endif
