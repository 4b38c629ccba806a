#ifndef SBX_WORKER_FILES_H
#define SBX_WORKER_FILES_H

/*
 * Files of a sandbox, read and changed by a helper inside it as its user
 * (filework.h).  What comes back is what a sandbox says: bytes and numbers.
 *
 * All return as the asks of ask.h, or 1 when the work itself failed: then
 * file->error is an errno and file->reason says what and why.
 */

#include "common/base/base.h"
#include "common/proto/filework.h"
#include "sbxd/worker/ask.h"

struct call;

struct file_want {
	enum sbx_file_op op;
	const char *path, *pattern;	/* pattern: NULL is "" */
	uint64_t first, count, max_bytes;
	uint32_t flags;
};
/* READ or LIST.  ret_text is initialized by this and owned by the caller;
 * at most want->max_bytes <= SBX_FILE_MAX_READ. */
int file_get(struct call *call, const char *container,
    const struct file_want *want, struct ask_filed *ret_done,
    struct sbx_buf *ret_text);
/* All of a regular file of at most max bytes. */
int file_get_whole(struct call *call, const char *container,
    const char *path, size_t max, struct ask_filed *ret_done,
    struct sbx_buf *ret_text);

/* One change; `was` is what file_get_whole() said of the file, NULL: it is
 * new. */
struct file_change {
	const char *path;
	const struct ask_filed *was;
	const char *data;	/* NULL: the file is removed */
	size_t len;
	uint32_t mode;		/* of a new file, 0: 0644; else 0: as it was */
};
/* At most SBX_CHANGE_MAX, all or none.  ret_done->first: which one failed. */
int file_put(struct call *call, const char *container,
    const struct file_change *changes, size_t n, struct ask_filed *ret_done);

/* `warnings`, when those changes could not keep all of what there was. */
void file_put_warnings(struct call *call, const struct ask_filed *done);

/* Make 0 of 1, with the error object that says why in call->res; what is not
 * 1 is returned as call_refused() does.  name: as the caller named it. */
int file_refused(struct call *call, int r, const char *name,
    const struct ask_filed *done);

/* --- what files were -------------------------------------------------------- */
/* data NULL: there was no file.  1: it was not kept, *ret_done says why. */
int undo_push(struct call *call, const char *container, const char *path,
    const char *data, size_t len, uint32_t mode, struct ask_filed *ret_done);
/* Not known is 0, too; ret_version->fd is not the caller's. */
int undo_get(struct call *call, const char *container, const char *path,
    uint32_t steps, struct ask_undo *ret_version,
    struct sbx_buf *ret_text);

#endif
