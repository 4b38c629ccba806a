#include "sbx-proxy/proxy.h"

void
client_start(struct listener *l, int fd)
{
	(void)l;
	sbx_close(&fd);
}
