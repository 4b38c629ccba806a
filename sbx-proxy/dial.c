#include "sbx-proxy/dial.h"

struct dial *
dial_start(struct proxy *x, const struct host *h, uint16_t port,
    dial_done done, void *ctx)
{
	(void)x;
	(void)h;
	(void)port;
	(void)done;
	(void)ctx;
	return (NULL);
}

void
dial_cancel(struct dial *d)
{
	(void)d;
}

void
dial_resolver(struct proxy *x, const char *text)
{
	(void)x;
	(void)text;
}
