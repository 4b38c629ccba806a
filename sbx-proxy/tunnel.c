#include "sbx-proxy/tunnel.h"

void
tunnel_start(struct listener *l, int fd, const struct host *h, uint16_t port,
    struct evbuffer *early)
{
	(void)l;
	(void)h;
	(void)port;
	(void)early;
	sbx_close(&fd);
}
