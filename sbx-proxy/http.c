#include "sbx-proxy/http.h"

void
http_start(struct listener *l, int fd, struct evbuffer *in)
{
	(void)l;
	(void)in;
	sbx_close(&fd);
}

void
http_start_tls(struct listener *l, int fd, const struct host *h,
    uint16_t port, enum policy_how how, struct evbuffer *early)
{
	(void)l;
	(void)h;
	(void)port;
	(void)how;
	(void)early;
	sbx_close(&fd);
}

void
http_refusal(struct evbuffer *out, unsigned status, const char *why,
    const char *mend, bool keep)
{
	(void)out;
	(void)status;
	(void)why;
	(void)mend;
	(void)keep;
}
