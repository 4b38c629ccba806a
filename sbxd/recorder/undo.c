/* What files were before edits. */
#include "sbxd/recorder/recorder.h"

#include <errno.h>

int
undo_put(struct recorder *r, const struct sbx_keep_put *q, int fd,
    const char **ret_reason)
{
	(void)r, (void)q, (void)fd;
	*ret_reason = "not built";
	return (ENOSYS);
}

int
undo_answer(struct recorder *r, struct sbx_peer *p, uint32_t id,
    const struct sbx_keep_get *q)
{
	(void)r, (void)q;
	return (sbx_send_keep_none(p, id, &(struct sbx_keep_none){ 0 }, NULL));
}

void
undo_drop(struct recorder *r, const char *container)
{
	(void)r, (void)container;
}
