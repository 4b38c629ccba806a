/* Files of a sandbox (files.h). */

#include "sbxd/worker/files.h"

#include "sbxd/worker/worker.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the helper wrote: at most max bytes of it, whatever it says.  pread(2),
 * as it may truncate what would be mapped. */
static int
take_text(int fd, size_t max, struct sbx_buf *ret_text)
{
	char block[65536];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, block, sizeof(block), at)) > 0) {
		if ((size_t)n > max - ret_text->len)
			n = (ssize_t)(max - ret_text->len);
		if (n == 0)
			break;
		if (sbx_buf_add(ret_text, block, (size_t)n) != 0)
			return (SBX_E_LIMIT);
		at += n;
	}
	return (n < 0 ? SBX_E_SYS : 0);
}

int
file_get(struct call *call, const char *container,
    const struct file_want *want, struct ask_filed *ret_done,
    struct sbx_buf *ret_text)
{
	const struct sbx_file_ask m = { .container = container,
		.op = (uint8_t)want->op, .path = want->path,
		.pattern = want->pattern != NULL ? want->pattern : "",
		.first = want->first, .count = want->count,
		.max_bytes = want->max_bytes, .flags = want->flags };
	int SBX_CLEANUP(fd) in = -1, SBX_CLEANUP(fd) out = -1;
	int error;

	sbx_buf_init(ret_text, (size_t)want->max_bytes + 1);
	if (sbx_memfd_sealed("none", "", 0, &in) != 0 ||
	    (out = memfd_create("file", MFD_CLOEXEC)) == -1)
		return (SBX_E_SYS);
	error = file_ask(call->ask, &m, (int[]){ in, out }, ret_done);
	if (error != 0)
		return (error);
	if (ret_done->error != 0)
		return (1);
	return (take_text(out, (size_t)want->max_bytes, ret_text));
}

int
file_get_whole(struct call *call, const char *container, const char *path,
    size_t max, struct ask_filed *ret_done, struct sbx_buf *ret_text)
{
	return (file_get(call, container, &(struct file_want){
	    .op = SBX_FILE_READ, .path = path, .max_bytes = max,
	    .flags = SBX_FILE_WHOLE }, ret_done, ret_text));
}

static void
put_be(uint8_t **p, uint64_t v, int n)
{
	while (n-- > 0)
		*(*p)++ = (uint8_t)(v >> (8 * n));
}

static int
add_change(struct sbx_buf *b, const struct file_change *c)
{
	uint8_t head[SBX_CHANGE_HEAD_BYTES], *p = head;
	const struct ask_filed none = { 0 }, *was = c->was != NULL ? c->was :
	    &none;
	uint32_t flags = (c->was == NULL ? SBX_CHANGE_CREATE : 0) |
	    (c->data == NULL ? SBX_CHANGE_REMOVE : 0) |
	    (c->was != NULL && c->mode != 0 ? SBX_CHANGE_MODE : 0);

	put_be(&p, strlen(c->path), 4);
	put_be(&p, flags, 4);
	put_be(&p, c->mode != 0 ? c->mode : 0644, 4);
	put_be(&p, 0, 4);
	put_be(&p, was->size, 8);
	put_be(&p, was->ino, 8);
	put_be(&p, was->mtime_ns, 8);
	put_be(&p, was->ctime_ns, 8);
	put_be(&p, c->data != NULL ? c->len : 0, 8);
	if (sbx_buf_add(b, head, sizeof(head)) != 0 ||
	    sbx_buf_add(b, c->path, strlen(c->path)) != 0)
		return (SBX_E_LIMIT);
	return (c->data == NULL ? 0 : sbx_buf_add(b, c->data, c->len));
}

/* A line each, as many as there is room for. */
static void
list_names(const struct file_change *changes, size_t n, char *ret_text,
    size_t size)
{
	size_t at = 0, len;

	for (size_t i = 0; i < n; i++) {
		len = strlen(changes[i].path);
		if (len + 1 >= size - at)
			break;
		memcpy(ret_text + at, changes[i].path, len);
		at += len;
		ret_text[at++] = '\n';
	}
	ret_text[at > 0 ? at - 1 : 0] = '\0';
}

int
file_put(struct call *call, const char *container,
    const struct file_change *changes, size_t n, struct ask_filed *ret_done)
{
	char names[1024];
	const struct sbx_file_ask m = { .container = container,
		.op = SBX_FILE_WRITE, .path = changes[n - 1].path,
		.pattern = names, .count = n };
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	int SBX_CLEANUP(fd) in = -1;
	int error = n <= SBX_CHANGE_MAX ? 0 : SBX_E_LIMIT;

	memset(ret_done, 0, sizeof(*ret_done));
	list_names(changes, n, names, sizeof(names));
	sbx_buf_init(&b, SBX_CHANGE_MAX_BYTES);
	for (size_t i = 0; error == 0 && i < n; i++)
		error = add_change(&b, &changes[i]);
	if (error != 0) {
		ret_done->error = EFBIG;
		(void)sbx_strlcpy(ret_done->reason, "the changes are too large",
		    sizeof(ret_done->reason));
		return (1);
	}
	if (sbx_memfd_sealed("changes", b.data, b.len, &in) != 0)
		return (SBX_E_SYS);
	error = file_ask(call->ask, &m, (int[]){ in, in }, ret_done);
	if (error != 0)
		return (error);
	return (ret_done->error != 0 ? 1 : 0);
}

void
file_put_warnings(struct call *call, const struct ask_filed *done)
{
	if (done->reason[0] == '\0')
		return;
	result_open(call->res, "warnings", '[');
	result_masked(call->res, NULL, done->reason, strlen(done->reason));
	result_close(call->res, ']');
}

static const struct {
	int error;
	const char *code, *next;
} refusals[] = {
	{ ENOENT, "not_found", "list_files shows what there is." },
	{ ENOTDIR, "not_found", "list_files shows what there is." },
	{ EISDIR, "is_directory", "Name a file." },
	{ EINVAL, "not_a_file", "Name a regular file." },
	{ EACCES, "permission_denied", "Give the sandbox's user the right "
	    "(chmod, by sandbox_exec), or work in another directory." },
	{ EPERM, "permission_denied", "Work in another directory." },
	{ EROFS, "read_only", "Work below /workspace or the home." },
	{ EFBIG, "too_large", "read_file_range reads a part of it." },
	{ ESTALE, "changed_meanwhile", "Read it again, then edit." },
	{ EEXIST, "exists", "Name another file; instead of a link that leads "
	    "nowhere, its target." },
	{ ENOSPC, "disk_full", "Remove something in the sandbox." },
	{ EDQUOT, "disk_full", "Remove something in the sandbox." },
	{ EBUSY, "busy", "Retry." },
	{ EAGAIN, "busy", "Too many processes in the sandbox: end some." },
	{ 0, "file_failed", "" },
};

int
file_refused(struct call *call, int r, const char *name,
    const struct ask_filed *done)
{
	char text[512];
	size_t i;

	if (r != 1)
		return (call_refused(call, r));
	for (i = 0; refusals[i].error != 0 &&
	    refusals[i].error != done->error; i++)
		;
	result_error(call->res, refusals[i].code, refusals[i].next, "%s%s%s",
	    strstr(done->reason, name) == NULL ?
	    sbx_vis(text, sizeof(text), name, strlen(name)) : "",
	    strstr(done->reason, name) == NULL ? ": " : "", done->reason);
	return (0);
}

/* --- what files were -------------------------------------------------------- */

int
undo_push(struct call *call, const char *container, const char *path,
    const char *data, size_t len, uint32_t mode, struct ask_filed *ret_done)
{
	const struct sbx_undo_keep m = { .container = container,
		.path = path, .absent = data == NULL, .mode = mode };
	int SBX_CLEANUP(fd) fd = -1;
	int error;

	if (sbx_memfd_sealed("undo", data != NULL ? data : "",
	    data != NULL ? len : 0, &fd) != 0)
		return (SBX_E_SYS);
	error = undo_keep(call->ask, &m, fd, ret_done);
	return (error != 0 ? error : ret_done->error != 0 ? 1 : 0);
}

int
undo_get(struct call *call, const char *container, const char *path,
    uint32_t steps, struct ask_undo *ret_version, struct sbx_buf *ret_text)
{
	const struct sbx_undo_find m = { .container = container,
		.path = path, .steps = steps };
	int error;

	sbx_buf_init(ret_text, SBX_UNDO_BYTES);
	error = undo_find(call->ask, &m, ret_version);
	if (error == 0 && ret_version->fd != -1) {
		error = take_text(ret_version->fd, SBX_UNDO_BYTES, ret_text);
		sbx_close(&ret_version->fd);
	}
	return (error);
}
