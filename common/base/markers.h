#ifndef SBX_BASE_MARKERS_H
#define SBX_BASE_MARKERS_H

/*
 * Files at the top of a project that say in which language it is written.
 * sbxd-copyin looks for them, the monitor draws the conclusion; what crosses
 * between them is a bit a row.
 */

#include <stddef.h>

enum sbx_lang {
	SBX_LANG_PYTHON, SBX_LANG_JS, SBX_LANG_GO, SBX_LANG_RUST,
	SBX_LANG_OTHER,		/* no image is made for it */
	SBX_LANG_MAX
};
struct sbx_marker {
	const char *name;	/* one * in it stands for any characters */
	enum sbx_lang lang;
};

/* At most 32, of one language together. */
extern const struct sbx_marker sbx_markers[];
extern const size_t sbx_markers_n;

/* The image of a language, also its name in sentences; OTHER: NULL. */
const char *sbx_lang_image(enum sbx_lang lang);
/* The row that a file name matches, or -1. */
int sbx_marker_match(const char *name);

#endif
