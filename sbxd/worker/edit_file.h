#ifndef SBX_WORKER_EDIT_FILE_H
#define SBX_WORKER_EDIT_FILE_H

/*
 * One file of a sandbox that a tool changes: read with its stamp, kept for
 * undo, written only if nothing touched it meanwhile, and told.
 */

#include "sbxd/worker/edit.h"
#include "sbxd/worker/files.h"

struct call;
struct ask_run;

struct edited {
	const char *path;	/* as it was asked for; borrowed */
	bool is_new;		/* there is no such file (yet) */
	bool huge;		/* its bytes were not read: old is empty */
	struct ask_filed was;	/* with the path without links, if it is there */
	struct sbx_buf old;	/* owned */
	bool kept;		/* what it was can be come back to */
	char why_not[128];
};

/* dest_dir and file_name as one path.  false: refused in call->res. */
bool edited_path(struct call *call, char ret_path[4096]);
/*
 * Read it.  absent_ok: a missing one is new; huge_ok: one that is too large to
 * edit is taken without its bytes.  1: go on; else as tool_fn.  To be cleared
 * in any case.
 */
int edited_read(struct call *call, const char *path, bool absent_ok,
    bool huge_ok, struct edited *ret);
void edited_clear(struct edited *f);
/* Is it text that bytes can be put into?  false: refused in call->res. */
bool edited_is_text(struct call *call, const struct edited *f);
/* Keep what it was.  0, or as the asks of ask.h; f->kept tells. */
int edited_keep(struct call *call, struct edited *f);
/*
 * Keep what it was and make it `text`, mode 0: as it was.  1: written; else as
 * tool_fn.
 */
int edited_write(struct call *call, struct edited *f, struct bytes text,
    uint32_t mode, struct ask_filed *ret_done);
/* path, bytes, changed, created, diff ..., undo. */
void edited_put(struct call *call, const struct edited *f, struct bytes text,
    const char *path, unsigned max_rows);
void edited_put_undo(struct call *call, const struct edited *f);

/* --- edit_python.c ----------------------------------------------------------- */

/*
 * The Python definition that `what` begins with is replaced by `with`: adds the
 * span to e.  1: added; 0 with *ret_fall: there is no such definition, or no
 * Python to find it; else as tool_fn with the error in call->res.
 */
int edit_python(struct call *call, struct edit *e, struct bytes what,
    struct bytes with, bool *ret_fall);
/* Does `what` begin with def, async def or class, behind comments and
 * decorators?  *ret_lines: its lines that are not blank. */
bool edit_is_definition(struct bytes what, size_t *ret_lines);
/* `text` of a .py file: why it does not parse, or "".  0, or as the asks of
 * ask.h. */
int edit_python_check(struct call *call, const char *path, struct bytes text,
    char *ret_why, size_t size);

#endif
