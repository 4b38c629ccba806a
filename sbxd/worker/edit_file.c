/* A file that a tool changes (edit_file.h). */

#include "sbxd/worker/edit_file.h"

#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIFF_CONTEXT 3

static const char *
box(const struct call *call)
{
	return (args_str(&call->args, "container_id", NULL));
}

bool
edited_path(struct call *call, char ret_path[4096])
{
	const char *name = args_str(&call->args, "file_name", NULL);
	const char *dir = args_str(&call->args, "dest_dir", NULL);
	int n = name[0] == '/' ? snprintf(ret_path, 4096, "%s", name) :
	    snprintf(ret_path, 4096, "%s%s%s", dir,
	    dir[0] == '\0' || dir[strlen(dir) - 1] == '/' ? "" : "/", name);

	if (n > 0 && n < 4096)
		return (true);
	result_error(call->res, "bad_argument",
	    "Mend the argument and call again.",
	    "\"dest_dir\" and \"file_name\" are too long together.");
	return (false);
}

static int
too_large(struct call *call, const char *path)
{
	char vis[256];

	result_error(call->res, "too_large", "Change it in the sandbox: "
	    "sandbox_exec with sed, or run_python.",
	    "%s is larger than 16 MiB, and is not edited here.",
	    sbx_vis(vis, sizeof(vis), path, strlen(path)));
	return (0);
}

int
edited_read(struct call *call, const char *path, bool absent_ok, bool huge_ok,
    struct edited *ret)
{
	SBX_CLEANUP_BUF struct sbx_buf one = { 0 };
	int r;

	*ret = (struct edited){ .path = path };
	r = file_get_whole(call, box(call), path, EDIT_MAX_BYTES, &ret->was,
	    &ret->old);
	if (r == 1 && ret->was.error == ENOENT && absent_ok) {
		ret->is_new = true;
		return (1);
	}
	if (r == 1 && ret->was.error == EFBIG) {
		if (!huge_ok)
			return (too_large(call, path));
		ret->huge = true;	/* only its stamp is wanted */
		r = file_get(call, box(call), &(struct file_want){
		    .op = SBX_FILE_READ, .path = path, .count = 1,
		    .max_bytes = 1 }, &ret->was, &one);
	}
	return (r != 0 ? file_refused(call, r, path, &ret->was) : 1);
}

void
edited_clear(struct edited *f)
{
	sbx_buf_clear(&f->old);
}

bool
edited_is_text(struct call *call, const struct edited *f)
{
	if (!edit_is_wide((struct bytes){ f->old.data, f->old.len }))
		return (true);
	result_error(call->res, "encoding", "Change it with run_python, "
	    "which can decode it.", "%s looks like UTF-16 or UTF-32; text put "
	    "into it would break it.", f->was.path);
	return (false);
}

int
edited_keep(struct call *call, struct edited *f)
{
	struct ask_filed done;
	int r;

	f->why_not[0] = '\0';
	if (f->huge) {
		(void)sbx_strlcpy(f->why_not, "a file of more than 5 MiB is "
		    "not kept", sizeof(f->why_not));
		return (0);
	}
	r = undo_push(call, box(call), f->was.path, f->is_new ? NULL :
	    f->old.data != NULL ? f->old.data : "", f->old.len, f->was.mode,
	    &done);
	f->kept = r == 0;
	if (r == SBX_E_POLICY)
		(void)sbx_strlcpy(f->why_not, call->ask->refused.reason,
		    sizeof(f->why_not));
	else if (r == 1)
		(void)sbx_strlcpy(f->why_not, done.reason,
		    sizeof(f->why_not));
	return (r == SBX_E_POLICY || r == 1 ? 0 : r);
}

int
edited_write(struct call *call, struct edited *f, struct bytes text,
    uint32_t mode, struct ask_filed *ret_done)
{
	const struct file_change c = { .path = f->path,
		.was = f->is_new ? NULL : &f->was,
		.data = text.p != NULL ? text.p : "", .len = text.n,
		.mode = mode };
	int r;

	if (text.n > EDIT_MAX_BYTES)
		return (too_large(call, f->path));
	/* of a new one only the answer knows the path without links */
	r = f->is_new ? 0 : edited_keep(call, f);
	if (r == 0)
		r = file_put(call, box(call), &c, 1, ret_done);
	if (r != 0)
		return (file_refused(call, r, f->path, ret_done));
	if (f->is_new) {
		memcpy(f->was.path, ret_done->path, sizeof(f->was.path));
		r = edited_keep(call, f);
	}
	return (r != 0 ? call_refused(call, r) : 1);
}

void
edited_put_undo(struct call *call, const struct edited *f)
{
	result_bool(call->res, "undo", f->kept);
	if (!f->kept && f->why_not[0] != '\0')
		result_str(call->res, "undo_note", f->why_not);
}

void
edited_put(struct call *call, const struct edited *f, struct bytes text,
    const char *path, unsigned max_rows)
{
	struct bytes old = { f->old.data != NULL ? f->old.data : "",
		f->old.len };
	struct result *r = call->res;
	struct diff d;

	result_str(r, "path", path);
	result_u64(r, "bytes", text.n);
	result_bool(r, "changed", f->is_new || f->huge || old.n != text.n ||
	    memcmp(old.p, text.p, old.n) != 0);
	result_bool(r, "created", f->is_new);
	if (f->huge) {
		result_str(r, "diff", "");
		return;
	}
	diff_make(old, text, DIFF_CONTEXT, max_rows, &d);
	script_put(r, "diff", d.text.len > 0 ? d.text.data : "", d.text.len,
	    NULL);
	result_u64(r, "added_lines", d.added);
	result_u64(r, "removed_lines", d.removed);
	if (d.cut)
		result_bool(r, "diff_cut", true);
	sbx_buf_clear(&d.text);
}
