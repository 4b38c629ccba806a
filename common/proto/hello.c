#include "common/proto/hello.h"

#include "common/base/log.h"

#include <unistd.h>

static void
hello_log(void *arg, enum sbx_log_level level, const char *text)
{
	/* A failure to log cannot be logged; it ends the peer elsewhere. */
	(void)sbx_send_log(arg, 0, &(struct sbx_log){
	    .level = (uint8_t)level, .text = text }, NULL);
}

int
sbx_peer_hello(struct sbx_peer *p, const char *version, uint32_t features)
{
	int r;

	r = sbx_send_hello(p, 0, &(struct sbx_hello){ .version = version,
	    .pid = (uint32_t)getpid(), .features = features }, NULL);
	/* Only now: the monitor takes nothing before HELLO. */
	if (r == 0)
		sbx_log_to(hello_log, p);
	return (r);
}
